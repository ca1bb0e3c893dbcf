"""
An embedding function or API
============================

Any function from a list of texts to vectors is an encoder: the client of an embedding API, an object of LangChain or
LlamaIndex, a sentence-transformers model. Words are found and removed in the text itself, so the function sees
nothing but strings.
"""

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

import cocoax

vectorizer = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 4), n_features=512)
sent = 0


def embed(texts: list[str]) -> np.ndarray:
    """Stand in for a client: one vector for each text."""
    global sent
    sent += len(texts)
    return vectorizer.transform(texts).toarray()


encoder = cocoax.wrap(embed, name="character n-grams")
match = cocoax.explain_match(
    encoder,
    "remove duplicated rows",
    "drop_duplicates: return a frame with duplicate rows removed",
    rather_than=["sort the rows"],
)
match.plot()
print(match.summary)

# %%
# Every text is embedded once and kept under the name of the model, so that asking again sends nothing.

print(sent, "texts sent")
before = sent
cocoax.explain_match(
    encoder,
    "remove duplicated rows",
    "drop_duplicates: return a frame with duplicate rows removed",
    rather_than=["sort the rows"],
)
print(sent - before, "texts sent the second time")

"""
A retrieval stack: embeddings, hits, reranker, late interaction
===============================================================

Any function from a list of texts to vectors is an encoder: the client of an embedding API, an object of LangChain or
LlamaIndex, a sentence-transformers model. Words are found and removed in the text itself, so the function sees
nothing but strings. Rerankers and functions that give one vector for each token are wrapped likewise.
"""

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

import cocoax

vectorizer = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 4), n_features=512)
query = "remove duplicated rows"
rows = [
    {"id": 7, "text": "Return a frame with duplicate rows removed.", "score": 0.71},
    {"id": 2, "text": "Remove one row of a table.", "score": 0.58},
    {"id": 9, "text": "Sort the rows of a frame.", "score": 0.27},
]


def embed(texts: list[str]) -> np.ndarray:
    """Stand in for a client: one vector for each text."""
    return vectorizer.transform(texts).toarray()


encoder = cocoax.wrap(embed, name="character n-grams")
hits = cocoax.explain_hits(encoder, query, rows)
hits.plot()
for hit in hits:
    print(hit.id, hit.sentence)

# %%
# Ids, the search's scores and whatever else the rows hold come out again.

print(hits.notes)
hits.to_dataframe()[["id", "search_score", "similarity", "margin", "query_parts"]]

# %%
# Every text is embedded once and kept under the name of the model. ``max_calls`` bounds what is sent: with less, there are
# fewer masked copies, and standard errors are larger.

sent = encoder.module.calls.sent
cocoax.explain_hits(encoder, query, rows)
print(sent, "texts sent at first,", encoder.module.calls.sent - sent, "the second time")
frugal = cocoax.wrap(embed, max_calls=60)
short = cocoax.explain_hits(frugal, query, rows)
print(frugal.module.calls.sent, "texts sent with max_calls=60")
print(hits[0].spans[4], "and with the small budget", short[0].spans[4])

# %%
# A reranker gives a score to a pair. Words of both sides are removed, and the interactions say which word of the query
# goes with which word of the document.


def score(pairs: list[tuple[str, str]]) -> list[float]:
    """Stand in for a cross-encoder: how many words both texts share, each cut to its first four letters."""
    stems = [[{word.lower()[:4] for word in text.split()} for text in pair] for pair in pairs]
    return [float(len(asked & found)) for asked, found in stems]


match = cocoax.explain_match(cocoax.wrap(score), query, rows[0]["text"], rather_than=rows[2]["text"])
print(match.summary)
match.interactions.top(3)

# %%
# Late interaction keeps one vector for each token. What each word of the query found is exact.


def embed_words(texts: list[str]) -> list[np.ndarray]:
    """Stand in for ColBERT: one vector of length 1 for each word."""
    return [vectorizer.transform(text.split()).toarray() for text in texts]


match = cocoax.explain_match(cocoax.wrap(embed_words, late_interaction=True), query, rows[0]["text"])
print(match.summary)
match.exact.records()

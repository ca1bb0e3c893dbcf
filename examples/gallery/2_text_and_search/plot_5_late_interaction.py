"""
Late interaction
================

ColBERT and ColPali keep one vector for each token or patch, and a score is the sum, over the tokens of the query, of
the largest similarity to a token of the document. Any text encoder that is loaded by name can be asked that way; a
function that returns ``[tokens, d]`` is wrapped with ``late_interaction=True``.
"""

import cocoax

encoder = cocoax.load("minilm")
match = cocoax.explain_match(
    encoder,
    "drop duplicate rows",
    "Remove rows that occur twice.",
    rather_than=["Sort rows by a column."],
    similarity="maxsim",
)
match.plot()
print(match.summary)

# %%
# The pairs of words that the sum of maxima rests on:

match.interactions.to_dataframe().head()

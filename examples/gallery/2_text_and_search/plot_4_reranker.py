"""
A reranker
==========

A reranker, such as a cross-encoder, gives a score to a pair of query and document instead of a vector to each. Words
are removed from both sides of the pair. Here the score counts how well the words of the query are matched by the
letters of a word of the document.
"""

import cocoax


def letters(word: str) -> set[str]:
    """Return the pairs of letters of a word."""
    word = f" {word.lower().strip('.,')} "
    return {word[place : place + 2] for place in range(len(word) - 1)}


def score(pairs: list[tuple[str, str]]) -> list[float]:
    """Stand in for a cross-encoder: the best overlap of each word of the query with a word of the document, summed."""
    return [
        sum(
            max((len(letters(a) & letters(b)) / len(letters(a) | letters(b)) for b in document.split()), default=0.0)
            for a in query.split()
        )
        for query, document in pairs
    ]


reranker = cocoax.wrap(score, takes="pairs", name="overlap of letters")
match = cocoax.explain_match(
    reranker,
    "remove duplicated rows",
    "Return a frame with duplicate rows removed.",
    rather_than=["Sort the rows of a frame."],
)
match.plot()
print(match.summary)

# %%
# Which word of the query goes with which word of the document:

match.interactions.to_dataframe().head()

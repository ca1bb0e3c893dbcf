"""
Interactions with shapiq
========================

shapiq's exact computer on the words of a text, beside the pairs of words that Cocoax estimates.
"""

import shapiq

import cocoax

encoder = cocoax.load("minilm")
target = cocoax.similarity_to(encoder.reference(["not a good film"]))
reader = target.as_module(encoder)
words = ["not", "a", "bad", "film", "at", "all"]


def game(coalitions):
    """Return the scores of texts in which the words of a coalition are kept, ``[n]``."""
    texts = [" ".join(word if kept else "[MASK]" for word, kept in zip(words, row, strict=True)) for row in coalitions]
    return reader(texts).numpy()


pairs = shapiq.ExactComputer(game, n_players=len(words))("k-SII", order=2)
strongest = sorted(pairs.dict_values.items(), key=lambda item: -abs(item[1]))[:5]
for players, value in strongest:
    print(" + ".join(words[player] for player in players) or "nothing", round(float(value), 3))

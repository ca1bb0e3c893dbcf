"""
Interactions with shapiq
========================

A target is a game for shapiq, which has many indices of interaction. The exact Shapley values agree with those of Cocoax.
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


computer = shapiq.ExactComputer(game, n_players=len(words))
pairs = computer("k-SII", order=2)
strongest = sorted(pairs.dict_values.items(), key=lambda item: -abs(item[1]))[:5]
for players, value in strongest:
    print(" + ".join(words[player] for player in players) or "nothing", round(float(value), 3))

# %%
# The Shapley values of both are the same: with six words KernelSHAP encodes every subset.

values = computer("SV")
own = cocoax.KernelShap().explain(encoder, " ".join(words), target)
own.plot()
for player, (word, value) in enumerate(zip(words, own.values.tolist(), strict=True)):
    print(f"{word}: {values[(player,)]:.4f} by shapiq, {value:.4f} by Cocoax")

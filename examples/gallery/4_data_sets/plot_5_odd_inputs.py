"""
Wrong labels, and right for the wrong reason
============================================

An index answers questions about a whole data set. ``typicality`` ranks inputs that are closer to another class than to
their own; ``shortcuts`` ranks inputs whose similarity to their class rests on an unusual place. Three labels are
exchanged here, to be found again.
"""

import tempfile

import numpy as np
from sklearn.datasets import load_digits

import cocoax
from cocoax.survey import build

digits = load_digits()
chosen = np.flatnonzero(digits.target < 2)[:80]
pictures = [np.stack([np.kron(digits.images[row] * 15.9, np.ones((4, 4))).astype(np.uint8)] * 3, axis=-1) for row in chosen]
labels = [["zero", "one"][digits.target[row]] for row in chosen]
wrong = [5, 30, 61]
for row in wrong:
    labels[row] = {"zero": "one", "one": "zero"}[labels[row]]

index = build("simclr-cifar10-small", pictures, tempfile.mkdtemp(), cocoax.Rise(samples=64, grid=4), labels=labels)

# %%
# The least typical inputs of their class come first:

typicality = index.typicality("label")
typicality.plot()
typicality.to_dataframe().head()

# %%
# Similar to its class because of an unusual place:

print(index.shortcuts("label").summary)

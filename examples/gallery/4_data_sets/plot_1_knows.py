"""
Can the encoder tell the two apart?
===================================

A map of a difference that the encoder does not represent shows noise, and looks like any other map. ``knows`` tests
whether members that were held out are closer to the corpus than to the foil.
"""

import numpy as np
from sklearn.datasets import load_digits

import cocoax

digits = load_digits()
pictures = [
    np.stack([np.kron(picture * 15.9, np.ones((4, 4))).astype(np.uint8)] * 3, axis=-1) for picture in digits.images[:600]
]
encoder = cocoax.load("simclr-cifar10-small")
everything = encoder.reference(pictures)

eights = everything.where(digits.target[:600] == 8, "eights")
others = everything.where(digits.target[:600] != 8, "other digits")
knowledge = cocoax.knows(eights, others)
knowledge.plot()
print(knowledge.summary)

# %%
# A difference that is not there:

halves = np.random.default_rng(0).permutation(600)
print(cocoax.knows(everything[halves[:300]], everything[halves[300:]]).summary)

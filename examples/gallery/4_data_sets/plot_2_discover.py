"""
No question yet? Let the encoder propose
========================================

``discover`` clusters a data set by its representations. Each cluster is a corpus that can be asked about at once.
"""

import numpy as np
from sklearn.datasets import load_digits

import cocoax

digits = load_digits()
pictures = [
    np.stack([np.kron(picture * 15.9, np.ones((4, 4))).astype(np.uint8)] * 3, axis=-1) for picture in digits.images[:300]
]
encoder = cocoax.load("simclr-cifar10-small")

found = cocoax.discover(encoder, pictures, corpora=8)
found.plot()
print(found.summary)

# %%
# Clusters as corpus and foil: what makes this digit a member of its cluster?

first = found[0]
target = cocoax.contrastive_corpus_similarity(first.reference, found[1].reference)
cocoax.Rise(samples=200, grid=4).explain(encoder, pictures[int(first.members[0])], target).plot()

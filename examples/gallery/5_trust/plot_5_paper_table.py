"""
The paper's main table, on ten images
=====================================

Four targets, each explained by RISE, judged by insertion and deletion of the contrastive corpus similarity (Lin et al.,
ICLR 2023, Table 1). The encoder is a small SimCLR network that comes with the package, and the images are
handwritten digits; ``cocoax paper reproduce main`` runs the whole study on CIFAR-10.
"""

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

import cocoax

digits = load_digits()
enlarged = [np.kron(picture * 15.9, np.ones((4, 4))).astype(np.uint8) for picture in digits.images[:400]]
pictures = [np.stack([picture] * 3, axis=-1) for picture in enlarged]
labels = digits.target[:400]

encoder = cocoax.load("simclr-cifar10-small")
everything = encoder.reference(pictures[20:])
corpus = everything.where(labels[20:] == 0, "zeros")
foil = everything.where(labels[20:] != 0, "other digits")

# %%
# Ten explicands of the corpus class, and the four targets of the paper.

explicands = [picture for picture, label in zip(pictures, labels, strict=True) if label == 0][:10]
targets = {
    "label-free": cocoax.representation_similarity(),
    "contrastive label-free": cocoax.contrastive_similarity(foil),
    "corpus": cocoax.corpus_similarity(corpus),
    "COCOA": cocoax.contrastive_corpus_similarity(corpus, foil),
}
method = cocoax.Rise.paper(samples=300, grid=4)
rows = []
for explicand in explicands:
    maps = method.run(encoder, explicand).explain(targets)
    for name, attribution in maps.items():
        both = cocoax.curves(encoder, explicand, [attribution], targets["COCOA"], steps=16)[0]
        rows.append({"target": name, "insertion": both["insertion"].auc, "deletion": both["deletion"].auc})

# %%
# COCOA explains what is measured here, so it should have the highest insertion and the lowest deletion.

table = pd.DataFrame(rows).groupby("target", sort=False).mean().round(4)
table.plot.barh(title="Area under the curve of contrastive corpus similarity")
table

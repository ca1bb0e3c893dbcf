"""
Insertion and deletion curves
=============================

A good map puts first what the score rests on: the score rises quickly when the most important features are put in
first, and falls quickly when they are taken out first.
"""

import cocoax
from cocoax.data import photo

encoder = cocoax.load("starter")
cat, dog = (encoder.text.reference([caption]) for caption in ("a cat", "a dog"))
target = cocoax.contrastive_corpus_similarity(cat, dog)
picture = photo("cat")

maps = [
    cocoax.KernelShap(samples=200).explain(encoder, picture, target),
    cocoax.IntegratedGradients(steps=20).explain(encoder, picture, target),
    cocoax.RandomAttribution().explain(encoder, picture, target),
]
curves = cocoax.curves(encoder, picture, maps, target, steps=20)
print(curves.summary)
curves.plot()

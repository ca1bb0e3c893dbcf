"""
What would flip an answer?
==========================

Regions of a photo are exchanged with regions of another one, as few as possible, until the score changes its sign
(Goyal et al. 2019).
"""

import cocoax
from cocoax.data import photo

encoder = cocoax.load("starter")
cat, coffee = (encoder.text.reference([caption]) for caption in ("a cat", "a cup of coffee"))
target = cocoax.contrastive_corpus_similarity(cat, coffee)

flipped = cocoax.counterfactual(encoder, photo("cat"), target, distractors=[photo("coffee")], grid=5)
flipped.plot()
print(flipped.summary)

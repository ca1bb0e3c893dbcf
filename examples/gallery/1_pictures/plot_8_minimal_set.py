"""
The least that keeps an answer
==============================

The smallest set of regions that keeps 80 % of the score, and the smallest set without which the score falls below
that.
"""

import cocoax
from cocoax.data import photo

encoder = cocoax.load("starter")
target = cocoax.similarity_to(encoder.text.reference(["a cat"])) - cocoax.similarity_to(encoder.text.reference(["a dog"]))
run = cocoax.KernelShap(samples=300).run(encoder, photo("cat"))

least = cocoax.minimal(run, target, keep=0.8)
least.plot()
print(least.summary)

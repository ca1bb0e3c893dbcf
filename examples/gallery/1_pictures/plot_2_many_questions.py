"""
Many questions, one run
=======================

The encoder sees some hundred masked copies of the picture, once. Every further question is answered from the same run
in milliseconds.
"""

import cocoax
from cocoax.data import COLLAGE, collage

encoder = cocoax.load("starter")
run = cocoax.KernelShap(samples=300).run(encoder, collage())

captions = ["a cat", "a cup of coffee", "a rocket", "a motorbike"]
words = [encoder.text.reference([caption]) for caption in captions]

# %%
# Each caption rather than the other three. Targets are added and subtracted like numbers.

questions = {}
for caption, word in zip(captions, words, strict=True):
    others = [other for other in words if other is not word]
    questions[caption] = cocoax.similarity_to(word) - sum(cocoax.similarity_to(other) for other in others) / len(others)

answers = run.explain(questions)
cocoax.plots.panel(answers)

# %%
# The part of the positive effect that lies on the right quadrant of the collage:

for quadrant, (caption, answer) in enumerate(answers.items()):
    effect = answer.relative.clamp(min=0)
    half = effect.shape[0] // 2
    own = effect[quadrant // 2 * half :, quadrant % 2 * half :][:half, :half].sum()
    print(f"{caption}: {float(own / effect.sum()):.0%} of the heat on {COLLAGE[quadrant]}")

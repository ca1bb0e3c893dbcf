"""
What removed regions become
===========================

A removed region is replaced by a baseline. The answer depends on the baseline: a strong blur leaves no trace of the
object, a weak blur leaves much of it.
"""

import cocoax
from cocoax.data import photo

encoder = cocoax.load("starter")
target = cocoax.similarity_to(encoder.text.reference(["a cup of coffee"])) - cocoax.similarity_to(
    encoder.text.reference(["a cat"])
)
baselines = {
    "strong blur": cocoax.Blur(121, 20.0),
    "weak blur": cocoax.Blur(31, 5.0),
    "mean colour": cocoax.Mean(),
}
maps = {
    name: cocoax.KernelShap(samples=200, baseline=baseline).explain(encoder, photo("coffee"), target)
    for name, baseline in baselines.items()
}
cocoax.plots.panel(maps)

# %%
# ``removed`` is the fraction of the score that disappears when every region is removed. Where it is small, the map
# explains little.

for name, attribution in maps.items():
    print(f"{name}: {float(attribution.removed):.2f}")

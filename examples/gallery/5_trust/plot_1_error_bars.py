"""
Error bars, and when to stop
============================

Removal-based maps are estimates. Each value has a standard error, and ``tolerance`` keeps sampling until the error of
the map is small enough.
"""

import cocoax
from cocoax.data import photo

encoder = cocoax.load("starter")
target = cocoax.similarity_to(encoder.text.reference(["a cat"])) - cocoax.similarity_to(encoder.text.reference(["a dog"]))

maps = {
    f"{samples} copies": cocoax.KernelShap(samples=samples).explain(encoder, photo("cat"), target)
    for samples in (50, 150, 400)
}
cocoax.plots.panel(maps)

# %%
# What lies within two standard errors of zero is faded. A run can be made longer; the copies that are there are used
# again.

run = cocoax.KernelShap(samples=100).run(encoder, photo("cat"))
first = run.explain(target)
run.extend(encoder, 200)
second = run.explain(target)
print(f"standard error: {float(first.standard_error.mean()):.4f}, then {float(second.standard_error.mean()):.4f}")

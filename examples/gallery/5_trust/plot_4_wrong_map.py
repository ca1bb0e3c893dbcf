"""
A wrong map, and how to notice
==============================

A map can look convincing and mean nothing. Three checks that cost little.
"""

import cocoax
from cocoax.data import photo

encoder = cocoax.load("starter")
picture = photo("coffee")

# %%
# **1. The caption means nothing to the encoder.** The map of a caption of random letters has regions, too. The answer
# says so.

[nonsense] = cocoax.ask(encoder, picture, "asdfghjkl qwerty")
nonsense.plot()
for remark in nonsense.remarks:
    print("-", remark)

# %%
# **2. Little was removed.** A weak baseline leaves the object visible, so that the map explains little of the score.

target = cocoax.similarity_to(encoder.text.reference(["a cup of coffee"]))
weak = cocoax.KernelShap(samples=100, baseline=cocoax.Blur(5, 1.0)).explain(encoder, picture, target)
print(f"fraction of the score that disappears: {float(weak.removed):.2f}")

# %%
# **3. Too few masked copies.** The standard errors are as large as the effects.

few = cocoax.KernelShap(samples=24).explain(encoder, picture, target)
enough = cocoax.KernelShap(samples=300).explain(encoder, picture, target)
cocoax.plots.panel({"24 copies": few, "300 copies": enough})

"""
What is removed: segments, a grid, your own parts
=================================================

A feature is a part of the picture that is removed as a whole. Segments follow things; a grid asks the same of every
photo; a label map is yours, for example from a segmentation network.
"""

import numpy as np

import cocoax
from cocoax.data import photo

encoder = cocoax.load("starter")
target = cocoax.similarity_to(encoder.text.reference(["a rocket"])) - cocoax.similarity_to(
    encoder.text.reference(["a building"])
)
picture = photo("rocket")

# %%
# A label map has a number for each pixel: here four columns.

columns = np.broadcast_to(np.arange(picture.width) * 4 // picture.width, (picture.height, picture.width))

maps = {}
for name, features in {"segments": "segments", "a grid of 5 x 5": (5, 5), "a label map": columns}.items():
    maps[name] = cocoax.KernelShap(samples=200).explain(encoder, picture, target, features=features)
cocoax.plots.panel(maps)

# %%
# The effect of a segment is the effect of all of it, however large it is.

maps["segments"].to_dataframe().sort_values("value", ascending=False).head(4)

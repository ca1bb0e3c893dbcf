"""
A caption and a photo
=====================

Which words of a caption meet which regions of a picture?
"""

import cocoax
from cocoax.data import collage

encoder = cocoax.load("starter")
match = cocoax.explain_match(encoder, collage(), "a tabby cat beside a motorcycle", method=cocoax.KernelShap(samples=250))
match.plot()
print(match.summary)

# %%
# The map of one word, minus the mean of the maps of the others:

match.interactions.given("motorcycle", rather_than=["cat"]).plot()

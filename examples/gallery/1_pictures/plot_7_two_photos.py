"""
Why do two photos match?
========================

Both sides of a match, and the regions that are similar to each other.
"""

import cocoax
from cocoax.data import collage, photo

encoder = cocoax.load("starter")
match = cocoax.explain_match(encoder, photo("cat"), collage(), method=cocoax.KernelShap(samples=200))
match.plot()
print(match.summary)

# %%
# The pairs of regions with the largest interactions:

match.interactions.to_dataframe().head()

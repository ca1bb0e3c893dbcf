"""
Label-free importance
=====================

Without a question: which parts of a photo does its representation rest on? The target is the similarity of the masked
photo to the photo itself (Crabbé & van der Schaar 2022; RELAX, Wickstrøm et al. 2023).
"""

import cocoax
from cocoax.data import photo

encoder = cocoax.load("starter")
result = cocoax.KernelShap(samples=300).explain(encoder, photo("cat"), cocoax.representation_similarity())
result.plot()

# %%
# The most important regions, with standard errors:

result.to_dataframe().sort_values("value", ascending=False).head()

"""
Why do these two texts match?
=============================

Which words of the query and of the document raise their similarity, compared with another document.
"""

import cocoax

encoder = cocoax.load("minilm")
match = cocoax.explain_match(
    encoder,
    "how do I repair a flat bicycle tyre",
    "Patch the inner tube of your bike after removing the wheel.",
    rather_than=["Repairing a leaking kitchen tap."],
)
match.plot()
print(match.summary)

# %%
# Words of the query and words of the document that count together:

match.interactions.to_dataframe().head()

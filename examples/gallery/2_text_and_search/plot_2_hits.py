"""
Why did my search find this?
============================

A search over the documentation of scikit-learn, and its three best hits explained. Each hit is compared with the hits
after it.
"""

import inspect

from sklearn.utils.discovery import all_estimators

import cocoax

documents = {name: (inspect.getdoc(thing) or "").split("\n\n")[0] for name, thing in all_estimators()}
names, texts = list(documents), list(documents.values())

# %%
# The search itself: one matrix product.

encoder = cocoax.load("minilm")
query = "find groups of similar points without labels"
scores = encoder.represent(texts) @ encoder.represent([query])[0]
best = scores.argsort(descending=True)[:3].tolist()
for row in best:
    print(f"{float(scores[row]):.3f}  {names[row]}: {texts[row]}")

# %%
# Why these three?

hits = cocoax.explain_hits(encoder, query, [texts[row] for row in best])
hits

# %%

hits.plot()
hits.to_dataframe().head(8)

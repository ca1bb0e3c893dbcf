"""
Why did my search find this?
============================

A search over the documentation of scikit-learn: its three best hits explained, ordered again by a second model, and the
sentences and words of a long document that matter.
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

# %%
# A second look by late interaction: one vector for each token. Why is its first above its second?

again = cocoax.explain_hits(encoder, query, [texts[row] for row in best], similarity="maxsim")
ranked = sorted(again, key=lambda hit: -hit.similarity)
match = cocoax.explain_match(encoder, query, ranked[0].content, ranked[1].content, similarity="maxsim")
print(match.summary)

# %%
# What each token of the query found is exact:

match.exact.records()[:5]

# %%
# The whole page of the best hit is a long document: sentences first, then the words of the three that matter most.

page = " ".join((inspect.getdoc(dict(all_estimators())[names[best[0]]]) or "").split()[:150])
long = cocoax.explain_match(encoder, query, page)
for sentence, value in long.document_side.sentences.top(3):
    print(f"{value:+.3f}  {sentence[:90]}")

# %%

long.document.plot()

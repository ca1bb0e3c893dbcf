"""
Which examples are behind an answer?
====================================

The members of a corpus, by how much each adds to the similarity of one input.
"""

import cocoax

encoder = cocoax.load("minilm")
corpus = [
    "An orchestra plays in the park.",
    "The pianist practises every day.",
    "Her new album came out in May.",
    "The choir sings on Sundays.",
    "A drum kit for sale.",
    "The stadium was sold out.",
]
ranked = cocoax.examples(encoder, "The violinist played a sonata.", corpus)
ranked.plot()
print(ranked.summary)

# %%
# Which members does one word owe its effect to?

print(ranked.top(2, part="sonata"))

"""
Which method should I believe?
==============================

Two methods may give two maps of the same question. ``compare_methods`` judges them on your inputs, by insertion and
deletion curves and by infidelity, and says whether the differences are larger than chance.
"""

import cocoax

encoder = cocoax.load("minilm")
target = cocoax.contrastive_corpus_similarity(encoder.reference("music"), encoder.reference("traffic"))
texts = [
    "The violinist played a sonata before she parked her car.",
    "The choir sang on a bus that was late.",
    "A lorry with a piano blocked the road.",
    "She hummed a song while she waited at the crossing.",
    "The drummer lives next to a noisy motorway.",
    "An orchestra rehearsed above the garage.",
]
methods = [cocoax.KernelShap(samples=100), cocoax.Occlusion(), cocoax.RandomAttribution()]
found = cocoax.compare_methods(encoder, texts, target, methods)
found.plot()
print(found.summary)

# %%
# Every measure, with its interval over inputs:

found.to_dataframe()

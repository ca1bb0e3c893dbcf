"""
Captum with a corpus and a foil
===============================

A target is one number for each input, so it goes wherever a model goes. ``target.as_module(encoder)`` is an
``nn.Module``; most of Captum is built in as ``cocoax.Captum``.
"""

from captum.attr import IntegratedGradients

import cocoax
from cocoax.data import photo

encoder = cocoax.load("starter")
cat, coffee = (encoder.text.reference([caption]) for caption in ("a cat", "a cup of coffee"))
target = cocoax.contrastive_corpus_similarity(cat, coffee)

# %%
# Captum itself:

module = target.as_module(encoder)
prepared = encoder.prepare(photo("cat"))[None]
values = IntegratedGradients(module).attribute(prepared, n_steps=20, internal_batch_size=4)
print(values.shape)

# %%
# Built in, with the same plots and error bars where the method has them:

result = cocoax.Captum("GuidedBackprop").explain(encoder, photo("cat"), target)
result.plot()

"""
DINOv2, CLIP and SigLIP
=======================

On a machine that reaches a hub, two lines load the encoder::

    encoder = cocoax.load("hf:facebook/dinov2-small")             # photos as corpus and foil
    encoder = cocoax.load("clip:openai/clip-vit-base-patch32")    # captions as well

This example makes a small DINOv2 of random weights instead, so that it runs anywhere; its map means nothing, but every
line is the same.
"""

import torch
from transformers import Dinov2Config, Dinov2Model

import cocoax
from cocoax.data import photo

torch.manual_seed(0)
model = Dinov2Model(Dinov2Config(hidden_size=48, num_hidden_layers=2, num_attention_heads=3, image_size=112, patch_size=14))
preprocess = cocoax.ImagePreprocess(resize=112, crop=112, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
encoder = cocoax.wrap(model.eval(), preprocess, name="a small DINOv2")

corpus = encoder.reference([photo("cat")], name="the cat")
foil = encoder.reference([photo("coffee"), photo("rocket")], name="other photos")
target = cocoax.contrastive_corpus_similarity(corpus, foil)

# %%
# A vision transformer need not be shown anything in place of a removed patch: its token is left out.

result = cocoax.Rise(samples=100, grid=7, baseline=cocoax.DropTokens()).explain(encoder, photo("cat"), target)
result.plot()

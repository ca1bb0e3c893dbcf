"""Encoders f: what turns inputs into representations."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cocoax.encoders.families import ENCODERS, Known, load

if TYPE_CHECKING:  # torch is imported when one of these is first used: the list of encoders does without
    from cocoax.encoders.encoder import Encoder, TabularEncoder
    from cocoax.encoders.text import TextEncoder
    from cocoax.encoders.wrapper import wrap
    from cocoax.inputs import Explicand, ImagePreprocess

__all__ = [
    "ENCODERS",
    "Encoder",
    "Explicand",
    "ImagePreprocess",
    "Known",
    "TabularEncoder",
    "TextEncoder",
    "load",
    "wrap",
]

_HOMES = {
    "Encoder": "cocoax.encoders.encoder",
    "Explicand": "cocoax.inputs",
    "ImagePreprocess": "cocoax.inputs",
    "TabularEncoder": "cocoax.encoders.encoder",
    "TextEncoder": "cocoax.encoders.text",
    "wrap": "cocoax.encoders.wrapper",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'cocoax.encoders' has no attribute {name!r}")
        globals()[name] = getattr(import_module(_HOMES[name]), name)
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

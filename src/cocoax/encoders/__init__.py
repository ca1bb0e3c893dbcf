"""Encoders f: what turns inputs into representations."""

from cocoax.encoders.columns import TabularEncoder
from cocoax.encoders.encoder import Encoder
from cocoax.encoders.load import ENCODERS, Known, load
from cocoax.encoders.text import EmbeddedText, TextEncoder
from cocoax.inputs.explicand import Explicand
from cocoax.inputs.images import ImagePreprocess

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

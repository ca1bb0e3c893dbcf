"""Encoders f: what turns inputs into representations."""

from cocoax.encoders.columns import TabularEncoder
from cocoax.encoders.encoder import Encoder
from cocoax.encoders.load import ENCODERS, Known, load
from cocoax.encoders.text import TextEncoder
from cocoax.encoders.wrap import wrap
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

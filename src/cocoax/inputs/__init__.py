"""Kinds of input: what users hold, as an encoder takes it, what its features are, and how it is shown."""

from cocoax.inputs.display import Display, Names, Picture
from cocoax.inputs.explicand import Explicand
from cocoax.inputs.images import ImagePreprocess
from cocoax.inputs.kind import Inputs
from cocoax.inputs.pictures import Pictures
from cocoax.inputs.rows import Rows
from cocoax.inputs.sounds import Sound, Sounds
from cocoax.inputs.texts import Text, Texts

__all__ = [
    "Display",
    "Explicand",
    "ImagePreprocess",
    "Inputs",
    "Names",
    "Picture",
    "Pictures",
    "Rows",
    "Sound",
    "Sounds",
    "Text",
    "Texts",
]

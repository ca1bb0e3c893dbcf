"""Kinds of input: what users hold, as an encoder takes it, what its features are, and how it is shown."""

from cocoax.inputs.base import Inputs
from cocoax.inputs.explicand import Display, Explicand, Names, Picture
from cocoax.inputs.features import FEATURES, Columns, Features, Grid, LabelMap, MaskStack, Segments, SoundSegments
from cocoax.inputs.image import ImagePreprocess, Pictures
from cocoax.inputs.sound import Sound, Sounds
from cocoax.inputs.table import Rows
from cocoax.inputs.text import Text, Texts

__all__ = [
    "FEATURES",
    "Columns",
    "Display",
    "Explicand",
    "Features",
    "Grid",
    "ImagePreprocess",
    "Inputs",
    "LabelMap",
    "MaskStack",
    "Names",
    "Picture",
    "Pictures",
    "Rows",
    "Segments",
    "Sound",
    "SoundSegments",
    "Sounds",
    "Text",
    "Texts",
]

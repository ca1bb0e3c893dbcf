"""Data to explain and to compare with."""

from cocoax.data.captions import caption, cifar100
from cocoax.data.labelled import LabelledImages
from cocoax.data.readers import open_data
from cocoax.data.samples import COLLAGE, collage, photo

__all__ = [
    "COLLAGE",
    "LabelledImages",
    "caption",
    "cifar100",
    "collage",
    "open_data",
    "photo",
]

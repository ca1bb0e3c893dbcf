"""Data to explain and to compare with."""

from cocoax.data.captions import caption, cifar100
from cocoax.data.labelled import LabelledImages
from cocoax.data.open import open_data
from cocoax.data.samples import COLLAGE, collage, photo
from cocoax.data.texts import DecisiveWord, decisive_words

__all__ = [
    "COLLAGE",
    "DecisiveWord",
    "LabelledImages",
    "caption",
    "cifar100",
    "collage",
    "decisive_words",
    "open_data",
    "photo",
]

"""Data to explain and to compare with."""

from cocoax.data.labelled import LabelledImages
from cocoax.data.open import open_data
from cocoax.data.samples import COLLAGE, collage, photo

__all__ = ["COLLAGE", "LabelledImages", "collage", "open_data", "photo"]

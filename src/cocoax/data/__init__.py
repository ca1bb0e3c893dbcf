"""Data to explain and to compare with."""

from cocoax.data.samples import COLLAGE, collage, photo

__all__ = ["COLLAGE", "collage", "photo"]

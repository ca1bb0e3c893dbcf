"""Data to explain and to compare with."""

from cocoax.data.captions import caption, cifar100
from cocoax.data.samples import COLLAGE, collage, photo

__all__ = ["COLLAGE", "caption", "cifar100", "collage", "photo"]

"""Data to explain and to compare with."""

from cocoax.data.samples import COLLAGE, collage, photo
from cocoax.data.texts import DecisiveWord, decisive_words

__all__ = ["COLLAGE", "DecisiveWord", "collage", "decisive_words", "photo"]

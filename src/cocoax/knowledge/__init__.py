"""What an encoder knows: corpora tested and found, the least that keeps or flips an answer, the examples behind it."""

from cocoax.knowledge.minimal import Minimal, PartSet, minimal

__all__ = ["Minimal", "PartSet", "minimal"]

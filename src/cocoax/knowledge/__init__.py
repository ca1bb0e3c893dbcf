"""What an encoder knows: corpora tested and found, the least that keeps or flips an answer, the examples behind it."""

from cocoax.knowledge.knowing import Knowledge, knows

__all__ = [
    "Knowledge",
    "knows",
]

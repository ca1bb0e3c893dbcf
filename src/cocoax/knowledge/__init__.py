"""What an encoder knows: corpora tested and found, the least that keeps or flips an answer, the examples behind it."""

from cocoax.knowledge.concepts import Importance, tcav
from cocoax.knowledge.discovery import Discovery, Found, discover
from cocoax.knowledge.knowing import Knowledge, knows

__all__ = [
    "Discovery",
    "Found",
    "Importance",
    "Knowledge",
    "discover",
    "knows",
    "tcav",
]

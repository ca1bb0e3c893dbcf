"""What an encoder knows: corpora tested and found, the least that keeps or flips an answer, the examples behind it."""

from cocoax.knowledge.concepts import Importance, tcav
from cocoax.knowledge.counterfactuals import Counterfactual, Flip, counterfactual
from cocoax.knowledge.discovery import Discovery, Found, discover
from cocoax.knowledge.gradient_flip import GradientCounterfactual, gradient_counterfactual
from cocoax.knowledge.important_examples import Examples, examples
from cocoax.knowledge.knowing import Knowledge, knows
from cocoax.knowledge.minimal_sets import Minimal, PartSet, minimal

__all__ = [
    "Counterfactual",
    "Discovery",
    "Examples",
    "Flip",
    "Found",
    "GradientCounterfactual",
    "Importance",
    "Knowledge",
    "Minimal",
    "PartSet",
    "counterfactual",
    "discover",
    "examples",
    "gradient_counterfactual",
    "knows",
    "minimal",
    "tcav",
]

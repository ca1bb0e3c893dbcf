"""What an encoder knows: corpora tested and found, the least that keeps or flips an answer, the examples behind it."""

from cocoax.knowledge.counterfactual import Counterfactual, Flip, counterfactual
from cocoax.knowledge.examples import Examples, examples
from cocoax.knowledge.gradient_flip import GradientCounterfactual, gradient_counterfactual
from cocoax.knowledge.minimal import Minimal, PartSet, minimal

__all__ = [
    "Counterfactual",
    "Examples",
    "Flip",
    "GradientCounterfactual",
    "Minimal",
    "PartSet",
    "counterfactual",
    "examples",
    "gradient_counterfactual",
    "minimal",
]

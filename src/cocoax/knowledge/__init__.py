"""What an encoder knows: corpora tested and found, the least that keeps or flips an answer, the examples behind it."""

from cocoax.knowledge.counterfactuals import Counterfactual, Flip, counterfactual
from cocoax.knowledge.gradient_flip import GradientCounterfactual, gradient_counterfactual
from cocoax.knowledge.important_examples import Examples, examples
from cocoax.knowledge.minimal_sets import Minimal, PartSet, minimal

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

"""Insight into an encoder: separability, discovered corpora, minimal sets, counterfactuals, influential examples."""

from cocoax.insight.concept_vectors import Importance, tcav
from cocoax.insight.counterfactuals import Counterfactual, Flip, counterfactual
from cocoax.insight.discovery import Discovery, FoundCorpus, discover
from cocoax.insight.gradient_counterfactuals import GradientCounterfactual, gradient_counterfactual
from cocoax.insight.important_examples import Examples, examples
from cocoax.insight.knowledge import Knowledge, knows
from cocoax.insight.minimal_sets import Minimal, PartSet, minimal

__all__ = [
    "Counterfactual",
    "Discovery",
    "Examples",
    "Flip",
    "FoundCorpus",
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

"""Evaluation η: how well an attribution finds what matters."""

from cocoax.evaluation.chance import chance_map
from cocoax.evaluation.curves import Curve, Measure, curves, deletion, insertion
from cocoax.evaluation.measures import class_probability, corpus_majority_probability
from cocoax.evaluation.probe import LinearProbe, accuracy
from cocoax.evaluation.randomisation import randomised
from cocoax.evaluation.representations import effective_rank, knn_accuracy
from cocoax.evaluation.sparsity import gini
from cocoax.evaluation.statistics import Interval, paired_difference, paper_interval, t_interval

__all__ = [
    "Curve",
    "Interval",
    "LinearProbe",
    "Measure",
    "accuracy",
    "chance_map",
    "class_probability",
    "corpus_majority_probability",
    "curves",
    "deletion",
    "effective_rank",
    "gini",
    "insertion",
    "knn_accuracy",
    "paired_difference",
    "paper_interval",
    "randomised",
    "t_interval",
]

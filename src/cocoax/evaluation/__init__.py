"""Evaluation η: how well an attribution finds what matters."""

from cocoax.evaluation.comparison import MethodComparison, compare_methods, gradient_remark, rank_agreement
from cocoax.evaluation.curves import (
    Curve,
    Measure,
    class_probability,
    corpus_majority_probability,
    curves,
    deletion,
    insertion,
    overshoot_remark,
)
from cocoax.evaluation.probe import LinearProbe, accuracy
from cocoax.evaluation.sanity import chance_map, effective_rank, gini, knn_accuracy, randomised
from cocoax.evaluation.statistics import Interval, paired_difference, paper_interval, t_interval

__all__ = [
    "Curve",
    "Interval",
    "LinearProbe",
    "Measure",
    "MethodComparison",
    "accuracy",
    "chance_map",
    "class_probability",
    "compare_methods",
    "corpus_majority_probability",
    "curves",
    "deletion",
    "effective_rank",
    "gini",
    "gradient_remark",
    "insertion",
    "knn_accuracy",
    "overshoot_remark",
    "paired_difference",
    "paper_interval",
    "randomised",
    "rank_agreement",
    "t_interval",
]

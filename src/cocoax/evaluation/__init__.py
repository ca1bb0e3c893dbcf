"""Evaluation η: how well an attribution finds what matters."""

from cocoax.evaluation.curves import Curve, curves, deletion, insertion

__all__ = ["Curve", "curves", "deletion", "insertion"]

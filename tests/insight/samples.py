"""One result of every class of insight, with markup in its words."""

from __future__ import annotations

import numpy as np
import torch

from cocoax.evaluation.separability import Separability
from cocoax.inputs import Display, Explicand, Names, Picture
from cocoax.insight import Counterfactual, Examples, Flip, GradientCounterfactual, Knowledge, Minimal, PartSet
from cocoax.insight.counterfactuals import FeatureExchange
from cocoax.insight.knowledge import CaptionComparison, _CorpusSizeAuc
from cocoax.results import Result
from tests.kinds import Recordings

EVIL = "<script>alert(1)</script> & $x$ ü"
PHOTO = Picture(torch.arange(30 * 40 * 3).remainder(251).to(torch.uint8).view(30, 40, 3), (0.25, 0.1, 0.75, 0.9))


def minimal(size: int = 2, emptied: float = 0.1, display: Display = PHOTO, score: float = 0.6) -> Minimal:
    """Sets of cells of a map of 6 x 8, of which the first ``size`` columns are enough, and needed."""
    mask = torch.arange(8).expand(6, 8) < size
    parts = PartSet(tuple(range(size)), tuple(f"part {number}" for number in range(size)), mask, 0.5, 3, True, False)
    return Minimal(EVIL, parts, parts, 0.4, score, emptied, 8, 40, 400, display)


def counterfactual() -> Counterfactual:
    """Two exchanges of features that have names."""
    own, distractor = (
        Explicand(torch.full((3,), value), Names(("age", "height <b>", "$weight$")), torch.arange(3)) for value in (1.0, 2.0)
    )
    exchange = FeatureExchange(Recordings(), own, [distractor], lambda _: torch.ones(3))
    choices = (np.array([1, 0, 0]), np.array([0, 1, 1]))
    flips = [Flip(tuple(exchange.changes(each)), -0.1, exchange.outcome(each), each, exchange) for each in choices]
    return Counterfactual(EVIL, 0.3, tuple(flips), 3, 50)


def examples() -> Examples:
    """Four pictures, with what each contributes to two parts."""
    picture = Explicand(torch.zeros(3, 6, 8), PHOTO)
    values, parts = torch.tensor([0.4, 0.1, -0.2, 0.3]), torch.arange(8.0).view(4, 2)
    names = (EVIL, "b", "c", "d")
    return Examples("contribution", names, values, ("A note.",), picture, (picture,) * 4, parts, ("left", "right"))


FOUND = Separability(0.9, 0.8, 0.95, 0.01, (20, 30))
SIZES = (_CorpusSizeAuc(1, 0.7, 0.1), _CorpusSizeAuc(5, 0.85, 0.05))
CHANGED = (Explicand(torch.zeros(3, 6, 8), PHOTO), Explicand(torch.rand(3, 6, 8, generator=torch.Generator()), PHOTO))
INSIGHTS: dict[str, Result] = {
    "knowledge": Knowledge(EVIL, "rest", FOUND, "held-out members", SIZES),
    "captions": CaptionComparison(EVIL, "rest", FOUND, "random captions"),
    "minimal": minimal(),
    "counterfactual": counterfactual(),
    "gradient counterfactual": GradientCounterfactual(EVIL, 0.2, -0.1, -0.05, 0.4, 0.3, 12, *CHANGED),
    "examples": examples(),
}

"""TCAV (Kim et al. 2018): how much a concept matters to a class of the encoder's head.

A concept is a reference. Its concept activation vector v is the normal of a logistic regression between it and a foil, in the
representation space. The sensitivity of an input is the derivative of the class score along v; the TCAV score is the share
of inputs whose sensitivity is above 0. A head that is one linear layer has the same derivative everywhere, so that its scores
are 0 or 1; the sensitivity is then more informative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import as_items, check_count
from cocoax.encoders import Encoder
from cocoax.evaluation.probe import LinearProbe
from cocoax.evaluation.statistics import wilson
from cocoax.references import Reference, check_same_space
from cocoax.seeding import stream
from cocoax.targets import class_score

_RANDOM_CONCEPTS = 39  # that a concept is compared with: p-values of 0.025 can be reached


@dataclass(frozen=True)
class Importance:
    """The importance of a concept to a class.

    Attributes:
        concept, label: their names.
        score: the share of inputs for which more of the concept raises the score of the class.
        low, high: its 95 % interval, over inputs.
        sensitivity: the mean cosine between the gradient of the class score and the concept.
        magnitude: the mean derivative along the concept's unit vector.
        p_value: two-sided, from concepts made of random members of the foil.

    """

    concept: str
    label: str
    score: float
    low: float
    high: float
    sensitivity: float
    magnitude: float
    p_value: float

    @property
    def sentence(self) -> str:
        """The finding, in a sentence."""
        if self.p_value > 0.05:
            return f"{self.concept!r} matters no more to {self.label!r} than random concepts do (p = {self.p_value:.2g})."
        effect = "raises" if self.sensitivity > 0 else "lowers"
        return (
            f"More of {self.concept!r} {effect} the score of {self.label!r}: TCAV {self.score:.2f} [{self.low:.2f}, "
            f"{self.high:.2f}], mean cosine {self.sensitivity:+.3f}, p = {self.p_value:.2g}."
        )


def _concept_vector(concept: Reference, foil: Reference) -> Tensor:
    """Return the unit normal ``[d]`` of a logistic regression between a concept and a foil, pointing to the concept."""
    ours, theirs = concept.kept("TCAV"), foil.kept("TCAV")
    labels = np.array([1] * len(ours) + [0] * len(theirs))
    head = LinearProbe(solver="logistic", strength=0.01).fit(torch.cat([ours, theirs]), labels, 2)
    normal: Tensor = (head.weight[1] - head.weight[0]).detach()
    unit: Tensor = normal / normal.norm()
    return unit


def _class_gradients(encoder: Encoder, representations: Tensor, label: int | str) -> tuple[Tensor, str]:
    """Return the gradient of the score of a class at each representation ``[n, d]``, and the name of the class."""
    target = class_score(encoder, label)
    with torch.inference_mode(False), torch.enable_grad():
        places = representations.detach().clone().requires_grad_(True)
        (gradients,) = torch.autograd.grad(target.score(places).sum(), places)
    return gradients.detach(), target.name


def tcav(
    encoder: Encoder,
    inputs: Any,
    concepts: Reference | Sequence[Reference],
    label: int | str,
    *,
    foil: Reference,
    random: int = _RANDOM_CONCEPTS,
    seed: int = 0,
) -> list[Importance]:
    """Return how much concepts matter to a class of the encoder's head, the largest sensitivity first.

    Args:
        encoder: one with a head.
        inputs: examples of the class; or their representations, a tensor ``[n, d]``.
        concepts: references that have kept their samples, such as found corpora.
        label: the class, by its number or name.
        foil: what concepts are separated from, with samples; random concepts are drawn from it.
        random: how many random concepts.
        seed: of the random concepts.

    """
    check_count("random", random, 19, 10_000)  # with fewer no p-value is below .05
    several = [concepts] if isinstance(concepts, Reference) else as_items("Concepts", concepts)
    if not several:
        raise ValueError("There are 0 concepts; give at least one.")
    check_same_space([*several, foil], encoder.space)
    for side in (*several, foil):
        if side.count < 2:
            raise ValueError(f"{side.name!r} has 1 sample; a concept needs at least two examples.")
    encoded = isinstance(inputs, Tensor) and inputs.ndim == 2 and inputs.shape[1] == foil.dimension
    gradients, name = _class_gradients(encoder, inputs if encoded else encoder.represent(inputs), label)
    if not bool((gradients != 0).any()):
        raise ValueError(f"The score of {name!r} does not change with the representation, so no concept can matter to it.")
    units = gradients / gradients.norm(dim=1, keepdim=True).clamp(min=1e-30)
    draws = stream(seed, 9)
    size = min(int(np.median([concept.count for concept in several])), foil.count // 2)
    chance = []
    for _ in range(random):
        order = draws.permutation(foil.count)
        vector = _concept_vector(foil[order[:size]], foil[order[size:]])
        chance.append(abs(float((units @ vector).mean())))
    made = []
    for concept in several:
        vector = _concept_vector(concept, foil)
        along = gradients @ vector
        sensitivity = float((units @ vector).mean())
        above = int((along > 0).sum())
        low, high = wilson(above, len(along))
        p_value = (1 + sum(value >= abs(sensitivity) for value in chance)) / (1 + random)
        made.append(Importance(concept.name, name, above / len(along), low, high, sensitivity, float(along.mean()), p_value))
    return sorted(made, key=lambda importance: -abs(importance.sensitivity))

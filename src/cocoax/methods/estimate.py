"""Maps of targets as a method estimates them, and the attributions made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cocoax.checks import check_at_least
from cocoax.inputs import Explicand
from cocoax.masking.masked_encoder import check_range
from cocoax.results.attribution import Attribution, at_least_rounding
from cocoax.targets import Target
from cocoax.version import versions


@dataclass(frozen=True)
class Estimate:
    """Maps of k targets: ``values [k, *shape]``, and ``raw [k, *tensor.shape]`` where a method has values of all elements.

    ``shares`` is among how many features a score is divided, where a value is no whole score but a share of one. ``unit`` is
    the effect E[score | kept] - E[score | removed] for each unit that a value lies above ``neutral``.
    """

    values: Tensor
    standard_error: Tensor | None = None
    neutral: Tensor | None = None
    features: Tensor | None = None
    raw: Tensor | None = None
    shares: int = 1
    unit: float = 1.0

    def times(self, factors: Tensor) -> Estimate:
        """Return the maps of scores that are ``factors [k]`` times as large."""

        def scaled(maps: Tensor) -> Tensor:
            return maps * factors.to(maps).view(-1, *[1] * (maps.ndim - 1))

        given = {name: scaled(maps) for name, maps in vars(self).items() if isinstance(maps, Tensor)}
        return replace(self, **given)  # type: ignore[arg-type]  # the numbers among its fields are no tensors


# How much the variance of few contributions is understated: some samples are far from all others (a text of which next to
# nothing is left), in some inputs more than in others. The kurtosis of the contributions tells: their variance is known as
# well as that of 2n / (kurtosis - 1) normal ones, and errors are wider by what Student's t is wider than the normal
# distribution there. Few samples hold few of the rare ones, so it counts twice.
_HEAVY = 2 * (1.96**2 + 1) / 8
_LEAST_WIDENING = 5.0


def widening(squares: Tensor, fourths: Tensor, n: int) -> Tensor:
    """Return how much wider errors are, ``[k, 1]``, than sums of powers ``[k, m]`` of n contributions say."""
    kurtosis = torch.where(squares > 0, n * fourths / squares.square().clamp(min=1e-300), 1.0).clamp(1, n)
    return 1 + (_LEAST_WIDENING + _HEAVY * (kurtosis - 1).mean(1, keepdim=True)) / n


@dataclass(frozen=True, eq=False)
class SampledEffects:
    """How much keeping a feature, rather than removing it, changes each of k scores, with factors of the sampling error.

    Attributes:
        values: the effects, ``[k, *cells]``.
        x, r: independent sample i moves the effect of feature j on score k by x_ij r_ik, up to small terms: ``[n, *cells]``
            and ``[n, k]``. No rows where nothing is left to chance, None where nothing is known about it.
        few: whether few samples understate the error by the squares of their contributions.

    """

    values: Tensor
    x: Tensor | None = None
    r: Tensor | None = None
    few: bool = False

    def along(self, mixtures: Tensor) -> Tensor:
        """Return the factors r of mixtures ``[k, j]`` of the scores, ``[n, j]``, larger where they are understated."""
        if self.x is None or self.r is None:
            raise ValueError("Nothing is known about the error of these effects.")
        r = self.r @ mixtures
        if not (self.few and len(r)):
            return r
        squares, fourths = (r.pow(power).T @ self.x.flatten(1).pow(power) for power in (2, 4))
        return r * float(widening(squares, fourths, len(r)).mean())


@dataclass(frozen=True)
class Origin:
    """Where an attribution comes from: the method as plain values, the encoder, its space, and how long it sampled.

    ``rounding`` is how far rounding moves a score, relative to the terms that it is the sum of; 0 where nothing is known.
    """

    method: Mapping[str, Any]
    encoder: str
    space: str
    samples: int | None = None
    stopped: str = ""
    rounding: float = 0.0

    def __post_init__(self) -> None:
        check_at_least("rounding", self.rounding, 0)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the attribution."""
        return {
            "method": self.method["type"],
            "options": {key: value for key, value in self.method.items() if key != "type"},
            "encoder": self.encoder,
            "space": self.space,
            "samples": self.samples,
            "stopped": self.stopped,
            "versions": versions(),
        }

    def floor(self, target: Target, own: Tensor, ends: Tensor, shares: int) -> float:
        """Return how far rounding alone may move a value of a target's map.

        Every score is rounded, relative to the terms whose sum it is, which may be much larger than the sum. Rounding goes
        with what is masked, so that more samples do not average it out. ``own [d]`` is the explicand's representation and
        ``ends [2]`` are the scores of the explicand and of the emptied input.
        """
        if not self.rounding:
            return 0.0
        return self.rounding * max(target.size(own), float(ends.abs().nan_to_num(0).max())) / shares


def attributions(
    origin: Origin, explicand: Explicand, targets: Sequence[Target], ends: Tensor, maps: Estimate, own: Tensor
) -> list[Attribution]:
    """Return one attribution per target, from their maps and the scores of the two anchors, ``ends [2, targets]``.

    ``own [d]`` is the explicand's representation.
    """
    raw, error, features = maps.raw, maps.standard_error, maps.features
    shape = (len(targets), *explicand.shape)
    values = maps.values.reshape(shape)
    if explicand.label_map is not None:
        features = values if features is None else features
        values = explicand.shown(values, 0.0 if maps.neutral is None else maps.neutral[:, None])
        error = None if error is None else explicand.shown(error.reshape(shape))
    metadata = {**origin.metadata, **explicand.display.notes}
    answers = []
    for index, target in enumerate(targets):
        check_range(target, values[index])
        floor = maps.unit * origin.floor(target, own, ends[:, index], maps.shares)
        own_error = None if error is None else at_least_rounding(maps.unit * error.reshape(values.shape)[index], floor)
        answers.append(
            Attribution(
                values=values[index].float(),
                score=float(ends[0, index]),
                baseline_score=float(ends[1, index]),
                standard_error=own_error,
                raw=None if raw is None else raw[index].float(),
                features=None if features is None else features[index].float(),
                neutral=0.0 if maps.neutral is None else float(maps.neutral[index]),
                metadata={**metadata, "target": target.name, "similarity": str(target.similarity)},
                display=explicand.display,
                floor=floor,
                feature_ids=explicand.label_map,
                unit=maps.unit,
            )
        )
    return answers

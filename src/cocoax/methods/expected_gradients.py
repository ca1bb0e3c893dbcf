"""Expected Gradients (Erion et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor

from cocoax.checks import check_count
from cocoax.encoders import Encoder
from cocoax.inputs import Explicand
from cocoax.masking import Fixed
from cocoax.methods.gradient import GradientMethod, Points, along
from cocoax.seeding import stream


@dataclass(frozen=True, eq=False)
class ExpectedGradients(GradientMethod):
    """The mean of ∇γ(b + α (x - b)) ⊙ (x - b) over background inputs b and α uniform in [0, 1].

    Integrated gradients with the baseline averaged out; in expectation complete with respect to the mean score of the
    background. ``baseline_score`` is the score of the background's mean image.

    Args:
        background: inputs to draw baselines from (pictures or preprocessed tensors), of the explicand's size. Texts may have
            any length: their tokens are laid under those of the explicand, cut off or filled up with the mask token.
        samples: number of draws of b and α.
        seed: of the draws.

    """

    background: Any = field(repr=False)
    samples: int = 200
    seed: int = 0
    baseline: Any = field(default=None, init=False)  # the background takes its place
    sampled = True

    def __post_init__(self) -> None:
        check_count("samples", self.samples, 2)

    def prepared(self, encoder: Encoder) -> Self:
        """Return the method with the background as one tensor; its mean image is the baseline whose score is reported."""
        inputs = [encoder.prepare(item).detach().to("cpu", torch.float32) for item in encoder.as_list(self.background)]
        if not inputs:
            raise ValueError("The background has 0 inputs; pass at least one.")
        if len({prepared.shape for prepared in inputs}) > 1:
            raise ValueError("The background inputs have different shapes; they must be preprocessed alike.")
        background = torch.stack(inputs)
        ready = replace(self, background=background)
        object.__setattr__(ready, "baseline", _BackgroundMean(background.mean(0)))
        return ready

    def draws(self) -> tuple[Tensor, Tensor]:
        """Return which background input, and which α, each sample has."""
        random = stream(self.seed)
        which = random.integers(0, len(self.background), self.samples)
        return torch.from_numpy(which), torch.from_numpy(random.random(self.samples, dtype="float32"))

    def points(self, explicand: Explicand, baseline: Tensor, rows: slice) -> Points:
        """Return points between background inputs and the explicand."""
        which, positions = self.draws()
        chosen = self.background[which[rows]]
        difference = explicand.tensor - chosen
        return Points(chosen + along(positions[rows], baseline) * difference, difference)


@dataclass(frozen=True, eq=False)
class _BackgroundMean(Fixed):
    """The mean of the background, in place of a baseline."""

    subject = "The background inputs have"

"""Counterfactuals by gradients: a smooth change of all numbers of an input that flips the sign of a target.

Plain gradients find adversarial changes. Each step is therefore the blurred gradient, the steepest descent under a price on
roughness; and the result says how far the representation of a blurred copy follows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from cocoax.checks import check_at_least, check_count, check_positive
from cocoax.encoders import Encoder
from cocoax.inputs import Explicand, Inputs, Pictures
from cocoax.insight.counterfactuals import check_above
from cocoax.methods.method import Askable, check_encoder, check_targets
from cocoax.results import Result
from cocoax.show import Effects, Gallery, Table, View

_BLUR = 1.5  # standard deviation of the blur of the copy that should follow, in pixels
_MIN_FOLLOWS = 0.5  # below which the change is said to be one of details


@dataclass(frozen=True, eq=False)
class GradientCounterfactual(Result):
    """A smooth change of an input that flips the sign of a target, or the lowest score it came to.

    Attributes:
        question: the target's name.
        score: of the input as it is.
        changed_score: after the change.
        blurred_score: of a blurred copy of the changed input; None for kinds of input that have no blur.
        follows: the change of a blurred copy's representation along that of the input's, as a share of the latter: 1 if it
            follows, 0 if the change is in details alone. None for kinds of input that have no blur.
        change: its root mean square, in standard deviations of the input's numbers.
        steps: gradients that it took.
        explicand, result: before and after.

    """

    file: ClassVar[str] = "gradient-counterfactual"
    question: str
    score: float
    changed_score: float
    blurred_score: float | None
    follows: float | None
    change: float
    steps: int
    explicand: Explicand = field(repr=False)
    result: Explicand = field(repr=False)

    def __repr__(self) -> str:
        return f"GradientCounterfactual({self.question!r}: {self.score:+.3f} → {self.changed_score:+.3f})"

    @property
    def flipped(self) -> bool:
        """Whether the sign has changed."""
        return self.changed_score < 0

    @property
    def summary(self) -> str:
        """The size of the change and the score after it, in a sentence."""
        change = f"a change of {self.change:.2g} standard deviations makes it {self.changed_score:+.3g}"
        return f"The score of {self.question!r} is {self.score:+.3f}; {change}."

    @property
    def remarks(self) -> tuple[str, ...]:
        """Whether the sign changed, how far a blurred copy follows, and the number of gradients."""
        remarks = []
        if not self.flipped:
            remarks.append("It did not flip: take more steps, or ask for less smoothness.")
        if self.follows is not None and self.blurred_score is not None:
            remarks.append(
                f"The representation of a blurred copy follows {self.follows:.0%} of the way, to {self.blurred_score:+.3f}."
            )
            if self.follows < _MIN_FOLLOWS:
                remarks.append(
                    "Most of the change is in details that a blur takes away, as with adversarial examples: it says more "
                    "about the encoder's weak spots than about the input."
                )
        return (*remarks, f"{self.steps} gradients.")

    def facts(self) -> dict[str, Any]:
        """Return scores, size of the change and number of steps."""
        own = ("question", "score", "changed_score", "blurred_score", "follows", "change", "steps", "flipped")
        return {name: getattr(self, name) for name in own}

    def table(self) -> Table:
        """Return the facts as one row."""
        return Table(tuple(self.facts()), (tuple(self.facts().values()),))

    @property
    def title(self) -> str:
        """The heading of a page."""
        return f"A smooth change that would flip it: {self.question}"

    def views(self) -> list[View]:
        """Return the input, the change and what comes out."""
        difference = self.explicand.per_feature(self.result.tensor - self.explicand.tensor)
        effects = Effects(difference.double().numpy(), unit="change of the prepared input")
        change = replace(self.result.display.view(effects), title=f"change\n{self.change:.2g} standard deviations")
        before, after = (
            None if view is None else replace(view, title=f"score {score:+.3f}")
            for view, score in (
                (self.explicand.display.input_view(), self.score),
                (self.result.display.input_view(), self.changed_score),
            )
        )
        return [Gallery((before, change, after), 3, colour_bars=True, inches=3.6, title=self.title)]


def gradient_counterfactual(
    encoder: Encoder,
    explicand: Any,
    target: Askable,
    *,
    smoothness: float = 4.0,
    steps: int = 200,
    rate: float = 0.01,
) -> GradientCounterfactual:
    """Change all numbers of an input along the gradient until the sign of a target flips, as smoothly as asked.

    Args:
        encoder: a differentiable one, of inputs that are numbers.
        explicand: the input; its score must be above 0.
        target: what is asked.
        smoothness: of pictures, standard deviation of the blur of gradients in pixels; 0 for plain gradients.
        steps: the most gradients.
        rate: root mean square of a step, in standard deviations of the input's numbers.

    """
    check_encoder(encoder)
    check_at_least("smoothness", smoothness, 0)
    check_count("steps", steps, 1)
    check_positive("rate", rate)
    if not encoder.inputs.continuous:
        raise ValueError(
            f"{encoder.name!r} takes {encoder.inputs.nouns}, which have no gradient; use "
            "cocoax.counterfactual(..., distractors=...)."
        )
    asked = check_targets(target, encoder)[0]
    asked.check_space(encoder.space)
    ready = encoder.explicand(explicand)
    with torch.inference_mode(False), torch.enable_grad():
        changed, taken = _descended(encoder, ready.tensor, asked, (float(smoothness), steps, float(rate)))
    inputs = encoder.inputs
    pair = torch.stack([ready.tensor, changed])
    blurred = _blurred(inputs, pair, _BLUR)
    representations = encoder.encode(pair if blurred is None else torch.cat([pair, blurred]))
    scores = asked.score(representations, representations[0]).tolist()
    follows = None
    if blurred is not None:
        move, copied = representations[1] - representations[0], representations[3] - representations[2]
        follows = float(move @ copied / (move @ move).clamp(min=1e-30))
    return GradientCounterfactual(
        asked.name,
        scores[0],
        scores[1],
        None if blurred is None else scores[3],
        follows,
        float((changed - ready.tensor).square().mean().sqrt() / _spread(ready.tensor)),
        taken,
        ready,
        inputs.explicand(changed),
    )


@singledispatch
def _blurred(kind: Inputs, batch: Tensor, width: float) -> Tensor | None:
    """Return prepared inputs blurred by this width, in elements; None for kinds where that has no meaning."""
    return None


@_blurred.register
def _(kind: Pictures, batch: Tensor, width: float) -> Tensor:
    """Return pictures blurred by a width in pixels, a standard deviation: means over three by three, repeated."""
    for _ in range(round(1.5 * width**2)):  # each adds 2/3 to the variance
        batch = functional.avg_pool2d(functional.pad(batch, (1, 1, 1, 1), mode="replicate"), 3, 1)
    return batch


def _spread(tensor: Tensor) -> Tensor:
    return tensor.std().clamp(min=1e-12) if tensor.numel() > 1 else torch.ones(())


def _descended(encoder: Encoder, tensor: Tensor, target: Any, how: tuple[float, int, float]) -> tuple[Tensor, int]:
    """Return the changed tensor once its score is below 0, or after all steps, and how many it took."""
    smoothness, steps, rate = how
    spread = _spread(tensor)
    own = encoder.encode([tensor])[0]
    check_above(target.name, float(target.score(own[None], own)[0]))
    changed = tensor.clone()
    for step in range(steps):
        changed.requires_grad_()
        score = target.score(encoder(encoder.collate(changed[None])), own.to(encoder.device))[0]
        if not score.requires_grad:
            raise ValueError(f"{encoder.name!r} has no gradient; use cocoax.counterfactual(..., distractors=...).")
        if float(score.detach()) < 0:
            return changed.detach(), step
        (slope,) = torch.autograd.grad(score, changed)
        smooth = _blurred(encoder.inputs, slope[None], smoothness)
        slope = slope if smooth is None else smooth[0]
        step_size = rate * spread / slope.square().mean().sqrt().clamp(min=1e-30)
        changed = changed.detach() - step_size * slope
        if smooth is not None:  # the pixels of a channel have a common range; columns do not
            changed = changed.clamp(tensor.amin((1, 2), keepdim=True), tensor.amax((1, 2), keepdim=True))
    return changed.detach(), steps

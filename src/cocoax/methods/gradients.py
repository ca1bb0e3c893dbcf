"""Gradient-based methods, from plain gradients to expected gradients, and the engine that they share.

Every such method is a weighted mean of gradients at a few points, each times a factor:

    φ = Σ_j w_j ∇γ(x_j) ⊙ d_j

The engine takes the points of all explicands in batches, does one forward pass per batch and one vector-Jacobian product
for each distinct reference (or each target, if those are fewer), and keeps only sums.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import check_at_least, check_count, check_kind, check_positive, multiplies
from cocoax.encoders import Encoder
from cocoax.encoders.embedding import differentiable
from cocoax.encoders.fast_encoder import shared_encoder
from cocoax.encoders.forward import frozen, is_out_of_memory
from cocoax.inputs import Explicand
from cocoax.masking import Fixed, MaskedEncoder, resolve
from cocoax.masking.removals import stretched
from cocoax.methods.estimate import Estimate, Origin, attributions
from cocoax.methods.method import Method, normal
from cocoax.progress import bar
from cocoax.references import Reference
from cocoax.results.attribution import Attribution
from cocoax.seeding import stream
from cocoax.similarity import Similarity
from cocoax.targets import Target


@dataclass(frozen=True, eq=False)
class Points:
    """Where gradients are taken: ``at [n, C, H, W]``, times ``factor`` (of the same shape, or broadcast)."""

    at: Tensor
    factor: Tensor

    def __post_init__(self) -> None:
        for name in ("at", "factor"):
            check_kind(f"'{name}' of Points", getattr(self, name), Tensor, "must be a tensor")


@dataclass(frozen=True)
class GradientMethod(Method):
    """A method that averages gradients of the target with respect to the preprocessed input.

    For a text that is the embeddings of its tokens; a word's value is the sum over its tokens and their embeddings.

    Args:
        baseline: what the explicand is compared with: a :class:`cocoax.Baseline`, or a picture. For a text ``"mask"``, the
            embedding of the mask token (the default), or ``Constant(0.0)``.
        batch_size: points differentiated at a time; automatic if not given.

    """

    baseline: Any = field(default=None, kw_only=True)
    batch_size: int | None = field(default=None, kw_only=True)
    sampled = False  # whether its points are a random sample of equal weights, so that it has a standard error

    def weights(self) -> Tensor:
        """Return the weight of each point, ``[n]``; the same for each of ``samples`` unless a method says otherwise."""
        samples: int = getattr(self, "samples", 1)
        return torch.full((samples,), 1 / samples)

    @abstractmethod
    def points(self, explicand: Explicand, baseline: Tensor, rows: slice) -> Points:
        """Return some of the points, for an explicand and a baseline of its tensor's shape."""

    def prepared(self, encoder: Encoder) -> Self:
        """Return the same method; pictures among its options are prepared as the encoder's inputs are."""
        return replace(self, baseline=resolve(self.baseline, encoder.inputs))

    def _explain(
        self, encoder: Encoder, explicands: list[Explicand], targets: list[Target], progress: bool | None
    ) -> list[list[Attribution]]:
        views, ready = zip(*(differentiable(encoder, explicand) for explicand in explicands), strict=True)
        if len({(id(view), explicand.tensor.shape) for view, explicand in zip(views, ready, strict=True)}) > 1:
            # They cannot share batches.
            return [self._explain(encoder, [explicand], targets, progress)[0] for explicand in explicands]
        return self.prepared(views[0])._explain_alike(views[0], list(ready), targets, progress)

    def _explain_alike(
        self, encoder: Encoder, explicands: list[Explicand], targets: list[Target], progress: bool | None
    ) -> list[list[Attribution]]:
        space = encoder.identity.space
        masked_encoders = [MaskedEncoder(encoder, explicand, self.baseline) for explicand in explicands]
        for masked in masked_encoders:
            check_one_baseline(masked, self)
        scores = [masked.score(targets) for masked in masked_encoders]
        weights = _weights_of(self)
        parts, mixture = _shared_parts(targets)
        sums = [_Sums(mixture, explicand, self.sampled) for explicand in explicands]
        size = encoder.batch_size(explicands[0].tensor, self.batch_size)
        first = slice(0, min(size, len(weights)))
        for masked in masked_encoders:
            if not masked.fast.trusted:
                masked.fast.encode(_points_of(self, masked.explicand, masked.baseline_input, first).at)
        encoder = shared_encoder([masked.fast for masked in masked_encoders])
        with bar(len(explicands) * len(weights), f"{type(self).__name__} on {encoder.name}", progress) as shown:
            for batch in _batches(len(explicands), len(weights), size):
                points = [
                    _points_of(self, explicands[index], masked_encoders[index].baseline_input, rows) for index, rows in batch
                ]
                own = [
                    masked_encoders[index].anchors[0]
                    for (index, _), point in zip(batch, points, strict=True)
                    for _ in point.at
                ]
                gradients = _gradients(encoder, torch.cat([point.at for point in points]), own, parts)
                start = 0
                for (index, rows), point in zip(batch, points, strict=True):
                    stop = start + len(point.at)
                    sums[index].add([gradient[start:stop] for gradient in gradients], point.factor, weights[rows])
                    start = stop
                shown.update(start)
        origin = Origin(self.describe(), encoder.name, space, len(weights), rounding=encoder.rounding)
        return [
            attributions(origin, masked.explicand, targets, ends, total.estimate(), masked.anchors[0])
            for masked, ends, total in zip(masked_encoders, scores, sums, strict=True)
        ]


def _weights_of(method: GradientMethod) -> Tensor:
    """Return the weights of a method's points; raise unless they are one number for each of at least one."""
    weights, name = method.weights(), type(method).__name__
    check_kind(f"{name}.weights", weights, Tensor, "must return a tensor [number of points]")
    if weights.ndim != 1 or len(weights) == 0:
        raise ValueError(
            f"{name}.weights must return one weight for each point, [points]. Got {list(weights.shape)} instead."
        )
    return weights


def _points_of(method: GradientMethod, explicand: Explicand, baseline: Tensor, rows: slice) -> Points:
    """Return some of a method's points, in single precision; raise unless they are as many, and of the explicand's shape."""
    points, name = method.points(explicand, baseline, rows), type(method).__name__
    if not (hasattr(points, "at") and hasattr(points, "factor")):
        raise TypeError(f"{name}.points must return cocoax.methods.Points(at, factor). Got {type(points).__name__} instead.")
    wanted = [rows.stop - rows.start, *explicand.tensor.shape]
    if list(points.at.shape) != wanted:
        raise ValueError(
            f"The points that {name}.points gives must be {wanted}: their number, then the shape of the explicand's tensor. "
            f"Got {list(points.at.shape)} instead."
        )
    if not multiplies(points.factor.shape, wanted):
        raise ValueError(
            f"The factor that {name}.points gives must be {wanted}, as the points are, {wanted[1:]} for all of them, or [1]. "
            f"Got {list(points.factor.shape)} instead."
        )
    if points.at.dtype == points.factor.dtype == torch.float32:
        return points
    return replace(points, at=points.at.float(), factor=points.factor.float())


def check_one_baseline(masked: MaskedEncoder, method: Method) -> None:
    """Raise unless a masked encoder has one baseline, an input that gradients can begin at."""
    if masked.baseline_input.shape[-masked.explicand.tensor.ndim :] != masked.explicand.tensor.shape:
        raise ValueError(
            f"{type(method).__name__} needs another input to compare with, and {type(masked.removal).__name__} has none. "
            f"{masked.encoder.inputs.advice}"
        )
    if len(masked.anchors) > 2:
        raise ValueError(
            f"{type(method).__name__} takes one baseline, but {type(masked.removal).__name__} gives "
            f"{len(masked.anchors) - 1}; use one that gives their mean (a Background without 'draws' does), or "
            "cocoax.ExpectedGradients(background)."
        )


def _noise_at(explicand: Explicand, seed: int, rows: slice) -> Tensor:
    """Return standard normal noise for some points, in units of the preprocessed input, or of the spread of embeddings."""
    noise = torch.stack([normal(seed, row, tuple(explicand.tensor.shape)) for row in range(rows.start, rows.stop)])
    return noise if explicand.scale is None else noise * explicand.scale


def _noisy_gradients(explicand: Explicand, baseline: Tensor, seed: int) -> Tensor:
    """Return the map of noise in place of gradients, times explicand minus baseline: a chance level."""
    return explicand.per_feature(normal(seed, 0, tuple(explicand.tensor.shape)) * (explicand.tensor - baseline))


def _slope(explicand: Explicand, baseline: Tensor) -> Tensor:
    """Return the factor of methods that take the gradient as it is.

    Embeddings have no axes of their own (and where they are normalised their gradients sum to zero), so the slope of a word
    is taken on the way from the baseline to it.
    """
    return torch.ones(1) if explicand.scale is None else explicand.tensor - baseline


class _Sums:
    """Weighted sums over the points of one explicand: of the parts' gradients, and of the targets' squared values."""

    # All is done in the memory layout in which gradients of images come, channels last: there it is a fraction of the work.

    def __init__(self, mixture: Tensor, explicand: Explicand, squared: bool) -> None:
        targets, parts = mixture.shape
        channels, *places = explicand.tensor.shape
        self.explicand = explicand
        self.mixture = mixture.double()
        self.parts = torch.zeros(parts, *places, channels, dtype=torch.float64)
        self.squares = torch.zeros(targets, *explicand.shape, dtype=torch.float64) if squared else None
        self.count = 0

    def add(self, gradients: list[Tensor], factor: Tensor, weights: Tensor) -> None:
        """Add the gradients ``[n, C, ...]`` of each part at n points, times ``factor``."""
        n = len(gradients[0])
        factor = factor.expand(n if factor.ndim == gradients[0].ndim else 1, *gradients[0].shape[1:])
        factor = factor.movedim(1, -1).contiguous()
        row = weights.to(gradients[0])[None]
        features = []
        for total, gradient in zip(self.parts, gradients, strict=True):
            each = gradient.movedim(1, -1) * factor
            total += (row @ each.flatten(1)).view_as(total)
            if self.squares is not None:
                features.append(self._per_feature(each).flatten())
        if self.squares is not None:
            mixed = self.mixture.float() @ torch.stack(features)
            self.squares += mixed.square_().view(len(mixed), n, *self.squares.shape[1:]).sum(1)
        self.count += n

    def _per_feature(self, each: Tensor) -> Tensor:
        """Return values of features from values ``[n, ..., C]`` of all elements."""
        if self.explicand.feature_ids is not None:
            return self.explicand.per_feature(each.movedim(-1, 1))
        channels = each.shape[-1]  # a product is several times as fast as a mean over so few
        return each.reshape(-1, channels) @ each.new_full((channels, 1), 1 / channels)

    @property
    def raw(self) -> Tensor:
        """The attributions ``[targets, C, ...]``."""
        return torch.einsum("tp,p...->t...", self.mixture, self.parts).movedim(-1, 1)

    def estimate(self) -> Estimate:
        """Return the maps; a pixel's value is its share of the score."""
        values = self.explicand.per_feature(self.raw)
        return Estimate(values, self.standard_error(), raw=self.raw, shares=values[0].numel())

    def standard_error(self) -> Tensor | None:
        """Return that of each feature's value, for equally weighted random points."""
        if self.squares is None:
            return None
        n = self.count
        spread = (self.squares - n * self.explicand.per_feature(self.raw).square()).clamp(min=0)
        return (spread / max(1, n - 1) / n).sqrt()


def _shared_parts(targets: list[Target]) -> tuple[list[Target], Tensor]:
    """Return few targets, ``parts``, of which all others are mixtures, and the ``mixture [targets, parts]``.

    They are the targets themselves, or their distinct references if those are fewer.
    """
    keys: list[tuple[Similarity, Reference | None]] = []  # not a dict: a similarity of a user's own may have no hash
    for target in targets:
        keys += [(target.similarity, key) for key in target.weights if (target.similarity, key) not in keys]
    if len(targets) <= len(keys) or not all(target.weights for target in targets):  # functions have no references
        return targets, torch.eye(len(targets))
    mixture = torch.tensor(
        [
            [target.weights.get(reference, 0.0) if similarity == target.similarity else 0.0 for similarity, reference in keys]
            for target in targets
        ]
    )
    return [Target({reference: 1.0}, similarity) for similarity, reference in keys], mixture


def _batches(explicands: int, points: int, size: int) -> Iterator[list[tuple[int, slice]]]:
    """Return all points of all explicands in batches of ``size``: lists of (explicand, rows)."""
    batch: list[tuple[int, slice]] = []
    room = size
    for index in range(explicands):
        start = 0
        while start < points:
            stop = min(points, start + room)
            batch.append((index, slice(start, stop)))
            room -= stop - start
            start = stop
            if room == 0:
                yield batch
                batch, room = [], size
    if batch:
        yield batch


def _gradients(encoder: Encoder, at: Tensor, own: list[Tensor], parts: list[Target]) -> list[Tensor]:
    """Return gradients of every part at every point, ``[n, C, H, W]`` each; memory running out halves the batch."""
    try:
        return _gradients_at_once(encoder, at, own, parts)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        if len(at) == 1:
            raise MemoryError(
                f"The encoder {encoder.name!r} ran out of memory on the gradient of a single input of shape "
                f"{list(at.shape[1:])}; use a smaller input, a smaller encoder, or a method that needs no gradient, such as "
                "cocoax.Rise."
            ) from error
        half = len(at) // 2
        halves = [(at[:half], own[:half]), (at[half:], own[half:])]
        return [torch.cat(pair) for pair in zip(*(_gradients(encoder, *part, parts) for part in halves), strict=True)]


def _gradients_at_once(encoder: Encoder, at: Tensor, own: list[Tensor], parts: list[Target]) -> list[Tensor]:
    """Return the same from one forward pass; ``own`` is, for each point, the representation of its explicand."""
    inputs = encoder.collate(at).detach().requires_grad_()
    with torch.enable_grad(), frozen(encoder.owner):
        representations = encoder(inputs)
        if not representations.requires_grad:
            raise RuntimeError(_no_gradient(encoder))
        if not bool(torch.isfinite(representations).all()):
            raise ValueError(
                f"The encoder {encoder.name!r} gives representations that are not finite at some points between this input "
                "and its baseline, so there is no gradient to follow; use another baseline, or a method that removes parts, "
                "such as cocoax.Rise."
            )
        # The score's own derivative is cheap and taken on a copy; only its product with the encoder's Jacobian is not.
        leaf = representations.detach().requires_grad_()
        gradients = []
        for number, part in enumerate(parts):
            score = sum((part.score(leaf[rows], mine).sum() for rows, mine in _runs(own)), leaf.new_zeros(()))
            (cotangent,) = torch.autograd.grad(score, leaf)
            (gradient,) = torch.autograd.grad(
                representations, inputs, cotangent, retain_graph=number < len(parts) - 1, allow_unused=True
            )
            if gradient is None:
                raise RuntimeError(_no_gradient(encoder))
            # A sum is much faster than a look at every number, and finite only if all of them are.
            if not bool(torch.isfinite(gradient.sum())) and not bool(torch.isfinite(gradient).all()):
                raise ValueError(
                    f"The gradient of the encoder {encoder.name!r} is not finite at some points of this input; use a method "
                    "that removes parts, such as cocoax.Rise."
                )
            gradients.append(gradient.to("cpu", torch.float32))
    return gradients


def _runs(own: list[Tensor]) -> Iterator[tuple[slice, Tensor]]:
    """Return stretches of points that belong to the same explicand, with its representation."""
    start = 0
    for stop in range(1, len(own) + 1):
        if stop == len(own) or own[stop] is not own[start]:
            yield slice(start, stop), own[start]
            start = stop


def _no_gradient(encoder: Encoder) -> str:
    return (
        f"The encoder {encoder.name!r} is not differentiable: no gradient reaches its input. Use a method that removes "
        "parts, such as cocoax.Rise."
    )


def along(positions: Tensor, explicand: Tensor) -> Tensor:
    """Return positions ``[n]`` on lines to the explicand, to be multiplied by differences of its shape."""
    return positions.to(explicand).view(-1, *[1] * explicand.ndim)


# --- vanilla gradients ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VanillaGradients(GradientMethod):
    """The gradient of the target at the explicand: ∇γ(x). For embeddings of words, ∇γ(x) ⊙ (x - b)."""

    def points(self, explicand: Explicand, baseline: Tensor, rows: slice) -> Points:
        """Return the explicand."""
        return Points(explicand.tensor[None], _slope(explicand, baseline))


# --- smoothgrad -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SmoothGrad(GradientMethod):
    """The mean gradient at noisy copies of the explicand: mean of ∇γ(x + ε), ε ~ N(0, noise²).

    Args:
        samples: number of noisy copies.
        noise: standard deviation, in units of the preprocessed input, or of the standard deviation of embeddings.
        seed: of the noise.
        batch_size: points differentiated at a time; automatic if not given.

    """

    samples: int = 50
    noise: float = 0.2
    seed: int = 0
    sampled = True

    def __post_init__(self) -> None:
        check_count("samples", self.samples, 2)
        check_positive("noise", self.noise)

    def points(self, explicand: Explicand, baseline: Tensor, rows: slice) -> Points:
        """Return noisy copies."""
        noise = _noise_at(explicand, self.seed, rows)
        return Points(explicand.tensor + self.noise * noise, _slope(explicand, baseline))


# --- integrated gradients ---------------------------------------------------------------------------------------------------

_MOST_STEPS = 1000  # finding the points takes the cube of their number, and a hundred are enough for anything smooth


@lru_cache
def _quadrature(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points and weights of the Gauss-Legendre quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    return (1 + nodes) / 2, weights / 2


@dataclass(frozen=True)
class IntegratedGradients(GradientMethod):
    """(x - b) times the mean gradient on the straight line from the baseline b to the explicand x.

    Complete: the values per channel (``raw``) sum to γ(x) - γ(b). The integral is taken by Gauss-Legendre quadrature.

    Args:
        steps: points of the quadrature.
        baseline: where the line begins.
        batch_size: points differentiated at a time; automatic if not given.

    """

    steps: int = 50

    def __post_init__(self) -> None:
        check_count("steps", self.steps, 1, _MOST_STEPS)

    def weights(self) -> Tensor:
        """Return the weights of the quadrature on [0, 1]."""
        return torch.from_numpy(_quadrature(self.steps)[1])

    def points(self, explicand: Explicand, baseline: Tensor, rows: slice) -> Points:
        """Return points on the line."""
        nodes = _quadrature(self.steps)[0]
        difference = explicand.tensor - baseline
        return Points(baseline + along(torch.from_numpy(nodes[rows]), explicand.tensor) * difference, difference)

    def chance(self, explicand: Explicand, baseline: Tensor, seed: int = 0) -> Tensor:
        """Return the map of gradients that are noise."""
        return _noisy_gradients(explicand, baseline, seed)


# --- gradient shap ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GradientShap(GradientMethod):
    """The mean of ∇γ(b + α (x̃ - b)) ⊙ (x̃ - b), with x̃ = x + ε a noisy explicand and α uniform in [0, 1].

    Args:
        samples: number of draws of noise and α.
        noise: standard deviation of ε, in units of the preprocessed input, or of the standard deviation of embeddings.
        baseline: b, for each explicand its own.
        seed: of noise and α.
        batch_size: points differentiated at a time; automatic if not given.

    """

    samples: int = 50
    noise: float = 0.2
    seed: int = 0
    sampled = True

    def __post_init__(self) -> None:
        check_count("samples", self.samples, 2)
        check_at_least("noise", self.noise, 0)

    def draws(self, explicand: Explicand, rows: slice) -> tuple[Tensor, Tensor]:
        """Return the noise ε ``[n, C, ...]`` and the positions α ``[n]`` of some samples."""
        alphas = stream(self.seed).random(self.samples, dtype="float32")
        return self.noise * _noise_at(explicand, self.seed, rows), torch.from_numpy(alphas[rows])

    def points(self, explicand: Explicand, baseline: Tensor, rows: slice) -> Points:
        """Return points between the baseline and the noisy explicand."""
        noise, positions = self.draws(explicand, rows)
        difference = explicand.tensor + noise - baseline
        return Points(baseline + along(positions, baseline) * difference, difference)

    def chance(self, explicand: Explicand, baseline: Tensor, seed: int = 0) -> Tensor:
        """Return the map of gradients that are noise."""
        return _noisy_gradients(explicand, baseline, seed)


# --- expected gradients -----------------------------------------------------------------------------------------------------


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
        object.__setattr__(
            ready, "baseline", _BackgroundMean(background.mean(0), stretch=encoder.inputs.feature_kind == "image")
        )
        return ready

    def draws(self) -> tuple[Tensor, Tensor]:
        """Return which background input, and which α, each sample has."""
        random = stream(self.seed)
        which = random.integers(0, len(self.background), self.samples)
        return torch.from_numpy(which), torch.from_numpy(random.random(self.samples, dtype="float32"))

    def points(self, explicand: Explicand, baseline: Tensor, rows: slice) -> Points:
        """Return points between background inputs and the explicand."""
        which, positions = self.draws()
        chosen = stretched(self.background[which[rows]], explicand.tensor)
        difference = explicand.tensor - chosen
        return Points(chosen + along(positions[rows], baseline) * difference, difference)


@dataclass(frozen=True, eq=False)
class _BackgroundMean(Fixed):
    """The mean of the background, in place of a baseline."""

    subject = "The background inputs have"

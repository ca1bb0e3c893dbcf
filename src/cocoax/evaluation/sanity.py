"""Sanity checks: the chance level of a method, sparsity of maps, collapse of representations, consistency of examples, and
randomised parameters."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from cocoax.checks import as_numbers, check_count
from cocoax.encoders import Encoder
from cocoax.evaluation.statistics import Interval, t_interval
from cocoax.inputs import Explicand
from cocoax.methods.method import Method, check_encoder
from cocoax.results.attribution import Attribution
from cocoax.seeding import check_seed, stream
from cocoax.similarity import Cosine


def chance_map(method: Method, explicand: Tensor | Explicand, baseline: Tensor, seed: int = 0) -> Tensor:
    """Return a method's map ``[H, W]`` when there is nothing to find, its chance level, for a baseline ``[C, H, W]``.

    Independent noise for each pixel is the wrong reference for a method with smooth maps: curves along large blobs differ
    from curves along single pixels, whatever the blobs show. So each method gets uninformative input of its own kind.

    - RISE, the paper's estimator: a constant score, whose map is the mean of the masks.
    - RISE, the efficient one: scores that are noise (a constant has a constant map, which has no order).
    - Integrated Gradients and GradientSHAP: gradients that are noise, times explicand minus baseline.
    - others: noise for each pixel.
    """
    return method.chance(explicand if isinstance(explicand, Explicand) else Explicand(explicand), baseline, seed)


# --- sparsity ---------------------------------------------------------------------------------------------------------------


def gini(attribution: Attribution | Tensor) -> float:
    """Return the Gini index of the magnitudes: 0 if all are equal, towards 1 if a single pixel has everything.

    An :class:`Attribution` counts from its neutral value, where a pixel makes no difference.
    """
    given = attribution.relative if isinstance(attribution, Attribution) else attribution
    ordered = as_numbers("A map", given).double().abs().flatten().sort().values
    total = float(ordered.sum())
    if total == 0:
        return 0.0
    n = len(ordered)
    ranks = torch.arange(1, n + 1, dtype=torch.float64)
    return float((2 * ranks - n - 1) @ ordered) / (n * total)


# --- representations --------------------------------------------------------------------------------------------------------


def knn_accuracy(known: Tensor, labels: np.ndarray, asked: Tensor, truth: np.ndarray, neighbours: int = 20) -> float:
    """Return how often the weighted vote of the nearest neighbours is right (cosine, weights exp(s / .1); Wu et al. 2018).

    ``known`` is ``[n, d]`` with labels ``[n]``, ``asked`` ``[m, d]`` with labels ``[m]``.
    """
    known, asked = Cosine().features(known), Cosine().features(asked)
    near = (asked @ known.T).topk(min(neighbours, len(known)), dim=1)
    votes = functional.one_hot(torch.from_numpy(np.array(labels, np.int64)))[near.indices]  # [m, k, classes]
    winners = ((near.values / 0.1).exp()[..., None] * votes).sum(1).argmax(1)
    return float((winners == torch.from_numpy(np.array(truth, np.int64))).float().mean())


def effective_rank(representations: Tensor) -> float:
    """Return the exponential of the entropy of the variances along the principal axes (after Roy & Vetterli 2007).

    From 1, all representations on a line, to d, the same variance in every direction. A standard deviation per dimension
    does not notice a collapse onto a few directions that no axis is aligned with; this does.
    """
    values = as_numbers("Representations", representations).double()
    if values.ndim != 2 or not len(values) or not torch.isfinite(values).all():
        raise ValueError(f"Representations must be finite numbers [n, d]. Got shape {list(values.shape)} instead.")
    centred = values - values.mean(0)
    shares = torch.linalg.svdvals(centred) ** 2
    if float(shares.sum()) == 0:
        return 1.0
    shares = shares / shares.sum()
    return float(torch.exp(torch.special.entr(shares).sum()))


# --- consistency ------------------------------------------------------------------------------------------------------------

_SHARES = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)


def consistency(importance: Any, labels: Any, member_labels: Any, shares: Sequence[float] = _SHARES) -> dict[float, Interval]:
    """Return how often the most important members have the class of their input (Crabbé & van der Schaar 2022).

    Args:
        importance: of every member for every input, ``[inputs, members]``.
        labels: the classes of the inputs, ``[inputs]``.
        member_labels: those of the members, ``[members]``.
        shares: of the members, the most important first, that are looked at.

    Returns:
        For each share the mean over inputs, with Student's 95 % interval. At a share of 1 all members count, and it is
        chance. A ranking that says something begins above that and falls.

    """
    values, own, theirs = np.asarray(importance, float), np.asarray(labels), np.asarray(member_labels)
    if values.shape != (len(own), len(theirs)) or values.size == 0:
        raise ValueError(
            f"The importance must have one row for each of {len(own)} inputs and one column for each of "
            f"{len(theirs)} members. Got {list(values.shape)} instead."
        )
    if not all(0 < share <= 1 for share in shares):
        raise ValueError(f"The 'shares' parameter must hold numbers above 0, up to 1. Got {list(shares)!r} instead.")
    order = np.argsort(-values, axis=1, kind="stable")
    same = theirs[order] == own[:, None]
    return {share: t_interval(same[:, : max(1, round(share * len(theirs)))].mean(1)) for share in shares}


# --- randomisation ----------------------------------------------------------------------------------------------------------


def randomised(encoder: Encoder, seed: int = 0, last: int | None = None) -> Encoder:
    """Return the encoder with its parameters redrawn; the original is left alone.

    Each parameter tensor is drawn anew from a normal distribution with the tensor's own mean and standard deviation,
    truncated to its own minimum and maximum. Buffers (batch-norm statistics) stay, as in the paper.

    Args:
        encoder: whose ``module`` is an ``nn.Module``.
        seed: of the draws.
        last: only the last so many layers with parameters, in the order of registration: the cascading randomisation of
            Adebayo et al. (2018). All of them if not given.

    """
    check_encoder(encoder)
    check_seed(seed)
    owner = encoder.owner
    if owner is None:
        raise TypeError(f"The encoder {encoder.name!r} is a callable whose parameters cannot be seen; wrap an nn.Module.")
    layers = _parametrised_layers(owner)
    if last is not None:
        check_count("last", last, 1, len(layers))
    chosen = set(layers if last is None else layers[-last:])
    changed = copy.deepcopy(owner)
    for name, layer in changed.named_modules():
        if name not in chosen:
            continue
        for kind, parameter in layer.named_parameters(recurse=False):
            # A stream of its own for each tensor: the last layers get the same values, however many are redrawn.
            random = stream(seed, zlib.crc32(f"{name}.{kind}".encode()))
            # Torch's generator looks at 32 bits of its seed only.
            _redraw(parameter, torch.Generator().manual_seed(int(random.integers(2**32))))
    return encoder.with_module(changed, f"{encoder.name}, {'all' if last is None else f'last {last}'} layers randomised")


def _parametrised_layers(module: nn.Module) -> list[str]:
    """Return the names of the submodules that own parameters, first to last."""
    return [name for name, layer in module.named_modules() if next(layer.parameters(recurse=False), None) is not None]


@torch.no_grad()
def _redraw(parameter: nn.Parameter, generator: torch.Generator) -> None:
    values = parameter.double()
    mean, std = float(values.mean()), float(values.std(correction=0))
    if std > 0:  # a constant has nothing to be drawn from
        drawn = torch.empty(parameter.shape, dtype=torch.float64)
        nn.init.trunc_normal_(drawn, mean, std, float(values.min()), float(values.max()), generator=generator)
        parameter.copy_(drawn)

"""The game: an encoder, an explicand and a removal. The one place where masks become representations.

A run, an insertion curve, a random attribution: all of them remove features of one explicand and look at what the encoder
makes of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from cocoax.encoders import Encoder
from cocoax.features.registry import resolve
from cocoax.features.removals import Removal
from cocoax.inputs import Explicand
from cocoax.progress import Bar
from cocoax.targets import Target, score_all

_LISTS_AT_ONCE = 1024  # masks over few features, of which each distinct one is encoded once, in order of length


class Masks(Protocol):
    """Perturbations of an input: which features are kept, and how much."""

    def __len__(self) -> int: ...

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The compact form, as saved."""

    def full(self, rows: slice) -> Tensor:
        """Some masks at full size, ``[n, H, W]`` or ``[n, m]``: 1 keeps a feature, 0 removes it."""


class Game:
    """What an encoder makes of an explicand with features removed.

    Args:
        encoder: what encodes.
        explicand: what is removed from.
        baseline: how: a removal, what stands for one (see :func:`cocoax.features.registry.resolve`), or None for the default.
        space: the encoder's, for callers that have it: finding it out means reading all weights.
        emptied, ends: from an earlier game, so that nothing is encoded again.

    Attributes:
        removal: how features are removed.
        emptied: the explicand without its features, prepared for the encoder; or K versions of it.
        ends: representations of the explicand and of its emptied versions, ``[1 + K, d]``.

    """

    def __init__(
        self,
        encoder: Encoder,
        explicand: Explicand,
        baseline: Any = None,
        *,
        space: str | None = None,
        emptied: Tensor | None = None,
        ends: Tensor | None = None,
    ) -> None:
        self.explicand = explicand
        self.removal: Removal = resolve(baseline, encoder.inputs)
        self.emptied = self.removal.emptied(explicand) if emptied is None else emptied
        self.ends = self._encode_ends(encoder) if ends is None else ends
        space = encoder.space if space is None else space
        self.encoder = encoder.folded(space, (explicand.tensor, self.emptied), self.ends)

    def _encode_ends(self, encoder: Encoder) -> Tensor:
        explicand, emptied = self.explicand.tensor, self.emptied
        several = explicand.is_floating_point() and emptied.ndim > explicand.ndim
        inputs = [explicand, *(emptied if several else [emptied])]
        ends = encoder.encode(torch.stack(inputs) if explicand.is_floating_point() else inputs)
        for number, end in enumerate(ends):
            if not bool(torch.isfinite(end).all()):
                name = "baseline" if number else "explicand"
                raise ValueError(f"The representation of the {name} is not finite; use another {name}.")
        return ends

    def score(self, targets: Sequence[Target]) -> Tensor:
        """Return the scores of the explicand and of its emptied version, ``[2, targets]``."""
        return score_ends(targets, self.ends)

    def encode(
        self, masks: Masks, start: int = 0, batch_size: int | None = None, shown: Bar | None = None
    ) -> Iterator[Tensor]:
        """Return representations of the masked explicand, some at a time, for the masks from ``start`` on.

        They are ``[n, d]``, or ``[n, K, d]`` where there are K emptied versions.
        """
        # Numbers are blended where the encoder is.
        device = self.encoder.device if self.explicand.tensor.is_floating_point() else torch.device("cpu")
        explicand, emptied = self.explicand.to(device), self.emptied.to(device)
        few = len(explicand.shape) == 1  # so that many masks are equal
        while start < len(masks):
            size = max(1, self.encoder.batch_size(explicand.tensor, batch_size) // (len(self.ends) - 1))
            rows = slice(start, min(start + (_LISTS_AT_ONCE if few else size), len(masks)))
            kept = masks.full(rows).to(device)
            if few:
                kept, which = torch.unique(kept.flatten(1), dim=0, return_inverse=True)
                output = self._encode_kept(explicand, emptied, kept, size)[which.cpu()]
            else:
                output = self._encode_kept(explicand, emptied, kept, size)
            _check_finite(output, start)
            yield output
            if shown is not None:
                shown.update(len(output))
            start = rows.stop

    def _encode_kept(self, explicand: Explicand, emptied: Tensor, kept: Tensor, size: int) -> Tensor:
        """Return representations for rows of kept features, ``size`` at a time, those of a length together."""
        order = self.removal.in_order(explicand, kept)
        outputs = []
        for batch in torch.split(kept if order is None else kept[order], size):
            output = self.encoder.encode(self.removal.masked(explicand, emptied, batch))
            outputs.append(output if len(self.ends) == 2 else output.view(len(batch), -1, output.shape[1]))
        together = torch.cat(outputs) if len(outputs) > 1 else outputs[0]
        return together if order is None else together[torch.argsort(order)]


def score_ends(targets: Sequence[Target], ends: Tensor) -> Tensor:
    """Return the scores ``[2, targets]`` of an explicand and of its emptied version; the mean over several of those."""
    scores = score_all(targets, ends, ends[0])
    return scores if len(scores) == 2 else torch.stack([scores[0], scores[1:].mean(0)])


def score_masked(targets: Sequence[Target], representations: Tensor, ends: Tensor) -> Tensor:
    """Return the scores ``[n, targets]`` of masked inputs ``[n, d]``; the mean over K versions of ``[n, K, d]``."""
    scores = score_all(targets, representations.flatten(0, -2), ends[0])
    return scores if representations.ndim == 2 else scores.view(len(representations), -1, len(targets)).mean(1)


def _check_finite(output: Tensor, start: int) -> None:
    bad = (~torch.isfinite(output).flatten(1).all(1)).nonzero()[:, 0].tolist()
    if bad:
        raise ValueError(
            f"The representation of masked input {start + bad[0]} is not finite; the encoder cannot cope with "
            "this baseline. Try another one, such as baseline=cocoax.Mean()."
        )

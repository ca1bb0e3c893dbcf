"""MaskedEncoder: an encoder, an explicand and a removal. The only place where masks become representations.

Runs, insertion curves and random attributions all encode copies of one explicand with some features removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from cocoax.cautions import caution
from cocoax.encoders import Encoder
from cocoax.encoders.fast_encoder import FastEncoder
from cocoax.encoders.function_calls import function_module
from cocoax.inputs import Explicand
from cocoax.masking.removals import Removal, resolve
from cocoax.progress import Bar
from cocoax.store import digest
from cocoax.targets import Target, score_all

_LITTLE_CHANGED = 0.01  # of the length of a representation: removing everything should change more
# Masks over a list of features (words, segments) are encoded in steps: each distinct mask of a step once, in order of length.
# A step is a number of batches, few for pictures since an interruption loses a step, and never more than a number of masks.
_MASKS_PER_STEP = 1024
_BATCHES_PER_STEP = 32
_PICTURE_BATCHES_PER_STEP = 2
_LISTED_AT_ONCE = 32  # masked copies in memory when :meth:`MaskedEncoder.inputs` lists them without encoding


class Masks(Protocol):
    """Perturbations of an input: which features are kept, and how much."""

    def __len__(self) -> int: ...

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The compact form, as saved."""

    def full(self, rows: slice) -> Tensor:
        """Return some masks at full size, ``[n, H, W]`` or ``[n, m]``: 1 keeps a feature, 0 removes it."""


class MaskedEncoder:
    """Encodes an explicand with features removed.

    Args:
        encoder: what encodes.
        explicand: what is removed from.
        baseline: a removal, or what :func:`cocoax.masking.removals.resolve` turns into one; None for the default.
        baseline_input, anchors: of an earlier object for the same explicand, so that nothing is encoded again.

    Attributes:
        removal: how features are removed.
        baseline_input: the explicand without its features, prepared for the encoder; or K versions of it.
        anchors: representations of the explicand and of its K baselines, ``[1 + K, d]``.

    """

    def __init__(
        self,
        encoder: Encoder,
        explicand: Explicand,
        baseline: Any = None,
        *,
        baseline_input: Tensor | None = None,
        anchors: Tensor | None = None,
    ) -> None:
        self.removal: Removal = resolve(baseline, encoder.inputs)
        self.explicand = explicand = self.removal.with_features(explicand, encoder)
        self.baseline_input = self.removal.baseline_input(explicand) if baseline_input is None else baseline_input
        self._anchor_inputs = [explicand.tensor, *self.removal.versions(explicand, self.baseline_input)]
        self._plain = self.removal.encoder_for(encoder, explicand)
        self.anchors = self._encode_anchors() if anchors is None else anchors

    @cached_property
    def fast(self) -> FastEncoder:
        """The encoder of masked inputs."""
        situation = type(self.removal).__name__, self.explicand.tensor, self.baseline_input
        return FastEncoder(self._plain, self._anchor_inputs, self.anchors, situation)

    @property
    def encoder(self) -> Encoder:
        """The encoder of masked inputs: the fastest copy that gives the same representations."""
        return self.fast.encoder

    def _encode_anchors(self) -> Tensor:
        size = max(2, self._plain.batch_size(self.explicand.tensor))
        parts = [self._anchor_inputs[start : start + size] for start in range(0, len(self._anchor_inputs), size)]
        anchors = torch.cat([self._plain.encode(part) for part in parts])
        for name, end in zip(_anchor_names(anchors), anchors, strict=True):
            if not bool(torch.isfinite(end).all()):
                raise ValueError(f"The representation of the {name} is not finite; use another {name}.")
        self._check_removal(anchors)
        return anchors

    def _check_removal(self, anchors: Tensor) -> None:
        """Caution if removing everything changes nothing, or hardly anything."""
        name, advice = type(self.removal).__name__, f"Try another baseline=. {self._plain.inputs.advice}"
        moved = float((anchors[1:] - anchors[0]).norm(dim=1).mean())
        if all(_same(self._anchor_inputs[0], end) for end in self._anchor_inputs[1:]):
            caution(
                "nothing removed",
                f"{self._plain.name} {digest(self.explicand.tensor)}",  # of every input that this is so for
                f"Nothing is removed: what {name} puts in place of the input is the input itself, so there is nothing to "
                f"explain. {advice}",
            )
        elif moved < _LITTLE_CHANGED * float(anchors[0].norm()):
            caution(
                "removal",
                self._plain.name,
                f"Removing all of the input by {name} changes its representation by {moved / float(anchors[0].norm()):.1%}, "
                f"so there is hardly anything to explain. {advice}",
            )

    def score(self, targets: Sequence[Target]) -> Tensor:
        """Return the scores of the explicand and of its baseline, ``[2, targets]``."""
        return score_anchors(targets, self.anchors)

    def encode(
        self, masks: Masks, start: int = 0, batch_size: int | None = None, shown: Bar | None = None
    ) -> Iterator[Tensor]:
        """Return representations of the masked explicand, some at a time, for the masks from ``start`` on.

        They are ``[n, d]``, or ``[n, K, d]`` where there are K baselines; as many as the budget of a function allows.
        """
        self.fast.use_onnx()
        # Numbers are blended where the encoder is.
        device = self.encoder.device if self.explicand.tensor.is_floating_point() else torch.device("cpu")
        explicand, baseline_input = self.explicand.to(device), self.baseline_input.to(device)
        few = len(self.explicand.shape) == 1  # so that many masks are equal
        batches = _BATCHES_PER_STEP if self.explicand.label_map is None else _PICTURE_BATCHES_PER_STEP
        while start < len(masks):
            at_once = self._at_once(batch_size)
            at_once = min(_MASKS_PER_STEP, batches * at_once) if few else at_once
            rows = slice(start, min(start + at_once, len(masks)))
            full = self._at_full_size(masks, rows)
            full, wanted = full[: self._affordable(explicand, baseline_input, full)], len(full)
            if len(full) == 0:
                return
            if few:
                kept, which = torch.unique(full, dim=0, return_inverse=True)
                output = self._encode_kept(explicand, baseline_input, kept.to(device), batch_size)[which]
            else:
                output = self._encode_kept(explicand, baseline_input, full.to(device), batch_size)
            self._check_finite(output, start)
            yield output
            if shown is not None:
                shown.update(len(output))
            if len(full) < wanted:
                return
            start = rows.stop

    def inputs(self, masks: Masks) -> Iterator[Tensor]:
        """Yield what is encoded for some masks: the input, its baselines, and the masked copies."""
        yield from self._anchor_inputs
        for start in range(0, len(masks), _LISTED_AT_ONCE):
            rows = slice(start, min(start + _LISTED_AT_ONCE, len(masks)))
            yield from self.removal.masked(self.explicand, self.baseline_input, self._at_full_size(masks, rows))

    def _at_full_size(self, masks: Masks, rows: slice) -> Tensor:
        """Return some masks ``[n, *shape]``; raise if they have another shape."""
        shape = (rows.stop - rows.start, *self.explicand.shape)
        full = masks.full(rows)
        full = full.flatten(1) if len(shape) == 2 and full.ndim > 1 else full
        if tuple(full.shape) != shape:
            raise ValueError(
                f"{type(masks).__name__}.full gave masks {list(full.shape)} for features {list(shape[1:])}; they must be "
                f"{list(shape)}: how many were asked for, then the shape of the features."
            )
        return full.float()

    def _affordable(self, explicand: Explicand, baseline_input: Tensor, full: Tensor) -> int:
        """Return how many of the first masks can be encoded within the budget of an encoder that has one."""
        function = function_module(self._plain.module)
        if function is None:
            return len(full)
        count = function.calls.affordable(function.keys(self.removal.masked(explicand, baseline_input, full)))
        return count // (len(self.anchors) - 1)

    def _at_once(self, batch_size: int | None) -> int:
        """Return how many masks are encoded at a time; each takes as many inputs as there are baselines."""
        return max(1, self.encoder.batch_size(self.explicand.tensor, batch_size) // (len(self.anchors) - 1))

    def _encode_kept(self, explicand: Explicand, baseline_input: Tensor, kept: Tensor, batch_size: int | None) -> Tensor:
        """Return representations for rows of kept features; inputs of one length share batches."""
        order = self.removal.in_order(explicand, kept)
        kept = kept if order is None else kept[order]
        outputs = []
        done = 0
        while done < len(kept):
            batch = kept[done : done + self._at_once(batch_size)]  # memory may have run out since the last one
            output = self._encode_masked(self.removal.masked(explicand, baseline_input, batch), batch_size)
            outputs.append(output if len(self.anchors) == 2 else output.view(len(batch), -1, output.shape[1]))
            done += len(batch)
        together = torch.cat(outputs) if len(outputs) > 1 else outputs[0]
        return together if order is None else together[torch.argsort(order).cpu()]

    def _encode_masked(self, inputs: Sequence[Tensor] | Tensor, batch_size: int | None) -> Tensor:
        """Return representations of masked inputs; one mask may have more inputs, one for each baseline, than a batch."""
        size = self.encoder.batch_size(self.explicand.tensor, batch_size)
        parts = [self.fast.encode(inputs[start : start + size]) for start in range(0, len(inputs), size)]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _check_finite(self, output: Tensor, start: int) -> None:
        bad = (~torch.isfinite(output).flatten(1).all(1)).nonzero()[:, 0].tolist()
        if bad:
            raise ValueError(
                f"The representation of masked input {start + bad[0]} is not finite; the encoder cannot cope with "
                f"this baseline. Try another one. {self.encoder.inputs.advice}"
            )


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two prepared inputs are the same, but for rounding."""
    if one.shape != other.shape or not one.is_floating_point():
        return torch.equal(one, other)
    return torch.allclose(one, other, rtol=1e-5, atol=1e-5)


def score_anchors(targets: Sequence[Target], anchors: Tensor) -> Tensor:
    """Return the scores ``[2, targets]`` of an explicand and of its baseline; the mean over several of those."""
    if any(target.similarity.undefined_at_zero for target in targets):
        for name, end in zip(_anchor_names(anchors), anchors, strict=True):
            if not bool(end.any()):
                raise ValueError(
                    f"The representation of the {name} is zero, so its cosine similarity is undefined; use another {name}, "
                    "or similarity='dot'."
                )
    scores = score_all(targets, anchors, anchors[0])
    for target, column in zip(targets, scores.T, strict=True):
        check_range(target, column)
    return scores if len(scores) == 2 else torch.stack([scores[0], scores[1:].mean(0)])


def check_range(target: Target, values: Tensor) -> None:
    """Raise if scores of a target, or values of its map, cannot be held in single precision."""
    largest = float(values.abs().max())
    if not largest <= torch.finfo(torch.float32).max:
        raise ValueError(
            f"The scores or values of the target {target.name!r} reach {largest:.2g}, which single precision does not hold; "
            "scale the encoder's representations to about 1, or use similarity='cosine', which does not depend on scale."
        )


def score_masked(targets: Sequence[Target], representations: Tensor, anchors: Tensor) -> Tensor:
    """Return the scores ``[n, targets]`` of masked inputs ``[n, d]``; the mean over K versions of ``[n, K, d]``."""
    scores = score_all(targets, representations.flatten(0, -2), anchors[0])
    return scores if representations.ndim == 2 else scores.view(len(representations), -1, len(targets)).mean(1)


def _anchor_names(anchors: Tensor) -> list[str]:
    return ["explicand", *["baseline"] * (len(anchors) - 1)]

"""The engine of removal-based methods: run the encoder once, ask anything.

A run holds the explicand, the perturbations (compactly) and the representations of the perturbed inputs. All
removal-based estimates are linear in the scores of the perturbed inputs, so a run answers any target, now or later,
without the encoder.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self

import torch
from torch import Tensor
from tqdm.auto import tqdm

from cocoax.attribution.method import (
    Method,
    check_encoder,
    check_targets,
    encode_ends,
    from_plain,
    removed,
    resolve_baseline,
    results,
    to_plain,
)
from cocoax.attribution.result import Attribution, named_features
from cocoax.encoders import Encoder, Explicand
from cocoax.features import REMOVALS, Baseline, TokenRemoval, baselines
from cocoax.progress import bar
from cocoax.similarity import Cosine
from cocoax.storage import read_safetensors, write_safetensors
from cocoax.targets import Target, score_all

_BASELINES = (baselines.Blur, baselines.Constant, baselines.Mean, baselines.Noise, baselines.Fixed, baselines.Background)
_KNOWN: dict[str, type] = {kind.__name__: kind for kind in _BASELINES} | {kind.__name__: kind for kind in REMOVALS.values()}
_LISTS_AT_ONCE = 1024  # masks over words or columns of which each distinct one is encoded once, in order of length


class Interrupted(KeyboardInterrupt):
    """A run was interrupted (Ctrl-C). What it had sampled is in ``run``, which can be extended.

    It answers targets too, if what there is says something about every part of the input.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(
            f"interrupted after {len(run)} samples; they are kept in this exception's .run "
            "(except cocoax.Interrupted as stop: stop.run.extend(encoder, ...))"
        )
        self.run = run


class Masks(Protocol):
    """Perturbations of an input: which pixels, words or columns are kept, and how much."""

    def __len__(self) -> int: ...

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The compact form, as saved."""

    def full(self, rows: slice) -> Tensor:
        """Some masks at full size, ``[n, H, W]`` or ``[n, m]``: 1 keeps a feature, 0 replaces it by the baseline."""


@dataclass(frozen=True)
class Estimate:
    """What a method makes of scores ``[n, k]``: one map for each of the k targets."""

    values: Tensor
    standard_error: Tensor | None = None
    neutral: Tensor | None = None
    features: Tensor | None = None


@dataclass(frozen=True)
class RemovalMethod(Method):
    """A method that removes parts of the explicand and looks at what that does to its representation.

    Args:
        baseline: what replaces removed pixels: a :class:`cocoax.Baseline`, or a picture. Words are removed by ``"mask"``,
            ``"deletion"`` or ``"attention"``; columns are replaced by a :class:`cocoax.Background`.
        batch_size: perturbed inputs encoded at a time; automatic if not given.

    """

    baseline: Any = field(default_factory=baselines.Blur, kw_only=True)
    batch_size: int | None = field(default=None, kw_only=True)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _KNOWN[cls.__name__] = cls

    @abstractmethod
    def draw(self, height: int, width: int, count: int | None = None) -> Masks:
        """The masks for an image of this size: ``count`` of them, or as many as the method's options say.

        A larger count begins with the same masks, which is what lets a run be extended.
        """

    @abstractmethod
    def restore(self, height: int, width: int, tensors: dict[str, Tensor]) -> Masks:
        """Masks from their compact form."""

    def draw_list(self, features: int, count: int | None = None) -> Masks:
        """As :meth:`draw`, over a list of features (words, columns)."""
        raise TypeError(f"{type(self).__name__} removes parts of images; it does not know how to remove words or columns.")

    def restore_list(self, features: int, tensors: dict[str, Tensor]) -> Masks:
        """As :meth:`restore`, over a list of features."""
        raise TypeError(f"{type(self).__name__} removes parts of images; it does not know how to remove words or columns.")

    def masks_for(self, shape: tuple[int, ...], count: int | None = None) -> Masks:
        """The masks for an explicand whose features have this shape."""
        return self.draw(shape[0], shape[1], count) if len(shape) == 2 else self.draw_list(shape[0], count)

    @abstractmethod
    def estimate(self, masks: Any, scores: Tensor, ends: Tensor) -> Estimate:
        """Maps from the scores of the masked inputs ``[n, k]`` and of explicand and baseline ``[2, k]``."""

    def more(self, run: Run, targets: Sequence[Target]) -> int:
        """How many more perturbations a run needs for these targets; 0 ends it. By default what was asked for is enough."""
        return 0

    def run(
        self, encoder: Encoder, explicand: Any, targets: Target | Sequence[Target] = (), *, progress: bool | None = None
    ) -> Any:
        """All encoder work for one explicand (a :class:`Run`) or many (a list of them).

        A run answers any target. Methods that stop by themselves (``tolerance=``) look at the error of ``targets``, or of
        the similarity to the explicand itself if there are none.
        """
        check_encoder(encoder)
        asked = check_targets(targets) if targets else []
        space = encoder.space  # reads all weights, so once
        for target in asked:
            target.check_space(space)
        explicands = [encoder.explicand(one) for one in encoder.as_list(explicand)]
        if not explicands:
            raise ValueError("There are 0 explicands; pass at least one.")
        runs = [Run.start(self, encoder, one, asked, progress, space) for one in explicands]
        return runs[0] if encoder.is_one(explicand) else runs

    def _explain(
        self, encoder: Encoder, explicands: list[Explicand], targets: list[Target], progress: bool | None
    ) -> list[list[Attribution]]:
        # One run at a time: its representations are not needed any more once it has answered.
        space = encoder.space
        return [Run.start(self, encoder, one, targets, progress, space).explain(targets) for one in explicands]


@dataclass(eq=False)
class Run:
    """The encoder's answers to one explicand's perturbations; made by ``method.run(encoder, explicand)``.

    Attributes:
        method: the method that made it.
        explicand: what is explained.
        baseline: the explicand with everything removed, ``[C, H, W]`` for an image.
        masks: the perturbations, compactly; ``masks.full(slice)`` gives them at full size.
        representations: of the masked inputs, ``[n, d]``; ``[n, K, d]`` where scores are averaged over K baselines.
        ends: representations of the explicand and of the baseline (or of all K), ``[2, d]``.
        encoder: name of the encoder.
        space: the space its targets must live in.
        stopped: why sampling ended, where the method decides that by itself.

    """

    method: RemovalMethod
    explicand: Explicand
    baseline: Tensor
    masks: Masks
    representations: Tensor
    ends: Tensor
    encoder: str
    space: str
    stopped: str = ""

    @classmethod
    def start(
        cls,
        method: RemovalMethod,
        encoder: Encoder,
        explicand: Explicand,
        targets: Sequence[Target],
        progress: bool | None,
        space: str,
    ) -> Self:
        """Encode everything that ``method`` asks for; ``space`` is the encoder's."""
        method = replace(method, baseline=resolve_baseline(method.baseline, encoder))
        tensor = explicand.tensor
        baseline = removed(explicand, method.baseline)
        masks = method.masks_for(explicand.shape)
        ends = encode_ends(encoder, tensor, baseline)
        encoder = encoder.folded(space, (tensor, baseline), ends)
        nothing = ends.new_empty(0, ends.shape[1])
        run = cls(method, explicand, baseline, masks, nothing, ends, encoder.name, space)
        with bar(len(masks), f"{type(method).__name__} on {encoder.name}", progress) as shown:
            run._encode(encoder, masks, shown)
            try:
                while more := method.more(run, targets):
                    shown.total = len(run) + more
                    shown.set_postfix_str(run.stopped)
                    run._encode(encoder, run._draw(len(run) + more), shown)
            except Interrupted:
                raise
            except KeyboardInterrupt:  # between two rounds
                run.stopped = "interrupted"
                raise Interrupted(run) from None
        return run

    def __len__(self) -> int:
        return len(self.representations)

    def __repr__(self) -> str:
        why = f", {self.stopped}" if self.stopped else ""
        return f"Run({type(self.method).__name__} on {self.encoder!r}, {len(self)} samples{why})"

    def extend(self, encoder: Encoder, samples: int, *, progress: bool | None = None) -> Self:
        """Encode ``samples`` more perturbations, and only those. Returns itself.

        A Rise run is then what a longer one would have been; a KernelShap run keeps enumerating as much as it did.
        """
        if samples < 1:
            raise ValueError(f"The 'samples' parameter must be at least 1. Got {samples} instead.")
        if encoder.space != self.space:
            raise ValueError(
                f"The run was made by the encoder {self.encoder!r} as it was then; {encoder.name!r} is another one, or its "
                "weights or preprocessing have changed. Start a new run."
            )
        masks = self._draw(len(self) + samples)
        last = slice(len(self) - 1, len(self))
        if len(self) and not torch.equal(self.masks.full(last), masks.full(last)):
            raise ValueError("The run's masks cannot be drawn again (another version of NumPy?). Start a new run.")
        encoder = encoder.folded(self.space, (self.explicand.tensor, self.baseline), self.ends)
        with bar(samples, f"{type(self.method).__name__} on {encoder.name}", progress) as shown:
            self._encode(encoder, masks, shown)
        self.stopped = ""
        return self

    def _draw(self, count: int) -> Masks:
        return self.method.masks_for(self.explicand.shape, count)

    def _encode(self, encoder: Encoder, masks: Masks, shown: tqdm) -> None:
        """Encode the masks that are new, and keep them all; an interruption keeps those that were done."""
        done = len(self)
        several = [len(self.ends) - 1] if len(self.ends) > 2 else []
        representations = self.ends.new_empty(len(masks), *several, self.ends.shape[1])
        if done:
            representations[:done] = self.representations
        size = self.method.batch_size
        parts = encode_masked(encoder, self.explicand, self.baseline, self.method.baseline, masks, done, size, shown)
        try:
            for part in parts:
                representations[done : done + len(part)] = part
                done += len(part)
        except KeyboardInterrupt:
            self.representations, self.masks = representations[:done].clone(), self._draw(done)
            self.stopped = "interrupted"
            raise Interrupted(self) from None
        self.representations, self.masks = representations, masks

    def explain(self, targets: Target | Sequence[Target]) -> Any:
        """The attribution of a target, or a list of them for a list; the encoder is not touched."""
        asked = check_targets(targets)
        for target in asked:
            target.check_space(self.space)
        own = self.ends[0]
        for number, end in enumerate(self.ends):
            name = "baseline" if number else "explicand"
            if not bool(end.any()) and any(isinstance(target.similarity, Cosine) for target in asked):
                raise ValueError(
                    f"The representation of the {name} is zero, so its cosine similarity is undefined; use another {name}, "
                    "or similarity='dot'."
                )
        ends = score_all(asked, self.ends, own)
        scores = score_all(asked, self.representations.flatten(0, -2), own)
        if len(self.ends) > 2:  # averaged over several baselines
            ends = torch.stack([ends[0], ends[1:].mean(0)])
            scores = scores.view(len(self), -1, len(asked)).mean(1)
        estimate = self.method.estimate(self.masks, scores, ends)
        shape = (len(asked), *self.explicand.shape)
        answers = results(
            self.method.describe(),
            self.encoder,
            self.space,
            self.explicand,
            asked,
            ends,
            values=estimate.values.reshape(shape),
            standard_error=None if estimate.standard_error is None else estimate.standard_error.reshape(shape),
            features=estimate.features,
            neutral=estimate.neutral,
            samples=len(self),
            stopped=self.stopped,
        )
        return answers[0] if isinstance(targets, Target) else answers

    def save(self, path: str | Path) -> Path:
        """Write it as safetensors; returns the path."""
        options: dict[str, Tensor] = {}
        header = {
            "method": to_plain(self.method, options),
            "box": self.explicand.box,
            "tokens": self.explicand.tokens,
            "text": self.explicand.text,
            "offsets": self.explicand.offsets,
            "left_out": self.explicand.left_out,
            "encoder": self.encoder,
            "space": self.space,
            "stopped": self.stopped,
        }
        tensors = {
            **options,
            **{f"mask_{name}": tensor for name, tensor in self.masks.tensors.items()},
            "explicand": self.explicand.tensor,
            "baseline": self.baseline,
            "representations": self.representations,
            "ends": self.ends,
        }
        tensors |= {name: part for name in ("picture", "members") if (part := getattr(self.explicand, name)) is not None}
        return write_safetensors(path, tensors, "run", header)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a run written by :meth:`save`; it answers targets and can be extended."""
        tensors, header = read_safetensors(path, "run")
        plain = dict(header["method"])
        known = isinstance(plain["baseline"], dict) and plain["baseline"]["type"] in _KNOWN
        if not known:  # a class of the user's own: its pixels are all that is needed
            plain["baseline"] = {"type": "Fixed", "image": {"type": "Tensor", "key": "baseline"}}
        method = from_plain(plain, tensors, _KNOWN)
        left, top, right, bottom = header["box"]
        explicand = Explicand(
            tensors["explicand"],
            tensors.get("picture"),
            (left, top, right, bottom),
            members=tensors.get("members"),
            left_out=header.get("left_out", 0),
            **named_features(header),
        )
        compact = {name.removeprefix("mask_"): part for name, part in tensors.items() if name.startswith("mask_")}
        restore = method.restore if len(explicand.shape) == 2 else method.restore_list
        masks = restore(*explicand.shape, compact)
        return cls(
            method=method,
            explicand=explicand,
            baseline=tensors["baseline"],
            masks=masks,
            representations=tensors["representations"],
            ends=tensors["ends"],
            encoder=str(header["encoder"]),
            space=str(header["space"]),
            stopped=str(header["stopped"]),
        )


def encode_masked(
    encoder: Encoder,
    explicand: Explicand,
    baseline: Tensor,
    how: Baseline,
    masks: Masks,
    start: int,
    batch_size: int | None,
    shown: tqdm,
) -> Iterator[Tensor]:
    """Representations of the masked explicand, a batch at a time, for the masks from ``start`` on.

    ``baseline`` is the explicand without its features, and ``how`` they are removed where that is not by blending the two.
    """
    if explicand.tokens is not None:
        yield from _encode_lists(encoder, explicand, baseline, how, masks, start, batch_size, shown)
        return
    device = encoder.device
    baseline = baseline.to(device)
    difference = explicand.tensor.to(device) - baseline
    while start < len(masks):
        size = encoder.batch_size(baseline, batch_size)
        rows = slice(start, min(start + size, len(masks)))
        output = encoder.encode(_blend(baseline, difference, masks.full(rows).to(device)))
        _check_finite(output, start)
        yield output
        shown.update(len(output))
        start = rows.stop


def _encode_lists(
    encoder: Encoder,
    explicand: Explicand,
    baseline: Tensor,
    how: Baseline,
    masks: Masks,
    start: int,
    batch_size: int | None,
    shown: tqdm,
) -> Iterator[Tensor]:
    """The same for words and columns, of which there are few: many masks are equal, and texts differ in length.

    Of some masks at a time, the distinct ones are encoded, short ones together with short ones.
    """
    while start < len(masks):
        rows = slice(start, min(start + _LISTS_AT_ONCE, len(masks)))
        distinct, which = torch.unique(masks.full(rows).flatten(1), dim=0, return_inverse=True)
        if isinstance(how, TokenRemoval):
            inputs: list[Tensor] = how.remove(explicand, distinct)
        else:  # [distinct, K, 1, m]: each mask with each baseline
            kept = distinct[:, None, None]
            inputs = list((kept * explicand.tensor + (1 - kept) * baseline).flatten(0, 1))
        order = sorted(range(len(inputs)), key=lambda index: inputs[index].shape[-1])
        outputs: list[Tensor] = [torch.empty(0)] * len(inputs)
        while order:
            size = encoder.batch_size(inputs[order[0]], batch_size)
            batch, order = order[:size], order[size:]
            for index, output in zip(batch, encoder.encode([inputs[index] for index in batch]), strict=True):
                outputs[index] = output
        found = torch.stack(outputs)
        if len(found) > len(distinct):
            found = found.view(len(distinct), -1, found.shape[1])
        found = found[which]
        _check_finite(found, start)
        yield found
        shown.update(len(found))
        start = rows.stop


def _check_finite(output: Tensor, start: int) -> None:
    bad = (~torch.isfinite(output).flatten(1).all(1)).nonzero()[:, 0].tolist()
    if bad:
        raise ValueError(
            f"The representation of masked input {start + bad[0]} is not finite; the encoder cannot cope with "
            "this baseline. Try another one, such as baseline=cocoax.Mean()."
        )


def _blend(baseline: Tensor, difference: Tensor, kept: Tensor) -> Tensor:
    """``baseline + kept * difference`` for every mask ``[n, H, W]``, written channels-last, as encoders take it.

    Channel by channel, which is ten times as fast as blending first and changing the memory layout afterwards.
    """
    batch = torch.empty(
        (len(kept), *baseline.shape), dtype=baseline.dtype, device=baseline.device, memory_format=torch.channels_last
    )
    for channel, (low, step) in enumerate(zip(baseline, difference, strict=True)):
        torch.addcmul(low, kept, step, out=batch[:, channel])
    return batch

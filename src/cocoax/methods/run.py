"""Removal methods, and runs: the encoder's answers to one explicand's perturbations, from which any target is explained.

A run holds the explicand, the perturbations (compactly) and the representations of the perturbed inputs. All
removal-based estimates are linear in the scores of the perturbed inputs, so a run answers any target, now or later,
without the encoder.
"""

from __future__ import annotations

import math
import os
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Self, overload

import torch
from torch import Tensor

from cocoax.cautions import caution
from cocoax.checks import check_count, check_kind
from cocoax.encoders import Encoder
from cocoax.encoders.forward import ROUNDING
from cocoax.encoders.function_calls import BudgetError
from cocoax.inputs import Explicand
from cocoax.inputs.explicand import load_display, save_display
from cocoax.inputs.segmentation import MergeTree, grid_segments
from cocoax.masking import GridMasks, MaskedEncoder, Masks, Removal, resolve
from cocoax.masking.control_variates import FOLDS
from cocoax.masking.masked_encoder import score_anchors, score_masked
from cocoax.methods.estimate import Estimate, Origin, SampledEffects, attributions
from cocoax.methods.field import GROUPS, Field, field_of
from cocoax.methods.method import Askable, Input, Method, as_asked, check_encoder, check_targets, explicands_of
from cocoax.methods.serialise import from_json_value, to_file_value, type_name
from cocoax.progress import Bar, bar
from cocoax.results.attribution import Attribution
from cocoax.results.remarks import removed_of
from cocoax.similarity import Similarity
from cocoax.spaces import same_space
from cocoax.store import Layout, corrupt_file_errors, load_or_quarantine, read_safetensors, write_safetensors
from cocoax.targets import Target

_LAYOUT = Layout(
    "run",
    {
        "explicand": "any *",
        "feature_ids?": "int *",
        "leaves?": "int * *",
        "merges?": "int * 2",
        "baseline": "any *",
        "representations": "samples * d",
        "anchors": "versions d",
    },
    {"method": dict, "removal": str, "blends": bool, "encoder": str, "space": str, "stopped": str},
)


_UNFINISHED = Layout("unfinished run", {"representations": "* d"}, {"encoder": str})
_MAX_LOST_SECONDS = 5.0  # of work that a killed process loses


# --- removal methods ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RemovalMethod(Method):
    """A method that removes parts of the explicand and looks at what that does to its representation.

    Args:
        baseline: what replaces removed pixels: a :class:`cocoax.Baseline`, or a picture. Words are removed by ``"mask"``,
            ``"deletion"`` or ``"attention"``; columns are replaced by a :class:`cocoax.Background`. By default what suits the
            kind of input: a blur, the mask token, the mean of the background.
        batch_size: perturbed inputs encoded at a time; automatic if not given.

    """

    defined: ClassVar[dict[str, type[RemovalMethod]]] = {}  # all classes, by what files call them
    # Options that only set the number of samples: a longer run begins with the masks of a shorter one.
    length_options: ClassVar[tuple[str, ...]] = ()
    # Options of the estimator, which leave masks and representations as they are.
    estimator_options: ClassVar[tuple[str, ...]] = ()

    baseline: Any = field(default=None, kw_only=True)
    batch_size: int | None = field(default=None, kw_only=True)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        RemovalMethod.defined[type_name(cls)] = cls

    def options_of(self, shape: tuple[int, ...]) -> set[str]:
        """Return the names of the options that the masks of a run over features of this shape depend on."""
        return {option.name for option in fields(self)} - {*self.length_options, *self.estimator_options}

    def choose_features(self, encoder: Encoder, explicand: Explicand) -> tuple[Self, Explicand]:
        """Return the method and the explicand as they go together: each may decide what the features are.

        By default the cells that an explicand asks for are its parts.
        """
        if explicand.grid is None:
            return self, explicand
        labels = grid_segments(explicand.tensor.shape[-2], explicand.tensor.shape[-1], explicand.grid)
        return self, replace(explicand, feature_ids=labels, grid=None)

    @abstractmethod
    def draw(self, shape: tuple[int, ...], count: int | None = None) -> Masks:
        """Return masks for features of this shape: ``count`` of them, or as many as the method's options say.

        The shape is (H, W) for pixels and (m,) for a list of features (words, columns). A larger count begins with the same
        masks, which is what lets a run be extended.
        """

    @abstractmethod
    def restore(self, shape: tuple[int, ...], tensors: dict[str, Tensor]) -> Masks:
        """Return masks from their compact form."""

    @abstractmethod
    def estimate(self, masks: Any, scores: Tensor, ends: Tensor) -> Estimate:
        """Return maps from the scores of the masked inputs ``[n, k]`` and of the two anchors, the ends ``[2, k]``."""

    def adapted(self, masks: Any, representations: Tensor, anchors: Tensor) -> Any:
        """Return the masks with what an estimator learns from the representations of masked inputs and anchors, if anything.

        It may not depend on a target, or maps would no longer be linear in targets.
        """
        return masks

    def cells(self, masks: Any, grid: int | tuple[int, int] | None) -> Any:
        """Return masks whose estimates have one value per cell of a grid instead of per pixel.

        Masks over a list of features are what they are. By default there is no faster way than to pool the map.
        """
        return masks

    def effects(self, masks: Any, scores: Tensor, ends: Tensor) -> SampledEffects:
        """Return how much keeping a feature, rather than removing it, changes each score; for masks of :meth:`cells`."""
        estimate = self.estimate(masks, scores, ends)
        neutral = 0.0 if estimate.neutral is None else estimate.neutral.view(-1, *[1] * (estimate.values.ndim - 1))
        return SampledEffects(estimate.values - neutral)

    def deviations(self, masks: Any, scores: Tensor, ends: Tensor, signs: Callable[[int], Tensor]) -> Tensor | None:
        """Return random sums of what single samples contribute to the error of maps, ``[groups, k, *shape]``.

        The mean of their squares is the squared standard error, of any mixture of the scores too, which is how a field knows
        the errors of targets that nobody has asked about yet. ``signs(n)`` gives ``[n, groups]`` random signs. Zeros where
        nothing is left to chance, None where nothing is known about it.
        """
        return None

    def samples_needed(self, run: Run, targets: Sequence[Target]) -> int:
        """Return how many more samples a run needs for these targets; 0, the default, ends it."""
        return 0

    def resized(self, run: Run, at_least: bool) -> tuple[Run, int]:
        """Return a cached run of this method at the length that is asked for, or shorter, and how many samples it lacks.

        ``at_least`` takes all of a run that is longer than asked for. By default a run is as long as what :meth:`draw` gives.
        """
        wanted = len(draw_checked(self, run.explicand.shape))
        if len(run) > wanted and not at_least:
            return run.first(wanted), 0
        return run, max(wanted - len(run), 0)

    @overload
    def run(  # type: ignore[overload-overlap]
        self,
        encoder: Encoder,
        explicand: Input,
        targets: Target | Sequence[Target] = (),
        *,
        features: Any = None,
        progress: bool | None = None,
    ) -> Run: ...

    @overload
    def run(
        self,
        encoder: Encoder,
        explicand: Iterable[Input],
        targets: Target | Sequence[Target] = (),
        *,
        features: Any = None,
        progress: bool | None = None,
    ) -> list[Run]: ...

    def run(
        self,
        encoder: Encoder,
        explicand: Any,
        targets: Target | Sequence[Target] = (),
        *,
        features: Any = None,
        progress: bool | None = None,
    ) -> Run | list[Run]:
        """Do all encoder work for one explicand (a :class:`Run`) or many (a list of them).

        A run answers any target. Methods that stop by themselves (``tolerance=``) look at the error of ``targets``, or of
        the similarity to the explicand itself if there are none. ``features`` are what is removed as one part, see
        :meth:`cocoax.Encoder.explicand`.
        """
        check_encoder(encoder)
        asked = [] if isinstance(targets, list | tuple) and not targets else check_targets(targets, encoder)
        explicands = explicands_of(encoder, explicand, features)
        space = encoder.space
        for target in asked:
            target.check_space(space)
        runs = [Run.start(self, encoder, item, asked, progress) for item in explicands]
        return runs[0] if encoder.is_one(explicand) else runs

    def _explain(
        self, encoder: Encoder, explicands: list[Explicand], targets: list[Target], progress: bool | None
    ) -> list[list[Attribution]]:
        # One run at a time: its representations are not needed any more once it has answered.
        return [Run.start(self, encoder, item, targets, progress).explain(targets) for item in explicands]


# --- runs -----------------------------------------------------------------------------------------------------------------


class OtherMasksError(ValueError):
    """Raised where the masks of a run cannot be drawn again, so that it stays as long as it is."""


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


@dataclass(eq=False)
class Run:
    """The encoder's answers to one explicand's perturbations; made by ``method.run(encoder, explicand)``.

    Attributes:
        method: the method that made it.
        explicand: what is explained.
        baseline: the explicand with everything removed, ``[C, H, W]`` for an image.
        masks: the perturbations, compactly; ``masks.full(slice)`` gives them at full size.
        representations: of the masked inputs, ``[n, d]``; ``[n, K, d]`` where scores are averaged over K baselines.
        anchors: representations of the explicand and of the emptied input, ``[2, d]``; with K baselines ``[1 + K, d]``.
        encoder: name of the encoder.
        space: the space its targets must live in.
        stopped: why sampling ended, where the method decides that by itself.
        expected: how many samples it will have taken then, as far as the method can tell.
        rounding: how far rounding moves scores, relative to the terms that they are sums of.
        checkpoint: where it notes what it has encoded while it is made.
        maker: the encoder that made it, for as long as that is in memory.

    """

    method: RemovalMethod
    explicand: Explicand
    baseline: Tensor
    masks: Masks
    representations: Tensor
    anchors: Tensor
    encoder: str
    space: str
    stopped: str = ""
    rounding: float = ROUNDING
    checkpoint: RunCheckpoint | None = field(default=None, repr=False)
    maker: weakref.ref[Encoder] | None = field(default=None, repr=False)
    expected: int = 0

    @classmethod
    def start(
        cls,
        method: RemovalMethod,
        encoder: Encoder,
        explicand: Explicand,
        targets: Sequence[Target],
        progress: bool | None,
        checkpoint: RunCheckpoint | None = None,
    ) -> Self:
        """Encode everything that ``method`` asks for; the caller has identified the encoder."""
        method, explicand = method.choose_features(encoder, explicand)
        removal = resolve(method.baseline, encoder.inputs)
        explicand = removal.with_features(explicand, encoder, getattr(method, "grid", None))
        masks = draw_checked(method, explicand.shape)  # what is wrong with its options is told before anything is encoded
        masked = MaskedEncoder(encoder, explicand, removal)
        _check_memory(method, masks, masked.anchors)
        method = replace(method, baseline=masked.removal)
        nothing = masked.anchors.new_empty(0, masked.anchors.shape[1])
        space = encoder.identity.space
        run = cls(
            method,
            explicand,
            masked.baseline_input,
            masks,
            nothing,
            masked.anchors,
            encoder.name,
            space,
            checkpoint=checkpoint,
        )
        run.rounding = encoder.rounding
        run.maker = weakref.ref(encoder)
        with bar(len(masks), f"{type(method).__name__} on {encoder.name}", progress) as shown:
            run._encode(masked, masks, shown)
            if len(run) == len(masks):
                run._sample(masked, targets, shown)
        return run

    def __post_init__(self) -> None:
        self._keep(self.masks, self.representations)

    def __len__(self) -> int:
        return len(self.representations)

    def __repr__(self) -> str:
        why = f", {self.stopped}" if self.stopped else ""
        return f"Run({type(self.method).__name__} on {self.encoder!r}, {len(self)} samples{why})"

    def extend(self, encoder: Encoder, samples: int, *, progress: bool | None = None) -> Self:
        """Encode ``samples`` more perturbations, and only those; return itself.

        It is then what a longer run would have been.
        """
        check_encoder(encoder)
        check_count("samples", samples, 1)
        masked = self._masked_encoder(encoder)
        masks = self._drawn_again(len(self) + samples)
        with bar(samples, f"{type(self.method).__name__} on {encoder.name}", progress) as shown:
            self._encode(masked, masks, shown)
        self.stopped = ""
        return self

    def resume(self, encoder: Encoder, lacking: int, targets: Sequence[Target], progress: bool | None = None) -> Self:
        """Encode what it lacks, and then as much as its method asks for by itself; return itself."""
        more = 0 if lacking else self.method.samples_needed(self, targets)
        if not (lacking or more):
            return self
        had = len(self)
        masked = self._masked_encoder(encoder)
        with bar(lacking or None, f"{type(self.method).__name__} on {encoder.name}", progress) as shown:
            if lacking:
                self._encode(masked, self._drawn_again(had + lacking), shown)
            if len(self) == had + lacking:
                self._sample(masked, targets, shown, had, more)
        return self

    def refine(
        self,
        targets: Target | Sequence[Target] = (),
        *,
        count: int | None = None,
        encoder: Encoder | None = None,
        progress: bool | None = None,
    ) -> Self:
        """Return a new run over smaller segments where much happens.

        The segments that count most are split along the tree that they were merged by: those with the largest effects on the
        targets, or without any, with the longest vectors of a field. The masks of the new run are independent of those that
        chose the segments, so that its errors are those of any other run.

        Args:
            targets: what is asked.
            count: segments of the new run; by default half as many again.
            encoder: the one that made the run; not needed as long as that one is in memory.
            progress: show a progress bar (``None``: when it takes long).

        """
        maker = self.made_by(encoder)
        tree, labels = self.explicand.tree, self.explicand.label_map
        if tree is None or labels is None:
            raise ValueError("Only a run over segments can be refined; make one with features='segments'.")
        had = self.explicand.shape[0]
        wanted = had + (had + 1) // 2 if count is None else count
        check_count("count", wanted, had + 1)
        asked = [] if isinstance(targets, list | tuple) and not targets else check_targets(targets)
        finer = tree.refined(labels, self._importance(asked), wanted)
        if int(finer.max()) + 1 == had:
            raise ValueError(f"The {had} segments cannot be split any further: their halves would be tiny.")
        other: Any = {"seed": self.method.seed + 1} if hasattr(self.method, "seed") else {}
        explicand = replace(self.explicand, feature_ids=finer)
        return type(self).start(replace(self.method, **other), maker, explicand, asked, progress)

    def _importance(self, targets: Sequence[Target]) -> Tensor:
        """Return how much each feature counts, ``[features]``: the largest effect on a target, or the length of its vector.

        The noise of both is taken off.
        """
        if not targets:
            field = self.field()
            noise = torch.zeros(1) if field.deviations is None else field.deviations.square().mean(0).sum(-1)
            return ((field.values - field.neutral).square().sum(-1) - noise).clamp(min=0).sqrt()
        sizes = []
        for answer in self.explain(targets):
            noise = torch.zeros(1) if answer.standard_error is None else answer.standard_error
            shown = (answer.relative.square() - noise.double().square()).clamp(min=0).sqrt()
            sizes.append(self.explicand.per_part(shown))
        return torch.stack(sizes).amax(0)

    def _sample(self, masked: MaskedEncoder, targets: Sequence[Target], shown: Bar, had: int = 0, asked: int = 0) -> None:
        """Encode as much as the method asks for by itself; ``had`` samples were there before what is shown.

        ``asked`` is what it has asked for already.
        """
        try:
            while more := asked or self.method.samples_needed(self, targets):
                asked = 0
                shown.total = max(self.expected, len(self) + more) - had
                shown.set_postfix_str(self.stopped)
                had_before = len(self)
                self._encode(masked, self._drawn_again(had_before + more), shown)
                if len(self) < had_before + more:  # the encoder's budget is used up
                    break
            shown.total = len(self) - had
        except Interrupted:
            raise
        except KeyboardInterrupt:  # between two rounds
            if self.checkpoint is not None:
                self.checkpoint.note(self.masks, self.representations, at_once=True)
            self.stopped = "interrupted"
            raise Interrupted(self) from None

    def _masked_encoder(self, encoder: Encoder) -> MaskedEncoder:
        """Return the masked encoder of the run; raise if the encoder is another one."""
        self.made_by(encoder)
        return MaskedEncoder(
            encoder, self.explicand, self.method.baseline, baseline_input=self.baseline, anchors=self.anchors
        )

    def made_by(self, encoder: Encoder | None = None) -> Encoder:
        """Return the encoder that made it, which may be given; raise if it is gone, or is another one by now."""
        maker = encoder if encoder is not None else None if self.maker is None else self.maker()
        if maker is None:
            raise ValueError(f"The run does not hold its encoder {self.encoder!r}, and it is not in memory; pass encoder=.")
        check_encoder(maker)
        if not same_space(maker.space, self.space):
            raise ValueError(
                f"The run was made by the encoder {self.encoder!r} as it was then; {maker.name!r} is another one, or its "
                "weights or preprocessing have changed. Start a new run."
            )
        return maker

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "maker": None}  # what is only pointed at stays where it is

    def first(self, samples: int) -> Self:
        """Return the run as it was after so many samples."""
        return replace(self, representations=self.representations[:samples], masks=self._drawn_again(samples), stopped="")

    def _drawn_again(self, count: int) -> Masks:
        """Return so many masks, which begin with those of the run or are its first ones; raise if they are others."""
        masks = draw_checked(self.method, self.explicand.shape, count)
        common = min(count, len(self))
        before, after = (made.tensors.items() for made in (self.masks, masks))
        parts = [(ours[:common], dict(after).get(name)) for name, ours in before if len(ours) == len(self)]
        if not all(theirs is not None and torch.equal(ours, theirs[:common]) for ours, theirs in parts):
            raise OtherMasksError(
                "The run's masks cannot be drawn again: it was made with another version of Cocoax or NumPy. It answers "
                "questions as it is; to make it longer or shorter, start a new run."
            )
        return masks

    @property
    def can_be_drawn_again(self) -> bool:
        """Whether its method draws its masks, so that it can be made longer or shorter."""
        try:
            self._drawn_again(len(self))
        except OtherMasksError:
            return False
        return True

    def _encode(self, masked: MaskedEncoder, masks: Masks, shown: Bar) -> None:
        """Encode the new masks; an interruption keeps the representations so far."""
        done = len(self)
        several = [len(self.anchors) - 1] if len(self.anchors) > 2 else []
        representations = self.anchors.new_empty(len(masks), *several, self.anchors.shape[1])
        if done:
            representations[:done] = self.representations
        earlier = None if self.checkpoint is None else self.checkpoint.earlier(masks)
        if earlier is not None and earlier.shape[1:] == representations.shape[1:] and len(earlier) > done:
            representations[done : len(earlier)] = earlier[done:]
            shown.update(len(earlier) - done)
            done = len(earlier)
        try:
            for part in masked.encode(masks, done, self.method.batch_size, shown):
                representations[done : done + len(part)] = part
                done += len(part)
                if self.checkpoint is not None:
                    self.checkpoint.note(masks, representations[:done])
            if done < len(masks):
                self._end_within_budget(done, len(masks))
                masks, representations = draw_checked(self.method, self.explicand.shape, done), representations[:done].clone()
        except KeyboardInterrupt:
            if self.checkpoint is not None:
                self.checkpoint.note(masks, representations[:done], at_once=True)
            self._keep(draw_checked(self.method, self.explicand.shape, done), representations[:done].clone())
            self.stopped = "interrupted"
            raise Interrupted(self) from None
        self._keep(masks, representations)

    def _end_within_budget(self, done: int, wanted: int) -> None:
        """Say that the encoder's budget ended the run; raise if there is nothing to answer with."""
        if done == 0:
            raise BudgetError(
                f"max_calls= of {self.encoder!r} leaves nothing to explain with; {wanted} masked copies are wanted. "
                "What was paid for is kept; take a larger max_calls."
            )
        self.stopped = f"max_calls ended it after {done} of {wanted} samples"
        caution(
            "budget",
            f"{self.encoder} {done} {wanted}",
            f"{type(self.method).__name__} on {self.encoder!r}: max_calls ended it after {done} of {wanted} samples, so "
            "standard errors are larger. What was paid for is kept.",
        )

    def _keep(self, masks: Masks, representations: Tensor) -> None:
        """Set masks and representations of the run."""
        self.representations = representations
        self.masks = self.method.adapted(masks, representations, self.anchors) if len(representations) else masks

    @overload
    def explain(self, targets: Target) -> Attribution: ...

    @overload
    def explain(self, targets: Sequence[Target]) -> list[Attribution]: ...

    @overload
    def explain(self, targets: Mapping[str, Askable]) -> dict[str, Attribution]: ...

    def explain(self, targets: Askable | Sequence[Askable] | Mapping[str, Askable]) -> Any:
        """Return the attribution of a target, a list of them for a list, a dict for a dict; the encoder is not touched."""
        asked = check_targets(targets)
        for target in asked:
            target.check_space(self.space)
        ends, scores = score_anchors(asked, self.anchors), score_masked(asked, self.representations, self.anchors)
        # Maps are linear in scores, so these may be about 1 on the way, where their squares neither overflow nor vanish.
        sizes = _powers_of_two(torch.cat([ends, scores]))
        about_one = scores.double() / sizes, ends.double() / sizes
        estimate = _estimate_checked(self.method, self.masks, *about_one, self.explicand.shape).times(sizes)
        return as_asked(targets, attributions(self.origin, self.explicand, asked, ends, estimate, self.anchors[0]))

    @property
    def origin(self) -> Origin:
        """Where its answers come from."""
        return Origin(self.method.describe(), self.encoder, self.space, len(self), self.stopped, self.rounding)

    def removed(self, target: Target) -> float:
        """Return how much of a target's score goes away with all of the input's parts, as ``Attribution.removed`` has it."""
        target.check_space(self.space)
        score, left = score_anchors([target], self.anchors)[:, 0].tolist()
        return removed_of(score, left)

    def field(
        self, similarity: str | Similarity = "cosine", *, grid: int | tuple[int, int] | None = None, groups: int = GROUPS
    ) -> Field:
        """Return one vector for every feature, which answers any target of the similarity; the encoder is not touched.

        Args:
            similarity: cosine or dot; a kernel has no field.
            grid: cells that pixels are pooled to, a number or (rows, columns); by default twice those of the masks.
            groups: random sums that standard errors are kept by; an error is known to 1 / sqrt(2 groups). 0 keeps none.

        """
        return field_of(self, similarity, grid, groups)

    def save(self, path: str | Path) -> Path:
        """Write it as safetensors; return the path."""
        options: dict[str, Tensor] = {}
        shown, display = save_display(self.explicand.display)
        removal = self.method.baseline
        header = {
            "method": to_file_value(self.method, options),
            "removal": type_name(type(removal)),
            "blends": removal.blends,
            "display": display,
            "encoder": self.encoder,
            "space": self.space,
            "stopped": self.stopped,
            "rounding": self.rounding,
        }
        tensors = {
            **options,
            **shown,
            **{f"mask_{name}": tensor for name, tensor in self.masks.tensors.items()},
            "explicand": self.explicand.tensor,
            "baseline": self.baseline,
            "representations": self.representations,
            "anchors": self.anchors,
            **({} if self.explicand.feature_ids is None else {"feature_ids": self.explicand.feature_ids}),
            **({} if (tree := self.explicand.tree) is None else {"leaves": tree.leaves, "merges": tree.merges}),
        }
        return write_safetensors(path, tensors, "run", header)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a run written by :meth:`save`; it answers targets and can be extended."""
        tensors, header = read_safetensors(path, _LAYOUT)
        with corrupt_file_errors(path):
            return cls._from_file(tensors, header)

    @classmethod
    def _from_file(cls, tensors: dict[str, Tensor], header: dict[str, Any]) -> Self:
        """Return the run that a file holds; raise if its parts do not fit together."""
        members = tensors.get("feature_ids")
        if members is not None and not -1 <= int(members.min()) <= int(members.max()) < members.numel():
            raise ValueError(f"it has {members.numel()} elements but features up to {int(members.max())}.")
        tree = MergeTree(tensors["leaves"], tensors["merges"]) if "leaves" in tensors and "merges" in tensors else None
        display = load_display(tensors, header.get("display"))
        explicand = Explicand(tensors["explicand"], display, tensors.get("feature_ids"), tree=tree)
        display.check_names(explicand.shape)
        plain = dict(header["method"])
        known = {**{type_name(kind): kind for kind in Removal.defined}, **RemovalMethod.defined}
        how = plain["baseline"]
        if not (isinstance(how, dict) and how.get("type") in known):
            # A user's class that is not imported, or cannot be written down: of a blend its pixels are all one needs.
            pixels = {"type": "Fixed", "image": {"type": "Tensor", "key": "baseline"}}
            plain["baseline"] = pixels if header["blends"] else {"type": "Forgotten", "name": header["removal"]}
        method: RemovalMethod = from_json_value(plain, tensors, known)
        compact = {name.removeprefix("mask_"): part for name, part in tensors.items() if name.startswith("mask_")}
        masks = method.restore(explicand.shape, compact)
        if len(masks) != len(tensors["representations"]) or len(tensors["anchors"]) < 2:
            raise ValueError(f"it has {len(masks)} masks but {len(tensors['representations'])} representations.")
        return cls(
            method=method,
            explicand=explicand,
            baseline=tensors["baseline"],
            masks=masks,
            representations=tensors["representations"],
            anchors=tensors["anchors"],
            encoder=str(header["encoder"]),
            space=str(header["space"]),
            stopped=str(header["stopped"]),
            rounding=float(header.get("rounding", ROUNDING)),
        )


def _powers_of_two(scores: Tensor) -> Tensor:
    """Return the size of each column of scores ``[n, k]``, as a power of two, by which nothing is rounded: ``[k]``."""
    exponents = torch.frexp(scores.abs().amax(0).double()).exponent
    return torch.ldexp(torch.ones(len(exponents), dtype=torch.float64), exponents)


# --- unfinished runs --------------------------------------------------------------------------------------------------------


class RunCheckpoint:
    """The representations of an unfinished run, in a file beside its place in the cache: a killed process loses seconds.

    The file is written every few seconds, but never so often that writing takes more than a twentieth of the time.
    """

    def __init__(self, path: Path, encoder: str) -> None:
        self.path = path
        self.encoder = encoder
        self._length = 0  # of what is in the file
        self._due = time.monotonic() + _MAX_LOST_SECONDS

    def earlier(self, masks: Masks) -> Tensor | None:
        """Return the representations that an unfinished run left, for as many of the first masks as it has in common."""
        tensors = load_or_quarantine(self.path, lambda path: read_safetensors(path, _UNFINISHED)[0])
        if tensors is None:
            return None
        representations: Tensor = tensors["representations"]
        self._length = len(representations)
        common = min(len(masks), len(representations))
        for name, ours in _for_each(masks, len(masks)).items():
            theirs = tensors.get(name)
            if theirs is None or theirs.shape[1:] != ours.shape[1:] or len(theirs) < common:
                return None
            differs = (theirs[:common] != ours[:common]).reshape(common, -1).any(1)
            common = int(differs.nonzero()[0]) if bool(differs.any()) else common
        return representations[:common]

    def note(self, masks: Masks, representations: Tensor, at_once: bool = False) -> None:
        """Write the representations of the first masks, if it is time to and the file has fewer."""
        begun, length = time.monotonic(), len(representations)
        if length <= self._length or not (at_once or begun >= self._due):
            return
        tensors = {"representations": representations, **_for_each(masks, length)}
        try:
            write_safetensors(self.path, tensors, _UNFINISHED.kind, {"encoder": self.encoder})
        except OSError:  # where runs cannot be kept, a warning says so at the end
            self._due = math.inf
            return
        now = time.monotonic()
        self._length, self._due = length, now + max(_MAX_LOST_SECONDS, 20 * (now - begun))

    def forget(self, length: int) -> None:
        """Delete the file, unless it has more than a run of this length."""
        if self._length <= length:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)


def _for_each(masks: Masks, count: int) -> dict[str, Tensor]:
    """Return those parts of the compact masks that have a row for each mask, for the first of them."""
    return {f"mask_{name}": part[:count] for name, part in masks.tensors.items() if len(part) == len(masks)}


# --- checks of what a method of a user's own returns ----------------------------------------------------------------------


def draw_checked(method: RemovalMethod, shape: tuple[int, ...], count: int | None = None) -> Masks:
    """Return the masks that a method draws; raise unless they are masks, and as many as they should be."""
    masks, name = method.draw(shape, count), type(method).__name__
    if not all(hasattr(masks, part) for part in ("__len__", "full", "tensors")):
        raise TypeError(
            f"{name}.draw must return masks: an object with len(masks), masks.full(rows) and masks.tensors. "
            f"Got {type(masks).__name__} instead."
        )
    if count is not None and len(masks) != count:
        raise ValueError(
            f"{name}.draw was asked for {count} masks and gave {len(masks)}; it must give as many as it is asked for, or say "
            "in an error that there are no more."
        )
    return masks


def _check_memory(method: RemovalMethod, masks: Masks, anchors: Tensor) -> None:
    """Raise if what a run keeps, and what its map is computed from, is more than the machine has; nothing is masked yet.

    That is a representation for each mask and each of K baselines, by ``anchors [1 + K, d]``, and for an efficient map of
    pixels squares of the number of coarse cells for each fold of a regression. Other maps take little.
    """
    (ends_count, dimension), features = anchors.shape, 0
    if isinstance(masks, GridMasks) and getattr(method, "estimator", "") == "efficient":
        features = prod(map(len, masks.geometry.pool))
    kept, regression = 4 * len(masks) * (ends_count - 1) * dimension, 3 * FOLDS * 8 * features**2
    there = _memory_of_machine()
    if kept + regression > there:
        over = f" over {features} cells" if features else ""
        versions = f"{ends_count - 1} times " if ends_count > 2 else ""
        advice = "a coarser grid" if regression > kept else "fewer samples"
        raise ValueError(
            f"{len(masks)} samples{over}, with representations of {versions}{dimension} numbers, need about "
            f"{(kept + regression) / 2**30:.0f} GB of memory; this machine has {there / 2**30:.0f}. Use {advice}."
        )


def _memory_of_machine() -> int:
    names = getattr(os, "sysconf_names", {})
    known = "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else 64 * 2**30


def _estimate_checked(
    method: RemovalMethod, masks: Masks, scores: Tensor, anchors: Tensor, shape: tuple[int, ...]
) -> Estimate:
    """Return a method's maps of scores ``[n, k]``; raise unless they are k, over features of this shape."""
    estimate, name = method.estimate(masks, scores, anchors), type(method).__name__
    advice = "must return an Estimate, cocoax.methods.Estimate(values)"
    check_kind(f"{name}.estimate", estimate, Estimate, advice)
    targets = scores.shape[1]
    for part, sizes in (("values", shape), ("standard_error", shape), ("neutral", ()), ("features", None)):
        given = getattr(estimate, part)
        if given is None and part != "values":
            continue
        check_kind(f"The {part} that {name}.estimate gives", given, Tensor, "must be a tensor")
        # Over a list a map may also be of one row, [k, 1, m].
        fits = given.ndim > 0 and len(given) == targets and (sizes is None or given.numel() == targets * prod(sizes))
        if not fits:
            wanted = [targets, *(["features"] if sizes is None else sizes)]
            raise ValueError(
                f"The {part} that {name}.estimate gives must be [{', '.join(map(str, wanted))}]: first the targets, of which "
                f"there {'is' if targets == 1 else 'are'} {targets}, then the features. Got {list(given.shape)} instead."
            )
    return estimate

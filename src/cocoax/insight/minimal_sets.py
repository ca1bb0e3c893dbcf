"""Minimal sets: the smallest set of parts that keeps a score, and the smallest whose removal takes it away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import check_count, check_finite, check_kind, check_number
from cocoax.encoders import Encoder
from cocoax.inputs import Display, Explicand
from cocoax.insight.subset_search import (
    SmallestSetSearch,
    Subsets,
    labels_of,
    names_of,
    touching_regions,
)
from cocoax.masking import MaskedEncoder, Masks
from cocoax.masking.masked_encoder import score_anchors, score_masked
from cocoax.methods import Run
from cocoax.methods.field import default_grid
from cocoax.methods.method import Askable, check_targets
from cocoax.results import Result
from cocoax.results.remarks import LITTLE_REMOVED, removed_of
from cocoax.show import Gallery, Table
from cocoax.targets import Target

_MASKS_PER_BLOCK = 256  # masks that are looked at in full size at a time
_SHARE = 0.3  # of the calls that the run took: what the search may take beside


@dataclass(frozen=True, eq=False)
class PartSet:
    """Some parts of an input, with the score that was measured with these parts alone, or without them.

    Attributes:
        parts: their numbers.
        names: what they are called.
        mask: whether a feature is in one of them, ``[*shape]``; of segments of a picture whether a pixel is, ``[H, W]``.
        score: of the input with these parts alone, or without them; by a forward pass.
        smaller: sets with one part fewer that were encoded and failed.
        irreducible: whether the set was encoded without each of its parts in turn, and failed each time.
        proven: whether all sets of one part fewer were encoded and failed.
        regions: the same parts in groups: those of a picture that touch are one region.

    """

    parts: tuple[int, ...]
    names: tuple[str, ...]
    mask: Tensor
    score: float
    smaller: int
    irreducible: bool
    proven: bool
    regions: tuple[tuple[int, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.parts)

    def __repr__(self) -> str:
        return f"PartSet({len(self)} parts, score {self.score:+.3f})"

    @property
    def findings(self) -> tuple[str, ...]:
        """The names of regions: the names of parts that touch, joined."""
        names = dict(zip(self.parts, self.names, strict=True))
        return tuple(" + ".join(names[part] for part in region) for region in self.regions) or self.names

    @property
    def certainty(self) -> str:
        """Whether a smaller set can exist, in a sentence."""
        if self.proven:
            return "no set of one part fewer does."
        tried = f"{self.smaller} sets of one part fewer were tried, and none does"
        if self.irreducible:
            return f"{tried}; it needs each of them."
        return f"{tried}; found, not minimal: a part of it may be enough."

    def describe(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "parts": list(self.parts),
            "names": list(self.names),
            "regions": list(self.findings),
            "score": self.score,
            "smaller_tried": self.smaller,
            "irreducible": self.irreducible,
            "proven": self.proven,
        }


@dataclass(frozen=True, eq=False)
class Minimal(Result):
    """The smallest set of parts that keeps a score at a level, and the smallest whose removal takes it below.

    Attributes:
        question: the target's name.
        kept: the set that is enough.
        removed: the set that is needed.
        level: the score that divides what is enough from what is not.
        score: of the whole input.
        emptied: of the input with everything removed.
        total: how many parts there are.
        calls: forward passes that the search took, those that verify the sets included.
        run_calls: how many the run had taken.
        display: how the input is shown.

    """

    file: ClassVar[str] = "minimal"
    question: str
    kept: PartSet
    removed: PartSet
    level: float
    score: float
    emptied: float
    total: int
    calls: int
    run_calls: int
    display: Display

    def __repr__(self) -> str:
        return (
            f"Minimal({self.question!r}: {len(self.kept)} of {self.total} parts keep {self.level:+.3f}, "
            f"{len(self.removed)} take it away)"
        )

    @property
    def summary(self) -> str:
        """The sufficient and the necessary parts, in a sentence."""
        kept, removed = (f"{len(found)} of {self.total} parts" for found in (self.kept, self.removed))
        keeps = "keeps" if len(self.kept) == 1 else "keep"
        names = [", ".join(map(repr, found.findings)) for found in (self.kept, self.removed)]
        return (
            f"{kept} alone {keeps} the score of {self.question!r} at {self.kept.score:+.3f}: {names[0]}; without {removed} "
            f"it falls to {self.removed.score:+.3f}: {names[1]}."
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """The scores, whether smaller sets can exist, and the number of forward passes."""
        scores = f"{self.score:+.3f}, and {self.emptied:+.3f} with everything removed"
        return (
            f"The score is {scores}; the level is {self.level:+.3f}.",
            f"Enough: {self.kept.certainty}",
            f"Needed: {self.removed.certainty}",
            *self._on_removal,
            f"{self.calls} forward passes, beside the {self.run_calls} of the run.",
        )

    @property
    def _on_removal(self) -> tuple[str, ...]:
        """A sentence about a removal that leaves most of the score, where it does."""
        if not removed_of(self.score, self.emptied) < LITTLE_REMOVED:
            return ()
        scores = f"{self.emptied:+.3f} of {self.score:+.3f}" if self.emptied > 0 else f"{self.emptied:+.3f}"
        return (f"With everything removed it still scores {scores}, so that little is needed to keep it.",)

    def facts(self) -> dict[str, Any]:
        """Return both sets and the scores."""
        own = ("question", "level", "score", "emptied", "total", "calls", "run_calls")
        sets = {"kept": self.kept.describe(), "removed": self.removed.describe()}
        return {**{name: getattr(self, name) for name in own}, **sets, "remarks": list(self.remarks)}

    def table(self) -> Table:
        """Return one row for each of the two sets."""
        rows = [
            (name, len(found), found.score, "; ".join(found.names), found.irreducible, found.proven)
            for name, found in (("enough alone", self.kept), ("needed", self.removed))
        ]
        return Table(("set", "parts", "score", "which", "irreducible", "proven"), tuple(rows))

    @property
    def title(self) -> str:
        """The heading of a page."""
        return f"What is enough, and what is needed: {self.question}"

    def views(self) -> list[Gallery]:
        """Return the input, the sufficient parts and the necessary parts."""
        titles = (
            f"{self.question}\nscore {self.score:+.3f}",
            f"enough: {len(self.kept)} of {self.total} parts\nalone {self.kept.score:+.3f}",
            f"needed: {len(self.removed)} of {self.total} parts\nwithout them {self.removed.score:+.3f}",
        )
        masks = (None, self.kept.mask, self.removed.mask)
        tiles = (self.display.parts_view(mask, title) for title, mask in zip(titles, masks, strict=True))
        return [Gallery(tuple(tiles), 3, inches=3.4)]


def minimal(
    run: Run,
    target: Askable,
    keep: float = 0.8,
    *,
    level: float | None = None,
    encoder: Encoder | None = None,
    calls: int | None = None,
) -> Minimal:
    """Find the smallest set of parts that keeps a score, and the smallest whose removal takes it below.

    Proposals come from the run, whose representations answer for many sets; every set that is returned was encoded.

    Args:
        run: of a method that removes parts; its parts are cells of its grid, its segments, words or columns.
        target: what is asked.
        keep: the share of the way from the score of nothing to that of the whole input, between 0 and 1.
        level: the score itself, in place of ``keep``.
        encoder: the one that made the run; not needed as long as that one is in memory.
        calls: forward passes that both searches together may take, at least 2 (for each baseline); by default 30 % of those
            of the run, and those that check the sets that were found without each of their parts.

    """
    check_kind("The first argument", run, Run, "must be a run, as cocoax.KernelShap().run(encoder, input) makes one")
    if isinstance(target, list | tuple | Mapping):
        raise TypeError("cocoax.minimal takes one target. Got several instead; ask for each.")
    asked = check_targets(target, encoder)[0]
    asked.check_space(run.space)
    maker = run.made_by(encoder)
    ends = score_anchors([asked], run.anchors)[:, 0]
    whole, emptied = float(ends[0]), float(ends[1])
    wanted = _level(asked, keep, level, whole, emptied)
    each = len(run.anchors) - 1  # a set is encoded once under every baseline
    if calls is not None:
        check_count("calls", calls, 2 * each)
    allowed = max(2, int(_SHARE * len(run))) if calls is None else calls // each
    game = _PartGame(run, asked, maker)
    checked = calls is None
    needed = game.smallest(wanted, allowed // 2, removing=True, checked=checked)
    enough = game.smallest(wanted, max(1, allowed - needed[1]), removing=False, checked=checked)
    taken = each * (needed[1] + enough[1])
    sets = enough[0], needed[0]
    return Minimal(asked.name, *sets, wanted, whole, emptied, game.parts, taken, each * len(run), run.explicand.display)


def _level(target: Target, keep: float, level: float | None, whole: float, emptied: float) -> float:
    """Return the score that a set of parts must keep; raise if the input's own score does not reach it."""
    check_number("keep", keep)
    if not 0 < keep <= 1:
        raise ValueError(f"The 'keep' parameter must lie above 0 and be at most 1. Got {keep!r} instead.")
    if not whole > emptied:
        raise ValueError(
            f"The score of {target.name!r} is {whole:+.3f}, and {emptied:+.3f} with everything removed: nothing in the input "
            "raises it, so there is nothing to keep. Ask the opposite (-target), or use another baseline."
        )
    if level is None:
        return min(whole, emptied + float(keep) * (whole - emptied))
    check_finite("The 'level' parameter", level)
    if not emptied < level <= whole:
        raise ValueError(
            f"The 'level' parameter must lie above {emptied:+.3f}, the score with everything removed, and be at most "
            f"{whole:+.3f}, that of the whole input. Got {level:+.3f} instead."
        )
    return float(level)


class _PartGame:
    """Sets of parts of a run's input and their scores: those of the run, and others by forward passes."""

    def __init__(self, run: Run, target: Target, encoder: Encoder) -> None:
        self.run, self.target = run, target
        self.masked = MaskedEncoder(
            encoder, run.explicand, run.method.baseline, baseline_input=run.baseline, anchors=run.anchors
        )
        self.labels = _parts_of(run)
        self.places = _at_places(self.labels, run.explicand)
        self.parts = int(self.labels.max()) + 1
        self.names = names_of(self.places, run.explicand.display)
        ends = torch.stack([torch.ones(self.parts), torch.zeros(self.parts)]).double()
        self.kept = torch.cat([ends, _kept_shares(run.masks, self.labels)]).numpy()
        known = score_masked([target], run.representations, run.anchors)[:, 0]
        self.scores = torch.cat([score_anchors([target], run.anchors)[:, 0], known]).detach().double().numpy()

    def play(self, kept: np.ndarray) -> np.ndarray:
        masks = Subsets(self.labels, torch.from_numpy(kept.astype(np.uint8)))
        representations = torch.cat(list(self.masked.encode(masks, batch_size=self.run.method.batch_size)))
        scores: np.ndarray = score_masked([self.target], representations, self.run.anchors)[:, 0].detach().double().numpy()
        return scores

    def smallest(self, level: float, budget: int, *, removing: bool, checked: bool) -> tuple[PartSet, int]:
        """Return the smallest set that is enough, or needed, and how many sets were encoded for that.

        With ``checked`` it is encoded without each of its parts, even if the search has used up the budget.
        """

        def changed(kept: np.ndarray) -> np.ndarray:
            return 1 - kept if removing else kept

        # Falling to the level is not falling below it.
        def gains(scores: np.ndarray) -> np.ndarray:
            gained = level - scores if removing else scores - level
            return np.where(gained == 0, -np.finfo(float).tiny, gained) if removing else gained

        search = SmallestSetSearch(
            lambda sets: gains(self.play(changed(sets))), changed(self.kept), gains(self.scores), budget - 1
        )
        chosen = search.smallest()
        assert chosen is not None  # all parts together succeed
        chosen, irreducible = search.reduced(chosen, checked)
        score = float(self.play(changed(chosen[None]))[0])  # the run may have known it; here it is encoded
        numbers = tuple(np.flatnonzero(chosen).tolist())
        size = len(numbers)
        found = PartSet(
            numbers,
            tuple(self.names[number] for number in numbers),
            torch.from_numpy(np.append(chosen, 0).astype(bool))[self.places],
            score,
            search.failed.get(size - 1, 0) if size > 1 else 1,
            irreducible,
            search.tried_all(size - 1),
            touching_regions(numbers, self.places),
        )
        return found, search.calls + 1


def _parts_of(run: Run) -> Tensor:
    """Return which part each feature of a run's explicand is in, ``[*shape]``.

    Parts are the segments of its masks where they have some; else words, columns and the like are parts of their own, and
    pixels belong to the cells of the masks' grid.
    """
    segments: Tensor | None = getattr(run.masks, "segments", None)
    shape = run.explicand.shape
    if segments is not None:
        return segments
    return labels_of(shape, default_grid(run.method, shape, 1) if len(shape) == 2 else 1)


def _kept_shares(masks: Masks, labels: Tensor) -> Tensor:
    """Return how much of each part every mask keeps, ``[n, parts]``; exactly 0 or 1 where masks keep whole parts."""
    member = torch.nn.functional.one_hot(labels.flatten()).double()
    rows = (masks.full(slice(start, start + _MASKS_PER_BLOCK)) for start in range(0, len(masks), _MASKS_PER_BLOCK))
    kept = torch.cat([full.flatten(1).double() @ member for full in rows])
    return kept / member.sum(0)  # divided last: a sum of n ones is n, but one of n times 1/n may miss 1


def _at_places(labels: Tensor, explicand: Explicand) -> Tensor:
    """Return the part at each place of the display: of each pixel of a picture (-1 for none), else of each feature."""
    ids = explicand.feature_ids
    if ids is None or ids.ndim != 2 or not explicand.display.at_places:
        return labels
    return torch.cat([labels, labels.new_tensor([-1])])[ids]

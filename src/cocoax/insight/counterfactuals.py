"""Counterfactuals: the smallest change of an input that flips the sign of a target.

Parts are exchanged with distractors, inputs that score lower (Goyal et al. 2019). The kind of input says what a part is and
what exchanging it means; distractors' parts are offered by how much they lower the score in short runs; every counterfactual
that is returned was encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import check_count
from cocoax.encoders import Encoder
from cocoax.inputs import Explicand
from cocoax.inputs.base import naming_input
from cocoax.insight.exchange import Change, Exchange, exchange_type
from cocoax.insight.subset_search import SmallestSetSearch
from cocoax.methods import KernelShap
from cocoax.methods.method import Askable, check_encoder, check_targets
from cocoax.results import ResultList
from cocoax.show import Gallery, Table, View
from cocoax.targets import Target

_GRID = (7, 7)


@dataclass(frozen=True, eq=False)
class Flip:
    """One change of an input that flips the sign of the target.

    Attributes:
        changes: the parts that change, and what they become.
        score: after the change, by a forward pass.
        result: the changed input, as users hold it: a picture of what the encoder sees, a text, a row.
        choice: which offer each part takes, 0 for none.
        exchange: what was offered.
        irreducible: whether the change was encoded without each of its parts in turn, and never flipped the target.

    """

    changes: tuple[Change, ...]
    score: float
    result: Any = field(repr=False)
    choice: np.ndarray = field(repr=False)
    exchange: Exchange = field(repr=False)
    irreducible: bool = False

    def __len__(self) -> int:
        return len(self.changes)

    def __repr__(self) -> str:
        return f"Flip({len(self)} changes, score {self.score:+.3f})"


@dataclass(frozen=True, eq=False)
class Counterfactual(ResultList[Flip]):
    """The smallest changes of an input that were found to flip the sign of a target, the smallest first.

    Attributes:
        question: the target's name.
        score: of the input as it is.
        flips: the changes.
        asked: how many different ones were asked for.
        calls: forward passes that it took.

    """

    file: ClassVar[str] = "counterfactual"
    question: str
    score: float
    flips: tuple[Flip, ...]
    asked: int
    calls: int

    @property
    def parts(self) -> tuple[Flip, ...]:
        """The changes."""
        return self.flips

    def __repr__(self) -> str:
        best = self.flips[0]
        return f"Counterfactual({self.question!r}: {len(best)} changes, {self.score:+.3f} → {_signed(best.score)})"

    @property
    def changes(self) -> tuple[Change, ...]:
        """Those of the smallest."""
        return self.flips[0].changes

    @property
    def result(self) -> Any:
        """The input after the smallest change."""
        return self.flips[0].result

    @property
    def summary(self) -> str:
        """The smallest change, in a sentence."""
        return f"The score of {self.question!r} is {self.score:+.3f}. {self._words(self.flips[0])}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """The other changes, and what it took to find them."""
        remarks = [self._words(flip) for flip in self.flips[1:]]
        if len(self) < self.asked:
            remarks.append(f"{self.asked} different ones were asked for; no more than {len(self)} were found.")
        return (*remarks, f"{self.calls} forward passes.")

    def _words(self, flip: Flip) -> str:
        changed = f"{len(flip)} of {len(flip.choice)} {flip.exchange.noun}s"
        known = "" if flip.irreducible else " (found, not minimal: some of them may be enough)"
        return f"Changing {changed}{known} makes it {_signed(flip.score)}: {'; '.join(flip.exchange.findings(flip.choice))}."

    def facts(self) -> dict[str, Any]:
        """Return the scores and all changes."""
        flips = [
            {
                "score": flip.score,
                "irreducible": flip.irreducible,
                "changes": [change._asdict() for change in flip.changes],
                "result": _plain(flip.result),
            }
            for flip in self.flips
        ]
        return {"question": self.question, "score": self.score, "calls": self.calls, "counterfactuals": flips}

    def table(self) -> Table:
        """Return one row for each part that changes."""
        rows = [(number, flip.score, *change) for number, flip in enumerate(self.flips, start=1) for change in flip.changes]
        return Table(("counterfactual", "score", "part", "before", "after"), tuple(rows))

    @property
    def title(self) -> str:
        """The heading of a page."""
        return f"What would flip it: {self.question}"

    def views(self) -> list[View]:
        """Return for each change the input, where its parts come from, and what comes out."""
        tiles: list[View] = []
        for flip in self.flips:
            changed = f"{len(flip)} of {len(flip.choice)} {flip.exchange.noun}s change"
            titles = (f"score {self.score:+.3f}", changed, f"score {_signed(flip.score)}")
            tiles += flip.exchange.views(flip.choice, titles)
        return [Gallery(tuple(tiles), 3, inches=3.4, title=self.title)]


def check_above(name: str, score: float) -> None:
    """Raise if a score is not above 0."""
    if score <= 0:
        raise ValueError(
            f"The score of {name!r} is {score:+.3f}, so there is nothing to flip: it is not above 0. "
            "Ask the opposite (-target), or explain another input."
        )


def _signed(score: float) -> str:
    """Return a score with its sign, which rounding to three decimals may hide."""
    return f"{score:+.3f}" if abs(score) >= 0.0005 else f"{score:+.1e}"


def _plain(result: Any) -> Any:
    """Return a text or a row as JSON has it; a picture is in the drawing."""
    if isinstance(result, np.ndarray):
        return result.tolist()
    return result if isinstance(result, str) else None


def counterfactual(
    encoder: Encoder,
    explicand: Any,
    target: Askable,
    distractors: Any = (),
    *,
    count: int = 1,
    calls: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Counterfactual:
    """Find the smallest change of an input that flips the sign of a target, by exchanging parts with distractors.

    Args:
        encoder: what encodes.
        explicand: the input; its score must be above 0.
        target: what is asked; a contrastive one, whose sign says which side an input is on.
        distractors: inputs of the same kind that score lower, such as those of the foil. Pictures give cells, texts words
            (without distractors words are deleted), rows the range that columns may change in (by default that of the
            background).
        count: how many different ones; each does without the most effective part of those before it.
        calls: forward passes for each search; by default four for each part, and at least 60, and those that check the change
            without each of its parts.
        seed: of everything random.
        options: what the kind of input takes: ``grid=(rows, columns)`` for pictures; names in ``fixed=``, ``integer=`` and
            ``categorical=`` for rows; words in ``fixed=`` for texts.

    """
    check_encoder(encoder)
    check_count("count", count, 1, 100)
    if calls is not None:
        check_count("calls", calls, 1)
    search = _ExchangeSearch(encoder, encoder.explicand(explicand), check_targets(target, encoder)[0], seed)
    check_above(search.target.name, search.score)
    exchange = search.exchange(distractors, options)
    offers = search.single_changes(exchange)
    flips: list[Flip] = []
    allowed: np.ndarray = np.array(exchange.offered.any(1))
    for _ in range(count):
        flip = search.smallest(exchange, offers, allowed, calls)
        if flip is None:
            break
        flips.append(flip)
        changed = np.flatnonzero(flip.choice)
        strongest = changed[np.argmin(offers[changed, flip.choice[changed] - 1])]
        allowed = allowed & (np.arange(len(allowed)) != strongest)
    if not flips:
        raise ValueError(
            f"No exchange flips the score of {search.target.name!r}, which is {search.score:+.3f}: with everything exchanged "
            f"that may be, the lowest is {search.lowest:+.3f}. Give distractors that score lower, or fix fewer parts."
        )
    return Counterfactual(search.target.name, search.score, tuple(sorted(flips, key=len)), count, search.calls)


class _ExchangeSearch:
    """A search for the smallest exchange: an encoder, an explicand and a target, with a count of forward passes."""

    def __init__(self, encoder: Encoder, explicand: Explicand, target: Target, seed: int) -> None:
        target.check_space(encoder.space)
        self.encoder, self.explicand, self.target, self.seed = encoder, explicand, target, seed
        self.own = encoder.encode([explicand.tensor])[0]
        self.score = float(target.score(self.own[None], self.own)[0])
        self.calls, self.lowest = 1, self.score
        self.grid = _GRID

    def scores(self, prepared: Sequence[Tensor]) -> np.ndarray:
        """Return the scores of prepared inputs, by forward passes."""
        self.calls += len(prepared)
        size = self.encoder.batch_size(self.explicand.tensor)
        parts = [self.encoder.encode(prepared[start : start + size]) for start in range(0, len(prepared), size)]
        scores = self.target.score(torch.cat(parts), self.own)
        values: np.ndarray = scores.detach().double().numpy()
        return values

    def exchange(self, distractors: Any, options: dict[str, Any]) -> Exchange:
        """Return the exchange with distractors, the lowest scores first."""
        kind = exchange_type(self.encoder.inputs, self.explicand)
        for name in options:
            if name not in kind.options:
                known = ", ".join(kind.options)
                raise TypeError(f"Counterfactuals of this kind of input take {known}. Got {name!r} instead.")
        grid = options.get("grid", _GRID)
        self.grid = (grid, grid) if isinstance(grid, int) else tuple(grid)
        options = {**options, "grid": self.grid} if "grid" in kind.options else options
        none = distractors is None or (isinstance(distractors, list | tuple) and not distractors)
        items = [] if none else self.encoder.as_list(distractors)
        offered = []
        for index, item in enumerate(items):
            with naming_input(index, "Distractor"):
                distractor = self.encoder.explicand(item)
                if kind.one_shape and distractor.tensor.shape != self.explicand.tensor.shape:
                    shapes = f"{list(distractor.tensor.shape)} but the input {list(self.explicand.tensor.shape)}"
                    raise ValueError(
                        f"It has shape {shapes}; parts are exchanged between inputs of one shape. Cut or resize them alike, "
                        "as the encoder's preprocess= can."
                    )
                offered.append(distractor)
        if offered:
            scores = self.scores([distractor.tensor for distractor in offered])
            offered = [offered[index] for index in np.argsort(scores, kind="stable")]
        return kind(self.encoder.inputs, self.explicand, offered, self.importance, **options)

    def importance(self, explicand: Explicand) -> Tensor:
        """Return how much each part of an input raises the score, from a short run of KernelShap."""
        parts = explicand.shape[0] if len(explicand.shape) == 1 else self.grid[0] * self.grid[1]
        method = KernelShap(samples=max(4 * parts, 16), grid=self.grid, seed=self.seed)
        run = method.run(self.encoder, explicand, progress=False)
        self.calls += len(run) + len(run.anchors)
        attribution = run.explain(self.target)
        assert attribution.features is not None
        return attribution.features

    def single_changes(self, exchange: Exchange) -> np.ndarray:
        """Return the score after every offer alone, ``[parts, offers]``; infinite where there is none."""
        places = np.argwhere(exchange.offered)
        choices = np.zeros((len(places), len(exchange.names)), int)
        choices[np.arange(len(places)), places[:, 0]] = places[:, 1] + 1
        scores = np.full(exchange.offered.shape, np.inf)
        if len(places):
            scores[tuple(places.T)] = self.chosen(exchange, choices)
        return scores

    def chosen(self, exchange: Exchange, choices: np.ndarray) -> np.ndarray:
        """Return the scores of choices; impossible choices have the score of the explicand."""
        possible = exchange.possible(choices)
        scores = np.full(len(choices), self.score)
        if possible.any():
            scores[possible] = self.scores(exchange.made(choices[possible]))
            self.lowest = min(self.lowest, float(scores.min()))  # of exchanges, not of distractors
        return scores

    def smallest(self, exchange: Exchange, offers: np.ndarray, allowed: np.ndarray, calls: int | None) -> Flip | None:
        """Return the smallest change of allowed parts that flips the score; None if there is none."""
        best = np.where(allowed, offers.argmin(1) + 1, 0)
        arranged = [np.where(allowed, choice, 0) for choice in exchange.same_offer_choices()]
        begun = [self._prefixes(exchange, offers, choice) for choice in [best, *arranged] if choice.any()]
        if not begun:
            return None
        # The arrangement that flips the score with the fewest of its most effective parts.
        choice, sets, scores = min(begun, key=lambda each: (_soonest(each[1], each[2]), each[2].min()))
        search = SmallestSetSearch(
            lambda changed: _gains(self.chosen(exchange, changed * choice)),
            sets,
            _gains(scores),
            max(60, 4 * len(choice)) if calls is None else calls,
            choice > 0,
        )
        found = search.smallest()
        if found is None:
            return None
        found, irreducible = search.reduced(found, always=calls is None)
        flipped = found.astype(int) * choice
        exchange = exchange.closer(flipped, lambda made: self.scores(made) < 0)
        score = float(self.chosen(exchange, flipped[None])[0])
        return Flip(tuple(exchange.changes(flipped)), score, exchange.outcome(flipped), flipped, exchange, irreducible)

    def _prefixes(
        self, exchange: Exchange, offers: np.ndarray, choice: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return an arrangement with sets of its parts and their scores: each part alone, and growing sets of the best."""
        parts = np.flatnonzero(choice)
        alone = offers[parts, choice[parts] - 1]
        order = parts[np.argsort(alone, kind="stable")]
        sizes = np.unique(np.geomspace(2, len(parts), 8).round().astype(int)) if len(parts) > 1 else np.zeros(0, int)
        sets = np.zeros((1 + len(parts) + len(sizes), len(choice)), np.uint8)
        sets[1 + np.arange(len(parts)), parts] = 1
        for row, size in enumerate(sizes, start=1 + len(parts)):
            sets[row, order[:size]] = 1
        longer = self.chosen(exchange, sets[1 + len(parts) :] * choice) if len(sizes) else np.zeros(0)
        return choice, sets, np.concatenate([[self.score], alone, longer])


def _gains(scores: np.ndarray) -> np.ndarray:
    """Return how far scores lie below 0; a score of 0 has not flipped."""
    return np.where(scores == 0, -np.finfo(float).tiny, -scores)


def _soonest(sets: np.ndarray, scores: np.ndarray) -> int:
    """Return the size of the smallest set that flips the score; one more than there are parts if none does."""
    return int(sets[scores < 0].sum(1).min()) if (scores < 0).any() else sets.shape[1] + 1

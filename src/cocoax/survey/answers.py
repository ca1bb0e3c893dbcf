"""The answer of a whole data set to one question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np
import torch
from torch import Tensor

from cocoax.cautions import caution
from cocoax.checks import check_count, check_kind
from cocoax.inputs import Names, Picture
from cocoax.questions import Question
from cocoax.references import Reference
from cocoax.results import Attribution, ResultList
from cocoax.seeding import stream
from cocoax.show import Bars, Effects, Gallery, HeatMap, Histogram, Table, View
from cocoax.show.views import value_label
from cocoax.survey.items import Scalar, plain_value
from cocoax.targets import Target, similarity_to

if TYPE_CHECKING:
    from cocoax.survey.index import Index


_OWN_COLUMNS = ("id", "place", "score", "standard_error", "map", "strongest_cell", "representation", "vector")
_MAX_MEAN_MAPS = 5000  # maps that are all read for a mean map
_SAMPLED_MAPS = 256  # maps that the error of a mean over more is estimated from


@dataclass(frozen=True, eq=False)
class RankedRow:
    """One input at its place among all.

    Attributes:
        id, row: which one.
        place: from 1 for the highest score.
        attribution: its map, with the score.
        columns: metadata.

    """

    id: str
    row: int
    place: int
    attribution: Attribution
    columns: Mapping[str, Scalar]


@dataclass(frozen=True, eq=False)
class _Part:
    """The effect of a word, or of a column of a table, on the score, over all inputs that have it.

    Attributes:
        name: the word or column.
        count: how often it occurs.
        mean: of its values.
        standard_error: of the mean; None where it occurs once.

    """

    name: str
    count: int
    mean: float
    standard_error: float | None


@dataclass(frozen=True, eq=False)
class Survey(ResultList[RankedRow]):
    """The answer of all inputs, or of some, to one question; made by :meth:`cocoax.survey.Index.ask`.

    Attributes:
        index: what was asked.
        question: in words.
        target: what was explained.
        rows: which rows of the index.
        scores: of each, ``[n]``.
        score_parts: similarity to what they should be like, and to what not, ``[n]`` each; by name.
        top: how many of the highest and the lowest are shown.

    """

    file: ClassVar[str] = "survey"
    index: Index
    question: str
    target: Target
    rows: np.ndarray
    scores: np.ndarray
    score_parts: Mapping[str, np.ndarray]
    top: int

    def __repr__(self) -> str:
        best = self.index.ids[self.rows[self.order[0]]]
        return f"Survey({self.question!r}, {len(self.rows)} {self.index.manifest.nouns}, highest: {best!r})"

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[RankedRow]:
        for start in range(0, len(self), _SAMPLED_MAPS):
            yield from self._placed(range(start, min(start + _SAMPLED_MAPS, len(self))))

    @overload
    def __getitem__(self, index: int) -> RankedRow: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[RankedRow]: ...

    def __getitem__(self, index: int | slice) -> RankedRow | Sequence[RankedRow]:
        places = range(len(self))[index]
        return self._placed([places])[0] if isinstance(places, int) else self._placed(places)

    @property
    def parts(self) -> Sequence[RankedRow]:
        """All inputs with their maps, highest score first."""
        return list(self)

    @cached_property
    def order(self) -> np.ndarray:
        """Places among ``rows``, highest score first."""
        return np.argsort(-self.scores, kind="stable")

    @cached_property
    def highest(self) -> list[RankedRow]:
        """The inputs with the highest scores, highest first, with their maps."""
        return self._placed(range(min(self.top, len(self))))

    @cached_property
    def lowest(self) -> list[RankedRow]:
        """The inputs with the lowest scores, lowest first; of a few, the same as the highest."""
        count = len(self.rows)
        return self._placed(range(count - 1, max(count - 1 - self.top, -1), -1))

    def _placed(self, places: Sequence[int]) -> list[RankedRow]:
        rows = [int(self.rows[self.order[place]]) for place in places]
        placed = []
        for place, row, attribution in zip(places, rows, self.index.attributions(rows, self.target), strict=True):
            known = {name: plain_value(values[row]) for name, values in self.index.columns.items()}
            placed.append(RankedRow(self.index.ids[row], row, place + 1, attribution, known))
        return placed

    @cached_property
    def maps(self) -> Sequence[Tensor]:
        """The map of each row, relative to a cell that makes no difference; all fields are read for it."""
        return self.index.maps(self.target, self.rows)

    @cached_property
    def mean(self) -> Attribution | None:
        """The mean map, with the standard error over inputs; None where maps have different shapes."""
        if self.index.cells is None:
            return None
        everything = len(self.index) > _MAX_MEAN_MAPS and np.array_equal(self.rows, np.arange(len(self.index)))
        whole = self.index.mean_map(self.target) if everything else None  # of the sums in the heads of files
        rows = self.rows
        if whole is not None:
            rows = np.sort(stream(0).choice(self.rows, _SAMPLED_MAPS, replace=False))
        maps = torch.stack(list(self.maps if whole is None else self.index.maps(self.target, rows))).double()
        values = maps.mean(0) if whole is None else whole
        error = maps.std(0) / len(self.rows) ** 0.5 if len(maps) > 1 else None
        display = Picture() if maps.ndim == 3 else self._names()
        return Attribution(
            values=values.float(),
            score=float(self.scores.mean()),
            baseline_score=float("nan"),
            standard_error=None if error is None else error.float(),
            metadata={"target": self.question, "method": f"mean over {len(self.rows)} {self.index.manifest.nouns}"},
            display=display,
        )

    def _names(self) -> Names:
        (display,) = self.index.displays([int(self.rows[0])])
        own = None if display is None else display.names
        return Names(own or tuple(str(number + 1) for number in range(len(self.maps[0]))))

    @cached_property
    def words(self) -> list[_Part]:
        """The mean effect of each word or column, strongest first; capital letters count as small ones."""
        sums: dict[str, list[float]] = defaultdict(list)
        for display, values in zip(self.index.displays(self.rows.tolist()), self.maps, strict=True):
            if display is None or display.names is None:
                return []
            for name, value in zip(display.names, values.flatten().tolist(), strict=True):
                sums[name.lower()].append(value)
        parts = []
        for name, own in sums.items():
            error = float(np.std(own, ddof=1)) / len(own) ** 0.5 if len(own) > 1 else None
            parts.append(_Part(name, len(own), float(np.mean(own)), error))
        return sorted(parts, key=lambda part: -abs(part.mean) * part.count**0.5)

    @property
    def title(self) -> str:
        """The question."""
        return self.question

    @property
    def summary(self) -> str:
        """The number of inputs, and the range of their scores."""
        failed = f"; {len(self.index.failed)} inputs of the index could not be explained" if self.index.failed else ""
        return (
            f"{len(self.rows)} {self.index.manifest.nouns}, explained by {self.index.manifest.encoder}. Scores lie between "
            f"{self.scores.min():+.3f} and {self.scores.max():+.3f}, mean {self.scores.mean():+.3f}{failed}."
        )

    def views(self, most: int | None = None) -> list[View]:
        """Return the mean map or the strongest words, histograms of scores, and the highest and lowest inputs.

        Of highest and lowest there are at most ``most``; no input stands on both sides. Their maps have one scale.
        """
        half = max(1, len(self.rows) // 2)
        highest, lowest = self.highest[:half][:most], self.lowest[: len(self.rows) - half][:most]
        shown = [*highest, *lowest]
        limit = float(np.quantile([float(placed.attribution.values.abs().max()) for placed in shown], 0.9)) or 1.0
        views = self._overview()
        for title, placed in (("Highest", highest), ("Lowest", lowest)):
            if placed:
                tiles = tuple(map(_tile, placed))
                scaled = all(isinstance(tile, HeatMap) for tile in tiles)  # they have a colour bar
                note = "" if scaled else f"The strongest colour is a change of the score of {limit:.3g}, everywhere."
                views.append(Gallery(tiles, limit=limit, scale="all", colour_bars=True, title=title, note=note))
        return [*views, self._listed(shown)]

    def _overview(self) -> list[View]:
        mean, views = self.mean, list[View]()
        if mean is not None and mean.values.ndim == 2:
            map_ = HeatMap(mean.effects, smooth=False, title="Where the heat lies on average", note=mean.view().note)
            views.append(map_)
        words = self.words[:20] if mean is None or mean.values.ndim == 1 else []
        if words:
            errors = np.array([np.nan if part.standard_error is None else part.standard_error for part in words])
            effects = Effects(np.array([part.mean for part in words]), errors, unit="mean change of the score if kept")
            names = tuple(f"{part.name} ({part.count} times)" for part in words)
            views.append(Bars(effects, names, "given", title="What raises and lowers it on average"))
        scores = {"score": self.scores, **self.score_parts}
        views += [Histogram({"": values}, title=name[:60]) for name, values in scores.items()]
        return [Gallery(tuple(views), min(len(views), 4), colour_bars=True, inches=3.4)]

    def _listed(self, shown: Sequence[RankedRow]) -> Table:
        """Return some inputs as rows."""
        places = {int(row): number for number, row in enumerate(self.rows)}
        rows = tuple(
            (
                placed.place,
                placed.id,
                placed.attribution.score,
                *(float(values[places[placed.row]]) for values in self.score_parts.values()),
                *placed.columns.values(),
            )
            for placed in shown
        )
        return Table(("place", "id", "score", *self.score_parts, *map(table_column, self.index.columns)), rows, title="Table")

    def table(self) -> Table:
        """Return one row for each input, highest first: id, score and its parts, the columns, and the strongest cell."""
        rows = []
        for number in self.order.tolist():
            row = int(self.rows[number])
            cell = np.unravel_index(int(self.maps[number].argmax()), self.maps[number].shape)
            parts = [float(values[number]) for values in self.score_parts.values()]
            known = [plain_value(values[row]) for values in self.index.columns.values()]
            strongest = [int(at) for at in cell] if len(cell) > 1 else int(cell[0])
            rows.append((self.index.ids[row], float(self.scores[number]), *parts, *known, strongest))
        return Table(
            ("id", "score", *self.score_parts, *map(table_column, self.index.columns), "strongest_cell"), tuple(rows)
        )

    def facts(self) -> dict[str, Any]:
        """Return the question, the spread of scores, the mean map, the highest and lowest."""
        quantiles = {str(level): float(np.quantile(self.scores, level)) for level in (0.05, 0.25, 0.5, 0.75, 0.95)}
        mean = self.mean
        return {
            "question": self.question,
            "index": str(self.index.folder),
            "inputs": len(self.rows),
            "failed": len(self.index.failed),
            "score": {"mean": float(self.scores.mean()), **quantiles},
            "mean_map": None if mean is None else mean.values.tolist(),
            "mean_map_standard_error": None if mean is None or mean.standard_error is None else mean.standard_error.tolist(),
            "highest": [_plain(placed) for placed in self.highest],
            "lowest": [_plain(placed) for placed in self.lowest],
        }

    def _repr_html_(self) -> str:
        from cocoax.show import html

        return html.fragment(self.views(6), heading=self.title, sentences=(self.summary,))


def _tile(placed: RankedRow) -> View:
    """Return the tile of one input: its map, score and metadata."""
    known = ", ".join(f"{value}" for value in placed.columns.values() if value is not None)[:80]
    note = " · ".join(filter(None, (placed.id, known)))
    return replace(placed.attribution.view(), title=value_label(placed.attribution.score, None), note=note, alt=placed.id)


def _plain(placed: RankedRow) -> dict[str, Any]:
    attribution = placed.attribution
    return {
        "id": placed.id,
        "place": placed.place,
        "score": attribution.score,
        "standard_error": None if attribution.standard_error is None else float(attribution.standard_error.flatten()[0]),
        **{table_column(name): value for name, value in placed.columns.items()},
        "map": [
            [float(f"{value:.4g}") for value in row]
            for row in attribution.values.reshape(len(attribution.values), -1).tolist()
        ],
    }


def table_column(column: str) -> str:
    """Return the name of a column of the data, with a prefix if a table of results has a column of that name."""
    return f"column_{column}" if column in _OWN_COLUMNS or column.startswith("to ") else column


def answer(index: Index, question: str | Question | Target, rows: np.ndarray, top: int) -> Survey:
    """Return the answer of some rows to a question."""
    check_count("top", top, 1)
    name, target, parts = parse_question(index, question)
    values = {key: index.scores(part, rows) for key, part in parts.items()}
    scores = index.scores(target, rows)
    return Survey(index, name, target, rows, scores, values if len(values) > 1 else {}, top)


def _caution_about_columns(index: Index, question: Question) -> None:
    """Warn of captions such as ``label=dog`` where the index has a column of that name."""
    for text in (*question.like.captions, *question.unlike.captions):
        name, equals, value = (part.strip() for part in text.partition("="))
        if equals and name in index.columns:
            caution(
                "column",
                text,
                f"{text!r} is taken as words. Rows whose {name} is {value!r} are index.reference({{{name!r}: {value!r}}}); "
                f"where={{{name!r}: {value!r}}} (--where {name}={value}) asks them alone.",
            )


def parse_question(index: Index, question: str | Question | Target | Reference) -> tuple[str, Target, dict[str, Target]]:
    """Return the name of a question, its target and the parts of that."""
    if isinstance(question, Reference):
        question = similarity_to(question, index.similarity)
    if isinstance(question, Target):
        parts = {}
        for number, reference in enumerate(question.weights, 1):
            part = f"to {'itself' if reference is None else reference.name}"
            part = f"{part} ({number})" if part in parts else part
            parts[part] = Target({reference: 1.0}, question.similarity)
        return question.name, question, parts
    check_kind("A question", question, (str, Question), "must be a text, a Question, a Target or a Reference")
    words = Question.parse(question, index.similarity) if isinstance(question, str) else question
    _caution_about_columns(index, words)
    encoded = not any((side.captions or side.images) for side in (words.like, words.unlike))
    corpus, foil = words.parts(None if encoded else index.encoder)  # type: ignore[arg-type]  # nothing is encoded with it
    parts = {f"to {words.like_name}": corpus}
    if foil is not None:
        parts[f"to {words.unlike.name}"] = foil
    return words.name, words.difference(corpus, foil), parts

"""The answer of a whole data set to one question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import check_count, check_kind
from cocoax.inputs import Names, Picture
from cocoax.questions import Question
from cocoax.references import Reference
from cocoax.results.attribution import Attribution
from cocoax.seeding import stream
from cocoax.store import atomic_write, to_json, write_text
from cocoax.survey.items import Scalar, plain
from cocoax.targets import Target, similarity_to

if TYPE_CHECKING:
    import pandas as pd

    from cocoax.survey.index import Index


FIGURES = ("id", "place", "score", "standard_error", "map", "hottest_cell", "representation", "vector")
MANY = 5000  # maps that are all read to see where the heat lies on average
SOME = 256  # of more, so many tell how much they differ


@dataclass(frozen=True, eq=False)
class RankedRow:
    """One input at its place among all.

    Attributes:
        id, row: which one.
        place: from 1 for the highest score.
        attribution: its map, with the score.
        columns: what is known about it.

    """

    id: str
    row: int
    place: int
    attribution: Attribution
    columns: Mapping[str, Scalar]


@dataclass(frozen=True, eq=False)
class Part:
    """What a word, or a column of a table, does for the score over all inputs that have it.

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
class Survey:
    """The answer of all inputs, or of some, to one question; made by :meth:`cocoax.survey.Index.ask`.

    Attributes:
        index: what was asked.
        question: in words.
        target: what was explained.
        rows: which rows of the index.
        scores: of each, ``[n]``.
        parts: of the scores: similarity to what they should be like, and to what not, ``[n]`` each; by name.
        top: how many of the highest and the lowest are shown.

    """

    index: Index
    question: str
    target: Target
    rows: np.ndarray
    scores: np.ndarray
    parts: Mapping[str, np.ndarray]
    top: int

    def __repr__(self) -> str:
        best = self.index.ids[self.rows[self.order[0]]]
        return f"Survey({self.question!r}, {len(self.rows)} {self.index.manifest.nouns}, highest: {best!r})"

    @cached_property
    def order(self) -> np.ndarray:
        """Places among ``rows``, highest score first."""
        return np.argsort(-self.scores, kind="stable")

    @cached_property
    def highest(self) -> list[RankedRow]:
        """The inputs with the highest scores, highest first, with their maps."""
        return self._placed(range(min(self.top, len(self.rows))))

    @cached_property
    def lowest(self) -> list[RankedRow]:
        """The inputs with the lowest scores, lowest first; of a few, the same as the highest."""
        count = len(self.rows)
        return self._placed(range(count - 1, max(count - 1 - self.top, -1), -1))

    def _placed(self, places: Sequence[int]) -> list[RankedRow]:
        rows = [int(self.rows[self.order[place]]) for place in places]
        placed = []
        for place, row, attribution in zip(places, rows, self.index.attributions(rows, self.target), strict=True):
            known = {name: plain(values[row]) for name, values in self.index.columns.items()}
            placed.append(RankedRow(self.index.ids[row], row, place + 1, attribution, known))
        return placed

    @cached_property
    def maps(self) -> Sequence[Tensor]:
        """The map of each row, relative to a cell that makes no difference; all fields are read for it."""
        return self.index.maps(self.target, self.rows)

    @cached_property
    def mean(self) -> Attribution | None:
        """Where the heat lies on average, with the standard error over inputs; None where maps have different shapes."""
        if self.index.cells is None:
            return None
        everything = len(self.index) > MANY and np.array_equal(self.rows, np.arange(len(self.index)))
        whole = self.index.mean_map(self.target) if everything else None
        rows = self.rows
        if whole is not None:  # files know the sum of their fields; how much maps differ, some of them tell
            rows = np.sort(stream(0).choice(self.rows, SOME, replace=False))
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
    def words(self) -> list[Part]:
        """What each word or column does on average, strongest first; those of capital letters count as small ones."""
        sums: dict[str, list[float]] = defaultdict(list)
        for display, values in zip(self.index.displays(self.rows.tolist()), self.maps, strict=True):
            if display is None or display.names is None:
                return []
            for name, value in zip(display.names, values.flatten().tolist(), strict=True):
                sums[name.lower()].append(value)
        parts = []
        for name, own in sums.items():
            error = float(np.std(own, ddof=1)) / len(own) ** 0.5 if len(own) > 1 else None
            parts.append(Part(name, len(own), float(np.mean(own)), error))
        return sorted(parts, key=lambda part: -abs(part.mean) * part.count**0.5)

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each input, highest first: id, score and its parts, the columns, and the hottest cell."""
        import pandas as pd

        rows = self.rows[self.order]
        hottest = [
            tuple(int(at) for at in np.unravel_index(int(self.maps[n].argmax()), self.maps[n].shape)) for n in self.order
        ]
        return pd.DataFrame(
            {
                "id": [self.index.ids[row] for row in rows],
                "score": self.scores[self.order],
                **{name: part[self.order] for name, part in self.parts.items()},
                **{beside(name): values[rows] for name, values in self.index.columns.items()},
                "hottest_cell": [at[0] if len(at) == 1 else list(at) for at in hottest],
            }
        )

    def describe(self) -> dict[str, Any]:
        """Return the answer as plain values: the highest and lowest, the mean map, the spread of scores."""
        quantiles = dict(
            zip(("0.05", "0.25", "0.5", "0.75", "0.95"), np.quantile(self.scores, (0.05, 0.25, 0.5, 0.75, 0.95)), strict=True)
        )
        mean = self.mean
        return {
            "question": self.question,
            "index": str(self.index.folder),
            "inputs": len(self.rows),
            "failed": len(self.index.failed),
            "score": {"mean": float(self.scores.mean()), **{name: float(value) for name, value in quantiles.items()}},
            "mean_map": None if mean is None else mean.values.tolist(),
            "mean_map_standard_error": None if mean is None or mean.standard_error is None else mean.standard_error.tolist(),
            "highest": [_plain(placed) for placed in self.highest],
            "lowest": [_plain(placed) for placed in self.lowest],
        }

    def save(self, path: str | Path) -> Path:
        """Write it as a page that loads nothing (.html), as JSON, or all scores as Parquet (.parquet); return the path."""
        path = Path(path)
        if path.suffix == ".html":
            from cocoax.survey.page import write_page

            return write_page(path, self)
        if path.suffix == ".json":
            return write_text(path, to_json(self.describe(), indent=1))
        if path.suffix == ".parquet":
            frame = self.to_dataframe()
            with atomic_write(path) as part:
                frame.to_parquet(part)
            return path
        raise ValueError(f"A survey is written as .html, .json or .parquet. Got {str(path)!r} instead.")

    def _repr_html_(self) -> str:
        from cocoax.survey.page import fragment

        return fragment(self, 6)


def _plain(placed: RankedRow) -> dict[str, Any]:
    attribution = placed.attribution
    return {
        "id": placed.id,
        "place": placed.place,
        "score": attribution.score,
        "standard_error": None if attribution.standard_error is None else float(attribution.standard_error.flatten()[0]),
        **{beside(name): value for name, value in placed.columns.items()},
        "map": [
            [float(f"{value:.4g}") for value in row]
            for row in attribution.values.reshape(len(attribution.values), -1).tolist()
        ],
    }


def beside(column: str) -> str:
    """Return what a column of the data is called beside the figures of an answer."""
    return f"column_{column}" if column in FIGURES or column.startswith("to ") else column


def survey(index: Index, question: str | Question | Target, rows: np.ndarray, top: int) -> Survey:
    """Return the answer of some rows to a question."""
    check_count("top", top, 1)
    name, target, parts = asked(index, question)
    values = {key: index.scores(part, rows) for key, part in parts.items()}
    scores = index.scores(target, rows)
    return Survey(index, name, target, rows, scores, values if len(values) > 1 else {}, top)


def asked(index: Index, question: str | Question | Target | Reference) -> tuple[str, Target, dict[str, Target]]:
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
    encoded = not any((side.captions or side.images) for side in (words.like, words.unlike))
    corpus, foil = words.parts(None if encoded else index.encoder)  # type: ignore[arg-type]  # nothing is encoded with it
    parts = {f"to {words.like_name}": corpus}
    if foil is not None:
        parts[f"to {words.unlike.name}"] = foil
    return words.name, words.difference(corpus, foil), parts

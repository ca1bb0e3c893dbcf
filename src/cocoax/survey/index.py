"""An index: the fields of a whole data set, which answer any question about all of it with one matrix product."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from cocoax.checks import as_items, check_kind
from cocoax.encoders import Encoder, load
from cocoax.inputs import Display, Names, Picture
from cocoax.masking.masked_encoder import check_range
from cocoax.methods.estimate import Origin
from cocoax.methods.field import Field
from cocoax.questions import Question
from cocoax.references import Reference
from cocoax.results.attribution import Attribution
from cocoax.similarity import Dot, LinearSimilarity
from cocoax.spaces import same_space
from cocoax.survey.answers import Survey, answer, table_column
from cocoax.survey.shortcuts import Shortcuts, Typicality, shortcuts, typicality
from cocoax.survey.storage import (
    VECTORS_PER_BLOCK,
    Manifest,
    StoredRows,
    field_products,
    field_values,
    linear_similarity,
    mean_field,
    shard_files,
)
from cocoax.targets import Target

if TYPE_CHECKING:
    import pandas as pd

_RASTER = 14  # cells along each side of a map, of pictures that are divided into segments of their own
Where = Mapping[str, Any] | Sequence[int] | Sequence[bool] | np.ndarray | None


class Index:
    """The fields of a data set; made by :func:`cocoax.survey.build`, opened by :meth:`open`.

    Rows are in the order of their ids (9 before 10).

    Attributes:
        folder, manifest: where it is, and how it was made.
        ids: of all rows.
        digests: of the contents of their inputs.
        failed: errors of inputs that could not be explained, which are no rows, by id.
        columns: what is known about rows, by the name of the column.
        representations: ``[n, d]``.

    """

    def __init__(self, folder: Path, manifest: Manifest | None = None) -> None:
        if manifest is None:
            raise TypeError(f"Open an index with Index.open({str(folder)!r}).")
        self.folder = folder
        self.manifest = manifest
        self._rows = rows = StoredRows.read(shard_files(folder), manifest)
        self.ids, self.digests, self.failed = rows.ids, rows.digests, rows.failed
        self.columns: Mapping[str, np.ndarray] = rows.columns
        self.representations = rows.representations
        self._encoder: Encoder | None = None

    @classmethod
    def open(cls, folder: str | Path) -> Index:
        """Open the index in a folder; raise if its build was stopped before anything was in it."""
        manifest = Manifest.load(folder)
        manifest.check_begun(folder)
        return cls(Path(folder), manifest)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"Index({str(self.folder)!r}, {len(self)} {self.manifest.nouns}{failed}, {self.manifest.encoder!r})"

    def check_any(self) -> None:
        """Raise if there is nothing to ask."""
        if not len(self):
            name, why = next(iter(self.failed.items()), ("", "there are no inputs"))
            raise ValueError(f"None of the {len(self.failed)} inputs could be explained; the first, {name!r}: {why}")

    # --- what it holds ------------------------------------------------------------------------------------------------

    @property
    def similarity(self) -> LinearSimilarity:
        """The similarity of the questions that it answers."""
        return linear_similarity(str(self.manifest.recipe["similarity"]))

    @cached_property
    def cells(self) -> tuple[int, ...] | None:
        """The shape of every map; None where inputs have different ones, as texts do."""
        if self._rows.parts.any():
            return (_RASTER, _RASTER)
        shapes = set(self._rows.shapes)
        return shapes.pop() if len(shapes) == 1 else None

    def labelled(self, label: str, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows in which a column has a value, and the values as texts; ``rows`` are all by default."""
        rows = np.arange(len(self)) if rows is None else rows
        values = self.column(label)[rows]
        said = np.array([value is not None and value == value for value in values])
        return rows[said], np.array([str(value) for value in values[said]])

    def column(self, name: str) -> np.ndarray:
        """Return the values of a column; raise if there is none of this name."""
        check_kind("The name of a column", name, str, "must be a string")
        if name == "id" and name not in self.columns:
            return np.array(self.ids, object)
        if name not in self.columns:
            have = ", ".join(("id", *self.columns))
            raise ValueError(f"There is no column {name!r}; the columns are {have}.")
        return self.columns[name]

    def select(self, where: Where = None) -> np.ndarray:
        """Return row numbers: of rows whose columns have the given values (one or several), or the given numbers, checked."""
        self.check_any()
        if where is None:
            return np.arange(len(self))
        if isinstance(where, Mapping):
            chosen = np.ones(len(self), bool)
            for name, values in where.items():
                wanted = [values] if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) else values
                chosen &= np.isin(self.column(name).astype(str), [str(value) for value in wanted])
            rows = np.flatnonzero(chosen)
        else:
            try:
                rows = np.asarray(where)
            except (TypeError, ValueError, RuntimeError):  # ragged lists, tensors that are no plain numbers
                rows = np.array(None)
            if rows.ndim != 1 or rows.dtype.kind not in "iub":
                raise TypeError(
                    "Rows are chosen by the values of a column, as in {'id': [...]} or {'label': 'cat'}, by numbers, or "
                    f"by one truth value for each. Got {where!r} instead."
                )
            if rows.dtype == bool and len(rows) != len(self):
                raise ValueError(f"There are {len(self)} rows; a selection of {len(rows)} does not fit.")
            rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(int)
            if len(outside := rows[(rows < -len(self)) | (rows >= len(self))]):
                raise IndexError(f"There are {len(self)} rows, counted from 0. Got {outside[0]} instead.")
            rows = rows % len(self)  # -1 is the last
        if not len(rows):
            what = where if isinstance(where, Mapping) else "been selected"
            raise ValueError(f"No row has {what}; nothing is left to ask.")
        return rows

    def reference(self, where: Where = None, name: str | None = None) -> Reference:
        """Return some rows as a corpus or a foil; nothing is encoded."""
        rows = self.select(where)
        if name is None:
            name = _words(where) if isinstance(where, Mapping) else f"{len(rows)} rows"
        return Reference.from_representations(self.representations[rows], name=name, space=self.manifest.space)

    def displays(self, rows: Sequence[int]) -> list[Display | None]:
        """Return how rows are shown, small."""
        return [display for display, _ in self._rows.shown(rows)]

    def sources(self, rows: Sequence[int] | np.ndarray) -> list[str]:
        """Return where the inputs of rows lie: the paths of files, or the numbers of rows of a table."""
        return self._rows.column(rows, "source")

    def field_vectors(self, rows: np.ndarray) -> list[Tensor]:
        """Return the vectors of the fields of some rows, ``[*cells, d]`` each, in single precision."""
        return self._rows.field_vectors(rows)

    def field(self, row: int) -> Field:
        """Return the field of one row, which answers targets as those of runs do; without standard errors."""
        (row,) = self.select([row]).tolist()
        (values,), (emptied,) = self._rows.field_vectors(np.array([row])), self._rows.column([row], "emptied")
        ((display, labels),) = self._rows.shown([row])
        own = self.representations[row]
        anchors = self.similarity.features(torch.stack([own, torch.tensor(emptied)]).double()).float()
        shown = _without_picture(values[..., 0]) if display is None else display
        return Field(values, torch.zeros(values.shape[-1]), anchors, own, self.similarity, self._origin, shown, None, labels)

    @property
    def _origin(self) -> Origin:
        manifest = self.manifest
        return Origin(manifest.recipe["method"], manifest.encoder, manifest.space, 0, "", manifest.rounding)

    # --- asking -------------------------------------------------------------------------------------------------------

    @property
    def encoder(self) -> Encoder:
        """The encoder that made it, loaded by its name; set it to one in memory. Captions and pictures need it."""
        if self._encoder is None:
            self.encoder = load(self.manifest.encoder)
        assert self._encoder is not None
        return self._encoder

    @encoder.setter
    def encoder(self, encoder: Encoder) -> None:
        check_kind("The encoder of an index", encoder, Encoder, "must be a cocoax.Encoder, as cocoax.load(...) gives")
        if not same_space(encoder.space, self.manifest.space):
            raise ValueError(
                f"The index was made by the encoder {self.manifest.encoder!r}; {encoder.name!r} is another one, or its "
                "weights or preprocessing have changed."
            )
        self._encoder = encoder

    def ask(self, question: str | Question | Target, where: Where = None, *, top: int = 50) -> Survey:
        """Ask all rows, or those of ``where``: how much is each like this, and what in it makes it so?

        Args:
            question: ``"a cat rather than a dog"``, a :class:`cocoax.Question`, or a target, as of ``index.reference(...)``.
            where: which rows: ``{"label": "cat"}``, numbers, or one truth value for each.
            top: how many of the highest and of the lowest come with their maps.

        """
        return answer(self, question, self.select(where), top)

    def shortcuts(self, label: str = "label", where: Where = None) -> Shortcuts:
        """Find inputs whose similarity to their class rests on a place where that of the class does not usually rest.

        ``label`` is the column that tells the class; ``where`` leaves out rows, as :meth:`ask` does.
        """
        return shortcuts(self, label, self.select(where))

    def typicality(self, label: str = "label") -> Typicality:
        """Return all rows, the least typical of its class first: where wrong labels are."""
        return typicality(self, label)

    def to_dataframe(self) -> pd.DataFrame:
        """Return ids, columns and representations as a pandas data frame."""
        import pandas as pd

        columns = {table_column(name): values for name, values in self.columns.items()}
        return pd.DataFrame({"id": self.ids, **columns, "representation": list(self.representations.numpy())})

    # --- maps ---------------------------------------------------------------------------------------------------------

    def maps(self, target: Target, rows: np.ndarray) -> list[Tensor]:
        """Return the map of a target on each of some rows, ``[*cells]``; of pictures in parts a mean over each place."""
        values = self.values(target, rows)
        if not self._rows.parts.any():
            return values
        shown = (labels for _, labels in self._rows.shown(rows))
        return [
            adaptive_avg_pool2d(_at_places(own, labels)[None], _RASTER)[0] for own, labels in zip(values, shown, strict=True)
        ]

    def values(self, target: Target, rows: np.ndarray) -> list[Tensor]:
        """Return the effect of each cell or part of some rows."""
        self.scores(target, rows[:1])  # says what is wrong where products of such numbers are too small
        directions = self.directions(target, rows)
        sizes = np.array([math.prod(self._rows.shapes[row]) for row in rows])
        products = torch.empty(int(sizes.sum()))
        ends = np.concatenate([[0], np.cumsum(sizes)])
        for places, table in self._rows.tables(rows, ["field"]):
            own = directions if len(directions) == 1 else directions[places]
            parts = field_products(field_values(table["field"]), torch.from_numpy(sizes[places]), own)
            parts *= torch.from_numpy(np.repeat(self._rows.scales[rows[places]], sizes[places]))
            if (np.diff(places) == 1).all():
                products[ends[places[0]] : ends[places[-1] + 1]] = parts
            else:
                for place, part in zip(places, torch.split(parts, sizes[places].tolist()), strict=True):
                    products[ends[place] : ends[place + 1]] = part
        check_range(target, products)
        parts_of = torch.split(products, sizes.tolist())
        return [part.view(self._rows.shapes[row]) for part, row in zip(parts_of, rows, strict=True)]

    def scores(self, target: Target, rows: np.ndarray) -> np.ndarray:
        """Return the score of each of some rows."""
        directions = self.directions(target, rows)
        features = self._features if np.array_equal(rows, np.arange(len(self))) else self._features[rows]
        if len(directions) == 1:
            scores = Dot().project(features, directions.T)[:, 0].double()
        else:
            both = zip(torch.split(features, VECTORS_PER_BLOCK), torch.split(directions, VECTORS_PER_BLOCK), strict=True)
            scores = torch.cat([(own.double() * direction).sum(1) for own, direction in both])
        check_range(target, scores)
        return np.asarray(scores.numpy())

    @cached_property
    def _features(self) -> Tensor:
        return self.similarity.features(self.representations)

    def mean_map(self, target: Target) -> Tensor | None:
        """Return the mean map over all rows, from the mean fields in the heads of the files; None if those do not suffice."""
        if self.cells is None or self._rows.parts.any() or target.needs_explicand or self._mean_field is None:
            return None
        return self._mean_field @ self.directions(target, np.array([0]))[0]

    @cached_property
    def _mean_field(self) -> Tensor | None:
        assert self.cells is not None
        count, mean = mean_field(self._rows.files, self.cells)
        return mean if count == len(self) else None  # a build that was killed may leave some twice

    def directions(self, target: Target, rows: np.ndarray) -> Tensor:
        """Return the direction of a target for each row, ``[n, d]``; one for all where it does not depend on the row."""
        check_kind("The target", target, Target, "must be a Target, as question.target(encoder) gives")
        target.check_space(self.manifest.space, self.representations.shape[1])
        if target.similarity != self.similarity:
            raise ValueError(
                f"The index answers questions of the {self.similarity.name} similarity, not of {target.similarity.name}."
            )
        if not target.needs_explicand:
            return target.direction()[None].float()
        weight = target.weights[None]
        rest: dict[Reference | None, float] = {
            reference: weight for reference, weight in target.weights.items() if reference is not None
        }
        own = weight * self.similarity.features(self.representations[rows].double())
        return (own + Target(rest, self.similarity).direction() if rest else own).float()

    def attributions(self, rows: Sequence[int], target: Target) -> list[Attribution]:
        """Return the maps of some rows as attributions, each with the standard error of the map as a whole."""
        rows = as_items("The rows", rows)
        if not rows:
            return []
        chosen = self.select(rows)
        directions = self.directions(target, chosen).expand(len(chosen), -1)
        stored = (self._rows.column(chosen, name) for name in ("emptied", "noise"))
        answers = []
        values, shown = self.values(target, chosen), self._rows.shown(chosen)
        for row, parts, (display, labels), direction, emptied, noise in zip(
            chosen, values, shown, directions, *stored, strict=True
        ):
            placed = parts if labels is None else _at_places(parts, labels)
            own = self.representations[row]
            ends = self.similarity.features(torch.stack([own, torch.tensor(emptied)]).double()) @ direction.double()
            floor = self._origin.floor(target, own, ends, 1)
            sums = torch.tensor(noise).view(-1, len(direction)) @ direction
            spread = max(float(sums.square().mean().sqrt()), floor / 2) if len(sums) else None
            answers.append(
                Attribution(
                    values=placed,
                    score=float(ends[0]),
                    baseline_score=float(ends[1]),
                    standard_error=None if spread is None else torch.full_like(placed, spread),
                    metadata={
                        "target": target.name,
                        "method": self.manifest.recipe["method"]["type"],
                        "encoder": self.manifest.encoder,
                        "id": self.ids[row],
                    },
                    display=_without_picture(placed) if display is None else display,
                    floor=floor,
                    features=None if labels is None else parts,
                    feature_ids=labels,
                )
            )
        return answers


def _words(where: Mapping[str, Any]) -> str:
    """Return a selection as text: ``label cat / dog``."""
    sides = {
        key: [values] if isinstance(values, str) or not isinstance(values, Sequence) else values
        for key, values in where.items()
    }
    return " and ".join(f"{key} {' / '.join(map(str, values))}" for key, values in sides.items())


def _at_places(values: Tensor, labels: Tensor | None) -> Tensor:
    """Return a map ``[h, w]`` of values of parts, by their label map; 0 outside all parts. Without labels, the values."""
    return values if labels is None else torch.cat([values, values.new_zeros(1)])[labels]


def _without_picture(values: Tensor) -> Display:
    """Return the display of a map whose input has none: a grid, or numbered features."""
    return Picture() if values.ndim == 2 else Names(tuple(map(str, range(len(values)))))

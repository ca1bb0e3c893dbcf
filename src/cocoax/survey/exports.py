"""Where inputs lie beside one another: a projection to the plane and nearest neighbours, for pages that show data sets."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cocoax.inputs.image import SUFFIXES
from cocoax.store import (
    Layout,
    atomic_write,
    digest,
    load_or_quarantine,
    read_safetensors,
    to_json,
    write_safetensors,
    write_text,
)
from cocoax.survey.storage import POSITIONS

if TYPE_CHECKING:
    from cocoax.survey.answers import Survey
    from cocoax.survey.index import Index

NEIGHBOURS = 10
AT_ONCE = 2**21  # numbers that are worked on at a time, 8 MB of cosines
KIND = Layout("positions", {"projection": "n 2", "neighbours": "int n k", "distances": "n k"}, {"of": str})


@dataclass(frozen=True, eq=False)
class Positions:
    """Where the rows of an index lie.

    Attributes:
        projection: two principal components of the unit vectors, ``[n, 2]``.
        neighbours: the nearest other rows by cosine, nearest first, ``[n, k]``.
        distances: 1 minus the cosine of each, ``[n, k]``.

    """

    projection: Tensor
    neighbours: Tensor
    distances: Tensor


def positions(index: Index) -> Positions:
    """Return where rows lie: as the index keeps it, else worked out and kept there."""
    path, own = index.folder / POSITIONS, digest(index.representations)
    kept = load_or_quarantine(path, lambda file: read_safetensors(file, KIND))
    if kept is not None and kept[1]["of"] == own:
        return Positions(**kept[0])
    found = _positions(index.representations)
    with suppress(OSError):  # nobody may write there
        write_safetensors(path, vars(found), KIND.kind, {"of": own})
    return found


def _positions(representations: Tensor) -> Positions:
    """Work out where rows lie, some of them at a time, so that nothing grows with them but one copy of the vectors."""
    total, rows = len(representations), max(1, AT_ONCE // max(representations.shape))
    parts = [slice(start, start + rows) for start in range(0, total, rows)]
    features = torch.empty(representations.shape)
    for part in parts:
        features[part] = torch.nn.functional.normalize(representations[part].double(), dim=1).float()
    mean = torch.stack([features[part].double().sum(0) for part in parts]).sum(0) / total
    scatter = torch.zeros(len(mean), len(mean), dtype=torch.float64)
    for part in parts:
        scatter += (features[part] - mean).T @ (features[part] - mean)
    axes = torch.linalg.eigh(scatter)[1][:, -2:].flip(1)
    axes = axes * axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()  # a direction and its opposite are as good
    projection = torch.zeros(total, 2)
    count = min(NEIGHBOURS, total - 1)
    nearest, distances = torch.empty(total, count, dtype=torch.int64), torch.empty(total, count)
    room = torch.empty(min(rows, total), total)  # one for all parts: new ones would lie scattered, with gaps between them
    for part in parts:
        projection[part, : axes.shape[1]] = ((features[part] - mean) @ axes).float()
        cosines = torch.matmul(features[part], features.T, out=room[: len(features[part])])
        cosines.diagonal(part.start).fill_(-torch.inf)  # no row is its own neighbour
        best = cosines.topk(count, dim=1)
        nearest[part], distances[part] = best.indices, (1 - best.values).clamp(min=0)
    return Positions(projection, nearest, distances)


def export_atlas(index: Index, path: str | Path, survey: Survey | None = None) -> Path:
    """Write a Parquet file for Embedding Atlas: columns, vectors, projection, neighbours, and the scores of a survey.

    Open it with ``embedding-atlas FILE --x projection_x --y projection_y --neighbors neighbors --vector vector``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    lie = index.positions
    near = zip(lie.neighbours.tolist(), lie.distances.tolist(), strict=True)
    columns = {
        "id": pa.array(index.ids),
        "projection_x": pa.array(lie.projection[:, 0].numpy()),
        "projection_y": pa.array(lie.projection[:, 1].numpy()),
        "neighbors": pa.array([{"ids": rows, "distances": distances} for rows, distances in near]),
        "vector": pa.array(list(index.representations.numpy())),
    }
    if survey is not None:
        for name, values in {"score": survey.scores, **survey.parts}.items():
            scores = np.full(len(index), np.nan)
            scores[survey.rows] = values
            columns[name] = pa.array(scores, from_pandas=True)
    for name, values in index.columns.items():
        columns[f"column_{name}" if name in columns else name] = pa.array(values.tolist())
    with atomic_write(path) as part:
        pq.write_table(pa.table(columns), part)
    return Path(path)


def export_fiftyone(survey: Survey, path: str | Path, label: str = "label") -> Path:
    """Write the labels of a FiftyOne data set: each picture's label, and its score and hottest cell as attributes.

    Load it with ``fiftyone.Dataset.from_dir(data_path=PICTURES, labels_path=FILE,
    dataset_type=fiftyone.types.FiftyOneImageClassificationDataset)``.
    """
    index = survey.index
    values = index.columns.get(label)
    labels: dict[str, object] = {}
    sources = [""] * len(survey.rows)
    for places, table in index.read(survey.rows, ["source"]):
        for place, source in zip(places, table["source"].to_pylist(), strict=True):
            sources[place] = source
    for number, row in enumerate(survey.rows):
        file = Path(sources[number])
        if file.suffix.lower() not in SUFFIXES:
            raise ValueError(
                f"FiftyOne finds pictures by the names of their files, and {sources[number]!r} is none; build the index of a "
                "folder of pictures, or of a table of their paths."
            )
        name = file.with_suffix("").as_posix()
        if name in labels:
            raise ValueError(
                f"FiftyOne knows pictures by their names without endings, and two are called {name!r}; rename one."
            )
        known = "" if values is None or values[row] is None else str(values[row])
        cells = survey.maps[number]
        hottest = [int(at) for at in np.unravel_index(int(cells.argmax()), cells.shape)]
        attributes = {"score": float(survey.scores[number]), "question": survey.question, "hottest_cell": hottest}
        labels[name] = {"label": known, "attributes": attributes}
    return write_text(path, to_json({"classes": None, "labels": labels}))

"""Files that other tools show data sets by: Embedding Atlas and FiftyOne."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cocoax.store import atomic_write, to_json, write_text

if TYPE_CHECKING:
    from cocoax.survey.answers import Survey
    from cocoax.survey.index import Index

_NEIGHBOURS = 10


def export_atlas(index: Index, path: str | Path, survey: Survey | None = None) -> Path:
    """Write a Parquet file for Embedding Atlas: columns, vectors, two principal components, neighbours, scores of a survey.

    Open it with ``embedding-atlas FILE --x projection_x --y projection_y --neighbors neighbors --vector vector``.
    """
    from sklearn.decomposition import PCA
    from sklearn.neighbors import NearestNeighbors

    units = torch.nn.functional.normalize(index.representations.double(), dim=1).numpy()
    plane = np.zeros((len(index), 2))
    if min(units.shape) > 1:
        plane = PCA(2, random_state=0).fit_transform(units)
    count = min(_NEIGHBOURS, len(index) - 1)
    distances, rows = np.zeros((2, len(index), 0))
    if count:
        distances, rows = NearestNeighbors(n_neighbors=count, metric="cosine").fit(units).kneighbors()
    frame = index.to_dataframe().rename(columns={"representation": "vector"})
    frame["projection_x"], frame["projection_y"] = plane.T
    frame["neighbors"] = [
        {"ids": ids.astype(int).tolist(), "distances": far.tolist()} for ids, far in zip(rows, distances, strict=True)
    ]
    if survey is not None:
        for name, values in {"score": survey.scores, **survey.score_parts}.items():
            frame.loc[survey.rows, name] = values
    with atomic_write(path) as part:
        frame.to_parquet(part, engine="pyarrow")
    return Path(path)


def export_fiftyone(survey: Survey, path: str | Path, label: str = "label") -> Path:
    """Write the labels of a FiftyOne data set: each picture's label, and its score and strongest cell as attributes.

    Load it with ``fiftyone.Dataset.from_dir(data_path=PICTURES, labels_path=FILE,
    dataset_type=fiftyone.types.FiftyOneImageClassificationDataset)``, which knows pictures by their paths without endings.
    """
    frame = survey.to_dataframe()
    labels: dict[str, Any] = {}
    for row, source in enumerate(survey.index.sources(survey.rows[survey.order])):
        name = Path(source).with_suffix("").as_posix()
        if name == source or name in labels:
            raise ValueError(f"FiftyOne finds pictures by different names of files without endings. Got {source!r}.")
        attributes = {key: frame[key][row] for key in ("score", "strongest_cell")}
        labels[name] = {
            "label": str(frame[label][row]) if label in frame else "",
            "attributes": {**attributes, "question": survey.question},
        }
    return write_text(path, to_json({"classes": None, "labels": labels}))

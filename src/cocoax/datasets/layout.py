"""Where inputs lie beside one another: a projection to the plane and nearest neighbours, for tools that show data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from cocoax.storage import to_json, whole_file, write_text

if TYPE_CHECKING:
    from cocoax.datasets.index import Index
    from cocoax.datasets.survey import Survey

NEIGHBOURS = 10
AT_ONCE = 2048


def layout(index: Index) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return principal components ``[n, 2]``, and the nearest others by cosine: rows and distances ``[n, k]``."""
    from sklearn.decomposition import PCA

    features = torch.nn.functional.normalize(index.representations.double(), dim=1).float()
    projection = PCA(2, random_state=0, svd_solver="full" if len(features) < 20_000 else "randomized").fit_transform(
        features.numpy()
    )
    count = min(NEIGHBOURS, len(features) - 1)
    rows, distances = [], []
    for start in range(0, len(features), AT_ONCE):
        cosines = features[start : start + AT_ONCE] @ features.T
        own = torch.arange(len(cosines))
        cosines[own, start + own] = -torch.inf
        best = cosines.topk(count, dim=1)
        rows.append(best.indices)
        distances.append(1 - best.values)
    return projection, torch.cat(rows).numpy(), torch.cat(distances).clamp(min=0).numpy()


def export_atlas(index: Index, path: str | Path, survey: Survey | None = None) -> Path:
    """Write a Parquet file for Embedding Atlas: columns, vectors, projection, neighbours, and the scores of a survey.

    Open it with ``embedding-atlas FILE --x projection_x --y projection_y --neighbors neighbors --vector vector``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    projection, rows, distances = layout(index)
    columns = {
        "id": pa.array(range(len(index))),
        "name": pa.array(index.ids),
        **{name: pa.array(values.tolist()) for name, values in index.columns.items() if name not in ("id", "name")},
        "projection_x": pa.array(projection[:, 0].astype(np.float32)),
        "projection_y": pa.array(projection[:, 1].astype(np.float32)),
        "neighbors": pa.array(
            [{"ids": near.tolist(), "distances": far.tolist()} for near, far in zip(rows, distances, strict=True)]
        ),
        "vector": pa.array(list(index.representations.numpy())),
    }
    if survey is not None:
        scores = np.full(len(index), np.nan)
        scores[survey.rows] = survey.scores
        columns["score"] = pa.array(scores, from_pandas=True)
    with whole_file(path) as part:
        pq.write_table(pa.table(columns), part)
    return Path(path)


def export_fiftyone(survey: Survey, path: str | Path, label: str = "label") -> Path:
    """Write the labels of a FiftyOne data set: each picture's label, and its score and hottest cell as attributes.

    Load it with ``fiftyone.Dataset.from_dir(data_path=PICTURES, labels_path=FILE,
    dataset_type=fiftyone.types.FiftyOneImageClassificationDataset)``.
    """
    index = survey.index
    values = index.columns.get(label)
    labels = {}
    for number, row in enumerate(survey.rows):
        cells = survey.maps[number]
        hottest = [int(at) for at in np.unravel_index(int(cells.argmax()), cells.shape)]
        name = Path(index.ids[row]).with_suffix("").as_posix()
        if name in labels:
            raise ValueError(
                f"FiftyOne knows pictures by their names without endings, and two are called {name!r}; rename one."
            )
        labels[name] = {
            "label": None if values is None else str(values[row]),
            "attributes": {"score": float(survey.scores[number]), "question": survey.question, "hottest_cell": hottest},
        }
    return write_text(path, to_json({"classes": None, "labels": labels}))

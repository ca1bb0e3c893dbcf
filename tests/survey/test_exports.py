from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from cocoax.survey import Index, build, export_atlas, export_fiftyone, exports
from cocoax.survey.storage import POSITIONS
from tests.survey import photos
from tests.survey.photos import dawn_rather_than_dusk


def test_positions__are_those_of_scikit_learn(index: Index) -> None:
    features = torch.nn.functional.normalize(index.representations.double(), dim=1).numpy()
    expected = PCA(2, svd_solver="full").fit_transform(features)
    found = index.positions.projection.numpy()
    signs = np.sign((expected * found).sum(0))
    assert np.allclose(found * signs, expected, atol=1e-5)
    distances, rows = NearestNeighbors(n_neighbors=11, metric="cosine").fit(features).kneighbors(features)
    assert np.allclose(index.positions.distances, distances[:, 1:], atol=1e-5)
    assert np.mean(index.positions.neighbours.numpy() == rows[:, 1:]) > 0.95  # but for ties


def test_positions__are_kept_in_the_folder_and_follow_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = photos.write(tmp_path / "photos", 2)
    first = build(photos.encoder(), folder, tmp_path / "index", photos.METHOD)
    assert (tmp_path / "index" / POSITIONS).is_file()
    with monkeypatch.context() as watched:
        watched.setattr(exports, "_positions", None)  # nothing is worked out again
        again = Index.open(tmp_path / "index").positions
    assert torch.equal(again.neighbours, first.positions.neighbours)
    (folder / "dusk" / "1.png").unlink()
    assert len(build(photos.encoder(), folder, tmp_path / "index", photos.METHOD).positions.projection) == 3
    (tmp_path / "index" / POSITIONS).write_bytes(b"damaged")
    with pytest.warns(UserWarning, match=rf"{POSITIONS} is not a readable .* put aside as {POSITIONS}\.damaged"):
        assert len(Index.open(tmp_path / "index").positions.projection) == 3


def test_positions__one_input_has_no_neighbours(tmp_path: Path) -> None:
    own = build(photos.encoder(), [photos.pixels("dawn", 1)], tmp_path / "index", photos.METHOD)
    assert own.positions.neighbours.shape == (1, 0)
    assert own.positions.projection.tolist() == [[0, 0]]


def test_export_atlas__columns_by_its_documented_options(index: Index, tmp_path: Path) -> None:
    survey = index.ask(dawn_rather_than_dusk(index), {"label": "dawn"})
    frame = pd.read_parquet(export_atlas(index, tmp_path / "atlas.parquet", survey))
    assert {"id", "projection_x", "projection_y", "neighbors", "vector", "label", "score"} <= set(frame.columns)
    features = torch.nn.functional.normalize(index.representations.double(), dim=1)
    cosines = (features @ features[7]).numpy()
    cosines[7] = -2
    assert frame["neighbors"][7]["ids"][0] == int(cosines.argmax())  # rows, counted from 0
    assert frame["neighbors"][7]["distances"][0] == pytest.approx(1 - cosines.max(), abs=1e-5)
    assert frame["score"].notna().sum() == 12
    assert np.allclose(np.stack(frame["vector"].to_list()), index.representations)


def test_export_fiftyone__labels_by_the_names_of_files(index: Index, tmp_path: Path) -> None:
    survey = index.ask(dawn_rather_than_dusk(index), {"label": "dawn"})
    labels = json.loads(export_fiftyone(survey, tmp_path / "labels.json").read_text())["labels"]
    assert labels["dawn/3"]["label"] == "dawn"
    assert labels["dawn/3"]["attributes"]["score"] == pytest.approx(float(survey.scores[3]))
    assert labels["dawn/3"]["attributes"]["hottest_cell"] == list(np.unravel_index(int(survey.maps[3].argmax()), (4, 4)))
    source = Path(index.manifest.source)  # FiftyOne goes through all files below a folder, and leaves out their endings
    assert set(labels) < {path.relative_to(source).with_suffix("").as_posix() for path in source.rglob("*.png")}
    assert len(labels) == 12
    assert len(index.to_dataframe()) == 24


def test_export_fiftyone__pictures_that_it_could_not_find(tmp_path: Path) -> None:
    own = build(photos.encoder(), [photos.pixels("dawn", 1)], tmp_path / "index", photos.METHOD)
    survey = own.ask(own.reference([0]))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="FiftyOne finds pictures by the names of their files, and '0' is none"):
        export_fiftyone(survey, tmp_path / "labels.json")


def test_export_fiftyone__of_a_table_of_paths(tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos", 2)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))
    (folder / "list.csv").write_text("file,code\n" + "\n".join(f"{name},{n}" for n, name in enumerate(names)))
    own = build(photos.encoder(), folder / "list.csv", tmp_path / "index", photos.METHOD, id_column="code")
    survey = own.ask(own.reference([0]), [3, 1])  # type: ignore[arg-type]
    labels = json.loads(export_fiftyone(survey, tmp_path / "labels.json").read_text())["labels"]
    assert list(labels) == ["dusk/1", "dawn/1"]

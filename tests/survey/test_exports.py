from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from cocoax.survey import Index, build, export_atlas, export_fiftyone
from tests.survey import photos
from tests.survey.photos import dawn_rather_than_dusk


def test_export_atlas__columns_by_its_documented_options(index: Index, tmp_path: Path) -> None:
    survey = index.ask(dawn_rather_than_dusk(index), {"label": "dawn"})
    frame = pd.read_parquet(export_atlas(index, tmp_path / "atlas.parquet", survey))
    assert {"id", "projection_x", "projection_y", "neighbors", "vector", "label", "score"} <= set(frame.columns)
    features = torch.nn.functional.normalize(index.representations.double(), dim=1)
    cosines = (features @ features[7]).numpy()
    cosines[7] = -2
    assert frame["neighbors"][7]["ids"][0] == int(cosines.argmax())  # rows, counted from 0
    assert frame["neighbors"][7]["distances"][0] == pytest.approx(1 - cosines.max(), abs=1e-5)
    assert len(frame["neighbors"][7]["ids"]) == 10
    centred = features - features.mean(0)
    spread = torch.linalg.svdvals(centred)[:2].square().numpy()
    assert np.allclose((frame[["projection_x", "projection_y"]] ** 2).sum(), spread, rtol=1e-6)
    assert frame["score"].notna().sum() == 12
    assert np.allclose(np.stack(frame["vector"].to_list()), index.representations)


def test_export_fiftyone__labels_by_the_names_of_files(index: Index, tmp_path: Path) -> None:
    survey = index.ask(dawn_rather_than_dusk(index), {"label": "dawn"})
    labels = json.loads(export_fiftyone(survey, tmp_path / "labels.json").read_text())["labels"]
    assert labels["dawn/3"]["label"] == "dawn"
    assert labels["dawn/3"]["attributes"]["score"] == pytest.approx(float(survey.scores[3]))
    assert labels["dawn/3"]["attributes"]["strongest_cell"] == list(np.unravel_index(int(survey.maps[3].argmax()), (4, 4)))
    source = Path(index.manifest.source)  # FiftyOne goes through all files below a folder, and leaves out their endings
    assert set(labels) < {path.relative_to(source).with_suffix("").as_posix() for path in source.rglob("*.png")}
    assert len(labels) == 12
    assert len(index.to_dataframe()) == 24


def test_exports__of_one_input_that_is_no_file(tmp_path: Path) -> None:
    own = build(photos.encoder(), [photos.pixels("dawn", 1)], tmp_path / "index", photos.METHOD)
    survey = own.ask(own.reference([0]))  # type: ignore[arg-type]
    assert pd.read_parquet(export_atlas(own, tmp_path / "atlas.parquet"))["projection_x"].tolist() == [0]
    with pytest.raises(ValueError, match="FiftyOne finds pictures by different names of files without endings"):
        export_fiftyone(survey, tmp_path / "labels.json")


def test_export_fiftyone__of_a_table_of_paths(tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos", 2)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))
    (folder / "list.csv").write_text("file,code\n" + "\n".join(f"{name},{n}" for n, name in enumerate(names)))
    own = build(photos.encoder(), folder / "list.csv", tmp_path / "index", photos.METHOD, id_column="code")
    survey = own.ask(own.reference([0]), [3, 1])  # type: ignore[arg-type]
    labels = json.loads(export_fiftyone(survey, tmp_path / "labels.json").read_text())["labels"]
    assert set(labels) == {"dusk/1", "dawn/1"}

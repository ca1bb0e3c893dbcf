from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from cocoax.survey import Index, build
from cocoax.survey.manifest import Manifest, shard_files
from cocoax.survey.rows import Rows
from cocoax.survey.shards import read_shard, write_shard
from tests.survey import photos


def test_read__in_the_order_of_ids_whatever_shard_they_are_in(tmp_path: Path) -> None:
    names = ["b10", "b9", "a2", "a1", "b1"]
    images = [photos.pixels("dawn", seed) for seed in range(5)]
    frame = {"label": names, "year": [1, None, 3, 4, 5]}
    own = build(photos.encoder(), images, tmp_path / "index", photos.METHOD, labels=frame, shard=2)
    rows = Rows.read(shard_files(own.folder)[::-1], Manifest.load(own.folder))
    assert rows.ids == ["0", "1", "2", "3", "4"]
    assert rows.columns["label"].tolist() == names
    assert rows.columns["year"].tolist() == [1, None, 3, 4, 5]
    for row in range(5):
        shard, place = rows.places[row]
        stored = read_shard(shard_files(own.folder)[::-1][shard], ["id", "representation"], np.array([place]))
        assert stored["id"].to_pylist() == [rows.ids[row]]
        assert np.array_equal(stored["representation"].to_pylist()[0], rows.representations[row])


def test_read__failed_inputs_are_no_rows(tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos", 3)
    (folder / "dawn" / "1.png").write_bytes(b"no picture")
    own = build(photos.encoder(), folder, tmp_path / "index", photos.METHOD, shard=2)
    rows = Rows.read(shard_files(own.folder), own.manifest)
    assert len(rows.ids) == len(rows.representations) == len(rows.scales) == len(rows.columns["label"]) == 5
    assert list(rows.failed) == ["dawn/1.png"]


def test_read__no_files() -> None:
    assert Rows.read([], Manifest("", "", {}, "image", "", {})).ids == []


def test_read__what_a_killed_build_left_twice_counts_once(index: Index, tmp_path: Path) -> None:
    shutil.copytree(index.folder, tmp_path / "index")
    path = shard_files(tmp_path / "index")[1]
    shutil.copy(path, path.with_name("00000007-aaaaaaaa.parquet"))
    again = Index.open(tmp_path / "index")
    assert again.ids == index.ids
    assert np.array_equal(again.representations, index.representations)


def test_read__one_id_with_two_contents_is_from_another_run(index: Index, tmp_path: Path) -> None:
    shutil.copytree(index.folder, tmp_path / "index")
    path = shard_files(tmp_path / "index")[1]
    table = read_shard(path)
    digests = table.schema.get_field_index("digest")
    other = table.set_column(digests, "digest", [["another"] * len(table)])
    write_shard(path.with_name("00000099-aaaaaaaa.parquet"), other, index.manifest)
    with pytest.raises(ValueError, match=r"The id 'dawn/\d+.png' is in two shards with different contents"):
        Index.open(tmp_path / "index").ids  # noqa: B018
    mended = build(photos.encoder(), Path(index.manifest.source), tmp_path / "index", photos.METHOD)
    assert mended.ids == index.ids

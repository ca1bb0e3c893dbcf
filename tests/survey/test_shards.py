from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from cocoax.survey import Index, build
from cocoax.survey.entries import Entry, Making
from cocoax.survey.manifest import Manifest, plain_making, shard_files
from cocoax.survey.shards import (
    field_values,
    mean_field,
    read_shard,
    shard_name,
    table_of,
    unpack_display,
    write_shard,
)
from tests.survey import photos

COLUMNS = {"label": "string", "id": "int64", "column_id": "double"}
MANIFEST = Manifest("halves", "space", plain_making(Making(photos.METHOD)), "image", "", COLUMNS)


def entries(count: int) -> list[Entry]:
    generator = torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    made = [
        Entry(
            str(n),
            f"row {n}",
            f"digest {n}",
            {"label": "x", "id": n, "column_id": 2**60 + n},
            None,
            numbers(5),
            numbers(5),
            1e-7 * numbers(3, 4, 5),
            numbers(4, 5),
        )
        for n in range(count)
    ]
    return [*made, Entry("bad", "", "", {"label": None, "id": None}, "OSError: gone")]


def test_write_shard__what_is_read_is_what_was_written(tmp_path: Path) -> None:
    made = entries(70)
    path = write_shard(tmp_path / "shards" / "a.parquet", table_of(made, MANIFEST.columns), MANIFEST)
    table = read_shard(path)
    assert table["id"].to_pylist() == [entry.id for entry in made]
    assert table["source"].to_pylist() == [entry.source for entry in made]
    assert table["column_id"].to_pylist() == [*range(70), None]  # a column of the data may be called like one of ours
    assert table["column_column_id"].to_pylist() == [*(float(2**60 + n) for n in range(70)), None]
    assert table["error"].to_pylist() == [None] * 70 + ["OSError: gone"]
    fields = field_values(table["field"].drop_null()).view(70, 3, 4, 5).float()
    scales = torch.tensor(table["scale"].drop_null().to_pylist())
    expected = torch.stack([entry.field for entry in made[:-1] if entry.field is not None])
    assert torch.allclose(fields * scales[:, None, None, None], expected, rtol=0, atol=6e-4 * float(expected.abs().max()))
    assert torch.equal(
        torch.tensor(table["representation"].to_pylist()[3]),
        made[3].representation,  # type: ignore[arg-type]
    )


def test_read_shard__some_rows_in_their_order(tmp_path: Path) -> None:
    path = write_shard(tmp_path / "a.parquet", table_of(entries(70), MANIFEST.columns), MANIFEST)
    for rows in ([0, 1, 2], [69], [3, 40, 41, 69], [5, 5, 64]):
        assert read_shard(path, ["id"], np.array(rows))["id"].to_pylist() == [str(row) for row in rows]


def test_mean_field__is_that_of_all_fields(index: Index) -> None:
    fields = torch.stack([index.field(row).values for row in range(len(index))])
    count, mean = mean_field(shard_files(index.folder), (4, 4))
    assert count == len(index)
    assert torch.allclose(mean, fields.mean(0), atol=1e-6)


def test_mean_field__a_damaged_head_never_gives_another_mean(index: Index, tmp_path: Path) -> None:
    path = shutil.copy(shard_files(index.folder)[0], tmp_path / "a.parquet")
    content = bytearray(path.read_bytes())
    count, mean = mean_field([path], (4, 4))
    told = []
    for place in range(content.rfind(b"ARROW:schema"), len(content), 11):  # where Arrow keeps the head
        content[place] ^= 1
        path.write_bytes(content)
        content[place] ^= 1
        try:
            found = mean_field([path], (4, 4))
        except ValueError as error:
            told.append(str(error))
        else:
            assert found[0] == count
            assert torch.equal(found[1], mean)
    assert len(told) > 50
    assert all("a.parquet is damaged, or none of this index" in sentence for sentence in told)
    path.write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"a\.parquet is damaged"):
        mean_field([path], (4, 4))


def test_write_shard__the_same_entries_are_the_same_bytes(tmp_path: Path) -> None:
    paths = [write_shard(tmp_path / name, table_of(entries(5), MANIFEST.columns), MANIFEST) for name in ("a", "b")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert not list(tmp_path.glob("*.part"))


def test_shard_name__place_and_content() -> None:
    assert shard_name(256, ["a", "b"]).startswith("00000256-")
    assert shard_name(0, ["a", "b"]) != shard_name(0, ["ab"])


@pytest.mark.parametrize("flip", [100, 5000, -20])
def test_read_shard__a_damaged_one_is_named(index: Index, tmp_path: Path, flip: int) -> None:
    shutil.copytree(index.folder, tmp_path / "index")
    path, *_ = shard_files(tmp_path / "index")
    content = bytearray(path.read_bytes())
    content[flip] ^= 255
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged, or none of this index"):
        read_shard(path)


def test_read_shard__one_without_a_column_is_of_an_interrupted_build(index: Index) -> None:
    path, *_ = shard_files(index.folder)
    with pytest.raises(ValueError, match=r"was interrupted \(.* has no column 'other'\); run the same call again"):
        read_shard(path, ["id", "other"])


def test_read_shard__one_that_is_gone(index: Index, tmp_path: Path) -> None:
    shutil.copytree(index.folder, tmp_path / "index")
    own = Index.open(tmp_path / "index")
    assert own.ids
    shard_files(own.folder)[0].unlink()  # as a build does that drops an entry of it
    with pytest.raises(ValueError, match=r"is gone: a build has changed the index since it was opened\. Open it again"):
        own.displays([0])


def test_read_shard__truncated(index: Index, tmp_path: Path) -> None:
    shutil.copytree(index.folder, tmp_path / "index")
    path, *_ = shard_files(tmp_path / "index")
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ValueError, match="is damaged, or none of this index"):
        Index.open(tmp_path / "index").ids  # noqa: B018


def test_check_origin__a_shard_of_another_run(index: Index, tmp_path: Path) -> None:
    shutil.copytree(index.folder, tmp_path / "index")
    other = photos.encoder()
    assert other.owner is not None
    other.owner.scale.data.fill_(2.0)  # type: ignore[union-attr, operator]
    foreign = build(other, [photos.pixels("dawn", 1)], tmp_path / "other", photos.METHOD)
    (path,) = shard_files(foreign.folder)
    shutil.copy(path, tmp_path / "index" / "shards" / "00000099-aaaaaaaa.parquet")
    with pytest.raises(
        ValueError, match=r"00000099.* none of this index \(it was made by another encoder or method\); delete it"
    ):
        Index.open(tmp_path / "index").ids  # noqa: B018
    with pytest.raises(ValueError, match="made by another encoder or method"):
        build(photos.encoder(), Path(index.manifest.source), tmp_path / "index", photos.METHOD)
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    with pytest.raises(ValueError, match="made by another encoder or method"):
        Index.open(foreign.folder).ids  # noqa: B018


def test_unpack_display__the_picture(index: Index) -> None:
    table = read_shard(shard_files(index.folder)[0], ["shown"])
    display = unpack_display(table["shown"][0].as_py())
    assert display.picture is not None  # type: ignore[attr-defined]
    assert np.array_equal(display.picture.numpy(), photos.pixels("dawn", 0))  # type: ignore[attr-defined]

"""The files of an index: what is written is read, and what does not fit is refused with the file's name."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import cocoax
from cocoax.survey import Index, build
from cocoax.survey.storage import (
    Entry,
    IndexRecipe,
    Manifest,
    StoredRows,
    _unpack_display,
    field_values,
    index_folder,
    mean_field,
    plain_recipe,
    read_shard,
    shard_files,
    table_of,
    write_shard,
)
from tests.survey import photos

COLUMNS = {"label": "string", "id": "int64", "column_id": "double"}
MANIFEST = Manifest("halves", "space", plain_recipe(IndexRecipe(photos.METHOD)), "image", "", COLUMNS)


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
    assert table["column_id"].to_pylist() == [*range(70), None]
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
        Index.open(tmp_path / "index")
    with pytest.raises(ValueError, match="made by another encoder or method"):
        build(photos.encoder(), Path(index.manifest.source), tmp_path / "index", photos.METHOD)
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    with pytest.raises(ValueError, match="made by another encoder or method"):
        Index.open(foreign.folder)


def test_unpack_display__the_picture(index: Index) -> None:
    table = read_shard(shard_files(index.folder)[0], ["shown"])
    display, _ = _unpack_display(table["shown"][0].as_py())
    assert display.picture is not None  # type: ignore[attr-defined]
    assert np.array_equal(display.picture.numpy(), photos.pixels("dawn", 0))  # type: ignore[attr-defined]


def test_read__in_the_order_of_ids_whatever_shard_they_are_in(tmp_path: Path) -> None:
    names = ["b10", "b9", "a2", "a1", "b1"]
    images = [photos.pixels("dawn", seed) for seed in range(5)]
    frame = {"label": names, "year": [1, None, 3, 4, 5]}
    own = build(photos.encoder(), images, tmp_path / "index", photos.METHOD, labels=frame, shard=2)
    rows = StoredRows.read(shard_files(own.folder)[::-1], Manifest.load(own.folder))
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
    rows = StoredRows.read(shard_files(own.folder), own.manifest)
    assert len(rows.ids) == len(rows.representations) == len(rows.scales) == len(rows.columns["label"]) == 5
    assert list(rows.failed) == ["dawn/1.png"]


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
        Index.open(tmp_path / "index")
    mended = build(photos.encoder(), Path(index.manifest.source), tmp_path / "index", photos.METHOD)
    assert mended.ids == index.ids


def test_made_by__versions(index: Index) -> None:
    plain = json.loads((index.folder / "manifest.json").read_text())["made_by"]
    assert plain["cocoax"] == cocoax.__version__
    assert plain["torch"] == str(torch.__version__)
    assert plain["numpy"] == np.__version__


def resealed(index: Index, folder: Path, column: str, value: Any) -> Path:
    """Return a copy of an index whose first shard has another value in one column, with checksums that fit."""
    shutil.copytree(index.folder, folder)
    path = shard_files(folder)[0]
    table = read_shard(path)
    values = table[column].to_pylist()
    kind = table.schema.field(column).type if isinstance(value, list | bytes | None) else None
    values = [value] * len(values) if kind is None else [value, *values[1:]]
    table = table.set_column(table.column_names.index(column), column, pa.array(values, kind))
    write_shard(path, table, Manifest.load(folder))
    return folder


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("representation", [1.0]),
        ("representation", None),
        ("representation", 3),
        ("shape", [1]),
        ("shape", [-1, 2]),
        ("shape", None),
        ("scale", "x"),
        ("field", b"1234"),
        ("field", None),
        ("emptied", [1.0]),
        ("noise", [1.0]),
        ("id", None),
        ("digest", 4),
    ],
)
def test_shard__whose_content_does_not_fit_is_named(
    column: str, value: Any, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cocoax.survey.storage._mean_field", lambda _: b"")
    folder = resealed(index, tmp_path / "index", column, value)

    def explain_all() -> None:
        opened = Index.open(folder)
        opened.attributions(range(len(opened)), cocoax.similarity_to(opened.reference([0])))

    with pytest.raises(ValueError, match=rf"The shard .* is damaged.*{column if column != 'shape' else ''}"):
        explain_all()


@pytest.mark.parametrize(
    "change",
    [
        {"columns": {"label": 3}},
        {"columns": {"label": "table"}},
        {"columns": []},
        {"recipe": {}},
        {"recipe": {"similarity": "cosine", "method": 3}},
        {"recipe": {"similarity": "rbf", "method": {"type": "Rise"}}},
        {"made_by": ["torch"]},
        {"rounding": "0"},
        {"noun": 4},
    ],
)
def test_manifest__with_a_wrong_type_inside_is_named(change: dict[str, Any], index: Index, tmp_path: Path) -> None:
    index_folder(tmp_path).write_head({**asdict(index.manifest), **change})
    with pytest.raises(ValueError, match=r"manifest\.json (cannot be used|is damaged)"):
        Index.open(tmp_path)

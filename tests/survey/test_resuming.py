from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import cocoax
from cocoax.cautions import Caution
from cocoax.survey import build
from cocoax.survey import storage as resuming
from cocoax.survey.storage import shard_files
from tests.survey import photos
from tests.survey.photos import contents, watching

METHOD = cocoax.Rise(samples=40, grid=4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return photos.write(tmp_path / "photos")


def test_build__changed_added_and_deleted_files(folder: Path, tmp_path: Path) -> None:
    encoder = photos.encoder()
    before = build(encoder, folder, tmp_path / "index", METHOD, shard=3).representations
    Image.fromarray(photos.pixels("dusk", 77)).save(folder / "dawn" / "1.png")
    Image.fromarray(photos.pixels("dusk", 78)).save(folder / "dusk" / "12.png")
    (folder / "dusk" / "0.png").unlink()
    index = build(encoder, folder, tmp_path / "index", METHOD, shard=3)
    assert index.ids == [*(f"dawn/{n}.png" for n in range(5)), *(f"dusk/{n}.png" for n in (1, 2, 3, 4, 12))]
    fresh = build(encoder, folder, tmp_path / "fresh", METHOD)
    assert torch.equal(index.representations, fresh.representations)
    assert not torch.equal(index.representations[1], before[1])


def test_build__all_inputs_of_a_file_are_gone(folder: Path, tmp_path: Path) -> None:
    build(photos.encoder(), folder, tmp_path / "index", METHOD, shard=5)
    shutil.rmtree(folder / "dusk")
    assert build(photos.encoder(), folder, tmp_path / "index", METHOD, shard=5).ids == [f"dawn/{n}.png" for n in range(5)]
    assert len(shard_files(tmp_path / "index")) == 1


def test_build__labels_that_change_are_brought_up_to_date_without_the_encoder(tmp_path: Path) -> None:
    encoder = photos.encoder()
    images = [photos.pixels("dawn", seed) for seed in range(6)]
    build(encoder, images, tmp_path / "index", METHOD, shard=4, labels=[1, 2, 3, 4, 5, 6])
    seen: list[int] = []
    columns = {"label": list("abcdef"), "year": [2001, None, 2003, 2004, 2005, 2006]}
    with watching(lambda _module, inputs: seen.append(len(inputs[0]))):
        index = build(encoder, images, tmp_path / "index", METHOD, shard=4, labels=columns)
    assert set(seen) == {1}  # probes
    assert index.column("label").tolist() == list("abcdef")
    assert index.select({"year": 2003}).tolist() == [2]
    assert index.column("year").tolist()[3] == 2004


def test_build__other_data_do_not_take_the_place_of_an_index(folder: Path, tmp_path: Path) -> None:
    encoder = photos.encoder()
    build(encoder, folder, tmp_path / "index", METHOD)
    before = contents(tmp_path / "index")
    others = [photos.pixels("dusk", seed) for seed in range(3)]
    with pytest.raises(ValueError, match=r"None of the inputs of the index .* it is of other data"):
        build(encoder, others, tmp_path / "index", METHOD)
    assert contents(tmp_path / "index") == before


def test_build__inputs_that_failed_are_tried_again_if_asked(folder: Path, tmp_path: Path) -> None:
    encoder = photos.encoder()
    Image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(folder / "dusk" / "dark.png")
    with watching(_fail_on_dark):
        assert list(build(encoder, folder, tmp_path / "index", METHOD, shard=4).failed) == ["dusk/dark.png"]
    assert list(build(encoder, folder, tmp_path / "index", METHOD, shard=4).failed) == ["dusk/dark.png"]
    assert not build(encoder, folder, tmp_path / "index", METHOD, shard=4, retry=True).failed


def _fail_on_dark(_module: object, inputs: tuple[torch.Tensor, ...]) -> None:
    if bool((inputs[0].flatten(1).amax(1) < 0.01).any()):
        raise RuntimeError("too dark")


def test_build__pictures_in_memory_are_known_by_their_pixels(tmp_path: Path) -> None:
    encoder = photos.encoder()
    images = [Image.fromarray(photos.pixels("dawn", seed)) for seed in range(4)]
    build(encoder, images, tmp_path / "index", METHOD)
    before = contents(tmp_path / "index")
    build(encoder, [image.copy() for image in images], tmp_path / "index", METHOD)
    assert contents(tmp_path / "index") == before
    images[2].paste((255, 0, 0), (0, 0, 8, 8))
    with pytest.warns(Caution, match="1 of 4 entries are replaced: at their places there are other inputs"):
        build(encoder, images, tmp_path / "index", METHOD)
    assert contents(tmp_path / "index") != before


@pytest.mark.parametrize("retry", [False, True])
def test_build__other_data_never_take_the_place_of_an_index(folder: Path, tmp_path: Path, retry: bool) -> None:
    encoder = photos.encoder()
    pictures = [photos.pixels("dusk", seed) for seed in range(3)]
    build(encoder, folder, tmp_path / "files", METHOD)
    build(encoder, pictures, tmp_path / "numbered", METHOD)
    others = {"files": pictures, "numbered": [photos.pixels("dawn", seed) for seed in range(3)]}
    for name, data in others.items():  # ids that are numbers are those of any data
        before = contents(tmp_path / name)
        with pytest.raises(ValueError, match="it is of other data"):
            build(encoder, data, tmp_path / name, METHOD, retry=retry, drop=True)
        assert contents(tmp_path / name) == before


def test_build__other_data_with_some_in_common_take_the_place_only_if_asked(tmp_path: Path) -> None:
    encoder = photos.encoder()
    first, second = ([photos.pixels(kind, seed) for seed in range(5)] for kind in ("dawn", "dusk"))
    build(encoder, first, tmp_path / "index", METHOD)
    before = contents(tmp_path / "index")
    with pytest.raises(ValueError, match=r"4 of the 5 inputs at the places of the index .* say drop=True \(--drop\)"):
        build(encoder, [first[0], *second[1:]], tmp_path / "index", METHOD)
    assert contents(tmp_path / "index") == before
    with pytest.warns(Caution, match="4 of 5 entries are replaced"):
        build(encoder, [first[0], *second[1:]], tmp_path / "index", METHOD, drop=True)


def test_build__other_data_are_told_though_a_row_is_broken(folder: Path, tmp_path: Path) -> None:
    for kind, last in (("dawn", "{broken"), ("dusk", '{"file": "photos/dusk/4.png"}')):
        lines = [f'{{"file": "photos/{kind}/{number}.png"}}' for number in range(4)]
        (tmp_path / f"{kind}.jsonl").write_text("\n".join([*lines, last]))
    build(photos.encoder(), tmp_path / "dawn.jsonl", tmp_path / "index", METHOD)
    with pytest.raises(ValueError, match="it is of other data"):
        build(photos.encoder(), tmp_path / "dusk.jsonl", tmp_path / "index", METHOD)


def test_build__all_files_have_changed(folder: Path, tmp_path: Path) -> None:
    encoder = photos.encoder()
    build(encoder, folder, tmp_path / "index", METHOD, shard=3)
    for number, path in enumerate(sorted(folder.rglob("*.png"))):
        Image.fromarray(photos.pixels("dusk", 50 + number)).save(path)
    index = build(encoder, folder, tmp_path / "index", METHOD, shard=3)
    fresh = build(encoder, folder, tmp_path / "fresh", METHOD, shard=3)
    assert index.ids == fresh.ids
    assert contents(tmp_path / "index") == contents(tmp_path / "fresh")


def test_build__most_entries_are_dropped_only_if_asked(folder: Path, tmp_path: Path) -> None:
    encoder = photos.encoder()
    build(encoder, folder, tmp_path / "index", METHOD, shard=3)
    before = contents(tmp_path / "index")
    for number in range(1, 5):
        (folder / "dawn" / f"{number}.png").unlink()
        (folder / "dusk" / f"{number}.png").unlink()
    with pytest.raises(ValueError, match=r"8 of the 10 inputs of the index .* say drop=True \(--drop\)"):
        build(encoder, folder, tmp_path / "index", METHOD)
    assert contents(tmp_path / "index") == before
    with pytest.warns(Caution, match="8 of 10 entries are dropped: their inputs are gone"):
        index = build(encoder, folder, tmp_path / "index", METHOD, drop=True)
    assert index.ids == ["dawn/0.png", "dusk/0.png"]


def test_build__an_entry_stays_while_its_input_cannot_be_read(tmp_path: Path, folder: Path) -> None:
    encoder = photos.encoder()
    (tmp_path / "list.csv").write_text("file\n" + "\n".join(f"photos/dawn/{number}.png" for number in range(5)))
    before = build(encoder, tmp_path / "list.csv", tmp_path / "index", METHOD).representations
    shutil.move(folder, tmp_path / "elsewhere")
    with pytest.warns(Caution, match="5 inputs that have entries cannot be read now; the entries are kept"):
        index = build(encoder, tmp_path / "list.csv", tmp_path / "index", METHOD)
    assert torch.equal(index.representations, before)
    assert not index.failed


def test_build__a_column_with_gaps_is_no_news(tmp_path: Path) -> None:
    images = [photos.pixels("dawn", seed) for seed in range(4)]
    for _ in range(2):
        index = build(photos.encoder(), images, tmp_path / "index", METHOD, labels={"size": [1.0, np.nan, 2.0, None]})
    times = {path: path.stat().st_mtime_ns for path in shard_files(tmp_path / "index")}
    build(photos.encoder(), images, tmp_path / "index", METHOD, labels={"size": np.array([1.0, np.nan, 2.0, np.nan])})
    assert {path: path.stat().st_mtime_ns for path in shard_files(tmp_path / "index")} == times
    assert index.column("size").tolist() == [1.0, None, 2.0, None]


def test_build__going_on_reads_no_fields(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(photos.encoder(), folder, tmp_path / "index", METHOD)
    read: list[Any] = []
    own = resuming.read_shard
    monkeypatch.setattr(
        resuming, "read_shard", lambda path, columns=None, *rest: read.append(columns) or own(path, columns, *rest)
    )
    build(photos.encoder(), folder, tmp_path / "index", METHOD)
    assert read[0] == ["id", "digest", "error"]
    assert not any("field" in columns for columns in read)

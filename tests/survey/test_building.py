from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import cocoax
from cocoax.masking.baseline_presets import OtherPictures
from cocoax.store import folder_lock
from cocoax.survey import Index, build
from cocoax.survey import storage as resuming
from cocoax.survey.plans import seeded
from cocoax.survey.storage import Manifest, write_shard
from tests.survey import photos
from tests.survey.photos import contents, watching

METHOD = cocoax.Rise(samples=40, grid=4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return photos.write(tmp_path / "photos")


def test_build__fields_are_the_effects_of_a_run_of_each_input(folder: Path, tmp_path: Path) -> None:
    encoder = photos.encoder()
    method = cocoax.Rise(samples=1536, grid=4)  # so many that a plain estimate is good
    index = build(encoder, folder, tmp_path / "index", method, shard=3)
    assert index.ids == [f"{kind}/{number}.png" for kind in ("dawn", "dusk") for number in range(5)]
    assert index.columns["label"].tolist() == ["dawn"] * 5 + ["dusk"] * 5
    target = cocoax.similarity_to(encoder.reference([folder / "dawn" / "0.png"]))
    for row in (0, 7):
        run = seeded(method, index.ids[row]).run(encoder, folder / index.ids[row])
        scores = target.score(run.representations)
        kept = torch.cat([run.masks.full(slice(i, i + 1)) for i in range(len(run))]).double()
        # A slow and plain estimate of the same thing: the covariance of score and mask, over p (1 - p), pooled to cells.
        plain = torch.einsum("n,nhw->hw", scores.double() - scores.double().mean(), kept - kept.mean(0)) / len(run) / 0.25
        pooled = plain.unflatten(0, (4, 4)).unflatten(2, (4, 4)).mean((1, 3))
        ours = index.field(row).explain(target).values.double()
        assert float(torch.corrcoef(torch.stack([ours.flatten(), pooled.flatten()]))[0, 1]) > 0.97
        exact = run.method.effects(run.method.cells(run.masks, (4, 4)), scores[:, None], torch.zeros(2, 1))[0]
        assert torch.allclose(ours, exact.double(), atol=2e-3 * float(exact.abs().max()))


def test_build__nothing_is_done_twice(folder: Path, tmp_path: Path) -> None:
    encoder = photos.encoder()
    build(encoder, folder, tmp_path / "index", METHOD, shard=3)
    before = contents(tmp_path / "index")
    seen: list[int] = []
    with watching(lambda _module, inputs: seen.append(len(inputs[0]))):
        build(encoder, folder, tmp_path / "index", METHOD, shard=3)
    assert set(seen) == {1}  # probes
    assert contents(tmp_path / "index") == before


def test_build__goes_on_after_any_shard_and_ends_byte_for_byte_the_same(folder: Path, tmp_path: Path) -> None:
    encoder = photos.encoder()
    build(encoder, folder, tmp_path / "whole", METHOD, shard=3)
    whole = contents(tmp_path / "whole")
    for lost in whole:
        shutil.copytree(tmp_path / "whole", tmp_path / "part")
        (tmp_path / "part" / "shards" / lost).unlink()
        (tmp_path / "part" / "shards" / f"{lost}.0123abcd.part").write_bytes(b"half")
        build(encoder, folder, tmp_path / "part", METHOD, shard=3)
        assert contents(tmp_path / "part") == whole
        assert not list((tmp_path / "part" / "shards").glob("*.part"))
        shutil.rmtree(tmp_path / "part")


def test_build__an_input_that_fails_is_an_entry_with_its_error(folder: Path, tmp_path: Path) -> None:
    (folder / "dawn" / "2.png").write_bytes(b"no picture")
    index = build(photos.encoder(), folder, tmp_path / "index", METHOD)
    assert len(index) == 9
    assert list(index.failed) == ["dawn/2.png"]
    assert "dawn/2.png" not in index.ids


def test_build__names_and_values_that_no_file_can_hold(folder: Path, tmp_path: Path) -> None:
    os.rename(folder / "dawn" / "0.png", os.fsencode(folder / "dawn") + b"/\xff.png")
    (folder / "dusk" / "0.png").unlink()
    os.mkdir(os.fsencode(folder) + b"/\xfe")
    os.rename(folder / "dusk" / "1.png", os.fsencode(folder) + b"/\xfe/1.png")
    index = build(photos.encoder(), folder, tmp_path / "index", METHOD, shard=4)
    assert {"dawn/\\udcff.png", "\\udcfe/1.png"} < set(index.ids)
    assert not index.failed
    images = [photos.pixels("dawn", seed) for seed in range(3)]
    hashes = np.array([2**64 - 1, 5, 6], np.uint64)
    columns = {"hash": hashes, "mixed": [2**60 + 1, 0.5, None], "label": ["\ud800", "b", "c"]}
    numbered = build(photos.encoder(), images, tmp_path / "numbered", METHOD, labels=columns)
    assert numbered.column("hash").tolist() == [str(2**64 - 1), "5", "6"]
    assert numbered.column("label").tolist() == ["\\ud800", "b", "c"]


def test_build__all_failed(folder: Path, tmp_path: Path) -> None:
    for path in folder.rglob("*.png"):
        path.write_bytes(b"no picture")
    with pytest.raises(ValueError, match="None of the 10 inputs could be explained; the first, 'dawn/0"):
        build(photos.encoder(), folder, tmp_path / "index", METHOD)


def test_build__two_at_once(folder: Path, tmp_path: Path) -> None:
    build(photos.encoder(), folder, tmp_path / "index", METHOD)
    with folder_lock(tmp_path / "index"), pytest.raises(ValueError, match="Another process is at work in"):
        build(photos.encoder(), folder, tmp_path / "index", METHOD)
    build(photos.encoder(), folder, tmp_path / "index", METHOD)


def test_build__another_encoder_or_method_is_refused(folder: Path, tmp_path: Path) -> None:
    encoder = photos.encoder()
    build(encoder, folder, tmp_path / "index", METHOD)
    with pytest.raises(ValueError, match=r"another method .* write to another folder"):
        build(encoder, folder, tmp_path / "index", cocoax.Rise(samples=60, grid=4))
    other = photos.encoder()
    assert other.owner is not None
    other.owner.scale.data.fill_(2.0)  # type: ignore[union-attr, operator]
    with pytest.raises(ValueError, match="was made by the encoder 'halves', and 'halves' is another one"):
        build(other, folder, tmp_path / "index", METHOD)
    with pytest.raises(ValueError, match=r"cosine or dot\. Got rbf"):
        build(encoder, folder, tmp_path / "other", METHOD, similarity="rbf")


def test_build__another_view_is_refused(tmp_path: Path) -> None:
    folder, index = tmp_path / "photos", tmp_path / "index"
    folder.mkdir()
    for number in range(4):  # twice as wide as high, so that the two views differ
        Image.fromarray(np.tile(photos.pixels("dawn", number), (1, 2, 1))).save(folder / f"{number}.png")
    files = sorted(folder.iterdir())
    encoder = photos.encoder()
    build(encoder.whole(), files[:2], index, METHOD)
    before = contents(index)
    with pytest.raises(ValueError, match=r"another view of its inputs \(whole\) than .* \(what the encoder itself sees\)"):
        build(encoder, files, index, METHOD)
    assert contents(index) == before
    assert len(build(encoder.whole(), files, index, METHOD)) == 4  # the same view goes on
    build(encoder, files[:2], tmp_path / "other", METHOD)
    with pytest.raises(ValueError, match=r"another view of its inputs \(what the encoder itself sees\) than .* \(whole\)"):
        build(encoder.whole(), files, tmp_path / "other", METHOD)


def test_build__another_content_of_the_baseline_is_refused(folder: Path, tmp_path: Path) -> None:
    def method(value: float) -> cocoax.Rise:
        return cocoax.Rise(samples=40, grid=4, baseline=OtherPictures((torch.full((3, 16, 16), value),)))

    encoder, files = photos.encoder(), sorted(folder.rglob("*.png"))
    build(encoder, files[:2], tmp_path / "index", method(0.0))
    before = contents(tmp_path / "index")
    with pytest.raises(ValueError, match=r"another content of the method's tensors \(\w+\) than .* write to another folder"):
        build(encoder, files, tmp_path / "index", method(3.0))
    assert contents(tmp_path / "index") == before
    assert len(build(encoder, files, tmp_path / "index", method(0.0))) == 10


def test_build__a_folder_of_something_else_is_not_written_to(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("…")
    with pytest.raises(ValueError, match="is not empty and no index; choose an empty folder"):
        build(photos.encoder(), folder, tmp_path / "mine", METHOD)


def test_build__arrays_with_labels_and_rows(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(12, 4)).astype(np.float32)
    encoder = cocoax.TabularEncoder(torch.nn.Tanh(), columns=["a", "b", "c", "d"], background=torch.ones(1, 4), name="rows")
    index = build(encoder, rows, tmp_path / "index", labels=list("xxyyxxyyxxyy"))
    assert index.cells == (4,)
    survey = index.ask(cocoax.similarity_to(index.reference({"label": "x"})))
    assert survey.mean is not None
    assert survey.mean.names == ("a", "b", "c", "d")
    assert {part.name for part in survey.words} == {"a", "b", "c", "d"}
    with pytest.raises(ValueError, match="There are 12 inputs but 3 values of 'label'"):
        build(encoder, rows, tmp_path / "other", labels=[1, 2, 3])


def test_build__full_disk_says_how_much_is_needed_and_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cocoax.survey import storage as shards

    written: list[Path] = []

    def disk(path: Path, table: Any, manifest: Manifest) -> Path:
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(write_shard(path, table, manifest))
        return path

    monkeypatch.setattr(shards, "write_shard", disk)
    with pytest.raises(OSError, match=r"The disk is full: about \d+\.\d MB are needed for the 7 inputs that are missing"):
        build(photos.encoder(), folder, tmp_path / "index", METHOD, shard=3)
    monkeypatch.undo()
    first = written[0].read_bytes()
    assert len(build(photos.encoder(), folder, tmp_path / "index", METHOD, shard=3)) == 10
    assert written[0].read_bytes() == first


@pytest.mark.parametrize("label", ["b", "a"])
def test_build__killed_before_the_manifest_knows_new_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    images = [photos.pixels("dawn", seed) for seed in range(4)]
    build(photos.encoder(), images, tmp_path / "index", METHOD, shard=2, labels={"a": [1, 2, 3, 4]})
    own, written = resuming.store, []

    def store_once(*given: Any) -> Path:
        if written:
            raise KeyboardInterrupt
        written.append(own(*given))
        return written[0]

    monkeypatch.setattr(resuming, "store", store_once)
    with pytest.raises(KeyboardInterrupt):  # between two files that get new columns
        build(photos.encoder(), images, tmp_path / "index", METHOD, shard=2, labels={label: list("abcd")})
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"was interrupted \(.*run the same call again, which goes on with it"):
        Index.open(tmp_path / "index").ids  # noqa: B018
    index = build(photos.encoder(), images, tmp_path / "index", METHOD, shard=2, labels={label: list("abcd")})
    assert index.column(label).tolist() == list("abcd")


def test_build__killed_before_there_was_a_manifest(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "manifest.json.0123abcd.part").write_text("{")
    assert len(build(photos.encoder(), folder, tmp_path / "index", METHOD)) == 10
    assert not list((tmp_path / "index").rglob("*.part"))


def test_build__tells_how_many_failed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "dawn" / "0.png").write_bytes(b"no picture")
    monkeypatch.delenv("COCOAX_PROGRESS", raising=False)
    build(photos.encoder(), folder, tmp_path / "index", METHOD, progress=True)
    assert "1 failed" in capsys.readouterr().err


FOREIGN = (
    "film.mkv.part",
    "manifest.json.part",
    "manifest.json.0123abcd.part.bak",
    "a.damaged",
    ".tmp1",
    "notes.txt",
    "x.parquet",
)


@pytest.mark.parametrize("name", [*FOREIGN, "downloads/film.mkv.part"])
def test_build__a_folder_with_a_foreign_file_is_refused_and_left_alone(folder: Path, tmp_path: Path, name: str) -> None:
    foreign = tmp_path / "index" / name
    foreign.parent.mkdir(parents=True)
    foreign.write_text("the user's own")
    with pytest.raises(ValueError, match="is not empty and no index"):
        build(photos.encoder(), folder, tmp_path / "index", METHOD)
    assert [path for path in (tmp_path / "index").rglob("*") if path.is_file()] == [foreign]
    assert foreign.read_text() == "the user's own"

"""Building an index: its entries, their masks, and what a build that goes on does again."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax.cautions import Caution
from cocoax.methods.field import feature_vectors, pooled
from cocoax.methods.run import RemovalMethod
from cocoax.store import atomic_write, folder_lock
from cocoax.survey import Index, build, storage
from cocoax.survey import builder as building
from cocoax.survey.builder import EntryBuilder, _FieldPlan, _with_own_seed
from cocoax.survey.items import Item, content_digest
from cocoax.survey.storage import IndexRecipe, linear_similarity, shard_files
from tests.survey import photos
from tests.survey.photos import contents, dawn_rather_than_dusk, watching

METHOD = cocoax.Rise(samples=40, grid=4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return photos.write(tmp_path / "photos")


def test_build__fields_are_the_effects_of_a_run_of_each_input(folder: Path, tmp_path: Path) -> None:
    encoder = photos.encoder()
    method = cocoax.Rise(samples=1536, grid=4, baseline=cocoax.Blur())  # so many that a plain estimate is good
    index = build(encoder, folder, tmp_path / "index", method, shard=3)
    assert index.ids == [f"{kind}/{number}.png" for kind in ("dawn", "dusk") for number in range(5)]
    assert index.columns["label"].tolist() == ["dawn"] * 5 + ["dusk"] * 5
    target = cocoax.similarity_to(encoder.reference([folder / "dawn" / "0.png"]))
    for row in (0, 7):
        run = _with_own_seed(method, index.ids[row]).run(encoder, folder / index.ids[row])
        scores = target.score(run.representations)
        kept = torch.cat([run.masks.full(slice(i, i + 1)) for i in range(len(run))]).double()
        # A slow and plain estimate of the same thing: the covariance of score and mask, over p (1 - p), pooled to cells.
        plain = torch.einsum("n,nhw->hw", scores.double() - scores.double().mean(), kept - kept.mean(0)) / len(run) / 0.25
        pooled = plain.unflatten(0, (4, 4)).unflatten(2, (4, 4)).mean((1, 3))
        ours = index.field(row).explain(target).values.double()
        assert float(torch.corrcoef(torch.stack([ours.flatten(), pooled.flatten()]))[0, 1]) > 0.97
        exact = run.method.effects(run.method.cells(run.masks, (4, 4)), scores[:, None], torch.zeros(2, 1)).values[0]
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


def test_build__two_at_once(folder: Path, tmp_path: Path) -> None:
    build(photos.encoder(), folder, tmp_path / "index", METHOD)
    with folder_lock(tmp_path / "index"), pytest.raises(ValueError, match="Another process is at work in"):
        build(photos.encoder(), folder, tmp_path / "index", METHOD)
    build(photos.encoder(), folder, tmp_path / "index", METHOD)


def test_build__another_encoder_or_method_is_refused(folder: Path, tmp_path: Path) -> None:
    encoder = photos.encoder()
    build(encoder, folder, tmp_path / "index", METHOD)
    with pytest.raises(ValueError, match="made with samples=40, and now samples=60 is asked for; use another folder"):
        build(encoder, folder, tmp_path / "index", cocoax.Rise(samples=60, grid=4))
    with pytest.raises(ValueError, match=r"made with baseline=None, seed=0, and now baseline=Constant, seed=1 is"):
        build(encoder, folder, tmp_path / "index", replace(METHOD, baseline=cocoax.Constant(0.0), seed=1))
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
    with pytest.raises(ValueError, match="view=whole, and now view=what the encoder itself sees is asked"):
        build(encoder, files, index, METHOD)
    assert contents(index) == before
    assert len(build(encoder.whole(), files, index, METHOD)) == 4  # the same view goes on
    build(encoder, files[:2], tmp_path / "other", METHOD)
    with pytest.raises(ValueError, match="view=what the encoder itself sees, and now view=whole is asked"):
        build(encoder.whole(), files, tmp_path / "other", METHOD)


def test_build__another_content_of_the_baseline_is_refused(folder: Path, tmp_path: Path) -> None:
    def method(value: float) -> cocoax.Rise:
        return cocoax.Rise(samples=40, grid=4, baseline=cocoax.Several((cocoax.Fixed(torch.full((3, 16, 16), value)),)))

    encoder, files = photos.encoder(), sorted(folder.rglob("*.png"))
    build(encoder, files[:2], tmp_path / "index", method(0.0))
    before = contents(tmp_path / "index")
    with pytest.raises(ValueError, match=r"made with tensors=\w+, and now tensors=\w+ is asked for"):
        build(encoder, files, tmp_path / "index", method(3.0))
    assert contents(tmp_path / "index") == before
    assert len(build(encoder, files, tmp_path / "index", method(0.0))) == 10


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
    written: list[Path] = []

    @contextmanager
    def disk(path: Path) -> Iterator[Path]:
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        with atomic_write(path) as part:
            yield part

    monkeypatch.setattr(storage, "atomic_write", disk)
    with pytest.raises(OSError, match=r"The disk is full: about \d+\.\d MB are needed for the 7 inputs that are missing"):
        build(photos.encoder(), folder, tmp_path / "index", METHOD, shard=3)
    monkeypatch.undo()
    first = written[0].read_bytes()
    assert len(build(photos.encoder(), folder, tmp_path / "index", METHOD, shard=3)) == 10
    assert written[0].read_bytes() == first


def test_build__says_how_long_it_takes_and_writes_every_minute(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "_PATIENCE", -1.0)  # every input takes longer
    said: list[str] = []
    index = build(photos.encoder(), folder, tmp_path / "index", METHOD, announce=said.append)
    assert len(shard_files(tmp_path / "index")) == 10
    size = sum(path.stat().st_size for path in shard_files(tmp_path / "index")) / 1e6
    (match,) = [re.fullmatch(r"10 images: about \d+ s and ([\d.e-]+) MB", sentence) for sentence in said]
    assert match is not None
    assert float(match[1]) < size  # which has heads too
    monkeypatch.undo()
    whole = build(photos.encoder(), folder, tmp_path / "whole", METHOD)
    assert len(shard_files(tmp_path / "whole")) == 1
    assert torch.equal(whole.representations, index.representations)


def test_build__says_what_takes_less_time(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_MINUTES", 0.0)
    said: list[str] = []
    build(photos.encoder(), folder, tmp_path / "index", replace(METHOD, samples=80), announce=said.append)
    assert said[0].endswith(" MB; --samples 20 takes a quarter of the time, with noisier maps")


def test_build__what_is_finished_is_kept_where_it_is_interrupted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, entry = [], EntryBuilder._entry

    def stopped(builder: EntryBuilder, loaded: Any, encoded: Any) -> Any:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(loaded.item.id)
        return entry(builder, loaded, encoded)

    monkeypatch.setattr(EntryBuilder, "_entry", stopped)
    with pytest.raises(KeyboardInterrupt):
        build(photos.encoder(), folder, tmp_path / "index", METHOD)
    assert Index.open(tmp_path / "index").ids == made
    monkeypatch.undo()
    whole = build(photos.encoder(), folder, tmp_path / "whole", METHOD)
    assert torch.equal(build(photos.encoder(), folder, tmp_path / "index", METHOD).representations, whole.representations)


def test_build__an_index_without_entries_is_taken_over(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EntryBuilder, "_entry", stopped)
    with pytest.raises(KeyboardInterrupt):
        build(photos.encoder(), folder, tmp_path / "index", METHOD)
    monkeypatch.undo()
    index = build(photos.encoder(), folder, tmp_path / "index", replace(METHOD, samples=24))
    assert (len(index), index.manifest.recipe["method"]["samples"]) == (10, 24)


@pytest.mark.parametrize("crop", [False, True])
def test_build__an_encoder_given_by_name_sees_what_commands_see(
    crop: bool, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "load", lambda name, device: photos.encoder().whole())
    recipe = build("halves", folder, tmp_path / "index", METHOD, crop=crop).manifest.recipe
    assert recipe.get("view") == (None if crop else "whole")
    assert recipe["method"]["baseline"]["sigma"] == 20
    recipe = build("halves", folder, tmp_path / "other", METHOD, crop=crop, baseline="mean-colour").manifest.recipe
    assert recipe["method"]["baseline"]["type"] == "Mean"


@pytest.mark.parametrize("named", [True, False])
def test_build__only_an_encoder_given_by_name_loses_its_text_tower(
    named: bool, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = photos.encoder()
    encoder = cocoax.Encoder(own.module, own.preprocess, text=photos.encoder(), name="halves")
    monkeypatch.setattr(building, "load", lambda name, device: encoder)
    index = build("halves" if named else encoder, folder, tmp_path / "index", METHOD)
    assert len(index) == 10
    assert encoder.text.device.type == ("meta" if named else "cpu")


def test_build__tells_how_many_failed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "dawn" / "0.png").write_bytes(b"no picture")
    monkeypatch.delenv("COCOAX_PROGRESS", raising=False)
    build(photos.encoder(), folder, tmp_path / "index", METHOD, progress=True)
    assert "1 failed" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["manifest.json.0123abcd.part.bak", "notes.txt", "x.parquet", "downloads/film.mkv.part"])
def test_build__a_folder_with_a_foreign_file_is_refused_and_left_alone(folder: Path, tmp_path: Path, name: str) -> None:
    foreign = tmp_path / "index" / name
    foreign.parent.mkdir(parents=True)
    foreign.write_text("the user's own")
    with pytest.raises(ValueError, match="is not empty, and no index"):
        build(photos.encoder(), folder, tmp_path / "index", METHOD)
    assert [path for path in (tmp_path / "index").rglob("*") if path.is_file()] == [foreign]
    assert foreign.read_text() == "the user's own"


def maker(method: cocoax.Rise = photos.METHOD, similarity: str = "cosine") -> EntryBuilder:
    encoder = photos.encoder()
    return EntryBuilder(encoder, IndexRecipe(method, similarity), encoder.space)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_make__is_what_a_run_of_the_input_gives(similarity: str) -> None:
    own, image = maker(similarity=similarity), photos.pixels("dawn", 1)
    (entry,) = own.make([own.read(Item("a", image, {"year": 3}))])
    run = _with_own_seed(photos.METHOD, "a").run(own.encoder, image)
    vectors, anchors = feature_vectors(run.representations, run.anchors, linear_similarity(similarity))
    masks = run.method.cells(run.masks, (4, 4))
    expected = run.method.effects(masks, vectors, anchors).values.movedim(0, -1)
    assert entry.field is not None
    assert torch.allclose(entry.field, expected.float(), atol=1e-5 * float(expected.abs().max()))
    assert entry.representation is not None
    assert torch.allclose(entry.representation, run.anchors[0].float(), atol=1e-6)
    assert entry.columns == {"year": 3}


def test_noise__the_error_of_a_map_is_that_over_seeds(index: Index) -> None:
    """The spread of a map over many seeds of its masks, against the error that an entry tells, both over all cells."""
    own, image = maker(), photos.pixels("dawn", 1)
    direction = dawn_rather_than_dusk(index).direction().float()
    entries = list(own.make([own.read(Item(str(seed), image)) for seed in range(400)]))
    maps = torch.stack([entry.field @ direction for entry in entries if entry.field is not None])
    told = (
        torch.stack([(entry.noise @ direction).square().mean() for entry in entries if entry.noise is not None]).mean().sqrt()
    )
    assert float(told) == pytest.approx(float(maps.var(0).mean().sqrt()), rel=0.12)


@pytest.mark.parametrize("error", [struct.error("unpack"), KeyError("x")])
def test_make__whatever_goes_wrong_with_one_is_its_entry(error: Exception) -> None:
    own = maker()

    class Bad(Item):
        def load(self) -> object:
            raise error

    entries = list(own.make([own.read(item) for item in (Bad("bad", None), Item("good", photos.pixels("dusk", 1)))]))
    assert entries[0].error == f"{type(error).__name__}: {error}"
    assert entries[0].field is None
    assert entries[1].error is None
    assert content_digest(own.encoder, Bad("bad", None)) == ""


def test_make__one_that_is_not_finite_does_not_spoil_those_encoded_with_it() -> None:
    own, images = maker(), [photos.pixels("dawn", seed) for seed in range(3)]
    alone = [next(iter(own.make([own.read(Item(str(n), image))]))) for n, image in enumerate(images)]
    bad = torch.full((3, 16, 16), torch.nan)
    items = [Item("0", images[0]), Item("bad", bad), Item("1", images[1]), Item("2", images[2])]
    together = list(own.make([own.read(item) for item in items]))
    assert [entry.error is None for entry in together] == [True, False, True, True]
    for entry, expected in zip([together[0], *together[2:]], alone, strict=True):
        assert entry.field is not None
        assert expected.field is not None
        assert torch.allclose(entry.field, expected.field, atol=1e-6)


def test_read__pictures_in_tables_are_read_as_files_are() -> None:
    """With the checks of files: known formats, and sizes that are known before anything is decoded."""
    own, file = maker(), io.BytesIO()
    Image.fromarray(photos.pixels("dawn", 3)).save(file, "PNG")
    (entry,) = own.make([own.read(Item("a", file.getvalue()))])
    (expected,) = own.make([own.read(Item("a", photos.pixels("dawn", 3)))])
    assert entry.field is not None
    assert torch.equal(entry.field, expected.field)  # type: ignore[arg-type]
    huge = b"P6 20000 20000 255\n"
    for content, why in (
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "What the table holds is not an image"),
        (huge, "has too many pixels"),
    ):
        (entry,) = own.make([own.read(Item("a", content))])
        assert why in str(entry.error)
    assert content_digest(own.encoder, Item("a", huge)) == entry.digest


def test_read__an_input_that_is_too_large_is_refused_by_its_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its bytes being read, which takes twenty seconds for these."""
    own = maker()
    monkeypatch.setattr(type(own.encoder.inputs), "digest", lambda *_: pytest.fail("its bytes were read"))
    item = Item("a", torch.zeros(1).expand(3, 20_000, 20_000))
    assert "The input has 1200000000 elements" in str(own.read(item).error)
    assert content_digest(own.encoder, item) == ""


class Normed(nn.Module):
    """A convolution with batch normalisation, which can be folded into it; of bright inputs the folded copy is wrong."""

    def __init__(self, limit: float = 1e9) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.conv, self.norm = nn.Conv2d(3, 5, 3, bias=False), nn.BatchNorm2d(5)
        self.limit = limit
        with torch.no_grad():
            self.norm.bias.fill_(0.5)

    def forward(self, images: Tensor) -> Tensor:
        made = self.norm(self.conv(images)).tanh().mean((2, 3))
        wrong = isinstance(self.norm, nn.Identity)  # only a folded copy has none
        return torch.where((images.mean((1, 2, 3)) > self.limit)[:, None] & wrong, -made, made)


def test_make__a_folded_encoder_is_tried_on_every_input() -> None:
    """Masked copies of a bright picture are spoilt by the fold, and those of the dark ones before it are not."""
    dark, bright = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1)).unbind()
    items = [
        Item("dark", 0.1 * dark),
        Item("other", 0.1 * dark.flip(0)),
        Item("bright", bright + 1),
        Item("last", 0.1 * dark),
    ]
    encoder = photos.encoder(Normed(limit=0.5))
    own = EntryBuilder(encoder, IndexRecipe(photos.METHOD), encoder.space)
    own.begin()
    entries = list(own.make([own.read(item) for item in items]))
    assert any(isinstance(fast.encoder.owner.norm, nn.Identity) for fast in own._fast.values())  # type: ignore[union-attr]
    for item, entry in zip(items, entries, strict=True):
        run = _with_own_seed(photos.METHOD, item.id).run(photos.encoder(Normed()), item.value)
        vectors, anchors = feature_vectors(run.representations, run.anchors, linear_similarity("cosine"))
        expected = run.method.effects(run.method.cells(run.masks, (4, 4)), vectors, anchors).values.movedim(0, -1)
        assert entry.field is not None
        assert torch.allclose(entry.field, expected.float(), atol=1e-4 * float(expected.abs().max()))


def test_make__dropped_tokens_of_pictures_of_several_shapes() -> None:
    encoder = cocoax.Encoder(Patchwork().eval(), name="patchwork")
    method = cocoax.Rise(samples=30, grid=2, baseline=cocoax.DropTokens())
    own = EntryBuilder(encoder, IndexRecipe(method), encoder.space)
    generator = torch.Generator().manual_seed(0)
    items = [Item(str(n), torch.randn(3, 8, width, generator=generator)) for n, width in enumerate((8, 16, 8, 24))]
    own.begin()
    for item, entry in zip(items, own.make([own.read(item) for item in items]), strict=True):
        run = _with_own_seed(method, item.id).run(encoder, item.value)
        vectors, anchors = feature_vectors(run.representations, run.anchors, linear_similarity("cosine"))
        expected = run.method.effects(run.masks, vectors, anchors).values  # [d, cells]
        assert entry.error is None
        assert entry.field is not None
        torch.testing.assert_close(entry.field.flatten(0, -2), expected.flatten(1).T.float(), rtol=1e-3, atol=1e-5)


class Patchwork(nn.Module):
    """A vision transformer of pictures of any width: patches of 4 x 4 with places, a class token."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.embed = nn.Conv2d(3, 8, 4, 4)
            self.first = nn.Parameter(torch.randn(1, 1, 8))
            self.places = nn.Parameter(torch.randn(8, 2, 6))
            self.blocks = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True))

    def forward(self, images: Tensor) -> Tensor:
        patches = self.embed(images)
        patches = (patches + self.places[:, :, : patches.shape[3]]).flatten(2).mT
        made: Tensor = self.blocks(torch.cat([self.first.expand(len(images), -1, -1), patches], 1))[:, 0]
        return made


def test_maker__another_encoder_than_where_the_index_was_begun() -> None:
    with pytest.raises(ValueError, match="The encoder 'halves' is another one here than where the index was begun"):
        EntryBuilder(photos.encoder(), IndexRecipe(photos.METHOD), "another space")


@pytest.mark.parametrize(
    ("method", "shape"),
    [
        (cocoax.Rise(samples=50, grid=3), (12, 9)),
        (cocoax.Rise(samples=40), (8,)),
        (cocoax.Rise(samples=300), (4,)),  # all subsets
        (cocoax.KernelShap(samples=64), (10,)),
        (cocoax.Occlusion(window=4, stride=4), (12, 8)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, RemovalMethod) else "x".join(map(str, value)),
)
def test_draw__matrices_do_what_the_method_does(method: RemovalMethod, shape: tuple[int, ...]) -> None:
    grid = (3, 3) if len(shape) == 2 else None
    plan = _FieldPlan.draw(method, shape, grid)
    count = len(plan.masks)
    vectors = torch.randn(count + 2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    masks = method.cells(method.draw(shape), grid)
    direct = pooled(method.effects(masks, vectors[:count], vectors[count:]).values, shape, grid).movedim(0, -1)
    assert torch.allclose(plan.field @ vectors, direct, atol=1e-9)


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
    with pytest.warns(Caution, match="1 of 4 entries are dropped: their inputs are gone, or replaced"):
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
    with pytest.raises(ValueError, match=r"4 of the 5 inputs of the index .* say drop=True \(--drop\)"):
        build(encoder, [first[0], *second[1:]], tmp_path / "index", METHOD)
    assert contents(tmp_path / "index") == before
    with pytest.warns(Caution, match="4 of 5 entries are dropped"):
        build(encoder, [first[0], *second[1:]], tmp_path / "index", METHOD, drop=True)


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

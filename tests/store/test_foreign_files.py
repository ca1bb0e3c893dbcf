"""Files of the user's own in the way of everything that writes: nothing of them is read, renamed, overwritten or deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import cocoax
from cocoax.encoders import ENCODERS
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.methods.run_cache import cached_run
from cocoax.paper.networks.resnet import ARCHITECTURES, ResNet
from cocoax.paper.studies.localisation_benchmark import localise
from cocoax.paper.training.trainer import Training
from cocoax.store import Layout, Results, clear_cache
from cocoax.survey import build
from tests.cli.support import invoke, picture, two_towers
from tests.conftest import images
from tests.paper.studies.test_localise import example
from tests.paper.training.tiny import RECIPE, noise, quiet
from tests.survey import photos
from tests.tiny import save_bert

DIGEST = "0123456789abcdef0123456789abcdef"
FOREIGN = (
    "film.mkv.part",
    "film.mkv.0123abcd.part",
    "x.safetensors",
    f"{DIGEST}.pt",
    "y.damaged",
    "checkpoint.pt.damaged.old",
    ".lock",
    ".tmp1",
    "manifest.json.part",
    "manifest.json.0123abcd.part.bak",
    "Manifest.json.txt",
    "my-options.json",
    "00000000-0123abcd.parquet.old",
    "x.parquet",
    "notes.txt",
)
SUBFOLDERS = ("", "units", "shards", "runs", "references", "downloads/deep")


@dataclass
class Workshop:
    """What the writers of files work with."""

    tmp_path: Path
    monkeypatch: pytest.MonkeyPatch

    def photos(self) -> Path:
        folder = self.tmp_path / "photos"
        return folder if folder.exists() else photos.write(folder, 2)

    def load(self, encoder: cocoax.Encoder) -> None:
        self.monkeypatch.setattr(cocoax, "load", lambda *_arguments, **_options: encoder)


def index(place: Workshop, out: Path) -> None:
    build(photos.encoder(), place.photos(), out, photos.METHOD)


def run_cache(place: Workshop, out: Path) -> None:
    cached_run(two_towers(), images(1)[0], cocoax.Rise(samples=10, grid=3), folder=out)


def reference_cache(place: Workshop, out: Path) -> None:
    place.monkeypatch.setenv("COCOAX_CACHE", str(out))
    two_towers().reference(images(3))


def cache_clear(place: Workshop, out: Path) -> None:
    reference_cache(place, out)
    cached_run(two_towers(), images(1)[0], cocoax.Rise(samples=10, grid=3))
    assert clear_cache().bytes > 0


def study(place: Workshop, out: Path) -> None:
    Results(out, {"runs": 1}, Layout("unit")).write("123-0000", {}, {})


def localisation(place: Workshop, out: Path) -> None:
    localise(two_towers(), [example(0)], cocoax.Rise(samples=10, grid=3), folder=out, keep_runs=True)


def training(place: Workshop, out: Path) -> None:
    place.monkeypatch.setitem(ARCHITECTURES, "tiny", lambda: ResNet((1, 1), (8, 16), (3, 1)))
    Training(RECIPE, noise(), out).run(until=3, say=quiet)


def ask(place: Workshop, out: Path) -> None:
    place.load(two_towers())
    picture(1, 40).save(place.tmp_path / "photo.png")
    said = invoke("ask", str(place.tmp_path / "photo.png"), "--like", "a cat", "--samples", "20", "--out", str(out))
    assert said.exit_code == 0, said.output


def match(place: Workshop, out: Path) -> None:
    folder = save_bert(place.tmp_path / "bert")
    place.monkeypatch.setitem(ENCODERS, "minilm", lambda: load_hf_text(str(folder)))  # type: ignore[arg-type]
    said = invoke("match", "a red car", "the big car", "--samples", "20", "--out", str(out))
    assert said.exit_code == 0, said.output


REFUSING = (index, study, localisation)  # a folder in which something else is
WRITERS = (index, run_cache, reference_cache, cache_clear, study, localisation, training, ask, match)


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def plant(folder: Path, subfolders: tuple[str, ...] = SUBFOLDERS) -> dict[Path, bytes]:
    """Put files of the user's own into a folder and into folders below it; return them all."""
    for path in (folder / below / name for below in subfolders for name in FOREIGN):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"the user's own {path.name}")
    return {path: own for path, own in content(folder).items() if own.startswith(b"the user's own")}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
@pytest.mark.parametrize("begun", [False, True], ids=["a new folder", "one that was written before"])
def test_foreign_files__stay_as_they_are(
    write: Callable[[Workshop, Path], None], begun: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, out = Workshop(tmp_path, monkeypatch), tmp_path / "out"
    if begun:
        write(place, out)
    foreign = plant(out)
    before = set(content(out))
    if write in REFUSING and not begun:
        with pytest.raises(ValueError, match=r"is not empty and no index|holds results but not"):
            write(place, out)
        assert set(content(out)) == before
    else:
        write(place, out)
    after = content(out)
    assert {path: after.get(path) for path in foreign} == foreign

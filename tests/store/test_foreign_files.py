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
from cocoax.survey import Index, build
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
    localise(two_towers(), [example(0)], cocoax.Rise(samples=10, grid=3), folder=out)


def training(place: Workshop, out: Path) -> None:
    place.monkeypatch.setitem(ARCHITECTURES, "tiny", lambda: ResNet((1, 1), (8, 16), (3, 1)))
    Training(RECIPE, noise(), out).run(until=3, say=quiet)


def command(place: Workshop, out: Path, *arguments: str) -> None:
    """Run a command about pictures, texts or an index with ``--out``."""
    for name in ("starter", "efficientnet-lite0"):
        place.monkeypatch.setitem(ENCODERS, name, two_towers)
    bert = save_bert(place.tmp_path / "bert")
    place.monkeypatch.setitem(ENCODERS, "minilm", lambda: load_hf_text(str(bert)))  # type: ignore[arg-type]
    said = invoke(*arguments, "--out", str(out))
    assert said.exit_code == 0, said.output


def an_index(place: Workshop) -> str:
    folder = place.tmp_path / "index"
    if not folder.exists():
        build(photos.encoder(), place.photos(), folder, photos.METHOD)
    return str(folder)


def photo(place: Workshop) -> str:
    path = place.tmp_path / "photo.png"
    picture(1, 40).save(path)
    return str(path)


def others(place: Workshop) -> str:
    folder = place.tmp_path / "others"
    folder.mkdir(exist_ok=True)
    for seed in range(4):
        picture(seed, 40).save(folder / f"{seed}.png")
    return str(folder)


def ask(place: Workshop, out: Path) -> None:
    command(place, out, "ask", photo(place), "--like", "a cat", "--samples", "20")


def ask_text(place: Workshop, out: Path) -> None:
    command(place, out, "ask-text", "a red car", "--like", "the big car", "--samples", "20")


def match(place: Workshop, out: Path) -> None:
    command(place, out, "match", "a red car", "the big car", "--samples", "20")


def why(place: Workshop, out: Path) -> None:
    lines = place.tmp_path / "texts.txt"
    lines.write_text("the cat\na big car\na red dog")
    command(place, out, "why", "a red car", "--index", str(lines), "--top", "2", "--samples", "20")


def minimal(place: Workshop, out: Path) -> None:
    command(place, out, "minimal", "the big red car", "--like", "the big red car", "--samples", "14")


def counterfactual(place: Workshop, out: Path) -> None:
    command(place, out, "counterfactual", "the big red car", "--like", "the big red car", "--unlike", "the cat parked")


def examples(place: Workshop, out: Path) -> None:
    command(place, out, "examples", "a car", "--member", "a red car", "--member", "the cat", "--method", "neighbours")


def compare_methods(place: Workshop, out: Path) -> None:
    asked = ("--like", photo(place), "--samples", "120", "--steps", "4", "--limit", "2")
    command(place, out, "compare-methods", others(place), *asked, "--method", "occlusion", "--method", "kernel-shap")


def discover(place: Workshop, out: Path) -> None:
    command(place, out, "discover", others(place), "--corpora", "2")


def survey(place: Workshop, out: Path) -> None:
    place.monkeypatch.setattr(Index, "encoder", property(lambda _index: two_towers()), raising=False)
    command(place, out, "survey", an_index(place))


def demo(place: Workshop, out: Path) -> None:
    command(place, out, "demo", "--samples", "20")


def index_command(place: Workshop, out: Path) -> None:
    command(place, out, "index", str(place.photos()), "--samples", "20", "--grid", "4")


def localise_command(place: Workshop, out: Path) -> None:
    command(place, out, "paper", "localise", others(place), "--collages", "2", "--samples", "20")


def reproduce(place: Workshop, out: Path) -> None:
    command(place, out, "paper", "reproduce", "localisation", "--samples", "20")


def augmentations(place: Workshop, out: Path) -> None:
    command(place, out, "paper", "augmentations", photo(place), "--foil", others(place), "--samples", "20")


# They refuse a folder in which something else is.
REFUSING = (index, study, localisation, training, index_command, localise_command)
COMMANDS = (
    *(ask, ask_text, match, why, minimal, counterfactual, examples, compare_methods, discover, survey, demo),
    *(reproduce, augmentations),
)
WRITERS = (*REFUSING, run_cache, reference_cache, cache_clear, *COMMANDS)


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
        refused(write, place, out)
        assert set(content(out)) == before
    else:
        write(place, out)
    after = content(out)
    assert {path: after.get(path) for path in foreign} == foreign


def refused(write: Callable[[Workshop, Path], None], place: Workshop, out: Path) -> None:
    with pytest.raises((ValueError, AssertionError), match="is not empty, and no"):
        write(place, out)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("write", [*REFUSING, *COMMANDS], ids=lambda write: write.__name__)
def test_files_of_the_same_names__are_not_replaced(
    write: Callable[[Workshop, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, first, out = Workshop(tmp_path, monkeypatch), tmp_path / "first", tmp_path / "out"
    write(place, first)
    assert content(first)
    for path in content(first):
        own = out / path.relative_to(first)
        if own.name != "options.json" and own.name != "manifest.json":  # by which a folder of Cocoax's own is known
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_text("the user's own")
    foreign = content(out)
    if write in REFUSING:
        refused(write, place, out)
    else:
        write(place, out)
        assert len(content(out)) > len(foreign)
    assert {path: own for path, own in content(out).items() if path in foreign} == foreign

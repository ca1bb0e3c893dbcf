"""Options that commands share: methods by name, the view of a photo, what removed parts become, the device."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from inspect import isfunction, signature
from pathlib import Path

import pytest

import cocoax
from cocoax.cli.main import COMMANDS, PAPER_COMMANDS
from cocoax.cli.options import (
    METHODS,
    Output,
    Sides,
    _method_class,
    check_pictures,
    configured,
    method_with,
    note_crop,
    with_option_groups,
)
from cocoax.inputs.explicand import Picture
from cocoax.masking import resolve
from cocoax.masking.removals import PRESETS
from cocoax.show import PlotOptions
from tests.cli.support import invoke, picture, run_main
from tests.paper.studies.tiny import write_checkpoint, write_folders
from tests.sounds import listener
from tests.towers import Spaces

# --- methods ---


def test_method_class__every_name_is_a_method_of_the_package() -> None:
    for name, class_name in METHODS.items():
        assert issubclass(_method_class(name), cocoax.Method)
        assert class_name in cocoax.methods.__all__


OWN = """
import cocoax
from dataclasses import dataclass

number = 3

@dataclass(frozen=True)
class Quick(cocoax.Rise):
    samples: int = 20
"""


def test_method_class__of_a_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quick_methods.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    method = method_with("quick_methods:Quick", {"grid": 3, "seed": None})
    assert isinstance(method, cocoax.Rise)
    assert (type(method).__name__, method.samples, method.grid) == ("Quick", 20, 3)
    assert sys.path == before
    for name in ("quick_methods:number", "quick_methods:Slow"):
        with pytest.raises(
            ValueError, match=r"'\w+' in the module 'quick_methods' is no attribution method, a subclass of coc"
        ):
            _method_class(name)
    with pytest.raises(ValueError, match="The module 'no_such_module' of the method 'Quick' cannot be imported: No module"):
        _method_class("no_such_module:Quick")


def test_method_with__an_option_it_lacks() -> None:
    with pytest.raises(ValueError, match=r"'occlusion' has no option --samples; it has none\."):
        method_with("occlusion", {"samples": 20, "seed": None})


# --- view ---


@pytest.fixture
def wide(tmp_path: Path) -> str:
    """The file of a photo that is three times as wide as high."""
    picture(3).resize((60, 20)).save(tmp_path / "wide.png")
    return str(tmp_path / "wide.png")


def read(*arguments: str) -> dict[str, object]:
    result = invoke(*arguments, "--json", catch_exceptions=False)
    assert result.exit_code == 0, result.output
    numbers: dict[str, object] = json.loads(result.stdout)
    return numbers


@pytest.mark.parametrize("crop", [[], ["--crop"]])
def test_seen__commands_agree_on_the_score(
    crop: list[str], towers: cocoax.Encoder, wide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(towers.text.inputs, "tokenize", Spaces())
    (tmp_path / "others").mkdir()
    for seed in range(2):
        picture(seed).save(tmp_path / "others" / f"{seed}.png")
    captions = ["red", "dog"]
    own = towers.represent([(towers.cropped() if crop else towers).explicand(wide)])
    target = cocoax.contrastive_corpus_similarity(*(towers.text.reference([caption]) for caption in captions))
    score = float(target.score(own)[0])
    captions = captions if score > 0 else captions[::-1]  # so that there is something to flip and to keep
    like = ["--like", captions[0], "--unlike", captions[1], *crop]
    answers = read("ask", wide, *like, "--samples", "30", "--out", str(tmp_path / "out"))
    asked = answers["pictures"][0]["answers"][0]["score"]  # type: ignore[index]
    assert asked == pytest.approx(abs(score), abs=1e-5)
    match = read("match", wide, captions[0], "--rather-than", captions[1], *crop, "--samples", "30")
    assert match["query"]["score"] == pytest.approx(asked, abs=1e-5)  # type: ignore[index]
    assert match["similarity"] - match["others"][0] == pytest.approx(asked, abs=1e-5)  # type: ignore[index,operator]
    flipped = read("counterfactual", wide, *like, "--gradient", "--smoothness", "0")
    assert flipped["score"] == pytest.approx(asked, abs=1e-5)
    others = str(tmp_path / "others")
    least = read("minimal", wide, "--like", wide, *crop, "--samples", "100")
    itself = read("ask", wide, "--like-image", wide, *crop, "--samples", "30", "--out", str(tmp_path / "out"))
    assert least["score"] == pytest.approx(itself["pictures"][0]["answers"][0]["score"], abs=1e-5)  # type: ignore[index]
    pictures = read("ask", wide, "--like-image", others, *crop, "--samples", "30", "--out", str(tmp_path / "out"))
    asked = pictures["pictures"][0]["answers"][0]["score"]  # type: ignore[index]
    members = read("examples", wide, "--member", str(tmp_path / "others"), *crop)["members"]
    assert sum(member["value"] for member in members) == pytest.approx(asked, abs=1e-5)  # type: ignore[attr-defined]


def test_seen__what_takes_the_place_of_removed_parts(towers: cocoax.Encoder, wide: str) -> None:
    assert resolve(None, configured(towers).inputs) == PRESETS["strong blur"]
    assert resolve(None, configured(towers, crop=True, baseline="mean-colour").inputs) == PRESETS["mean colour"]
    assert isinstance(resolve(None, configured(towers, baseline=wide).inputs), cocoax.Several)
    run = cocoax.Rise(samples=10).run(configured(towers), wide)
    assert run.method.baseline == PRESETS["strong blur"]
    assert cocoax.Rise(samples=10, baseline=cocoax.Mean()).run(configured(towers), wide).method.baseline == cocoax.Mean()
    with pytest.raises(ValueError, match="Removed parts become one of blur, strong-blur"):
        configured(towers, baseline="blurr")
    sounds = listener()
    assert configured(sounds).inputs is sounds.inputs  # which are removed as ever


def test_seen__keeps_the_space_and_the_view(towers: cocoax.Encoder, wide: str) -> None:
    assert configured(towers).space == towers.space
    assert configured(towers).explicand(wide).box == (0, 0, 1, 1)
    assert configured(towers, crop=True).explicand(wide).box == towers.cropped().explicand(wide).box != (0, 0, 1, 1)


def test_check_pictures(complaint: Callable[..., str]) -> None:
    check_pictures(["a text", Path("photo.png")], True, "blur")
    check_pictures(["a text", Path("voice.wav")], False, None)
    with pytest.raises(ValueError, match="--crop is about pictures, and none is explained here"):
        check_pictures(["a text", Path("voice.wav")], True, None)
    for command in ("minimal", "counterfactual"):
        said = complaint(command, "a red car", "--like", "a car", "--baseline", "blur")
        assert "--baseline is about pictures" in said
    assert "--crop is about pictures" in complaint("match", "a red car", "a car", "--crop")


def test_note_crop(capsys: pytest.CaptureFixture[str]) -> None:
    note_crop([None, Picture(), Picture(box=(0.06, 0.06, 0.94, 0.94))])  # a square loses as much all round
    assert capsys.readouterr().err == ""
    note_crop([Picture(box=(0.3, 0.05, 0.7, 0.95)), Picture(box=(0.3, 0.05, 0.7, 0.95))])
    assert (
        capsys.readouterr().err == "Of each photo, the square in the centre is looked at; what lies beside it is not seen.\n"
    )


# --- device ---


WITHOUT = {"cache", "encoders", "convert-simclr", "compare", "survey", "paper"}


ARGUMENTS = {
    "ask": ["IMAGE", "--like", "a cat"],
    "ask-text": ["a cat sat", "--like", "a dog"],
    "match": ["a cat", "a dog"],
    "why": ["a cat", "--index", "TEXTS"],
    "index": ["FOLDER", "--out", "index"],
    "localise": ["FOLDER", "--collages", "1"],
    "augmentations": ["IMAGE", "--foil", "FOLDER"],
    "reproduce": ["main", "--data", "DATA"],
    "knows": ["FOLDER", "FOLDER"],
    "discover": ["FOLDER"],
    "compare-methods": ["FOLDER", "--like", "a cat"],
    "minimal": ["IMAGE", "--like", "a cat"],
    "counterfactual": ["IMAGE", "--like", "a cat", "--unlike", "FOLDER"],
    "examples": ["IMAGE", "--member", "FOLDER"],
    "demo": [],
    "app": ["--no-browser"],
    "train": ["simclr", "--data", "DATA", "--out", "out", "--batch-size", "4"],
}


def test_device__of_all_commands_that_run_a_network() -> None:
    taking = set()
    for name, (place, _) in {**COMMANDS, **PAPER_COMMANDS}.items():
        module, function = place.split(":")
        command = getattr(import_module(f"cocoax.cli.{module}"), function)
        taking |= {name} if isfunction(command) and "device" in signature(with_option_groups(command)).parameters else set()
    assert taking == {*COMMANDS, *PAPER_COMMANDS} - WITHOUT == set(ARGUMENTS)


@pytest.mark.parametrize("command", [*ARGUMENTS, "train linear"])
def test_device__one_that_is_not_there_is_told(
    command: str, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command == "app":
        pytest.importorskip("gradio")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("one text\nanother")
    places = {"IMAGE": image, "TEXTS": "texts.txt", "FOLDER": str(tmp_path)}
    if "DATA" in (arguments := ARGUMENTS.get(command, [])):
        places["DATA"] = str(write_folders(tmp_path / "data"))
    if command in ("localise", "discover", "compare-methods"):  # a collage takes four photos, and some are held out
        for number in range(4):
            (tmp_path / f"{number}.png").write_bytes(Path(image).read_bytes())
    if command == "train linear":
        source = write_checkpoint(tmp_path / "net.safetensors", "simclr", classes=None)
        data = str(write_folders(tmp_path / "data"))
        arguments = ["--data", data, "--encoder", f"simclr:{source}", "--out", "out.safetensors"]
    typed = [places.get(argument, argument) for argument in arguments]
    paper = ["paper"] if command.split()[0] in PAPER_COMMANDS else []
    stopped = run_main(monkeypatch, *paper, *command.split(), *typed, "--device", "gpu")
    assert stopped.code == 1
    assert str(stopped.__cause__) == "No device is called 'gpu'; write 'cpu', 'cuda', 'cuda:1', 'mps' or 'auto'."


def test_option_groups__stand_one_by_one_and_figure_options_hold_for_what_is_drawn() -> None:
    found: list[tuple[list[str], bool, PlotOptions]] = []

    def command(name: str, sides: Sides, output: Output) -> None:
        found.append((sides.names, output.as_json, PlotOptions.of({"dpi": 90} if name == "own" else {})))

    drawn = with_option_groups(command)
    assert list(signature(drawn).parameters) == ["name", "like", "unlike", "as_json", "out", "style", "width", "dpi"]
    drawn(name="a", like=["x"], unlike=["y"], as_json=True, style="paper", width="double", dpi=None)
    drawn(name="own", like=["x"], dpi=200.0, width="4.5")
    drawn(name="b", like=["x"])
    assert [names for names, *_ in found] == [["x", "y"], ["x"], ["x"]]
    assert [(as_json, each.style, each.inches, each.resolution) for _, as_json, each in found] == [
        (True, "paper", 7.2, 300),
        (False, "screen", 4.5, 90),
        (False, "screen", None, PlotOptions().resolution),
    ]
    for wrong in ({"style": "big"}, {"width": "wide"}, {"dpi": 1.0}):
        with pytest.raises(ValueError, match=f"'{next(iter(wrong))}' parameter"):
            drawn(name="a", like=["x"], **wrong)


def test_option_groups__of_a_command_that_draws_nothing() -> None:
    assert list(signature(with_option_groups(lambda how: None)).parameters) == ["how"]

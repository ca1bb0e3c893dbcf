"""Encoders by name: the registry, and what is said of a name that is not in it."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import cocoax
from cocoax.encoders import ENCODERS, Known

LOADER = """
import cocoax

def load_mine(*what, **options):
    return cocoax.Encoder(lambda batch: batch.flatten(1), name="/".join([*what, *options]))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with a loader that is a user's own."""
    (tmp_path / "mine_of_a_user").mkdir()
    (tmp_path / "mine_of_a_user" / "loaders.py").write_text(LOADER)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "mine_of_a_user.loaders"


def test_encoders__every_loader_is_there() -> None:
    for known in ENCODERS.values():
        module, function = known.loader.split(":")
        assert callable(getattr(importlib.import_module(module, "cocoax.encoders.families"), function))


def test_encoders__a_loader_of_ones_own(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENCODERS, "mine", Known("my encoder", f"{module}:load_mine"))
    monkeypatch.setitem(ENCODERS, "mine:", Known("my encoders", f"{module}:load_mine"))
    assert cocoax.load("mine").represent(torch.ones(3, 2, 2)).shape == (1, 12)
    assert cocoax.load("mine:a:b", size=3).name == "a:b/size"


def test_encoders__full_names_of_our_own_loaders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENCODERS, "small", Known("again", "cocoax.paper.networks.families:load_small_simclr"))
    assert cocoax.load("small").fingerprint == cocoax.load("simclr-cifar10-small").fingerprint


def test_encoders__what_is_missing() -> None:
    assert find_spec("no_such_package") is None
    assert Known("mine", "mine:load", ("torch", "no_such_package")).missing == ["no_such_package"]


@pytest.mark.parametrize("name", ["qqq", "startr", "clop:x", ""])
def test_load__unknown_name_lists_the_known_in_their_order(name: str) -> None:
    with pytest.raises(ValueError, match=f"No encoder is called '{name}'; known are {', '.join(ENCODERS)}[.]"):
        cocoax.load(name)


@pytest.mark.parametrize(("name", "takes"), [("clip:", "NAME_OR_FOLDER"), ("simclr:", "FILE")])
def test_load__family_alone(name: str, takes: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' does not say which encoder to load; write {name}{takes}[.]"):
        cocoax.load(name)


@pytest.mark.parametrize(
    ("name", "closest"), [("startr", "starter"), ("efficientnet", "efficientnet-lite0"), ("MiniLM", "minilm")]
)
def test_load__unknown_name_suggests_the_closest(name: str, closest: str) -> None:
    with pytest.raises(ValueError, match=rf"No encoder is called '{name}'; known are .*Did you mean '{closest}'\?"):
        cocoax.load(name)


@pytest.mark.parametrize("name", ["x" * 300, "hf:" + "x" * 300, "simclr:" + "x" * 5000, "clip:a/" + "x" * 300, "a\0b"])
def test_load__a_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(ValueError, match="at most 255 characters"):
        cocoax.load(name)


def test_load__loads_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = cocoax.Encoder(torch.nn.Identity())
    monkeypatch.setitem(ENCODERS, "toy", lambda: encoder)
    assert cocoax.load("toy") is encoder


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.json", '{"model_type": "vit"}', "but there is a folder of that name; write 'hf:vit'[.]"),
        ("config.json", '{"architecture": "vit_tiny"}', "but there is a folder of that name; write 'timm:vit'[.]"),
        ("modules.json", "[]", "but there is a folder of that name; write 'st:vit'[.]"),
        ("open_clip_config.json", "{}", "but there is a folder of that name; write 'open_clip:vit'[.]"),
        ("photo.jpg", "", r"and the folder of that name holds no model that is known here \(modules.json"),
    ],
)
def test_load__a_folder_of_that_name(
    file: str, content: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vit").mkdir()
    (tmp_path / "vit" / file).write_text(content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"^No encoder is called 'vit', {said}"):
        cocoax.load("vit")


def test_load__a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights.pth").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"there is a file of that name; say which kind .* 'resnet50:weights\.pth'"):
        cocoax.load("weights.pth")

"""What removed parts of a picture may become, by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image
from torch.nn import functional as F

import cocoax
from cocoax.masking.removals import _MAX_OTHER_PICTURES, DEFAULT_PRESET, PRESETS, preset
from tests.conftest import SmallNet, images

COLOURS = ("red", "green", "blue", "white", "black")


@pytest.fixture
def encoder() -> cocoax.Encoder:
    return cocoax.Encoder(SmallNet().eval(), cocoax.ImagePreprocess(resize=16, crop=16), name="small")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for colour in COLOURS:
        Image.new("RGB", (30, 20), colour).save(tmp_path / f"{colour}.png")
    return tmp_path


def test_names__are_those_of_the_library(encoder: cocoax.Encoder) -> None:
    assert DEFAULT_PRESET in PRESETS
    assert preset("blur", encoder.inputs) == cocoax.Blur()
    assert preset("Mean-Colour", encoder.inputs) == cocoax.Mean()
    assert preset("strong-blur-and-mean-colour", encoder.inputs) == cocoax.Several((PRESETS["strong blur"], cocoax.Mean()))


def test_names__each_takes_away_more_texture_than_a_blur() -> None:
    explicand = images(1, 64, 64)[0]
    left = {name: float(baseline(explicand).var((-2, -1)).mean()) for name, baseline in PRESETS.items()}
    assert all(left[name] < left["blur"] / 3 for name in PRESETS if name != "blur")


def test_folder__gives_a_few_of_its_pictures(encoder: cocoax.Encoder, folder: Path) -> None:
    donors = preset(str(folder), encoder.inputs, seed=1)
    assert len(donors.baselines) == _MAX_OTHER_PICTURES
    drawn = [one.image for one in donors.baselines]
    prepared = [encoder.explicand(folder / f"{colour}.png").tensor for colour in COLOURS]
    assert all(any(torch.equal(one, other) for other in prepared) for one in drawn)
    again = preset(str(folder), encoder.inputs, seed=1)
    assert all(torch.equal(one, other) for one, other in zip(drawn, (one.image for one in again.baselines), strict=True))
    run = cocoax.Rise(samples=20, grid=3, baseline=donors).run(encoder, Image.new("RGB", (20, 20), "grey"))
    assert run.representations.shape == (20, _MAX_OTHER_PICTURES, 8)


def test_picture__alone(encoder: cocoax.Encoder, folder: Path) -> None:
    (only,) = preset(str(folder / "red.png"), encoder.inputs).baselines
    assert torch.equal(only.image, encoder.explicand(folder / "red.png").tensor)


def test_other_pictures__are_stretched_over_the_explicand() -> None:
    small, wide = images(1, 8, 8)[0], images(1, 16, 24, seed=1)[0]
    both = cocoax.Several((cocoax.Fixed(small, stretch=True), cocoax.Fixed(wide, stretch=True)))(wide)
    assert torch.equal(both[1], wide)
    torch.testing.assert_close(both[0], F.interpolate(small[None], (16, 24), mode="bilinear")[0])


def test_saved_run__knows_other_pictures(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    donor = cocoax.Several((cocoax.Fixed(images(1)[0], stretch=True),))
    run = cocoax.Rise(samples=20, grid=3, baseline=donor).run(encoder, images(1, seed=1)[0])
    loaded = cocoax.Run.load(run.save(tmp_path / "run.safetensors"))
    assert torch.equal(loaded.method.baseline.baselines[0].image, images(1)[0])
    assert len(loaded.extend(encoder, 10)) == 30


@pytest.mark.parametrize("name", ["", "blurr", "no/such/file.png"])
def test_names__that_are_none(name: str, encoder: cocoax.Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"Removed parts become one of blur, strong-blur, .*, a picture, or pictures of a"):
        preset(name or "nothing", encoder.inputs)


def test_folder__without_pictures(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"[Nn]o (pictures|images)"):
        preset(str(tmp_path), encoder.inputs)

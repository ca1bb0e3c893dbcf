"""Image processors of transformers as preprocessings: the same pixels, and the crop where it is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import cocoax
from cocoax.data import photo
from cocoax.encoders.families.processors import preprocess_of
from tests.encoders.families import tiny


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("vision")
    with tiny.making():
        return {name: make(root / name) for name, make in tiny.VISION.items()}


@pytest.mark.parametrize("family", tiny.VISION)
@pytest.mark.parametrize("size", [(90, 61), (52, 83), (64, 64), (33, 20), (301, 200)])
def test_preprocess__pixels_are_those_of_the_processor(family: str, size: tuple[int, int], folders: dict[str, Path]) -> None:
    processor = transformers.AutoImageProcessor.from_pretrained(folders[family])
    preprocess = preprocess_of(processor)
    assert isinstance(preprocess, cocoax.ImagePreprocess)
    picture = photo("cat").resize(size)
    expected = processor(images=picture, return_tensors="pt")["pixel_values"][0]
    torch.testing.assert_close(preprocess(picture), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"do_rescale": False},
        {"do_normalize": False},
        {"do_rescale": False, "do_normalize": False},
        {"rescale_factor": 1 / 127.5},
        {"do_resize": False},
        {"resample": 1},
        {"crop_size": {"height": 20, "width": 26}},
        {"size": {"shortest_edge": 20}},  # smaller than the crop: filled up with black
    ],
)
def test_preprocess__every_option(changes: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(tiny.CROPPED | changes))
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    preprocess = preprocess_of(processor)
    assert isinstance(preprocess, cocoax.ImagePreprocess)
    for size in ((90, 61), (52, 83)):
        picture = photo("cat").resize(size)
        expected = processor(images=picture, return_tensors="pt")["pixel_values"][0].float()
        torch.testing.assert_close(preprocess(picture), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "squeezed"), [({"shortest_edge": 32}, False), ({"shortest_edge": 400}, True)], ids=["small", "large"]
)
def test_preprocess__convnext_crops_or_squeezes(size: dict[str, int], squeezed: bool, tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(tiny.CONVNEXT | {"size": size}))
    preprocess = preprocess_of(transformers.AutoImageProcessor.from_pretrained(tmp_path))
    assert isinstance(preprocess, cocoax.ImagePreprocess)
    assert (preprocess.box((300, 200)) == (0, 0, 1, 1)) is squeezed


@pytest.mark.parametrize(
    "changes",
    [{"resample": 0}, {"size": {"shortest_edge": 20, "longest_edge": 22}, "do_center_crop": False}],
    ids=["nearest", "longest edge"],
)
def test_preprocess__what_cannot_be_expressed_is_kept(changes: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(tiny.CROPPED | changes))
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    preprocess = preprocess_of(processor)
    assert not isinstance(preprocess, cocoax.ImagePreprocess)
    picture = photo("cat").resize((90, 61))
    expected = processor(images=picture, return_tensors="pt")["pixel_values"][0]
    assert torch.equal(preprocess(picture), expected)
    assert repr(preprocess) == repr(preprocess_of(processor))
    assert "0x" not in repr(preprocess)

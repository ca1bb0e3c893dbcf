"""Encoders of timm, against timm."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import cocoax
from cocoax.data import photo
from cocoax.encoders.families.torchvision import import_library
from tests.encoders.families import tiny

if find_spec("timm") is None:
    pytest.skip("timm is not installed", allow_module_level=True)

SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet": ("test_resnet", {}),
    "vit": ("test_vit", {}),
    "convnext": ("test_convnext", {}),
    "swin": (
        "swin_tiny_patch4_window7_224",
        {"embed_dim": 8, "depths": (1, 1), "num_heads": (1, 2), "img_size": 64, "window_size": 4},
    ),
}


@pytest.fixture(scope="module")
def timm() -> Any:
    return import_library("timm")


@pytest.fixture(scope="module")
def folders(timm: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("timm")
    with tiny.making():
        for name, (architecture, arguments) in SMALL.items():
            model = tiny.lively(timm.create_model(architecture, **arguments))
            if "img_size" in arguments:
                model.pretrained_cfg |= {"input_size": (3, arguments["img_size"], arguments["img_size"])}
            timm.models.save_for_hf(model, root / name, model_args=arguments)
    return {name: root / name for name in SMALL}


@pytest.fixture(scope="module")
def pictures() -> list[Image.Image]:
    return [photo("cat").resize((240, 181)), photo("coffee").resize((152, 283))]


def model_of(timm: Any, folder: Path) -> Any:
    with tiny.making():
        return timm.create_model(f"local-dir:{folder}", pretrained=True).eval()


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", SMALL)
def test_represent__what_the_classifier_reads(
    family: str, timm: Any, folders: dict[str, Path], pictures: list[Image.Image]
) -> None:
    encoder = cocoax.load(f"timm:{folders[family]}")
    model = model_of(timm, folders[family])
    batch = torch.stack([encoder.prepare(picture) for picture in pictures])
    found = encoder.represent(pictures)
    with torch.no_grad():
        close(model.get_classifier()(found), model(batch))
    assert float(found.std(0).mean()) > 1e-3
    assert encoder.fingerprint == cocoax.load(f"timm:{folders[family]}").fingerprint


@pytest.mark.parametrize("family", SMALL)
def test_pooling__of_the_features(family: str, timm: Any, folders: dict[str, Path], pictures: list[Image.Image]) -> None:
    encoder = cocoax.load(f"timm:{folders[family]}", pooling="mean")
    with torch.no_grad():
        features = model_of(timm, folders[family]).forward_features(encoder.prepare(pictures[0])[None])
    positions = {"vit": 1, "swin": (1, 2)}.get(family, (2, 3))  # Swin has its channels last
    close(encoder.represent(pictures[0]), features.mean(positions))


def test_layer__by_name(timm: Any, folders: dict[str, Path], pictures: list[Image.Image]) -> None:
    encoder = cocoax.load(f"timm:{folders['resnet']}", layer="layer2")
    assert encoder.represent(pictures[0]).shape == (1, model_of(timm, folders["resnet"]).layer2[-1].bn2.num_features)
    with pytest.raises(ValueError, match=r"has no layer 'layer9'; close ones are model\.layer"):
        cocoax.load(f"timm:{folders['resnet']}", layer="layer9")


@pytest.mark.parametrize(
    ("changes", "resized", "corner", "crop"),
    [
        ({"input_size": (3, 64, 64), "crop_pct": 0.9, "crop_mode": "center"}, (94, 71), (15, 4), (64, 64)),
        ({"input_size": (3, 64, 64), "crop_pct": 1.0, "crop_mode": "squash"}, (64, 64), (0, 0), (64, 64)),
        ({"input_size": (3, 64, 32), "crop_pct": 0.5, "crop_mode": "squash"}, (64, 128), (16, 32), (32, 64)),
    ],
)
def test_preprocess__as_timm_defines_it(
    changes: dict[str, Any],
    resized: tuple[int, int],
    corner: tuple[int, int],
    crop: tuple[int, int],
    timm: Any,
    tmp_path: Path,
    pictures: list[Image.Image],
) -> None:
    with tiny.making():
        model = timm.create_model("test_resnet")
        model.pretrained_cfg |= {**changes, "interpolation": "bilinear", "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4)}
        timm.models.save_for_hf(model, tmp_path)
    found = cocoax.load(f"timm:{tmp_path}").prepare(pictures[0])
    small = np.asarray(pictures[0].resize(resized, Image.Resampling.BILINEAR)).astype(np.float64) / 255
    (left, top), (width, height) = corner, crop
    cut = (small[top : top + height, left : left + width] - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4]
    np.testing.assert_allclose(found.numpy(), cut.transpose(2, 0, 1), atol=1e-5)


def test_load__random_weights_on_request() -> None:
    encoder = cocoax.load("timm:test_vit", pretrained=False)
    assert encoder.represent(photo("cat")).shape == (1, 64)
    assert encoder.name == "test_vit"


def test_load__unknown_model_lists_close_ones() -> None:
    with pytest.raises(ValueError, match=r"timm .* has no model 'resnet51'; close ones are .*resnet50"):
        cocoax.load("timm:resnet51")


@pytest.mark.usefixtures("no_hub")
@pytest.mark.parametrize(
    ("name", "repository"),
    [("test_vit.r160_in1k", "timm/test_vit.r160_in1k"), ("somebody/something", "somebody/something")],
)
def test_load__weights_not_reachable(name: str, repository: str) -> None:
    with pytest.raises(OSError, match=rf"weights of '{name}' cannot be loaded") as caught:
        cocoax.load(f"timm:{name}")
    assert f"`hf download {repository} --local-dir FOLDER`" in str(caught.value)

"""Encoders of OpenCLIP, against OpenCLIP."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import cocoax
from cocoax import Encoder
from cocoax.data import photo
from cocoax.encoders.families.torchvision import import_library
from tests.encoders.families import tiny

if find_spec("open_clip") is None:
    pytest.skip("open_clip is not installed", allow_module_level=True)

CAPTIONS = ["a cat", "Dog!", "the fox jumps"]


@pytest.fixture(scope="module")
def library() -> Any:
    return import_library("open_clip")


@pytest.fixture(scope="module")
def folders(library: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("open_clip")
    own = {"hf_tokenizer_name": "in the folder", "vocab_size": 64, "pool_type": "last"}
    return {
        "crop": tiny.open_clip(root / "crop", library, {}),
        "squash": tiny.open_clip(root / "squash", library, {"resize_mode": "squash", "interpolation": "bilinear"}),
        "tokenizer": tiny.open_clip(root / "tokenizer", library, {}, own),  # padding counts, as SigLIP has it
    }


@pytest.fixture(scope="module")
def pictures() -> list[Image.Image]:
    return [photo("cat").resize((91, 61)), photo("coffee").resize((52, 84))]


def load(folder: Path, **options: Any) -> Encoder:
    return cocoax.load(f"open_clip:{folder}", **options)


@pytest.mark.parametrize("kind", ["crop", "squash", "tokenizer"])
def test_score__is_that_of_open_clip(kind: str, library: Any, folders: dict[str, Path], pictures: list[Image.Image]) -> None:
    encoder = load(folders[kind])
    targets = [cocoax.similarity_to(encoder.text.reference([caption])) for caption in CAPTIONS]
    found = torch.stack([target.score(encoder.represent(pictures)) for target in targets], 1).float()
    with tiny.making(), torch.no_grad():
        model = library.create_model(f"local-dir:{folders[kind]}").eval()
        texts = library.get_tokenizer(f"local-dir:{folders[kind]}")(CAPTIONS)
        images = torch.stack([encoder.prepare(picture) for picture in pictures])
        image_features, text_features, _ = model(images, texts)
    torch.testing.assert_close(found, image_features @ text_features.T, rtol=0, atol=1e-5)
    assert float(found.std()) > 0.02


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("crop", cocoax.ImagePreprocess(32, 32, (0.48, 0.46, 0.41), (0.27, 0.26, 0.28), "bicubic")),
        ("squash", cocoax.ImagePreprocess((32, 32), None, (0.48, 0.46, 0.41), (0.27, 0.26, 0.28), "bilinear")),
    ],
)
def test_preprocess__as_configured(kind: str, expected: cocoax.ImagePreprocess, folders: dict[str, Path]) -> None:
    assert load(folders[kind]).preprocess == expected


# --- names --------------------------------------------------------------------------------------------------------------


def test_load__unknown_model_lists_close_ones() -> None:
    with pytest.raises(ValueError, match=r"OpenCLIP .* has no model 'ViT-B-31'; close ones are ViT-B-32"):
        cocoax.load("open_clip:ViT-B-31")


def test_load__unknown_weights_list_the_known() -> None:
    with pytest.raises(ValueError, match=r"no weights called 'opnai' for 'ViT-B-32'; there are openai, laion400m_e31"):
        cocoax.load("open_clip:ViT-B-32/opnai")


def test_load__model_without_weights() -> None:
    with pytest.raises(ValueError, match=r"no weights for 'ViT-e-14'; there are none; pass pretrained=FILE"):
        cocoax.load("open_clip:ViT-e-14")


@pytest.mark.parametrize(
    ("name", "options", "asked"),
    [
        ("ViT-B-32/laion2b_s34b_b79k", {}, ("ViT-B-32", "laion2b_s34b_b79k", False)),
        ("ViT-B-32", {}, ("ViT-B-32", "openai", True)),  # the first; trained with the approximate GELU
        ("ViT-B-32", {"pretrained": "metaclip_400m"}, ("ViT-B-32", "metaclip_400m", True)),
        ("somebody/something", {}, ("hf-hub:somebody/something", None, None)),
        ("hf-hub:somebody/something", {}, ("hf-hub:somebody/something", None, None)),
    ],
)
def test_load__how_names_are_read(
    name: str, options: dict[str, str], asked: tuple[Any, ...], library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(source: str, **given: Any) -> None:
        assert given["weights_only"] is True
        assert given["require_pretrained"] is True
        raise MemoryError(source, given.get("pretrained"), given.get("force_quick_gelu"))  # passes through

    monkeypatch.setattr(library, "create_model", create)
    with pytest.raises(MemoryError) as caught:
        cocoax.load(f"open_clip:{name}", **options)
    assert caught.value.args == asked


@pytest.mark.usefixtures("no_hub")
def test_load__weights_not_reachable() -> None:
    with pytest.raises(OSError, match=r"weights of 'ViT-B-32/openai' cannot be loaded .*load 'open_clip:FOLDER'"):
        cocoax.load("open_clip:ViT-B-32/openai")


def test_load__folder_without_weights(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "open_clip_config.json").write_text((folders["crop"] / "open_clip_config.json").read_text())
    with pytest.raises(OSError, match=r"weights of .* cannot be loaded .*open_clip_model\.safetensors"):
        load(tmp_path)

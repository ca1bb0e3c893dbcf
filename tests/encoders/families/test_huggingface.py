"""Vision encoders of every family, against transformers; and which loader gets what."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

import cocoax
from cocoax import Encoder
from cocoax.data import photo
from tests.encoders.families import tiny


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("vision")
    with tiny.making():
        return {name: make(root / name) for name, make in (tiny.VISION | {"clip": tiny.clip}).items()}


@pytest.fixture(scope="module")
def pictures() -> list[Image.Image]:
    return [photo("cat").resize((90, 61)), photo("coffee").resize((52, 83)), photo("rocket").resize((64, 64))]


def load(folder: Path, **options: Any) -> Encoder:
    return cocoax.load(f"hf:{folder}", **options)


def outputs(folder: Path, pictures: list[Image.Image]) -> Any:
    """What transformers gives, with its own image processor."""
    with tiny.making():
        model = transformers.AutoModel.from_pretrained(folder)
        pixels = transformers.AutoImageProcessor.from_pretrained(folder)(images=pictures, return_tensors="pt")
        with torch.no_grad():
            return model(**pixels)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


# --- representations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", tiny.VISION)
def test_represent__what_the_classifier_of_the_architecture_reads(
    family: str, folders: dict[str, Path], pictures: list[Image.Image]
) -> None:
    found = load(folders[family]).represent(pictures)
    output = outputs(folders[family], pictures)
    token = family.startswith(("vit", "deit"))  # their pooler is an untrained layer in most weights
    close(found, output.last_hidden_state[:, 0] if token else output.pooler_output.flatten(1))
    assert float(found.std(0).mean()) > 0.02


@pytest.mark.parametrize("family", [family for family in tiny.VISION if family.endswith("_classifier")])
def test_head__gives_the_logits_of_the_classifier(family: str, folders: dict[str, Path], pictures: list[Image.Image]) -> None:
    encoder = load(folders[family])
    if family.startswith("dinov2"):  # reads the class token and the mean of the others
        assert encoder.head is None
        return
    with tiny.making(), torch.no_grad():
        model = transformers.AutoModelForImageClassification.from_pretrained(folders[family])
        pixels = transformers.AutoImageProcessor.from_pretrained(folders[family])(images=pictures, return_tensors="pt")
        expected = model(**pixels).logits
        assert encoder.head is not None
        close(encoder.head(encoder.represent(pictures)), expected)
        assert encoder.classes == [f"LABEL_{number}" for number in range(5)]


@pytest.mark.parametrize("family", ["vit", "dinov2", "swin", "beit_classifier"])
def test_pooling__of_the_last_hidden_state(family: str, folders: dict[str, Path], pictures: list[Image.Image]) -> None:
    hidden = outputs(folders[family], pictures).last_hidden_state
    close(load(folders[family], pooling="mean").represent(pictures), hidden.mean(1))
    close(load(folders[family], pooling="first").represent(pictures), hidden[:, 0])
    close(load(folders[family], pooling="flatten").represent(pictures), hidden.flatten(1))
    assert load(folders[family], pooling="mean").head is None


LAYERS = {
    "vit": "layers.0",
    "vit_classifier": "layers.0",
    "dinov2": "encoder.layer.0",
    "swin": "encoder.layers.0.blocks.0",
    "resnet": "encoder.stages.0",
    "convnext": "encoder.stages.0",
}


@pytest.mark.parametrize(("family", "layer"), LAYERS.items())
def test_layer__is_the_output_of_the_submodule(
    family: str, layer: str, folders: dict[str, Path], pictures: list[Image.Image]
) -> None:
    encoder = load(folders[family], layer=layer)
    with tiny.making():
        model = transformers.AutoModel.from_pretrained(folders[family])
    caught: list[Any] = []
    model.get_submodule(layer).register_forward_hook(lambda _module, _inputs, output: caught.append(output))
    with torch.no_grad():
        model(pixel_values=torch.stack([encoder.prepare(picture) for picture in pictures]))
    hidden = caught[0] if isinstance(caught[0], Tensor) else caught[0][0]
    close(encoder.represent(pictures), hidden.mean(1) if hidden.ndim == 3 else hidden.flatten(2).mean(2))
    assert load(folders[family], layer=f"model.{layer}").fingerprint == encoder.fingerprint  # as errors spell it
    assert encoder.fingerprint != load(folders[family]).fingerprint


def test_load__weights_without_a_pooler(folders: dict[str, Path], pictures: list[Image.Image], tmp_path: Path) -> None:
    """As BEiT's pretrained weights come: the layer that would be random is not used."""
    folder = Path(shutil.copytree(folders["beit"], tmp_path / "beit"))
    weights = {key: value for key, value in load_file(folder / "model.safetensors").items() if "pooler" not in key}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    close(load(folder).represent(pictures), outputs(folder, pictures).last_hidden_state[:, 0])
    assert load(folder).fingerprint == load(folder).fingerprint


# --- dispatch -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["vit", "deit", "clip"])
def test_interpolate__photos_keep_their_proportions(
    family: str, folders: dict[str, Path], pictures: list[Image.Image]
) -> None:
    plain, interpolating = load(folders[family]), load(folders[family], interpolate=True)
    assert torch.equal(plain.represent(pictures), interpolating.represent(pictures))  # in squares nothing changes
    wide = pictures[0].resize((120, 40))
    height, width = interpolating.whole().explicand(wide).shape
    assert width > 1.5 * height
    squeezed = plain.whole().explicand(wide).shape
    assert squeezed[0] == squeezed[1]
    batch = interpolating.whole().explicand(wide).tensor[None]
    model: Any = interpolating.module.model
    with torch.no_grad():
        if family == "clip":
            expected = model.get_image_features(pixel_values=batch, interpolate_pos_encoding=True)
            expected = getattr(expected, "pooler_output", expected)
        else:
            expected = model(pixel_values=batch, interpolate_pos_encoding=True).last_hidden_state[:, 0]
    close(interpolating.whole().encode([batch[0]]), expected)


def test_interpolate__where_there_is_nothing_to(folders: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match=r"'interpolate' parameter needs a model that takes interpolate_pos_encoding="):
        load(folders["resnet"], interpolate=True)

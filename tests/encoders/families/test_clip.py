"""Image-and-text encoders of every family, against transformers' own scores."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from PIL import Image
from torch import Tensor

import cocoax
from cocoax import Encoder
from cocoax.data import photo
from tests.encoders.families import tiny

CAPTIONS = ["a cat", "dog", "the fox jumps"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("dual")
    with tiny.making():
        return {name: make(root / name) for name, make in tiny.DUAL.items()}


@pytest.fixture(scope="module")
def pictures() -> list[Image.Image]:
    """Landscape, portrait and square."""
    sizes = {"cat": (90, 61), "coffee": (52, 80), "rocket": (64, 64)}
    return [photo(name).resize(size) for name, size in sizes.items()]


def load(folder: Path, **options: Any) -> Encoder:
    return cocoax.load(f"clip:{folder}", **options)


def own_scores(folder: Path, pictures: list[Image.Image]) -> Tensor:
    """What the model's forward says of pictures and captions, without temperature and bias ``[pictures, captions]``."""
    with tiny.making():
        model = transformers.AutoModel.from_pretrained(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        processor = transformers.AutoImageProcessor.from_pretrained(folder)
    length = {"padding": "max_length", "max_length": model.config.text_config.max_position_embeddings}
    texts = tokenizer(CAPTIONS, return_tensors="pt", **(length if "siglip" in folder.name else {"padding": True}))
    with torch.no_grad():
        logits = model(**texts, **processor(images=pictures, return_tensors="pt")).logits_per_image
    logits = logits - model.logit_bias if hasattr(model, "logit_bias") else logits
    scores: Tensor = logits * model.temperature if hasattr(model, "temperature") else logits / model.logit_scale.exp()
    return scores.detach()


@pytest.mark.parametrize("family", tiny.DUAL)
def test_score__is_that_of_transformers(family: str, folders: dict[str, Path], pictures: list[Image.Image]) -> None:
    encoder = load(folders[family])
    targets = [cocoax.similarity_to(encoder.text.reference([caption])) for caption in CAPTIONS]
    found = torch.stack([target.score(encoder.represent(pictures)) for target in targets], 1).float()
    expected = own_scores(folders[family], pictures)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert float(expected.std()) > 0.02  # else equality would say nothing


# --- pictures -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", tiny.DUAL)
def test_preprocess__pixels_are_those_of_the_processor(
    family: str, folders: dict[str, Path], pictures: list[Image.Image]
) -> None:
    if family.startswith("siglip2"):
        pytest.skip("takes patches; see test_siglip2")
    processor = transformers.AutoImageProcessor.from_pretrained(folders[family])
    encoder = load(folders[family])
    for picture in pictures:
        expected = processor(images=picture, return_tensors="pt")["pixel_values"][0]
        torch.testing.assert_close(encoder.prepare(picture), expected, rtol=0, atol=1e-5)
    known = family != "align"  # EfficientNet's rescaling to [-1, 1] before normalising is kept as it is
    assert isinstance(encoder.preprocess, cocoax.ImagePreprocess) is known


def test_siglip2__keeps_the_proportions(folders: dict[str, Path], pictures: list[Image.Image]) -> None:
    encoder = load(folders["siglip2"])
    shapes = [tuple(encoder.prepare(picture).shape) for picture in pictures]
    assert shapes == [(3, 64, 80), (3, 80, 64), (3, 64, 64)]  # at most 20 patches of 16 x 16
    wide = encoder.explicand(pictures[0])
    assert wide.box == (0, 0, 1, 1)
    x = torch.linspace(-1, 1, 80)
    grey = Image.fromarray((((x + 1) * 127.5).round().to(torch.uint8).expand(64, 80)).numpy()).convert("RGB")
    row = encoder.prepare(grey)[0, 7]  # patches are put together in the right order
    assert (row.diff() >= 0).all()
    assert float(row[-1] - row[0]) > 3


def test_siglip2__processor_that_gives_no_patches(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["siglip2"], tmp_path / "wrong"))
    (folder / "preprocessor_config.json").write_text(json.dumps(tiny.SQUEEZED))
    with pytest.raises(ValueError, match=r"takes patches, but its image processor is SiglipImageProcessor.* gives none"):
        load(folder)


# --- identity -----------------------------------------------------------------------------------------------------------


def test_load__weights_of_lower_precision_become_float32(folders: dict[str, Path], tmp_path: Path) -> None:
    with tiny.making():
        model = transformers.AutoModel.from_pretrained(folders["clip"]).half()
        tiny.write(tmp_path / "half", model, tiny.CROPPED, tiny.clip_tokenizer())
    encoder = load(tmp_path / "half")
    assert encoder.represent(photo("cat")).dtype == torch.float32
    assert next(encoder.owner.parameters()).dtype == torch.float32  # type: ignore[union-attr]


# --- layers -------------------------------------------------------------------------------------------------------------


def test_layer__has_no_text_tower(folders: dict[str, Path], pictures: list[Image.Image]) -> None:
    encoder = load(folders["clip"], layer="vision_model.encoder.layers.0", pooling="first")
    caught: list[Tensor] = []
    model: Any = encoder.owner.model  # type: ignore[union-attr]
    with torch.no_grad():
        hook = model.vision_model.encoder.layers[0].register_forward_hook(lambda *given: caught.append(given[2]))
        model.get_image_features(pixel_values=encoder.prepare(pictures[0])[None])
        hook.remove()
    hidden = caught[0] if isinstance(caught[0], Tensor) else caught[0][0]
    torch.testing.assert_close(encoder.represent(pictures[0]), hidden[:, 0], rtol=0, atol=1e-5)
    with pytest.raises(AttributeError, match="has no text tower"):
        _ = encoder.text


def test_pooling__needs_a_layer(folders: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match=r"'pooling' parameter .*pass layer= as well"):
        load(folders["clip"], pooling="mean")


# --- bad input ----------------------------------------------------------------------------------------------------------


def test_load__not_a_dual_encoder(tmp_path: Path) -> None:
    with tiny.making():
        tiny.VISION["vit"](tmp_path / "vit")
    with pytest.raises(ValueError, match=r"of type 'vit', which has no image and text towers; .*load 'hf:.*vit'"):
        load(tmp_path / "vit")


# SigLIP's own tokenizer does not say where its tokens stand.

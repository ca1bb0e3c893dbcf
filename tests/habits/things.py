"""What lies on the desk of whoever types the snippets: small models, pictures, texts and tables, each made by its name."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import cocoax
from cocoax.encoders.families.torchvision import import_library
from tests.tiny import TEXTS, bert_tokenizer, save_bert, seeded

COUNT, SIDE, DIMENSION = 6, 32, 8
CLASSES = ["bird", "car", "cat", "dog"]


class Net(nn.Module):
    """A convolutional network with the names of a ResNet's parts: 8 dimensions after ``avgpool``, 4 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, padding=1)
        self.relu = nn.ReLU()
        self.layer4 = nn.Conv2d(6, DIMENSION, 3, stride=2, padding=1)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(DIMENSION, len(CLASSES))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.avgpool(self.layer4(self.relu(self.conv1(images)))).flatten(1))
        return logits


def model() -> nn.Module:
    return seeded(Net())


def images() -> Tensor:
    return torch.randn(COUNT, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))


def photos() -> list[Image.Image]:
    noise = np.random.default_rng(0).integers(0, 256, (COUNT, SIDE, SIDE, 3), dtype=np.uint8)
    return [Image.fromarray(pixels) for pixels in noise]


def photo(photos: list[Image.Image]) -> Image.Image:
    return photos[0]


def transform() -> Callable[[Image.Image], Tensor]:
    """Return what ``torchvision.transforms.Compose`` would be."""

    def resize_and_scale(picture: Image.Image) -> Tensor:
        pixels = np.array(picture.convert("RGB").resize((SIDE, SIDE)), dtype=np.float32)
        return torch.from_numpy(pixels).permute(2, 0, 1) / 255 - 0.5

    return resize_and_scale


def embeddings() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(COUNT, DIMENSION)).astype(np.float32)


def labels() -> np.ndarray:
    return np.array(["cat", "dog", "cat", "dog", "dog", "cat"])


def frame(folder: Path, photos: list[Image.Image], embeddings: np.ndarray, labels: np.ndarray) -> pd.DataFrame:
    """Return a table of six rows whose index does not start at nought, as after a filter."""
    paths = [folder / f"{number}.png" for number in range(COUNT)]
    for path, picture in zip(paths, photos, strict=True):
        picture.save(path)
    columns = {"path": map(str, paths), "text": (TEXTS * 2)[:COUNT], "label": labels, "embedding": list(embeddings)}
    return pd.DataFrame(columns, index=range(10, 10 + COUNT))


def table() -> pd.DataFrame:
    values = np.random.default_rng(2).normal(size=(20, 4))
    return pd.DataFrame(values, columns=["age", "height", "weight", "pulse"])


def dataset(images: Tensor) -> TensorDataset:
    return TensorDataset(images, torch.arange(COUNT) % 2)


def loader(images: Tensor) -> DataLoader[Tensor]:
    return DataLoader(images, batch_size=4)  # type: ignore[arg-type]


def tokenizer() -> Any:
    return bert_tokenizer()


def bert(folder: Path) -> nn.Module:
    from transformers import BertModel

    loaded: nn.Module = BertModel.from_pretrained(save_bert(folder / "bert"), add_pooling_layer=False).eval()
    return loaded


def sentence_transformer(folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer, models

    words = models.Transformer(str(save_bert(folder / "sentences")))
    return SentenceTransformer(modules=[words, models.Pooling(16)], device="cpu")


def vit() -> nn.Module:
    """Return a Hugging Face vision transformer with a head of four named classes."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=24,
        image_size=SIDE,
        patch_size=8,
        id2label=dict(enumerate(CLASSES)),
        label2id={name: number for number, name in enumerate(CLASSES)},
    )
    return seeded(ViTForImageClassification(config))


def processor() -> Any:
    from transformers import ViTImageProcessorPil

    return ViTImageProcessorPil(size={"height": SIDE, "width": SIDE})


def pytorch_grad_cam() -> Any:
    """Return the library, also where torchvision, which it imports and does not use here, is not installed."""
    return import_library("pytorch_grad_cam")


def timm_model() -> nn.Module:
    cocoax.load("timm:test_convnext", pretrained=False)  # imports timm where torchvision is not installed, too
    created: nn.Module = sys.modules["timm"].create_model("test_convnext", pretrained=False, num_classes=0)
    return created.eval()


def encoder(model: nn.Module) -> cocoax.Encoder:
    """Return an encoder of tensors that are ready for the network."""
    return cocoax.Encoder(model, layer="avgpool")


def photo_encoder(model: nn.Module, transform: Callable[[Image.Image], Tensor]) -> cocoax.Encoder:
    return cocoax.Encoder(model, transform, layer="avgpool")


def text_encoder(folder: Path) -> cocoax.Encoder:
    return cocoax.load(f"hf:{save_bert(folder / 'texts')}")


def corpus(photo_encoder: cocoax.Encoder, photos: list[Image.Image]) -> cocoax.Reference:
    return photo_encoder.reference(photos[1:3])


def foil(photo_encoder: cocoax.Encoder, photos: list[Image.Image]) -> cocoax.Reference:
    return photo_encoder.reference(photos[3:])


def target(corpus: cocoax.Reference, foil: cocoax.Reference) -> cocoax.Target:
    return cocoax.contrastive_corpus_similarity(corpus, foil)


def tensor_target(encoder: cocoax.Encoder, images: Tensor) -> cocoax.Target:
    return cocoax.contrastive_corpus_similarity(encoder.reference(images[1:3]), encoder.reference(images[3:]))


def text_target(text_encoder: cocoax.Encoder) -> cocoax.Target:
    return cocoax.similarity_to(text_encoder.reference(["the cat"]))


def result(photo_encoder: cocoax.Encoder, photo: Image.Image, target: cocoax.Target) -> cocoax.Attribution:
    return cocoax.Rise(samples=50).explain(photo_encoder, photo, target)


def text_result(text_encoder: cocoax.Encoder, text_target: cocoax.Target) -> cocoax.Attribution:
    return cocoax.Rise(samples=50).explain(text_encoder, TEXTS[0], text_target)


def assert_same(encoder: cocoax.Encoder, explicand: Any, reference: Any, other: Any) -> None:
    """Raise if two references do not give an input the same score and the same map."""
    questions = [cocoax.similarity_to(reference), cocoax.similarity_to(other)]
    answers = cocoax.Rise(samples=20).explain(encoder, explicand, questions)
    assert answers[0].score == pytest.approx(answers[1].score, abs=1e-5)
    assert np.allclose(answers[0].values, answers[1].values, atol=1e-4)


def run(snippet: Callable[..., None], folder: Path) -> None:
    """Run a snippet with the things its parameters name; leave the environment, figures and random states as they were."""
    made: dict[str, Any] = {"folder": folder}

    def make(name: str) -> Any:
        if name not in made:
            made[name] = call(globals()[name])
        return made[name]

    def call(function: Callable[..., Any]) -> Any:
        return function(**{name: make(name) for name in inspect.signature(function).parameters})

    state = np.random.get_state()  # SHAP seeds NumPy's
    offline = {"HF_HUB_OFFLINE": "1", "COCOAX_CACHE": str(folder / "cache"), "COCOAX_PROGRESS": "0"}
    matplotlib.use("Agg")
    try:
        with mock.patch.dict(os.environ, offline), torch.random.fork_rng(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a snippet that runs with a warning runs
            call(snippet)
    finally:
        np.random.set_state(state)
        plt.close("all")

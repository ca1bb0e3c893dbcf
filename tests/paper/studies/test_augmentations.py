"""The study of augmentations: original and seven, prediction and map for each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
from torch import nn

import cocoax
from cocoax.paper.studies.augmentations import AUGMENTATIONS, _augmented, explain_augmentations
from cocoax.paper.studies.reproduce import run_study
from tests.conftest import SmallNet
from tests.paper.studies.tiny import HELD_OUT, OPTIONS, TRAIN, encoded, small_encoder
from tests.towers import picture

RISE = cocoax.Rise(samples=20, grid=4)


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


def small(classes: list[str] | None = None, head: bool = True) -> cocoax.Encoder:
    classifier = None
    if head:
        with torch.random.fork_rng():
            classifier = nn.Linear(8, 3)
        with torch.no_grad():
            classifier.weight.copy_(torch.arange(24.0).reshape(3, 8).sin())
    return cocoax.Encoder(SmallNet().eval(), cocoax.ImagePreprocess(resize=18, crop=16), head=classifier, classes=classes)


def test_explain_augmentations__by_definition() -> None:
    encoder = small(["x", "y", "z"])
    foil = encoder.reference([picture(seed) for seed in range(1, 5)])
    square = picture(0, 36)
    found = explain_augmentations(encoder, square, foil, RISE, seed=4)
    assert [variant.name for variant in found] == ["original", *AUGMENTATIONS]
    # What the encoder sees of 36 x 36 pixels is the inner 32 x 32; augmentations come after that.
    seen = square.crop((2, 2, 34, 34))
    preprocess = cocoax.ImagePreprocess(resize=16, crop=16)
    tensors = torch.stack([preprocess(variant) for variant in (seen, *_augmented(seen, 4).values())])
    representations = encoder.represent(tensors)
    original = encoder.reference(tensors[:1])
    target = cocoax.contrastive_corpus_similarity(original, foil)
    assert isinstance(encoder.head, nn.Linear)
    probabilities = encoder.head(representations).detach().softmax(1)
    for index, variant in enumerate(found):
        cosine = float(torch.cosine_similarity(representations[index], representations[0], dim=0))
        assert variant.similarity == pytest.approx(cosine, abs=1e-5)
        assert variant.prediction == "xyz"[int(probabilities[index].argmax())]
        assert variant.probability == pytest.approx(float(probabilities[index].max()), abs=1e-5)
        expected = RISE.explain(encoder, tensors[index], target)
        torch.testing.assert_close(variant.attribution.values, expected.values, rtol=0, atol=1e-5)
        assert variant.attribution.score == pytest.approx(expected.score, abs=1e-5)
    assert found[0].similarity == pytest.approx(1, abs=1e-6)


def test_explain_augmentations__without_head_names_or_crop() -> None:
    headless = small(head=False)
    foil = headless.reference([picture(1)])
    assert {variant.prediction for variant in explain_augmentations(headless, picture(), foil, RISE)} == {None}
    nameless = small()
    assert {variant.prediction for variant in explain_augmentations(nameless, picture(), foil, RISE)} <= {"0", "1", "2"}
    plain = cocoax.Encoder(SmallNet().eval())  # takes pictures as they are
    found = explain_augmentations(plain, picture(0, 20), plain.reference([picture(1)]), cocoax.VanillaGradients())
    assert found[0].attribution.values.shape == (20, 20)


def test_augmented_picture__is_drawn_and_saved_with_its_maps(tmp_path: Path) -> None:
    encoder = small()
    found = explain_augmentations(encoder, picture(7), encoder.reference([picture(1)]), RISE)
    titles = [ax.get_title(loc="left") for ax in found.plot().axes]
    assert titles[:2] == [f"{variant.name}\n{variant.prediction} {variant.probability:.0%}" for variant in found[:2]]
    assert titles[8] == "similarity 1.00"
    files = found.save_all(tmp_path / "new")
    assert [file.suffix for file in files] == [".html", ".json", ".png", *[".safetensors"] * 8]
    rows = json.loads(files[1].read_text())["rows"]
    assert [row["similarity"] for row in rows] == [variant.similarity for variant in found]
    assert torch.equal(cocoax.Attribution.load(files[4]).values, found[1].attribution.values)


@pytest.mark.parametrize(("classes", "labels"), [(None, [0, 1, 2]), ((2, 0), [2, 0])])
def test_run_study__augmentations(tmp_path: Path, classes: tuple[int, ...] | None, labels: list[int]) -> None:
    options = replace(OPTIONS, classes=classes, foil=24)
    files = run_study("augmentations", small_encoder(), TRAIN, HELD_OUT, tmp_path, options, progress=False)
    numbers = [int(file.parent.name.split()[-1]) for file in files if file.suffix == ".png"]
    assert [HELD_OUT.labels[number] for number in numbers] == labels
    assert encoded(tmp_path / "tiny" / "augmentations") == list(range(24))

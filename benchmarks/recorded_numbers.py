"""The numbers that a rebuild must not change: representative calls at fixed seeds, recorded once and compared later.

python -m benchmarks.recorded_numbers record before.npz
python -m benchmarks.recorded_numbers compare before.npz

`compare` prints the arrays that differ and exits with 1 if one of them differs by more than 1e-6 of its largest absolute
value, or if a call fails. `--only TEXT` runs the calls whose names contain a text; `--seed 1` draws other masks, to see that
changes are noticed.

Every call is a function in one of the tables below, by name. Encoders are small and seeded; those called "starter" use the
encoders from pip packages. Names that contain "default" leave a choice to the library, and may change on purpose.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

SCRATCH = Path(tempfile.mkdtemp(prefix="recorded-numbers-"))
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)
os.environ |= {"OMP_NUM_THREADS": "1", "COCOAX_CACHE": str(SCRATCH / "cache"), "COCOAX_PROGRESS": "0", "NO_COLOR": "1"}

import numpy as np  # noqa: E402 (after the number of threads is set)
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from torch import Tensor, nn  # noqa: E402

import cocoax  # noqa: E402

torch.set_num_threads(1)
TOLERANCE = 1e-6  # of an array's largest absolute value
WITHIN = " > "  # between the name of a call and that of an array
SEED = 0  # of all methods; --seed changes it

# ----------------------------------------------------------------------------------------------------------------------
# All that is not in the public namespace. Only these functions know the names of modules.
# ----------------------------------------------------------------------------------------------------------------------


def _sound_inputs() -> Any:
    from cocoax.inputs import Sounds

    return Sounds


def _evaluation() -> Any:
    from cocoax import evaluation

    return evaluation


def _localisation_measures() -> Any:
    from cocoax.evaluation import localisation

    return localisation


def _statistics() -> Any:
    from cocoax.evaluation import statistics

    return statistics


def _consistency() -> Any:
    from cocoax.evaluation.sanity import consistency

    return consistency


def _gradient_counterfactual() -> Any:
    from cocoax.insight import gradient_counterfactual

    return gradient_counterfactual


def _tcav() -> Any:
    from cocoax.insight import tcav

    return tcav


def _survey() -> Any:
    from cocoax import survey as datasets

    return datasets


def _baseline_presets() -> Any:
    from cocoax.masking import removals as preset

    return preset


def _sample_photo(name: str) -> Image.Image:
    from cocoax.data import photo

    return photo(name)


def _captions() -> Any:
    from cocoax.data import caption, cifar100

    return caption, cifar100


def _augmented() -> Any:
    from cocoax.paper.studies.augmentations import _augmented

    return _augmented


def _labelled_images() -> Any:
    from cocoax.data import LabelledImages

    return LabelledImages


def _annotated_example() -> Any:
    from cocoax.paper.annotations import Example

    return Example


def _studies() -> Any:
    from cocoax.paper.studies import STUDIES

    return STUDIES


def _study_options() -> Any:
    from cocoax.paper.studies.study import Options

    return Options


def _completeness() -> Any:
    from cocoax.paper.studies.completeness import completeness

    return completeness


def _explain_localisation() -> Any:
    from cocoax.paper.studies.localisation import explain_localisation

    return explain_localisation


def _explain_augmentations() -> Any:
    from cocoax.paper.studies.augmentations import explain_augmentations

    return explain_augmentations


def _localise() -> Any:
    from cocoax.paper.studies.localisation_benchmark import localise

    return localise


def _published() -> Any:
    from cocoax.paper.studies.published import published

    return published


def _training() -> Any:
    from cocoax.paper.training.recipes import Augmentation, Recipe
    from cocoax.paper.training.trainer import Training

    return Training, Recipe, Augmentation


def _timm() -> Any:
    from cocoax.encoders.families.torchvision import import_library

    return import_library("timm")  # which works without torchvision


def _command_line() -> Any:
    from cocoax.cli.main import app

    return app


# ----------------------------------------------------------------------------------------------------------------------
# Small encoders and their inputs
# ----------------------------------------------------------------------------------------------------------------------


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Return normal numbers of a seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def seeded(module: nn.Module, seed: int = 0, scale: float = 0.4) -> nn.Module:
    """Return the module in evaluation mode, with parameters of a seed except for those of normalisation layers."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" not in name.lower():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
    return module.eval()


class PictureNet(nn.Module):
    """A convolutional network from pictures of any size to 8 dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.act = nn.Tanh()
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.fc = nn.Linear(24, 8)

    def forward(self, images: Tensor) -> Tensor:
        """Return representations ``[n, 8]``."""
        return self.fc(self.pool(self.act(self.conv(images))).flatten(1))


class VisionTransformer(nn.Module):
    """A vision transformer of 6 x 6 patches of 4 x 4 pixels, whose class token is the representation."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 4, 4)
        self.first = nn.Parameter(torch.zeros(1, 1, 8))
        self.places = nn.Parameter(torch.zeros(36, 8))
        self.blocks = nn.Sequential(*(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(2)))

    def forward(self, images: Tensor) -> Tensor:
        """Return representations ``[n, 8]``."""
        patches = self.embed(images).flatten(2).mT + self.places
        return self.blocks(torch.cat([self.first.expand(len(images), -1, -1), patches], dim=1))[:, 0]


class TextNet(nn.Module):
    """Token embeddings weighted by their place, through a nonlinear layer, to 8 dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 6)
        self.fc = nn.Linear(6, 8)

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        """Return representations ``[n, 8]``."""
        mask = tokens["attention_mask"].unsqueeze(-1).float()
        weights = mask / (1 + 0.1 * torch.arange(mask.shape[1])[:, None])
        return torch.tanh(self.fc((self.embedding(tokens["input_ids"]) * weights).sum(1) / mask.sum(1))) + 0.1


class Words:
    """A tokenizer of words between spaces."""

    mask, pad = 1, 0

    def __call__(self, text: str) -> list[int]:
        """Return a number for each word."""
        return [2 + sum(map(ord, word)) % 62 for word in text.split()]

    def places(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the numbers, and where each word is."""
        ends = np.cumsum([len(word) + 1 for word in text.split()]) - 1
        return self(text), [(int(end) - len(word), int(end)) for word, end in zip(text.split(), ends, strict=True)]


class RowNet(nn.Module):
    """A nonlinear map from 8 columns to 6 dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 6)

    def forward(self, rows: Tensor) -> Tensor:
        """Return representations ``[n, 6]``."""
        return torch.tanh(self.fc(rows)) + 0.1


class SoundNet(nn.Module):
    """A bank of filters with logarithmic power, from samples ``[n, 1, T]`` to 8 dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 12, 32, stride=4, bias=False)
        self.fc = nn.Linear(12, 8, bias=False)

    def forward(self, samples: Tensor) -> Tensor:
        """Return representations ``[n, 8]``."""
        return self.fc((0.01 + torch.tanh(self.conv(samples)).square().mean(2)).log())


class HalvesNet(nn.Module):
    """Mean colours of the left and the right half of pictures, and products of them."""

    def __init__(self, scale: float = 3.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale), requires_grad=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return representations ``[n, 10]``."""
        left, right = (half.mean((2, 3)) for half in images.chunk(2, 3))
        return torch.cat([left, right, torch.tanh(self.scale * left * right), torch.ones_like(left[:, :1])], 1)


CLASSES = ["blue", "green", "red"]
COLUMNS = ["age", "height", "weight", "income", "rooms", "floor", "garden", "year"]
TEXT = "the violinist parked her car behind the big house"
LONG_TEXT = "A cat sleeps. The dog barks at the red car! Nobody parked here."
TEXTS = ["a big red dog", "the cat behind the house", "a car", "her violin", "the red house", "a small dog sleeps"]
RATE = 1000  # samples of sound in a second


@cache
def pictures() -> cocoax.Encoder:
    """Return an encoder of prepared pictures, with a head of three classes."""
    head = seeded(nn.Linear(8, 3), 5)
    return cocoax.Encoder(seeded(PictureNet()), head=head.requires_grad_(False), classes=CLASSES, name="pictures")


@cache
def towers() -> cocoax.Encoder:
    """Return an encoder of pictures and captions, which crops pictures."""
    text = cocoax.TextEncoder(seeded(TextNet(), 9, 1.0), Words(), limit=40, name="captions")
    preprocess = cocoax.ImagePreprocess(resize=18, crop=16)
    return cocoax.Encoder(seeded(PictureNet()), preprocess, text=text, name="towers")


@cache
def transformer() -> cocoax.Encoder:
    """Return a vision transformer."""
    return cocoax.Encoder(seeded(VisionTransformer()), name="transformer")


@cache
def texts(features: str = "words") -> cocoax.TextEncoder:
    """Return an encoder of texts; the features are words, tokens or sentences."""
    net = seeded(TextNet(), 3, 1.0)
    return cocoax.TextEncoder(net, Words(), limit=40, features=features, embedding="embedding", name="texts")


@cache
def rows() -> cocoax.TabularEncoder:
    """Return an encoder of rows with a background."""
    return cocoax.TabularEncoder(seeded(RowNet(), 1), columns=COLUMNS, background=draw(12, 8, seed=4), name="rows")


@cache
def sounds(features: str = "segments") -> cocoax.Encoder:
    """Return an encoder of sounds; the features are segments or cells."""
    kind = _sound_inputs()(RATE, features=features, segments=6, bands=2)
    return cocoax.Encoder(seeded(SoundNet(), 2), inputs=kind, name="sounds")


@cache
def starter() -> cocoax.Encoder:
    """Return the starter encoder."""
    return cocoax.load("starter")


def image(seed: int = 0, side: int = 16) -> Tensor:
    """Return a prepared picture."""
    return draw(3, side, side, seed=seed)


def images(count: int, seed: int) -> Tensor:
    """Return prepared pictures."""
    return draw(count, 3, 16, 16, seed=seed)


def photo(seed: int = 0, width: int = 24, height: int = 24) -> Image.Image:
    """Return a picture of noise with a bright rectangle."""
    generator = np.random.default_rng(seed)
    pixels = generator.integers(0, 120, (height, width, 3))
    top, left = generator.integers(0, (height // 2, width // 2))
    pixels[top : top + height // 2, left : left + width // 2] += generator.integers(40, 135, 3)
    return Image.fromarray(pixels.astype(np.uint8))


def sound(seed: int = 0, seconds: float = 1.0) -> np.ndarray:
    """Return a tone that comes and goes in noise."""
    times = np.arange(round(seconds * RATE)) / RATE
    course = 0.5 + 0.5 * np.sin(2 * np.pi * (1.5 * times + seed))
    noise = np.random.default_rng(seed).standard_normal(len(times))
    return (course * np.sin(2 * np.pi * (60 + 40 * seed) * times) / 2 + 0.05 * noise).astype(np.float32)


@cache
def sides(kind: str) -> tuple[cocoax.Reference, cocoax.Reference]:
    """Return a corpus and a foil for an encoder of some kind."""
    members: dict[str, tuple[Any, Any, Any]] = {
        "pictures": (pictures(), images(6, 11), images(9, 12)),
        "transformer": (transformer(), draw(4, 3, 24, 24, seed=11), draw(4, 3, 24, 24, seed=12)),
        "texts": (texts(), TEXTS[:3], TEXTS[3:]),
        "rows": (rows(), draw(5, 8, seed=13), draw(7, 8, seed=14)),
        "sounds": (sounds(), [sound(1), sound(2, 1.2)], [sound(5), sound(6, 0.9)]),
        "cells": (sounds("cells"), [sound(1), sound(2)], [sound(5), sound(6)]),
        "towers": (towers(), [photo(seed) for seed in range(4)], [photo(seed) for seed in range(4, 9)]),
    }
    encoder, corpus, foil = members[kind]
    kept = {"keep_samples": True}
    return encoder.reference(corpus, name="corpus", **kept), encoder.reference(foil, name="foil", **kept)


def cocoa(kind: str = "pictures", similarity: Any = "cosine") -> cocoax.Target:
    """Return the target of COCOA."""
    return cocoax.contrastive_corpus_similarity(*sides(kind), similarity)


def rise(samples: int = 60, grid: Any = 4, **options: Any) -> cocoax.Rise:
    """Return RISE with few samples."""
    return cocoax.Rise(samples, grid, seed=SEED, **options)


# ----------------------------------------------------------------------------------------------------------------------
# Pictures: methods, similarities, baselines, targets
# ----------------------------------------------------------------------------------------------------------------------


def explain(method: cocoax.Method, target: Any = None, explicand: Tensor | None = None) -> Any:
    """Explain a picture."""
    return method.explain(pictures(), image() if explicand is None else explicand, cocoa() if target is None else target)


def segment_map() -> Tensor:
    """Return six segments of a picture: three rows by two columns."""
    return (torch.arange(16) * 3 // 16)[:, None] * 2 + torch.arange(16) * 2 // 16


METHODS: dict[str, Callable[[], Any]] = {
    "method/rise": lambda: explain(rise()),
    "method/rise paper": lambda: explain(rise(estimator="paper")),
    "method/rise complements": lambda: explain(rise(complements=True)),
    "method/rise without complements": lambda: explain(rise(complements=False)),
    "method/rise keep 0.3, grid 3 x 5": lambda: explain(rise(grid=(3, 5), keep=0.3)),
    "method/rise tolerance": lambda: explain(rise(samples=40, tolerance=0.3, max_samples=400)),
    "method/rise batches of 7": lambda: explain(rise(batch_size=7)),
    "method/rise default": lambda: explain(cocoax.Rise(seed=SEED)),
    "method/kernel shap": lambda: explain(cocoax.KernelShap(80, grid=4, seed=SEED)),
    "method/kernel shap exact": lambda: explain(cocoax.KernelShap(1024, grid=3, seed=SEED)),
    "method/kernel shap segments": lambda: explain(
        cocoax.KernelShap(40, seed=SEED), explicand=pictures().explicand(image(), segment_map())
    ),
    "method/occlusion": lambda: explain(cocoax.Occlusion(window=4, stride=2)),
    "method/occlusion default": lambda: explain(cocoax.Occlusion()),
    "method/vanilla gradients": lambda: explain(cocoax.VanillaGradients()),
    "method/smoothgrad": lambda: explain(cocoax.SmoothGrad(10, seed=SEED)),
    "method/integrated gradients": lambda: explain(cocoax.IntegratedGradients(12)),
    "method/gradient shap": lambda: explain(cocoax.GradientShap(12, seed=SEED)),
    "method/expected gradients": lambda: explain(cocoax.ExpectedGradients(images(5, 20), 24, seed=SEED)),
    "method/random": lambda: explain(cocoax.RandomAttribution(seed=SEED)),
    "method/captum saliency": lambda: explain(cocoax.Captum("Saliency")),
    "method/captum deep lift": lambda: explain(cocoax.Captum("DeepLift")),
    "method/captum input x gradient": lambda: explain(cocoax.Captum("InputXGradient")),
    "method/captum lime": lambda: explain(
        cocoax.Captum("Lime", n_samples=40, grid=4, seed=SEED), 100 * cocoa(similarity="dot")
    ),
    "method/captum kernel shap": lambda: explain(cocoax.Captum("KernelShap", n_samples=40, grid=4, seed=SEED)),
    "method/captum occlusion": lambda: explain(cocoax.Captum("Occlusion", grid=4)),
    "method/captum feature ablation": lambda: explain(cocoax.Captum("FeatureAblation", grid=4)),
    "method/captum layer grad-cam": lambda: explain(cocoax.Captum("LayerGradCam", layer="conv")),
    "method/captum noise tunnel": lambda: explain(
        cocoax.Captum("NoiseTunnel", attribution_method="Saliency", nt_samples=5, seed=SEED)
    ),
    "method/several pictures and targets": lambda: rise(30).explain(
        pictures(), images(2, 30), [cocoa(), cocoax.representation_similarity()]
    ),
}

KERNELS = {
    "cosine": cocoax.Cosine(),
    "dot": cocoax.Dot(),
    "rbf": cocoax.Rbf(0.2),
    "rbf default": cocoax.Rbf(),
    "laplacian": cocoax.Laplacian(0.1),
    "polynomial": cocoax.Polynomial(2, 0.5, 0.3),
}


def under_similarity(similarity: cocoax.Similarity) -> dict[str, Any]:
    """Return maps of COCOA by three methods, and similarities between representations."""
    target = cocoa(similarity=similarity)
    methods = {"rise": rise(), "shap": cocoax.KernelShap(60, 3, seed=SEED), "gradients": cocoax.IntegratedGradients(8)}
    found: dict[str, Any] = {name: explain(method, target) for name, method in methods.items()}
    return {**found, "pairwise": similarity.pairwise(draw(3, 8, seed=1), draw(4, 8, seed=2))}


SIMILARITIES: dict[str, Callable[[], Any]] = {
    f"similarity/{name}": lambda similarity=similarity: under_similarity(similarity) for name, similarity in KERNELS.items()
}

BASELINES: dict[str, Callable[[], Any]] = {
    "baseline/blur": lambda: explain(rise(baseline=cocoax.Blur(7, 2.0))),
    "baseline/blur default": lambda: explain(rise(baseline=cocoax.Blur())),
    "baseline/constant": lambda: explain(rise(baseline=cocoax.Constant((0.1, -0.2, 0.3)))),
    "baseline/mean": lambda: explain(rise(baseline=cocoax.Mean())),
    "baseline/noise": lambda: explain(rise(baseline=cocoax.Noise(0.5, seed=SEED))),
    "baseline/fixed": lambda: explain(rise(baseline=cocoax.Fixed(image(40)))),
    "baseline/picture": lambda: explain(rise(baseline=image(41))),
    "baseline/several": lambda: explain(rise(baseline=cocoax.Several((cocoax.Blur(7, 2.0), cocoax.Mean())))),
    "baseline/integrated gradients from mean": lambda: explain(cocoax.IntegratedGradients(8, baseline=cocoax.Mean())),
    "baseline/shap from constant": lambda: explain(cocoax.KernelShap(60, 3, seed=SEED, baseline=cocoax.Constant())),
    "baseline/presets": lambda: {
        name: explain(rise(30, baseline=baseline)) for name, baseline in _baseline_presets().PRESETS.items()
    },
    "baseline/drop tokens rise": lambda: rise(grid=3, baseline=cocoax.DropTokens()).explain(
        transformer(), image(2, 24), cocoa("transformer")
    ),
    "baseline/drop tokens shap": lambda: cocoax.KernelShap(60, 3, seed=SEED, baseline=cocoax.DropTokens()).explain(
        transformer(), image(2, 24), cocoa("transformer")
    ),
    "baseline/drop tokens occlusion": lambda: cocoax.Occlusion(baseline=cocoax.DropTokens((2, 3))).explain(
        transformer(), image(2, 24), cocoa("transformer")
    ),
    "baseline/drop tokens curves": lambda: cocoax.deletion(
        transformer(),
        image(2, 24),
        rise(grid=3, baseline=cocoax.DropTokens()).explain(transformer(), image(2, 24), cocoa("transformer")),
        cocoa("transformer"),
        6,
        cocoax.DropTokens(),
    ),
}


def algebra() -> cocoax.Target:
    """Return a weighted sum of similarities."""
    corpus, foil = (cocoax.similarity_to(side) for side in sides("pictures"))
    return (2 * corpus - foil / 4 + 0.5 * cocoax.representation_similarity()).named("a sum")


def scores() -> dict[str, Any]:
    """Return scores, directions and sizes of targets on representations."""
    representations = pictures().represent(images(4, 50))
    own = representations[0]
    every = {"cocoa": cocoa(), "dot": cocoa(similarity="dot"), "sum": algebra(), "rbf": cocoa(similarity="rbf")}
    linear = ("cocoa", "dot", "sum")
    return {
        "score": {name: target.score(representations, own) for name, target in every.items()},
        "direction": {name: every[name].direction(own) for name in linear},
        "size": [target.size(own) for target in every.values()],
    }


TARGETS: dict[str, Callable[[], Any]] = {
    "target/algebra": lambda: explain(rise(), algebra()),
    "target/algebra gradients": lambda: explain(cocoax.IntegratedGradients(8), algebra()),
    "target/label-free": lambda: explain(rise(), cocoax.representation_similarity()),
    "target/label-free dot": lambda: explain(rise(), cocoax.representation_similarity("dot")),
    "target/contrastive label-free": lambda: explain(rise(), cocoax.contrastive_similarity(sides("pictures")[1])),
    "target/corpus": lambda: explain(rise(), cocoax.corpus_similarity(sides("pictures")[0])),
    "target/class": lambda: explain(rise(), cocoax.class_score(pictures(), "green")),
    "target/class gradients": lambda: explain(cocoax.VanillaGradients(), cocoax.class_score(pictures(), 2)),
    "target/function": lambda: explain(rise(), cocoax.FunctionTarget(lambda z: z.square().sum(1), "length")),
    "target/function shap": lambda: explain(
        cocoax.KernelShap(60, 3, seed=SEED), cocoax.FunctionTarget(lambda z: z.square().sum(1), "length")
    ),
    "target/scores and directions": scores,
    "target/as module": lambda: cocoa().as_module(pictures())(images(4, 51)),
    "target/by name": lambda: explain(rise(30), {"one": cocoa(), "two": algebra()}),
}

# ----------------------------------------------------------------------------------------------------------------------
# References, runs, fields, interactions
# ----------------------------------------------------------------------------------------------------------------------


def a_run(kind: str = "pictures", samples: int = 60) -> cocoax.Run:
    """Return a run of RISE."""
    explained = {"pictures": (pictures(), image()), "texts": (texts(), TEXT), "rows": (rows(), draw(8, seed=15))}
    run = rise(samples).run(*explained[kind])
    assert isinstance(run, cocoax.Run)
    return run


def saved_and_loaded(thing: Any, name: str) -> Any:
    """Return what a file keeps of a run, field, reference or attribution."""
    return type(thing).load(thing.save(SCRATCH / f"{name}.safetensors"))


def vectors_of_a_table() -> cocoax.Reference:
    """Return a weighted reference from a file of vectors."""
    np.save(SCRATCH / "vectors.npy", draw(20, 8, seed=60).numpy())
    return cocoax.Reference.from_vectors(SCRATCH / "vectors.npy", weights=np.linspace(1, 2, 20))


def two_pictures(**options: Any) -> cocoax.Interactions:
    """Return how the cells of two pictures meet."""
    runs = [rise().run(pictures(), image(seed)) for seed in (0, 1)]
    return cocoax.interactions(*runs, **options)


RUNS: dict[str, Callable[[], Any]] = {
    "reference/pictures": lambda: list(sides("pictures")),
    "reference/weighted": lambda: cocoax.Reference.from_representations(draw(5, 8, seed=61), weights=[1, 2, 3, 4, 5.0]),
    "reference/vectors of a file": vectors_of_a_table,
    "reference/merge": lambda: sides("pictures")[0].merge(sides("pictures")[1]),
    "reference/where and nearest": lambda: {
        "where": sides("pictures")[1].where(np.arange(9) % 2 == 0),
        "nearest": sides("pictures")[0].nearest(sides("pictures")[1], 3),
    },
    "reference/file": lambda: saved_and_loaded(sides("pictures")[0], "reference"),
    "reference/foil size": lambda: [cocoax.foil_size(0.1, 0.05), cocoax.foil_size(0.05, 0.01, nonnegative=True)],
    "reference/vectors explained": lambda: explain(rise(), cocoax.corpus_similarity(vectors_of_a_table())),
    "run/many targets": lambda: a_run().explain([cocoa(), algebra(), cocoa(similarity="laplacian")]),
    "run/extended": lambda: a_run(samples=30).extend(pictures(), 30).explain(cocoa()),
    "run/first": lambda: a_run().first(20).explain(cocoa()),
    "run/file": lambda: saved_and_loaded(a_run(), "run").explain(cocoa()),
    "run/representations": lambda: {"masked": a_run().representations, "ends": a_run().anchors},
    "run/shap of many targets": lambda: (
        cocoax.KernelShap(60, 3, seed=SEED).run(pictures(), image()).explain([cocoa(), algebra()])
    ),
    "result/file": lambda: saved_and_loaded(explain(rise()), "attribution"),
    "result/relative and removed": lambda: {"relative": explain(rise()).relative, "removed": explain(rise()).removed},
    "field/cosine": lambda: a_run().field(grid=4),
    "field/dot": lambda: a_run().field("dot", grid=(2, 4)),
    "field/explained": lambda: a_run().field(grid=4).explain([cocoa(), algebra()]),
    "field/file": lambda: saved_and_loaded(a_run().field(grid=4), "field").explain(cocoa()),
    "field/texts": lambda: a_run("texts").field(),
    "field/occlusion": lambda: cocoax.Occlusion(4, 4).run(pictures(), image()).field(grid=4),
    "field/shap": lambda: cocoax.KernelShap(60, 4, seed=SEED).run(pictures(), image()).field(grid=4),
    "interactions/pictures": lambda: two_pictures(grid=3),
    "interactions/pictures dot": lambda: two_pictures(similarity="dot", grid=2),
    "interactions/picture and text": lambda: cocoax.interactions(
        rise().run(towers(), photo()), rise().run(towers().text, TEXT), grid=3
    ),
    "interactions/texts": lambda: cocoax.interactions(a_run("texts"), rise().run(texts(), TEXTS[1])),
    "interactions/given a word": lambda: cocoax.interactions(a_run("texts"), rise().run(texts(), TEXTS[1])).given("cat"),
}

# ----------------------------------------------------------------------------------------------------------------------
# Texts, tables, sounds
# ----------------------------------------------------------------------------------------------------------------------


def explain_text(method: cocoax.Method, features: str = "words", text: str = TEXT) -> dict[str, Any]:
    """Explain a text, and name its parts."""
    found = method.explain(texts(features), text, cocoa("texts"))
    return {"map": found, "top": found.top(3), "lowers": found.top(2, "negative"), "names": list(found.names)}


def explain_row(method: cocoax.Method) -> dict[str, Any]:
    """Explain a row, and name its columns."""
    found = method.explain(rows(), draw(8, seed=15), cocoa("rows"))
    return {"map": found, "top": found.top(5)}


def explain_sound(method: cocoax.Method, kind: str = "sounds") -> dict[str, Any]:
    """Explain a sound, and name its segments or cells."""
    found = method.explain(sounds("cells" if kind == "cells" else "segments"), sound(), cocoa(kind))
    return {"map": found, "top": found.top(4)}


KINDS: dict[str, Callable[[], Any]] = {
    "texts/rise mask": lambda: explain_text(rise(baseline="mask")),
    "texts/rise deletion": lambda: explain_text(rise(baseline="deletion")),
    "texts/rise attention": lambda: explain_text(rise(baseline="attention")),
    "texts/rise default": lambda: explain_text(rise()),
    "texts/rise tokens": lambda: explain_text(rise(baseline=cocoax.MaskToken()), "tokens"),
    "texts/rise sentences": lambda: explain_text(rise(baseline=cocoax.Deletion()), "sentences", LONG_TEXT),
    "texts/shap": lambda: explain_text(cocoax.KernelShap(80, seed=SEED, baseline=cocoax.AttentionMask())),
    "texts/occlusion": lambda: explain_text(cocoax.Occlusion(baseline="mask")),
    "texts/integrated gradients": lambda: explain_text(cocoax.IntegratedGradients(8)),
    "texts/smoothgrad": lambda: explain_text(cocoax.SmoothGrad(6, seed=SEED)),
    "texts/captum": lambda: explain_text(cocoax.Captum("FeatureAblation")),
    "texts/curves": lambda: cocoax.curves(
        texts(), TEXT, [rise().explain(texts(), TEXT, cocoa("texts"))], cocoa("texts"), 5, "deletion"
    ),
    "rows/rise": lambda: explain_row(rise()),
    "rows/rise background drawn": lambda: explain_row(rise(baseline=cocoax.Background(draw(9, 8, seed=16), 4, SEED))),
    "rows/rise constant": lambda: explain_row(rise(baseline=cocoax.Constant(0.2))),
    "rows/rise fixed row": lambda: explain_row(rise(baseline=draw(8, seed=17))),
    "rows/shap": lambda: explain_row(cocoax.KernelShap(64, seed=SEED)),
    "rows/occlusion": lambda: explain_row(cocoax.Occlusion()),
    "rows/expected gradients": lambda: explain_row(cocoax.ExpectedGradients(draw(9, 8, seed=16), 30, seed=SEED)),
    "rows/integrated gradients": lambda: explain_row(cocoax.IntegratedGradients(8, baseline=cocoax.Constant(0.0))),
    "sounds/rise silence": lambda: explain_sound(rise(baseline="silence")),
    "sounds/rise noise": lambda: explain_sound(rise(baseline="noise")),
    "sounds/rise mean": lambda: explain_sound(rise(baseline="mean")),
    "sounds/rise default": lambda: explain_sound(rise()),
    "sounds/shap": lambda: explain_sound(cocoax.KernelShap(64, seed=SEED)),
    "sounds/cells silence": lambda: explain_sound(rise(), "cells"),
    "sounds/cells noise": lambda: explain_sound(rise(baseline="noise"), "cells"),
    "sounds/integrated gradients": lambda: explain_sound(cocoax.IntegratedGradients(6, baseline="silence")),
}

# ----------------------------------------------------------------------------------------------------------------------
# Questions: ask, match, hits; the whole photo
# ----------------------------------------------------------------------------------------------------------------------


def answers_of(answers: Sequence[cocoax.Answer]) -> list[dict[str, Any]]:
    """Return the numbers of answers."""
    return [
        {
            "name": answer.name,
            "map": answer.attribution,
            "corpus": answer.corpus_score,
            "foil": answer.foil_score,
            "rank": answer.rank,
            "compared": [rival.name for rival in answer.comparison],
            "compared scores": [rival.score for rival in answer.comparison],
            "regions": [[*region.box, region.value] for region in (*answer.regions, *answer.against)],
        }
        for answer in answers
    ]


def questions() -> list[Any]:
    """Return questions in words, in pictures, in both, and without any."""
    mixed = cocoax.Side(["a cat"], images=[photo(1), photo(2)])
    return [
        "a cat rather than a dog",
        cocoax.Question(["a cat", "a red car"], "a house"),
        cocoax.Question(mixed, ["a dog", "a wolf"]),
        cocoax.Question(sides("towers")[0], sides("towers")[1]),
        cocoax.Question("a cat", similarity="dot"),
        cocoax.Question(),
    ]


def match_of(match: cocoax.Match) -> dict[str, Any]:
    """Return the numbers of a match."""
    found = {"query": match.query, "document": match.document, "similarity": match.similarity, "others": match.others}
    return {**found, "pairs": match.interactions, "strongest": [list(pair[:2]) for pair in match.interactions.top(3)]}


def hits_of(hits: cocoax.Hits) -> list[dict[str, Any]]:
    """Return the numbers of hits."""
    return [
        {
            "query": hit.query,
            "document": hit.document,
            "similarity": hit.similarity,
            "margin": hit.margin,
            "others": hit.others,
            "pairs": hit.interactions.values,
        }
        for hit in hits
    ]


QUESTIONS: dict[str, Callable[[], Any]] = {
    "ask/questions of every form": lambda: answers_of(cocoax.ask(towers(), photo(), questions(), rise())),
    "ask/run": lambda: answers_of(cocoax.ask(towers(), rise().run(towers(), photo()), "a cat rather than a dog")),
    "ask/shap": lambda: answers_of(cocoax.ask(towers(), photo(), "a cat", cocoax.KernelShap(60, 3, seed=SEED))),
    "ask/gradients": lambda: answers_of(cocoax.ask(towers(), photo(), "a cat", cocoax.IntegratedGradients(6))),
    "ask/whole photo": lambda: answers_of(cocoax.ask(towers().whole(), photo(3, 48, 24), questions()[:2], rise())),
    "ask/cropped photo": lambda: answers_of(cocoax.ask(towers(), photo(3, 48, 24), questions()[:2], rise())),
    "ask/default": lambda: answers_of(cocoax.ask(towers(), photo(4), "a cat rather than a dog")),
    "ask/text": lambda: answers_of(cocoax.ask(texts(), TEXT, cocoax.Question(sides("texts")[0], sides("texts")[1]), rise())),
    "ask/target of a question": lambda: cocoax.Question("a cat", ["a dog", "a wolf"]).target(towers()).direction(),
    "whole photo/rise": lambda: rise(grid=(3, 6)).explain(towers().whole(), photo(3, 48, 24), cocoa("towers")),
    "whole photo/representation": lambda: towers().whole().represent([photo(3, 48, 24), photo(4, 20, 50)]),
    "whole photo/squeezed": lambda: rise().explain(
        cocoax.Encoder(seeded(VisionTransformer()), cocoax.ImagePreprocess(28, 24), name="squeezed").whole(),
        photo(3, 48, 24),
        cocoax.representation_similarity(),
    ),
    "match/texts": lambda: match_of(cocoax.explain_match(texts(), TEXT, TEXTS[1], TEXTS[2:4], method=rise())),
    "match/texts default": lambda: match_of(cocoax.explain_match(texts(), TEXT, TEXTS[1])),
    "match/pictures": lambda: match_of(cocoax.explain_match(towers(), photo(1), photo(2), [photo(5)], method=rise())),
    "match/text and picture": lambda: match_of(cocoax.explain_match(towers(), "a red car", photo(2), method=rise())),
    "match/rows": lambda: match_of(cocoax.explain_match(rows(), draw(8, seed=1), draw(8, seed=2), method=rise())),
    "match/sounds": lambda: match_of(cocoax.explain_match(sounds(), sound(1), sound(2), [sound(6)], method=rise())),
    "hits/texts": lambda: hits_of(cocoax.explain_hits(texts(), TEXT, TEXTS[:4], method=rise())),
    "hits/rather than": lambda: hits_of(cocoax.explain_hits(texts(), TEXT, TEXTS[:2], TEXTS[3:5], method=rise())),
    "hits/pictures for a text": lambda: hits_of(
        cocoax.explain_hits(towers(), "a red car", [photo(1), photo(2), photo(3)], method=rise())
    ),
    "hits/dot": lambda: hits_of(cocoax.explain_hits(texts(), TEXT, TEXTS[:3], method=rise(), similarity="dot")),
}

# ----------------------------------------------------------------------------------------------------------------------
# What an encoder knows: knows, discover, minimal, counterfactual, examples
# ----------------------------------------------------------------------------------------------------------------------


def knowledge_of(found: Any) -> dict[str, Any]:
    """Return the numbers of a test of what an encoder knows."""
    sizes = [[each.size, each.auc, each.deviation] for each in found.sizes]
    auc = found.beaten if hasattr(found, "beaten") else found.auc
    return {"auc": auc, "interval": found.interval, "p": found.p_value, "verdict": found.verdict, "sizes": sizes}


@cache
def groups() -> Tensor:
    """Return pictures of three kinds, which differ in their colours."""
    colours = torch.eye(3).repeat_interleave(12, 0)[:, :, None, None]
    return 0.5 * draw(36, 3, 16, 16, seed=70) + 1.5 * colours


def discovery_of(found: Any) -> dict[str, Any]:
    """Return the numbers of corpora that were found."""
    return {
        "members": [each.members for each in found],
        "stability": [float("nan") if each.stability is None else each.stability for each in found],
        "mean": [each.reference.mean for each in found],
        "explained": found.explained,
        "curve": [[point.corpora, point.explained, point.held_out] for point in found.curve],
        "map": found.maps(found[0], 1),
    }


def minimal_of(found: Any) -> dict[str, Any]:
    """Return the numbers of the smallest sets."""
    sets = {
        name: {"parts": each.parts, "score": each.score, "mask": each.mask}
        for name, each in vars(found).items()
        if name in ("kept", "removed")
    }
    return {**sets, "scores": [found.level, found.score, found.emptied], "counts": [found.total, found.calls]}


def flips_of(found: Any) -> dict[str, Any]:
    """Return the numbers of changes that flip an answer."""
    return {
        "score": found.score,
        "scores": [flip.score for flip in found.flips],
        "choice": [flip.choice for flip in found.flips],
        "changes": [[change.part for change in flip.changes] for flip in found.flips],
    }


def positive(kind: str, encoder: cocoax.Encoder, explicand: Any) -> cocoax.Target:
    """Return the target of COCOA, turned so that an input scores above 0."""
    target = cocoa(kind)
    return target if float(target.score(encoder.represent([explicand]))[0]) > 0 else -target


def example_ranks(method: str, **options: Any) -> dict[str, Any]:
    """Return how much members of a corpus matter to a picture."""
    found = cocoax.examples(pictures(), image(), images(8, 11), method, **options)
    return {"values": found.values, "parts": found.parts, "top": found.top(3)}


def checkpoints() -> list[dict[str, Tensor]]:
    """Return weights of a network at two moments of its training."""
    return [seeded(PictureNet(), seed).state_dict() for seed in (0, 1)]


def concepts() -> list[list[float]]:
    """Return how much two concepts matter to a class."""
    first, second = (pictures().reference(groups()[at : at + 12], keep_samples=True) for at in (0, 12))
    foil = pictures().reference(images(20, 71), keep_samples=True)
    found = _tcav()(pictures(), images(6, 72), [first, second], "green", foil=foil, random=19, seed=SEED)
    return [[each.score, each.low, each.high, each.sensitivity, each.magnitude, each.p_value] for each in found]


def gradient_flip() -> dict[str, Any]:
    """Return a smooth change that flips an answer."""
    found = _gradient_counterfactual()(pictures(), image(), positive("pictures", pictures(), image()), steps=40)
    return {
        "scores": [found.score, found.changed_score, found.blurred_score, found.follows, found.change, found.steps],
        "result": found.result.tensor,
    }


INSIGHT: dict[str, Callable[[], Any]] = {
    "knows/held-out members": lambda: knowledge_of(cocoax.knows(*sides("pictures"), permutations=99, seed=SEED)),
    "knows/groups": lambda: knowledge_of(
        cocoax.knows(
            *(pictures().reference(groups()[at : at + 12], keep_samples=True) for at in (0, 12)),
            permutations=99,
            similarity="rbf",
            seed=SEED,
        )
    ),
    "knows/captions and pictures": lambda: knowledge_of(
        cocoax.knows(
            *(towers().text.reference(side, keep_samples=True) for side in (TEXTS[:3], TEXTS[3:])),
            shown=sides("towers")[0],
            others=sides("towers")[1],
            permutations=99,
            seed=SEED,
        )
    ),
    "knows/random captions": lambda: knowledge_of(
        cocoax.knows(
            *(towers().text.reference(side, keep_samples=True) for side in (TEXTS[:3], TEXTS[3:])),
            shown=sides("towers")[1],
            captions=towers().text.reference([f"a {word}" for word in LONG_TEXT.split() * 3], keep_samples=True),
            permutations=99,
            seed=SEED,
        )
    ),
    "discover/kmeans": lambda: discovery_of(cocoax.discover(pictures(), groups(), 3, explainer=rise(30), seed=SEED)),
    "discover/hdbscan": lambda: discovery_of(
        cocoax.discover(pictures(), groups(), 3, "hdbscan", explainer=rise(30), seed=SEED)
    ),
    "discover/fields": lambda: discovery_of(
        cocoax.discover(pictures(), groups()[::3], 3, "fields", explainer=rise(30), seed=SEED)
    ),
    "discover/crops": lambda: discovery_of(
        cocoax.discover(pictures(), groups()[::3], 3, "crops", explainer=rise(30), seed=SEED)
    ),
    "discover/texts": lambda: discovery_of(
        cocoax.discover(texts(), [f"{a} {b}" for a in TEXTS for b in TEXTS], 3, explainer=rise(30), seed=SEED)
    ),
    "minimal/picture": lambda: minimal_of(
        cocoax.minimal(
            cocoax.KernelShap(80, 4, seed=SEED).run(pictures(), image()), positive("pictures", pictures(), image()), 0.7
        )
    ),
    "minimal/text": lambda: minimal_of(cocoax.minimal(a_run("texts"), positive("texts", texts(), TEXT))),
    "minimal/row": lambda: minimal_of(cocoax.minimal(a_run("rows"), cocoax.representation_similarity())),
    "counterfactual/picture": lambda: flips_of(
        cocoax.counterfactual(
            pictures(), image(), positive("pictures", pictures(), image()), list(images(3, 12)), grid=3, count=2, seed=SEED
        )
    ),
    "counterfactual/text": lambda: flips_of(
        cocoax.counterfactual(texts(), TEXT, positive("texts", texts(), TEXT), TEXTS, seed=SEED)
    ),
    "counterfactual/row": lambda: flips_of(
        cocoax.counterfactual(
            rows(),
            draw(8, seed=15),
            positive("rows", rows(), draw(8, seed=15)),
            draw(7, 8, seed=14),
            fixed=["age"],
            seed=SEED,
        )
    ),
    "counterfactual/gradient": gradient_flip,
    "examples/contribution": lambda: example_ranks("contribution"),
    "examples/simplex": lambda: example_ranks("simplex"),
    "examples/neighbours": lambda: example_ranks("neighbours"),
    "examples/tracin": lambda: example_ranks("tracin", checkpoints=checkpoints(), rates=[0.1, 0.2], seed=SEED),
    "examples/influence": lambda: example_ranks("influence", layers=["fc"], seed=SEED),
    "tcav/class": concepts,
}

# ----------------------------------------------------------------------------------------------------------------------
# Evaluation: curves, sanity checks, localisation, statistics
# ----------------------------------------------------------------------------------------------------------------------


def judged(kind: Callable[..., Any], **options: Any) -> Any:
    """Return a curve of a map of RISE."""
    return kind(pictures(), image(), explain(rise()), cocoa(), 8, **options)


def many_curves() -> Any:
    """Return curves of two maps by two measures."""
    evaluation = _evaluation()
    measures = [cocoa(), evaluation.class_probability(pictures().head, 1)]
    return cocoax.curves(pictures(), image(), [explain(rise()), explain(cocoax.IntegratedGradients(6))], measures, 6)


def of_randomised(last: int | None) -> Any:
    """Return the map of an encoder whose parameters were drawn anew."""
    encoder = _evaluation().randomised(pictures(), SEED + 3, last)
    return rise().explain(encoder, image(), cocoax.representation_similarity())


def chance() -> dict[str, Tensor]:
    """Return the maps that methods give by chance."""
    methods = {"rise": rise(), "gradients": cocoax.VanillaGradients(), "random": cocoax.RandomAttribution()}
    baseline = torch.zeros(3, 16, 16)
    explicand = pictures().explicand(image())
    return {name: _evaluation().chance_map(method, explicand, baseline, SEED) for name, method in methods.items()}


def localisation_measures() -> dict[str, Any]:
    """Return how well a map lies on a mask."""
    measures, heat = _localisation_measures(), explain(rise()).relative.numpy()
    mask = np.zeros((16, 16), bool)
    mask[4:12, 2:9] = True
    return {
        "pointing": [measures.pointing_game(heat, mask), measures.pointing_game(heat, mask, 3.0)],
        "energy": measures.energy_inside(heat, mask),
        "iou": [measures.iou_at(heat, mask, 0.5), measures.best_iou(heat, mask)],
        "seen": measures.seen_mask(mask, (0.1, -0.1, 0.9, 1.1), 10, 12),
    }


def interval_numbers() -> dict[str, Any]:
    """Return intervals, tests and sparsity."""
    statistics, values = _statistics(), np.random.default_rng(5).normal(0.3, 0.1, 20)
    intervals = [statistics.paper_interval(values), statistics.t_interval(values)]
    intervals.append(statistics.paired_difference(values, values[::-1]))
    return {
        "intervals": [[each.mean, each.half] for each in intervals],
        "wilson": statistics.wilson(7, 20),
        "bootstrap": statistics.bootstrap(values.tolist(), [str(number % 4) for number in range(20)], 200, SEED),
        "gini": _evaluation().gini(explain(rise())),
    }


def linear_probe() -> dict[str, Any]:
    """Return heads fitted to representations, and how good they are."""
    evaluation, representations = _evaluation(), pictures().represent(groups())
    labels = np.repeat(np.arange(3), 12)
    heads = {
        solver: evaluation.LinearProbe(solver, epochs=3, seed=SEED).fit(representations, labels)
        for solver in ("sgd", "logistic")
    }
    return {
        **{solver: [head.weight, head.bias] for solver, head in heads.items()},
        "neighbours": evaluation.knn_accuracy(representations[::2], labels[::2], representations[1::2], labels[1::2], 3),
        "rank": evaluation.effective_rank(representations),
    }


def consistency_of_examples() -> list[list[float]]:
    """Return how often the most important members have the label of the input."""
    generator = np.random.default_rng(8)
    found = _consistency()(draw(10, 30, seed=73), generator.integers(0, 3, 10), generator.integers(0, 3, 30))
    return [[share, each.mean, each.half] for share, each in found.items()]


EVALUATION: dict[str, Callable[[], Any]] = {
    "curves/insertion": lambda: judged(cocoax.insertion),
    "curves/deletion": lambda: judged(cocoax.deletion),
    "curves/baseline mean": lambda: judged(cocoax.deletion, baseline=cocoax.Mean()),
    "curves/several maps and measures": many_curves,
    "curves/majority class": lambda: judged(
        lambda encoder, explicand, found, _target, steps: cocoax.insertion(
            encoder,
            explicand,
            found,
            _evaluation().corpus_majority_probability(encoder.head, sides("pictures")[0]),
            steps,
        )
    ),
    "curves/rows": lambda: cocoax.deletion(
        rows(), draw(8, seed=15), rise().explain(rows(), draw(8, seed=15), cocoa("rows")), cocoa("rows"), 5
    ),
    "curves/sounds": lambda: cocoax.insertion(
        sounds(), sound(), rise().explain(sounds(), sound(), cocoa("sounds")), cocoa("sounds"), 6
    ),
    "sanity/randomised": lambda: of_randomised(None),
    "sanity/last layer randomised": lambda: of_randomised(1),
    "sanity/chance": chance,
    "localisation/measures": localisation_measures,
    "evaluation/statistics": interval_numbers,
    "evaluation/probe": linear_probe,
    "evaluation/consistency": consistency_of_examples,
}

# ----------------------------------------------------------------------------------------------------------------------
# Data sets: build, ask, shortcuts, compare
# ----------------------------------------------------------------------------------------------------------------------


@cache
def photo_folder() -> Path:
    """Write pictures with a bright left half, and as many with a bright right half, in a folder for each."""
    for name, half, first in (("dawn", slice(0, 8), 0), ("dusk", slice(8, 16), 100)):
        (SCRATCH / "photos" / name).mkdir(parents=True)
        for number in range(20):
            generator = np.random.default_rng(first + number)
            pixels = generator.integers(0, 60, (16, 16, 3))
            pixels[:, half] += generator.integers(100, 190, 3)
            Image.fromarray(pixels.astype(np.uint8)).save(SCRATCH / "photos" / name / f"{number}.png")
    return SCRATCH / "photos"


def halves(scale: float = 3.0) -> cocoax.Encoder:
    """Return an encoder of the halves of pictures."""
    return cocoax.Encoder(HalvesNet(scale).eval(), cocoax.ImagePreprocess(resize=16, crop=16), name=f"halves {scale:g}")


@cache
def picture_index(scale: float = 3.0) -> Any:
    """Return an index of pictures."""
    method = rise(baseline=cocoax.Constant(0.0))
    return _survey().build(halves(scale), photo_folder(), SCRATCH / f"index-{scale:g}", method, shard=7)


@cache
def text_index() -> Any:
    """Return an index of texts."""
    labels = ["first"] * 3 + ["second"] * 3
    return _survey().build(texts(), TEXTS, SCRATCH / "index-texts", rise(), labels=labels)


def dawn_or_dusk() -> cocoax.Target:
    """Return what makes pictures of the index like dawns rather than dusks."""
    references = [picture_index().reference({"label": name}) for name in ("dawn", "dusk")]
    return cocoax.contrastive_corpus_similarity(*references)


def survey_of(found: Any) -> dict[str, Any]:
    """Return the numbers of an answer of an index."""
    return {
        "scores": found.scores,
        "order": found.order,
        "highest": [placed.attribution for placed in found.highest[:2]],
        "lowest": [placed.attribution for placed in found.lowest[:2]],
        "mean": found.mean,
    }


def shortcuts() -> list[list[Any]]:
    """Return the most unusual pictures of their class."""
    suspects = picture_index().shortcuts("label").suspects
    return [[each.row, *each.cell, each.value, each.usual, each.z, each.p, each.q] for each in suspects]


def comparison(**options: Any) -> dict[str, Any]:
    """Return where two encoders differ."""
    found = _survey().compare(picture_index(), picture_index(1.0), **options)
    changed = [[*each.scores, each.moved, each.correlation] for each in found.inputs]
    return {"inputs": changed, "ids": [each.id for each in found.inputs], "agreement": found.agreement}


SURVEYS: dict[str, Callable[[], Any]] = {
    "index/build": lambda: {
        "representations": picture_index().representations,
        "ids": picture_index().ids,
        "field": picture_index().field(3),
    },
    "index/opened": lambda: _survey().Index.open(picture_index().folder).ask(dawn_or_dusk()).scores,
    "index/ask": lambda: survey_of(picture_index().ask(dawn_or_dusk())),
    "index/ask rows of a label": lambda: survey_of(picture_index().ask(dawn_or_dusk(), {"label": "dawn"})),
    "index/ask label-free": lambda: survey_of(picture_index().ask(cocoax.representation_similarity())),
    "index/texts": lambda: {
        "scores": text_index().ask(cocoa("texts")).scores,
        "maps": list(text_index().ask(cocoa("texts")).maps),
        "words": [[part.name, str(part.count)] for part in text_index().ask(cocoa("texts")).words],
        "word means": [part.mean for part in text_index().ask(cocoa("texts")).words],
    },
    "index/shortcuts": shortcuts,
    "index/typicality": lambda: [[each.row, each.margin] for each in picture_index().typicality("label")],
    "index/compare": comparison,
    "index/compare labels": lambda: comparison(label="label"),
    "index/discover": lambda: discovery_of(cocoax.discover(None, picture_index(), 2, seed=SEED)),
}

# ----------------------------------------------------------------------------------------------------------------------
# The paper's studies, and training
# ----------------------------------------------------------------------------------------------------------------------


def coloured(number: int, seed: int, side: int = 12) -> Any:
    """Return labelled images: noise with a patch of the colour of the class."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.repeat(np.arange(3), number))
    pixels = generator.integers(0, 120, (3 * number, side, side, 3))
    for each, label in zip(pixels, labels, strict=True):
        top, left = generator.integers(0, side - 5, 2)
        each[top : top + 5, left : left + 5, 2 - label] = 250
    return _labelled_images()(pixels.astype(np.uint8), labels, list(CLASSES))


def study(name: str, **attributes: Any) -> list[float]:
    """Return all areas under curves of a study; ``attributes`` replace those of its class."""
    scale = {"runs": 1, "explicands": 1, "corpus": 4, "foil": 6, "samples": 20, "grid": 3, "steps": 3, "curve_steps": 4}
    kind = type("SmallStudy", (_studies()[name],), attributes)
    made = kind(pictures(), coloured(8, 0), coloured(4, 1), SCRATCH / "studies" / name, _study_options()(**scale))
    return [record["value"] for record in made.run(progress=False)]


def completeness() -> list[list[float]]:
    """Return sums of attributions against differences of scores."""
    gaps = _completeness()(pictures(), images(2, 80), *sides("pictures"), steps=(5,), samples=100, progress=False)
    return [[gap.total, gap.difference] for gap in gaps]


def two_things() -> dict[str, Any]:
    """Return the maps of the localisation figure."""
    found = _explain_localisation()(towers(), photo(5), "cat", "dog", rise())
    return {"label-free": found.label_free, "many": list(found.many), "single": list(found.single)}


def augmentations() -> list[dict[str, Any]]:
    """Return the maps of augmented copies of a picture."""
    found = _explain_augmentations()(towers(), photo(6, 32, 32), sides("towers")[1], rise(30), seed=SEED)
    return [{"name": each.name, "map": each.attribution, "similarity": each.similarity} for each in found]


def localised_classes() -> list[list[float]]:
    """Return how well maps lie on the masks of two classes."""
    masks = {name: np.zeros((24, 24), bool) for name in ("cat", "dog")}
    masks["cat"][:, :12], masks["dog"][:, 12:] = True, True
    example = _annotated_example()("one", ("cat", "dog"), lambda: (photo(7), masks))
    found = _localise()(towers(), [example], rise())
    return [[float(each.found), each.pointing, each.energy, each.iou, each.best_iou, each.area] for each in found]


def trained(kind: str, optimizer: str) -> list[Tensor]:
    """Return some weights after two steps of training."""
    training, recipe, augmentation = _training()
    made = recipe(kind, "resnet14-small", augmentation(8), 8, 1, 12, 0.05, optimizer, projection=16, seed=SEED)
    learned = training(made, coloured(8, 0, 8), SCRATCH / f"training-{kind}-{optimizer}")
    learned.run(say=lambda _sentence: None, progress=False)
    parameters = list(learned.encoder.parameters())
    return [parameters[0], parameters[-1]]


def augmented_pixels() -> dict[str, np.ndarray]:
    """Return a picture's augmentations."""
    return {name: np.asarray(each) for name, each in _augmented()(photo(6, 32, 32), SEED).items()}


def captions_and_names() -> list[str]:
    """Return captions of names, and names of classes."""
    caption, cifar100 = _captions()
    return [caption("cat"), caption("apple", "a {}"), *cifar100(without=["cat", "dogs"])]


PAPER: dict[str, Callable[[], Any]] = {
    **{f"study/{name}": lambda name=name: study(name) for name in ("main", "randomised")},
    "study/corpus size": lambda: study("corpus-size", pairs=((1, 6), (4, 6))),
    "study/foil size": lambda: study("foil-size", pairs=((4, 3), (4, 8))),
    "study/completeness": completeness,
    "study/localisation figure": two_things,
    "study/augmentations": augmentations,
    "study/localised classes": localised_classes,
    "study/published tables": lambda: [[each.mean, each.half] for each in _published()().values()],
    "data/augmentations": augmented_pixels,
    "data/captions": captions_and_names,
    "training/simclr lars": lambda: trained("simclr", "lars"),
    "training/simsiam sgd": lambda: trained("simsiam", "sgd"),
    "training/classifier adam": lambda: trained("classifier", "adam"),
}

# ----------------------------------------------------------------------------------------------------------------------
# The starter encoder and the command line
# ----------------------------------------------------------------------------------------------------------------------


def starter_answers(encoder: cocoax.Encoder, **options: Any) -> list[dict[str, Any]]:
    """Return answers about the photo of a cat."""
    about = _sample_photo("cat").resize((150, 100))
    return answers_of(cocoax.ask(encoder, about, "a cat rather than a cup of coffee", rise(24, **options)))


def starter_match() -> dict[str, Any]:
    """Return why two texts match."""
    document, other = "Patch the inner tube of your bike.", "Repairing a leaking kitchen tap."
    return match_of(
        cocoax.explain_match(starter().text, "how do I repair a flat bicycle tyre", document, [other], method=rise())
    )


def command(*arguments: str) -> Any:
    """Return what a command prints as JSON."""
    from typer.testing import CliRunner

    result = CliRunner().invoke(_command_line(), [*arguments, "--json"], catch_exceptions=False)
    if result.exit_code:
        raise RuntimeError(f"cocoax {arguments[0]} ended with {result.exit_code}: {result.output[-300:]}")
    return json.loads(result.stdout)


@cache
def cat_file() -> str:
    """Write the photo of a cat; return its path."""
    _sample_photo("cat").resize((150, 100)).save(SCRATCH / "cat.png")
    return str(SCRATCH / "cat.png")


@cache
def texts_file() -> str:
    """Write texts, one in a line; return their path."""
    (SCRATCH / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    return str(SCRATCH / "texts.txt")


def command_ask() -> dict[str, Any]:
    """Return the answer of ``cocoax ask``."""
    options = ("--like", "a cat", "--unlike", "a cup of coffee", "--samples", "24", "--seed", str(SEED))
    (record,) = command("ask", cat_file(), *options, "--out", str(SCRATCH / "answers"))["pictures"]
    (answer,) = record["answers"]
    regions = [[*region["box"], region["value"]] for region in answer["regions"]]
    return {**{name: answer[name] for name in ("score", "corpus_score", "foil_score", "baseline_score")}, "regions": regions}


def parts_in(side: Any) -> dict[str, Any]:
    """Return the numbers of the parts of one side, wherever they are in it."""
    numbers: list[float] = []

    def walk(value: Any) -> None:
        if isinstance(value, Mapping):
            value = list(value.values())
        if isinstance(value, list):
            for each in value:
                walk(each)
        elif isinstance(value, float):
            numbers.append(value)

    walk(side)
    return {"numbers": numbers}


def command_match() -> dict[str, Any]:
    """Return the answer of ``cocoax match``."""
    found = command("match", TEXTS[0], TEXTS[1], "--rather-than", TEXTS[2], "--samples", "30", "--seed", str(SEED))
    sides_of = {name: {"score": found[name]["score"], **parts_in(found[name]["parts"])} for name in ("query", "document")}
    return {"similarity": found["similarity"], "others": found["others"], **sides_of}


def command_why() -> dict[str, Any]:
    """Return the answer of ``cocoax why``."""
    found = command("why", "a red car", "--index", texts_file(), "--top", "3", "--samples", "30", "--seed", str(SEED))
    return {
        "contents": [hit["content"] for hit in found["hits"]],
        "scores": [[hit["similarity"], hit["margin"]] for hit in found["hits"]],
        "parts": [{side: parts_in(hit[side]["parts"]) for side in ("query", "document")} for hit in found["hits"]],
    }


def command_index() -> dict[str, Any]:
    """Return the answer of ``cocoax survey`` to an index that ``cocoax index`` has built."""
    options = ("--encoder", "minilm", "--samples", "30", "--seed", str(SEED))
    folder = SCRATCH / "texts"
    folder.mkdir(exist_ok=True)
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    out = str(SCRATCH / "command-index")
    built = command("index", str(folder), *options, "--out", out)
    (answer,) = command("survey", out, "--like", "a pet", "--unlike", "a vehicle", "--out", str(SCRATCH / "asked"))["answers"]
    return {
        "inputs": built["inputs"],
        "ids": [each["id"] for each in answer["highest"]],
        "scores": [each["score"] for each in answer["highest"]],
        "maps": [each["map"] for each in answer["highest"]],
    }


def bert() -> cocoax.Encoder:
    """Return a small BERT, loaded from a folder as it lies on the hub of Hugging Face."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, "the", "violin", "##ist", "park", "##ed", "her", "car", "behind", "house", "big", "red", "a", "dog"]
    made = Tokenizer(models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True))
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    model = BertModel(BertConfig(vocab_size=len(pieces), **sizes, max_position_embeddings=32), add_pooling_layer=False)
    seeded(model, scale=0.3).save_pretrained(SCRATCH / "bert")
    PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=32, **names).save_pretrained(SCRATCH / "bert")
    return cocoax.load(f"hf:{SCRATCH / 'bert'}")


def explained_by_bert() -> dict[str, Any]:
    """Return representations and maps of a BERT."""
    encoder = bert()
    target = cocoax.contrastive_corpus_similarity(encoder.reference(["a big red dog"]), encoder.reference(["a car"]))
    methods = {"rise": rise(), "gradients": cocoax.IntegratedGradients(6)}
    maps = {name: method.explain(encoder, TEXT, target) for name, method in methods.items()}
    return {"representations": encoder.represent([TEXT, "a big red dog"]), **maps}


def explained_by_vit() -> dict[str, Any]:
    """Return representations and maps of a vision transformer of transformers, with dropped tokens."""
    from transformers import ViTConfig, ViTImageProcessorPil, ViTModel

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    model = seeded(ViTModel(ViTConfig(**sizes, image_size=24, patch_size=6), add_pooling_layer=False), scale=0.3)
    encoder = cocoax.wrap(model, ViTImageProcessorPil(size={"height": 24, "width": 24}))
    method = rise(grid=4, baseline=cocoax.DropTokens())
    found = method.explain(encoder, photo(8), cocoax.representation_similarity())
    return {"representations": encoder.represent([photo(8), photo(9, 40, 30)]), "map": found}


def explained_by_timm() -> dict[str, Any]:
    """Return representations and a map of a vision transformer of timm, with dropped tokens."""
    options = {"embed_dim": 16, "depth": 2, "num_heads": 2, "num_classes": 0}
    encoder = cocoax.wrap(seeded(_timm().create_model("vit_tiny_patch16_224", **options), scale=0.3))
    method = rise(grid=4, baseline=cocoax.DropTokens())
    found = method.explain(encoder, photo(8, 40, 40), cocoax.representation_similarity())
    return {"representations": encoder.represent([photo(8, 40, 40), photo(9, 40, 30)]), "map": found}


def wrapped_pca() -> dict[str, Any]:
    """Return representations and a map of a fitted transformer of scikit-learn."""
    from sklearn.decomposition import PCA

    table = draw(30, 8, seed=90).numpy()
    encoder = cocoax.wrap(PCA(3, svd_solver="full").fit(table), columns=COLUMNS, background=table[:8])
    found = rise().explain(encoder, table[0], cocoax.representation_similarity("dot"))
    return {"representations": encoder.represent(table[:4]).abs(), "map": found}


FAMILIES: dict[str, Callable[[], Any]] = {
    "family/bert of transformers": explained_by_bert,
    "family/vision transformer of transformers": explained_by_vit,
    "family/vision transformer of timm": explained_by_timm,
    "family/scikit-learn": wrapped_pca,
    "family/function": lambda: rise().explain(
        cocoax.wrap(lambda batch: np.tanh(batch.mean((2, 3))), name="means"), image(), cocoax.representation_similarity("dot")
    ),
    "family/layer": lambda: rise().explain(
        cocoax.Encoder(seeded(PictureNet()), layer="conv", pooling="mean"), image(), cocoax.representation_similarity()
    ),
    "family/preprocessing": lambda: cocoax.ImagePreprocess(20, 16, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))(photo(3, 48, 24)),
    "family/efficientnet-lite0": lambda: cocoax.load("efficientnet-lite0").represent([_sample_photo("cat")]),
    "family/voices": lambda: cocoax.load("resemblyzer").represent([np.tile(sound(3), 32)]),
}

STARTER: dict[str, Callable[[], Any]] = {
    "starter/representations": lambda: starter().represent([_sample_photo("cat"), _sample_photo("coffee")]),
    "starter/captions": lambda: starter().text.represent(["a cat", "a cup of coffee"]),
    "starter/ask": lambda: starter_answers(starter()),
    "starter/ask whole photo": lambda: starter_answers(starter().whole()),
    "starter/ask strong blur": lambda: starter_answers(starter(), baseline=cocoax.Blur(121, 20.0)),
    "starter/gradients": lambda: cocoax.VanillaGradients().explain(
        starter(), _sample_photo("cat"), cocoax.Question("a cat", "a dog").target(starter())
    ),
    "starter/shap": lambda: cocoax.KernelShap(20, 3, seed=SEED).explain(
        starter(), _sample_photo("cat"), cocoax.Question("a cat", "a dog").target(starter())
    ),
    "starter/match of texts": starter_match,
    "command/ask": command_ask,
    "command/match": command_match,
    "command/why": command_why,
    "command/index": command_index,
}

CALLS: dict[str, Callable[[], Any]] = {
    **METHODS,
    **SIMILARITIES,
    **BASELINES,
    **TARGETS,
    **RUNS,
    **KINDS,
    **QUESTIONS,
    **INSIGHT,
    **EVALUATION,
    **SURVEYS,
    **PAPER,
    **FAMILIES,
    **STARTER,
}

# ----------------------------------------------------------------------------------------------------------------------
# From results to arrays, and comparing them
# ----------------------------------------------------------------------------------------------------------------------

# What is recorded of a result, by the names of its attributes, and attributes that are recorded under another name.
NAMES = {"anchors": "ends"}
RECORDED: dict[type, tuple[str, ...]] = {
    cocoax.Attribution: ("values", "standard_error", "score", "baseline_score", "neutral", "features"),
    cocoax.Reference: ("count", "mean", "mean_unit", "samples", "weights"),
    cocoax.Field: ("values", "neutral", "anchors", "own", "deviations"),
    cocoax.Interactions: ("values", "standard_error", "score"),
    cocoax.Curve: ("x", "y", "auc"),
}


def arrays_of(value: Any, name: str) -> dict[str, np.ndarray]:
    """Return a result as arrays by name; texts become arrays of texts, and None an empty one."""
    for kind, attributes in RECORDED.items():
        if isinstance(value, kind):
            value = {NAMES.get(attribute, attribute): getattr(value, attribute) for attribute in attributes}
    if isinstance(value, Mapping):
        return {
            key: array for part, inner in value.items() for key, array in arrays_of(inner, f"{name} {part}".strip()).items()
        }
    if value is None:
        return {name: np.zeros(0)}
    if isinstance(value, Tensor):
        return {name: value.detach().cpu().numpy()}
    if isinstance(value, list | tuple):
        plain = _plain_array(value)
        if plain is None:
            return {
                key: array
                for place, inner in enumerate(value)
                for key, array in arrays_of(inner, f"{name} {place}".strip()).items()
            }
        return {name: plain}
    return {name: np.asarray(value)}


def _plain_array(values: Sequence[Any]) -> np.ndarray | None:
    """Return lists of numbers, or of texts, as one array; None for anything else."""
    if any(isinstance(value, Tensor) for value in values):
        return None
    try:
        array = np.array(values)
    except (ValueError, TypeError):  # lists of different lengths
        return None
    mixed = array.dtype.kind == "U" and not _all_texts(values)
    return None if mixed or array.dtype.kind not in "biufU" else array


def _all_texts(values: Sequence[Any]) -> bool:
    return all(_all_texts(value) if isinstance(value, list | tuple) else isinstance(value, str) for value in values)


def computed(only: str) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, str], dict[str, float]]:
    """Return the arrays of every call, the errors of those that failed, and the seconds that each took."""
    found: dict[str, dict[str, np.ndarray]] = {}
    failed: dict[str, str] = {}
    seconds: dict[str, float] = {}
    for name, function in CALLS.items():
        if only in name:
            start = time.perf_counter()
            try:
                found[name] = {f"{name}{WITHIN}{part}": array for part, array in arrays_of(function(), "").items()}
            except Exception as error:  # whatever it is, the other calls are compared
                failed[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            seconds[name] = time.perf_counter() - start
    return found, failed, seconds


def difference(before: np.ndarray, after: np.ndarray) -> tuple[float, float] | str:
    """Return the largest absolute difference, and the same relative to the largest absolute value; or what else differs."""
    if before.shape != after.shape:
        return f"shape {list(before.shape)} became {list(after.shape)}"
    if "U" in (before.dtype.kind, after.dtype.kind):
        changed = np.argwhere(before != after)
        if not len(changed):
            return 0.0, 0.0
        place = tuple(changed[0])
        return f"{len(changed)} of {before.size} texts differ, the first {str(before[place])!r} became {str(after[place])!r}"
    old, new = before.astype(np.float64), after.astype(np.float64)
    if not np.array_equal(np.isnan(old), np.isnan(new)):
        return "other places are not a number"
    same = (old == new) | np.isnan(old)
    absolute = float(np.abs(np.where(same, 0.0, new) - np.where(same, 0.0, old)).max(initial=0.0))
    largest = float(np.nanmax(np.abs(old), initial=0.0))
    return absolute, absolute / largest if largest > 0 else (float("inf") if absolute > 0 else 0.0)


def record(path: Path, only: str) -> int:
    """Write the arrays of all calls; return 1 if one of them failed."""
    found, failed, seconds = computed(only)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **{key: array for arrays in found.values() for key, array in arrays.items()})
    for name, error in failed.items():
        print(f"failed  {name}  {error}")
    count = sum(map(len, found.values()))
    print(f"{len(found)} calls, {count} arrays recorded in {path}; {len(failed)} calls failed; {sum(seconds.values()):.0f} s")
    _print_slowest(seconds)
    return int(bool(failed))


def compare(path: Path, only: str) -> int:
    """Print the arrays that differ from the recorded ones; return 1 if one differs by more than the tolerance."""
    with np.load(path, allow_pickle=False) as file:
        recorded = {key: file[key] for key in file.files if only in key.split(WITHIN)[0]}
    found, failed, seconds = computed(only)
    arrays = {key: array for each in found.values() for key, array in each.items()}
    lines: list[tuple[str, str, str, str]] = []
    identical = {
        name for name, each in found.items() if all(_identical(recorded.get(key), array) for key, array in each.items())
    }
    for key, before in recorded.items():
        if key not in arrays:
            if key.split(WITHIN)[0] not in failed:
                lines.append(("MISSING", key, "", "is no longer computed"))
            continue
        differs = difference(before, arrays[key])
        if isinstance(differs, str):
            lines.append(("DIFFERS", key, "", differs))
        elif differs[0] > 0:
            lines.append(
                ("DIFFERS" if not differs[1] <= TOLERANCE else "close", key, f"{differs[0]:.3g}", f"{differs[1]:.3g}")
            )
    lines += [("FAILED", name, "", error) for name, error in failed.items()]
    lines += [("new", key, "", "was not recorded") for key in arrays if key not in recorded]
    if lines:
        width = max(len(line[1]) for line in lines)
        print(f"{'':8} {'array':{width}}  {'absolute':>10}  relative")
        for verdict, key, absolute, relative in lines:
            print(f"{verdict:8} {key:{width}}  {absolute:>10}  {relative}")
    changed_calls = {key.split(WITHIN)[0] for verdict, key, *_ in lines if verdict == "DIFFERS"}
    missing = sum(line[0] == "MISSING" for line in lines)
    exact = sum(_identical(recorded.get(key), array) for key, array in arrays.items())
    print(
        f"{len(identical)} of {len(found) + len(failed)} calls are bit-identical ({exact} of {len(recorded)} arrays); "
        f"{len(changed_calls)} differ by more than {TOLERANCE:g}, {len(failed)} failed, {missing} arrays are missing; "
        f"{sum(seconds.values()):.0f} s"
    )
    return int(bool(changed_calls or failed or missing))


def _identical(before: np.ndarray | None, after: np.ndarray) -> bool:
    same = before is not None and before.dtype == after.dtype and before.shape == after.shape
    return bool(same and before is not None and before.tobytes() == after.tobytes())


def _print_slowest(seconds: Mapping[str, float]) -> None:
    slowest = sorted(seconds, key=lambda name: -seconds[name])[:5]
    print("slowest: " + ", ".join(f"{name} {seconds[name]:.1f} s" for name in slowest))


def main() -> int:
    """Record or compare; return the exit code."""
    global SEED
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", metavar="TEXT", help="calls whose names contain this")
    parser.add_argument("--seed", type=int, default=0, help="another one must be noticed")
    options = parser.parse_args()
    SEED = options.seed
    warnings.simplefilter("ignore")
    return (record if options.action == "record" else compare)(options.file, options.only)


if __name__ == "__main__":
    sys.exit(main())

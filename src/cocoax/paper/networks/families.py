"""The encoders of the paper's experiments, from local checkpoints: SimCLR, SimSiam and classifiers, all of them ResNets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cocoax.data.readers import CIFAR10_CLASSES
from cocoax.encoders.encoder import Encoder
from cocoax.encoders.families.checkpoint import Checkpoint, read_checkpoint, torchvision_name
from cocoax.encoders.families.starter import imagenet_classes
from cocoax.inputs.image import ImagePreprocess, resize_of
from cocoax.paper.networks.resnet import ResNet
from cocoax.paper.networks.simclr_converter import ARCHITECTURE

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)

_CIFAR_RESNET_PREPROCESS = ImagePreprocess(32, 32, IMAGENET_MEAN, IMAGENET_STD)
_SIMSIAM_PREPROCESS = ImagePreprocess(36, 32, CIFAR10_MEAN, CIFAR10_STD)
_SMALL_PREPROCESS = ImagePreprocess(32, 32, CIFAR10_MEAN, CIFAR10_STD)
_SIMCLR_PREPROCESS = ImagePreprocess(256, 224, interpolation="bilinear")
_IMAGENET_PREPROCESS = ImagePreprocess(256, 224, IMAGENET_MEAN, IMAGENET_STD, "bilinear")


@dataclass(frozen=True)
class _Architecture:
    """The architecture of a ResNet, read off its weights."""

    stem: int  # side of the first convolution's kernel
    blocks: tuple[int, ...]  # of each stage
    widths: tuple[int, ...]  # channels of each stage
    bottleneck: bool
    padded: bool  # shortcuts have no weights

    @property
    def depth(self) -> int:
        """The number of layers with weights, as in the names of ResNets."""
        return sum(self.blocks) * (3 if self.bottleneck else 2) + 2

    @property
    def small(self) -> bool:
        """Whether the network is for small images."""
        return self.stem in (3, 4)

    @property
    def name(self) -> str:
        """The name of the architecture."""
        return f"{'CIFAR ' if self.small else ''}ResNet-{self.depth}"

    @property
    def features(self) -> int:
        """The dimension of its pooled output."""
        return self.widths[-1] * (4 if self.bottleneck else 1)

    def __str__(self) -> str:
        blocks = f"{'-'.join(map(str, self.blocks))} {'bottleneck' if self.bottleneck else 'basic'} blocks"
        shortcuts = ", shortcuts without weights" if self.padded else ""
        return (
            f"a {self.name} ({self.stem}x{self.stem} stem, {blocks}, {'-'.join(map(str, self.widths))} channels{shortcuts})"
        )

    def build(self, tensorflow_pooling: bool = False) -> nn.Module:
        """Make the network, with weights that are still to be filled in."""
        stem = (self.stem, 2 if self.stem == 4 else 1) if self.small else (7, 2)
        options = {"bottleneck": self.bottleneck, "padded": self.padded, "tensorflow_pooling": tensorflow_pooling}
        with torch.random.fork_rng():  # modules draw their initial weights, which are replaced, from the global random state
            return ResNet(self.blocks, self.widths, stem, **options).eval()


@dataclass(frozen=True)
class _Family:
    """A family of checkpoints; a call with a file loads the encoder in it, or raises an error that says what it is instead.

    Attributes:
        name: how it is asked for, before the colon.
        expected: the networks that it takes, in words.
        fits: whether an architecture is one of those.
        preprocess: what belongs to an architecture, unless the file says what it was trained with.
        trained: what a file that was written here must say of its training.
        classifies: whether the head must be there.

    """

    name: str
    expected: str
    fits: Callable[[_Architecture], bool]
    preprocess: Callable[[_Architecture], ImagePreprocess]
    trained: str = "classifier"
    classifies: bool = False

    def __call__(self, path: str | Path, name: str | None = None) -> Encoder:
        """Load the encoder in a file; it is called ``name``, or after the family and the file."""
        checkpoint = read_checkpoint(path)
        prefix, weights = _backbone(checkpoint)
        architecture = _architecture_of(weights)
        if architecture is None or not self.fits(architecture):
            names = ", ".join(list(checkpoint.tensors)[:4])
            actual = f"weights that are no ResNet's: {names}, …" if architecture is None else architecture
            raise ValueError(f"{checkpoint.path} does not fit '{self.name}:'. Expected {self.expected}; found {actual}.")
        by = checkpoint.metadata.get("trained", self.trained)
        if by != self.trained:
            raise ValueError(
                f"{checkpoint.path} does not fit '{self.name}:'. Expected one trained as {self.trained}; found {by}."
            )
        # SimCLR's ResNet-50 was trained in TensorFlow; what was trained here says which architecture it has.
        tensorflow = self.name == "simclr" and checkpoint.metadata.get("architecture", ARCHITECTURE) == ARCHITECTURE
        network = architecture.build(tensorflow_pooling=tensorflow)
        _fill(network, {_own_name(key): tensor for key, tensor in weights.items()}, f"{checkpoint.path}, {architecture},")
        head = _head(checkpoint, prefix, architecture.features)
        if head is None and self.classifies:
            raise ValueError(f"{path} has no classifier; load it with 'simsiam:' or 'simclr:' instead of '{self.name}:'.")
        return Encoder(
            network,
            _as_trained(self.preprocess(architecture), checkpoint.metadata),
            head=head,
            classes=_classes(checkpoint, head, architecture),
            name=name or f"{self.name}:{checkpoint.path.stem}",
        )


# Classifiers for CIFAR-10: ResNet-20, 32, 44, 56, … (He et al. 2016; 64 features), or one trained here.
load_cifar_resnet = _Family(
    "cifar-resnet",
    "a CIFAR ResNet (3x3 stem, basic blocks)",
    lambda found: found.small and not found.bottleneck,
    lambda found: _CIFAR_RESNET_PREPROCESS if found.padded else _SMALL_PREPROCESS,
    classifies=True,
)
# SimSiam for CIFAR-10 (Chen & He 2021): ResNet-18 with 512 features, taken before the projector.
load_simsiam = _Family(
    "simsiam",
    "a CIFAR ResNet-18 (3x3 stem, 2-2-2-2 basic blocks, 1x1 convolutions as shortcuts)",
    lambda found: found.small and not found.padded and not found.bottleneck,
    lambda _found: _SIMSIAM_PREPROCESS,
    "simsiam",
)
# SimCLR (Chen et al. 2020): ResNet-50 from the published TensorFlow checkpoint, as ``cocoax paper convert-simclr`` writes it
# (2048 pooled features of pixels in [0, 1], its linear classifier as ``head``), or a ResNet that ``cocoax paper train`` made.
load_simclr = _Family(
    "simclr",
    "a ResNet-50 that 'cocoax paper convert-simclr' wrote, or a ResNet that 'cocoax paper train simclr' wrote",
    lambda found: not found.padded,
    lambda found: _SMALL_PREPROCESS if found.small else _SIMCLR_PREPROCESS,
    "simclr",
)
# A classifier with torchvision's names, such as the paper's for MURA: 512 features and the ``head``.
load_resnet18 = _Family(
    "resnet18",
    "a ResNet-18 (7x7 stem, 2-2-2-2 basic blocks)",
    lambda found: found.name == "ResNet-18",
    lambda _found: _IMAGENET_PREPROCESS,
)
# The same with 2048 features and, if the file has one, the ``head``.
load_resnet50 = _Family(
    "resnet50",
    "a ResNet-50 (7x7 stem, 3-4-6-3 bottleneck blocks)",
    lambda found: found.name == "ResNet-50",
    lambda _found: _IMAGENET_PREPROCESS,
)


def load_small_simclr() -> Encoder:
    """Load the small SimCLR encoder of CIFAR-10 that comes with the package: 256 features, a linear classifier as ``head``.

    1.6 M parameters, trained for 2.5 M images on a CPU; docs/evidence/simclr-cifar10-small.md is its card.
    """
    with as_file(files("cocoax.paper.networks").joinpath("simclr_cifar10_small.safetensors")) as path:
        return load_simclr(path, "simclr-cifar10-small")


def _as_trained(preprocess: ImagePreprocess, metadata: Mapping[str, Any]) -> ImagePreprocess:
    """The preprocessing with the side, mean and standard deviation of the training, if the file has them."""
    if "side" not in metadata:
        return preprocess
    side = metadata["side"]
    return replace(
        preprocess,
        interpolation="bicubic",  # as in training here
        resize=resize_of(side),
        crop=side,
        mean=tuple(metadata.get("mean", preprocess.mean)),
        std=tuple(metadata.get("std", preprocess.std)),
    )


def _fill(network: nn.Module, weights: dict[str, Tensor], what: str) -> None:
    """Load weights into a network; raise unless they are all of its weights and nothing else.

    The error begins with ``what`` the weights are of, and names the first that does not fit.
    """
    wanted = {name: tensor for name, tensor in network.state_dict().items() if not name.endswith("num_batches_tracked")}
    given = {name: tensor for name, tensor in weights.items() if not name.endswith("num_batches_tracked")}
    for name in (*wanted, *given):
        if name not in given:
            raise ValueError(f"{what} has no weights {name!r}; it is incomplete, or of another architecture.")
        if name not in wanted:
            raise ValueError(f"{what} has weights {name!r} that such a network does not have; it is of another architecture.")
        if given[name].shape != wanted[name].shape:
            shapes = f"shape {list(given[name].shape)}; expected {list(wanted[name].shape)}"
            raise ValueError(f"{what} has weights {name!r} of {shapes}. It is of another architecture.")
    network.load_state_dict(given, strict=False)


def _backbone(checkpoint: Checkpoint) -> tuple[str, dict[str, Tensor]]:
    """The part of a checkpoint that is a ResNet, by torchvision's names, and what stood before them (``module.encoder.``)."""
    tensors = {torchvision_name(name): tensor for name, tensor in checkpoint.tensors.items()}
    first = "layer1.0.conv1.weight"
    prefixes = [name.removesuffix(first) for name in tensors if name.endswith(first)]
    # A model that names its backbone twice (alone, and as part of an encoder) has the same weights in both places.
    prefix = min((each for each in prefixes if f"{each}conv1.weight" in tensors), key=len, default="")
    below = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    return prefix, {name: tensor for name, tensor in below.items() if re.match(r"(conv1|bn1|layer\d+\.\d+)\.", name)}


def _own_name(name: str) -> str:
    """The name that :class:`ResNet` gives to a weight with torchvision's name."""
    name = re.sub(r"^layer(\d+)\.", lambda match: f"stages.{int(match[1]) - 1}.", name)
    return name.replace(".downsample.", ".shortcut.")


def _architecture_of(weights: dict[str, Tensor]) -> _Architecture | None:
    """The architecture that weights with torchvision's names are of, if they are a ResNet's."""
    stages: dict[int, set[int]] = {}
    for name in weights:
        if match := re.match(r"layer(\d+)\.(\d+)\.", name):
            stages.setdefault(int(match[1]), set()).add(int(match[2]))
    firsts = [weights.get(f"layer{stage}.0.conv1.weight") for stage in range(1, len(stages) + 1)]
    stem = weights.get("conv1.weight")
    if stem is None or stem.ndim != 4 or not firsts:
        return None
    widths = [first.shape[0] for first in firsts if first is not None and first.ndim == 4]
    if len(widths) != len(stages):
        return None
    return _Architecture(
        stem=stem.shape[-1],
        blocks=tuple(len(stages[stage]) for stage in range(1, len(stages) + 1)),
        widths=tuple(widths),
        bottleneck="layer1.0.conv3.weight" in weights,
        padded=len(stages) > 1 and not any(".downsample." in name for name in weights),
    )


def _head(checkpoint: Checkpoint, prefix: str, features: int) -> nn.Linear | None:
    """The linear classifier on top of the features, if the checkpoint has one."""
    for name in ("head", "fc", "linear", "classifier"):
        for place in (prefix, prefix.removesuffix("encoder.").removesuffix("backbone."), ""):
            weight = checkpoint.tensors.get(f"{place}{name}.weight")
            if weight is not None and weight.ndim == 2 and weight.shape[1] == features:
                bias = checkpoint.tensors.get(f"{place}{name}.bias")
                with torch.random.fork_rng():
                    head = nn.Linear(features, len(weight), bias=bias is not None)
                _fill(
                    head,
                    {"weight": weight} | ({} if bias is None else {"bias": bias}),
                    f"The classifier in {checkpoint.path}",
                )
                return head.eval()
    return None


def _classes(checkpoint: Checkpoint, head: nn.Linear | None, architecture: _Architecture) -> list[str] | None:
    """The names of the head's classes: what the file says, or else those of the data set that such networks are known for.

    Ten classes are CIFAR-10's only for a network made for small images: any other may be Imagenette's, or anybody's.
    """
    if head is None:
        return None
    named = checkpoint.metadata.get("classes")
    if isinstance(named, list):
        return [str(name) for name in named]
    if architecture.small and head.out_features == len(CIFAR10_CLASSES):
        return list(CIFAR10_CLASSES)
    return imagenet_classes() if not architecture.small and head.out_features == 1000 else None

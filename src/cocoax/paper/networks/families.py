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

CIFAR_RESNET_PREPROCESS = ImagePreprocess(32, 32, IMAGENET_MEAN, IMAGENET_STD)
SIMSIAM_PREPROCESS = ImagePreprocess(36, 32, CIFAR10_MEAN, CIFAR10_STD)
SMALL_PREPROCESS = ImagePreprocess(32, 32, CIFAR10_MEAN, CIFAR10_STD)
SIMCLR_PREPROCESS = ImagePreprocess(256, 224, interpolation="bilinear")
IMAGENET_PREPROCESS = ImagePreprocess(256, 224, IMAGENET_MEAN, IMAGENET_STD, "bilinear")


def load_cifar_resnet(path: str | Path) -> Encoder:
    """Load a classifier for CIFAR-10: ResNet-20, 32, 44, 56, … (He et al. 2016; 64 features), or one trained here."""

    def preprocess(architecture: Architecture) -> ImagePreprocess:
        return CIFAR_RESNET_PREPROCESS if architecture.padded else SMALL_PREPROCESS

    expected = "a CIFAR ResNet (3x3 stem, basic blocks)"
    encoder = _load(
        "cifar-resnet",
        path,
        expected,
        lambda architecture: architecture.small and not architecture.bottleneck,
        preprocess,
        "classifier",
    )
    if encoder.head is None:
        raise ValueError(f"{path} has no classifier; load it with 'simsiam:' or 'simclr:' instead of 'cifar-resnet:'.")
    return encoder


def load_simsiam(path: str | Path) -> Encoder:
    """Load a SimSiam encoder for CIFAR-10 (Chen & He 2021): ResNet-18 with 512 features, taken before the projector."""

    def fits(architecture: Architecture) -> bool:
        return architecture.small and not architecture.padded and not architecture.bottleneck

    expected = "a CIFAR ResNet-18 (3x3 stem, 2-2-2-2 basic blocks, 1x1 convolutions as shortcuts)"
    return _load("simsiam", path, expected, fits, lambda _found: SIMSIAM_PREPROCESS, "simsiam")


def load_simclr(path: str | Path) -> Encoder:
    """Load a SimCLR encoder (Chen et al. 2020).

    Either ResNet-50 from the published TensorFlow checkpoint, as ``cocoax paper convert-simclr`` writes it: 2048 pooled
    features of pixels in [0, 1], with its linear classifier as ``head``; or a ResNet that ``cocoax paper train`` wrote.
    """
    return _load_simclr(path)


def load_small_simclr() -> Encoder:
    """Load the small SimCLR encoder of CIFAR-10 that comes with the package: 256 features, a linear classifier as ``head``.

    1.6 M parameters, trained for 2.5 M images on a CPU; docs/simclr-cifar10-small.md is its card.
    """
    with as_file(files("cocoax.paper.networks").joinpath("simclr_cifar10_small.safetensors")) as path:
        return _load_simclr(path, "simclr-cifar10-small")


def _load_simclr(path: str | Path, name: str | None = None) -> Encoder:
    def preprocess(architecture: Architecture) -> ImagePreprocess:
        return SMALL_PREPROCESS if architecture.small else SIMCLR_PREPROCESS

    expected = "a ResNet-50 that 'cocoax paper convert-simclr' wrote, or a ResNet that 'cocoax paper train simclr' wrote"
    return _load("simclr", path, expected, lambda found: not found.padded, preprocess, "simclr", name)


def load_resnet18(path: str | Path) -> Encoder:
    """Load a ResNet-18 classifier with torchvision's names, such as the paper's for MURA: 512 features and the ``head``."""
    return _load_torchvision("resnet18", path, "ResNet-18", "2-2-2-2 basic blocks")


def load_resnet50(path: str | Path) -> Encoder:
    """Load a ResNet-50 with torchvision's names: 2048 features and, if the file has one, the ``head``."""
    return _load_torchvision("resnet50", path, "ResNet-50", "3-4-6-3 bottleneck blocks")


def _load_torchvision(family: str, path: str | Path, name: str, blocks: str) -> Encoder:
    expected = f"a {name} (7x7 stem, {blocks})"
    return _load(
        family,
        path,
        expected,
        lambda architecture: architecture.name == name,
        lambda _architecture: IMAGENET_PREPROCESS,
        "classifier",
    )


@dataclass(frozen=True)
class Architecture:
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
        """What such a network is called."""
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


def _load(
    family: str,
    path: str | Path,
    expected: str,
    fits: Callable[[Architecture], bool],
    preprocess: Callable[[Architecture], ImagePreprocess],
    trained: str,
    name: str | None = None,
) -> Encoder:
    """Load a checkpoint as an encoder of a family, or raise an error that says what it is instead."""
    checkpoint = read_checkpoint(path)
    prefix, weights = _backbone(checkpoint)
    architecture = _architecture_of(weights)
    if architecture is None or not fits(architecture):
        names = ", ".join(list(checkpoint.tensors)[:4])
        actual = f"weights that are no ResNet's: {names}, …" if architecture is None else architecture
        raise ValueError(f"{checkpoint.path} does not fit '{family}:'. Expected {expected}; found {actual}.")
    by = checkpoint.metadata.get("trained", trained)
    if by != trained:
        raise ValueError(f"{checkpoint.path} does not fit '{family}:'. Expected one trained as {trained}; found {by}.")
    # SimCLR's ResNet-50 was trained in TensorFlow; what was trained here says which architecture it has.
    tensorflow = family == "simclr" and checkpoint.metadata.get("architecture", ARCHITECTURE) == ARCHITECTURE
    network = architecture.build(tensorflow_pooling=tensorflow)
    fill(network, {_own_name(key): tensor for key, tensor in weights.items()}, f"{checkpoint.path}, {architecture},")
    head = _head(checkpoint, prefix, architecture.features)
    return Encoder(
        network,
        _as_trained(preprocess(architecture), checkpoint.metadata),
        head=head,
        classes=_classes(checkpoint, head, architecture),
        name=name or f"{family}:{checkpoint.path.stem}",
    )


def _as_trained(preprocess: ImagePreprocess, metadata: Mapping[str, Any]) -> ImagePreprocess:
    """The preprocessing with the side, mean and standard deviation of the training, if the file tells them."""
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


def fill(network: nn.Module, weights: dict[str, Tensor], what: str) -> None:
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


def _architecture_of(weights: dict[str, Tensor]) -> Architecture | None:
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
    return Architecture(
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
                fill(
                    head,
                    {"weight": weight} | ({} if bias is None else {"bias": bias}),
                    f"The classifier in {checkpoint.path}",
                )
                return head.eval()
    return None


def _classes(checkpoint: Checkpoint, head: nn.Linear | None, architecture: Architecture) -> list[str] | None:
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

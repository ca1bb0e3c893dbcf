"""The training loop: the schedule is counted in images, every batch follows from the seed and its number, so that a
training that was stopped goes on exactly where it was."""

from __future__ import annotations

import copy
import json
import math
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from cocoax.data.labelled import LabelledImages
from cocoax.encoders.forward import evaluating
from cocoax.encoders.load.paper import CIFAR10_MEAN, CIFAR10_STD, IMAGENET_MEAN, IMAGENET_STD
from cocoax.encoders.load.resnet import ARCHITECTURES, ResNet
from cocoax.evaluation.probe import accuracy
from cocoax.evaluation.representations import effective_rank, knn_accuracy
from cocoax.inputs.images import ImagePreprocess, open_image, resize_of
from cocoax.progress import bar
from cocoax.seeding import check_seed, stream
from cocoax.storage import write_safetensors
from cocoax.training.augment import Augmentation
from cocoax.training.lars import Lars
from cocoax.training.objectives import Classifier, SimClr, SimSiam

# Collapsed are too few directions for a handful of classes, or many of them within a narrow cone.
LEAST_RANK, LEAST_SPREAD = 4.0, 0.1


@dataclass(frozen=True)
class Recipe:
    """How to train: everything the result depends on, besides the data.

    Args:
        kind: ``"simclr"``, ``"simsiam"`` or ``"classifier"``.
        architecture: one of ``cocoax.encoders.load.resnet.ARCHITECTURES``.
        augmentation: how views are made; its ``size`` is the side of what the network sees while it trains.
        side: of the images in training and evaluation, before augmentation.
        epochs: passes over the data.
        batch_size: images in a step; self-supervised methods make two views of each.
        optimizer: ``"sgd"``, ``"lars"`` or ``"adam"``.
        learning_rate: the highest.
        momentum: of SGD and LARS.
        weight_decay: as the optimizer has it.
        warmup: epochs of linear increase.
        schedule: ``"cosine"`` to zero, or ``"step"``: a tenth every ten epochs.
        temperature: of SimCLR's loss.
        projection: width of what the loss sees; the method's own if not given.
        seed: of the initial weights, of the order and of the augmentations.

    """

    kind: Literal["simclr", "simsiam", "classifier"]
    architecture: str
    augmentation: Augmentation
    side: int
    epochs: int
    batch_size: int
    learning_rate: float
    optimizer: Literal["sgd", "lars", "adam"] = "sgd"
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warmup: float = 0
    schedule: Literal["cosine", "step"] = "cosine"
    temperature: float = 0.5
    projection: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 2), ("side", 4)):
            if getattr(self, name) < least:
                raise ValueError(f"The '{name}' parameter must be at least {least}. Got {getattr(self, name)} instead.")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ValueError(f"The 'learning_rate' parameter must be above 0. Got {self.learning_rate} instead.")
        for name, known in (
            ("kind", ("simclr", "simsiam", "classifier")),
            ("optimizer", ("sgd", "lars", "adam")),
            ("schedule", ("cosine", "step")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"The '{name}' parameter must be one of {', '.join(known)}. Got {getattr(self, name)!r} instead."
                )
        check_seed(self.seed)

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain


_CIFAR_VIEWS = Augmentation(32, (0.2, 1.0), mean=CIFAR10_MEAN, std=CIFAR10_STD)

# The published hyperparameters, and what two cores manage in two hours.
RECIPES: dict[str, Recipe] = {
    # Chen & He 2021, CIFAR-10: base rate .03 for 256 images, no blur.
    "simsiam": Recipe("simsiam", "cifar-resnet18", _CIFAR_VIEWS, 32, 800, 512, 0.06),
    # Chen et al. 2020, CIFAR-10 (appendix B.9): LARS, base rate 1 for 256 images, half-strength colour distortion, no blur.
    "simclr": Recipe(
        "simclr",
        "cifar-resnet18",
        replace(_CIFAR_VIEWS, scale=(0.08, 1.0)),
        32,
        1000,
        512,
        2.0,
        "lars",
        weight_decay=1e-6,
        warmup=10,
        temperature=0.5,
    ),
    "simclr-small": Recipe(
        "simclr", "resnet14-small", replace(_CIFAR_VIEWS, size=24), 32, 50, 128, 0.15, weight_decay=1e-4, temperature=0.2
    ),
    "simsiam-small": Recipe("simsiam", "resnet14-small", replace(_CIFAR_VIEWS, size=24), 32, 50, 128, 0.03, projection=512),
    # The paper's MURA classifier, on all training images: the fifth that the paper tuned the rate on is not left out.
    "classifier": Recipe(
        "classifier",
        "resnet18",
        Augmentation(
            224,
            None,
            vertical_flip=0.5,
            rotation=30.0,
            jitter=(0, 0, 0, 0),
            jitter_probability=0.0,
            grey=0.0,
            mean=IMAGENET_MEAN,
            std=IMAGENET_STD,
        ),
        224,
        30,
        256,
        1e-3,
        "adam",
        weight_decay=1e-3,
        schedule="step",
    ),
}


class Training:
    """A training in a folder: what it has learned so far, and how to go on.

    The folder holds ``checkpoint.pt`` (to go on from), ``log.jsonl`` (one line per epoch) and, at the end,
    ``encoder.safetensors`` (to load). An existing folder is continued if its recipe is the same.
    """

    def __init__(self, recipe: Recipe, data: LabelledImages, folder: str | Path) -> None:
        if recipe.architecture not in ARCHITECTURES:
            raise ValueError(f"No architecture is called {recipe.architecture!r}; known are {', '.join(ARCHITECTURES)}.")
        if len(data) < recipe.batch_size:
            raise ValueError(f"The data have {len(data)} images but a batch takes {recipe.batch_size}; lower the batch size.")
        self.recipe = recipe
        self.data = data
        self.folder = Path(folder)
        self.pixels = Pixels(data, recipe.side)
        with torch.random.fork_rng():
            torch.manual_seed(recipe.seed)
            self.objective = _objective(recipe, len(data.classes))
        if recipe.kind == "simsiam" and isinstance(self.encoder, ResNet):
            raise ValueError(
                "SimSiam is for small images here: 'simsiam:' loads networks with a small stem, such as cifar-resnet18. "
                f"Got {recipe.architecture}; train that with simclr."
            )
        self.objective.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = _optimizer(recipe, self.objective)
        self.steps_per_epoch = len(data) // recipe.batch_size
        self.steps = recipe.epochs * self.steps_per_epoch
        self.step = 0
        self._losses: list[float] = []
        if self.checkpoint.exists():
            self._restore()
        else:
            self._check_new()

    @property
    def checkpoint(self) -> Path:
        """The file from which the training goes on."""
        return self.folder / "checkpoint.pt"

    @property
    def encoder(self) -> nn.Module:
        """The network without the heads of its training."""
        return self.objective.encoder

    def run(
        self,
        held_out: LabelledImages | None = None,
        *,
        until: int | None = None,
        say: Callable[[str], None] = print,
        progress: bool | None = None,
    ) -> Path | None:
        """Train to the end, or to step ``until``; gives the finished encoder's file, or ``None`` if there is more to do.

        Ctrl-C keeps what was learned. After each epoch ``say`` gets a line with the loss, the accuracy of the 20 nearest
        neighbours, the effective rank of the representations and, of a classifier, its own accuracy.
        """
        last = self.steps if until is None else min(until, self.steps)
        with bar(self.steps, f"{self.recipe.kind} {self.recipe.architecture}", progress) as shown:
            shown.update(self.step)
            try:
                if self._losses and self.step % self.steps_per_epoch == 0:  # interrupted while the epoch was examined
                    self._close_epoch(held_out, say)
                while self.step < last:
                    self._whole_step()
                    shown.update()
                    if self.step % self.steps_per_epoch == 0:
                        self._close_epoch(held_out, say)
            finally:  # also when interrupted
                self._save()
        return self.export() if self.step == self.steps else None

    def _whole_step(self) -> None:
        """One step or, if it is interrupted, none: batch statistics or some of the weights may have changed by then."""
        before = copy.deepcopy(self._state())
        try:
            self._one_step()
        except BaseException:
            self._set(before)
            raise

    def _one_step(self) -> None:
        epoch, place = divmod(self.step, self.steps_per_epoch)
        order = stream(self.recipe.seed, 0, epoch).permutation(len(self.data))
        chosen = order[place * self.recipe.batch_size : (place + 1) * self.recipe.batch_size]
        images, labels = self.pixels(chosen), torch.from_numpy(self.data.labels[chosen]).long()
        random = stream(self.recipe.seed, 1, self.step)
        views = torch.cat([self.recipe.augmentation(images, random) for _ in range(self.objective.views)])
        rate = learning_rate(self.recipe, self.step, self.steps_per_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.objective.train()
        loss: Tensor = self.objective(views.contiguous(memory_format=torch.channels_last), labels)
        if not bool(torch.isfinite(loss)):
            raise ValueError(f"The loss became {loss.item()} at step {self.step}; lower the learning rate.")
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.step += 1
        self._losses.append(loss.item())

    def _close_epoch(self, held_out: LabelledImages | None, say: Callable[[str], None]) -> None:
        epoch = self.step // self.steps_per_epoch
        line: dict[str, float] = {
            "epoch": epoch,
            "images": self.step * self.recipe.batch_size,
            "loss": float(np.mean(self._losses)),
        }
        if held_out is not None:
            line |= self.examine(held_out)
        self._log(epoch, line)
        self._losses = []
        self._save()
        say("  ".join(f"{name} {value:.4g}" for name, value in line.items()))
        rank, spread = line.get("effective_rank", math.inf), line.get("spread", math.inf)
        if (rank < LEAST_RANK or spread < LEAST_SPREAD) and self.recipe.kind != "classifier":
            warnings.warn(
                f"The representations have an effective rank of {rank:.1f} and a spread of {spread:.2f}: the encoder is "
                "collapsing onto a few directions. Lower the learning rate, enlarge the batch, or use SimCLR.",
                stacklevel=3,
            )

    def _log(self, epoch: int, line: dict[str, float]) -> None:
        """Put a line into the log, in place of one that was written just before the training was killed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path, part = self.folder / "log.jsonl", self.folder / "log.part"
        earlier = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        part.write_text("\n".join([*earlier[: epoch - 1], json.dumps(line)]) + "\n", encoding="utf-8")
        os.replace(part, path)

    def examine(self, held_out: LabelledImages, most: int = 1000, memory: int = 5000) -> dict[str, float]:
        """Nearest-neighbour accuracy on held-out images, effective rank, and the spread of the unit vectors (1 is even).

        For a classifier also how often it is right. Up to ``most`` held-out images and ``memory`` neighbours, evenly chosen.
        """
        known, asked = (_spread(len(data), number) for data, number in ((self.data, memory), (held_out, most)))
        representations = self.represent(self.pixels, known)
        queries = self.represent(Pixels(held_out, self.recipe.side), asked)
        if not bool(torch.isfinite(queries).all()):
            raise ValueError(f"Representations are not finite after step {self.step}; lower the learning rate.")
        labels, unit = held_out.labels[asked], nn.functional.normalize(queries, dim=1)
        found = {
            "knn": knn_accuracy(representations, self.data.labels[known], queries, labels),
            "effective_rank": effective_rank(queries),
            "spread": float(unit.std(0).mean()) * math.sqrt(unit.shape[1]),
        }
        if isinstance(self.objective, Classifier):
            found["accuracy"] = accuracy(self.objective.head, queries, labels)
        return found

    def represent(self, pixels: Pixels, chosen: np.ndarray) -> Tensor:
        """Representations ``[n, d]`` of plain images by their numbers."""
        plain = plain_view(self.recipe)
        parts = []
        with evaluating(self.encoder), torch.no_grad():
            for start in range(0, len(chosen), 250):
                batch = plain(pixels(chosen[start : start + 250]))
                parts.append(self.encoder(batch.contiguous(memory_format=torch.channels_last)))
        return torch.cat(parts)

    def export(self, path: str | Path | None = None, *, half: bool = False) -> Path:
        """Write the encoder for :func:`cocoax.load`, in half precision if asked."""
        weights = dict(self.encoder.state_dict())
        header: dict[str, Any] = {
            "architecture": self.recipe.architecture,
            "trained": self.recipe.kind,
            "side": self.recipe.side,
            "mean": self.recipe.augmentation.mean,
            "std": self.recipe.augmentation.std,
            "recipe": self.recipe.plain(),
        }
        if isinstance(self.objective, Classifier):
            weights |= {f"head.{name}": tensor for name, tensor in self.objective.head.state_dict().items()}
            header["classes"] = self.data.classes
        if half:
            weights = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
        return write_safetensors(path or self.folder / "encoder.safetensors", weights, "encoder", header)

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "losses": self._losses,
            "objective": self.objective.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def _set(self, state: dict[str, Any]) -> None:
        self.objective.load_state_dict(state["objective"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self._losses = state["step"], state["losses"]

    def _made_from(self) -> dict[str, Any]:
        """What a checkpoint must have in common with this training."""
        return {"recipe": self.recipe.plain(), "data": self.data.fingerprint}

    def _check_new(self) -> None:
        """Raise if the folder holds what a training left, which one from the start would replace.

        One line of the log is written before the first checkpoint.
        """
        log, finished = self.folder / "log.jsonl", self.folder / "encoder.safetensors"
        if finished.exists() or (log.exists() and len(log.read_text(encoding="utf-8").splitlines()) > 1):
            raise FileExistsError(
                f"{self.folder} holds a training without the {self.checkpoint.name} to go on from; put that file back, or "
                "pass another folder to start anew."
            )

    def _save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.checkpoint.with_suffix(".part")
        torch.save(self._made_from() | self._state(), part)
        os.replace(part, self.checkpoint)

    def _restore(self) -> None:
        ours = self._made_from()
        try:
            state = torch.load(self.checkpoint, weights_only=True)
            recipe = {name: (state["recipe"].get(name), value) for name, value in ours["recipe"].items()}
            different = [f"{name} {old!r}, not {new!r}" for name, (old, new) in recipe.items() if old != new]
            different += ["other images, labels or classes"] if state["data"] != ours["data"] else []
            if not different:
                self._set(state)
        except Exception as error:  # whatever a damaged file makes torch raise, with advice not meant for such a file
            raise ValueError(
                f"{self.checkpoint} cannot be read ({type(error).__name__}): it is damaged or was not written by this "
                "training; move it away to start anew."
            ) from error
        if different:
            raise ValueError(
                f"{self.folder} holds a training with another recipe or other data ({different[0]}); pass another folder to "
                "start anew."
            )


class Pixels:
    """Images by their numbers, as one uint8 tensor ``[n, 3, side, side]``: from memory, or decoded from files as needed."""

    def __init__(self, data: LabelledImages, side: int) -> None:
        self.data = data
        self.array: np.ndarray | None = None
        if isinstance(data.images, np.ndarray) and data.images.dtype == np.uint8 and data.images.shape[1:] == (side, side, 3):
            self.array = data.images
        self._resize = ImagePreprocess(resize=resize_of(side), crop=side)

    def __call__(self, chosen: np.ndarray) -> Tensor:
        """The images of these numbers."""
        if self.array is not None:
            return torch.from_numpy(self.array[chosen]).permute(0, 3, 1, 2)
        with ThreadPoolExecutor() as pool:
            return torch.stack(list(pool.map(self._one, chosen)))

    def _one(self, number: int) -> Tensor:
        return (self._resize(open_image(self.data.images[number])) * 255).round().to(torch.uint8)


def learning_rate(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """The learning rate of a step."""
    epoch = step / steps_per_epoch
    if epoch < recipe.warmup:
        return recipe.learning_rate * min((step + 1) / (recipe.warmup * steps_per_epoch), 1)
    if recipe.schedule == "step":
        return float(recipe.learning_rate * 0.1 ** (epoch // 10))
    done = (epoch - recipe.warmup) / (recipe.epochs - recipe.warmup)
    return recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def plain_view(recipe: Recipe) -> Callable[[Tensor], Tensor]:
    """From uint8 images to what the network takes when it is not trained: all of the image, normalised."""
    mean, std = (torch.tensor(values)[:, None, None] for values in (recipe.augmentation.mean, recipe.augmentation.std))
    return lambda images: (images.float() / 255 - mean) / std


def _objective(recipe: Recipe, classes: int) -> SimClr | SimSiam | Classifier:
    encoder = ARCHITECTURES[recipe.architecture]()
    with torch.no_grad(), evaluating(encoder):
        width = encoder(torch.zeros(1, 3, recipe.side, recipe.side)).shape[1]
    projection = {} if recipe.projection is None else {"projection": recipe.projection}
    if recipe.kind == "simclr":
        return SimClr(encoder, width, recipe.temperature, **projection)
    if recipe.kind == "simsiam":
        return SimSiam(encoder, width, **projection)
    return Classifier(encoder, width, classes)


def _optimizer(recipe: Recipe, module: nn.Module) -> torch.optim.Optimizer:
    parameters, rate, decay = module.parameters(), recipe.learning_rate, recipe.weight_decay
    if recipe.optimizer == "adam":
        return torch.optim.Adam(parameters, rate, weight_decay=decay)
    if recipe.optimizer == "lars":
        return Lars(parameters, rate, recipe.momentum, decay)
    return torch.optim.SGD(parameters, rate, recipe.momentum, weight_decay=decay)


def _spread(total: int, most: int) -> np.ndarray:
    """Numbers of up to ``most`` images, evenly over all of them."""
    return np.unique(np.linspace(0, total - 1, min(total, most)).round().astype(int))

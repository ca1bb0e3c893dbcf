"""The training loop: the schedule is counted in images, every batch follows from the seed and its number, so that a
training that was stopped goes on exactly where it was."""

from __future__ import annotations

import copy
import json
import math
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cocoax.data.labelled import LabelledImages
from cocoax.encoders import load
from cocoax.encoders.devices import device_asked_for
from cocoax.encoders.families.checkpoint import read_checkpoint
from cocoax.encoders.forward import evaluating
from cocoax.evaluation.probe import LinearProbe, accuracy
from cocoax.evaluation.sanity import effective_rank, knn_accuracy
from cocoax.inputs.image import ImagePreprocess, open_image, resize_of
from cocoax.paper.networks.resnet import ARCHITECTURES
from cocoax.paper.training.objectives import Classifier, Lars, Objective, SimClr, SimSiam
from cocoax.paper.training.recipes import Recipe, normalised, scheduler_of
from cocoax.progress import bar
from cocoax.seeding import stream
from cocoax.store import Layout, Results, write_safetensors, write_text

_CHECKPOINT = Layout("training checkpoint", {}, {"step": int, "losses": list, "log": list, "groups": list, "scheduler": dict})
# Collapsed are too few directions for a handful of classes, or many of them within a narrow cone.
LEAST_RANK, LEAST_SPREAD = 4.0, 0.1


class Training:
    """A training in a folder: what it has learned so far, and how to go on.

    The folder holds the two newest checkpoints (``units/``, :class:`cocoax.store.Results`; the older one is used if the newer
    one is damaged), ``log.jsonl`` (one line per epoch) and, at the end, ``encoder.safetensors`` (to load). An existing folder
    is continued if its recipe and data are the same, on any device.

    Args:
        recipe: what is trained, and how.
        data: the images to learn from.
        folder: of the training.
        device: where it runs, as for :func:`cocoax.load`.

    """

    def __init__(
        self, recipe: Recipe, data: LabelledImages, folder: str | Path, device: str | torch.device | None = None
    ) -> None:
        if len(data) < recipe.batch_size:
            raise ValueError(f"The data have {len(data)} images but a batch takes {recipe.batch_size}; lower the batch size.")
        self.recipe = recipe
        self.data = data
        self.folder = Path(folder)
        self.device = device_asked_for(device) or torch.device("cpu")
        self.pixels = _Pixels(data, recipe.side)
        with torch.random.fork_rng():
            torch.manual_seed(recipe.seed)
            self.objective = _objective(recipe, len(data.classes))
        self.objective.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimizer = _optimizer(recipe, self.objective)
        self.steps_per_epoch = len(data) // recipe.batch_size
        self.scheduler = scheduler_of(recipe, self.optimizer, self.steps_per_epoch)
        self.steps = recipe.epochs * self.steps_per_epoch
        self.step = 0
        self._losses: list[float] = []
        self._lines: list[dict[str, float]] = []
        self._checkpoints = Results(
            self.folder, recipe.plain() | {"data": data.fingerprint}, _CHECKPOINT, r"step-\d{9}\.safetensors"
        )
        self._restore()

    @property
    def log(self) -> Path:
        """Where the figures of each epoch are written, a line for each."""
        return self.folder / "log.jsonl"

    @property
    def finished(self) -> Path:
        """The file of the trained encoder."""
        return self.folder / "encoder.safetensors"

    @property
    def encoder(self) -> nn.Module:
        """The network without the heads that only its training needs."""
        return self.objective.encoder

    def run(
        self,
        held_out: LabelledImages | None = None,
        *,
        until: int | None = None,
        say: Callable[[str], None] = print,
        progress: bool | None = None,
    ) -> Path | None:
        """Train to the end, or to step ``until``; return the finished encoder's file, or ``None`` if there is more to do.

        Ctrl-C keeps what was learned. After each epoch ``say`` gets a line with the loss, the accuracy of the 20 nearest
        neighbours, the effective rank of the representations and, of a classifier, its own accuracy.
        """
        last = self.steps if until is None else min(until, self.steps)
        units = self._checkpoints.units
        with units.lock(), bar(self.steps, f"{self.recipe.kind} {self.recipe.architecture}", progress) as shown:
            units.remove_leftovers()
            shown.update(self.step)
            try:
                if self._losses and self.step % self.steps_per_epoch == 0:  # interrupted while the epoch was examined
                    self._close_epoch(held_out, say)
                while self.step < last:
                    self._step_or_none()
                    shown.update()
                    if self.step % self.steps_per_epoch == 0:
                        self._close_epoch(held_out, say)
            finally:  # also when interrupted
                self._save()
        return self.export() if self.step == self.steps else None

    def _step_or_none(self) -> None:
        """Take one step, or none if it is interrupted: what had changed by then, such as batch statistics, is put back."""
        before = copy.deepcopy(self._state())
        try:
            self._step()
        except BaseException:
            self._set(before)
            raise

    def _step(self) -> None:
        epoch, place = divmod(self.step, self.steps_per_epoch)
        order = stream(self.recipe.seed, 0, epoch).permutation(len(self.data))
        chosen = order[place * self.recipe.batch_size : (place + 1) * self.recipe.batch_size]
        images, labels = self.pixels(chosen).to(self.device), torch.from_numpy(self.data.labels[chosen]).long()
        random = stream(self.recipe.seed, 1, self.step)
        views = torch.cat([self.recipe.augmentation(images, random) for _ in range(self.objective.views)])
        self.objective.train()
        loss: Tensor = self.objective(views.contiguous(memory_format=torch.channels_last), labels.to(self.device))
        if not bool(torch.isfinite(loss)):
            raise ValueError(f"The loss became {loss.item()} at step {self.step}; lower the learning rate.")
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.scheduler.step()
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
        self._lines.append(line)
        self._losses = []
        self._save()
        say("  ".join(f"{name} {value:.4g}" for name, value in line.items()))
        rank, spread = line.get("effective_rank", math.inf), line.get("spread", math.inf)
        if (rank < LEAST_RANK or spread < LEAST_SPREAD) and self.objective.may_collapse:
            warnings.warn(
                f"The representations have an effective rank of {rank:.1f} and a spread of {spread:.2f}: the encoder is "
                "collapsing onto a few directions. Lower the learning rate, enlarge the batch, or use SimCLR.",
                stacklevel=3,
            )

    def examine(self, held_out: LabelledImages, most: int = 1000, memory: int = 5000) -> dict[str, float]:
        """Measure nearest-neighbour accuracy on held-out images, effective rank, and the spread of unit vectors (1 is even).

        Of a classifier also how often it is right. Up to ``most`` held-out images and ``memory`` neighbours, evenly chosen.
        """
        known, asked = _evenly(len(self.data), memory), _evenly(len(held_out), most)
        representations = self.represent(self.pixels, known)
        queries = self.represent(_Pixels(held_out, self.recipe.side), asked)
        if not bool(torch.isfinite(queries).all()):
            raise ValueError(f"Representations are not finite after step {self.step}; lower the learning rate.")
        labels, unit = held_out.labels[asked], nn.functional.normalize(queries, dim=1)
        figures = {
            "knn": knn_accuracy(representations, self.data.labels[known], queries, labels),
            "effective_rank": effective_rank(queries),
            "spread": float(unit.std(0).mean()) * math.sqrt(unit.shape[1]),
        }
        if (head := self.objective.classifier) is not None:
            figures["accuracy"] = accuracy(head, queries, labels)
        return figures

    def represent(self, pixels: _Pixels, chosen: np.ndarray) -> Tensor:
        """Return the representations ``[n, d]`` of images by their numbers, without augmentation, on the CPU."""
        mean, std = self.recipe.augmentation.mean, self.recipe.augmentation.std
        parts = []
        with evaluating(self.encoder), torch.no_grad():
            for start in range(0, len(chosen), 250):
                batch = normalised(pixels(chosen[start : start + 250]).to(self.device).float() / 255, mean, std)
                parts.append(self.encoder(batch.contiguous(memory_format=torch.channels_last)).cpu())
        return torch.cat(parts)

    def export(self, path: str | Path | None = None, *, half: bool = False) -> Path:
        """Write the encoder for :func:`cocoax.load`, in half precision if asked; return the file."""
        weights = dict(self.encoder.state_dict())
        header: dict[str, Any] = {
            "architecture": self.recipe.architecture,
            "trained": self.recipe.kind,
            "side": self.recipe.side,
            "mean": self.recipe.augmentation.mean,
            "std": self.recipe.augmentation.std,
            "recipe": self.recipe.plain(),
        }
        if (head := self.objective.classifier) is not None:
            weights |= {f"head.{name}": tensor for name, tensor in head.state_dict().items()}
            header["classes"] = self.data.classes
        if half:
            weights = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
        return write_safetensors(path or self.finished, weights, "encoder", header)

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "losses": self._losses,
            "log": self._lines,
            "objective": self.objective.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
        }

    def _set(self, state: dict[str, Any]) -> None:
        self.objective.load_state_dict(state["objective"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.step, self._losses, self._lines = state["step"], state["losses"], state["log"]

    def _save(self) -> None:
        """Write a checkpoint, and then the log; of earlier checkpoints the newest stays."""
        state = self._state()
        optimizer = state.pop("optimizer")
        tensors = {f"objective {name}": tensor for name, tensor in state.pop("objective").items()}
        for number, entries in optimizer["state"].items():
            tensors |= {f"optimizer {number} {name}": value for name, value in entries.items() if isinstance(value, Tensor)}
        self._checkpoints.write(f"step-{self.step:09}", tensors, state | {"groups": optimizer["param_groups"]})
        for old in self._checkpoints.units.files()[:-2]:
            old.unlink()
        if self._lines:
            write_text(self.log, "".join(json.dumps(line) + "\n" for line in self._lines))

    def _restore(self) -> None:
        """Go on from the newest checkpoint that is sound, if there is one."""
        for path in reversed(self._checkpoints.units.files()):
            if (held := self._checkpoints.get(path.stem)) is None:
                continue
            tensors, state = held
            states: dict[int, dict[str, Tensor]] = {}
            for place, tensor in tensors.items():
                owner, _, name = place.partition(" ")
                if owner == "optimizer":
                    number, _, name = name.partition(" ")
                    states.setdefault(int(number), {})[name] = tensor
            learned = {name.partition(" ")[2]: tensor for name, tensor in tensors.items() if name.startswith("objective ")}
            self._set(state | {"objective": learned, "optimizer": {"state": states, "param_groups": state["groups"]}})
            return


class _Pixels:
    """Images by their numbers, as one uint8 tensor ``[n, 3, side, side]``: from memory, or decoded from files as needed."""

    def __init__(self, data: LabelledImages, side: int) -> None:
        self.data = data
        self.array: np.ndarray | None = None
        if isinstance(data.images, np.ndarray) and data.images.dtype == np.uint8 and data.images.shape[1:] == (side, side, 3):
            self.array = data.images
        self._resize = ImagePreprocess(resize=resize_of(side), crop=side)

    def __call__(self, chosen: np.ndarray) -> Tensor:
        """Return the images of these numbers."""
        if self.array is not None:
            return torch.from_numpy(self.array[chosen]).permute(0, 3, 1, 2)
        with ThreadPoolExecutor() as pool:
            return torch.stack(list(pool.map(self._decoded, chosen)))

    def _decoded(self, number: int) -> Tensor:
        return (self._resize(open_image(self.data.images[number])) * 255).round().to(torch.uint8)


def _objective(recipe: Recipe, classes: int) -> Objective:
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


def _evenly(total: int, most: int) -> np.ndarray:
    """Return the numbers of up to ``most`` of ``total`` images, evenly spaced."""
    return np.unique(np.linspace(0, total - 1, min(total, most)).round().astype(int))


# --- linear evaluation ------------------------------------------------------------------------------------------------------


def train_linear(
    encoder: str,
    train: LabelledImages,
    held_out: LabelledImages,
    out: str | Path,
    solver: str = "sgd",
    *,
    device: str | None = None,
    **options: Any,
) -> float:
    """Fit a classifier on the encoder's representations and write both to one file; return the held-out accuracy.

    ``encoder`` names one that comes from a checkpoint, as ``"simsiam:FILE"``; so does what is written. ``out`` must not exist
    yet. The encoder runs on ``device``, as for :func:`cocoax.load`; the classifier, which is small, is fitted on the CPU.
    """
    source = Path(encoder.partition(":")[2])
    if not source.is_file():
        raise ValueError(f"A classifier is kept with an encoder that comes from a file, as simsiam:FILE. Got {encoder!r}.")
    if Path(out).suffix != ".safetensors":
        raise ValueError(f"The classifier and its encoder go to one file; call it something.safetensors. Got {out}.")
    if Path(out).exists():
        raise FileExistsError(f"{out} exists already; delete it first, or choose another name.")
    probe = LinearProbe(solver, **options)  # type: ignore[arg-type]
    frozen = load(encoder, device=device)
    assert isinstance(frozen.module, nn.Module)
    head = probe.fit(frozen.represent(train.images), train.labels, len(train.classes))
    right = accuracy(head, frozen.represent(held_out.images), held_out.labels)
    weights = frozen.module.state_dict()
    kind = torch.float16 if _fits_half(weights) else torch.float32
    weights |= {f"head.{name}": tensor for name, tensor in head.state_dict().items()}
    weights = {
        name: tensor.to("cpu", kind if tensor.is_floating_point() else tensor.dtype) for name, tensor in weights.items()
    }
    # What the file says of itself stays, and nothing is added: how it is loaded depends on what it does not say, too.
    header = {name: value for name, value in read_checkpoint(source).metadata.items() if name != "kind"}
    write_safetensors(out, weights, "encoder", {**header, "classes": train.classes, "linear accuracy": right})
    return right


def _fits_half(weights: Mapping[str, Tensor]) -> bool:
    """Tell whether half precision loses nothing, because the weights come from a file in half precision."""
    return all(torch.equal(tensor, tensor.half().to(tensor)) for tensor in weights.values() if tensor.is_floating_point())

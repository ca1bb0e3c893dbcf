"""Which training examples matter, without labels (Crabbé & van der Schaar 2022): TracIn and influence functions, by Captum.

Both compare the gradients of a loss on a training example with those on the input. The default loss needs no labels: the
cross entropy of identifying an input among others by a view of it with some of its features removed.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from cocoax.checks import check_count, check_positive
from cocoax.encoders import Encoder
from cocoax.encoders.families.checkpoint import read_checkpoint, torchvision_name
from cocoax.inputs import Explicand
from cocoax.insight.important_examples import ExampleMethod, Members
from cocoax.insight.subset_search import Subsets, labels_of
from cocoax.masking import resolve
from cocoax.seeding import stream
from cocoax.store import digest

# From an encoder, prepared inputs and one view of each to a loss for each, ``[n]``, differentiable.
Loss = Callable[[Encoder, Sequence[Tensor], Sequence[Tensor]], Tensor]
_KEPT = 0.7  # of the features, in a view
_VIEW_GRID = 4
_TOLERANCE = 1e-6  # eigenvalues of a Hessian below this count as zero, and so do negative ones
_COUNTER = "num_batches_tracked"  # of normalisation layers: no weight
_MAX_PARAMETERS = 5000  # of which a Hessian is computed


class _Losses(nn.Module):
    """The label-free loss of inputs, given by their numbers, as the model that Captum takes."""

    def __init__(
        self, encoder: Encoder, module: nn.Module, explicands: Sequence[Explicand], how: tuple[Loss | None, float, int]
    ) -> None:
        super().__init__()
        self.module = module  # whose parameters the gradients are of
        self.encoder = encoder.with_module(module, encoder.name)
        self.inputs = [explicand.tensor for explicand in explicands]
        self.loss, self.temperature, seed = how
        self.views = [_view(encoder, explicand, seed, index) for index, explicand in enumerate(explicands)]
        first: dict[str, int] = {}  # numbers by content: copies of an input are no negatives of it
        same = [first.setdefault(digest(tensor), number) for number, tensor in enumerate(self.inputs)]
        self.same = torch.tensor(same)
        self.others: Tensor | None = None
        self.negatives = list(range(min(len(explicands), 64)))

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the losses of inputs ``[n]``."""
        chosen = numbers.tolist()
        inputs, views = [self.inputs[number] for number in chosen], [self.views[number] for number in chosen]
        if self.loss is not None:
            return self.loss(self.encoder, inputs, views)
        own, other = self.represented(inputs), self.represented(views)
        if self.others is None:
            with torch.no_grad():
                self.others = self.represented([self.inputs[number] for number in self.negatives])
        pair = (own * other).sum(1, keepdim=True) / self.temperature
        apart = own @ self.others.T / self.temperature
        itself = self.same[numbers][:, None] == self.same[self.negatives]
        logits = torch.cat([pair, apart.masked_fill(itself, -torch.inf)], dim=1)
        return functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long), reduction="none")

    def represented(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return unit representations of prepared inputs, differentiable."""
        batch = self.encoder.collate(inputs)
        # Captum cannot take gradients of weights that lie in memory with their channels last.
        batch = batch.contiguous() if isinstance(batch, Tensor) else batch
        return functional.normalize(self.encoder(batch), dim=1)

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Take the weights of a checkpoint."""
        self.module.load_state_dict(dict(weights), strict=False)  # all but counters of batches
        self.others = None


def _view(encoder: Encoder, explicand: Explicand, seed: int, index: int) -> Tensor:
    """Return an input with some of its features removed, as its kind removes them by default."""
    shape = explicand.shape
    labels = labels_of(shape, min(_VIEW_GRID, *shape))
    bits = torch.from_numpy(stream(seed, index).random((1, int(labels.max()) + 1)) < _KEPT)
    bits = bits if bool(bits.any()) else ~bits
    removal = resolve(None, encoder.inputs)
    kept = Subsets(labels, bits.to(torch.uint8)).full(slice(0, 1))
    return next(iter(removal.masked(explicand, removal.baseline_input(explicand), kept)))


@dataclass(frozen=True)
class LabelFree(ExampleMethod):
    """A method that compares gradients of a loss without labels.

    Args:
        loss: from the encoder, prepared inputs and a view of each to losses ``[n]``; by default the cross entropy of cosines
            between a view, with 30 % of the features removed, and its input against 64 members.
        temperature: of the default loss.
        layers: names of submodules; gradients are of their parameters alone.
        batch_size: members whose gradients are in memory at a time.
        seed: of the views.

    """

    loss: Loss | None = None
    temperature: float = 0.2
    layers: Sequence[str] | None = None
    batch_size: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)
        check_count("batch_size", self.batch_size, 1)

    def by_captum(self, method: Any, losses: _Losses, count: int, layers: Sequence[str] | None, **options: Any) -> Tensor:
        """Return the influence of the first ``count`` inputs on the others by a method of Captum: ``[others, count]``."""
        numbers, labels = torch.arange(len(losses.inputs)), torch.zeros(len(losses.inputs))
        with _isolated():
            captum = method(
                losses,
                TensorDataset(numbers[:count], labels[:count]),
                layers=None if layers is None else [f"module.{name}" for name in layers],
                loss_fn=_itself,
                batch_size=self.batch_size,
                **options,
            )
            result: Tensor = captum.influence((numbers[count:], labels[count:]))
        return result.detach().double()

    def losses(self, encoder: Encoder, module: nn.Module, explicands: Sequence[Explicand], members: Members) -> _Losses:
        """Return the losses of members and explicands, in this order."""
        everything = [*members.explicands, *explicands]
        losses = _Losses(encoder, module, everything, (self.loss, self.temperature, self.seed))
        losses.negatives = losses.negatives[: len(members)]
        return losses


@dataclass(frozen=True)
class TracIn(LabelFree):
    """TracIn over checkpoints (Pruthi et al. 2020): Σₜ ηₜ ∇ℓ(member)·∇ℓ(input), at the weights of each checkpoint.

    Args:
        checkpoints: of the training, in any order: files of weights, or dicts of them, of the encoder's own architecture.
        rates: the learning rate η at each; equal by default.

    The other options are those of :class:`LabelFree`; gradients are of all parameters unless ``layers`` are given.

    """

    name = "tracin"
    checkpoints: Sequence[Any] = ()
    rates: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.checkpoints, str | Path | Mapping):
            object.__setattr__(self, "checkpoints", (self.checkpoints,))
        if len(self.checkpoints) == 0:
            raise ValueError(
                "TracIn needs checkpoints of the training: checkpoints=[files or dicts of weights]. There are none; without "
                "any, method='neighbours' and method='influence' need only the encoder."
            )
        if self.rates is not None and len(self.rates) != len(self.checkpoints):
            raise ValueError(f"There are {len(self.rates)} rates for {len(self.checkpoints)} checkpoints; give one for each.")

    def importance(self, encoder: Encoder, explicands: Sequence[Explicand], members: Members) -> Tensor:
        """Return influences."""
        from captum.influence import TracInCP

        module = _own_module(encoder, self.layers)
        weights = [_weights(checkpoint, module, index) for index, checkpoint in enumerate(self.checkpoints)]
        rates = [1.0] * len(weights) if self.rates is None else [float(rate) for rate in self.rates]

        def load(model: nn.Module, number: str) -> float:
            assert isinstance(model, _Losses)
            model.load(weights[int(number)])
            return rates[int(number)]

        return self.by_captum(
            TracInCP,
            self.losses(encoder, module, explicands, members),
            len(members),
            self.layers,
            checkpoints=list(map(str, range(len(weights)))),
            checkpoints_load_func=load,
        )


@dataclass(frozen=True)
class Influence(LabelFree):
    """Influence functions (Koh & Liang 2017): ∇ℓ(input)·H⁻¹·∇ℓ(member), with H the Hessian of the sum of all members' losses.

    Args:
        damping: added to the diagonal of H, a sum over members; damping / members added to the Hessian of the mean loss.

    The other options are those of :class:`LabelFree`. ``layers`` must have few parameters, since their Hessian is computed;
    by default they are the last layers, as many as have 1000 parameters together.

    """

    name = "influence"
    damping: float = 1e-2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("damping", self.damping)

    def importance(self, encoder: Encoder, explicands: Sequence[Explicand], members: Members) -> Tensor:
        """Return influences."""
        from captum.influence._core.influence_function import NaiveInfluenceFunction

        module = _own_module(encoder, self.layers)
        chosen = _last_layers(module) if self.layers is None else list(self.layers)
        parameters = {id(part): part.numel() for name in chosen for part in module.get_submodule(name).parameters()}
        if sum(parameters.values()) > _MAX_PARAMETERS:
            raise ValueError(
                f"The layers {', '.join(chosen)} have {sum(parameters.values())} parameters, and the Hessian of more than "
                f"{_MAX_PARAMETERS} takes too long; choose smaller ones with layers=[names]."
            )
        held = {name: tensor.clone() for name, tensor in module.state_dict().items()}

        def load(model: nn.Module, _name: str) -> float:
            assert isinstance(model, _Losses)
            model.load(held)
            return 1.0

        return self.by_captum(
            NaiveInfluenceFunction,
            self.losses(encoder, module, explicands, members),
            len(members),
            chosen,
            checkpoint="",
            checkpoints_load_func=load,
            projection_dim=sum(parameters.values()),
            hessian_reg=self.damping,
            hessian_inverse_tol=_TOLERANCE,
        )


def _itself(losses: Tensor, _labels: Tensor) -> Tensor:
    """Return the losses, which the model gives already."""
    return losses


@contextmanager
def _isolated() -> Iterator[None]:
    """Keep the random state, and silence Captum's warnings."""
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _own_module(encoder: Encoder, layers: Sequence[str] | None) -> nn.Module:
    """Return a copy of the encoder's module on the CPU, in eval mode, with gradients; raise if it has none."""
    if encoder.owner is None or not any(True for _ in encoder.owner.parameters()):
        raise ValueError(f"{encoder.name!r} has no parameters that could have been trained; use method='neighbours'.")
    module = copy.deepcopy(encoder.owner).cpu().float().eval().requires_grad_(True)
    for name in layers or ():
        try:
            module.get_submodule(name)
        except AttributeError:
            raise ValueError(f"{encoder.name!r} has no layer {name!r}; see module.named_modules().") from None
    return module


def _last_layers(module: nn.Module, most: int = 1000) -> list[str]:
    """Return names of the last layers that have parameters, no more than ``most`` together, but at least one layer."""
    own = [
        (name, sum(part.numel() for part in layer.parameters(recurse=False)))
        for name, layer in module.named_modules()
        if name and any(True for _ in layer.parameters(recurse=False))
    ]
    chosen: list[str] = []
    total = 0
    for name, count in reversed(own):
        if chosen and total + count > most:
            break
        chosen.append(name)
        total += count
    return chosen


def _weights(checkpoint: Any, module: nn.Module, index: int) -> dict[str, Tensor]:
    """Return the weights of a checkpoint by the module's names; raise if they are of another architecture.

    Names may be torchvision's, and stand behind a prefix (``module.encoder.``). Heads that only training needs are left out.
    """
    read = checkpoint if isinstance(checkpoint, Mapping) else read_checkpoint(checkpoint).tensors
    given = {torchvision_name(name): tensor for name, tensor in read.items() if not name.endswith(_COUNTER)}
    own = {torchvision_name(name): name for name in module.state_dict() if not name.endswith(_COUNTER)}
    first = next(iter(own))
    prefixes = [name.removesuffix(first) for name in given if f".{name}".endswith(f".{first}")]
    prefix = min(prefixes, key=len, default="")
    given = {name.removeprefix(prefix): tensor for name, tensor in given.items() if name.startswith(prefix)}
    shapes = {name: list(module.state_dict()[here].shape) for name, here in own.items()}
    other = f"Checkpoint {index} is of another architecture than the encoder: "
    advice = "Give checkpoints of the encoder's own training."
    for name in sorted(own):
        shape = list(given[name].shape) if name in given else "none"
        if shape != shapes[name]:
            raise ValueError(f"{other}{own[name]!r} has shape {shape} there and {shapes[name]} here. {advice}")
    children = {name.split(".")[0] for name in own}
    for name in given:
        if name not in own and name.split(".")[0] in children:
            raise ValueError(f"{other}it has {name!r}, and the encoder has not. {advice}")
    return {here: given[name] for name, here in own.items()}

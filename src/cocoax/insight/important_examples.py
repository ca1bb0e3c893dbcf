"""Which members of a corpus matter to an input: contributions to the similarity, SimplEx mixtures, nearest neighbours.

Of examples that the encoder was trained on, also TracIn and influence functions without labels (Crabbé & van der Schaar
2022), by Captum: both compare the gradients of a loss on a training example with those on the input. The default loss is the
cross entropy of identifying an input among others by a view of it with some of its features removed.
"""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from cocoax.checks import check_count, check_kind, check_positive
from cocoax.encoders import Encoder
from cocoax.encoders.families.checkpoint import read_checkpoint, torchvision_name
from cocoax.inputs import Explicand
from cocoax.inputs.base import naming_input
from cocoax.insight.subset_search import Subsets, labels_of, names_of
from cocoax.masking import resolve
from cocoax.methods import Rise, Run
from cocoax.methods.method import check_encoder
from cocoax.references import Reference
from cocoax.results import Result
from cocoax.seeding import stream
from cocoax.show import Bars, Effects, Gallery, Table, View
from cocoax.similarity import LinearSimilarity, get_similarity
from cocoax.spaces import same_space
from cocoax.store import digest


def _numbered(labels: Sequence[str]) -> tuple[str, ...]:
    """Return labels with their place, from 1, where several are the same."""
    often = Counter(labels)
    return tuple(label if often[label] == 1 else f"{label} {place}" for place, label in enumerate(labels, 1))


class Members:
    """Members of a corpus: inputs, or a reference that has kept its samples."""

    def __init__(self, encoder: Encoder, members: Any) -> None:
        self.encoder = encoder
        self.reference = members if isinstance(members, Reference) else None
        self.items: list[Any] = [] if self.reference is not None else encoder.as_list(members)
        if self.reference is not None and not same_space(self.reference.space or encoder.space, encoder.space):
            raise ValueError(f"The reference {self.reference.name!r} is of another encoder; encode it with {encoder.name!r}.")
        if len(self) < 2:
            raise ValueError(f"There is nothing to rank in a corpus of {len(self)}; pass at least two members.")

    def __len__(self) -> int:
        return len(self.items) if self.reference is None else self.reference.count

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the examples."""
        if self.reference is not None:
            return tuple(f"{self.reference.name} {number + 1}" for number in range(len(self)))
        return _numbered([self.encoder.inputs.label(item) for item in self.items])

    @cached_property
    def representations(self) -> Tensor:
        """The representation of each member, ``[n, d]``."""
        if self.reference is not None:
            return self.reference.kept("ranking its members")
        return self.encoder.represent(self.items, progress=False)

    @cached_property
    def explicands(self) -> list[Explicand]:
        """The inputs, ready to be encoded; raise if there is only a reference."""
        if self.reference is not None:
            raise ValueError("This needs the members themselves, not their representations; pass the inputs.")
        made = []
        for index, item in enumerate(self.items):
            with naming_input(index):
                made.append(self.encoder.explicand(item))
        return made

    def shown(self, numbers: Sequence[int]) -> list[Explicand | None]:
        """Return some of the inputs to be drawn; None where there are none."""
        return [None if self.reference is not None else self.encoder.explicand(self.items[number]) for number in numbers]

    @property
    def shares(self) -> Tensor:
        """The weight of each in the mean over the corpus, ``[n]`` of sum 1: equal unless the reference has weights."""
        weights = None if self.reference is None else self.reference.weights
        counts = torch.ones(len(self)) if weights is None else weights
        return counts.double() / counts.double().sum()

    def stacked(self) -> Tensor:
        """Return representations in double precision, ``[n, d]``."""
        return torch.as_tensor(self.representations).double()


# --- important examples ---------------------------------------------------------------------------------------------------

_SHOWN = 5  # members that are drawn
_LISTED = 10  # and listed


@dataclass(frozen=True, eq=False)
class Examples(Result):
    """Members of a corpus with how much each matters to one input.

    Attributes:
        method: how they were ranked.
        names: of the members.
        values: how much each matters, ``[n]``.
        notes: remarks of the method.
        explicand: the input.
        drawn_members: the first few in their order; None where there is no input to draw.
        parts: what each contributes to each part of the map, ``[n, parts]``; None for methods without a map.
        part_names: of those parts, numbered where several have one name.

    """

    file: ClassVar[str] = "examples"
    method: str
    names: tuple[str, ...]
    values: Tensor
    notes: tuple[str, ...]
    explicand: Explicand = field(repr=False)
    drawn_members: tuple[Explicand | None, ...] = field(default=(), repr=False)
    parts: Tensor | None = field(default=None, repr=False)
    part_names: tuple[str, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Examples({self.method} of {len(self)} members, first {self.top(1)[0][0]!r})"

    def top(self, count: int = 5, part: str | None = None) -> list[tuple[str, float]]:
        """Return the members that matter most, to the whole or to one part of the map, with their values."""
        check_count("count", count, 1)
        values = self.values
        if part is not None:
            if self.parts is None or part not in self.part_names:
                known = f"there are {', '.join(self.part_names[:6])}" if self.part_names else f"{self.method} has none"
                raise ValueError(f"There is no part {part!r}; {known}.")
            values = self.parts[:, self.part_names.index(part)]
        order = torch.argsort(values, descending=True, stable=True)[:count].tolist()
        return [(self.names[number], float(values[number])) for number in order]

    @property
    def summary(self) -> str:
        """The three members that matter most, in a sentence."""
        most = ", ".join(f"{name} ({value:.3g})" for name, value in self.top(min(3, len(self))))
        return f"Of {len(self)} members, most to do with the input by {self.method} have {most}."

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings for the reader, in sentences."""
        return self.notes

    def facts(self) -> dict[str, Any]:
        """Return all members with their values, and the first three for each part of the map."""
        members = [{"name": name, "value": value} for name, value in zip(self.names, self.values.tolist(), strict=True)]
        parts = {part: [list(pair) for pair in self.top(3, part)] for part in self.part_names}
        return {"method": self.method, "members": members, "parts": parts, "remarks": list(self.remarks)}

    def table(self) -> Table:
        """Return one row for each member, the one that matters most first, with what it contributes to each part."""
        order = torch.argsort(self.values, descending=True, stable=True).tolist()
        parts = [()] * len(self) if self.parts is None else [tuple(row) for row in self.parts.tolist()]
        rows = tuple((self.names[number], float(self.values[number]), *parts[number]) for number in order)
        return Table(("member", self.method, *self.part_names), rows)

    @property
    def title(self) -> str:
        """The heading of a page."""
        return f"Which examples matter, by {self.method}"

    def views(self) -> list[View]:
        """Return the input and the members that matter most, the values of some more, and what matters to each part."""
        top = self.top(min(_LISTED, len(self)))
        views: list[View] = []
        explicands = (self.explicand, *self.drawn_members)
        shown = [None if explicand is None else explicand.display.input_view() for explicand in explicands]
        titles = ("input", *(f"{name[:22]}\n{value:.3g}" for name, value in top))
        tiles = tuple(replace(view, title=title) for view, title in zip(shown, titles, strict=False) if view is not None)
        if len(tiles) == len(explicands):
            views.append(Gallery(tiles, len(tiles)))
        effects = Effects(np.array([value for _, value in top]), unit=self.method)
        names = tuple(f"{number + 1}. {name[:60]}" for number, (name, _) in enumerate(top))
        views.append(Bars(effects, names, "given", title=""))
        if self.parts is not None:
            rows = [
                (part, *(f"{name} ({value:+.2g})" for name, value in self.top(min(3, len(self)), part)))
                for part in self.part_names
            ]
            columns = ("part", "most", "second", "third")[: len(rows[0])]
            views.append(Table(columns, tuple(rows), title="To each part of the map"))
        return views


class ExampleMethod(ABC):
    """A method that says how much each member of a corpus matters to an input."""

    name: ClassVar[str]

    @abstractmethod
    def importance(self, encoder: Encoder, explicands: Sequence[Explicand], members: Members) -> Tensor:
        """Return how much every member matters to every explicand, ``[explicands, members]``."""

    def rank(self, encoder: Encoder, explicand: Explicand, members: Members) -> Examples:
        """Return the members ranked for one explicand; methods that have more to say than values override it."""
        return self.ranked(explicand, members, self.importance(encoder, [explicand], members)[0])

    def ranked(self, explicand: Explicand, members: Members, values: Tensor, notes: Sequence[str] = ()) -> Examples:
        """Return members with their values."""
        first = torch.argsort(values, descending=True, stable=True)[:_SHOWN].tolist()
        return Examples(self.name, members.names, values, tuple(notes), explicand, tuple(members.shown(first)))


def _encoded(encoder: Encoder, explicands: Sequence[Explicand]) -> Tensor:
    """Return representations in double precision, ``[n, d]``."""
    return torch.cat([encoder.encode([explicand.tensor]) for explicand in explicands]).double()


@dataclass(frozen=True)
class Contribution(ExampleMethod):
    """The contribution of each member to the mean similarity to the corpus, and to each part of its map.

    The mean over the corpus is a sum over its members, and so is the map: a field times each of them.

    Args:
        similarity: s; kernels have no field, and so no parts.
        grid: of the parts of a picture, (rows, columns).
        samples: of the run that the field comes from.
        run: an earlier run of the explicand by the same encoder, in place of a new one.

    """

    name = "contribution"
    similarity: Any = "cosine"
    grid: tuple[int, int] = (3, 3)
    samples: int = 500
    run: Run | None = field(default=None, repr=False)

    def importance(self, encoder: Encoder, explicands: Sequence[Explicand], members: Members) -> Tensor:
        """Return similarities, times how much each member counts: equally, or by the weights of a reference."""
        own = _encoded(encoder, explicands)
        return get_similarity(self.similarity).pairwise(own, members.stacked()) * members.shares

    def rank(self, encoder: Encoder, explicand: Explicand, members: Members) -> Examples:
        """Return the members with their contributions to each part of the map."""
        if self.run is not None:
            _check_run(self.run, encoder, explicand)
        values = self.importance(encoder, [explicand], members)[0]
        total = f"Together they are the mean similarity to the corpus, {float(values.sum()):+.3f}."
        result = self.ranked(explicand, members, values, (total,))
        similarity = get_similarity(self.similarity)
        if not isinstance(similarity, LinearSimilarity):
            return result
        run = Rise(samples=self.samples).run(encoder, explicand, progress=False) if self.run is None else self.run
        cells = self.grid if len(explicand.shape) == 2 else None
        vectors = run.field(similarity, grid=cells, groups=0)
        directions = similarity.features(members.stacked()) * members.shares[:, None]
        parts = (vectors.values.double() - vectors.neutral.double()).flatten(0, -2) @ directions.T
        labels = torch.arange(parts.shape[0]).view(vectors.values.shape[:-1])
        return replace(result, parts=parts.T, part_names=_numbered(names_of(labels, explicand.display)))


def _check_run(run: Run, encoder: Encoder, explicand: Explicand) -> None:
    """Raise if a run is of another encoder or of another input."""
    check_kind("The 'run' parameter", run, Run, "must be a run, as cocoax.Rise().run(encoder, input) makes one")
    run.made_by(encoder)
    if not torch.equal(run.explicand.tensor, explicand.tensor):
        raise ValueError("The run is of another input than the one that is asked about; pass its own, or leave out run=.")


@dataclass(frozen=True)
class Simplex(ExampleMethod):
    """SimplEx (Crabbé et al. 2021): the input's representation as a mixture of those of members.

    Weights are at least 0 and sum to 1, such that ‖f(x) - Σ wᵢ f(xᵢ)‖ is least; what is left over is said.
    """

    name = "simplex"

    def importance(self, encoder: Encoder, explicands: Sequence[Explicand], members: Members) -> Tensor:
        """Return the weights of the mixture of each explicand."""
        return torch.stack([_mixture(own, members.stacked()) for own in _encoded(encoder, explicands)])

    def rank(self, encoder: Encoder, explicand: Explicand, members: Members) -> Examples:
        """Return the weights, and how much of the representation they leave over."""
        own, corpus = _encoded(encoder, [explicand])[0], members.stacked()
        values = _mixture(own, corpus)
        left = float((own - values @ corpus).norm())
        apart = float((own - corpus.mean(0)).norm())
        share = left / apart if apart > 0 else 0.0
        used = int((values > 1e-6).sum())
        notes = [f"A mixture of {used} members leaves over {share:.0%} of the distance to their mean, {left:.3g}."]
        if share > 0.5:
            notes.append("The input lies outside of what the corpus spans: its members say little about it.")
        return self.ranked(explicand, members, values, notes)


def _mixture(vector: Tensor, members: Tensor) -> Tensor:
    """Return weights ``[n]``, at least 0 and of sum 1, whose mixture of ``members [n, d]`` is closest to a vector ``[d]``.

    Non-negative least squares with one more equation, that weights sum to 1, which counts so much that it holds.
    """
    from scipy.optimize import nnls

    heavy = 1e4 * float(members.norm(dim=1).max().clamp(min=1e-30))
    system = np.vstack([members.T.numpy(), np.full((1, len(members)), heavy)])
    weights, _ = nnls(system, np.append(vector.numpy(), heavy), maxiter=30 * len(members))
    return torch.from_numpy(weights / weights.sum())


@dataclass(frozen=True)
class Neighbours(ExampleMethod):
    """Deep nearest neighbours (Papernot & McDaniel 2018): the closer the representations, the more a member matters."""

    name = "neighbours"

    def importance(self, encoder: Encoder, explicands: Sequence[Explicand], members: Members) -> Tensor:
        """Return distances, with a minus."""
        return -torch.cdist(_encoded(encoder, explicands), members.stacked())


# --- training examples ----------------------------------------------------------------------------------------------------

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
        """Return the influence of each member on each explicand."""
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
        """Return the influence of each member on each explicand."""
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


# --- asking ---------------------------------------------------------------------------------------------------------------

METHODS: dict[str, type[ExampleMethod]] = {kind.name: kind for kind in (Contribution, Simplex, Neighbours, TracIn, Influence)}


def examples(
    encoder: Encoder, explicand: Any, members: Any, method: str | ExampleMethod = "contribution", **options: Any
) -> Examples:
    """Rank the members of a corpus by how much each matters to one input.

    Args:
        encoder: what encodes.
        explicand: the input.
        members: the corpus: inputs of the same kind, or a reference that has kept its samples.
        method: ``"contribution"`` to the similarity and to each part of its map, ``"simplex"`` for a mixture of members,
            ``"neighbours"`` for distances; and of examples that the encoder was trained on, without labels: ``"tracin"`` over
            checkpoints, and ``"influence"`` functions.
        options: those of the method, see :mod:`cocoax.insight.important_examples`.

    """
    check_encoder(encoder)
    if isinstance(method, str):
        if method not in METHODS:
            raise ValueError(f"The 'method' parameter must be one of {', '.join(METHODS)}. Got {method!r} instead.")
        chosen = METHODS[method](**options)
    else:
        check_kind("The 'method' parameter", method, ExampleMethod, f"must be one of {', '.join(METHODS)}")
        if options:
            raise TypeError(f"Options go with the name of a method. Give {', '.join(options)} to the method itself.")
        chosen = method
    return chosen.rank(encoder, encoder.explicand(explicand), Members(encoder, members))

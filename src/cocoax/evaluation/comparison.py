"""Which attribution method should be believed on some inputs: curves, infidelity, agreement, randomised parameters, cost."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from textwrap import shorten
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import as_items, check_count, check_kind
from cocoax.encoders import Encoder
from cocoax.encoders.forward import counted_inputs
from cocoax.evaluation.curves import KINDS, Curve, RankMasks, features_moved, ranks_of
from cocoax.evaluation.sanity import randomised
from cocoax.evaluation.statistics import Interval, bootstrap, t_interval
from cocoax.inputs import Explicand
from cocoax.masking import BitMasks, Constant, MaskedEncoder, Mean, Removal, grid_segments, resolve
from cocoax.masking.masked_encoder import score_anchors, score_masked
from cocoax.masking.masks import averaging
from cocoax.methods import Method, Run
from cocoax.methods.gradients import GradientMethod
from cocoax.methods.method import check_encoder, check_targets, explicands_of
from cocoax.methods.run import RemovalMethod
from cocoax.methods.serialise import to_json_value
from cocoax.progress import bar
from cocoax.results import Attribution, Result
from cocoax.seeding import check_seed, stream
from cocoax.show import Bars, Effects, Matrix, Table, View
from cocoax.store import digest
from cocoax.targets import FunctionTarget, Target

_CELLS = (
    7  # a picture's 7 x 7 cells: random sets of them are removed to measure infidelity, and maps are compared by their means
)
_OVERSHOT = "The insertion curve of {} rises far above the input's own score{}: the rest of the input lowers it."
_DISAGREE = "{} and {} disagree{}: gradients say what a small change does, removal what the score loses without a part."
_ERROR_RATE = 0.05  # of all statements together that one method is better than another
# What is measured, with what a higher value means.
MEASURES = {
    "faithfulness": "insertion minus deletion, over all baselines; higher is better",
    "insertion": "area under the insertion curve with the method's own baseline; higher is better",
    "deletion": "area under the deletion curve with the method's own baseline; lower is better",
    "insertion, other baseline": "the same with baselines that are not the method's own; higher is better",
    "deletion, other baseline": "the same with baselines that are not the method's own; lower is better",
    "infidelity": "share of the change in score by random removals that the map does not predict; lower is better",
    "randomised": "rank correlation with the map of the encoder with random parameters; about 0 is good",
    "agreement": "mean rank correlation with the maps of the other methods",
    "calls": "inputs that the encoder saw for one map, with their masked copies",
    "seconds": "time for one map",
}


@dataclass(frozen=True, eq=False)
class MethodComparison(Result):
    """Attribution methods compared on the same inputs; made by :func:`cocoax.compare_methods`.

    Attributes:
        names: of the methods.
        values: of each of :data:`MEASURES` that was taken, the mean over targets for every method and input,
            ``[methods, inputs]``.
        agreement: the mean rank correlation of the maps of two methods, ``[methods, methods]``.
        baselines: what replaced removed features in the curves.
        inputs: what the inputs are called, such as "50 images".
        doubts: on how many inputs gradients disagree with removal, and insertion curves rise far above the input's score.

    """

    file: ClassVar[str] = "method-comparison"
    names: tuple[str, ...]
    values: Mapping[str, np.ndarray] = field(repr=False)
    agreement: np.ndarray = field(repr=False)
    baselines: tuple[str, ...]
    inputs: str
    doubts: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"MethodComparison({' > '.join(self.ranking)} on {self.inputs})"

    @property
    def ranking(self) -> tuple[str, ...]:
        """The methods by their mean faithfulness, the best first."""
        order = np.argsort(-self.values["faithfulness"].mean(1), kind="stable")
        return tuple(self.names[number] for number in order)

    @property
    def best(self) -> tuple[str, ...]:
        """The method with the highest faithfulness, and the methods without a significant difference to it, in order."""
        first, *others = self.ranking
        return (first, *(name for name in others if not self.difference(first, name).excludes_zero))

    def difference(self, first: str, second: str) -> Interval:
        """Return the mean difference in faithfulness, with Student's interval over inputs.

        Intervals of all pairs of methods hold together with 95 % (Bonferroni), since the best one is chosen among them.
        """
        one, other = (self.values["faithfulness"][self.names.index(name)] for name in (first, second))
        return t_interval(one - other, 1 - _ERROR_RATE / math.comb(len(self.names), 2))

    def interval(self, name: str, measure: str = "faithfulness") -> tuple[float, float, float]:
        """Return the mean of a measure over inputs, and the ends of its 95 % bootstrap interval (NaN for one input)."""
        values = self.values[measure][self.names.index(name)].tolist()
        return float(np.mean(values)), *bootstrap(values, [str(number) for number in range(len(values))])

    @property
    def title(self) -> str:
        """The heading of a page."""
        return f"Which method to believe on {self.inputs}"

    @property
    def summary(self) -> str:
        """The best method, or that no difference is significant, in a sentence."""
        on = f"on {'this' if self.values['faithfulness'].shape[1] == 1 else 'these'} {self.inputs}"
        others = [name for name in self.ranking if name not in self.best]
        if not others:
            return f"{_listed(self.ranking)} do not differ significantly {on}."
        if len(self.best) > 1:
            return f"{_listed(self.best)} are best {on} and do not differ significantly; {_listed(others)} scored lower."
        first, second = self.ranking[:2]
        ahead = self.difference(first, second)
        return (
            f"{first} is best {on}: its insertion minus deletion is {ahead.mean:.3g} ± {ahead.half:.2g} above that of "
            f"{second}, the next."
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """The baselines of the curves, and warnings."""
        remarks = [f"Removed features became: {'; '.join(self.baselines)}.", *self.doubts]
        if self.values["faithfulness"].shape[1] < 2:
            remarks.append("One input says nothing about others; give more.")
        alike = [name for name in self.names if "randomised" in self.values and self.interval(name, "randomised")[1] > 0.5]
        if alike:
            remarks.append(
                f"Maps of {_listed(alike)} stay alike when the encoder's parameters are random: they show the input, not the "
                "encoder."
            )
        return tuple(remarks)

    def table(self) -> Table:
        """Return one row for each method and measure: the mean over inputs and its 95 % bootstrap interval."""
        rows = [(name, measure, *self.interval(name, measure)) for name in self.ranking for measure in self.values]
        return Table(("method", "measure", "mean", "low", "high"), tuple(rows))

    def measures_table(self) -> Table:
        """Return one row for each method, the best first, and one column for each measure with its interval."""
        rows = [(name, *(_with_interval(*self.interval(name, measure)) for measure in self.values)) for name in self.ranking]
        meanings = " ".join(f"{measure.capitalize()}: {MEASURES[measure]}." for measure in self.values)
        note = f"Means over inputs with 95 % bootstrap intervals. {meanings}"
        return Table(("method", *self.values), tuple(rows), title="Measures", note=note)

    def views(self) -> list[View]:
        """Return faithfulness as bars, all measures, and the agreement between methods."""
        intervals = [self.interval(name) for name in self.ranking]
        means, errors = np.array([mean for mean, *_ in intervals]), np.array([(high - low) / 4 for _, low, high in intervals])
        bars = Bars(Effects(means, errors, unit="insertion minus deletion"), self.ranking, "given", title="Faithfulness")
        matrix = Matrix(self.agreement, self.names, self.names, "rank correlation", title="Agreement of maps")
        return [bars, self.measures_table(), matrix]

    def facts(self) -> Mapping[str, Any]:
        """Return ranking, remarks, all means with intervals and the agreement."""
        own = {"ranking": self.ranking, "best": self.best, "remarks": self.remarks, "inputs": self.inputs}
        return {**own, "agreement": self.agreement.tolist(), "rows": self.table().records()}


def compare_methods(
    encoder: Encoder,
    inputs: Any,
    targets: Any,
    methods: Mapping[str, Method] | Sequence[Method],
    *,
    other_baseline: Any = None,
    steps: int = 20,
    perturbations: int = 50,
    randomise: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> MethodComparison:
    """Compare attribution methods on the same inputs and targets.

    Every method's maps are judged by insertion and deletion curves with the baselines of all methods and with another one,
    and by infidelity (Yeh et al. 2019): random sets of features are removed, and the change in score is predicted by the sum
    of the map over the set, times the factor that fits best. Each distinct masked input is encoded once for all methods.

    Args:
        encoder: what encodes.
        inputs: one or many of them.
        targets: a target; a list or dict of targets, asked of every input; or a list of such lists, one for each input.
        methods: at least two; a dict gives them names.
        other_baseline: what else replaces removed features in curves; by default a choice of the kind of input that no method
            has.
        steps: of a curve.
        perturbations: random removals of each input.
        randomise: whether maps are compared with those of the encoder with random parameters (Adebayo et al. 2018), which
            takes as long again.
        seed: of the random removals and parameters.
        progress: show a progress bar (None: when it takes long).

    """
    check_encoder(encoder)
    check_count("steps", steps, 1)
    check_count("perturbations", perturbations, 1, 100_000)
    check_seed(seed)
    named = _named(methods)
    explicands = explicands_of(encoder, inputs)
    asked = _targets_of(targets, encoder, len(explicands))
    removals, own = _removals(encoder, list(named.values()), other_baseline)
    random_encoder = randomised(encoder, seed) if randomise else None
    made: dict[str, list[Any]] = {}
    agreements = []
    doubts: Counter[str] = Counter()
    with bar(len(explicands), f"methods on {encoder.name}", progress) as shown:
        for number, explicand in enumerate(explicands):
            maps = _Maps(encoder, explicand, asked[number], list(named.values()))
            subsets = stream(seed, 11, number)
            judged, overshoot = zip(
                *(maps.judged(removal, steps, perturbations, subsets) for removal in removals.values()), strict=True
            )
            high = np.stack(overshoot)[[list(removals).index(key) for key in own], np.arange(len(named))]
            doubts.update(_OVERSHOT.format(name, "{}") for name, rises in zip(named, high.tolist(), strict=True) if rises)
            doubts.update(_DISAGREE.format(*pair, "{}") for pair in maps.disagreements(tuple(named)))
            agreements.append(maps.agreement())
            measured: dict[str, Any] = {**_curve_measures(np.stack(judged), own), **maps.cost}
            measured["agreement"] = (agreements[-1].sum(1) - 1) / (len(named) - 1)
            if random_encoder is not None:
                measured["randomised"] = maps.agreement_with(random_encoder)
            for measure, values in measured.items():
                made.setdefault(measure, []).append(list(values))
            shown.update()
    count = f"{len(explicands)} {encoder.inputs.noun if len(explicands) == 1 else encoder.inputs.nouns}"
    values = {measure: np.array(made[measure]).T for measure in MEASURES if measure in made}
    baselines = tuple(shorten(repr(removal), 60, placeholder="…") for removal in removals.values())
    several = len(explicands) > 1
    said = tuple(sentence.format(f" on {times} of {count}" if several else "") for sentence, times in sorted(doubts.items()))
    return MethodComparison(tuple(named), values, np.mean(agreements, axis=0), baselines, count, said)


def _named(methods: Any) -> dict[str, Method]:
    """Return methods by their names; those of a list by their classes, numbered where there are several."""
    if isinstance(methods, Mapping):
        named = {str(name): method for name, method in methods.items()}
    else:
        items = as_items("Methods", methods)
        kinds = [type(method).__name__ for method in items]
        numbered = [
            f"{kind} {kinds[: place + 1].count(kind)}" if kinds.count(kind) > 1 else kind for place, kind in enumerate(kinds)
        ]
        named = dict(zip(numbered, items, strict=True))
    for method in named.values():
        check_kind("A method", method, Method, "must be an attribution method, such as cocoax.KernelShap()")
    if len(named) < 2:
        raise ValueError(f"Methods are compared with each other; give at least two. Got {len(named)} instead.")
    return named


def _targets_of(targets: Any, encoder: Encoder, count: int) -> list[list[Target]]:
    """Return the targets of each input."""
    each = isinstance(targets, list | tuple) and bool(targets) and all(isinstance(own, list | tuple) for own in targets)
    if each and len(targets) != count:
        raise ValueError(f"There are {count} inputs and targets for {len(targets)}; give a list of targets for each input.")
    asked = [check_targets(own, encoder) for own in (targets if each else [targets])]
    for target in {target for own in asked for target in own}:
        target.check_space(encoder.space)
    return asked if each else asked * count


def _removals(encoder: Encoder, methods: Sequence[Method], other: Any) -> tuple[dict[str, Removal], list[str]]:
    """Return the baselines of all methods and another one, by their keys, and the key of each method's.

    A method that has no baseline is judged by the kind's default as its own.
    """
    own = [resolve(getattr(method, "baseline", None), encoder.inputs) for method in methods]
    keys = [_key(removal) for removal in own]
    removals = dict(zip(keys, own, strict=True))
    added = {_key(removal): removal for removal in _others(encoder, other)}
    new = next((key for key in added if key not in removals), None)
    if new is None:
        raise ValueError("Curves need a baseline that no method has; pass one as other_baseline=.")
    return {**removals, new: added[new]}, keys


def _others(encoder: Encoder, other: Any) -> Iterator[Removal]:
    """Yield candidates for the second baseline: the given one, or the named baselines of the kind of input."""
    kind = encoder.inputs
    if other is not None:
        yield resolve(other, kind)
        return
    for name in kind.removal_names:
        yield resolve(name, kind)
    for removal in (Mean(), Constant(0.0)):
        if type(removal).__name__ in kind.removals:
            yield resolve(removal, kind)


def _key(removal: Removal) -> str:
    tensors: dict[str, Tensor] = {}
    plain = json.dumps(to_json_value(removal, tensors), sort_keys=True)
    return digest(plain, *tensors.values())


class _Maps:
    """The maps of one input by all methods, for all targets, with what they cost."""

    def __init__(self, encoder: Encoder, explicand: Explicand, targets: list[Target], methods: Sequence[Method]) -> None:
        self.encoder, self.explicand, self.targets, self.methods = encoder, explicand, targets, methods
        self.runs: dict[str, Run] = {}  # by the key of their baseline; their anchors are not encoded again
        self.maps: list[list[Attribution]] = []
        self.cost: dict[str, list[float]] = {"calls": [], "seconds": []}
        for method in methods:
            begun = time.perf_counter()
            with counted_inputs() as sizes:
                if isinstance(method, RemovalMethod):
                    run = method.run(encoder, explicand, targets, progress=False)
                    self.runs.setdefault(_key(resolve(method.baseline, encoder.inputs)), run)
                    self.maps.append(run.explain(targets))
                else:
                    self.maps.append(method.explain(encoder, explicand, targets, progress=False))
            self.cost["seconds"].append(time.perf_counter() - begun)
            self.cost["calls"].append(sum(sizes))

    def judged(
        self, removal: Removal, steps: int, perturbations: int, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return insertion, deletion and infidelity with a baseline, means over targets: ``[3, methods]``.

        And whether an insertion curve of a method rises far above the input's own score, ``[methods]``.
        """
        run = self.runs.get(_key(removal))
        known = {} if run is None else {"baseline_input": run.baseline, "anchors": run.anchors}
        masked = MaskedEncoder(self.encoder, self.explicand if run is None else run.explicand, removal, **known)
        shape = masked.explicand.shape
        sizes = features_moved(math.prod(shape), min(steps, math.prod(shape)))
        flat = [attribution for own in self.maps for attribution in own]
        ranks = RankMasks(torch.stack([ranks_of(each, masked.explicand) for each in flat]), sizes[1:-1], list(KINDS))
        subsets = _random_subsets(shape, perturbations, random)
        masks = torch.cat([ranks.full(slice(0, len(ranks))).to(torch.uint8), subsets])
        distinct, inverse = _distinct(masks)
        representations = torch.cat(list(masked.encode(BitMasks(distinct, 0.5))))
        ends = score_anchors(self.targets, masked.anchors).double()
        scores = score_masked(self.targets, representations, masked.anchors)[inverse].double()
        x = torch.tensor(sizes, dtype=torch.float64)
        results, high = np.empty((3, len(flat))), np.zeros(len(flat), bool)
        for number, attribution in enumerate(flat):
            target = number % len(self.targets)
            for row, kind in enumerate(KINDS):
                y = ranks.curve(number, kind, ends[:, target], scores[:, target])
                results[row, number] = float(torch.trapezoid(y, x / x[-1]))
                high[number] |= bool(Curve(x / x[-1], y, kind=kind).remarks)
            change = ends[0, target] - scores[len(ranks) :, target]
            values = masked.explicand.per_part(attribution.relative)
            predicted = (1 - subsets).flatten(1).double() @ values.double().flatten()
            results[2, number] = _infidelity(change.numpy(), predicted.numpy())
        means: np.ndarray = results.reshape(3, len(self.maps), -1).mean(2)
        rises: np.ndarray = np.asarray(high.reshape(len(self.maps), -1).any(1))
        return means, rises

    def disagreements(self, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield the names of each method of gradients and each of removal whose maps of a target disagree."""
        by_removal = [place for place, method in enumerate(self.methods) if isinstance(method, RemovalMethod)]
        by_gradients = [place for place, method in enumerate(self.methods) if isinstance(method, GradientMethod)]
        for one, other in product(by_gradients, by_removal):
            if any(gradient_remark(*pair) for pair in zip(self.maps[one], self.maps[other], strict=True)):
                yield names[one], names[other]

    def agreement(self) -> np.ndarray:
        """Return the rank correlation of the maps of two methods, the mean over targets: ``[methods, methods]``."""
        count = len(self.maps)
        result = np.eye(count)
        for one in range(count):
            for other in range(one):
                pairs = zip(self.maps[one], self.maps[other], strict=True)
                result[one, other] = result[other, one] = np.mean([rank_agreement(*pair) for pair in pairs])
        return result

    def agreement_with(self, encoder: Encoder) -> list[float]:
        """Return the rank correlation with the maps that each method makes of another encoder, the mean over targets.

        Targets score its representations as they score those of the first one.
        """
        own = encoder.encode([self.explicand.tensor])[0]
        asked = [_of_own(target, own) for target in self.targets]
        agreements = []
        for method, maps in zip(self.methods, self.maps, strict=True):
            others = method.explain(encoder, self.explicand, asked, progress=False)
            agreements.append(float(np.mean([rank_agreement(*pair) for pair in zip(maps, others, strict=True)])))
        return agreements


def _of_own(target: Target, own: Tensor) -> FunctionTarget:
    """Return a target of any representation space, of an explicand with the representation ``own``."""
    return FunctionTarget(lambda representations: target.score(representations, own), target.name)


def _random_subsets(shape: tuple[int, ...], count: int, random: np.random.Generator) -> Tensor:
    """Return masks ``[count, *shape]`` that remove random sets of features, or of cells of pixels; sizes are as likely."""
    labels = torch.arange(shape[0])
    if len(shape) == 2:
        labels = grid_segments(shape[0], shape[1], (min(_CELLS, shape[0]), min(_CELLS, shape[1])))
    parts = int(labels.max()) + 1
    places = random.random((count, parts)).argsort(1).argsort(1)
    removed = random.integers(1, max(2, parts), count)
    return torch.from_numpy((places >= removed[:, None]).astype(np.uint8))[:, labels]


def _distinct(masks: Tensor) -> tuple[Tensor, list[int]]:
    """Return the distinct masks, and which of them each mask is."""
    numbers: dict[bytes, int] = {}
    which = [numbers.setdefault(mask.numpy().tobytes(), len(numbers)) for mask in masks]
    first = {number: row for row, number in reversed(list(enumerate(which)))}
    return masks[[first[number] for number in range(len(first))]], which


def _infidelity(change: np.ndarray, predicted: np.ndarray) -> float:
    """Return Σ (change - β·predicted)² / Σ change², with the factor β ≥ 0 that makes it smallest."""
    size, own = float(change @ change), float(predicted @ predicted)
    factor = max(0.0, float(change @ predicted)) / own if own > 0 else 0.0
    left = change - factor * predicted
    return float(left @ left) / size if size > 0 else float(own > 0)


def _curve_measures(judged: np.ndarray, own: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the measures of curves for each method, from ``judged [baselines, 3, methods]``.

    ``own`` are the keys of the methods' baselines; the first baselines are those, each once, and the last is another one.
    """
    places = list(dict.fromkeys(own))
    methods = np.arange(len(own))
    mine = np.array([places.index(key) for key in own])
    own_values = judged[mine, :, methods]
    others = (judged.sum(0).T - own_values) / (len(judged) - 1)
    return {
        "faithfulness": (judged[:, 0] - judged[:, 1]).mean(0),
        "insertion": own_values[:, 0],
        "deletion": own_values[:, 1],
        "insertion, other baseline": others[:, 0],
        "deletion, other baseline": others[:, 1],
        "infidelity": judged[:, 2].mean(0),
    }


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _with_interval(mean: float, low: float, high: float) -> str:
    return f"{mean:.3g}" if math.isnan(low) else f"{mean:.3g} [{low:.3g}, {high:.3g}]"


# --- agreement of two maps ------------------------------------------------------------------------------------------------


_MIN_PARTS = 8  # parts: ranks of fewer agree or disagree by chance
_DISAGREEMENT = 0.2  # a rank correlation below which maps are said to disagree
_MIN_RELIABILITY = 0.8  # the share of a map's variance that is no sampling error, below which nothing is said


def rank_agreement(first: Attribution, second: Attribution) -> float:
    """Return Spearman's rank correlation of two maps of one input; 0 where one of them is constant.

    Maps of pixels are compared by the means over 7 x 7 cells, others feature by feature.
    """
    from scipy.stats import rankdata

    values = [_parts(attribution) for attribution in (first, second)]
    if values[0].shape != values[1].shape:
        shapes = " and ".join(str(list(attribution.values.shape)) for attribution in (first, second))
        raise ValueError(f"Maps are compared that have the same features. Got shapes {shapes} instead.")
    ranks = [rankdata(own) - (len(own) + 1) / 2 for own in values]
    lengths = float(np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum()))
    return float(ranks[0] @ ranks[1]) / lengths if lengths > 0 else 0.0


def gradient_remark(gradient: Attribution, removal: Attribution) -> str | None:
    """Return a sentence if a map of gradients disagrees with a map by removal on this input; None if it does not.

    It disagrees where the rank correlation is below 0.2. Nothing is said of inputs with fewer than eight parts, and of maps
    by removal more than a fifth of whose variance may be sampling error.
    """
    values = _parts(removal)
    if len(values) < _MIN_PARTS or not values.any():
        return None
    if removal.standard_error is not None:
        noise = float((_parts(removal, error=True) ** 2).mean())
        if noise > (1 - _MIN_RELIABILITY) * float(values.var()):
            return None
    agreement = rank_agreement(gradient, removal)
    if agreement >= _DISAGREEMENT:
        return None
    names = [str(each.metadata.get("method", what)) for each, what in ((gradient, "gradients"), (removal, "removal"))]
    return (
        f"{names[0]} and {names[1]} disagree on this input (rank correlation {agreement:+.2f}): gradients tell what a small "
        f"change does, {names[1]} what the score loses without a part. Believe the removal."
    )


def _parts(attribution: Attribution, error: bool = False) -> np.ndarray:
    """Return effects of cells or features, or their standard errors, ``[parts]``."""
    check_kind("A map that is compared", attribution, Attribution, "must be an Attribution")
    chosen = attribution.standard_error if error else attribution.relative
    assert chosen is not None
    values = chosen.double().numpy()
    if values.ndim == 2:
        down, right = (averaging(side, min(_CELLS, side)).numpy() for side in values.shape)
        values = down @ values @ right.T
    parts: np.ndarray = values.ravel()
    return parts

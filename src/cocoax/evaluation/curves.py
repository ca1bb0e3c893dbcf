"""Insertion and deletion curves, and the measures η that they plot.

Any target is a measure, and so is any function of representations; the ones here need a classifier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from cocoax.checks import as_items, as_numbers, check_count, check_kind
from cocoax.encoders import Encoder
from cocoax.encoders.forward import evaluating
from cocoax.inputs import Explicand
from cocoax.masking import MaskedEncoder, resolve
from cocoax.methods.method import Input, check_arguments, check_encoder
from cocoax.progress import bar
from cocoax.references import Reference
from cocoax.results import Attribution, Result
from cocoax.show import Curves, Line, Table, View
from cocoax.targets import Target

_Head = Callable[[Tensor], Tensor]


def class_probability(head: _Head, label: int, name: str | None = None) -> Callable[[Tensor], Tensor]:
    """Return a measure: the softmax probability that a classifier on top of the representation gives to a class."""
    check_count("label", label, 0)

    def probability(representations: Tensor) -> Tensor:
        return logits_of(head, representations, max(2, label + 1)).softmax(1)[:, label]

    probability.__name__ = name or f"probability of class {label}"
    return probability


def corpus_majority_probability(head: _Head, corpus: Reference) -> Callable[[Tensor], Tensor]:
    """Return a measure: the probability of the corpus' majority class; the corpus needs ``keep_samples=True``."""
    check_kind("The corpus", corpus, Reference, "must be a cocoax.Reference, as encoder.reference(...) gives")
    label = _majority_class(head, corpus)
    return class_probability(head, label, "corpus majority probability")


def _majority_class(head: _Head, corpus: Reference) -> int:
    """Return the class that most samples of the corpus are predicted to be; the lowest number among equals."""
    if corpus.samples is None:
        raise ValueError(f"The majority class of {corpus.name!r} needs its samples; encode it with keep_samples=True.")
    predicted = logits_of(head, corpus.samples).argmax(1)
    return int(torch.bincount(predicted, corpus.weights).argmax())


def logits_of(head: _Head, representations: Tensor, classes: int = 2) -> Tensor:
    """Return the head's outputs ``[n, classes]`` for representations ``[n, d]``; raise if the head does not fit."""
    like = next(head.parameters(), representations) if isinstance(head, nn.Module) else representations
    try:
        with torch.no_grad(), evaluating(head if isinstance(head, nn.Module) else None):
            logits = head(representations.to(like)).to(representations)
    except RuntimeError as error:
        raise ValueError(
            f"The head does not take representations of {representations.shape[1]} dimensions ({error}); "
            "use the head that was trained on this encoder."
        ) from error
    if logits.ndim != 2 or len(logits) != len(representations) or logits.shape[1] < classes:
        raise ValueError(
            f"The head must give at least {classes} classes for each representation. Got shape {list(logits.shape)} instead."
        )
    return logits


# --- curves -----------------------------------------------------------------------------------------------------------------

Measure = Target | Callable[[Tensor], Tensor]
KINDS = ("insertion", "deletion")
BETTER = {"insertion": "higher", "deletion": "lower"}


@dataclass(frozen=True, eq=False)
class Curve(Result):
    """A measure ``y`` against the fraction ``x`` of pixels inserted or deleted, both ends included; ``kind`` says which.

    ``name`` is that of the measure, and ``method`` made the map.
    """

    file: ClassVar[str] = "curve"
    x: Tensor
    y: Tensor
    name: str = ""
    kind: str = ""
    method: str = ""

    @property
    def auc(self) -> float:
        """The area under the curve, by the trapezoid rule."""
        return float(torch.trapezoid(self.y.double(), self.x.double()))

    def __repr__(self) -> str:
        return f"Curve({self.name!r}, {len(self.x)} points, auc {self.auc:.4g})"

    @property
    def summary(self) -> str:
        """The measure, the method, insertion or deletion, the area under the curve and which areas are better."""
        what = ", ".join(part for part in (self.name or "measure", self.method, self.kind) if part)
        better = f" ({BETTER[self.kind]} is better)" if self.kind in BETTER else ""
        return f"{what}: area {self.auc:.3g}{better}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """A sentence if an insertion curve rises far above the input's own score."""
        remark = overshoot_remark(self) if self.kind == "insertion" else None
        return () if remark is None else (remark,)

    def views(self, **style: Any) -> list[View]:
        """Return the line, with the area under it in the legend; ``style`` are options of matplotlib's ``plot``."""
        line = Line(self.x.numpy(), self.y.numpy(), self.summary, style)
        return [Curves((line,), "fraction of the features", self.name or "measure", alt=self.summary)]

    def table(self) -> Table:
        """Return a row for each point."""
        return Table(("fraction", "value"), tuple(zip(self.x.tolist(), self.y.tolist(), strict=True)))

    def facts(self) -> Mapping[str, Any]:
        """Return the measure, the area, remarks and all points."""
        own = {"name": self.name, "kind": self.kind, "method": self.method, "auc": self.auc, "remarks": self.remarks}
        return {**own, "x": self.x.tolist(), "y": self.y.tolist()}

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw it; return the figure, or the axes that were given. The options are those of matplotlib's ``plot``."""
        from cocoax.show import figure

        view = self.views(**options)[0]
        if ax is None:
            return figure.plot([view])
        figure.draw(view, ax)
        return ax


class MethodCurves(Result, list[dict[str, Any]]):
    """The curves of several maps: for each a dict from kind to a curve, or to a list of curves of several measures.

    ``plot()`` draws them in one picture, with a chart for each kind and measure and a line for each map.
    """

    file: ClassVar[str] = "curves"

    def _all(self) -> list[tuple[str, Curve]]:
        """Return every curve with the name of its map: the method, with a number where that is not enough."""
        rows = [[curve for each in row.values() for curve in (each if isinstance(each, list) else [each])] for row in self]
        methods = [row[0].method or "map" for row in rows]
        names = [
            method if methods.count(method) == 1 else f"{method} {1 + methods[:number].count(method)}"
            for number, method in enumerate(methods)
        ]
        return [(name, curve) for name, row in zip(names, rows, strict=True) for curve in row]

    @property
    def summary(self) -> str:
        """The areas of all maps, and which are better."""
        charts: dict[str, list[str]] = {}
        for name, curve in self._all():
            key = f"{curve.name or 'measure'}, {curve.kind} ({BETTER[curve.kind]} area is better)"
            charts.setdefault(key, []).append(f"{name} {curve.auc:.3g}")
        return "; ".join(f"{key}: {', '.join(areas)}" for key, areas in charts.items()) + "."

    @property
    def title(self) -> str:
        """The heading of a page."""
        return "Insertion and deletion curves"

    def views(self) -> list[View]:
        """Return a chart for each kind and measure."""
        charts: dict[tuple[str, str], list[Line]] = {}
        for name, curve in self._all():
            line = Line(curve.x.numpy(), curve.y.numpy(), f"{name}, area {curve.auc:.3g}")
            charts.setdefault((curve.kind, curve.name or "measure"), []).append(line)
        return [
            Curves(
                tuple(lines),
                "fraction of the features",
                name,
                title=f"{kind.capitalize()}: {BETTER[kind]} area is better",
                alt=f"{kind} of {name}: {'; '.join(line.label for line in lines)}",
            )
            for (kind, name), lines in charts.items()
        ]

    def table(self) -> Table:
        """Return a row for each curve."""
        rows = ((name, curve.kind, curve.name, curve.auc) for name, curve in self._all())
        return Table(("method", "kind", "measure", "area"), tuple(rows))


_OVERSHOOT = 2.0  # times the way from the emptied input to the whole one, by which a curve must rise above the whole one


def overshoot_remark(curve: Curve) -> str | None:
    """Return a sentence if an insertion curve rises far above the input's own score; None if it does not.

    Far is twice the way from the score of the emptied input to that of the whole one, which must be the higher one; of 95
    questions about five photos, five curves rise so far, three of them of questions about things that are not there.
    """
    empty, own = float(curve.y[0]), float(curve.y[-1])
    highest = int(curve.y.argmax())
    if not (own > empty and float(curve.y[highest]) - own > _OVERSHOOT * (own - empty)):
        return None
    return (
        f"The first {float(curve.x[highest]):.0%} of the map alone score {float(curve.y[highest]):+.3f}, more than the whole "
        f"input with {own:+.3f}: the rest of the input lowers the score."
    )


def insertion(
    encoder: Encoder,
    explicand: Input,
    attribution: Attribution | Tensor,
    measures: Measure | Sequence[Measure],
    steps: int = 50,
    baseline: Any = None,
    *,
    batch_size: int | None = None,
    progress: bool | None = None,
    **others: Any,
) -> Any:
    """Return the measure while features are inserted into the baseline, those of the highest attribution first.

    Args:
        encoder: what turns inputs into representations; evaluation may use another one than the attribution did.
        explicand: one input.
        attribution: an :class:`Attribution`, or a map ``[H, W]`` of the explicand's size (``[m]`` for words and columns).
        measures: a target, a callable from representations ``[n, d]`` to ``[n]``, or a list of those, which gives a list of
            curves from one encoding.
        steps: from none to all of the features, as equal as their number allows; at most one for each feature.
        baseline: what is left without features. By default what suits the kind of input: the explicand's blur; words are
            removed by ``"mask"``, columns by the encoder's background.
        batch_size: inputs encoded at a time; automatic if not given.
        progress: show a progress bar (``None``: when it takes long).

    Example:
        >>> encoder, text = cocoax.load("minilm"), "The violinist missed the goal."
        >>> target = cocoax.similarity_to(encoder.reference(["music"]))
        >>> result = cocoax.KernelShap(samples=30).explain(encoder, text, target)
        >>> cocoax.insertion(encoder, text, result, target).auc > cocoax.insertion(encoder, text, -result.values, target).auc
        True

    """
    check_arguments("insertion", others, insertion)
    options: dict[str, Any] = {"kinds": ("insertion",), "batch_size": batch_size, "progress": progress}
    return curves(encoder, explicand, [attribution], measures, steps, baseline, **options)[0]["insertion"]


def deletion(
    encoder: Encoder,
    explicand: Input,
    attribution: Attribution | Tensor,
    measures: Measure | Sequence[Measure],
    steps: int = 50,
    baseline: Any = None,
    *,
    batch_size: int | None = None,
    progress: bool | None = None,
    **others: Any,
) -> Any:
    """Return the measure while features are removed, those of the highest attribution first; as :func:`insertion`."""
    check_arguments("deletion", others, deletion)
    options: dict[str, Any] = {"kinds": ("deletion",), "batch_size": batch_size, "progress": progress}
    return curves(encoder, explicand, [attribution], measures, steps, baseline, **options)[0]["deletion"]


def curves(
    encoder: Encoder,
    explicand: Input,
    attributions: Attribution | Sequence[Attribution | Tensor],
    measures: Measure | Sequence[Measure],
    steps: int = 50,
    baseline: Any = None,
    *,
    kinds: Sequence[str] = KINDS,
    batch_size: int | None = None,
    progress: bool | None = None,
) -> MethodCurves:
    """Return insertion and deletion curves of many attributions of one explicand, encoding each distinct input once.

    All curves share the explicand and the baseline as their ends. Returns a list with, for each attribution, a dict from
    kind to a curve, or to a list of curves if ``measures`` is a list. Its ``plot()`` draws all of them in one picture.
    """
    check_encoder(encoder)
    check_count("steps", steps, 1)
    kinds = as_items("The 'kinds' parameter", kinds)
    attributions = [attributions] if isinstance(attributions, Attribution) else as_items("Attributions", attributions)
    if not kinds or not all(isinstance(kind, str) and kind in KINDS for kind in kinds):
        raise ValueError(f"The 'kinds' parameter must name 'insertion', 'deletion' or both. Got {kinds} instead.")
    if not attributions:
        raise ValueError("There are 0 attributions to evaluate; pass at least one.")
    alone = callable(measures) or not isinstance(measures, Iterable)  # networks may be both, and are one measure
    asked: list[Measure] = [measures] if alone else as_items("Measures", measures)  # type: ignore[list-item]
    if not asked:
        raise ValueError("There are 0 measures; pass at least one.")
    removal = resolve(baseline, encoder.inputs)
    prepared = removal.with_features(encoder.explicand(explicand), encoder)
    features = math.prod(prepared.shape)
    steps = min(steps, features)
    ranks = torch.stack([ranks_of(attribution, prepared) for attribution in attributions])
    sizes = features_moved(features, steps)
    masks = RankMasks(ranks, sizes[1:-1], list(kinds))
    space = encoder.space
    for measure in asked:
        if isinstance(measure, Target):
            measure.check_space(space)
    with bar(len(masks) + 2, f"curves on {encoder.name}", progress) as shown:
        masked = MaskedEncoder(encoder, prepared, removal)
        scores = _scores(masked, list(masked.encode(masks, 0, batch_size, shown)), asked)
    x = torch.tensor(sizes, dtype=torch.float64) / features
    methods = [str(each.metadata.get("method", "")) if isinstance(each, Attribution) else "" for each in attributions]
    answers = []
    for number in range(len(attributions)):
        answer: dict[str, list[Curve]] = {}
        for kind in kinds:
            answer[kind] = [
                Curve(x, masks.curve(number, kind, score[:2], score[2:]), _name(measure), kind, methods[number])
                for measure, score in zip(asked, scores, strict=True)
            ]
        answers.append(answer)
    return MethodCurves([{kind: each[0] for kind, each in answer.items()} for answer in answers] if alone else answers)


def features_moved(features: int, steps: int) -> list[int]:
    """Return how many features are inserted or deleted after each step, from 0 to all; earlier steps move the remainder."""
    size, remainder = divmod(features, steps)
    return [step * size + min(step, remainder) for step in range(steps + 1)]


def _scores(masked: MaskedEncoder, encoded: Sequence[Tensor], measures: Sequence[Measure]) -> Tensor:
    """Return each measure of the explicand, of its emptied version, and of all masked inputs: ``[measures, 2 + n]``."""
    representations = torch.cat([masked.anchors, *(part.flatten(0, -2) for part in encoded)])
    scores = torch.stack([_measured(measure, representations, masked.anchors[0]) for measure in measures])
    if (several := len(masked.anchors) - 1) > 1:  # averaged over several baselines
        scores = torch.cat([scores[:, :1], scores[:, 1:].reshape(len(measures), -1, several).mean(2)], dim=1)
    return scores


@dataclass(frozen=True, eq=False)
class RankMasks:
    """Masks that keep (insertion) or remove (deletion) the features of the first ranks.

    Attributes:
        ranks: the place of each feature in the order of an attribution, ``[attributions, *shape]``.
        sizes: how many features are moved at each step, without the ends of a curve.
        kinds: of curves.

    """

    ranks: Tensor
    sizes: list[int]
    kinds: list[str]

    def __len__(self) -> int:
        return len(self.ranks) * len(self.kinds) * len(self.sizes)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The ranks."""
        return {"ranks": self.ranks}

    def full(self, rows: slice) -> Tensor:
        """Return some masks, ``[n, *shape]``."""
        masks = [self.ranks.new_zeros(0, *self.ranks.shape[1:]).bool()]
        for row in range(rows.start, rows.stop):
            which, step = divmod(row, len(self.sizes))
            attribution, kind = divmod(which, len(self.kinds))
            chosen = self.ranks[attribution] < self.sizes[step]
            masks.append((chosen if self.kinds[kind] == "insertion" else ~chosen)[None])
        return torch.cat(masks).float()

    def curve(self, attribution: int, kind: str, ends: Tensor, scores: Tensor) -> Tensor:
        """Return the curve of an attribution, from scores of the explicand and the emptied input ``[2]`` and of all masks."""
        start = (attribution * len(self.kinds) + self.kinds.index(kind)) * len(self.sizes)
        first, last = (1, 0) if kind == "insertion" else (0, 1)
        return torch.cat([ends[first, None], scores[start : start + len(self.sizes)], ends[last, None]])


def ranks_of(attribution: Attribution | Tensor, explicand: Explicand) -> Tensor:
    """Return the place of each feature in the order of descending attribution; equal ones keep their order."""
    values = as_numbers("An attribution", attribution.values if isinstance(attribution, Attribution) else attribution)
    values, shape = explicand.per_part(values), explicand.shape
    if tuple(values.shape) != shape:
        features = f"{shape[0]} x {shape[1]} pixels" if len(shape) == 2 else f"{shape[0]} words or columns"
        raise ValueError(
            f"The attribution has shape {list(values.shape)} but the input has {features}; "
            "they must be of the same input, preprocessed alike."
        )
    if not bool(torch.isfinite(values).all()):
        raise ValueError("The attribution has values that are not finite, so its pixels have no order.")
    order = torch.argsort(values.detach().reshape(-1), descending=True, stable=True)
    ranks = torch.empty_like(order)
    ranks[order] = torch.arange(len(order))
    return ranks.reshape(shape)


def _measured(measure: Measure, representations: Tensor, own: Tensor) -> Tensor:
    if not isinstance(measure, Target) and not callable(measure):
        raise TypeError(f"A measure must be a Target or a callable on representations. Got {type(measure).__name__} instead.")
    try:
        with torch.no_grad():
            values = measure.score(representations, own) if isinstance(measure, Target) else measure(representations)
    except (RuntimeError, TypeError, IndexError, AttributeError, KeyError) as error:
        raise ValueError(
            f"The measure {_name(measure)!r} failed on representations {list(representations.shape)}: {error}"
        ) from error
    values = as_numbers("What a measure gives", values).to(torch.float32)
    if np.shape(values) != (len(representations),):
        raise ValueError(
            f"A measure must give one value for each of the {len(representations)} representations. "
            f"Got shape {list(values.shape)} instead."
        )
    if not bool(torch.isfinite(values).all()):
        raise ValueError(
            f"The measure {_name(measure)!r} is not finite, or too large for single precision, for some of the inputs."
        )
    return values


def _name(measure: Measure) -> str:
    return measure.name if isinstance(measure, Target) else getattr(measure, "__name__", type(measure).__name__)

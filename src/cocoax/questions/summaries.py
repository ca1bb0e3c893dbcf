"""Attributions and interactions as plain values and labels, for JSON, tables and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cocoax.methods import Attribution, Interactions
from cocoax.results import top_regions

MOST_REGIONS = 3
_LOOKED_THROUGH = 20  # strongest pairs, for those that stand out of the noise


@dataclass(frozen=True)
class ScoredSpan:
    """A word of a text: ``text[start:end]``, what it does to the score, and the standard error of that (None: not known)."""

    start: int
    end: int
    text: str
    score: float
    standard_error: float | None

    def __str__(self) -> str:
        error = "" if self.standard_error is None else f" ± {self.standard_error:.3f}"
        return f"{' '.join(self.text.split())} {self.score:+.3f}{error}"


def spans_of(attribution: Attribution) -> list[ScoredSpan]:
    """Return the words of a text in its order, with their values relative to ``neutral``; raise for other inputs."""
    if attribution.offsets is None or attribution.text is None:
        raise ValueError("Spans are parts of a text; a picture has regions, see cocoax.questions.top_regions.")
    values = attribution.relative.tolist()
    errors = _errors(attribution)
    return [
        ScoredSpan(begin, end, attribution.text[begin:end], values[index], errors[index])
        for index, (begin, end) in enumerate(attribution.offsets)
    ]


def reliable(attribution: Attribution, most: int = 2, *, lowering: bool = False) -> list[str]:
    """Return the words that raise (or lower) the score most, of those whose interval of two standard errors excludes zero."""
    assert attribution.offsets is not None
    sign = -1 if lowering else 1
    spans = [span for span in spans_of(attribution) if any(map(str.isalnum, span.text))]
    sure = [span for span in spans if sign * span.score > 2 * (span.standard_error or 0.0)]
    ranked = sorted(sure, key=lambda span: -sign * span.score)
    strong = [span for span in ranked if sign * span.score >= sign * ranked[0].score / 3]
    return list(dict.fromkeys(label_of(span.text, 40) for span in strong))[:most]


def reliable_pairs(interactions: Interactions, least: float, most: int = 2) -> list[tuple[str, str]]:
    """Return the pairs of words that raise the score most, by more than ``least`` and by more than two standard errors."""
    found = interactions.top(_LOOKED_THROUGH)
    sure = [
        (label_of(first, 40), label_of(second, 40), value)
        for first, second, value, error in found
        if value > max(2 * (error or 0.0), least) and all(any(map(str.isalnum, name)) for name in (first, second))
    ]
    return list(dict.fromkeys((first, second) for first, second, value in sure if value >= sure[0][2] / 3))[:most]


def parts_of(attribution: Attribution) -> list[dict[str, Any]]:
    """Return what counts, as plain values: words, regions of a picture that raise or lower the score most, or features."""
    if attribution.offsets is not None:
        return [asdict(span) for span in spans_of(attribution)]
    if attribution.names is None:
        regions = [top_regions(attribution, MOST_REGIONS, lowering=lowering) for lowering in (False, True)]
        return [
            {"place": region.place, "box": region.box, "score": region.value, "standard_error": region.standard_error}
            for region in (*regions[0], *regions[1])
        ]
    values = attribution.relative.tolist()
    return [
        {"feature": index, "name": name, "score": values[index], "standard_error": error}
        for index, (name, error) in enumerate(zip(attribution.names, _errors(attribution), strict=True))
    ]


def pairs_of(interactions: Interactions, count: int = 5) -> list[dict[str, Any]]:
    """Return the strongest pairs of features, as plain values."""
    return [
        {"query": first, "document": second, "score": value, "standard_error": error}
        for first, second, value, error in interactions.top(count)
    ]


def label_of(item: object, most: int = 60) -> str:
    """Return what to call an input: the beginning of a text, the name of a file, or what kind of thing it is."""
    if isinstance(item, str):
        text = " ".join(item.split())
        return text if len(text) <= most else text[: most - 1] + "…"
    path = getattr(item, "name", None) or getattr(item, "filename", None)
    return str(path).rsplit("/", 1)[-1] if path else f"a {type(item).__name__.lower()}"


def _errors(attribution: Attribution) -> Sequence[float | None]:
    if attribution.standard_error is None:
        return [None] * attribution.values.numel()
    errors: list[float | None] = attribution.standard_error.double().flatten().tolist()
    return errors

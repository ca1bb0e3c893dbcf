"""Answers to questions about one picture: the map, the score in its parts, and what the picture is similar to besides."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from cocoax.methods import Attribution
from cocoax.methods.attribution import HARDLY
from cocoax.questions.question import Question
from cocoax.questions.regions import Region

ADVICE = (
    "Something else in place of removed parts (--baseline, baseline=) may take away more: a stronger blur, the mean colour, "
    "both, or other photos."
)


@dataclass(frozen=True)
class Rival:
    """How similar the picture is to one caption, or to the pictures of a side, for comparison.

    Attributes:
        name: the caption, or what the pictures are called.
        score: its similarity to the picture.
        side: of the question that it stands on; ``"other"`` if only other questions name it.
        is_caption: whether it is a caption rather than pictures.

    """

    name: str
    score: float
    side: Literal["like", "unlike", "other"]
    is_caption: bool


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to one question.

    Attributes:
        question: what was asked.
        attribution: the map, its standard errors, the score and how it was made.
        corpus_score: the part of the score that comes from what the picture should be like.
        foil_score: the part that is subtracted; None without a foil. The score is the first minus the second.
        comparison: every caption (and set of pictures) in play with its own similarity to the picture, highest first.
        regions: of a picture, what raises the score most, strongest first. Of words, columns and segments
            ``attribution.top()`` tells that.
        against: what lowers it most.
        doubts: why the question may be one that the encoder cannot answer, in sentences.

    """

    question: Question
    attribution: Attribution
    corpus_score: float
    foil_score: float | None
    comparison: tuple[Rival, ...]
    regions: tuple[Region, ...]
    against: tuple[Region, ...]
    doubts: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Answer({self.name!r}, score {self.split()})"

    def _repr_html_(self) -> str:
        parts = "" if self.foil_score is None else f"<p>{html.escape(self.split())}</p>"
        return f"<div>{self.attribution._repr_html_()}{parts}</div>"

    @property
    def name(self) -> str:
        """The question in words."""
        return self.question.name

    @property
    def score(self) -> float:
        """Corpus part minus foil part."""
        return self.attribution.score

    @property
    def captions(self) -> list[Rival]:
        """The captions among the comparison, most similar first.

        Pictures stand apart: every picture is more similar to pictures than to words.
        """
        return [rival for rival in self.comparison if rival.is_caption]

    @property
    def rank(self) -> int | None:
        """The place, from 1, of the best caption of ``like`` among all captions; None if there is nothing to compare."""
        places = [place for place, rival in enumerate(self.captions, 1) if rival.side == "like"]
        return places[0] if places and len(self.captions) > 1 else None

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader should know before believing it, in sentences: doubts about the question, remarks about the map."""
        return self.doubts + self.attribution.remarks + ((ADVICE,) if self.attribution.removed < HARDLY else ())

    def split(self) -> str:
        """Return the score and its parts in words: ``+0.120: +0.310 to 'a cat' minus +0.190 to 'a dog'``."""
        if self.foil_score is None:
            return f"{self.score:+.3f}"
        like, unlike = self.question.like_name, self.question.unlike.name
        return f"{self.score:+.3f}: {self.corpus_score:+.3f} to {like!r} minus {self.foil_score:+.3f} to {unlike!r}"

    def describe(self, values: bool = True) -> dict[str, Any]:
        """Return all of it as plain values, ready for JSON; ``values=False`` leaves out map and errors."""
        attribution = self.attribution
        plain = {
            **self.question.describe(),
            "score": attribution.score,
            "corpus_score": self.corpus_score,
            "foil_score": self.foil_score,
            "baseline_score": attribution.baseline_score,
            "rank": self.rank,
            "comparison": [dict(vars(rival)) for rival in self.comparison],
            "regions": _plain_regions(self.regions),
            "against": _plain_regions(self.against),
            "neutral": attribution.neutral,
            "removed": attribution.removed,
            "remarks": list(self.remarks),
            "box": list(attribution.box),
            **dict(attribution.metadata),
        }
        if values:
            plain |= {"values": _rounded(attribution.values), "standard_error": _rounded(attribution.standard_error)}
            plain |= {} if attribution.names is None else {"names": list(attribution.names)}
        return plain


def _plain_regions(regions: Sequence[Region]) -> list[dict[str, Any]]:
    return [{**vars(region), "box": list(region.box), "certain": region.certain} for region in regions]


def _rounded(values: Tensor | None) -> list[Any] | None:
    """Return a map as nested lists of numbers with six digits each."""
    if values is None:
        return None
    return [float(f"{row:.6g}") if row.ndim == 0 else _rounded(row) for row in values.double()]

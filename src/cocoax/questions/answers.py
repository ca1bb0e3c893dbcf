"""Answers to questions about one input."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from string import ascii_lowercase
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from cocoax.cautions import Caution
from cocoax.checks import as_items, check_kind
from cocoax.encoders import Encoder
from cocoax.evaluation.separability import NotSeparableError, separability
from cocoax.methods import Attribution, Method, Rise, Run
from cocoax.methods.method import Input, check_encoder
from cocoax.methods.run import RemovalMethod
from cocoax.methods.run_cache import cached_run
from cocoax.questions.question import Encoded, Question, Side, as_target
from cocoax.references import Reference
from cocoax.results import Result
from cocoax.results.attribution import Region, top_regions
from cocoax.results.remarks import LITTLE_REMOVED, about_caption
from cocoax.seeding import stream
from cocoax.show import Gallery, Table, View
from cocoax.targets import Target, score_all, similarity_to

# --- answers ----------------------------------------------------------------------------------------------------------------

ADVICE = "Another baseline may remove more: a strong blur, the mean colour, both, or other photos."


@dataclass(frozen=True)
class Rival:
    """The similarity of the picture to one caption, or to the pictures of a side, for comparison.

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
class Answer(Result):
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

    file: ClassVar[str] = "answer"
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
        """Warnings for the reader, in sentences: about the question and about the map."""
        advice = (ADVICE,) if self.attribution.removed < LITTLE_REMOVED and self.attribution.picture is not None else ()
        return self.doubts + self.attribution.remarks + advice

    def split(self) -> str:
        """Return the score and its parts in words: ``+0.120: +0.310 to 'a cat' minus +0.190 to 'a dog'``."""
        if self.foil_score is None:
            return f"{self.score:+.3f}"
        like, unlike = self.question.like_name, self.question.unlike.name
        return f"{self.score:+.3f}: {self.corpus_score:+.3f} to {like!r} minus {self.foil_score:+.3f} to {unlike!r}"

    def compared(self, most: int = 5) -> str:
        """Return how similar the picture is to the captions in play, in a sentence; empty if there is nothing to compare."""
        captions = self.captions
        if len(captions) < 2:
            return ""
        first = ", ".join(f"{rival.name} {rival.score:+.3f}" for rival in captions[:most])
        beyond = ", …" if len(captions) > most else ""
        best = next((rival for rival in captions if rival.side == "like"), None)
        place = "" if best is None else f" {best.name!r} ({best.score:+.3f}) is number {self.rank}."
        return f"Of {len(captions)} captions the picture is most similar to: {first}{beyond}.{place}"

    @property
    def title(self) -> str:
        """The question."""
        return self.name

    @property
    def summary(self) -> str:
        """The score and its parts, and how it was explained."""
        method, samples = (self.attribution.metadata.get(name) for name in ("method", "samples"))
        how = f", by {method}{f' with {samples} samples' if samples else ''}" if method else ""
        return f"Score {self.split()}{how}."

    def view(self) -> View:
        """Return the map, with the question and the parts of its score."""
        view = self.attribution.view()
        effects = getattr(view, "effects", None)
        if effects is None or self.foil_score is None:
            return view
        parts = ((self.question.like_name, self.corpus_score), (self.question.unlike.name, self.foil_score))
        return replace(view, effects=replace(effects, parts=parts))  # type: ignore[call-arg]

    def views(self) -> list[View]:
        """Return the input beside its map, and the regions or features that count most."""
        view = self.view()
        shown, compared = self.attribution.display.input_view(), self.compared()
        note = " ".join(filter(None, (compared, view.note)))
        pictures: View = replace(view, note=note)
        if shown is not None:
            pictures = Gallery((view,), 1, shown, colour_bars=True, inches=3.2, note=compared)
        return [pictures, *([self.region_table] if self.regions or self.against else [])]

    @property
    def region_table(self) -> Table:
        """The regions that raise and lower the score most; ± is an upper bound on the standard error."""
        rows = tuple(
            (effect, region.place, region.percent, region.change + (" (within noise)" if region.within_noise else ""))
            for effect, regions in (("raises", self.regions), ("lowers", self.against))
            for region in regions
        )
        return Table(("effect", "region", "of the picture", "value"), rows)

    def table(self) -> Table:
        """Return the rows of its attribution."""
        return self.attribution.table()

    def facts(self, values: bool = True) -> dict[str, Any]:
        """Return all of it as plain values; ``values=False`` leaves out map and errors."""
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
            "removed": attribution.removed,
            "remarks": list(self.remarks),
            "box": list(attribution.box),
            **dict(attribution.metadata),
        }
        if values:
            plain |= {"values": _rounded(attribution.relative), "standard_error": _rounded(attribution.standard_error)}
            plain |= {} if attribution.names is None else {"names": list(attribution.names)}
        return plain


def _plain_regions(regions: Sequence[Region]) -> list[dict[str, Any]]:
    return [{**vars(region), "box": list(region.box), "within_noise": region.within_noise} for region in regions]


def _rounded(values: Tensor | None) -> list[Any] | None:
    """Return a map as nested lists of numbers with six digits each."""
    if values is None:
        return None
    return [float(f"{row:.6g}") if row.ndim == 0 else _rounded(row) for row in values.double()]


# --- remarks ----------------------------------------------------------------------------------------------------------------

FEWEST = 5  # samples of a side from which on it is tested
MAX_TESTED_SAMPLES = 200  # of a side
PERMUTATIONS = 199
LETTERS = 40  # texts of random letters


def _doubt(question: Question, corpus: Target, foil: Target | None) -> tuple[str, ...]:
    """Return a sentence if the encoder does not separate the pictures of the two sides, or reverses them.

    Nothing is said where pictures are too few, or where there is nothing to test: captions are no examples of what they name.
    """
    sides = [_samples(question.like, corpus), None if foil is None else _samples(question.unlike, foil)]
    ours, theirs = sides
    if ours is None or theirs is None:
        return ()
    try:
        separated = separability(ours, theirs, corpus.similarity, permutations=PERMUTATIONS, most=MAX_TESTED_SAMPLES)
    except NotSeparableError:
        return ()
    like, unlike = question.like.name, question.unlike.name
    if separated.verdict == "not separated":
        finding, shown = f"does not separate {like!r} from {unlike!r}", "may be noise"
    elif separated.verdict == "reversed":
        finding, shown = f"takes {like!r} for {unlike!r}", "may be the opposite of what is asked"
    else:
        return ()
    return (f"The encoder {finding}: AUC {separated}, where 0.5 is chance; what the map shows {shown} (see cocoax.knows).",)


def _unknown_words(question: Question, encoder: Encoder) -> tuple[str, ...]:
    """Return a sentence for each caption that has words which the encoder does not know."""
    captions = dict.fromkeys((*question.like.captions, *question.unlike.captions))
    return tuple(sentence for caption in captions if (sentence := encoder.text.inputs.unknown_words(caption)))


def random_letters(encoder: Encoder) -> Reference | None:
    """Return texts of random letters, which a caption should be more similar to a picture than; None if they fail."""
    draw = stream(0, 24)
    texts = ["".join(draw.choice(list(ascii_lowercase), size)) for size in draw.integers(4, 10, LETTERS)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Caution)  # that these are no words is known
            return encoder.text.reference(texts, name="random letters", progress=False)
    except (ValueError, TypeError, RuntimeError):  # whatever a tokenizer says about them
        return None


def _samples(side: Side, part: Target) -> Reference | None:
    """Return the samples of a side, if all of it are pictures or references that kept theirs, and there are enough."""
    references = part.references
    if side.captions or not references or any(isinstance(known, Target) for known in side.encoded):
        return None
    together = references[0].merge(*references[1:])
    return together if together.samples is not None and together.count >= FEWEST else None


# --- asking -----------------------------------------------------------------------------------------------------------------

__all__ = ["Answer", "Question", "Side", "ask"]
TOLERANCE = 0.1  # the relative error of a map that people need not wait for to get any smaller
MIN_COPIES = 96  # masked copies before the error of a map is believed
MAX_COPIES = 1000  # masked copies after which there is an answer anyway


def asking_method(most: int = MAX_COPIES, tolerance: float | None = TOLERANCE, **options: Any) -> Rise:
    """Return the method for people who wait for an answer: it stops when what they asked is known, or after ``most`` samples.

    Without a tolerance it takes all of them.
    """
    if tolerance is None:
        return Rise(samples=most, **options)
    return Rise(samples=min(MIN_COPIES, most), tolerance=tolerance, max_samples=most, **options)


def ask(
    encoder: Encoder,
    about: Run | Input,
    questions: Question | Encoded | str | Sequence[Question | Encoded | str],
    method: Method | None = None,
    *,
    features: Any = None,
    at_least: bool = False,
    progress: bool | None = None,
) -> list[Answer]:
    """Answer questions about one picture, or another input of an encoder's kind.

    A question may also be a target, a reference to be like, or a text that :meth:`Question.parse` reads.

    ``about`` is a run, which answers without the encoder seeing the picture again, or a picture, which ``method`` explains:
    by default :func:`asking_method`, as in ``cocoax ask`` and on the page. Runs of removal-based methods are kept and found
    again (``cocoax.methods.run_cache``), those with more samples than asked for as a whole if ``at_least`` or without a
    method. ``features`` are what is removed as one part, see
    :meth:`cocoax.Encoder.explicand`. Where the encoder does not separate the pictures of the two sides, or
    does not know a word of a caption, a caution says so.

    Example:
        >>> from cocoax.data import photo
        >>> method = cocoax.Rise(samples=40)
        >>> [answer] = cocoax.ask(cocoax.load("starter"), photo("cat"), "a cat rather than a dog", method=method)
        >>> round(answer.score, 2)
        0.57
    """
    check_encoder(encoder)
    if isinstance(questions, Question | Reference | Target | str):
        questions = [questions]
    several = [Question.of(asked) for asked in as_items("Questions", questions)]
    if not several:
        raise ValueError("There are 0 questions; ask at least one.")
    if method is not None:
        check_kind("The method", method, Method, "must be an attribution method, such as cocoax.Rise()")
    asked = [_Asked(question, *question.parts(encoder), _unknown_words(question, encoder)) for question in several]
    letters = random_letters(encoder) if any(question.like.captions for question in several) else None
    targets = [each.target for each in asked]
    at_least = at_least or method is None
    method = asking_method() if method is None else method
    if not isinstance(about, Run) and isinstance(method, RemovalMethod):
        about = cached_run(encoder, about, method, targets, at_least=at_least, features=features, progress=progress)
    attributions: list[Attribution]
    if isinstance(about, Run):
        attributions, own = about.explain(targets), about.anchors[0]
    else:
        explicand = encoder.explicand(about, features)
        attributions = method.explain(encoder, explicand, targets, progress=progress)
        own = encoder.represent([explicand], progress=False)[0]
    return [_answer(each, asked, attribution, own, letters) for each, attribution in zip(asked, attributions, strict=True)]


@dataclass(frozen=True)
class _Candidate:
    """Something that a question names, by itself: a caption, the pictures of a side together, a reference or a target."""

    target: Target
    side: Literal["like", "unlike"]
    is_caption: bool


@dataclass(frozen=True, eq=False)
class _Asked:
    """A question put to an encoder: the two parts of its target."""

    question: Question
    corpus: Target
    foil: Target | None
    unknown: tuple[str, ...] = ()

    @property
    def target(self) -> Target:
        """The corpus part minus the foil part."""
        return self.question.difference(self.corpus, self.foil)

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        """Why the encoder may not know what is asked, in sentences; empty if there is nothing to say."""
        return (*self.unknown, *_doubt(self.question, self.corpus, self.foil))

    @cached_property
    def candidates(self) -> dict[str, _Candidate]:
        """All that the question names; what both sides name stands on the side of ``like``."""
        named = _candidates(self.question.unlike, self.foil, "unlike")
        return {**named, **_candidates(self.question.like, self.corpus, "like")}


def _candidates(side: Side, part: Target | None, name: Literal["like", "unlike"]) -> dict[str, _Candidate]:
    """Return the names on a side, each caption and its pictures together, by a unique key."""
    if part is None or not side:
        return {}
    candidates: dict[str, _Candidate] = {}
    references = part.references
    if side.captions:
        together = references.pop(0)
        assert together.samples is not None
        for caption, sample in zip(side.captions, together.samples, strict=True):
            alone = Reference.from_representations(sample[None], name=caption, space=together.space)
            candidates[caption] = _Candidate(similarity_to(alone, part.similarity), name, True)
    for known in [*references[: len(side.images[:1])], *side.encoded]:
        candidates[f"{known.name} {id(known)}"] = _Candidate(as_target(known, part.similarity), name, False)
    return candidates


def _answer(
    asked: _Asked, everything: Sequence[_Asked], attribution: Attribution, own: Tensor, letters: Reference | None
) -> Answer:
    """Return the answer to one question, compared with all that is asked.

    ``own`` is the picture's representation ``[d]``, and ``letters`` are texts of random letters.
    """
    others = {
        key: candidate
        for other in everything
        if other is not asked and other.corpus.similarity == asked.corpus.similarity
        for key, candidate in other.candidates.items()
    }
    in_play = {**others, **asked.candidates}
    parts = [asked.corpus] if asked.foil is None else [asked.corpus, asked.foil]
    targets = [*parts, *(candidate.target for candidate in in_play.values())]
    scores = [float(score) for score in score_all(targets, own[None], own)[0]]
    rivals = [
        Rival(candidate.target.name, score, candidate.side if key in asked.candidates else "other", candidate.is_caption)
        for (key, candidate), score in zip(in_play.items(), scores[len(parts) :], strict=True)
    ]
    chance = torch.zeros(0)
    if letters is not None and letters.samples is not None:
        chance = asked.corpus.similarity.pairwise(letters.samples.double(), own[None].double())[:, 0]
    likes = [rival for rival in rivals if rival.is_caption and rival.side == "like"]
    best = max(likes, key=lambda rival: rival.score, default=None)
    by_chance = "" if best is None or asked.unknown else about_caption(best.name, best.score, chance)
    pictured = attribution.values.ndim == 2  # words, columns and segments have names instead: attribution.top()
    return Answer(
        question=asked.question,
        attribution=attribution,
        corpus_score=scores[0],
        foil_score=None if asked.foil is None else scores[1],
        comparison=tuple(sorted(rivals, key=lambda rival: -rival.score)),
        regions=tuple(top_regions(attribution)) if pictured else (),
        against=tuple(top_regions(attribution, lowering=True)) if pictured else (),
        doubts=(*asked.doubts, *filter(None, [by_chance])),
    )

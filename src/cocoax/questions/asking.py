"""Asking: what in this picture is like these words and pictures, rather than like those?

question = Question(like="a cat", unlike=["a dog", "a wolf"])
question = Question(like=Side(["a cat"], images=["cats/"]), unlike="a cup of coffee")
question = Question(like=encoder.reference("cats/"), unlike=encoder.reference("dogs/"))
answers = ask(encoder, run, [question, Question(), Question.parse("a cat rather than a sofa")])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any, Literal, TypeVar

from torch import Tensor

from cocoax.cautions import caution, was_said
from cocoax.checks import as_items, check_kind
from cocoax.encoders import Encoder
from cocoax.encoders.identity import looking_once
from cocoax.inputs import Explicand
from cocoax.masking.baseline_presets import ASKED, OFFERED
from cocoax.masking.segments import in_proportion
from cocoax.methods import Attribution, Method, Rise, Run
from cocoax.methods.method import Input, check_encoder
from cocoax.methods.removal import RemovalMethod
from cocoax.methods.run_cache import saved_run
from cocoax.questions.answers import Answer, Rival
from cocoax.questions.question import Question
from cocoax.questions.regions import top_regions
from cocoax.questions.remarks import doubt, unknown_words
from cocoax.questions.sides import Encoded, Side, as_target
from cocoax.references import Reference
from cocoax.targets import Target, score_all, similarity_to

__all__ = ["Answer", "Question", "Side", "ask"]
M = TypeVar("M", bound=Method)
TOLERANCE = 0.1  # the relative error of a map that people need not wait for to get any smaller
LEAST, MOST = 96, 1000  # masked copies before the error of a map is believed, and those after which there is an answer anyway


def asking_method(most: int = MOST, tolerance: float | None = TOLERANCE, **options: Any) -> Rise:
    """Return the method for people who wait for an answer: it stops when what they asked is known, or after ``most`` samples.

    Without a tolerance it takes all of them.
    """
    options = {"baseline": OFFERED[ASKED], **options}
    if tolerance is None:
        return Rise(samples=most, **options)
    return Rise(samples=min(LEAST, most), tolerance=tolerance, max_samples=most, **options)


def fitted(method: M, explicand: Explicand) -> M:
    """Return the method with about as many cells in the proportions of a picture: as fine in one direction as in the other.

    A grid of (rows, columns) stays as it is.
    """
    grid = getattr(method, "grid", None)
    if not isinstance(grid, Integral) or len(explicand.shape) != 2:
        return method
    found: Any = method
    changed: M = replace(found, grid=in_proportion(int(grid), *explicand.shape))
    return changed


@looking_once()
def ask(
    encoder: Encoder,
    about: Run | Input,
    questions: Question | Encoded | str | Sequence[Question | Encoded | str],
    method: Method | None = None,
    *,
    at_least: bool = False,
    progress: bool | None = None,
) -> list[Answer]:
    """Answer questions about one picture, or another input of an encoder's kind.

    A question may also be a target, a reference to be like, or a text that :meth:`Question.parse` reads.

    ``about`` is a run, which answers without the encoder seeing the picture again, or a picture, which ``method`` (Rise by
    default) explains; runs of removal-based methods are kept and found again (``cocoax.methods.run_cache``), those with more
    samples than asked for as a whole if ``at_least``. Where the encoder cannot tell the pictures of the two sides apart, or
    does not know a word of a caption, a caution says so.
    """
    check_encoder(encoder)
    if isinstance(questions, Question | Reference | Target | str):
        questions = [questions]
    several = [Question.of(asked) for asked in as_items("Questions", questions)]
    if not several:
        raise ValueError("There are 0 questions; ask at least one.")
    if method is not None:
        check_kind("The method", method, Method, "must be an attribution method, such as cocoax.Rise()")
    space = encoder.space
    asked = [_Asked(question, *question.parts(encoder, space), unknown_words(question, encoder)) for question in several]
    for each in asked:
        for sentence in each.doubts:
            if not was_said(sentence):  # such as when a caption was encoded
                caution("knows", sentence, sentence)
    targets = [each.target for each in asked]
    method = Rise() if method is None else method
    if not isinstance(about, Run) and isinstance(method, RemovalMethod):
        about = saved_run(encoder, about, method, targets, at_least=at_least, progress=progress)
    attributions: list[Attribution]
    if isinstance(about, Run):
        attributions, own = about.explain(targets), about.ends[0]
    else:
        explicand = encoder.explicand(about)
        attributions = method.explain(encoder, explicand, targets, progress=progress)
        own = encoder.represent([explicand], progress=False)[0]
    return [_answer(each, asked, attribution, own) for each, attribution in zip(asked, attributions, strict=True)]


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
        return (*self.unknown, *doubt(self.question, self.corpus, self.foil))

    @cached_property
    def candidates(self) -> dict[str, _Candidate]:
        """All that the question names; what both sides name stands on the side of ``like``."""
        named = _candidates(self.question.unlike, self.foil, "unlike")
        return {**named, **_candidates(self.question.like, self.corpus, "like")}


def _candidates(side: Side, part: Target | None, name: Literal["like", "unlike"]) -> dict[str, _Candidate]:
    """Return what a side names, each caption and its pictures together, by a key that tells them from all others."""
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


def _answer(asked: _Asked, everything: Sequence[_Asked], attribution: Attribution, own: Tensor) -> Answer:
    """Return the answer to one question, compared with all that is asked; ``own`` is the picture's representation ``[d]``."""
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
    pictured = attribution.values.ndim == 2  # words, columns and segments have names instead: attribution.top()
    return Answer(
        question=asked.question,
        attribution=attribution,
        corpus_score=scores[0],
        foil_score=None if asked.foil is None else scores[1],
        comparison=tuple(sorted(rivals, key=lambda rival: -rival.score)),
        regions=tuple(top_regions(attribution)) if pictured else (),
        against=tuple(top_regions(attribution, lowering=True)) if pictured else (),
        doubts=asked.doubts,
    )

"""Doubts about a question: whether the encoder knows its words, and can tell its two sides apart at all."""

from __future__ import annotations

from cocoax.encoders import Encoder
from cocoax.evaluation.separability import NothingToTellError, tell_apart
from cocoax.questions.question import Question
from cocoax.questions.sides import Side
from cocoax.references import Reference
from cocoax.targets import Target

FEWEST = 5  # samples of a side from which on it is tested
MOST = 200
PERMUTATIONS = 199


def doubt(question: Question, corpus: Target, foil: Target | None) -> tuple[str, ...]:
    """Return a sentence if the encoder cannot tell the pictures of one side from those of the other, or not rightly.

    Nothing is said either where there is too little to tell, or nothing to test: captions are no examples of what they name.
    """
    sides = [_samples(question.like, corpus), None if foil is None else _samples(question.unlike, foil)]
    ours, theirs = sides
    if ours is None or theirs is None:
        return ()
    try:
        telling = tell_apart(ours, theirs, corpus.similarity, permutations=PERMUTATIONS, most=MOST)
    except NothingToTellError:
        return ()
    like, unlike = question.like.name, question.unlike.name
    if telling.verdict == "cannot tell":
        finding, shown = f"cannot tell {like!r} from {unlike!r}", "may be noise"
    elif telling.verdict == "the other way round":
        finding, shown = f"takes {like!r} for {unlike!r}", "may be the opposite of what is asked"
    else:
        return ()
    return (f"The encoder {finding}: AUC {telling}, where 0.5 is chance; what the map shows {shown} (see cocoax.knows).",)


def unknown_words(question: Question, encoder: Encoder) -> tuple[str, ...]:
    """Return a sentence for each caption that has words which the encoder does not know."""
    captions = dict.fromkeys((*question.like.captions, *question.unlike.captions))
    return tuple(sentence for caption in captions if (sentence := encoder.text.inputs.unfamiliar(caption)))


def _samples(side: Side, part: Target) -> Reference | None:
    """Return the samples of a side, if all of it are pictures or references that kept theirs, and there are enough."""
    references = part.references
    if side.captions or not references or any(isinstance(known, Target) for known in side.encoded):
        return None
    together = references[0].merge(*references[1:])
    return together if together.samples is not None and together.count >= FEWEST else None

"""What the page does for its visitors; how it looks is the matter of :mod:`cocoax.app.parts`.

Every visitor has one photo at a time, its run, and up to two questions. All encoder work goes through two locks (pictures and
words have a network each), a small piece at a time, so that visitors take turns; answers come from the run alone.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from PIL import Image

from cocoax import Answer, Attribution, Curve, Encoder, Explicand, Question, Rise, Run, Side, ask, curves
from cocoax.app.drawing import View
from cocoax.attribution.method import Input
from cocoax.attribution.rise import relative_error
from cocoax.inputs.images import open_image
from cocoax.questions.sides import SEPARATOR

PANELS = 2  # questions side by side
MEGABYTES = 20  # the largest upload
CHUNK = 24  # masked copies encoded before anybody else gets their turn; half a second on two cores
MORE = 500  # samples that "more" adds
MOST = 5000  # samples of a run in all
PICTURES = 12  # reference pictures on one side of a question
LONGEST = 512  # their longer side, in pixels: many are kept, and encoders look at no more
CURVE_STEPS = 20


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        samples: masked copies encoded.
        goal: how many there will be.
        error: of the map, as a fraction of the map; None while there are too few samples to tell.
        seconds: what is left, at the pace so far.
        running: whether it goes on.

    """

    samples: int
    goal: int
    error: float | None = None
    seconds: float | None = None
    running: bool = True


def no_pictures() -> dict[str, list[Image.Image]]:
    """Return the pictures dropped on the two sides of a new question: none."""
    return {"like": [], "unlike": []}


@dataclass(eq=False)
class Visitor:
    """One visitor's photo, run and questions."""

    explicand: Explicand | None = None
    run: Run | None = None
    goal: int = 0
    job: int = 0  # whoever samples for this visitor stops when this has moved on
    stopping: bool = False
    view: View = field(default_factory=View)
    place: tuple[float, float] | None = None
    questions: list[Question | None] = field(default_factory=lambda: [None] * PANELS)
    answers: list[Answer | None] = field(default_factory=lambda: [None] * PANELS)
    pictures: list[dict[str, list[Image.Image]]] = field(default_factory=lambda: [no_pictures() for _ in range(PANELS)])


class Studio:
    """An encoder and its visitors.

    Args:
        encoder: of images; with a text tower, questions may be in words.
        method: how photos are explained; ``samples`` is how many copies a run has before "more" is asked for.
        kept: visitors whose runs are kept; whoever was away longest makes room.

    """

    def __init__(self, encoder: Encoder, method: Rise | None = None, kept: int = 16) -> None:
        if kept < 1:
            raise ValueError(f"The 'kept' parameter must be at least 1. Got {kept} instead.")
        self.encoder = encoder.freeze()
        self.method = Rise() if method is None else method
        self.kept = kept
        self._visitors: OrderedDict[str, Visitor] = OrderedDict()
        self._door = Lock()  # to the list of visitors
        self._pictures = Lock()  # to the image tower
        self._words = Lock()  # to the text tower, and to what is remembered of it

    @property
    def takes_words(self) -> bool:
        """Whether captions can be asked about."""
        return hasattr(self.encoder, "text")

    # --- visitors -----------------------------------------------------------------------------------------------------

    def visitor(self, key: str) -> Visitor:
        """Return the visitor of this key, new or not."""
        with self._door:
            visitor = self._visitors.setdefault(key, Visitor())
            self._visitors.move_to_end(key)
            while len(self._visitors) > self.kept:
                _, gone = self._visitors.popitem(last=False)
                _forget(gone)
        return visitor

    def leave(self, key: str) -> None:
        """Drop all that belongs to a visitor who closed the page, and end their run."""
        with self._door:
            gone = self._visitors.pop(key, None)
            if gone is not None:
                _forget(gone)

    # --- the photo and its run ----------------------------------------------------------------------------------------

    def choose(self, visitor: Visitor, photo: Input) -> None:
        """Take a photo (a picture or a file); a run that is under way for another one ends."""
        explicand = self.encoder.explicand(photo)
        with self._door:
            visitor.job += 1
            visitor.explicand, visitor.run = explicand, None
            visitor.goal = self.method.samples
            visitor.answers = [None] * PANELS
            visitor.place = None

    def sample(self, visitor: Visitor, more: int = 0) -> Iterator[Progress]:
        """Encode masked copies of the photo until there are enough, a few at a time, and answer again after each few.

        It ends early when the visitor stops it, leaves or chooses another photo; what was sampled stays.
        """
        if visitor.explicand is None:
            raise ValueError("There is no photo yet; choose one or upload your own.")
        visitor.job += 1
        job, visitor.stopping = visitor.job, False
        run = None if visitor.run is None else replace(visitor.run)
        had = 0 if run is None else len(run)
        if more:
            visitor.goal = min(had + more, MOST)
        began = time.monotonic()
        yield Progress(had, visitor.goal)
        while visitor.job == job and not visitor.stopping and (run is None or len(run) < visitor.goal):
            with self._pictures:
                if visitor.job != job:
                    return
                if run is None:
                    first = replace(self.method, samples=min(CHUNK, visitor.goal))
                    run = first.run(self.encoder, visitor.explicand, progress=False)
                else:
                    run.extend(self.encoder, min(CHUNK, visitor.goal - len(run)), progress=False)
            with self._door:
                if visitor.job != job:
                    return
                # A copy, since this one grows while others read.
                visitor.run = replace(run, method=replace(self.method, samples=len(run), baseline=run.method.baseline))
            self.answer(visitor)
            pace = (time.monotonic() - began) / (len(run) - had)
            yield Progress(len(run), visitor.goal, self.error(visitor), pace * (visitor.goal - len(run)))
        if visitor.job == job and run is not None:
            yield Progress(len(run), visitor.goal, self.error(visitor), running=False)

    def error(self, visitor: Visitor) -> float | None:
        """Return the largest relative error among the visitor's answers."""
        errors = [relative_error(answer.attribution) for answer in visitor.answers if answer is not None]
        return max(errors, default=None)

    # --- questions ----------------------------------------------------------------------------------------------------

    def ask(self, visitor: Visitor, panel: int, like: str, unlike: str) -> None:
        """Answer a question in words (several captions are separated by " / "), with the pictures dropped beside them."""
        pictures = visitor.pictures[panel]
        question = Question(Side(captions(like), pictures["like"]), Side(captions(unlike), pictures["unlike"]))
        if (question.like.captions or question.unlike.captions) and not self.takes_words:
            raise ValueError(f"The encoder {self.encoder.name!r} knows no words; drop pictures instead.")
        with self._towers(question):
            question.target(self.encoder)  # so that a bad question is told now, whether or not there is a run
        with self._door:
            visitor.questions[panel] = question
        self.answer(visitor, panel)

    def drop(self, visitor: Visitor, panel: int) -> None:
        """Put a question away."""
        with self._door:
            visitor.questions[panel] = visitor.answers[panel] = None
            visitor.pictures[panel] = no_pictures()

    def answer(self, visitor: Visitor, panel: int | None = None) -> None:
        """Answer the visitor's questions, or one of them, from the run there is; the photo is not encoded again.

        Nothing asked in the first panel asks about the photo itself (label-free). An answer that took so long that there is
        another question or run by now is dropped; whoever brought those answers too.
        """
        with self._door:
            run = visitor.run
            if run is not None and visitor.questions[0] is None:
                visitor.questions[0] = Question()
        if run is None:
            return
        for index in range(PANELS) if panel is None else (panel,):
            question = visitor.questions[index]
            if question is None:
                continue
            with self._towers(question):
                (answer,) = ask(self.encoder, run, [question])
            with self._door:
                if visitor.run is run and visitor.questions[index] is question:
                    visitor.answers[index] = answer

    def curves(self, visitor: Visitor) -> list[tuple[str, list[dict[str, Curve]]]]:
        """Return the insertion and deletion curves of every answer: of its map, and of pixels in random order beside it."""
        run = visitor.run
        if run is None or visitor.explicand is None:
            raise ValueError("There is no run yet; choose a photo first.")
        measured = []
        for answer in visitor.answers:
            if answer is None:
                continue
            maps: list[Attribution | torch.Tensor] = [answer.attribution, random_like(answer.attribution)]
            with self._towers(answer.question):
                target = answer.question.target(self.encoder)
            with self._pictures:
                both = curves(self.encoder, run.explicand, maps, target, CURVE_STEPS, run.method.baseline, progress=False)
            measured.append((answer.name, both))
        return measured

    def _towers(self, question: Question) -> ExitStack:
        """Return the locks that answering a question needs, held."""
        held = ExitStack()
        if question.like.images or question.unlike.images:
            held.enter_context(self._pictures)
        held.enter_context(self._words)
        return held


def reference_picture(path: Path) -> Image.Image:
    """Return a dropped picture as it is kept: in memory, since uploads are deleted after a while, and by its name alone."""
    image: Any = open_image(path)
    image.thumbnail((LONGEST, LONGEST), Image.Resampling.BICUBIC)
    image.filename = path.name
    return image  # type: ignore[no-any-return]


def captions(text: str) -> list[str]:
    """Return the captions in what was typed: one per line, or separated by " / "."""
    return [part.strip() for line in text.splitlines() for part in line.split(SEPARATOR) if part.strip(" /")]


def random_like(attribution: Attribution) -> torch.Tensor:
    """Return a map of the same size whose pixels are in random, repeatable order."""
    return torch.rand(attribution.values.shape, generator=torch.Generator().manual_seed(0))


def _forget(visitor: Visitor) -> None:
    """Drop a visitor's photo, run and answers, and end the run."""
    visitor.job += 1
    visitor.explicand = visitor.run = None
    visitor.answers = [None] * PANELS

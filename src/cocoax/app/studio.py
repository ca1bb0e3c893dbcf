"""What the page does for its visitors; how it looks is the matter of :mod:`cocoax.app.parts`.

Every visitor has one photo at a time, its run, and up to two questions. All encoder work goes through two locks (pictures and
words have a network each), a small piece at a time, so that visitors take turns; answers come from the run alone.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from PIL import Image

from cocoax import Attribution, Curve, Encoder, Question, Rise, Run, Side, ask, curves
from cocoax.app.visitors import PANELS, Progress, Visitor, Visitors, no_pictures
from cocoax.encoders.families.processors import noise
from cocoax.inputs.image import open_image
from cocoax.masking import Removal
from cocoax.methods.method import Input
from cocoax.questions.answers import fitted
from cocoax.questions.question import SEPARATOR

MEGABYTES = 20  # the largest upload
CHUNK, MOST_AT_ONCE = 24, 72  # masked copies encoded before anybody else gets their turn: the first, and at most later ones,
TURN = 0.5  # which take about so many seconds
MORE = 500  # samples that "more" adds
MOST = 5000  # samples of a run in all
PICTURES = 12  # reference pictures on one side of a question
LONGEST = 512  # their longer side, in pixels: many are kept, and encoders look at no more
CURVE_STEPS = 20
OFTEN = 1.1  # answers are drawn again when there are so many times the copies: what one more tells gets less


class Studio:
    """An encoder and its visitors.

    Args:
        encoder: of images; with a text tower, questions may be in words.
        method: how photos are explained; ``samples`` is how many copies a run has before "more" is asked for. With a
            tolerance it ends by itself when the answers to the questions asked are known that well, or at ``max_samples``.
        kept: visitors who have a place, and keep their runs, at the same time; the others wait for one.

    """

    def __init__(self, encoder: Encoder, method: Rise | None = None, kept: int = 16) -> None:
        if kept < 1:
            raise ValueError(f"The 'kept' parameter must be at least 1. Got {kept} instead.")
        self.encoder = encoder.freeze()
        self.method = Rise() if method is None else method
        self.visitors = Visitors(kept)
        self._pictures = Lock()  # to the image tower
        self._words = Lock()  # to the text tower, and to what is remembered of it

    def warm_up(self) -> None:
        """Encode a few copies of a picture, so that the first visitor does not wait for what is made once."""
        with suppress(Exception), self._pictures:  # visitors are told what does not work
            Rise(samples=10, baseline=self.method.baseline).run(self.encoder, noise(224, 224), progress=False)

    @property
    def most(self) -> int:
        """How many masked copies a run has, unless more are asked for, or the answers are known before."""
        return self.method.samples if self.method.tolerance is None else min(self.method.max_samples, MOST)

    def lacks(self, visitor: Visitor) -> bool:
        """Whether the run that a visitor has is over, but does not say enough about what was asked since."""
        with self.visitors.door:
            if visitor.run is None or visitor.running or visitor.stopping or len(visitor.run) >= self.most:
                return False
            return not self._known(visitor)

    def _known(self, visitor: Visitor) -> bool:
        """Whether the answers to what was asked are known as well as they should be."""
        error, tolerance = visitor.error, self.method.tolerance
        return tolerance is not None and error is not None and error <= tolerance

    @property
    def takes_words(self) -> bool:
        """Whether captions can be asked about."""
        return hasattr(self.encoder, "text")

    def visitor(self, key: str) -> Visitor:
        """Return the visitor of this key, new or not."""
        return self.visitors.visitor(key)

    def leave(self, key: str) -> None:
        """Drop all that belongs to a visitor who closed the page, and end their run."""
        self.visitors.leave(key)
        give_back_memory()

    # --- the photo and its run ----------------------------------------------------------------------------------------

    def choose(self, visitor: Visitor, photo: Input, words: tuple[str, str] | None = None, choice: int = 0) -> bool:
        """Take a photo (a picture or a file), with the words of a question about it or without.

        A run that is under way for another one ends. The browser counts its choices: one that arrives after a later one is
        not taken. Return whether it was.
        """
        explicand = self.encoder.explicand(photo)
        question = None if words is None else self._question(no_pictures(), *words)
        with self.visitors.door:
            if visitor.gone or choice < visitor.choice:
                return False
            visitor.choice = choice
            visitor.job += 1
            visitor.changes += 1
            visitor.goal = self.most
            visitor.explicand, visitor.run = explicand, None
            visitor.progress = Progress(0, visitor.goal, tolerance=self.method.tolerance)
            visitor.answers = [None] * PANELS
            visitor.point, visitor.away_too_long = None, False
            if question is not None:
                visitor.questions[0], visitor.pictures[0] = question, no_pictures()
            self.visitors.door.notify_all()
        return True

    def replace_by(self, visitor: Visitor, baseline: Removal) -> bool:
        """Put something else in place of removed parts; the photo, if there is one, is to be looked at again then."""
        with self.visitors.door:
            if visitor.baseline == baseline:
                return False
            visitor.baseline = baseline
        return visitor.explicand is not None and self.choose(visitor, visitor.explicand, choice=visitor.choice)

    def stop(self, visitor: Visitor) -> None:
        """End the run that is under way, or the wait for one; what was sampled stays."""
        with self.visitors.door:
            visitor.stopping = True
            self.visitors.door.notify_all()

    def sample(self, visitor: Visitor, more: int = 0) -> Iterator[Progress]:
        """Encode masked copies of the photo until there are enough, a few at a time, and answer again after each few.

        There are enough when the answers to what is asked are known, if the method has a tolerance, or ``more`` than there
        were, if that is asked for. Who has no place on the page yet waits for one first. It ends early when the visitor stops
        it, leaves or chooses another photo; what was sampled stays.
        """
        with self.visitors.door:
            if visitor.explicand is None:
                raise ValueError("There is no photo yet; choose one or upload your own.")
            visitor.job += 1
            job, visitor.stopping = visitor.job, False
            had = 0 if visitor.run is None else len(visitor.run)
            visitor.goal = min(had + more, MOST) if more else self.most
        tolerance = None if more else self.method.tolerance
        try:
            for step in self._steps(visitor, job, until_known=tolerance is not None):
                progress = replace(step, tolerance=tolerance)
                with self.visitors.door:
                    if visitor.job != job:
                        return
                    visitor.progress = progress
                    visitor.seen = self.visitors.clock()
                yield progress
        finally:  # whatever ended it: nobody is to be told for ever that it goes on
            with self.visitors.door:
                if visitor.job == job:
                    self.visitors.step_out(visitor)
                    visitor.progress = visitor.progress and replace(visitor.progress, running=False, place=0)

    def _steps(self, visitor: Visitor, job: int, until_known: bool) -> Iterator[Progress]:
        """Wait for a place and sample, a few masked copies for each step; the caller ends it when there is another job."""
        run = None if visitor.run is None else replace(visitor.run)
        had = 0 if run is None else len(run)
        while visitor.wants(job) and (place := self.visitors.place(visitor)):
            yield Progress(had, visitor.goal, place=place)
            self.visitors.wait(visitor, job, place)
        began = time.monotonic()
        answered, goal, pace = had, visitor.goal, TURN / CHUNK
        yield Progress(had, goal)
        while visitor.wants(job) and (run is None or len(run) < visitor.goal):
            with self._pictures:
                if visitor.job != job or visitor.explicand is None:
                    return
                run = self._sampled(visitor, run, pace)
            with self.visitors.door:
                if visitor.job != job:
                    return
                assert isinstance(run.method, Rise)
                # A copy, since this one grows while others read.
                visitor.run = replace(run, method=replace(run.method, samples=len(run)))
            if len(run) >= min(OFTEN * answered, visitor.goal):
                self.answer(visitor)
                answered = len(run)
                if until_known and answered >= self.method.samples and self._known(visitor):
                    break
                goal = visitor.goal
                if until_known and visitor.error is not None:
                    goal = min(self.method.expected(answered, visitor.error), goal)
            pace = (time.monotonic() - began) / (len(run) - had)
            yield Progress(len(run), goal, pace * max(goal - len(run), 0))
        samples = 0 if run is None else len(run)
        if samples > answered:
            self.answer(visitor)
        yield Progress(samples, samples if until_known and self._known(visitor) else visitor.goal, running=False)

    def _sampled(self, visitor: Visitor, run: Run | None, pace: float) -> Run:
        """Return the run with a few masked copies more, by the seconds that one has taken, or the beginning of one."""
        if run is not None:
            copies = max(CHUNK, min(int(TURN / max(pace, 1e-6)), MOST_AT_ONCE))
            return run.extend(self.encoder, min(copies, visitor.goal - len(run)), progress=False)
        assert visitor.explicand is not None
        baseline = self.method.baseline if visitor.baseline is None else visitor.baseline
        first = replace(self.method, samples=min(CHUNK, visitor.goal), tolerance=None, baseline=baseline)
        return fitted(first, visitor.explicand).run(self.encoder, visitor.explicand, progress=False)

    # --- questions ----------------------------------------------------------------------------------------------------

    def ask(self, visitor: Visitor, panel: int, like: str, unlike: str) -> None:
        """Answer a question in words (several captions are separated by " / "), with the pictures dropped beside them."""
        question = self._question(visitor.pictures[panel], like, unlike)
        with self.visitors.door:
            visitor.questions[panel] = question
            visitor.changes += 1
        self.answer(visitor, panel)

    def _question(self, pictures: dict[str, list[Image.Image]], like: str, unlike: str) -> Question:
        """Return a question in words and pictures; raise if it cannot be asked."""
        question = Question(Side(captions(like), pictures["like"]), Side(captions(unlike), pictures["unlike"]))
        if (question.like.captions or question.unlike.captions) and not self.takes_words:
            raise ValueError(f"The encoder {self.encoder.name!r} knows no words; drop pictures instead.")
        with self._towers(question):
            question.target(self.encoder)  # so that a bad question is told now, whether or not there is a run
        return question

    def drop(self, visitor: Visitor, panel: int) -> None:
        """Put a question away."""
        with self.visitors.door:
            visitor.questions[panel] = visitor.answers[panel] = None
            visitor.changes += 1
            visitor.pictures[panel] = no_pictures()

    def answer(self, visitor: Visitor, panel: int | None = None) -> None:
        """Answer the visitor's questions, or one of them, from the run there is; the photo is not encoded again.

        Nothing asked in the first panel asks about the photo itself (label-free). An answer that took so long that there is
        another question or run by now is dropped; whoever brought those answers too.
        """
        with self.visitors.door:
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
            with self.visitors.door:
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


def give_back_memory() -> None:
    """Return memory that is free to the system; with many threads, the C library keeps some for each of them."""
    with suppress(AttributeError, OSError, TypeError):  # only glibc can be told
        ctypes.CDLL(None).malloc_trim(0)


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

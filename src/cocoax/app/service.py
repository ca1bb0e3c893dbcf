"""The encoder's work for the sessions of the page: runs, answers and curves.

Images and texts have a network each, and a lock each. A run is extended by a few masked copies at a time, so that sessions
take turns; answers are computed from the run alone, without the image network.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock
from typing import Any

import numpy as np
import torch
from PIL import Image

from cocoax import Answer, Attribution, Curve, Encoder, Explicand, Question, Rise, Run, Side, ask, curves
from cocoax.app.sessions import PANELS, Progress, Session, SidePictures, no_pictures
from cocoax.encoders.families.processors import noise
from cocoax.inputs.image import open_image
from cocoax.inputs.sound import Sounds, read_file
from cocoax.inputs.table import Rows
from cocoax.masking import Removal
from cocoax.questions.question import SEPARATOR

PHOTO_AREA, REFERENCE_AREA = 2**20, 2**18  # pixels to which photos and reference pictures are reduced; encoders see fewer
MIN_CHUNK, MAX_CHUNK = 24, 72  # masked copies encoded in one turn
TURN_SECONDS = 0.5  # of a turn, about
MORE_SAMPLES = 500  # that "more" adds
MAX_SAMPLES = 5000  # of a run
CURVE_STEPS = 20
ANSWER_EVERY = 1.1  # answers are computed again when there are so many times the samples


class Clip(tuple[np.ndarray, float]):
    """Samples and their rate, as encoders take them, with the name of their file."""

    filename: str = ""


def hums(rate: int) -> dict[str, Clip]:
    """Return sounds to try: a low hum, a high one, and both in turn."""
    times = np.arange(int(1.5 * rate)) / rate
    swell = 1 + 0.5 * np.sin(2 * np.pi * 3 * times)
    low, high = (
        0.1 * swell * sum(np.sin(2 * np.pi * k * pitch * times) / k for k in range(1, 12)) for pitch in (110.0, 220.0)
    )
    made = {
        "low hum": low,
        "high hum": high,
        "low, then high": np.concatenate([low, high]),
        "high, then low": np.concatenate([high, low]),
    }
    clips = {name: Clip((samples.astype(np.float32), float(rate))) for name, samples in made.items()}
    for name, clip in clips.items():
        clip.filename = name
    return clips


class EncoderService:
    """An encoder that works for many sessions.

    Args:
        encoder: of any kind of input; with a text tower, questions may be in words.
        method: how photos are explained. A run has ``samples`` masked copies; with a tolerance it ends when the answers to
            the questions asked have that relative error, or at ``max_samples``.

    """

    def __init__(self, encoder: Encoder, method: Rise | None = None) -> None:
        self.encoder = encoder
        self.method = Rise() if method is None else method
        self._images = Lock()
        self._texts = Lock()
        self._files = Lock()  # one picture is decoded at a time, which bounds the memory for that
        self._prepared: dict[int, tuple[Image.Image, Run]] = {}  # photos that were looked at before visitors came

    @property
    def takes_words(self) -> bool:
        """Whether questions may be in words."""
        return hasattr(self.encoder, "text")

    @property
    def takes_pictures(self) -> bool:
        """Whether inputs may be pictures."""
        return self.encoder.inputs.noun == "image"

    @property
    def takes_sounds(self) -> bool:
        """Whether inputs may be sounds."""
        return isinstance(self.encoder.inputs, Sounds)

    @property
    def takes_uploads(self) -> bool:
        """Whether inputs may be files."""
        return self.takes_pictures or self.takes_sounds

    @property
    def how_to_give(self) -> str:
        """How an input is given, for sentences."""
        ways = (
            ("write something there", self.takes_words),
            ("choose a photo", self.takes_pictures),
            ("choose a sound", self.takes_sounds),
        )
        return " or ".join(way for way, possible in ways if possible)

    def samples(self, photos: Iterable[str]) -> dict[str, Any]:
        """Return inputs to try, by name: photos of these names, or hums, if what they come with is there."""
        from cocoax.data import collage, photo

        if isinstance(self.encoder.inputs, Sounds):
            return hums(self.encoder.inputs.rate)
        if not self.takes_pictures:
            return {}
        with suppress(ImportError):
            return {name: collage() if name == "collage" else photo(name) for name in photos}
        return {}

    def sample_rows(self) -> list[list[float]]:
        """Return rows to try: of the background, spread over it, unless rows are preprocessed, which hides what was given."""
        rows = self.encoder.inputs
        if not isinstance(rows, Rows) or rows.background is None or rows.preprocess is not None:
            return []
        places = torch.linspace(0, len(rows.background) - 1, min(3, len(rows.background))).long()
        found: list[list[float]] = rows.background[places].tolist()
        return found

    @contextmanager
    def networks(self) -> Iterator[None]:
        """Hold all networks for a while."""
        with self._images, self._texts:
            yield

    @property
    def most(self) -> int:
        """The largest number of samples of a run, unless more are asked for."""
        return self.method.samples if self.method.tolerance is None else min(self.method.max_samples, MAX_SAMPLES)

    def warm_up(self) -> None:
        """Encode a few masked copies of a picture, so that the first visitor does not wait for what is prepared once."""
        with suppress(Exception), self._images:  # visitors are told what does not work
            Rise(samples=10, baseline=self.method.baseline).run(self.encoder, noise(224, 224), progress=False)

    def read(self, path: Path, area: int) -> Any:
        """Return an uploaded picture, reduced, or a sound; of its path only the name is kept."""
        with self._files:
            sounds = self.encoder.inputs
            upload: Any = Clip(read_file(path, sounds.longest)) if isinstance(sounds, Sounds) else open_image(path, area)
        upload.filename = path.name
        return upload

    def explicand(self, upload: Any) -> Explicand:
        """Return an upload ready to be explained."""
        return self.encoder.explicand(upload)

    def answer_once(self, given: Any, question: Question) -> Answer:
        """Answer a question about an input whose run is kept on disk."""
        return ask(self.encoder, given, question, self.method, progress=False)[0]

    # --- the photo and its run ----------------------------------------------------------------------------------------

    def choose(self, session: Session, photo: Image.Image, words: tuple[str, str] | None = None, choice: int = 0) -> None:
        """Take a photo, and the words of a question about it if there are any; a worker goes on with it.

        The browser counts the photos chosen in it: one that arrives after a later one is ignored.
        """
        explicand = self.encoder.explicand(photo)
        question = None if words is None else self._question(no_pictures(), *words)
        with session.lock:
            if choice < session.choice:
                return
            session.choice = choice
            session.explicand = explicand
            if question is not None:
                session.questions[0], session.pictures[0] = question, no_pictures()
            self._restart(session)
            prepared = self._prepared.get(id(photo)) if session.baseline is None else None
            session.run = None if prepared is None else prepared[1]
        if prepared is not None:
            self.answer(session)
            with session.lock:
                if session.run is prepared[1] and not self._is_short(session):
                    session.progress = self._progress(session, running=False)

    def prepare(self, photo: Image.Image, words: tuple[str, str] | None, stop: Event) -> None:
        """Look at a photo before visitors do; they see all of its run at once."""
        session = Session()
        self.choose(session, photo, words)
        for _ in self.sample(session):
            if stop.is_set():
                return
        if session.run is not None:
            self._prepared[id(photo)] = photo, session.run

    def set_baseline(self, session: Session, baseline: Removal) -> None:
        """Replace removed parts by another baseline; the run starts again."""
        with session.lock:
            if session.baseline != baseline:
                session.baseline = baseline
                if session.explicand is not None:
                    self._restart(session)

    def _restart(self, session: Session) -> None:
        session.run, session.answers = None, [None] * PANELS
        session.goal, session.stopped = 0, False
        session.changes += 1
        session.progress = Progress(0, self.most, tolerance=self.method.tolerance)

    def stop(self, session: Session) -> None:
        """End the run; its samples stay."""
        with session.lock:
            session.goal, session.stopped = 0, True

    def more(self, session: Session) -> None:
        """Ask for more samples."""
        with session.lock:
            samples = 0 if session.run is None else len(session.run)
            session.goal = min(samples + MORE_SAMPLES, MAX_SAMPLES)

    def sample(self, session: Session) -> Iterator[None]:
        """Extend the run of a session while it is short of samples, a few masked copies at a time; yields after each few.

        A session has one worker at a time; a second one returns at once, as the first notices another photo or baseline.
        """
        me = object()
        with session.lock:
            if session.worker is not None or not self._is_short(session):
                return
            session.worker = me
            session.progress = self._progress(session)
        try:
            yield
            yield from self._turns(session)
        finally:
            with session.lock:
                if session.worker in (me, None):
                    session.worker = None
                    session.progress = session.progress and self._progress(session, running=False)
        yield

    def _turns(self, session: Session) -> Iterator[None]:
        run = session.run
        began, had = time.monotonic(), 0 if run is None else len(run)
        answered, pace = had, TURN_SECONDS / MIN_CHUNK
        while True:
            with self._images:
                with session.lock:
                    if not self._is_short(session):
                        session.worker = None  # here, so that a photo that is chosen now gets another worker
                        break
                    explicand, baseline, run = session.explicand, session.baseline, session.run
                    goal = max(session.goal, self.most)
                assert explicand is not None
                if run is None:
                    began, had, answered = time.monotonic(), 0, 0
                    longer = self._started(explicand, baseline)
                else:
                    copies = max(MIN_CHUNK, min(int(TURN_SECONDS / max(pace, 1e-6)), MAX_CHUNK))
                    longer = self._extended(run, min(copies, goal - len(run)))
            with session.lock:
                if session.explicand is not explicand or session.baseline is not baseline:
                    continue
                session.run = run = longer
            if len(run) >= min(ANSWER_EVERY * answered, goal):
                self.answer(session)
                answered = len(run)
            pace = (time.monotonic() - began) / (len(run) - had)
            session.progress = self._progress(session, pace)
            yield
        if run is not None and len(run) > answered:
            self.answer(session)

    def _started(self, explicand: Explicand, baseline: Removal | None) -> Run:
        """Return the first samples of a run."""
        samples = min(MIN_CHUNK, self.most)
        method = replace(self.method, samples=samples, tolerance=None, baseline=baseline or self.method.baseline)
        return method.run(self.encoder, explicand, progress=False)

    def _extended(self, run: Run, samples: int) -> Run:
        """Return a longer copy of a run, which others may read meanwhile."""
        longer = replace(run).extend(self.encoder, samples, progress=False)
        assert isinstance(longer.method, Rise)
        return replace(longer, method=replace(longer.method, samples=len(longer)))

    def _is_short(self, session: Session) -> bool:
        """Whether the run has fewer samples than were asked for, or than the answers need."""
        if session.explicand is None:
            return False
        samples = 0 if session.run is None else len(session.run)
        return samples < session.goal or (samples < self.most and not session.stopped and not self._is_known(session))

    def _is_known(self, session: Session) -> bool:
        """Whether the answers have the relative error that is wanted, or less."""
        if self.method.tolerance is None or session.run is None or len(session.run) < self.method.samples:
            return False
        return session.error is not None and session.error <= self.method.tolerance

    def _progress(self, session: Session, pace: float | None = None, running: bool = True) -> Progress:
        """Return the state of the run; ``pace`` is the seconds for a masked copy."""
        samples = 0 if session.run is None else len(session.run)
        error, tolerance = session.error, self.method.tolerance
        if 0 < samples <= session.goal:
            goal, tolerance = session.goal, None
        elif self._is_known(session):
            goal = samples
        elif tolerance is None or error is None:
            goal = self.most
        else:
            goal = max(samples, min(self.method.expected(samples, error), self.most))
        return Progress(samples, goal, None if pace is None else pace * (goal - samples), running, tolerance)

    # --- questions ----------------------------------------------------------------------------------------------------

    def ask(self, session: Session, panel: int, like: str, unlike: str) -> None:
        """Answer a question in words (several captions are separated by " / ") and the pictures of its panel."""
        question = self._question(session.pictures[panel], like, unlike)
        with session.lock:
            session.questions[panel] = question
            session.changes += 1
        self.answer(session, panel)

    def _question(self, pictures: SidePictures, like: str, unlike: str) -> Question:
        """Return a question in words and pictures; raise if it cannot be asked."""
        question = Question(Side(captions(like), pictures["like"]), Side(captions(unlike), pictures["unlike"]))
        if (question.like.captions or question.unlike.captions) and not self.takes_words:
            raise ValueError(f"The encoder {self.encoder.name!r} knows no words; drop pictures instead.")
        with self._networks(question):
            question.target(self.encoder)  # so that a bad question is told now, whether or not there is a run
        return question

    def remove_question(self, session: Session, panel: int) -> None:
        """Remove a question with its answer and pictures."""
        with session.lock:
            session.questions[panel] = session.answers[panel] = None
            session.pictures[panel] = no_pictures()
            session.changes += 1

    def answer(self, session: Session, panel: int | None = None) -> None:
        """Answer the questions of a session, or one of them, from the run that there is.

        Without any, the first panel asks what makes the photo similar to itself. If there is another run or question when an
        answer is ready, it is dropped; they have brought one of their own.
        """
        with session.lock:
            run = session.run
            if run is not None and session.questions[0] is None:
                session.questions[0] = Question()
        if run is None:
            return
        for index in range(PANELS) if panel is None else (panel,):
            question = session.questions[index]
            if question is None:
                continue
            with self._networks(question):
                (answer,) = ask(self.encoder, run, [question])
            with session.lock:
                if session.run is run and session.questions[index] is question:
                    session.answers[index] = answer

    def curves(self, session: Session) -> list[tuple[str, list[dict[str, Curve]]]]:
        """Return the name of each answer with the insertion and deletion curves of its map and of pixels in random order."""
        run = session.run
        if run is None:
            raise ValueError("There is no run yet; choose a photo first.")
        measured: list[tuple[str, list[dict[str, Curve]]]] = []
        for answer in session.answers:
            if answer is None:
                continue
            random = torch.rand(answer.attribution.values.shape, generator=torch.Generator().manual_seed(0))
            maps: list[Attribution | torch.Tensor] = [answer.attribution, random]
            with self._networks(answer.question):
                target = answer.question.target(self.encoder)
            with self._images:
                both = curves(self.encoder, run.explicand, maps, target, CURVE_STEPS, run.method.baseline, progress=False)
            measured.append((answer.name, both))
        return measured

    def _networks(self, question: Question) -> ExitStack:
        """Return the locks of the networks that a question needs, held."""
        held = ExitStack()
        if question.like.images or question.unlike.images:
            held.enter_context(self._images)
        held.enter_context(self._texts)
        return held


def captions(text: str) -> list[str]:
    """Return the captions in a text: one per line, or separated by " / "."""
    return [part.strip() for line in text.splitlines() for part in line.split(SEPARATOR) if part.strip(" /")]

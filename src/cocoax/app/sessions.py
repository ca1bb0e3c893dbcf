"""Sessions: what the page holds for each browser tab, and for how many of them.

Gradio's own ``gr.State`` drops the session that was used longest ago, even while somebody looks at its photo. Here a session
keeps its photo until another one needs the room and the tab is closed or has been silent for long.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from PIL import Image

from cocoax import Answer, Explicand, Question, Run
from cocoax.app.drawing import Look
from cocoax.masking import Removal
from cocoax.methods.rise import relative_error

PANELS = 2  # questions side by side
SILENT_SECONDS = (
    30 * 60
)  # without an event, after which an open tab may lose its place, and the photo of a closed one is dropped
MAX_EMPTY = 1000  # sessions without a photo that are remembered


@dataclass(frozen=True)
class Progress:
    """The state of a run.

    Attributes:
        samples: masked copies encoded.
        goal: how many there will be.
        seconds: the time that is left, at the pace so far.
        running: whether more are being encoded.
        tolerance: the relative error of the answers at which the run ends; None for a number of samples.

    """

    samples: int
    goal: int
    seconds: float | None = None
    running: bool = True
    tolerance: float | None = None


SidePictures = dict[str, list[Image.Image]]


def no_pictures() -> SidePictures:
    """Return the reference pictures on the two sides of a new question: none."""
    return {"like": [], "unlike": []}


@dataclass(eq=False)
class Session:
    """The photo, run and questions of one browser tab; ``lock`` is held while they are exchanged."""

    explicand: Explicand | None = None
    baseline: Removal | None = None  # replaces removed parts of the photo; None for that of the page's method
    run: Run | None = None
    progress: Progress | None = None
    goal: int = 0  # samples that were asked for explicitly
    stopped: bool = False
    worker: object | None = None  # the event that extends the run; there is one at a time
    choice: int = 0  # the browser counts the photos chosen in it
    changes: int = 0  # of photo, baseline and questions
    look: Look = field(default_factory=Look)
    questions: list[Question | None] = field(default_factory=lambda: [None] * PANELS)
    answers: list[Answer | None] = field(default_factory=lambda: [None] * PANELS)
    pictures: list[SidePictures] = field(default_factory=lambda: [no_pictures() for _ in range(PANELS)])
    sides: dict[str, Image.Image] = field(default_factory=dict)  # pictures of the other views, by view and side
    seen: float = 0.0  # the time of its last event
    connections: int = 0  # heartbeats of its tab
    has_place: bool = False
    expired: bool = False  # its photo was dropped, which its visitor is told
    lock: Lock = field(default_factory=Lock)

    @property
    def error(self) -> float | None:
        """The largest relative error of the answers."""
        return max((relative_error(answer.attribution) for answer in self.answers if answer is not None), default=None)

    @property
    def sees_nothing(self) -> bool:
        """Whether there are answers, and none of their maps has more than rounding errors in it."""
        maps = [answer.attribution for answer in self.answers if answer is not None]
        return bool(maps) and all(each.is_nothing for each in maps)

    @property
    def running(self) -> bool:
        """Whether the run is being extended, or waits for that."""
        return self.progress is not None and self.progress.running

    def drop(self) -> None:
        """Drop photo, run, answers and pictures; a worker ends when it finds no photo."""
        with self.lock:
            self.expired, self.has_place = self.explicand is not None, False
            self.explicand = self.run = self.progress = None
            self.answers = [None] * PANELS
            self.pictures = [no_pictures() for _ in range(PANELS)]
            self.sides = {}


class Sessions:
    """The sessions of a page, by the key that Gradio gives to a browser tab.

    A session takes one of ``kept`` places with its first photo or reference picture. When all are taken, the next visitor
    gets the place of a tab that is closed, or never was open (a script), the one whose last event is longest ago first; then
    that of an open tab without an event for half an hour; otherwise the visitor is told to try again.

    Args:
        kept: places.
        clock: the time in seconds.

    """

    def __init__(self, kept: int, clock: Callable[[], float] = time.monotonic) -> None:
        if kept < 1:
            raise ValueError(f"The 'kept' parameter must be at least 1. Got {kept} instead.")
        self.kept = kept
        self.clock = clock
        self._lock = Lock()
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def get(self, key: str) -> Session:
        """Return the session of a key, new or not, which has an event now."""
        with self._lock:
            session = self._sessions.setdefault(key, Session())
            self._sessions.move_to_end(key)
            session.seen = self.clock()
            empty = [key for key, other in self._sessions.items() if not (other.has_place or other.connections)]
            for oldest in empty[:-MAX_EMPTY]:
                del self._sessions[oldest]
            return session

    def take_place(self, session: Session) -> None:
        """Give a place to a session that has none; raise if all are in use."""
        with self._lock:
            if session.has_place:
                return
            placed = [other for other in self._sessions.values() if other.has_place]
            if len(placed) >= self.kept:
                idle = [other for other in placed if not other.connections or self._silence(other) > SILENT_SECONDS]
                if not idle:
                    raise ValueError(f"All {self.kept} places on this page are taken; try again in a minute.")
                max(idle, key=lambda other: (not other.connections, self._silence(other))).drop()
            session.has_place, session.expired = True, False

    def drop_closed(self) -> None:
        """Drop the photos of tabs that were closed long ago."""
        with self._lock:
            for session in self._sessions.values():
                if session.has_place and not session.connections and self._silence(session) > SILENT_SECONDS:
                    session.drop()

    @contextmanager
    def connected(self, key: str) -> Iterator[None]:
        """Count a connection that is open as long as the browser tab is."""
        session = self.get(key)
        session.connections += 1
        try:
            yield
        finally:
            session.connections -= 1
            session.seen = self.clock()

    def _silence(self, session: Session) -> float:
        """Return the seconds since the last event of a session."""
        return self.clock() - session.seen

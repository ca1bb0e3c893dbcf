"""Who is on the page: visitors with a run of their own, and the line of those who wait for one."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition

from PIL import Image

from cocoax import Answer, Explicand, Question, Run
from cocoax.app.drawing import View
from cocoax.masking import Removal
from cocoax.methods.rise import relative_error

PANELS = 2  # questions side by side
SILENCE = 30 * 60  # seconds without a word after which a visitor's place goes to who waits for one
REMEMBERED = 1000  # keys of visitors who had a photo and left
LINE = 64  # visitors who may wait; also those without a photo who are remembered


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes:
        samples: masked copies encoded.
        goal: how many there will be.
        seconds: what is left, at the pace so far.
        running: whether it goes on.
        place: in the line, 1 for who is next; 0 once the photo is looked at.
        tolerance: the relative error at which the answers are known and it stops by itself; None for a number of copies.

    """

    samples: int
    goal: int
    seconds: float | None = None
    running: bool = True
    place: int = 0
    tolerance: float | None = None


def no_pictures() -> dict[str, list[Image.Image]]:
    """Return the pictures dropped on the two sides of a new question: none."""
    return {"like": [], "unlike": []}


@dataclass(eq=False)
class Visitor:
    """One visitor's photo, run and questions."""

    explicand: Explicand | None = None
    run: Run | None = None
    progress: Progress | None = None
    goal: int = 0
    baseline: Removal | None = None  # what replaces removed parts of the photo; None for what the studio's method says
    job: int = 0  # whoever samples for this visitor stops when this has moved on
    stopping: bool = False
    choice: int = 0  # the number that the browser gave to the photo; the browser counts them
    changes: int = 0  # of photo and questions; what was measured before the last of them is of no use
    view: View = field(default_factory=View)
    point: tuple[float, float] | None = None  # of the maps, whose values are read out
    questions: list[Question | None] = field(default_factory=lambda: [None] * PANELS)
    answers: list[Answer | None] = field(default_factory=lambda: [None] * PANELS)
    pictures: list[dict[str, list[Image.Image]]] = field(default_factory=lambda: [no_pictures() for _ in range(PANELS)])
    seen: float = 0.0  # when the visitor, or the visitor's run, last did something
    inside: bool = False  # whether one of the places is theirs
    away_too_long: bool = False  # whether photo and run are gone, and who had them is to be told
    gone: bool = False

    @property
    def error(self) -> float | None:
        """The largest relative error among the answers."""
        return max((relative_error(answer.attribution) for answer in self.answers if answer is not None), default=None)

    @property
    def sees_nothing(self) -> bool:
        """Whether there are answers, and none of them shows more than rounding."""
        maps = [answer.attribution for answer in self.answers if answer is not None]
        return bool(maps) and all(each.is_nothing for each in maps)

    @property
    def running(self) -> bool:
        """Whether a run is under way, or waits for its turn."""
        return self.progress is not None and self.progress.running

    def wants(self, job: int) -> bool:
        """Return whether this job is still to be done."""
        return self.job == job and not self.stopping

    def forget(self) -> None:
        """Drop photo, run and answers, and end the run."""
        self.job += 1
        self.explicand = self.run = self.progress = None
        self.answers = [None] * PANELS


class Visitors:
    """Everybody on the page: those who have a place, up to ``kept``, and the line of those who wait for one.

    A place is taken with the first photo and kept until its owner leaves. Only who was silent for ``SILENCE`` seconds loses
    it earlier, and only to somebody who waits.

    Args:
        kept: places.
        clock: tells the time in seconds.

    """

    def __init__(self, kept: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.kept = kept
        self.clock = clock
        self.door = Condition()  # held by whoever changes a visitor; notified when the line moves
        self._known: OrderedDict[str, Visitor] = OrderedDict()
        self._line: list[Visitor] = []
        self._lost: OrderedDict[str, None] = OrderedDict()  # keys of visitors whose photo was forgotten; the last few

    def visitor(self, key: str) -> Visitor:
        """Return the visitor of this key, new or not.

        Visitors who have no photo yet are remembered too, but only the last few of them: they have little to lose.
        """
        with self.door:
            visitor = self._known.setdefault(key, Visitor(away_too_long=key in self._lost))
            visitor.seen = self.clock()
            self._known.move_to_end(key)
            lookers_on = [key for key, one in self._known.items() if not one.inside and one not in self._line]
            if len(lookers_on) > LINE:
                self._forget(lookers_on[0])
            return visitor

    def leave(self, key: str) -> None:
        """Drop all that belongs to a visitor who closed the page; their place goes to the next in the line."""
        with self.door:
            if key in self._known:
                self.step_out(self._forget(key))

    def _forget(self, key: str) -> Visitor:
        """Drop all that belongs to a visitor, and end their run; who comes back under this key is told that it is gone.

        A browser does so whose connection broke, since that looks like a page that was closed.
        """
        visitor = self._known.pop(key)
        if visitor.explicand is not None:
            self._lost[key] = None
            if len(self._lost) > REMEMBERED:
                self._lost.popitem(last=False)
        visitor.gone, visitor.inside = True, False
        visitor.forget()
        return visitor

    def step_out(self, visitor: Visitor) -> None:
        """Take a visitor out of the line; who has a place keeps it."""
        with self.door:
            if visitor in self._line:
                self._line.remove(visitor)
            self._move_up()
            self.door.notify_all()

    def place(self, visitor: Visitor) -> int:
        """Return the visitor's place in the line, which they join if need be; 0 for who has a place on the page.

        Raise if the line is too long.
        """
        with self.door:
            visitor.seen = self.clock()
            if not (visitor.inside or visitor.gone or visitor in self._line):
                if len(self._line) >= LINE:
                    raise ValueError(f"All {self.kept} places are taken and {LINE} visitors wait; try again in a while.")
                self._line.append(visitor)
            self._move_up()
            return self._line.index(visitor) + 1 if visitor in self._line else 0

    def wait(self, visitor: Visitor, job: int, place: int, seconds: float = 5) -> None:
        """Wait until the visitor is at another place in the line or wants something else, or some seconds have passed."""
        with self.door:
            self.door.wait_for(lambda: not visitor.wants(job) or self.place(visitor) != place, seconds)

    def _move_up(self) -> None:
        """Give places that are free, or whose owners were silent for long, to the first in the line."""
        inside = [visitor for visitor in self._known.values() if visitor.inside]  # longest silent first, more or less
        silent = [visitor for visitor in inside if self.clock() - visitor.seen > SILENCE]
        waiting = len(self._line)
        free = self.kept - len(inside)
        while self._line and (free > 0 or silent):
            if free > 0:
                free -= 1
            else:
                away = min(silent, key=lambda visitor: visitor.seen)
                silent.remove(away)
                away.inside, away.away_too_long = False, True
                away.forget()
            self._line.pop(0).inside = True
        if len(self._line) < waiting:
            self.door.notify_all()

"""Places on the page, and the line of those who wait for one."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import cocoax
from cocoax.app.studio import CHUNK, Studio
from cocoax.app.visitors import LINE, SILENCE, Progress, Visitor, Visitors
from tests.app.colours import encoder, flag


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def studio_for(kept: int, clock: Clock | None = None) -> Studio:
    studio = Studio(encoder(), cocoax.Rise(samples=2 * CHUNK, grid=4), kept)
    if clock is not None:
        studio.visitors.clock = clock
    return studio


def begin(studio: Studio, key: str) -> tuple[Visitor, Iterator[Progress]]:
    visitor = studio.visitor(key)
    studio.choose(visitor, flag())
    return visitor, studio.sample(visitor)


def test_visitor__keeps_the_run_while_others_come() -> None:
    studio = studio_for(2)
    first, run = begin(studio, "a")
    next(run), next(run)
    for key in "bcd":
        studio.choose(studio.visitor(key), flag())
        next(studio.sample(studio.visitor(key)))
    assert list(run)[-1] == Progress(2 * CHUNK, 2 * CHUNK, running=False)
    assert studio.visitor("a") is first
    assert first.answers[0] is not None


def test_line__shows_its_places_and_moves_up() -> None:
    studio = studio_for(1)
    _, run = begin(studio, "a")
    next(run)
    (second, wait), (third, longer) = begin(studio, "b"), begin(studio, "c")
    assert next(wait) == Progress(0, 2 * CHUNK, place=1)
    assert next(longer) == Progress(0, 2 * CHUNK, place=2)
    assert (second.inside, third.inside) == (False, False)
    studio.leave("a")
    assert next(wait) == Progress(0, 2 * CHUNK)
    assert next(longer) == Progress(0, 2 * CHUNK, place=1)
    assert list(wait)[-1].samples == 2 * CHUNK
    assert not third.inside  # the second has finished, and keeps the place
    studio.leave("b")
    assert list(longer)[-1].samples == 2 * CHUNK


def test_line__waits_without_anybody_asking() -> None:
    studio = studio_for(1)
    studio.visitors.place(studio.visitor("a"))
    visitor, run = begin(studio, "b")
    assert next(run).place == 1
    told: list[Progress] = []
    thread = threading.Thread(target=lambda: told.extend(run))
    thread.start()
    studio.leave("a")
    thread.join(20)
    assert not thread.is_alive()
    assert told[-1].samples == 2 * CHUNK
    assert visitor.inside


@pytest.mark.parametrize("how", ["stop", "leave", "close"])
def test_line__can_be_left(how: str) -> None:
    studio = studio_for(1)
    studio.visitors.place(studio.visitor("a"))
    visitor, wait = begin(studio, "b")
    _, longer = begin(studio, "c")
    next(wait), next(longer)
    if how == "stop":
        studio.stop(visitor)
        assert list(wait) == [Progress(0, 2 * CHUNK), Progress(0, 2 * CHUNK, running=False)]
    elif how == "leave":
        studio.leave("b")
        assert list(wait) == []
    else:
        wait.close()  # type: ignore[attr-defined]
        assert visitor.progress == Progress(0, 2 * CHUNK, running=False)
    assert next(longer).place == 1


def test_line__another_photo_keeps_the_place() -> None:
    studio = studio_for(1)
    studio.visitors.place(studio.visitor("a"))
    visitor, wait = begin(studio, "b")
    next(wait)
    _, longer = begin(studio, "c")
    assert next(longer).place == 2
    studio.choose(visitor, flag("blue", "red"))
    assert next(studio.sample(visitor)).place == 1
    assert list(wait) == []


def test_line__who_stopped_is_not_put_back_by_an_earlier_choice() -> None:
    studio = studio_for(1)
    studio.visitors.place(studio.visitor("a"))
    visitor, earlier = begin(studio, "b")
    next(earlier)
    studio.choose(visitor, flag("blue", "red"))
    later = studio.sample(visitor)
    next(later)
    studio.stop(visitor)
    list(later)
    assert list(earlier) == []
    assert studio.visitors.place(studio.visitor("c")) == 1


def test_line__has_an_end() -> None:
    visitors = Visitors(1)
    for number in range(1 + LINE):
        assert visitors.place(visitors.visitor(str(number))) == number
    last = visitors.visitor("last")
    with pytest.raises(ValueError, match=f"All 1 places are taken and {LINE} visitors wait; try again in a while"):
        visitors.place(last)


def test_question__asked_in_the_line_is_answered_after_it() -> None:
    studio = studio_for(1)
    studio.visitors.place(studio.visitor("a"))
    visitor, run = begin(studio, "b")
    next(run)
    studio.ask(visitor, 0, "red", "blue")
    assert visitor.answers[0] is None
    studio.leave("a")
    list(run)
    answer = visitor.answers[0]
    assert answer is not None
    assert answer.name == "red rather than blue"


def test_silent_visitor__loses_the_place_only_to_who_waits(clock: Clock) -> None:
    studio = studio_for(1, clock)
    first, run = begin(studio, "a")
    list(run)
    clock.now += 10 * SILENCE
    assert studio.visitor("a").run is not None  # nobody waited
    clock.now += SILENCE
    second, wait = begin(studio, "b")
    assert next(wait).place == 1
    clock.now += 1
    assert list(wait)[-1].samples == 2 * CHUNK
    assert first.away_too_long
    assert first.run is None
    assert studio.visitor("a") is first
    assert next(begin(studio, "a")[1]).place == 1
    assert not first.away_too_long
    assert second.inside


def test_run__refreshes_the_place(clock: Clock) -> None:
    studio = studio_for(1, clock)
    _, run = begin(studio, "a")
    next(run)
    _, wait = begin(studio, "b")
    assert next(wait).place == 1
    clock.now += SILENCE - 1
    next(run)  # a few more masked copies were seen
    clock.now += SILENCE - 1
    next(run)
    studio.visitors.place(studio.visitor("b"))
    assert list(run)[-1].samples == 2 * CHUNK


def test_lookers_on__are_bounded_and_take_no_place() -> None:
    visitors = Visitors(1)
    first = visitors.visitor("first")
    for number in range(LINE):
        visitors.visitor(str(number))
    assert first.gone
    assert visitors.visitor("0").gone is False
    assert visitors.place(visitors.visitor("late")) == 0
    assert visitors.place(first) == 0  # who is gone does not come back
    assert not first.inside


def test_lookers_on__who_is_forgotten_between_choice_and_run_takes_no_place() -> None:
    studio = studio_for(1)
    first = studio.visitor("first")
    studio.choose(first, flag("red", "green"))
    run = studio.sample(first)
    for number in range(LINE):
        studio.visitor(str(number))
    with pytest.raises(ValueError, match="There is no photo yet"):
        next(run)
    assert first.run is None


def test_leave__who_comes_back_is_told_that_the_photo_is_gone() -> None:
    """Such as a browser whose connection broke for a moment, which looks like a page that was closed."""
    studio = studio_for(1)
    studio.visitor("looker-on")
    studio.choose(studio.visitor("a"), flag("red", "green"))
    for key in ("a", "looker-on"):
        studio.leave(key)
    assert studio.visitor("a").away_too_long
    assert not studio.visitor("looker-on").away_too_long
    studio.choose(studio.visitor("a"), flag("red", "green"))
    assert not studio.visitor("a").away_too_long


def test_twenty_visitors__lose_no_question() -> None:
    """Each chooses a photo and asks twelve questions, more visitors than places; each must be answered on its own photo."""
    studio = studio_for(4)
    colours = ("red", "green", "blue")
    lost: list[str] = []

    def visit(number: int) -> None:
        key = str(number)
        left, right = colours[number % 3], colours[(number + 1) % 3]
        studio.choose(studio.visitor(key), flag(left, right))
        for _ in studio.sample(studio.visitor(key)):
            pass
        for question in range(12):
            words = (left, right) if question % 2 else (right, left)
            visitor = studio.visitor(key)
            studio.ask(visitor, 0, *words)
            answer = visitor.answers[0]
            if answer is None or answer.name != " rather than ".join(words):
                lost.append(f"{key}: {words}")
        studio.leave(key)

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert lost == []

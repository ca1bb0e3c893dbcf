"""Places on the page: who keeps a photo, and who loses it to whom."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from cocoax.app.sessions import MAX_EMPTY, SILENT_SECONDS, Session, Sessions
from tests.app.colours import encoder, flag


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return Sessions(2, clock)


def with_photo(sessions: Sessions, key: str) -> Session:
    session = sessions.get(key)
    sessions.take_place(session)
    session.explicand = encoder().explicand(flag())
    return session


def test_places__of_open_tabs_are_kept(sessions: Sessions, clock: Clock) -> None:
    with ExitStack() as tabs:
        for key in "ab":
            tabs.enter_context(sessions.connected(key))
        kept = [with_photo(sessions, key) for key in "ab"]
        clock.now += SILENT_SECONDS - 1
        with pytest.raises(ValueError, match="All 2 places on this page are taken; try again"):
            with_photo(sessions, "c")
        assert [sessions.get(key) for key in "ab"] == kept
        assert all(session.explicand is not None for session in kept)


def test_places__of_scripts_and_closed_tabs_go_to_the_next_visitor(sessions: Sessions, clock: Clock) -> None:
    with sessions.connected("a"):
        opened = with_photo(sessions, "a")
        clock.now += 1
        for number in range(16):  # none of them has a heartbeat
            clock.now += 1
            last = with_photo(sessions, str(number))
        assert opened.explicand is not None
        assert last.explicand is not None
        assert sessions.get("14").expired
        clock.now += 1
    with_photo(sessions, "b")
    assert opened.explicand is not None  # closed, but later than the others' last event
    clock.now += 1
    with_photo(sessions, "b")
    with_photo(sessions, "c")
    assert opened.explicand is None
    assert sessions.get("a") is opened
    assert opened.expired
    assert not with_photo(sessions, "a").expired


def test_places__of_silent_tabs_go_to_who_needs_one(sessions: Sessions, clock: Clock) -> None:
    with sessions.connected("a"), sessions.connected("b"):
        first, second = (with_photo(sessions, key) for key in "ab")
        clock.now += SILENT_SECONDS + 1
        assert first.explicand is not None  # nobody needs it
        sessions.get("b")
        with_photo(sessions, "c")
    assert first.expired
    assert second.explicand is not None


def test_closed_tab__keeps_its_photo_for_a_while(sessions: Sessions, clock: Clock) -> None:
    with sessions.connected("a"):
        session = with_photo(sessions, "a")
    clock.now += SILENT_SECONDS - 1
    sessions.drop_closed()
    assert session.explicand is not None  # its connection may have been lost
    clock.now += 2
    sessions.drop_closed()
    assert session.explicand is None
    assert session.expired


def test_sessions__without_a_photo_are_bounded(sessions: Sessions) -> None:
    first = with_photo(sessions, "first")
    second = sessions.get("second")
    for number in range(MAX_EMPTY):
        sessions.get(str(number))
    assert sessions.get("first") is first
    assert sessions.get("second") is not second


def test_kept__must_be_positive() -> None:
    with pytest.raises(ValueError, match="'kept' parameter must be at least 1"):
        Sessions(0)

"""A few of the bad calls that ``make test-hard`` makes ten thousand of."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.fuzz import SECONDS, Report, attempt, calls, fuzz

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about some of the wrong things


@pytest.fixture(autouse=True)
def as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules of the fuzz draw their first weights from the global random state, an alarm watches, and some calls write."""
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGALRM)
    with torch.random.fork_rng():
        yield
    signal.signal(signal.SIGALRM, before)


def test_right_calls__work() -> None:
    """Or else what is wrong about a bad call might not be what was made wrong; two are of files that there are not."""
    report = Report()
    for call in calls():
        attempt(call, {}, report)
    assert report.failed == 0, report.causes
    assert report.outcomes["a sentence"] <= 8, report.outcomes


def test_bad_calls__end_in_sentences() -> None:
    report = fuzz(250, 12345)
    assert sum(report.outcomes.values()) == 250
    assert not report.causes, "\n".join(f"{cause}: {call}" for cause, call in report.examples.items())
    assert report.outcomes["a sentence"] > 100
    assert report.slowest[0] < SECONDS

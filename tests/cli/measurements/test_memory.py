"""Memory: measured in a process of its own, without what a run keeps."""

from __future__ import annotations

import pytest

from cocoax.cli.measurements import memory


def test_peak_of__a_process_that_has_loaded_torch() -> None:
    assert 10**7 < memory.peak_of(10) < 10**10


def test_peak_memory__what_a_run_keeps_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "peak_of", lambda samples: 10**8 + samples * (768 * 4 + 100))
    figure = memory.peak_memory()
    assert figure.values == [(10**8 + 2_000_000) / (10**8 + 100_000)]
    assert figure.details["bytes_per_further_sample"] == 100
    assert (figure.goal, figure.reached) == ("≤ 1.1", True)

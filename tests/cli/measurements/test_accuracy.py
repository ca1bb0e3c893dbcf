"""Accuracy: sample efficiency, its plot, and coverage."""

from __future__ import annotations

from pathlib import Path

import matplotlib

from cocoax.cli.measurements.accuracy import coverage, plot_errors, sample_efficiency
from tests.cli.measurements.support import small_subject


def test_sample_efficiency__and_its_plot(tmp_path: Path) -> None:
    matplotlib.use("Agg")
    measurements = sample_efficiency([small_subject()], quick=True)
    assert [figure.name.split(": ")[1] for figure in measurements] == ["label-free", "corpus", "COCOA"]
    assert [figure.goal for figure in measurements] == ["≥ 50", "≥ 15", "≥ 4"]
    # The label-free score of this network hardly varies, which is where the paper's estimator is noisy.
    assert measurements[0].median > 5
    assert plot_errors(measurements, tmp_path / "new" / "bench.png").stat().st_size > 5_000


def test_coverage__is_near_95_percent() -> None:
    measurements = coverage(seeds=6, sizes=(40, 300))
    assert [figure.name.split(", ")[1] for figure in measurements] == ["40 samples (%)", "300 samples (%)"]
    for figure in measurements:
        assert figure.details == {
            "seeds": 6,
            "targets": dict(zip(("label-free", "corpus", "COCOA"), figure.values, strict=True)),
        }
        assert 88 <= figure.median <= 99.5
        assert figure.reached == (93 <= figure.median <= 97)

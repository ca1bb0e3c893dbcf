from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import matplotlib
import pytest
import torch

import cocoax
from cocoax.commands import bench
from tests.conftest import SmallNet


def subject() -> bench.Subject:
    encoder = cocoax.Encoder(SmallNet().eval(), cocoax.ImagePreprocess(resize=16, crop=16), name="small")
    return bench.Subject("small", encoder, 1.1, 4, 40)


@pytest.mark.parametrize(
    "measure",
    [
        bench.overhead,
        bench.published_pattern,
        bench.integrated_gradients,
        bench.captum_gradients,
        bench.captum_kernel_shap,
    ],
)
def test_measure__gives_one_positive_ratio_per_repetition(measure: object) -> None:
    with torch.random.fork_rng():
        figures = measure(subject(), 2)  # type: ignore[operator]
    for figure in figures:
        assert len(figure.values) == 2
        assert min(figure.values) > 0
        assert figure.goal[0] in "≤≥"


def test_sample_efficiency__and_what_is_written(tmp_path: Path) -> None:
    matplotlib.use("Agg")
    figures = bench.sample_efficiency([subject()], quick=True)
    assert [figure.name.split(": ")[1] for figure in figures] == ["label-free", "corpus", "COCOA"]
    assert figures[0].median > 5  # the label-free score of this network hardly varies, which is where the paper's is noisy
    written = json.loads(bench.write_json(tmp_path / "bench.json", figures).read_text())
    assert written["machine"]["threads"] == torch.get_num_threads()
    assert [row["median"] for row in written["figures"]] == [figure.median for figure in figures]
    assert bench.plot_errors(figures, tmp_path / "bench.png").stat().st_size > 5_000


def test_coverage__is_near_95_percent() -> None:
    figures = bench.coverage(seeds=6, sizes=(40, 300))
    assert [figure.name.split(", ")[1] for figure in figures] == ["40 samples (%)", "300 samples (%)"]
    for figure in figures:
        assert list(figure.details["targets"]) == list(bench.TARGETS)
        assert 88 <= figure.median <= 99.5


def test_ratios__pairs_what_was_timed_in_turns_and_drops_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    times = iter([9.0, 1.0, 1.0, 2.0, 2.0, 1.0])

    def seconds(work: Callable[[], object]) -> float:
        work()
        return next(times)

    monkeypatch.setattr(bench, "seconds", seconds)

    assert bench.ratios(lambda: order.append("above"), lambda: order.append("below"), 2) == [2.0, 0.5]
    assert order == ["below", "above"] * 3

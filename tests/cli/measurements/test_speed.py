"""Speed: what is timed against what, and how ratios are taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cocoax.cli.measurements import speed
from cocoax.cli.measurements.measurement import Measurement
from cocoax.cli.measurements.subjects import Subject
from tests.cli.measurements.support import small_subject


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (speed.overhead, [("run answering 8 targets / bare encoder", "≤ 1.1", False)]),
        (speed.published_pattern, [("published call pattern, 4 targets / ours", "≥ 4.5", False)]),
        (speed.integrated_gradients, [("IG, 50 steps, 4 targets / one forward+backward", "≤ 2.3", False)]),
        (
            speed.captum_gradients,
            [("Captum IG, 4 targets / ours", "≥ 1.8", True), ("Captum GradientSHAP, 4 targets / ours", "≥ 1.8", True)],
        ),
        (
            speed.captum_kernel_shap,
            [
                ("Captum KernelShap, 64 features, 1 target / ours", "≥ 1.1", True),
                ("Captum KernelShap, 64 features, 4 targets / ours", "≥ 4", False),
            ],
        ),
    ],
)
def test_measure__both_sides_run_and_the_median_is_compared_with_the_goal(
    measure: Callable[[Subject, int], list[Measurement]],
    expected: list[tuple[str, str, bool]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ratios(above: Callable[[], object], below: Callable[[], object], repeats: int) -> list[float]:
        below()
        above()
        return [2.0, 5.0, 3.0][:repeats]

    monkeypatch.setattr(speed, "ratios", ratios)
    with torch.random.fork_rng():
        measurements = measure(small_subject(), 3)
    assert [(figure.name, figure.goal, figure.reached) for figure in measurements] == expected
    for figure in measurements:
        assert (figure.subject, figure.values, figure.median) == ("small", [2.0, 5.0, 3.0], 3.0)


def test_ratios__pairs_what_was_timed_in_turns_and_drops_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    times = iter([9.0, 1.0, 1.0, 2.0, 2.0, 1.0])

    def seconds(work: Callable[[], object]) -> float:
        work()
        return next(times)

    monkeypatch.setattr(speed, "seconds", seconds)

    assert speed.ratios(lambda: order.append("above"), lambda: order.append("below"), 2) == [2.0, 0.5]
    assert order == ["below", "above"] * 3


def test_best__is_the_fastest_size_after_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    times, tried = {4: 3.0, 16: 1.0, 50: 2.0}, []

    def seconds(work: Callable[[], object]) -> float:
        work()
        return times[tried[-1]]

    monkeypatch.setattr(speed, "seconds", seconds)
    assert speed._best(tried.append, (4, 16, 50)) == 16
    assert tried == [4, 4, 16, 50]


def test_new_target__one_time_per_target(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_run = speed._made_up_run
    monkeypatch.setattr(speed, "_made_up_run", lambda _samples, *others: made_up_run(50, *others))
    monkeypatch.setattr(speed, "seconds", lambda work: work() or 0.03)
    figure = speed.new_target(2)
    assert figure.values == pytest.approx([30.0] * 3)
    assert (figure.goal, figure.reached) == ("≤ 50", True)

"""Speed, memory and accuracy, measured: medians of repetitions, each with a goal.

Subjects are a ResNet-18 for 32x32 images (512 dimensions, random weights: speed does not depend on them) and the image
network of the starter encoder at 224x224 (1280 dimensions). Nothing beyond pip packages is needed.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bench.accuracy import coverage, plot_errors, sample_efficiency
from benchmarks.bench.measurement import Measurement, write_json
from benchmarks.bench.memory import peak_memory
from benchmarks.bench.speed import (
    captum_gradients,
    captum_kernel_shap,
    integrated_gradients,
    new_target,
    overhead,
    published_pattern,
)
from benchmarks.bench.subjects import subjects

__all__ = ["Measurement", "measure_everything", "plot_errors", "write_json"]


def measure_everything(
    quick: bool = True, repeats: int | None = None, say: Callable[[str], None] = print
) -> list[Measurement]:
    """Measure everything; ``say`` is told what is going on."""
    repeats = (3 if quick else 5) if repeats is None else repeats
    measurements: list[Measurement] = []
    measured = subjects(quick)
    for subject in measured:
        for measure in (overhead, published_pattern, integrated_gradients, captum_gradients, captum_kernel_shap):
            say(f"{subject.name}: {measure.__name__.replace('_', ' ')}")
            measurements += measure(subject, repeats)
    say("a new target on a run of 20 000 samples")
    measurements.append(new_target(repeats))
    say("peak memory of 1000 and of 20 000 samples")
    measurements.append(peak_memory())
    say("samples needed for equal error")
    measurements += sample_efficiency(measured, quick)
    say("coverage of the 95 % intervals")
    measurements += coverage(60 if quick else 200)
    return measurements

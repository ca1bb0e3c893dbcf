"""Accuracy: samples needed for the same error of a map, and whether error bars hold what they promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.bench.measurement import Measurement, at_least
from benchmarks.bench.subjects import PHOTOS, Subject
from cocoax.data import photo
from cocoax.encoders import Encoder, ImagePreprocess
from cocoax.masking import GridMasks
from cocoax.methods import Rise
from cocoax.methods.rise import efficient_estimate, paper_estimate
from cocoax.store import write_figure
from cocoax.targets import contrastive_corpus_similarity, corpus_similarity, representation_similarity, score_all

TARGET_NAMES = ("label-free", "corpus", "COCOA")


def sample_efficiency(subjects: Sequence[Subject], quick: bool) -> list[Measurement]:
    """Measure how many times more samples the paper's estimator needs for the same error of the map.

    Both squared errors fall as 1/n, so the ratio of samples is that of the squared errors at equal n, measured on disjoint
    parts of a run of each against the efficient estimate from all other samples of it.
    """
    sizes = (50, 100, 250) if quick else (50, 100, 250, 500)
    measurements = []
    for subject in subjects:
        ratio: dict[str, list[float]] = {name: [] for name in TARGET_NAMES}
        errors: dict[str, dict[str, list[list[float]]]] = {}
        for name in PHOTOS[: 2 if quick else 5]:
            targets = [subject.targets(name)[index] for index in (0, 2, 3)]
            samples = 1000 if quick else 2500
            scored = {}
            for estimator in ("paper", "efficient"):
                method = Rise(samples=samples, grid=subject.grid, estimator=estimator)
                run = method.run(subject.encoder, photo(name), progress=False)
                assert isinstance(run.masks, GridMasks)
                scored[estimator] = run.masks, score_all(targets, run.representations, run.anchors[0]).double()
            squared = {
                estimator: [_squared_error(*scored[estimator], size, estimate) for size in sizes]
                for estimator, estimate in (("paper", paper_estimate), ("efficient", efficient_estimate))
            }
            for index, target in enumerate(TARGET_NAMES):
                below = max(float(squared["efficient"][-1][index]), 1e-18)
                ratio[target].append(float(squared["paper"][-1][index]) / below)
            spread = efficient_estimate(*scored["efficient"]).values.std((1, 2))
            errors[name] = {
                estimator: [(part.clamp(min=0).sqrt() / spread).tolist() for part in parts]
                for estimator, parts in squared.items()
            }
        for name, goal in zip(TARGET_NAMES, (50.0, 15.0, 4.0), strict=True):
            title = f"samples needed, paper / efficient: {name}"
            measurements.append(at_least(title, subject.name, ratio[name], goal, samples=sizes, relative_errors=errors))
    return measurements


def _squared_error(masks: Any, y: Tensor, part: int, estimate: Callable[[GridMasks, Tensor], Any]) -> Tensor:
    """Return mean squared errors ``[k]`` of estimates from ``part`` samples, without the variance of the truth."""
    parts = min(4, len(y) // part)
    total = torch.zeros(y.shape[1], dtype=torch.float64)
    everything = torch.arange(len(y))
    for number in range(parts):
        inside = (everything >= number * part) & (everything < (number + 1) * part)
        mine = estimate(masks.some(inside), y[inside])
        truth = efficient_estimate(masks.some(~inside), y[~inside])
        assert truth.standard_error is not None
        total += (_relative(mine) - _relative(truth)).square().mean((1, 2)) - truth.standard_error.square().mean((1, 2))
    return total / parts


def _relative(estimate: Any) -> Tensor:
    """Return the values relative to the mean score, which is what a map shows."""
    values: Tensor = estimate.values - estimate.neutral[:, None, None]
    return values


def coverage(seeds: int, sizes: Sequence[int] = (40, 100, 300)) -> list[Measurement]:
    """Measure how often the truth lies within 1.96 standard errors, over pixels and seeds, with a small network."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Conv2d(3, 8, 5, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
    encoder = Encoder(network, ImagePreprocess(resize=32, crop=32), pooling="flatten", name="small network")
    explicand = encoder.explicand(photo("coffee"))
    corpus, foil = (encoder.reference([photo(name)], progress=False, cache=False) for name in ("cat", "rocket"))
    targets = [representation_similarity(), corpus_similarity(corpus), contrastive_corpus_similarity(corpus, foil)]
    truth = Rise(samples=60_000, grid=4, seed=10**6).explain(encoder, explicand, targets, progress=False)
    measurements = []
    for size in sizes:
        inside: list[list[float]] = [[] for _ in targets]
        for seed in range(seeds):
            answers = Rise(samples=size, grid=4, seed=seed).explain(encoder, explicand, targets, progress=False)
            for shares, answer, true in zip(inside, answers, truth, strict=True):
                assert answer.standard_error is not None
                within = (answer.relative - true.relative).abs() <= 1.96 * answer.standard_error
                shares.append(100 * float(within.float().mean()))
        means = [sum(shares) / seeds for shares in inside]
        title = f"coverage of 95 % intervals, {size} samples (%)"
        reached = 93 <= median(means) <= 97
        details = {"seeds": seeds, "targets": dict(zip(TARGET_NAMES, means, strict=True))}
        measurements.append(Measurement(title, "small network", means, "93 to 97", reached, details))
    return measurements


def plot_errors(measurements: Sequence[Measurement], path: Path) -> Path:
    """Draw error against samples for both estimators and each target: thin lines are photos, thick ones their median."""
    import matplotlib.pyplot as plt

    efficiency = [measurement.details for measurement in measurements if "relative_errors" in measurement.details]
    details = efficiency[-1]  # the pretrained subject's
    samples = details["samples"]
    figure, axes = plt.subplots(1, len(TARGET_NAMES), figsize=(4 * len(TARGET_NAMES), 3.6), sharey=True, layout="constrained")
    for index, (ax, target) in enumerate(zip(axes, TARGET_NAMES, strict=True)):
        for estimator, colour in (("paper", "tab:red"), ("efficient", "tab:blue")):
            lines = [
                [point[index] for point in photo_errors[estimator]] for photo_errors in details["relative_errors"].values()
            ]
            for line in lines:
                ax.plot(samples, line, color=colour, alpha=0.25, linewidth=1)
            ax.plot(samples, [median(column) for column in zip(*lines, strict=True)], color=colour, label=estimator)
        ax.set(title=target, xscale="log", yscale="log", xlabel="samples")
        ax.set_xticks(samples, [str(size) for size in samples], minor=False)
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("error of the map / its spread")
    axes[0].legend()
    write_figure(path, figure, dpi=110)
    plt.close(figure)
    return path

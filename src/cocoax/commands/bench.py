"""Speed and accuracy, measured: ratios of things timed side by side in one process, repeated, with their medians.

Subjects are a ResNet-18 for 32x32 images (512 dimensions, random weights: speed does not depend on them) and the image
network of the starter encoder at 224x224 (1280 dimensions). Nothing beyond pip packages is needed.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from cocoax.attribution import GradientShap, IntegratedGradients, KernelShap, Rise, Run
from cocoax.attribution.rise import efficient_estimate, paper_estimate
from cocoax.data import photo
from cocoax.encoders import Encoder, Explicand, ImagePreprocess, load
from cocoax.encoders.forward import frozen
from cocoax.encoders.load.resnet import cifar_resnet18
from cocoax.features import Blur, GridMasks, grid_segments
from cocoax.references import Reference
from cocoax.targets import (
    Target,
    contrastive_corpus_similarity,
    contrastive_similarity,
    corpus_similarity,
    representation_similarity,
    score_all,
    similarity_to,
)

PHOTOS = ("coffee", "cat", "astronaut", "rocket", "motorbike")


@dataclass(frozen=True)
class Figure:
    """One measured figure: its median, all repetitions, and what it must reach."""

    name: str
    subject: str
    values: list[float]
    goal: str
    reached: bool
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The median of the repetitions."""
        return median(self.values)


@dataclass(frozen=True)
class Subject:
    """An encoder and the photo it is measured on."""

    name: str
    encoder: Encoder
    goal_overhead: float
    grid: int
    samples: int

    def targets(self, explicand: str = "coffee") -> list[Target]:
        """The four targets of the paper for a photo: corpus = another photo, foil = the rest, neither the photo itself."""
        corpus_name, *foil_names = (name for name in PHOTOS if name != explicand)
        corpus = self.encoder.reference([photo(corpus_name)], progress=False)
        foil = self.encoder.reference([photo(name) for name in foil_names], progress=False)
        return [
            representation_similarity(),
            contrastive_similarity(foil),
            corpus_similarity(corpus),
            contrastive_corpus_similarity(corpus, foil),
        ]


def subjects(quick: bool) -> list[Subject]:
    """The two encoders that are measured."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = cifar_resnet18().eval()
    small = Encoder(network, ImagePreprocess(resize=32, crop=32), name="ResNet-18, 32x32")
    large = load("efficientnet-lite0")
    large.name = "EfficientNet-Lite0, 224x224"
    return [
        Subject(small.name, small, 1.10, 4, 512 if quick else 2048),
        Subject(large.name, large, 1.05, 7, 200 if quick else 1000),
    ]


def run_bench(quick: bool = True, repeats: int | None = None, say: Callable[[str], None] = print) -> list[Figure]:
    """Measure everything; ``say`` is told what is going on."""
    repeats = (3 if quick else 5) if repeats is None else repeats
    figures: list[Figure] = []
    found = subjects(quick)
    for subject in found:
        for measure in (overhead, published_pattern, integrated_gradients, captum_gradients, captum_kernel_shap):
            say(f"{subject.name}: {measure.__name__.replace('_', ' ')}")
            figures += measure(subject, repeats)
    say("a new target on a run of 20 000 samples")
    figures.append(new_target(repeats))
    say("peak memory of 1000 and of 20 000 samples")
    figures.append(peak_memory())
    say("samples needed for equal error")
    figures += sample_efficiency(found, quick)
    say("coverage of the 95 % intervals")
    figures += coverage(60 if quick else 200)
    return figures


# --- time -------------------------------------------------------------------------------------------------------------


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratios(above: Callable[[], object], below: Callable[[], object], repeats: int) -> list[float]:
    """Time of one thing over that of another, taken in turns so that a slow moment hits both; the first turn warms up."""
    pairs = [(seconds(below), seconds(above)) for _ in range(repeats + 1)]
    return [high / low for low, high in pairs[1:]]


def _bare(encoder: Encoder, inputs: Tensor) -> Callable[[], None]:
    """The encoder alone, on batches that are ready in the memory layout that suits it best."""
    size = encoder.batch_size(inputs[0])
    batches = [encoder.collate(part) for part in torch.split(inputs[: 4 * size], size)]

    def work() -> None:
        with torch.no_grad():
            for number in range(-(-len(inputs) // size)):
                encoder.module(batches[number % len(batches)])

    return work


def overhead(subject: Subject, repeats: int) -> list[Figure]:
    """A run that answers eight targets, over the bare encoder on as many inputs."""
    encoder = subject.encoder
    targets = subject.targets()
    targets += [similarity_to(reference) for reference in targets[1].references + targets[2].references]
    targets += [targets[3] * 0.5, -1 * targets[2]]
    explicand = encoder.explicand(photo("coffee"))
    method = Rise(samples=subject.samples, grid=subject.grid)
    inputs = explicand.tensor.expand(subject.samples, -1, -1, -1)
    found = ratios(lambda: method.run(encoder, explicand, progress=False).explain(targets), _bare(encoder, inputs), repeats)
    name = "run answering 8 targets / bare encoder"
    return [_at_most(name, subject.name, found, subject.goal_overhead, samples=subject.samples)]


def published_pattern(subject: Subject, repeats: int) -> list[Figure]:
    """The published call pattern for four targets, over one run of ours.

    One pass per target with masks at full size, five encoder calls per mask in all, autograd on, as in the published code; in
    the memory layout and at the batch size that suit the encoder best.
    """
    encoder = subject.encoder
    samples = min(subject.samples, 256)
    targets = subject.targets()
    explicand = encoder.explicand(photo("coffee"))
    blur = Blur()(explicand.tensor)
    own = encoder.represent(explicand.tensor[None])[0]
    size = encoder.batch_size(blur)
    _, height, width = blur.shape

    def published() -> None:
        masks = GridMasks.draw(height, width, subject.grid, 0.5, samples, 0).full(slice(0, samples))
        for number, target in enumerate(targets):
            scores = []
            for part in torch.split(masks, size):
                batch = encoder.collate(explicand.tensor * part[:, None] + blur * (1 - part[:, None]))
                for _ in range(2 if number == 1 else 1):  # the contrastive label-free target encodes twice
                    score = target.score(encoder.module(batch), own)
                scores.append(score.detach())
            torch.einsum("n,nhw->hw", torch.cat(scores), masks) / samples / 0.5

    ours = Rise(samples=samples, grid=subject.grid)
    found = ratios(published, lambda: ours.run(encoder, explicand, progress=False).explain(targets), repeats)
    return [_at_least("published call pattern, 4 targets / ours", subject.name, found, 4.5, samples=samples)]


def integrated_gradients(subject: Subject, repeats: int) -> list[Figure]:
    """Integrated Gradients of four targets, over one forward and backward pass of the same inputs."""
    encoder = subject.encoder
    targets = subject.targets()
    explicand = encoder.explicand(photo("coffee"))
    size = encoder.batch_size(explicand.tensor)
    batches = [encoder.collate(explicand.tensor.expand(min(size, 50 - at), -1, -1, -1)) for at in range(0, 50, size)]

    def once() -> None:
        with frozen(encoder.owner):
            for batch in batches:
                inputs = batch.detach().requires_grad_()
                torch.autograd.grad(encoder.module(inputs).sum(), inputs)

    found = ratios(lambda: IntegratedGradients(steps=50).explain(encoder, explicand, targets), once, repeats)
    return [_at_most("IG, 50 steps, 4 targets / one forward+backward", subject.name, found, 2.3)]


def captum_gradients(subject: Subject, repeats: int) -> list[Figure]:
    """Captum's Integrated Gradients and GradientSHAP for four targets at its best batch size, over ours."""
    import captum.attr

    encoder = subject.encoder
    targets = subject.targets()
    explicand = encoder.explicand(photo("coffee"))
    inputs, blur = explicand.tensor[None], Blur()(explicand.tensor)[None]
    modules = [target.as_module(encoder, explicand if target.needs_explicand else None) for target in targets]

    def integrated(batch: int) -> None:
        with frozen(encoder.owner):
            for module in modules:
                captum.attr.IntegratedGradients(module).attribute(inputs, blur, n_steps=50, internal_batch_size=batch)

    def shap(batch: int) -> None:
        with torch.random.fork_rng(), frozen(encoder.owner):
            for module in modules:
                method = captum.attr.NoiseTunnel(captum.attr._core.gradient_shap.InputBaselineXGradient(module))
                method.attribute(inputs, nt_samples=50, nt_samples_batch_size=batch, stdevs=0.2, baselines=blur)

    figures = []
    for name, theirs, ours in (
        ("Captum IG, 4 targets / ours", integrated, IntegratedGradients(steps=50)),
        ("Captum GradientSHAP, 4 targets / ours", shap, GradientShap(samples=50)),
    ):
        best = _best(theirs, (4, 16, 50))
        found = ratios(
            lambda theirs=theirs, best=best: theirs(best),  # type: ignore[misc]
            lambda ours=ours: ours.explain(encoder, explicand, targets),  # type: ignore[misc]
            repeats,
        )
        figures.append(_at_least(name, subject.name, found, 1.8, batch_size=best))
    return figures


def captum_kernel_shap(subject: Subject, repeats: int) -> list[Figure]:
    """Captum's KernelShap at its best batch size over ours, on 64 features, for one target and for four."""
    import captum.attr

    encoder = subject.encoder
    targets = subject.targets()
    explicand = encoder.explicand(photo("coffee"))
    inputs, blur = explicand.tensor[None], Blur()(explicand.tensor)[None]
    _, height, width = explicand.tensor.shape
    features = grid_segments(height, width, 8)[None, None]
    samples = 256
    modules = [target.as_module(encoder, explicand if target.needs_explicand else None) for target in targets]

    def theirs(number: int, batch: int) -> None:
        with torch.random.fork_rng():
            for module in modules[-number:]:
                captum.attr.KernelShap(module).attribute(
                    inputs, blur, feature_mask=features, n_samples=samples, perturbations_per_eval=batch
                )

    best = _best(lambda batch: theirs(1, batch), (4, 16, 64))
    ours = KernelShap(samples=samples, grid=8)
    figures = []
    for number, goal in ((1, 1.1), (4, 4.0)):
        found = ratios(
            lambda number=number: theirs(number, best),  # type: ignore[misc]
            lambda number=number: ours.explain(encoder, explicand, targets[-number:], progress=False),  # type: ignore[misc]
            repeats,
        )
        name = f"Captum KernelShap, 64 features, {number} target{'s' if number > 1 else ''} / ours"
        figures.append(_at_least(name, subject.name, found, goal, samples=samples, perturbations_per_eval=best))
    return figures


def new_target(repeats: int) -> Figure:
    """Milliseconds for a new target on a run of 20 000 samples, 224x224, 1280 dimensions."""
    generator = torch.Generator().manual_seed(0)
    run = _made_up_run(20_000, 1280, generator)
    references = [Reference.from_representations(torch.rand(1, 1280, generator=generator)) for _ in range(repeats + 2)]
    run.explain(similarity_to(references[0]))  # what all answers share is computed by the first
    times = [1000 * seconds(lambda one=one: run.explain(similarity_to(one))) for one in references[1:]]  # type: ignore[misc]
    return _at_most("a new target on 20 000 samples, 224x224, 1280-d (ms)", "any encoder", times, 50.0)


def _made_up_run(samples: int, dimension: int, generator: torch.Generator) -> Run:
    explicand = Explicand(torch.zeros(3, 224, 224))
    method = Rise(samples=samples)
    representations, ends = torch.rand(samples, dimension, generator=generator), torch.rand(2, dimension, generator=generator)
    return Run(method, explicand, explicand.tensor, method.draw((224, 224)), representations, ends, "made up", "made up")


def _best(work: Callable[[int], None], sizes: Sequence[int]) -> int:
    """The batch size that is fastest, after a warm-up."""
    work(sizes[0])
    return min(sizes, key=lambda size: seconds(lambda: work(size)))


# --- memory -----------------------------------------------------------------------------------------------------------


class Pooled(nn.Module):
    """A cheap encoder: pixels pooled to 16x16, 768 dimensions."""

    def forward(self, images: Tensor) -> Tensor:
        """``[n, 3, H, W] -> [n, 768]``."""
        return nn.functional.adaptive_avg_pool2d(images, 16).flatten(1)


def peak_memory() -> Figure:
    """Peak memory of a run of 20 000 samples over that of 1000, each in a process of its own, less what a run keeps."""
    peaks = {}
    for samples in (1000, 20_000):
        command = [sys.executable, "-c", f"from cocoax.bench import print_peak; print_peak({samples})"]
        environment = {**os.environ, "COCOAX_PROGRESS": "0"}
        output = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        peaks[samples] = int(output) - samples * 768 * 4
    value = peaks[20_000] / peaks[1000]
    each = (peaks[20_000] - peaks[1000]) / 19_000
    name = "peak memory, 20 000 / 1000 samples"
    return _at_most(name, "any encoder, 224x224", [value], 1.1, bytes=peaks, bytes_per_further_sample=each)


def print_peak(samples: int) -> None:
    """Do a run and answer a target; print the most bytes this process ever held."""
    encoder = Encoder(Pooled(), name="pooled pixels")
    explicand = torch.rand(3, 224, 224, generator=torch.Generator().manual_seed(0))
    Rise(samples=samples).run(encoder, explicand).explain(representation_similarity())
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))


# --- accuracy ---------------------------------------------------------------------------------------------------------


TARGETS = ("label-free", "corpus", "COCOA")


def sample_efficiency(found: Sequence[Subject], quick: bool) -> list[Figure]:
    """How many times more samples the paper's estimator needs for the same error of the map.

    Both squared errors fall as 1/n, so the ratio of samples is that of the squared errors at equal n, measured on disjoint
    parts of one run against the efficient estimate from all other samples.
    """
    sizes = (50, 100, 250) if quick else (50, 100, 250, 500)
    figures = []
    for subject in found:
        ratio: dict[str, list[float]] = {name: [] for name in TARGETS}
        errors: dict[str, dict[str, list[list[float]]]] = {}
        for name in PHOTOS[: 2 if quick else 5]:
            targets = [subject.targets(name)[index] for index in (0, 2, 3)]
            samples = 1000 if quick else 2500
            run = Rise(samples=samples, grid=subject.grid).run(subject.encoder, photo(name), progress=False)
            y = score_all(targets, run.representations, run.ends[0]).double()
            squared = {
                estimator: [_squared_error(run.masks, y, size, estimate) for size in sizes]
                for estimator, estimate in (("paper", paper_estimate), ("efficient", efficient_estimate))
            }
            for index, target in enumerate(TARGETS):
                below = max(float(squared["efficient"][-1][index]), 1e-18)
                ratio[target].append(float(squared["paper"][-1][index]) / below)
            spread = efficient_estimate(run.masks, y).values.std((1, 2))
            errors[name] = {
                estimator: [(part.clamp(min=0).sqrt() / spread).tolist() for part in parts]
                for estimator, parts in squared.items()
            }
        for name, goal in zip(TARGETS, (50.0, 15.0, 4.0), strict=True):
            title = f"samples needed, paper / efficient: {name}"
            figures.append(_at_least(title, subject.name, ratio[name], goal, samples=sizes, relative_errors=errors))
    return figures


def _squared_error(masks: Any, y: Tensor, part: int, estimate: Callable[[GridMasks, Tensor], Any]) -> Tensor:
    """Mean squared error over pixels of estimates from ``part`` samples, the variance of the truth taken off; ``[k]``."""
    parts = min(4, len(y) // part)
    total = torch.zeros(y.shape[1], dtype=torch.float64)
    everything = torch.arange(len(y))
    for number in range(parts):
        inside = (everything >= number * part) & (everything < (number + 1) * part)
        mine = estimate(_some(masks, inside), y[inside])
        truth = efficient_estimate(_some(masks, ~inside), y[~inside])
        assert truth.standard_error is not None
        total += ((mine.values - truth.values).square() - truth.standard_error.square()).mean((1, 2))
    return total / parts


def plot_errors(figures: Sequence[Figure], path: Path) -> Path:
    """Error against samples for both estimators and each target, as a picture: thin lines are photos, thick their median."""
    import matplotlib.pyplot as plt

    details = [figure.details for figure in figures if "relative_errors" in figure.details][-1]  # the pretrained subject's
    samples = details["samples"]
    drawn, axes = plt.subplots(1, len(TARGETS), figsize=(4 * len(TARGETS), 3.6), sharey=True, layout="constrained")
    for index, (ax, target) in enumerate(zip(axes, TARGETS, strict=True)):
        for estimator, colour in (("paper", "tab:red"), ("efficient", "tab:blue")):
            lines = [[point[index] for point in each[estimator]] for each in details["relative_errors"].values()]
            for line in lines:
                ax.plot(samples, line, color=colour, alpha=0.25, linewidth=1)
            ax.plot(samples, [median(column) for column in zip(*lines, strict=True)], color=colour, label=estimator)
        ax.set(title=target, xscale="log", yscale="log", xlabel="samples")
        ax.set_xticks(samples, [str(size) for size in samples], minor=False)
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("error of the map / its spread")
    axes[0].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path, dpi=110)
    plt.close(drawn)
    return path


def _some(masks: GridMasks, rows: Tensor) -> GridMasks:
    return GridMasks(masks.geometry, masks.bits[rows], masks.shifts[rows], masks.keep)


def coverage(seeds: int, sizes: Sequence[int] = (40, 100, 300)) -> list[Figure]:
    """How often the truth lies within 1.96 standard errors, over pixels and seeds, for a small network and each target."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Conv2d(3, 8, 5, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
    encoder = Encoder(network, ImagePreprocess(resize=32, crop=32), pooling="flatten", name="small network")
    explicand = encoder.explicand(photo("coffee"))
    corpus, foil = (encoder.reference([photo(name)], progress=False, cache=False) for name in ("cat", "rocket"))
    targets = [representation_similarity(), corpus_similarity(corpus), contrastive_corpus_similarity(corpus, foil)]
    truth = Rise(samples=60_000, grid=4, seed=10**6).explain(encoder, explicand, targets, progress=False)
    figures = []
    for size in sizes:
        hits: list[list[float]] = [[] for _ in targets]
        for seed in range(seeds):
            answers = Rise(samples=size, grid=4, seed=seed).explain(encoder, explicand, targets, progress=False)
            for mine, answer, true in zip(hits, answers, truth, strict=True):
                inside = (answer.values - true.values).abs() <= 1.96 * answer.standard_error
                mine.append(100 * float(inside.float().mean()))
        found = [sum(mine) / seeds for mine in hits]
        title = f"coverage of 95 % intervals, {size} samples (%)"
        reached = 93 <= median(found) <= 97
        details = {"seeds": seeds, "targets": dict(zip(TARGETS, found, strict=True))}
        figures.append(Figure(title, "small network", found, "93 to 97", reached, details))
    return figures


# --- results ----------------------------------------------------------------------------------------------------------


def _at_most(name: str, subject: str, values: list[float], goal: float, **details: Any) -> Figure:
    return Figure(name, subject, values, f"≤ {goal:g}", median(values) <= goal, details)


def _at_least(name: str, subject: str, values: list[float], goal: float, **details: Any) -> Figure:
    return Figure(name, subject, values, f"≥ {goal:g}", median(values) >= goal, details)


def write_json(path: Path, figures: Sequence[Figure]) -> Path:
    """Write the figures with what they were measured on."""
    machine = {
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{**asdict(figure), "median": figure.median} for figure in figures]
    path.write_text(json.dumps({"machine": machine, "figures": rows}, indent=1), encoding="utf-8")
    return path

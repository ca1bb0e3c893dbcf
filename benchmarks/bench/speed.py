"""Speed: ratios of things that are timed in turns, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from benchmarks.bench.measurement import Measurement, at_least, at_most
from benchmarks.bench.subjects import Subject
from cocoax.data import photo
from cocoax.encoders import Encoder, Explicand
from cocoax.encoders.forward import frozen
from cocoax.masking import Blur, GridMasks, grid_segments
from cocoax.methods import GradientShap, IntegratedGradients, KernelShap, Rise, Run
from cocoax.references import Reference
from cocoax.targets import similarity_to


def seconds(work: Callable[[], object]) -> float:
    """Return how long some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratios(above: Callable[[], object], below: Callable[[], object], repeats: int) -> list[float]:
    """Return times of one thing over another, taken in turns so that a slow moment hits both; the first turn warms up."""
    pairs = [(seconds(below), seconds(above)) for _ in range(repeats + 1)]
    return [high / low for low, high in pairs[1:]]


def _bare(encoder: Encoder, inputs: Tensor) -> Callable[[], None]:
    """Return the work of the encoder alone, on batches that are ready in the memory layout that suits it best."""
    size = encoder.batch_size(inputs[0])
    batches = [encoder.collate(part) for part in torch.split(inputs[: 4 * size], size)]

    def work() -> None:
        with torch.no_grad():
            for number in range(-(-len(inputs) // size)):
                encoder.module(batches[number % len(batches)])

    return work


def overhead(subject: Subject, repeats: int) -> list[Measurement]:
    """Time a run that answers eight targets, over the bare encoder on as many inputs."""
    encoder = subject.encoder
    targets = subject.targets()
    targets += [similarity_to(reference) for reference in targets[1].references + targets[2].references]
    targets += [targets[3] * 0.5, -1 * targets[2]]
    explicand = encoder.explicand(photo("coffee"))
    method = Rise(samples=subject.samples, grid=subject.grid)
    inputs = explicand.tensor.expand(subject.samples, -1, -1, -1)
    times = ratios(lambda: method.run(encoder, explicand, progress=False).explain(targets), _bare(encoder, inputs), repeats)
    name = "run answering 8 targets / bare encoder"
    return [at_most(name, subject.name, times, subject.goal_overhead, samples=subject.samples)]


def published_pattern(subject: Subject, repeats: int) -> list[Measurement]:
    """Time the published call pattern for four targets, over one run of ours.

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
    times = ratios(published, lambda: ours.run(encoder, explicand, progress=False).explain(targets), repeats)
    return [at_least("published call pattern, 4 targets / ours", subject.name, times, 4.5, samples=samples)]


def integrated_gradients(subject: Subject, repeats: int) -> list[Measurement]:
    """Time Integrated Gradients of four targets, over one forward and backward pass of the same inputs."""
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

    ours = partial(IntegratedGradients(steps=50).explain, encoder, explicand, targets)
    times = ratios(ours, once, repeats)
    return [at_most("IG, 50 steps, 4 targets / one forward+backward", subject.name, times, 2.3)]


def captum_gradients(subject: Subject, repeats: int) -> list[Measurement]:
    """Time Captum's Integrated Gradients and GradientSHAP for four targets at its best batch size, over ours."""
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

    measurements = []
    for name, theirs, ours in (
        ("Captum IG, 4 targets / ours", integrated, IntegratedGradients(steps=50)),
        ("Captum GradientSHAP, 4 targets / ours", shap, GradientShap(samples=50)),
    ):
        best = _best(theirs, (4, 16, 50))
        times = ratios(partial(theirs, best), partial(ours.explain, encoder, explicand, targets), repeats)
        measurements.append(at_least(name, subject.name, times, 1.8, batch_size=best))
    return measurements


def captum_kernel_shap(subject: Subject, repeats: int) -> list[Measurement]:
    """Time Captum's KernelShap at its best batch size over ours, on 64 features, for one target and for four."""
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

    best = _best(partial(theirs, 1), (4, 16, 64))
    ours = KernelShap(samples=samples, grid=8)
    measurements = []
    for number, goal in ((1, 1.1), (4, 4.0)):
        explain = partial(ours.explain, encoder, explicand, targets[-number:], progress=False)
        times = ratios(partial(theirs, number, best), explain, repeats)
        name = f"Captum KernelShap, 64 features, {number} target{'s' if number > 1 else ''} / ours"
        measurements.append(at_least(name, subject.name, times, goal, samples=samples, perturbations_per_eval=best))
    return measurements


def _best(work: Callable[[int], None], sizes: Sequence[int]) -> int:
    """Return the batch size that is fastest, after a warm-up."""
    work(sizes[0])
    return min(sizes, key=lambda size: seconds(partial(work, size)))


def new_target(repeats: int) -> Measurement:
    """Time a new target, in milliseconds, on a run of 20 000 samples, 224x224, 1280 dimensions."""
    generator = torch.Generator().manual_seed(0)
    run = _made_up_run(20_000, 1280, generator)
    references = [Reference.from_representations(torch.rand(1, 1280, generator=generator)) for _ in range(repeats + 2)]

    def explain(reference: Reference) -> None:
        run.explain(similarity_to(reference))

    explain(references[0])  # what all answers share is computed by the first
    times = [1000 * seconds(partial(explain, reference)) for reference in references[1:]]
    return at_most("a new target on 20 000 samples, 224x224, 1280-d (ms)", "any encoder", times, 50.0)


def _made_up_run(samples: int, dimension: int, generator: torch.Generator) -> Run:
    """Return a run of random representations, as if an encoder had made them."""
    explicand = Explicand(torch.zeros(3, 224, 224))
    method = Rise(samples=samples)
    representations, ends = torch.rand(samples, dimension, generator=generator), torch.rand(2, dimension, generator=generator)
    return Run(method, explicand, explicand.tensor, method.draw((224, 224)), representations, ends, "made up", "made up")

"""RISE against its definition, against enumeration of all masks, and against its own standard errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import cocoax
from cocoax.masking import GridMasks
from cocoax.masking.control_variates import FOLDS
from cocoax.methods.rise import relative_error
from tests.conftest import SmallNet, images

ESTIMATORS = ["paper", "efficient"]
KEEPS = [0.5, 0.3]


@dataclass(frozen=True)
class Toy:
    """An explicand of 4 x 4 pixels and a grid of 2 x 2 cells: every mask, its probability, and its exact map."""

    encoder: cocoax.Encoder
    explicand: Tensor
    targets: list[cocoax.Target]
    keep: float
    masks: Tensor  # [64, 4, 4]
    chances: Tensor  # [64]
    scores: Tensor  # [64, targets]
    truth: Tensor  # [targets, 4, 4]

    def method(self, estimator: str, samples: int, seed: int) -> cocoax.Rise:
        return cocoax.Rise(
            samples=samples,
            grid=2,
            keep=self.keep,
            estimator=estimator,  # type: ignore[arg-type]
            seed=seed,
            baseline=cocoax.Constant(0.0),
        )

    def estimate(self, estimator: str, samples: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        """Values, standard errors and neutral values, with the scores looked up instead of encoded."""
        method = self.method(estimator, samples, seed)
        masks = method.draw((4, 4))
        found = method.estimate(masks, self.scores[self.numbers(masks)], torch.zeros(2, len(self.targets)))
        assert found.standard_error is not None
        assert found.neutral is not None
        return found.values, found.standard_error, found.neutral

    @staticmethod
    def numbers(masks: Any) -> Tensor:
        """Return where each mask stands among all."""
        powers = torch.tensor([8, 4, 2, 1])
        of_bits = (masks.bits.long().flatten(1) * powers).sum(1)
        return of_bits * 4 + masks.shifts[:, 0].long() * 2 + masks.shifts[:, 1].long()

    def wrong(self, estimator: str, values: Tensor, _: Tensor, neutral: Tensor) -> Tensor:
        """How far values are from the truth: relative to the mean score, but for the paper's estimator as they are."""
        if estimator == "paper":
            return values - self.truth
        mean = (self.chances[:, None] * self.scores).sum(0)
        return (values - neutral[:, None, None]) - (self.truth - mean[:, None, None])


@cache
def toy(keep: float) -> Toy:
    net = SmallNet(seed=1).eval()
    encoder = cocoax.Encoder(net)
    explicand = images(1, 4, 4, seed=3)[0]
    corpus = encoder.reference(images(3, 4, 4, seed=5), cache=False)
    foil = encoder.reference(images(3, 4, 4, seed=6), cache=False)
    targets = [
        cocoax.representation_similarity(),
        cocoax.contrastive_corpus_similarity(corpus, foil),
        cocoax.corpus_similarity(corpus, "dot"),
    ]
    masks, chances = [], []
    for bits in product([0, 1], repeat=4):
        grid = torch.tensor(bits, dtype=torch.float32).view(1, 1, 2, 2)
        whole = F.interpolate(grid, size=(6, 6), mode="bilinear", align_corners=False)[0, 0]
        for down, right in product(range(2), range(2)):
            masks.append(whole[down : down + 4, right : right + 4])
            chances.append(keep ** sum(bits) * (1 - keep) ** (4 - sum(bits)) / 4)
    every, chance = torch.stack(masks), torch.tensor(chances, dtype=torch.float64)
    with torch.no_grad():
        representations, own = net(every[:, None] * explicand), net(explicand[None])[0]
    scores = torch.stack([target.score(representations, own) for target in targets], dim=1).double()
    truth = torch.zeros(len(targets), 4, 4, dtype=torch.float64)
    for i in range(len(every)):
        for k in range(len(targets)):
            truth[k] += chance[i] * scores[i, k] * every[i].double() / keep
    return Toy(encoder, explicand, targets, keep, every, chance, scores, truth)


def scores_of(run: cocoax.Run, target: cocoax.Target) -> np.ndarray:
    return np.array([float(target.score(z[None], run.anchors[0])) for z in run.representations])


def full_masks(run: cocoax.Run) -> np.ndarray:
    return run.masks.full(slice(0, len(run))).double().numpy()


# --- the definition ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize(("height", "width", "grid"), [(16, 16, 4), (15, 22, 7), (12, 9, (5, 2))])
def test_paper__slow_version(
    encoder: cocoax.Encoder, keep: float, height: int, width: int, grid: int | tuple[int, int]
) -> None:
    corpus = encoder.reference(images(4, height, width, seed=1), keep_samples=True)
    run = cocoax.Rise(50, grid, keep, "paper").run(encoder, images(1, height, width)[0])
    masks = full_masks(run)

    result = run.explain(cocoax.corpus_similarity(corpus))

    assert corpus.samples is not None
    y = []
    for z in run.representations.double().numpy():
        y.append(np.mean([z @ r / np.linalg.norm(z) / np.linalg.norm(r) for r in corpus.samples.double().numpy()]))
    contributions = np.stack([y[i] * masks[i] / keep for i in range(50)])
    np.testing.assert_allclose(result.values.numpy(), contributions.mean(0), atol=1e-5)
    assert result.standard_error is not None
    np.testing.assert_allclose(
        (result.standard_error / result.unit).numpy(), contributions.std(0, ddof=1) / 50**0.5, atol=1e-5
    )
    assert result.neutral == pytest.approx(np.mean(y), abs=1e-6)


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("samples", [43, 200])
def test_efficient__slow_version(keep: float, samples: int) -> None:
    """Any linear model of the coarse mask may be taken out, as long as its own map is put back: sample by sample."""
    exact = toy(keep)
    method = replace(exact.method("efficient", samples, 0), complements=False)
    run = method.run(exact.encoder, exact.explicand)
    masks, y = full_masks(run), scores_of(run, exact.targets[0])
    every, chances = exact.masks.double().numpy(), exact.chances.numpy()
    fit = run.masks.controls.fit(torch.from_numpy(y)[:, None])

    def pooled(mask: np.ndarray) -> np.ndarray:
        parts = [slice(i, i + 1) for i in range(4)]  # 4 pixels in 4 stretches
        return np.array([mask[a, b].mean() for a in parts for b in parts]) - keep

    contributions, means = [], []
    for i in range(samples):
        intercept, b = float(fit.intercepts[i % FOLDS, 0]), fit.coefficients[i % FOLDS, :, 0].numpy()
        model = sum(
            chance * (intercept + pooled(mask) @ b) * mask / keep for chance, mask in zip(chances, every, strict=True)
        )
        residual = y[i] - intercept - pooled(masks[i]) @ b
        contributions.append(model + residual * masks[i] / keep)
        means.append(intercept + residual)

    result = run.explain(exact.targets[0])

    np.testing.assert_allclose(result.values.numpy(), np.mean(contributions, 0), atol=1e-5)
    assert result.neutral == pytest.approx(np.mean(means), abs=1e-5)
    assert result.standard_error is not None
    # Of values relative to the mean score; wider where there are few.
    relative = np.stack(contributions) - np.array(means)[:, None, None]
    expected = np.std(relative, axis=0, ddof=1) / samples**0.5 * (1 + 3.6 / samples)
    np.testing.assert_allclose((result.standard_error / result.unit).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("samples", [43, 200, 300, 512])
def test_complements__slow_version(samples: int) -> None:
    """A mask and its complement are one sample: the sum of both, each less what a model that has seen neither explains."""
    exact = toy(0.5)
    run = exact.method("efficient", samples, 0).run(exact.encoder, exact.explicand)
    masks, y = full_masks(run), scores_of(run, exact.targets[0])
    every, chances = exact.masks.double().numpy(), exact.chances.numpy()
    units = [[i, i + 128][: 1 + (i + 128 < samples)] for i in range(samples) if i % 256 < 128]
    for i, *others in units:
        for other in others:
            np.testing.assert_allclose(masks[other], 1 - masks[i], atol=1e-6)
    fit = run.masks.controls.fit(torch.from_numpy(y)[:, None])

    def pooled(mask: np.ndarray) -> np.ndarray:
        parts = [slice(i, i + 1) for i in range(4)]  # 4 pixels in 4 stretches
        return np.array([mask[a, b].mean() for a in parts for b in parts]) - 0.5

    sums, means = [], []
    for number, unit in enumerate(units):
        assert [int(fit.fold[i]) for i in unit] == [number % FOLDS] * len(unit)
        intercept, b = float(fit.intercepts[number % FOLDS, 0]), fit.coefficients[number % FOLDS, :, 0].numpy()
        model = sum(chance * (pooled(mask) @ b) * mask / 0.5 for chance, mask in zip(chances, every, strict=True))
        residuals = [y[i] - intercept - pooled(masks[i]) @ b for i in unit]
        sums.append(sum(model + left * (masks[i] - 0.5) / 0.5 for i, left in zip(unit, residuals, strict=True)))
        means += [intercept + left for left in residuals]

    result = run.explain(exact.targets[0])

    assert result.neutral == pytest.approx(np.mean(means), abs=1e-5)
    relative = np.sum(sums, 0) / samples
    np.testing.assert_allclose((result.values - result.neutral).numpy(), relative, atol=1e-5)
    assert result.standard_error is not None
    deviations = np.stack([each - len(unit) * relative for each, unit in zip(sums, units, strict=True)])
    count = len(units)
    expected = np.sqrt((deviations**2).sum(0) * count / (count - 1)) / samples * (1 + 3.6 / count)
    np.testing.assert_allclose((result.standard_error / result.unit).numpy(), expected, atol=1e-5)


def test_complements__what_two_cells_do_only_together_is_no_noise() -> None:
    """A product of two centred cells is the same for a mask and its complement, and says nothing about either cell."""
    errors = {}
    for complements in (True, False):
        method = cocoax.Rise(samples=256, grid=2, complements=complements)
        masks = method.draw((4, 4))
        y = (masks.full(slice(0, 256)).double() - 0.5).flatten(1)[:, [0, 15]].prod(1, keepdim=True)
        found = method.estimate(masks, y, torch.zeros(2, 1))
        assert found.neutral is not None
        errors[complements] = float((found.values - found.neutral[:, None, None]).abs().max())

    assert errors[True] < 1e-6  # masks are in single precision
    assert errors[False] > 1e-3


@pytest.mark.parametrize(
    ("options", "paired"),
    [({}, True), ({"keep": 0.4}, False), ({"estimator": "paper"}, False), ({"complements": False}, False)],
)
def test_complements__where_they_are_drawn(options: dict[str, Any], paired: bool) -> None:
    masks = cocoax.Rise(samples=300, grid=3, **options).draw((9, 9))
    assert isinstance(masks, GridMasks)

    full = masks.full(slice(0, 300))
    assert torch.allclose(full[128:256], 1 - full[:128], atol=1e-6) is paired
    assert not torch.allclose(full[256:], 1 - full[:44], atol=1e-6)
    assert len(masks.units.rows) == (172 if paired else 300)


def test_complements__of_some_masks() -> None:
    """Where the complement of a mask is missing, or a mask before its complement, it counts alone."""
    masks = cocoax.Rise(samples=256, grid=3).draw((9, 9))
    assert isinstance(masks, GridMasks)

    some = masks.some(torch.tensor([0, 5, 133, 140]))

    assert some.units.rows.tolist() == [0, 1, 3]
    assert some.units.others.tolist() == [-1, 2, -1]
    assert torch.equal(some.bits, masks.bits[[0, 5, 133, 140]])


def test_complements__not_of_the_published_estimator() -> None:
    with pytest.raises(ValueError, match="published estimator has masks that are all drawn anew"):
        replace(cocoax.Rise(), estimator="paper")
    assert not replace(cocoax.Rise(keep=0.3), estimator="paper").complements  # there are none to refuse


def test_complements__not_a_flag() -> None:
    with pytest.raises(ValueError, match="'complements' parameter must be True or False"):
        cocoax.Rise(complements="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("fold", range(FOLDS))
def test_efficient__models_have_not_seen_the_scores_they_correct(fold: int) -> None:
    masks = cocoax.Rise(samples=40, grid=2).draw((4, 4))
    random = np.random.default_rng(0)
    y = torch.from_numpy(random.standard_normal((40, 1)))
    changed = y.clone()
    changed[fold::FOLDS] += torch.from_numpy(random.standard_normal((8, 1)))

    before, after = masks.controls.fit(y), masks.controls.fit(changed)

    np.testing.assert_allclose(after.intercepts[fold].numpy(), before.intercepts[fold].numpy(), atol=1e-9)
    np.testing.assert_allclose(after.coefficients[fold].numpy(), before.coefficients[fold].numpy(), atol=1e-9)
    assert not np.allclose(after.coefficients[fold - 1].numpy(), before.coefficients[fold - 1].numpy(), atol=1e-3)


@pytest.mark.parametrize("fold", range(FOLDS))
def test_efficient__models_have_not_seen_the_masks_they_correct(fold: int) -> None:
    # A ridge penalty that is computed from all masks is enough for a bias, if a small one (see the slow test below).
    masks = cocoax.Rise(samples=40, grid=2).draw((4, 4))
    y = torch.from_numpy(np.random.default_rng(0).standard_normal((40, 1)))
    bits = masks.bits.clone()
    bits[fold::FOLDS] = 1
    changed = GridMasks(masks.geometry, bits, masks.shifts, masks.keep)

    before, after = masks.controls.fit(y), changed.controls.fit(y)

    np.testing.assert_allclose(after.intercepts[fold].numpy(), before.intercepts[fold].numpy(), atol=1e-9)
    np.testing.assert_allclose(after.coefficients[fold].numpy(), before.coefficients[fold].numpy(), atol=1e-9)
    assert not np.allclose(after.coefficients[fold - 1].numpy(), before.coefficients[fold - 1].numpy(), atol=1e-3)


# --- statistics -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_values__unbiased(estimator: str, keep: float) -> None:
    exact = toy(keep)
    seeds = 300

    values = torch.stack(
        [
            torch.stack([result.values.double() for result in run.explain(exact.targets)])
            for run in (exact.method(estimator, 40, seed).run(exact.encoder, exact.explicand) for seed in range(seeds))
        ]
    )

    z = (values.mean(0) - exact.truth) / (values.std(0) / seeds**0.5)
    assert float(z.abs().max()) < 4


@pytest.mark.slow
def test_values__unbiased_with_few_samples() -> None:
    """What corrects a sample must depend on other samples only: with 10 of them the least dependence shows."""
    exact = toy(0.3)
    seeds = 10_000

    values = torch.stack([exact.estimate("efficient", 10, seed)[0] for seed in range(seeds)])

    z = (values.mean(0) - exact.truth) / (values.std(0) / seeds**0.5)
    assert float(z.abs().max()) < 4


@pytest.mark.parametrize("keep", KEEPS)
def test_efficient__less_variance_than_paper(keep: float) -> None:
    exact = toy(keep)
    paper, efficient = (torch.stack([exact.estimate(name, 40, seed)[0] for seed in range(200)]) for name in ESTIMATORS)

    # A ratio of two variances from 200 seeds each has a relative standard error of about √(4/200) = 14 %; the label-free
    # target, whose mean score is far from zero, gains most.
    ratios = paper.var(0).mean((1, 2)) / efficient.var(0).mean((1, 2))
    assert float(ratios[0]) > 50
    assert float(ratios.min()) > 10


@pytest.mark.parametrize(("keep", "samples"), [(0.5, 200), (0.3, 500)])  # fewer kept cells: skewed, so slower to be normal
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_standard_error__calibrated(estimator: str, keep: float, samples: int) -> None:
    exact = toy(keep)
    seeds = 1500

    found = [exact.estimate(estimator, samples, seed) for seed in range(seeds)]

    wrong, errors = torch.stack([exact.wrong(estimator, *one) for one in found]), torch.stack([one[1] for one in found])
    covered = (wrong.abs() < 1.96 * errors).double()
    # The coverage of 1500 intervals has a standard error of .006, were all pixels one; with 16 pixels it is less.
    for coverage in covered.mean((0, 2, 3)):
        assert 0.93 < float(coverage) < 0.97
    # The same without the shape of the distribution: the root mean squared error that is claimed is the one there is, before
    # it is widened for few samples. It is known to one part in √(2 · seeds), were all pixels one.
    independent = len(exact.method(estimator, samples, 0).draw((4, 4)).units.rows)
    plain = errors / (1 + 3.6 / independent) if estimator == "efficient" else errors
    ratio = plain.square().mean((0, 2, 3)) / wrong.square().mean((0, 2, 3))
    assert float((ratio.sqrt() - 1).abs().max()) < 4 / (2 * seeds) ** 0.5


def test_standard_error__covers_with_few_samples() -> None:
    exact = toy(0.5)

    found = [exact.estimate("efficient", 50, seed) for seed in range(1000)]

    wrong, errors = torch.stack([exact.wrong("efficient", *one) for one in found]), torch.stack([one[1] for one in found])
    assert 0.93 < float((wrong.abs() < 1.96 * errors).double().mean()) < 0.97


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_neutral__is_the_mean_score(estimator: str, keep: float) -> None:
    exact = toy(keep)
    seeds = 300
    truth = (exact.chances[:, None] * exact.scores).sum(0)

    neutral = torch.stack([exact.estimate(estimator, 40, seed)[2] for seed in range(seeds)])

    # A ridge regression on 40 samples shrinks its coefficients, which leaves its intercept without bias only to first order.
    z = (neutral.mean(0) - truth) / (neutral.std(0) / seeds**0.5)
    assert float(z.abs().max()) < 4


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_neutral__is_the_value_of_a_pixel_that_makes_no_difference(estimator: str) -> None:
    def upper_half(batch: Tensor) -> Tensor:
        return torch.tanh(batch[:, :, :8]).mean(3).flatten(1)

    explicand = images(1, 32, 32, seed=4)[0] + 0.5
    run = cocoax.Rise(4000, 4, 0.5, estimator, baseline=cocoax.Constant(0.0)).run(  # type: ignore[arg-type]
        cocoax.Encoder(upper_half), explicand
    )

    result = run.explain(cocoax.representation_similarity("dot"))

    assert result.standard_error is not None
    z = result.relative / result.standard_error
    assert float(z[:8].min()) > 4  # these make a difference
    # Below, more than a cell away, the expectation is the mean score. `neutral` has an error of its own, no larger than a
    # pixel's; rows and columns within a cell are the same pixels again, so there are about 12 independent ones here.
    assert float(z[25:].abs().max()) < 4


# --- what it is linear in ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_explain__linear_in_the_target(encoder: cocoax.Encoder, estimator: Any) -> None:
    a = cocoax.similarity_to(encoder.reference(images(4, seed=1)))
    b = cocoax.similarity_to(encoder.reference(images(6, seed=2)))
    run = cocoax.Rise(samples=100, grid=4, estimator=estimator).run(encoder, images(1)[0])

    of_a, of_b, of_difference, of_mixture = run.explain([a, b, a - b, 0.25 * a + 3 * b])

    torch.testing.assert_close(of_difference.values, of_a.values - of_b.values, atol=1e-6, rtol=0)
    torch.testing.assert_close(of_mixture.values, 0.25 * of_a.values + 3 * of_b.values, atol=2e-6, rtol=0)
    assert float(of_difference.values.std()) > 1e-4  # a hundred times the tolerance


@pytest.mark.parametrize("keep", KEEPS)
def test_efficient__constant_score_gives_a_constant_map(keep: float) -> None:
    def constant(batch: Tensor) -> Tensor:
        return torch.tensor([3.0, 4.0]).expand(len(batch), 2)

    run = cocoax.Rise(samples=50, grid=4, keep=keep).run(cocoax.Encoder(constant), images(1)[0])

    result = run.explain(cocoax.representation_similarity("dot"))

    torch.testing.assert_close(result.values, torch.full((16, 16), 25.0), atol=1e-4, rtol=0)
    assert result.standard_error is not None
    assert float(result.standard_error.max()) <= result.floor * 0.5001 < 2e-6 * result.unit * 25
    assert result.neutral == pytest.approx(25, abs=1e-4)
    assert result.is_nothing


def test_explain__map_of_a_known_function() -> None:
    """A score that is linear in one pixel: E[y m]/p is its covariance with the mask, known by enumeration."""

    def one_pixel(batch: Tensor) -> Tensor:
        return batch[:, 0, 1:2, 2]

    exact = toy(0.3)
    m = exact.masks.double()
    chances = exact.chances[:, None, None]
    expected = (chances * m[:, 1:2, 2:3] * m).sum(0) / 0.3
    explicand = torch.ones(3, 4, 4)
    run = cocoax.Rise(400, 2, 0.3, baseline=cocoax.Constant(0.0)).run(cocoax.Encoder(one_pixel), explicand)

    result = run.explain(cocoax.representation_similarity("dot"))

    assert result.standard_error is not None
    z = (result.relative - (expected - 0.3) * result.unit) / result.standard_error.double()
    assert float(z.abs().max()) < 4


# --- sampling until converged -----------------------------------------------------------------------------------------


def test_relative_error__slow_version(encoder: cocoax.Encoder) -> None:
    result = cocoax.Rise(samples=50, grid=4).explain(encoder, images(1)[0], cocoax.representation_similarity())

    assert result.standard_error is not None
    above, below = 0.0, 0.0
    for error, value in zip(result.standard_error.flatten().tolist(), result.relative.flatten().tolist(), strict=True):
        above += error**2
        below += value**2
    assert relative_error(result) == pytest.approx((above / below) ** 0.5, rel=1e-5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_tolerance__samples_until_the_error_is_small_enough(net: SmallNet, encoder: cocoax.Encoder, estimator: Any) -> None:
    tolerance = {"paper": 1.0, "efficient": 0.1}[estimator]
    method = cocoax.Rise(samples=20, grid=4, estimator=estimator, tolerance=tolerance)
    encoder.represent(images(2))
    before = net.inputs

    run = method.run(encoder, images(1)[0])

    result = run.explain(cocoax.representation_similarity())
    assert relative_error(result) <= tolerance
    assert 20 < len(run) < 20_000
    assert net.inputs - before == len(run) + 2  # nothing is encoded twice
    assert "within the tolerance" in run.stopped
    same = cocoax.Rise(samples=len(run), grid=4, estimator=estimator).run(encoder, images(1)[0])
    torch.testing.assert_close(
        result.values, same.explain(cocoax.representation_similarity()).values, atol=1e-5, rtol=0
    )  # what the same number of samples gives


def test_tolerance__of_the_targets_that_are_asked(encoder: cocoax.Encoder) -> None:
    corpus, foil = encoder.reference(images(3, seed=5)), encoder.reference(images(3, seed=6))
    target = cocoax.contrastive_corpus_similarity(corpus, foil)
    method = cocoax.Rise(samples=20, grid=4, tolerance=0.1)

    runs = [method.run(encoder, images(1)[0], asked) for asked in (target, [cocoax.representation_similarity(), target])]

    assert all(relative_error(run.explain(target)) <= 0.1 for run in runs)
    assert relative_error(runs[1].explain(cocoax.representation_similarity())) <= 0.1
    assert method.explain(encoder, images(1)[0], target).metadata["samples"] == len(runs[0])


def test_tolerance__met_at_once(encoder: cocoax.Encoder) -> None:
    run = cocoax.Rise(samples=100, grid=4, tolerance=10.0).run(encoder, images(1)[0])

    assert len(run) == 100


def test_tolerance__stops_at_the_maximum(encoder: cocoax.Encoder) -> None:
    run = cocoax.Rise(samples=20, grid=4, tolerance=1e-4, max_samples=130).run(encoder, images(1)[0])

    assert len(run) == 130
    assert "the tolerance of 0.0001 was not reached" in run.stopped


def test_tolerance__nothing_to_find(encoder: cocoax.Encoder) -> None:
    """A blank image is its own blur: all masked inputs are the same, and more of them tell nothing new."""
    run = cocoax.Rise(samples=20, grid=4, tolerance=0.1, max_samples=2000).run(encoder, torch.ones(3, 16, 16))

    assert len(run) == 20


def test_tolerance__is_kept_in_files(encoder: cocoax.Encoder, tmp_path: Any) -> None:
    run = cocoax.Rise(samples=20, grid=4, tolerance=0.2).run(encoder, images(1)[0])

    loaded = cocoax.Run.load(run.save(tmp_path / "run.safetensors"))

    assert loaded.stopped == run.stopped != ""
    assert loaded.method == run.method


@pytest.mark.parametrize("tolerance", [0.0, -0.1, float("nan")])
def test_tolerance__not_positive(tolerance: float) -> None:
    with pytest.raises(ValueError, match="'tolerance' parameter must be above 0"):
        cocoax.Rise(tolerance=tolerance)


def test_max_samples__fewer_than_samples() -> None:
    with pytest.raises(ValueError, match=r"'max_samples' parameter must be at least 'samples', 100. Got 50 instead"):
        cocoax.Rise(samples=100, tolerance=0.1, max_samples=50)


# --- options ----------------------------------------------------------------------------------------------------------


def test_options__masks_are_those_of_the_options(encoder: cocoax.Encoder) -> None:
    run = cocoax.Rise(samples=30, grid=(3, 5), keep=0.2, seed=9).run(encoder, images(1, 17, 20)[0])

    expected = GridMasks.draw(17, 20, (3, 5), 0.2, 30, 9)
    assert torch.equal(run.masks.full(slice(0, 30)), expected.full(slice(0, 30)))


def test_options__are_told_by_the_result(encoder: cocoax.Encoder) -> None:
    method = cocoax.Rise(samples=30, grid=4, keep=0.2, seed=9, estimator="paper")

    metadata = method.explain(encoder, images(1)[0], cocoax.representation_similarity()).metadata

    options = {"samples": 30, "grid": 4, "keep": 0.2, "seed": 9, "estimator": "paper"}
    assert metadata["method"] == "Rise"
    assert metadata["options"].items() >= options.items()


def test_estimator__unknown() -> None:
    with pytest.raises(ValueError, match=r"'estimator' parameter must be 'efficient' or 'paper'. Got 'best' instead"):
        cocoax.Rise(estimator="best")  # type: ignore[arg-type]


@pytest.mark.parametrize("keep", [0.0, 1.0, -0.5, 1.5, float("nan")])
def test_keep__not_a_probability(keep: float) -> None:
    with pytest.raises(ValueError, match="'keep' parameter must lie between 0 and 1"):
        cocoax.Rise(keep=keep)


@pytest.mark.parametrize(("estimator", "least"), [("paper", 2), ("efficient", 2 * FOLDS)])
def test_samples__too_few(encoder: cocoax.Encoder, estimator: Any, least: int) -> None:
    with pytest.raises(ValueError, match=f"'samples' parameter must be at least {least}. Got {least - 1} instead"):
        cocoax.Rise(samples=least - 1, estimator=estimator)
    run = cocoax.Rise(samples=least, grid=2, estimator=estimator).run(encoder, images(1)[0])
    assert bool(torch.isfinite(run.explain(cocoax.representation_similarity()).values).all())


@pytest.mark.parametrize("samples", [1e3, 100.5, "100"])
def test_samples__not_a_whole_number(samples: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="'samples' parameter"):
        cocoax.Rise(samples=samples)


@pytest.mark.parametrize("grid", [0, -2, (3, 0)])
def test_grid__not_positive(encoder: cocoax.Encoder, grid: int | tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="'grid' parameter must be at least 1"):
        cocoax.Rise(samples=20, grid=grid).run(encoder, images(1)[0])


def test_grid__finer_than_the_image(net: SmallNet, encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match="A grid of 7 x 17 is finer than the image of 16 x 16 pixels"):
        cocoax.Rise(samples=20, grid=(7, 17)).run(encoder, images(1)[0])
    assert net.inputs == 0


@pytest.mark.parametrize("samples", [10, 13, 14, 257])
def test_samples__any_number(encoder: cocoax.Encoder, samples: int) -> None:
    """Folds of unequal size, and more samples than one block of random numbers."""
    method = cocoax.Rise(samples=samples, grid=4)

    result = method.explain(encoder, images(1)[0], cocoax.representation_similarity())
    paper = replace(method, estimator="paper", complements=False).explain(
        encoder, images(1)[0], cocoax.representation_similarity()
    )

    assert result.metadata["samples"] == paper.metadata["samples"] == samples
    assert result.standard_error is not None
    assert paper.standard_error is not None
    # Both estimate the same map.
    difference = result.relative - paper.relative
    z = difference / (result.standard_error.square() + paper.standard_error.square()).sqrt()
    assert float(z.abs().max()) < 4


def test_tolerance__of_nothing_is_no_error_of_zero(encoder: cocoax.Encoder) -> None:
    target = cocoax.similarity_to(encoder.reference(images(3)))
    run = cocoax.Rise(samples=40, grid=3, tolerance=0.1).run(encoder, torch.ones(3, 16, 16), target)
    assert run.stopped == "nothing to see after 40 samples, but rounding"

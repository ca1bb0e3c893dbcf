"""Numbers that are huge, tiny, or nothing but rounding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.methods.method import Method
from tests.conftest import images

MATRIX = torch.randn(3 * 16 * 16, 8, generator=torch.Generator().manual_seed(0)) / 20
METHODS: list[Method] = [
    cocoax.Rise(samples=60, grid=4),
    cocoax.Rise(samples=60, grid=4, estimator="paper"),
    cocoax.KernelShap(samples=60, grid=3),
    cocoax.Occlusion(),
    cocoax.IntegratedGradients(steps=5),
]


def scaled(factor: float) -> cocoax.Encoder:
    return cocoax.Encoder(lambda batch: (batch.flatten(1) @ MATRIX).tanh() * factor, name=f"times {factor}")


def answer(method: Method, factor: float, similarity: str) -> cocoax.Attribution:
    encoder = scaled(factor)
    target = cocoax.corpus_similarity(encoder.reference(images(5, seed=1), cache=False), similarity)
    return method.explain(encoder, images(1)[0], target)


@pytest.mark.parametrize("factor", [1e30, 1e20, 1e10, 1e-10, 1e-21, 1e-30])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{type(method).__name__}-{vars(method).get('estimator')}")
def test_cosine__does_not_depend_on_the_scale(method: Method, factor: float) -> None:
    expected, result = answer(method, 1.0, "cosine"), answer(method, factor, "cosine")
    assert result.score == pytest.approx(expected.score, rel=1e-6)
    size = float(expected.values.abs().max())
    torch.testing.assert_close(result.values, expected.values, atol=1e-5 * size, rtol=0)
    if expected.standard_error is not None:
        torch.testing.assert_close(result.standard_error, expected.standard_error, rtol=0.01, atol=1e-6 * size)


@pytest.mark.parametrize("factor", [1e17, 1e10, 1e-10, 1e-17])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{type(method).__name__}-{vars(method).get('estimator')}")
def test_dot__values_and_errors_scale(method: Method, factor: float) -> None:
    expected, result = answer(method, 1.0, "dot"), answer(method, factor, "dot")
    assert result.score / factor**2 == pytest.approx(expected.score, rel=1e-6)
    size = float(expected.values.abs().max())
    torch.testing.assert_close(result.values.double() / factor**2, expected.values.double(), atol=1e-5 * size, rtol=0)
    if expected.standard_error is not None:
        assert result.standard_error is not None
        errors = result.standard_error.double() / factor**2
        torch.testing.assert_close(errors, expected.standard_error.double(), rtol=0.01, atol=1e-6 * size)


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (1e30, r"'5 images' reach \d\.?\d*e\+59, which single precision does not hold"),
        (1e20, r"'5 images' reach \d\.?\d*e\+39, which single precision does not hold"),
        (1e-21, "Dot products of about [0-9]e-4[23] are too small"),
        (1e-30, "Dot products of about [0-9]e-6[01] are too small"),
    ],
)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{type(method).__name__}-{vars(method).get('estimator')}")
def test_dot__what_single_precision_cannot_hold_is_an_error(method: Method, factor: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        answer(method, factor, "dot")


@pytest.mark.parametrize("similarity", ["rbf", "polynomial"])
def test_kernel__that_overflows_is_an_error(similarity: str) -> None:
    with pytest.raises(ValueError, match="single precision does not hold"):
        answer(cocoax.Rise(samples=20, grid=4), 1e25, similarity)


def test_curve__that_overflows_is_an_error() -> None:
    encoder = scaled(1e30)
    target = cocoax.corpus_similarity(encoder.reference(images(2), cache=False), "dot")
    with pytest.raises(ValueError, match="too large for single precision"):
        cocoax.insertion(encoder, images(1)[0], torch.zeros(16, 16), target, steps=3)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_gradients__path_with_representations_that_are_not_finite(bad: float) -> None:
    def encode(batch: Tensor) -> Tensor:
        representations = batch.flatten(1) @ MATRIX
        between = (batch.mean((1, 2, 3), keepdim=True)[:, :, 0, 0] > 0.3) & (batch.mean((1, 2, 3))[:, None] < 0.7)
        return torch.where(between, bad, representations)

    encoder = cocoax.Encoder(encode, name="holes")
    explicand, target = torch.ones(3, 16, 16), cocoax.representation_similarity()
    with pytest.raises(ValueError, match="representations that are not finite at some points between"):
        cocoax.IntegratedGradients(steps=8, baseline=cocoax.Constant(0.1)).explain(encoder, explicand, target)


# --- rounding -----------------------------------------------------------------------------------------------------------


OTHERS = [cocoax.Captum("FeatureAblation", grid=4), cocoax.Captum("IntegratedGradients", n_steps=8)]


@pytest.mark.parametrize("method", [*(each for each in METHODS if vars(each).get("estimator") != "paper"), *OTHERS])
@pytest.mark.parametrize("colour", [1.0, 0.3, 2.64])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_one_colour__is_nothing(encoder: cocoax.Encoder, method: Method, colour: float, similarity: str) -> None:
    """A blur of one colour is that colour: whatever a map shows is rounding."""
    corpus, foil = encoder.reference(images(3, seed=1)), encoder.reference(images(3, seed=2))
    target = cocoax.contrastive_corpus_similarity(corpus, foil, similarity)
    result = method.explain(encoder, torch.full((3, 16, 16), colour), target)
    assert result.is_nothing
    assert not result.relative.any()
    assert "nothing but rounding" in repr(result)
    assert "No part of the input makes a difference" in result._repr_html_()
    if result.standard_error is not None:
        beyond = result.relative.abs() > 2 * result.standard_error
        assert float(beyond.double().mean()) <= 0.05


def test_floor__of_a_difference_is_that_of_its_terms(encoder: cocoax.Encoder) -> None:
    """The difference of two similarities of about 1 is rounded as those are."""
    corpus = encoder.reference(images(3, seed=1))
    one, difference = cocoax.corpus_similarity(corpus), 1.000001 * cocoax.corpus_similarity(corpus)
    twice = cocoax.Target({corpus: 1.0, None: -1.0})
    answers = cocoax.Rise(samples=20, grid=4).explain(encoder, images(1)[0], [one, difference, twice])
    eps = 2 * 16 * 2.0**-23  # an effect is twice the mean score with a feature kept, relative to the mean of all scores
    assert answers[0].floor == pytest.approx(eps * float(corpus.mean_unit.norm()), rel=1e-4)
    assert answers[2].floor == pytest.approx(eps * (1 + float(corpus.mean_unit.norm())), rel=1e-4)
    assert not answers[0].is_nothing


def test_floor__is_kept_in_files(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    run = cocoax.Rise(samples=20, grid=4).run(encoder, images(1)[0])
    target = cocoax.representation_similarity()
    result = run.explain(target)
    assert result.floor > 0
    assert cocoax.Attribution.load(result.save(tmp_path / "result.safetensors")).floor == result.floor
    assert cocoax.Run.load(run.save(tmp_path / "run")).explain(target).floor == result.floor
    field = run.field()
    assert field.explain(target).floor == pytest.approx(result.floor)
    assert cocoax.Field.load(field.save(tmp_path / "field")).explain(target).floor == pytest.approx(result.floor)


def test_floor__of_half_precision_is_higher() -> None:
    encoder = cocoax.Encoder(lambda batch: batch.flatten(1)[:, :8], name="plain")
    low = cocoax.Encoder(lambda batch: batch.flatten(1)[:, :8], name="plain")
    low._autocast = torch.float16
    method, target = cocoax.Rise(samples=20, grid=4), cocoax.representation_similarity()
    fine, coarse = (method.explain(each, images(1)[0], target).floor for each in (encoder, low))
    assert coarse == pytest.approx(2**13 * fine, rel=1e-3)


def test_relative__below_the_floor_is_zero() -> None:
    result = cocoax.Attribution(torch.tensor([1.0, 1.0 + 1e-6, 1.1]), 1.0, 0.0, neutral=1.0, floor=1e-5)
    assert result.relative.tolist() == pytest.approx([0, 0, 0.1], abs=1e-6)
    assert result.relative[1] == 0
    assert not result.is_nothing


# --- bounds -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: cocoax.Rise(samples=10**12),
            r"'samples' parameter must be at most 10000000\. Got 1000000000000 instead",
        ),
        (lambda: cocoax.Rise(max_samples=float("nan")), "The 'max_samples' parameter must be an integer"),  # type: ignore[arg-type]
        (lambda: cocoax.KernelShap(samples=2**63), "The 'samples' parameter must be at most 10000000"),
        (lambda: cocoax.IntegratedGradients(steps=100_000), "The 'steps' parameter must be at most 1000"),
        (lambda: cocoax.Blur(10**9 + 1), "The 'kernel_size' parameter must be at most 10001. Got 1000000001 instead"),
        (lambda: cocoax.Polynomial(degree=10**6), "degree <= 100"),
    ],
)
def test_bounds__the_absurd_is_refused_at_once(make: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()

"""Every method on kinds of input of a user's own: places, as pixels are, or channels with features of their own."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.inputs import Explicand, Inputs
from cocoax.masking import MaskedEncoder
from cocoax.methods import Run
from cocoax.methods.gradients import GradientMethod
from tests.kinds import Recordings, Series, Several, recording_encoder, recordings

KINDS: dict[str, Inputs] = {"parts": Recordings(), "parts after a beginning": Recordings(fixed=3), "steps": Series()}
every_kind = pytest.mark.parametrize("kind", KINDS)
GRADIENTS: list[GradientMethod] = [
    cocoax.VanillaGradients(),
    cocoax.SmoothGrad(samples=5),
    cocoax.IntegratedGradients(steps=5),
    cocoax.GradientShap(samples=5),
    cocoax.ExpectedGradients(recordings(4, seed=8), samples=5),
]
METHODS: list[cocoax.Method] = [
    *GRADIENTS,
    cocoax.Rise(samples=40),
    cocoax.KernelShap(samples=100),
    cocoax.Occlusion(),
    cocoax.RandomAttribution(),
    cocoax.Captum("DeepLift"),
    cocoax.Captum("FeatureAblation"),
    cocoax.Captum("Occlusion"),
    cocoax.Captum("ShapleyValueSampling", n_samples=5),
]


def setting(kind: str) -> tuple[cocoax.Encoder, Explicand, list[cocoax.Target]]:
    encoder = recording_encoder(KINDS[kind])
    corpus, foil = encoder.reference(recordings(3, seed=1)), encoder.reference(recordings(4, seed=2))
    targets = [cocoax.contrastive_corpus_similarity(corpus, foil), cocoax.representation_similarity("dot")]
    return encoder, encoder.explicand(recordings(1)[0]), targets


def per_feature(explicand: Explicand, raw: Tensor) -> Tensor:
    """Return the sum over the elements of each feature, or the mean over the channels of each step, element by element."""
    if explicand.feature_ids is None:
        return raw.sum(0) / len(raw)
    values = torch.zeros(explicand.shape, dtype=raw.dtype)
    for channel, members in enumerate(explicand.feature_ids.tolist()):
        for step, feature in enumerate(members):
            if feature >= 0:
                values[feature] += raw[channel, step]
    return values


@every_kind
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.describe()["type"])
def test_explain__one_value_per_feature(method: cocoax.Method, kind: str) -> None:
    encoder, explicand, targets = setting(kind)
    results = method.explain(encoder, explicand, targets)
    for result, target in zip(results, targets, strict=True):
        assert result.values.shape == explicand.shape
        assert result.standard_error is None or result.standard_error.shape == explicand.shape
        assert result.names == explicand.names
        if result.raw is not None:
            assert result.raw.shape == explicand.tensor.shape
            torch.testing.assert_close(result.values, per_feature(explicand, result.raw))
        own = encoder.encode([explicand.tensor])
        assert result.score == pytest.approx(float(target.score(own, own[0])), abs=1e-5)


@every_kind
@pytest.mark.parametrize("method", GRADIENTS, ids=lambda method: type(method).__name__)
def test_gradients__same_as_one_point_at_a_time(method: GradientMethod, kind: str) -> None:
    encoder, explicand, targets = setting(kind)
    ready = method.prepared(encoder)
    baseline = ready.baseline.baseline_input(explicand)
    weights = ready.weights().double()
    for target, result in zip(targets, method.explain(encoder, explicand, targets), strict=True):
        score = target.as_module(encoder, explicand)
        parts = []
        for index in range(len(weights)):
            points = ready.points(explicand, baseline, slice(index, index + 1))
            at = points.at.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(score(at).sum(), at)
            parts.append((gradient * points.factor)[0].double())
        raw = torch.stack([weight * part for weight, part in zip(weights, parts, strict=True)]).sum(0)
        torch.testing.assert_close(result.raw, raw.float(), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(result.values, per_feature(explicand, raw).float(), rtol=1e-5, atol=1e-6)
        if method.sampled:
            each = torch.stack([per_feature(explicand, part) for part in parts])
            error = (each.std(0) / len(each) ** 0.5).float()
            torch.testing.assert_close(result.standard_error, error, rtol=1e-3, atol=1e-6)


@every_kind
def test_occlusion__is_the_drop_without_a_feature_and_so_is_captums_ablation(kind: str) -> None:
    encoder, explicand, targets = setting(kind)
    everything = torch.ones(explicand.shape[0], explicand.shape[0])
    kept = everything - torch.eye(explicand.shape[0])
    game = MaskedEncoder(encoder, explicand)
    masked = game.removal.masked(explicand, game.baseline_input, kept)
    own = encoder.encode([explicand.tensor])
    for target in targets:
        expected = target.score(own, own[0]) - target.score(encoder.encode(masked), own[0])
        torch.testing.assert_close(cocoax.Occlusion().explain(encoder, explicand, target).values, expected)
        ablated = cocoax.Captum("FeatureAblation").explain(encoder, explicand, target)
        torch.testing.assert_close(ablated.values, expected, rtol=1e-4, atol=1e-5)


def test_captum__occlusion_removes_steps_of_all_channels() -> None:
    encoder, explicand, targets = setting("steps")
    found = cocoax.Captum("Occlusion").explain(encoder, explicand, targets[0])
    expected = cocoax.Occlusion().explain(encoder, explicand, targets[0])
    torch.testing.assert_close(found.values, expected.values, rtol=1e-4, atol=1e-5)


def test_captum__says_which_baseline_it_took() -> None:
    encoder, explicand, targets = setting("parts")
    result = cocoax.Captum("FeatureAblation").explain(encoder, explicand, targets[0])
    assert result.metadata["options"]["baseline"] == {"type": "Constant", "value": 0.0}


@pytest.mark.parametrize("baseline", [cocoax.Constant(0.3), Several(0.0, 1.0, -1.0)], ids=["one", "several"])
def test_kernel_shap__all_coalitions_give_shapley_values(baseline: Any) -> None:
    encoder, explicand, (target, _) = setting("parts after a beginning")
    players = explicand.shape[0]
    subsets = [set(chosen) for size in range(players + 1) for chosen in combinations(range(players), size)]
    kept = torch.tensor([[float(player in subset) for player in range(players)] for subset in subsets])
    removal = baseline
    baseline_input = removal.baseline_input(explicand)
    representations = encoder.encode(removal.masked(explicand, baseline_input, kept))
    scores = target.score(representations).view(len(subsets), -1).mean(1).double()
    value = {frozenset(subset): float(score) for subset, score in zip(subsets, scores, strict=True)}
    expected = [
        sum(
            (value[frozenset(subset | {player})] - value[frozenset(subset)]) / (players * comb(players - 1, len(subset)))
            for subset in subsets
            if player not in subset
        )
        for player in range(players)
    ]
    result = cocoax.KernelShap(samples=1000, baseline=baseline).explain(encoder, explicand, target)
    assert result.values.tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("baseline", [None, Several(0.0, 1.0)], ids=["one", "several"])
def test_run__saves_loads_and_extends(baseline: Any, tmp_path: Path) -> None:
    encoder, explicand, targets = setting("parts after a beginning")
    method = cocoax.Rise(samples=40, baseline=baseline)
    loaded = Run.load(method.run(encoder, explicand).save(tmp_path / "run.safetensors")).extend(encoder, 20)
    longer = replace(method, samples=60).run(encoder, explicand)
    torch.testing.assert_close(loaded.representations, longer.representations)
    for first, second in zip(loaded.explain(targets), longer.explain(targets), strict=True):
        torch.testing.assert_close(first.values, second.values)
        assert first.names == second.names


@every_kind
def test_curves__end_with_the_explicand_and_its_baseline(kind: str) -> None:
    encoder, explicand, (target, _) = setting(kind)
    attribution = cocoax.Occlusion().explain(encoder, explicand, target)
    curve = cocoax.insertion(encoder, explicand, attribution, target)
    assert len(curve.x) == explicand.shape[0] + 1
    assert [float(curve.y[0]), float(curve.y[-1])] == pytest.approx([attribution.baseline_score, attribution.score], abs=1e-5)


def test_explain__explicand_with_gradients_or_from_inference_mode() -> None:
    encoder, explicand, (target, _) = setting("parts")
    expected = cocoax.IntegratedGradients(steps=3).explain(encoder, explicand, target)
    wanting = replace(explicand, tensor=explicand.tensor.clone().requires_grad_())
    with torch.inference_mode():
        bound = encoder.explicand(explicand.tensor.clone())
    for other in (wanting, bound):
        result = cocoax.IntegratedGradients(steps=3).explain(encoder, other, target)
        assert torch.equal(result.values, expected.values)
        assert result.raw is not None
        assert not result.raw.requires_grad
        cocoax.Rise(samples=20).run(encoder, other).explain(target)


@every_kind
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.describe()["type"])
def test_explain__prepared_in_double_precision(method: cocoax.Method, kind: str) -> None:
    encoder, _, (target, _) = setting(kind)
    single, double = (method.explain(encoder, recordings(1)[0].to(dtype), target) for dtype in (torch.float32, torch.float64))
    assert torch.equal(single.values, double.values)

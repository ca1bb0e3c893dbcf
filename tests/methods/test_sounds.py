"""Every method, run and curve on sounds: segments of time, and cells of time and frequency."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.inputs.sound import HOP
from cocoax.masking.removals import SpectralNoise
from cocoax.methods.run_cache import cached_run
from tests.sounds import RATE, Ear, hum, listener, question

FEATURES = {"segments": 6, "cells": 12}  # how many there are
METHODS: dict[str, cocoax.Method] = {
    "rise": cocoax.Rise(samples=60),
    "kernel_shap": cocoax.KernelShap(samples=100),
    "occlusion": cocoax.Occlusion(),
    "vanilla_gradients": cocoax.VanillaGradients(),
    "smoothgrad": cocoax.SmoothGrad(samples=5),
    "integrated_gradients": cocoax.IntegratedGradients(steps=8),
    "gradient_shap": cocoax.GradientShap(samples=5),
    "expected_gradients": cocoax.ExpectedGradients([hum(seed=3), hum(seed=4)], samples=8),
    "saliency": cocoax.Captum("Saliency"),
    "feature_ablation": cocoax.Captum("FeatureAblation"),
    "random": cocoax.RandomAttribution(),
}
kinds = pytest.mark.parametrize("features", FEATURES)


def score(encoder: cocoax.Encoder, target: cocoax.Target, tensor: Tensor, own: Tensor) -> float:
    """The target's value for one prepared input."""
    return float(target.score(encoder.encode([tensor]), own)[0])


@kinds
@pytest.mark.parametrize("method", METHODS)
def test_methods__give_one_value_for_each_feature(features: str, method: str) -> None:
    encoder = listener(features)
    target = question(encoder)
    result = METHODS[method].explain(encoder, hum(), target)
    assert result.values.shape == (FEATURES[features],)
    assert torch.isfinite(result.values).all()
    assert float(result.values.std()) > 0
    assert result.name == "low rather than high"
    assert result.names is not None
    assert len(result.names) == FEATURES[features]
    assert result.top(1)[0][0] in result.names
    own = encoder.represent(hum())[0]
    assert result.score == pytest.approx(score(encoder, target, encoder.prepare(hum()), own), abs=1e-5)
    assert torch.equal(METHODS[method].explain(encoder, (hum(), RATE), target).values, result.values)


@kinds
def test_methods__sounds_of_different_lengths(features: str) -> None:
    encoder = listener(features)
    target, sounds = question(encoder), [hum(), hum(1.5, seed=1), (RATE, hum(1.2))]
    for name in ("rise", "integrated_gradients"):
        together = METHODS[name].explain(encoder, sounds, target)
        for result, sound in zip(together, sounds, strict=True):
            torch.testing.assert_close(result.values, METHODS[name].explain(encoder, sound, target).values)


@kinds
@pytest.mark.parametrize("baseline", ["silence", "noise", "mean"])
def test_kernel_shap__is_complete(features: str, baseline: str) -> None:
    encoder = listener(features)
    result = cocoax.KernelShap(samples=100, baseline=baseline).explain(encoder, hum(), question(encoder))
    assert float(result.values.sum()) == pytest.approx(result.score - result.baseline_score, abs=1e-5)


@kinds
@pytest.mark.parametrize("baseline", ["silence", "noise"])
def test_integrated_gradients__is_complete(features: str, baseline: str) -> None:
    encoder = listener(features)
    method = cocoax.IntegratedGradients(steps=200, baseline=baseline)
    result = method.explain(encoder, hum(), question(encoder))
    assert float(result.values.abs().max()) > 1e-3
    assert float(result.values.sum()) == pytest.approx(result.score - result.baseline_score, abs=1e-4)


@kinds
def test_vanilla_gradients__is_what_the_volume_of_a_part_does(features: str) -> None:
    """Slowly: each part a little louder and a little quieter."""
    encoder = listener(features)
    encoder.module.double()  # type: ignore[attr-defined]
    target = question(encoder)
    explicand = encoder.explicand(hum())
    own = encoder.encode([explicand.tensor])[0]
    result = cocoax.VanillaGradients().explain(encoder, hum(), target)
    assert explicand.feature_ids is not None
    slow = []
    for feature in range(FEATURES[features]):
        change = 0.02 * (explicand.feature_ids == feature)
        louder, quieter = (explicand.tensor * (1 + sign * change) for sign in (1, -1))
        slow.append((score(encoder, target, louder, own) - score(encoder, target, quieter, own)) / 0.04)
    torch.testing.assert_close(result.values, torch.tensor(slow), atol=2e-4, rtol=2e-2)


@kinds
def test_occlusion__is_the_drop_of_the_score(features: str) -> None:
    encoder = listener(features)
    target = question(encoder)
    explicand = encoder.explicand(hum())
    result = cocoax.Occlusion(baseline="noise").explain(encoder, hum(), target)
    own = encoder.encode([explicand.tensor])[0]
    noise = SpectralNoise()(explicand.tensor)
    assert explicand.feature_ids is not None
    for feature in range(FEATURES[features]):
        without = torch.where(explicand.feature_ids == feature, noise, explicand.tensor)
        drop = result.score - score(encoder, target, without, own)
        assert float(result.values[feature]) == pytest.approx(drop, abs=1e-5)


def test_feature_ablation__is_captums_occlusion() -> None:
    for features in FEATURES:
        encoder = listener(features)
        ours = cocoax.Occlusion().explain(encoder, hum(), question(encoder))
        theirs = cocoax.Captum("FeatureAblation").explain(encoder, hum(), question(encoder))
        torch.testing.assert_close(theirs.values, ours.values, atol=1e-5, rtol=1e-4)


class Loudness(torch.nn.Module):
    """Mean power in the first half, and in the second: where it comes from is known."""

    def forward(self, samples: Tensor) -> Tensor:
        halves = samples[..., : samples.shape[-1] // 2], samples[..., samples.shape[-1] // 2 :]
        return torch.stack([0.01 + half.square().mean((1, 2)) for half in halves], dim=1)


@pytest.mark.parametrize("method", ["rise", "kernel_shap", "occlusion", "integrated_gradients", "vanilla_gradients"])
def test_methods__find_the_half_that_counts(method: str) -> None:
    """Similar to what is loud in the beginning: the first half raises that, the second lowers it."""
    encoder = cocoax.Encoder(Loudness(), inputs=cocoax.inputs.Sounds(RATE, segments=8), name="loudness")
    early = np.concatenate([hum(), 0.01 * hum()])
    target = cocoax.corpus_similarity(encoder.reference([early]))
    sound = np.concatenate([hum(seed=1), hum(seed=2)])
    result = METHODS[method].explain(encoder, sound, target)
    values = result.values - result.neutral
    assert float(values[:4].mean()) > 0 > float(values[4:].mean())


# --- runs -------------------------------------------------------------------------------------------------------------


@kinds
def test_run__save_load_and_extend(features: str, tmp_path: Path) -> None:
    encoder = listener(features)
    target = question(encoder)
    for baseline in ("silence", "noise"):
        run = cocoax.Rise(samples=40, baseline=baseline).run(encoder, hum())
        again = cocoax.Run.load(run.save(tmp_path / "run.safetensors"))
        before, after = run.explain(target), again.explain(target)
        assert torch.equal(before.values, after.values)
        assert before.standard_error is not None
        assert after.standard_error is not None
        assert torch.equal(before.standard_error, after.standard_error)
        assert before.metadata == after.metadata
        assert before.html() == after.html()
        longer = cocoax.Rise(samples=60, baseline=baseline).run(encoder, hum())
        again.extend(encoder, 20)
        assert len(again) == 60  # 64 and more are all subsets, each once
        torch.testing.assert_close(again.representations, longer.representations)


@kinds
def test_attribution__save_and_load(features: str, tmp_path: Path) -> None:
    encoder = listener(features)
    for name in ("rise", "integrated_gradients"):
        result = METHODS[name].explain(encoder, hum(), question(encoder))
        again = cocoax.Attribution.load(result.save(tmp_path / "result.safetensors"))
        for part in ("values", "raw", "standard_error"):
            mine, theirs = getattr(result, part), getattr(again, part)
            assert (mine is None and theirs is None) or torch.equal(mine, theirs)
        assert (again.score, again.neutral, again.names) == (result.score, result.neutral, result.names)
        assert again.metadata == result.metadata
        assert again.html() == result.html()


@kinds
def test_saved_run__costs_nothing_the_second_time(features: str) -> None:
    encoder = listener(features)
    assert isinstance(encoder.module, Ear)
    method = cocoax.Rise(samples=40)
    first = cached_run(encoder, hum(), method)
    encoder.module.inputs = 0
    again = cached_run(encoder, (RATE, hum()), method)
    assert encoder.module.inputs == 1  # the probe
    assert torch.equal(first.representations, again.representations)
    cached_run(encoder, hum(), cocoax.Rise(samples=40, baseline="noise"))
    cached_run(encoder, hum(seed=1), method)
    other = listener(features, segments=5)
    assert cached_run(other, hum(), method).explain(question(other)).values.shape == (5 if features == "segments" else 10,)
    assert cocoax.cache_info().runs == 4


def test_run__answers_for_segments_do_not_serve_cells() -> None:
    segments, cells = listener(segments=6), listener("cells", segments=6, bands=1)
    method = cocoax.Rise(samples=20)
    cached_run(segments, hum(), method)
    cached_run(cells, hum(), method)
    assert cocoax.cache_info().runs == 2


# --- curves -----------------------------------------------------------------------------------------------------------


@kinds
def test_curves__end_at_the_sound_and_at_silence(features: str) -> None:
    encoder = listener(features)
    target = question(encoder)
    results = [METHODS[name].explain(encoder, hum(), target) for name in ("kernel_shap", "random")]
    both = cocoax.curves(encoder, hum(), results, target)
    for answer in both:
        assert answer["insertion"].y[-1] == answer["deletion"].y[0] == pytest.approx(results[0].score, abs=1e-5)
        assert answer["insertion"].y[0] == answer["deletion"].y[-1] == pytest.approx(results[0].baseline_score, abs=1e-5)
        assert len(answer["insertion"].x) == FEATURES[features] + 1
    noisy: Any = cocoax.deletion(encoder, hum(), results[0], target, baseline="noise")
    assert float(noisy.y[-1]) != pytest.approx(results[0].baseline_score, abs=1e-5)


def test_target_as_module__takes_prepared_sounds() -> None:
    encoder = listener("cells")
    target = question(encoder)
    batch = torch.stack([encoder.prepare(hum(seed=seed)) for seed in range(3)])
    scores = target.as_module(encoder)(batch)
    assert scores.shape == (3,)
    assert batch.shape[-1] == -(-1000 // HOP) + 1

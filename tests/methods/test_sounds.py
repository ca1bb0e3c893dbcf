"""Every method, run and curve on sounds: segments of time, and cells of time and frequency."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.inputs.sound import HOP
from cocoax.methods.run_cache import cached_run
from tests.methods.settings import name_of
from tests.sounds import RATE, Ear, hum, listener, question

FEATURES = {"segments": 6, "cells": 12}  # how many there are
kinds = pytest.mark.parametrize("features", FEATURES)


def score(encoder: cocoax.Encoder, target: cocoax.Target, tensor: Tensor, own: Tensor) -> float:
    """The target's value for one prepared input."""
    return float(target.score(encoder.encode([tensor]), own)[0])


@kinds
@pytest.mark.parametrize("baseline", ["silence", "noise", "mean"])
def test_kernel_shap__is_complete(features: str, baseline: str) -> None:
    encoder = listener(features)
    result = cocoax.KernelShap(samples=100, baseline=baseline).explain(encoder, hum(), question(encoder))
    assert float(result.values.sum()) == pytest.approx(result.score - result.baseline_score, abs=1e-5)


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


class Loudness(torch.nn.Module):
    """Mean power in the first half, and in the second: where it comes from is known."""

    def forward(self, samples: Tensor) -> Tensor:
        halves = samples[..., : samples.shape[-1] // 2], samples[..., samples.shape[-1] // 2 :]
        return torch.stack([0.01 + half.square().mean((1, 2)) for half in halves], dim=1)


@pytest.mark.parametrize(
    "method",
    [
        cocoax.Rise(samples=60),
        cocoax.KernelShap(samples=100),
        cocoax.Occlusion(),
        cocoax.IntegratedGradients(steps=8),
        cocoax.VanillaGradients(),
    ],
    ids=name_of,
)
def test_methods__find_the_half_that_counts(method: cocoax.Method) -> None:
    """Similar to what is loud in the beginning: the first half raises that, the second lowers it."""
    encoder = cocoax.Encoder(Loudness(), inputs=cocoax.inputs.Sounds(RATE, segments=8), name="loudness")
    early = np.concatenate([hum(), 0.01 * hum()])
    target = cocoax.corpus_similarity(encoder.reference([early]))
    sound = np.concatenate([hum(seed=1), hum(seed=2)])
    result = method.explain(encoder, sound, target)
    values = result.values - result.neutral
    assert float(values[:4].mean()) > 0 > float(values[4:].mean())


# --- runs -------------------------------------------------------------------------------------------------------------


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


# --- curves -----------------------------------------------------------------------------------------------------------


@kinds
def test_curves__end_at_the_sound_and_at_silence(features: str) -> None:
    encoder = listener(features)
    target = question(encoder)
    results = [each.explain(encoder, hum(), target) for each in (cocoax.KernelShap(samples=100), cocoax.RandomAttribution())]
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

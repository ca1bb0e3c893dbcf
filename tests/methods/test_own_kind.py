"""Every method on kinds of input of a user's own: places, as pixels are, or channels with features of their own."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb
from typing import Any

import pytest
import torch

import cocoax
from cocoax.inputs import Explicand, Inputs
from tests.kinds import Recordings, Series, SeveralConstants, recording_encoder, recordings

KINDS: dict[str, Inputs] = {"parts": Recordings(), "parts after a beginning": Recordings(fixed=3), "steps": Series()}
every_kind = pytest.mark.parametrize("kind", KINDS)


def setting(kind: str) -> tuple[cocoax.Encoder, Explicand, list[cocoax.Target]]:
    encoder = recording_encoder(KINDS[kind])
    corpus, foil = encoder.reference(recordings(3, seed=1)), encoder.reference(recordings(4, seed=2))
    targets = [cocoax.contrastive_corpus_similarity(corpus, foil), cocoax.representation_similarity("dot")]
    return encoder, encoder.explicand(recordings(1)[0]), targets


def test_captum__occlusion_removes_steps_of_all_channels() -> None:
    encoder, explicand, targets = setting("steps")
    found = cocoax.Captum("Occlusion").explain(encoder, explicand, targets[0])
    expected = cocoax.Occlusion().explain(encoder, explicand, targets[0])
    torch.testing.assert_close(found.values, expected.values, rtol=1e-4, atol=1e-5)


def test_captum__says_which_baseline_it_took() -> None:
    encoder, explicand, targets = setting("parts")
    result = cocoax.Captum("FeatureAblation").explain(encoder, explicand, targets[0])
    assert result.metadata["options"]["baseline"] == {"type": "Constant", "value": 0.0}


@pytest.mark.parametrize("baseline", [cocoax.Constant(0.3), SeveralConstants(0.0, 1.0, -1.0)], ids=["one", "several"])
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

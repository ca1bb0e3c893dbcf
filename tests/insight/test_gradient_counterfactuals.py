"""Gradient counterfactuals: they flip, smoothness makes them smooth, and a blurred copy tells."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cocoax
from cocoax.insight import gradient_counterfactual
from cocoax.insight.gradient_counterfactuals import _blurred
from tests.insight.games import Letters, Words, pictures, table


def roughness(change: torch.Tensor) -> float:
    """Return how much of a change is between neighbouring pixels."""
    return float(change.diff(dim=2).square().mean() / change.square().mean())


def test_gradient__flips_and_scores_are_those_of_the_encoder() -> None:
    encoder, picture, _, target = pictures()
    found = gradient_counterfactual(encoder, picture, target, smoothness=0.0, rate=0.05)
    assert found.flipped
    changed = encoder.represent([found.result.tensor])
    assert float(target.score(changed)[0]) == pytest.approx(found.changed_score, abs=1e-6)
    assert found.changed_score < 0 < found.score
    size = float((found.result.tensor - picture).square().mean().sqrt() / picture.std())
    assert found.change == pytest.approx(size, rel=1e-5)


def test_gradient__smoothness_makes_it_smooth() -> None:
    encoder, picture, _, target = pictures()
    rough, smooth = (
        gradient_counterfactual(encoder, picture, target, smoothness=width, steps=20, rate=0.02) for width in (0.0, 2.0)
    )
    changes = [found.result.tensor - picture for found in (rough, smooth)]
    assert roughness(changes[1]) < 0.5 * roughness(changes[0])


def test_gradient__every_channel_stays_in_its_own_range() -> None:
    encoder, picture, _, _ = pictures()
    picture = picture * torch.tensor([0.1, 1.0, 3.0])[:, None, None]  # as channels that are normalised each by their own
    own, other = encoder.represent(torch.stack([picture, picture.flip(2)]))
    target = cocoax.contrastive_corpus_similarity(
        *(cocoax.Reference.from_representations(each[None], space=encoder.space) for each in (own, other))
    )
    found = gradient_counterfactual(encoder, picture, target, smoothness=0.0, rate=0.2)
    for before, after in zip(picture, found.result.tensor, strict=True):
        assert before.min() <= after.min()
        assert after.max() <= before.max()
    assert not torch.equal(picture, found.result.tensor)


def test_gradient__a_blurred_copy_follows() -> None:
    encoder, picture, _, target = pictures()
    found = gradient_counterfactual(encoder, picture, target, smoothness=0.0)
    pair = torch.stack([picture, found.result.tensor])
    blurred = _blurred(encoder.inputs, pair, 1.5)
    assert blurred is not None
    before, after, low, high = encoder.represent(torch.cat([pair, blurred]))
    follows = float((after - before) @ (high - low) / (after - before).square().sum())
    assert found.follows == pytest.approx(follows, rel=1e-4)
    assert ("as with adversarial examples" in str(found)) == (follows < 0.5)
    assert "The representation of a blurred copy follows" in str(found)


def test_gradient__leaves_the_network_as_it_was() -> None:
    encoder, picture, _, target = pictures()
    gradient_counterfactual(encoder, picture, target, steps=3)
    assert all(parameter.grad is None for parameter in encoder.owner.parameters())  # type: ignore[union-attr]
    assert not picture.requires_grad


def test_gradient__rows_have_no_blur() -> None:
    encoder, row, _, target = table()
    found = gradient_counterfactual(encoder, np.asarray(row), target, rate=0.05)
    assert found.follows is None
    assert found.flipped
    assert found.to_dataframe()["changed_score"].item() == found.changed_score
    assert found.plot().get_suptitle() == found.title


def test_gradient__mistakes() -> None:
    encoder, picture, other, target = pictures()
    with pytest.raises(ValueError, match="nothing to flip"):
        gradient_counterfactual(encoder, other, target)
    texts = cocoax.TextEncoder(Words(), Letters(), limit=64, name="letters")
    with pytest.raises(ValueError, match="'letters' takes texts, which have no gradient"):
        gradient_counterfactual(texts, "a cat", cocoax.similarity_to(texts.reference("a cat")))
    still = cocoax.Encoder(lambda batch: encoder.module(batch.detach()).detach(), name="still")
    asked = cocoax.similarity_to(still.reference([picture]))
    with pytest.raises(ValueError, match="'still' has no gradient"):
        gradient_counterfactual(still, picture, asked)
    assert not gradient_counterfactual(encoder, picture, target, steps=1, rate=1e-6).flipped

from __future__ import annotations

import math

import pytest
import torch

import cocoax
from tests.conftest import SmallNet, images


def test_random__standard_normal_per_channel(encoder: cocoax.Encoder) -> None:
    result = cocoax.RandomAttribution().explain(encoder, images(1, 100, 120)[0], cocoax.representation_similarity())
    raw = result.raw.double()
    assert raw.shape == (3, 100, 120)
    for channel in raw:
        assert float(channel.mean()) == pytest.approx(0, abs=0.03)
        assert float(channel.std()) == pytest.approx(1, abs=0.03)
    assert float((raw**3).mean()) == pytest.approx(0, abs=0.1)
    assert float((raw**4).mean()) == pytest.approx(3, abs=0.2)
    between_channels = torch.corrcoef(raw.flatten(1))
    assert float((between_channels - torch.eye(3)).abs().max()) < 0.04


def test_random__same_for_every_target(encoder: cocoax.Encoder) -> None:
    targets = [cocoax.representation_similarity(), cocoax.representation_similarity("dot")]
    first, second = cocoax.RandomAttribution().explain(encoder, images(1)[0], targets)
    assert torch.equal(first.values, second.values)
    assert first.score != second.score


def test_random__depends_on_the_input_but_not_on_the_encoder() -> None:
    same, again, other = (
        cocoax.RandomAttribution(seed=4).explain(
            cocoax.Encoder(SmallNet(seed=weights).eval()), images(1, seed=seed)[0], cocoax.representation_similarity()
        )
        for weights, seed in ((0, 0), (1, 0), (0, 1))
    )
    assert torch.equal(same.values, again.values)
    assert abs(float(torch.corrcoef(torch.stack([same.values.flatten(), other.values.flatten()]))[0, 1])) < 0.25


def test_random__results_are_separate_in_memory(encoder: cocoax.Encoder) -> None:
    """Writing into one result must not change another."""
    targets = [cocoax.representation_similarity(), cocoax.representation_similarity("dot")]
    first, second = cocoax.RandomAttribution().explain(encoder, images(1)[0], targets)
    before = second.raw.clone()
    first.raw[0, 0, 0] = 77.0
    assert torch.equal(second.raw, before)


def test_random__ranks_every_pixel_alike_on_average(encoder: cocoax.Encoder) -> None:
    """As the reference line of an evaluation, no pixel may be preferred."""
    explicand, target = images(1, 8, 8)[0], cocoax.representation_similarity()
    maps = [cocoax.RandomAttribution(seed=seed).explain(encoder, explicand, target).values for seed in range(300)]
    ranks = torch.stack([one.flatten().argsort().argsort() for one in maps]).double().mean(0)
    assert float(ranks.mean()) == pytest.approx(31.5)
    assert float((ranks - 31.5).abs().max()) < 4.5 * (64**2 / 12 / 300) ** 0.5


def test_random__table_without_background() -> None:
    matrix = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    encoder = cocoax.TabularEncoder(lambda rows: torch.tanh(rows @ matrix), columns=list("abc"), name="rows")
    target = cocoax.representation_similarity("dot")
    result = cocoax.RandomAttribution(seed=3).explain(encoder, [1.0, 2.0, 3.0], target)
    own = encoder.represent([1.0, 2.0, 3.0])[0]
    assert result.score == pytest.approx(float(own @ own))
    assert math.isnan(result.baseline_score)
    assert (result.values.shape, result.names) == ((3,), ("a", "b", "c"))
    with_background = cocoax.TabularEncoder(encoder.module, columns=list("abc"), background=torch.zeros(2, 3), name="rows")
    other = cocoax.RandomAttribution(seed=3).explain(with_background, [1.0, 2.0, 3.0], target)
    assert torch.equal(other.values, result.values)
    assert not math.isnan(other.baseline_score)

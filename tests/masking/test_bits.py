"""Independent bits as masks: their sums against loops, and their covariance against samples."""

from __future__ import annotations

import torch

from cocoax.masking import BitMasks
from cocoax.methods.rise import efficient_estimate, paper_estimate

MASKS = BitMasks.draw(5, 0.4, 300, seed=0)
Y = torch.randn(300, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_draw__a_larger_count_begins_with_the_same_masks() -> None:
    more = BitMasks.draw(5, 0.4, 700, seed=0)
    assert torch.equal(more.bits[:300], MASKS.bits)
    assert len(more) == 700
    assert not torch.equal(BitMasks.draw(5, 0.4, 300, seed=1).bits, MASKS.bits)
    assert len(BitMasks.draw(5, 0.4, 0, seed=0)) == 0


def test_draw__bits_are_kept_independently() -> None:
    bits = BitMasks.draw(4, 0.3, 20_000, seed=2).bits.double()
    torch.testing.assert_close(bits.mean(0), torch.full((4,), 0.3, dtype=torch.float64), atol=0.015, rtol=0)
    torch.testing.assert_close(torch.cov(bits.T), 0.21 * torch.eye(4, dtype=torch.float64), atol=0.01, rtol=0)


def test_full__is_the_bits() -> None:
    assert torch.equal(MASKS.full(slice(3, 7)), MASKS.bits[3:7].float())


def test_weighted_sum__same_as_one_at_a_time() -> None:
    groups = torch.arange(300) % 3
    for found, rows in ((MASKS.weighted_sum(Y), range(300)), (MASKS.weighted_sum_of_squares(Y), range(300))):
        expected = sum(Y[row][:, None, None] * MASKS.bits[row].double() for row in rows)
        torch.testing.assert_close(found, expected)
    apart = MASKS.weighted_sum(Y, groups)
    for group in range(3):
        expected = sum(Y[row][:, None, None] * MASKS.bits[row].double() for row in range(group, 300, 3))
        torch.testing.assert_close(apart[group], expected)


def test_estimates__linear_score_is_found_exactly() -> None:
    """For y = Σ wⱼ mⱼ the map is E[y mⱼ]/p = wⱼ (1 - p) + p Σ w, and the control variates explain all of y."""
    w = torch.tensor([1.0, -2.0, 0.0, 0.5, 3.0], dtype=torch.float64)
    y = MASKS.bits.double() @ w[:, None]
    expected = w * 0.6 + 0.4 * w.sum()
    efficient, paper = efficient_estimate(MASKS, y), paper_estimate(MASKS, y)
    assert efficient.standard_error is not None
    assert paper.standard_error is not None
    # The fixed ridge leaves a little over; the paper's estimate is far noisier.
    assert float((efficient.values[0, 0] - expected).abs().max()) < 0.02
    assert float(efficient.standard_error.max()) < 0.2 * float(paper.standard_error.min())
    assert bool(((paper.values[0, 0] - expected).abs() < 4 * paper.standard_error[0, 0]).all())


def test_enumerate__all_subsets_once_in_a_random_order() -> None:
    everything = BitMasks.enumerate(5, None, seed=0)
    assert everything.complete
    assert everything.bits.shape == (32, 5)
    assert torch.equal(BitMasks.enumerate(5, 7, seed=0).bits, everything.bits[:7])
    assert not torch.equal(BitMasks.enumerate(5, None, seed=1).bits, everything.bits)
    assert not BitMasks.enumerate(5, 31, seed=0).complete
    assert not BitMasks(everything.bits, 0.4).complete  # subsets are not equally likely
    assert not BitMasks(torch.cat([everything.bits[:31], everything.bits[:1]]), 0.5).complete


def test_places__finds_each_mask_among_all() -> None:
    everything = BitMasks.enumerate(5, None, seed=3)
    assert torch.equal(everything.bits[everything.places(MASKS)], MASKS.bits)

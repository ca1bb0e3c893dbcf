"""Agreement of maps, against scipy; the remark where gradients and removal disagree, where it must and must not appear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

import cocoax
from cocoax.evaluation.comparison import gradient_remark, rank_agreement
from cocoax.results import Attribution

COLUMNS = [f"c{number}" for number in range(12)]


def attribution(values: Tensor, error: float | None = None, method: str = "Rise") -> Attribution:
    errors = None if error is None else torch.full(values.shape, error)
    return Attribution(values.float(), 0.5, 0.1, errors, metadata={"method": method})


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_rank_agreement__of_lists_and_of_cells() -> None:
    first, second = noise(20), noise(20, seed=1) + noise(20)
    expected = spearmanr(first.numpy(), second.numpy()).statistic
    assert rank_agreement(attribution(first), attribution(second)) == pytest.approx(expected)
    pictures = noise(28, 21), noise(28, 21, seed=1)
    cells = [each.view(7, 4, 7, 3).mean((1, 3)).flatten().numpy() for each in pictures]
    expected = spearmanr(*cells).statistic
    assert rank_agreement(*map(attribution, pictures)) == pytest.approx(expected)
    assert rank_agreement(attribution(first), attribution(torch.zeros(20))) == 0
    with pytest.raises(ValueError, match="the same features"):
        rank_agreement(attribution(first), attribution(noise(5)))


def test_gradient_remark__maps_that_agree_and_disagree() -> None:
    removal = attribution(noise(14, 14), 0.01)
    for gradient, disagrees in (
        (removal.values, False),
        (removal.values + 0.5 * noise(14, 14, seed=3), False),
        (-removal.values, True),
        (noise(14, 14, seed=4), True),
    ):
        remark = gradient_remark(attribution(gradient, method="IntegratedGradients"), removal)
        assert (remark is not None) == disagrees
        assert not disagrees or str(remark).startswith("IntegratedGradients and Rise disagree on this input")


def test_gradient_remark__is_silent_where_nothing_is_known() -> None:
    removal = attribution(noise(14, 14), 0.01)
    opposite = attribution(-removal.values)
    assert gradient_remark(opposite, removal) is not None
    assert gradient_remark(opposite, replace(removal, standard_error=torch.ones(14, 14))) is None
    assert gradient_remark(opposite, attribution(torch.zeros(14, 14))) is None
    assert gradient_remark(attribution(-noise(5)), attribution(noise(5))) is None  # five words agree by chance


class Saturated(nn.Module):
    """Columns through a sigmoid: where it is flat, gradients vanish although removal changes the score."""

    def forward(self, rows: Tensor) -> Tensor:
        return torch.sigmoid(4 * rows)


def test_gradient_remark__of_an_encoder_that_saturates() -> None:
    encoder = cocoax.TabularEncoder(Saturated(), columns=COLUMNS, background=np.zeros((1, 12)), name="saturated")
    target = cocoax.similarity_to(encoder.reference(np.ones((1, 12))), "dot")
    row = np.linspace(0.5, 3, 12)
    by_removal = cocoax.KernelShap(samples=200).explain(encoder, row, target)
    assert gradient_remark(cocoax.VanillaGradients().explain(encoder, row, target), by_removal) is not None
    assert gradient_remark(cocoax.IntegratedGradients(200).explain(encoder, row, target), by_removal) is None

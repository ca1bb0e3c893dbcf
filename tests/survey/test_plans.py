"""Plans: the matrices of a method, applied to many inputs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import cocoax
from cocoax.methods.field import pooled
from cocoax.methods.removal import RemovalMethod
from cocoax.survey.plans import Plan, seeded


@pytest.mark.parametrize(
    ("method", "shape"),
    [
        (cocoax.Rise(samples=50, grid=3), (12, 9)),
        (cocoax.Rise(samples=40), (8,)),
        (cocoax.Rise(samples=300), (4,)),  # all subsets
        (cocoax.KernelShap(samples=64), (10,)),
        (cocoax.Occlusion(window=4, stride=4), (12, 8)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, RemovalMethod) else "x".join(map(str, value)),
)
def test_draw__matrices_do_what_the_method_does(method: RemovalMethod, shape: tuple[int, ...]) -> None:
    grid = (3, 3) if len(shape) == 2 else None
    plan = Plan.draw(method, shape, grid)
    count = len(plan.masks)
    vectors = torch.randn(count + 2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    masks = method.cells(method.draw(shape), grid)
    direct = pooled(method.effects(masks, vectors[:count], vectors[count:]), shape, grid).movedim(0, -1)
    assert torch.allclose(plan.field @ vectors, direct, atol=1e-9)


def test_noise__is_that_of_the_estimate_over_draws_of_the_masks() -> None:
    """The mean square of a plan's noise, against the spread of fields whose masks differ, for scores that are not linear."""
    method = cocoax.Rise(samples=60, grid=3)
    fields, told = [], []
    for name in range(300):
        plan = Plan.draw(seeded(method, str(name)), (12, 12), 3)
        kept = plan.masks.full(slice(0, 60)).double()
        scores = torch.cat([kept[:, :6].mean((1, 2)) * kept[:, :, 6:].mean((1, 2)), torch.tensor([1.0, 0.0])])
        fields.append(plan.field @ scores)
        told.append((plan.noise @ scores).square().mean())
    spread = torch.stack(fields).var(0).mean().sqrt()
    assert float(torch.stack(told).mean().sqrt()) == pytest.approx(float(spread), rel=0.12)


def test_seeded__a_method_without_a_seed_stays_what_it_is() -> None:
    occlusion = cocoax.Occlusion(window=4, stride=4)
    assert seeded(occlusion, "a") is occlusion
    rise = cocoax.Rise()
    assert seeded(rise, "a") == seeded(rise, "a")
    assert len({seeded(rise, "a"), seeded(rise, "b"), seeded(replace(rise, seed=2), "a")}) == 3

"""Plans: the matrices of a method, applied to many inputs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import cocoax
from cocoax.attribution.field import pooled
from cocoax.attribution.removal import RemovalMethod
from cocoax.datasets.plans import GROUPS, Plan, Plans, error_of_mean, group_of, seeded


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
    direct = pooled(method.effects(masks, vectors[:count], vectors[count:]).values, shape, grid).movedim(0, -1)
    assert torch.allclose(plan.field @ vectors, direct, atol=1e-9)


def test_noise__is_that_of_the_estimate_over_draws_of_the_masks() -> None:
    """The mean square of a plan's noise, against the spread of fields whose masks differ, for scores that are not linear."""
    method = cocoax.Rise(samples=60, grid=3)
    fields, told = [], []
    for group in range(300):
        plan = Plan.draw(seeded(method, group), (12, 12), 3)
        kept = plan.masks.full(slice(0, 60)).double()
        scores = torch.cat([kept[:, :6].mean((1, 2)) * kept[:, :, 6:].mean((1, 2)), torch.tensor([1.0, 0.0])])
        fields.append(plan.field @ scores)
        told.append((plan.noise @ scores).square().mean())
    spread = torch.stack(fields).var(0).mean().sqrt()
    assert float(torch.stack(told).mean().sqrt()) == pytest.approx(float(spread), rel=0.12)


def test_plans__inputs_of_a_group_share_one_and_groups_differ() -> None:
    plans = Plans(cocoax.Rise(samples=20, grid=2), None)
    names = [str(number) for number in range(6000)]
    assert len(set(map(group_of, names))) == pytest.approx(GROUPS, abs=20)
    same = [name for name in names if group_of(name) == group_of("0")]
    assert len(same) > 1
    assert all(plans.of(name, (8, 8)) is plans.of("0", (8, 8)) for name in same)
    other = next(name for name in names if group_of(name) != group_of("0"))
    assert not torch.equal(plans.of(other, (8, 8)).field, plans.of("0", (8, 8)).field)
    assert plans.of("0", (10, 10)) is not plans.of("0", (8, 8))


def test_plans__no_more_are_kept_than_there_are_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cocoax.datasets.plans.GROUPS", 5)
    plans = Plans(cocoax.Rise(samples=10, grid=2), None)
    first = plans.of("0", (8, 8))
    for side in range(9, 14):
        plans.of("0", (side, side))
    assert plans.of("0", (8, 8)) is not first
    assert torch.equal(plans.of("0", (8, 8)).field, first.field)


def test_seeded__a_method_without_a_seed_stays_what_it_is() -> None:
    occlusion = cocoax.Occlusion(window=4, stride=4)
    assert seeded(occlusion, 3) is occlusion
    rise = cocoax.Rise()
    assert seeded(rise, 1) == seeded(rise, 1)
    assert len({seeded(rise, 1), seeded(rise, 2), seeded(replace(rise, seed=2), 1)}) == 3


@pytest.mark.parametrize("shared", [0.0, 0.3])
def test_error_of_mean__covers_what_groups_have_in_common(shared: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Means of maps whose groups share part of their error: how far they are from the truth, in errors that are told."""
    monkeypatch.setattr("cocoax.datasets.plans.GROUPS", 40)
    names = [str(number) for number in range(400)]
    group = torch.tensor([group_of(name) for name in names])
    generator = torch.Generator().manual_seed(0)
    ratios = []
    for _ in range(300):
        common = torch.randn(40, 3, 3, generator=generator)[group]
        maps = 1 + shared**0.5 * common + torch.randn(400, 3, 3, generator=generator)
        error = error_of_mean(maps, names, 400)
        assert error is not None
        ratios.append((maps.mean(0) - 1) / error)
    assert float(torch.stack(ratios).std()) == pytest.approx(1, abs=0.08)


def test_error_of_mean__few_maps_without_a_group_in_common() -> None:
    maps = torch.tensor([[1.0, 2.0], [3.0, 2.5], [2.0, 0.0]])
    error = error_of_mean(maps, ["0", "1", "2"], 3)
    assert error is not None
    assert len({group_of(name) for name in "012"}) == 3
    assert torch.allclose(error, (maps.std(0) / 3**0.5).double(), rtol=1e-3)
    assert error_of_mean(maps[:1], ["0"], 1) is None

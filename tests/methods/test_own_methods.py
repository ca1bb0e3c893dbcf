"""What methods of users' own return: mistakes end in sentences, and what is only another precision works."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.methods import Estimate, GradientMethod, Points, RemovalMethod
from tests.conftest import SmallNet, images

SIDE = 16


class Rows:
    """Masks that remove one row of pixels each; ``size`` is what ``full`` makes of them."""

    def __init__(self, count: int, size: Callable[[Tensor], Tensor]) -> None:
        self.bits = (torch.arange(count)[:, None] % SIDE != torch.arange(SIDE)).float()
        self.size = size

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {"bits": self.bits}

    def full(self, rows: slice) -> Tensor:
        return self.size(self.bits[rows][:, :, None].expand(-1, SIDE, SIDE))


def as_it_is(full: Tensor) -> Tensor:
    return full


@dataclass(frozen=True)
class Own(RemovalMethod):
    """A method whose parts can be replaced by wrong ones."""

    size: Any = field(default=as_it_is)
    masks: Any = field(default=None)
    maps: Any = field(default=None)
    heeds: bool = True

    def draw(self, shape: tuple[int, ...], count: int | None = None) -> Any:
        if self.masks is not None:
            return self.masks
        return Rows(SIDE if count is None or not self.heeds else count, self.size)

    def restore(self, shape: tuple[int, ...], tensors: dict[str, Tensor]) -> Any:
        return Rows(len(tensors["bits"]), self.size)

    def estimate(self, masks: Any, scores: Tensor, ends: Tensor) -> Any:
        drops = (ends[0] - scores.double()[:SIDE]).T[:, :, None].expand(-1, SIDE, SIDE)
        return Estimate(drops) if self.maps is None else self.maps(drops)


def setting() -> tuple[cocoax.Encoder, Tensor, list[cocoax.Target]]:
    encoder = cocoax.Encoder(SmallNet().eval(), name="small")
    return encoder, images(1)[0], [cocoax.representation_similarity(), cocoax.representation_similarity("dot")]


def explain(method: cocoax.Method, targets: int = 2) -> list[cocoax.Attribution]:
    encoder, picture, both = setting()
    return method.explain(encoder, picture, both[:targets])


@pytest.mark.parametrize("size", [Tensor.double, Tensor.bool, Tensor.int])
def test_full__numbers_of_any_type(size: Callable[[Tensor], Tensor]) -> None:
    for result, expected in zip(explain(Own(size=size)), explain(Own()), strict=True):
        assert torch.equal(result.values, expected.values)


@pytest.mark.parametrize(
    ("size", "got"),
    [
        (lambda full: full.flatten(1), [16, 256]),
        (lambda full: full[:, :4, :4], [16, 4, 4]),
        (lambda full: full[:3], [3, 16, 16]),
        (lambda full: full[:, None], [16, 1, 16, 16]),
    ],
)
def test_full__of_another_shape(size: Any, got: list[int]) -> None:
    with pytest.raises(
        ValueError, match=r"^Rows\.full gave masks \[.*\] for features \[16, 16\]; they must be \[16, 16, 16\]:"
    ) as raised:
        explain(Own(size=size))
    assert str(got) in str(raised.value)


def test_draw__no_masks() -> None:
    with pytest.raises(TypeError, match=r"^Own\.draw must return masks: an object with len\(masks\).*Got Tensor instead\.$"):
        explain(Own(masks=torch.ones(4, SIDE, SIDE)))


def test_draw__another_count_than_asked_for() -> None:
    encoder, picture, targets = setting()
    assert len(Own().run(encoder, picture).extend(encoder, 3)) == SIDE + 3
    run = Own(heeds=False).run(encoder, picture)
    with pytest.raises(ValueError, match=r"^Own\.draw was asked for 19 masks and gave 16; it must give as many"):
        run.extend(encoder, 3)
    assert run.explain(targets[0]).values.shape == (SIDE, SIDE)  # what there was is still there


@pytest.mark.parametrize(
    ("maps", "sentence"),
    [
        (lambda drops: drops, r"^Own\.estimate must return an Estimate, .*Got Tensor instead\.$"),
        (lambda drops: Estimate(drops.tolist()), r"^The values that Own\.estimate gives must be a tensor\. Got list"),
        (lambda drops: Estimate(None), r"^The values that Own\.estimate gives must be a tensor\. Got NoneType"),  # type: ignore[arg-type]
        (
            lambda drops: Estimate(drops[:, :, 0]),
            r"values that Own\.estimate gives must be \[1, 16, 16\]: .* \[1, 16\] instead",
        ),
        (lambda drops: Estimate(drops[0]), r"there is 1, then the features\. Got \[16, 16\] instead"),
        (lambda drops: Estimate(drops, drops[0]), r"^The standard_error that Own\.estimate gives must be \[1, 16, 16\]"),
        (lambda drops: Estimate(drops, neutral=drops), r"^The neutral that Own\.estimate gives must be \[1\]"),
        (lambda drops: Estimate(drops, features=drops[0]), r"^The features that Own\.estimate gives must be \[1, features\]"),
    ],
)
def test_estimate__wrong(maps: Any, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        explain(Own(maps=maps), targets=1)


@dataclass(frozen=True)
class Gradients(GradientMethod):
    """A method whose points can be replaced by wrong ones."""

    samples: int = 3
    given: Any = field(default=None)
    weighed: Any = field(default=None)

    def weights(self) -> Tensor:
        return super().weights() if self.weighed is None else self.weighed  # type: ignore[no-any-return]

    def points(self, explicand: cocoax.Explicand, baseline: Tensor, rows: slice) -> Any:
        at = torch.stack([explicand.tensor] * (rows.stop - rows.start))
        return Points(at, torch.ones(1)) if self.given is None else self.given(at)


def test_points__in_double_precision() -> None:
    expected = explain(Gradients())
    for result, single in zip(
        explain(Gradients(given=lambda at: Points(at.double(), at.double() * 0 + 1))), expected, strict=True
    ):
        torch.testing.assert_close(result.values, single.values)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (lambda at: (at, at), r"^Gradients\.points must return cocoax\.methods\.Points\(at, factor\)\. Got tuple"),
        (lambda at: Points(at, 1.0), r"^'factor' of Points must be a tensor\. Got float instead\.$"),  # type: ignore[arg-type]
        (lambda at: Points(at[0], torch.ones(1)), r"must be \[3, 3, 16, 16\]: their number, .*Got \[3, 16, 16\] instead"),
        (lambda at: Points(at[:2], torch.ones(1)), r"Got \[2, 3, 16, 16\] instead"),
        (lambda at: Points(at, torch.ones(7)), r"^The factor that Gradients\.points gives must be \[3, 3, 16, 16\],.* \[7\]"),
        (lambda at: Points(at, at[None]), r"^The factor that Gradients\.points gives must be"),
    ],
)
def test_points__wrong(given: Any, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        explain(Gradients(given=given))


@pytest.mark.parametrize(
    ("weighed", "sentence"),
    [
        ([0.5, 0.5], r"^Gradients\.weights must return a tensor \[number of points\]\. Got list"),
        (torch.ones(2, 2), r"^Gradients\.weights must return one weight for each point, \[points\]\. Got \[2, 2\]"),
        (torch.ones(0), r"Got \[0\] instead"),
    ],
)
def test_weights__wrong(weighed: Any, sentence: str) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        explain(Gradients(weighed=weighed))


@pytest.mark.parametrize("method", [cocoax.Rise(samples=20, grid=250), cocoax.Rise(samples=10**5, grid=2)])
def test_run__more_memory_than_there_is_is_told_before_encoding(method: cocoax.Rise, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def encode(batch: torch.Tensor) -> torch.Tensor:
        seen.append(len(batch))
        return batch.mean((2, 3)) + 1

    encoder = cocoax.Encoder(encode, name="means")
    monkeypatch.setattr("cocoax.methods.run._memory_of_machine", lambda: 10**6)
    with pytest.raises(ValueError, match=r"samples over \d+ cells, .* need about \d+ GB of memory; this machine has 0\. Use"):
        method.run(encoder, torch.full((3, 260, 260), 0.5).cumsum(2))
    assert sum(seen) <= 4  # both ends, and one of them again


def test_run__memory_is_not_charged_for_what_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, picture, _ = setting()
    names = [f"column {number}" for number in range(300)]
    wide = cocoax.TabularEncoder(lambda rows: rows[:, :4] + 1, columns=names, background=torch.zeros(2, 300), name="wide")
    monkeypatch.setattr("cocoax.methods.run._memory_of_machine", lambda: 20_000)
    assert len(Own().run(encoder, picture)) == SIDE
    assert len(cocoax.Rise(samples=20).run(wide, torch.ones(300))) == 20


def test_run__memory_of_all_versions_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, picture, _ = setting()
    method = cocoax.Rise(samples=100, grid=2, estimator="paper")
    several = cocoax.Several(tuple(cocoax.Constant(level) for level in (0.0, 0.3, 0.6)))
    needed = method.run(encoder, picture).representations.nbytes
    monkeypatch.setattr("cocoax.methods.run._memory_of_machine", lambda: 2 * needed)
    assert len(method.run(encoder, picture)) == 100
    with pytest.raises(ValueError, match=r"100 samples, with representations of 3 times \d+ numbers, .* Use fewer samples"):
        dataclasses.replace(method, baseline=several).run(encoder, picture)

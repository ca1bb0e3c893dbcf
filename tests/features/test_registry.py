"""Which removal an option ``baseline=`` means, for a kind of input of a user's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.features import REMOVALS, Removal, resolve
from cocoax.inputs import Explicand, Inputs


class Tensors(Inputs):
    """Prepared tensors, by removals that a test names."""

    removals: ClassVar[tuple[str, ...]] = ("Halved", "Mean")
    removal_names: ClassVar[tuple[str, ...]] = ("half",)

    def is_one(self, inputs: object) -> bool:
        return isinstance(inputs, Tensor)

    def prepare(self, item: Any) -> Tensor:
        return torch.as_tensor(item)

    def explicand(self, item: Any) -> Explicand:
        return Explicand(self.prepare(item))


@dataclass(frozen=True)
class Halved(cocoax.Baseline):
    called = "half"

    def __call__(self, explicand: Tensor) -> Tensor:
        return explicand / 2


def test_resolve__removal_of_ones_own_by_default_and_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REMOVALS, "Halved", Halved)
    assert resolve(None, Tensors()) == Halved()
    assert resolve("half", Tensors()) == Halved()
    assert resolve(cocoax.Mean(), Tensors()) == cocoax.Mean()
    with pytest.raises(ValueError, match=r"Blur is for images\."):
        resolve(cocoax.Blur(), Tensors())


@pytest.mark.parametrize("given", [None, "half"])
def test_resolve__removal_that_is_not_in_the_registry(given: str | None) -> None:
    with pytest.raises(ValueError, match=r"Tensors lists the removal 'Halved', which is not in cocoax\.features\.REMOVALS"):
        resolve(given, Tensors())


def test_resolve__blends_need_numbers() -> None:
    class Ids(Tensors):
        continuous = False

    @dataclass(frozen=True)
    class Other(Removal):
        def emptied(self, explicand: Explicand) -> Tensor:
            return explicand.tensor

        def masked(self, explicand: Explicand, emptied: Tensor, kept: Tensor) -> Tensor:
            return emptied.expand(len(kept), *emptied.shape)

    assert resolve(Other(), Ids()) == Other()
    with pytest.raises(ValueError, match=r"Halved is for numbers\."):
        resolve(Halved(), Ids())

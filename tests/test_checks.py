"""Checks say what was wrong, in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cocoax.checks import (
    _MAX_COUNT,
    as_items,
    as_numbers,
    check_at_least,
    check_count,
    check_finite,
    check_kind,
    check_plain,
    check_positive,
    import_optional,
    multiplies,
    shown,
)


def test_check_at_least__says_what_was_wrong() -> None:
    check_at_least("steps", 1, 1)
    with pytest.raises(ValueError, match="'steps'"):
        check_at_least("steps", 0, 1)
    for wrong in (float("nan"), float("inf"), 10**400):
        with pytest.raises(ValueError, match="'noise'"):
            check_at_least("noise", wrong, 0)
    with pytest.raises(TypeError, match="'noise'"):
        check_at_least("noise", "1", 0)  # type: ignore[arg-type]


def test_check_positive__says_what_was_wrong() -> None:
    for right in (0.1, 1, np.float32(0.5), np.int64(3)):
        check_positive("noise", right)  # type: ignore[arg-type]
    for wrong in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="'noise'"):
            check_positive("noise", wrong)


@pytest.mark.parametrize("wrong", [0, -1, _MAX_COUNT + 1, 10**12, 2**63])
def test_check_count__beyond_its_bounds(wrong: int) -> None:
    check_count("samples", _MAX_COUNT, 1)
    with pytest.raises(
        ValueError, match=rf"The 'samples' parameter must be at (least 1|most 10000000)\. Got {wrong} instead"
    ):
        check_count("samples", wrong, 1)


@pytest.mark.parametrize("wrong", [1.5, float("nan"), "3", None, True, [1]])
def test_check_count__no_integer(wrong: Any) -> None:
    with pytest.raises(TypeError, match="'samples'"):
        check_count("samples", wrong, 1)


def test_check_finite__and_kind() -> None:
    check_finite("It", -2)
    for wrong in (float("nan"), "1", None, True, 10**400):
        with pytest.raises(ValueError, match="It must be a finite number"):
            check_finite("It", wrong)
    with pytest.raises(TypeError, match=r"It must be a string\. Got int instead\."):
        check_kind("It", 3, str, "must be a string")


WRONG: dict[str, Callable[[], Any]] = {
    "sparse": lambda: torch.eye(3).to_sparse(),
    "complex": lambda: torch.zeros(3, dtype=torch.complex64),
    "meta": lambda: torch.zeros(3, device="meta"),
    "quantised": lambda: torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8),
}
OTHERS: dict[str, Callable[[], Any]] = {
    **{repr(wrong): (lambda wrong=wrong: wrong) for wrong in ("a", None, ["a", 1], [[1], [1, 2]], {"a": 1})},
    "an object": object,
    "strings": lambda: np.array(["x"]),
    "too many": lambda: torch.zeros(1).expand(10**9),
}


@pytest.mark.filterwarnings("ignore:torch.quantize")  # torch calls them deprecated
@pytest.mark.parametrize("kind", WRONG)
def test_check_plain__names_what_it_is(kind: str) -> None:
    check_plain(torch.zeros(3))
    with pytest.raises(TypeError, match=rf"A tensor must be plain real numbers\. Got one that is .*{kind}"):
        check_plain(WRONG[kind]())


@pytest.mark.filterwarnings("ignore:torch.quantize")
@pytest.mark.parametrize("wrong", [*WRONG, *OTHERS])
def test_as_numbers__of_what_are_none(wrong: str) -> None:
    with pytest.raises(TypeError, match=r"Weights must be numbers, as a tensor or an array\. Got "):
        as_numbers("Weights", {**WRONG, **OTHERS}[wrong]())


@pytest.mark.parametrize("right", [3, [1.5, 2], (True, False), np.arange(3), torch.ones(2, requires_grad=True)])
def test_as_numbers__of_what_are_some(right: Any) -> None:
    numbers = as_numbers("Weights", right)
    assert not numbers.requires_grad
    np.testing.assert_array_equal(numbers.numpy(), np.asarray(right.detach() if isinstance(right, torch.Tensor) else right))


def test_as_items__lists_and_others() -> None:
    assert as_items("They", (item for item in "ab")) == ["a", "b"]
    for wrong in ("ab", b"ab", 3, None, torch.tensor(1.0)):
        with pytest.raises(TypeError, match=r"They must be a list\. Got "):
            as_items("They", wrong)


def test_shown__fits_into_a_sentence() -> None:
    assert shown("a") == "'a'"
    assert shown(torch.zeros(1000)) == "Tensor"
    assert len(shown("word " * 1000)) <= 60
    assert shown(10**400) == "int" or len(shown(10**400)) <= 60


@pytest.mark.parametrize("factor", [(), (1,), (4,), (3, 1), (2, 3, 4), (3,), (1, 2, 3, 4), (2, 1, 1)])
def test_multiplies__as_torch_does(factor: tuple[int, ...]) -> None:
    shape = torch.Size((2, 3, 4))
    try:
        expected = (torch.ones(factor) * torch.ones(shape)).shape == shape
    except RuntimeError:
        expected = False
    assert multiplies(factor, shape) is expected


@pytest.mark.parametrize(("extra", "install"), [("sound", r"'cocoax\[sound\]'"), (None, "no_such_library")])
def test_import_optional__says_what_needs_it_and_how_to_get_it(extra: str | None, install: str) -> None:
    with pytest.raises(ImportError, match=rf"^Sounds need the package 'no_such_library' .*pip install {install}\.$"):
        import_optional("no_such_library.part", "Sounds need", extra)

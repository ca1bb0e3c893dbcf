"""Checks of what users pass and of what is installed: each raises with a sentence that says what was expected instead."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from importlib import import_module
from numbers import Integral, Real
from textwrap import shorten
from typing import TYPE_CHECKING, Any, SupportsFloat

if TYPE_CHECKING:  # at run time torch is imported where it is needed: to look at the cache it is not
    from torch import Tensor

_MAX_COUNT = 10_000_000  # of samples and steps: on the fastest of encoders a day's work


def shown(value: object) -> str:
    """Return a value as a sentence shows it: what can be written in a few words, or what kind of thing it is."""
    if value is None or isinstance(value, str | Real | complex):
        return shorten(repr(value), 60, placeholder="…")
    return type(value).__name__


def check_kind(what: str, value: object, kind: type | tuple[type, ...], advice: str) -> None:
    """Raise unless a value is of a kind; ``advice`` says how to get one."""
    if not isinstance(value, kind):
        raise TypeError(f"{what} {advice}. Got {type(value).__name__} instead.")


def check_number(name: str, value: float) -> None:
    """Raise unless it is a number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"The '{name}' parameter must be a number. Got {shown(value)} instead.")


def as_float(value: SupportsFloat) -> float:
    """Return a number as Python's own float; infinity if it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_finite(what: str, value: object) -> None:
    """Raise unless it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(as_float(value)):
        raise ValueError(f"{what} must be a finite number. Got {shown(value)} instead.")


def check_at_least(name: str, value: float, least: float) -> None:
    """Raise unless ``value >= least``, and finite."""
    check_number(name, value)
    if not least <= as_float(value) < math.inf:
        raise ValueError(f"The '{name}' parameter must be at least {least}. Got {shown(value)} instead.")


def check_count(name: str, value: int, least: int, most: int = _MAX_COUNT) -> None:
    """Raise unless it is an integer from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"The '{name}' parameter must be an integer of at least {least}. Got {shown(value)} instead.")
    if value < least:
        raise ValueError(f"The '{name}' parameter must be at least {least}. Got {shown(value)} instead.")
    if value > most:
        raise ValueError(f"The '{name}' parameter must be at most {most}. Got {shown(value)} instead.")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise unless a value is one of some strings."""
    if not (isinstance(value, str) and value in choices):
        *first, last = map(repr, choices)
        raise ValueError(f"The '{name}' parameter must be {', '.join(first)} or {last}. Got {shown(value)} instead.")


def check_positive(name: str, value: float) -> None:
    """Raise unless ``value > 0``, and finite."""
    check_number(name, value)
    if not 0 < as_float(value) < math.inf:
        raise ValueError(f"The '{name}' parameter must be above 0. Got {shown(value)} instead.")


def check_plain(tensor: Tensor, what: str = "A tensor") -> None:
    """Raise unless a tensor holds real numbers, all of them there; ``what`` begins the sentence."""
    import torch

    kinds = {
        "sparse": tensor.layout != torch.strided,
        "quantised": tensor.is_quantized,
        "complex": tensor.is_complex(),
        "on the meta device, without values": tensor.device.type == "meta",
    }
    for kind, applies in kinds.items():
        if applies:
            raise TypeError(f"{what} must be plain real numbers. Got one that is {kind}.")


def multiplies(factor: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether something of one shape times something of the other has the second one's shape."""
    pairs = zip(reversed(factor), reversed(shape), strict=False)
    return len(factor) <= len(shape) and all(own in (1, size) for own, size in pairs)


def as_numbers(what: str, values: Any) -> Tensor:
    """Return numbers as a plain tensor on the CPU, without gradients; raise for anything that is not numbers."""
    import torch

    try:
        tensor = torch.as_tensor(values).detach()
        check_plain(tensor)
        if tensor.numel() > 40 * _MAX_COUNT:
            raise ValueError(f"there are {tensor.numel()} of them, and the most is {40 * _MAX_COUNT}")
        return tensor.cpu()
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        why = shorten(str(error), 80, placeholder="…")
        raise TypeError(f"{what} must be numbers, as a tensor or an array. Got {shown(values)} instead ({why}).") from None


def as_items(what: str, items: Any) -> list[Any]:
    """Return what an iterable holds; raise for anything that cannot be gone through, strings included."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise TypeError(f"{what} must be a list. Got {shown(items)} instead.")
    try:
        return list(items)
    except TypeError:  # a tensor of no dimensions says that it can be gone through
        raise TypeError(f"{what} must be a list. Got {shown(items)} instead.") from None


def import_optional(name: str, need: str, extra: str | None = None) -> Any:
    """Return a package that is not among the dependencies.

    If it is not there, the error begins with ``need`` ("Sounds need") and says which ``extra`` of cocoax to install.
    """
    try:
        return import_module(name)
    except (ImportError, RuntimeError) as error:  # RuntimeError: of a torchvision whose operators are not those of torch
        package = name.partition(".")[0]
        source = package if extra is None else f"'cocoax[{extra}]'"
        hint = " If a torchvision is installed that does not fit torch, uninstall it or install the build that fits."
        raise ImportError(
            f"{need} the package {package!r} ({error}); install it with: pip install {source}."
            f"{hint if 'torchvision' in str(error) else ''}"
        ) from error

"""What training loops hold: data loaders, data sets and batches, taken apart into single inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from cocoax.inputs.base import Inputs


def each_input(inputs: Any, kind: Inputs, key: str | None = None) -> tuple[Iterator[Any], int | None]:
    """Return inputs one by one, and how many there are if that is known.

    Beside what the kind of input takes: a ``DataLoader`` or any iterable of batches, a map-style data set, items or batches
    that are ``(input, label)`` or dicts, of which ``key`` names the entry to take.
    """
    if kind.is_one(inputs) or isinstance(inputs, str):
        return kind.each(inputs)
    loader = hasattr(inputs, "dataset") and hasattr(inputs, "batch_size")
    indexed = not isinstance(inputs, Iterable) and hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__")
    if not (loader or indexed):
        items, total = kind.each(inputs)
        return _taken_apart(items, kind, key, paired=False), total
    held = inputs.dataset if loader else inputs
    total = len(held) if hasattr(held, "__len__") else None
    items = iter(inputs) if loader else (inputs[index] for index in range(len(inputs)))
    return _taken_apart(items, kind, key, paired=True, single=not loader), total


def _taken_apart(items: Iterable[Any], kind: Inputs, key: str | None, paired: bool, single: bool = False) -> Iterator[Any]:
    """Yield inputs; ``paired`` ones may come with labels, ``single`` ones are one example each, never a batch."""
    for item in items:
        part = _entry(item, key) if isinstance(item, Mapping) and (paired or key is not None) else item
        several = isinstance(part, tuple | list) and bool(part) and not kind.is_one(part)
        if several and (_is_labelled(part, kind) if not paired else single or not _alike(part, kind)):
            part = part[0]  # (inputs, labels)
        if _is_batch(part, kind, paired):
            yield from part
        else:
            yield part


def _alike(parts: Any, kind: Inputs) -> bool:
    """Whether all parts are inputs of one type: a batch of them, rather than an input and its label."""
    return len({type(part) for part in parts}) == 1 and all(kind.is_one(part) for part in parts)


def _is_labelled(parts: Any, kind: Inputs) -> bool:
    """Whether a list of a user's own holds an input and its label here: a pair of which only the first can be an input."""
    if not (isinstance(parts, tuple) and len(parts) == 2):
        return False
    given, label = parts
    if kind.is_one(given):
        return not kind.is_one(label) and not _is_batch(label, kind, False)
    return _is_batch(given, kind, False) and not _is_batch(label, kind, False)


def _is_batch(item: Any, kind: Inputs, paired: bool) -> bool:
    """Whether an item holds several inputs."""
    if kind.is_one(item):
        return False
    if isinstance(item, Tensor | np.ndarray):
        return item.ndim > 1 and len(item) > 0 and kind.is_one(item[0])
    return paired and isinstance(item, tuple | list)


def _entry(item: Mapping[Any, Any], key: str | None) -> Any:
    if key is None or key not in item:
        keys = ", ".join(repr(name) for name in item)
        what = "say which entry is the input" if key is None else f"there is no entry {key!r}"
        raise ValueError(f"The inputs come as dicts with the keys {keys}; {what}, as in key={next(iter(item), 'image')!r}.")
    return item[key]

"""Methods, removals and tensors as JSON values, and back: what saved runs and descriptions are written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor


def type_name(kind: type) -> str:
    """Return what files call a class: ours by their names, others by the module too, so that none is taken for another."""
    ours = kind.__module__.split(".")[0] == "cocoax"
    return kind.__name__ if ours else f"{kind.__module__}.{kind.__qualname__}"


def to_json_value(value: Any, tensors: dict[str, Tensor] | None = None, other: Callable[[Any], str] = str) -> Any:
    """Return a method, with the removals and tensors inside it, as JSON values.

    Tensors go to ``tensors`` under the key that stands in their place; without it only their shape is told. ``other`` gives
    the text that stands for anything else.
    """
    if is_dataclass(value) and not isinstance(value, type):
        options = {item.name: to_json_value(getattr(value, item.name), tensors, other) for item in fields(value)}
        return {"type": type_name(type(value)), **options}
    if isinstance(value, np.ndarray) and value.dtype.kind not in "biufc":
        return other(value)
    if isinstance(value, Tensor | np.ndarray):
        if tensors is None:
            return {"type": "Tensor", "shape": list(value.shape)}
        key = f"option_{len(tensors)}"
        tensors[key] = torch.as_tensor(value)
        return {"type": "Tensor" if isinstance(value, Tensor) else "Array", "key": key}
    if isinstance(value, tuple | list):
        return [to_json_value(item, tensors, other) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):  # NumPy's own, in single precision
        return float(value)
    return other(value)


def to_file_value(method: Any, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Return a method as a file holds it; raise for an option that no file can hold.

    A removal that cannot be written down is told as text: what it did is in the file.
    """
    name = type_name(type(method))

    def refuse(option: str) -> Callable[[Any], str]:
        def raise_for(value: Any) -> str:
            raise TypeError(
                f"The option '{option}' of {name} holds a {type(value).__name__}, which files do not hold; they hold "
                "numbers, strings, tuples, tensors and arrays."
            )

        return raise_for

    others = {item.name: str if item.name == "baseline" else refuse(item.name) for item in fields(method)}
    options = {option: to_json_value(getattr(method, option), tensors, other) for option, other in others.items()}
    return {"type": name, **options}


def from_json_value(plain: Any, tensors: Mapping[str, Tensor], known: Mapping[str, type]) -> Any:
    """Return what :func:`to_json_value` was given; ``known`` are the classes it may be made of."""
    if isinstance(plain, list):
        return tuple(from_json_value(item, tensors, known) for item in plain)
    if not isinstance(plain, dict):
        return plain
    options = dict(plain)
    name = options.pop("type", None)
    if name == "Tensor" and options.get("key") in tensors:
        return tensors[options["key"]]
    if name == "Array" and options.get("key") in tensors:
        return tensors[options["key"]].numpy()
    if name not in known and "." in str(name):  # a class of a user's own, with its module
        raise ValueError(f"The file was written with {name!r}, which is not known here; import the module that defines it.")
    if name not in known:
        raise ValueError(f"The file was written with {name!r}, which this version of Cocoax does not know.")
    return known[name](**{key: from_json_value(item, tensors, known) for key, item in options.items()})

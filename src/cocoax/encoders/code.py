"""What code reads and writes, and what objects hold besides: what decides what a function or a module does."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from torch import Tensor, nn

_MAKING = {"__init__", "__new__", "__post_init__", "__setstate__"}  # methods that run when an object is made


@dataclass(frozen=True)
class Names:
    """The names that a piece of code uses, nested functions included.

    Attributes:
        globals: those really loaded as globals, and never assigned as such: what is assigned counts or records things.
        reads: attributes that are read, whatever of.
        writes: attributes that are assigned.
        assigned: variables of an outer function that are assigned.

    """

    globals: frozenset[str]
    reads: frozenset[str]
    writes: frozenset[str]
    assigned: frozenset[str]


@lru_cache(maxsize=4096)  # code never changes, and one network has many modules of a kind
def names_in(code: CodeType) -> Names:
    """Return the names that code uses."""
    used: dict[str, set[str]] = {}
    for part in _with_nested(code):
        for step in dis.get_instructions(part):
            used.setdefault(step.opname, set()).add(str(step.argval))

    def by(*instructions: str) -> frozenset[str]:
        return frozenset().union(*(used.get(name, set()) for name in instructions))

    return Names(
        globals=by("LOAD_GLOBAL", "LOAD_NAME") - by("STORE_GLOBAL"),
        reads=by("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"),
        writes=by("STORE_ATTR", "DELETE_ATTR"),
        assigned=by("STORE_DEREF"),
    )


def _with_nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _with_nested(part)


def is_installed(code: CodeType) -> bool:
    """Whether code belongs to an installed library, whose inner life is its own affair."""
    return any(folder in code.co_filename for folder in ("site-packages", "dist-packages"))


def own_attributes(kind: type) -> dict[str, Any]:
    """Return the attributes of a class and of its bases, without those that every module has."""
    own: dict[str, Any] = {}
    for base in _own_bases(kind):
        own = {**vars(base), **own}
    return own


def methods_of(kind: type, *begin: str) -> list[FunctionType]:
    """Return the methods that run when those of some names do, as far as names tell: helpers and what ``super()`` leads to.

    Where libraries' own methods lead is not followed.
    """
    methods: dict[FunctionType, None] = {}  # in the order in which they were met
    names, met = list(begin), set(begin)
    while names:
        name = names.pop()
        for base in _own_bases(kind):
            method = _function(vars(base).get(name))
            if method is None or method in methods:
                continue
            methods[method] = None
            if not is_installed(method.__code__):
                new = sorted(names_in(method.__code__).reads - met)
                names += new
                met.update(new)
    return list(methods)


def _own_bases(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if base not in (nn.Module, object) and not base.__module__.startswith("torch.nn.")]


def _function(attribute: object) -> FunctionType | None:
    """Return the function behind a method, a property or the like."""
    if isinstance(attribute, staticmethod | classmethod):
        attribute = attribute.__func__
    elif isinstance(attribute, property):
        attribute = attribute.fget
    elif isinstance(attribute, cached_property):
        attribute = attribute.func
    return attribute if isinstance(attribute, FunctionType) else None


def written_by(methods: Iterable[FunctionType]) -> frozenset[str]:
    """Return the attributes that some methods assign."""
    return frozenset().union(*(names_in(method.__code__).writes for method in methods))


def lasting(value: Any) -> dict[str, Any]:
    """Return what an object of a library holds, without what its methods assign later, unless that is no record."""
    held = {name: item for part in state_of(value, pickled=False) if isinstance(part, dict) for name, item in part.items()}
    if not held:
        return {}
    own = own_attributes(type(value))
    methods = [_function(attribute) for name, attribute in own.items() if name not in _MAKING]
    written = written_by(method for method in methods if method is not None)

    def lasts(name: str, item: object) -> bool:
        made = own.get(name)
        lazy = hasattr(made, "__get__") and not hasattr(made, "__set__") and not isinstance(made, FunctionType)
        return not lazy and (name not in written or isinstance(item, Tensor | np.ndarray | nn.Module | FunctionType))

    return {name: item for name, item in held.items() if lasts(name, item)}


def state_of(value: Any, *, pickled: bool) -> list[Any]:
    """Return what an object holds: what would be pickled of it, which leaves out caches, or its attributes and slots."""
    state: Any = None
    with suppress(TypeError):  # it has none
        state = object.__getstate__(value)
    if pickled:
        with suppress(Exception):  # it cannot be pickled
            _, arguments, *rest = value.__reduce_ex__(4)
            state = (arguments, *(rest[0] if rest and isinstance(rest[0], tuple) else rest[:1]))
    return list(state) if isinstance(state, tuple) else [state]

"""What code reads and writes: the names that decide what a function or a module does."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType, FunctionType
from typing import Any

from torch import nn


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

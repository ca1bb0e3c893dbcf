"""Which snippets there are, and what each needs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

Snippet = Callable[..., None]
NEEDS: dict[str, tuple[str, ...]] = {}


def needs(*packages: str) -> Callable[[Snippet], Snippet]:
    """Say which packages a snippet needs, to be skipped where one of them is not installed."""

    def note(snippet: Snippet) -> Snippet:
        NEEDS[snippet.__name__] = packages
        return snippet

    return note


def missing(name: str) -> list[str]:
    """Return the packages that a snippet needs and that are not installed."""
    return [package for package in NEEDS.get(name, ()) if find_spec(package) is None]


def snippets() -> dict[str, Snippet]:
    """Return every snippet by its name, in the order in which they stand in their file."""
    module = import_module("tests.habits.snippets")
    functions = {name: thing for name, thing in vars(module).items() if inspect.isfunction(thing)}
    return {name: function for name, function in functions.items() if function.__module__ == module.__name__}

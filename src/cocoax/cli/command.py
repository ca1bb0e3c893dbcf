"""What all commands have in common: their help with examples, and what happens on Ctrl-C."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from cocoax.cli.terminal import Kept

# What the help calls the values of options, by their type; a flag has none.
_VALUES = {
    "bool": "",
    "str": "TEXT",
    "int": "NUMBER",
    "float": "NUMBER",
    "path": "PATH",
    "file": "FILE",
    "directory": "FOLDER",
}


class Interruption(Exception):  # noqa: N818 (not an error)
    """Ctrl-C during a command. Typer would end the program on a ``KeyboardInterrupt`` before anyone can say what was kept."""


def stoppable(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function of a command, with Ctrl-C as an error that says what was kept."""

    @functools.wraps(function)
    def command(*arguments: Any, **options: Any) -> None:
        try:
            function(*arguments, **options)
        except Kept as stop:
            raise Interruption(str(stop)) from stop
        except KeyboardInterrupt as stop:
            raise Interruption("nothing was kept") from stop

    return command


def help_of(function: Callable[..., None]) -> str:
    """Return the docstring of a command's function, each paragraph in one line: the terminal breaks it."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def examples_of(examples: Sequence[str]) -> str:
    """Return what stands at the end of a command's help."""
    return "\n".join(["[bold]Examples:[/]", *(f"  {escape(example)}" for example in examples)])


class Command(TyperCommand):
    """A command whose help says what the values of options are, and not which types Python has for them."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with words for their values."""
        return [with_words(parameter, ctx) for parameter in super().get_params(ctx)]


class Commands(TyperGroup):
    """All commands together; see :class:`Command`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with words for their values."""
        return [with_words(parameter, ctx) for parameter in super().get_params(ctx)]


def with_words(parameter: Any, ctx: Any) -> Any:
    """Return a parameter whose value the help calls TEXT or PATH, where it would be ``<list[str]>`` or ``<path>``."""
    if not hasattr(parameter, "display_type"):  # of versions of typer that have good words themselves
        return parameter
    if parameter.param_type_name == "argument":
        parameter.display_type_rich = lambda ctx: None  # its name says it
    elif parameter.metavar is None:
        kind = re.sub(r"^<|>$|list\[|\]| range", "", parameter.display_type(ctx))
        parameter.metavar = _VALUES.get(kind.lower(), kind)
    return parameter

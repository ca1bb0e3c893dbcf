"""The command ``cocoax``: all commands by name, loaded when they are called, and errors in a sentence."""

from __future__ import annotations

import functools
import gc
import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any, ClassVar

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from cocoax.cli.terminal import ExplainedInterrupt, console, errors
from cocoax.version import __version__

# What a user can do something about; the rest is a bug, with a traceback.
_USER_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError)

# Each command's "module:function" below cocoax.cli and a line of help, in the order of the help. The function's docstring is
# the command's own help and ends in examples.
COMMANDS = {
    "demo": ("system:show_demo", "Ask the starter encoder about a collage and a portrait."),
    "ask": ("ask:ask_pictures", "What in a picture is like some words or pictures, rather than like others?"),
    "ask-text": ("match:ask_text", "Which words of a text make it similar to some things, rather than to others?"),
    "match": ("match:explain_pair", "Why do two inputs match, rather than others?"),
    "why": ("match:explain_search", "Search a small index, and explain why its hits came up."),
    "minimal": ("insight:find_minimal", "The least of an input that keeps its score."),
    "counterfactual": ("insight:find_counterfactual", "The smallest change of an input that flips its score."),
    "examples": ("insight:rank_examples", "Which members of a corpus matter to an input?"),
    "knows": ("insight:measure_separability", "Does the encoder separate a corpus from a foil at all?"),
    "discover": ("insight:discover_corpora", "Find corpora in a data set: what the encoder itself puts together."),
    "compare-methods": ("insight:compare_methods", "Which attribution method should be believed on some inputs?"),
    "index": ("survey:build_index", "Explain every input of a data set once."),
    "survey": ("survey:ask_index", "Ask an index: a question to a whole data set."),
    "compare": ("survey:compare_indexes", "Where two encoders differ most on the same data."),
    "app": ("system:serve_page", "Serve the web page, to this machine only."),
    "cache": ("system:show_cache", "Look at the cache of references and runs, or clear it."),
    "encoders": ("system:list_encoders", "List the encoders that can be loaded by name."),
    "paper": ("main:paper", "The paper's experiments: studies, training, localisation."),
}
PAPER_COMMANDS = {
    "reproduce": ("paper:reproduce_study", "Run an experiment of the paper, and see its numbers beside the published ones."),
    "train": ("paper:train_encoder", "Train an encoder, or a linear classifier on one."),
    "localise": ("paper:localise_captions", "Measure whether heat maps lie on the things that captions name."),
    "augmentations": ("paper:compare_augmentations", "What of a picture survives each of seven augmentations?"),
    "convert-simclr": ("paper:convert_checkpoint", "Convert a published SimCLR checkpoint."),
}
# What the help calls the values of options, by their type; a flag has none.
_VALUE_WORDS = {
    "bool": "",
    "str": "TEXT",
    "int": "NUMBER",
    "float": "NUMBER",
    "path": "PATH",
    "file": "FILE",
    "directory": "FOLDER",
}
EXAMPLES = ("cocoax demo", 'cocoax ask photo.jpg --like "a cat" --unlike "a cup of coffee"', "cocoax ask --help")

# --- commands that are loaded when they are called ------------------------------------------------------------------------


class _LazyGroup(TyperGroup):
    """A group whose help is made of its table alone; the module of a command is imported when the command is called."""

    table: ClassVar[Mapping[str, tuple[str, str]]] = COMMANDS

    def __init__(self, **attributes: Any) -> None:
        stubs = {name: TyperCommand(name, help=text) for name, (_, text) in self.table.items()}
        super().__init__(**{**attributes, "commands": stubs})

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with words for their values."""
        return [_with_words(parameter, ctx) for parameter in super().get_params(ctx)]

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that is called, in place of its stub."""
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub if name is None else load_command(name, self.table[name][0]), rest


class _PaperGroup(_LazyGroup):
    """The commands of the paper's experiments."""

    table = PAPER_COMMANDS


class _Command(TyperCommand):
    """A command; see :func:`_with_words`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; of one too many say that questions have options."""
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            options = [f"--{name}" for name in ("question", "like") if name in {each.name for each in self.get_params(ctx)}]
            advice = f" A question goes to {' or '.join(options)}." if options else ""
            ctx.fail(f"Got an unexpected extra argument: {' '.join(rest)}.{advice}")
        return rest

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with words for their values."""
        return [_with_words(parameter, ctx) for parameter in super().get_params(ctx)]


def _with_words(parameter: Any, ctx: Any) -> Any:
    """Return a parameter whose value the help calls TEXT or PATH, where it would be ``<list[str]>`` or ``<path>``."""
    if not hasattr(parameter, "display_type"):  # of versions of typer that have good words themselves
        return parameter
    if parameter.param_type_name == "argument":
        parameter.display_type_rich = lambda ctx: None  # its name says it
    elif parameter.metavar is None:
        kind = re.sub(r"^<|>$|list\[|\]| range", "", parameter.display_type(ctx))
        parameter.metavar = _VALUE_WORDS.get(kind.lower(), kind)
    return parameter


class _Interruption(Exception):  # noqa: N818 (not an error)
    """Ctrl-C during a command. Typer would end the program on a ``KeyboardInterrupt`` before anyone can say what was kept."""


def load_command(name: str, place: str) -> Any:
    """Import a command's module and return the command, with Ctrl-C as an error that says what was kept."""
    module, function = place.split(":")
    found: Any = getattr(import_module(f"cocoax.cli.{module}"), function)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)

    @functools.wraps(found)
    def command(*arguments: Any, **options: Any) -> None:
        try:
            found(*arguments, **options)
        except ExplainedInterrupt as stop:
            raise _Interruption(str(stop)) from stop
        except KeyboardInterrupt as stop:
            raise _Interruption("nothing was kept") from stop

    from cocoax.cli.options import with_option_groups

    text, examples = help_of(found)
    single = typer.Typer(add_completion=False)
    single.command(name, cls=_Command, help=text, epilog=_as_epilog(examples))(with_option_groups(command))
    return typer.main.get_command(single)


def help_of(function: Callable[..., None]) -> tuple[str, list[str]]:
    """Return the help in a command's docstring, each paragraph in one line since the terminal breaks it, and the examples."""
    text, _, examples = (inspect.getdoc(function) or "").partition("\n\nExamples:\n")
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return "\n\n".join(paragraphs), [line.strip() for line in examples.splitlines() if line.strip()]


def _as_epilog(examples: list[str] | tuple[str, ...]) -> str:
    return "\n".join(["[bold]Examples:[/]", *(f"  {escape(example)}" for example in examples)])


# --- the program ----------------------------------------------------------------------------------------------------------

app = typer.Typer(
    cls=_LazyGroup,
    help="What in an input makes its representation similar to these things, rather than to those?",
    epilog=_as_epilog(EXAMPLES),
)
paper = typer.Typer(cls=_PaperGroup, help="The experiments of the paper, and what only they need.", add_completion=False)


def _print_version(asked: bool) -> None:
    if asked:
        console.print(__version__)
        raise typer.Exit


@app.callback(no_args_is_help=True, invoke_without_command=True)
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@paper.callback(no_args_is_help=True, invoke_without_command=True)
def _paper() -> None:
    pass


def _complain(heading: str, sentence: object) -> None:
    errors.print(f"{heading} {escape(str(sentence))}", highlight=False, soft_wrap=True)


def main() -> None:
    """Run the command line; a mistake of the user gets a sentence, not a traceback."""
    gc.set_threshold(100_000, 20, 20)  # looking for garbage while libraries are imported takes a tenth of the time of that
    # What a library would tell a programmer, a user gets as a sentence.
    warnings.showwarning = lambda message, *_where: _complain("[yellow]note:[/]", message)
    try:
        app()
    except (_Interruption, KeyboardInterrupt) as stop:
        _complain("[yellow]interrupted:[/]", stop if isinstance(stop, _Interruption) else "nothing was kept")
        raise SystemExit(130) from None
    except _USER_ERRORS as error:
        _complain("[bold red]error:[/]", error)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()

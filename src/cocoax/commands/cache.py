"""``cocoax cache``: what is in the cache."""

from __future__ import annotations

from typing import Annotated

import typer

import cocoax
from cocoax.commands.terminal import print_plain


def show_cache(clear: Annotated[bool, typer.Option("--clear", help="Delete everything in it.")] = False) -> None:
    """Look at the cache of encoded references and saved runs, or clear it."""
    info = cocoax.clear_cache() if clear else cocoax.cache_info()
    verb = "deleted" if clear else "holds"
    size = f"{info.bytes / 1e6:.1f} MB"
    print_plain(f"{info.folder}: {verb} {info.files} chunks of references, {info.runs} runs, {size}")

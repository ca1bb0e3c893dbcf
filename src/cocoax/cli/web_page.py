"""``cocoax app``: the web page."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

import cocoax
from cocoax.cli.terminal import HOW, Crop, Device, note, print_plain

EXAMPLES = ("cocoax app", "cocoax app --encoder clip:FOLDER --port 8000 --no-browser")


def serve_page(
    encoder: Annotated[str, typer.Option(help="What to ask; `cocoax encoders` lists them.", rich_help_panel=HOW)] = "starter",
    device: Device = None,
    crop: Crop = False,
    samples: Annotated[
        int, typer.Option(help="Masked copies of a photo to look at.", min=50, max=5000, rich_help_panel=HOW)
    ] = 1000,
    port: Annotated[
        int | None, typer.Option(help="Port; by default the first free one from 7860 on.", min=1, max=65535)
    ] = None,
    kept: Annotated[int, typer.Option(help="Visitors whose runs are kept.", min=1, rich_help_panel=HOW)] = 32,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in a browser.")] = True,
) -> None:
    """Serve the web page, to this machine only: choose a photo, ask in words or pictures, look at the answer."""
    from cocoax.app import launch

    note(f"Loading {encoder} …")
    loaded = cocoax.load(encoder, device=device)
    page, address = launch(
        loaded if crop else loaded.whole(), samples=samples, port=port, kept=kept, browser=browser, wait=False
    )
    print_plain(f"The page is at {address} (Ctrl-C ends it)")
    with closing(page):
        page.blocks.block_thread()

"""Serving the page: to this machine only unless told otherwise, and without anything from elsewhere."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import gradio as gr

import cocoax
from cocoax.app import parts
from cocoax.app.events import Page
from cocoax.app.guard import Guard
from cocoax.app.studio import MEGABYTES, Studio


def launch(
    encoder: str | cocoax.Encoder = "starter",
    *,
    samples: int = 1000,
    host: str = "127.0.0.1",
    port: int | None = None,
    kept: int = 16,
    browser: bool = False,
    wait: bool = True,
) -> tuple[Page, str]:
    """Serve the page; returns it and its address, at once if not to ``wait``: ``page.close()`` then ends it.

    While it lasts, the environment variables GRADIO_TEMP_DIR and COCOAX_CACHE name its own folder, which goes when it ends.

    Args:
        encoder: an encoder, or what :func:`cocoax.load` takes; visitors cannot choose another.
        samples: masked copies of a photo that are looked at.
        host: where to listen; the default is this machine only.
        port: the first free one from 7860 on if not given.
        kept: visitors whose runs are kept.
        browser: open the page in a browser.
        wait: until interrupted.

    """
    loaded = cocoax.load(encoder) if isinstance(encoder, str) else encoder
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory(prefix="cocoax-app-"))
        # Uploads, and what becomes of them, go when the page goes.
        held.enter_context(_environment(GRADIO_TEMP_DIR=folder, COCOAX_CACHE=folder))
        page = Page(Studio(loaded, cocoax.Rise(samples=samples), kept), Path(folder))
        held.callback(page.blocks.close, verbose=False)
        address = _serve(page, host, port, browser)
        if wait:
            page.blocks.block_thread()
        else:
            page.held = held.pop_all()
    return page, address


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set environment variables for a while; they are given back as they were."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _serve(page: Page, host: str, port: int | None, browser: bool) -> str:
    """Start the server; returns its address."""
    from starlette.middleware import Middleware

    _, address, _ = page.blocks.launch(
        server_name=host,
        server_port=port,
        inbrowser=browser,
        prevent_thread_lock=True,
        quiet=True,
        share=False,
        max_file_size=f"{MEGABYTES}mb",
        allowed_paths=[],
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        mcp_server=False,
        ssr_mode=False,
        pwa=False,
        show_error=False,
        state_session_capacity=64,
        theme=theme(),
        head=f"<style>{parts.asset('style.css')}</style>",  # css= would lose what depends on the width of a container
        app_kwargs={"middleware": [Middleware(Guard)], "docs_url": None, "redoc_url": None, "openapi_url": None},
    )
    return str(address)


def theme() -> gr.themes.Base:
    """Return colours and fonts; only fonts that the visitor's machine has."""
    sans = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
    return gr.themes.Base(
        primary_hue="slate", neutral_hue="slate", font=sans, font_mono=["ui-monospace", "Menlo", "monospace"]
    )

"""The server of the page: for this machine only by default, and without resources from other hosts."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from types import FrameType

import gradio as gr

import cocoax
from cocoax.app import parts
from cocoax.app.events import MAX_MEGABYTES, MAX_RUNS, Page
from cocoax.app.guard import Guard
from cocoax.app.service import EncoderService
from cocoax.app.sessions import Sessions
from cocoax.questions.answers import TOLERANCE, asking_method
from cocoax.show import html
from cocoax.survey import Index


def launch(
    encoder: str | cocoax.Encoder = "starter",
    *,
    index: str | Path | None = None,
    samples: int = 1000,
    tolerance: float | None = TOLERANCE,
    host: str = "127.0.0.1",
    port: int | None = None,
    kept: int = 32,
    browser: bool = False,
    wait: bool = True,
    prepare: bool = True,
) -> tuple[Page, str]:
    """Serve the page; returns it and its address, at once if not to ``wait``: ``page.close()`` then ends it.

    While it lasts, the environment variables GRADIO_TEMP_DIR and COCOAX_CACHE name its own folder, which goes when it ends,
    also by SIGTERM or SIGHUP (unless the process has its own way with these).

    Args:
        encoder: an encoder, or what :func:`cocoax.load` takes, which is shown whole photos; visitors cannot choose another.
        index: the folder of an index, about which visitors may ask.
        samples: masked copies of a photo that are looked at, at most.
        tolerance: the relative error of the answers at which it is enough; None looks at all of them.
        host: where to listen; the default is this machine only.
        port: the first free one from 7860 on if not given.
        kept: visitors whose photos and runs are kept at the same time.
        browser: open the page in a browser.
        wait: until interrupted.
        prepare: answer the examples of all views in the background, before visitors come.

    """
    loaded = cocoax.load(encoder) if isinstance(encoder, str) else encoder
    with ExitStack() as held:
        held.enter_context(_ended_by_signals())
        _limit_arenas()
        folder = held.enter_context(tempfile.TemporaryDirectory(prefix="cocoax-app-"))
        # Uploads, and what becomes of them, go when the page goes.
        held.enter_context(_environment(GRADIO_TEMP_DIR=folder, COCOAX_CACHE=folder))
        service = EncoderService(loaded, asking_method(samples, tolerance))
        service.warm_up()
        opened = None if index is None else Index.open(index)
        if opened is not None:
            opened.encoder = loaded  # raises if the index is of another encoder
        page = Page(service, Sessions(kept), Path(folder), opened)
        held.callback(_close, page)
        address = _serve(page, host, port, browser)
        if prepare:
            held.enter_context(_preparing(page))
        if wait:
            page.blocks.block_thread()
        else:
            page.held = held.pop_all()
    return page, address


@contextmanager
def _preparing(page: Page) -> Iterator[None]:
    """Let a thread answer the page's examples for a while."""
    stop = Event()
    thread = Thread(target=page.prepare, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5)  # not for long: one example may take its time


def _close(page: Page) -> None:
    """End the server without waiting for open tabs, which would keep it until they are closed, or for five seconds.

    That their streams are cut off is no error, and nothing is logged of it.
    """
    if page.blocks.server is not None:
        page.blocks.server.force_exit = True
    log = logging.getLogger("uvicorn.error")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        page.blocks.close(verbose=False)
    finally:
        log.setLevel(level)


def _limit_arenas() -> None:
    """Let threads share two arenas of memory: glibc gives one to each, and keeps in it what an event has freed."""
    with suppress(AttributeError, OSError, TypeError):  # other systems
        ctypes.CDLL(None).mallopt(-8, 2)  # M_ARENA_MAX


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


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP, where they would kill, into an orderly exit, in which everything that is held is let go."""

    def leave(number: int, _frame: FrameType | None) -> None:
        for again in mine:
            signal.signal(again, signal.SIG_IGN)
        gc.freeze()  # to collect the garbage of a process that ends takes seconds, with torch and Gradio in it
        sys.exit(128 + number)

    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    mine = [number for number in known if signal.getsignal(number) == signal.SIG_DFL]
    mine = mine if current_thread() is main_thread() else []  # no other thread may
    for number in mine:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)


def _serve(page: Page, host: str, port: int | None, browser: bool) -> str:
    """Start the server; returns its address."""
    from starlette.middleware import Middleware

    largest = MAX_MEGABYTES * 2**20 + 10_000  # a little for what is around the file
    guard = Middleware(Guard, host=host, folder=page.folder, largest=largest, sessions=page.sessions)
    _, address, _ = page.blocks.launch(
        server_name=host,
        server_port=port,
        inbrowser=browser,
        prevent_thread_lock=True,
        quiet=True,
        share=False,
        max_file_size=f"{MAX_MEGABYTES}mb",
        allowed_paths=[],
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        mcp_server=False,
        ssr_mode=False,
        pwa=False,
        show_error=False,
        state_session_capacity=page.sessions.kept,  # Gradio's own copies of the components; nothing is lost with them
        max_threads=MAX_RUNS + 40,  # each takes one while it waits for its turn
        theme=theme(),
        # css= would lose what depends on the width of a container.
        head=f"<style>{html.asset('style')}{parts.asset('style.css')}</style><script>{html.asset('values')}{parts.asset('address.js')}</script>",
        app_kwargs={"middleware": [guard], "docs_url": None, "redoc_url": None, "openapi_url": None},
    )
    return str(address)


def theme() -> gr.themes.Base:
    """Return colours and fonts; only fonts that the visitor's machine has."""
    sans = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
    return gr.themes.Base(
        primary_hue="slate", neutral_hue="slate", font=sans, font_mono=["ui-monospace", "Menlo", "monospace"]
    )

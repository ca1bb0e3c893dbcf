"""The web page: choose a photo, watch its one run, then ask in words or pictures and look at the answer.

    cocoax app                      # http://127.0.0.1:7860, the starter encoder

It works without a network: no fonts, scripts or telemetry from elsewhere. Photos stay on the machine that serves the page.
"""

from __future__ import annotations

import base64
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import cocoax
from cocoax.app import page
from cocoax.app.drawing import GRIDS, PALETTES, View
from cocoax.app.guard import Guard
from cocoax.app.studio import MORE, PANELS, PICTURES, Studio, Visitor, reference_picture
from cocoax.encoders import Encoder

try:
    import gradio as gr
except ImportError as error:
    raise ImportError(f"The web page needs gradio ({error}); install it with: pip install 'cocoax[app]'.") from error

__all__ = ["MEGABYTES", "Page", "launch"]

MEGABYTES = 20  # the largest upload
TOLD = (ValueError, TypeError, OSError, RuntimeError, MemoryError)  # what the page says in a sentence; the rest is a bug
SAMPLES = {  # photos to try, with a question about each
    "collage": ("a cat", "a cup of coffee / a rocket / a motorbike"),
    "astronaut": ("a helmet", "a rocket"),
    "cat": ("a cat", "a dog"),
    "coffee": ("a cup of coffee", "a spoon"),
    "rocket": ("a rocket", "a tower"),
    "motorbike": ("a motorbike", "a garage"),
}
Updates = dict[Any, Any]


class Page:
    """The page for one studio; ``blocks`` is what Gradio serves.

    ``folder`` is where uploads arrive; no file outside of it is ever opened for a visitor.
    """

    def __init__(self, studio: Studio, folder: Path) -> None:
        self.studio = studio
        self.folder = folder.resolve()
        self.held = ExitStack()  # what lasts as long as the page
        self.samples = _samples()
        with gr.Blocks(title="Cocoax", analytics_enabled=False, delete_cache=(600, 3600)) as self.blocks:
            self._lay_out()
            self._wire()
        self.blocks.queue(max_size=64, api_open=False, default_concurrency_limit=32)

    def close(self) -> None:
        """End the page: its server, its folder and its environment variables."""
        self.held.close()

    # --- layout -------------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        _html(page.header(self.studio.encoder.name))
        with gr.Row(elem_id="cx-page"):
            with gr.Column(elem_id="cx-photo", elem_classes="cx-card", min_width=280):
                self.chooser = _html(page.chooser(self.samples, MEGABYTES), js_on_load=page.asset("photo.js"))
                self.status = _html(elem_id="cx-status")
                with gr.Row(elem_classes="cx-buttons"):
                    self.stop = gr.Button("Stop", size="sm", visible=False, elem_id="cx-stop")
                    self.more = gr.Button(f"{MORE} samples more", size="sm", visible=False, elem_id="cx-more")
            with gr.Column(elem_id="cx-asks", min_width=300):
                with gr.Row(elem_id="cx-panels"):
                    self.panels = [self._panel(index) for index in range(PANELS)]
                with gr.Column(elem_classes="cx-card", elem_id="cx-proof"):
                    _html(
                        "<h2>Is the map right?</h2><p class='cx-hint'>Put the hottest pixels back into a blurred photo, or "
                        "take them out of the photo, and see how fast the score rises or falls. This looks at the photo "
                        "again and takes a few seconds.</p>"
                    )
                    self.measure = gr.Button("Insertion and deletion curves", size="sm", elem_id="cx-measure")
                    self.curves = _html(elem_id="cx-curves")
            with gr.Column(elem_id="cx-look", elem_classes="cx-card", min_width=280):
                _html("<h2>How to read it</h2>")
                self.legend = _html(page.legend(View()))
                self.opacity = gr.Slider(0, 1, View().opacity, step=0.05, label="Opacity", elem_id="cx-opacity")
                self.palette = gr.Radio(list(PALETTES), value=View().palette, label="Colours", elem_id="cx-colours")
                self.grid = gr.Radio(list(GRIDS), value=View().grid, label="Grid", elem_id="cx-grid")
                self.same = gr.Checkbox(label="One colour scale for both questions", elem_id="cx-same")
        self.file = gr.JSON(visible=False)

    def _panel(self, index: int) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        words = self.studio.takes_words
        with gr.Column(elem_classes="cx-card cx-panel", elem_id=f"cx-panel-{index}", visible=index == 0) as parts["column"]:
            _html(f"<h2><i>{index + 2}</i>{'Question' if index == 0 else 'Second question'}</h2>")
            with gr.Row(elem_classes="cx-sides"):
                for side, label, example in (("like", "Looks like", "a cat"), ("unlike", "rather than", "a dog / a fox")):
                    with gr.Column(elem_classes="cx-side", min_width=150):
                        parts[side] = gr.Textbox(
                            label=label,
                            placeholder=f"{example}" if words else "this encoder knows pictures only",
                            interactive=words,
                            max_lines=1,
                            max_length=2000,
                            elem_id=f"cx-{side}-{index}",
                        )
                        parts[f"{side} pictures"] = _html(
                            page.pictures([]),
                            js_on_load=page.asset("pictures.js"),
                            elem_classes="cx-refs",
                            elem_id=f"cx-{side}-pictures-{index}",
                        )
            with gr.Row(elem_classes="cx-buttons"):
                parts["ask"] = gr.Button("Ask", variant="primary", size="sm", elem_id=f"cx-ask-{index}")
                if index == 0:
                    self.compare = gr.Checkbox(label="Compare with a second question", elem_id="cx-compare")
            parts["figure"] = _html(
                page.figure(Visitor(), index), js_on_load=page.asset("figure.js"), elem_id=f"cx-figure-{index}"
            )
            with gr.Row(elem_classes="cx-buttons"):
                parts["png"] = gr.Button("Download PNG", size="sm", elem_id=f"cx-png-{index}")
                parts["json"] = gr.Button("Download JSON", size="sm", elem_id=f"cx-json-{index}")
        return parts

    # --- events -------------------------------------------------------------------------------------------------------

    def _wire(self) -> None:
        figures = [panel["figure"] for panel in self.panels]
        run = [self.status, self.stop, self.more, *figures]
        dropped = [[panel["like pictures"], panel["unlike pictures"]] for panel in self.panels]
        first = [self.panels[0]["like"], self.panels[0]["unlike"], *dropped[0]]
        quiet: Any = {"show_progress": "hidden", "api_visibility": "private"}
        again: Any = {**quiet, "trigger_mode": "multiple"}  # also while an earlier one has not ended
        last: Any = {**quiet, "trigger_mode": "always_last"}
        self.chooser.photo(self.on_photo, None, run, **again)
        self.chooser.sample(self.on_sample, None, [*run, *first], **again)
        self.chooser.refused(self.on_refused, None, self.status, **again)
        self.more.click(self.on_more, None, run, **again)
        self.stop.click(self.on_stop, None, self.stop, **again)
        view: list[Any] = [self.opacity, self.palette, self.grid, self.same]
        for control in view:
            control.input(self.on_view, view, [*figures, self.legend], **last)
        self.compare.input(self.on_compare, self.compare, [self.panels[1]["column"], *figures, *dropped[1]], **last)
        self.measure.click(self.on_curves, None, self.curves, api_visibility="private")
        for index, panel in enumerate(self.panels):
            sides = [panel["like"], panel["unlike"]]
            number = gr.State(index)
            asked: Any = {"fn": self.on_ask, "inputs": [number, *sides], "outputs": figures, **last}
            for trigger in (panel["like"].submit, panel["unlike"].submit, panel["ask"].click):
                trigger(**asked)
            panel["figure"].point(self.on_point, None, figures, **again)
            for side in ("like", "unlike"):
                shown = panel[f"{side} pictures"]
                given = [number, gr.State(side), *sides]
                shown.dropped(self.on_dropped, given, [shown, *figures], **again)
                shown.removed(self.on_removed, given, [shown, *figures], **again)
                shown.refused(self.on_too_large, number, figures, **again)
            for kind in ("png", "json"):
                made = panel[kind].click(self.on_download, [number, gr.State(kind)], [self.file, panel["figure"]], **quiet)
                made.then(None, self.file, None, js=page.asset("download.js"))
        self.blocks.unload(self.on_leave)

    def visitor(self, request: gr.Request) -> Visitor:
        """Who asks."""
        return self.studio.visitor(str(request.session_hash))

    def on_photo(self, event: gr.EventData, request: gr.Request) -> Iterator[Updates]:
        """A photo was uploaded."""
        visitor = self.visitor(request)
        yield from self._look(visitor, lambda: self.studio.choose(visitor, self.uploaded(event._data.get("path"))))

    def on_sample(self, event: gr.EventData, request: gr.Request) -> Iterator[Updates]:
        """A sample photo was chosen; it brings a question with it."""
        visitor = self.visitor(request)
        name = str(event._data.get("name"))

        def choose() -> None:
            if name not in self.samples:
                raise ValueError(f"No sample photo is called {name!r}; there are {', '.join(self.samples)}.")
            self.studio.choose(visitor, self.samples[name])
            if self.studio.takes_words:
                visitor.pictures[0] = {"like": [], "unlike": []}
                self.studio.ask(visitor, 0, *SAMPLES[name])

        words = dict(zip((self.panels[0]["like"], self.panels[0]["unlike"]), SAMPLES.get(name, ("", "")), strict=True))
        asked = {**words, **self.pictures(Visitor(), 0)}  # the sample's question has words only
        yield from self._look(visitor, choose, asked if self.studio.takes_words else {})

    def on_more(self, request: gr.Request) -> Iterator[Updates]:
        """More samples were asked for."""
        visitor = self.visitor(request)
        yield from self._look(visitor, lambda: None, more=MORE)

    def _look(
        self, visitor: Visitor, choose: Callable[[], None], also: Updates | None = None, more: int = 0
    ) -> Iterator[Updates]:
        """Run the encoder and show how far it is and what the questions' answers are so far."""
        try:
            choose()
            for progress in self.studio.sample(visitor, more):
                yield {
                    self.status: page.status(visitor, progress),
                    self.stop: gr.Button(visible=progress.running, interactive=True),
                    self.more: gr.Button(visible=not progress.running),
                    **self.figures(visitor),
                    **(also or {}),
                }
                also = None
        except TOLD as error:
            yield {self.status: page.status(visitor, message=self.sentence(error)), self.stop: gr.Button(visible=False)}

    def on_stop(self, request: gr.Request) -> Any:
        """Stop the run; it says so itself when it has."""
        self.visitor(request).stopping = True
        return gr.Button(interactive=False)

    def on_refused(self, event: gr.EventData, request: gr.Request) -> str:
        """The browser could not upload a photo."""
        return page.status(self.visitor(request), message=_refusal(event))

    def on_leave(self, request: gr.Request) -> None:
        """The visitor has closed the page."""
        self.studio.leave(str(request.session_hash))

    def on_ask(self, index: int, like: str, unlike: str, request: gr.Request) -> Updates:
        """A question was asked."""
        visitor = self.visitor(request)
        try:
            self.studio.ask(visitor, index, str(like or ""), str(unlike or ""))
        except TOLD as error:
            return {self.panels[index]["figure"]: page.figure(visitor, index, self.sentence(error))}
        return self.figures(visitor, None if visitor.view.same_scale else index)

    def on_dropped(self, index: int, side: str, like: str, unlike: str, event: gr.EventData, request: gr.Request) -> Updates:
        """Reference pictures were dropped."""
        visitor = self.visitor(request)
        there = visitor.pictures[index][side]
        try:
            new = [self.uploaded(one["path"]) for one in event._data["files"]]
            if len(there) + len(new) > PICTURES:
                raise ValueError(f"At most {PICTURES} pictures fit on one side; these would be {len(there) + len(new)}.")
            pictures = [reference_picture(path) for path in new]
        except (*TOLD, KeyError) as error:
            return {self.panels[index]["figure"]: page.figure(visitor, index, self.sentence(error))}
        visitor.pictures[index][side] = [*there, *pictures]
        return self._with_pictures(index, side, like, unlike, request)

    def on_removed(self, index: int, side: str, like: str, unlike: str, event: gr.EventData, request: gr.Request) -> Updates:
        """A reference picture was taken away."""
        pictures = self.visitor(request).pictures[index]
        number = event._data.get("index")
        pictures[side] = [image for place, image in enumerate(pictures[side]) if place != number]
        return self._with_pictures(index, side, like, unlike, request)

    def _with_pictures(self, index: int, side: str, like: str, unlike: str, request: gr.Request) -> Updates:
        pictures = self.visitor(request).pictures[index][side]
        return {self.panels[index][f"{side} pictures"]: page.pictures(pictures), **self.on_ask(index, like, unlike, request)}

    def on_too_large(self, index: int, event: gr.EventData, request: gr.Request) -> Updates:
        """The browser could not upload a reference picture."""
        return {self.panels[index]["figure"]: page.figure(self.visitor(request), index, _refusal(event))}

    def on_view(self, opacity: float, palette: str, grid: str, same: bool, request: gr.Request) -> Updates:
        """Opacity, colours or grid were changed."""
        visitor = self.visitor(request)
        visitor.view = View(opacity, palette, grid, bool(same))
        return {**self.figures(visitor), self.legend: page.legend(visitor.view)}

    def on_compare(self, wanted: bool, request: gr.Request) -> Updates:
        """The second question was opened or put away."""
        visitor = self.visitor(request)
        if not wanted:
            self.studio.drop(visitor, 1)
        column = {self.panels[1]["column"]: gr.Column(visible=bool(wanted))}
        return {**column, **self.figures(visitor), **self.pictures(visitor, 1)}

    def on_point(self, event: gr.EventData, request: gr.Request) -> Updates:
        """A place on a map was clicked; all maps tell what they say there."""
        visitor = self.visitor(request)
        x, y = (float(event._data.get(axis, -1)) for axis in "xy")
        visitor.place = (x, y) if 0 <= x <= 1 and 0 <= y <= 1 else None
        return self.figures(visitor)

    def on_curves(self, request: gr.Request) -> str:
        """Insertion and deletion curves were asked for."""
        try:
            found = self.studio.curves(self.visitor(request))
        except TOLD as error:
            return page.notice(self.sentence(error))
        return f'<img class="cx-curves" alt="insertion and deletion curves" src="{page.curve_plot(found)}">'

    def on_download(self, index: int, kind: str, request: gr.Request) -> Updates:
        """An answer was asked for as a file."""
        visitor = self.visitor(request)
        answer = visitor.answers[index]
        if answer is None:
            told = page.figure(visitor, index, "There is nothing to download yet; choose a photo and ask.")
            return {self.file: None, self.panels[index]["figure"]: told}
        if kind == "png":
            mime, data = "image/png", page.card(answer, visitor.view, *page.scale_of(visitor, index))
        else:
            mime, data = "application/json", json.dumps(answer.describe(), ensure_ascii=False).encode()
        name = re.sub(r"\W+", "-", answer.name).strip("-")[:60] or "answer"
        return {self.file: {"name": f"{name}.{kind}", "data": f"data:{mime};base64,{base64.b64encode(data).decode()}"}}

    # --- helpers ------------------------------------------------------------------------------------------------------

    def figures(self, visitor: Visitor, index: int | None = None) -> Updates:
        """The figures, drawn again."""
        return {
            panel["figure"]: page.figure(visitor, number)
            for number, panel in enumerate(self.panels)
            if index in (None, number)
        }

    def pictures(self, visitor: Visitor, index: int) -> Updates:
        """The reference pictures of a question, shown again."""
        return {
            self.panels[index][f"{side} pictures"]: page.pictures(given) for side, given in visitor.pictures[index].items()
        }

    def uploaded(self, path: Any) -> Path:
        """A path that the browser sent, if it is one of our uploads."""
        found = Path(str(path)).resolve()
        if not found.is_relative_to(self.folder) or not found.is_file():
            raise ValueError("The picture was not uploaded to this page; drop it again.")
        return found

    def sentence(self, error: BaseException) -> str:
        """What an error says, without the places where files lie."""
        text = str(error) or type(error).__name__
        return re.sub(re.escape(str(self.folder)) + r"/(?:[^/\s]+/)*", "", text)


def _refusal(event: gr.EventData) -> str:
    name, reason = (str(event._data.get(what, "")) for what in ("name", "reason"))
    if "size" in reason:
        return f"{name} is too large: at most {MEGABYTES} MB can be uploaded. Make it smaller first."
    return f"{name} could not be uploaded; try again."


def _samples() -> dict[str, Any]:
    """The sample photos, if the package they come with is there."""
    from cocoax.data import collage, photo

    try:
        return {name: collage() if name == "collage" else photo(name) for name in SAMPLES}
    except ImportError:
        return {}


def _html(value: str = "", **options: Any) -> gr.HTML:
    """A part of the page in our own style."""
    return gr.HTML(value, apply_default_css=False, **options)


def theme() -> gr.themes.Base:
    """Colours and fonts; only fonts that the visitor's machine has."""
    sans = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
    return gr.themes.Base(
        primary_hue="slate", neutral_hue="slate", font=sans, font_mono=["ui-monospace", "Menlo", "monospace"]
    )


def launch(
    encoder: str | Encoder = "starter",
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
        made = Page(Studio(loaded, cocoax.Rise(samples=samples), kept), Path(folder))
        held.callback(made.blocks.close, verbose=False)
        address = _serve(made, host, port, browser)
        if wait:
            made.blocks.block_thread()
        else:
            made.held = held.pop_all()
    return made, address


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Environment variables for a while; they are given back as they were."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _serve(made: Page, host: str, port: int | None, browser: bool) -> str:
    from starlette.middleware import Middleware

    _, address, _ = made.blocks.launch(
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
        head=f"<style>{page.asset('style.css')}</style>",  # css= would lose what depends on the width of a container
        app_kwargs={"middleware": [Middleware(Guard)], "docs_url": None, "redoc_url": None, "openapi_url": None},
    )
    return str(address)

"""What happens on the page: a photo is chosen, a question asked, an answer looked at."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gradio as gr
from PIL import Image

from cocoax.app import parts
from cocoax.app.drawing import View, card
from cocoax.app.layout import SIDES, Layout
from cocoax.app.studio import MEGABYTES, MORE, PICTURES, Studio, reference_picture
from cocoax.app.visitors import Visitor
from cocoax.masking.baseline_presets import offered_by
from cocoax.report import data_uri

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
        self.baselines = offered_by(studio.encoder)
        chooser = parts.chooser(self.samples, SAMPLES if studio.takes_words else {}, MEGABYTES)
        with gr.Blocks(title="Cocoax", analytics_enabled=False, delete_cache=(600, 3600)) as self.blocks:
            self.layout = Layout(studio.encoder.name, studio.takes_words, chooser, list(self.baselines))
            self._wire()
        # The studio bounds what goes on at once; Gradio's own limits would make visitors wait without a word.
        self.blocks.queue(max_size=256, api_open=False, default_concurrency_limit=None)

    def close(self) -> None:
        """End the page: its server, its folder and its environment variables."""
        self.held.close()

    def _wire(self) -> None:
        """Tell Gradio which method answers which event, what it reads and what it writes."""
        page = self.layout
        run = [page.notice, page.status, page.stop, page.more, page.curves, *page.figures]
        first, second = page.panels
        quiet: Any = {"show_progress": "hidden", "api_visibility": "private"}
        again: Any = {**quiet, "trigger_mode": "multiple"}  # also while an earlier one has not ended
        last: Any = {**quiet, "trigger_mode": "always_last"}
        page.chooser.photo(self.on_photo, None, run, **again)
        page.chooser.sample(self.on_sample, None, [*run, first.notice, *first.pictures.values()], **again)
        page.chooser.refused(self.on_refused, None, page.notice, **again)
        page.more.click(self.on_more, None, run, **again)
        page.baseline.input(self.on_baseline, page.baseline, run, **again)
        page.stop.click(self.on_stop, None, page.stop, **again)
        view: list[Any] = [page.opacity, page.palette, page.grid, page.same]
        for control in view:
            control.input(self.on_view, view, [*page.figures, page.legend], **last)
        compared = [second.column, second.notice, page.status, page.curves, *page.figures, *second.pictures.values()]
        page.compare.input(self.on_compare, page.compare, compared, **last)
        further: Any = {"fn": self.on_asked, "inputs": None, "outputs": run, **again}  # what an answer lacks, it gets then
        page.measure.click(self.on_curves, None, page.curves, api_visibility="private")
        for index, panel in enumerate(page.panels):
            number = gr.State(index)
            words = list(panel.words.values())
            answered = [panel.notice, page.status, page.curves, *page.figures]
            asked: Any = {"fn": self.on_ask, "inputs": [number, *words], "outputs": answered, **last}
            for trigger in (*(box.submit for box in words), panel.ask.click):
                trigger(**asked).then(**further)
            panel.figure.point(self.on_point, None, page.figures, **again)
            for side, pictures in panel.pictures.items():
                inputs, outputs = [number, gr.State(side), *words], [pictures, *answered]
                pictures.dropped(self.on_dropped, inputs, outputs, **again).then(**further)
                pictures.removed(self.on_removed, inputs, outputs, **again).then(**further)
                pictures.refused(self.on_too_large, number, panel.notice, **again)
            for kind, button in (("png", panel.png), ("json", panel.json)):
                made = button.click(self.on_download, [number, gr.State(kind)], [page.file, panel.notice], **quiet)
                made.then(None, page.file, None, js=parts.asset("download.js"))
        self.blocks.unload(self.on_leave)

    # --- events -------------------------------------------------------------------------------------------------------

    def visitor(self, request: gr.Request) -> Visitor:
        """Return the visitor who sent a request."""
        return self.studio.visitor(str(request.session_hash))

    def on_photo(self, event: gr.EventData, request: gr.Request) -> Iterator[Updates]:
        """Look at an uploaded photo."""
        visitor = self.visitor(request)
        try:
            taken = self.studio.choose(visitor, self.uploaded(_said(event).get("path")), choice=_choice(event))
        except TOLD as error:
            yield {self.layout.notice: parts.notice(self.sentence(error))}
        else:
            yield from self._look(visitor) if taken else ()

    def on_sample(self, event: gr.EventData, request: gr.Request) -> Iterator[Updates]:
        """Look at a sample photo, and ask the question that comes with it; the browser has written its words already."""
        visitor = self.visitor(request)
        name = str(_said(event).get("name"))
        try:
            if name not in self.samples:
                raise ValueError(f"No sample photo is called {name!r}; there are {', '.join(self.samples)}.")
            words = SAMPLES[name] if self.studio.takes_words else None
            taken = self.studio.choose(visitor, self.samples[name], words, _choice(event))
        except TOLD as error:
            yield {self.layout.notice: parts.notice(self.sentence(error))}
            return
        if taken:
            yield {self.layout.panels[0].notice: "", **self.pictures(visitor, 0)}
            yield from self._look(visitor)

    def on_more(self, request: gr.Request) -> Iterator[Updates]:
        """Encode more masked copies of the photo."""
        yield from self._look(self.visitor(request), more=MORE)

    def on_asked(self, request: gr.Request) -> Iterator[Updates]:
        """Go on with a run that was over, if it does not say enough about what was asked."""
        visitor = self.visitor(request)
        yield self._unchanged()
        if self.studio.lacks(visitor):
            yield from self._look(visitor)

    def on_baseline(self, name: str, request: gr.Request) -> Iterator[Updates]:
        """Look at the photo again, with something else in place of removed parts."""
        visitor = self.visitor(request)
        yield self._unchanged()
        if name not in self.baselines:
            names = ", ".join(self.baselines)
            yield {self.layout.notice: parts.notice(f"Removed parts become one of {names}. Got {name!r}.")}
        elif self.studio.replace_by(visitor, self.baselines[name]):
            yield from self._look(visitor)

    def _look(self, visitor: Visitor, more: int = 0) -> Iterator[Updates]:
        """Run the encoder, and show how far it is and what the answers are so far."""
        if not more:
            yield {self.layout.notice: "", self.layout.curves: ""}
        try:
            for _ in self.studio.sample(visitor, more):
                yield self._run_shown(visitor)
        except Exception as error:
            yield {**self._run_shown(visitor), self.layout.notice: parts.notice(self.sentence(error))}
            if not isinstance(error, TOLD):
                raise

    def _unchanged(self) -> Updates:
        """Return what changes nothing; of an event that says nothing at all, Gradio would empty everything."""
        return {self.layout.stop: gr.skip()}

    def _run_shown(self, visitor: Visitor) -> Updates:
        """Return the run and the answers so far, drawn again."""
        return {
            self.layout.status: parts.status(visitor),
            self.layout.stop: gr.Button(visible=visitor.running, interactive=not visitor.stopping),
            self.layout.more: gr.Button(visible=visitor.explicand is not None and not visitor.running),
            **self.figures(visitor),
        }

    def on_stop(self, request: gr.Request) -> Any:
        """Stop the run, which says so itself when it has ended."""
        self.studio.stop(self.visitor(request))
        return gr.Button(interactive=False)

    def on_refused(self, event: gr.EventData) -> str:
        """Say why the browser could not upload a photo."""
        return parts.notice(_refusal(event))

    def on_leave(self, request: gr.Request) -> None:
        """Forget a visitor who has closed the page."""
        self.studio.leave(str(request.session_hash))

    def on_ask(self, index: int, like: str, unlike: str, request: gr.Request) -> Updates:
        """Answer a question."""
        visitor = self.visitor(request)
        try:
            self.studio.ask(visitor, index, str(like or ""), str(unlike or ""))
        except TOLD as error:
            return self.notice(index, self.sentence(error))
        return {
            **self.notice(index, ""),
            **self._changed(visitor),
            **self.figures(visitor, None if visitor.view.same_scale else index),
        }

    def _changed(self, visitor: Visitor) -> Updates:
        """Return what a new question changes beside its figure: the curves go, and the error is another one.

        While a run goes on it draws its own status; this one could arrive after its last.
        """
        status = {} if visitor.running else {self.layout.status: parts.status(visitor)}
        return {self.layout.curves: "", **status}

    def on_dropped(self, index: int, side: str, like: str, unlike: str, event: gr.EventData, request: gr.Request) -> Updates:
        """Add dropped pictures to one side of a question, and answer it again."""
        visitor = self.visitor(request)
        there = visitor.pictures[index][side]
        try:
            new = [self.uploaded(file["path"]) for file in _said(event)["files"]]
            if len(there) + len(new) > PICTURES:
                raise ValueError(f"At most {PICTURES} pictures fit on one side; these would be {len(there) + len(new)}.")
            pictures = [reference_picture(path) for path in new]
        except (*TOLD, KeyError) as error:
            return self.notice(index, self.sentence(error))
        visitor.pictures[index][side] = [*there, *pictures]
        return self._with_pictures(index, side, like, unlike, request)

    def on_removed(self, index: int, side: str, like: str, unlike: str, event: gr.EventData, request: gr.Request) -> Updates:
        """Take a picture away from one side of a question, and answer it again."""
        pictures = self.visitor(request).pictures[index]
        number = _said(event).get("index")
        pictures[side] = [image for place, image in enumerate(pictures[side]) if place != number]
        return self._with_pictures(index, side, like, unlike, request)

    def _with_pictures(self, index: int, side: str, like: str, unlike: str, request: gr.Request) -> Updates:
        """Return the pictures of one side, shown again, and the answer to the question with them."""
        shown = self.layout.panels[index].pictures[side]
        pictures = self.pictures(self.visitor(request), index)[shown]
        return {shown: pictures, **self.on_ask(index, like, unlike, request)}

    def on_too_large(self, index: int, event: gr.EventData) -> Updates:
        """Say why the browser could not upload a picture for a question."""
        return self.notice(index, _refusal(event))

    def on_view(self, opacity: float, palette: str, grid: str, same: bool, request: gr.Request) -> Updates:
        """Draw the maps in another way."""
        visitor = self.visitor(request)
        visitor.view = View(opacity, palette, grid, bool(same))
        return {**self.figures(visitor), self.layout.legend: parts.legend(visitor.view)}

    def on_compare(self, wanted: bool, request: gr.Request) -> Updates:
        """Open the second question or put it away."""
        visitor = self.visitor(request)
        if not wanted:
            self.studio.drop(visitor, 1)
        column = {self.layout.panels[1].column: gr.Column(visible=bool(wanted))}
        changed = {} if wanted else {**self.notice(1, ""), **self._changed(visitor)}
        return {**column, **changed, **self.figures(visitor), **self.pictures(visitor, 1)}

    def on_point(self, event: gr.EventData, request: gr.Request) -> Updates:
        """Show what all maps say at the place that was clicked."""
        visitor = self.visitor(request)
        x, y = (_said(event).get(axis) for axis in "xy")
        on_map = all(isinstance(place, int | float) and 0 <= place <= 1 for place in (x, y))
        visitor.point = (float(x), float(y)) if on_map else None  # type: ignore[arg-type]
        return self.figures(visitor)

    def on_curves(self, request: gr.Request) -> str:
        """Draw insertion and deletion curves; nothing if there is another photo or question by now."""
        visitor = self.visitor(request)
        changes = visitor.changes
        try:
            measured = self.studio.curves(visitor)
        except TOLD as error:
            return parts.notice(self.sentence(error))
        shown = parts.curves(measured)
        return shown if visitor.changes == changes else ""

    def on_download(self, index: int, kind: str, request: gr.Request) -> Updates:
        """Send an answer as a file."""
        visitor = self.visitor(request)
        answer = visitor.answers[index]
        if answer is None:
            nothing = "There is nothing to download yet; choose a photo and ask."
            return {self.layout.file: None, **self.notice(index, nothing)}
        if kind == "png":
            data = data_uri("image/png", card(answer, visitor.view, *parts.scale_of(visitor, index)))
        else:
            data = data_uri("application/json", json.dumps(answer.describe(), ensure_ascii=False).encode())
        name = re.sub(r"\W+", "-", answer.name).strip("-")[:60] or "answer"
        return {self.layout.file: {"name": f"{name}.{kind}", "data": data}, **self.notice(index, "")}

    # --- helpers ------------------------------------------------------------------------------------------------------

    def figures(self, visitor: Visitor, index: int | None = None) -> Updates:
        """Return the figures of all panels, or of one, drawn again."""
        return {
            panel.figure: parts.figure(visitor, number)
            for number, panel in enumerate(self.layout.panels)
            if index in (None, number)
        }

    def pictures(self, visitor: Visitor, index: int) -> Updates:
        """Return the pictures of both sides of a question, shown again."""
        shown = self.layout.panels[index].pictures
        return {shown[side]: parts.pictures(images, SIDES[side][0]) for side, images in visitor.pictures[index].items()}

    def notice(self, index: int, message: str) -> Updates:
        """Return the sentence above an answer about what went wrong; it stays there until the visitor does better."""
        return {self.layout.panels[index].notice: parts.notice(message)}

    def uploaded(self, path: Any) -> Path:
        """Return the path that the browser sent; raise if it is not one of our uploads."""
        file = Path(str(path)).resolve()
        if not file.is_relative_to(self.folder) or not file.is_file():
            raise ValueError("The picture was not uploaded to this page; drop it again.")
        return file

    def sentence(self, error: BaseException) -> str:
        """Return what an error says, without the folders where files lie."""
        text = str(error) or type(error).__name__
        if not isinstance(error, TOLD):
            text = f"Something in the page is broken ({type(error).__name__}: {error}); choose the photo again."
        return re.sub(re.escape(str(self.folder)) + r"/(?:[^/\s]+/)*", "", text)


def _said(event: gr.EventData) -> dict[str, Any]:
    """Return what the browser says about an event; nothing if that is not what the page's own script would say."""
    return event._data if isinstance(event._data, dict) else {}


def _choice(event: gr.EventData) -> int:
    """Return the number that the browser gave to a choice of photo."""
    choice = _said(event).get("choice")
    return choice if isinstance(choice, int) else 0


def _refusal(event: gr.EventData) -> str:
    """Return a sentence about a file that the browser could not upload."""
    name, reason = (str(_said(event).get(key, "")) for key in ("name", "reason"))
    if "size" in reason:
        return f"{name} is too large: at most {MEGABYTES} MB can be uploaded. Make it smaller first."
    return f"{name} could not be uploaded; try again."


def _samples() -> dict[str, Image.Image]:
    """Return the sample photos, if the package they come with is there."""
    from cocoax.data import collage, photo

    try:
        return {name: collage() if name == "collage" else photo(name) for name in SAMPLES}
    except ImportError:
        return {}

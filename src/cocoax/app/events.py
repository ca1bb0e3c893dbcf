"""The events of the page: which handler answers which event, and what the handlers do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event
from typing import Any

import gradio as gr
from PIL import Image

from cocoax.app import parts
from cocoax.app.drawing import Look, file_of
from cocoax.app.layout import FILES, SIDES, Layout, TaskPanel
from cocoax.app.service import PHOTO_AREA, REFERENCE_AREA, EncoderService
from cocoax.app.sessions import Session, Sessions
from cocoax.app.views import framed, views_of
from cocoax.masking.removals import presets_of
from cocoax.show.raster import data_uri
from cocoax.survey import Index

MAX_MEGABYTES = 20  # of an upload
MAX_PICTURES = 12  # reference pictures on one side of a question
MAX_RUNS = 32  # that take turns; further ones wait in Gradio's queue
UPLOADS_DELETED = (30, 60)  # how often, and those of which age, in seconds; events read them within a few
TOLD = (ValueError, TypeError, OSError, RuntimeError, MemoryError)  # errors that the page shows; others are bugs
SAMPLES = {  # photos to try, with a question about each
    "collage": ("a cup of coffee", "a cat / a rocket / a motorbike"),
    "astronaut": ("a helmet", "a rocket"),
    "cat": ("a cat", "a dog"),
    "coffee": ("a cup of coffee", "a spoon"),
    "rocket": ("a rocket", "a tower"),
    "motorbike": ("a motorbike", "a garage"),
}
Updates = dict[Any, Any]


class Page:
    """The page; ``blocks`` is what Gradio serves.

    Args:
        service: the encoder's work.
        sessions: the page's visitors.
        folder: where uploads arrive; no file outside of it is opened for a visitor.
        index: of a data set that visitors may ask about.

    """

    def __init__(self, service: EncoderService, sessions: Sessions, folder: Path, index: Index | None = None) -> None:
        self.service = service
        self.sessions = sessions
        self.folder = folder.resolve()
        self.held = ExitStack()  # what lasts as long as the page
        self.samples = service.samples(SAMPLES)
        self.baselines = presets_of(service.encoder) if service.takes_pictures else {}
        chooser = ""
        if service.takes_pictures:
            chooser = parts.chooser(self.samples, SAMPLES if service.takes_words else {}, MAX_MEGABYTES)
        with gr.Blocks(title="Cocoax", analytics_enabled=False, delete_cache=UPLOADS_DELETED) as self.blocks:
            gr.HTML(parts.header(service.encoder.name, service.encoder.inputs.noun), apply_default_css=False)
            with gr.Tabs(elem_id="cx-views") as self.tabs:
                if service.takes_pictures:
                    with gr.Tab("Photo", id="Photo", render_children=True):
                        self.layout = Layout(service.takes_words, chooser, list(self.baselines))
                self.tasks = []
                for view in views_of(service, index):
                    with gr.Tab(view.name, id=view.name, render_children=True):
                        self.tasks.append(TaskPanel(view))
            self._address = gr.JSON(visible=False)
            if service.takes_pictures:
                self._wire()
            self._wire_tasks()
        self.blocks.queue(max_size=256, api_open=False, default_concurrency_limit=4)

    def prepare(self, stop: Event) -> None:
        """Answer the examples of all views before visitors come; what fails is told to those who try it."""
        for panel in self.tasks:
            for example in panel.view.examples:
                photos = {side: self.samples[name] for side, name in example.samples.items() if name in self.samples}
                texts = {name: example.texts.get(name, "") for name in panel.words}
                if stop.is_set():
                    return
                with suppress(Exception):
                    panel.view.shown(texts, photos)
        for name, photo in self.samples.items() if self.service.takes_pictures else ():
            with suppress(Exception):
                self.service.prepare(photo, SAMPLES[name] if self.service.takes_words else None, stop)

    def close(self) -> None:
        """End the page: its server, its folder and its environment variables."""
        self.held.close()

    def _wire(self) -> None:
        """Connect the events of components to their handlers."""
        page = self.layout
        self._on(page.chooser.photo, self.on_photo, run=True)
        self._on(page.chooser.sample, self.on_sample, run=True)
        self._on(page.chooser.refused, self.on_refused)
        self._on(page.more.click, self.on_more, run=True)
        self._on(page.baseline.input, self.on_baseline, [page.baseline], run=True)
        self._on(page.stop.click, self.on_stop)
        look: list[Any] = [page.opacity, page.palette, page.same]
        for control in look:
            self._on(control.input, self.on_look, look, mode="always_last")
        self._on(page.compare.input, self.on_compare, [page.compare], mode="always_last")
        page.measure.click(self.on_curves, None, page.curves, api_visibility="private")
        for index, panel in enumerate(page.panels):
            number, words = gr.State(index), list(panel.words.values())
            for trigger in (*(box.submit for box in words), panel.ask.click):
                self._on(trigger, self.on_ask, [number, *words], mode="always_last", run=True)
                if index == 0:
                    trigger(None, words, None, js=_PHOTO_ADDRESS)
            for side, pictures in panel.pictures.items():
                inputs = [number, gr.State(side), *words]
                self._on(pictures.dropped, self.on_dropped, inputs, run=True)
                self._on(pictures.removed, self.on_removed, inputs, run=True)
                self._on(pictures.refused, self.on_refused_picture, [number])
            for kind, button in panel.files.items():
                made = self._on(button.click, self.on_download, [number, gr.State(kind)], mode="once")
                made.then(None, page.file, None, js=parts.asset("download.js"))

    def _wire_tasks(self) -> None:
        """Connect the events of the other views to their handlers."""
        for at, panel in enumerate(self.tasks):
            number, words = gr.State(at), list(panel.words.values())
            how: Any = {"outputs": panel.outputs, "api_visibility": "private", "concurrency_id": "task"}
            for box in words:
                if box.lines == 1:
                    box.submit(self.on_task, [number, *words], **how).then(None, words, None, js=_address_of(panel))
            panel.run.click(self.on_task, [number, *words], **how).then(None, words, None, js=_address_of(panel))
            for each, button in enumerate(panel.examples):
                shown = button.click(self.on_example, [number, gr.State(each)], **how)
                shown.then(None, words, None, js=_address_of(panel))
            for side, pictures in panel.pictures.items():
                inputs: Any = [number, gr.State(side)]
                quiet: Any = {"outputs": panel.outputs, "show_progress": "hidden", "api_visibility": "private"}
                for trigger in (pictures.dropped, pictures.removed, pictures.refused):
                    trigger(self.on_side, inputs, **quiet)
            for name, chooser in panel.files.items():
                inputs = [number, gr.State(name), *words]
                for trigger in (chooser.dropped, chooser.refused):
                    trigger(self.on_file, inputs, outputs=panel.outputs, show_progress="hidden", api_visibility="private")
            if panel.chart is not None:
                asked = panel.chart.asked(self.on_task, [number, *words], **how)
                asked.then(None, words, None, js=_address_of(panel))
        outputs = [self.tabs, *(component for panel in self.tasks for component in panel.outputs)]
        self.blocks.load(self.on_address, [self._address], outputs, js=_READ_ADDRESS, api_visibility="private")

    def _on(
        self, trigger: Callable[..., Any], handler: Any, inputs: Sequence[Any] = (), mode: str = "multiple", run: bool = False
    ) -> Any:
        """Let an event be answered by a handler, and by a run after it: photos and questions may need samples."""
        quiet: Any = {"outputs": self.layout.outputs, "show_progress": "hidden", "api_visibility": "private"}
        event = trigger(handler, list(inputs), trigger_mode=mode, **quiet)
        if run:
            event.then(self.on_run, None, concurrency_id="run", concurrency_limit=MAX_RUNS, **quiet)
        return event

    # --- photo and run ------------------------------------------------------------------------------------------------

    def on_photo(self, event: gr.EventData, request: gr.Request) -> Updates:
        """Take an uploaded photo."""
        return self._chosen(event, request, lambda said: (self._read(said.get("path"), PHOTO_AREA), None))

    def on_sample(self, event: gr.EventData, request: gr.Request) -> Updates:
        """Take a sample photo and ask its question, whose words the browser has written already."""

        def sample(said: dict[str, Any]) -> tuple[Image.Image, tuple[str, str] | None]:
            name = str(said.get("name"))
            if name not in self.samples:
                raise ValueError(f"No sample photo is called {name[:40]!r}; there are {', '.join(self.samples)}.")
            like, unlike = (str(said.get(side, own)) for side, own in zip(SIDES, SAMPLES[name], strict=True))
            return self.samples[name], (like, unlike) if self.service.takes_words else None

        return self._chosen(event, request, sample)

    def _chosen(
        self,
        event: gr.EventData,
        request: gr.Request,
        photo_of: Callable[[dict[str, Any]], tuple[Image.Image, tuple[str, str] | None]],
    ) -> Updates:
        """Take the photo, and perhaps the question, that an event names."""
        session, said = self.session(request), _said(event)
        try:
            photo, words = photo_of(said)
            self.sessions.take_place(session)
            choice = said.get("choice")
            self.service.choose(session, photo, words, choice if isinstance(choice, int) else 0)
        except TOLD as error:
            return {self.layout.notice: parts.notice(self.sentence(error))}
        return {
            self.layout.notice: "",
            self.layout.panels[0].notice: "",
            **self._restarted(session),
            **self.pictures(session, 0),
        }

    def on_baseline(self, name: str, request: gr.Request) -> Updates:
        """Replace removed parts by another baseline, and start the run again."""
        session = self.session(request)
        if name in self.baselines:  # Gradio lets None through
            self.service.set_baseline(session, self.baselines[name])
        return self._restarted(session)

    def on_more(self, request: gr.Request) -> Updates:
        """Ask for more samples."""
        self.service.more(self.session(request))
        return {self.layout.more: gr.Button(visible=False)}

    def on_stop(self, request: gr.Request) -> Updates:
        """Stop the run, which shows its end by itself."""
        self.service.stop(self.session(request))
        return {self.layout.stop: gr.Button(interactive=False)}

    def on_run(self, request: gr.Request) -> Iterator[Updates]:
        """Extend the run if it is short of samples; show its progress and the answers so far."""
        session = self.session(request)
        yield {self.layout.stop: gr.skip()}  # Gradio would empty all outputs of an event that yields nothing
        try:
            for _ in self.service.sample(session):
                yield self._current(session)
        except Exception as error:
            yield {**self._shown(session), self.layout.notice: parts.notice(self.sentence(error))}
            if not isinstance(error, TOLD):
                raise

    def on_refused(self, event: gr.EventData) -> Updates:
        """Say why the browser could not upload a photo."""
        return {self.layout.notice: parts.notice(_refusal(event))}

    # --- questions ----------------------------------------------------------------------------------------------------

    def on_ask(self, index: int, like: str, unlike: str, request: gr.Request) -> Updates:
        """Answer a question."""
        return self._asked(self.session(request), index, like, unlike)

    def on_dropped(self, index: int, side: str, like: str, unlike: str, event: gr.EventData, request: gr.Request) -> Updates:
        """Add dropped pictures to one side of a question, and answer it again."""
        session = self.session(request)
        there = session.pictures[index][side]
        try:
            files = _said(event).get("files") or []
            if len(there) + len(files) > MAX_PICTURES:
                raise ValueError(
                    f"At most {MAX_PICTURES} pictures fit on one side; these would be {len(there) + len(files)}."
                )
            self.sessions.take_place(session)
            new = [self._read(file["path"], REFERENCE_AREA) for file in files]
        except (*TOLD, KeyError) as error:
            return self.notice(index, self.sentence(error))
        session.pictures[index][side] = [*there, *new]
        return {**self.pictures(session, index), **self._asked(session, index, like, unlike)}

    def on_removed(self, index: int, side: str, like: str, unlike: str, event: gr.EventData, request: gr.Request) -> Updates:
        """Take a picture away from one side of a question, and answer it again."""
        session = self.session(request)
        pictures, number = session.pictures[index], _said(event).get("index")
        pictures[side] = [image for place, image in enumerate(pictures[side]) if place != number]
        return {**self.pictures(session, index), **self._asked(session, index, like, unlike)}

    def on_refused_picture(self, index: int, event: gr.EventData) -> Updates:
        """Say why the browser could not upload a reference picture."""
        return self.notice(index, _refusal(event))

    def on_compare(self, wanted: bool, request: gr.Request) -> Updates:
        """Open the second question or remove it."""
        session = self.session(request)
        updates = {self.layout.panels[1].column: gr.Column(visible=bool(wanted))}
        if not wanted:
            self.service.remove_question(session, 1)
            updates |= {**self.notice(1, ""), **self._changed(session)}
        return {**updates, **self.figures(session), **self.pictures(session, 1)}

    def _asked(self, session: Session, index: int, like: str, unlike: str) -> Updates:
        try:
            self.service.ask(session, index, str(like or ""), str(unlike or ""))
        except TOLD as error:
            return self.notice(index, self.sentence(error))
        return {
            **self.notice(index, ""),
            **self._changed(session),
            **self.figures(session, None if session.look.same_scale else index),
        }

    # --- views of the answers -----------------------------------------------------------------------------------------

    def on_look(self, opacity: float, palette: str, same: bool, request: gr.Request) -> Updates:
        """Draw the maps in another way."""
        session = self.session(request)
        session.look = Look(opacity, palette, bool(same))
        return {**self.figures(session), self.layout.legend: parts.legend(session.look)}

    def on_curves(self, request: gr.Request) -> str:
        """Draw insertion and deletion curves; nothing if photo or questions have changed meanwhile."""
        session = self.session(request)
        changes = session.changes
        try:
            measured = self.service.curves(session)
        except TOLD as error:
            return parts.notice(self.sentence(error))
        return parts.curves(measured) if session.changes == changes else ""

    def on_download(self, index: int, kind: str, request: gr.Request) -> Updates:
        """Send an answer as a file."""
        session = self.session(request)
        answer = session.answers[index]
        if answer is None:
            return {self.layout.file: None, **self.notice(index, "There is nothing to download yet; choose a photo and ask.")}
        data = data_uri(FILES[kind], file_of(answer, kind, session.look, parts.scale_of(session, index)))
        name = re.sub(r"\W+", "-", answer.name).strip("-")[:60] or "answer"
        return {self.layout.file: {"name": f"{name}.{kind}", "data": data}, **self.notice(index, "")}

    # --- matches, searches and data sets --------------------------------------------------------------------------------

    def on_task(self, request: gr.Request, at: int, *words: Any) -> Updates:
        """Answer what a view asks for."""
        panel = self.tasks[at]
        texts = {name: str(text or "") for name, text in zip(panel.words, words, strict=True)}
        return self._answered(panel, texts, self._sides(self.session(request), panel))

    def on_example(self, at: int, number: int, request: gr.Request) -> Updates:
        """Fill in an example of a view, and answer it."""
        panel, session = self.tasks[at], self.session(request)
        if number >= len(panel.view.examples):
            return {panel.notice: parts.notice("There is no such example; choose another.")}
        example = panel.view.examples[number]
        photos = {side: self.samples[name] for side, name in example.samples.items()}
        for side in panel.view.sides:
            session.sides.pop(_key(panel, side), None)
        session.sides |= {_key(panel, side): photo for side, photo in photos.items()}
        texts = {name: example.texts.get(name, "") for name in panel.words}
        filled = {panel.words[name]: text for name, text in texts.items()}
        return {**filled, **self._shown_sides(session, panel), **self._answered(panel, texts, photos)}

    def on_side(self, at: int, side: str, event: gr.EventData, request: gr.Request) -> Updates:
        """Take or remove a picture of a view, or say why it could not be uploaded."""
        panel, session, said = self.tasks[at], self.session(request), _said(event)
        if "reason" in said:
            return {panel.notice: parts.notice(_refusal(event))}
        try:
            files = said.get("files")
            if isinstance(files, list) and files and isinstance(files[0], dict):
                picture = self._read(files[0].get("path"), PHOTO_AREA)
                self.sessions.take_place(session)
                session.sides[_key(panel, side)] = picture
            else:
                session.sides.pop(_key(panel, side), None)
        except TOLD as error:
            return {panel.notice: parts.notice(self.sentence(error))}
        return {panel.notice: "", **self._shown_sides(session, panel)}

    def on_file(self, request: gr.Request, event: gr.EventData, at: int, name: str, *words: Any) -> Updates:
        """Read a file of documents into a field, or say why it could not be uploaded or read."""
        panel, said = self.tasks[at], _said(event)
        if "reason" in said:
            return {panel.notice: parts.notice(_refusal(event))}
        texts = dict(zip(panel.words, map(str, words), strict=True))
        try:
            text = panel.view.read(self._uploaded((said.get("files") or [{}])[0].get("path")), texts)
        except (*TOLD, AttributeError, KeyError) as error:
            return {panel.notice: parts.notice(self.sentence(error))}
        return {panel.words[name]: text, panel.notice: ""}

    def on_address(self, said: Any, request: gr.Request) -> Updates:
        """Show what the address of the page asks for."""
        said = said if isinstance(said, dict) else {}
        panel = next((each for each in self.tasks if each.view.name == said.get("view")), None)
        if panel is None or not any(said.get(name) for name in panel.words):
            return {self.tabs: gr.skip() if panel is None else gr.Tabs(selected=panel.view.name)}
        texts = {name: str(said.get(name, "")) for name in panel.words}
        filled = {box: texts[name] for name, box in panel.words.items()}
        return {self.tabs: gr.Tabs(selected=panel.view.name), **filled, **self._answered(panel, texts, {})}

    def _sides(self, session: Session, panel: TaskPanel) -> dict[str, Image.Image]:
        return {side: picture for side in panel.view.sides if (picture := session.sides.get(_key(panel, side))) is not None}

    def _shown_sides(self, session: Session, panel: TaskPanel) -> Updates:
        pictures = self._sides(session, panel)
        return {box: panel.shown(side, [pictures[side]] if side in pictures else []) for side, box in panel.pictures.items()}

    def _answered(self, panel: TaskPanel, texts: dict[str, str], pictures: dict[str, Image.Image]) -> Updates:
        try:
            return {panel.notice: "", panel.frame: framed(panel.view.shown(texts, pictures), panel.view.task)}
        except TOLD as error:
            return {panel.notice: parts.notice(self.sentence(error))}

    # --- helpers ------------------------------------------------------------------------------------------------------

    def session(self, request: gr.Request) -> Session:
        """Return the session that sent a request."""
        return self.sessions.get(str(request.session_hash))

    def figures(self, session: Session, index: int | None = None) -> Updates:
        """Return the figures of all panels, or of one, drawn again."""
        return {
            panel.figure: parts.figure(session, number)
            for number, panel in enumerate(self.layout.panels)
            if index in (None, number)
        }

    def pictures(self, session: Session, index: int) -> Updates:
        """Return the pictures of both sides of a question, shown again."""
        shown = self.layout.panels[index].pictures
        return {shown[side]: parts.pictures(images, SIDES[side][0]) for side, images in session.pictures[index].items()}

    def notice(self, index: int, message: str) -> Updates:
        """Return the error shown above an answer; it stays there until a question is answered."""
        return {self.layout.panels[index].notice: parts.notice(message)}

    def _restarted(self, session: Session) -> Updates:
        """Return the beginning of a run."""
        return {self.layout.curves: "", **self._shown(session)}

    def _current(self, session: Session) -> Updates:
        """Return what is shown; drawn again if a question was answered meanwhile, whose answer it would replace."""
        while True:
            answers = list(session.answers)
            shown = self._shown(session)
            if all(one is other for one, other in zip(answers, session.answers, strict=False)):
                return shown

    def _shown(self, session: Session) -> Updates:
        """Return the progress of the run and the answers so far."""
        return {
            self.layout.status: parts.status(session),
            self.layout.stop: gr.Button(visible=session.running, interactive=not session.stopped),
            self.layout.more: gr.Button(visible=session.explicand is not None and not session.running),
            **self.figures(session),
        }

    def _changed(self, session: Session) -> Updates:
        """Return what a new question changes beside its figure: the curves, and the error of the answers.

        While a run goes on it shows the error itself; this one could arrive after its last.
        """
        status = {} if session.running else {self.layout.status: parts.status(session)}
        return {self.layout.curves: "", **status}

    def _read(self, path: Any, area: int) -> Any:
        """Return the picture or the sound of an upload."""
        return self.service.read(self._uploaded(path), area)

    def _uploaded(self, path: Any) -> Path:
        """Return the file of an upload; raise if the path, which the browser sent, is not that of one."""
        try:
            file = Path(str(path)).resolve(strict=True)
        except (OSError, ValueError):  # too long, or with a NUL in it
            file = self.folder
        if not file.is_relative_to(self.folder) or not file.is_file():
            raise ValueError("The file was not uploaded to this page; drop it again.")
        return file

    def sentence(self, error: BaseException) -> str:
        """Return the message of an error, without the folders where files are."""
        text = str(error) or type(error).__name__
        if not isinstance(error, TOLD):
            text = f"Something in the page is broken ({type(error).__name__}: {error}); choose the photo again."
        return re.sub(re.escape(str(self.folder)) + r"/(?:[^/\s]+/)*", "", text)


_READ_ADDRESS = "() => [Object.fromEntries(new URLSearchParams(window.location.search))]"


_PHOTO_ADDRESS = (
    "(like, unlike) => { window.cocoaxAddress({ view: 'Photo', "
    "photo: document.querySelector('.cx-thumbs .chosen')?.dataset.sample, like, unlike }); }"
)


def _address_of(panel: TaskPanel) -> str:
    """Return a script that writes what a view was asked into the address bar."""
    names = json.dumps([*panel.words])
    return (
        f"(...texts) => {{ window.cocoaxAddress({{ view: {json.dumps(panel.view.name)}, "
        f"...Object.fromEntries({names}.map((name, at) => [name, texts[at]])) }}); }}"
    )


def _key(panel: TaskPanel, side: str) -> str:
    return f"{panel.view.name} {side}"


def _said(event: gr.EventData) -> dict[str, Any]:
    """Return the data of an event; nothing if they are not what the page's own scripts send."""
    return event._data if isinstance(event._data, dict) else {}


def _refusal(event: gr.EventData) -> str:
    """Return a sentence about a file that the browser could not upload."""
    name, reason = (str(_said(event).get(key, ""))[:100] for key in ("name", "reason"))
    if "size" in reason:
        return f"{name} is too large: at most {MAX_MEGABYTES} MB can be uploaded. Make it smaller first."
    return f"{name} could not be uploaded; try again."

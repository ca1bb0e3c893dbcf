"""Where everything stands on the page: the Gradio components, without what happens when they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from cocoax.app import parts
from cocoax.app.drawing import PALETTES, Look
from cocoax.app.service import MORE_SAMPLES
from cocoax.app.sessions import PANELS, Session
from cocoax.app.views import TaskView
from cocoax.masking.removals import DEFAULT_PRESET

SIDES = {"like": ("Looks like", "a cat"), "unlike": ("rather than", "a dog / a fox")}  # labels and examples
FILES = {"png": "image/png", "svg": "image/svg+xml", "csv": "text/csv", "json": "application/json", "html": "text/html"}
PROOF = (
    "<h2>Is the map right?</h2><p class='cx-hint'>Put the strongest pixels back into a blurred photo, or take them out of "
    "the photo, and see how fast the score rises or falls. This looks at the photo again and takes a few seconds.</p>"
)


@dataclass(frozen=True)
class _Panel:
    """The components of one question; words and pictures have one for each of the ``SIDES``."""

    column: gr.Column
    words: Mapping[str, gr.Textbox]
    pictures: Mapping[str, gr.HTML]
    ask: gr.Button
    notice: gr.HTML
    figure: gr.HTML
    files: Mapping[str, gr.Button]


class Layout:
    """The components of the view of one photo, laid out inside the ``gr.Blocks`` that is open.

    Args:
        takes_words: whether questions may be in words.
        chooser: where a photo is chosen, as HTML.
        baselines: what removed parts may become.

    """

    def __init__(self, takes_words: bool, chooser: str, baselines: Sequence[str]) -> None:
        with gr.Row(elem_id="cx-page"):
            with gr.Column(elem_id="cx-photo", elem_classes="cx-card", min_width=280):
                self._lay_out_photo(chooser)
            with gr.Column(elem_id="cx-asks", min_width=300):
                with gr.Row(elem_id="cx-panels"):
                    self.panels = [self._panel(index, takes_words) for index in range(PANELS)]
                with gr.Column(elem_classes="cx-card", elem_id="cx-proof"):
                    _html(PROOF)
                    self.measure = gr.Button("Insertion and deletion curves", size="sm", elem_id="cx-measure")
                    self.curves = _html(elem_id="cx-curves")
            with gr.Column(elem_id="cx-look", elem_classes="cx-card", min_width=280):
                self._lay_out_look(baselines)
        self.file = gr.JSON(visible=False)

    @property
    def figures(self) -> list[gr.HTML]:
        """The answers of all panels."""
        return [panel.figure for panel in self.panels]

    @property
    def outputs(self) -> list[Any]:
        """All components that events change; a handler returns the ones it changed."""
        panels = [[panel.column, panel.notice, *panel.pictures.values()] for panel in self.panels]
        page = [self.notice, self.status, self.stop, self.more, self.curves, self.legend, self.file]
        return [*page, *self.figures, *(component for panel in panels for component in panel)]

    def _lay_out_photo(self, chooser: str) -> None:
        self.chooser = _html(chooser, js_on_load=parts.asset("photo.js"))
        self.notice = _html(elem_id="cx-notice")
        self.status = _html(elem_id="cx-status")
        with gr.Row(elem_classes="cx-buttons"):
            self.stop = gr.Button("Stop", size="sm", visible=False, elem_id="cx-stop")
            self.more = gr.Button(f"{MORE_SAMPLES} samples more", size="sm", visible=False, elem_id="cx-more")

    def _lay_out_look(self, baselines: Sequence[str]) -> None:
        look = Look()
        _html("<h2>How to read it</h2>")
        self.legend = _html(parts.legend(look), js_on_load=parts.asset("radios.js"))
        with gr.Accordion("Settings", open=False, elem_id="cx-settings"):
            self.opacity = gr.Slider(0, 1, look.opacity, step=0.05, label="Opacity", elem_id="cx-opacity")
            self.palette = gr.Radio(list(PALETTES), value=look.palette, label="Colours", elem_id="cx-colours")
            self.same = gr.Checkbox(label="One colour scale for both questions", elem_id="cx-same")
            self.baseline = gr.Radio(
                list(baselines), value=DEFAULT_PRESET, label="Removed parts become", elem_id="cx-baseline"
            )

    def _panel(self, index: int, takes_words: bool) -> _Panel:
        words, pictures = {}, {}
        with gr.Column(elem_classes="cx-card cx-panel", elem_id=f"cx-panel-{index}", visible=index == 0) as column:
            _html(f"<h2><i>{index + 2}</i>{'Question' if index == 0 else 'Second question'}</h2>")
            with gr.Row(elem_classes="cx-sides"):
                for side in SIDES:
                    with gr.Column(elem_classes="cx-side", min_width=150):
                        words[side], pictures[side] = _side(side, index, takes_words)
            with gr.Row(elem_classes="cx-buttons"):
                ask = gr.Button("Ask", variant="primary", size="sm", elem_id=f"cx-ask-{index}")
                if index == 0:
                    self.compare = gr.Checkbox(label="Compare with a second question", elem_id="cx-compare")
            notice = _html(elem_id=f"cx-notice-{index}")
            shown = parts.figure(Session(), index)
            figure = _html(shown, js_on_load=parts.asset("figure.js"), elem_id=f"cx-figure-{index}")
            with gr.Row(elem_classes="cx-buttons cx-files"):
                files = {kind: gr.Button(kind.upper(), size="sm", elem_id=f"cx-{kind}-{index}") for kind in FILES}
        return _Panel(column, words, pictures, ask, notice, figure, files)


class TaskPanel:
    """The components of a view beside that of the photo: inputs, button, chart and the frame of its answer."""

    def __init__(self, view: TaskView) -> None:
        self.view = view
        slug = view.name.lower().replace(" ", "-")
        self.words: dict[str, gr.Textbox] = {}
        self.pictures: dict[str, gr.HTML] = {}
        with gr.Column(elem_classes="cx-card cx-task", elem_id=f"cx-{slug}"):
            _html(f"<p class='cx-hint'>{parts.escape(view.task)}</p>")
            with gr.Row(elem_classes="cx-sides"):
                names = dict.fromkeys((*(each.name for each in view.fields), *view.sides))
                self.files: dict[str, gr.HTML] = {}
                for name in names:
                    with gr.Column(elem_classes="cx-side", min_width=150):
                        self._lay_out(name, slug)
            with gr.Row(elem_classes="cx-buttons"):
                self.run = gr.Button(view.button, variant="primary", size="sm", elem_id=f"cx-{slug}-run")
                self.examples = [
                    gr.Button(f"Try: {each.label}", size="sm", elem_id=f"cx-{slug}-example-{at}")
                    for at, each in enumerate(view.examples)
                ]
            self.notice = _html(elem_id=f"cx-notice-{slug}")
        self.chart = None
        if view.chart:
            with gr.Column(elem_classes="cx-card cx-task"):
                self.chart = _html(view.chart, js_on_load=parts.asset("scatter.js"), elem_id=f"cx-{slug}-chart")
        self.frame = _html(elem_id=f"cx-{slug}-answer", elem_classes="cx-answer-frame")

    def _lay_out(self, name: str, slug: str) -> None:
        """Place a text, and where its picture is dropped, if it may be one."""
        field = next((each for each in self.view.fields if each.name == name), None)
        if field is not None:
            self.words[name] = gr.Textbox(
                label=field.label,
                placeholder=field.example,
                lines=field.lines,
                max_lines=12,
                max_length=field.longest + 1,
                elem_id=f"cx-{slug}-{name}",
            )
        if field is not None and field.endings:
            self.files[name] = self._uploads(name, slug, parts.document_chooser(field.label, field.endings))
        if name in self.view.sides:
            self.pictures[name] = self._uploads(name, slug, self.shown(name, []))

    def _uploads(self, name: str, slug: str, shown: str) -> gr.HTML:
        return _html(
            shown, js_on_load=parts.asset("pictures.js"), elem_classes="cx-refs", elem_id=f"cx-{slug}-{name}-picture"
        )

    def shown(self, side: str, uploads: Sequence[Any]) -> str:
        """Return the uploads of a side, with a place for the next."""
        if self.view.service.takes_sounds:
            return parts.sounds(uploads, self.view.sides[side])
        return parts.pictures(uploads, self.view.sides[side], several=False)

    @property
    def outputs(self) -> list[Any]:
        """Everything that its events change."""
        return [*self.words.values(), *self.pictures.values(), self.notice, self.frame]


def _side(side: str, index: int, takes_words: bool) -> tuple[gr.Textbox, gr.HTML]:
    """Return where the words of one side of a question are typed, and where its pictures are dropped."""
    label, example = SIDES[side]
    words = gr.Textbox(
        label=label,
        placeholder=example if takes_words else "this encoder knows pictures only",
        interactive=takes_words,
        max_lines=1,
        max_length=2000,
        elem_id=f"cx-{side}-{index}",
    )
    pictures = _html(
        parts.pictures([], label),
        js_on_load=parts.asset("pictures.js"),
        elem_classes="cx-refs",
        elem_id=f"cx-{side}-pictures-{index}",
    )
    return words, pictures


def _html(value: str = "", **options: Any) -> gr.HTML:
    """Return a part of the page in our own style."""
    return gr.HTML(value, apply_default_css=False, **options)

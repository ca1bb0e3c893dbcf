"""The parts of the page, as HTML."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from PIL import Image, ImageOps

from cocoax import Answer, Curve
from cocoax.app.drawing import PALETTES, Reading, View, curve_plot, draw, limit_of, read
from cocoax.app.sessions import Progress, Session
from cocoax.show.palette import colour_table
from cocoax.show.raster import jpeg_uri


def asset(name: str) -> str:
    """Return a style sheet or a script that comes with the package."""
    return files("cocoax.app").joinpath(name).read_text(encoding="utf-8")


def header(encoder: str) -> str:
    """Return the title and the question that the page answers."""
    return (
        '<header class="cx-header"><h1>Cocoax</h1>'
        "<p>What in this photo makes it look like <b>this</b>, rather than like <b>that</b>?</p>"
        f'<span class="cx-tag" title="the encoder that is asked">{escape(encoder)}</span></header>'
    )


def chooser(samples: Mapping[str, Image.Image], questions: Mapping[str, tuple[str, str]], megabytes: int) -> str:
    """Return sample photos to click on, with the words of their questions, and a place to drop one's own."""
    thumbs = "".join(
        f'<button type="button" data-sample="{escape(name)}" title="{escape(name)}"{_words(questions.get(name))}>'
        f'<img alt="{escape(name)}" src="{_thumbnail(photo)}"></button>'
        for name, photo in samples.items()
    )
    return (
        '<h2><i>1</i>Photo</h2><label class="cx-drop"><input type="file" accept="image/*">'
        f"<b>Drop a photo here</b><span>or click to choose one, up to {megabytes} MB</span></label>"
        + (f'<p class="cx-hint">or try one of these</p><div class="cx-thumbs">{thumbs}</div>' if thumbs else "")
    )


def _words(question: tuple[str, str] | None) -> str:
    """Return the words of a question as attributes, which the browser writes where words are typed."""
    return "" if question is None else f' data-like="{escape(question[0])}" data-unlike="{escape(question[1])}"'


def status(session: Session) -> str:
    """Return the photo and how far its run is."""
    if session.explicand is None or session.explicand.picture is None:
        return ""
    photo = ImageOps.contain(Image.fromarray(session.explicand.picture.numpy()), (480, 300))
    progress = session.progress
    return (
        f'<div class="cx-photo"><img alt="the photo" src="{jpeg_uri(photo)}"></div>'
        f"{'' if progress is None else progress_bar(progress, session.error, session.sees_nothing)}"
    )


def progress_bar(progress: Progress, error: float | None, nothing: bool = False) -> str:
    """Return how far a run is, as a bar and in words; ``nothing``: there is nothing to see, of which 0 % is no error."""
    share = progress.samples / progress.goal if progress.goal else 0.0
    known = error is not None and math.isfinite(error) and not nothing
    size = f"error {error:.0%} of the signal" if known else "nothing to see" if nothing and error == 0 else ""
    wanted = progress.tolerance
    if progress.running:
        left = "" if progress.seconds is None else f"{progress.seconds:.0f} s left"
        seen = f"<b>{progress.samples}</b> of {'about ' if wanted else ''}{progress.goal} masked copies seen"
        size += f", until {wanted:.0%}" if known and wanted else ""
    else:
        left = "finished" if progress.samples >= progress.goal else "stopped"
        seen = f"<b>{progress.samples}</b> masked copies seen"
        if wanted and left == "finished" and not (error is not None and error <= wanted):
            size += f"{' instead of' if size else 'not within'} {wanted:.0%}: more copies tell"
    state = "running" if progress.running else left
    return (
        f'<div class="cx-progress {state}" role="progressbar" aria-label="masked copies seen" aria-valuemin="0" '
        f'aria-valuemax="{progress.goal}" aria-valuenow="{progress.samples}">'
        f'<span style="width:{100 * share:.1f}%"></span></div>'
        f'<p class="cx-status">{seen}<br><span class="cx-error">{size}</span> <span class="cx-left">{left}</span></p>'
    )


def pictures(images: Sequence[Image.Image], side: str) -> str:
    """Return the pictures of one side, each with a button to take it away, and where to drop more."""
    names = [escape(Path(getattr(image, "filename", "")).stem) for image in images]
    shown = "".join(
        f'<span class="cx-ref"><img alt="{name}" title="{name}" src="{_thumbnail(image, 72, 72)}">'
        f'<button type="button" data-remove="{index}" aria-label="remove {name}">×</button></span>'
        for index, (name, image) in enumerate(zip(names, images, strict=True))
    )
    return (
        f'{shown}<label class="cx-add"><input type="file" accept="image/*" multiple aria-label="{side}: choose pictures">'
        f"+ {'more' if images else 'or drop pictures'}</label>"
    )


def figure(session: Session, panel: int) -> str:
    """Return one answer: the map, its scale, the score and what it is made of; or what to do to get one."""
    answer = session.answers[panel]
    if answer is None:
        return f'<div class="cx-empty">{_hint(session, panel)}</div>'
    view = session.view
    limit, cut = scale_of(session, panel)
    picture = jpeg_uri(draw(answer.attribution, view, limit))
    pin, reading = "", '<span class="cx-hint">Click on the picture or use the arrow keys to read the value of a place.</span>'
    if session.point is not None:
        x, y = session.point
        pin = f'<span class="cx-pin" data-x="{x}" data-y="{y}" style="left:{100 * x:.2f}%;top:{100 * y:.2f}%"></span>'
        reading = in_words(read(answer.attribution, session.point, view, limit))
    name = f"map of {escape(answer.name)}; the arrow keys walk over it and read out values"
    return (
        '<div class="cx-answer"><div class="cx-left-side">'
        f'<div class="cx-map" tabindex="0" role="application" aria-label="{name}" data-cells="{view.cells or 28}">'
        f'<img alt="" src="{picture}">{pin}</div>{_scale_bar(view, limit, cut)}'
        f'<p class="cx-reading">{reading}</p>{remarks(answer)}</div>'
        f'<div class="cx-right-side">{_score(answer)}{_regions(answer)}{comparison(answer)}</div></div>'
    )


def remarks(answer: Answer) -> str:
    """Return what a reader should know before believing an answer, if there is anything."""
    return "".join(f'<p class="cx-hint cx-remark">{escape(sentence)}</p>' for sentence in answer.remarks)


def _hint(session: Session, panel: int) -> str:
    """Return what to do, or what to wait for, to get an answer."""
    if session.expired:
        return "The page was closed or silent for long, and another visitor needed the place. Choose the photo again."
    if panel == 0 and session.explicand is None:
        return "Choose a photo. It is analysed once, in some seconds; after that every question is answered at once."
    if session.run is None and session.running:
        return "Analysing the photo …" if session.worker else "The photo waits for its turn …"
    return "Write a question above and press Enter."


def curves(measured: Sequence[tuple[str, list[dict[str, Curve]]]]) -> str:
    """Return insertion and deletion curves, drawn, with their areas in words."""
    areas = "; ".join(
        f"{kind} of {escape(name)}: area {own[kind].auc:+.3f}, in random order {random[kind].auc:+.3f}"
        for name, (own, random) in measured
        for kind in own
    )
    return f'<img class="cx-curves" alt="{areas}" src="{curve_plot(measured)}">'


def scale_of(session: Session, panel: int) -> tuple[float, bool]:
    """Return where a panel's colour scale ends, and whether that cuts off values: of its own map, or the larger of both."""
    limits = [
        limit_of(answer.attribution, session.view.cells)
        for index, answer in enumerate(session.answers)
        if answer is not None and (session.view.same_scale or index == panel)
    ]
    return max(limits)


def _scale_bar(view: View, limit: float, cut: bool) -> str:
    """Return the colour scale with its numbers."""
    steps = ",".join(
        f"rgb({red:.0f} {green:.0f} {blue:.0f})" for red, green, blue in colour_table(PALETTES[view.palette].colours)[::15]
    )
    beyond = " (1 % of the map lies beyond)" if cut else ""
    return (
        f'<div class="cx-scale"><div style="background:linear-gradient(90deg,{steps})"></div>'
        f"<span>−{limit:.2g}</span><span>0</span><span>+{limit:.2g}</span></div>"
        f'<p class="cx-hint cx-centre">effect on the score{beyond}</p>'
    )


def legend(view: View) -> str:
    """Return what the colours mean, in words."""
    palette = PALETTES[view.palette]
    high, low = (
        f"rgb({' '.join(f'{part:.0f}' for part in colour_table(PALETTES[view.palette].colours)[index])})"
        for index in (225, 30)
    )
    items = (
        (f"background:{high}", f"<b>{palette.raises}</b> raises the score: more like the first, less like the second."),
        (f"background:{low}", f"<b>{palette.lowers.capitalize()}</b> lowers it."),
        ("background:#f8f7f5", "<b>White</b> makes no difference."),
        ("background:#c4c4c4", "<b>Grey</b> is within noise: the interval of two standard errors includes zero."),
        ("background:#d5d5d5;opacity:.6", "<b>Faded</b> was cut off before the encoder looked."),
    )
    rows = "".join(
        f'<li><span class="cx-swatch{"" if style else " cx-hatched"}" style="{style}"></span><span>{text}</span></li>'
        for style, text in items
    )
    return f'<ul class="cx-legend">{rows}</ul>'


def _score(answer: Answer) -> str:
    """Return the question, the score, and the two parts whose difference it is."""
    question = f"<b>{escape(answer.question.like_name)}</b>"
    parts = ""
    if answer.foil_score is not None:
        unlike = answer.question.unlike.name
        question += f" <i>rather than</i> <b>{escape(unlike)}</b>"
        parts = (
            f'<p class="cx-parts">=<span>{number(answer.corpus_score)}<small>first</small></span>−'
            f"<span>{number(answer.foil_score)}<small>second</small></span></p>"
        )
    return (
        f'<h3 class="cx-question">{question}</h3><div class="cx-score"><span class="cx-number">{number(answer.score)}'
        f"<small>score of the whole photo</small></span>{parts}</div>"
    )


def _regions(answer: Answer) -> str:
    """Return where the score comes from, as a table; nothing where no region stands out."""
    strongest = [*answer.regions[:2], *answer.against[:1]]
    if not strongest:
        return ""
    rows = "".join(
        f'<tr class="{"" if region.certain else "cx-doubt"}"><td>{escape(region.place)}</td>'
        f"<td>{escape(region.percent)}</td><td>{number(region.value, region.standard_error)}</td></tr>"
        for region in strongest
    )
    return (
        '<table class="cx-table"><thead><tr><th>where it comes from</th><th>area</th><th>change</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def comparison(answer: Answer, most: int = 6) -> str:
    """Return how similar the whole photo is to everything named in the question, as bars."""
    if len(answer.comparison) < 2:
        return ""
    rivals = answer.comparison[:most]
    largest = max(abs(rival.score) for rival in answer.comparison) or 1.0
    rows = "".join(
        f'<li class="{rival.side}"><span>{escape(rival.name)}</span><i>'
        f'<b style="width:{100 * max(rival.score, 0) / largest:.0f}%"></b></i><em>{number(rival.score)}</em></li>'
        for rival in rivals
    )
    more = len(answer.comparison) - len(rivals)
    rest = f'<p class="cx-hint">and {more} more</p>' if more > 0 else ""
    return f'<h4>Similarity of the whole photo</h4><ul class="cx-bars">{rows}</ul>{rest}'


def in_words(reading: Reading) -> str:
    """Return what a map says at one place, in words."""
    if reading.value is None:
        return "This place lies outside of what the encoder saw."
    doubt = ""
    if reading.error is not None and abs(reading.value) < 2 * reading.error:
        doubt = ": not known yet" if reading.uncertain else ": makes no difference"
    return f'This place: <b class="cx-number">{number(reading.value, reading.error)}</b>{doubt}'


def notice(message: str) -> str:
    """Return a sentence about what went wrong, if there is one."""
    return f'<p class="cx-notice" role="alert">{escape(message)}</p>' if message else ""


def _thumbnail(photo: Image.Image, width: int = 132, height: int = 96) -> str:
    """Return a small copy, cut to size, as part of the page."""
    return jpeg_uri(ImageOps.fit(photo.convert("RGB"), (width, height)))


def number(value: float, error: float | None = None) -> str:
    """Return a signed number; with its standard error, as many digits as the error's first two."""
    digits = 3 if not error or not math.isfinite(error) else max(0, 1 - math.floor(math.log10(error)))
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if error is None else f"{text} ± {error:.{digits}f}"


def escape(text: str) -> str:
    """Return text that is safe inside HTML, and inside Gradio's templates."""
    return html.escape(text).replace("{", "&#123;").replace("$", "&#36;")

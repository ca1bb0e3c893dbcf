"""The parts of the page, as HTML."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from cocoax import Answer, Curve
from cocoax.app.drawing import PALETTES, Look, curve_views
from cocoax.app.service import Clip
from cocoax.app.sessions import Progress, Session
from cocoax.show import View
from cocoax.show.drawing import DEFAULT
from cocoax.show.html import drawn
from cocoax.show.options import PlotOptions
from cocoax.show.palette import DISTINCT, colour_table
from cocoax.show.raster import jpeg_uri, wav_uri


def asset(name: str) -> str:
    """Return a style sheet or a script that comes with the package."""
    return files("cocoax.app").joinpath(name).read_text(encoding="utf-8")


def header(encoder: str, noun: str) -> str:
    """Return the title and the question that the page answers."""
    what = "photo makes it look" if noun == "image" else f"{escape(noun)} makes it"
    return (
        '<header class="cx-header"><h1>Cocoax</h1>'
        f"<p>What in this {what} like <b>this</b>, rather than like <b>that</b>?</p>"
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
        f'<b class="cx-mouse">Drop a photo here</b><b class="cx-touch">Choose a photo</b>'
        f'<span><span class="cx-mouse">or click to choose one, </span>up to {megabytes} MB</span></label>'
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
            size += f"{' instead of' if size else 'not within'} {wanted:.0%}: take more copies"
    state = "running" if progress.running else left
    return (
        f'<div class="cx-progress {state}" role="progressbar" aria-label="masked copies seen" aria-valuemin="0" '
        f'aria-valuemax="{progress.goal}" aria-valuenow="{progress.samples}">'
        f'<span style="width:{100 * share:.1f}%"></span></div>'
        f'<p class="cx-status">{seen}<br><span class="cx-error">{size}</span> <span class="cx-left">{left}</span></p>'
    )


def pictures(images: Sequence[Image.Image], side: str, several: bool = True) -> str:
    """Return the pictures of one side, each with a button to take it away, and where to drop more, or another."""
    what = "pictures" if several else "a photo"
    takes = "multiple" if several else ""
    names = [escape(Path(getattr(image, "filename", "")).stem) for image in images]
    shown = "".join(
        f'<span class="cx-ref"><img alt="{name}" title="{name}" src="{_thumbnail(image, 72, 72)}">'
        f'<button type="button" data-remove="{index}" aria-label="remove {name}">×</button></span>'
        for index, (name, image) in enumerate(zip(names, images, strict=True))
    )
    return (
        f'{shown}<label class="cx-add"><input type="file" accept="image/*" {takes} aria-label="{side}: choose {what}">'
        f"{('+ more' if several else 'another') if images else '+ <span class=cx-mouse>or drop </span>' + what}</label>"
    )


def sounds(clips: Sequence[Clip], side: str) -> str:
    """Return the sounds of one side, each with a player and a button to take it away, and where to drop one."""
    shown = "".join(
        f'<span class="cx-clip"><audio controls preload="metadata" aria-label="{escape(clip.filename)}" '
        f'src="{wav_uri(clip[0] if clip[0].ndim == 1 else clip[0].mean(1), int(clip[1]))}"></audio>'
        f'<button type="button" data-remove="{index}" aria-label="remove {escape(clip.filename)}">×</button></span>'
        for index, clip in enumerate(clips)
    )
    return (
        f'<span class="cx-label">{escape(side)}</span>'
        f'{shown}<label class="cx-add"><input type="file" accept="audio/*" aria-label="{escape(side)}: choose a sound">'
        f"{'another' if clips else '+ <span class=cx-mouse>or drop </span>a sound'}</label>"
    )


def document_chooser(label: str, endings: Sequence[str]) -> str:
    """Return where a file of documents is chosen or dropped."""
    return (
        f'<label class="cx-add"><input type="file" accept="{",".join(endings)}" aria-label="{escape(label)}: choose a file">'
        "+ <span class=cx-mouse>or drop </span>a text file or a table</label>"
    )


def scatter(places: np.ndarray, names: Sequence[str], groups: Sequence[str], total: int) -> str:
    """Return points ``[n, 2]`` that can be chosen; scatter.js fills in the fields of the view."""
    low, high = places.min(0), places.max(0)
    spots = 20 + 960 * (places - low) / np.where(high > low, high - low, 1)
    kinds = list(dict.fromkeys(groups))
    points = "".join(
        f'<circle cx="{x:.0f}" cy="{0.5 * (1000 - y):.0f}" r="6" fill="{DISTINCT[kinds.index(group) % len(DISTINCT)]}" '
        f'data-name="{escape(name)}" tabindex="{-1 if number else 0}" role="button" '
        f'aria-label="{escape(name)}{escape(f", {group}") if group else ""}"></circle>'
        for number, ((x, y), name, group) in enumerate(zip(spots.tolist(), names, groups, strict=True))
    )
    key = "".join(
        f'<li><b style="background:{DISTINCT[number % len(DISTINCT)]}"></b>{escape(kind)}</li>'
        for number, kind in enumerate(kinds)
        if kind
    )
    uses = (
        ("input", "explains that input"),
        ("like", "adds it to “like these”"),
        ("unlike", "adds it to “rather than these”"),
    )
    choices = "".join(
        f'<label><input type="radio" name="cx-point" value="{use}"{" checked" if not at else ""}> {words}</label>'
        for at, (use, words) in enumerate(uses)
    )
    some = f"{len(names):,} of {total:,} inputs" if len(names) < total else f"{total:,} inputs"
    return (
        f'<fieldset class="cx-uses" id="cx-uses"><legend>A click on a point</legend>{choices}'
        '<button type="button" class="cx-clear">Clear groups</button></fieldset>'
        f'<svg class="cx-scatter" viewBox="0 0 1000 520" role="group" aria-label="inputs by similarity">{points}</svg>'
        f'<p class="cx-says" role="status" aria-live="polite">{some}, along the two directions in which they differ '
        f"most.</p>{f'<ul class=cx-key>{key}</ul>' if key else ''}"
    )


def figure(session: Session, panel: int) -> str:
    """Return one answer: the map, its scale, the score and what it is made of; or what to do to get one."""
    answer = session.answers[panel]
    if answer is None:
        return f'<div class="cx-empty">{_hint(session, panel)}</div>'
    shown = html_of(answer.view(), session.look.options(scale_of(session, panel)))
    return (
        f'<div class="cx-answer"><div class="cx-left-side cocoax">{shown}{remarks(answer)}</div>'
        f'<div class="cx-right-side">{_score(answer)}{_regions(answer)}{comparison(answer)}</div></div>'
    )


def html_of(view: View, options: PlotOptions = DEFAULT) -> str:
    """Return a view as part of the page, safe inside Gradio's templates."""
    return drawn(view, options).replace("{", "&#123;").replace("$", "&#36;")


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
    charts = "".join(f"<div><h3>{escape(view.title or '')}</h3>{html_of(view)}</div>" for view in curve_views(measured))
    return f'<div class="cx-curves cocoax">{charts}</div>'


def scale_of(session: Session, panel: int) -> float:
    """Return where a panel's colour scale ends: of its own map, or the larger of both."""
    return max(
        answer.attribution.effects.limit
        for index, answer in enumerate(session.answers)
        if answer is not None and (session.look.same_scale or index == panel)
    )


def legend(look: Look) -> str:
    """Return what the colours mean, in words."""
    palette = PALETTES[look.palette]
    high, low = (
        f"rgb({' '.join(f'{part:.0f}' for part in colour_table(PALETTES[look.palette].colours)[index])})"
        for index in (225, 30)
    )
    items = (
        (f"background:{high}", f"<b>{palette.raises}</b> raises the score."),
        (f"background:{low}", f"<b>{palette.lowers.capitalize()}</b> lowers it."),
        ("background:#f8f7f5", "<b>Pale</b>, without colour: no difference that the scale could show."),
        ("background:#aaa", "<b>Grey</b> is within noise: the interval of two standard errors includes zero."),
        ("background:#fff", "<b>Almost white</b> was cut off before the encoder looked."),
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
        like, unlike = answer.question.like_name, answer.question.unlike.name
        question += f" <i>rather than</i> <b>{escape(unlike)}</b>"
        parts = (
            f'<p class="cx-parts">=<span>{number(answer.corpus_score)}<small>{escape(like)}</small></span>−'
            f"<span>{number(answer.foil_score)}<small>{escape(unlike)}</small></span></p>"
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
        f'<tr class="{"cx-doubt" if region.within_noise else ""}"><td>{escape(region.place)}</td>'
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

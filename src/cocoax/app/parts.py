"""How the page looks: HTML for its parts, and the Gradio components that hold them."""

from __future__ import annotations

import html
import io
import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from cocoax.app.drawing import PALETTES, Reading, View, colours, data_uri, draw, limit_of, read
from cocoax.app.studio import Progress, Visitor
from cocoax.evaluation import Curve
from cocoax.questions.asking import Answer


def asset(name: str) -> str:
    """A style sheet or a script that comes with the package."""
    return files("cocoax.app").joinpath(name).read_text(encoding="utf-8")


def header(encoder: str) -> str:
    """Title and the question that the page answers."""
    return (
        '<header class="cx-header"><h1>Cocoax</h1>'
        "<p>What in this photo makes it look like <b>this</b>, rather than like <b>that</b>?</p>"
        f'<span class="cx-tag" title="the encoder that is asked">{escape(encoder)}</span></header>'
    )


def chooser(samples: dict[str, Image.Image], megabytes: int) -> str:
    """Sample photos to click on, and a place to drop one's own."""
    thumbs = "".join(
        f'<button type="button" data-sample="{escape(name)}" title="{escape(name)}">'
        f'<img alt="{escape(name)}" src="{thumbnail(photo)}"></button>'
        for name, photo in samples.items()
    )
    return (
        '<h2><i>1</i>Photo</h2><label class="cx-drop" tabindex="0"><input type="file" accept="image/*">'
        f"<b>Drop a photo here</b><span>or click to choose one, up to {megabytes} MB</span></label>"
        + (f'<p class="cx-hint">or try one of these</p><div class="cx-thumbs">{thumbs}</div>' if thumbs else "")
    )


def status(visitor: Visitor, progress: Progress | None = None, message: str = "") -> str:
    """The photo, how far its run is, and what went wrong."""
    told = notice(message)
    if visitor.explicand is None or visitor.explicand.picture is None:
        return told
    picture = Image.fromarray(visitor.explicand.picture.numpy())
    parts = [
        told,
        f'<div class="cx-photo"><img alt="the photo" src="{data_uri(ImageOps.contain(picture, (480, 300)))}"></div>',
    ]
    if progress is not None:
        share = progress.samples / progress.goal if progress.goal else 0.0
        known = progress.error is not None and math.isfinite(progress.error)
        error = f"error {progress.error:.0%} of the signal" if known else ""
        if progress.running:
            left = "" if progress.seconds is None else f"{progress.seconds:.0f} s left"
            said = f"<b>{progress.samples}</b> of {progress.goal} masked copies seen"
        else:
            left = "finished" if progress.samples >= progress.goal else "stopped"
            said = f"<b>{progress.samples}</b> masked copies seen"
        state = "running" if progress.running else left
        parts.append(
            f'<div class="cx-progress {state}" role="progressbar" aria-valuenow="{100 * share:.0f}">'
            f'<span style="width:{100 * share:.1f}%"></span></div>'
            f'<p class="cx-status">{said}<br><span class="cx-error">{error}</span><span class="cx-left">{left}</span></p>'
        )
    return "".join(parts)


def pictures(given: Sequence[Image.Image]) -> str:
    """Reference pictures of one side, each with a button to take it away, and where to drop more."""
    names = [escape(Path(getattr(image, "filename", "")).stem) for image in given]
    shown = "".join(
        f'<span class="cx-ref"><img alt="{name}" title="{name}" src="{thumbnail(image, 72, 72)}">'
        f'<button type="button" data-remove="{index}" aria-label="remove {name}">×</button></span>'
        for index, (name, image) in enumerate(zip(names, given, strict=True))
    )
    return (
        f'{shown}<label class="cx-add" tabindex="0"><input type="file" accept="image/*" multiple>'
        f"+ {'more' if given else 'or drop pictures'}</label>"
    )


def figure(visitor: Visitor, panel: int, message: str = "") -> str:
    """One answer: the map, its scale, the score and what it is made of."""
    answer = visitor.answers[panel]
    told = notice(message)
    if answer is None:
        if panel == 0 and visitor.explicand is None:
            hint = "Choose a photo to begin. It is looked at once; then ask anything."
        elif visitor.run is None and visitor.explicand is not None:
            hint = "Looking at the photo …"
        else:
            hint = "Write a question above and press Enter."
        return f'{told}<div class="cx-empty">{hint}</div>'
    view = visitor.view
    limit, cut = scale_of(visitor, panel)
    picture = data_uri(draw(answer.attribution, view, limit))
    pin, reading = "", '<span class="cx-hint">Click on the picture to read the value of a place.</span>'
    if visitor.place is not None:
        x, y = visitor.place
        pin = f'<span class="cx-pin" style="left:{100 * x:.2f}%;top:{100 * y:.2f}%"></span>'
        reading = said(read(answer.attribution, visitor.place, view, limit))
    return (
        f'{told}<div class="cx-answer"><div class="cx-left-side"><div class="cx-map"><img alt="{escape(answer.name)}" '
        f'src="{picture}">{pin}</div>{scale_bar(view, limit, cut)}'
        f'<p class="cx-reading" aria-live="polite">{reading}</p></div>'
        f'<div class="cx-right-side">{score(answer)}{regions(answer)}{comparison(answer)}</div></div>'
    )


def scale_of(visitor: Visitor, panel: int) -> tuple[float, bool]:
    """Where a panel's colour scale ends: that of its own map, or the larger of both."""
    found = [
        limit_of(answer.attribution, visitor.view.cells)
        for index, answer in enumerate(visitor.answers)
        if answer is not None and (visitor.view.same_scale or index == panel)
    ]
    return max(found)


def scale_bar(view: View, limit: float, cut: bool) -> str:
    """The colour scale with its numbers."""
    steps = ",".join(f"rgb({red:.0f} {green:.0f} {blue:.0f})" for red, green, blue in colours(view.palette)[::15])
    beyond = " (1 % of the map lies beyond)" if cut else ""
    return (
        f'<div class="cx-scale"><div style="background:linear-gradient(90deg,{steps})"></div>'
        f"<span>−{limit:.2g}</span><span>0</span><span>+{limit:.2g}</span></div>"
        f'<p class="cx-hint cx-centre">change in score where the photo is kept{beyond}</p>'
    )


def legend(view: View) -> str:
    """What the colours mean, in words."""
    palette = PALETTES[view.palette]
    high, low = (f"rgb({' '.join(f'{part:.0f}' for part in colours(view.palette)[index])})" for index in (225, 30))
    items = (
        (f"background:{high}", f"<b>{palette.raises}</b> raises the score: more like the first, less like the second."),
        (f"background:{low}", f"<b>{palette.lowers.capitalize()}</b> lowers it."),
        ("background:#f7f7f7", "<b>White</b> makes no difference, and that is certain."),
        ("", "<b>Hatched</b> is not known yet: within two standard errors there may be nothing. More samples tell."),
        ("background:#d5d5d5;opacity:.6", "<b>Faded</b> was cut off before the encoder looked."),
    )
    rows = "".join(
        f'<li><span class="cx-swatch{"" if style else " cx-hatched"}" style="{style}"></span><span>{text}</span></li>'
        for style, text in items
    )
    return f'<ul class="cx-legend">{rows}</ul>'


def score(answer: Answer) -> str:
    """The question, the score, and the two parts whose difference it is."""
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


def regions(answer: Answer) -> str:
    """Where the score comes from, in words."""
    found = [*answer.regions[:2], *answer.against[:1]]
    if not found:
        return ""
    rows = "".join(
        f'<tr class="{"cx-doubt" if not one.certain else ""}"><td>{escape(one.place)}</td><td>{escape(one.percent)}</td>'
        f"<td>{number(one.value, one.standard_error)}</td></tr>"
        for one in found
    )
    return (
        '<table class="cx-table"><thead><tr><th>where it comes from</th><th>area</th><th>change</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def comparison(answer: Answer, most: int = 6) -> str:
    """How similar the whole photo is to everything named in the question, as bars."""
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


def said(reading: Reading) -> str:
    """A reading in words."""
    if reading.value is None:
        return "This place lies outside of what the encoder saw."
    doubt = ""
    if reading.error is not None and abs(reading.value) < 2 * reading.error:
        doubt = ": not known yet" if reading.uncertain else ": makes no difference"
    return f'This place: <b class="cx-number">{number(reading.value, reading.error)}</b>{doubt}'


def curve_plot(found: Sequence[tuple[str, list[dict[str, Curve]]]]) -> str:
    """Insertion and deletion curves of each answer, beside those of a random order."""
    from matplotlib.figure import Figure  # not pyplot, which keeps figures in a place that threads share

    kinds = ("insertion", "deletion")
    plot = Figure(figsize=(8.4, 2.9 * len(found)), layout="constrained")
    axes = plot.subplots(len(found), 2, squeeze=False, sharey="row")
    for row, (name, (own, random)) in zip(axes, found, strict=True):
        for ax, kind in zip(row, kinds, strict=True):
            for curve, how, label in (
                (own[kind], {"color": "#b2182b", "lw": 2}, "this map"),
                (random[kind], {"color": "#888", "lw": 1.2, "ls": "--"}, "random order"),
            ):
                ax.plot(100 * curve.x.numpy(), curve.y.numpy(), label=f"{label}, area {curve.auc:+.3f}", **how)
            ax.set_title(f"{kind.capitalize()}: {shortened(name, 44)}", fontsize=9, loc="left", parse_math=False)
            ax.set_xlabel(
                "% of pixels " + ("put back, hottest first" if kind == "insertion" else "removed, hottest first"), fontsize=8
            )
            ax.tick_params(labelsize=8)
            ax.spines[["top", "right"]].set_visible(False)
            ax.legend(fontsize=8, frameon=False)
        row[0].set_ylabel("score", fontsize=8)
    file = io.BytesIO()
    plot.savefig(file, format="png", dpi=130)
    return data_uri(Image.open(file), 92)


def card(answer: Answer, view: View, limit: float, cut: bool) -> bytes:
    """An answer as a PNG to keep: the map as the page shows it, with question, score, scale and key."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    from cocoax.plots import question

    picture = draw(answer.attribution, view, limit)
    figure_ = Figure(figsize=(6.4, 6.4 * picture.height / picture.width * 0.86 + 1.1), layout="constrained")
    ax = figure_.subplots()
    ax.imshow(np.asarray(picture))
    ax.set_axis_off()
    ax.set_title(question(answer.attribution), fontsize=11, parse_math=False)
    colour = ScalarMappable(Normalize(-limit, limit), PALETTES[view.palette].colours)
    bar = figure_.colorbar(colour, ax=ax, fraction=0.046, pad=0.02, extend="both" if cut else "neither")
    bar.set_label("change in score if kept", fontsize=9)
    palette = PALETTES[view.palette]
    samples = answer.attribution.metadata.get("samples")
    figure_.supxlabel(
        f"{palette.raises} raises the score, {palette.lowers} lowers it, hatched is not known yet; {samples} samples",
        fontsize=8,
    )
    file = io.BytesIO()
    figure_.savefig(file, format="png", dpi=150)
    return file.getvalue()


def notice(message: str) -> str:
    """A sentence about what went wrong."""
    return f'<p class="cx-notice" role="alert">{escape(message)}</p>' if message else ""


def thumbnail(photo: Image.Image, width: int = 132, height: int = 96) -> str:
    """A small copy, cut to size, as part of the page."""
    return data_uri(ImageOps.fit(photo.convert("RGB"), (width, height)))


def number(value: float, error: float | None = None) -> str:
    """A signed number; with its standard error, as many digits as the error's first two."""
    digits = 3 if not error or not math.isfinite(error) else max(0, 1 - math.floor(math.log10(error)))
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if error is None else f"{text} ± {error:.{digits}f}"


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def escape(text: str) -> str:
    """Text that is safe inside HTML, and inside Gradio's templates."""
    return html.escape(text).replace("{", "&#123;").replace("$", "&#36;")

"""A survey as one self-contained page: it opens from a file, loads nothing, and is small enough to mail."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cocoax.show import PlotOptions
from cocoax.show.html import tile
from cocoax.store import write_text
from cocoax.version import __version__

if TYPE_CHECKING:
    from cocoax.results.attribution import Attribution
    from cocoax.survey.answers import RankedRow, Survey

_BODY = "body { margin: 0 auto; max-width: 78rem; padding: 1rem }"
# All of it is about what stands in .cocoax, so that a notebook keeps its own style.
_STYLE = """
.cocoax { font: 16px/1.5 system-ui, sans-serif; color: #1c1c1c; background: #fff }
.cocoax h1 { font-size: 1.6rem; line-height: 1.2; margin: .3rem 0 }
.cocoax h2 { font-size: 1.15rem; margin: 1.6rem 0 .4rem }
.cocoax p { margin: .3rem 0; max-width: 60rem } .cocoax .small { color: #555; font-size: .88rem }
.cocoax .tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.4rem, 1fr)); gap: .6rem }
.cocoax .tiles.texts { grid-template-columns: repeat(auto-fill, minmax(19rem, 1fr)) }
.cocoax .tile { border: 1px solid #ddd; border-radius: 6px; padding: .4rem; font-size: .8rem; overflow-wrap: anywhere }
.cocoax .tile img { width: 100%; height: auto; display: block; margin-bottom: .3rem }
.cocoax .tile b { font-variant-numeric: tabular-nums }
.cocoax .tile .what { max-height: 11rem; overflow: auto }
.cocoax .side { display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 1.2rem; align-items: start }
.cocoax svg { max-width: 100%; height: auto }
.cocoax table { border-collapse: collapse; font-size: .88rem }
.cocoax th, .cocoax td { text-align: left; padding: .15rem .8rem .15rem 0; font-variant-numeric: tabular-nums }
.cocoax th { border-bottom: 2px solid #888 } .cocoax td { border-bottom: 1px solid #e4e4e4; white-space: nowrap }
.cocoax .wide { overflow-x: auto } .cocoax footer { color: #666; font-size: .85rem; margin-top: 2rem }
.cocoax .legend { display: inline-block; width: 9rem; height: .8rem; border: 1px solid #ccc; vertical-align: middle;
  background: linear-gradient(90deg, rgb(33,102,172), #eee, rgb(178,24,43)) }
"""


def write_page(path: Path, survey: Survey) -> Path:
    """Write the page; return its path."""
    title = html.escape(survey.question)
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_BODY}</style></head>'
        f"<body>{fragment(survey)}\n</body></html>\n"
    )
    return write_text(path, page)


def fragment(survey: Survey, most: int | None = None) -> str:
    """Return the answer as HTML, with at most so many of the highest and of the lowest."""
    few = max(1, len(survey.rows) // 2)  # no input stands on both sides
    highest, lowest = survey.highest[:few][:most], survey.lowest[: len(survey.rows) - few][:most]
    limit = _limit([*highest, *lowest])
    parts = [
        f"<h1>{html.escape(survey.question)}</h1>",
        f"<p>{_summary(survey)}</p>",
        '<p class="small"><span class="legend" role="img" aria-label="blue lowers, red raises"></span> blue lowers the '
        f"score of an input, red raises it; strongest at ±{limit:.3g}, which is the change in score if a part is kept "
        "rather than removed. Maps have one scale. Below an input stand its score and the standard error of its map.</p>",
        _overview(survey),
        _tiles("Highest", highest, limit),
        _tiles("Lowest", lowest, limit),
        _table(survey, [*highest, *lowest]),
        f"<footer>Cocoax {__version__}</footer>",
    ]
    return f'<div class="cocoax"><style>{_STYLE}</style>\n' + "\n".join(parts) + "\n</div>"


def _summary(survey: Survey) -> str:
    index = survey.index
    failed = f"; {len(index.failed)} inputs of the index could not be explained" if index.failed else ""
    scores = survey.scores
    return (
        f"{len(survey.rows)} {index.manifest.nouns}, explained by {html.escape(index.manifest.encoder)}. Scores lie between "
        f"{scores.min():+.3f} and {scores.max():+.3f}, mean {scores.mean():+.3f}{failed}."
    )


def _limit(shown: Sequence[RankedRow]) -> float:
    sizes = [float(placed.attribution.values.abs().max()) for placed in shown]
    return float(np.quantile(sizes, 0.9)) or 1.0


def _overview(survey: Survey) -> str:
    """Return the mean map, or the strongest words, beside histograms of the score and its parts."""
    mean = survey.mean
    blocks = []
    if mean is not None and mean.values.ndim == 2:
        blocks.append(f"<div><h2>Where the heat lies on average</h2>{_mean_map(mean)}</div>")
    words = survey.words if mean is None or mean.values.ndim == 1 else []
    if words:
        rows = [
            [
                part.name,
                str(part.count),
                f"{part.mean:+.3g}",
                "" if part.standard_error is None else f"± {part.standard_error:.2g}",
            ]
            for part in words[:20]
        ]
        table = _rows(("part", "times", "mean change", ""), rows)
        blocks.append(f"<div><h2>What raises and lowers it on average</h2>{table}</div>")
    for name, values in {"score": survey.scores, **survey.parts}.items():
        blocks.append(f"<div><h2>{html.escape(name[:60])}</h2>{histogram(values)}</div>")
    return f'<div class="side">{"".join(blocks)}</div>'


def _mean_map(mean: Attribution) -> str:
    """Return the mean map as squares; a dot marks those that are within two standard errors of nothing."""
    values = mean.values.double().numpy()
    error = None if mean.standard_error is None else mean.standard_error.double().numpy()
    end = float(np.abs(values).max()) or 1.0
    rows, columns = values.shape
    side = 240 / max(rows, columns)
    squares = []
    for row in range(rows):
        for column in range(columns):
            value = float(values[row, column])
            colour = "178,24,43" if value > 0 else "33,102,172"
            x, y = column * side, row * side
            doubt = error is not None and abs(value) < 2 * float(error[row, column])
            said = f"{value:+.3g}" + ("" if error is None else f" ± {float(error[row, column]):.2g}")
            squares.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side:.1f}" '
                f'fill="rgba({colour},{0.9 * abs(value) / end:.2f})"><title>{said}</title></rect>'
                + (f'<circle cx="{x + side / 2:.1f}" cy="{y + side / 2:.1f}" r="2" fill="#555"/>' if doubt else "")
            )
    text = f"strongest ±{end:.3g}; a dot marks what may be nothing (two standard errors over the inputs)"
    return (
        f'<svg viewBox="0 0 {columns * side:.0f} {rows * side:.0f}" width="240" role="img" aria-label="mean map" '
        f'style="border:1px solid #ccc">{"".join(squares)}</svg><p class="small">{text}</p>'
    )


def histogram(values: np.ndarray, bins: int = 40) -> str:
    """Return a histogram as an SVG image."""
    middle, half = (values.max() + values.min()) / 2, max((values.max() - values.min()) / 2, 1e-6)  # they may all be equal
    counts, edges = np.histogram(values, bins, (middle - half, middle + half))
    width, height = 320, 110
    bars = "".join(
        f'<rect x="{n * width / bins:.1f}" y="{height - height * count / counts.max():.1f}" width="{width / bins - 1:.1f}" '
        f'height="{height * count / counts.max():.1f}" fill="#5b7aa5">'
        f"<title>{edges[n]:.3g} to {edges[n + 1]:.3g}: {count}</title></rect>"
        for n, count in enumerate(counts)
    )
    ends = "".join(
        f'<text x="{x}" y="{height + 16}" font-size="12" text-anchor="{anchor}">{value:+.3g}</text>'
        for x, anchor, value in (
            (0, "start", edges[0]),
            (width / 2, "middle", (edges[0] + edges[-1]) / 2),
            (width, "end", edges[-1]),
        )
    )
    return f'<svg viewBox="0 0 {width} {height + 20}" width="{width}" role="img" aria-label="histogram">{bars}{ends}</svg>'


def _tiles(heading: str, shown: Sequence[RankedRow], limit: float) -> str:
    if not shown:
        return ""
    texts = shown[0].attribution.display.names is not None
    tiles = []
    for placed in shown:
        attribution = placed.attribution
        error = attribution.standard_error
        doubt = "" if error is None else f"map ± {float(error.flatten()[0]):.2g}"
        known = ", ".join(f"{value}" for value in placed.columns.values() if value is not None)
        tiles.append(
            f'<div class="tile"><div class="what">{tile(attribution.view(), PlotOptions(limit=limit))}</div>'
            f"<b>{attribution.score:+.3f}</b> {doubt}<br>{html.escape(placed.id)}"
            + (f"<br>{html.escape(known[:80])}" if known else "")
            + "</div>"
        )
    kind = "tiles texts" if texts else "tiles"
    return f'<h2>{heading}</h2><div class="{kind}">{"".join(tiles)}</div>'


def _table(survey: Survey, shown: Sequence[RankedRow]) -> str:
    names = list(survey.parts)
    places = {int(row): number for number, row in enumerate(survey.rows)}
    rows = [
        [str(placed.place), placed.id, f"{placed.attribution.score:+.4f}"]
        + [f"{survey.parts[name][places[placed.row]]:+.4f}" for name in names]
        + [str(value) for value in placed.columns.values()]
        for placed in shown
    ]
    header = ["place", "id", "score", *names, *survey.index.columns]
    return f"<h2>Table</h2>{_rows(header, rows)}"


def _rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'

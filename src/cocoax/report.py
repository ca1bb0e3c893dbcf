"""HTML reports: one self-contained file, pictures included, that opens anywhere and loads nothing."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cocoax.show.figure import png
from cocoax.show.raster import data_uri
from cocoax.store import write_text
from cocoax.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1c1c1c }
h1, h2 { line-height: 1.2 } img { max-width: 100%; height: auto } figure { margin: 1rem 0 }
table { border-collapse: collapse; margin: 1rem 0 } th, td { text-align: left; padding: .3rem .9rem .3rem 0 }
th { border-bottom: 2px solid #888 } td { border-bottom: 1px solid #ddd } td.number { font-variant-numeric: tabular-nums }
.table { overflow-x: auto } footer { color: #666; font-size: .85rem; margin-top: 3rem }
"""


@dataclass(frozen=True)
class Section:
    """A heading, a paragraph, a fragment of HTML, a picture and a table; each may be left out."""

    heading: str
    text: str = ""
    figure: Figure | None = None
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    html: str = ""


def write_report(path: str | Path, title: str, sections: Sequence[Section]) -> Path:
    """Write the report; returns its path."""
    body = "\n".join(_section(section) for section in sections)
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><h1>{html.escape(title)}</h1>\n{body}\n<footer>Cocoax {__version__}</footer></body></html>\n"
    )
    return write_text(path, page)


def _section(section: Section) -> str:
    """Return a section as HTML."""
    parts = [f"<h2>{html.escape(section.heading)}</h2>"]
    if section.text:
        parts.append(f"<p>{html.escape(section.text)}</p>")
    if section.html:
        parts.append(section.html)
    if section.figure is not None:
        picture = data_uri("image/png", png(section.figure, dpi=110))
        parts.append(f'<figure><img alt="{html.escape(section.heading)}" src="{picture}"></figure>')
    if section.rows:
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in section.header)
        rows = "".join(
            "<tr>" + "".join(f'<td class="number">{html.escape(cell)}</td>' for cell in row) + "</tr>" for row in section.rows
        )
        head = f"<tr>{head}</tr>" if head else ""
        parts.append(f'<div class="table"><table>{head}{rows}</table></div>')
    return "\n".join(parts)

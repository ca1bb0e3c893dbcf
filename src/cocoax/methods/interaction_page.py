"""Interactions as a page: point at a word or a region of one input and see what it meets in the other.

The page is one file that loads nothing. A feature can be reached by the keyboard too: Tab goes to an input, arrows from
feature to feature, Enter keeps one, Escape lets go.
"""

from __future__ import annotations

import base64
import html
import io
import json
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image

from cocoax.methods.interaction_figure import NOTHING, UNIT, cell_box
from cocoax.store import digest
from cocoax.version import __version__

if TYPE_CHECKING:
    from cocoax.methods.interactions import Interactions, Matched

LONGEST = 640  # side of a picture in a page
PAIRS = 5

_STYLE = """
.cocoax-links { font: 16px/1.9 system-ui, sans-serif; color: #1c1c1c; background: #fff; padding: .5rem }
.cocoax-links .sides { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: flex-start }
.cocoax-links .side { flex: 1 1 18rem; max-width: 40rem }
.cocoax-links .text { white-space: pre-wrap } .cocoax-links .picture { position: relative; max-width: 30rem }
.cocoax-links .picture img { display: block; width: 100% } .cocoax-links .picture .f { position: absolute }
.cocoax-links .f { cursor: pointer; border-radius: .2em } .cocoax-links .picture .f { border-radius: 0 }
.cocoax-links .f:focus, .cocoax-links .f.on { outline: 2px solid #1c1c1c; outline-offset: -1px; z-index: 1 }
.cocoax-links .says { min-height: 3.8em; font-size: .9rem; line-height: 1.5 }
.cocoax-links li button { font: inherit; border: 0; background: none; cursor: pointer; padding: 0 .3em; text-align: left }
.cocoax-links .rather { font-size: .9rem; cursor: pointer }
.cocoax-links .note { color: #555; font-size: .85rem; line-height: 1.4 }
"""

_SCRIPT = """
(function () {
  const root = document.getElementById("ID");
  const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
  const says = root.querySelector(".says"), rather = root.querySelector(".rather input"), sides = ["a", "b"];
  const features = sides.map(s => Array.from(root.querySelectorAll(".f[data-side='" + s + "']")));
  const biggest = list => list.reduce((most, v) => Math.max(most, Math.abs(v)), 0) || 1;
  const value = (i, j) => data.values[i][j], limit = biggest(data.values.map(biggest));
  const columns = data.names[1].map((_, j) => data.values.map(row => row[j]));
  const along = (side, at) => (side ? columns : data.values)[at];
  const total = side => data.names[side].map((_, at) => along(side, at).reduce((sum, v) => sum + v, 0));
  const totals = sides.map((_, side) => total(side));
  let kept = null;
  const number = v => (v < 0 ? "\\u2212" : "+") + Math.abs(v).toPrecision(3);
  function paint(side, values, most) {
    features[side].forEach(f => {
      const v = values[f.dataset.at], share = Math.min(1, Math.abs(v) / most);
      f.style.background = "rgba(" + (v > 0 ? "178, 24, 43" : "33, 102, 172") + ", " + (0.75 * share).toFixed(3) + ")";
    });
  }
  const none = side => data.names[side].map(() => 0);
  const mark = (side, at) => features[side].forEach(f => f.classList.toggle("on", +f.dataset.at === at));
  function rest() {
    sides.forEach((_, side) => { paint(side, totals[side], biggest(totals[side])); mark(side, -1); });
    says.textContent = "Each part with all of the other side. Point at one, or choose it with Tab and the arrow keys.";
  }
  const error = (side, at, k) => data.errors === null ? 0 : data.errors[+rather.checked][side][at][k];
  function facing(side, at) {  // what a part meets on the other side, with errors; minus the mean of the other parts
    const others = rather.checked ? data.names[side].map((_, o) => o).filter(o => o !== at) : [];
    const share = 1 / Math.max(1, others.length), sum = list => list.reduce((all, v) => all + v, 0);
    return data.names[1 - side].map((_, k) => [
      along(side, at)[k] - share * sum(others.map(o => along(side, o)[k])),
      error(side, at, k),
    ]);
  }
  function show(side, at) {
    const other = 1 - side, met = facing(side, at), values = met.map(([v, _]) => v);
    paint(other, met.map(([v, e]) => Math.abs(v) < 2 * e ? 0 : v), biggest(values));
    paint(side, none(side), 1); mark(side, at); mark(other, -1);
    const order = values.map((_, k) => k).sort((k, l) => values[l] - values[k]).slice(0, 3);
    const name = data.names[side][at] + (rather.checked ? " rather than the others" : "");
    says.textContent = name + " with " + order.map(k => data.names[other][k] + " " + number(values[k])
      + (data.errors === null ? "" : " \\u00b1 " + met[k][1].toPrecision(2))).join("; ");
  }
  function pair(i, j) {
    sides.forEach((_, side) => {
      const at = side ? j : i;
      paint(side, none(side).map((_, k) => k === at ? value(i, j) : 0), limit); mark(side, at);
    });
    says.textContent = data.names[0][i] + " with " + data.names[1][j] + " " + number(value(i, j));
  }
  rather.addEventListener("change", () => again());
  const again = () => kept === null ? rest() : show(kept[0], kept[1]);
  features.forEach((list, side) => list.forEach((f, place) => {
    const at = +f.dataset.at, wide = data.wide[side];
    const keep = () => { kept = kept !== null && kept[0] === side && kept[1] === at ? null : [side, at]; again(); };
    f.addEventListener("mouseenter", () => show(side, at));
    f.addEventListener("mouseleave", again);
    f.addEventListener("focus", () => {
      list.forEach(g => { g.tabIndex = g === f ? 0 : -1; });
      show(side, at);
    });
    f.addEventListener("blur", again);
    f.addEventListener("click", keep);
    f.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide || 1, ArrowUp: -(wide || 1) }[event.key];
      if (step !== undefined && list[place + step]) { list[place + step].focus(); event.preventDefault(); }
      if (event.key === "Enter" || event.key === " ") { keep(); show(side, at); event.preventDefault(); }
      if (event.key === "Escape") { kept = null; rest(); }
    });
  }));
  root.querySelectorAll("button[data-i]").forEach(b => {
    const both = () => pair(+b.dataset.i, +b.dataset.j);
    b.addEventListener("mouseenter", both); b.addEventListener("focus", both);
    b.addEventListener("mouseleave", again); b.addEventListener("blur", again);
  });
  rest();
})();
"""


def fragment(interactions: Interactions) -> str:
    """Return both inputs as an HTML fragment with its style and script."""
    identifier = f"cocoax-{digest(interactions.values, interactions.a.names, interactions.b.names)[:12]}"
    sides = (interactions.a, interactions.b)
    data = {
        "names": [side.names for side in sides],
        "wide": [side.shape[1] if len(side.shape) == 2 else 0 for side in sides],
        "values": _rounded(interactions.shown.tolist()),
        # Of a part with each of the other side, and of the part rather than the others beside it.
        "errors": None
        if interactions.sampled is None
        else [[_errors(interactions, side, rather) for side in "ab"] for rather in (False, True)],
    }
    nothing = f"{NOTHING} " if interactions.is_nothing else ""
    # Nothing in the data can end the script element or begin another.
    plain = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    drawn = "".join(
        f'<div class="side" role="group" aria-label="{label}">{_side(side, letter)}</div>'
        for side, letter, label in zip(sides, "ab", ("first input", "second input"), strict=True)
    )
    return (
        f'<div class="cocoax-links" id="{identifier}"><style>{_STYLE}</style><div class="sides">{drawn}</div>'
        '<label class="rather"><input type="checkbox"> Show a part rather than the other parts beside it</label>'
        f'<div class="says" role="status" aria-live="polite"></div><ol>{_pairs(interactions)}</ol>'
        f'<div class="note">{nothing}Similarity {interactions.score:+.3f}. Red raises it, blue lowers it; the numbers are '
        f"the {UNIT}; regions share with their neighbours where masks are smooth. The part that is pointed at has a scale of "
        "its own, on which its largest value has the full colour; what lies within two standard errors has none.</div>"
        f'<script type="application/json">{plain}</script><script>{_SCRIPT.replace("ID", identifier)}</script></div>'
    )


def page(interactions: Interactions, title: str) -> str:
    """Return a whole page that loads nothing."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"></head>'
        '<body style="max-width: 72rem; margin: 1.5rem auto; padding: 0 1rem; font-family: system-ui, sans-serif">'
        f"<h1>{html.escape(title)}</h1>{fragment(interactions)}"
        f'<footer style="color: #666; font-size: .85rem">Cocoax {__version__}</footer></body></html>\n'
    )


def _errors(interactions: Interactions, side: str, rather: bool) -> list[list[float]]:
    """Return errors of each part of a side with those of the other, or of the part minus the mean of those beside it."""
    count = len((interactions.a if side == "a" else interactions.b).names)
    one = torch.eye(count, dtype=torch.float64)
    errors = interactions.errors_of_sums(one - (1 - one) / max(1, count - 1) if rather else one, side)
    assert errors is not None
    return _rounded(errors.T.tolist())


def _rounded(rows: list[list[float]]) -> list[list[float]]:
    return [[float(f"{value:.4g}") for value in row] for row in rows]


def _pairs(interactions: Interactions) -> str:
    names = interactions.a.names, interactions.b.names
    return "".join(
        f'<li><button type="button" data-i="{i}" data-j="{j}">{html.escape(names[0][i])} – {html.escape(names[1][j])} '
        f"{float(interactions.matrix[i, j]):+.3g}</button></li>"
        for i, j in interactions.strongest(PAIRS)
    )


def _side(side: Matched, letter: str) -> str:
    """Return one input: a picture with its cells, a text with its words, or names in a row."""
    if side.is_picture:
        return _picture(side, letter)
    text, offsets = getattr(side.display, "text", None), getattr(side.display, "offsets", None)
    if text is None or offsets is None:
        return f'<div class="text">{" · ".join(_feature(letter, at, name) for at, name in enumerate(side.names))}</div>'
    parts, place = [], 0
    for at, (begin, end) in enumerate(offsets):
        if end > place:  # not a token of the same character as the one before
            begin = max(begin, place)
            parts += [html.escape(text[place:begin]), _feature(letter, at, text[begin:end])]
            place = end
    return f'<div class="text" dir="auto">{"".join(parts)}{html.escape(text[place:])}</div>'


def _feature(letter: str, at: int, name: str) -> str:
    return f'<span class="f" data-side="{letter}" data-at="{at}" tabindex="{-1 if at else 0}">{html.escape(name)}</span>'


def _picture(side: Matched, letter: str) -> str:
    """Return a picture with a place to point at for every cell of its grid."""
    cells = []
    for at, name in enumerate(side.names):
        left, top, width, height = (f"{100 * part:.3f}%" for part in cell_box(side, at))
        cells.append(
            f'<span class="f" data-side="{letter}" data-at="{at}" tabindex="{-1 if at else 0}" role="img" '
            f'aria-label="{name}" style="left: {left}; top: {top}; width: {width}; height: {height}"></span>'
        )
    return f'<div class="picture"><img alt="" src="{_data(side)}">{"".join(cells)}</div>'


def _data(side: Matched) -> str:
    """Return the picture of a side as an address that holds it, grey so that colours are the map's."""
    picture: Any = getattr(side.display, "picture", None)
    image = Image.new("L", (224, 224), 230) if picture is None else Image.fromarray(picture.numpy()).convert("L")
    image.thumbnail((LONGEST, LONGEST))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"

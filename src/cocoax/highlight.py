"""Texts with their words in colour: in the terminal and as HTML.

Red raises the target, blue lowers it; the strongest word has the strongest colour, and the number behind each colour is
shown with it.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from rich.style import Style
from rich.text import Text

from cocoax.attribution.result import Attribution

RED, BLUE = (178, 24, 43), (33, 102, 172)


def to_rich(attribution: Attribution, limit: float | None = None) -> Text:
    """The text for a terminal; the colours end at ``limit``, by default the largest value."""
    shown = Text()
    for piece, strength, _ in _pieces(attribution, limit):
        colour = RED if strength > 0 else BLUE
        mixed = [round(255 + (part - 255) * 0.75 * abs(strength)) for part in colour]
        plain = abs(strength) < 0.1
        shown.append(piece, None if plain else Style(color="black", bgcolor="#{:02x}{:02x}{:02x}".format(*mixed)))
    return shown


def to_html(attribution: Attribution, limit: float | None = None) -> str:
    """The text as an HTML fragment; pointing at a word shows its value."""
    parts = []
    for piece, strength, label in _pieces(attribution, limit):
        if not label:
            parts.append(html.escape(piece))
            continue
        colour = ", ".join(map(str, RED if strength > 0 else BLUE))
        style = f"background: rgba({colour}, {0.7 * abs(strength):.2f}); border-radius: .2em"
        parts.append(f'<span style="{style}" title="{html.escape(label)}">{html.escape(piece)}</span>')
    # dir="auto": the first letter decides whether the text runs from right to left.
    return f'<p class="cocoax-text" dir="auto" style="white-space: pre-wrap">{"".join(parts)}</p>'


def _pieces(attribution: Attribution, limit: float | None) -> Iterator[tuple[str, float, str]]:
    """The whole text piece by piece: what it is, from -1 to 1 how strong, and what to say about it if it is a feature."""
    if attribution.text is None or attribution.offsets is None or attribution.tokens is None:
        raise ValueError("Only the attribution of a text can be shown as one; draw others with .plot().")
    values = (attribution.values - attribution.neutral).tolist()
    limit = max(map(abs, values)) if limit is None else limit
    errors = None if attribution.standard_error is None else attribution.standard_error.tolist()
    at = 0
    for index, ((begin, end), value) in enumerate(zip(attribution.offsets, values, strict=True)):
        if end <= at:  # a token of the same character as the one before
            continue
        begin = max(begin, at)
        if begin > at:
            yield attribution.text[at:begin], 0.0, ""
        label = f"{value:+.3f}" + (f" ± {errors[index]:.3f}" if errors is not None else "")
        yield attribution.text[begin:end], max(-1.0, min(1.0, value / limit)) if limit else 0.0, label
        at = end
    if at < len(attribution.text):
        yield attribution.text[at:], 0.0, ""

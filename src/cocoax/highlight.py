"""Texts with their words in colour: in the terminal and as HTML.

Red raises the target, blue lowers it; the strongest word has the strongest colour, and the number behind each colour is
shown with it. What is underlined is not known: within two standard errors there may be nothing.
"""

from __future__ import annotations

from rich.style import Style
from rich.text import Text

from cocoax.inputs.drawing import BLUE, RED, VISIBLE
from cocoax.methods.attribution import Attribution

__all__ = ["BLUE", "RED", "to_html", "to_rich"]


def to_rich(attribution: Attribution, limit: float | None = None) -> Text:
    """Return the text for a terminal; the colours end at ``limit``, by default the largest value."""
    shown = Text()
    for piece in attribution.display.pieces(attribution, limit):
        colour = RED if piece.strength > 0 else BLUE
        mixed = [round(255 + (part - 255) * 0.75 * abs(piece.strength)) for part in colour]
        style = Style(underline=not piece.known)
        if abs(piece.strength) >= VISIBLE:
            style += Style(color="black", bgcolor="#{:02x}{:02x}{:02x}".format(*mixed))
        shown.append(piece.text, style)
    return shown


def to_html(attribution: Attribution, limit: float | None = None) -> str:
    """Return the text as an HTML fragment; pointing at a word shows its value."""
    attribution.display.pieces(attribution, limit)  # raises where it is no text
    return attribution.html(limit)

"""Letters in drawings: lines that are not too long, and fonts that have what is written."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import regex

if TYPE_CHECKING:
    from matplotlib.font_manager import FontEntry

MISSING = "\ufffd"  # a question mark on a lozenge, which matplotlib's own font has
_HOLDERS: dict[str, FontEntry | None] = {}  # letters that matplotlib's default font lacks, and a font that has each
_TOLD: set[str] = set()  # scripts that were spoken of
_NO_LETTERS = r"\.?(Last ?Resort|Adobe ?Blank)"  # names of fonts that claim to have every letter and draw boxes
_SHAPED = r"[\p{Arabic}\p{Hebrew}\p{Syriac}\p{Thaana}\p{Nko}\p{Devanagari}\p{Bengali}\p{Tamil}\p{Telugu}\p{Khmer}\p{Myanmar}]"


def wrapped(text: str, width: int, most: int | None = None) -> str:
    """Return a text in lines of at most ``width`` columns; letters of Chinese, Japanese and Korean take two each.

    A word that is longer than a line is cut, though never between a letter and its accents. Of more lines than ``most``, the
    last one ends in an ellipsis.
    """
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and columns(f"{line} {word}") <= width:
            line = f"{line} {word}"
            continue
        lines += [line] if line else []
        line = ""
        for letter in regex.findall(r"\X", word):
            if line and columns(line + letter) > width:
                lines.append(line)
                line = ""
            line += letter
    lines.append(line)
    if most is not None and len(lines) > most:
        lines = [*lines[: most - 1], f"{lines[most - 1]} …"]
    return "\n".join(lines)


def columns(text: str) -> int:
    """Return how wide a text is, counted in Latin letters."""
    accents = sum(unicodedata.category(letter) in ("Mn", "Me", "Cf") for letter in text)
    return len(text) - accents + sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)


def lettered(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return texts as they can be drawn, and the families of fonts that have their letters, for ``fontfamily=``.

    Letters that no font has become :data:`MISSING`, and a warning says so, once for each script.
    """
    import matplotlib
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    default = FT2Font(findfont(FontProperties()))
    written = {letter for text in texts for letter in text if letter not in "\n\t"}
    letters = {letter for letter in written if not default.get_char_index(ord(letter))}
    _look_for({letter for letter in letters if letter not in _HOLDERS})
    nowhere = {letter for letter in letters if _HOLDERS[letter] is None}
    _tell(nowhere, "".join(texts))
    table = {ord(letter): "" if _is_invisible(letter) else MISSING for letter in nowhere}
    found = dict.fromkeys(entry.name for letter in sorted(letters) if (entry := _HOLDERS[letter]) is not None)
    return [text.translate(table) for text in texts], [*matplotlib.rcParams["font.family"], *found]


def _look_for(letters: set[str]) -> None:
    """Remember for each letter a font that has it: one that was found before, or the one that has most of them."""
    from matplotlib.font_manager import fontManager

    known = list({entry.fname: entry for entry in _HOLDERS.values() if entry is not None}.values())
    for fonts in (known, fontManager.ttflist):
        holds = [(_held(entry, letters), entry) for entry in fonts] if letters else []
        while holds and letters:
            held, entry = max(holds, key=lambda pair: len(pair[0] & letters))
            if not held & letters:
                break
            _HOLDERS.update(dict.fromkeys(held & letters, entry))
            letters = letters - held
    _HOLDERS.update(dict.fromkeys(letters))


def _held(entry: FontEntry, letters: set[str]) -> set[str]:
    """Return which of the letters a font has; none if it cannot be drawn at any size, as colour emoji cannot."""
    from matplotlib.ft2font import FT2Font

    if entry.style != "normal" or regex.match(_NO_LETTERS, entry.name):
        return set()
    try:
        font = FT2Font(entry.fname)
    except (OSError, RuntimeError):  # it has gone, or is damaged
        return set()
    return {letter for letter in letters if font.get_char_index(ord(letter))} if font.scalable else set()


def _is_invisible(letter: str) -> bool:
    """Return whether a letter only joins others or chooses how they look."""
    return unicodedata.category(letter) == "Cf" or 0xFE00 <= ord(letter) <= 0xFE0F


def _tell(nowhere: set[str], text: str) -> None:
    """Warn of letters that cannot be drawn, or not in their shape; once for each script."""
    import matplotlib

    absent: dict[str, str] = {}
    for letter in sorted(nowhere):
        script = unicodedata.name(letter, "UNKNOWN").split()[0].capitalize().replace("Cjk", "Chinese")
        if script not in _TOLD and not _is_invisible(letter):
            absent[script] = absent.get(script, "") + letter
    _TOLD.update(absent)
    if absent:
        examples = ", ".join(f"{some[:5]} ({script})" for script, some in absent.items())
        warnings.warn(
            f"No font that matplotlib finds has the letters {examples}; the drawing shows {MISSING} instead. Install one, "
            "such as Noto Sans CJK or Noto Sans Thai, and delete matplotlib's list of fonts in "
            f"{matplotlib.get_cachedir()}; or show the result as HTML (result.html()), which needs none.",
            stacklevel=5,
        )
    if matplotlib.__version_info__ < (3, 11) and "shapes" not in _TOLD and regex.search(_SHAPED, text):
        _TOLD.add("shapes")
        warnings.warn(
            f"matplotlib {matplotlib.__version__} draws letters one by one from left to right, which is wrong for Arabic, "
            "Hebrew and others; install matplotlib 3.11, or show the result as HTML (result.html()).",
            stacklevel=5,
        )

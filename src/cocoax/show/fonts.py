"""Fonts and lines: families with letters of many scripts, and lines that are not too long."""

from __future__ import annotations

import unicodedata
from functools import cache

import regex

# Families that have letters matplotlib's own font lacks, as systems come with them; matplotlib takes the first that has one.
_FAMILIES = (
    *("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans SC", "Hiragino Sans", "PingFang SC", "Microsoft YaHei", "Yu Gothic"),
    *("Malgun Gothic", "Apple SD Gothic Neo", "WenQuanYi Zen Hei", "Source Han Sans", "IPAGothic", "Droid Sans Fallback"),
    *("Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Thai", "Noto Sans Devanagari", "Nirmala UI", "Tahoma"),
    *("Noto Sans Symbols", "Noto Sans Symbols 2", "Noto Emoji", "Symbola", "Segoe UI Symbol", "Arial Unicode MS", "Unifont"),
)


@cache
def families() -> tuple[str, ...]:
    """Return matplotlib's families of fonts, and those of :data:`_FAMILIES` that are installed, for ``fontfamily=``."""
    import matplotlib
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    return (*matplotlib.rcParams["font.family"], *(name for name in _FAMILIES if name in installed))


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

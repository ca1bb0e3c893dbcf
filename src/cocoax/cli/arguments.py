"""Inputs as they are typed: a text, or the file of a picture or a sound."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import cocoax

TEXT_FILES = (".txt", ".md", ".rst")
DEFAULTS = {"text": "minilm", "picture": "starter", "sound": "resemblyzer"}


def read_input(typed: str) -> str | Path:
    """Return the file that an argument names, if it ends as pictures or sounds do; what a text file holds; else the text.

    - is standard input.
    """
    from cocoax.inputs.image import SUFFIXES as PICTURES

    if typed == "-":
        typed = sys.stdin.read()
    path = Path(typed)
    ends = path.suffix.lower()
    if os.path.isdir(typed):  # a Path raises where the text is long
        raise ValueError(f"{typed} is a folder; name one file of it. If it is meant as a text, write more words.")
    is_file = os.path.isfile(typed)
    if (ends in (*PICTURES, *TEXT_FILES) or is_sound(path)) and (is_file or " " not in typed):
        if not is_file:
            raise FileNotFoundError(f"No file at {typed}; check the path.")
        if ends not in TEXT_FILES:
            return path
        typed = path.read_text(encoding="utf-8").strip()
    if not typed.strip():
        raise ValueError("The text is empty; write at least one word.")
    return typed


def names_file(typed: str) -> bool:
    """Return whether words are the name of a file: of one that is there, or of any picture."""
    return os.path.isfile(typed) or names_picture(typed)


def names_picture(typed: str) -> bool:
    """Return whether words end as the files of pictures do."""
    from cocoax.inputs.image import SUFFIXES

    return Path(typed).suffix.lower() in SUFFIXES and " " not in typed


def is_sound(path: Path) -> bool:
    """Return whether a file ends as sounds do."""
    from cocoax.inputs.sound import SUFFIXES

    return path.suffix.lower() in SUFFIXES


def load_for(inputs: Sequence[str | Path], name: str | None, device: str | None) -> cocoax.Encoder:
    """Load an encoder by name; by default MiniLM for texts alone, Resemblyzer for sounds alone, and else the starter."""
    kinds = {"text" if isinstance(item, str) else "sound" if is_sound(item) else "picture" for item in inputs}
    if name is None and len(kinds) > 1 and "sound" in kinds:
        raise ValueError(
            f"A sound and a {min(kinds - {'sound'})} are compared by an encoder that takes both; name one by --encoder."
        )
    return cocoax.load(name or (DEFAULTS[kinds.pop()] if len(kinds) == 1 else "starter"), device=device)

"""Inputs as they are typed: a text, or the file of a picture or a sound."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import cocoax


def read_input(typed: str) -> str | Path:
    """Return the file that an argument names, if it ends as pictures or sounds do; else the text; - is standard input."""
    from cocoax.inputs.audio import SUFFIXES as SOUNDS
    from cocoax.inputs.images import SUFFIXES as PICTURES

    if typed == "-":
        typed = sys.stdin.read()
    if not typed.strip():
        raise ValueError("The text is empty; write at least one word.")
    path = Path(typed)
    if path.suffix.lower() in PICTURES | SOUNDS and (path.is_file() or " " not in typed):
        if not path.is_file():
            raise FileNotFoundError(f"No file at {typed}; check the path.")
        return path
    return typed


def load_for(inputs: Sequence[str | Path], name: str | None, device: str | None) -> cocoax.Encoder:
    """Load an encoder by name; by default MiniLM for texts alone, and the starter where there are pictures."""
    default = "minilm" if all(isinstance(item, str) for item in inputs) else "starter"
    return cocoax.load(name or default, device=device)

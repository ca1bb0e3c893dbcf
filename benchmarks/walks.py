"""Which files of the package a run of the library, of ``cocoax ask`` and of ``cocoax index`` pass through.

    python benchmarks/walks.py

A file counts if one of its functions is called; imports do not count.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import cocoax

SOURCE = str(Path(cocoax.__file__).parent)


def files_of(walk: Callable[[], object]) -> list[str]:
    """Return the files whose functions are called during a walk."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        is_function = code.co_flags & CO_OPTIMIZED  # and not the body of a class
        if event == "call" and is_function and code.co_filename.startswith(SOURCE):
            found.add(code.co_filename[len(SOURCE) + 1 :])

    sys.setprofile(note)
    try:
        walk()
    finally:
        sys.setprofile(None)
    return sorted(found)


def library() -> None:
    """Explain one picture by a small network."""
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 8)).eval()
    encoder = cocoax.Encoder(network)
    pictures = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    target = cocoax.corpus_similarity(encoder.reference(pictures[1:], progress=False, cache=False))
    cocoax.Rise(samples=64).run(encoder, pictures[0], progress=False).explain(target)


def command(*words: str) -> Callable[[], None]:
    """Return a call of the command line."""

    def walk() -> None:
        from typer.testing import CliRunner

        from cocoax.cli.main import app

        result = CliRunner().invoke(app, list(words))
        assert result.exit_code == 0, result.output

    return walk


def main() -> None:
    """Print the files of each walk."""
    with tempfile.TemporaryDirectory() as folder:
        photos = Path(folder) / "photos"
        photos.mkdir()
        from cocoax.data import photo

        for name in ("cat", "coffee"):
            photo(name).resize((96, 96)).save(photos / f"{name}.png")
        walks = {
            "library": library,
            "ask": command("ask", str(photos / "cat.png"), "--like", "a cat", "--samples", "32", "--out", f"{folder}/answer"),
            "index": command("index", str(photos), "--samples", "16", "--out", f"{folder}/index"),
        }
        for name, walk in walks.items():
            files = files_of(walk)
            print(f"{name}: {len(files)} files\n  " + "\n  ".join(files))


if __name__ == "__main__":
    main()

"""Serves the page with a small encoder and prints its address; the one of pictures is slow enough that a run can be watched.

python -m tests.app.serve [PLACES [TOLERANCE [FOLDER or "sounds" or "rows"]]]

In the folder an index of some flags is made; the tolerance 0 is none.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing
from itertools import combinations
from pathlib import Path

import torch
from torch import Tensor

import cocoax
from cocoax.app import launch
from cocoax.survey import build
from tests.app import small
from tests.app.colours import Colours, encoder, flag


class Slow(Colours):
    def forward(self, images: Tensor) -> Tensor:
        time.sleep(0.004 * len(images))
        return super().forward(images)


def flags_index(encoder: cocoax.Encoder, folder: Path) -> Path:
    """Make an index of flags of two colours each."""
    pairs = list(combinations(("red", "green", "blue", "white", "black"), 2))[:8]
    (folder / "flags").mkdir()
    for left, right in pairs:
        flag(left, right).save(folder / f"flags/{left}-{right}.png")
    build(encoder, folder / "flags", folder / "index", cocoax.Rise(samples=20), progress=False)
    return folder / "index"


def slow_colours() -> cocoax.Encoder:
    made = encoder()
    made.module.__class__ = Slow
    return made


if __name__ == "__main__":
    torch.set_num_threads(1)
    kept = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    tolerance = (float(sys.argv[2]) or None) if len(sys.argv) > 2 else None
    what = sys.argv[3] if len(sys.argv) > 3 else ""
    others = {"sounds": small.sounds, "rows": small.rows}
    served = others.get(what, slow_colours)()
    index = flags_index(served, Path(what)) if what and what not in others else None
    page, address = launch(served, samples=240, tolerance=tolerance, kept=kept, wait=False, prepare=False, index=index)
    print(address, flush=True)
    with closing(page):
        page.blocks.block_thread()

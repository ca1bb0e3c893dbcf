"""Serves the page with the small encoder, slowed down a little so that a run can be watched; prints its address.

python -m tests.app.serve [PLACES [TOLERANCE]]
"""

from __future__ import annotations

import sys
import time
from contextlib import closing

import torch
from torch import Tensor

from cocoax.app import launch
from tests.app.colours import Colours, encoder


class Slow(Colours):
    def forward(self, images: Tensor) -> Tensor:
        time.sleep(0.004 * len(images))
        return super().forward(images)


if __name__ == "__main__":
    torch.set_num_threads(1)
    slow = encoder()
    slow.module.__class__ = Slow
    kept = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    tolerance = float(sys.argv[2]) if len(sys.argv) > 2 else None
    page, address = launch(slow, samples=240, tolerance=tolerance, kept=kept, wait=False, prepare=False)
    print(address, flush=True)
    with closing(page):
        page.blocks.block_thread()

"""Rise on photos: the variance of what a map shows, now and as it was before, and what its intervals cover.

    python benchmarks/rise_photos.py FOLDER encode [--samples 6000]     # goes on where it stopped
    python benchmarks/rise_photos.py FOLDER measure
    python benchmarks/rise_photos.py FOLDER time                        # alone on the machine

Before, masks were all drawn anew, the linear models saw one cell more than a mask has (now twice as many), and torch ran the
encoder, as it does without ONNX Runtime.

EfficientNet-Lite0 at 224 x 224, five photos, three targets (label-free, corpus, COCOA). A long run of each photo is cut into
parts of 100, 300 and 1000 masks, each of which is compared with the estimate from all other masks of the run. Values are
relative to the mean score, which is what a map shows; variances are those that standard errors tell, whose intervals cover.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

import cocoax
from benchmarks.bench.subjects import PHOTOS, subjects
from cocoax.data import photo
from cocoax.encoders.fast_encoder import VARIABLE
from cocoax.masking import GridMasks
from cocoax.masking import masks as masks_module
from cocoax.methods.rise import efficient_estimate
from cocoax.methods.run_cache import cached_run
from cocoax.targets import score_all

TARGETS = {"label-free": 0, "corpus": 2, "COCOA": 3}
SIZES = (100, 300, 1000)
BLOCK = 256  # masks after which complements are complete
DESIGNS = {"independent": False, "complements": True}
REPEATS = 7
TIMED = """
import time
import cocoax
from benchmarks.bench.subjects import subjects
encoder, picture = subjects(quick=True)[1].encoder, cocoax.data.photo("cat")
cocoax.Rise(samples=64).run(encoder, picture, progress=False)
began = time.perf_counter()
cocoax.Rise(samples=300, seed=1).run(encoder, picture, progress=False)
print(time.perf_counter() - began)
"""


def encode(folder: Path, samples: int) -> None:
    """Encode all photos under both designs of masks, twice as many complementary ones, whose coverage is looked at."""
    encoder = subjects(quick=True)[1].encoder
    for name in PHOTOS:
        for design, complements in DESIGNS.items():
            path = folder / f"{name}-{design}.safetensors"
            if not path.exists():
                method = cocoax.Rise(samples if complements else samples // 2, complements=complements)
                cached_run(encoder, photo(name), method, folder=folder / "unfinished").save(path)
                print(path.name, flush=True)


def part_of(masks: GridMasks, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return relative values and standard errors from some of the masks, ``[k, H, W]``."""
    found = efficient_estimate(masks.some(rows), y[rows])
    assert found.neutral is not None
    assert found.standard_error is not None
    return found.values - found.neutral[:, None, None], found.standard_error


def judged(masks: GridMasks, y: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return mean squared standard errors ``[k]`` of parts of a run, and the share of pixels whose interval covers ``[k]``.

    A part begins with a block of masks, as a run does, so that it has complements where a run of its length has them.
    """
    squares, covered, everything = [], [], torch.arange(len(y))
    for start in range(0, len(y) - size + 1, -(-size // BLOCK) * BLOCK):
        inside = (everything >= start) & (everything < start + size)
        (values, errors), (truth, unsure) = part_of(masks, y, inside), part_of(masks, y, ~inside)
        squares.append(errors.square().mean((1, 2)))
        apart = (values - truth).abs()
        covered.append((apart <= 1.96 * (errors.square() + unsure.square()).sqrt()).double().mean((1, 2)))
    return torch.stack(squares).mean(0), torch.stack(covered).mean(0)


def measure(folder: Path) -> dict[str, Any]:
    """Return, for every size of a part, how many times less variance complements have, and coverage."""
    subject = subjects(quick=True)[1]
    ratios: dict[str, list[float]] = {f"{size}": [] for size in SIZES}
    coverage: dict[str, list[list[float]]] = {f"{size}": [] for size in SIZES}
    now = masks_module._coarse_cells
    for name in PHOTOS:
        targets = [subject.targets(name)[index] for index in TARGETS.values()]
        squared: dict[str, dict[int, Tensor]] = {}
        for design in DESIGNS:
            path = folder / f"{name}-{design}.safetensors"
            if not path.exists():
                break
            # A run has the geometry, and with it the models, of when it is loaded.
            masks_module.mask_geometry.cache_clear()
            masks_module._coarse_cells = now if design == "complements" else lambda cells: cells + 1
            run = cocoax.Run.load(path)
            assert isinstance(run.masks, GridMasks)
            y = score_all(targets, run.representations, run.anchors[0]).double()
            found = {size: judged(run.masks, y, size) for size in SIZES}
            squared[design] = {size: squares for size, (squares, _) in found.items()}
            if design == "complements":
                for size, (_, covered) in found.items():
                    coverage[f"{size}"].append(covered.tolist())
        else:
            for size in SIZES:
                ratios[f"{size}"] += (squared["independent"][size] / squared["complements"][size]).tolist()
    return {
        "times less variance, median": {size: median(each) for size, each in ratios.items()},
        "least and most": {size: (min(each), max(each)) for size, each in ratios.items()},
        "coverage by target": {size: torch.tensor(each).mean(0).tolist() for size, each in coverage.items()},
        "coverage of single photos": {
            size: (float(torch.tensor(each).min()), float(torch.tensor(each).max())) for size, each in coverage.items()
        },
    }


def timed() -> dict[str, Any]:
    """Return seconds for 300 masked copies with torch and with ONNX Runtime, in turns, and how many times faster that is."""
    seconds: dict[str, list[float]] = {"0": [], "1": []}
    for _ in range(REPEATS):
        for flag, each in seconds.items():  # in processes of their own, since threads of one keep the other waiting
            done = subprocess.run(
                [sys.executable, "-c", TIMED], env=os.environ | {VARIABLE: flag}, capture_output=True, text=True, check=True
            )
            each.append(float(done.stdout))
    ratios = [before / now for before, now in zip(seconds["0"], seconds["1"], strict=True)]
    return {
        "seconds, torch and ONNX Runtime": [median(each) for each in seconds.values()],
        "times faster: median, least, most": (median(ratios), min(ratios), max(ratios)),
    }


def main() -> None:
    """Encode, measure or time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("what", choices=("encode", "measure", "time"))
    parser.add_argument("--samples", type=int, default=6000)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.what == "encode":
        encode(arguments.folder, arguments.samples)
    else:
        print(json.dumps(measure(arguments.folder) if arguments.what == "measure" else timed(), indent=1))


if __name__ == "__main__":
    main()

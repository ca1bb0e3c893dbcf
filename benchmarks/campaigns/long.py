"""Long streams: a reference of 100 000 pictures of which 100 are broken, and one of a million embeddings.

    python benchmarks/campaigns/long.py --pictures 100000 --broken 100 --embeddings 1000000 --seed 0

Memory must not grow with the length of a stream, every broken picture must be named, and the means must be right. Ends with
1 if one of these does not hold. The memory is what the process has for itself, without what it maps from files (Linux).
"""

from __future__ import annotations

import argparse
import os
import random
import re
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import cocoax

DIMENSION = 64
COPIES = 171  # of each colour, so that all representations of 100 000 pictures would take 205 megabytes
# Megabytes that a stream may take, whatever its length: all pictures as tensors would take 77, all embeddings 256.
ENOUGH_FOR_PICTURES = 60.0
ENOUGH_FOR_EMBEDDINGS = 100.0


class Net(nn.Module):
    """The means of colours, so that what comes out can be checked without it."""

    def forward(self, images: Tensor) -> Tensor:
        """Return the mean of each colour, plus one, again and again."""
        return (images.mean((2, 3)) + 1).repeat(1, COPIES)


def own_memory() -> float:
    """Return the memory of this process in megabytes."""
    status = Path("/proc/self/status").read_text()
    kilobytes = re.search(r"RssAnon:\s+(\d+)", status)
    assert kilobytes is not None
    return int(kilobytes[1]) / 1024


class Peak:
    """The most memory that this process has during a block, looked at every few milliseconds."""

    def __enter__(self) -> Peak:
        self.megabytes, self._stop = own_memory(), threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.megabytes = max(self.megabytes, own_memory())

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()


def write_pictures(folder: Path, count: int, broken: set[int]) -> np.ndarray:
    """Write pictures of one colour each, those that are broken cut off; return the mean over the others."""
    colours = np.random.default_rng(0).integers(0, 256, (count, 3), dtype=np.uint8)
    for number, colour in enumerate(colours):
        path = folder / f"{number // 1000:03d}" / f"{number:06d}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), tuple(colour.tolist())).save(path)
        if number in broken:
            path.write_bytes(path.read_bytes()[:40])
    good = [number for number in range(count) if number not in broken]
    mean: np.ndarray = colours[good].astype(np.float64).mean(0) / 255 + 1
    return mean


def watched(paths: list[Path], memory: dict[str, float]) -> Iterator[Path]:
    """Give paths one by one, and note the memory after a tenth of them and at the end."""
    for number, path in enumerate(paths):
        if number == len(paths) // 10:
            memory["early"] = own_memory()
        yield path
    memory["late"] = own_memory()


def try_pictures(count: int, broken: int, seed: int) -> list[str]:
    """Make a reference of pictures of which some are broken; return what is wrong with it."""
    chosen = set(random.Random(seed).sample(range(count), broken))
    memory: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["COCOAX_CACHE"] = str(folder / "cache")
        (folder / "pictures").mkdir()
        expected = write_pictures(folder / "pictures", count, chosen)
        paths = sorted((folder / "pictures").rglob("*.png"))
        encoder = cocoax.Encoder(Net().eval(), preprocess=cocoax.ImagePreprocess(), name="colours")
        begun = time.monotonic()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            reference = encoder.reference(watched(paths, memory), on_error="skip", progress=False)
        lasted = time.monotonic() - begun
    said = [str(each.message) for each in told]
    named = {number for number, reason in reference.skipped if paths[number].name in reason}
    error = float(np.abs(reference.mean.numpy() - np.tile(expected, COPIES)).max())
    print(
        f"| {count} pictures in files, {broken} of them broken | {lasted:.0f} s | {memory['early']:.0f} MB after a tenth, "
        f"{memory['late']:.0f} MB at the end | {len(named & chosen)} of {broken} named, {len(named - chosen)} others; "
        f"the mean is right to {error:.0e} |",
        flush=True,
    )
    return [
        *(["not exactly the broken ones are named"] if named != chosen or len(reference.skipped) != broken else []),
        *(["the mean is wrong"] if error > 1e-6 or reference.count != count - broken else []),
        *(["memory grows"] if memory["late"] - memory["early"] > ENOUGH_FOR_PICTURES else []),
        *(["no warning"] if broken and not any(f"{broken} inputs were skipped" in text for text in said) else []),
    ]


def try_embeddings(count: int) -> list[str]:
    """Make references of embeddings in a file; return what is wrong with them."""
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "embeddings.npy"
        rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(count, DIMENSION))
        total, units = np.zeros(DIMENSION), np.zeros(DIMENSION)
        for start in range(0, count, 10_000):
            part = np.random.default_rng(start).normal(0.1, 1, (min(10_000, count - start), DIMENSION)).astype(np.float32)
            rows[start : start + len(part)] = part
            total += part.astype(np.float64).sum(0)
            units += (part / np.linalg.norm(part.astype(np.float64), axis=1, keepdims=True)).sum(0)
        rows.flush()
        del rows
        sources = {"from_vectors": path, "from_representations": np.load(path, mmap_mode="r")}
        for title, source in sources.items():
            before, begun = own_memory(), time.monotonic()
            with Peak() as peak:
                reference: cocoax.Reference = getattr(cocoax.Reference, title)(source)
            grown, lasted = peak.megabytes - before, time.monotonic() - begun
            errors = [np.abs(a.numpy() - b / count).max() for a, b in ((reference.mean, total), (reference.mean_unit, units))]
            print(
                f"| {count} embeddings of {DIMENSION} numbers, `Reference.{title}` | {lasted:.0f} s | {before:.0f} MB "
                f"before, {before + grown:.0f} MB at most | means right to {max(errors):.0e} |",
                flush=True,
            )
            wrong += [f"{title}: memory grows"] if grown > ENOUGH_FOR_EMBEDDINGS else []
            wrong += [f"{title}: the mean is wrong"] if max(errors) > 1e-6 or reference.count != count else []
    return wrong


def main() -> int:
    """Run both and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--broken", type=int, default=100)
    parser.add_argument("--embeddings", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| stream | time | memory | result |\n|---|---|---|---|")
    wrong = try_pictures(options.pictures, options.broken, options.seed) + try_embeddings(options.embeddings)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())

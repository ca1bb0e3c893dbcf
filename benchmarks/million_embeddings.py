"""A million embeddings from a memory map into a reference: how long does it take, and how much memory?

    OMP_NUM_THREADS=1 python benchmarks/million_embeddings.py                       # 1.5 GB in a temporary folder

Memory is what the process holds of its own (RssAnon of /proc, looked at every few milliseconds); pages of the file itself,
which the system may take back at any time, are not counted.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import cocoax


def own_memory() -> float:
    """Return the memory of this process in megabytes, without pages of files."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


class Peak:
    """The most memory that the process held within the block, beyond what it held before, in megabytes."""

    def __enter__(self) -> Peak:
        self.before, self.most, self.over = own_memory(), 0.0, threading.Event()
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        return self

    def _look(self) -> None:
        while not self.over.wait(0.005):
            self.most = max(self.most, own_memory() - self.before)

    def __exit__(self, *_error: object) -> None:
        self.over.set()
        self.thread.join()


def write(path: Path, count: int, dimension: int) -> np.ndarray:
    """Write random embeddings and return them as a memory map."""
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (count, dimension))
    random = np.random.default_rng(0)
    for start in range(0, count, 50_000):
        rows[start : start + 50_000] = random.standard_normal((len(rows[start : start + 50_000]), dimension), np.float32)
    rows.flush()
    del rows
    mapped: np.ndarray = np.load(path, mmap_mode="r")
    return mapped


def main() -> None:
    """Measure, and print a line for each time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mapped = write(Path(folder) / "embeddings.npy", options.count, options.dimension)
        cocoax.Reference.from_representations(mapped[:10])  # imports
        for _ in range(options.repeats):
            with Peak() as peak:
                start = time.perf_counter()
                reference = cocoax.Reference.from_representations(mapped)
                seconds = time.perf_counter() - start
            print(f"{reference.count} x {reference.dimension} in {seconds:.2f} s, {peak.most:.0f} MB")


if __name__ == "__main__":
    main()

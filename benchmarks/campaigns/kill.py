"""Kill -9 at random moments: the final outputs must equal, byte for byte, those of a run that nobody disturbed.

    python benchmarks/campaigns/kill.py --kills 100 --seed 0

Commands that last seconds (``ask``, ``reproduce``, ``localise``, ``train``, ``index``) are started, killed at random,
and started again in the same folders with the same cache, up to five times; then they may finish. A kill counts if it met the
command at work. ``ask`` is also asked by three processes at once, which share a cache and have folders of their own, and all
are killed. Files that killed writers left half written (``*.part``) are counted and not compared. Ends with 1 if an output
differs.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot  # noqa: F401 (what is imported here, no command needs to import)
import numpy as np
import torch
from PIL import Image

import cocoax.paper.studies.reproduce
import cocoax.paper.training.trainer  # noqa: F401
from cocoax.cli.main import main as run_command

SEVERAL = "ask, three processes with one cache"
IN_A_ROW = 5  # kills of one piece of work, before it may finish
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def write_pictures(folder: Path) -> Path:
    """Write pictures of noise in class folders, for training and held out."""
    source = np.random.default_rng(0)
    for split, count in (("train", 6), ("val", 2)):
        for name in CLASSES:
            (folder / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = source.integers(0, 256, (32, 32, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / name / f"{number}.png")
    return folder


def commands(data: Path) -> dict[str, list[str]]:
    """Return the arguments of each command, but for --out."""
    photo, small = str(data / "train" / "cat" / "0.png"), "simclr-cifar10-small"
    scale = ["--runs", "1", "--explicands", "1", "--corpus", "5", "--foil", "12", "--samples", "40", "--classes", "cat,dog"]
    like = ["--like-image", str(data / "train" / "dog"), "--unlike-image", str(data / "train" / "ship")]
    return {
        "ask": ["ask", photo, *like, "--encoder", small, "--samples", "15000"],
        "reproduce": ["paper", "reproduce", "main", "--data", str(data), "--encoder", small, *scale],
        "localise": ["paper", "localise", str(data / "train"), "--collages", "5", "--samples", "40"],
        "index": ["index", str(data / "train"), "--encoder", small, "--samples", "100", "--shard", "6"],
        "train": ["paper", "train", "simclr", "--data", str(data), "--small", "--epochs", "8", "--batch-size", "16"],
    }


def start(arguments: list[str], out: Path, cache: Path) -> int:
    """Start a command in a process of its own; return its number.

    It is a copy of this process, which has imported everything, so that most kills meet it at work.
    """
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.environ.update(COCOAX_CACHE=str(cache), COCOAX_PROGRESS="0")
        said = os.open(out.parent / f"{out.name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for stream in (1, 2):
            os.dup2(said, stream)
        sys.argv = ["cocoax", *arguments, "--out", str(out)]
        run_command()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(code)


def finish(arguments: list[str], out: Path, cache: Path) -> float:
    """Run a command to its end; return how long that took. Raise if it fails."""
    begun = time.monotonic()
    _, status = os.waitpid(start(arguments, out, cache), 0)
    if status:
        said = (out.parent / f"{out.name}.log").read_text()
        raise RuntimeError(f"{' '.join(arguments)} ended with {os.waitstatus_to_exitcode(status)}: {said}")
    return time.monotonic() - begun


def content(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder that are whole."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".part")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def without_repetitions(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of the first time that a command came to its end.

    A kill after the last file was written makes ``ask`` write a second set, whose names end in -2: nothing is overwritten.
    """
    return {name: data for name, data in files.items() if not Path(name).stem.endswith(tuple(f"-{n}" for n in range(2, 9)))}


def disturb(arguments: list[str], lasts: float, folder: Path, moments: random.Random, at_once: int) -> tuple[int, int, float]:
    """Kill a command a few times, then let it finish.

    Several processes ``at_once`` run it with one cache, each into a folder of its own.

    Returns:
        How many kills met it alive, how many parts were left, and how long it lasts: less, if it was faster than the kill.

    """
    outs, cache = [folder / f"out{number}" for number in range(at_once)], folder / "cache"
    folder.mkdir(parents=True)
    kills = 0
    while kills < IN_A_ROW * at_once:
        processes = [start(arguments, out, cache) for out in outs]
        time.sleep(moments.uniform(0, lasts * at_once))
        for process in processes:
            os.kill(process, signal.SIGKILL)
        met = sum(os.WIFSIGNALED(os.waitpid(process, 0)[1]) for process in processes)
        kills += met
        if not met:  # they were faster, as they are when nothing else uses the machine any more
            lasts *= 0.7
            break
    processes = [start(arguments, out, cache) for out in outs[1:]]
    finish(arguments, outs[0], cache)
    for process in processes:
        os.waitpid(process, 0)
    return kills, sum(1 for _ in folder.rglob("*.part")), lasts


def main() -> int:
    """Run the campaign and print a row of a table for each command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one command, which then gets its share of the kills")
    options = parser.parse_args()
    wrong = 0
    print("| command | kills that met it at work | finished in the end | left half written | outputs that differ |")
    print("|---|---|---|---|---|", flush=True)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        chosen = commands(write_pictures(top / "data"))
        chosen[SEVERAL] = chosen["ask"]
        share = options.kills // len(chosen)
        for number, (title, arguments) in enumerate(chosen.items()):
            if options.only not in (None, title):
                continue
            moments = random.Random(options.seed * 1000 + number)
            (top / title).mkdir()
            lasts = finish(arguments, top / title / "out", top / title / "cache")
            expected = content(top / title / "out")
            trials = kills = parts = differ = 0
            while kills < share:
                folder = top / title / str(trials)
                at_once = 3 if title == SEVERAL else 1
                met, left, lasts = disturb(arguments, lasts, folder, moments, at_once)
                different = []
                for out in sorted(folder.glob("out?")):
                    found = without_repetitions(content(out))
                    different += sorted(file for file in {*found, *expected} if found.get(file) != expected.get(file))
                if different:
                    print(f"{title}, trial {trials}: {', '.join(different[:5])}", file=sys.stderr)
                trials, kills, parts, differ = trials + 1, kills + met, parts + left, differ + len(different)
                shutil.rmtree(folder)
            cells = (
                title if title == SEVERAL else f"`{title}`",
                kills,
                trials * at_once,
                parts,
                f"{differ} of {trials * at_once * len(expected)}",
            )
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
            wrong += differ
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())

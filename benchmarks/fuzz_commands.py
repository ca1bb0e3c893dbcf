"""Bad command lines: each must end in a sentence, never in a traceback.

    python -m benchmarks.fuzz_commands [--calls 1000] [--seed 0]

A right line of each command gets one to three things wrong: values that are no numbers, huge, empty or NaN; files that are
not there, are folders, empty, or no pictures; encoders, methods and options that do not exist; words left out. An error must
be one that Cocoax itself raises, or name a file, and come within 60 seconds and 6 GB. Printed: how the lines ended, and every
line that ended otherwise than with a status and a sentence.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import resource
import shlex
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.fuzz import MEMORY, TooLong, judged, ring
from cocoax.cli import main as command_line

SECONDS = 60  # that a line may take

LINES = {
    "ask": ["photo.png", "--like", "a cat", "--encoder", "efficientnet-lite0", "--samples", "12", "--out", "out"],
    "ask-text": ["a cat sat", "--like", "a dog", "--samples", "12", "--method", "rise", "--features", "words"],
    "match": ["a cat", "a dog", "--samples", "12", "--seed", "1"],
    "why": ["a cat", "--index", "texts.txt", "--samples", "12", "--top", "2"],
    "index": ["photos", "--encoder", "efficientnet-lite0", "--samples", "12", "--out", "index", "--column", "x"],
    "survey": ["index", "--like", "a cat", "--top", "3"],
    "compare": ["index", "index", "--label", "label"],
    "paper localise": ["photos", "--collages", "1", "--samples", "12", "--encoder", "starter"],
    "paper augmentations": ["photo.png", "--foil", "photos", "--samples", "12"],
    "paper reproduce": ["main", "--data", "photos", "--samples", "12", "--runs", "1"],
    "paper train": ["simclr", "--data", "photos", "--out", "training", "--epochs", "1", "--batch-size", "2"],
    "paper convert-simclr": ["checkpoint", "out.safetensors"],
    "minimal": ["a cat sat", "--like", "a dog", "--unlike", "a car", "--keep", "0.8", "--samples", "20"],
    "counterfactual": ["a cat sat", "--like", "a cat", "--unlike", "a car", "--count", "1"],
    "examples": ["a cat", "--member", "a dog", "--member", "a car", "--method", "contribution"],
    "knows": ["texts.txt", "more.txt", "--permutations", "39", "--encoder", "minilm"],
    "discover": ["texts.txt", "--corpora", "2", "--method", "kmeans", "--encoder", "minilm", "--limit", "10"],
    "cache": ["--kind", "run", "--older-than", "1"],
    "encoders": [],
}
VALUES = [
    "", " ", "-1", "0", "nan", "inf", "1e999", "9" * 400, "2.5", "x", "None", "--", "-", "é", "猫", "\x00", "\ud800",
    "a" * 5000, "/", ".", "nowhere", "empty", "empty.txt", "text.png", "binary.bin", "photos", "photo.png",
    "texts.txt", "/dev/null", "/etc/passwd", "nope:x", "cifar-resnet:/etc/passwd", "simclr:binary.bin", "hf:nowhere",
    "st:empty", "timm:nope", "clip:photos", "[red]", "{}", "%s", "*",
]  # fmt: skip
OPTIONS = [
    "--nope",
    "--samples",
    "--seed",
    "--grid",
    "--tolerance",
    "--out",
    "--encoder",
    "--device",
    "--json",
    "--like",
    "--unlike",
]
OPTIONS += [
    "--where",
    "--top",
    "--method",
    "--question",
    "--each",
    "--unlike-many",
    "--workers",
    "--shard",
    "--help",
    "--index",
]


def furnish(folder: Path) -> None:
    """Put files into a folder, right and wrong ones."""
    pixels = np.random.default_rng(0).integers(0, 255, (5, 40, 40, 3), dtype=np.uint8)
    (folder / "photos").mkdir()
    (folder / "empty").mkdir()
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(folder / ("photo.png" if number == 0 else f"photos/{number}.png"))
    (folder / "texts.txt").write_text("a cat\na dog\n", encoding="utf-8")
    (folder / "more.txt").write_text("a car\na bus\na train\n", encoding="utf-8")
    (folder / "empty.txt").write_text("")
    (folder / "text.png").write_text("no picture")
    (folder / "binary.bin").write_bytes(bytes(range(256)))


def spoilt(command: str, generator: random.Random) -> list[str]:
    """Return a line of a command with one to three things wrong."""
    line = list(LINES[command])
    for _ in range(generator.randint(1, 3)):
        kind = generator.random()
        if kind < 0.55 and line:
            line[generator.randrange(len(line))] = generator.choice(VALUES)
        elif kind < 0.75:
            line[generator.randint(0, len(line)) :] = [generator.choice(OPTIONS), generator.choice(VALUES)]
        elif kind < 0.9 and line:
            del line[generator.randrange(len(line))]
        else:
            line.append(generator.choice(VALUES))
    return [*command.split(), *line]


def run(line: list[str]) -> tuple[str, str]:
    """Return how a line ended, and what it said."""
    said, errors = io.StringIO(), io.StringIO()
    sys.argv = ["cocoax", *line]
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
            command_line.errors.file = command_line.console.file = None
            command_line.main()
    except SystemExit as stop:
        told = errors.getvalue() + said.getvalue()
        if stop.code in (0, None):
            return "worked", told
        cause = stop.__cause__
        if cause is not None and not (isinstance(cause, OSError) and cause.filename) and (why := judged(cause)):
            return "no sentence", f"{told}\n{why}: {cause}"
        return ("a sentence" if told.strip() and "Traceback" not in told else "no sentence"), told
    except TooLong:
        return "too long", ""
    except BaseException:
        return "traceback", traceback.format_exc()
    finally:
        signal.alarm(0)
    return "worked", said.getvalue()


def main() -> int:
    """Print the table; return how many lines ended badly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    os.environ |= {"COCOAX_PROGRESS": "0", "COCOAX_CACHE": str(folder / "cache")}
    os.chdir(folder)
    furnish(folder)
    signal.signal(signal.SIGALRM, ring)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    generator, ends, bad = random.Random(options.seed), Counter[str](), 0
    slowest = (0.0, "")
    commands = list(LINES)
    for _ in range(options.calls):
        line = spoilt(generator.choice(commands), generator)
        start = time.monotonic()
        end, told = run(line)
        slowest = max(slowest, (time.monotonic() - start, shlex.join(line)[:200]))
        ends[end] += 1
        if end not in ("worked", "a sentence"):
            bad += 1
            print(
                shlex.join(line)[:300],
                "\n   ",
                told.strip().splitlines()[-1][:300] if told.strip() else "(nothing)",
                flush=True,
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print("| lines | worked | ended in a sentence | lacked one | slowest | memory |\n|---|---|---|---|---|---|")
    print(f"| {ends.total()} | {ends['worked']} | {ends['a sentence']} | {bad} | {slowest[0]:.1f} s | {peak:.1f} GB |")
    print(f"slowest: {slowest[1]}")
    return min(bad, 1)


if __name__ == "__main__":
    raise SystemExit(main())

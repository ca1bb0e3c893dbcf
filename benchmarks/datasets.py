"""Figures about indexes (docs/scale.md): what building and asking cost, and what kills leave behind.

    python benchmarks/datasets.py overhead|ray|memory|kills|samples --cifar FOLDER [--count 10000] [--out FOLDER]
    python benchmarks/datasets.py synthetic [--count 100000] [--out FOLDER]

Each prints one line of JSON. All but ``synthetic`` use CIFAR-10's test images and ``simclr-cifar10-small``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import cocoax
from cocoax.data import open_data
from cocoax.data.labelled import LabelledImages
from cocoax.datasets import Index, build
from cocoax.datasets.entries import Entry, Making
from cocoax.datasets.shards import Manifest, plain_making, shard_files, shard_name, table_of, write_shard

ENCODER = "simclr-cifar10-small"
METHOD = cocoax.Rise(samples=64, grid=4)


def images(arguments: argparse.Namespace, count: int | None = None) -> LabelledImages:
    """Return the first test images."""
    data = open_data(arguments.cifar, "test")
    count = count or arguments.count
    return replace(data, images=data.images[:count], labels=data.labels[:count])


def fresh(folder: Path) -> Path:
    """Return a folder that is not there yet."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def overhead(arguments: argparse.Namespace) -> dict[str, Any]:
    """Time of a build ÷ that of the bare encoder on as many prepared inputs, in turns."""
    encoder, data, ratios = cocoax.load(ENCODER), images(arguments), []
    batch = torch.stack([encoder.prepare(image) for image in data.images[:64]])
    fast = encoder.folded(encoder.space, list(batch[:2]), encoder.encode(batch[:2]))
    for repeat in range(arguments.repeats):
        start = time.perf_counter()
        build(encoder, data, fresh(arguments.out / f"overhead-{repeat}"), METHOD)
        built = time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(round(len(data) * (METHOD.samples + 2) / 64)):
            fast.encode(batch)
        ratios.append(built / (time.perf_counter() - start))
        print("ratio", ratios[-1], "seconds", built, file=sys.stderr, flush=True)
    return {"inputs": len(data), "ratio": median(ratios), "least": min(ratios), "most": max(ratios)}


def on_ray(arguments: argparse.Namespace) -> dict[str, Any]:
    """Throughput of two workers of one thread ÷ that of one, in turns; what starting takes is left out."""
    gains = []
    for repeat in range(arguments.repeats):
        seconds = {}
        for workers in (1, 2):
            out = fresh(arguments.out / f"ray-{workers}")
            build(ENCODER, images(arguments), out, METHOD, workers=workers, shard=32)
            written = sorted(path.stat().st_mtime for path in shard_files(out))
            seconds[workers] = (written[-1] - written[workers - 1]) / (len(written) - workers)
        gains.append(seconds[1] / seconds[2])
        print("gain", repeat, gains[-1], file=sys.stderr, flush=True)
    return {"inputs": arguments.count, "two workers ÷ one": median(gains), "least": min(gains), "most": max(gains)}


def memory(arguments: argparse.Namespace) -> dict[str, Any]:
    """Peak memory of a build of all inputs ÷ that of a tenth, each in a process of its own."""
    peaks = {}
    for count in (arguments.count // 10, arguments.count):
        script = (
            f"import resource, sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import datasets as d, argparse; "
            f"from pathlib import Path; a = argparse.Namespace(cifar=Path({str(arguments.cifar)!r}), count={count}); "
            f"d.build(d.ENCODER, d.images(a), d.fresh(Path({str(arguments.out / 'memory')!r})), d.METHOD, progress=False); "
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        peaks[count] = int(done.stdout.split()[-1]) / 1024
    small, large = peaks.values()
    return {"peak MB": peaks, "ratio": large / small}


def kills(arguments: argparse.Namespace) -> dict[str, Any]:
    """Kill a build at random moments until it is done; are its shards those of an undisturbed one, byte for byte?"""
    data = f"d.images(d.argparse.Namespace(cifar=d.Path({str(arguments.cifar)!r}), count={arguments.count}))"
    generator, outcome = random.Random(0), {}
    build(ENCODER, images(arguments), fresh(arguments.out / "whole"), METHOD, shard=16)
    whole = {path.name: path.read_bytes() for path in shard_files(arguments.out / "whole")}
    for name, options in (("plain", ""), ("ray", ", workers=2")):
        out, killed = fresh(arguments.out / f"killed-{name}"), 0
        script = (
            f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import datasets as d; "
            f"d.build(d.ENCODER, {data}, {str(out)!r}, d.METHOD, shard=16, progress=False{options})"
        )
        while True:
            process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, stderr=subprocess.DEVNULL)
            try:
                process.wait(generator.uniform(4, 25) if killed < 10 else None)
                break
            except subprocess.TimeoutExpired:
                worker = subprocess.run(["pgrep", "-f", "ray::MapWorker"], capture_output=True, text=True, check=False)
                if name == "ray" and killed % 2 and worker.stdout:  # every other time only a worker
                    os.kill(int(worker.stdout.split()[0]), signal.SIGKILL)
                    killed += 1
                    continue
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                subprocess.run(["pkill", "-9", "-f", "raylet|ray::|gcs_server"], check=False)
                killed += 1
        same = {path.name: path.read_bytes() for path in shard_files(out)} == whole
        outcome[name] = {"kills": killed, "equal byte for byte": same, "exit": process.returncode}
    return outcome


def samples(arguments: argparse.Namespace) -> dict[str, Any]:
    """How much answers change with the number of samples: against the most that was tried, by other seeds."""
    data, answer = images(arguments), {}
    encoder = cocoax.load(ENCODER)
    surveys = {}
    for count in (16, 32, 64, 128, 256):
        index = build(encoder, data, fresh(arguments.out / f"samples-{count}"), replace(METHOD, samples=count, seed=count))
        target = cocoax.contrastive_corpus_similarity(
            index.reference({"label": "cat"}), index.reference({"label": ["dog", "ship", "truck"]})
        )
        shortcuts = {suspect.id for suspect in index.shortcuts().suspects[:50]}
        surveys[count] = (index.ask(target), shortcuts)
    best, suspects = surveys[256]
    assert best.mean is not None
    for count, (survey, found) in surveys.items():
        assert survey.mean is not None
        maps = [
            float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1])
            for a, b in zip(survey.maps, best.maps, strict=True)
        ]
        mean = torch.stack([survey.mean.values.flatten(), best.mean.values.flatten()])
        hottest = [int(a.argmax() == b.argmax()) for a, b in zip(survey.maps, best.maps, strict=True)]
        answer[count] = {
            "correlation of single maps": median(maps),
            "same hottest cell": float(np.mean(hottest)),
            "correlation of mean maps": float(torch.corrcoef(mean)[0, 1]),
            "shortcuts in common of 50": len(found & suspects),
        }
    return answer


def synthetic(arguments: argparse.Namespace) -> dict[str, Any]:
    """Time and memory of a question to 64 cells x 384 numbers for each of many inputs."""
    out = arguments.out / "synthetic"
    cells, dimension, size = (8, 8), 384, 1000
    generator = torch.Generator().manual_seed(0)
    if not (out / "manifest.json").exists():
        manifest = Manifest("synthetic", "synthetic", plain_making(Making()), "image", "", {"label": "string"})
        manifest.save(out)
        for start in range(0, arguments.count, size):
            entries = [
                Entry(
                    str(start + number),
                    "",
                    {"label": f"class {number % 10}"},
                    None,
                    torch.randn(dimension, generator=generator),
                    torch.randn(dimension, generator=generator),
                    torch.randn(*cells, dimension, generator=generator),
                    torch.randn(4, dimension, generator=generator),
                )
                for number in range(size)
            ]
            write_shard(
                out / "shards" / shard_name(start, [entry.id for entry in entries]), table_of(entries, manifest.columns)
            )
    if os.geteuid() == 0:  # nothing of the files is in memory
        subprocess.run(["sync"], check=True)
        Path("/proc/sys/vm/drop_caches").write_text("1")
    times = []
    index = Index.open(out)
    for repeat in range(arguments.repeats + 1):
        start = time.perf_counter()
        target = cocoax.similarity_to(cocoax.Reference.from_representations(torch.randn(5, dimension), space="synthetic"))
        survey = index.ask(target, top=10)
        assert survey.mean is not None
        assert len(survey.highest) == 10
        times.append(time.perf_counter() - start)
        print("question", repeat, times[-1], file=sys.stderr, flush=True)
    start = time.perf_counter()
    index.ask(target, {"label": "class 3"}, top=10)
    chosen = time.perf_counter() - start
    size_of = sum(path.stat().st_size for path in shard_files(out))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "inputs": len(index), "GB": size_of / 1e9, "cold": times[0], "warm": median(times[1:]), "a tenth of them": chosen,
        "peak MB": peak, "threads": torch.get_num_threads(),
    }  # fmt: skip


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    figures = {
        "overhead": overhead,
        "ray": on_ray,
        "memory": memory,
        "kills": kills,
        "samples": samples,
        "synthetic": synthetic,
    }
    parser.add_argument("figure", choices=figures)
    parser.add_argument("--cifar", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("figures"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    print(json.dumps({arguments.figure: figures[arguments.figure](arguments)}, indent=1))


if __name__ == "__main__":
    main()

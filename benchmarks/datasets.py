"""Figures about indexes (docs/evidence/scale.md): what building and asking cost, and what kills leave behind.

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
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import torch

import cocoax
from cocoax.data import open_data
from cocoax.data.labelled import LabelledImages
from cocoax.encoders.fast_encoder import FastEncoder
from cocoax.survey import Index, build
from cocoax.survey.storage import Entry, IndexRecipe, Manifest, plain_recipe, shard_files, shard_name, table_of, write_shard

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
    """Processor time of a build (all its threads) ÷ that of the bare encoder on as many prepared inputs, in turns."""
    torch.set_num_threads(1)
    encoder, data, ratios, main = cocoax.load(ENCODER), images(arguments), [], []
    batch = torch.stack([encoder.prepare(image) for image in data.images[:64]])
    fast = FastEncoder(encoder, list(batch[:2]), encoder.encode(batch[:2])).encoder
    fast.encode(batch)
    for repeat in range(arguments.repeats):
        start, own = time.process_time(), time.thread_time()
        build(encoder, data, fresh(arguments.out / f"overhead-{repeat}"), METHOD)
        built, own = time.process_time() - start, time.thread_time() - own
        start = time.process_time()
        for _ in range(round(len(data) * (METHOD.samples + 2) / 64)):
            fast.encode(batch)
        bare = time.process_time() - start
        ratios.append(built / bare)
        main.append(own / bare)
        print("ratio", ratios[-1], "without the helping threads", main[-1], file=sys.stderr, flush=True)
    found = {"inputs": len(data), "ratio": median(ratios), "least": min(ratios), "most": max(ratios)}
    return {**found, "without the helping threads": median(main)}


def on_ray(arguments: argparse.Namespace) -> dict[str, Any]:
    """Throughput of two workers of one thread ÷ that of one, in turns; what starting takes is left out."""
    gains, before = [], os.getloadavg()[0]
    for repeat in range(arguments.repeats):
        seconds = {}
        for workers in (1, 2):
            out = fresh(arguments.out / f"ray-{workers}")
            build(ENCODER, images(arguments), out, METHOD, workers=workers, shard=32)
            written = sorted(path.stat().st_mtime for path in shard_files(out))
            seconds[workers] = (written[-1] - written[workers - 1]) / (len(written) - workers)
        gains.append(seconds[1] / seconds[2])
        print("gain", repeat, gains[-1], seconds, file=sys.stderr, flush=True)
    found = {"inputs": arguments.count, "two workers ÷ one": median(gains), "least": min(gains), "most": max(gains)}
    return {**found, "load of the machine before": before}


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
    """Kill builds at ten random moments each; are their shards those of an undisturbed one, byte for byte?

    On Ray it is by turns the process that asked, with all that it started, or one worker alone.
    """
    data = f"d.images(d.argparse.Namespace(cifar=d.Path({str(arguments.cifar)!r}), count={arguments.count}))"
    moments, outcome = random.Random(0), {}
    build(ENCODER, images(arguments), fresh(arguments.out / "whole"), METHOD, shard=16)
    whole = {path.name: path.read_bytes() for path in shard_files(arguments.out / "whole")}
    runners = {"plain": "", "ray": ", workers=2"}
    for name, options in runners.items() if arguments.runner is None else [(arguments.runner, runners[arguments.runner])]:
        out, kinds, equal, lasts = fresh(arguments.out / f"killed-{name}"), {"all": 0, "a worker": 0}, [], 0.0
        script = (
            f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import datasets as d; "
            f"d.build(d.ENCODER, {data}, {str(out)!r}, d.METHOD, shard=16, progress=False{options})"
        )
        finished = False
        while not finished:
            begun = time.monotonic()
            process = subprocess.Popen([sys.executable, "-c", script])
            if lasts and sum(kinds.values()) < 10:
                time.sleep(moments.uniform(0, lasts))
                kill_some(process, alone=name == "ray" and kinds["a worker"] < kinds["all"], kinds=kinds)
            if lasts == 0 and process.wait() != 0:
                raise RuntimeError(f"The build that nobody disturbed ended with {process.returncode}.")
            if process.wait() == 0:
                equal.append({path.name: path.read_bytes() for path in shard_files(out)} == whole)
                lasts = lasts or time.monotonic() - begun
                finished = sum(kinds.values()) >= 10
                fresh(out)
            print(name, kinds, equal, file=sys.stderr, flush=True)
        outcome[name] = {"kills": kinds, "builds that came to their end": len(equal), "equal byte for byte": all(equal)}
    return outcome


def kill_some(process: subprocess.Popen[bytes], alone: bool, kinds: dict[str, int]) -> None:
    """Kill a worker of a process alone, or the process with all that it started; count what was met alive."""
    with suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
        workers = [child for child in family if "MapWorker" in " ".join(child.cmdline())]
        for victim in workers[:1] if alone else [process, *family]:
            victim.kill()
        if process.poll() is None or not alone:
            kinds["a worker" if alone else "all"] += bool(workers) if alone else process.wait() != 0


def samples(arguments: argparse.Namespace) -> dict[str, Any]:
    """How much answers change with the number of samples: against the most that was tried, by other masks.

    The last line is the most against itself, by other masks: what no number of samples below it can beat.
    """
    data, surveys, most = images(arguments), {}, 128
    encoder = cocoax.load(ENCODER)
    for seed, count in enumerate((10, 16, 32, 64, most, most)):
        out = fresh(arguments.out / f"samples-{seed}")
        index = build(encoder, data, out, replace(METHOD, samples=count, seed=seed))
        corpus, foil = index.reference({"label": "cat"}), index.reference({"label": ["dog", "ship", "truck"]})
        survey = index.ask(cocoax.contrastive_corpus_similarity(corpus, foil))
        maps = torch.stack(list(survey.maps)).flatten(1).double()
        lists = {
            "highest": survey.order[:50],
            "warmest in the middle": maps.view(-1, 4, 4)[:, 1:3, 1:3].mean((1, 2)).argsort(descending=True)[:50].numpy(),
            "shortcuts": np.array([suspect.row for suspect in index.shortcuts().suspects[:50]]),
        }
        surveys[f"{count} samples" + (", other masks" if seed == 5 else "")] = (survey, maps, lists)
        print(count, file=sys.stderr, flush=True)
    (best, best_maps, best_lists), answer = surveys.pop(f"{most} samples"), {}
    assert best.mean is not None
    for name, (survey, maps, lists) in surveys.items():
        assert survey.mean is not None
        single = [float(torch.corrcoef(torch.stack(pair))[0, 1]) for pair in zip(maps, best_maps, strict=True)]
        mean = torch.stack([survey.mean.values.flatten(), best.mean.values.flatten()])
        answer[name] = {
            "correlation of single maps": median(single),
            "correlation of mean maps": float(torch.corrcoef(mean)[0, 1]),
            **{f"{key}: in common of 50": int(np.isin(rows, best_lists[key]).sum()) for key, rows in lists.items()},
        }
    return {"inputs": len(data), **answer}


def synthetic(arguments: argparse.Namespace) -> dict[str, Any]:
    """Time and memory of a question to 64 cells x 384 numbers for each of many inputs.

    The answer is what a page needs: scores, the mean map, and the 50 highest and lowest with their maps; files have as many
    inputs as those of a build.
    """
    out = arguments.out / "synthetic"
    cells, dimension, size = (8, 8), 384, 256
    generator = torch.Generator().manual_seed(0)
    if not (out / "manifest.json").exists():
        manifest = Manifest("synthetic", "synthetic", plain_recipe(IndexRecipe()), "image", "", {"label": "string"})
        manifest.save(out)
        shapes = ((dimension,), (dimension,), (*cells, dimension), (4, dimension))
        drawn = [[torch.randn(*shape, generator=generator) for shape in shapes] for _ in range(size)]
        for start in range(0, arguments.count, size):  # every file has the same numbers in another order
            first = start // size % size
            shifted = [*drawn[first:], *drawn[:first]][: arguments.count - start]
            entries = [
                Entry(str(start + number), "", "", {"label": f"class {number % 10}"}, None, *numbers)
                for number, numbers in enumerate(shifted)
            ]
            path = out / "shards" / shard_name(start, [entry.id for entry in entries])
            write_shard(path, table_of(entries, manifest.columns), manifest)
    if os.geteuid() == 0:  # nothing of the files is in memory
        subprocess.run(["sync"], check=True)
        Path("/proc/sys/vm/drop_caches").write_text("1")
    clock, work = [], []  # seconds by the clock, and of processors
    index = Index.open(out)
    for repeat in range(arguments.repeats + 1):
        begun, own = time.perf_counter(), time.process_time()
        target = cocoax.similarity_to(cocoax.Reference.from_representations(torch.randn(5, dimension), space="synthetic"))
        survey = index.ask(target, top=50)
        assert survey.mean is not None
        assert len(survey.highest) == len(survey.lowest) == 50
        clock.append(time.perf_counter() - begun)
        work.append(time.process_time() - own)
        print("question", repeat, clock[-1], "of processors", work[-1], file=sys.stderr, flush=True)
    size_of = sum(path.stat().st_size for path in shard_files(out))
    return {
        "inputs": len(index), "GB": size_of / 1e9, "cold": clock[0], "warm": median(clock[1:]),
        "cold, of processors": work[0], "warm, of processors": median(work[1:]),
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "threads": torch.get_num_threads(),
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
    parser.add_argument("--count", type=int, help="inputs; by default 10 000, synthetic ones 100 000")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--runner", choices=("plain", "ray"), help="of kills: one alone")
    parser.add_argument("--out", type=Path, default=Path("figures"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    arguments.count = arguments.count or (100_000 if arguments.figure == "synthetic" else 10_000)
    print(json.dumps({arguments.figure: figures[arguments.figure](arguments)}, indent=1))


if __name__ == "__main__":
    main()

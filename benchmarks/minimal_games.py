"""How often ``cocoax.minimal`` finds the smallest sets: exact games of 4 x 4 cells, all 65 536 of whose sets are encoded.

    python benchmarks/minimal_games.py encode FOLDER [--side 64]
    python benchmarks/minimal_games.py judge FOLDER IMAGENET_SAMPLES

``encode`` writes the representations of every set of cells of three photos by EfficientNet-Lite0, a few at a time, so that it
goes on where it was stopped. ``judge`` makes runs as a user would, asks for minimal sets and compares them with the smallest
there are. Options were chosen on other games: ``tune CIFAR10`` plays some of the small SimCLR encoder on CIFAR-10.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import cocoax
from cocoax.data import photo
from cocoax.data.readers import cifar10
from cocoax.encoders.families.starter import EFFICIENTNET_PREPROCESS
from cocoax.inputs.segmentation import grid_segments
from cocoax.insight.subset_search import Subsets
from cocoax.masking import MaskedEncoder
from cocoax.progress import bar

CELLS = 16
PHOTOS = ("cat", "coffee", "rocket")
# What each photo shows, as ImageNet's numbers of classes; the foil is everything else.
SHOWS = {"cat": (281, 282, 285), "coffee": (504, 967, 968), "rocket": (657, 744, 812)}
KEEP = (0.5, 0.7, 0.8, 0.9)
SAMPLES = (200, 400)
AT_ONCE = 2048


def encoder_at(side: int) -> cocoax.Encoder:
    """Return EfficientNet-Lite0 for squares of another side."""
    encoder = cocoax.load("efficientnet-lite0")
    preprocess = replace(EFFICIENTNET_PREPROCESS, resize=round(side * 256 / 224), crop=side)
    return cocoax.Encoder(encoder.module, preprocess, name=f"efficientnet-lite0 at {side}")


def all_sets() -> Tensor:
    """Return every set of cells, ``[65536, 16]``; set number n has the cells of its binary digits."""
    return ((torch.arange(2**CELLS)[:, None] >> torch.arange(CELLS)) & 1).to(torch.uint8)


def encode(folder: Path, side: int) -> None:
    """Encode all sets of every photo; files are memory maps, with a count beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "side").is_file() and int((folder / "side").read_text()) != side:
        raise SystemExit(f"{folder} holds games of another side; use another folder.")
    (folder / "side").write_text(str(side))
    encoder = encoder_at(side)
    for name in PHOTOS:
        game = MaskedEncoder(encoder, encoder.explicand(photo(name)))
        segments = grid_segments(side, side, 4)
        masks = Subsets(segments, all_sets())
        count, file = folder / f"{name}.count", folder / f"{name}.npy"
        done = int(count.read_text()) if count.is_file() else 0
        mode = "r+" if done else "w+"
        shape = (2**CELLS, game.anchors.shape[1])
        kept = np.lib.format.open_memmap(file, mode, np.float32, shape)
        with bar(len(masks) - done, name) as shown:
            for start in range(done, len(masks), AT_ONCE):
                part = Subsets(segments, masks.bits[start : start + AT_ONCE])
                kept[start : start + AT_ONCE] = torch.cat(list(game.encode(part, shown=shown))).numpy()
                kept.flush()
                count.write_text(str(start + AT_ONCE))


def smallest(scores: Tensor, level: float) -> tuple[int, int]:
    """Return how many cells keep a score at a level, and how many take it below when they are gone; by looking at all."""
    sizes = all_sets().sum(1)
    return int(sizes[scores >= level].min()), CELLS - int(sizes[scores < level].max())


def judged(run: cocoax.Run, target: cocoax.Target, scores: Tensor, encoder: cocoax.Encoder) -> list[dict[str, Any]]:
    """Return a record for every level: sizes that were found, the smallest there are, and calls."""
    records = []
    for keep in KEEP:
        found = cocoax.minimal(run, target, keep=keep, encoder=encoder)
        best = smallest(scores, found.level)
        sizes = {"kept": len(found.kept), "removed": len(found.removed), "best": best}
        records.append({"samples": len(run), "keep": keep, **sizes, "calls": found.calls})
    return records


def judge(folder: Path, pictures: Path) -> list[dict[str, Any]]:
    """Return records of every photo that was encoded, length of run and level."""
    side = int((folder / "side").read_text())
    encoder = encoder_at(side)
    files = sorted(pictures.glob("*.*"))
    others = encoder.reference(files[::20], name="other photos")
    file = folder / "judged.json"  # it goes on where it was stopped
    records: list[dict[str, Any]] = json.loads(file.read_text()) if file.is_file() else []
    for name in PHOTOS:
        if not (folder / f"{name}.count").is_file() or int((folder / f"{name}.count").read_text()) < 2**CELLS:
            continue
        represented = torch.from_numpy(np.load(folder / f"{name}.npy"))
        corpus = encoder.reference([files[number] for number in SHOWS[name]], name=name)
        target = cocoax.contrastive_corpus_similarity(corpus, others)
        scores = target.score(represented)
        for samples in SAMPLES:
            if any((record["photo"], record["samples"]) == (name, samples) for record in records):
                continue
            run = cocoax.KernelShap(samples=samples, grid=4).run(encoder, photo(name))
            records += [{"photo": name, **record} for record in judged(run, target, scores, encoder)]
            file.write_text(json.dumps(records))
    return records


def tune(data: Path, images: int = 3) -> list[dict[str, Any]]:
    """Return records of games of the small SimCLR encoder: each image rather than images of other classes."""
    encoder = cocoax.load("simclr-cifar10-small")
    test = cifar10(data, "test")
    labels = test.labels
    records = []
    for number in range(images):
        image = test.images[number]
        same, other = (np.flatnonzero((labels == labels[number]) == own)[1:60] for own in (True, False))
        corpus, foil = (encoder.reference(test.images[chosen]) for chosen in (same, other))
        target = cocoax.contrastive_corpus_similarity(corpus, foil)
        game = MaskedEncoder(encoder, encoder.explicand(image))
        masks = Subsets(grid_segments(32, 32, 4), all_sets())
        scores = target.score(torch.cat(list(game.encode(masks))))
        if scores[-1] <= scores[0]:
            continue
        for samples in SAMPLES:
            run = cocoax.KernelShap(samples=samples, grid=4).run(encoder, image)
            records += judged(run, target, scores, encoder)
    return records


def summary(records: list[dict[str, Any]]) -> None:
    """Print how often sets were the smallest, and how many calls they took."""
    print("| samples | sets | smallest | one more | worse | calls, of the run's | most |")
    print("|---|---|---|---|---|---|---|")
    for samples in SAMPLES:
        own = [record for record in records if record["samples"] == samples]
        over = np.array([[each["kept"] - each["best"][0], each["removed"] - each["best"][1]] for each in own]).ravel()
        share = np.array([each["calls"] / each["samples"] for each in own])
        parts = [f"{np.mean(over == 0):.0%}", f"{np.mean(over == 1):.0%}", f"{np.mean(over > 1):.0%}"]
        print(f"| {samples} | {len(over)} | {' | '.join(parts)} | {share.mean():.0%} | {share.max():.0%} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("encode", "judge", "tune"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("pictures", type=Path, nargs="?")
    parser.add_argument("--side", type=int, default=64)
    arguments = parser.parse_args()
    if arguments.what == "encode":
        encode(arguments.folder, arguments.side)
    elif arguments.what == "tune":
        summary(tune(arguments.folder))
    else:
        summary(judge(arguments.folder, arguments.pictures))

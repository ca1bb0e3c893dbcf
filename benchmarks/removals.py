"""Which way to remove parts of a picture gives the best maps? Judged by removals that none of the maps was made with.

    python benchmarks/removals.py encode FOLDER --encoder starter --photos IMAGENET --count 100 --collages 50
    python benchmarks/removals.py encode FOLDER --encoder simclr-cifar10-small --photos CIFAR --count 200 --collages 100
    python benchmarks/removals.py table FOLDER
    python benchmarks/removals.py left FOLDER --encoder starter --photos IMAGENET --count 100

Every removal has the same number of encoder calls, so that one with K versions has a K-th of the masks. Photos are explained
for a question of their own, and their maps judged by insertion and deletion, which put parts of the photo into noise, and
into another photo. Collages of four photos say how much of the heat lies on the one that was asked about.

Encoders: ``starter`` (a class name rather than a hundred others), ``imgsim`` (of the package of that name, a ResNet-50
trained without labels, here on pictures of 112 x 112; a photo's mirror image rather than fifty other photos) and
``simclr-cifar10-small`` (images of a class rather than those of others). What is done is kept in FOLDER, line by line, and
the same command goes on. ``--part other`` takes other photos than ``--part report``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor, nn

import cocoax
from cocoax.data import caption, open_data
from cocoax.data.samples import square
from cocoax.evaluation.localisation import energy_inside, pointing_game
from cocoax.evaluation.statistics import Interval, t_interval
from cocoax.inputs.image import image_files, open_image
from cocoax.masking import MaskedEncoder
from cocoax.results.remarks import HARDLY, removed_of
from cocoax.seeding import stream
from cocoax.targets import Target

STEPS = 5  # of a curve
TODAY = "blur"
DONORS = 8
FOIL = {"starter": 100, "imgsim": 50}


# --- encoders ---------------------------------------------------------------------------------------------------------


def imgsim() -> cocoax.Encoder:
    """Return the encoder of the package imgsim, AugNet; its own code is not run, since it would import torchvision."""
    spec = find_spec("imgsim")
    if spec is None or spec.origin is None:
        raise SystemExit("Install it first: pip install --no-deps imgsim")
    resnet = cocoax.load(f"resnet50:{Path(spec.origin).with_name('model.pth')}")
    assert resnet.head is not None
    network = nn.Sequential(resnet.module, resnet.head, nn.Tanh())
    return cocoax.Encoder(network.eval(), cocoax.ImagePreprocess(resize=128, crop=112), name="imgsim")


# --- what is asked ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A picture and the targets that are asked about it; those of a collage about its quarters, row by row."""

    kind: str
    number: int
    picture: Any
    targets: Sequence[Target]


class Photos:
    """ImageNet photos, one of each class. Parts have none in common, nor with those that serve as foils and donors."""

    def __init__(self, encoder: cocoax.Encoder, folder: Path, part: str) -> None:
        self.encoder = encoder
        files = image_files(folder)
        mixed = [files[index] for index in stream(17).permutation(len(files))]
        self.spare, usable = mixed[:200], mixed[200:]
        self.files = usable[:600] if part == "report" else usable[600:]

    @cached_property
    def fillers(self) -> list[Tensor]:
        """Photos that stand in for what is removed; the last is for judging alone."""
        return [self.encoder.inputs.prepare(path) for path in self.spare[-DONORS - 1 :]]

    @cached_property
    def foil(self) -> cocoax.Reference:
        """What a photo is not like: other class names, or other photos."""
        others = self.spare[: FOIL[self.encoder.name]]
        if hasattr(self.encoder, "text"):
            return self.encoder.text.reference([_caption(path) for path in others], name="others")
        return self.encoder.reference(others, name="others")

    def like(self, path: Path, picture: Image.Image) -> cocoax.Reference:
        """Return what a photo is like: its class name, or its mirror image."""
        if hasattr(self.encoder, "text"):
            return self.encoder.text.reference([_caption(path)])
        return self.encoder.reference([ImageOps.mirror(picture)], cache=False, name=path.stem)

    def single(self, number: int) -> Case:
        """Return one photo."""
        path = self.files[number]
        picture = open_image(path)
        target = cocoax.contrastive_corpus_similarity(self.like(path, picture), self.foil)
        return Case("photo", number, picture, [target])

    def collage(self, number: int) -> Case:
        """Return four photos in one; the question about each is that rather than the other three."""
        paths = [self.files[index] for index in stream(18, number).choice(len(self.files), 4, replace=False)]
        tiles = [square(open_image(path), 256) for path in paths]
        canvas = Image.new("RGB", (512, 512))
        for index, tile in enumerate(tiles):
            canvas.paste(tile, (index % 2 * 256, index // 2 * 256))
        likes = [self.like(path, tile) for path, tile in zip(paths, tiles, strict=True)]
        return Case("collage", number, canvas, _each_rather_than_others(likes))


class Cifar(Photos):
    """Images of CIFAR-10's test half; corpora are training images of a class, foils those of the others."""

    def __init__(self, encoder: cocoax.Encoder, folder: Path, part: str) -> None:
        self.encoder = encoder
        training, test = (open_data(folder, split) for split in ("train", "test"))
        order = stream(17).permutation(len(test.labels))
        self.order = order[:2000] if part == "report" else order[2000:4000]
        self.test = test
        self.corpora = [
            encoder.reference([Image.fromarray(image) for image in training.images[training.labels == label][:100]])
            for label in range(10)
        ]
        self.fillers = [encoder.inputs.prepare(Image.fromarray(image)) for image in training.images[-DONORS - 1 :]]

    def _image(self, index: int) -> tuple[int, Image.Image]:
        place = self.order[index]
        return int(self.test.labels[place]), Image.fromarray(self.test.images[place])

    def single(self, number: int) -> Case:
        """Return one image."""
        label, image = self._image(number)
        others = [reference for other, reference in enumerate(self.corpora) if other != label]
        foil = others[0].merge(*others[1:], name="others")
        return Case("photo", number, image, [cocoax.contrastive_corpus_similarity(self.corpora[label], foil)])

    def collage(self, number: int) -> Case:
        """Return four images of different classes in one, at their own size."""
        tiles: dict[int, Tensor] = {}
        for index in stream(18, number).permutation(len(self.order)):
            label, image = self._image(int(index))
            tiles.setdefault(label, self.encoder.inputs.prepare(image))
            if len(tiles) == 4:
                break
        upper, lower = (torch.cat(row, 2) for row in (list(tiles.values())[:2], list(tiles.values())[2:]))
        likes = [self.corpora[label] for label in tiles]
        return Case("collage", number, torch.cat([upper, lower], 1), _each_rather_than_others(likes))


def _each_rather_than_others(likes: Sequence[cocoax.Reference]) -> list[Target]:
    parts = [cocoax.similarity_to(like) for like in likes]
    total = sum(parts[1:], parts[0])
    return [(part - (total - part) / (len(parts) - 1)).named(like.name) for part, like in zip(parts, likes, strict=True)]


def _caption(path: Path) -> str:
    return caption(path.stem.partition("_")[2].replace("_", " "), "a {}")


# --- removals ---------------------------------------------------------------------------------------------------------


def removals(fillers: Tensor, seed: int) -> dict[str, cocoax.Baseline]:
    """Return what is compared; ``fillers`` are other pictures ``[n, C, H, W]``, drawn anew for each seed."""
    donors = cocoax.Background(fillers[:-1], draws=3, seed=seed)
    strong = cocoax.Blur(121, 20)
    compared: dict[str, cocoax.Baseline] = {
        TODAY: cocoax.Blur(),
        "strong blur": strong,
        "mean colour": cocoax.Mean(),
        "strong blur and mean colour": cocoax.Several((strong, cocoax.Mean())),
        "three other photos": donors,
    }
    return compared


def judges(fillers: Tensor) -> dict[str, cocoax.Baseline]:
    """Return the removals that maps are judged with."""
    return {"noise": cocoax.Noise(seed=1), "another photo": cocoax.Fixed(fillers[-1])}


def measured(
    encoder: cocoax.Encoder, case: Case, fillers: Sequence[Tensor], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Yield what is found out about the maps of one case, for each removal."""
    explicand = encoder.explicand(case.picture)
    size = explicand.tensor.shape[-2:]
    filling = torch.nn.functional.interpolate(torch.stack(list(fillers)), size=size, mode="bilinear")
    began = time.process_time()
    maps: dict[str, list[cocoax.Attribution]] = {}
    for name, removal in removals(filling, case.number).items():
        if name in options.without:
            continue
        versions = len(removal(explicand.tensor).reshape(-1, *explicand.tensor.shape))
        method = cocoax.Rise(samples=options.calls // versions, seed=case.number, baseline=removal)
        maps[name] = method.explain(encoder, explicand, list(case.targets), progress=False)
    found: dict[str, dict[str, Any]] = {name: {} for name in maps}
    for name, answers in maps.items():
        found[name]["score"] = [answer.score for answer in answers]
        found[name]["left"] = [answer.baseline_score for answer in answers]
        if case.kind == "collage":
            found[name] |= _localised(answers)
    if case.kind == "photo":
        for judge, removal in judges(filling).items():
            both = cocoax.curves(
                encoder, explicand, [answers[0] for answers in maps.values()], case.targets[0], STEPS, removal, progress=False
            )
            for name, curves in zip(maps, both, strict=True):
                found[name] |= {
                    f"{kind} into {judge}" if kind == "insertion" else f"{kind} by {judge}": curve.auc
                    for kind, curve in curves.items()
                }
    seconds = time.process_time() - began
    for name, values in found.items():
        yield {
            "encoder": encoder.name,
            "part": options.part,
            "kind": case.kind,
            "number": case.number,
            "removal": name,
            "seconds": seconds,
            **values,
        }


def _localised(answers: Sequence[cocoax.Attribution]) -> dict[str, list[float]]:
    """Return how the maps of the four quarters lie on them."""
    rows: dict[str, list[float]] = {"pointing": [], "energy": [], "found": []}
    for index, answer in enumerate(answers):
        values = answer.relative.numpy()
        half = values.shape[0] // 2
        quarters = np.zeros((4, *values.shape), bool)
        for place in range(4):
            row, column = divmod(place, 2)
            quarters[place, row * half : (row + 1) * half, column * half : (column + 1) * half] = True
        rows["pointing"].append(pointing_game(values, quarters[index]))
        rows["energy"].append(energy_inside(values, quarters[index]))
        rows["found"].append(float(np.argmax([values[quarter].mean() for quarter in quarters]) == index))
    return rows


# --- the commands -----------------------------------------------------------------------------------------------------


def encode(options: argparse.Namespace) -> None:
    """Measure case after case, photos and collages in turns, and keep each."""
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"{options.encoder}-{options.part}.jsonl"
    done = {(record["kind"], record["number"]) for record in _records(path)}
    encoder = imgsim() if options.encoder == "imgsim" else cocoax.load(options.encoder)
    data = (Cifar if "cifar" in options.encoder else Photos)(encoder, options.photos, options.part)
    for number in range(max(options.count, options.collages)):
        for kind, count, make in (("photo", options.count, data.single), ("collage", options.collages, data.collage)):
            if number < count and (kind, number) not in done:
                lines = [json.dumps(record) for record in measured(encoder, make(number), data.fillers, options)]
                with path.open("a") as file:
                    file.write("\n".join(lines) + "\n")
                print(kind, number, json.loads(lines[0])["seconds"], flush=True)


def left(options: argparse.Namespace) -> None:
    """Print how much of the scores of single photos each removal takes away, without explaining any."""
    torch.set_num_threads(1)
    encoder = imgsim() if options.encoder == "imgsim" else cocoax.load(options.encoder)
    data = (Cifar if "cifar" in options.encoder else Photos)(encoder, options.photos, options.part)
    taken: dict[str, list[float]] = {}
    for number in range(options.count):
        case = data.single(number)
        explicand = encoder.explicand(case.picture)
        for name, removal in removals(torch.stack(list(data.fillers)), number).items():
            score, rest = MaskedEncoder(encoder, explicand, removal).score(case.targets)[:, 0].tolist()
            taken.setdefault(name, []).append(removed_of(score, rest))
        if number % 10 == 9:
            said = (f"{name} {np.median(each):.0%} ({np.mean(np.array(each) < HARDLY):.0%})" for name, each in taken.items())
            print(f"{number + 1} photos, median taken away (hardly anything): {', '.join(said)}", flush=True)


def _records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def table(options: argparse.Namespace) -> None:
    """Print, for each encoder, every figure of every removal, and how it differs from today's."""
    for path in sorted(options.folder.glob("*.jsonl")):
        records = _records(path)
        for kind in ("photo", "collage"):
            mine = [record for record in records if record["kind"] == kind]
            if mine:
                _print_table(f"{path.stem}, {kind}s", mine)


def _print_table(title: str, records: Sequence[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(record["removal"] for record in records))
    figures = [
        key for key in records[0] if key not in ("encoder", "part", "kind", "number", "removal", "seconds", "left", "score")
    ]
    by_name = {name: {record["number"]: record for record in records if record["removal"] == name} for name in names}
    print(f"\n{title}: {len(by_name[TODAY])}\n")
    print(f"| removal | score left | {' | '.join(figures)} |\n|---|---|{'---|' * len(figures)}")
    for name in names:
        scores, left = (np.mean([np.mean(record[key]) for record in by_name[name].values()]) for key in ("score", "left"))
        cells = [_cell(by_name[name], by_name[TODAY], figure, name == TODAY) for figure in figures]
        print(f"| {name} | {left:.3f} of {scores:.3f} | {' | '.join(cells)} |")


def _cell(own: dict[int, Any], today: dict[int, Any], figure: str, alone: bool) -> str:
    """Return the mean over pictures; of all but today's removal also the difference to that, with its 95 % interval."""
    values = {number: float(np.mean(record[figure])) for number, record in own.items()}
    mean = np.mean(list(values.values()))
    if alone:
        return f"{mean:.3f}"
    apart: Interval = t_interval([value - float(np.mean(today[number][figure])) for number, value in values.items()])
    bold = "**" if apart.excludes_zero else ""
    return f"{mean:.3f} ({bold}{apart.mean:+.3f}{bold} ± {apart.half:.3f})"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("encode")
    first.add_argument("folder", type=Path)
    first.add_argument("--encoder", choices=["starter", "imgsim", "simclr-cifar10-small"], default="starter")
    first.add_argument("--photos", type=Path, required=True)
    first.add_argument("--part", choices=["report", "other"], default="report")
    first.add_argument("--count", type=int, default=100)
    first.add_argument("--collages", type=int, default=50)
    first.add_argument("--calls", type=int, default=72, help="of the encoder, for each map")
    first.add_argument("--without", action="append", default=[], help="a removal to leave out; may be repeated")
    first.set_defaults(run=encode)
    again = commands.add_parser("left", parents=[first], add_help=False)
    again.set_defaults(run=left)
    second = commands.add_parser("table")
    second.add_argument("folder", type=Path)
    second.set_defaults(run=table)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()

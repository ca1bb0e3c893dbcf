"""Damaged files: every kind of file that Cocoax reads, with random flips, overwritten bytes, zeroed ends and truncations.

    python benchmarks/campaigns/files.py --damages 1000 --seed 0

What is read from a damaged file must be right, or an error (or a warning) must say so in a sentence that names the file.
Only files of others whose format has no checksum may give other content: a changed pixel is another picture. Ends with 1 if
a file of ours, or one with a checksum, gave a wrong result, if anything failed in another way, took 5 seconds or 500
megabytes, or if a process was started or a connection opened.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import resource
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
import torch
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax.data.labelled import LabelledImages
from cocoax.data.readers import cifar10
from cocoax.encoders.families.checkpoint import read_checkpoint
from cocoax.inputs.image import open_image
from cocoax.inputs.sound import read_file
from cocoax.methods.run_cache import RunCheckpoint, cached_run
from cocoax.paper.annotations import coco_examples
from cocoax.paper.networks.resnet import ARCHITECTURES, ResNet
from cocoax.paper.studies.curves import UNIT
from cocoax.paper.studies.study import Library
from cocoax.paper.training.recipes import RECIPES
from cocoax.paper.training.trainer import Training
from cocoax.store import Results, digest, write_safetensors
from cocoax.survey import Index, build

WATCHED = {"os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "socket.connect", "pickle.find_class"}
SECONDS, MEGABYTES = 5.0, 500.0  # that reading a damaged file may take
SENTENCES = (ValueError, OSError, cocoax.Interrupted)
events: Counter[str] = Counter()


class Net(nn.Module):
    """A small network."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Conv2d(3, 4, 3)

    def forward(self, images: Tensor) -> Tensor:
        """Return the means of a convolution."""
        means: Tensor = self.layer(images).tanh().mean((2, 3))
        return means


@dataclass(frozen=True)
class Kind:
    """A kind of file: how to make one, what is damaged, and what is read from it, as a digest.

    ``checksum`` is whether the format lets damage be noticed, ``quiet`` whether a part that is missing is no damage: the end
    of a list, which a kill may have kept from being written.
    """

    make: Callable[[Path], Path]
    read: Callable[[Path], str]
    checksum: bool = True
    quiet: bool = False


def _encoder() -> cocoax.Encoder:
    return cocoax.Encoder(Net().eval(), name="net")


ENCODER = _encoder()
IMAGE = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(0))
RISE = cocoax.Rise(samples=20, grid=2)
RUN = RISE.run(ENCODER, IMAGE)
TARGET = cocoax.representation_similarity()
CORPUS = cocoax.similarity_to(ENCODER.reference(IMAGE[None], cache=False))
VECTORS = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
OPTIONS = {"study": "main", "samples": 40, "encoder": "net"}
DATA = LabelledImages(np.random.default_rng(0).integers(0, 256, (8, 8, 8, 3), dtype=np.uint8), np.arange(8) % 2, ["a", "b"])
ARCHITECTURES["tiny"] = lambda: ResNet((1, 1), (8, 8), (3, 1))
RECIPE = replace(RECIPES["simclr-small"], architecture="tiny", projection=8, batch_size=4, epochs=1, side=8)


def of_attribution(result: cocoax.Attribution) -> str:
    """Return a digest of all there is to an attribution."""
    parts = (result.values, result.standard_error, result.score, result.neutral, result.baseline_score)
    return digest(*parts, json.dumps(dict(result.metadata), sort_keys=True))


def of_reference(reference: cocoax.Reference) -> str:
    """Return a digest of all there is to a reference."""
    return digest(reference.count, reference.mean, reference.mean_unit, reference.samples, reference.space, reference.skipped)


def only_file(folder: Path) -> Path:
    """Return the only file of ours below a folder."""
    (file,) = folder.rglob("*.safetensors")
    return file


def in_cache(make: Callable[[], object]) -> Callable[[Path], Path]:
    """Return what fills the cache and returns the file in it."""

    def made(folder: Path) -> Path:
        make()
        return only_file(folder / "cache")

    return made


def write_unfinished(folder: Path) -> Path:
    """Write what a killed run leaves, at the place where it is looked for."""
    cached_run(ENCODER, IMAGE, RISE)
    whole = only_file(folder / "cache")
    path = whole.with_suffix(".unfinished.safetensors")
    RunCheckpoint(path, "net").note(RUN.masks, RUN.representations[:13], at_once=True)
    whole.unlink()
    return path


def read_unfinished(path: Path) -> str:
    """Go on from what a killed run left."""
    path.with_name(path.name.replace(".unfinished", "")).unlink(missing_ok=True)
    return of_attribution(cached_run(ENCODER, IMAGE, RISE).explain(TARGET))


def write_unit(folder: Path) -> Path:
    """Write the unit of a study."""
    results = Results(folder / "study", {}, UNIT)
    curves = {name: torch.rand(3, 2, 5, generator=torch.Generator().manual_seed(1)) for name in ("insertion", "deletion")}
    header = {"run": 1, "explicand": 2, "rows": [{"method": "rise"}] * 3, "measures": ["a", "b"]}
    results.write("1-0000", curves, header)
    return results.path("1-0000")


def read_unit(path: Path) -> str:
    """Read the unit of a study as studies do; one that is not there would be computed again."""
    held = Results(path.parent.parent, {}, UNIT).get("1-0000")
    return "computed again" if held is None else digest(*(part for pair in sorted(held[0].items()) for part in pair), held[1])


def write_options(folder: Path) -> Path:
    """Write the options of a study."""
    return Results(folder / "study", OPTIONS, UNIT).units.folder / "options.json"


def read_options(path: Path) -> str:
    """Go on with a study."""
    return digest(Results(path.parent, OPTIONS, UNIT).options)


def write_table(folder: Path) -> Path:
    """Write vectors into a table."""
    path = folder / "a.parquet"
    pq.write_table(pa.table({"v": pa.array(VECTORS.tolist(), pa.list_(pa.float32()))}), path, write_page_checksum=True)
    return path


def write_library(folder: Path) -> Path:
    """Write the representations of a study."""
    library = Library(ENCODER, DATA, folder)
    library.encode(np.arange(8))
    return library.path


def read_library(path: Path) -> str:
    """Return the reference that a study makes of its representations."""
    library = Library(ENCODER, DATA, path.parent)
    return of_reference(library.reference(np.array([1, 3]), "some"))


def write_training(folder: Path) -> Path:
    """Write the checkpoint of a training, and the one before it."""
    for step in (1, 2):
        Training(replace(RECIPE, epochs=2), DATA, folder / "training").run(until=step, say=str, progress=False)
    return max((folder / "training" / "units").iterdir())


def read_training(path: Path) -> str:
    """Return a digest of what a copy of the training gives at its end."""
    with tempfile.TemporaryDirectory() as folder:
        copied = shutil.copytree(path.parents[1], Path(folder) / "training")
        training = Training(replace(RECIPE, epochs=2), DATA, copied)
        training.run(say=str, progress=False)
        return digest(training.step, *training.objective.state_dict().values(), training.log.read_bytes())


def write_weights(path: Path) -> Path:
    """Write weights as torch writes them."""
    torch.save({"state_dict": Net().state_dict(), "epoch": 3}, path)
    return path


def read_weights(path: Path) -> str:
    """Return a digest of the weights in a file."""
    checkpoint = read_checkpoint(path)
    return digest(
        *(part for pair in sorted(checkpoint.tensors.items()) for part in pair), sorted(checkpoint.metadata.items())
    )


def write_cifar(folder: Path) -> Path:
    """Write a small batch of CIFAR-10."""
    source = np.random.default_rng(0)
    batch = {
        b"data": source.integers(0, 256, (3, 3072), dtype=np.uint8),
        b"labels": [1, 5, 9],
        b"filenames": [b"a", b"b", b"c"],
    }
    (folder / "test_batch").write_bytes(pickle.dumps(batch, protocol=2))
    return folder / "test_batch"


def read_cifar(path: Path) -> str:
    """Return a digest of a batch of CIFAR-10."""
    data = cifar10(path.parent, "test")
    return digest(np.asarray(data.images), data.labels)


def write_picture(ending: str) -> Callable[[Path], Path]:
    """Return what writes a picture."""

    def made(folder: Path) -> Path:
        rows, columns = np.mgrid[:40, :40]
        pixels = np.stack([rows * 6, columns * 6, (rows * columns) % 256], axis=2).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"a.{ending}")
        return folder / f"a.{ending}"

    return made


def write_sound(ending: str) -> Callable[[Path], Path]:
    """Return what writes a sound."""

    def made(folder: Path) -> Path:
        soundfile.write(folder / f"a.{ending}", np.sin(np.arange(2000) / 20) * 0.5, 8000)
        return folder / f"a.{ending}"

    return made


def write_coco(folder: Path) -> Path:
    """Write annotations as COCO has them, and the picture."""
    write_picture("png")(folder)
    content = {
        "images": [{"id": 1, "file_name": "a.png", "height": 40, "width": 40}],
        "categories": [{"id": 10, "name": "cat"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 10, "bbox": [3, 4, 5, 6]}],
    }
    (folder / "annotations.json").write_text(json.dumps(content))
    return folder / "annotations.json"


def read_coco(path: Path) -> str:
    """Return a digest of the masks of all pictures."""
    examples = coco_examples(path, path.parent, boxes=True)
    return digest(*(repr(sorted((name, mask.tobytes()) for name, mask in example.load()[1].items())) for example in examples))


def write_index(name: str) -> Callable[[Path], Path]:
    """Return what builds an index of pictures and returns one of its files."""

    def made(folder: Path) -> Path:
        pictures = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
        build(ENCODER, list(pictures), folder / "index", RISE, progress=False)
        (file,) = (folder / "index").glob(name)
        return file

    return made


def read_index(path: Path) -> str:
    """Return a digest of what an index answers."""
    folder = path.parent.parent if path.parent.name == "shards" else path.parent
    index = Index.open(folder)
    index._encoder = ENCODER
    survey = index.ask(TARGET)
    mean = index.mean_map(CORPUS)
    return digest(index.ids, index.failed, index.representations, survey.scores, mean, *survey.maps)


def saved(make: Callable[[Path], object], name: str) -> Callable[[Path], Path]:
    """Return what writes a file of this name."""

    def made(folder: Path) -> Path:
        make(folder / name)
        return folder / name

    return made


KINDS = {
    "reference": Kind(
        saved(ENCODER.reference(IMAGE[None]).save, "a"), lambda path: of_reference(cocoax.Reference.load(path))
    ),
    "cached reference": Kind(
        in_cache(lambda: ENCODER.reference(IMAGE[None])), lambda _: of_reference(ENCODER.reference(IMAGE[None]))
    ),
    "run": Kind(saved(RUN.save, "a"), lambda path: of_attribution(cocoax.Run.load(path).explain(TARGET))),
    "cached run": Kind(
        in_cache(lambda: cached_run(ENCODER, IMAGE, RISE)),
        lambda _: of_attribution(cached_run(ENCODER, IMAGE, RISE).explain(TARGET)),
    ),
    "unfinished run": Kind(write_unfinished, read_unfinished),
    "field": Kind(saved(RUN.field().save, "a"), lambda path: of_attribution(cocoax.Field.load(path).explain(TARGET))),
    "attribution": Kind(
        saved(RUN.explain(TARGET).save, "a.safetensors"), lambda path: of_attribution(cocoax.Attribution.load(path))
    ),
    "unit of a study": Kind(write_unit, read_unit),
    "representations of a study": Kind(write_library, read_library),
    "options of a study": Kind(write_options, read_options),
    "shard of an index": Kind(write_index("shards/*.parquet"), read_index),
    "manifest of an index": Kind(write_index("*.json"), read_index),
    "checkpoint of `train`": Kind(write_training, read_training),
    "encoder of `train`": Kind(
        saved(lambda path: write_safetensors(path, Net().state_dict(), "encoder", {"side": 8}), "a.safetensors"), read_weights
    ),
    "torch checkpoint": Kind(saved(write_weights, "a.pth"), read_weights),
    "CIFAR-10 batch": Kind(write_cifar, read_cifar, checksum=False),
    "PNG": Kind(write_picture("png"), lambda path: digest(np.array(open_image(path)))),
    "JPEG": Kind(write_picture("jpg"), lambda path: digest(np.array(open_image(path))), checksum=False),
    "WAV": Kind(write_sound("wav"), lambda path: digest(read_file(path, 600)[0]), checksum=False),
    "FLAC": Kind(write_sound("flac"), lambda path: digest(read_file(path, 600)[0])),
    "vectors (.npy)": Kind(
        saved(lambda path: np.save(path, VECTORS), "a.npy"),
        lambda path: of_reference(cocoax.Reference.from_vectors(path)),
        checksum=False,
    ),
    "vectors (Parquet)": Kind(
        write_table, lambda path: of_reference(cocoax.Reference.from_vectors(path, column="v")), checksum=False
    ),
    "COCO annotations": Kind(write_coco, read_coco, checksum=False),
}


def damaged(whole: bytes, source: random.Random) -> bytes:
    """Return the content of a file with a bit flipped, a few bytes overwritten, the end zeroed, or the end missing."""
    content = bytearray(whole)
    how = source.choices(("flip", "overwrite", "zeros", "truncate"), (5, 2, 1, 2))[0]
    place = source.randrange(len(content))
    if how == "flip":
        content[place] ^= 1 << source.randrange(8)
    elif how == "overwrite":
        for _ in range(source.randint(2, 8)):
            content[source.randrange(len(content))] = source.randrange(256)
    elif how == "zeros":
        content[place:] = bytes(len(content) - place)
    else:
        del content[place:]
    return bytes(content)


def outcome(kind: Kind, path: Path, expected: str) -> tuple[str, str]:
    """Read a damaged file; return what came out, and in what words; those must name the file, or what it is a part of."""
    names = {path.name, path.stem} if path.suffix.startswith((".index", ".data-")) else {path.name}

    def about(text: str) -> bool:
        return len(text) > 15 and " " in text and any(name in text for name in names)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result = kind.read(path)
        except SENTENCES as error:
            return ("told", "") if about(str(error)) else ("raw", f"{type(error).__name__}: {error}")
        except BaseException as error:
            return "raw", f"{type(error).__name__}: {error}"
    if told and not any(about(str(warning.message)) for warning in told):
        return "raw", f"warning: {told[0].message}"
    if result in (expected, "computed again") and told:
        return "made again", ""
    if result == expected or (kind.quiet and result == "computed again"):
        return "right", ""
    if kind.checksum:
        return "wrong", f"{len(told)} warnings"
    return "other content", ""


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Count what reading a file must never do."""
    if event in WATCHED:
        events[f"{event} {str(arguments)[:80]}"] += 1


def campaign(name: str, kind: Kind, damages: int, seed: int) -> int:
    """Damage one kind of file so many times; print a row of the table; return how many outcomes were bad."""
    source = random.Random(f"{seed} {name}")
    count: Counter[str] = Counter()
    slowest, examples = 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        os.environ["COCOAX_CACHE"] = str(top / "cache")
        path = kind.make(top)
        whole, expected = path.read_bytes(), kind.read(path)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(damages):
            path.write_bytes(damaged(whole, source))
            begun = time.monotonic()
            what, words = outcome(kind, path, expected)
            slowest = max(slowest, time.monotonic() - begun)
            count[what] += 1
            if what in ("raw", "wrong"):
                examples.append(words)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    for words in sorted(set(examples))[:5]:
        print(f"{name}: {words[:300]}", file=sys.stderr)
    bad = count["raw"] + count["wrong"]
    told, again, right = count["told"], count["made again"], count["right"]
    other = count["other content"] if not kind.checksum else "–"
    print(
        f"| {name} | {len(whole)} | {told} | {again} | {right} | {other} | {bad} | {slowest:.2f} s | {grown:.0f} MB |",
        flush=True,
    )
    return bad + (slowest > SECONDS) + (grown > MEGABYTES)


def main() -> int:
    """Run the campaign and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--damages", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one kind of file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sys.addaudithook(watch)
    print(
        "| file | bytes | error | made again | right | other content | wrong, or failed in another way | slowest | memory |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    chosen = {name: kind for name, kind in KINDS.items() if options.only in (None, name)}
    bad = sum(campaign(name, kind, options.damages, options.seed) for name, kind in chosen.items())
    print(f"\nprocesses started, connections opened, names looked up by pickles: {sum(events.values())}")
    for event in events:
        print(event, file=sys.stderr)
    return 1 if bad or events else 0


if __name__ == "__main__":
    raise SystemExit(main())

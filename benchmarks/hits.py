"""Are the words that explain a search hit the words that made it come up? And what does asking cost?

Queries are the first lines of SciPy's documentation, documents those of scikit-learn (both come with pip). For every query
the top hit is explained rather than the next nine, by Cocoax and by leaving out one word at a time with the same number of
encoder calls. Then the fifth of its words that counts most is taken out, and the margin over the next nine measured again.
With ``--photos`` queries and documents are photos, words are the 7 x 7 cells of a photo, and the encoder is AugNet, a
ResNet-50 trained without labels (``pip install --no-deps imgsim``).

    OMP_NUM_THREADS=1 python benchmarks/hits.py --queries 200 --out hits.jsonl     # goes on where it stopped
    OMP_NUM_THREADS=1 python benchmarks/hits.py --photos FOLDER --out photos.jsonl
    OMP_NUM_THREADS=1 python benchmarks/hits.py --time [--queries 1]               # ten hits, against the bare encoder

``--others`` takes other queries, on which variants were compared.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import cocoax
from cocoax.inputs import Explicand
from cocoax.inputs.image import image_files
from cocoax.masking.masked_encoder import MaskedEncoder

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from search_debugging import Index, build_index

MODULES = (
    "stats",
    "cluster.hierarchy",
    "cluster.vq",
    "spatial.distance",
    "optimize",
    "signal",
    "ndimage",
    "linalg",
    "sparse",
)
MOST_WORDS = 64
HITS = 10
GRID = 7  # cells of a photo
SIDE = 224


def queries() -> list[str]:
    """Return the first sentences of public functions of SciPy, in an order that a seed decides."""
    lines = set()
    for name in MODULES:
        module = importlib.import_module(f"scipy.{name}")
        for function in (getattr(module, public) for public in getattr(module, "__all__", dir(module))):
            if inspect.isfunction(function) and (text := inspect.getdoc(function)):
                first = " ".join(text.split("\n\n")[0].split()).rstrip(".")
                if 4 <= len(first.split()) <= 20:
                    lines.add(first)
    ordered = sorted(lines)
    return [ordered[index] for index in np.random.default_rng(0).permutation(len(ordered))]


def hits_of(index: Index, query: str) -> list[str]:
    """Return the ten best documents that are not too long for the comparison, best first."""
    texts = [document.text for _, document in index.search(query, 60)]
    return [text for text in dict.fromkeys(texts) if 5 <= len(index.encoder.explicand(text).names or ()) <= MOST_WORDS][:HITS]


@dataclass(frozen=True, eq=False)
class Judge:
    """Says how similar a hit is to the query with some of its words, or cells of a photo, removed.

    Of the hit's own parts its margin over the next hits depends on nothing but its similarity to the query. Parts are removed
    in the same way for explaining and for judging.
    """

    encoder: cocoax.Encoder
    explicand: Explicand
    removal: str | None
    query: cocoax.Reference

    @property
    def parts(self) -> int:
        """The number of words or cells."""
        return GRID * GRID if len(self.explicand.shape) == 2 else self.explicand.shape[0]

    @property
    def taken(self) -> int:
        """A fifth of them."""
        return math.ceil(self.parts / 5)

    def similarities(self, kept: Tensor) -> Tensor:
        """Return similarities to the query for rows of kept parts."""
        game = MaskedEncoder(self.encoder, self.explicand, self.removal)
        if len(self.explicand.shape) == 2:
            size = self.explicand.shape[0] // GRID
            kept = kept.view(-1, GRID, GRID).repeat_interleave(size, 1).repeat_interleave(size, 2)
        masked = game.removal.masked(self.explicand, game.baseline_input, kept)
        encoded = [self.encoder.encode(masked[start : start + 32]) for start in range(0, len(masked), 32)]
        return nn.functional.normalize(torch.cat(encoded).double(), dim=1) @ self.query.mean_unit

    def order(self, method: cocoax.RemovalMethod) -> Tensor:
        """Return the parts, those first that a method says count most."""
        target = cocoax.similarity_to(self.query)
        values = method.run(self.encoder, self.explicand, progress=False).explain(target).values
        if values.ndim == 2:
            values = nn.functional.adaptive_avg_pool2d(values[None], GRID)[0].flatten()
        return values.argsort(descending=True)

    def left_out(self) -> Tensor:
        """Return the parts, those first without which, alone, the similarity is lowest."""
        return self.similarities(1 - torch.eye(self.parts)).argsort()

    def one_by_one(self) -> Tensor:
        """Return a fifth of the parts, each the one whose removal lowers the similarity most, given those removed before.

        That is about as far as it can fall, and takes many more encoder calls.
        """
        order: list[int] = []
        for _ in range(self.taken):
            left = [part for part in range(self.parts) if part not in order]
            kept = torch.ones(len(left), self.parts)
            kept[:, order] = 0
            kept[range(len(left)), left] = 0
            order.append(left[int(self.similarities(kept).argmin())])
        return torch.tensor(order)

    def falls(self, orders: dict[str, Tensor]) -> dict[str, float]:
        """Return by how much the similarity falls when a fifth of the parts is removed, in each order."""
        kept = torch.ones(1 + len(orders), self.parts)
        for row, order in enumerate(orders.values()):
            kept[row + 1, order[: self.taken]] = 0
        scores = self.similarities(kept)
        return {name: float(scores[0] - score) for name, score in zip(orders, scores[1:], strict=True)}


def explained(judge: Judge, number: int, bound: int) -> dict[str, float]:
    """Return by how much the top hit's margin falls when its most important fifth is removed, for each way to find it."""
    calls = max(judge.parts, 10)

    def rise(samples: int, **options: Any) -> Tensor:
        return judge.order(cocoax.Rise(samples, baseline=judge.removal, **options))

    orders = {
        "leave-one-out": judge.left_out(),
        "cocoax": rise(calls),
        "random": torch.randperm(judge.parts, generator=torch.Generator().manual_seed(number)),
    }
    if number < bound:  # many more encoder calls
        orders["one by one"] = judge.one_by_one()
        orders["cocoax, 500 samples"] = rise(500)
    return judge.falls(orders)


def text_judges(others: bool, count: int, removals: list[str]) -> Iterator[tuple[str, list[Judge]]]:
    """Go through queries, with a judge of each one's top hit for either way to remove words."""
    encoder = cocoax.load("minilm")
    assert isinstance(encoder, cocoax.TextEncoder)
    index = build_index(encoder)
    for query in queries()[200:][:count] if others else queries()[:count]:
        explicand, reference = encoder.explicand(hits_of(index, query)[0]), encoder.reference([query], progress=False)
        yield query, [Judge(encoder, explicand, removal, reference) for removal in removals]


def augnet() -> cocoax.Encoder:
    """Return AugNet, which takes photos and gives 768 numbers."""
    found = find_spec("imgsim")  # not imported: it asks for OpenCV and torchvision
    if found is None or found.origin is None:
        raise ImportError("AugNet is part of imgsim: pip install --no-deps imgsim.")
    body = cocoax.load(f"resnet50:{Path(found.origin).with_name('model.pth')}")  # read with weights_only
    assert isinstance(body.module, nn.Module)
    assert body.head is not None
    module = nn.Sequential(body.module, body.head, nn.Tanh()).eval()
    return cocoax.Encoder(module, cocoax.ImagePreprocess(resize=SIDE, crop=SIDE), name="augnet")


def photo_judges(photos: Path, others: bool, count: int) -> Iterator[tuple[str, list[Judge]]]:
    """Go through photos, with a judge of the photo that is most similar to each."""
    encoder = augnet()
    paths = image_files(photos)
    every = nn.functional.normalize(encoder.represent(paths).double(), dim=1)
    mixed = np.random.default_rng(0).permutation(len(paths))
    for number in mixed[200:][:count] if others else mixed[:count]:
        scores = every @ every[number]
        scores[number] = -1
        reference = cocoax.Reference.from_representations(every[[number]], name="the query", space=encoder.space)
        yield paths[number].stem, [Judge(encoder, encoder.explicand(paths[int(scores.argmax())]), None, reference)]


def report(rows: list[dict[str, Any]]) -> None:
    """Print mean falls of the margin, and ratios to leave-one-out with paired bootstrap intervals over queries."""
    random = np.random.default_rng(0)
    print(f"{len(rows)} queries, {np.mean([row['parts'] for row in rows]):.0f} words or cells a hit")
    for key in rows[0]:
        if ": " not in key:
            continue
        removal, name = key.split(": ", 1)
        pairs = np.array([(row[key], row[f"{removal}: leave-one-out"]) for row in rows if key in row])
        fall, base = pairs.T
        picks = random.integers(0, len(pairs), (10_000, len(pairs)))
        low, high = np.quantile(fall[picks].mean(1) / base[picks].mean(1), [0.025, 0.975])
        apart = np.quantile((fall - base)[picks].mean(1), [0.025, 0.975])
        print(
            f"{removal:9s} {name:20s} {len(pairs):3d} queries: margin falls by {fall.mean():.4f}; "
            f"{fall.mean() / base.mean():.2f} of leave-one-out [{low:.2f}, {high:.2f}]; "
            f"difference [{apart[0]:+.4f}, {apart[1]:+.4f}]; more in {np.mean(fall > base):.0%}"
        )


def measure_time(index: Index, count: int) -> None:
    """Print how long explaining ten hits takes, and how long the bare module takes for the same batches, in turns."""
    module = index.encoder.owner
    assert module is not None
    ratios = []
    for query in queries()[:count]:
        hits = hits_of(index, query)
        batches: list[dict[str, torch.Tensor]] = []
        times = {"explained": math.inf, "bare": math.inf}
        for _ in range(3):
            batches.clear()
            handle = module.register_forward_pre_hook(lambda _, arguments, kept=batches: kept.append(arguments[0]))
            start = time.process_time()
            cocoax.explain_hits(index.encoder, query, hits, progress=False)
            times["explained"] = min(times["explained"], time.process_time() - start)
            handle.remove()
            start = time.process_time()
            with torch.no_grad():
                for batch in batches:
                    module(batch)
            times["bare"] = min(times["bare"], time.process_time() - start)
        ratios.append(times["explained"] / times["bare"])
        texts = sum(len(batch["input_ids"]) for batch in batches)
        print(
            f"{texts} masked texts: {times['explained']:.2f} s, bare {times['bare']:.2f} s, ratio {ratios[-1]:.3f}",
            flush=True,
        )
    print(f"median ratio {np.median(ratios):.3f}")


def main() -> None:
    """Measure, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, help="how many; 200, or 1 with --time")
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--removals", nargs="+", default=["mask", "deletion"], help="ways to remove words")
    parser.add_argument("--bound", type=int, default=50, help="queries for which much dearer ways are tried too")
    parser.add_argument("--out", type=Path, default=Path("hits.jsonl"))
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    if options.time:
        encoder = cocoax.load("minilm")
        assert isinstance(encoder, cocoax.TextEncoder)
        measure_time(build_index(encoder), options.queries or 1)
        return
    options.queries = options.queries or 200
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done = {row["query"] for row in rows}
    judged = (
        text_judges(options.others, options.queries, options.removals)
        if options.photos is None
        else photo_judges(options.photos, options.others, options.queries)
    )
    with options.out.open("a") as file:
        for number, (query, judges) in enumerate(judged):
            if query in done:
                continue
            row: dict[str, Any] = {"query": query, "parts": judges[0].parts}
            for judge in judges:
                falls = explained(judge, number, options.bound)
                row |= {f"{judge.removal or 'blur'}: {name}": fall for name, fall in falls.items()}
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
            if len(rows) % 20 == 0:
                report(rows)
    report(rows)


if __name__ == "__main__":
    main()

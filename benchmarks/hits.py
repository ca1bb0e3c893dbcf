"""Are the words that explain a search hit the words that made it come up? And what does asking cost?

Queries are the first lines of SciPy's documentation, documents those of scikit-learn (both come with pip). For every query
the top hit is explained rather than the next nine, by Cocoax and by leaving out one word at a time with the same number of
encoder calls. Then the fifth of its words that counts most is taken out, and the margin over the next nine measured again.

    OMP_NUM_THREADS=1 python benchmarks/hits.py --queries 200 --out hits.jsonl     # goes on where it stopped
    OMP_NUM_THREADS=1 python benchmarks/hits.py --time                             # ten hits, against the bare encoder
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import cocoax
from cocoax.features.game import Game

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


def queries(count: int) -> list[str]:
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
    return [ordered[index] for index in np.random.default_rng(0).permutation(len(ordered))[:count]]


def hits_of(index: Index, query: str) -> list[str]:
    """Return the ten best documents that are not too long for the comparison, best first."""
    texts = [document.text for _, document in index.search(query, 60)]
    return [text for text in dict.fromkeys(texts) if 5 <= len(index.encoder.explicand(text).names or ()) <= MOST_WORDS][:HITS]


def drops(encoder: cocoax.TextEncoder, query: str, hits: list[str]) -> dict[str, object]:
    """Return by how much the top hit's margin falls when its most important fifth is removed, for each way to find it.

    Of the hit's own words the margin over the next hits depends on nothing but its similarity to the query. Words are
    removed in the same way for explaining and for judging. Removing, again and again, the word whose removal lowers the
    margin most is about as far as it can fall, and takes many more encoder calls.
    """
    explicand = encoder.explicand(hits[0])
    words = explicand.shape[0]
    taken = math.ceil(words / 5)
    reference = encoder.reference([query], progress=False)
    own, target = reference.mean_unit, cocoax.similarity_to(reference)
    fallen: dict[str, object] = {"query": query, "hit": hits[0], "words": words}
    for removal in ("mask", "deletion"):
        game = Game(encoder, explicand, removal)

        def similarities(kept: torch.Tensor, game: Game = game) -> torch.Tensor:
            masked = encoder.encode(game.removal.masked(explicand, game.emptied, kept))
            return torch.nn.functional.normalize(masked.double(), dim=1) @ own

        run = cocoax.Rise(samples=500, baseline=removal).run(encoder, explicand, progress=False)
        left_out = cocoax.Occlusion(baseline=removal).explain(encoder, explicand, target, progress=False)
        orders = {
            "cocoax": run.first(max(words, 10)).explain(target).values.argsort(descending=True),
            "cocoax, 500 samples": run.explain(target).values.argsort(descending=True),
            "leave-one-out": left_out.values.argsort(descending=True),
            "random words": torch.randperm(words, generator=torch.Generator().manual_seed(0)),
            "one by one": one_by_one(similarities, words, taken),
        }
        kept = torch.ones(1 + len(orders), words)
        for row, order in enumerate(orders.values()):
            kept[row + 1, order[:taken]] = 0
        scores = similarities(kept)
        fallen |= {f"{removal}: {name}": float(scores[0] - score) for name, score in zip(orders, scores[1:], strict=True)}
    return fallen


def one_by_one(similarities: Callable[[torch.Tensor], torch.Tensor], words: int, taken: int) -> torch.Tensor:
    """Return the words in the order in which each removal lowers the similarity most, given those removed before."""
    order: list[int] = []
    for _ in range(taken):
        left = [word for word in range(words) if word not in order]
        kept = torch.ones(len(left), words)
        kept[:, order] = 0
        kept[range(len(left)), left] = 0
        order.append(left[int(similarities(kept).argmin())])
    return torch.tensor(order)


def report(rows: list[dict[str, float]]) -> None:
    """Print mean falls of the margin, and ratios to leave-one-out with paired bootstrap intervals over queries."""
    random = np.random.default_rng(0)
    picks = random.integers(0, len(rows), (10_000, len(rows)))
    print(f"{len(rows)} queries, {np.mean([row['words'] for row in rows]):.0f} words a hit")
    for removal in ("mask", "deletion"):
        falls = {
            key.split(": ", 1)[1]: np.array([row[key] for row in rows]) for key in rows[0] if key.startswith(f"{removal}:")
        }
        base = falls["leave-one-out"]
        for name, fall in falls.items():
            ratios = fall[picks].mean(1) / base[picks].mean(1)
            apart = (fall - base)[picks].mean(1)
            low, high = np.quantile(ratios, [0.025, 0.975])
            print(
                f"{removal:9s} {name:22s} margin falls by {fall.mean():.4f}; {fall.mean() / base.mean():.2f} of "
                f"leave-one-out [{low:.2f}, {high:.2f}]; "
                f"difference [{np.quantile(apart, 0.025):+.4f}, {np.quantile(apart, 0.975):+.4f}]; "
                f"more in {np.mean(fall > base):.0%}"
            )


def measure_time(index: Index, count: int = 3) -> None:
    """Print how long explaining ten hits takes, and how long the bare module takes for the same batches."""
    module = index.encoder.owner
    assert module is not None
    ratios = []
    for query in queries(count):
        hits = hits_of(index, query)
        batches: list[dict[str, torch.Tensor]] = []
        handle = module.register_forward_pre_hook(lambda _, arguments, kept=batches: kept.append(arguments[0]))
        cocoax.explain_hits(index.encoder, query, hits, progress=False)
        handle.remove()
        times = {"explained": math.inf, "bare": math.inf}
        for _ in range(3):
            start = time.process_time()
            cocoax.explain_hits(index.encoder, query, hits, progress=False)
            times["explained"] = min(times["explained"], time.process_time() - start)
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("hits.jsonl"))
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    encoder = cocoax.load("starter").text
    assert isinstance(encoder, cocoax.TextEncoder)
    index = build_index(encoder)
    if options.time:
        measure_time(index)
        return
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done = {row["query"] for row in rows}
    with options.out.open("a") as file:
        for query in queries(options.queries):
            if query not in done:
                rows.append(drops(encoder, query, hits_of(index, query)))
                file.write(json.dumps(rows[-1]) + "\n")
                file.flush()
                if len(rows) % 10 == 0:
                    report(rows)
    report(rows)


if __name__ == "__main__":
    main()

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
    """Return by how much the top hit's margin falls when its most important fifth is removed, for each way to find it."""
    explicand = encoder.explicand(hits[0])
    words = explicand.shape[0]
    own = torch.nn.functional.normalize(encoder.represent([query]), dim=1)[0]
    target = cocoax.similarity_to(encoder.reference([query], progress=False))
    least = 10  # samples that Rise needs
    calls = max(words, least)
    ways = {
        "cocoax": cocoax.explain_hits(
            encoder, query, hits[:1], rather_than=hits[1:], method=cocoax.Rise(samples=calls), progress=False
        )[0].document,
        "cocoax, 500 samples": cocoax.explain_hits(encoder, query, hits[:1], rather_than=hits[1:], progress=False)[
            0
        ].document,
        "leave-one-out": cocoax.Occlusion().explain(encoder, explicand, target, progress=False),
    }
    generator = torch.Generator().manual_seed(0)
    found: dict[str, object] = {"query": query, "hit": hits[0], "words": words}
    for removal in ("mask", "deletion"):
        game = Game(encoder, explicand, removal)
        orders = {name: answer.values.argsort(descending=True) for name, answer in ways.items()}
        orders["random words"] = torch.randperm(words, generator=generator)
        for name, order in orders.items():
            kept = torch.ones(1, words)
            kept[0, order[: math.ceil(words / 5)]] = 0
            masked = encoder.encode(game.removal.masked(explicand, game.emptied, kept))
            both = torch.nn.functional.normalize(torch.cat([game.ends[:1], masked]), dim=1)
            found[f"{removal}: {name}"] = float((both[0] - both[1]) @ own)
    return found


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
                f"leave-one-out [{low:.2f}, {high:.2f}]; difference [{np.quantile(apart, 0.025):+.4f}, {np.quantile(apart, 0.975):+.4f}]; "
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
    report(rows)


if __name__ == "__main__":
    main()

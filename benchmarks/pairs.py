"""Figures about interactions (docs/explanation/pairs.md): cost, accuracy, and known cases.

    python benchmarks/pairs.py FOLDER maps|coverage|correlation|calls|time|words ...

FOLDER keeps what was encoded: all subsets of the texts below (MiniLM), a photo and a caption for ``time`` (starter). Figures
are printed and written to ``FOLDER/NAME.json``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import cocoax
from cocoax.masking import BitMasks

# Constants of the error bars were chosen on other texts and tables than these.
TEXTS = (
    "fix a leaking kitchen tap without calling plumbers",
    "the striker scored twice in the final",
    "our train to Berlin was delayed again",
    "bake the bread slowly until its crust turns golden",
    "a storm damaged the roof of the village church",
    "the new vaccine protects children against measles for many years",
    "wolves returned to the forest after a century of absence",
    "scientists measured how fast the glacier melts in summer",
    "my laptop battery dies after only one hour of use today",
    "parents complained that the playground was closed during the long holidays",
    "old violins sound warmer than new ones according to some players",
)
SIZES = (100, 300, 500)


def unit(vectors: Tensor) -> Tensor:
    """Return unit vectors in double precision."""
    return nn.functional.normalize(vectors.double(), dim=-1)


def enumerated(folder: Path) -> list[cocoax.Run]:
    """Return runs of all subsets of the texts, encoded once."""
    runs, encoder = [], None
    for number, text in enumerate(TEXTS):
        path = folder / f"text-{number:02d}.safetensors"
        if not path.exists():
            encoder = encoder or cocoax.load("minilm")
            cocoax.Rise(samples=2**13).run(encoder, text).save(path)
        runs.append(cocoax.Run.load(path))
    return runs


def sampled(run: cocoax.Run, samples: int, seed: int) -> cocoax.Run:
    """Return the run of so many samples, by looking its masks up among all subsets."""
    masks = BitMasks.draw(run.explicand.shape[0], 0.5, samples, seed)
    places = run.masks.places(masks)  # type: ignore[attr-defined]
    return replace(
        run, method=cocoax.Rise(samples=samples, seed=seed), masks=masks, representations=run.representations[places]
    )


def pairs_of(runs: list[cocoax.Run], least: int, count: int = 20) -> list[tuple[cocoax.Run, cocoax.Run]]:
    """Return pairs of texts with at least so many words."""
    return list(combinations([run for run in runs if run.explicand.shape[0] >= least], 2))[:count]


# --- error bars -------------------------------------------------------------------------------------------------------


def tables() -> Iterator[tuple[str, Tensor, Tensor, list[Tensor]]]:
    """Yield tables of 8 to 13 columns: name, all subsets, representations of a row under them, three directions."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
    from sklearn.preprocessing import StandardScaler

    sources = [(load_wine, 13), (load_diabetes, 10), (load_breast_cancer, 8), (load_breast_cancer, 9), (load_diabetes, 8)]
    for number, (source, columns) in enumerate([*sources, (load_breast_cancer, 13)]):
        rows, labels = source(return_X_y=True)
        x = torch.from_numpy(StandardScaler().fit_transform(rows)[:, -columns:]).float()
        y = torch.from_numpy(labels if len(np.unique(labels)) < 5 else labels > np.median(labels)).long()
        network = _trained(x, y, seed=100 + number)
        bits = torch.tensor(list(product((0, 1), repeat=columns)), dtype=torch.uint8)
        with torch.no_grad():
            everything = unit(network(x))
            for row in (3, 70):
                own = unit(network(x[row]))
                corpus = everything[y == 0].mean(0)
                directions = [own, corpus, corpus - everything.mean(0)]
                yield f"{source.__name__} {columns} row {row}", bits, unit(network(bits * x[row])), directions


def _trained(x: Tensor, y: Tensor, seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        body = nn.Sequential(nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, 16), nn.Softplus())
        head = nn.Linear(16, int(y.max()) + 1)
        optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=5e-3)
        for _ in range(200):
            optimiser.zero_grad()
            nn.functional.cross_entropy(head(body(x)), y).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return body


def texts_as_games(runs: list[cocoax.Run]) -> Iterator[tuple[str, Tensor, Tensor, list[Tensor]]]:
    """Yield texts as :func:`tables` are."""
    own = [unit(run.anchors[0]) for run in runs]
    centre = torch.stack(own).mean(0)
    for number, run in enumerate(runs):
        other = own[(number + 1) % len(own)]
        yield TEXTS[number], run.masks.tensors["bits"], unit(run.representations), [own[number], other, other - centre]


def maps(folder: Path, seeds: int = 100) -> dict[str, Any]:
    """Coverage of 95 % intervals of Rise maps against enumeration, where there are more subsets than samples."""
    answer: dict[str, Any] = {}
    for kind, games in (("texts", texts_as_games(enumerated(folder))), ("tables", tables())):
        inside: dict[int, list[float]] = defaultdict(list)
        for _, bits, vectors, directions in games:
            every = BitMasks(bits, 0.5)
            scores = vectors @ torch.stack(directions, 1)
            truth = bits.double().T @ scores / (len(bits) / 2)
            for samples in (40, 100, 300):
                if samples >= len(bits):
                    continue
                method = cocoax.Rise(samples=samples)
                shares = []
                for seed in range(seeds):
                    masks = BitMasks.draw(bits.shape[1], 0.5, samples, seed)
                    estimate = method.estimate(masks, scores[every.places(masks)], torch.zeros(2, 3))
                    assert estimate.standard_error is not None
                    apart = (estimate.values[:, 0].T - truth).abs()
                    shares.append(float((apart <= 1.96 * estimate.standard_error[:, 0].T).double().mean()))
                inside[samples].append(mean(shares))
        answer[kind] = {n: {"mean": mean(s), "least": min(s), "most": max(s), "inputs": len(s)} for n, s in inside.items()}
    return answer


def coverage(folder: Path, seeds: int = 20) -> dict[str, Any]:
    """Coverage of 95 % intervals of interactions against enumeration, with masks of the two sides independent or the same."""
    answer: dict[str, Any] = {}
    pairs = pairs_of(enumerated(folder), 9)
    truths = [cocoax.interactions(a, b).values for a, b in pairs]
    for name, apart in (("independent", 10_000), ("same seed", 0)):
        for samples in SIZES:
            shares = []
            for (a, b), truth in zip(pairs, truths, strict=True):
                for seed in range(seeds):
                    sides = sampled(a, samples, seed), sampled(b, samples, seed + apart)
                    found = cocoax.interactions(*sides)
                    assert found.standard_error is not None
                    within = (found.values - truth).abs() <= 1.96 * found.standard_error
                    shares.append(float(within.double().mean()))
            answer[f"{name}, {samples} samples"] = mean(shares)
            print(name, samples, answer[f"{name}, {samples} samples"], flush=True)
    return answer


def correlation(folder: Path, seeds: int = 5) -> dict[str, Any]:
    """Correlation of sampled with enumerated interactions: median over 20 pairs, of the mean over seeds."""
    pairs = pairs_of(enumerated(folder), 9)
    answer = {}
    for samples in (*SIZES,):
        each = []
        for a, b in pairs:
            truth = cocoax.interactions(a, b).values.flatten()
            found = [
                cocoax.interactions(sampled(a, samples, seed), sampled(b, samples, seed)).values for seed in range(seeds)
            ]
            each.append(mean(float(torch.corrcoef(torch.stack([truth, values.flatten()]))[0, 1]) for values in found))
        answer[f"{samples} + {samples}"] = {"median": median(each), "least": min(each)}
    return answer


# --- what they cost ---------------------------------------------------------------------------------------------------


def calls(folder: Path, seeds: int = 5) -> dict[str, Any]:
    """Encoder calls of other estimators for the error that fields have at 200 + 200 calls; texts of 9 to 11 words."""
    pairs = pairs_of(enumerated(folder), 9, 6)
    games = [_PairGame(a, b) for a, b in pairs]
    ours = _rms([game.error(_fields, 200, seed) for game in games for seed in range(seeds)])
    answer: dict[str, Any] = {"fields, 200 + 200": {"calls": 400, "error": ours}}
    estimators = {"pairs, mean of products": _products, "pairs, least squares": _regression}
    try:
        import shapiq  # noqa: F401

        estimators["shapiq RegressionFBII"] = _shapiq
    except ImportError:
        print("shapiq is not installed")
    for name, estimator in estimators.items():
        errors: dict[int, float] = {}
        try:
            for evaluations in (500, 1000, 2000, 4000, 8000, 16000):
                errors[2 * evaluations] = _rms(
                    [game.error(estimator, evaluations, seed) for game in games for seed in range(2)]
                )
                if errors[2 * evaluations] < ours:
                    break
        except Exception as error:  # another library's: what it cannot do is part of the table
            print(name, type(error).__name__, error)
        answer[name] = {"errors by calls": errors, "calls at equal error": _crossing(errors, ours)}
        print(name, answer[name], flush=True)
    return answer


class _PairGame:
    """The score of two texts under masks of both, by looking representations up."""

    def __init__(self, a: cocoax.Run, b: cocoax.Run) -> None:
        self.a, self.b = a, b
        self.sizes = a.explicand.shape[0], b.explicand.shape[0]
        self.vectors = unit(a.representations), unit(b.representations)
        self.truth = cocoax.interactions(a, b).values.double()

    def score(self, bits_a: Tensor, bits_b: Tensor) -> Tensor:
        places = [
            run.masks.places(BitMasks(bits, 0.5))  # type: ignore[attr-defined]
            for run, bits in ((self.a, bits_a), (self.b, bits_b))
        ]
        return (self.vectors[0][places[0]] * self.vectors[1][places[1]]).sum(1)

    def error(self, estimator: Callable[[_PairGame, int, int], Tensor], size: int, seed: int) -> float:
        """Return the mean squared error, relative to that of saying nothing."""
        apart = (estimator(self, size, seed) - self.truth).square().mean()
        return float(apart / self.truth.square().mean())


def _fields(game: _PairGame, size: int, seed: int) -> Tensor:
    return cocoax.interactions(sampled(game.a, size, seed), sampled(game.b, size, seed + 10_000)).values.double()


def _drawn(game: _PairGame, size: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    a, b = (BitMasks.draw(count, 0.5, size, seed + apart).bits for count, apart in zip(game.sizes, (0, 10_000), strict=True))
    return a.double(), b.double(), game.score(a, b)


def _products(game: _PairGame, size: int, seed: int) -> Tensor:
    a, b, y = _drawn(game, size, seed)
    return 16 * ((a - 0.5) * (y - y.mean())[:, None]).T @ (b - 0.5) / size


def _regression(game: _PairGame, size: int, seed: int) -> Tensor:
    a, b, y = _drawn(game, size, seed)
    ones = torch.ones(size, 1, dtype=torch.float64)
    sides = torch.cat([ones, a - 0.5], 1), torch.cat([ones, b - 0.5], 1)
    design = torch.einsum("ni,nj->nij", *sides).flatten(1)
    solved: Tensor = torch.linalg.lstsq(design, y[:, None], driver="gelsd").solution
    return solved.view(len(sides[0].T), -1)[1:, 1:]


def _shapiq(game: _PairGame, size: int, seed: int) -> Tensor:
    """Faithful Banzhaf interactions, which are the least-squares coefficients."""
    import shapiq

    first, second = game.sizes

    def play(coalitions: np.ndarray) -> np.ndarray:
        bits = torch.from_numpy(np.atleast_2d(coalitions).astype(np.uint8))
        scores: np.ndarray = game.score(bits[:, :first], bits[:, first:]).numpy()
        return scores

    values = shapiq.RegressionFBII(n=first + second, max_order=2, random_state=seed).approximate(size, play)
    return torch.tensor([[float(values[(i, first + j)]) for j in range(second)] for i in range(first)]).double()


def _rms(squares: list[float]) -> float:
    return mean(squares) ** 0.5


def _crossing(errors: dict[int, float], goal: float) -> float | None:
    """Return the calls for a goal from the most that were tried, since errors fall with the root of the calls."""
    most = max(errors, default=None)
    return None if most is None else most * (errors[most] / goal) ** 2


def seconds(folder: Path) -> dict[str, Any]:
    """Time of a 49 x 12 matrix with errors, regions of a photo and words of a caption; nothing is encoded."""
    encoder = cocoax.load("starter")
    assert encoder.text is not None
    caption = "a photo of a cat and a motorbike near the old harbour"
    photo = cocoax.Rise(samples=400).run(encoder, cocoax.data.photo("cat"), progress=False)
    text = cocoax.Rise(samples=500).run(encoder.text, caption, progress=False)
    files = [run.save(folder / f"{name}.safetensors") for name, run in (("photo", photo), ("caption", text))]
    seen: list[int] = []
    for module in (encoder.owner, encoder.text.owner):
        assert isinstance(module, nn.Module)
        module.register_forward_hook(lambda *_: seen.append(1))
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(21):
        for name, clock in (("ms of the processor", time.process_time), ("ms", time.perf_counter)):
            start = clock()
            runs = [cocoax.Run.load(file) for file in files]
            between = clock()
            found = cocoax.interactions(*runs)
            assert found.standard_error is not None
            times[name].append(1000 * (clock() - between))
            times[f"{name}, loading"].append(1000 * (between - start))
    shape = [len(found.a.names), len(found.b.names)]
    return {"shape": shape, **{name: median(each) for name, each in times.items()}, "encoder calls": len(seen)}


# --- whether they find what is known ----------------------------------------------------------------------------------


def words(folder: Path) -> dict[str, Any]:
    """Known aligned words among the strongest three pairs of two sentences; all subsets are encoded."""
    encoder = cocoax.load("minilm")
    lines = Path(__file__).with_name("aligned_words.tsv").read_text(encoding="utf-8").splitlines()[1:]
    each, both, missed = [], [], []
    for line in lines:
        one, other, *known = line.split("\t")
        pairs = [(known[0], known[1]), (known[2], known[3])]
        runs = [cocoax.Rise(samples=500).run(encoder, text, progress=False) for text in (one, other)]
        best = [(first, second) for first, second, _, _ in cocoax.interactions(*runs).top(3)]
        within = [pair in best for pair in pairs]
        each += within
        both.append(all(within))
        if not all(within):
            missed.append(
                {"texts": [one, other], "missing": [p for p, w in zip(pairs, within, strict=True) if not w], "top": best}
            )
    return {"pairs": len(lines), "each": mean(each), "both": mean(both), "missed": missed}


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("what", nargs="+")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    measures = {
        "maps": maps,
        "coverage": coverage,
        "correlation": correlation,
        "calls": calls,
        "time": seconds,
        "words": words,
    }
    for what in arguments.what:
        found = measures[what](arguments.folder)
        (arguments.folder / f"{what}.json").write_text(json.dumps(found, indent=1, default=str))
        print(what, json.dumps(found, indent=1, default=str), flush=True)


if __name__ == "__main__":
    main()

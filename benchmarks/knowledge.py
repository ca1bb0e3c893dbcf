"""What encoders know: figures for docs/how-to/knows.md and docs/how-to/discovery.md.

    python benchmarks/knowledge.py knows CIFAR FOLDER
    python benchmarks/knowledge.py discover CIFAR FOLDER --weights RESNET_56.th
    python benchmarks/knowledge.py planted CIFAR FOLDER [--weights RESNET_20.th] [--images 400] [--split train]
    python benchmarks/knowledge.py names IMAGENET_SAMPLES FOLDER

CIFAR holds CIFAR-10's batches, IMAGENET_SAMPLES one photo for each of the 1000 classes. What comes out is printed and written
to FOLDER as JSON.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cocoax
from cocoax.data import open_data

CORPUS, FOIL = 100, 300  # samples of each side


def draw(rows: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return some rows."""
    return np.random.default_rng(seed).choice(rows, count, replace=False)


def probe_auc(everything: cocoax.Reference, ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the AUC of a logistic regression, cross-validated on the same members."""
    assert everything.samples is not None
    rows = np.concatenate([ours, theirs])
    truth = np.array([1] * len(ours) + [0] * len(theirs))
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000))
    scores = cross_val_predict(model, everything.samples[rows].numpy(), truth, cv=5, method="decision_function")
    return float(roc_auc_score(truth, scores))


def knows(arguments: argparse.Namespace) -> dict[str, Any]:
    """Ten classes beside the linear probe; random corpora; even file numbers."""
    encoder = cocoax.load("simclr-cifar10-small")
    data = open_data(arguments.data, "test")
    everything = encoder.reference(data.images, name="CIFAR-10", keep_samples=True)
    numbers = np.arange(len(data.labels))
    classes = {}
    for number, name in enumerate(data.classes):
        ours = draw(numbers[data.labels == number], CORPUS, number)
        theirs = draw(numbers[data.labels != number], FOIL, number)
        knowledge = cocoax.knows(everything[ours], everything[theirs], seed=number)
        classes[name] = {**knowledge.to_dict(), "probe": probe_auc(everything, ours, theirs)}
        print(f"{name:12} {knowledge.separability} p {knowledge.p_value:.3f}, probe {classes[name]['probe']:.2f}")
    sets: dict[str, Callable[[int], tuple[np.ndarray, np.ndarray]]] = {
        "random": lambda seed: tuple(np.split(draw(numbers, CORPUS + FOIL, seed), [CORPUS])),  # type: ignore[return-value]
        "even file numbers": lambda seed: (draw(numbers[::2], CORPUS, seed), draw(numbers[1::2], CORPUS, seed)),
    }
    chance = {}
    for name, sides in sets.items():
        found = []
        for seed in range(arguments.draws):
            ours, theirs = sides(seed)
            found.append(cocoax.knows(everything[ours], everything[theirs], permutations=199, seed=seed))
        p_values = [knowledge.p_value for knowledge in found]
        verdicts = [knowledge.verdict for knowledge in found]
        chance[name] = {
            "draws": len(found),
            "uniform": float(stats.kstest(p_values, "uniform").pvalue),
            "uniform, the first 20": float(stats.kstest(p_values[:20], "uniform").pvalue),
            "separated": verdicts.count("separated") / len(found),
            "not separated": verdicts.count("not separated") / len(found),
            "reversed": verdicts.count("reversed") / len(found),
            "separated, the first 20": verdicts[:20].count("separated") / 20,
            "intervals with 0.5": float(np.mean([k.interval[0] <= 0.5 <= k.interval[1] for k in found])),
        }
        print(name, chance[name])
    return {"classes": classes, "chance": chance}


def discover(arguments: argparse.Namespace) -> dict[str, Any]:
    """Ten corpora of 2000 images, beside the ten classes."""
    data = open_data(arguments.data, "test")
    rows = draw(np.arange(len(data.labels)), 2000, 0)
    images, labels = [data.images[row] for row in rows], data.labels[rows]
    found = {}
    for name in (f"cifar-resnet:{arguments.weights}", "simclr-cifar10-small"):
        for method in ("kmeans", "hdbscan"):
            discovery = cocoax.discover(cocoax.load(name), images, 10, method)  # type: ignore[arg-type]
            short = name.split(":")[0]
            found[f"{short} {method}"] = {
                **{key: value for key, value in discovery.to_dict().items() if key != "corpora"},
                "corpora": len(discovery),
                "purity": discovery.purity(labels),
                "stability": [found.stability for found in discovery],
                "classes": [data.classes[int(label)] for label, _ in discovery.beside(labels).values()],
            }
            print(short, method, found[f"{short} {method}"])
            discovery.save(arguments.folder / f"discover-{short}-{method}.png")
    return found


SQUARE, COLOUR = 8, (255, 0, 200)


def planted(arguments: argparse.Namespace) -> dict[str, Any]:
    """A coloured square on a fifth of the images: is there a corpus of it, and are its maps on the square?

    Choices are made on the training images (``--split train``), so that the test images are looked at once.
    """
    seed = 0 if arguments.split == "train" else 1
    data = open_data(arguments.data, arguments.split)
    rows = draw(np.arange(len(data.labels)), arguments.images, seed)
    images = np.stack([np.array(data.images[row]) for row in rows])
    generator = np.random.default_rng(seed)
    marked = np.sort(generator.choice(len(images), len(images) // 5, replace=False))
    corners = generator.integers(0, 32 - SQUARE + 1, (len(images), 2))
    for row in marked:
        top, left = corners[row]
        images[row, top : top + SQUARE, left : left + SQUARE] = COLOUR
    encoder = cocoax.load("simclr-cifar10-small" if arguments.weights is None else f"cifar-resnet:{arguments.weights}")
    explainer = cocoax.Rise(samples=100, grid=5, baseline=cocoax.Mean())  # a blur would leave the colour
    results = {}
    for method in arguments.methods:
        discovery = cocoax.discover(encoder, list(images), 10, method, explainer=explainer)
        shared = {found.number: len(np.intersect1d(found.members, marked)) for found in discovery}
        ways: dict[str, Callable[[Any], float]] = {
            "most of the marked": lambda found, shared=shared: shared[found.number],  # type: ignore[misc]
            "best": lambda found: len(np.intersect1d(found.members, marked)) / len(np.union1d(found.members, marked)),
        }
        for name, how in ways.items():
            best = max(discovery, key=how)
            mine = np.intersect1d(best.members, marked)
            maps = discovery.collection.maps(mine.tolist(), discovery.target(best))
            on = [_on_square(each.values.numpy(), corners[row]) for each, row in zip(maps, mine, strict=True)]
            results[f"{method}, {name}"] = {
                "held": len(mine) / len(marked),
                "precision": len(mine) / len(best.members),
                "on the square": float(np.mean(on)),
                "stability": best.stability,
                "explained": discovery.explained,
            }
            print(arguments.split, method, name, results[f"{method}, {name}"], flush=True)
        discovery.save(arguments.folder / f"planted-{arguments.split}-{method}.png")
    return results


def _on_square(values: np.ndarray, corner: np.ndarray) -> bool:
    """Return whether the middle of the strongest cell lies on the square, or within half a cell of it."""
    side = 32 / values.shape[0]
    row, column = np.unravel_index(int(values.argmax()), values.shape)
    middle = (np.array([row, column]) + 0.5) * side
    return bool(((middle >= corner - side / 2) & (middle <= corner + SQUARE + side / 2)).all())


def names(arguments: argparse.Namespace) -> dict[str, Any]:
    """The starter on 400 photos of ImageNet: what its corpora are called."""
    files = sorted(path for path in arguments.data.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    chosen = [files[row] for row in np.sort(draw(np.arange(len(files)), 400, 0))]
    discovery = cocoax.discover(cocoax.load("starter"), chosen, 10)
    for found in discovery:
        print(found, [chosen[number].stem for number in found.members[:6]], flush=True)
    discovery.save(arguments.folder / "names.png")
    return discovery.to_dict()


STUDIES = {"knows": knows, "discover": discover, "planted": planted, "names": names}


def main() -> None:
    """Run one of the studies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--split", choices=("train", "test"), default="train")
    parser.add_argument("--methods", nargs="+", choices=("crops", "fields", "kmeans"), default=("crops", "fields", "kmeans"))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    results = STUDIES[arguments.study](arguments)
    name = f"{arguments.study}-{arguments.split}" if arguments.study == "planted" else arguments.study
    (arguments.folder / f"{name}.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

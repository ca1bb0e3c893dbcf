"""Do the examples that matter most share the class of the input? Rankings without labels on CIFAR-10, against chance.

    python benchmarks/example_consistency.py CIFAR10 OUT [--members 300] [--inputs 40]

The small SimCLR encoder is trained a little further, without labels, on training images that are the members, with a
checkpoint before and after each of three rounds, so that TracIn has the gradients of a training in which the members took
part. Inputs are test images. Labels are looked at only in the end.
"""

from __future__ import annotations

import argparse
import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import cocoax
from cocoax.data.readers import cifar10
from cocoax.evaluation.sanity import consistency
from cocoax.insight.important_examples import ExampleMethod, Influence, Members, Neighbours, Simplex, TracIn
from cocoax.paper.training.objectives import nt_xent
from cocoax.paper.training.recipes import RECIPES

ROUNDS, STEPS, BATCH, RATE = 3, 20, 64, 0.02
TRACIN_LAYERS = ["stages.3.0.conv2", "stages.3.0.bn2"]  # for gradients; those of all layers would not fit into memory
INFLUENCE_LAYERS = ["stages.3.0.bn2"]  # for gradients and the Hessian


def trained_on(encoder: cocoax.Encoder, images: np.ndarray) -> list[dict[str, Tensor]]:
    """Train a copy of the encoder's network further on images; return its weights before and after each round."""
    recipe = RECIPES["simclr-small"]
    network: Any = copy.deepcopy(encoder.owner).float()
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2)
    optimizer = torch.optim.SGD(network.parameters(), RATE, 0.9)
    random = np.random.default_rng(0)
    checkpoints = [copy.deepcopy(network.state_dict())]
    network.train()
    for _ in range(ROUNDS):
        for _ in range(STEPS):
            batch = pixels[random.choice(len(pixels), BATCH, replace=False)]
            first, second = (network(recipe.augmentation(batch, random)) for _ in range(2))
            optimizer.zero_grad()
            nt_xent(first, second, recipe.temperature).backward()
            optimizer.step()
        checkpoints.append(copy.deepcopy(network.state_dict()))
    return checkpoints


def main(data: Path, out: Path, count: int, inputs: int) -> None:
    """Rank members for inputs by every method, and write how often the first ones share the class."""
    out.mkdir(parents=True, exist_ok=True)
    encoder = cocoax.load("simclr-cifar10-small")
    train, test = cifar10(data, "train"), cifar10(data, "test")
    chosen = np.random.default_rng(1).choice(len(train), count, replace=False)
    checkpoints = trained_on(encoder, train.images[chosen])  # type: ignore[index]
    network: Any = copy.deepcopy(encoder.owner)
    network.load_state_dict(checkpoints[-1])
    last = encoder.with_module(network.eval(), "trained further")
    members = Members(last, train.images[chosen])  # type: ignore[index]
    explicands = [last.explicand(image) for image in test.images[:inputs]]
    methods: dict[str, ExampleMethod] = {
        "neighbours": Neighbours(),
        "simplex": Simplex(),
        "tracin": TracIn(checkpoints=checkpoints, layers=TRACIN_LAYERS),
        "influence": Influence(layers=INFLUENCE_LAYERS),
    }
    found: dict[str, Any] = {}
    for name, method in methods.items():
        values = method.importance(last, explicands, members).numpy()
        np.save(out / f"{name}.npy", values)
        curve = consistency(values, test.labels[:inputs], train.labels[chosen])
        found[name] = {str(share): [each.mean, each.half] for share, each in curve.items()}
        print(name, "  ".join(f"{share:.0%}: {each.mean:.2f} ± {each.half:.2f}" for share, each in curve.items()), flush=True)
        (out / "consistency.json").write_text(json.dumps(found))
    random = np.random.default_rng(2).normal(size=(inputs, count))
    curve = consistency(random, test.labels[:inputs], train.labels[chosen])
    print("random", "  ".join(f"{share:.0%}: {each.mean:.2f} ± {each.half:.2f}" for share, each in curve.items()))
    found["random"] = {str(share): [each.mean, each.half] for share, each in curve.items()}
    (out / "consistency.json").write_text(json.dumps(found))
    draw(found, out / "consistency.png", count, inputs)


def draw(found: dict[str, Any], file: Path, count: int, inputs: int) -> None:
    """Draw consistency against rank."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    ax = figure.subplots()
    for number, (name, curve) in enumerate(found.items()):
        shares = np.array([float(share) for share in curve])
        means, halves = np.array(list(curve.values())).T
        ax.errorbar(
            shares * 1.02 ** (number - 2), means, halves, label=name, capsize=2, lw=1.4, ls="--" if name == "random" else "-"
        )
    ax.set_xscale("log")
    ax.set_xticks([0.01, 0.05, 0.1, 0.2, 0.5, 1.0], ["1 %", "5 %", "10 %", "20 %", "50 %", "all"])
    ax.set_xlabel(f"of {count} members, the most important first")
    ax.set_ylabel("share of the input's class")
    ax.set_title(f"CIFAR-10, {inputs} test images, 95 % intervals", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--members", type=int, default=300)
    parser.add_argument("--inputs", type=int, default=40)
    arguments = parser.parse_args()
    main(arguments.data, arguments.out, arguments.members, arguments.inputs)

"""Planted shortcuts and wrong labels: does an index find them?

    python benchmarks/shortcuts.py CIFAR RESNET_20.th FOLDER [--samples 64 32 16]

CIFAR holds CIFAR-10's batches. In half of one class's training images a small coloured square is put into a random corner;
a classifier is trained on 5000 images for a few minutes, and an index of 500 images of that class and 150 of each other is
built in FOLDER with the result, with each number of samples. Printed: precision of the 50 strongest shortcuts. Then twenty
labels of 2000 held-out images are exchanged, five times, and the classifier as it came says which are the 50 least typical.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import cocoax
from cocoax.data import open_data
from cocoax.survey import build
from cocoax.survey.shortcuts import Classes

CLASS, SIDE, COLOUR = 3, 6, (255, 0, 200)  # cats, which are hard to tell otherwise; pixels of the square


def plant(images: np.ndarray, rows: np.ndarray, seed: int) -> np.ndarray:
    """Return images with a square in a random corner of some."""
    images, generator = images.copy(), np.random.default_rng(seed)
    for row in rows:
        top, left = ((0, 32 - SIDE)[at] for at in generator.integers(0, 2, 2))
        images[row, top : top + SIDE, left : left + SIDE] = COLOUR
    return images


def fine_tune(encoder: cocoax.Encoder, images: np.ndarray, labels: np.ndarray, epochs: int) -> None:
    """Train the network on these images, so that it takes to the square."""
    head = encoder.head
    module = encoder.owner
    assert isinstance(head, nn.Module)
    assert module is not None
    torch.manual_seed(0)
    # It begins anew: the trained one knows these images by heart and has no use for a square.
    for part in [*module.modules(), head]:
        if isinstance(part, nn.Conv2d | nn.Linear | nn.BatchNorm2d):
            part.reset_parameters()
    inputs = torch.stack([encoder.prepare(image) for image in images])
    targets = torch.from_numpy(labels).long()
    parameters = [*module.parameters(), *head.parameters()]
    for parameter in parameters:
        parameter.requires_grad_(True)
    optimiser = torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=5e-4)
    generator = torch.Generator().manual_seed(0)
    module.train()
    for epoch in range(epochs):
        losses = []
        for rows in torch.randperm(len(inputs), generator=generator).split(64):
            optimiser.zero_grad()
            turned = inputs[rows] if epoch % 2 else inputs[rows].flip(3)
            loss = nn.functional.cross_entropy(head(encoder(turned)), targets[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            losses.append(loss.item())
        print("epoch", epoch, "loss", round(float(np.mean(losses)), 4), flush=True)
    module.eval()
    for parameter in parameters:
        parameter.requires_grad_(False)


def main() -> None:
    """Plant, train, build, ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cifar", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--samples", type=int, nargs="+", default=[64])
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    data = open_data(arguments.cifar, "train")
    labels = np.asarray(data.labels)
    chosen = np.concatenate([np.flatnonzero(labels == number)[:500] for number in range(10)])
    images, labels = np.asarray(data.images)[chosen], labels[chosen]
    members = np.flatnonzero(labels == CLASS)
    planted = members[::2]
    images = plant(images, planted, 0)
    encoder = cocoax.load(f"cifar-resnet:{arguments.weights}")
    tuned = arguments.folder / "tuned.pt"
    assert encoder.owner is not None
    assert encoder.head is not None
    if tuned.exists():
        state = torch.load(tuned, weights_only=True)
        encoder.owner.load_state_dict(state["body"])
        encoder.head.load_state_dict(state["head"])
    else:
        fine_tune(encoder, images, labels, arguments.epochs)
        torch.save({"body": encoder.owner.state_dict(), "head": encoder.head.state_dict()}, tuned)
    asked = np.concatenate([np.flatnonzero(labels == number)[: 500 if number == CLASS else 150] for number in range(10)])
    images, labels, planted = images[asked], labels[asked], np.flatnonzero(np.isin(asked, planted))
    names = [data.classes[number] for number in labels]
    for samples in arguments.samples:
        method = cocoax.Rise(samples=samples, grid=4)
        index = build(encoder, images, arguments.folder / f"index-{samples}", method, labels=names)
        suspects = index.shortcuts().suspects
        certain = [int(suspect.id) for suspect in suspects if suspect.q < 0.05]
        cats = {"label": data.classes[CLASS]}
        survey = index.ask(Classes.of(index, "label").target(data.classes[CLASS]), cats)
        survey.save(arguments.folder / f"answer-{samples}.html")
        maps = torch.stack(list(survey.maps))[np.isin(survey.rows, planted)].mean(0)
        print(json.dumps({
            "samples": samples,
            "precision of the first 50": float(np.isin([int(suspect.id) for suspect in suspects[:50]], planted).mean()),
            "with q < .05": len(certain),
            "of those planted": float(np.isin(certain, planted).mean()) if certain else None,
            "share of the planted": float(np.isin(planted, certain).mean()),
            "mean map of the planted": [[round(value, 4) for value in row] for row in maps.tolist()],
        }, indent=1), flush=True)  # fmt: skip
    print(json.dumps(wrong_labels(arguments), indent=1))


def wrong_labels(arguments: argparse.Namespace, draws: int = 5) -> dict[str, Any]:
    """Exchange twenty labels of 2000 held-out images, some times; how many are among the 50 least typical?"""
    data = open_data(arguments.cifar, "test")
    labels, generator = np.asarray(data.labels[:2000]), np.random.default_rng(1)
    columns, wrong = {}, []
    for draw in range(draws):
        wrong.append(generator.choice(len(labels), 20, replace=False))
        noisy = labels.copy()
        noisy[wrong[-1]] = (labels[wrong[-1]] + generator.integers(1, 10, 20)) % 10
        columns[f"label {draw}"] = [data.classes[number] for number in noisy]
    encoder = cocoax.load(f"cifar-resnet:{arguments.weights}")
    method = cocoax.Rise(samples=20, grid=4)
    index = build(encoder, data.images[: len(labels)], arguments.folder / "labels", method, labels=columns)
    recall = []
    for name, own in zip(columns, wrong, strict=True):
        least = [int(typical.id) for typical in index.typicality(name)[:50]]
        recall.append(float(np.isin(own, least).mean()))
    return {"wrong labels among the 50 least typical": recall, "mean": float(np.mean(recall))}


if __name__ == "__main__":
    main()

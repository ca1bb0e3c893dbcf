"""Which columns make this row look like its class? A contrastive encoder of scikit-learn's wines, trained in seconds.

    python examples/columns.py

Corpus = one class, foil = the rest. Three methods, and insertion and deletion curves against random attributions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.datasets import load_wine
from torch import Tensor, nn

import cocoax

STEPS = 300
TEMPERATURE = 0.2


@dataclass(frozen=True)
class Wines:
    """Standardised rows, their classes, and the names of both."""

    rows: np.ndarray
    classes: np.ndarray
    columns: list[str]
    names: list[str]


def wines() -> Wines:
    """178 wines, 13 measurements, 3 growers."""
    data = load_wine()
    spread = data.data.std(0)
    spread[spread == 0] = 1  # a constant column says nothing, and must not become NaN
    rows = ((data.data - data.data.mean(0)) / spread).astype(np.float32)
    return Wines(rows, data.target, list(data.feature_names), [str(name).replace("_", " ") for name in data.target_names])


def train(rows: np.ndarray, classes: np.ndarray, seed: int = 0) -> nn.Module:
    """A small network whose representations are similar within a class (supervised contrastive learning)."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(rows.shape[1], 32), nn.GELU(), nn.Linear(32, 8))
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
        inputs, labels = torch.from_numpy(rows), torch.from_numpy(classes)
        same = (labels[:, None] == labels[None]) & ~torch.eye(len(labels), dtype=torch.bool)
        for _ in range(STEPS):
            # Columns go missing, so that the encoder copes with what explanations do to its inputs.
            kept = torch.rand_like(inputs) > 0.2
            loss = contrastive_loss(network(inputs * kept), same)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network.eval()


def contrastive_loss(representations: Tensor, same: Tensor) -> Tensor:
    """The mean over pairs of one class of how unlikely they are to find each other (Khosla et al. 2020)."""
    units = nn.functional.normalize(representations, dim=1)
    alike = (units @ units.T / TEMPERATURE).masked_fill(torch.eye(len(units), dtype=torch.bool), -1e9)
    return -(alike.log_softmax(1) * same).sum() / same.sum()


@dataclass(frozen=True)
class Answer:
    """What the example measured."""

    results: dict[str, cocoax.Attribution]
    deletion: dict[str, float]
    insertion: dict[str, float]


def explain(encoder: cocoax.TabularEncoder, data: Wines, index: int) -> Answer:
    """One wine: its own class rather than the rest, by several methods."""
    own = data.classes == data.classes[index]
    others = np.arange(len(own)) != index
    corpus = encoder.reference(data.rows[own & others], name=data.names[data.classes[index]])
    foil = encoder.reference(data.rows[~own], name="the rest")
    target = cocoax.contrastive_corpus_similarity(corpus, foil)
    methods: dict[str, cocoax.Method] = {
        "Rise": cocoax.Rise(samples=1000),
        "KernelShap": cocoax.KernelShap(samples=1024),
        "IntegratedGradients": cocoax.IntegratedGradients(),
        "random": cocoax.RandomAttribution(),
    }
    results = {name: method.explain(encoder, data.rows[index], target) for name, method in methods.items()}
    found = cocoax.curves(encoder, data.rows[index], list(results.values()), target)
    return Answer(
        results,
        {name: curve["deletion"].auc for name, curve in zip(results, found, strict=True)},
        {name: curve["insertion"].auc for name, curve in zip(results, found, strict=True)},
    )


def main() -> dict[str, dict[str, float]]:
    """Explain every seventh wine; print one and the mean areas under the curves of all."""
    data = wines()
    network = train(data.rows, data.classes)
    encoder = cocoax.TabularEncoder(network, columns=data.columns, background=data.rows, name="wines")
    chosen = list(range(0, len(data.rows), 7))
    answers = [explain(encoder, data, index) for index in chosen]
    for name, result in answers[0].results.items():
        top = ", ".join(f"{column} {value:+.3f}" for column, value in result.top(4))
        print(f"{name:20} {result.name}, score {result.score:+.3f}: {top}")
    print(f"\nmean area under the curve of {len(chosen)} wines   insertion (high is good)   deletion (low is good)")
    means = {}
    for name in answers[0].results:
        both = [float(np.mean([getattr(one, kind)[name] for one in answers])) for kind in ("insertion", "deletion")]
        means[name] = dict(zip(("insertion", "deletion"), both, strict=True))
        print(f"{name:20} {both[0]:35.3f} {both[1]:26.3f}")
    return means


if __name__ == "__main__":
    main()

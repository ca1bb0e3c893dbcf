from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from cocoax.evaluation import LinearProbe, accuracy
from cocoax.seeding import stream


def blobs(classes: int = 3, number: int = 150, seed: int = 0) -> tuple[Tensor, np.ndarray]:
    """Clouds that overlap, in five dimensions of different scale and place."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, number)
    centres = np.random.default_rng(99).normal(size=(classes, 5)) * 1.5
    points = (centres[labels] + random.normal(size=(number, 5))) * [1, 10, 0.1, 3, 1] + [0, 100, 0, -5, 1]
    return torch.from_numpy(points).float(), labels


@pytest.mark.parametrize("classes", [2, 3])
def test_logistic__equals_scikit_learn(classes: int) -> None:
    x, y = blobs(classes)
    asked = blobs(classes, seed=1)[0]
    head = LinearProbe("logistic", strength=0.3).fit(x, y)
    scaler = StandardScaler().fit(x.numpy())
    # torch's standard deviation is of a sample, scikit-learn's of a population
    scaler.scale_ = scaler.scale_ * math.sqrt(len(x) / (len(x) - 1))
    known = LogisticRegression(C=0.3, max_iter=1000).fit(scaler.transform(x.numpy()), y)
    np.testing.assert_allclose(
        head(asked).softmax(1).numpy(), known.predict_proba(scaler.transform(asked.numpy())), atol=2e-3
    )
    assert accuracy(head, x, y) == pytest.approx(known.score(scaler.transform(x.numpy()), y), abs=1e-6)


def test_sgd__equals_a_plain_loop() -> None:
    x, y = blobs()
    x = (x - x.mean(0)) / x.std(0)
    epochs, batch, rate, seed = 4, 40, 0.5, 6
    head = LinearProbe("sgd", epochs, batch, rate, seed=seed).fit(x, y)
    weight = torch.empty(3, 5).normal_(0, 0.01, generator=torch.Generator().manual_seed(seed))
    bias = torch.zeros(3)
    momenta = [torch.zeros(3, 5), torch.zeros(3)]
    one_hot = torch.eye(3)[torch.from_numpy(y)]
    for epoch in range(epochs):
        now = rate * (1 + math.cos(math.pi * epoch / epochs)) / 2
        order = stream(seed, epoch).permutation(len(x))
        for start in range(0, 150, 38):  # four batches of at most 40, as equal as can be
            rows = order[start : start + 38]
            wrong = ((x[rows] @ weight.T + bias).softmax(1) - one_hot[rows]) / len(rows)  # the gradient of the cross-entropy
            for number, (parameter, gradient) in enumerate([(weight, wrong.T @ x[rows]), (bias, wrong.sum(0))]):
                momenta[number] = 0.9 * momenta[number] + gradient
                parameter -= now * momenta[number]
    torch.testing.assert_close(head.weight, weight, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(head.bias, bias, atol=1e-4, rtol=1e-4)


def test_sgd__published_rate_learns() -> None:
    x, y = blobs(number=600)
    unit = nn.functional.normalize((x - x.mean(0)) / x.std(0), dim=1)
    assert accuracy(LinearProbe(epochs=20).fit(unit, y), unit, y) > 0.75


@pytest.mark.parametrize("solver", ["sgd", "logistic"])
def test_fit__seeded_frozen_and_in_single_precision(solver: str) -> None:
    x, y = blobs()
    probe = LinearProbe(solver, epochs=2, learning_rate=0.1)  # type: ignore[arg-type]
    first, again = probe.fit(x.double(), y), probe.fit(x.double(), torch.from_numpy(y))
    assert torch.equal(first.weight, again.weight)
    assert first.weight.dtype == torch.float32
    assert not any(parameter.requires_grad for parameter in first.parameters())


@pytest.mark.parametrize("solver", ["sgd", "logistic"])
def test_fit__works_where_gradients_are_off(solver: str) -> None:
    x, y = blobs()
    probe = LinearProbe(solver, epochs=2, learning_rate=0.1)  # type: ignore[arg-type]
    with torch.no_grad():
        head = probe.fit(x, y)
    torch.testing.assert_close(head.weight, probe.fit(x, y).weight)


@pytest.mark.parametrize("solver", ["sgd", "logistic"])
@pytest.mark.parametrize("missing", [0, 1, 3])
def test_fit__class_without_examples_is_never_chosen(solver: str, missing: int) -> None:
    x, y = blobs(3)
    y = np.array([label for label in range(4) if label != missing])[y]
    unit = (x - x.mean(0)) / x.std(0)
    head = LinearProbe(solver, epochs=20, learning_rate=1.0).fit(unit, y, classes=4)  # type: ignore[arg-type]
    assert head.out_features == 4
    assert accuracy(head, unit, y) > 0.7
    assert missing not in head(unit).argmax(1)


def test_logistic__constant_feature() -> None:
    x, y = blobs()
    x[:, 2] = 7
    head = LinearProbe("logistic").fit(x, y)
    assert float(head.weight[:, 2].abs().max()) == 0
    assert accuracy(head, x, y) > 0.6


X, Y = blobs()


@pytest.mark.parametrize(
    ("representations", "labels", "classes", "message"),
    [
        (X, Y[:-1], None, r"labels \[n\]. Got shapes \[150, 5\] and \[149\]"),
        (X, Y[:, None], None, r"Got shapes \[150, 5\] and \[150, 1\]"),
        (X[0], Y[:5], None, r"representations \[n, d\]"),
        (X[:0], Y[:0], None, r"Got shapes \[0, 5\]"),
        (X, Y, 2, "between 0 and 1. Got 0 to 2"),
        (X, Y - 1, None, "Got -1 to 1"),
        (X, Y * 0, None, "All labels are the same"),
        (X, Y + 0.5, None, "Labels must be integers.*Got float64"),
        (X, Y.astype(str), None, "Labels must be integers"),
        (X.log(), Y, None, "NaN or infinite"),
    ],
)
def test_fit__bad_input(representations: Tensor, labels: np.ndarray, classes: int | None, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        LinearProbe().fit(representations, labels, classes)


@pytest.mark.parametrize(
    "options", [{"solver": "adam"}, {"epochs": 0}, {"batch_size": 0}, {"learning_rate": 0}, {"strength": -1}]
)
def test_probe__bad_options(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"'sgd' or 'logistic'|at least one epoch"):
        LinearProbe(**options)  # type: ignore[arg-type]


def test_accuracy__counts() -> None:
    head = nn.Identity()
    z = torch.tensor([[1.0, 0], [0, 1], [1, 0], [3, 2]])
    assert accuracy(head, z, np.array([0, 1, 1, 0])) == 0.75
    with pytest.raises(ValueError, match=r"4 representations but labels of shape \[4, 1\]"):
        accuracy(head, z, np.zeros((4, 1), int))

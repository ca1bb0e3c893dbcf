"""Linear evaluation: a linear classifier on frozen representations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from cocoax.evaluation.curves import logits_of
from cocoax.progress import bar
from cocoax.seeding import stream


@dataclass(frozen=True)
class LinearProbe:
    """Fits a linear classifier to representations.

    ``solver="sgd"`` is the paper's training (momentum .9, no decay, cosine schedule; with SimSiam's rate of 30 and batches
    of 256); ``"logistic"`` is scikit-learn's logistic regression on standardised features, which has no rate to tune.

    Args:
        solver: ``"sgd"`` or ``"logistic"``.
        epochs: passes over the representations, for SGD.
        batch_size: representations in a step, for SGD.
        learning_rate: at the start, for SGD.
        strength: inverse of the penalty on the squared weights, for logistic regression (scikit-learn's C).
        seed: of the order of the representations.

    """

    solver: Literal["sgd", "logistic"] = "sgd"
    epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 30.0
    strength: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.solver not in ("sgd", "logistic"):
            raise ValueError(f"The 'solver' parameter must be 'sgd' or 'logistic'. Got {self.solver!r} instead.")
        if self.epochs < 1 or self.batch_size < 1 or not self.learning_rate > 0 or not self.strength > 0:
            raise ValueError("A probe needs at least one epoch, a batch of one, and a rate and a strength above 0.")

    def fit(self, representations: Tensor, labels: Tensor | np.ndarray, classes: int | None = None) -> nn.Linear:
        """Return a head ``d -> classes``, fitted to representations ``[n, d]`` with labels ``[n]``."""
        y = _labels(labels)
        if representations.ndim != 2 or y.shape != representations.shape[:1] or len(y) == 0:
            raise ValueError(
                f"A probe needs representations [n, d] and labels [n]. Got shapes {list(representations.shape)} and "
                f"{list(y.shape)} instead."
            )
        if not bool(torch.isfinite(representations).all()):
            raise ValueError("Some representations are NaN or infinite; leave those out.")
        number = int(y.max()) + 1 if classes is None else classes
        if int(y.min()) < 0 or int(y.max()) >= number:
            raise ValueError(f"Labels must lie between 0 and {number - 1}. Got {int(y.min())} to {int(y.max())} instead.")
        if len(torch.unique(y)) < 2:
            raise ValueError("All labels are the same; a probe needs at least two classes.")
        x = representations.detach().to("cpu", torch.float32)
        head = self._logistic(x, y, number) if self.solver == "logistic" else self._sgd(x, y, number)
        head.requires_grad_(False)
        return head

    def _sgd(self, x: Tensor, y: Tensor, classes: int) -> nn.Linear:
        head = _empty(x.shape[1], classes)
        with torch.no_grad():
            head.weight.normal_(0, 0.01, generator=torch.Generator().manual_seed(self.seed))
            head.bias.zero_()
        optimizer = torch.optim.SGD(head.parameters(), self.learning_rate, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.epochs)
        steps = math.ceil(len(x) / self.batch_size)
        with bar(self.epochs, "linear probe") as shown, torch.inference_mode(False), torch.enable_grad():
            for epoch in range(self.epochs):
                order = torch.from_numpy(stream(self.seed, epoch).permutation(len(x)))
                for chosen in order.chunk(steps):
                    loss = functional.cross_entropy(head(x[chosen]), y[chosen])
                    optimizer.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
                scheduler.step()
                shown.update()
        return head

    def _logistic(self, x: Tensor, y: Tensor, classes: int) -> nn.Linear:
        from sklearn.linear_model import LogisticRegression

        mean, scale = x.mean(0), x.std(0).clamp(min=1e-6)
        fitted = LogisticRegression(C=self.strength, max_iter=1000).fit(((x - mean) / scale).numpy(), y.numpy())
        weight, bias = torch.from_numpy(fitted.coef_).float(), torch.from_numpy(fitted.intercept_).float()
        if len(fitted.classes_) == 2:  # scikit-learn gives one row, the log odds of the second class
            weight, bias = torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2
        head = _empty(x.shape[1], classes)
        with torch.no_grad():  # the standardisation becomes part of the layer
            head.weight.zero_()
            head.bias.fill_(-1e4)  # a class without examples is never chosen
            rows = torch.from_numpy(fitted.classes_)
            head.weight[rows] = weight / scale
            head.bias[rows] = bias - (weight / scale) @ mean
        return head


def _empty(width: int, classes: int) -> nn.Linear:
    with torch.random.fork_rng():  # its initial weights, which are replaced, are drawn from the global random state
        return nn.Linear(width, classes)


def _labels(labels: Tensor | np.ndarray) -> Tensor:
    numbers = np.asarray(labels)
    if not np.issubdtype(numbers.dtype, np.integer):
        raise TypeError(f"Labels must be integers, the numbers of classes. Got {numbers.dtype} instead.")
    return torch.from_numpy(numbers.astype(np.int64))


def accuracy(head: nn.Module, representations: Tensor, labels: Tensor | np.ndarray) -> float:
    """Return how often the head's highest output is the label."""
    truth = _labels(labels)
    if truth.shape != representations.shape[:1]:
        raise ValueError(f"There are {len(representations)} representations but labels of shape {list(truth.shape)}.")
    return float((logits_of(head, representations).argmax(1) == truth).float().mean())

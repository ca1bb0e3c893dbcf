"""Measures η: what insertion and deletion curves plot.

Any target is a measure, and so is any function of representations; these are the ones that need a classifier.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cocoax.encoders.forward import evaluating
from cocoax.references import Reference

Head = Callable[[Tensor], Tensor]


def class_probability(head: Head, label: int, name: str | None = None) -> Callable[[Tensor], Tensor]:
    """Return a measure: the softmax probability that a classifier on top of the representation gives to a class."""
    if label < 0:
        raise ValueError(f"The 'label' parameter must be at least 0. Got {label} instead.")

    def probability(representations: Tensor) -> Tensor:
        return logits_of(head, representations, max(2, label + 1)).softmax(1)[:, label]

    probability.__name__ = name or f"probability of class {label}"
    return probability


def corpus_majority_probability(head: Head, corpus: Reference) -> Callable[[Tensor], Tensor]:
    """Return a measure: the probability of the corpus' majority class; the corpus needs ``keep_samples=True``."""
    label = majority_class(head, corpus)
    return class_probability(head, label, "corpus majority probability")


def majority_class(head: Head, corpus: Reference) -> int:
    """Return the class that most samples of the corpus are predicted to be; the lowest number among equals."""
    if corpus.samples is None:
        raise ValueError(f"The majority class of {corpus.name!r} needs its samples; encode it with keep_samples=True.")
    predicted = logits_of(head, corpus.samples).argmax(1)
    return int(torch.bincount(predicted, corpus.weights).argmax())


def logits_of(head: Head, representations: Tensor, classes: int = 2) -> Tensor:
    """Return the head's outputs ``[n, classes]`` for representations ``[n, d]``; raise if the head does not fit."""
    like = next(head.parameters(), representations) if isinstance(head, nn.Module) else representations
    try:
        with torch.no_grad(), evaluating(head if isinstance(head, nn.Module) else None):
            logits = head(representations.to(like)).to(representations)
    except RuntimeError as error:
        raise ValueError(
            f"The head does not take representations of {representations.shape[1]} dimensions ({error}); "
            "use the head that was trained on this encoder."
        ) from error
    if logits.ndim != 2 or len(logits) != len(representations) or logits.shape[1] < classes:
        raise ValueError(
            f"The head must give at least {classes} classes for each representation. Got shape {list(logits.shape)} instead."
        )
    return logits

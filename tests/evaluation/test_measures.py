from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import Tensor, nn

import cocoax
from cocoax.evaluation.curves import _majority_class, class_probability, corpus_majority_probability, logits_of
from tests.conftest import images

WEIGHT = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])


def head(representations: Tensor) -> Tensor:
    return representations @ WEIGHT.T


def reference(rows: list[list[float]], keep: bool = True) -> cocoax.Reference:
    return cocoax.Reference.from_representations(torch.tensor(rows), keep_samples=keep, name="cats")


def test_class_probability__is_the_softmax() -> None:
    z = torch.tensor([[0.3, -0.2], [2.0, 1.0], [-1.0, -4.0]])
    expected = softmax(z.numpy() @ WEIGHT.numpy().T, axis=1)
    for label in range(3):
        np.testing.assert_allclose(class_probability(head, label)(z).numpy(), expected[:, label], rtol=1e-6)


def test_corpus_majority_probability__by_hand() -> None:
    # Predicted classes 1, 1, 0, 2, 1: the second one has the majority, whatever the mean of the corpus is.
    corpus = reference([[0.0, 1.0], [1.0, 2.0], [90.0, 0.0], [-1.0, -1.0], [0.0, 0.5]])
    assert _majority_class(head, corpus) == 1
    measure = corpus_majority_probability(head, corpus)
    z = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    by_hand = [1 / 3, np.exp(2) / (np.exp(1) + np.exp(2) + np.exp(-3))]
    np.testing.assert_allclose(measure(z).numpy(), by_hand, rtol=1e-6)
    assert measure.__name__ == "corpus majority probability"


def test_majority_class__lowest_of_equals() -> None:
    assert _majority_class(head, reference([[-1.0, -1.0], [0.0, 1.0]])) == 1


def test_corpus_majority_probability__as_a_measure_of_a_curve(encoder: cocoax.Encoder) -> None:
    with torch.random.fork_rng():
        classifier = nn.Linear(8, 4).double().requires_grad_(False)  # another precision than the representations
    corpus = encoder.reference(images(6, seed=1), keep_samples=True)
    x = images(1)[0]
    curve = cocoax.deletion(encoder, x, images(1, channels=1)[0, 0], corpus_majority_probability(classifier, corpus), steps=5)
    label = int(torch.bincount(classifier(corpus.samples.double()).argmax(1)).argmax())  # type: ignore[union-attr]
    whole = classifier(encoder.represent([x]).double()).softmax(1)[0, label]
    assert float(curve.y[0]) == pytest.approx(float(whole), abs=1e-6)
    assert curve.name == "corpus majority probability"


def test_majority_class__needs_samples() -> None:
    with pytest.raises(ValueError, match=r"'cats' needs its samples.*keep_samples=True"):
        _majority_class(head, reference([[1.0, 0.0]], keep=False))


def test_class_probability__of_a_class_that_the_head_does_not_have() -> None:
    with pytest.raises(ValueError, match="at least 4 classes"):
        class_probability(head, 3)(torch.zeros(2, 2))
    with pytest.raises(ValueError, match=r"'label' parameter must be at least 0. Got -1"):
        class_probability(head, -1)


def test_logits_of__head_of_another_encoder() -> None:
    with torch.random.fork_rng():
        other = nn.Linear(5, 3)
    with pytest.raises(ValueError, match="does not take representations of 2 dimensions"):
        logits_of(other, torch.zeros(1, 2))


@pytest.mark.parametrize("wrong", [lambda z: z[:, 0], lambda z: z[:1], lambda z: z[:, :1]])
def test_logits_of__wrong_shape(wrong: object) -> None:
    with pytest.raises(ValueError, match="at least 2 classes for each representation"):
        logits_of(wrong, torch.zeros(3, 2))  # type: ignore[arg-type]


def test_logits_of__has_no_gradient() -> None:
    with torch.random.fork_rng():
        classifier = nn.Linear(2, 3)
    assert not logits_of(classifier, torch.ones(1, 2, requires_grad=True)).requires_grad

"""TCAV: the same figures as Captum's, and concepts that matter beside those that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from captum.concept import TCAV, Classifier, Concept
from scipy import stats
from torch import Tensor, nn

import cocoax
from cocoax.insight import tcav
from cocoax.insight.concept_vectors import _class_gradients, _concept_vector
from tests.conftest import SmallNet, images


class Head(nn.Module):
    """Two layers, so that the gradient depends on the representation."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.first = nn.Parameter(torch.randn(8, 12, generator=generator))
        self.second = nn.Parameter(torch.randn(12, 3, generator=generator))

    def forward(self, representations: Tensor) -> Tensor:
        return torch.tanh(representations @ self.first) @ self.second


@pytest.fixture
def classifier() -> cocoax.Encoder:
    return cocoax.Encoder(SmallNet().eval(), head=Head(), classes=["cat", "dog", "cow"])


class Whole(nn.Module):
    """The encoder with its head, as Captum takes it."""

    def __init__(self, encoder: cocoax.Encoder) -> None:
        super().__init__()
        assert isinstance(encoder.module, nn.Module)
        assert encoder.head is not None
        self.net, self.head = encoder.module, encoder.head

    def forward(self, batch: Tensor) -> Tensor:
        logits: Tensor = self.head(self.net(batch))
        return logits


def test_tcav__is_captums(classifier: cocoax.Encoder, tmp_path: Path) -> None:
    bright, other = images(10, seed=1) + 1, images(12, seed=2)
    concept, foil = classifier.reference(bright, name="bright"), classifier.reference(other, name="other")
    vector = _concept_vector(concept, foil)

    class Ours(Classifier):
        """Gives Captum the same concept vector, and its opposite for the foil."""

        def __init__(self) -> None:
            pass

        def train_and_eval(self, dataloader: Any, **options: Any) -> dict[str, Any]:
            return {}

        def weights(self) -> Tensor:
            return torch.stack([vector, -vector])

        def classes(self) -> list[int]:
            return [0, 1]

    concepts = [
        Concept(0, "bright", torch.utils.data.DataLoader(list(bright), batch_size=4)),  # type: ignore[arg-type]
        Concept(1, "other", torch.utils.data.DataLoader(list(other), batch_size=4)),  # type: ignore[arg-type]
    ]
    inputs = images(20, seed=5) + torch.linspace(-4, 4, 20)[:, None, None, None]
    with torch.random.fork_rng():  # its data loaders draw
        theirs = TCAV(Whole(classifier), ["net"], classifier=Ours(), save_path=str(tmp_path)).interpret(
            inputs, [concepts], target=1
        )["0-1"]["net"]
    (ours,) = tcav(classifier, inputs, concept, "dog", foil=foil, random=19)
    assert 0 < ours.score < 1
    assert ours.score == pytest.approx(float(theirs["sign_count"][0]))
    assert ours.magnitude == pytest.approx(float(theirs["magnitude"][0]), rel=1e-4)


def test_concept_vector__points_from_the_foil_to_the_concept(classifier: cocoax.Encoder) -> None:
    concept, foil = classifier.reference(images(20, seed=1) + 1), classifier.reference(images(20, seed=2) - 1)
    vector = _concept_vector(concept, foil)
    assert float(vector.norm()) == pytest.approx(1)
    assert concept.samples is not None
    assert foil.samples is not None
    assert float((concept.samples @ vector).min()) > float((foil.samples @ vector).max())


def test_class_gradients__are_finite_differences(classifier: cocoax.Encoder) -> None:
    representations = classifier.represent(images(2, seed=5))
    gradients, name = _class_gradients(classifier, representations, 2)
    assert name == "cow"
    assert classifier.head is not None
    step = 1e-2 * torch.eye(8)
    for row, gradient in zip(representations, gradients, strict=True):
        slow = (classifier.head(row + step) - classifier.head(row - step))[:, 2] / 2e-2
        torch.testing.assert_close(gradient, slow, atol=2e-2, rtol=2e-2)


def test_tcav__a_concept_that_the_head_looks_at_and_one_that_it_does_not() -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(200, 6)).astype(np.float32)
    head = _linear([[0, 0, 0, 0, 0, 0], [3, 0, 0, 0, 0, 0]])
    encoder = cocoax.TabularEncoder(nn.Identity(), columns=list("abcdef"), background=rows, name="table")
    encoder.head, encoder.classes = head, ["no", "yes"]
    foil = encoder.reference(rows, name="foil")
    first, second = rows[:40].copy(), rows[40:80].copy()
    first[:, 0] += 3
    second[:, 1] += 3
    concepts = [encoder.reference(second, name="second"), encoder.reference(first, name="first")]
    matters, does_not = tcav(encoder, rows[100:], concepts, "yes", foil=foil)
    assert matters.concept == "first"
    assert matters.score == 1
    assert matters.p_value == pytest.approx(1 / 40)
    assert "More of 'first' raises the score of 'yes'" in matters.sentence
    assert does_not.p_value > 0.05
    assert "no more to 'yes' than random concepts" in does_not.sentence


def _linear(weights: list[list[float]]) -> nn.Linear:
    with torch.random.fork_rng():
        head = nn.Linear(len(weights[0]), len(weights), bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.tensor(weights))
    return head


def test_tcav__p_values_of_random_concepts_are_uniform(classifier: cocoax.Encoder) -> None:
    inputs = classifier.represent(images(6, seed=1))
    p_values = []
    for seed in range(24):
        rows = np.random.default_rng(seed).normal(size=(60, 8))
        concept, foil = (
            cocoax.Reference.from_representations(part, name=name, space=classifier.space, keep_samples=True)
            for part, name in ((rows[:20], "random"), (rows[20:], "foil"))
        )
        p_values.append(tcav(classifier, inputs, concept, "cat", foil=foil, random=19, seed=seed)[0].p_value)
    assert stats.kstest(p_values, "uniform").pvalue > 0.01


def test_tcav__bad_input(classifier: cocoax.Encoder, encoder: cocoax.Encoder) -> None:
    concept, foil = classifier.reference(images(5, seed=1)), classifier.reference(images(5, seed=2))
    with pytest.raises(ValueError, match="has no head"):
        tcav(encoder, images(3), encoder.reference(images(5)), 0, foil=encoder.reference(images(5, seed=2)))
    with pytest.raises(ValueError, match="no class 'horse'"):
        tcav(classifier, images(3), concept, "horse", foil=foil)
    with pytest.raises(ValueError, match="has 1 sample; a concept needs at least two"):
        tcav(classifier, images(3), concept[0], 0, foil=foil)
    with pytest.raises(ValueError, match="0 concepts"):
        tcav(classifier, images(3), [], 0, foil=foil)
    means = classifier.reference(images(5, seed=1), keep_samples=False)
    with pytest.raises(ValueError, match="keeps only means, but TCAV"):
        tcav(classifier, images(3), means, 0, foil=foil)
    assert classifier.head is not None
    classifier.head.requires_grad_(False)
    with torch.no_grad():
        classifier.head.second.zero_()  # type: ignore[union-attr, operator]
    with pytest.raises(ValueError, match="no concept can matter"):
        tcav(classifier, images(3), concept, 0, foil=foil)

"""The localisation figure: five questions from one run, in the paper's layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch

import cocoax
from cocoax.data import caption, cifar100
from cocoax.paper.studies.localisation import explain_localisation
from cocoax.paper.studies.reproduce import run_localisation
from tests.conftest import SmallNet
from tests.paper.studies.tiny import OPTIONS
from tests.towers import picture, two_towers

RISE = cocoax.Rise(samples=20, grid=4)


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


def test_explain_localisation__by_definition() -> None:
    encoder = two_towers()
    found = explain_localisation(encoder, picture(), "rocket", "cup", RISE)

    def reference(*names: str) -> cocoax.Reference:
        return encoder.text.reference([caption(name) for name in names])

    rocket, cup = reference("rocket"), reference("cup")
    assert "cup" not in cifar100(without=["cup"])
    targets = [
        cocoax.representation_similarity(),
        cocoax.contrastive_corpus_similarity(rocket, reference(*cifar100(without=["rocket"]))),
        cocoax.contrastive_corpus_similarity(cup, reference(*cifar100(without=["cup"]))),
        cocoax.contrastive_corpus_similarity(rocket, cup),
        cocoax.contrastive_corpus_similarity(cup, rocket),
    ]
    expected = RISE.explain(encoder, picture(), targets)
    for answer, other in zip((found.label_free, *found.many, *found.single), expected, strict=True):
        torch.testing.assert_close(answer.values, other.values, rtol=0, atol=1e-5)
    assert [answer.name for answer in (*found.many, *found.single)] == [
        f"rocket rather than {len(cifar100(without=['rocket']))} other things",
        "cup rather than 99 other things",
        "rocket rather than cup",
        "cup rather than rocket",
    ]


def test_explain_localisation__one_run() -> None:
    encoder = two_towers()
    net = encoder.module
    assert isinstance(net, SmallNet)
    explain_localisation(encoder, picture(), "rocket", "cup", RISE)
    once = net.inputs
    explain_localisation(encoder, picture(), "cat", "dog", RISE)
    assert net.inputs == once + 1  # the probe


def test_localisation__two_rows_of_four() -> None:
    figure = explain_localisation(two_towers(), picture(), "rocket", "cup", RISE).plot()
    titles = [words for ax in figure.axes if (words := ax.get_title(loc="left"))]
    assert [titles[0], titles[1], titles[4], titles[5]] == ["many foils", "label-free", "a single foil", "label-free"]
    assert sum(title.startswith("rocket rather than") for title in titles) == 2


def test_run_localisation__writes_the_figure(tmp_path: Path) -> None:
    written = run_localisation(two_towers(), [(picture(), "rocket", "cup")], tmp_path, OPTIONS, progress=False)
    assert [path.name for path in written] == ["localisation.html", "localisation.json", "localisation.png"]
    assert all(path.stat().st_size > 200 for path in written)

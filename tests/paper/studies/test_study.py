"""What all studies share: options, presets, targets and the grid of masks."""

from __future__ import annotations

import pytest

import cocoax
from cocoax.paper.studies.study import PRESETS, Options, four_targets, grid_of
from tests.conftest import images


def test_presets__are_the_papers_scale_and_a_small_one() -> None:
    paper = PRESETS["paper"]
    assert (paper.runs, paper.explicands, paper.corpus, paper.foil) == (5, 25, 100, 1500)
    assert (paper.samples, paper.steps, paper.curve_steps) == (5000, 50, 50)
    small = PRESETS["small"]
    assert small.runs * small.explicands * small.samples <= paper.runs * paper.explicands * paper.samples / 100


@pytest.mark.parametrize("name", ["runs", "explicands", "corpus", "foil", "steps", "curve_steps"])
def test_options__at_least(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' parameter must be at least"):
        Options(**{name: 0})


@pytest.mark.parametrize(("side", "asked", "grid"), [(12, None, 4), (64, None, 4), (65, None, 7), (224, 5, 5)])
def test_grid_of__papers_choice_by_size(encoder: cocoax.Encoder, side: int, asked: int | None, grid: int) -> None:
    assert grid_of(encoder, images(1, height=side, width=side)[0], asked) == grid


def test_four_targets__are_the_papers(encoder: cocoax.Encoder) -> None:
    corpus, foil = encoder.reference(images(3)), encoder.reference(images(4, seed=1))
    z = encoder.represent(images(1, seed=2))
    own, unit = z[0] / z[0].norm(), z[0] / z[0].norm()
    c, f = (float(unit.double() @ reference.mean_unit) for reference in (corpus, foil))
    expected = {"label_free": 1.0, "contrastive_label_free": 1 - f, "corpus": c, "cocoa": c - f}
    found = {name: float(target.score(z, own)[0]) for name, target in four_targets(corpus, foil, "cosine").items()}
    assert found == pytest.approx(expected, abs=1e-5)

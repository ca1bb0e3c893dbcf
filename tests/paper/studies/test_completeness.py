from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cocoax
from cocoax.paper.studies import completeness as module
from cocoax.paper.studies.completeness import Completeness, _Gap, completeness
from cocoax.paper.studies.reproduce import run_study
from cocoax.paper.studies.study import _as_published, draw_run
from tests.conftest import images
from tests.paper.studies.tiny import HELD_OUT, OPTIONS, TRAIN, encoded, small_encoder


def test_completeness__gaps_close(encoder: cocoax.Encoder) -> None:
    encoder = _as_published(encoder)
    corpus, foil = encoder.reference(images(4, seed=1)), encoder.reference(images(5, seed=2))
    gaps = completeness(encoder, list(images(2)), corpus, foil, steps=(2, 60), samples=128, progress=False)
    assert len(gaps) == 2 * 3 * 8
    coarse, fine, shap = ([gap for gap in gaps if gap.method.endswith(end)] for end in (", 2 steps", ", 60 steps", "SHAP"))
    assert max(gap.gap for gap in fine) < 1e-4  # the network is smooth
    assert max(gap.gap for gap in fine) < max(gap.gap for gap in coarse)
    assert max(gap.gap for gap in shap) < 1e-4
    # What was to be explained is the score of the explicand minus that of its blur.
    target = cocoax.contrastive_corpus_similarity(corpus, foil, "dot")
    x = images(2)[0]
    scores = target.score(encoder.represent([x, cocoax.Blur()(x)]))
    own = next(gap for gap in fine if (gap.similarity, gap.target) == ("dot", "cocoa"))
    assert own.difference == pytest.approx(float(scores[0] - scores[1]), abs=1e-5)


def test_completeness__table_of_largest_gaps_and_mean_differences() -> None:
    gaps = (_Gap("IG", "dot", "cocoa", 1.0, 1.5), _Gap("IG", "dot", "cocoa", -0.5, -0.25), _Gap("IG", "dot", "corpus", 2, 2))
    assert Completeness(gaps).table().rows == (("IG", "dot", "cocoa", 0.875, 0.5), ("IG", "dot", "corpus", 2.0, 0.0))
    assert "5.00e-01 (IG, dot, cocoa)" in Completeness(gaps).summary


def test_run_study__completeness(tmp_path: Path) -> None:
    page, *_ = run_study("completeness", small_encoder(), TRAIN, HELD_OUT, tmp_path, OPTIONS, progress=False)
    assert "KernelSHAP" in page.read_text()


def test_run_study__completeness_draws_what_a_study_draws_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        module,
        "completeness",
        lambda encoder, images, *rest, **more: seen.extend(images) or completeness(encoder, images, *rest, **more),
    )
    labels = np.where(TRAIN.labels == 0, 1, TRAIN.labels)  # no picture of the first class is left for a corpus
    train, options = replace(TRAIN, labels=labels), replace(OPTIONS, classes=(2, 1))
    run_study("completeness", small_encoder(), train, HELD_OUT, tmp_path, options, progress=False)
    drawn = draw_run(train, HELD_OUT, classes=(2, 1), explicands=1, corpus=4, foil=6, seed=123)
    assert encoded(tmp_path / "tiny" / "completeness") == sorted([*drawn.corpora[2], *drawn.foils[2]])
    assert np.array_equal(seen, [HELD_OUT.images[explicand.number] for explicand in drawn.explicands])

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import cocoax
from cocoax.evaluation import randomised
from cocoax.paper.studies.curves import Repetition
from cocoax.paper.studies.insertion_deletion import RandomisationStudy
from cocoax.paper.studies.published import METHOD_TITLES
from cocoax.paper.studies.reproduce import run_study
from cocoax.seeding import stream
from tests.paper.studies.tiny import HELD_OUT, OPTIONS, TRAIN, small_encoder


def study(folder: Path) -> RandomisationStudy:
    return RandomisationStudy(small_encoder(), TRAIN, HELD_OUT, folder, OPTIONS)


def test_tasks__references_by_the_explained_encoder_and_measures_by_the_trained_one(tmp_path: Path) -> None:
    work = study(tmp_path)
    repetition = Repetition(work, work.draw(123))
    other = repetition.encoders["randomized"]
    assert other.space != work.encoder.space
    tasks = work.tasks(repetition, repetition.draw.explicands[0])
    assert [(task.case.key["class_case"], task.key["model"]) for task in tasks] == [
        ("same", "trained"),
        ("same", "randomized"),
        ("different", "trained"),
        ("different", "randomized"),
    ]
    for task in tasks:
        explained = work.encoder if task.key["model"] == "trained" else other
        assert task.encoder is explained
        assert {reference.space for reference in task.target.references} == {explained.space}
        measure = task.case.measures[0]
        assert isinstance(measure, cocoax.Target)
        assert {reference.space for reference in measure.references} == {work.encoder.space}
    explicand = repetition.draw.explicands[0]
    numbers = repetition.draw.corpora[explicand.own]
    expected = other.represent([TRAIN.images[number] for number in numbers])
    torch.testing.assert_close(repetition.corpus(explicand.own, model="randomized").samples, expected, atol=1e-5, rtol=0)


def test_explained__another_random_encoder_in_each_run(tmp_path: Path) -> None:
    work = study(tmp_path)
    spaces = {work.explained(seed)["randomized"].space for seed in (123, 456)}
    assert len(spaces) == 2


def test_run__one_value_by_hand(tmp_path: Path) -> None:
    work = study(tmp_path)
    records = work.run(progress=False)
    trained, other, drawn = work.encoder, randomised(work.encoder, 123), work.draw(123)
    explicand = drawn.explicands[3]
    image = HELD_OUT.images[explicand.number]
    corpus, foil = ([TRAIN.images[n] for n in kind[explicand.other]] for kind in (drawn.corpora, drawn.foils))
    target = cocoax.contrastive_corpus_similarity(other.reference(corpus), other.reference(foil))
    seed = int(stream(123, 2, 3).integers(2**31))
    attribution = cocoax.GradientShap(3, seed=seed).explain(other, image, target)
    measure = cocoax.contrastive_corpus_similarity(trained.reference(corpus), trained.reference(foil))
    expected = cocoax.insertion(trained, image, attribution, measure, steps=4).auc
    fields = ("class_case", "method", "model", "measure", "metric", "run", "explicand")
    key = ("different", "gradient_shap", "randomized", "contrastive_corpus_similarity", "insertion", 123, explicand.number)
    (found,) = records.grouped(*fields)[key]
    np.testing.assert_allclose(found["value"], expected, atol=1e-5)
    groups = records.grouped("class_case", "method", "model")
    assert {key[2] for key in groups if key[1] in METHOD_TITLES} == {"trained", "randomized"}


def test_run_study__randomised(tmp_path: Path) -> None:
    options = replace(OPTIONS, runs=1, explicands=1)
    written = run_study("randomised", small_encoder(), TRAIN, HELD_OUT, tmp_path, options, progress=False)
    assert len([path for path in written if path.suffix == ".tex"]) == 4
    assert "| RISE | Randomised |" in (tmp_path / "tiny" / "randomised" / "summary.md").read_text()

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch

import cocoax
from cocoax.paper.studies import insertion_deletion as sensitivity
from cocoax.paper.studies.curves import Repetition
from cocoax.paper.studies.insertion_deletion import CorpusSizeStudy, FoilSizeStudy, SizeStudy, size_table
from cocoax.paper.studies.reproduce import run_study
from cocoax.paper.studies.study import PRESETS
from cocoax.paper.studies.tables import Records
from tests.paper.studies.tiny import HELD_OUT, OPTIONS, TRAIN, small_encoder

mpl.use("Agg")


class Tiny(SizeStudy):
    name = "corpus-size"
    pairs = ((1, 6), (2, 6), (4, 3))


def test_pairs__are_the_papers(tmp_path: Path) -> None:
    corpus = CorpusSizeStudy(small_encoder(), TRAIN, HELD_OUT, tmp_path / "corpus", PRESETS["paper"])
    foil = FoilSizeStudy(small_encoder(), TRAIN, HELD_OUT, tmp_path / "foil", PRESETS["paper"])
    assert corpus.pairs == [(1, 1500), (5, 1500), (20, 1500), (50, 1500), (100, 1500), (200, 1500)]
    assert foil.pairs == [(100, 100), (100, 500), (100, 1500), (100, 2500), (100, 5000)]


def test_pairs__what_a_study_does_not_vary_is_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensitivity, "CORPUS_SIZES", (1, 3, 5))
    monkeypatch.setattr(sensitivity, "FOIL_SIZES", (2, 7))
    for study, pairs in ((CorpusSizeStudy, [(1, 6), (3, 6), (5, 6)]), (FoilSizeStudy, [(4, 2), (4, 7)])):
        work = study(small_encoder(), TRAIN, HELD_OUT, tmp_path / study.name, OPTIONS)
        assert work.pairs == pairs
        drawn = work.draw(123)
        assert (len(drawn.corpora[0]), len(drawn.foils[0])) == (pairs[-1][0], pairs[-1][1])


def test_tasks__sizes_are_nested_and_each_is_judged_by_its_own(tmp_path: Path) -> None:
    work = Tiny(small_encoder(), TRAIN, HELD_OUT, tmp_path, OPTIONS)
    repetition = Repetition(work, work.draw(123))
    explicand = repetition.draw.explicands[0]
    tasks = work.tasks(repetition, explicand)
    assert [(task.case.key["class_case"], task.case.key["corpus"], task.case.key["foil"]) for task in tasks] == [
        (case, *pair) for case in ("same", "different") for pair in Tiny.pairs
    ]
    for task, label in zip(tasks, [explicand.own] * 3 + [explicand.other] * 3, strict=True):
        corpus, foil = task.target.references
        size, foil_size = task.case.key["corpus"], task.case.key["foil"]
        assert (corpus.count, foil.count) == (size, foil_size)
        whole = repetition.corpus(label)
        assert whole.samples is not None
        torch.testing.assert_close(corpus.samples, whole.samples[:size])
        measure = task.case.measures[0]
        assert isinstance(measure, cocoax.Target)
        assert measure.references == [corpus, foil]


def test_run__random_is_a_reference_for_each_size(tmp_path: Path) -> None:
    records = Tiny(small_encoder(), TRAIN, HELD_OUT, tmp_path, OPTIONS).run(progress=False)
    groups = records.grouped("class_case", "method", "corpus", "foil", "measure", "metric")
    for pair in Tiny.pairs:
        for method in ("random", "rise", "integrated_gradients"):
            assert len(groups["same", method, *pair, "corpus_majority_probability", "insertion"]) == 12
    assert len({key[2:4] for key in groups}) == 3


def test_run__one_value_by_hand(tmp_path: Path) -> None:
    work = Tiny(small_encoder(), TRAIN, HELD_OUT, tmp_path, OPTIONS)
    records = work.run(progress=False)
    drawn, encoder = work.draw(456), work.encoder
    explicand = drawn.explicands[1]
    corpus = encoder.reference([TRAIN.images[n] for n in drawn.corpora[explicand.own][:4]])
    foil = encoder.reference([TRAIN.images[n] for n in drawn.foils[explicand.own][:3]])
    target = cocoax.contrastive_corpus_similarity(corpus, foil)
    image = HELD_OUT.images[explicand.number]
    attribution = cocoax.IntegratedGradients(3).explain(encoder, image, target)
    expected = cocoax.insertion(encoder, image, attribution, target, steps=4).auc
    fields = ("class_case", "method", "corpus", "foil", "measure", "metric", "run", "explicand")
    key = ("same", "integrated_gradients", 4, 3, "contrastive_corpus_similarity", "insertion", 456, explicand.number)
    (found,) = records.grouped(*fields)[key]
    np.testing.assert_allclose(found["value"], expected, atol=1e-5)


def test_study__needs_its_own_sizes_whatever_the_options_say(tmp_path: Path) -> None:
    work = CorpusSizeStudy(small_encoder(), TRAIN, HELD_OUT, tmp_path, OPTIONS)
    with pytest.raises(ValueError, match="has 8 images but 200 corpus images were asked for"):
        work.run(progress=False)


def test_run_study__sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FoilSizeStudy, "pairs", ((3, 2), (3, 6)))
    options = replace(OPTIONS, explicands=1)
    written = run_study("foil-size", small_encoder(), TRAIN, HELD_OUT, tmp_path, options, progress=False)
    assert {path.name for path in written if path.suffix == ".png"} == {"foil_size_same.png", "foil_size_different.png"}
    assert "| 3 | 2 |" in (tmp_path / "tiny" / "foil-size" / "summary.md").read_text()


def test_size_table__a_line_for_each_size() -> None:
    rows = [{"class_case": "same", "corpus": size, "foil": 9, "method": "rise"} for size in (1, 5)]
    curve = torch.arange(2.0)[:, None, None].expand(2, 1, 3) + 0.25
    made = size_table(
        Records([({"insertion": curve, "deletion": -curve}, {"run": 1, "explicand": 0, "rows": rows, "measures": ["a_b"]})])
    )
    assert "| same | a b | RISE | 1 | 9 | 0.250 (–) | -0.250 (–) |" in made
    assert "| same | a b | RISE | 5 | 9 | 1.250 (–) | -1.250 (–) |" in made

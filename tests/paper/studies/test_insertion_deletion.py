"""The studies of insertion and deletion: one value of each by hand, and the files they write."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch

import cocoax
from cocoax.evaluation import paired_difference, randomised
from cocoax.paper.studies import insertion_deletion as sensitivity
from cocoax.paper.studies.insertion_deletion import (
    CorpusSizeStudy,
    FoilSizeStudy,
    RandomisationStudy,
    _SizeStudy,
)
from cocoax.paper.studies.published import MEASURES, METHOD_TITLES, TARGET_TITLES
from cocoax.paper.studies.reproduce import run_study
from cocoax.paper.studies.study import PRESETS
from cocoax.paper.studies.tables import Records, areas_by_size, differences
from cocoax.seeding import stream
from tests.paper.studies.tiny import HELD_OUT, OPTIONS, TRAIN, made_up, small_encoder

mpl.use("Agg")


def test_run_study__main_writes_tables_plots_and_values(tmp_path: Path) -> None:
    name = "corpus_majority_prob_unnorm_diff_class"
    options = replace(OPTIONS, runs=1, explicands=1)
    written = run_study(name, small_encoder(name="a:b/c"), TRAIN, HELD_OUT, tmp_path, options, progress=False)
    folder = tmp_path / "a-b-c" / "main"
    assert {path.stem for path in written[-2:]} == {name}  # what was asked for comes last
    assert all(path.parent == folder and path.stat().st_size > 500 for path in written)
    kinds = [path.suffix for path in written]
    assert (kinds.count(".md"), kinds.count(".tex"), kinds.count(".png"), kinds.count(".pdf")) == (8, 8, 4, 4)
    page = (folder / "results.html").read_text()
    assert "3 explicands" in page
    assert page.count("COCOA minus other targets") == 8
    assert len(json.loads((folder / "results.json").read_text())["values"]) == 3 * 2 * (8 * 4 + 5) * 2 * 2
    assert not list(tmp_path.rglob("*.part"))


def test_differences__are_paired() -> None:
    records = made_up("main")
    groups = records.grouped("class_case", "measure", "similarity", "method", "metric", "target")
    key = ("same", MEASURES[0], "cosine", "rise", "insertion")
    expected = paired_difference(*([record["value"] for record in groups[(*key, target)]] for target in ("cocoa", "corpus")))
    made = differences(records)
    rows = {row[:6]: row[6:] for row in made.table().rows}
    assert len(rows) == 2 * 2 * 2 * 4 * 3 * 2
    mean, half, _ = rows["same", MEASURES[0], "cosine", "rise", "corpus", "insertion"]
    assert (mean, half) == pytest.approx((expected.mean, expected.half))
    table = next(
        view for view in made.views() if view.title and view.title.startswith("Contrastive corpus similarity, cosine, s")
    )
    shown = dict(zip(table.columns, next(row for row in table.rows if row[0] == "RISE"), strict=True))  # type: ignore[attr-defined]
    assert shown["Corpus ↑"].startswith(f"{expected.mean:+.3f} ({expected.half:.3f})")


@pytest.mark.parametrize(
    ("cocoa", "metric", "verdict"),
    [
        (1, "insertion", "better"),
        (-1, "insertion", "worse"),
        (-1, "deletion", "better"),
        (1, "deletion", "worse"),
        (0, "deletion", ""),
    ],
)
def test_differences__say_which_target_is_better(cocoa: float, metric: str, verdict: str) -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, 8)
    rows = [
        {"class_case": "same", "similarity": "cosine", "method": "rise", "target": target, "model": "trained"}
        for target in TARGET_TITLES
    ]
    units: list[Any] = []
    for number in range(8):
        level = torch.tensor([[0.0], [0.0], [0.0], [cocoa + noise[number] - noise.mean()]])
        curve = level[..., None].expand(4, 1, 3)
        units.append(
            ({"insertion": curve, "deletion": curve}, {"run": 1, "explicand": number, "rows": rows, "measures": MEASURES[:1]})
        )
    found = differences(Records(units)).table().records()
    assert {row["cocoa is"] for row in found if row["metric"] == metric} == {verdict}


def randomisation_study(folder: Path) -> RandomisationStudy:
    return RandomisationStudy(small_encoder(), TRAIN, HELD_OUT, folder, OPTIONS)


def test_explained__another_random_encoder_in_each_run(tmp_path: Path) -> None:
    work = randomisation_study(tmp_path)
    spaces = {work.explained(seed)["randomized"].space for seed in (123, 456)}
    assert len(spaces) == 2


def test_randomisation__one_value_by_hand(tmp_path: Path) -> None:
    work = randomisation_study(tmp_path)
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
    assert all("| RISE | Randomised |" in path.read_text() for path in written if path.suffix == ".md")


class Tiny(_SizeStudy):
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


def test_sizes__one_value_by_hand(tmp_path: Path) -> None:
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


def test_run_study__sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FoilSizeStudy, "pairs", ((3, 2), (3, 6)))
    options = replace(OPTIONS, explicands=1)
    written = run_study("foil-size", small_encoder(), TRAIN, HELD_OUT, tmp_path, options, progress=False)
    assert {path.name for path in written if path.suffix == ".png"} == {"foil_size_same.png", "foil_size_different.png"}
    (table,) = (path.read_text() for path in written if path.name == "foil_size_same.csv")
    assert ",3,2,insertion," in table


def test_areas_by_size__a_row_for_each_size() -> None:
    rows = [{"class_case": "same", "corpus": size, "foil": 9, "method": "rise"} for size in (1, 5)]
    curve = torch.arange(2.0)[:, None, None].expand(2, 1, 3) + 0.25
    unit: Any = ({"insertion": curve, "deletion": -curve}, {"run": 1, "explicand": 0, "rows": rows, "measures": ["a"]})
    (part,) = areas_by_size(Records([unit]), "corpus")
    assert [row[3:7] for row in part.table().rows] == [
        (1, 9, "insertion", 0.25),
        (5, 9, "insertion", 1.25),
        (1, 9, "deletion", -0.25),
        (5, 9, "deletion", -1.25),
    ]

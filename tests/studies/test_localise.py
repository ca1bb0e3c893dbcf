"""Localisation: each measure against its definition, written slowly, and the statistics."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats

import cocoax
from cocoax.data.annotated import Example, collage_examples
from cocoax.inputs import Picture
from cocoax.studies.localise import (
    Record,
    best_iou,
    bootstrap,
    describe,
    energy_inside,
    iou_at,
    localise,
    measure,
    pointing_game,
    seen_mask,
    summarise,
    wilson,
)
from tests.conftest import SmallNet
from tests.data.test_annotated import random_mask
from tests.towers import picture, two_towers


def random_map(seed: int, levels: int | None = None) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.normal(size=(12, 15)) if levels is None else random.integers(-levels, levels, (12, 15)).astype(float)


CASES = [(random_map(seed, levels), random_mask(seed, 12, 15)) for seed in range(4) for levels in (None, 3)]


# --- one map, one mask ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("values", "mask"), CASES)
@pytest.mark.parametrize("tolerance", [0.0, 1.5, 4.0])
def test_pointing_game__by_definition(values: np.ndarray, mask: np.ndarray, tolerance: float) -> None:
    inside = [(row, column) for row in range(12) for column in range(15) if mask[row, column]]
    hits = []
    for row in range(12):
        for column in range(15):
            if values[row, column] == values.max():
                nearest = min(((2 * (row - r)) ** 2 + (3 * (column - c)) ** 2) ** 0.5 for r, c in inside)
                hits.append(nearest <= tolerance)
    assert pointing_game(values, mask, tolerance, pixel=(2, 3)) == pytest.approx(sum(hits) / len(hits))


def test_pointing_game__constant_map_hits_by_chance() -> None:
    mask = random_mask(0, 12, 15)
    assert pointing_game(np.zeros((12, 15)), mask) == pytest.approx(mask.mean())


@pytest.mark.parametrize(("values", "mask"), CASES)
def test_energy_inside__by_definition(values: np.ndarray, mask: np.ndarray) -> None:
    inside = sum(max(value, 0.0) for value, on in zip(values.flat, mask.flat, strict=True) if on)
    assert energy_inside(values, mask) == pytest.approx(inside / sum(max(value, 0.0) for value in values.flat))


def test_energy_inside__no_heat_at_all() -> None:
    assert energy_inside(-np.ones((12, 15)), random_mask(0, 12, 15)) == 0


def iou(first: np.ndarray, second: np.ndarray) -> float:
    return float((first & second).sum() / (first | second).sum())


@pytest.mark.parametrize(("values", "mask"), CASES)
def test_iou__at_a_fraction_and_at_the_best_threshold(values: np.ndarray, mask: np.ndarray) -> None:
    for fraction in (0.2, 0.5, 1.0):
        assert iou_at(values, mask, fraction) == pytest.approx(iou(values >= fraction * values.max(), mask))
    assert best_iou(values, mask) == pytest.approx(max(iou(values >= threshold, mask) for threshold in np.unique(values)))


def test_iou__perfect_and_none() -> None:
    mask = random_mask(0, 12, 15)
    assert iou_at(mask.astype(float), mask) == best_iou(mask.astype(float), mask) == 1
    assert iou_at(-mask.astype(float), mask) == 0


def test_measures__bad_input() -> None:
    values, mask = random_map(0), random_mask(0, 12, 15)
    with pytest.raises(ValueError, match="must have the same shape"):
        best_iou(values, mask.T)
    with pytest.raises(ValueError, match="at least one pixel set"):
        energy_inside(values, np.zeros((12, 15), bool))
    with pytest.raises(ValueError, match="'tolerance' parameter must be at least 0"):
        pointing_game(values, mask, -1)
    with pytest.raises(ValueError, match="'fraction' parameter must lie between 0 and 1"):
        iou_at(values, mask, 0)


def test_seen_mask__the_part_under_the_map() -> None:
    mask = random_mask(3, 40, 60)
    assert np.array_equal(seen_mask(mask, (0, 0, 1, 1), 40, 60), mask)
    assert np.array_equal(seen_mask(mask, (0.25, 0.5, 0.75, 1.0), 20, 30), mask[20:, 15:45])
    assert np.array_equal(seen_mask(mask, (0, 0, 1, 1), 80, 120), mask.repeat(2, 0).repeat(2, 1))


def test_seen_mask__padding_is_not_on_anything() -> None:
    seen = seen_mask(np.ones((10, 10), bool), (-0.5, 0.0, 1.5, 1.0), 10, 20)
    assert np.array_equal(seen.all(0), [False] * 5 + [True] * 10 + [False] * 5)


def test_measure__relative_to_neutral_and_found() -> None:
    left, right = np.zeros((8, 8), bool), np.zeros((8, 8), bool)
    left[:, :4], right[:, 4:] = True, True
    values = torch.full((8, 8), 0.9)
    values[:, :2], values[:, 4:] = 1.5, 0.8
    attribution = cocoax.Attribution(values, 1.0, 0.0, neutral=0.9)
    found = measure(attribution, {"cat": left, "dog": right}, "cat", picture="p", target="corpus")
    assert found is not None
    assert (found.found, found.pointing, found.energy, found.iou, found.area) == (True, 1.0, 1.0, 0.5, 0.5)
    assert found.best_iou == pytest.approx(1.0)  # everything above 0.8 is the left half
    other = measure(attribution, {"cat": left, "dog": right}, "dog")
    assert other is not None
    assert (other.found, other.pointing, other.energy) == (False, 0.0, 0.0)
    alone = measure(attribution, {"cat": left}, "cat")
    assert alone is not None
    assert alone.found is None


def test_measure__tolerance_in_pixels_of_the_picture() -> None:
    """The hottest pixel of the map is 2 of its pixels, 8 of the picture's, away from the mask."""
    mask = np.zeros((32, 32), bool)
    mask[:, :4] = True
    values = torch.zeros(8, 8)
    values[0, 2] = 1
    attribution = cocoax.Attribution(values, 1.0, 0.0)
    for tolerance, hit in ((7.9, 0), (8.0, 1)):
        found = measure(attribution, {"cat": mask}, "cat", tolerance=tolerance)
        assert found is not None
        assert found.pointing == hit


def test_measure__class_outside_of_what_was_seen() -> None:
    mask = np.zeros((32, 32), bool)
    mask[:, :4] = True
    attribution = cocoax.Attribution(torch.zeros(8, 8), 1.0, 0.0, display=Picture(box=(0.5, 0.0, 1.0, 1.0)))
    assert measure(attribution, {"cat": mask}, "cat") is None


# --- many pictures ----------------------------------------------------------------------------------------------------


def example(number: int, classes: tuple[str, ...] = ("cat", "dog")) -> Example:
    def load() -> tuple[Image.Image, dict[str, np.ndarray]]:
        masks = {}
        for index, name in enumerate(classes):
            masks[name] = np.zeros((24, 24), bool)
            masks[name][:, index * 12 : (index + 1) * 12] = True
        return picture(number), masks

    return Example(f"picture {number}", classes, load)


RISE = cocoax.Rise(samples=30, grid=4)


def test_localise__every_class_in_three_ways_by_definition() -> None:
    encoder = two_towers()
    records = localise(encoder, [example(0), example(1, ("cat",))], RISE, template="this is a {}")
    assert [(one.picture, one.name, one.target) for one in records] == [
        *((f"picture {0}", name, kind) for name in ("cat", "dog") for kind in ("contrastive", "corpus", "label-free")),
        ("picture 1", "cat", "corpus"),
        ("picture 1", "cat", "label-free"),
    ]
    cat, dog = (encoder.text.reference([f"this is a {name}"]) for name in ("cat", "dog"))
    targets = [
        cocoax.contrastive_corpus_similarity(cat, dog),
        cocoax.corpus_similarity(cat),
        cocoax.representation_similarity(),
    ]
    maps = RISE.explain(encoder, picture(0), targets)
    masks = example(0).load()[1]
    for record, attribution in zip(records[:3], maps, strict=True):
        expected = measure(attribution, masks, "cat", picture="picture 0", target=record.target)
        assert expected is not None
        assert record.found == expected.found
        assert record.energy == pytest.approx(expected.energy, abs=1e-4)
        assert record.best_iou == pytest.approx(expected.best_iou, abs=1e-2)


def test_localise__foil_of_ones_own_leaves_out_the_class_itself() -> None:
    encoder = two_towers()
    (record, *_) = localise(encoder, [example(0)], RISE, foil=["cat", "rocket", "cup"])
    like = encoder.text.reference(["a cat"])
    foil = encoder.text.reference(["a rocket", "a cup"])
    attribution = RISE.explain(encoder, picture(0), cocoax.contrastive_corpus_similarity(like, foil))
    expected = measure(attribution, example(0).load()[1], "cat")
    assert expected is not None
    assert record.energy == pytest.approx(expected.energy, abs=1e-4)


def test_localise__goes_on_where_it_stopped(tmp_path: Path) -> None:
    encoder = two_towers()
    net = encoder.module
    assert isinstance(net, SmallNet)
    examples = [example(0), example(1), example(2)]
    first = localise(encoder, examples[:2], RISE, folder=tmp_path)
    net.inputs = 0
    assert localise(encoder, examples[:2], RISE, folder=tmp_path) == first
    assert net.inputs == 0
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"key": "cut o')  # as a crash leaves it
    every = localise(encoder, examples, RISE, folder=tmp_path)
    assert every[: len(first)] == first
    assert net.inputs == 32
    assert localise(encoder, examples, RISE, folder=tmp_path) == every  # the cut line has not spoilt the one after it
    assert net.inputs == 32
    assert every == localise(encoder, examples, RISE)


@pytest.mark.parametrize("change", [{"template": "this {}"}, {"tolerance": 3.0}, {"fraction": 0.3}, {"foil": ["rocket"]}])
def test_localise__kept_runs_answer_other_questions(change: dict[str, Any], tmp_path: Path) -> None:
    encoder = two_towers()
    net = encoder.module
    assert isinstance(net, SmallNet)
    localise(encoder, [example(0)], RISE, folder=tmp_path, keep_runs=True)
    net.inputs = 0
    found = localise(encoder, [example(0)], RISE, folder=tmp_path, keep_runs=True, **change)
    assert net.inputs == 0
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2
    assert found == localise(encoder, [example(0)], RISE, **change)


def test_localise__changed_picture_is_computed_again(tmp_path: Path) -> None:
    encoder = two_towers()
    localise(encoder, [example(0)], RISE, folder=tmp_path)
    localise(encoder, [replace(example(0), version="2")], RISE, folder=tmp_path)
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2


def test_localise__another_baseline_picture_is_computed_again(tmp_path: Path) -> None:
    encoder = two_towers()
    shape = encoder.explicand(picture(0)).tensor.shape
    black, white = (replace(RISE, baseline=cocoax.Fixed(torch.full(shape, value))) for value in (0.0, 1.0))
    for method in (black, white, black):
        localise(encoder, [example(0)], method, folder=tmp_path)
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2


def test_localise__tells_of_pictures_with_nothing_to_see() -> None:
    def load() -> tuple[Image.Image, dict[str, np.ndarray]]:
        mask = np.zeros((24, 24), bool)
        mask[0, 0] = True  # cut off by preprocessing
        return picture(), {"cat": mask}

    told: list[str] = []
    assert localise(two_towers(), [Example("empty", ("cat",), load)], RISE, tell=told.append) == []
    assert told == ["empty: nothing that is annotated lies in the part that the encoder sees"]


def test_localise__bad_input() -> None:
    with pytest.raises(ValueError, match="There are 0 pictures"):
        localise(two_towers(), [], RISE)
    with pytest.raises(ValueError, match="'template' parameter"):
        localise(two_towers(), [example(0)], RISE, template="no place for a name")


# --- statistics -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("successes", "count"), [(0, 5), (3, 7), (170, 200), (4, 4)])
def test_wilson__as_scipy_has_it(successes: int, count: int) -> None:
    expected = stats.binomtest(successes, count).proportion_ci(method="wilson")
    assert wilson(successes, count) == pytest.approx((expected.low, expected.high), abs=1e-6)
    assert all(np.isnan(wilson(0, 0)))


def test_bootstrap__covers_as_it_should() -> None:
    """Means of groups of correlated values: the interval covers the truth in about 95 % of repetitions."""
    covered = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        values = random.normal(size=(40, 1)).repeat(4, 1) + 0.3 * random.normal(size=(40, 4))
        low, high = bootstrap(values.ravel().tolist(), [str(group) for group in range(40) for _ in range(4)], draws=500)
        covered += low <= 0 <= high
    assert 0.88 <= covered / 200 <= 0.99


def test_bootstrap__one_group_says_nothing() -> None:
    assert all(np.isnan(bootstrap([0.1, 0.2], ["a", "a"])))


def test_summarise__overall_and_per_class() -> None:
    one = Record("p", "cat", "corpus", True, 1.0, 0.5, 0.2, 0.4, 0.25)
    records = [one, replace(one, picture="q", found=False, energy=0.7), replace(one, picture="q", name="dog", found=None)]
    records.append(replace(one, target="label-free", energy=0.1))
    summaries = {(summary.target, summary.name): summary for summary in summarise(records)}
    assert set(summaries) == {("corpus", ""), ("label-free", ""), ("corpus", "cat"), ("corpus", "dog"), ("label-free", "cat")}
    overall = summaries["corpus", ""]
    assert (overall.questions, overall.found.count, overall.found.mean) == (3, 2, 0.5)
    assert (overall.found.low, overall.found.high) == wilson(1, 2)
    assert overall.energy.mean == pytest.approx((0.5 + 0.7 + 0.5) / 3)
    assert overall.energy.low <= overall.energy.mean <= overall.energy.high
    assert str(summaries["corpus", "dog"].found) == "–"
    assert str(overall.found) == "50.0% [9.5%, 90.5%]"
    assert [summary.name for summary in summarise(records, per_class=False)] == ["", ""]
    assert json.loads(json.dumps(describe(summarise(records)), allow_nan=False))[0]["questions"] == 3
    with pytest.raises(ValueError, match="There are 0 results"):
        summarise([])


@pytest.mark.slow
@pytest.mark.skipif(
    "COCOAX_PHOTOS" not in os.environ, reason="set COCOAX_PHOTOS to a folder of photos named after their classes"
)
def test_localise__starter_finds_four_photos_in_a_collage() -> None:
    """The figures of the documentation, on fewer collages: contrast helps, and label-free cannot do better than chance."""
    examples = collage_examples(os.environ["COCOAX_PHOTOS"], count=12)
    records = localise(cocoax.load("starter"), examples, cocoax.Rise(samples=500))
    found = {summary.target: summary.found for summary in summarise(records, per_class=False)}
    assert found["label-free"].mean == 0.25
    assert found["contrastive"].mean > 0.7
    assert found["contrastive"].mean >= found["corpus"].mean > 0.5

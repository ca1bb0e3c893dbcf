from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import false_discovery_control

from cocoax.datasets import Index, build
from tests.datasets import photos


def test_shortcuts__an_input_that_rests_on_another_place_comes_first(tmp_path: Path) -> None:
    images = [photos.pixels("dawn", seed) for seed in range(20)] + [photos.pixels("dusk", 100 + seed) for seed in range(22)]
    images[4][:4, :4], images[4][4:, :8] = 255, 30  # a dawn for the wrong reason: one bright corner
    labels = ["dawn"] * 20 + ["dusk"] * 20 + ["noon", None]
    index = build(photos.encoder(), images, tmp_path / "index", replace(photos.METHOD, samples=400), labels=labels)
    found = index.shortcuts()
    assert found.suspects[0].row == 4
    assert found.suspects[0].cell == (0, 0)
    assert found.suspects[0].p == pytest.approx(1 / 21)
    assert len(found.suspects) == 40  # a class of one, and an input of no class, are left out
    assert found.attributions(1)[0].score == pytest.approx(float(index.ask(found.classes.target("dawn")).scores[4]), abs=1e-6)


def test_shortcuts__figures_are_those_of_a_slow_count(tmp_path: Path) -> None:
    images = [photos.pixels(kind, seed) for seed, kind in enumerate(["dawn"] * 25 + ["dusk"] * 25)]
    labels = ["a", "b"] * 25
    own = build(photos.encoder(), images, tmp_path / "index", photos.METHOD, labels=labels)
    found = own.shortcuts()
    unusual = {}
    for name in ("a", "b"):
        members = [row for row, label in enumerate(labels) if label == name]
        maps = np.stack([own.field(row).explain(found.classes.target(name)).values.double().numpy() for row in members])
        middle = np.median(maps, 0)
        spread = 1.4826 * np.median(np.abs(maps - middle), 0)
        z = (maps - middle) / np.maximum(spread, np.median(spread) / 2)
        unusual[name] = dict(zip(members, z.max((1, 2)), strict=True))
    for suspect in found.suspects:
        assert suspect.z == pytest.approx(unusual[suspect.label][suspect.row], rel=1e-3)
        others = [z for name, own_z in unusual.items() if name != suspect.label for z in own_z.values()]
        assert suspect.p == pytest.approx((1 + sum(z >= suspect.z for z in others)) / (1 + len(others)), abs=1 / 26 + 1e-9)
    p = [suspect.p for suspect in found.suspects]
    assert np.allclose([suspect.q for suspect in found.suspects], false_discovery_control(p), atol=1e-12)
    assert found.to_dataframe()["z"].is_monotonic_decreasing


def test_shortcuts__of_texts_there_are_none(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(index), "cells", None)
    with pytest.raises(ValueError, match="Inputs of different shapes, such as texts, have no places in common"):
        index.shortcuts()


def test_classes__one_class_has_nothing_to_be_told_apart_from(index: Index) -> None:
    with pytest.raises(ValueError, match="'label' has 0 with at least 20 inputs"):
        index.shortcuts(where={"label": "dawn"})
    with pytest.raises(ValueError, match="There is no column 'kind'"):
        index.typicality("kind")


def test_typicality__a_wrong_label_comes_first(tmp_path: Path) -> None:
    images = [photos.pixels("dawn", seed) for seed in range(8)] + [photos.pixels("dusk", 100 + seed) for seed in range(8)]
    labels = ["dawn"] * 8 + ["dusk"] * 8
    labels[3] = "dusk"
    index = build(photos.encoder(), images, tmp_path / "index", photos.METHOD, labels=labels)
    least = index.typicality()
    assert (least[0].id, least[0].closest) == ("3", "dawn")
    features = torch.nn.functional.normalize(index.representations.double(), dim=1)
    own = features[[8, 9, 10, 11, 12, 13, 14, 15]].mean(0) @ features[3]
    other = features[[0, 1, 2, 4, 5, 6, 7]].mean(0) @ features[3]
    assert least[0].margin == pytest.approx(float(own - other), abs=1e-9)


def test_typicality__classes_of_one_and_inputs_without_a_class_are_left_out(tmp_path: Path) -> None:
    images = [photos.pixels("dawn", seed) for seed in range(4)] + [photos.pixels("dusk", 100 + seed) for seed in range(4)]
    labels = [1, 1, 1, None, 2, 2, 2, 3]
    own = build(photos.encoder(), images, tmp_path / "index", photos.METHOD, labels=labels)
    assert {typical.id for typical in own.typicality()} == {"0", "1", "2", "4", "5", "6"}
    assert own.select({"label": 1}).tolist() == [0, 1, 2]

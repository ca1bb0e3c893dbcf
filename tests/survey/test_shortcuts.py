from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import false_discovery_control

from cocoax.survey import Index, build
from cocoax.survey.shortcuts import Classes, Shortcuts, _compared_sizes, _p_values, _unusual_by_size
from tests.survey import photos


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
    assert found.remarks == ("Left out: noon (1 input). A class needs 20.",)
    assert found.summary == (
        "With 40 inputs this test can hardly find anything (39 would have to stand out); the most unusual are listed."
    )
    assert found.attributions(1)[0].score == pytest.approx(float(index.ask(found.classes.target("dawn")).scores[4]), abs=1e-6)


def test_shortcuts__figures_are_those_of_a_slow_count(tmp_path: Path) -> None:
    images = [photos.pixels(kind, seed) for seed, kind in enumerate(["dawn"] * 25 + ["dusk"] * 25)]
    labels = ["a", "b"] * 25
    own = build(photos.encoder(), images, tmp_path / "index", photos.METHOD, labels=labels)
    found = own.shortcuts()
    assert len(found) == len(list(found)) == len(found.to_dataframe()) == len(found.suspects)
    assert found[0] is found.suspects[0]
    page = found._repr_html_()
    assert page.count('class="tile"') == 12
    assert "q: the share of false findings to expect" in page
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


@pytest.mark.parametrize("sizes", [(20, 1000), (50, 1000), (100, 1000), (200, 1000), (20, 30, 200)])
def test_shortcuts__classes_of_any_size_seem_equally_unusual_if_nothing_is(sizes: tuple[int, ...]) -> None:
    """Maps of noise: a twentieth of a class has p < .05, whatever its size and that of the others."""
    random, names = np.random.default_rng(0), np.repeat([str(size) for size in sizes], sizes)
    below: dict[str, list[float]] = {str(size): [] for size in sizes}
    for _ in range(12):
        noise = [random.standard_t(5, size=(size, 16)) for size in sizes]
        p = _p_values(
            np.concatenate([_unusual_by_size(drawn, _compared_sizes(np.array(sizes))) for drawn in noise], 1), names
        )
        for name, found in below.items():
            found.append(float((p[names == name] < 0.05).mean()))
    assert all(0.02 <= np.mean(found) <= 0.08 for found in below.values())


def test_shortcuts__how_many_must_stand_out_is_said(tmp_path: Path) -> None:
    z, names = np.random.default_rng(0).random(1000), np.repeat(["a", "b"], 500)
    for count, found in ((39, 0), (40, 40)):
        z[:count] = 50
        assert (false_discovery_control(_p_values(z[None], names)) < 0.05).sum() == found
    images = [photos.pixels("dawn", seed) for seed in range(40)]
    own = build(photos.encoder(), images, tmp_path / "index", photos.METHOD, labels=["a", "b"] * 20)
    assert repr(own.shortcuts()) == "Shortcuts('label', 0 of 40 inputs with q < .05, which takes 39 that stand out)"
    classes = Classes(own, "label", np.arange(1000), names)
    assert Shortcuts(own, classes, [], {}).needed == 40
    unusual = own.shortcuts().suspects[0]
    enough = Shortcuts(own, classes, [replace(unusual, q=0.5)] * 1000, {})
    assert enough.summary.startswith("0 of 1000 inputs are like their label for unusual reasons")
    assert enough.remarks == ()


def test_within__members_are_compared_with_as_many_others() -> None:
    drawn = np.random.default_rng(0).normal(size=(50, 3))
    apart = np.abs(drawn - np.median(drawn, 0))
    spread = 1.4826 * np.median(apart, 0)
    whole = ((drawn - np.median(drawn, 0)) / np.maximum(spread, np.median(spread) / 2)).max(1)
    found = _unusual_by_size(drawn, [20, 50, 80])
    assert np.allclose(found[1], whole)
    assert np.isnan(found[2]).all()
    assert np.isfinite(found[0]).all()
    assert 0.5 < np.corrcoef(found[0], whole)[0, 1] < 1
    assert _compared_sizes(np.array([1000, 24, 20, 25, 700, 60])) == [20, 25, 60, 700, 1000]


def test_shortcuts__of_texts_there_are_none(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(index), "cells", None)
    with pytest.raises(ValueError, match="Inputs of different shapes, such as texts, have no places in common"):
        index.shortcuts()


def test_classes__one_class_has_nothing_to_be_told_apart_from(index: Index) -> None:
    with pytest.raises(ValueError, match=r"'label' has 0 with at least 20 inputs\. Left out: dawn \(12 inputs\)\."):
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
    page = least._repr_html_()
    assert page.count('class="tile"') == 12
    assert f"3 · {-least[0].margin:.3f} more similar to dawn than to its own label" in page
    assert f"{least[11].margin:.3f} less similar to" in page
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

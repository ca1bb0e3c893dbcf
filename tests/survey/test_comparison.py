from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import cocoax
from cocoax.survey import Index, build, compare
from tests.survey import photos
from tests.survey.photos import dawn_rather_than_dusk
from tests.towers import picture, two_towers


@pytest.fixture(scope="module")
def second(index: Index, tmp_path_factory: pytest.TempPathFactory) -> Index:
    """The same data by an encoder with another weight."""
    other = photos.encoder()
    assert other.owner is not None
    other.owner.scale.data.fill_(-9.0)  # type: ignore[union-attr, operator]
    return build(other, Path(index.manifest.source), tmp_path_factory.mktemp("other") / "index", photos.METHOD)


def test_compare__classes_are_those_of_the_shared_inputs(index: Index, second: Index, tmp_path: Path) -> None:
    """Inputs that only one index has do not change what a class is."""
    folder = photos.write(tmp_path / "photos", 12)
    for kind in ("dawn", "dusk"):
        for number in range(6):  # unlike the others of their class
            picture = np.zeros((16, 16, 3), np.uint8)
            picture[:4, :, number % 3] = 255
            Image.fromarray(picture).save(folder / kind / f"more {number}.png")
    more = build(photos.encoder(), folder, tmp_path / "more", photos.METHOD)
    assert len(more) == len(index) + 12
    expected, found = ({item.id: item.scores[0] for item in compare(own, second, "label").inputs} for own in (index, more))
    assert found == pytest.approx(expected, abs=1e-6)


def test_compare__inputs_of_one_id_with_other_contents_are_left_out(index: Index, second: Index, tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos", 12)
    Image.fromarray(photos.pixels("dusk", 77)).save(folder / "dawn" / "3.png")
    changed = build(photos.encoder(), folder, tmp_path / "index", photos.METHOD)
    both = compare(changed, second)
    assert (len(both.inputs), both.others) == (23, 1)
    assert both.to_dict()["others"] == 1
    assert "dawn/3.png" not in {item.id for item in both.inputs}
    data = [[photos.pixels(kind, seed) for seed in range(2)] for kind in ("dawn", "dusk")]  # all with the ids 0 and 1
    first, other = (build(photos.encoder(), own, tmp_path / str(n), photos.METHOD) for n, own in enumerate(data))
    with pytest.raises(ValueError, match="no input in common, and the 2 with the same id differ in content"):
        compare(first, other)


def test_compare__the_same_encoder_agrees_and_another_does_not(index: Index, second: Index) -> None:
    same = compare(index, Index.open(index.folder), "label")
    assert same.agreement == pytest.approx(1.0, abs=1e-6)
    assert same.score_agreement == pytest.approx(1.0, abs=1e-6)
    changed = compare(index, second, "label")
    assert changed.agreement < same.agreement - 1e-4
    row = next(item for item in changed.inputs if item.id == "dawn/3.png")
    at = index.ids.index("dawn/3.png")
    maps = [own.ask(dawn_rather_than_dusk(own)).maps[at].flatten() for own in (index, second)]
    assert row.correlation == pytest.approx(float(torch.corrcoef(torch.stack(maps))[0, 1]), abs=1e-5)
    assert set(changed.by_label()) == {"dawn", "dusk"}
    correlations = [item.correlation for item in changed.inputs]
    assert correlations == sorted(correlations)


def test_compare__scores_that_moved_most_among_the_others(index: Index, second: Index) -> None:
    both = compare(index, second)
    scores = np.array([item.scores for item in both.inputs])
    assert both.question == "itself"
    assert np.allclose(scores, 1, atol=1e-5)  # an input is as similar to itself as can be, and what is left is rounding
    assert not both.scores_vary
    assert both.moved_most == []
    assert np.isnan(both.score_agreement)
    assert both.to_dict()["moved_most"] == []
    labelled = compare(index, second, "label")
    scores = np.array([item.scores for item in labelled.inputs])
    standard = (scores - scores.mean(0)) / scores.std(0)
    assert np.allclose([item.moved for item in labelled.inputs], standard[:, 1] - standard[:, 0], atol=1e-6)
    assert labelled.score_agreement == pytest.approx(np.corrcoef(scores.T)[0, 1], abs=1e-6)
    assert labelled.moved_most[0].id == labelled.inputs[int(np.abs(standard[:, 1] - standard[:, 0]).argmax())].id
    assert set(labelled.to_dataframe().columns) == {"id", "label", "score_a", "score_b", "moved", "correlation"}


def test_compare__a_question_that_both_encode(tmp_path: Path) -> None:
    encoder = two_towers()
    images, labels = [picture(seed) for seed in range(6)], list("aabbab")
    own = build(encoder, images, tmp_path / "index", photos.METHOD, labels=labels)
    own.encoder = encoder
    asked = compare(own, own, "label", "a cat rather than a dog")
    assert asked.question == "a cat rather than a dog"
    expected = own.ask("a cat rather than a dog").scores
    assert {item.id: item.scores[0] for item in asked.inputs} == pytest.approx(dict(zip(own.ids, expected, strict=True)))
    assert {name: of["inputs"] for name, of in asked.by_label().items()} == {"a": 3, "b": 3}
    assert {item.label for item in compare(own, own, None, cocoax.Question("a cat")).inputs} == {""}
    some = build(encoder, images, tmp_path / "some", photos.METHOD, labels=["a", "a", None, "b", "b", float("nan")])
    some.encoder = encoder
    for question in ("a cat rather than a dog", None):  # inputs without a label are in no class
        assert {name: of["inputs"] for name, of in compare(some, own, "label", question).by_label().items()} == {
            "a": 2,
            "b": 2,
        }
    none = build(encoder, images, tmp_path / "none", photos.METHOD, labels=[None] * 6)
    none.encoder = encoder
    with pytest.raises(ValueError, match="The column 'label' says nothing about the inputs that both have"):
        compare(none, own, "label", "a cat")


def test_compare__what_cannot_be_compared(index: Index, tmp_path: Path) -> None:
    others = build(photos.encoder(), [photos.pixels("dawn", 1)], tmp_path / "others", photos.METHOD)
    with pytest.raises(ValueError, match="no input in common, and no id either; they are of different data"):
        compare(index, others)
    source = Path(index.manifest.source)
    finer = build(photos.encoder(), source, tmp_path / "finer", photos.METHOD, grid=2)
    with pytest.raises(ValueError, match=r"have \[4, 4\] and \[2, 2\] cells; build both with one grid"):
        compare(index, finer)


def test_compare__views_of_inputs_are_not_mixed(index: Index, tmp_path: Path) -> None:
    whole = build(photos.encoder().whole(), Path(index.manifest.source), tmp_path / "whole", photos.METHOD, grid=4)
    assert whole.cells == index.cells
    with pytest.raises(
        ValueError, match=r"different views of their inputs \(what the encoder itself sees; .*build both with one"
    ):
        compare(index, whole)
    assert compare(whole, whole).agreement == pytest.approx(1)


def test_save__as_json(index: Index, tmp_path: Path) -> None:
    both = compare(index, index, "label")
    described = json.loads(both.save(tmp_path / "both.json").read_text())
    assert described["inputs"] == len(described["changed_most"]) == len(described["moved_most"]) == 24
    assert described["by_label"]["dawn"]["inputs"] == 12
    assert repr(both) == "Comparison('halves', 'halves', 24 inputs, maps agree 1.00)"

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import cocoax
from cocoax.datasets import Index, build
from tests.datasets import photos
from tests.datasets.photos import dawn_rather_than_dusk
from tests.towers import picture, two_towers


def test_ask__scores_are_those_of_the_encoder(index: Index) -> None:
    survey = index.ask(dawn_rather_than_dusk(index), top=3)
    expected = dawn_rather_than_dusk(index).score(index.representations)
    assert np.allclose(survey.scores, expected.numpy(), atol=1e-6)
    assert set(survey.parts) == {"to label dawn", "to label dusk"}
    assert np.allclose(survey.parts["to label dawn"] - survey.parts["to label dusk"], survey.scores, atol=1e-6)
    assert all(placed.columns["label"] == "dawn" for placed in survey.highest)
    assert all(placed.columns["label"] == "dusk" for placed in survey.lowest)
    assert [placed.place for placed in survey.highest] == [1, 2, 3]
    assert [placed.place for placed in survey.lowest] == [24, 23, 22]


def test_ask__maps_are_those_of_the_fields(index: Index) -> None:
    survey = index.ask(dawn_rather_than_dusk(index))
    for row in (0, 11, 23):
        assert torch.allclose(survey.maps[row], index.field(row).explain(dawn_rather_than_dusk(index)).values, atol=1e-6)
    assert survey.mean is not None
    assert torch.allclose(survey.mean.values, torch.stack(list(survey.maps)).mean(0), atol=1e-6)
    dawns = index.ask(dawn_rather_than_dusk(index), {"label": "dawn"}).mean
    assert dawns is not None
    assert float(dawns.values[:, :2].min()) > 0  # what makes dawns similar to dawns is on the left
    assert float(dawns.values[:, :2].mean()) > float(dawns.values[:, 2:].mean())


def test_ask__some_rows_in_any_order(index: Index) -> None:
    whole = index.ask(dawn_rather_than_dusk(index))
    for where in ({"label": "dusk"}, [20, 3, 8, 9], index.column("label") == "dawn"):
        part = index.ask(dawn_rather_than_dusk(index), where)
        assert all(torch.equal(part.maps[n], whole.maps[row]) for n, row in enumerate(part.rows))
        assert np.array_equal(part.scores, whole.scores[part.rows])


def test_ask__rows_that_occur_twice(index: Index) -> None:
    whole = index.ask(dawn_rather_than_dusk(index))
    rows = [5] * len(index)
    assert all(torch.equal(values, whole.maps[5]) for values in index.ask(dawn_rather_than_dusk(index), rows).maps)


def test_ask__itself(index: Index) -> None:
    survey = index.ask(cocoax.representation_similarity() - 0.5 * cocoax.similarity_to(index.reference({"label": "dawn"})))
    field = index.field(5)
    expected = field.explain(survey.target)
    assert torch.allclose(survey.maps[5], expected.values, atol=1e-6)
    assert survey.scores[5] == pytest.approx(expected.score, abs=1e-6)


def test_ask__in_words_and_without_the_encoder(tmp_path: Path) -> None:
    encoder = two_towers()
    index = build(encoder, [picture(seed) for seed in range(6)], tmp_path / "index", photos.METHOD)
    with pytest.raises(ValueError, match="No encoder is called 'towers'"):
        index.ask("a cat rather than a dog")
    index.encoder = encoder
    survey = index.ask("a cat rather than a dog")
    expected = cocoax.Question.parse("a cat rather than a dog").target(encoder).score(index.representations)
    assert np.allclose(survey.scores, expected.numpy(), atol=1e-6)
    with pytest.raises(ValueError, match="The index was made by the encoder 'towers'; 'halves' is another one"):
        index.encoder = photos.encoder()


def test_select__bad_selections(index: Index) -> None:
    with pytest.raises(ValueError, match="There is no column 'kind'; the columns are id, label"):
        index.select({"kind": 1})
    with pytest.raises(ValueError, match=r"No row has \{'label': 'noon'\}"):
        index.select({"label": "noon"})
    assert index.select({"id": ["dawn/3.png", "dusk/0.png"]}).tolist() == [3, 12]
    for wrong in ("dawn", ["dawn/3.png"]):
        with pytest.raises(TypeError, match="Rows are chosen by the values of a column"):
            index.select(wrong)
    with pytest.raises(IndexError, match=r"There are 24 rows, counted from 0\. Got 99 instead"):
        index.select([99])
    with pytest.raises(ValueError, match="There are 24 rows; a selection of 3 does not fit"):
        index.select([True, False, True])

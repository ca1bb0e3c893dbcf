from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import cocoax
from cocoax.seeding import stream
from cocoax.survey import Index, build, compare
from tests.encoders.words import Pieces
from tests.survey import photos
from tests.survey.photos import dawn_rather_than_dusk
from tests.tiny import bert_tokenizer


def test_mean__and_its_error_over_inputs(index: Index) -> None:
    survey = index.ask(dawn_rather_than_dusk(index), {"label": "dusk"})
    maps = np.stack([values.numpy() for values in survey.maps])
    assert survey.mean is not None
    assert survey.mean.standard_error is not None
    assert np.allclose(survey.mean.values, maps.mean(0), atol=1e-6)
    assert np.allclose(survey.mean.standard_error, maps.std(0, ddof=1) / len(maps) ** 0.5, atol=1e-6)
    one = index.ask(dawn_rather_than_dusk(index), [3]).mean
    assert one is not None
    assert one.standard_error is None


def test_mean__error_covers_the_truth(tmp_path: Path) -> None:
    """Maps of one picture under many ids differ by their masks alone: errors of means are those told, over many means."""
    image = photos.pixels("dawn", 1)
    own = build(photos.encoder(), [image] * 400, tmp_path / "index", photos.METHOD)
    target = cocoax.similarity_to(own.reference([0]))
    truth = torch.stack(list(own.ask(target).maps)).mean(0)
    z = []
    for start in range(0, 400, 20):
        mean = own.ask(target, list(range(start, start + 20))).mean
        assert mean is not None
        assert mean.standard_error is not None
        z.append((mean.values - truth) / mean.standard_error)
    assert float(torch.stack(z).std()) == pytest.approx(1, abs=0.15)


def test_mean__of_many_rows_comes_from_what_files_say_about_themselves(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = index.ask(dawn_rather_than_dusk(index))
    monkeypatch.setattr("cocoax.survey.answers._MAX_MEAN_MAPS", 10)
    monkeypatch.setattr("cocoax.survey.answers._SAMPLED_MAPS", 8)
    found = index.ask(dawn_rather_than_dusk(index)).mean
    assert whole.mean is not None
    assert found is not None
    assert torch.allclose(found.values, whole.mean.values, atol=1e-5)
    assert found.standard_error is not None
    drawn = np.sort(stream(0).choice(len(index), 8, replace=False))  # of eight, how much all 24 differ
    spread = np.stack([whole.maps[row].numpy() for row in drawn]).std(0, ddof=1)
    assert np.allclose(found.standard_error, spread / 24**0.5, atol=1e-6)


def test_words__texts_have_words_and_maps_of_their_own_shapes(tmp_path: Path) -> None:
    tower = cocoax.TextEncoder(Pieces().eval(), bert_tokenizer(), limit=32, name="pieces")
    texts = ["the cat parked", "the dog", "a cat behind a dog parked her car", "cat"]
    index = build(tower, texts, tmp_path / "index", cocoax.Rise(samples=30))
    assert index.cells is None
    survey = index.ask(cocoax.similarity_to(index.reference([3])))
    assert [len(values) for values in survey.maps] == [3, 2, 8, 1]
    assert survey.mean is None
    counts = {part.name: part.count for part in survey.words}
    assert counts["cat"] == 3
    assert counts["dog"] == 2
    page = survey.save(tmp_path / "answer.html").read_text()
    assert "behind" in page
    assert "What raises and lowers it on average" in page


def test_save__page_json_and_parquet(index: Index, tmp_path: Path) -> None:
    survey = index.ask(dawn_rather_than_dusk(index), top=4)
    page = survey.save(tmp_path / "answer.html").read_text()
    assert page.count('<div class="tile">') == 8 + 4  # mean map and three histograms
    assert "http" not in page.replace("http-equiv", "")  # loads nothing
    described = json.loads(survey.save(tmp_path / "answer.json").read_text())
    assert [item["id"] for item in described["highest"]] == [placed.id for placed in survey.highest]
    frame = pd.read_parquet(survey.save(tmp_path / "answer.parquet"))
    assert frame["id"].tolist()[0] == survey.highest[0].id
    with pytest.raises(ValueError, match="Files end in"):
        survey.save(tmp_path / "answer.txt")
    assert survey._repr_html_().count('class="tile"') == 8 + 4
    assert len(page) < 400_000


def test_to_dataframe__columns_of_the_data_do_not_take_the_place_of_figures(tmp_path: Path) -> None:
    images = [photos.pixels("dawn", seed) for seed in range(4)]
    columns = {"score": [9, 9, 9, 9], "id": list("wxyz")}
    own = build(photos.encoder(), images, tmp_path / "index", photos.METHOD, labels=columns)
    survey = own.ask(cocoax.similarity_to(own.reference([0])))
    frame = survey.to_dataframe()
    assert np.allclose(frame["score"], np.sort(survey.scores)[::-1])
    assert frame["column_score"].tolist() == [9] * 4
    assert survey.to_dict()["highest"][0]["score"] == pytest.approx(survey.scores.max())
    assert own.to_dataframe()["column_id"].tolist() == list("wxyz")


def test_describe__what_a_reader_of_the_file_needs(index: Index) -> None:
    survey = index.ask(dawn_rather_than_dusk(index), top=2)
    described = survey.to_dict()
    assert described["inputs"] == 24
    assert described["score"]["0.5"] == pytest.approx(float(np.median(survey.scores)))
    assert np.allclose(described["highest"][0]["map"], survey.highest[0].attribution.values, rtol=1e-3, atol=1e-9)
    assert described["lowest"][0]["standard_error"] > 0
    assert described["lowest"][0]["label"] == "dusk"


def test_survey__bad_top(index: Index) -> None:
    with pytest.raises(ValueError, match=r"The 'top' parameter must be at least 1\. Got 0 instead"):
        index.ask(dawn_rather_than_dusk(index), top=0)


def test_views__no_input_stands_on_both_sides(index: Index) -> None:
    for rows in ([0, 1, 2], [5]):
        assert index.ask(dawn_rather_than_dusk(index), rows, top=50)._repr_html_().count('class="tile"') == len(rows) + 4


def test_page__what_comes_from_the_data_is_escaped(tmp_path: Path) -> None:
    columns = {"label": ["<b>bold</b>", "plain"], "<i>": [1, 2]}
    images = [photos.pixels("dawn", seed) for seed in range(2)]
    own = build(photos.encoder(), images, tmp_path / "index", photos.METHOD, labels=columns)
    target = cocoax.similarity_to(own.reference([0], "<script>alert(1)</script>"))
    page = own.ask(target).save(tmp_path / "answer.html").read_text()
    assert not any(markup in page for markup in ("<b>bold", "<i>", "<script>alert"))
    assert "&lt;b&gt;bold" in page


def test_survey__goes_through_all_inputs(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cocoax.survey.answers._SAMPLED_MAPS", 5)
    survey = index.ask(dawn_rather_than_dusk(index), top=2)
    assert len(survey) == len(list(survey)) == len(index)
    assert [placed.place for placed in survey] == list(range(1, 25))
    assert survey[0].id == survey.highest[0].id
    assert survey[-1].id == survey.lowest[0].id
    assert [placed.id for placed in survey[1:3]] == [placed.id for placed in survey][1:3]
    with pytest.raises(IndexError):
        survey[24]


def test_results__of_an_index_are_like_all_others(index: Index, tmp_path: Path) -> None:
    for result in (index.ask(dawn_rather_than_dusk(index), top=2), index.typicality(), compare(index, index)):
        assert [file.suffix for file in result.save_all(tmp_path / result.file)] == [".html", ".json", ".png"]
        assert len(result.to_dataframe()) == 24
        assert result.to_dict()["summary"] == result.summary
    typicality = index.typicality()
    assert [typical.margin for typical in typicality] == sorted(typical.margin for typical in typicality)

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import cocoax
from cocoax.datasets import Index, build, compare, export_atlas, export_fiftyone
from tests.datasets import photos
from tests.encoders.words import Pieces
from tests.tiny import bert_tokenizer
from tests.towers import picture, two_towers

METHOD = cocoax.Rise(samples=60, grid=4, baseline=cocoax.Constant(0.0))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder = tmp_path_factory.mktemp("data")
    return build(photos.encoder(), photos.write(folder / "photos", 12), folder / "index", METHOD, shard=7)


def target(index: Index) -> cocoax.Target:
    return cocoax.contrastive_corpus_similarity(index.reference({"label": "dawn"}), index.reference({"label": "dusk"}))


def test_ask__scores_are_those_of_the_encoder(index: Index) -> None:
    survey = index.ask(target(index), top=3)
    expected = target(index).score(index.representations)
    assert np.allclose(survey.scores, expected.numpy(), atol=1e-6)
    assert set(survey.parts) == {"to label dawn", "to label dusk"}
    assert np.allclose(survey.parts["to label dawn"] - survey.parts["to label dusk"], survey.scores, atol=1e-6)
    assert all(placed.columns["label"] == "dawn" for placed in survey.highest)
    assert all(placed.columns["label"] == "dusk" for placed in survey.lowest)
    assert [placed.place for placed in survey.highest] == [1, 2, 3]
    assert [placed.place for placed in survey.lowest] == [24, 23, 22]


def test_ask__maps_are_those_of_the_fields(index: Index) -> None:
    survey = index.ask(target(index))
    for row in (0, 11, 23):
        assert torch.allclose(survey.maps[row], index.field(row).explain(target(index)).values, atol=1e-6)
    assert survey.mean is not None
    assert torch.allclose(survey.mean.values, torch.stack(list(survey.maps)).mean(0), atol=1e-6)
    dawns = index.ask(target(index), {"label": "dawn"}).mean
    assert dawns is not None
    assert float(dawns.values[:, :2].min()) > 0  # what makes dawns similar to dawns is on the left
    assert float(dawns.values[:, :2].mean()) > float(dawns.values[:, 2:].mean())


def test_ask__some_rows_in_any_order(index: Index) -> None:
    whole = index.ask(target(index))
    for where in ({"label": "dusk"}, [20, 3, 8, 9], index.column("label") == "dawn"):
        part = index.ask(target(index), where)
        assert all(torch.equal(part.maps[n], whole.maps[row]) for n, row in enumerate(part.rows))
        assert np.array_equal(part.scores, whole.scores[part.rows])


def test_ask__itself(index: Index) -> None:
    survey = index.ask(cocoax.representation_similarity() - 0.5 * cocoax.similarity_to(index.reference({"label": "dawn"})))
    field = index.field(5)
    expected = field.explain(survey.target)
    assert torch.allclose(survey.maps[5], expected.values, atol=1e-6)
    assert survey.scores[5] == pytest.approx(expected.score, abs=1e-6)


def test_ask__the_error_of_a_map_is_that_over_seeds(index: Index, tmp_path: Path) -> None:
    """The spread of a map over many seeds of its masks, against the error that an entry tells, both over all cells."""
    from cocoax.datasets.entries import Maker, Making
    from cocoax.datasets.items import Item

    encoder, image = photos.encoder(), photos.pixels("dawn", 1)
    maker = Maker(encoder, Making(METHOD), encoder.space)
    direction = target(index).direction().float()
    entries = list(maker.make([maker.read(Item(str(seed), image)) for seed in range(400)]))
    maps = torch.stack([entry.field @ direction for entry in entries if entry.field is not None])
    told = (
        torch.stack([(entry.noise @ direction).square().mean() for entry in entries if entry.noise is not None]).mean().sqrt()
    )
    assert float(told) == pytest.approx(float(maps.var(0).mean().sqrt()), rel=0.12)


def test_ask__in_words_and_without_the_encoder(tmp_path: Path) -> None:
    encoder = two_towers()
    index = build(encoder, [picture(seed) for seed in range(6)], tmp_path / "index", METHOD)
    with pytest.raises(ValueError, match="No encoder is called 'towers'"):
        index.ask("a cat rather than a dog")
    index.encoder = encoder
    survey = index.ask("a cat rather than a dog")
    expected = cocoax.Question.parse("a cat rather than a dog").target(encoder).score(index.representations)
    assert np.allclose(survey.scores, expected.numpy(), atol=1e-6)
    with pytest.raises(ValueError, match="The index was made by the encoder 'towers'; 'halves' is another one"):
        index.encoder = photos.encoder()


def test_ask__texts_have_words_and_maps_of_their_own_shapes(tmp_path: Path) -> None:
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
    survey = index.ask(target(index), top=4)
    page = survey.save(tmp_path / "answer.html").read_text()
    assert page.count('<div class="tile">') == 8
    assert "http" not in page.replace("http-equiv", "")  # loads nothing
    described = json.loads(survey.save(tmp_path / "answer.json").read_text())
    assert [item["id"] for item in described["highest"]] == [placed.id for placed in survey.highest]
    import pandas as pd

    frame = pd.read_parquet(survey.save(tmp_path / "answer.parquet"))
    assert frame["id"].tolist()[0] == survey.highest[0].id
    with pytest.raises(ValueError, match=r"written as \.html, \.json or \.parquet"):
        survey.save(tmp_path / "answer.txt")
    assert "<h1>" in survey._repr_html_()


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


def test_shortcuts__an_input_that_rests_on_another_place_comes_first(tmp_path: Path) -> None:
    images = [photos.pixels("dawn", seed) for seed in range(20)] + [photos.pixels("dusk", 100 + seed) for seed in range(22)]
    images[4][:4, :4], images[4][4:, :8] = 255, 30  # a dawn for the wrong reason: one bright corner
    labels = ["dawn"] * 20 + ["dusk"] * 20 + ["noon", None]
    index = build(photos.encoder(), images, tmp_path / "index", replace(METHOD, samples=400), labels=labels)
    found = index.shortcuts()
    assert found.suspects[0].row == 4
    assert found.suspects[0].cell == (0, 0)
    assert found.suspects[0].p == pytest.approx(1 / 21)
    assert len(found.suspects) == 40  # a class of one, and an input of no class, are left out
    assert found.attributions(1)[0].score == pytest.approx(float(index.ask(found.classes.target("dawn")).scores[4]), abs=1e-6)


def test_typicality__a_wrong_label_comes_first(tmp_path: Path) -> None:
    images = [photos.pixels("dawn", seed) for seed in range(8)] + [photos.pixels("dusk", 100 + seed) for seed in range(8)]
    labels = ["dawn"] * 8 + ["dusk"] * 8
    labels[3] = "dusk"
    index = build(photos.encoder(), images, tmp_path / "index", METHOD, labels=labels)
    least = index.typicality()
    assert (least[0].id, least[0].closest) == ("3", "dawn")
    features = torch.nn.functional.normalize(index.representations.double(), dim=1)
    own = features[[8, 9, 10, 11, 12, 13, 14, 15]].mean(0) @ features[3]
    other = features[[0, 1, 2, 4, 5, 6, 7]].mean(0) @ features[3]
    assert least[0].margin == pytest.approx(float(own - other), abs=1e-9)


def test_ask__rows_that_occur_twice(index: Index) -> None:
    whole = index.ask(target(index))
    rows = [5] * len(index)
    assert all(torch.equal(values, whole.maps[5]) for values in index.ask(target(index), rows).maps)


def test_exports__columns_of_the_data_do_not_take_the_place_of_figures(tmp_path: Path) -> None:
    images = [photos.pixels("dawn", seed) for seed in range(4)]
    columns = {"score": [9, 9, 9, 9], "id": list("wxyz")}
    own = build(photos.encoder(), images, tmp_path / "index", METHOD, labels=columns)
    survey = own.ask(cocoax.similarity_to(own.reference([0])))
    frame = survey.to_dataframe()
    assert np.allclose(frame["score"], np.sort(survey.scores)[::-1])
    assert frame["column_score"].tolist() == [9] * 4
    assert survey.describe()["highest"][0]["score"] == pytest.approx(survey.scores.max())
    assert own.to_dataframe()["column_id"].tolist() == list("wxyz")


def test_typicality__classes_of_one_and_inputs_without_a_class_are_left_out(tmp_path: Path) -> None:
    images = [photos.pixels("dawn", seed) for seed in range(4)] + [photos.pixels("dusk", 100 + seed) for seed in range(4)]
    labels = [1, 1, 1, None, 2, 2, 2, 3]
    own = build(photos.encoder(), images, tmp_path / "index", METHOD, labels=labels)
    assert {typical.id for typical in own.typicality()} == {"0", "1", "2", "4", "5", "6"}
    assert own.select({"label": 1}).tolist() == [0, 1, 2]


def test_compare__classes_are_those_of_the_shared_inputs(index: Index, tmp_path: Path) -> None:
    folder = Path(index.manifest.source)
    images = [folder / name for name in index.ids[:20]]
    labels = index.column("label")[:20].tolist()
    part = build(photos.encoder(), images, tmp_path / "part", METHOD, labels=labels)
    both = compare(part, part, "label")
    again = compare(part, build(photos.encoder(), images, tmp_path / "again", METHOD, labels=labels), "label")
    assert [item.scores for item in both.inputs] == [item.scores for item in again.inputs]


def test_compare__the_same_encoder_agrees_and_another_does_not(index: Index, tmp_path: Path) -> None:
    same = compare(index, Index.open(index.folder), "label")
    assert same.agreement == pytest.approx(1.0, abs=1e-6)
    other = photos.encoder()
    assert other.owner is not None
    other.owner.scale.data.fill_(-9.0)  # type: ignore[union-attr, operator]
    second = build(other, Path(index.manifest.source), tmp_path / "other", METHOD)
    changed = compare(index, second, "label")
    assert changed.agreement < same.agreement - 1e-4
    row = next(item for item in changed.inputs if item.id == "dawn/3.png")
    at = index.ids.index("dawn/3.png")
    maps = [torch.stack([own.ask(target(own)).maps[at].flatten()])[0] for own in (index, second)]
    assert row.correlation == pytest.approx(float(torch.corrcoef(torch.stack(maps))[0, 1]), abs=1e-5)
    assert set(changed.by_label()) == {"dawn", "dusk"}


def test_exports__for_the_tools_people_have(index: Index, tmp_path: Path) -> None:
    import pandas as pd

    survey = index.ask(target(index), {"label": "dawn"})
    frame = pd.read_parquet(export_atlas(index, tmp_path / "atlas.parquet", survey))
    assert {"projection_x", "projection_y", "neighbors", "vector", "label", "score"} <= set(frame.columns)
    features = torch.nn.functional.normalize(index.representations.double(), dim=1)
    cosines = (features @ features[7]).numpy()
    cosines[7] = -2
    assert frame["neighbors"][7]["ids"][0] == int(cosines.argmax())
    assert frame["neighbors"][7]["distances"][0] == pytest.approx(1 - cosines.max(), abs=1e-5)
    assert frame["score"].notna().sum() == 12
    labels = json.loads(export_fiftyone(survey, tmp_path / "labels.json").read_text())["labels"]
    assert labels["dawn/3"]["label"] == "dawn"
    assert labels["dawn/3"]["attributes"]["score"] == pytest.approx(float(survey.scores[3]))
    assert len(index.to_dataframe()) == 24


def test_mean__of_many_rows_comes_from_what_files_say_about_themselves(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = index.ask(target(index)).mean
    monkeypatch.setattr("cocoax.datasets.survey.MANY", 10)
    monkeypatch.setattr("cocoax.datasets.survey.SOME", 24)
    found = index.ask(target(index)).mean
    assert expected is not None
    assert found is not None
    assert torch.allclose(found.values, expected.values, atol=1e-5)
    assert found.standard_error is not None
    assert expected.standard_error is not None
    assert torch.allclose(found.standard_error, expected.standard_error, atol=1e-6)

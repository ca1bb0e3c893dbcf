from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cocoax
from cocoax.cautions import Caution
from cocoax.inputs.features import Segments
from cocoax.survey import Index, build, compare
from cocoax.survey.builder import _with_own_seed
from cocoax.survey.index import _RASTER
from cocoax.survey.storage import shard_files
from tests.survey import photos
from tests.survey.photos import dawn_rather_than_dusk
from tests.towers import picture, two_towers


def test_ask__scores_are_those_of_the_encoder(index: Index) -> None:
    survey = index.ask(dawn_rather_than_dusk(index), top=3)
    expected = dawn_rather_than_dusk(index).score(index.representations)
    assert np.allclose(survey.scores, expected.numpy(), atol=1e-6)
    assert set(survey.score_parts) == {"to label dawn", "to label dusk"}
    assert np.allclose(survey.score_parts["to label dawn"] - survey.score_parts["to label dusk"], survey.scores, atol=1e-6)
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
    for where in ({"label": "dusk"}, [20, 3, 8, 9], index.column("label") == "dawn", [-1, *range(len(index) - 1)]):
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


def test_ask__a_column_in_a_question_is_taken_as_words(tmp_path: Path) -> None:
    encoder = two_towers()
    index = build(encoder, [picture(seed) for seed in range(2)], tmp_path / "index", photos.METHOD, labels=["dog", "bird"])
    index.encoder = encoder
    with pytest.warns(Caution, match="'label=dog' is taken as words. Rows whose label is 'dog' are index.reference"):
        assert index.ask("label=dog rather than a bird").question == "label=dog rather than a bird"
    index.ask("kind=dog rather than a bird")  # there is no such column


BLOCKS = torch.arange(16).view(4, 4).repeat_interleave(4, 0).repeat_interleave(4, 1) // 3


@pytest.mark.parametrize("features", ["segments", None, BLOCKS], ids=["segments", "grid", "label map"])
@pytest.mark.parametrize("method", [cocoax.Rise(samples=64, grid=4), cocoax.Occlusion(window=4, stride=4)])
@pytest.mark.parametrize("whole", [False, True])
def test_ask__agrees_with_a_question_about_one_input(features: Any, method: Any, whole: bool, tmp_path: Path) -> None:
    """With the same method, features, baseline and view, up to the half precision of fields."""
    encoder = photos.encoder().whole() if whole else photos.encoder()
    encoder = encoder if features is None else encoder.by(features)
    folder = photos.write(tmp_path / "photos", 2)
    own = build(encoder, folder, tmp_path / "index", method, grid=(16, 16), features=features)
    target = dawn_rather_than_dusk(own)
    placed = {ranked.id: ranked.attribution for ranked in own.ask(target).highest}
    for row, name in enumerate(own.ids):
        (answer,) = cocoax.ask(encoder, folder / name, target, _with_own_seed(method, name))
        expected, found = answer.attribution.relative, placed[name]
        assert found.score == pytest.approx(answer.score, abs=1e-5)
        assert found.baseline_score == pytest.approx(answer.attribution.baseline_score, abs=1e-5)
        half = 2**-11 * float(own.field(row).values.abs().max() * target.direction().abs().sum())
        assert torch.allclose(found.relative, expected, atol=half)
        assert torch.allclose(own.field(row).explain(target).relative, expected, atol=half)
        if features is not None:
            assert torch.equal(found.feature_ids, answer.attribution.feature_ids)  # type: ignore[arg-type]


def test_ask__pictures_in_parts_of_their_own(tmp_path: Path) -> None:
    """Parts differ from picture to picture; means, shortcuts and comparisons are of places."""
    own = build(
        photos.encoder(), photos.write(tmp_path / "photos", 20), tmp_path / "index", photos.METHOD, features="segments"
    )
    survey = own.ask(dawn_rather_than_dusk(own), {"label": "dawn"}, top=3)
    assert own.cells == (_RASTER, _RASTER)
    assert survey.mean is not None
    half = _RASTER // 2
    assert float(survey.mean.values[:, :half].mean()) > float(survey.mean.values[:, half:].mean())
    assert 'class="tile"' in survey.save(tmp_path / "page.html").read_text()
    assert len(own.shortcuts()) == 40
    assert compare(own, own).agreement == pytest.approx(1)
    again = build(photos.encoder(), tmp_path / "photos", tmp_path / "index", photos.METHOD, features="segments")
    assert again.ids == own.ids
    with pytest.raises(ValueError, match=r"made with features=Segments\(count=16\), and now features=Segments\(count=5\) is"):
        build(photos.encoder(), tmp_path / "photos", tmp_path / "index", photos.METHOD, features=Segments(5))


def test_select__bad_selections(index: Index) -> None:
    with pytest.raises(ValueError, match="There is no column 'kind'; the columns are id, label"):
        index.select({"kind": 1})
    with pytest.raises(ValueError, match=r"No row has \{'label': 'noon'\}"):
        index.select({"label": "noon"})
    assert index.select({"id": ["dawn/3.png", "dusk/0.png"]}).tolist() == [3, 12]
    for wrong in ("dawn", ["dawn/3.png"]):
        with pytest.raises(TypeError, match="Rows are chosen by the values of a column"):
            index.select(wrong)
    for row in (99, -25):
        with pytest.raises(IndexError, match=rf"There are 24 rows, counted from 0\. Got {row} instead"):
            index.select([row, 3])
    assert index.select([-1, 0]).tolist() == [23, 0]
    with pytest.raises(ValueError, match="There are 24 rows; a selection of 3 does not fit"):
        index.select([True, False, True])


def test_ask__an_index_of_which_every_input_failed(tmp_path: Path) -> None:
    folder = photos.write(tmp_path / "photos", 1)
    for path in folder.rglob("*.png"):
        path.write_bytes(b"no picture")
    with pytest.raises(ValueError, match="None of the 2 inputs could be explained"):
        build(photos.encoder(), folder, tmp_path / "index", photos.METHOD)
    with pytest.raises(ValueError, match=r"None of the 2 inputs could be explained; the first, 'dawn/0\.png'"):
        Index.open(tmp_path / "index").ask("a cat")


def test_attributions__of_a_picture_in_which_nothing_matters(tmp_path: Path) -> None:
    """What a blur leaves as it is has a map of rounding, of which an answer says so."""
    white = np.full((16, 16, 3), 255, np.uint8)
    own = build(photos.encoder(), [white, photos.pixels("dawn", 1)], tmp_path / "index", cocoax.Rise(samples=60, grid=4))
    target = cocoax.similarity_to(own.reference([1]))
    nothing, something = own.attributions([0, 1], target)
    assert nothing.is_nothing
    assert not something.is_nothing
    assert own.field(0).explain(target).is_nothing
    assert nothing.floor == pytest.approx(own.field(0).explain(target).floor, rel=1e-3)


@pytest.mark.parametrize(("factor", "message"), [(1e25, "which single precision does not hold"), (1e-25, "are too small")])
def test_ask__dot_products_that_single_precision_cannot_hold(tmp_path: Path, factor: float, message: str) -> None:
    encoder = cocoax.Encoder(lambda batch: factor * photos.Halves()(batch), photos.encoder().inputs.preprocess, name="far")  # type: ignore[attr-defined]
    images = [photos.pixels("dawn", seed) for seed in range(3)]
    own = build(encoder, images, tmp_path / "index", photos.METHOD, similarity="dot")
    target = cocoax.similarity_to(own.reference([0]), "dot")
    for ask in (own.scores, own.maps):
        with pytest.raises(ValueError, match=message):
            ask(target, np.arange(3))


def test_mean_map__of_files_that_a_killed_build_left_twice(index: Index, tmp_path: Path) -> None:
    shutil.copytree(index.folder, tmp_path / "index")
    path = shard_files(tmp_path / "index")[1]
    assert index.mean_map(dawn_rather_than_dusk(index)) is not None
    shutil.copy(path, path.with_name("00000007-aaaaaaaa.parquet"))
    again = Index.open(tmp_path / "index")
    assert again.mean_map(dawn_rather_than_dusk(again)) is None  # only the maps tell


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda index: Index("photos"), TypeError, r"Open an index with Index\.open\('photos'\)"),
        (lambda index: setattr(index, "encoder", "starter"), TypeError, r"must be a cocoax\.Encoder"),
        (lambda index: index.attributions([0], "a cat"), TypeError, r"must be a Target"),
        (lambda index: index.attributions([99], cocoax.similarity_to(index.reference([0]))), IndexError, "24 rows"),
        (lambda index: index.field(24), IndexError, "24 rows, counted from 0. Got 24"),
        (lambda index: index.field("0"), TypeError, "by numbers"),
        (lambda index: index.ask(3), TypeError, "must be a text, a Question, a Target or a Reference. Got int"),
        (lambda index: index.ask(None), TypeError, "Got NoneType"),
        (lambda index: index.ask("a cat", top="3"), TypeError, "'top'"),
    ],
)
def test_index__what_is_no_argument_is_told(call: Any, error: type[Exception], said: str, index: Index) -> None:
    with pytest.raises(error, match=said):
        call(index)

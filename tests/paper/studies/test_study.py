"""What studies share: options, the list of names, runs by name, draws and representations."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cocoax
from cocoax.data.labelled import LabelledImages
from cocoax.encoders import Encoder
from cocoax.paper.studies import NAMES, STUDIES, augmentations, localisation
from cocoax.paper.studies.published import paper_tables
from cocoax.paper.studies.reproduce import class_numbers, options_of, run_localisation, run_study
from cocoax.paper.studies.study import (
    PRESETS,
    Draw,
    LabelledStudy,
    Library,
    draw_run,
    four_targets,
    grid_of,
)
from tests.conftest import SmallNet, images
from tests.paper.studies.tiny import HELD_OUT, OPTIONS, TRAIN, coloured, small_encoder


def test_presets__are_the_papers_scale_and_a_small_one() -> None:
    paper = PRESETS["paper"]
    assert (paper.runs, paper.explicands, paper.corpus, paper.foil) == (5, 25, 100, 1500)
    assert (paper.samples, paper.steps, paper.curve_steps) == (5000, 50, 50)
    small = PRESETS["small"]
    assert small.runs * small.explicands * small.samples <= paper.runs * paper.explicands * paper.samples / 100


@pytest.mark.parametrize(("side", "asked", "grid"), [(12, None, 4), (64, None, 4), (65, None, 7), (224, 5, 5)])
def test_grid_of__papers_choice_by_size(encoder: cocoax.Encoder, side: int, asked: int | None, grid: int) -> None:
    assert grid_of(encoder, images(1, height=side, width=side)[0], asked) == grid


def test_four_targets__are_the_papers(encoder: cocoax.Encoder) -> None:
    corpus, foil = encoder.reference(images(3)), encoder.reference(images(4, seed=1))
    z = encoder.represent(images(1, seed=2))
    own, unit = z[0] / z[0].norm(), z[0] / z[0].norm()
    c, f = (float(unit.double() @ reference.mean_unit) for reference in (corpus, foil))
    expected = {"label_free": 1.0, "contrastive_label_free": 1 - f, "corpus": c, "cocoa": c - f}
    found = {name: float(target.score(z, own)[0]) for name, target in four_targets(corpus, foil, "cosine").items()}
    assert found == pytest.approx(expected, abs=1e-5)


def test_names__every_one_has_a_study() -> None:
    assert {study for _, study in NAMES.values()} == set(STUDIES)
    assert all(study.name == name and NAMES[name][0] for name, study in STUDIES.items())


def test_tables__each_is_made_by_the_study_that_is_named() -> None:
    made = {table.name: name for name, study in STUDIES.items() for table in study.tables()}
    assert made == {name: NAMES[name][1] for name in paper_tables()}


class Sizes(LabelledStudy):
    """As short as a study can be."""

    name = "sizes"
    paper = {"samples": 7}  # noqa: RUF012

    def write(self, progress: bool | None = None) -> list[Path]:
        self.folder.mkdir(parents=True)
        path = self.folder / "sizes.md"
        path.write_text(f"{len(self.train)} and {len(self.held_out)} images, {self.options.samples} samples")
        return [path]


def test_registry__a_new_study_is_run_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDIES, Sizes.name, Sizes)
    monkeypatch.setitem(NAMES, Sizes.name, ("how many images there are", Sizes.name))
    assert options_of("paper", {}, "sizes") == replace(PRESETS["paper"], samples=7)
    assert options_of("small", {}, "sizes") == PRESETS["small"]
    (path,) = run_study("sizes", small_encoder(), TRAIN, HELD_OUT, tmp_path, OPTIONS)
    assert path == tmp_path / "tiny" / "sizes" / "sizes.md"
    assert path.read_text() == "24 and 12 images, 20 samples"


def test_options_of__preset_with_changes() -> None:
    assert options_of("paper", {"runs": None, "samples": None}) == PRESETS["paper"]
    assert options_of("small", {"runs": 3, "samples": None}) == replace(PRESETS["small"], runs=3)
    with pytest.raises(ValueError, match="'preset'"):
        options_of("tiny", {})


def test_options_of__figures_are_the_papers_with_its_preset_alone() -> None:
    paper, small = (options_of(preset, {}, "localisation") for preset in ("paper", "small"))
    assert (paper.samples, paper.estimator) == (20_000, "paper")
    assert (small.samples, small.estimator) == (PRESETS["small"].samples, "efficient")
    assert options_of("paper", {"samples": 300}, "localisation").samples == 300


def test_class_numbers__names_or_numbers() -> None:
    assert class_numbers("green, 0", ["blue", "green", "red"]) == (1, 0)
    for wrong in ("gren", "3", "-1", ""):
        with pytest.raises(ValueError, match=f"no class '{wrong}'; close are"):
            class_numbers(wrong, ["blue", "green", "red"])


@pytest.mark.parametrize("estimator", ["paper", "efficient"])
def test_figures__use_the_estimator_of_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, estimator: Any) -> None:
    used: list[Any] = []

    def stopped(*arguments: Any, **_options: Any) -> None:
        used.append(next(argument for argument in arguments if isinstance(argument, cocoax.Rise)))
        raise KeyboardInterrupt

    monkeypatch.setattr(augmentations, "explain_augmentations", stopped)
    monkeypatch.setattr(localisation, "explain_localisation", stopped)
    options = replace(OPTIONS, estimator=estimator)
    with pytest.raises(KeyboardInterrupt):
        run_study("augmentations", small_encoder(), TRAIN, HELD_OUT, tmp_path, options, progress=False)
    with pytest.raises(KeyboardInterrupt):
        run_localisation(small_encoder(), [(HELD_OUT.images[0], "cat", "dog")], tmp_path, options, progress=False)
    assert [(method.samples, method.estimator) for method in used] == [(20, estimator)] * 2


def test_run_study__one_that_takes_no_labelled_data(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'localisation' takes pictures of its own rather than labelled data"):
        run_study("localisation", small_encoder(), TRAIN, HELD_OUT, tmp_path, OPTIONS)


def seen(encoder: Encoder) -> int:
    assert isinstance(encoder.module, SmallNet)
    return encoder.module.inputs


def test_library__references_equal_those_of_the_encoder(tmp_path: Path) -> None:
    encoder = small_encoder()
    numbers = np.array([7, 3, 11, 4])
    found = Library(encoder, TRAIN, tmp_path).reference(numbers, "some")
    expected = encoder.reference([TRAIN.images[number] for number in numbers], keep_samples=True)
    assert (found.count, found.name, found.space) == (4, "some", encoder.space)
    torch.testing.assert_close(found.samples, expected.samples, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.mean, expected.mean, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.mean_unit, expected.mean_unit, atol=1e-5, rtol=0)


def test_library__each_image_is_encoded_once(tmp_path: Path) -> None:
    encoder = small_encoder()
    encoder.represent(TRAIN.images[:2], progress=False)  # the first batch is checked for being deterministic
    library, start = Library(encoder, TRAIN, tmp_path), seen(encoder)
    library.reference(np.array([5, 2, 9]), "first")
    library.reference(np.array([9, 2, 14, 0]), "second")
    assert seen(encoder) - start == 5
    again = Library(encoder, TRAIN, tmp_path)  # another process
    reference = again.reference(np.array([14, 5]), "third")
    assert seen(encoder) - start == 5
    torch.testing.assert_close(reference.samples, library.reference(np.array([14, 5]), "third").samples, atol=0, rtol=0)


def test_library__damaged_or_of_other_data(tmp_path: Path) -> None:
    encoder = small_encoder()
    library = Library(encoder, TRAIN, tmp_path)
    library.encode(np.array([1, 2]))
    fewer = type(TRAIN)(TRAIN.images[:-1], TRAIN.labels[:-1], TRAIN.classes)
    as_many = coloured(8, 2)
    for other in (fewer, as_many):
        with pytest.raises(ValueError, match="is of another encoder or other data; move it away"):
            Library(encoder, other, tmp_path)
    whole = library.path.read_bytes()
    library.path.write_bytes(whole[:-5])
    with pytest.warns(UserWarning, match=rf"may be truncated. It was put aside as {library.path.name}.damaged"):
        again = Library(encoder, TRAIN, tmp_path)
    again.encode(np.array([1, 2]))
    assert library.path.read_bytes() == whole


NUMBERED_RANDOM = np.random.default_rng(0)


NUMBERED_CLASSES = [f"class {number}" for number in range(5)]


def numbered(per_class: int) -> LabelledImages:
    labels = NUMBERED_RANDOM.permutation(np.repeat(np.arange(5), per_class))
    return LabelledImages(list(range(5 * per_class)), labels, NUMBERED_CLASSES)


NUMBERED, NUMBERED_HELD_OUT = numbered(60), numbered(20)


def drawn(seed: int = 123, **changes: Any) -> Draw:
    asked = {"classes": range(5), "explicands": 8, "corpus": 10, "foil": 150} | changes
    return draw_run(asked.pop("train", NUMBERED), asked.pop("held_out", NUMBERED_HELD_OUT), **asked, seed=seed)


def test_draw__explicands_are_held_out_and_of_their_class() -> None:
    found = drawn().explicands
    assert len(found) == 40
    assert Counter(explicand.own for explicand in found) == dict.fromkeys(range(5), 8)
    assert all(NUMBERED_HELD_OUT.labels[explicand.number] == explicand.own for explicand in found)
    assert len({explicand.number for explicand in found}) == 40


def test_draw__each_class_is_the_other_one_equally_often() -> None:
    found = drawn().explicands
    assert all(explicand.other != explicand.own for explicand in found)
    assert Counter(explicand.other for explicand in found) == dict.fromkeys(range(5), 8)
    # Every pair of classes occurs: four others in eight turns, each twice.
    assert set(Counter((explicand.own, explicand.other) for explicand in found).values()) == {2}


def test_draw__foil_is_apart_from_the_corpus_and_includes_its_class_in_proportion() -> None:
    found = drawn()
    for label, foil in found.foils.items():
        assert len(set(foil.tolist())) == 150
        assert not set(foil.tolist()) & set(found.corpora[label].tolist())
    # Half of what is left: 25 of the 50 left of the own class, and 30 of 60 of each other one, give or take.
    own = [int((NUMBERED.labels[foil] == label).sum()) for seed in range(10) for label, foil in drawn(seed).foils.items()]
    assert np.mean(own) == pytest.approx(150 * 50 / 290, abs=1.5)
    assert min(own) > 10


def test_draw__seeded() -> None:
    first, again, other = drawn(5), drawn(5), drawn(6)
    assert first.explicands == again.explicands
    for label in range(5):
        np.testing.assert_array_equal(first.corpora[label], again.corpora[label])
        np.testing.assert_array_equal(first.foils[label], again.foils[label])
        assert set(first.corpora[label].tolist()) != set(other.corpora[label].tolist())
    assert first.explicands != other.explicands


def test_draw__smaller_numbers_are_the_first_of_larger_ones() -> None:
    few, many = drawn(explicands=4, corpus=10, foil=20), drawn(explicands=8, corpus=10, foil=150)
    for label in range(5):
        np.testing.assert_array_equal(few.foils[label], many.foils[label][:20])
    assert few.explicands == many.explicands[:20]  # the classes take turns, so that a study stopped half way is balanced
    np.testing.assert_array_equal(drawn(corpus=3).corpora[2], many.corpora[2][:3])


def test_draw__some_classes() -> None:
    found = drawn(classes=[4, 1])
    assert {(explicand.own, explicand.other) for explicand in found.explicands} == {(4, 1), (1, 4)}
    assert set(found.corpora) == {1, 4}
    assert set(NUMBERED.labels[found.foils[4]]) == set(range(5))  # foils are of all training images, as in the paper
    np.testing.assert_array_equal(found.corpora[4], drawn().corpora[4])  # a class draws the same, whoever else takes part


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": 61}, "'class 0' has 60 images but 61 corpus images were asked for; ask for fewer or leave the class out"),
        ({"explicands": 21}, "'class 0' has 20 images but 21 explicands were asked for"),
        ({"foil": 291}, "foil of 291 images was asked for but only 290 are left beside the corpus"),
        ({"classes": [1]}, "at least two classes, each of them once"),
        ({"classes": []}, "at least two classes, each of them once"),
        ({"classes": [1, 1]}, "at least two classes, each of them once"),
        ({"classes": [1, 5]}, "classes 0 to 4. Got"),
        ({"classes": [-1, 1]}, "classes 0 to 4. Got"),
    ],
)
def test_draw__too_few(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drawn(**changes)

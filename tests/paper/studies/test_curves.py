"""Studies of curves, on the main study: every value, interruptions, folders and heads that do not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cocoax
from cocoax.data.labelled import LabelledImages
from cocoax.paper.studies import curves
from cocoax.paper.studies.curves import Repetition
from cocoax.paper.studies.insertion_deletion import MainStudy
from cocoax.paper.studies.published import MEASURES, METHOD_TITLES, TARGET_TITLES
from cocoax.seeding import stream
from tests.paper.studies.tiny import CLASSES, HELD_OUT, OPTIONS, TRAIN, small_encoder


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots take longer than the study."""
    monkeypatch.setattr("cocoax.paper.studies.insertion_deletion.curve_figure", lambda *_arguments: [])


def main_study(folder: Path, encoder: cocoax.Encoder | None = None, **changes: Any) -> MainStudy:
    return MainStudy(encoder or small_encoder(), TRAIN, HELD_OUT, folder, replace(OPTIONS, **changes))


def units(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "units").glob("*.safetensors"))}


def test_seeds__papers_five_then_others(tmp_path: Path) -> None:
    assert main_study(tmp_path / "a", runs=2).seeds == [123, 456]
    assert main_study(tmp_path / "b", runs=7).seeds == [123, 456, 789, 42, 91, 1000, 1001]


def test_run__records_every_value(tmp_path: Path) -> None:
    study = main_study(tmp_path)
    records = study.run(progress=False)
    assert len(records) == 2 * 3 * 2  # runs, classes, explicands of each
    values = list(records)
    rows = 2 * (8 * 4 + 1 + 4)  # cases; targets of both similarities by each method; pixel noise, chance levels
    assert len(values) == 12 * rows * 2 * 2
    groups = records.grouped("class_case", "similarity", "method", "target", "measure", "metric")
    for class_case in ("same", "different"):
        for measure in MEASURES:
            for metric in ("insertion", "deletion"):
                for similarity in ("cosine", "dot"):
                    for method in METHOD_TITLES:
                        for target in TARGET_TITLES:
                            assert len(groups[class_case, similarity, method, target, measure, metric]) == 12
                assert len(groups[class_case, None, "random", None, measure, metric]) == 12
    assert all(value["model"] == "trained" for value in values if value.get("target"))


def test_run__one_value_by_hand(tmp_path: Path) -> None:
    """From the draw to the area under the curve, with the public functions alone."""
    study = main_study(tmp_path)
    records = study.run(progress=False)
    encoder, drawn = study.encoder, study.draw(456)
    explicand = drawn.explicands[4]
    seed = int(stream(456, 2, 4).integers(2**31))
    image = HELD_OUT.images[explicand.number]
    for class_case, label in (("same", explicand.own), ("different", explicand.other)):
        corpus = encoder.reference([TRAIN.images[number] for number in drawn.corpora[label]], keep_samples=True)
        foil = encoder.reference([TRAIN.images[number] for number in drawn.foils[label]])
        target = cocoax.contrastive_corpus_similarity(corpus, foil, "dot")
        attribution = cocoax.Rise(20, 3, estimator="paper", seed=seed).explain(encoder, image, target)
        measure = cocoax.contrastive_corpus_similarity(corpus, foil)  # the cosine, whatever the target's similarity
        expected = cocoax.deletion(encoder, image, attribution, measure, steps=4).auc
        key = (class_case, "dot", "rise", "cocoa", "contrastive_corpus_similarity", "deletion", 456, explicand.number)
        fields = ("class_case", "similarity", "method", "target", "measure", "metric", "run", "explicand")
        (found,) = records.grouped(*fields)[key]
        assert found["value"] == pytest.approx(expected, abs=1e-5)


def test_run__training_images_are_encoded_once_and_explicands_as_often_as_needed(tmp_path: Path) -> None:
    study = main_study(tmp_path, runs=1)
    study.run(progress=False)
    net: Any = study.encoder.module
    before = net.inputs
    again = main_study(tmp_path, study.encoder, runs=1)
    again.run(progress=False)
    assert net.inputs - before == 1  # the image that tells how many classes the head knows


@pytest.mark.usefixtures("without_figures")
def test_run__interrupted_anywhere_equals_uninterrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main_study(tmp_path / "whole").write(progress=False)
    judge = curves.judge
    calls = 0

    def failing(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in (1, 4, 9):
            raise KeyboardInterrupt
        return judge(*arguments, **options)

    monkeypatch.setattr(curves, "judge", failing)
    done = []
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            main_study(tmp_path / "parts").run(progress=False)
        done.append(len(units(tmp_path / "parts")))
    assert done == [0, 2, 6]  # nothing is lost but the explicand in hand
    main_study(tmp_path / "parts").write(progress=False)
    assert units(tmp_path / "parts") == units(tmp_path / "whole")
    assert (tmp_path / "parts/results.json").read_bytes() == (tmp_path / "whole/results.json").read_bytes()
    for path in (tmp_path / "whole").glob("*.md"):
        assert (tmp_path / "parts" / path.name).read_text() == path.read_text()


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]])
def test_run__damaged_unit_is_told_put_aside_and_made_again(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    study = main_study(tmp_path, runs=1)
    study.run(progress=False)
    path = study.results.path("123-0002")
    before = units(tmp_path)
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    with pytest.warns(UserWarning, match=r"123-0002.safetensors.* It was put aside as 123-0002.safetensors.damaged"):
        main_study(tmp_path, runs=1).run(progress=False)
    assert units(tmp_path) == before
    assert path.with_name("123-0002.safetensors.damaged").read_bytes() == damaged


@pytest.mark.parametrize("change", [{"samples": 30}, {"explicands": 1}, {"classes": (0, 1)}])
def test_study__folder_of_other_options(tmp_path: Path, change: dict[str, Any]) -> None:
    main_study(tmp_path)
    with pytest.raises(ValueError, match=f"other options: {next(iter(change))} was"):
        main_study(tmp_path, **change)


def test_study__folder_of_another_encoder_or_head(tmp_path: Path) -> None:
    main_study(tmp_path)
    other = small_encoder()
    with torch.no_grad():
        other.module.fc.bias.add_(1)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="other options: fingerprint was"):
        main_study(tmp_path, other)
    other = small_encoder()
    assert other.head is not None
    with torch.no_grad():
        other.head.bias.add_(1)  # type: ignore[operator, union-attr]
    with pytest.raises(ValueError, match="other options: head was"):
        main_study(tmp_path, other)


@pytest.mark.parametrize("which", ["training", "held-out"])
def test_study__folder_of_other_data(tmp_path: Path, which: str) -> None:
    main_study(tmp_path)
    splits = {"training": TRAIN, "held-out": HELD_OUT}
    pixels = np.array(splits[which].images)
    pixels[5, 3, 3, 0] ^= 1  # as many images, with the same labels
    splits[which] = replace(splits[which], images=pixels)
    with pytest.raises(ValueError, match=f"other options: {which} data was"):
        MainStudy(small_encoder(), splits["training"], splits["held-out"], tmp_path, OPTIONS)


def test_study__head_that_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="head of 'tiny' tells 5 classes apart but the data have 3"):
        main_study(tmp_path, small_encoder(5))
    with pytest.raises(ValueError, match="head of 'tiny' does not know the class 'red' of the data but a, b, c, …"):
        main_study(tmp_path, small_encoder(5, classes=["a", "b", "c", "blue", "green"]))
    with pytest.raises(ValueError, match="does not know the class 'blue' of the data but cat, green, red"):  # as many
        main_study(tmp_path, small_encoder(classes=["cat", "green", "red"]))
    with pytest.raises(ValueError, match=r"'bare' has no head.*cocoax train linear"):
        main_study(tmp_path, cocoax.Encoder(small_encoder().module, name="bare"))
    assert not list(tmp_path.iterdir())


def test_study__head_of_more_classes_that_include_those_of_the_data(tmp_path: Path) -> None:
    """As a head for all of ImageNet, and the ten classes of Imagenette."""
    study = main_study(tmp_path, small_encoder(5, classes=["grey", *CLASSES, "black"]), runs=1, explicands=1)
    assert len(study.run(progress=False)) == 3


def test_study__head_of_fewer_classes_that_include_those_that_take_part(tmp_path: Path) -> None:
    """As a head for Imagenette, and those classes of ImageNet, with foils from all of it."""
    study = main_study(tmp_path, small_encoder(2, classes=["red", "blue"]), runs=1, explicands=1, classes=(0, 2))
    assert len(study.run(progress=False)) == 2


def test_study__splits_of_different_classes(tmp_path: Path) -> None:
    other = LabelledImages(HELD_OUT.images, HELD_OUT.labels, ["x", "y", "z"])
    with pytest.raises(ValueError, match="two splits of the data have different classes"):
        MainStudy(small_encoder(), TRAIN, other, tmp_path, OPTIONS)


def test_study__too_few_images(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'blue' has 8 images but 9 corpus images were asked for"):
        main_study(tmp_path, corpus=9).run(progress=False)


def test_repetition__references_are_the_drawn_images_and_their_first_few(tmp_path: Path) -> None:
    study = main_study(tmp_path)
    repetition = Repetition(study, study.draw(123))
    for size in (None, 2):
        numbers = repetition.draw.foils[1][:size]
        expected = study.encoder.represent([TRAIN.images[number] for number in numbers])
        torch.testing.assert_close(repetition.foil(1, size).samples, expected, atol=1e-5, rtol=0)
    assert repetition.corpus(1) is repetition.corpus(1)
    assert repetition.corpus(1, 2).count == 2


@pytest.mark.usefixtures("without_figures")
def test_write__json_holds_every_value_options_and_versions(tmp_path: Path) -> None:
    study = main_study(tmp_path, runs=1, explicands=1)
    records = study.run(progress=False)
    study.write_results(records)
    every = json.loads((tmp_path / "results.json").read_text())
    assert every["values"] == list(records)
    assert every["options"]["samples"] == 20
    assert every["versions"]["torch"] == torch.__version__


def test_write__nothing_judged_yet(tmp_path: Path) -> None:
    study = main_study(tmp_path)
    with pytest.raises(ValueError, match="has no results yet"):
        study.write_results(study.records())

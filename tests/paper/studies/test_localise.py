"""Localisation over annotated pictures: what is asked, what is kept, and the summaries."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import cocoax
from cocoax.evaluation.localisation import MaskScores, mask_scores
from cocoax.evaluation.statistics import wilson
from cocoax.paper.annotations import Example, collage_examples
from cocoax.paper.studies.localisation_benchmark import LocalisationScores, localise
from tests.conftest import SmallNet
from tests.towers import picture, two_towers


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
    records = localise(encoder, [example(0), example(1, ("cat",))], RISE)
    assert [(record.picture, record.name, record.target) for record in records] == [
        *((f"picture {0}", name, kind) for name in ("cat", "dog") for kind in ("contrastive", "corpus", "label-free")),
        ("picture 1", "cat", "corpus"),
        ("picture 1", "cat", "label-free"),
    ]
    cat, dog = (encoder.text.reference([f"a {name}"]) for name in ("cat", "dog"))
    targets = [
        cocoax.contrastive_corpus_similarity(cat, dog),
        cocoax.corpus_similarity(cat),
        cocoax.representation_similarity(),
    ]
    maps = RISE.explain(encoder, picture(0), targets)
    masks = example(0).load()[1]
    for record, attribution in zip(records[:3], maps, strict=True):
        expected = mask_scores(attribution, masks, "cat", picture="picture 0", target=record.target)
        assert expected is not None
        assert record.found == expected.found
        assert record.energy == pytest.approx(expected.energy, abs=1e-4)
        assert record.best_iou == pytest.approx(expected.best_iou, abs=1e-2)


def test_localise__foil_of_ones_own_leaves_out_the_class_itself() -> None:
    encoder = two_towers()
    (record, *_) = localise(encoder, [example(0)], RISE, ["cat", "rocket", "cup"])
    like = encoder.text.reference(["a cat"])
    foil = encoder.text.reference(["a rocket", "a cup"])
    attribution = RISE.explain(encoder, picture(0), cocoax.contrastive_corpus_similarity(like, foil))
    expected = mask_scores(attribution, example(0).load()[1], "cat")
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
    assert net.inputs == 1  # the probe
    every = localise(encoder, examples, RISE, folder=tmp_path)
    assert tuple(every[: len(first)]) == first.records
    assert net.inputs == 32 + 3  # the masked copies of one picture, and probes
    assert every == localise(encoder, examples, RISE)


def test_localise__a_damaged_unit_is_computed_again(tmp_path: Path) -> None:
    encoder = two_towers()
    examples = [example(0), example(1)]
    first = localise(encoder, examples, RISE, folder=tmp_path)
    path = next((tmp_path / "units").iterdir())
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.warns(UserWarning, match=r"put aside as"):
        assert localise(encoder, examples, RISE, folder=tmp_path) == first


def test_localise__another_foil_is_another_question(tmp_path: Path) -> None:
    encoder = two_towers()
    own = localise(encoder, [example(0)], RISE, folder=tmp_path)
    other = localise(encoder, [example(0)], RISE, ["rocket"], folder=tmp_path)
    assert own != other == localise(encoder, [example(0)], RISE, ["rocket"])
    assert len(list((tmp_path / "units").iterdir())) == 2


def test_localise__changed_picture_is_computed_again(tmp_path: Path) -> None:
    encoder = two_towers()
    localise(encoder, [example(0)], RISE, folder=tmp_path)
    localise(encoder, [replace(example(0), version="2")], RISE, folder=tmp_path)
    assert len(list((tmp_path / "units").iterdir())) == 2


def test_localise__another_baseline_picture_is_computed_again(tmp_path: Path) -> None:
    encoder = two_towers()
    shape = encoder.explicand(picture(0)).tensor.shape
    black, white = (replace(RISE, baseline=cocoax.Fixed(torch.full(shape, value))) for value in (0.0, 1.0))
    for method in (black, white, black):
        localise(encoder, [example(0)], method, folder=tmp_path)
    assert len(list((tmp_path / "units").iterdir())) == 2


def test_localise__tells_of_pictures_with_nothing_to_see() -> None:
    def load() -> tuple[Image.Image, dict[str, np.ndarray]]:
        mask = np.zeros((24, 24), bool)
        mask[0, 0] = True  # cut off by preprocessing
        return picture(), {"cat": mask}

    told: list[str] = []
    with pytest.raises(ValueError, match="0 results"):
        localise(two_towers().cropped(), [Example("empty", ("cat",), load)], RISE, tell=told.append)
    assert told == ["empty: nothing that is annotated lies in the part that the encoder sees"]


def test_localise__bad_input() -> None:
    with pytest.raises(ValueError, match="There are 0 pictures"):
        localise(two_towers(), [], RISE)


# --- statistics -------------------------------------------------------------------------------------------------------


def test_localisation_scores__overall_and_per_class() -> None:
    record = MaskScores("p", "cat", "corpus", True, 1.0, 0.5, 0.2, 0.4, 0.25)
    records = [
        record,
        replace(record, picture="q", found=False, energy=0.7),
        replace(record, picture="q", name="dog", found=None),
    ]
    records.append(replace(record, target="label-free", energy=0.1))
    scores = LocalisationScores(tuple(records))
    rows = {(row["target"], row["class"]): row for row in scores.table().records()}
    assert set(rows) == {("corpus", ""), ("label-free", ""), ("corpus", "cat"), ("corpus", "dog"), ("label-free", "cat")}
    overall = rows["corpus", ""]
    assert (overall["questions"], overall["found"]) == (3, 0.5)
    assert (overall["found low"], overall["found high"]) == wilson(1, 2)
    assert overall["energy"] == pytest.approx((0.5 + 0.7 + 0.5) / 3)
    assert overall["energy low"] <= overall["energy"] <= overall["energy high"]
    assert scores.to_dict()["rows"][4]["found"] is None  # of the dog
    assert scores.views()[0].rows[0][2] == "50.0% [9.5%, 90.5%]"
    assert len(scores.views()[0].rows) == 2
    assert scores.to_dict()["questions"][1]["energy"] == 0.7


@pytest.mark.slow
@pytest.mark.skipif(
    "COCOAX_PHOTOS" not in os.environ, reason="set COCOAX_PHOTOS to a folder of photos named after their classes"
)
def test_localise__starter_finds_four_photos_in_a_collage() -> None:
    """The figures of the documentation, on fewer collages: contrast helps, and label-free cannot do better than chance."""
    examples = collage_examples(os.environ["COCOAX_PHOTOS"], count=12)
    scores = localise(cocoax.load("starter"), examples, cocoax.Rise(samples=500))
    found = {row["target"]: row["found"] for row in scores.table().records() if not row["class"]}
    assert found["label-free"] == 0.25
    assert found["contrastive"] > 0.7
    assert found["contrastive"] >= found["corpus"] > 0.5

"""The demo: the starter encoder finds what is where."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from PIL import Image

import cocoax
from cocoax.cli import demo_report
from cocoax.data import COLLAGE, collage, photo
from tests.cli.support import load_starter


@pytest.fixture
def starter(monkeypatch: pytest.MonkeyPatch) -> cocoax.Encoder:
    """The starter encoder; the demo gets the same one."""
    encoder = load_starter()

    def load(name: str, device: str | None) -> cocoax.Encoder:
        assert name == "starter"
        return encoder

    monkeypatch.setattr(demo_report, "load", load)
    return encoder


# --- the collage ------------------------------------------------------------------------------------------------------


def test_collage__quadrants_are_the_photos_that_the_demo_asks_about() -> None:
    pixels = np.asarray(collage(256)).astype(float)
    quadrants = {
        "top left": pixels[:128, :128],
        "top right": pixels[:128, 128:],
        "bottom left": pixels[128:, :128],
        "bottom right": pixels[128:, 128:],
    }
    assert tuple(quadrants) == demo_report.QUADRANTS
    assert set(demo_report.CAPTIONS) == set(COLLAGE)
    centres = {}
    for name in COLLAGE:
        image = photo(name)
        short = min(image.size)
        left, top = (image.width - short) // 2, (image.height - short) // 2
        centres[name] = np.asarray(image.crop((left, top, left + short, top + short)).resize((128, 128))).astype(float)
    for quadrant, name in zip(demo_report.QUADRANTS, COLLAGE, strict=True):
        distances = {other: float(np.abs(quadrants[quadrant] - centre).mean()) for other, centre in centres.items()}
        assert min(distances, key=lambda other: distances[other]) == name
        assert distances[name] < 2


def test_quadrant_means__row_by_row() -> None:
    values = torch.tensor([[1.0, 1, 2, 2], [1, 1, 2, 4], [3, 3, 4, 4], [3, -1, 4, 0]])
    assert demo_report.quadrant_means(values) == [1.0, 2.5, 2.0, 3.0]


def test_quadrant_means__every_pixel_of_an_odd_map_counts() -> None:
    means = demo_report.quadrant_means(torch.arange(15.0).reshape(3, 5))
    assert means == [0.5, 3.0, 8.0, 10.5]


# --- answers ----------------------------------------------------------------------------------------------------------


def test_collage_questions__each_photo_against_the_other_three(starter: cocoax.Encoder) -> None:
    questions = demo_report.collage_questions(starter)
    assert [quadrant for _, quadrant in questions] == [0, 1, 2, 3] * 2
    assert [target.name for target, _ in questions] == [
        *(f"{demo_report.CAPTIONS[name]} rather than the other captions" for name in COLLAGE),
        *(f"the {name} photo rather than the other photos" for name in COLLAGE),
    ]
    for target, _ in questions:
        assert sorted((reference.count, weight) for reference, weight in target.weights.items() if reference) == [
            (1, 1.0),
            (3, -1.0),
        ]


def test_answer_collage__all_eight_right_with_200_samples(starter: cocoax.Encoder) -> None:
    answers = demo_report.answer_collage(starter, samples=200, seed=0)
    assert [answer.expected for answer in answers] == list(demo_report.QUADRANTS) * 2
    assert [answer.hottest for answer in answers] == list(demo_report.QUADRANTS) * 2
    assert {answer.attribution.metadata["samples"] for answer in answers} == {200}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_answer_collage__all_eight_right_whatever_the_seed(seed: int, starter: cocoax.Encoder) -> None:
    answers = demo_report.answer_collage(starter, samples=1000, seed=seed)
    assert [answer.hottest for answer in answers] == [answer.expected for answer in answers]


def test_explain_astronaut__questions(starter: cocoax.Encoder) -> None:
    attributions = demo_report.explain_astronaut(starter, samples=10, seed=0)
    assert [attribution.name for attribution in attributions] == [
        "itself (label-free)",
        "a woman rather than the captions of the collage",
        "a rocket rather than a woman",
        "a helmet rather than a woman",
    ]
    assert attributions[0].score == pytest.approx(1, abs=1e-5)


# --- files ------------------------------------------------------------------------------------------------------------


def test_run_demo__writes_the_files(starter: cocoax.Encoder, tmp_path: Path) -> None:
    answers, files = demo_report.run_demo(tmp_path / "new" / "folder", samples=10, seed=3)
    assert [file.relative_to(tmp_path / "new" / "folder").name for file in files] == [
        "collage.png",
        "astronaut.png",
        "report.html",
    ]
    for file in files[:2]:
        with Image.open(file) as image:
            assert min(image.size) > 300
            assert np.asarray(image.convert("RGB")).std() > 10
    page = unescape(files[2].read_text(encoding="utf-8"))
    assert page.count("data:image/png;base64,") == 2
    assert "10 masked copies" in page
    for answer in answers:
        assert answer.attribution.name in page
        assert f"{answer.attribution.score:+.3f}" in page
    assert len(answers) == 8
    # Figures that stay open in pyplot stay in memory, and it warns after twenty.
    assert not plt.get_fignums()


def test_run_demo__folder_that_cannot_be_made_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, device: str | None) -> cocoax.Encoder:
        raise AssertionError(f"{name} was loaded before the folder was looked at")

    monkeypatch.setattr(demo_report, "load", load)
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OSError, match="file"):
        demo_report.run_demo(tmp_path / "file", samples=10)

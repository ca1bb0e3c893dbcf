"""Answers in files: what is written, and that it says it all."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

import cocoax
from cocoax.questions.report import write_answers
from tests.pages import EVIL, Page
from tests.towers import picture, two_towers


def answers() -> list[cocoax.Answer]:
    encoder = two_towers()
    questions = [
        cocoax.Question(cocoax.Side(["a cat", EVIL], picture(1)), ["a dog", "a cup"]),
        cocoax.Question("a rocket / of [bold]", "a ../../dog"),
        cocoax.Question(),
    ]
    return cocoax.ask(encoder, picture(), questions, cocoax.Rise(samples=20, grid=4))


def test_write_answers__files(tmp_path: Path) -> None:
    before = plt.get_fignums()
    found = answers()
    files = write_answers(tmp_path / "new", EVIL, found)
    assert {file.parent for file in files} == {tmp_path / "new"}
    assert sorted((tmp_path / "new").rglob("[!.]*")) == sorted(files)
    assert [file.name for file in files[:2]] == ["report.html", "answers.json"]
    assert files[4].name == "2-a-rocket-of-bold-rather-than-a-dog.png"
    with Image.open(files[2]) as image:
        assert np.asarray(image.convert("RGB")).std() > 10
    loaded = cocoax.Attribution.load(files[3])
    assert loaded.score == found[0].score
    assert plt.get_fignums() == before


def test_write_answers__report_says_it_all(tmp_path: Path) -> None:
    found = answers()
    report = write_answers(tmp_path, EVIL, found)[0]
    page = Page(report)
    assert page.count("img") == 6  # of each answer the picture and the heat map
    assert page.count("script") == 1  # that of the template
    assert page.texts["h2"] == [answer.name for answer in found]
    for answer, text in zip(found, page.texts["p"], strict=True):
        assert answer.split() in text
        assert answer.compared() in text
        assert "by Rise with 20 samples" in text
    cells = page.texts["td"]
    assert found[0].regions[0].place in cells


def test_write_answers__json_holds_everything_but_the_maps_which_it_names(tmp_path: Path) -> None:
    found = answers()
    content = json.loads(write_answers(tmp_path, "a title", found)[1].read_text(encoding="utf-8"))
    assert content["title"] == "a title"
    assert [one["question"] for one in content["answers"]] == [answer.name for answer in found]
    for answer, plain in zip(found, content["answers"], strict=True):
        assert plain == {
            **json.loads(json.dumps(answer.facts(values=False))),
            **{key: plain[key] for key in ("map", "overlay")},
        }
        loaded = cocoax.Attribution.load(tmp_path / plain["map"])
        np.testing.assert_array_equal(loaded.values.numpy(), answer.attribution.values.numpy())
        assert (tmp_path / plain["overlay"]).suffix == ".png"


def test_write_answers__again_keeps_what_is_there(tmp_path: Path) -> None:
    found = answers()
    times = [write_answers(tmp_path / "out", title, found[1:]) for title in ("first", "second", "third")]
    assert [[file.name for file in files[:3]] for files in times] == [
        ["report.html", "answers.json", "1-a-rocket-of-bold-rather-than-a-dog.png"],
        ["report-2.html", "answers-2.json", "1-a-rocket-of-bold-rather-than-a-dog-2.png"],
        ["report-3.html", "answers-3.json", "1-a-rocket-of-bold-rather-than-a-dog-3.png"],
    ]
    assert sorted((tmp_path / "out").glob("[!.]*")) == sorted(file for files in times for file in files)
    assert [json.loads(files[1].read_text())["title"] for files in times] == ["first", "second", "third"]


def test_write_answers__several_at_once_lose_nothing(tmp_path: Path) -> None:
    """Files that are written at the same time have names of their own."""
    several = answers()
    with ThreadPoolExecutor(4) as pool:
        written = list(pool.map(lambda answer: write_answers(tmp_path / "out", answer.name, [answer]), several + several[:1]))
    names = [file.name for files in written for file in files]
    assert len(names) == len(set(names)) == len(list((tmp_path / "out").glob("[!.]*"))) == 16
    for answer, files in zip(several, written, strict=False):
        assert json.loads(files[1].read_text())["title"] == answer.name
        assert cocoax.Attribution.load(files[3]).score == answer.score


def test_write_answers__killed_before_the_end_is_written_again_under_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = answers()
    with monkeypatch.context() as patch:
        patch.setattr("cocoax.questions.report.page", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_answers(tmp_path / "killed", "title", several)
    files = write_answers(tmp_path / "killed", "title", several)
    undisturbed = write_answers(tmp_path / "undisturbed", "title", several)
    assert [(file.name, file.read_bytes()) for file in files] == [(file.name, file.read_bytes()) for file in undisturbed]


def interrupted(*_arguments: object, **_options: object) -> None:
    raise KeyboardInterrupt


def test_write_answers__none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="0 answers to write"):
        write_answers(tmp_path, "a title", [])


def test_compare__in_a_sentence() -> None:
    found = answers()
    best = found[0].comparison
    captions = [rival for rival in best if rival.is_caption]
    text = found[0].compared(most=2)
    assert text.startswith(
        f"Of 6 captions the picture is most similar to: {captions[0].name} {captions[0].score:+.3f}, "
        f"{captions[1].name} {captions[1].score:+.3f}, …."
    )
    assert text.endswith(f"is number {found[0].rank}.")
    (alone,) = cocoax.ask(two_towers(), picture(), cocoax.Question("a cat"), cocoax.Rise(samples=20, grid=4))
    assert alone.compared() == ""


def test_region_rows__raised_and_lowered() -> None:
    answer = answers()[0]
    rows = answer.region_table.rows
    assert [row[0] for row in rows] == ["raises"] * len(answer.regions) + ["lowers"] * len(answer.against)
    assert rows[0][1:3] == (answer.regions[0].place, f"{answer.regions[0].share:.0%}")
    assert f"± {answer.regions[0].standard_error:.2g}" in rows[0][3]

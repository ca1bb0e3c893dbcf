from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import cocoax
from cocoax.survey import Index, build
from cocoax.survey.page import fragment, histogram
from tests.survey import photos
from tests.survey.photos import dawn_rather_than_dusk


def test_write_page__stands_alone_and_is_small(index: Index, tmp_path: Path) -> None:
    survey = index.ask(dawn_rather_than_dusk(index), top=4)
    page = survey.save(tmp_path / "answer.html").read_text()
    assert set(re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(.{5})""", page)) == {"data:"}
    assert "@import" not in page
    assert "<script" not in page
    assert page.count("data:image/") == 8
    assert len(page) < 200_000
    assert page.count('class="tile"') == 8


def test_fragment__a_notebook_keeps_its_own_style(index: Index) -> None:
    survey = index.ask(dawn_rather_than_dusk(index))
    shown = survey._repr_html_()
    style = re.search(r"<style>(.*?)</style>", shown, re.DOTALL)
    assert style is not None
    selectors = [part.strip() for rule in re.findall(r"([^{}]+)\{", style[1]) for part in rule.split(",")]
    assert selectors
    assert all(selector.startswith(".cocoax") for selector in selectors)
    assert shown.count('class="tile"') == 12  # six of each side


def test_fragment__no_input_stands_on_both_sides(index: Index) -> None:
    shown = fragment(index.ask(dawn_rather_than_dusk(index), [0, 1, 2], top=50))
    assert shown.count('class="tile"') == 3
    assert fragment(index.ask(dawn_rather_than_dusk(index), [5])).count('class="tile"') == 1


def test_fragment__what_comes_from_the_data_is_escaped(tmp_path: Path) -> None:
    columns = {"label": ["<b>bold</b>", "plain"], "<i>": [1, 2]}
    images = [photos.pixels("dawn", seed) for seed in range(2)]
    own = build(photos.encoder(), images, tmp_path / "index", photos.METHOD, labels=columns)
    target = cocoax.similarity_to(own.reference([0], "<script>alert(1)</script>"))
    page = own.ask(target).save(tmp_path / "answer.html").read_text()
    assert "<b>bold" not in page
    assert "<i>" not in page
    assert "<script" not in page
    assert "&lt;b&gt;bold" in page


def test_histogram__bars_hold_all_values() -> None:
    values = np.random.default_rng(0).normal(size=500)
    drawn = histogram(values, bins=10)
    told = [int(count) for count in re.findall(r"<title>[^<]*: (\d+)</title>", drawn)]
    assert told == np.histogram(values, 10)[0].tolist()
    assert sum(int(count) for count in re.findall(r": (\d+)</title>", histogram(np.ones(3)))) == 3  # all equal


def test_mean_map__marks_what_may_be_nothing(index: Index, tmp_path: Path) -> None:
    survey = index.ask(dawn_rather_than_dusk(index))
    mean = survey.mean
    assert mean is not None
    assert mean.standard_error is not None
    page = survey.save(tmp_path / "answer.html").read_text()
    assert page.count("<circle") == int((mean.values.abs() < 2 * mean.standard_error).sum())

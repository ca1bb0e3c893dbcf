"""Views as HTML and in a terminal."""

from __future__ import annotations

import base64
import io
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from cocoax.inputs import Picture
from cocoax.results.interactions import PairSide
from cocoax.show import (
    Bars,
    ColouredText,
    Effects,
    Gallery,
    HeatMap,
    Histogram,
    Paragraph,
    Photo,
    Table,
    View,
    html,
    terminal,
)
from cocoax.show.palette import BLUE, RED
from tests.results.samples import EVIL, PHOTO, SIDES, attribution, pairs, text, waves

RED_CSS, BLUE_CSS = (", ".join(map(str, colour)) for colour in (RED, BLUE))


def test_text__words_have_colours_values_and_doubts() -> None:
    result = attribution(text("a <b> c"), (3,), standard_error=torch.tensor([0.0, 0.4, 0.0]))
    fragment = result.html(limit=2.0)
    spans = re.findall(
        r'<span( class="unsure")? style="background: rgba\(([\d, ]+), ([\d.]+)\)" title="([^"]*)" tabindex="[-01]+">([^<]*)<',
        fragment,
    )
    assert [(doubt != "", opacity, label, word) for doubt, _, opacity, label, word in spans] == [
        (False, "0.30", "−1.000 ± 0.000", "a"),
        (True, "0.15", "+0.500 ± 0.400", "&lt;b&gt;"),
        (False, "0.60", "+2.000 ± 0.000", "c"),
    ]
    assert [colour for _, colour, *_ in spans] == [BLUE_CSS, RED_CSS, RED_CSS]
    assert (
        "".join(re.sub("<[^>]*>", "", part) for part in re.findall(r'<p class="cocoax-text".*?</p>', fragment))
        == "a &lt;b&gt; c"
    )


def test_sound__parts_have_colours_times_and_values() -> None:
    fragment = attribution(waves(2), (8,), neutral=0.5).html(limit=1.5)
    parts = re.findall(r'background: [^"]*rgba\(([\d, ]+), ([\d.]+)\)\)?" title="([^"]*)"', fragment)
    assert len(parts) == 8
    assert parts[0][2] == "0.00-0.25 s, 250-500 Hz: −1.071 ± 0.200"  # high bands are on top
    assert (parts[4][:2], parts[3][:2]) == ((BLUE_CSS, "0.85"), (RED_CSS, "0.85"))
    assert "0 to 500 Hz upwards" in fragment
    assert "data:audio/wav;base64," in fragment
    assert "Hz" not in attribution(waves(), (4,)).html()


@pytest.mark.parametrize("errors", [True, False])
@pytest.mark.parametrize("second", SIDES)
@pytest.mark.parametrize("first", SIDES)
def test_links__hold_values_errors_and_one_stop_of_the_tab_key(first: str, second: str, errors: bool) -> None:
    interactions = pairs(SIDES[first], SIDES[second], errors)
    page = interactions.html()
    found = re.search(r'<script type="application/json">(.*?)</script>', page)
    assert found is not None
    data: Any = json.loads(found[1])
    torch.testing.assert_close(torch.tensor(data["values"]), interactions.matrix, rtol=1e-3, atol=0)
    assert (data["errors"] is None) == (not errors)
    assert len(data["names"][0]) == len(interactions.a.names)
    assert [link["label"] for link in data["links"]] == [link.label for link in interactions.links()]
    for letter, side in (("a", interactions.a), ("b", interactions.b)):
        features = re.findall(f'data-side="{letter}" data-at="(\\d+)"[^>]*? tabindex="(-1|0)"', page)
        assert [int(at) for at, _ in features] == list(range(len(side.names)))
        assert [tab for _, tab in features] == ["0"] + ["-1"] * (len(side.names) - 1)


def test_links__errors_are_those_of_given() -> None:
    interactions = pairs(SIDES["words"], SIDES["columns"])
    (view,) = interactions.views()
    assert view.errors is not None  # type: ignore[attr-defined]
    alone, rather = view.errors  # type: ignore[attr-defined]
    error = interactions.given(0, "a").standard_error
    assert error is not None
    np.testing.assert_allclose(alone["a"][0], error.numpy(), rtol=1e-5)
    error = interactions.given(0, "a", rather_than=[1, 2]).standard_error
    assert error is not None
    np.testing.assert_allclose(rather["a"][0], error.numpy(), rtol=1e-5)


def test_links__a_picture_that_is_not_known() -> None:
    assert "data:image/jpeg" in pairs(PairSide(Picture(), (2, 2)), SIDES["words"]).html()


VIEWS: dict[str, View] = {
    "heat map": HeatMap(Effects(np.ones((2, 2)), question=EVIL), PHOTO.numpy(), title=EVIL, note=EVIL, alt=EVIL),
    "text": ColouredText(Effects(np.ones(1), question=EVIL), EVIL, ((0, len(EVIL)),), note=EVIL),
    "bars": Bars(Effects(np.array([1.0, -1.0])), (EVIL, "b"), title=EVIL),
    "photo": Photo(PHOTO.numpy(), title=EVIL, alt=EVIL),
    "marked photo": Photo(PHOTO.numpy(), marked=np.eye(2, dtype=bool), title=EVIL),
    "paragraph": Paragraph(EVIL, title=EVIL),
    "table": Table((EVIL, "b"), ((EVIL, 0.123456), (None, 3)), title=EVIL),
    "histogram": Histogram({EVIL: np.arange(5.0)}, EVIL, title=EVIL),
    "gallery": Gallery((Photo(PHOTO.numpy(), title=EVIL), None, Paragraph(EVIL, note=EVIL)), title=EVIL),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_view__in_every_medium(view: View) -> None:
    page = html.page(EVIL, [EVIL], [view])
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert not re.search(r"https?:|src=\"(?!data:)", re.sub(r"base64,[A-Za-z0-9+/=]+", "", page))
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(terminal.render([view], heading=EVIL))
    assert EVIL in console.export_text()


def test_terminal__words_in_colour() -> None:
    view = ColouredText(Effects(np.array([1.0, -1.0, 0.3]), np.array([0.0, 0.0, 0.2])), "a cat [b]", ((0, 1), (2, 5), (6, 9)))
    shown = terminal.coloured(view)
    assert shown.plain == "a cat [b]"
    styles = [(shown.plain[span.start : span.end], span.style) for span in shown.spans]
    assert [(word, style.underline or False) for word, style in styles if word.strip()] == [
        ("a", False),
        ("cat", False),
        ("[b]", True),
    ]  # type: ignore[union-attr]
    assert len(shown.spans[0].style.bgcolor.name) == 7  # type: ignore[union-attr]


def test_page__shows_one_of_several_answers_and_holds_figure_and_numbers() -> None:
    views = [replace(attribution(text("a b c"), (3,)).view(), part=part, title=part) for part in ("one", EVIL)]
    page = html.page("Two answers", (), views, table=Table(("a",), ((EVIL,),)), name="answers")
    assert re.findall(r'aria-pressed="(\w+)"', page) == ["true", "false"]
    assert page.count('class="other"') == 1
    assert EVIL not in page
    files = dict(re.findall(r'download="([^"]+)" href="data:[^,]+,([^"]+)"', page))
    assert base64.b64decode(files["answers.csv"]).decode() == f"a\n{EVIL}\n"
    drawn = base64.b64decode(files["answers.svg"]).decode()
    assert "<svg" in drawn
    assert EVIL not in drawn
    assert 'data-png="answers.png"' in page
    assert "<nav" not in html.page("One answer", (), views[:1])


def test_page__of_a_photo_is_small() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (400, 600, 3)).astype(np.uint8)
    views = [HeatMap(Effects(np.random.default_rng(1).normal(size=(14, 14))), noise)]
    assert len(html.page("Noise", (), views)) < 1_000_000


def test_page__letters_that_no_font_here_has_are_text_and_no_warning() -> None:
    page = html.page("🦄", (), [attribution(text("🦄 שלום c"), (3,)).view()])
    (drawn,) = re.findall(r'href="data:image/svg[^,]+,([^"]+)"', page)
    assert "🦄" in base64.b64decode(drawn).decode()

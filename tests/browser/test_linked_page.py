"""Interactions as a page, in a real browser: what pointing at a part shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from cocoax.inputs import Names
from cocoax.results.interactions import Interactions, PairSide
from cocoax.show.palette import BLUE, RED
from tests.methods.runs import independent

pytestmark = pytest.mark.browser


def matched(*names: str) -> PairSide:
    return PairSide(Names(names), (len(names),))


def test_linked_page__pointing_at_a_part(browser: Any, tmp_path: Path) -> None:
    values = torch.tensor([[0.30, 0.28, 0.02], [0.20, 0.01, -0.10]])
    errors = torch.full((2, 3), 0.02)
    found = Interactions(values, matched("sky", "road"), matched("cloud", "car", "the"), 0.5, (independent(errors),))
    page = browser.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(found.save(tmp_path / "page.html").as_uri())

    def colour(letter: str, at: int) -> str:
        element = page.locator(f".f[data-side='{letter}'][data-at='{at}']")
        return str(element.evaluate("element => element.style.background"))

    page.locator(".f[data-side='b'][data-at='1']").hover()
    assert page.locator(".says").inner_text() == "car with sky +0.280 ± 0.020; road +0.0100 ± 0.020"
    assert colour("a", 0) == f"rgba({', '.join(map(str, RED))}, 0.6)"  # the largest of its own
    assert colour("a", 1) == f"rgba({', '.join(map(str, BLUE))}, 0)"  # not known
    page.locator(".rather input").check()
    page.locator(".f[data-side='b'][data-at='1']").hover()
    # .28 - (.30 + .02) / 2, and .01 - (.20 - .10) / 2; errors of the two others count a half each
    assert page.locator(".says").inner_text() == "car rather than the others with sky +0.120 ± 0.024; road −0.0400 ± 0.024"
    assert colour("a", 1) == f"rgba({', '.join(map(str, BLUE))}, 0)"
    page.locator(".f[data-side='a'][data-at='1']").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator(".says").inner_text().startswith("sky rather than the others with car +0.270 ± 0.028")
    assert not complaints
    page.close()

"""What a visitor may choose, the curves of the page, and the files that it sends."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import torch
from PIL import Image

import cocoax
from cocoax.app.drawing import Look, curve_views, file_of
from tests.app.colours import encoder, flag


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"opacity": 1.5}, "must lie between 0 and 1"),
        ({"opacity": float("nan")}, "opacity"),
        ({"palette": "jet"}, "The colours must be one of Red and blue"),
    ],
)
def test_look__bad_choice(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Look(**options)


def test_files__of_an_answer() -> None:
    (answer,) = cocoax.ask(encoder(), flag(), cocoax.Question("red", "blue"), cocoax.Rise(samples=48, grid=4))
    files = {kind: file_of(answer, kind, Look(), 0.1) for kind in ("png", "svg", "csv", "json", "html")}
    assert min(Image.open(io.BytesIO(files["png"])).size) > 300
    assert b"<text" in files["svg"]
    assert files["csv"].startswith(b"feature,")
    assert json.loads(files["json"])["question"] == "red rather than blue"
    assert len(files["html"]) < 1_000_000


def test_curves__have_a_random_order_beside_them() -> None:
    curve = cocoax.Curve(torch.linspace(0, 1, 5), torch.rand(5, generator=torch.Generator().manual_seed(0)))
    insertion, deletion = curve_views([("a $1 question " * 9, [{"insertion": curve, "deletion": curve}] * 2)])
    assert [line.label.split(",")[0] for line in insertion.lines] == ["this map", "random order"]
    assert deletion.title is not None
    assert deletion.title.startswith("Deletion: a $1 question")
    assert "area" in deletion.alt

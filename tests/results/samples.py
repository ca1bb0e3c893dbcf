"""One result of every class and kind of input, with markup, dollars and other scripts in its words."""

from __future__ import annotations

import math
from typing import Any

import torch

import cocoax
from cocoax.evaluation.curves import MethodCurves
from cocoax.inputs import Display, Names, Picture, Sound, Text
from cocoax.results import Interactions, Result
from cocoax.results.interactions import PairSide, Sampled
from tests.insight.samples import INSIGHTS

EVIL = "<script>alert(1)</script> & $x$ ü"
PHOTO = torch.arange(30 * 40 * 3).remainder(251).to(torch.uint8).view(30, 40, 3)


def text(words: str) -> Text:
    """A text whose features are its words."""
    spans, at = [], 0
    for word in words.split():
        begin = words.index(word, at)
        spans.append((begin, begin + len(word)))
        at = begin + len(word)
    return Text(words, tuple(spans))


def attribution(display: Display, shape: tuple[int, ...], **options: Any) -> cocoax.Attribution:
    """Values from -1 to 2 with errors, of which some include zero."""
    values = torch.linspace(-1, 2, math.prod(shape)).view(shape)
    given: dict[str, Any] = {"standard_error": torch.full(shape, 0.2), "metadata": {"target": EVIL, "method": "Rise"}}
    return cocoax.Attribution(values, 0.5, 0.1, display=display, **{**given, **options})


def waves(bands: int = 1, samples: int = 1000, rate: int = 1000) -> Sound:
    """A tone of 50 Hz in four segments."""
    return Sound(0.5 * torch.sin(2 * math.pi * 50 * torch.arange(samples) / rate), rate, 4, bands)


ATTRIBUTIONS = {
    "photo": attribution(Picture(PHOTO, (0.25, 0.1, 0.75, 0.9)), (6, 8)),
    "map": attribution(Picture(), (6, 8)),
    "text": attribution(text(f"a cat {EVIL}"), (6,)),
    "row": attribution(Names(("age", "height <b>", "$weight$")), (3,)),
    "waveform": attribution(waves(), (4,)),
    "spectrogram": attribution(waves(3), (12,)),
}
SIDES = {
    "words": PairSide(text("a $red$ car"), (3,)),
    "photo": PairSide(Picture(PHOTO, (0.1, 0.0, 0.9, 1.0)), (3, 4)),
    "columns": PairSide(Names(("age", EVIL)), (2,)),
}


def pairs(a: PairSide, b: PairSide, errors: bool = True) -> Interactions:
    """Interactions with random values, and errors if they are wanted."""
    generator = torch.Generator().manual_seed(0)
    rows, columns = math.prod(a.shape), math.prod(b.shape)
    values = torch.randn(rows, columns, generator=generator)
    own = (torch.randn(5, rows, generator=generator).double(), torch.randn(5, columns, generator=generator).double())
    sampled = (Sampled({}, *own),) if errors else None
    return Interactions(values.view(*a.shape, *b.shape), a, b, 0.6, sampled)


RESULTS: dict[str, Result] = {
    **ATTRIBUTIONS,
    **INSIGHTS,
    **{f"{one} - {other}": pairs(SIDES[one], SIDES[other]) for one in SIDES for other in SIDES},
    "curve": cocoax.Curve(torch.linspace(0, 1, 5), torch.linspace(0, 1, 5) ** 2, EVIL),
    "curves of methods": MethodCurves(
        {"insertion": cocoax.Curve(torch.linspace(0, 1, 5), torch.linspace(0, 1, 5) ** power, EVIL, "insertion", EVIL)}
        for power in (1, 2)
    ),
}

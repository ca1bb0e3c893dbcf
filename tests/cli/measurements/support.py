"""A subject so small that it is measured in moments."""

from __future__ import annotations

import cocoax
from cocoax.cli.measurements.subjects import Subject
from tests.conftest import SmallNet


def small_subject() -> Subject:
    encoder = cocoax.Encoder(SmallNet().eval(), cocoax.ImagePreprocess(resize=16, crop=16), name="small")
    return Subject("small", encoder, 1.1, 4, 40)

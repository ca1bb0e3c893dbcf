"""What commands see of pictures: all of a photo, or the square in its centre; and what takes the place of removed parts."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import cocoax
from cocoax.cli.arguments import is_sound, load_for
from cocoax.cli.terminal import note

if TYPE_CHECKING:
    from cocoax.inputs import Display

LOOKED_AT = 20  # pictures of many, to see whether anything is cut off
_ROUNDING = 0.02  # of a side


def seen(encoder: cocoax.Encoder, crop: bool = False, baseline: str | None = None, seed: int = 0) -> cocoax.Encoder:
    """Return the encoder as all commands use it: it explains all of a photo, unless ``crop``.

    Removed parts become what ``baseline`` names, by default a strong blur, unless a method says otherwise.
    """
    from cocoax.masking.baseline_presets import ASKED, offered

    seeing = copy.copy(encoder if crop else encoder.whole())
    seeing.inputs = seeing.inputs.removing(offered(baseline or ASKED, seeing.inputs, seed))
    return seeing


def load_seeing(
    inputs: Sequence[str | Path], name: str | None, device: str | None, crop: bool, baseline: str | None, seed: int = 0
) -> cocoax.Encoder:
    """Load the encoder for inputs and return it as :func:`seen`; raise if options are about pictures and there are none."""
    check_pictured(inputs, crop, baseline)
    return seen(load_for(inputs, name, device), crop, baseline, seed)


def check_pictured(inputs: Sequence[object], crop: bool, baseline: str | None) -> None:
    """Raise if an option about pictures was given, and all inputs are texts or sounds."""
    given = [option for option, value in (("--crop", crop), ("--baseline", baseline)) if value]
    if given and all(isinstance(item, str) or (isinstance(item, Path) and is_sound(item)) for item in inputs):
        raise ValueError(f"{given[0]} is about pictures, and none is explained here; leave it out.")


def note_crop(displays: Iterable[Display | None]) -> None:
    """Say that the encoder looks at the square in the centre of photos, if there is more of any of these."""
    for display in displays:
        left, top, right, bottom = getattr(display, "box", (0.0, 0.0, 1.0, 1.0))
        if abs((right - left) - (bottom - top)) > _ROUNDING:
            note("Of each photo, the square in the centre is looked at; what lies beside it is not seen.")
            return

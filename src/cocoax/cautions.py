"""What may not be what was meant: a sentence that is said once."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path

_HERE = str(Path(__file__).parent)
_said: dict[tuple[str, str], str] = {}  # the sentence, by the check and what it is about


class Caution(UserWarning):
    """Something that is allowed, but may not be what was meant; silenced like any other warning."""


def caution(check: str, about: str, sentence: str) -> None:
    """Warn, but once in a process for each ``check`` and what it is ``about``, such as the name of an encoder."""
    if (check, about) not in _said:
        _said[check, about] = sentence
        warnings.warn(sentence, Caution, stacklevel=_callers_level())


def was_said(sentence: str) -> bool:
    """Whether a check has come to just this sentence already."""
    return sentence in _said.values()


def _callers_level() -> int:
    """Return how many calls the code that called Cocoax is away from :func:`caution`: it is what a warning points at."""
    frame, level, outermost = sys._getframe(1), 1, 1
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if file.startswith(_HERE) or (file == contextlib.__file__ and outermost == level - 1):  # decorators of ours are there
            outermost = level
        frame, level = frame.f_back, level + 1
    return outermost + 1


def forget_cautions() -> None:
    """Say everything again, as a new process would."""
    _said.clear()

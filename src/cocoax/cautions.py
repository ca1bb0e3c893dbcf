"""Warnings about calls that are allowed but may not be what was meant; each is given once in a process."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path

_HERE = str(Path(__file__).parent)
_given: dict[tuple[str, str], str] = {}  # sentences by the name of the check and its subject


class Caution(UserWarning):
    """A call that is allowed but may not be what was meant; silenced like any other warning."""


def caution(check: str, subject: str, sentence: str) -> None:
    """Warn with ``sentence``, once in a process for each ``check`` and ``subject`` (the name of an encoder, say)."""
    if (check, subject) not in _given:
        _given[check, subject] = sentence
        warnings.warn(sentence, Caution, stacklevel=_callers_level())


def _callers_level() -> int:
    """Return the stack level, as :func:`caution` counts it, of the code that called Cocoax; the warning names that line."""
    frame, level, outermost = sys._getframe(1), 1, 1
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if file.startswith(_HERE) or (file == contextlib.__file__ and outermost == level - 1):  # decorators of ours are there
            outermost = level
        frame, level = frame.f_back, level + 1
    return outermost + 1


def forget_cautions() -> None:
    """Give every warning again, as a new process would."""
    _given.clear()

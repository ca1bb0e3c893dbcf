"""What may not be what was meant: a sentence that is said once."""

from __future__ import annotations

import warnings

_said: set[tuple[str, str]] = set()


class Caution(UserWarning):
    """Something that is allowed, but may not be what was meant; silenced like any other warning."""


def caution(check: str, about: str, sentence: str) -> None:
    """Warn, but once in a process for each ``check`` and what it is ``about``, such as the name of an encoder."""
    if (check, about) not in _said:
        _said.add((check, about))
        warnings.warn(sentence, Caution, stacklevel=3)


def forget_cautions() -> None:
    """Say everything again, as a new process would."""
    _said.clear()

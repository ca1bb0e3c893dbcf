"""Captions for text towers: a template around a name, and the class names of CIFAR-100 as a ready-made foil."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files

PHOTO_CAPTION = "This is a photo of a {}"
# Words that sound otherwise than their first letter: "a university", "a euro", "a one-way street"; "an hour", "an x-ray".
_CONSONANT_SOUND = re.compile(r"uni(?![dmn])|us[aeu]|ut[ei]|u[bkr][aeiou]|eu|ewe|one\b|once\b|ouija", re.IGNORECASE)
_VOWEL_SOUND = re.compile(r"[aeiou]|hour|honest|hono[u]?r|heir|x-?ray", re.IGNORECASE)
_PLURALS = {"man": "men", "woman": "women", "mouse": "mice"}


def caption(name: str, template: str = PHOTO_CAPTION) -> str:
    """Return the caption of a thing: ``caption("cat")`` is ``"This is a photo of a cat"``.

    Where the template ends in ``a {}``, the article follows the sound of the name: ``"This is a photo of an apple"``.
    """
    if not isinstance(template, str) or template.count("{}") != 1:
        raise ValueError(f"The 'template' parameter must be a text with one {{}} for the name. Got {template!r} instead.")
    if not isinstance(name, str):
        raise TypeError(f"A name must be a string. Got {type(name).__name__} instead.")
    if not name.strip():
        raise ValueError("The name is empty; write at least one word.")
    name = name.strip()
    if re.search(r"\ba \{\}$", template, re.IGNORECASE) and _begins_with_a_vowel(name):
        template = f"{template[:-3]}n {{}}"
    return template.replace("{}", name)


def cifar100(without: Iterable[str] = ()) -> list[str]:
    """Return the 100 class names of CIFAR-100 in their order, as words: a foil of everyday things.

    ``without`` are the words or captions of the corpus: a class whose name occurs in one of them, also in the plural, is left
    out, so that the corpus is not compared with itself.
    """
    texts = [without] if isinstance(without, str) else list(without)
    # Underscores and punctuation are spaces here, so that "maple_tree" and "A maple tree." name the same class.
    corpus = " | ".join(" ".join(re.findall(r"[^\W_]+", text.lower())) for text in texts)
    names = files("cocoax.data").joinpath("cifar100_classes.txt").read_text(encoding="utf-8").splitlines()
    return [name for name in names if not re.search(rf"\b({name}|{_plural(name)})\b", corpus)]


def _begins_with_a_vowel(name: str) -> bool:
    """Return whether a name takes the article "an"."""
    return bool(_VOWEL_SOUND.match(name)) and not _CONSONANT_SOUND.match(name)


def _plural(name: str) -> str:
    """Return a pattern of the plural of a name."""
    if name in _PLURALS:
        return _PLURALS[name]
    if re.search(r"[^aeiou]y$", name):
        return f"{name[:-1]}ies"
    return f"{name[:-1]}ves" if name.endswith("f") else f"{name}e?s"

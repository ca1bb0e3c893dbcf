"""Captions from a template, and the class names of CIFAR-100."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cocoax.data import caption, cifar100


def test_caption__fills_the_template() -> None:
    assert caption("cat") == "This is a photo of a cat"
    assert caption(" maple tree ", template="{} in winter") == "maple tree in winter"
    assert caption("{brace}", template="a {}") == "a {brace}"  # names are not formatted themselves


@pytest.mark.parametrize(
    ("name", "article"),
    [
        *[(name, "an") for name in ("apple", "Egyptian cat", "umbrella", "orange", "hour", "honest man", "heirloom")],
        *[(name, "an") for name in ("hourglass", "honour", "X-ray", "unidentified thing", "uninhabited island", "usher")],
        *[(name, "an") for name in ("onion", "urn", "utter mess", "ice lolly", "owl", "aquarium fish")],
        *[(name, "a") for name in ("cat", "house", "university", "unicorn", "one-way street", "euro", "ukulele")],
        *[(name, "a") for name in ("used car", "utensil", "ewer", "urinal", "yak", "honeycomb", "xylophone")],
    ],
)
def test_caption__article_by_sound(name: str, article: str) -> None:
    assert caption(name, "a {}") == f"{article} {name}"
    assert caption(f" {name} ") == f"This is a photo of {article} {name}"
    assert caption(name, "A {}") == f"{article.capitalize()} {name}"


@pytest.mark.parametrize("template", ["an {}", "a {} in winter", "the {}", "banana {}", "a photo of {}", "{}"])
def test_caption__other_templates_are_taken_as_they_are(template: str) -> None:
    assert caption("apple", template) == template.replace("{}", "apple")


@pytest.mark.parametrize("template", ["a photo", "{} and {}", "a {name}", 3])
def test_caption__template_without_one_place(template: Any) -> None:
    with pytest.raises(ValueError, match=rf"'template' parameter must be .*Got {re.escape(repr(template))} instead"):
        caption("cat", template)


def test_cifar100__the_hundred_names() -> None:
    names = cifar100()
    assert len(set(names)) == len(names) == 100
    assert names == sorted(names)  # the order of the dataset's labels
    assert (names[0], names[1], names[33], names[47], names[99]) == ("apple", "aquarium fish", "forest", "maple tree", "worm")
    assert all(re.fullmatch(r"[a-z]+( [a-z]+)?", name) for name in names)


@pytest.mark.parametrize(
    ("without", "gone"),
    [
        (["rocket"], {"rocket"}),
        ("a Rocket.", {"rocket"}),
        (["This is a photo of a maple_tree"], {"maple tree"}),
        (["two buses", "Roses!"], {"bus", "rose"}),
        (["babies and butterflies", "Poppies", "boys"], {"baby", "butterfly", "poppy", "boy"}),
        (["wolves"], {"wolf"}),
        (["men", "two women and mice"], {"man", "woman", "mouse"}),
        (["a manatee", "seaside", "a cartoon"], set()),  # parts of words are not words
        (["a maple", "tree of oak"], set()),  # nor do names reach across texts
        (["an oak", "tree"], set()),
        ([], set()),
    ],
)
def test_cifar100__without_the_corpus(without: Any, gone: set[str]) -> None:
    assert set(cifar100()) - set(cifar100(without)) == gone

"""Methods by name: known ones, their options, and what is said about others."""

from __future__ import annotations

import pytest

import cocoax
from cocoax.commands.methods import METHODS, method_class, method_with, option_names


def test_method_class__every_name_is_a_method_of_the_package() -> None:
    for name, class_name in METHODS.items():
        assert issubclass(method_class(name), cocoax.Method)
        assert class_name in cocoax.attribution.__all__


def test_method_class__no_such_name() -> None:
    known = rf"known are {', '.join(METHODS)}\."
    with pytest.raises(ValueError, match=rf"No method is called 'rize'; {known} Did you mean 'rise'\?"):
        method_class("rize")


def test_option_names__are_those_of_the_class() -> None:
    assert option_names(cocoax.VanillaGradients) == {"baseline", "batch_size"}


def test_method_with__options_that_are_not_none() -> None:
    assert method_with("rise", {"samples": 20, "seed": None}) == cocoax.Rise(samples=20)


def test_method_with__an_option_it_lacks() -> None:
    with pytest.raises(ValueError, match=r"'occlusion' has no option --samples; it has none\."):
        method_with("occlusion", {"samples": 20, "seed": None})


def test_method_with__names_only_options_of_the_command() -> None:
    with pytest.raises(ValueError, match=r"'smoothgrad' has no option --grid; it has --samples and --seed\."):
        method_with("smoothgrad", {"samples": None, "grid": 3, "seed": None})

"""Methods by name: known ones, their options, and what is said about others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import cocoax
from cocoax.cli.methods import METHODS, method_class, method_with, option_names


def test_method_class__every_name_is_a_method_of_the_package() -> None:
    for name, class_name in METHODS.items():
        assert issubclass(method_class(name), cocoax.Method)
        assert class_name in cocoax.methods.__all__


def test_method_class__no_such_name() -> None:
    known = rf"known are {', '.join(METHODS)}\."
    own = r"One of your own is written module:Class\."
    with pytest.raises(ValueError, match=rf"No method is called 'rize'; {known} Did you mean 'rise'\? {own}"):
        method_class("rize")
    with pytest.raises(ValueError, match=rf"No method is called 'paired-banzhaf'; {known} {own}$"):  # no far-fetched guess
        method_class("paired-banzhaf")


OWN = """
import cocoax
from dataclasses import dataclass

number = 3

@dataclass(frozen=True)
class Quick(cocoax.Rise):
    samples: int = 20
"""


def test_method_class__of_a_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quick_methods.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    method = method_with("quick_methods:Quick", {"grid": 3, "seed": None})
    assert isinstance(method, cocoax.Rise)
    assert (type(method).__name__, method.samples, method.grid) == ("Quick", 20, 3)
    assert sys.path == before
    for name in ("quick_methods:number", "quick_methods:Slow"):
        with pytest.raises(
            ValueError, match=r"'\w+' in the module 'quick_methods' is no attribution method, a subclass of coc"
        ):
            method_class(name)
    with pytest.raises(ValueError, match="The module 'no_such_module' of the method 'Quick' cannot be imported: No module"):
        method_class("no_such_module:Quick")


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

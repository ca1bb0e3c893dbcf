"""Displays: what files call them, what they keep, and what they show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.inputs import Display, Names, Picture, Text
from cocoax.inputs.explicand import _DISPLAYS, load_display, save_display
from cocoax.show import Bars, Effects, Paragraph, View

PICTURE = torch.arange(4 * 6 * 3, dtype=torch.uint8).view(4, 6, 3)


@pytest.mark.parametrize(
    "display",
    [
        Picture(),
        Picture(PICTURE, (0.25, 0.0, 0.75, 1.0)),
        Names(("a", "b")),
        Text("a $ cat", ((0, 1), (4, 7)), 3),
    ],
    ids=lambda display: display.kind,
)
def test_save_display__and_back(display: Display) -> None:
    tensors, header = save_display(display)
    assert all(name.startswith("display_") for name in tensors)
    others = {"display": torch.zeros(1), "picture": torch.zeros(1)}  # of the file, not of the display
    restored = load_display({**tensors, **others}, header)
    assert type(restored) is type(display)
    for name, value in vars(display).items():
        other = getattr(restored, name)
        assert torch.equal(value, other) if isinstance(value, Tensor) else value == other, name


def test_load_display__kind_that_is_not_known() -> None:
    with pytest.raises(ValueError, match=r"kind of input called 'smell', which is not known here; import the module"):
        load_display({}, {"kind": "smell"})


def test_load_display__of_a_file_without_one() -> None:
    with pytest.raises(ValueError, match=r"written by another version of Cocoax.*make it again"):
        load_display({}, None)


@pytest.fixture
def known() -> Any:
    """What is known before and after a test."""
    before = dict(_DISPLAYS)
    yield before
    _DISPLAYS.clear()
    _DISPLAYS.update(before)


def test_subclass__of_ones_own_is_known_by_its_kind(known: dict[str, type[Display]]) -> None:
    @dataclass(frozen=True, eq=False)
    class Smell(Names):
        kind = "smell"

    assert {**known, "smell": Smell} == _DISPLAYS
    tensors, header = save_display(Smell(("rose",)))
    assert isinstance(load_display(tensors, header), Smell)


def test_subclass__without_a_kind_does_not_take_the_place_of_its_base(known: dict[str, type[Display]]) -> None:
    class Thumbnail(Picture):
        """Shown in another way, and the same in files."""

    assert known == _DISPLAYS
    assert save_display(Thumbnail(PICTURE))[1]["kind"] == "picture"


def test_subclass__abstract_one_needs_no_kind(known: dict[str, type[Display]]) -> None:
    class Visible(Display):
        """What several displays of a user's own share."""

    assert known == _DISPLAYS
    assert Visible.__mro__[1] is Display


def test_subclass__kind_of_another_one_is_an_error(known: dict[str, type[Display]]) -> None:
    with pytest.raises(
        TypeError, match=r"Two displays are of the kind 'picture': cocoax\.inputs\.explicand\.Picture and .*Mine"
    ):

        class Mine(Display):
            kind = "picture"

    assert known == _DISPLAYS


def test_subclass__defined_again_replaces_itself(known: dict[str, type[Display]]) -> None:
    def define() -> type[Names]:
        @dataclass(frozen=True, eq=False)
        class Again(Names):
            kind = "again"

        return Again

    define()
    second = define()
    assert _DISPLAYS["again"] is second


class Plain(Display):
    """A display with nothing but what it must have."""

    kind = "plain, of these tests"

    def view(self, effects: Effects) -> View:
        return Paragraph("plain")

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {}, {}

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> Self:
        return cls()


def test_display__defaults() -> None:
    attribution = cocoax.Attribution(torch.ones(2), 1.0, 0.0, display=Plain())
    assert (attribution.names, attribution.picture, attribution.text, attribution.offsets) == (None, None, None, None)
    assert attribution.box == (0.0, 0.0, 1.0, 1.0)
    assert "plain" in attribution._repr_html_()
    assert Plain().notes == {}
    assert Plain().input_view() is None
    assert Plain().parts_view(None, "title").title == "title"


def test_names__are_bars_and_the_names() -> None:
    attribution = cocoax.Attribution(torch.tensor([1.0, -2.0]), 0.5, 0.0, display=Names(("age", "height")))
    assert attribution.names == attribution.tokens == ("age", "height")
    assert attribution.top(1) == [("height", -2.0)]
    assert isinstance(attribution.view(), Bars)
    assert attribution.display.parts_view(torch.tensor([True, False]), "").text == "age"  # type: ignore[attr-defined]

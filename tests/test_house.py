"""The limits of the house: no file, function or signature that is too large to be read at once."""

from __future__ import annotations

from pathlib import Path

import pytest

import cocoax
from benchmarks.house import KINDS, Sources, print_counts

ROOT = Path(cocoax.__file__).parent
# Public signatures that are what users call, and stay as they are.
FIXED = {"Encoder.__init__", "TextEncoder.__init__", "curves"}


@pytest.fixture(scope="module")
def house() -> Sources:
    return Sources(ROOT)


def test_files__are_short(house: Sources) -> None:
    assert not house.large_files()


def test_functions__are_short(house: Sources) -> None:
    assert not house.long_functions()


def test_functions__have_few_parameters(house: Sources) -> None:
    many = house.many_parameters(constructors=False) + house.many_parameters(constructors=True)
    assert {place.split()[1] for place in many} <= FIXED


def test_kinds__are_not_branched_on(house: Sources) -> None:
    # What is left checks what a user passed (an encoder, an explicand), or says why a zero representation is an error.
    assert len(house.branches_on(KINDS)) <= 4, "\n".join(house.branches_on(KINDS))


SMALL = """
class Thing:
    def __init__(self, a, b, c, d, e, f, g, h, i): ...

    @classmethod
    def make(cls, a, b, c, d, *rest, e, f, g, **options):
        for one in rest:
            pass

    def name(self, x):
        def inner(found):
            return isinstance(x, (Blur, cocoax.Rise)) or isinstance(x, int | Target)
        return [one for one in x]


def short(items):
    return sorted(items, key=lambda found: -found)
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "module.py").write_text(SMALL)
    (tmp_path / "long.py").write_text("def long():\n" + "    x = 1\n" * 59 + "\n" * 341)
    for folder in ("inputs", "commands"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own.py").write_text(SMALL.replace("one", "each").replace("found", "other"))
    return tmp_path


def test_counts__see_what_they_are_about(small: Path) -> None:
    house = Sources(small)
    assert house.large_files() == ["long.py (401 lines)"]
    assert house.long_functions() == ["long.py:1 long (60 lines)"]
    assert house.many_parameters(constructors=False) == [
        "inputs/own.py:6 Thing.make (9 parameters)",
        "module.py:6 Thing.make (9 parameters)",
    ]
    assert house.many_parameters(constructors=True) == [
        "inputs/own.py:3 Thing.__init__ (9 parameters)",
        "module.py:3 Thing.__init__ (9 parameters)",
    ]
    assert house.branches_on(KINDS) == ["commands/own.py:12 Blur, Rise", "module.py:12 Blur, Rise"]
    assert house.branches_on(KINDS | {"Target"})[-2:] == ["module.py:12 Blur, Rise", "module.py:12 Target"]
    names = [place.split()[1] for place in house.vague_names()]
    assert names == ["Thing.make", "Thing.name", "inner", "short"]


def test_print_counts(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_counts(small, where=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["401", "lines", "in", "the", "longest", "file"]
    assert "          long.py (401 lines)" in lines


def test_sources__no_folder() -> None:
    with pytest.raises(SystemExit, match="No folder at /nowhere"):
        Sources(Path("/nowhere"))

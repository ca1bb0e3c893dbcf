"""The public names: each resolves, comes from where the package says, and is there for tools that read the source."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import cocoax
from cocoax import survey


def test_all__every_name_resolves() -> None:
    assert len(set(cocoax.__all__)) == len(cocoax.__all__)
    for name in cocoax.__all__:
        assert getattr(cocoax, name) is not None
    assert set(cocoax.__all__) <= set(dir(cocoax))


def test_all__star_import() -> None:
    names: dict[str, object] = {}
    exec("from cocoax import *", names)
    assert set(cocoax.__all__) <= set(names)


def imported_for_type_checkers() -> dict[str, str]:
    """Return the room of every name, as type checkers and readers see it."""
    rooms = {}
    for node in ast.walk(ast.parse(Path(cocoax.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "cocoax":
            rooms |= {alias.name: node.module for alias in node.names}
    return rooms


def test_names__are_those_that_type_checkers_see() -> None:
    assert set(imported_for_type_checkers()) == set(cocoax.__all__)


@pytest.mark.parametrize(("name", "room"), imported_for_type_checkers().items())
def test_names__are_the_things_themselves(name: str, room: str) -> None:
    if name != "__version__":
        vars(cocoax).pop(name, None)  # as if it had not been used yet
    assert getattr(cocoax, name) is getattr(import_module(room), name)


def test_names__there_is_no_other() -> None:
    with pytest.raises(AttributeError, match="module 'cocoax' has no attribute 'Ryse'"):
        cocoax.Ryse  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Ryse' from 'cocoax'"):
        from cocoax import Ryse  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.parametrize("name", cocoax._ELSEWHERE)
def test_names__of_other_libraries_say_what_to_call(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; here it is ") as said:
        getattr(cocoax, name)
    for own in re.findall(r"cocoax\.(\w+)", cocoax._ELSEWHERE[name]):
        assert own in cocoax.__all__
    assert name not in dir(cocoax)
    for named in re.findall(r'Captum\("(\w+)"', str(said.value)):
        cocoax.Captum(named, **({"layer": "x"} if "layer" in str(said.value) else {}))


def test_names__rooms_are_found_without_importing_them() -> None:
    program = """
import sys, cocoax
assert "torch" not in sys.modules and "numpy" not in sys.modules
assert cocoax.plots.overlay and cocoax.data.photo and cocoax.encoders.Encoder is cocoax.Encoder
from cocoax import Rise, load
assert callable(load) and cocoax.encoders.load is load
"""
    subprocess.run([sys.executable, "-c", program], timeout=120, check=True)


def test_names__an_error_inside_of_a_room_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ModuleNotFoundError("No module named 'gradio'", name="gradio")

    monkeypatch.setattr(cocoax, "import_module", fail)
    with pytest.raises(ModuleNotFoundError, match="gradio"):
        cocoax.something_new  # type: ignore[attr-defined]  # noqa: B018


def test_reference__has_every_name_and_no_other() -> None:
    page = Path(__file__).parent.parent / "docs" / "reference" / "api.md"
    listed = re.findall(r"^   (\w+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted({*cocoax.__all__, *survey.__all__} - {"__version__"})

"""Importing libraries that import torchvision, with and without it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cocoax.encoders.families.torchvision import import_library

LIBRARY = """
import torchvision.transforms as transforms
import torchvision.transforms.functional as F
from torchvision.ops.misc import FrozenBatchNorm2d
from torchvision.transforms import Compose, InterpolationMode

MODE = InterpolationMode.BICUBIC
FOUND = isinstance(3, FrozenBatchNorm2d)

def transform():
    return transforms.Compose([F.resize])
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a library that uses torchvision."""
    name = f"library_of_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


@pytest.fixture
def no_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torchvision", None)  # cannot be imported


@pytest.mark.usefixtures("no_torchvision")
def test_import_library__without_torchvision(library: str) -> None:
    loaded: Any = import_library(library)
    assert loaded.MODE == "InterpolationMode.BICUBIC"
    assert loaded.FOUND is False
    with pytest.raises(ImportError, match=r"Compose is part of torchvision, which cannot be imported here; install"):
        loaded.transform()


@pytest.mark.usefixtures("no_torchvision")
def test_import_library__leaves_no_trace(library: str) -> None:
    finders = list(sys.meta_path)
    import_library(library)
    assert sys.meta_path == finders
    assert [name for name in sys.modules if name.partition(".")[0] == "torchvision"] == ["torchvision"]
    with pytest.raises(ImportError):
        import torchvision  # noqa: F401


def test_import_library__with_torchvision(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torchvision", "torchvision.transforms", "torchvision.transforms.functional", "torchvision.ops"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    misc, transforms = ModuleType("misc"), sys.modules["torchvision.transforms"]
    monkeypatch.setitem(sys.modules, "torchvision.ops.misc", misc)
    monkeypatch.setattr(misc, "FrozenBatchNorm2d", int, raising=False)
    monkeypatch.setattr(transforms, "Compose", list, raising=False)
    monkeypatch.setattr(transforms, "InterpolationMode", type("Mode", (), {"BICUBIC": "its own"}), raising=False)
    monkeypatch.setattr(sys.modules["torchvision"], "transforms", transforms, raising=False)
    monkeypatch.setattr(transforms, "functional", sys.modules["torchvision.transforms.functional"], raising=False)
    loaded: Any = import_library(library)
    assert loaded.MODE == "its own"
    assert loaded.FOUND is True


def test_import_library__not_installed() -> None:
    assert find_spec("no_such_library") is None
    with pytest.raises(ImportError, match=r"'no_such_library:' need the package.*'cocoax\[no-such-library\]'"):
        import_library("no_such_library")


@pytest.mark.usefixtures("no_torchvision")
def test_import_library__that_needs_torchvision_at_once(tmp_path: Path, library: str) -> None:
    (tmp_path / f"{library}.py").write_text(LIBRARY + "\nTRANSFORM = Compose([])\n")
    with pytest.raises(ImportError, match=r"Compose is part of torchvision.*install the build that fits") as caught:
        import_library(library)
    assert f"'{library}:' need the package" in str(caught.value)

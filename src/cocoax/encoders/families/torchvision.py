"""Libraries that import torchvision for their training code, used without it where it cannot be imported.

timm and open_clip import torchvision at the top of modules whose other parts need nothing of it. A torchvision that does not
fit torch (or none at all) is common where torch is the CPU build; their networks work all the same. While such a library is
imported, torchvision is then a stand-in in which every name is a class that says what is missing when it is called.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NoReturn

from cocoax.encoders.families.hub import import_package


def import_library(name: str) -> Any:
    """Import the library behind the encoders ``name:``, with torchvision if that can be imported and else without."""
    with _torchvision_or_stand_in():
        return import_package(name, name, name.replace("_", "-"))  # pip before 23.3 compares names of extras to the letter


@contextmanager
def _torchvision_or_stand_in() -> Iterator[None]:
    """For a while, torchvision can be imported: itself or, where that fails, the stand-in."""
    try:
        import_module("torchvision")
        works = True
    except (ImportError, RuntimeError):  # RuntimeError: its operators are not those of this torch
        works = False
    if works:
        yield
        return
    if find_spec("transformers") is not None:  # it remembers whether there is a torchvision: now, rather than a stand-in
        import_module("transformers.utils").is_torchvision_available()
    hidden = {name: sys.modules.pop(name) for name in _loaded()}
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in _loaded():
            del sys.modules[name]
        sys.modules.update(hidden)


def _loaded() -> list[str]:
    """The modules of torchvision that are imported."""
    return [name for name in sys.modules if name.partition(".")[0] == "torchvision"]


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "torchvision" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Module(ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(name, (), {})


class _Absent(type):
    """A class that is not there: it can be asked for attributes and instances, and be part of nothing else."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"

    def __call__(cls, *_arguments: object, **_options: object) -> NoReturn:
        raise ImportError(
            f"{cls.__name__} is part of torchvision, which cannot be imported here; install the build of torchvision that "
            "fits torch."
        )

"""The rooms of the house: an import never points back to a later room, lazily or not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import cocoax

ROOT = Path(cocoax.__file__).parent
# In the order data flows through them; "cocoax" is the package itself, which only the last rooms may import.
ROOMS = [
    *("version", "seeding", "progress", "storage", "similarity", "vectors", "references", "targets", "inputs", "encoders"),
    *("features", "attribution", "evaluation", "plots", "highlight", "report", "questions", "data", "training", "studies"),
    *("datasets", "cocoax", "app", "commands", "__main__"),
]


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and room of every import of this package's modules, wherever it stands in the file."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} imports relative to itself; write the whole name"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "cocoax":
                room = rest.split(".")[0]
                yield node.lineno, room if room in ROOMS else "cocoax"


def room_of(file: Path) -> str:
    first = file.relative_to(ROOT).parts[0].removesuffix(".py")
    return "cocoax" if first == "__init__" else first


def test_every_file_is_in_a_room() -> None:
    assert {room_of(file) for file in ROOT.rglob("*.py")} <= set(ROOMS)


def test_imports__never_point_back() -> None:
    back = [
        f"{file.relative_to(ROOT)}:{line} imports {room}, which comes after {room_of(file)}"
        for file in sorted(ROOT.rglob("*.py"))
        for line, room in imports(file)
        if ROOMS.index(room) > ROOMS.index(room_of(file))
    ]
    assert not back, "\n".join(back)


def test_imports__one_that_points_back_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("def later():\n    from cocoax.plots import overlay\n    import cocoax\n    from cocoax import plots\n")
    assert list(imports(file)) == [(2, "plots"), (3, "cocoax"), (4, "plots")]

"""The rooms of the house: an import never points back to a later room, lazily or not."""

from __future__ import annotations

from pathlib import Path

import cocoax
from benchmarks.rooms import FLOORS, ROOMS, draw, imports, room_of, statements

ROOT = Path(cocoax.__file__).parent


def test_every_file_is_in_a_room() -> None:
    assert {room_of(file, ROOT) for file in ROOT.rglob("*.py")} <= set(ROOMS)


def test_imports__never_point_back() -> None:
    back = [
        f"{file.relative_to(ROOT)}:{line} imports {room}, which comes after {room_of(file, ROOT)}"
        for file in sorted(ROOT.rglob("*.py"))
        for line, room in imports(file)
        if ROOMS.index(room) > ROOMS.index(room_of(file, ROOT))
    ]
    assert not back, "\n".join(back)


def test_imports__one_that_points_back_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("def later():\n    from cocoax.plots import overlay\n    import cocoax\n    from cocoax import plots\n")
    assert list(imports(file)) == [(2, "plots"), (3, "cocoax"), (4, "plots")]


def test_statements__counts_each_import_statement_between_rooms(tmp_path: Path) -> None:
    (tmp_path / "methods").mkdir()
    (tmp_path / "__init__.py").write_text("from cocoax.methods import Rise\n")
    (tmp_path / "methods" / "rise.py").write_text(
        "from cocoax.methods.run import Run\nfrom cocoax.masking import MaskedEncoder, Masks\nimport torch\n"
        "def late():\n    from cocoax.masking.masked_encoder import score_anchors\n"
    )
    assert statements(tmp_path) == {("methods", "masking"): 2, ("cocoax", "methods"): 1}


def test_figure__has_every_room_in_order(tmp_path: Path) -> None:
    assert [room for floor in FLOORS for room in floor.rooms] == ROOMS
    draw(tmp_path / "rooms.png", ROOT)
    assert (tmp_path / "rooms.png").stat().st_size > 20_000

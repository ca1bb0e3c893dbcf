"""The rooms of Cocoax's source, and which of them import which.

    python benchmarks/rooms.py --figure docs/images/rooms.png

Everything is read from the source with ``ast``; nothing is imported. ``tests/test_rooms.py`` uses the same functions to keep
the order of the rooms.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SOURCE = Path(__file__).parent.parent / "src" / "cocoax"

# In the order data flows through them; "cocoax" is the package itself, which only the last rooms may import.
ROOMS = [
    *(
        "version",
        "seeding",
        "checks",
        "cautions",
        "progress",
        "store",
        "similarity",
        "spaces",
        "references",
        "targets",
        "show",
        "inputs",
        "encoders",
        "masking",
    ),
    *("results", "methods", "evaluation", "plots", "data", "questions", "survey", "insight", "paper"),
    *("cocoax", "app", "cli", "__main__"),
]

# --- rooms and imports ----------------------------------------------------------------------------------------------------


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Return line and room of every import of this package's modules, wherever it stands in the file."""
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


def room_of(file: Path, folder: Path = SOURCE) -> str:
    """Return the room that a file of the package is in."""
    first = file.relative_to(folder).parts[0].removesuffix(".py")
    return "cocoax" if first == "__init__" else first


def statements(folder: Path = SOURCE) -> Counter[tuple[str, str]]:
    """Return how many import statements lead from each room to each other room."""
    pairs: Counter[tuple[str, str]] = Counter()
    for file in sorted(folder.rglob("*.py")):
        own = room_of(file, folder)
        pairs.update((own, room) for _, room in set(imports(file)) if room != own)
    return pairs


# --- the figure -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Floor:
    """A row of the figure: one room, or several small ones, with a word about it."""

    rooms: tuple[str, ...]
    about: str

    @property
    def title(self) -> str:
        """Its rooms, with the slash of a folder where the room is one."""
        return ", ".join(f"{room}/" if (SOURCE / room).is_dir() else room for room in self.rooms if room != "__main__")


# From the ground up.
FLOORS = [
    Floor(("version", "seeding", "checks", "cautions", "progress", "store"), "small things that everybody needs"),
    Floor(("similarity",), "s: how alike two representations are"),
    Floor(("spaces",), "what representations may be compared"),
    Floor(("references",), "C, F: corpus and foil, encoded once or read as vectors"),
    Floor(("targets",), "γ: the number that is explained"),
    Floor(("show",), "views in figures, HTML and terminals"),
    Floor(("inputs",), "kinds of input, and how they are shown"),
    Floor(("encoders",), "f: a module and its kind of input"),
    Floor(("masking",), "masks, removals"),
    Floor(("results",), "what every answer is and can do"),
    Floor(("methods",), "φ: methods, runs, fields"),
    Floor(("evaluation",), "η: curves and other measures"),
    Floor(("plots",), "pictures of attributions"),
    Floor(("data",), "sample photos, captions, labelled folders"),
    Floor(("questions",), "questions in words and pictures"),
    Floor(("survey",), "whole data sets"),
    Floor(("insight",), "what an encoder knows"),
    Floor(("paper",), "the paper's studies, data, networks"),
    Floor(("cocoax",), "the public names, in __init__.py"),
    Floor(("app",), "the web page"),
    Floor(("cli", "__main__"), "the command line"),
]
INK, PAPER = "#222222", "#f4f1ea"
HALF = 2.3  # width of a box, from its middle


def draw(path: Path, folder: Path = SOURCE) -> None:
    """Draw the rooms from the ground up, with an arrow from each to those that it imports; the more imports, the wider.

    Every room has a line of its own that leads down beside the boxes, and a branch of it into each room that is imported:
    on the left for rooms up to the evaluation, on the right for those above.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    floors = [floor for floor in FLOORS if any(_exists(folder, room) for room in floor.rooms)]
    level = {room: number for number, floor in enumerate(floors) for room in floor.rooms}
    middle = level["evaluation"]
    widths = _between_floors(level, folder)
    figure, ax = plt.subplots(figsize=(10.5, 0.66 * len(floors)), layout="constrained")
    colours = [f"C{number if number <= middle else number - middle - 1}" for number in range(len(floors))]
    for side, rooms in ((-1, range(middle + 1)), (1, range(middle + 1, len(floors)))):
        for lane, source in enumerate(room for room in rooms if any(own == room for own, _ in widths)):
            goals = {goal: number for (own, goal), number in widths.items() if own == source}
            ends = {goal: _arrival(source, goal, widths, rooms) for goal in goals}
            _wire(ax, source, goals, ends, side * (HALF + 0.45 + 0.36 * lane), colours[source])
    for number, floor in enumerate(floors):
        _box(ax, number, floor, colours[number])
    lanes = max(middle + 1, len(floors) - middle - 1)  # as many as there are rooms on the side that has more
    ax.set_xlim(-HALF - 0.45 - 0.36 * lanes, HALF + 0.45 + 0.36 * lanes)
    ax.set_ylim(-0.5, len(floors) - 0.5)
    ax.set_axis_off()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _between_floors(level: Mapping[str, int], folder: Path) -> Counter[tuple[int, int]]:
    """Return how many import statements lead from each floor to each other one."""
    pairs: Counter[tuple[int, int]] = Counter()
    for (source, goal), number in statements(folder).items():
        if level[source] != level[goal]:
            pairs[level[source], level[goal]] += number
    return pairs


def _exists(folder: Path, room: str) -> bool:
    return room == "cocoax" or (folder / room).is_dir() or (folder / f"{room}.py").exists()


def _arrival(source: int, goal: int, pairs: Iterable[tuple[int, int]], side: range) -> float:
    """Return where the arrow from a room to another ends, of those on its side; arrows of higher rooms end higher."""
    sources = sorted(own for own, other in pairs if other == goal and own in side)
    place = sources.index(source) - (len(sources) - 1) / 2
    return goal + 0.06 + place * min(0.12, 0.48 / max(1, len(sources) - 1))


def _wire(ax: Axes, source: int, goals: dict[int, int], ends: dict[int, float], x: float, colour: str) -> None:
    """Draw the line of a room at ``x``, which leaves its box at the bottom, and its branches."""
    edge, start = HALF if x > 0 else -HALF, source - 0.29
    ax.plot([edge, x, x], [start, start, min(ends.values())], color=colour, lw=1.6, solid_joinstyle="round", zorder=1)
    for goal, number in goals.items():
        width = 0.8 + 0.22 * number
        style = {
            "arrowstyle": "-|>",
            "color": colour,
            "lw": width,
            "mutation_scale": 7 + width / 2,
            "shrinkA": 0,
            "shrinkB": 0,
        }
        ax.annotate("", (edge, ends[goal]), (x, ends[goal]), arrowprops=style, zorder=2)
        ax.plot(x, ends[goal], "o", color=colour, ms=2 + 0.9 * width, zorder=3)


def _box(ax: Axes, number: int, floor: Floor, colour: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.1"
    ax.add_patch(FancyBboxPatch((-HALF, number - 0.36), 2 * HALF, 0.72, style, fc=PAPER, ec=colour, lw=2.4, zorder=4))
    size = min(10.0, 380 / len(floor.title))  # a long one has to fit into the box too
    ax.text(0, number + 0.12, floor.title, ha="center", va="center", fontsize=size, weight="bold", color=INK, zorder=5)
    ax.text(0, number - 0.16, floor.about, ha="center", va="center", fontsize=8.5, color=INK, zorder=5)


def main() -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=Path, required=True, help="the picture to write")
    draw(parser.parse_args().figure)


if __name__ == "__main__":
    main()

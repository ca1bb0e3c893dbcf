"""The house of Cocoax's source: its rooms, which of them import which, and how large things in it are.

    python benchmarks/house.py --figure docs/images/rooms.png       draw the rooms and their imports
    python benchmarks/house.py --counts [FOLDER]                    count files, functions, branches on types
    python benchmarks/house.py --counts [FOLDER] --where            the same, and say where each of them is

Everything is read from the source with ``ast``; nothing is imported. FOLDER is a package's source, by default this one's.
``tests/test_rooms.py`` and ``tests/test_house.py`` use the same functions to keep the order of the rooms and the limits.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
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
        "habits",
        "progress",
        "storage",
        "similarity",
        "vectors",
        "references",
        "targets",
        "inputs",
        "encoders",
        "features",
    ),
    *("attribution", "evaluation", "plots", "highlight", "report", "questions", "data", "training", "studies"),
    *("datasets", "knowledge", "cocoax", "app", "commands", "__main__"),
]

LONGEST_FILE = 400
LONGEST_FUNCTION = 59
MOST_PARAMETERS = 8
VAGUE = ("one", "found")

# Types that say what kind of thing one has. Asking for them is a branch where a method of the thing itself should be.
KINDS = frozenset(
    {
        *("Encoder", "TextEncoder", "TabularEncoder", "EmbeddedText", "Explicand", "TokenRemoval", "Background", "Blur"),
        *("Rise", "Cosine", "Dot"),
    }
)
# The same with those of which there is only one kind, where asking mostly checks what a user passed.
MORE_KINDS = KINDS | {
    *("Run", "Target", "Method", "RemovalMethod", "GradientMethod", "KernelShap", "Occlusion", "Captum", "Attribution"),
    *("Reference", "Similarity", "LinearSimilarity", "Rbf", "Laplacian", "Polynomial", "Question", "Side", "Answer", "Match"),
    *("Display", "Picture", "Names", "Text", "Sound", "Inputs", "Pictures", "Texts", "Rows", "Sounds", "Tokenizer"),
    *(
        "Removal",
        "Baseline",
        "Constant",
        "Mean",
        "Noise",
        "Fixed",
        "MaskToken",
        "Deletion",
        "AttentionMask",
        "Curve",
        "Study",
    ),
}


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
    Floor(("version", "seeding", "checks", "cautions", "habits", "progress", "storage"), "small things that everybody needs"),
    Floor(("similarity",), "s: how alike two representations are"),
    Floor(("vectors",), "embeddings that are kept elsewhere"),
    Floor(("references",), "C, F: corpus and foil, encoded once"),
    Floor(("targets",), "γ: the number that is explained"),
    Floor(("inputs",), "kinds of input, and how they are shown"),
    Floor(("encoders",), "f: a module and its kind of input"),
    Floor(("features",), "masks, removals, the game"),
    Floor(("attribution",), "φ: methods, runs, attributions"),
    Floor(("evaluation",), "η: curves and other measures"),
    Floor(("plots", "highlight", "report"), "pictures and pages"),
    Floor(("questions",), "questions in words and pictures"),
    Floor(("data",), "pictures, captions, data sets"),
    Floor(("training",), "small encoders of one's own"),
    Floor(("studies",), "the paper's tables and figures"),
    Floor(("datasets",), "whole data sets"),
    Floor(("knowledge",), "what an encoder knows"),
    Floor(("cocoax",), "the public names, in __init__.py"),
    Floor(("app",), "the web page"),
    Floor(("commands", "__main__"), "the command line"),
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
    size = min(10.0, 430 / len(floor.title))  # a long one has to fit into the box too
    ax.text(0, number + 0.12, floor.title, ha="center", va="center", fontsize=size, weight="bold", color=INK, zorder=5)
    ax.text(0, number - 0.16, floor.about, ha="center", va="center", fontsize=8.5, color=INK, zorder=5)


# --- counts ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    """A function or method of the source."""

    file: Path
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.node.lineno} {self.name}"

    @property
    def name(self) -> str:
        """Its name, with that of its class."""
        return f"{self.owner}.{self.node.name}" if self.owner else self.node.name

    @property
    def lines(self) -> int:
        """From ``def`` to its last line."""
        return (self.node.end_lineno or self.node.lineno) - self.node.lineno + 1

    @property
    def is_constructor(self) -> bool:
        """Whether it makes an object of its class."""
        return self.node.name == "__init__"

    @property
    def is_command(self) -> bool:
        """Whether it belongs to the command line, where every option is a parameter."""
        return self.file.parts[0] in ("commands", "cli.py")

    @property
    def parameters(self) -> list[str]:
        """The names of its parameters, without ``self`` and ``cls``."""
        arguments = self.node.args
        every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
        names = [argument.arg for argument in every if argument is not None]
        return names[1:] if self.owner and names[:1] in (["self"], ["cls"]) else names

    @property
    def local_names(self) -> set[str]:
        """The names of its parameters and of everything that is assigned in it."""
        names = set(self.parameters)
        waiting: list[ast.AST] = list(self.node.body)
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.arg):  # of a lambda
                names.add(node.arg)
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):  # those are counted themselves
                waiting += ast.iter_child_nodes(node)
        return names


class Sources:
    """The files of a package, read once."""

    def __init__(self, folder: Path = SOURCE) -> None:
        if not folder.is_dir():
            raise SystemExit(f"No folder at {folder}; pass that of a package's source, such as src/cocoax.")
        texts = {file.relative_to(folder): file.read_text(encoding="utf-8") for file in sorted(folder.rglob("*.py"))}
        self.lines = {file: len(text.splitlines()) for file, text in texts.items()}
        self._trees = {file: ast.parse(text) for file, text in texts.items()}
        self.functions = [function for file, tree in self._trees.items() for function in _functions(file, tree)]

    def large_files(self) -> list[str]:
        """Files over the limit, with their lines."""
        return [f"{file} ({lines} lines)" for file, lines in self.lines.items() if lines > LONGEST_FILE]

    def long_functions(self) -> list[str]:
        """Functions over the limit, with their lines."""
        return [f"{function} ({function.lines} lines)" for function in self.functions if function.lines > LONGEST_FUNCTION]

    def many_parameters(self, constructors: bool) -> list[str]:
        """Constructors, or all other functions, with more parameters than the limit; those of commands are left out."""
        return [
            f"{function} ({len(function.parameters)} parameters)"
            for function in self.functions
            if len(function.parameters) > MOST_PARAMETERS
            and function.is_constructor == constructors
            and not function.is_command
        ]

    def branches_on(self, kinds: frozenset[str]) -> list[str]:
        """Calls of ``isinstance`` with one of these types, outside of ``inputs/``."""
        return [
            f"{file}:{node.lineno} {', '.join(sorted(asked))}"
            for file, tree in self._trees.items()
            if file.parts[0] != "inputs"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and (asked := _types_asked(node) & kinds)
        ]

    def vague_names(self) -> list[str]:
        """Functions with a parameter or a local name that says nothing."""
        return [str(function) for function in self.functions if function.local_names & set(VAGUE)]


def _functions(file: Path, tree: ast.AST, owner: str = "") -> Iterator[Function]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(file, node, owner)
            yield from _functions(file, node)
        else:
            yield from _functions(file, node, node.name if isinstance(node, ast.ClassDef) else owner)


def _types_asked(call: ast.Call) -> set[str]:
    """Return the names of the types in a call of ``isinstance``; nothing of another call."""
    if not (isinstance(call.func, ast.Name) and call.func.id == "isinstance" and len(call.args) == 2):
        return set()
    nodes = list(ast.walk(call.args[1]))
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


COUNTS: dict[str, Callable[[Sources], list[str]]] = {
    f"files over {LONGEST_FILE} lines": Sources.large_files,
    f"functions of {LONGEST_FUNCTION + 1} lines or more": Sources.long_functions,
    f"functions with more than {MOST_PARAMETERS} parameters, without commands": lambda house: house.many_parameters(False),
    f"constructors with more than {MOST_PARAMETERS} parameters": lambda house: house.many_parameters(True),
    "isinstance on kinds, outside inputs/": lambda house: house.branches_on(KINDS),
    "isinstance on kinds and on others of ours, outside inputs/": lambda house: house.branches_on(MORE_KINDS),
    f"functions with a local name {' or '.join(VAGUE)}": Sources.vague_names,
}


def print_counts(folder: Path, where: bool) -> None:
    """Print every count; ``where`` adds each place."""
    house = Sources(folder)
    print(f"{sum(house.lines.values()):7} source lines, in {len(house.lines)} files")
    print(f"{max(house.lines.values()):7} lines in the longest file")
    print(f"{max(function.lines for function in house.functions):7} lines in the longest of {len(house.functions)} functions")
    for title, count in COUNTS.items():
        places = count(house)
        print(f"{len(places):7} {title}")
        if where:
            print("".join(f"{'':10}{place}\n" for place in places), end="")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the rooms and their imports into this file")
    parser.add_argument("--counts", type=Path, nargs="?", const=SOURCE, metavar="FOLDER", help="count what is in this folder")
    parser.add_argument("--where", action="store_true", help="with --counts: name every place")
    options = parser.parse_args()
    if options.figure is None and options.counts is None:
        parser.error("say what to do: --figure FILE or --counts [FOLDER]")
    if options.counts is not None:
        print_counts(options.counts, options.where)
    if options.figure is not None:
        draw(options.figure)
        print(f"wrote {options.figure}")


if __name__ == "__main__":
    main()

"""The size of each room of the source: files, bytes and top-level public definitions; and the bytes of its tests.

    python benchmarks/sizes.py

A definition is a class or function at the top level of a file whose name does not begin with an underscore.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src" / "cocoax", ROOT / "tests"


def size_of(files: list[Path]) -> tuple[int, int, int]:
    """Return the number of files with something in them, their bytes and their public definitions."""
    contents = [content for file in files if (content := file.read_text(encoding="utf-8")).strip()]
    definitions = [node for content in contents for node in ast.parse(content).body]
    public = [node for node in definitions if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_"]
    return len(contents), sum(len(content.encode()) for content in contents), len(public)


def main() -> None:
    """Print a line for each room, for the files that lie in none, and for all."""
    print(f"{'room':14}{'files':>7}{'bytes':>11}{'public':>8}{'test files':>12}{'test bytes':>12}")
    rooms = sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists())
    rooms += sorted(path.name for path in TESTS.iterdir() if (path / "__init__.py").exists() and path.name not in rooms)
    for name, pattern in [*((room, f"{room}/**/*.py") for room in rooms), ("(no room)", "*.py"), ("all", "**/*.py")]:
        files, number, public = size_of(sorted(SOURCE.glob(pattern)))
        test_files, test_number, _ = size_of(sorted(TESTS.glob(pattern)))
        print(f"{name:14}{files:7}{number:11,}{public:8}{test_files:12}{test_number:12,}")


if __name__ == "__main__":
    main()

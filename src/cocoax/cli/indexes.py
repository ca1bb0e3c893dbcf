"""``cocoax ask INDEX``: a question to a whole data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import cocoax
from cocoax.cli.terminal import counted, print_json, print_plain, print_table, print_written

SUFFIXES = (".html", ".json", ".parquet")
USUAL = (".html", ".json")  # a Parquet file has the hottest cell of every input, for which all fields are read


def is_index(paths: Sequence[Path]) -> bool:
    """Whether what is asked about is an index, even one that was only begun, rather than pictures."""
    if len(paths) != 1 or not (manifest := paths[0] / "manifest.json").is_file():
        return False
    return (paths[0] / "shards").is_dir() or '"kind": "index"' in manifest.read_text(encoding="utf-8", errors="replace")


def check_unused(options: Mapping[str, object]) -> None:
    """Raise if options were given that an index has settled already."""
    if options:
        raise ValueError(f"--{next(iter(options))} was settled when the index was made; leave it out.")


def chosen_rows(conditions: Sequence[str]) -> dict[str, list[str]] | None:
    """Return the selection that ``label=cat,dog`` and the like write down; None for all rows."""
    selection: dict[str, list[str]] = {}
    for condition in conditions:
        name, equals, values = condition.partition("=")
        if not equals or not name.strip() or not values.strip():
            raise ValueError(f"A condition reads label=cat, or label=cat,dog for several. Got {condition!r} instead.")
        selection.setdefault(name.strip(), []).extend(value.strip() for value in values.split(","))
    return selection or None


def ask_index(
    folder: Path, questions: Sequence[cocoax.Question], where: Sequence[str], top: int, out: Path, as_json: bool
) -> None:
    """Ask an index, print the answer, and write it: a file for --out ending in .html, .json or .parquet, else a folder."""
    from cocoax.questions.report import free_ending
    from cocoax.survey import Index

    index = Index.open(folder)
    rows = chosen_rows(where)
    described = []
    for number, question in enumerate(questions):
        survey = index.ask(question, rows, top=top)
        single = out.suffix in SUFFIXES
        if single and len(questions) > 1:
            raise ValueError(f"{len(questions)} questions do not fit in one file; give a folder as --out.")
        stem = "answer" if len(questions) == 1 else f"answer-{number + 1}"
        stem += "" if single else free_ending(out, f"{stem}{{}}{USUAL[0]}")
        paths = [out] if single else [out / f"{stem}{suffix}" for suffix in USUAL]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        files = [survey.save(path) for path in paths]
        described.append({**survey.describe(), "files": [str(path) for path in files]})
        if as_json:
            continue
        print_plain(
            f"{survey.question}: {counted(len(survey.rows), index.manifest.noun)}, mean score {survey.scores.mean():+.3f}"
        )
        half = max(1, len(survey.rows) // 2)
        shown = [*survey.highest[: min(5, half)], *survey.lowest[: min(5, len(survey.rows) - half)][::-1]]
        cells = [
            [str(item.place), item.id, f"{item.attribution.score:+.3f}", ", ".join(map(str, item.columns.values()))]
            for item in shown
        ]
        print_table(("place", "input", "score", ", ".join(index.columns) or ""), cells)
        print_written(files)
    if as_json:
        print_json({"answers": described})

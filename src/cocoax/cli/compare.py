"""``cocoax compare``: the same data under two encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cocoax.cli.terminal import ASKED, OUTPUT, AsJson, counted, print_json, print_plain, print_table, print_written

EXAMPLES = (
    "cocoax compare index-before/ index-after/",
    "cocoax compare index-a/ index-b/ --label label --out comparison.json",
    'cocoax compare index-a/ index-b/ --question "a cat rather than a dog"',
)


def compare_indexes(
    first: Annotated[Path, typer.Argument(help="An index, as 'cocoax index' makes it.")],
    second: Annotated[Path, typer.Argument(help="One of the same data by another encoder.")],
    label: Annotated[
        str | None,
        typer.Option(
            help="The column of the classes: ask each input about its own; else about itself.", rich_help_panel=ASKED
        ),
    ] = None,
    question: Annotated[
        str | None, typer.Option(help="Ask both this instead: 'a cat rather than a dog'.", rich_help_panel=ASKED)
    ] = None,
    top: Annotated[int, typer.Option(help="How many of the most changed to list.", min=1, rich_help_panel=OUTPUT)] = 20,
    out: Annotated[Path | None, typer.Option(help="JSON file with all of it.", rich_help_panel=OUTPUT)] = None,
    as_json: AsJson = False,
) -> None:
    """Show where scores and maps of the same inputs differ most between two encoders."""
    from cocoax.survey import Index, compare

    comparison = compare(Index.open(first), Index.open(second), label, question)
    if as_json:
        print_json(comparison.describe(top))
    else:
        print_plain(f"{len(comparison.inputs)} inputs, asked what makes them like {comparison.question}")
        print_plain(f"mean correlation of the two maps of an input: {comparison.agreement:.3f}")
        if comparison.others:
            print_plain(f"left out: {counted(comparison.others, 'input')} of the same id but with other contents")
        if comparison.scores_tell:
            print_plain(f"correlation of the two scores over inputs: {comparison.score_agreement:.3f}")
        if label is not None:
            rows = [
                [name, f"{of['inputs']:.0f}", f"{of['agreement']:.3f}", f"{of['score 1']:+.3f}", f"{of['score 2']:+.3f}"]
                for name, of in comparison.by_label().items()
            ]
            print_table((label, "inputs", "maps agree", "score, first", "score, second"), rows)
        for title, items in (("map changed most", comparison.inputs), ("score moved most", comparison.moved_most)):
            if not items:
                continue  # scores of inputs like themselves are all 1
            changed = [
                [item.id, item.label, f"{item.correlation:+.3f}", *(f"{score:+.3f}" for score in item.scores)]
                for item in items[:top]
            ]
            print_table((title, label or "", "maps agree", "score, first", "score, second"), changed)
    if out is not None:
        file = comparison.save(out)
        if not as_json:
            print_written([file])

"""What ``cocoax ask-text`` does: a question about a text, answered in the terminal, as HTML and as JSON."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cocoax.attribution import IntegratedGradients, KernelShap, Method, Occlusion, Rise
from cocoax.encoders import TextEncoder, load
from cocoax.highlight import to_rich
from cocoax.inputs.words import check_features
from cocoax.questions.matching import ExplainedText, explain_match, explain_text
from cocoax.report import Section, write_report

HOW = (
    "Red words raise the score, blue ones lower it; point at a word to see its value. The score is the similarity to the "
    "corpus minus that to the foil, and so is each word's value."
)


def answer(
    text: str,
    like: Sequence[str],
    unlike: Sequence[str],
    *,
    match: bool = False,
    encoder: str = "minilm",
    features: str = "words",
    removal: str | None = None,
    method: str = "rise",
    samples: int = 500,
    seed: int = 0,
) -> dict[str, ExplainedText]:
    """The answer, or both sides of a match, by heading."""
    if not text.strip():
        raise ValueError("The text is empty; write at least one word.")
    how = _method(method, samples, seed, removal)
    kind = check_features(features)
    for name, texts in (("like", like), ("unlike", unlike)):
        if any(not one.strip() for one in texts):
            raise ValueError(f"One of the texts of --{name} is empty; write at least one word.")
    if match and len(like) != 1:
        raise ValueError(f"A match is with one document; give --like once. Got {len(like)} instead.")
    loaded = load(encoder)
    tower = loaded if isinstance(loaded, TextEncoder) else loaded.text
    if not isinstance(tower, TextEncoder):
        raise TypeError(f"{encoder!r} does not encode texts whose words can be removed; use minilm or st:NAME_OR_FOLDER.")
    tower = tower.by(kind)
    tower.inputs.too_long = "cut"  # with a warning, which says how much was left out
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        if match:
            found = explain_match(tower, text, like[0], unlike, method=how)
            return {"The query": found.query_side, "The document": found.document_side}
        corpus = tower.reference(list(like), progress=False)
        foil = tower.reference(list(unlike), progress=False) if unlike else None
        return {"The text": explain_text(tower, text, corpus, foil, method=how)}


def _method(name: str, samples: int, seed: int, removal: str | None) -> Method:
    options: dict[str, Any] = {} if removal is None else {"baseline": removal}
    if name == "rise":
        return Rise(samples=samples, seed=seed, **options)
    if name == "kernel-shap":
        return KernelShap(samples=samples, seed=seed, **options)
    if name == "occlusion":
        return Occlusion(**options)
    if name == "integrated-gradients":
        return IntegratedGradients(**options)
    raise ValueError(f"No method is called {name!r}; known are rise, kernel-shap, occlusion and integrated-gradients.")


def print_side(console: Console, heading: str, side: ExplainedText, most: int = 8) -> None:
    """The text in colour, its score in parts, and the words that count most for and against."""
    console.print(f"[bold]{escape(heading)}[/]: {escape(side.attribution.name)}", highlight=False)
    console.print(Padding(to_rich(side.attribution), (1, 2)), highlight=False)
    console.print(str(side), highlight=False, markup=False)
    header, rows = _table(side, most)
    table = Table(*header)
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)
    more = len(side.attribution.values) - len(rows)
    if more > 0:
        console.print(f"and {more} more that count less; --out writes them all", highlight=False)
    if left_out := side.attribution.metadata.get("left_out"):
        console.print(f"The last {left_out} tokens of the text were left out: the encoder takes no more.", highlight=False)


def _table(side: ExplainedText, most: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Words by the size of their values, with standard errors and parts where there are some."""
    whole = side.attribution
    assert whole.tokens is not None
    shown = whole.values - whole.neutral
    header = ["word", "value"]
    header += ["±"] if whole.standard_error is not None else []
    header += ["corpus", "foil"] if side.foil is not None else []
    rows = []
    for index in shown.abs().argsort(descending=True, stable=True)[:most].tolist():
        row = [whole.tokens[index], f"{float(shown[index]):+.4f}"]
        if whole.standard_error is not None:
            error = float(whole.standard_error[index])
            row.append(f"{error:.4f}" + (" (may be nothing)" if abs(float(shown[index])) < 2 * error else ""))
        if side.foil is not None:
            row += [f"{float(part.values[index]) - part.neutral:+.4f}" for part in (side.corpus, side.foil)]
        rows.append(row)
    return header, rows


def write_answers(folder: Path, sides: Mapping[str, ExplainedText]) -> list[Path]:
    """An HTML report and the numbers as JSON; returns the files."""
    sections = []
    for heading, side in sides.items():
        header, rows = _table(side)
        text = f"{side.attribution.name}: {side}. {HOW}"
        sections.append(Section(heading, text, header=header, rows=rows, html=side.attribution.html()))
    page = write_report(folder / "answer.html", "What makes this text similar to that?", sections)
    numbers = {heading: _numbers(side) for heading, side in sides.items()}
    plain = folder / "answer.json"
    plain.write_text(json.dumps(numbers, indent=1, ensure_ascii=False), encoding="utf-8")
    return [page, plain]


def _numbers(side: ExplainedText) -> dict[str, Any]:
    whole = side.attribution
    return {
        "question": whole.name,
        "text": whole.text,
        "score": whole.score,
        "corpus": side.corpus.score,
        "foil": None if side.foil is None else side.foil.score,
        "neutral": whole.neutral,
        "tokens": whole.tokens,
        "offsets": whole.offsets,
        "values": whole.values.tolist(),
        "standard_error": None if whole.standard_error is None else whole.standard_error.tolist(),
        "corpus_values": side.corpus.values.tolist(),
        "foil_values": None if side.foil is None else side.foil.values.tolist(),
        "metadata": dict(whole.metadata),
    }

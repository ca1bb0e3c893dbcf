"""Why did my search find this? Search the documentation of scikit-learn, then explain the top hit against the second.

    python examples/search_debugging.py "find groups of similar points without labels"

The corpus comes with pip: the first paragraph of every estimator's and function's documentation in scikit-learn.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass

import torch
from rich.console import Console
from sklearn.utils.discovery import all_estimators, all_functions

import cocoax

QUERY = "find groups of similar points without labels"


@dataclass(frozen=True)
class Document:
    """A name and what its documentation begins with."""

    name: str
    text: str


def documents() -> list[Document]:
    """Every public estimator and function of scikit-learn that has documentation."""
    found = []
    for name, thing in [*all_estimators(), *all_functions()]:
        first = (inspect.getdoc(thing) or "").split("\n\n")
        # A title alone says little: take the paragraph after it as well, up to the list of parameters.
        lines = [line for line in "\n".join(first[:2]).split("Parameters")[0].splitlines() if not line.startswith("..")]
        text = " ".join(" ".join(lines).split())
        if text:
            found.append(Document(name, text))
    return found


@dataclass(frozen=True)
class Index:
    """Documents and their representations."""

    encoder: cocoax.TextEncoder
    documents: list[Document]
    representations: torch.Tensor

    def search(self, query: str, count: int = 5) -> list[tuple[float, Document]]:
        """The most similar documents, best first."""
        scores = self.representations @ self.encoder.represent([query])[0]  # unit vectors
        return [(float(scores[index]), self.documents[index]) for index in scores.argsort(descending=True)[:count].tolist()]


def build_index(encoder: cocoax.TextEncoder) -> Index:
    """Encode every document once."""
    found = documents()
    return Index(encoder, found, encoder.represent([document.text for document in found]))


def main(query: str = QUERY) -> cocoax.Match:
    """Search, show the hits, explain the first against the second."""
    console = Console()
    encoder = cocoax.load("starter").text
    assert isinstance(encoder, cocoax.TextEncoder)
    index = build_index(encoder)
    hits = index.search(query)
    console.print(f"{len(index.documents)} documents. Query: {query}\n", highlight=False)
    for score, document in hits:
        console.print(f"{score:.3f}  [bold]{document.name}[/]  {document.text[:90]}…", highlight=False)
    (_, first), (_, second) = hits[:2]
    match = cocoax.explain_match(encoder, query, first.text, rather_than=[second.text])
    console.print(f"\nWhy {first.name} rather than {second.name}?", highlight=False)
    for side in (match.query_side, match.document_side):
        console.print(side.attribution)
        console.print(f"  {side}; most: {', '.join(f'{word} {value:+.3f}' for word, value in side.attribution.top(4))}\n")
    return match


if __name__ == "__main__":
    main(*sys.argv[1:2])

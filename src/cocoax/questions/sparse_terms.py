"""Sparse encoders (SPLADE): terms that query and document share are exact; which words put them there is estimated."""

from __future__ import annotations

from typing import Any

import torch

from cocoax.methods import Run
from cocoax.show import Table


def is_sparse(encoder: Any) -> bool:
    """Whether an encoder's representation has one weight for each term of a vocabulary."""
    return hasattr(encoder.module, "terms")


def shared_terms(module: Any, query: Run, document: Run) -> Table:
    """Return the terms that both share, their weights, whose products sum to the score, and the words that raise each most.

    Weights and products are exact. The words are those whose removal lowers the weight of the term most, by the masked copies
    of the run.
    """
    weights = [run.anchors[0].double() for run in (query, document)]
    products = weights[0] * weights[1]
    order = products.argsort(descending=True)
    numbers = order[products[order] > 0].tolist()
    words = [_words_for(run, numbers) for run in (query, document)]
    rows = zip(
        module.terms(numbers), *(own[numbers].tolist() for own in (*weights, products)), words[0], words[1], strict=True
    )
    columns = ("term", "in the query", "in the document", "product", "by the query's", "by the document's")
    return Table(columns, tuple(rows), title="Terms that query and document share (exact)")


def _words_for(run: Run, numbers: list[int]) -> list[str]:
    """Return the feature that raises the weight of each term most; empty where none does."""
    names = run.explicand.names
    if not numbers or names is None:
        return [""] * len(numbers)
    weights, anchors = (part[:, numbers].double() for part in (run.representations, run.anchors))
    effects = run.method.effects(run.masks, weights, anchors).values
    values, best = torch.max(effects.reshape(len(numbers), -1), dim=1)
    return [names[place] if value > 0 else "" for value, place in zip(values.tolist(), best.tolist(), strict=True)]

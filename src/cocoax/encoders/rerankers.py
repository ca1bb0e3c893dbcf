"""Rerankers (cross-encoders): functions from pairs of a query and a document to scores, as encoders of one dimension.

A pair is one text with a separator between both sides, cut into pieces, so that words of query and document are features of
one game. Every distinct pair of texts is scored once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from cocoax.encoders.function_calls import EmbeddingError, FunctionCalls, FunctionModule, advice_on_single
from cocoax.encoders.identity import WeightsDigest
from cocoax.encoders.text import TextEncoder
from cocoax.encoders.text_functions import FILLER, UNLIMITED, PieceTokenizer
from cocoax.inputs.text import Span

OTHER_FILLER = "–"
SEPARATOR = "\x1e"  # the record separator of ASCII, which is space to the rules that find words
Pairs = list[tuple[str, str]]
_METHODS = ("predict", "compute_score", "score")  # of sentence-transformers, FlagEmbedding and LangChain


class Reranker(TextEncoder):
    """An encoder of pairs, whose representation is the score ``[n, 1]`` of a query and a document.

    Args:
        score: from a list of ``(query, document)`` to one number for each; or an object that has one, such as a
            ``CrossEncoder`` of sentence-transformers.
        name: of the model: its scores are kept in the cache folder. That of a module is by default made of its weights;
            without a name scores are kept in memory.
        filler: what stands for a query, and for a document, of which no word is left. They differ, so that a score that
            counts what both sides share finds nothing.
        batch_size, parallel, max_calls: those of an embedding function.

    """

    def __init__(
        self,
        score: Callable[[Pairs], Any] | Any,
        *,
        name: str | None = None,
        filler: tuple[str, str] = (FILLER, OTHER_FILLER),
        batch_size: int = 64,
        parallel: int = 1,
        max_calls: int | None = None,
    ) -> None:
        function = _score_function_of(score)
        if function is None:
            raise TypeError(f"A reranker must be a function of a list of pairs. Got {type(score).__name__} instead.")
        owner = getattr(function, "__self__", None)
        own_name = name or type(score if owner is None else owner).__name__
        if name is None and isinstance(owner, nn.Module):
            name = f"reranker {WeightsDigest(owner, None)()}"
        pieces = _PairTokenizer(*filler)
        calls = FunctionCalls(
            function,
            name,
            batch_size=batch_size,
            parallel=parallel,
            max_calls=max_calls,
            check=_scores_of,
            noun="reranker",
            advice=advice_on_single(function, "pair"),
        )
        module = FunctionModule(calls, pieces.item, function)
        super().__init__(module, pieces, limit=UNLIMITED, name=name)  # type: ignore[arg-type]
        self.name = own_name[:60]


def _score_function_of(score: Any) -> Callable[[Pairs], Any] | None:
    """Return the function of pairs that an object is or has; None if there is none."""
    found = next((found for name in _METHODS if callable(found := getattr(score, name, None))), None)
    return found if found is not None else score if callable(score) else None


def is_cross_encoder(model: Any) -> bool:
    """Whether it is a cross-encoder of sentence-transformers or LangChain; neither package is imported for it."""
    return any("CrossEncoder" in kind.__name__ for kind in type(model).__mro__) and _score_function_of(model) is not None


def joint_text(query: str, document: str) -> str:
    """Return a query and a document as one text."""
    return f"{query.replace(SEPARATOR, ' ')}{SEPARATOR}{document.replace(SEPARATOR, ' ')}"


class _PairTokenizer(PieceTokenizer):
    """Cuts both sides of a pair into words; the piece between them is never removed."""

    between = 3

    def __init__(self, filler: str = FILLER, other: str = OTHER_FILLER) -> None:
        super().__init__(filler)
        self._other_filler = other
        self.content = f"pairs, {filler!r}, {other!r}"
        self._pieces.append(SEPARATOR)

    def places(self, text: str) -> tuple[list[int], list[Span | None]]:
        """Return the numbers of the pieces of both sides, and where their words stand in the joint text."""
        query, _, document = text.partition(SEPARATOR)
        first, own = super().places(query)
        second, others = super().places(document)
        start = len(query) + 1
        moved = [None if span is None else (span[0] + start, span[1] + start) for span in others]
        return [*first, self.between, *second], [*own, None, *moved]

    def item(self, ids: Tensor) -> tuple[str, tuple[str, str]]:
        """Return the joint text of token ids, and the texts of both sides; the filler where nothing is left of a side."""
        numbers = ids.tolist()
        at = numbers.index(self.between) if self.between in numbers else len(numbers)
        pair = self.text(numbers[:at])[0], self.text(numbers[at + 1 :])[0] if numbers[at + 1 :] else self._other_filler
        return joint_text(*pair), pair


def _scores_of(output: Any, count: int) -> Sequence[np.ndarray]:
    """Return what a reranker gave as one array ``[1]`` for each pair; raise if it is anything else."""
    try:
        scores = np.asarray(output.detach().cpu() if isinstance(output, Tensor) else output, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbeddingError(
            f"The reranker must return one number for each pair. Got {type(output).__name__} instead."
        ) from error
    if scores.shape not in ((count,), (count, 1)):
        raise EmbeddingError(
            f"The reranker must return one number for each of {count} pairs. Got shape {list(scores.shape)} instead; of a "
            "classifier choose one class: lambda pairs: model.predict(pairs)[:, 1]."
        )
    return list(scores.reshape(count, 1))

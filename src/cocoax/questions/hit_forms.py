"""Hits of a search in the forms in which people hold them, read as content, score, id and metadata.

Texts, ``(text, score)``, dicts, LangChain Documents, LlamaIndex nodes, rows of a data frame, points of Qdrant, rows of
LanceDB, results of Chroma, and distances and numbers of FAISS with ``texts=``. No library of these is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from torch import Tensor

from cocoax.methods.method import INPUT_TYPES

_TEXTS = ("text", "page_content", "content", "document", "body", "chunk", "passage", "snippet", "title")
_SCORES = ("score", "_score", "similarity", "_relevance_score", "relevance_score")
_DISTANCES = ("distance", "_distance")
_IDS = ("id", "_id", "doc_id", "pk")


@dataclass(frozen=True, eq=False)
class SearchHit:
    """A hit: what was found, and what the search says about it.

    Attributes:
        content: the text, or another input.
        score: the search's own.
        is_distance: whether less of the score is better.
        id: what the search calls it.
        metadata: all else.

    """

    content: Any
    score: float | None = None
    is_distance: bool = False
    id: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read_hits(hits: Any, text: str | None = None, texts: Sequence[str] | None = None) -> list[SearchHit]:
    """Return hits, best first as they were given.

    Args:
        hits: in any of the forms above; one input is one hit.
        text: the key or column that holds the text; found by its name if not given.
        texts: what numbers of FAISS are numbers of.

    """
    if texts is not None:
        return _numbered(hits, texts)
    if isinstance(hits, Mapping) and "ids" in hits and "documents" in hits:
        return _of_chroma(hits)
    for name in ("points", "source_nodes"):  # Qdrant's response, LlamaIndex's
        hits = getattr(hits, name, hits)
    for name in ("to_pylist", "to_dicts"):  # pyarrow, polars
        if callable(found := getattr(hits, name, None)):
            hits = found()
    if hasattr(hits, "columns") and hasattr(hits, "to_dict"):  # pandas
        hits = hits.to_dict("records")
    if isinstance(hits, (*INPUT_TYPES, Mapping)) or _is_object(hits):
        hits = [hits]
    if not isinstance(hits, Iterable):
        raise TypeError(f"Hits must be what a search found, best first. Got {type(hits).__name__} instead.")
    return [_with_content(read_hit(hit, text), number) for number, hit in enumerate(hits, 1)]


def _with_content(hit: SearchHit, number: int) -> SearchHit:
    """Return a hit; raise if it holds nothing."""
    if _is_missing(hit.content) or (isinstance(hit.content, str) and not hit.content.strip()):
        raise ValueError(f"Hit {number} has no text; leave it out.")
    return hit


def read_hit(hit: Any, text: str | None = None) -> SearchHit:
    """Return one hit."""
    if isinstance(hit, SearchHit):
        return hit
    if hasattr(hit, "_asdict"):  # a row of itertuples
        hit = hit._asdict()
    if isinstance(hit, tuple) and len(hit) == 2 and isinstance(hit[1], Real) and not isinstance(hit[0], np.ndarray | Tensor):
        found = read_hit(hit[0], text)
        return SearchHit(found.content, float(hit[1]), False, found.id, found.metadata)
    if isinstance(hit, INPUT_TYPES):
        return SearchHit(hit)
    if hasattr(hit, "node") and hasattr(hit, "score"):  # LlamaIndex
        found = read_hit(hit.node, text)
        return SearchHit(found.content, _number(hit.score), False, found.id, found.metadata)
    if callable(getattr(hit, "get_content", None)):
        return SearchHit(hit.get_content(), None, False, getattr(hit, "node_id", None), dict(hit.metadata or {}))
    if hasattr(hit, "page_content"):  # LangChain
        return SearchHit(hit.page_content, None, False, getattr(hit, "id", None), dict(hit.metadata or {}))
    if hasattr(hit, "payload"):  # Qdrant
        return SearchHit(
            **{**vars(_of_dict(hit.payload or {}, text)), "score": _number(getattr(hit, "score", None)), "id": hit.id}
        )
    if not isinstance(hit, Mapping) and callable(getattr(hit, "to_dict", None)):  # a row of a data frame
        hit = hit.to_dict()
    return _of_dict(hit, text) if isinstance(hit, Mapping) else SearchHit(hit)


def _is_missing(value: Any) -> bool:
    """Whether it is None, or the NaN that a data frame has for it."""
    return value is None or (isinstance(value, float) and value != value)


def _is_object(hit: Any) -> bool:
    return any(hasattr(hit, name) for name in ("page_content", "payload", "node", "get_content", "_asdict"))


def _of_dict(hit: Mapping[str, Any], text: str | None) -> SearchHit:
    known = [name for name in ((text,) if text is not None else _TEXTS) if isinstance(hit.get(name), str)]
    if not known and text is None:
        known = [name for name, value in hit.items() if isinstance(value, str) and name not in _IDS]
        known = known if len(known) == 1 else []
    if not known and any(_is_missing(hit[name]) for name in ((text,) if text is not None else _TEXTS) if name in hit):
        return SearchHit(None)
    if not known:
        raise ValueError(f"A hit has the keys {', '.join(map(repr, hit)) or 'none'}; say which holds its text by text=.")
    score = next((name for name in _SCORES if _number(hit.get(name)) is not None), None)
    distance = next((name for name in _DISTANCES if _number(hit.get(name)) is not None), None)
    number, own_id = score or distance, next((name for name in _IDS if name in hit), None)
    nested = hit.get("metadata")
    rest = {name: value for name, value in hit.items() if name not in (known[0], number, own_id, "metadata", "vector")}
    metadata = {**(nested if isinstance(nested, Mapping) else {}), **rest}
    value = None if number is None else _number(hit[number])
    return SearchHit(hit[known[0]], value, score is None and distance is not None, hit.get(own_id or ""), metadata)


def _of_chroma(hits: Mapping[str, Any]) -> list[SearchHit]:
    """Return the hits of Chroma's answer to one query: a dict of lists, each with one list for each query."""
    if len(hits["ids"]) != 1 or not hits["documents"]:
        raise ValueError(f"Chroma's answer is to {len(hits['ids'])} queries; give that to one, with its documents.")
    count = len(hits["ids"][0])
    distances, metadatas = ((hits.get(name) or [[None] * count])[0] for name in ("distances", "metadatas"))
    rows = zip(hits["ids"][0], hits["documents"][0], distances, metadatas, strict=True)
    return [SearchHit(text, _number(distance), True, own_id, dict(more or {})) for own_id, text, distance, more in rows]


def _numbered(hits: Any, texts: Sequence[str]) -> list[SearchHit]:
    """Return the hits of FAISS: distances or scores, and numbers of texts, of one query."""
    if not (isinstance(hits, tuple | list) and len(hits) == 2):
        raise TypeError("With texts=, hits are the two arrays that FAISS returns: (scores, numbers).")
    scores, numbers = (np.asarray(part).reshape(-1) for part in hits)
    if len(scores) != len(numbers):
        raise ValueError(f"There are {len(scores)} scores but {len(numbers)} numbers of hits.")
    is_distance = len(scores) > 1 and bool(scores[-1] > scores[0])
    kept = [(float(score), int(number)) for score, number in zip(scores, numbers, strict=True) if number >= 0]
    if kept and max(number for _, number in kept) >= len(texts):
        raise ValueError(f"A hit has the number {max(number for _, number in kept)}, but there are {len(texts)} texts.")
    return [SearchHit(texts[number], score, is_distance, number) for score, number in kept]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else None

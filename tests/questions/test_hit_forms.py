"""Hits as people hold them: every form gives the same contents, scores, ids and metadata."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cocoax.questions.hit_forms import read_hits

TEXTS = ["a red car", "a big dog"]
SCORES = [0.9, 0.5]
ROWS = [
    {"id": n, "text": text, "score": score, "lang": "en"} for n, (text, score) in enumerate(zip(TEXTS, SCORES, strict=True))
]
Row = namedtuple("Row", "id text score lang")


def langchain(text: str) -> Any:
    return SimpleNamespace(page_content=text, metadata={"lang": "en"}, id=TEXTS.index(text))


def llama(row: dict[str, Any]) -> Any:
    node = SimpleNamespace(get_content=lambda: row["text"], metadata={"lang": "en"}, node_id=row["id"])
    return SimpleNamespace(node=node, score=row["score"])


def qdrant(row: dict[str, Any]) -> Any:
    return SimpleNamespace(id=row["id"], score=row["score"], payload={"text": row["text"], "lang": "en"}, version=1)


@pytest.mark.parametrize(
    "hits",
    [
        ROWS,
        [(langchain(text), score) for text, score in zip(TEXTS, SCORES, strict=True)],
        [llama(row) for row in ROWS],
        SimpleNamespace(source_nodes=[llama(row) for row in ROWS]),
        [qdrant(row) for row in ROWS],
        SimpleNamespace(points=[qdrant(row) for row in ROWS]),
        pd.DataFrame(ROWS),
        [row for _, row in pd.DataFrame(ROWS).iterrows()],
        [Row(**row) for row in ROWS],
        [
            {"id": row["id"], "page_content": row["text"], "similarity": row["score"], "metadata": {"lang": "en"}}
            for row in ROWS
        ],
    ],
    ids=["dicts", "langchain", "llama", "response", "points", "answer", "frame", "series", "tuples", "nested"],
)
def test_read_hits__forms(hits: Any) -> None:
    found = read_hits(hits)
    assert [hit.content for hit in found] == TEXTS
    assert [hit.score for hit in found] == SCORES
    assert [hit.id for hit in found] == [0, 1]
    assert [dict(hit.metadata) for hit in found] == [{"lang": "en"}] * 2
    assert not any(hit.is_distance for hit in found)


def test_read_hits__distances() -> None:
    chroma = {"ids": [["a", "b"]], "documents": [TEXTS], "distances": [[0.1, 0.5]], "metadatas": [[{"lang": "en"}, None]]}
    lance = [{"text": text, "_distance": distance, "vector": [1.0]} for text, distance in zip(TEXTS, (0.1, 0.5), strict=True)]
    for hits in (chroma, lance):
        found = read_hits(hits)
        assert [(hit.content, hit.score, hit.is_distance) for hit in found] == [(TEXTS[0], 0.1, True), (TEXTS[1], 0.5, True)]
    faiss = np.array([[0.9, 0.5, -1]], np.float32), np.array([[1, 0, -1]])
    found = read_hits(faiss, texts=TEXTS)
    assert [(hit.content, hit.id) for hit in found] == [(TEXTS[1], 1), (TEXTS[0], 0)]
    assert not found[0].is_distance
    assert read_hits((faiss[0][:, :2][:, ::-1], faiss[1][:, :2]), texts=TEXTS)[0].is_distance


def test_read_hits__plain_inputs() -> None:
    assert [hit.content for hit in read_hits(TEXTS)] == TEXTS
    assert [hit.content for hit in read_hits(TEXTS[0])] == TEXTS[:1]
    assert [(hit.content, hit.score) for hit in read_hits([("a dog", 0.5)])] == [("a dog", 0.5)]
    assert len(read_hits(np.zeros((3, 4, 3), np.uint8))) == 1


@pytest.mark.parametrize(
    ("hits", "options", "word"),
    [
        ([{"a": "one", "b": "two"}], {}, "text="),
        ([{"a": "one"}], {"text": "c"}, "text="),
        ([{"text": "one"}, {"text": None}], {}, "Hit 2 has no text"),
        ([{"body": "one"}, {"body": float("nan")}], {"text": "body"}, "Hit 2 has no text"),
        (["one", "two", " "], {}, "Hit 3 has no text"),
        ({"ids": [[1], [2]], "documents": [["a"], ["b"]]}, {}, "2 queries"),
        ((np.zeros(1), np.array([5])), {"texts": TEXTS}, "number 5"),
        ((np.zeros(2), np.array([1])), {"texts": TEXTS}, "2 scores"),
    ],
)
def test_read_hits__mistakes(hits: Any, options: Any, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        read_hits(hits, **options)
    with pytest.raises(TypeError, match="FAISS"):
        read_hits(3, texts=TEXTS)

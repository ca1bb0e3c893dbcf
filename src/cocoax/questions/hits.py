"""Why a search hit came up: what in the query and what in each hit made it, rather than the next ones, the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, overload

from rich.console import Group
from rich.padding import Padding
from rich.text import Text
from torch import Tensor

from cocoax.encoders import Encoder
from cocoax.encoders.identity import looking_once
from cocoax.inputs import Explicand
from cocoax.methods import Attribution, Interactions, Method, RemovalMethod, Rise, Run, interactions
from cocoax.methods.interaction_figure import NOTHING
from cocoax.methods.method import Input
from cocoax.questions.matches import SAMPLES, Piece, Window, as_list, closest, closest_to, pieces_of, represent
from cocoax.questions.summaries import ScoredSpan, fragment_of, label_of, pairs_of, parts_of, rich_of, spans_of
from cocoax.references import Reference
from cocoax.report import Section, write_report
from cocoax.similarity import LinearSimilarity, Similarity, get_similarity
from cocoax.store import write_as_named, write_text
from cocoax.targets import Target, similarity_to

HOW_TO_READ = (
    "Red parts of the query raise the margin of this hit over the others, and red parts of the hit its similarity to the "
    "query; blue ones lower it. Point at a word to see its value; what is underlined with dots or hatched is not known."
)


@dataclass(frozen=True, eq=False)
class Hit:
    """Why one hit came up.

    The score is the margin: the similarity of query and hit, minus the mean similarity of the query to what the hit is
    compared with. Of the hit's own parts, the margin depends on nothing but the similarity to the query.

    Attributes:
        rank: its place among the hits, from 1.
        content: the hit.
        query: what in the query raises the margin.
        document: what in the hit raises its similarity to the query, and so the margin.
        similarity: of query and hit.
        others: of the query and each input that the hit is compared with.
        rather_than: what those are called; empty where the hit is compared with nothing.
        runs: of the query and of the hit.
        measure: the similarity s that was used.
        query_window, window: the parts of a long query and of a long hit that matched.
        is_query: whether the hit is the query itself.

    """

    rank: int
    content: Input
    query: Attribution
    document: Attribution
    similarity: float
    others: tuple[float, ...]
    rather_than: str
    runs: tuple[Run, Run]
    measure: Similarity
    query_window: Window | None = None
    window: Window | None = None
    is_query: bool = False

    @property
    def margin(self) -> float:
        """The similarity of query and hit, minus the mean similarity of the query to the others."""
        return self.similarity - (sum(self.others) / len(self.others) if self.others else 0.0)

    @property
    def spans(self) -> list[ScoredSpan]:
        """The words of the hit: start, end, score and standard error of each."""
        return spans_of(self.document)

    @property
    def query_spans(self) -> list[ScoredSpan]:
        """The words of the query: start, end, score and standard error of each."""
        return spans_of(self.query)

    @cached_property
    def interactions(self) -> Interactions:
        """How parts of the query and parts of the hit meet; from the two runs, without the encoder."""
        return interactions(*self.runs, similarity=self.measure)

    def __repr__(self) -> str:
        return f"Hit({self.rank}, {label_of(self.content, 40)!r}, {self.summary})"

    def _repr_html_(self) -> str:
        sides = "".join(side._repr_html_() for side in (self.query, self.document))
        return f"<div><p><b>{escape(f'{self.rank}. {self.summary}')}</b></p>{sides}</div>"

    @property
    def summary(self) -> str:
        """The scores in words."""
        parts = [f"similarity {self.similarity:+.3f}"]
        if self.rather_than:
            parts.append(f"margin {self.margin:+.3f} over {self.rather_than}")
        parts += [f"{name}: {window}" for name, window in (("query", self.query_window), ("hit", self.window)) if window]
        return ", ".join([*parts, "the query itself"] if self.is_query else parts)

    def describe(self) -> dict[str, Any]:
        """Return it as plain values; words have start, end, score and standard error."""
        linear = isinstance(self.measure, LinearSimilarity)
        return {
            "rank": self.rank,
            "content": self.document.text if self.document.text is not None else label_of(self.content),
            "similarity": self.similarity,
            "margin": self.margin,
            "rather_than": self.rather_than,
            "others": list(self.others),
            "is_query": self.is_query,
            "window": None if self.window is None else vars(self.window),
            "query_window": None if self.query_window is None else vars(self.query_window),
            "query": parts_of(self.query),
            "document": parts_of(self.document),
            "pairs": pairs_of(self.interactions) if linear else None,
        }


@dataclass(frozen=True, eq=False)
class Hits(Sequence[Hit]):
    """Why the hits of a search came up, in the order of the hits; made by :func:`cocoax.explain_hits`.

    ``print`` it with a console of Rich to see texts in colour.
    """

    query: Input
    hits: tuple[Hit, ...]
    encoder: str

    @overload
    def __getitem__(self, index: int) -> Hit: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...

    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __repr__(self) -> str:
        lines = "".join(f"\n  {hit!r}" for hit in self.hits)
        return f"Hits of {label_of(self.query)!r}:{lines}"

    def describe(self) -> dict[str, Any]:
        """Return everything as plain values."""
        first = self.hits[0]
        query = first.query.text if first.query.text is not None else label_of(self.query)
        hits = [hit.describe() for hit in self.hits]
        return {"query": query, "encoder": self.encoder, "similarity": str(first.measure), "hits": hits}

    def to_json(self, indent: int | None = 1) -> str:
        """Return everything as JSON."""
        return json.dumps(self.describe(), indent=indent, ensure_ascii=False)

    def html(self) -> str:
        """Return query and hit in colour for each hit, as an HTML fragment."""
        parts = []
        for hit in self.hits:
            heading = escape(f"{hit.rank}. {hit.summary}")
            parts.append(f"<h3>{heading}</h3>{fragment_of(hit.query)}{fragment_of(hit.document)}")
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        heading = f"<b>{escape(label_of(self.query, 200))}</b><br><small>{HOW_TO_READ}</small>"
        return f"<div><p>{heading}</p>{self.html()}</div>"

    def save(self, path: str | Path) -> list[Path]:
        """Write a page that loads nothing (.html) or JSON (.json), or both into a folder; return the files."""
        return write_as_named(
            path, "hits", {".html": self._write_page, ".json": lambda file: write_text(file, self.to_json())}
        )

    def _write_page(self, file: Path) -> Path:
        sections = [self._section(hit) for hit in self.hits]
        sections[0] = Section(sections[0].heading, f"{HOW_TO_READ} {sections[0].text}", html=sections[0].html)
        return write_report(file, f"Why did these come up? {label_of(self.query)}", sections)

    def _section(self, hit: Hit) -> Section:
        parts = f"<p>The query</p>{fragment_of(hit.query)}<p>The hit</p>{fragment_of(hit.document)}"
        return Section(f"{hit.rank}. {label_of(hit.content)}", f"{hit.summary}.{_pairs_in_words(hit)}", html=parts)

    def __rich__(self) -> Group:
        parts: list[Any] = [Text.assemble(("Query: ", "bold"), label_of(self.query, 200))]
        for hit in self.hits:
            parts.append(Text.assemble((f"\n{hit.rank}. {label_of(hit.content)}", "bold"), f": {hit.summary}"))
            parts += [Padding(rich_of(side), (0, 3)) for side in (hit.query, hit.document)]
            if words := _pairs_in_words(hit):
                parts.append(Padding(Text(words.strip()), (0, 3)))
        return Group(*parts)


def _pairs_in_words(hit: Hit, most: int = 3) -> str:
    """Return the strongest pairs in a sentence; nothing for kernels, which have none."""
    if not isinstance(hit.measure, LinearSimilarity):
        return ""
    pairs = [f"{first} – {second} {value:+.3f}" for first, second, value, _ in hit.interactions.top(most)]
    return f" Strongest pairs: {', '.join(pairs)}." if pairs else f" {NOTHING}"


@looking_once()
def explain_hits(
    encoder: Encoder,
    query: Input,
    hits: Sequence[Input],
    rather_than: Input | Sequence[Input] | None = None,
    *,
    method: Method | None = None,
    similarity: str | Similarity = "cosine",
    documents: Encoder | None = None,
    progress: bool | None = None,
) -> Hits:
    """Explain why the hits of a search came up: what in the query and what in each hit, rather than the next hits.

    Every input gets one run, from which all questions are answered; the same input twice gets one. Strings are texts,
    everything else is of the encoder's own kind. Of texts that are longer than the encoder takes, the windows that are most
    similar are explained; a long query has a run for each of its windows that fits a hit best.

    Args:
        encoder: that of the search.
        query: what was searched for.
        hits: what was found, best first.
        rather_than: what each hit is compared with. By default the hits after it; the last has none, and is compared with
            nothing. Other inputs: those, for every hit. An empty list: nothing. A hit is never compared with itself.
        method: one that removes features; :class:`cocoax.Rise` with 500 samples if not given.
        similarity: that of the search.
        documents: the encoder of documents, where queries have another prompt: ``encoder.by(prompt="passage: ")``.
        progress: show a progress bar (``None``: when it takes long).

    """
    method = Rise(samples=SAMPLES) if method is None else method
    if not isinstance(method, RemovalMethod):
        raise TypeError(
            "Hits are explained from runs, which methods that remove features make, such as cocoax.Rise(). "
            f"Got {type(method).__name__} instead."
        )
    listed = as_list(hits)
    if not listed:
        raise ValueError("There are 0 hits to explain; pass what the search found, best first.")
    documents = encoder if documents is None else documents
    search = _Search(method, get_similarity(similarity), progress)
    others = [] if rather_than is None else as_list(rather_than)
    asked, looked_at = pieces_of(encoder, query), [pieces_of(documents, item) for item in (*listed, *others)]
    long = any(len(pieces) > 1 for pieces in (asked, *looked_at))
    own = represent(asked) if long else None
    found = [search.found(asked, pieces, own) for pieces in looked_at]
    hits_found, given = found[: len(listed)], found[len(listed) :]
    foils = _next_hits(hits_found) if rather_than is None else _given_foils(hits_found, given)
    return Hits(query, tuple(search.hits(listed, hits_found, foils)), encoder.name)


@dataclass(frozen=True, eq=False)
class _Found:
    """An input that a query is compared with, in windows if it is long."""

    pieces: Sequence[Piece]  # its windows, or all of it
    representations: Tensor | None  # of these, where query or input are long
    query: Piece  # the window of the query and its own that are most similar, as they are in a search by windows
    piece: Piece
    key: object  # what tells that from others


@dataclass(frozen=True, eq=False)
class _Foil:
    """What a hit is compared with: each input with what it is called, and what all of them are called."""

    parts: list[tuple[str, _Found]]
    name: str


class _Search:
    """The runs of a search, one for each distinct input, and the answers from them."""

    def __init__(self, method: RemovalMethod, measure: Similarity, progress: bool | None) -> None:
        self.method, self.measure, self.progress = method, measure, progress
        self._ready: dict[Piece, tuple[Explicand, object]] = {}
        self._runs: dict[object, Run] = {}
        self._others: dict[object, Tensor] = {}

    def key(self, piece: Piece) -> object:
        """Return what tells an input from others; it is ready to be explained then."""
        if piece not in self._ready:
            explicand = piece.explicand()
            self._ready[piece] = explicand, piece.key(explicand)
        return self._ready[piece][1]

    def found(self, asked: Sequence[Piece], pieces: Sequence[Piece], own: Tensor | None) -> _Found:
        """Return an input with the window that fits the query best; raise if either is empty.

        ``own`` are the representations of the pieces of the query, if any input is long.
        """
        theirs = None if own is None or len(asked) == len(pieces) == 1 else represent(pieces)
        query, piece = closest(asked, pieces, self.measure, own, theirs)
        self.key(query)
        return _Found(pieces, theirs, query, piece, self.key(piece))

    def compared(self, other: _Found, query: Piece) -> Piece:
        """Return the window of another input that is most similar to one window of the query, which the margin is over."""
        if other.query is query:
            return other.piece
        return closest_to(other.pieces, self.run(query).ends[0], self.measure, other.representations)

    def run(self, piece: Piece, *targets: Target) -> Run:
        """Return the run of an input; if the same went through the same encoder before, that one."""
        key = self.key(piece)
        if key not in self._runs:
            self._runs[key] = self.method.run(piece.tower, self._ready[piece][0], targets, progress=self.progress)
        return self._runs[key]

    def reference(self, piece: Piece, name: str) -> Reference:
        """Return an input as a reference; it needs no run."""
        key = self.key(piece)
        if key not in self._runs and key not in self._others:
            self._others[key] = piece.tower.represent([self._ready[piece][0]], progress=False)[0]
        own = self._runs[key].ends[0] if key in self._runs else self._others[key]
        return Reference.from_representations(own[None], name=name, space=piece.tower.space)

    def hits(self, contents: Sequence[Input], found: Sequence[_Found], foils: Sequence[_Foil | None]) -> Iterator[Hit]:
        """Return the answers about all hits, once all are encoded."""
        runs, toward = [], []
        for hit in found:
            query_run = self.run(hit.query)
            toward.append(similarity_to(self.reference(hit.query, "the query"), self.measure))
            runs.append((query_run, self.run(hit.piece, toward[-1])))
        for index, (hit, foil) in enumerate(zip(found, foils, strict=True)):
            query_run, run = runs[index]
            own = self.reference(hit.piece, f"hit {index + 1}")
            parts = [] if foil is None else foil.parts
            others = [self.reference(self.compared(other, hit.query), name) for name, other in parts]
            targets = [similarity_to(each, self.measure) for each in (own, *others)]
            margin = targets[0]
            if foil is not None:
                margin -= similarity_to(others[0].merge(*others[1:], name=foil.name), self.measure)
            scores = [float(target.score(query_run.ends[:1])[0]) for target in targets]
            yield Hit(
                rank=index + 1,
                content=contents[index],
                query=query_run.explain(margin),
                document=run.explain(toward[index]),
                similarity=scores[0],
                others=tuple(scores[1:]),
                rather_than="" if foil is None else foil.name,
                runs=(query_run, run),
                measure=self.measure,
                query_window=hit.query.window,
                window=hit.piece.window,
                is_query=run is query_run,
            )


def _next_hits(hits: Sequence[_Found]) -> list[_Foil | None]:
    """Return what each hit is compared with by default: those after it that are not the same input once more."""
    foils: list[_Foil | None] = []
    for rank, hit in enumerate(hits, 1):
        later = [other for other in range(rank + 1, len(hits) + 1) if hits[other - 1].key != hit.key]
        parts = [(f"hit {other}", hits[other - 1]) for other in later]
        foils.append(_Foil(parts, f"hit{'s' if len(parts) > 1 else ''} {_range(later)}") if parts else None)
    return foils


def _given_foils(hits: Sequence[_Found], others: Sequence[_Found]) -> list[_Foil | None]:
    """Return what each hit is compared with, of inputs that were given: all of them but the hit itself."""
    foils: list[_Foil | None] = []
    distinct = {other.key: other for other in others}
    for rank, hit in enumerate(hits, 1):
        parts = [(label_of(other.piece.whole, 40), other) for key, other in distinct.items() if key != hit.key]
        if others and not parts:
            raise ValueError(
                f"Hit {rank} is to be explained rather than itself: 'rather_than' holds nothing but that hit. Give another "
                "input, or leave the hit out."
            )
        name = parts[0][0] if len(parts) == 1 else f"{len(parts)} others"
        foils.append(_Foil(parts, name) if parts else None)
    return foils


def _range(ranks: Sequence[int]) -> str:
    """Return ranks in words: ``3``, ``2 to 10``, ``2, 4``."""
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]} to {ranks[-1]}"
    return " and ".join(map(str, ranks)) if len(ranks) < 3 else ", ".join(map(str, ranks))

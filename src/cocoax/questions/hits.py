"""Why a search hit came up: what in the query and what in each hit made it, rather than the next ones, the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, overload

from rich.console import Group
from rich.padding import Padding
from rich.text import Text
from torch import Tensor

from cocoax.attribution import Attribution, Interactions, Method, RemovalMethod, Rise, Run, interactions
from cocoax.attribution.method import Input
from cocoax.encoders import Encoder
from cocoax.encoders.identity import looking_once
from cocoax.inputs import Explicand
from cocoax.questions.matching import SAMPLES, as_list
from cocoax.questions.showing import ScoredSpan, fragment_of, label_of, pairs_of, parts_of, rich_of, spans_of
from cocoax.questions.windows import Piece, Window, closest, closest_to, pieces_of
from cocoax.references import Reference
from cocoax.report import Section, write_report
from cocoax.similarity import LinearSimilarity, Similarity, get_similarity
from cocoax.storage import digest, write_text
from cocoax.targets import Target, similarity_to

HOW_TO_READ = (
    "Red parts of the query raise the margin of this hit over the others, and red parts of the hit its similarity to the "
    "query; blue ones lower it. Point at a word to see its value."
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
            heading = f"{hit.rank}. {hit.summary}"
            parts.append(f"<h3>{heading}</h3>{fragment_of(hit.query)}{fragment_of(hit.document)}")
        return "\n".join(parts)

    _repr_html_ = html

    def save(self, folder: str | Path) -> list[Path]:
        """Write ``hits.html``, a page that loads nothing, and ``hits.json`` into a folder; return the files."""
        sections = [self._section(hit) for hit in self.hits]
        sections[0] = Section(sections[0].heading, f"{HOW_TO_READ} {sections[0].text}", html=sections[0].html)
        page = write_report(Path(folder) / "hits.html", f"Why did these come up? {label_of(self.query)}", sections)
        return [page, write_text(Path(folder) / "hits.json", self.to_json())]

    def _section(self, hit: Hit) -> Section:
        parts = f"<p>The query</p>{fragment_of(hit.query)}<p>The hit</p>{fragment_of(hit.document)}"
        return Section(f"{hit.rank}. {label_of(hit.content)}", f"{hit.summary}.{_pairs_in_words(hit)}", html=parts)

    def __rich__(self) -> Group:
        parts: list[Any] = [Text.assemble(("Query: ", "bold"), label_of(self.query, 200))]
        for hit in self.hits:
            parts.append(Text.assemble((f"\n{hit.rank}. ", "bold"), hit.summary))
            parts += [Padding(rich_of(side), (0, 3)) for side in (hit.query, hit.document)]
            if words := _pairs_in_words(hit):
                parts.append(Padding(Text(words.strip()), (0, 3)))
        return Group(*parts)


def _pairs_in_words(hit: Hit, most: int = 3) -> str:
    """Return the strongest pairs in a sentence; nothing for kernels, which have none."""
    if not isinstance(hit.measure, LinearSimilarity):
        return ""
    pairs = [f"{first} – {second} {value:+.3f}" for first, second, value, _ in hit.interactions.top(most)]
    return f" Strongest pairs: {', '.join(pairs)}."


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
    everything else is of the encoder's own kind. Of texts that are longer than the encoder takes, the window that is most
    similar is explained.

    Args:
        encoder: that of the search.
        query: what was searched for.
        hits: what was found, best first.
        rather_than: what each hit is compared with. By default the hits after it; the last has none, and is compared with
            nothing. Other inputs: those, for every hit. An empty list: nothing. A hit is never compared with itself.
        method: Rise, KernelShap or Occlusion; :class:`cocoax.Rise` with 500 samples if not given.
        similarity: that of the search.
        documents: the encoder of documents, where queries have another prompt: ``encoder.by(prompt="passage: ")``.
        progress: show a progress bar (``None``: when it takes long).

    """
    method = Rise(samples=SAMPLES) if method is None else method
    if not isinstance(method, RemovalMethod):
        raise TypeError(
            f"Hits are explained from runs, which methods that remove features make: Rise, KernelShap or Occlusion. "
            f"Got {type(method).__name__} instead."
        )
    listed = as_list(hits)
    if not listed:
        raise ValueError("There are 0 hits to explain; pass what the search found, best first.")
    measure = get_similarity(similarity)
    documents = encoder if documents is None else documents
    answered = _Search(method, measure, progress)
    # The first hit decides which window of a long query is looked at.
    asked, _ = closest(pieces_of(encoder, query), pieces_of(documents, listed[0]), measure)
    searched = answered.run(asked)
    own = searched.ends[0]
    found = [closest_to(pieces_of(documents, hit), own, measure) for hit in listed]
    toward = similarity_to(_reference(own, searched.space, "the query"), measure)
    runs = [answered.run(piece, toward) for piece in found]
    foils = _foils(answered, runs, documents, rather_than, own)
    targets = []
    references = [_reference(run.ends[0], run.space, f"hit {rank}") for rank, run in enumerate(runs, 1)]
    for reference, foil in zip(references, foils, strict=True):
        like = similarity_to(reference, measure)
        targets.append(like if foil is None else like - similarity_to(foil.together, measure))
    explained = searched.explain(targets)
    return Hits(
        query,
        tuple(
            Hit(
                rank=index + 1,
                content=listed[index],
                query=explained[index],
                document=runs[index].explain(toward),
                similarity=_score(own, references[index], measure),
                others=() if foil is None else tuple(_score(own, part, measure) for part in foil.parts),
                rather_than="" if foil is None else foil.together.name,
                runs=(searched, runs[index]),
                measure=measure,
                query_window=asked.window,
                window=found[index].window,
                is_query=runs[index] is searched,
            )
            for index, foil in enumerate(foils)
        ),
        encoder.name,
    )


class _Search:
    """The runs of a search, one for each distinct input."""

    def __init__(self, method: RemovalMethod, measure: Similarity, progress: bool | None) -> None:
        self.method, self.measure, self.progress = method, measure, progress
        self._runs: dict[object, Run] = {}

    def run(self, piece: Piece, *targets: Target) -> Run:
        """Return the run of an input; if the same went through the same encoder before, that one."""
        explicand = piece.explicand()
        key = self.key(piece, explicand)
        if key not in self._runs:
            self._runs[key] = self.method.run(piece.tower, explicand, targets, progress=self.progress)
        return self._runs[key]

    def representation(self, piece: Piece) -> tuple[object, Tensor]:
        """Return the representation of an input that needs no run, and what tells it from others."""
        explicand = piece.explicand()
        key = self.key(piece, explicand)
        own = self._runs[key].ends[0] if key in self._runs else piece.tower.represent([explicand], progress=False)[0]
        return key, own

    @staticmethod
    def key(piece: Piece, explicand: Explicand) -> object:
        """Return what two equal inputs of one encoder share."""
        return id(piece.tower.module), digest(explicand.tensor)

    def key_of(self, run: Run) -> object:
        """Return the key of a run of this search."""
        return next(key for key, known in self._runs.items() if known is run)


@dataclass(frozen=True, eq=False)
class _Foil:
    """What a hit is compared with: all together, and each by itself."""

    together: Reference
    parts: list[Reference]

    @classmethod
    def of(cls, parts: list[Reference], name: str) -> _Foil | None:
        return cls(parts[0].merge(*parts[1:], name=name), parts) if parts else None


def _foils(
    search: _Search, runs: Sequence[Run], documents: Encoder, rather_than: Input | Sequence[Input] | None, own: Tensor
) -> list[_Foil | None]:
    """Return what each hit is compared with, None for nothing; equal inputs are left out."""
    if rather_than is None:
        foils = []
        for index, run in enumerate(runs):
            later = [
                (rank, other)
                for rank, other in zip(count(index + 2), runs[index + 1 :], strict=False)
                if other is not run  # the same input once more
            ]
            parts = [_reference(other.ends[0], other.space, f"hit {rank}") for rank, other in later]
            name = f"hit{'s' if len(parts) > 1 else ''} {_range([rank for rank, _ in later])}"
            foils.append(_Foil.of(parts, name))
        return foils
    pieces = [closest_to(pieces_of(documents, other), own, search.measure) for other in as_list(rather_than)]
    known = dict(search.representation(piece) for piece in pieces)
    space = runs[0].space
    others = {key: _reference(one, space, "another") for key, one in known.items()}
    labels = {search.key(piece, piece.explicand()): label_of(piece.whole, 40) for piece in pieces}
    foils = []
    for rank, run in enumerate(runs, 1):
        kept = {key: part for key, part in others.items() if key != search.key_of(run)}
        if others and not kept:
            raise ValueError(
                f"Hit {rank} is to be explained rather than itself: 'rather_than' holds nothing but that hit. Give another "
                "input, or leave the hit out."
            )
        name = labels[next(iter(kept))] if len(kept) == 1 else f"{len(kept)} others"
        foils.append(_Foil.of(list(kept.values()), name))
    return foils


def _range(ranks: Sequence[int]) -> str:
    """Return ranks in words: ``3``, ``2 to 10``, ``2, 4``."""
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]} to {ranks[-1]}"
    return " and ".join(map(str, ranks)) if len(ranks) < 3 else ", ".join(map(str, ranks))


def _reference(representation: Tensor, space: str, name: str) -> Reference:
    return Reference.from_representations(representation[None], name=name, space=space)


def _score(own: Tensor, reference: Reference, measure: Similarity) -> float:
    return float(similarity_to(reference, measure).score(own[None])[0])

"""Why a document matches a query, and why the hits of a search came up: what in the query and in each document made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from torch import Tensor

from cocoax.checks import as_items, check_kind
from cocoax.encoders import Encoder
from cocoax.inputs import Explicand
from cocoax.methods import Attribution, Interactions, Method, RemovalMethod, Rise, Run, interactions
from cocoax.methods.method import INPUT_TYPES, Input
from cocoax.questions.summaries import ScoredSpan, label_of, pairs_of, parts_of, spans_of
from cocoax.questions.windows import Piece, Window, closest, closest_to, pieces_of, represent
from cocoax.references import Reference
from cocoax.results import Result, ResultList
from cocoax.results.interactions import NOTHING
from cocoax.show import Gallery, Table, View
from cocoax.show.fonts import wrapped
from cocoax.similarity import LinearSimilarity, Similarity, get_similarity
from cocoax.targets import Target, similarity_to

SAMPLES = 500
HOW_TO_READ = (
    "Red parts of the query raise the margin of this hit over the others, and red parts of the hit its similarity to the "
    "query; blue ones lower it. Point at a word to see its value; what is underlined with dots or hatched is not known."
)


@dataclass(frozen=True, eq=False)
class MatchSide(Result):
    """The query or the document of a match, explained: its attribution, and the two parts that it is the difference of.

    Attributes:
        attribution: of the similarity to the corpus minus that to the foil.
        corpus: of the similarity to the corpus.
        foil: of the similarity to the foil, if there is one.
        run: what all of them come from, where the method makes runs.
        window: which part of a long text it is about.

    """

    file: ClassVar[str] = "answer"
    attribution: Attribution
    corpus: Attribution
    foil: Attribution | None
    run: Run | None = None
    window: Window | None = None

    def __str__(self) -> str:
        return self.summary

    @property
    def title(self) -> str:
        """What was asked."""
        return self.attribution.name

    @property
    def remarks(self) -> tuple[str, ...]:
        """Those of the attribution."""
        return self.attribution.remarks

    @property
    def summary(self) -> str:
        """The score in words, as the difference that it is, and which window of a long text it is about."""
        foils = None if self.foil is None else (self.foil.name, self.foil.score)
        words = _difference(self.corpus.name, self.corpus.score, foils)
        return words if self.window is None else f"{words}; {self.window}"

    def views(self) -> list[View]:
        """Return the input in colour, and the features that count most for and against."""
        table = self.table()
        order = self.attribution.relative.flatten().abs().argsort(descending=True, stable=True).tolist()
        strongest = tuple(table.rows[index] for index in order[:8]) if len(order) == len(table.rows) else ()
        return [*self.attribution.views(), *([replace(table, rows=strongest)] if strongest else [])]

    def table(self) -> Table:
        """Return the rows of the attribution; of features beside each other also the values of corpus and foil."""
        table = self.attribution.table()
        parts = [("corpus", self.corpus), *([] if self.foil is None else [("foil", self.foil)])]
        if self.attribution.relative.ndim != 1:
            return table
        values = [part.relative.tolist() for _, part in parts]
        rows = tuple((*row, *own) for row, own in zip(table.rows, zip(*values, strict=True), strict=True))
        return replace(table, columns=(*table.columns, *(name for name, _ in parts)), rows=rows)

    def facts(self) -> dict[str, Any]:
        """Return what :meth:`describe` does, where it comes from, and all rows."""
        return {**self.describe(), "metadata": dict(self.attribution.metadata), "rows": self.table().records()}

    def describe(self) -> dict[str, Any]:
        """Return it as plain values: the question, scores, and what counts (words, regions or features)."""
        return {
            "question": self.attribution.name,
            "text": self.attribution.text,
            "score": self.attribution.score,
            "corpus": self.corpus.score,
            "foil": None if self.foil is None else self.foil.score,
            "window": None if self.window is None else vars(self.window),
            "parts": parts_of(self.attribution),
        }


def _difference(name: str, similarity: float, foil: tuple[str, float] | None) -> str:
    """Return a score in words, as the difference that it is."""
    if foil is None:
        return f"similarity to {name} {similarity:+.3f}"
    return f"{similarity - foil[1]:+.3f} = {similarity:.3f} (similarity to {name}) − {foil[1]:.3f} (to {foil[0]})"


@dataclass(frozen=True, eq=False)
class Match(Result):
    """Why a document matches a query, seen from both sides. Either may be a text, a picture, or what else encoders take.

    Attributes:
        query: what in the query makes it more similar to the document than to the others.
        document: what in the document makes it more similar to the query than to the others.
        query_side, document_side: the same with their corpus and foil parts, and the window of a long text that matched.
        similarity: of query and document.
        others: the similarity of the query to each of the other documents.
        rather_than: what those are called; empty where the document is compared with nothing.
        measure: the similarity s that was used.

    """

    file: ClassVar[str] = "match"
    _document: ClassVar[str] = "the document"
    query_side: MatchSide
    document_side: MatchSide
    similarity: float
    others: tuple[float, ...]
    rather_than: str
    measure: Similarity

    @property
    def query(self) -> Attribution:
        """The attribution to the words or pixels of the query."""
        return self.query_side.attribution

    @property
    def document(self) -> Attribution:
        """The attribution to the words or pixels of the document."""
        return self.document_side.attribution

    @property
    def margin(self) -> float:
        """The similarity of query and document, minus the mean similarity of the query to the others."""
        return self.similarity - (sum(self.others) / len(self.others) if self.others else 0.0)

    @property
    def spans(self) -> list[ScoredSpan]:
        """The words of the document: start, end, score and standard error of each."""
        return spans_of(self.document)

    @property
    def query_spans(self) -> list[ScoredSpan]:
        """The words of the query: start, end, score and standard error of each."""
        return spans_of(self.query)

    @cached_property
    def interactions(self) -> Interactions:
        """How parts of the query and of the document meet, whatever the others; from the two runs, without the encoder."""
        query, document = self.query_side.run, self.document_side.run
        if query is None or document is None:
            raise ValueError(
                "Interactions come from two runs, which methods that remove features make; explain the match with one of "
                "them, such as method=cocoax.Rise()."
            )
        return interactions(query, document, self.measure)

    @property
    def has_interactions(self) -> bool:
        """Whether there are two runs, and a similarity that is a sum over pairs: kernels are not."""
        return self.query_side.run is not None and isinstance(self.measure, LinearSimilarity)

    @property
    def summary(self) -> str:
        """The scores in words."""
        foil = (self.rather_than, self.similarity - self.margin) if self.rather_than else None
        sides = (("query", self.query_side), ("document", self.document_side))
        windows = [f"{name}: {side.window}" for name, side in sides if side.window is not None]
        return "; ".join([_difference(self._document, self.similarity, foil), *windows])

    def __repr__(self) -> str:
        top = [_shortly(side) for side in (self.query, self.document)]
        return f"Match(similarity {self.similarity:+.3f}, query: {top[0]}; document: {top[1]})"

    @property
    def title(self) -> str:
        """The heading of a page."""
        return f"Why they match: similarity {self.similarity:+.3f}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Whether no two parts make a difference together."""
        return (NOTHING,) if self.has_interactions and self.interactions.is_nothing else ()

    def views(self) -> list[View]:
        """Return both sides beside each other, and the links between their parts where there are any."""
        sides = (("query", self.query_side), (self._document.split()[-1], self.document_side))
        links = self.interactions.views() if self.has_interactions else []
        return [Gallery(tuple(_side_view(*side) for side in sides), 2, colour_bars=True, inches=5.5), *links]

    def table(self) -> Table:
        """Return one row for each word, region or feature of both sides."""
        rows = [
            (side, part.get("text", part.get("place", part.get("name"))), part["score"], part["standard_error"])
            for side, attribution in (("query", self.query), ("document", self.document))
            for part in parts_of(attribution)
        ]
        return Table(("side", "part", "score", "standard_error"), tuple(rows))

    def facts(self) -> dict[str, Any]:
        """Return similarities, both sides with what counts in them, and the strongest pairs."""
        return {
            "similarity": self.similarity,
            "margin": self.margin,
            "rather_than": self.rather_than,
            "others": list(self.others),
            "query": self.query_side.describe(),
            "document": self.document_side.describe(),
            "pairs": pairs_of(self.interactions) if self.has_interactions else None,
        }


def _side_view(heading: str, side: MatchSide) -> View:
    """Return one side under what it is like."""
    title = wrapped(f"{heading}: what makes it like {side.attribution.name}", 44, 3)
    view = side.attribution.view()
    note = " ".join((f"{side}.", view.note, *side.attribution.remarks))
    return replace(view, title=f"{title}\nscore {side.attribution.score:+.3f}", note=note)


def _shortly(attribution: Attribution) -> str:
    """Return the three words that raise the score most, or the kind of input where it has no words."""
    return "a picture" if attribution.names is None else ", ".join(word for word, _ in attribution.top(3, "positive"))


@dataclass(frozen=True, eq=False)
class Hit(Match):
    """Why one hit of a search came up: the match of the query and this hit.

    The score is the margin: the similarity of query and hit, minus the mean similarity of the query to what the hit is
    compared with. Of the hit's own parts, the margin depends on nothing but the similarity to the query.

    Attributes:
        rank: its place among the hits, from 1.
        content: the hit.
        is_query: whether the hit is the query itself.

    """

    file: ClassVar[str] = "hit"
    _document: ClassVar[str] = "this hit"
    rank: int
    content: Input
    is_query: bool

    def __repr__(self) -> str:
        return f"Hit({self.rank}, {label_of(self.content, 40)!r}, {self.summary})"

    @property
    def summary(self) -> str:
        """The scores in words."""
        return f"{super().summary}; the query itself" if self.is_query else super().summary

    @property
    def title(self) -> str:
        """The rank and the hit."""
        return f"{self.rank}. {label_of(self.content)}"

    def facts(self) -> dict[str, Any]:
        """Return the same as of a match, with rank and content; words have start, end, score and standard error."""
        content = self.document.text if self.document.text is not None else label_of(self.content)
        return {"rank": self.rank, "content": content, "is_query": self.is_query, **super().facts()}

    @property
    def pairs_in_words(self) -> str:
        """The strongest pairs in a sentence; nothing for kernels, which have none."""
        if not self.has_interactions:
            return ""
        pairs = [f"{first} – {second} {value:+.3f}" for first, second, value, _ in self.interactions.top(3)]
        return f"Strongest pairs: {', '.join(pairs)}." if pairs else NOTHING


@dataclass(frozen=True, eq=False)
class Hits(ResultList[Hit]):
    """Why the hits of a search came up, in the order of the hits; made by :func:`cocoax.explain_hits`.

    ``print`` it with a console of Rich to see texts in colour.
    """

    file: ClassVar[str] = "hits"
    query: Input
    hits: tuple[Hit, ...]
    encoder: str

    @property
    def parts(self) -> tuple[Hit, ...]:
        """The hits, best first."""
        return self.hits

    def __repr__(self) -> str:
        lines = "".join(f"\n  {hit!r}" for hit in self.hits)
        return f"Hits of {label_of(self.query)!r}:{lines}"

    @property
    def title(self) -> str:
        """The heading of a page."""
        return f"Why did these come up? {label_of(self.query)}"

    @property
    def summary(self) -> str:
        """The query, the number of hits and the scores of the first."""
        return f"{len(self)} hits of {label_of(self.query)!r}; the first: {self.hits[0].summary}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """How to read it."""
        return (HOW_TO_READ,)

    def views(self) -> list[View]:
        """Return query and hit beside each other, for each hit."""
        views: list[View] = []
        for hit in self.hits:
            words = f"{hit.summary}. {hit.pairs_in_words}".strip()
            tiles = tuple(_side_view(*side) for side in (("query", hit.query_side), ("hit", hit.document_side)))
            views.append(Gallery(tiles, 2, colour_bars=True, inches=5.5, title=hit.title, note=words))
        return views

    def table(self) -> Table:
        """Return one row for each hit: rank, content, similarity, margin, and what in query and hit raises it most."""
        rows = tuple(
            (
                hit.rank,
                hit.document.text if hit.document.text is not None else label_of(hit.content),
                hit.similarity,
                hit.margin,
                hit.rather_than,
                hit.is_query,
                *("; ".join(side.most()) for side in (hit.query, hit.document)),
            )
            for hit in self.hits
        )
        columns = ("rank", "content", "similarity", "margin", "rather_than", "is_query", "query_parts", "hit_parts")
        return Table(columns, rows)

    def facts(self) -> dict[str, Any]:
        """Return query, encoder and all hits."""
        first = self.hits[0]
        query = first.query.text if first.query.text is not None else label_of(self.query)
        hits = [hit.facts() for hit in self.hits]
        return {"query": query, "encoder": self.encoder, "similarity": str(first.measure), "hits": hits}


def explain_text(
    encoder: Encoder,
    text: Input,
    corpus: Reference,
    foil: Reference | None = None,
    *,
    method: Method | None = None,
    similarity: str | Similarity = "cosine",
    progress: bool | None = None,
) -> MatchSide:
    """Explain what in a text, or another input, makes it similar to some things, rather than to others.

    Without a ``method`` it is :class:`cocoax.Rise` with 500 samples; one run gives the attribution and both of its parts.
    """
    return _Matcher(_checked(method), get_similarity(similarity), progress).side(Piece(encoder, text, text), corpus, foil)


def explain_match(
    encoder: Encoder,
    query: Input,
    document: Input,
    rather_than: Input | Sequence[Input] = (),
    *,
    method: Method | None = None,
    similarity: str | Similarity = "cosine",
    document_encoder: Encoder | None = None,
    progress: bool | None = None,
) -> Match:
    """Explain why a document matched a query, rather than some others.

    Strings are texts; everything else (a :class:`pathlib.Path`, a PIL image, an array) is of the encoder's own kind, say
    pictures. Texts with more tokens than the encoder takes are looked at in windows that overlap by half; the two windows
    that are most similar are explained, and ``match.document_side.window`` says which.

    Args:
        encoder: a text encoder, an image encoder, or one with both towers.
        query: what was searched for: a text, a picture, a sound.
        document: what was found.
        rather_than: other documents, which should not have matched, or matched less. Without them the question is only
            what makes query and document similar. The document is never compared with itself.
        method: how to explain; :class:`cocoax.Rise` with 500 samples if not given.
        similarity: that of the search.
        document_encoder: that of documents, where queries have another prompt: ``encoder.by(prompt="passage: ")``.
        progress: show a progress bar (``None``: when it takes long).

    """
    matcher = _Matcher(_checked(method), get_similarity(similarity), progress)
    inputs = [document, *_as_list(rather_than)]
    found, *others = matcher.found(encoder, query, encoder if document_encoder is None else document_encoder, inputs)
    foils = _distinct(found, others, "The document")
    foil = _Foil(foils, f"the other document{'s' if len(foils) > 1 else ''}") if foils else None
    return Match(**matcher.match(found, foil, "the document", both=True))


def explain_hits(
    encoder: Encoder,
    query: Input,
    hits: Sequence[Input],
    rather_than: Input | Sequence[Input] | None = None,
    *,
    method: Method | None = None,
    similarity: str | Similarity = "cosine",
    document_encoder: Encoder | None = None,
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
        document_encoder: that of documents, where queries have another prompt: ``encoder.by(prompt="passage: ")``.
        progress: show a progress bar (``None``: when it takes long).

    """
    method = _checked(method)
    advice = "must be one that removes features, such as cocoax.Rise(): hits are explained from its runs"
    check_kind("The 'method' parameter", method, RemovalMethod, advice)
    contents = _as_list(hits)
    if not contents:
        raise ValueError("There are 0 hits to explain; pass what the search found, best first.")
    matcher = _Matcher(method, get_similarity(similarity), progress)
    inputs = [*contents, *(_as_list(rather_than) if rather_than is not None else [])]
    every = matcher.found(encoder, query, encoder if document_encoder is None else document_encoder, inputs)
    found, others = every[: len(contents)], every[len(contents) :]
    foils = _next_hits(found) if rather_than is None else _given_foils(found, others)
    for hit in found:  # all runs first: what a hit is compared with is then known from its own
        matcher.run(hit.query)
        matcher.run(hit.piece, similarity_to(matcher.reference(hit.query, "the query"), matcher.measure))
    explained = [
        Hit(**matcher.match(hit, foil, f"hit {rank}"), rank=rank, content=content, is_query=hit.is_query)
        for rank, (content, hit, foil) in enumerate(zip(contents, found, foils, strict=True), start=1)
    ]
    return Hits(query, tuple(explained), encoder.name)


def _checked(method: Method | None) -> Method:
    """Return the method, by default that of matches; raise if it is none."""
    if method is not None:
        check_kind("The 'method' parameter", method, Method, "must be an attribution method, such as cocoax.Rise()")
    return Rise(samples=SAMPLES) if method is None else method


def _as_list(inputs: Input | Sequence[Input]) -> list[Input]:
    """Return one input, or many, as a list."""
    return [inputs] if isinstance(inputs, INPUT_TYPES) else as_items("Inputs", inputs)


@dataclass(frozen=True, eq=False)
class _Found:
    """An input that a query is compared with, in windows if it is long."""

    pieces: Sequence[Piece]  # its windows, or all of it
    representations: Tensor | None  # of these, where query or input are long
    query: Piece  # the window of the query and its own that are most similar, as they are in a search by windows
    piece: Piece
    key: object  # equal for equal inputs
    is_query: bool


@dataclass(frozen=True, eq=False)
class _Foil:
    """What a hit is compared with, and what all of it is called."""

    parts: Sequence[_Found]
    name: str


class _Matcher:
    """The runs of a search, one for each distinct input, and the matches from them."""

    def __init__(self, method: Method, measure: Similarity, progress: bool | None) -> None:
        self.method, self.measure, self.progress = method, measure, progress
        self._explicands: dict[Piece, tuple[Explicand, object]] = {}
        self._runs: dict[object, Run] = {}
        self._representations: dict[object, Tensor] = {}

    def _explicand(self, piece: Piece) -> tuple[Explicand, object]:
        """Return a piece made ready to be explained, and what equal ones share."""
        if piece not in self._explicands:
            explicand = piece.explicand()
            self._explicands[piece] = explicand, piece.key(explicand)
        return self._explicands[piece]

    def found(self, encoder: Encoder, query: Input, document_encoder: Encoder, inputs: Sequence[Input]) -> list[_Found]:
        """Return each input with the windows of the query and of its own that fit best; raise if any is empty."""
        asked, every = (
            pieces_of(getattr(encoder, "queries", encoder), query),
            [pieces_of(document_encoder, item) for item in inputs],
        )
        own = represent(asked) if any(len(pieces) > 1 for pieces in (asked, *every)) else None
        found = []
        for pieces in every:
            theirs = None if own is None or len(asked) == len(pieces) == 1 else represent(pieces)
            best, piece = closest(asked, pieces, self.measure, own, theirs)
            key = self._explicand(piece)[1]
            found.append(_Found(pieces, theirs, best, piece, key, key == self._explicand(best)[1]))
        return found

    def run(self, piece: Piece, *targets: Target) -> Run:
        """Return the run of an input; if the same went through the same encoder before, that one."""
        assert isinstance(self.method, RemovalMethod)
        explicand, key = self._explicand(piece)
        if key not in self._runs:
            self._runs[key] = self.method.run(piece.tower, explicand, targets, progress=self.progress)
        return self._runs[key]

    def representation(self, piece: Piece) -> Tensor:
        """Return the representation of an input, ``[d]``; a run has it already."""
        explicand, key = self._explicand(piece)
        if key in self._runs:
            return self._runs[key].anchors[0]
        if key not in self._representations:
            self._representations[key] = piece.tower.represent([explicand], progress=False)[0]
        return self._representations[key]

    def reference(self, piece: Piece, name: str) -> Reference:
        """Return an input as a reference."""
        return Reference.from_representations(self.representation(piece)[None], name=name, space=piece.tower.identity.space)

    def side(self, piece: Piece, corpus: Reference, foil: Reference | None) -> MatchSide:
        """Return what in an input makes it similar to a corpus, rather than to a foil."""
        targets = [similarity_to(corpus, self.measure)]
        if foil is not None:
            unlike = similarity_to(foil, self.measure)
            targets = [targets[0] - unlike, targets[0], unlike]
        run = self.run(piece, *targets) if isinstance(self.method, RemovalMethod) else None
        if run is not None:
            answers = run.explain(targets)
        else:
            answers = self.method.explain(piece.tower, self._explicand(piece)[0], targets, progress=self.progress)
        return MatchSide(answers[0], answers[foil is not None], None if foil is None else answers[2], run, piece.window)

    def match(self, found: _Found, foil: _Foil | None, name: str, *, both: bool = False) -> dict[str, Any]:
        """Return the match of the query and an input, as arguments of :class:`Match`; ``both`` sides have the foil."""
        query, document = self.reference(found.query, "the query"), self.reference(found.piece, name)
        others = [self.reference(self._compared(other, found.query), "another") for other in (foil.parts if foil else ())]
        merged = others[0].merge(*others[1:], name=foil.name) if foil else None
        query_side = self.side(found.query, document, merged)
        document_side = self.side(found.piece, query, merged if both else None)
        own = query.mean.float()[None]  # of one input, so its representation
        scores = [float(similarity_to(each, self.measure).score(own)[0]) for each in (document, *others)]
        return {
            "query_side": query_side,
            "document_side": document_side,
            "similarity": scores[0],
            "others": tuple(scores[1:]),
            "rather_than": foil.name if foil else "",
            "measure": self.measure,
        }

    def _compared(self, other: _Found, query: Piece) -> Piece:
        """Return the window of another input that is most similar to one window of the query, which the margin is over."""
        if other.query is query or len(other.pieces) == 1:
            return other.piece
        return closest_to(other.pieces, self.representation(query), self.measure, other.representations)


def _distinct(hit: _Found, others: Sequence[_Found], noun: str) -> list[_Found]:
    """Return the distinct inputs that are not the hit itself; raise if all of them are."""
    distinct = {other.key: other for other in others if other.key != hit.key}
    if others and not distinct:
        raise ValueError(
            f"{noun} is to be explained rather than itself: 'rather_than' holds nothing but that input. Give another one, or "
            "leave it out."
        )
    return list(distinct.values())


def _next_hits(hits: Sequence[_Found]) -> list[_Foil | None]:
    """Return what each hit is compared with by default: those after it that are not the same input once more."""
    foils: list[_Foil | None] = []
    for rank, hit in enumerate(hits, 1):
        later = [other for other in range(rank + 1, len(hits) + 1) if hits[other - 1].key != hit.key]
        name = f"hit{'s' if len(later) > 1 else ''} {_range(later)}"
        foils.append(_Foil([hits[other - 1] for other in later], name) if later else None)
    return foils


def _given_foils(hits: Sequence[_Found], others: Sequence[_Found]) -> list[_Foil | None]:
    """Return what each hit is compared with, of inputs that were given: all of them but the hit itself."""
    foils: list[_Foil | None] = []
    for rank, hit in enumerate(hits, 1):
        parts = _distinct(hit, others, f"Hit {rank}")
        name = label_of(parts[0].piece.whole, 40) if len(parts) == 1 else f"{len(parts)} others"
        foils.append(_Foil(parts, name) if parts else None)
    return foils


def _range(ranks: Sequence[int]) -> str:
    """Return ranks in words: ``3``, ``2 to 10``, ``2, 4``."""
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]} to {ranks[-1]}"
    return " and ".join(map(str, ranks)) if len(ranks) < 3 else ", ".join(map(str, ranks))

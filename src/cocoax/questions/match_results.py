"""Matches and hits as results: what in a query and in each document made them similar, in words, views and rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from cocoax.methods import Attribution, Interactions, Run
from cocoax.methods.method import Input
from cocoax.questions.summaries import ScoredSpan, label_of, pairs_of, parts_of, reliable, reliable_pairs, spans_of
from cocoax.questions.windows import Window
from cocoax.results import Result, ResultList
from cocoax.results.interactions import NOTHING
from cocoax.show import Gallery, Table, View
from cocoax.similarity import Similarity

HOW_TO_READ = (
    "Red parts of the query raise the margin of this hit over the others, and red parts of the hit its similarity to the "
    "query; blue parts lower it. Dots under a word, or grey: the interval of two standard errors includes zero."
)

MOST_SENTENCES = 3  # of a long text, in a summary
_HARDLY = 1 / 3  # of the largest similarity: below it no words are said to match
_WORTH = 1 / 50  # of the score: what a pair of words has to raise it by to be named


@dataclass(frozen=True, eq=False)
class MatchSide(Result):
    """The query or the document of a match, explained: its attribution, and the two parts that it is the difference of.

    Attributes:
        attribution: of the similarity to the corpus minus that to the foil.
        corpus: of the similarity to the corpus.
        foil: of the similarity to the foil, if there is one.
        run: what all of them come from, where the method makes runs.
        window: which part of a long text it is about.
        sentences: of a long text, the values of its sentences, by a run of their own.
        word: what stands before the name of a document: its "similarity to", or the "score of" a reranker.

    """

    file: ClassVar[str] = "answer"
    attribution: Attribution
    corpus: Attribution
    foil: Attribution | None
    run: Run | None = None
    window: Window | None = None
    sentences: Attribution | None = None
    word: str = "similarity to"

    def __str__(self) -> str:
        return self.summary

    @property
    def title(self) -> str:
        """The question."""
        return self.attribution.name

    @property
    def remarks(self) -> tuple[str, ...]:
        """Those of the attribution."""
        return self.attribution.remarks

    @property
    def summary(self) -> str:
        """The best sentences of a long text, and the score in words."""
        return "; ".join(filter(None, (self.best_sentences(), self.score_in_words)))

    @property
    def score_in_words(self) -> str:
        """The score as the difference that it is, and which window of a long text it is about."""
        foils = None if self.foil is None else (self.foil.name, self.foil.score)
        words = _total(self.word, self.corpus.name, self.corpus.score, foils)
        return words if self.window is None else f"{words}; {self.window}"

    def best_sentences(self, name: str = "text") -> str:
        """The sentences of a long text that raise the score most, with their values; nothing of other inputs."""
        if self.sentences is None:
            return ""
        best = sorted(spans_of(self.sentences), key=lambda span: -span.score)[:MOST_SENTENCES]
        values = [f"“{label_of(span.text, 40)}” {str(span)[len(' '.join(span.text.split())) + 1 :]}" for span in best]
        return f"Strongest sentences of the {name}: {', '.join(values)}"

    def sentence_views(self) -> list[View]:
        """Return a long text in sentences, with their values; nothing of other inputs."""
        if self.sentences is None:
            return []
        view = self.sentences.view()
        return [
            replace(view, title="Sentences, by their own run", note=f"Rank sentences by these values. {view.note}".strip())
        ]

    def views(self) -> list[View]:
        """Return the input in colour, and the features that count most for and against."""
        table = self.table()
        order = self.attribution.relative.flatten().abs().argsort(descending=True, stable=True).tolist()
        strongest = tuple(table.rows[index] for index in order[:8]) if len(order) == len(table.rows) else ()
        return [*self.sentence_views(), *self.attribution.views(), *([replace(table, rows=strongest)] if strongest else [])]

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
            **({} if self.sentences is None else {"sentences": parts_of(self.sentences)}),
        }


def _total(word: str, name: str, score: float, foil: tuple[str, float] | None) -> str:
    """Return a score in words, as the difference that it is."""
    if foil is None:
        return f"{word} {name} {score:+.3f}"
    return f"{score - foil[1]:+.3f} = {word} {name} ({score:.3f}) − {word.split()[-1]} {foil[0]} ({foil[1]:.3f})"


@dataclass(frozen=True, eq=False)
class Match(Result):
    """Why a document matches a query, seen from both sides. Either may be a text, a picture, or what else encoders take.

    Attributes:
        query_side: what in the query makes it more similar to the document than to the others; its corpus and foil parts.
        document_side: what in the document makes it similar to the query.
        similarity: of query and document.
        others: the similarity of the query to each of the other documents.
        rather_than: what those are called; empty where the document is compared with nothing.
        measure: the similarity s that was used.
        pairs: makes the interactions, where there are any.
        exact: what is known without sampling: what each token of the query found, or the terms that both texts share.
        notes: what a reader should know about the match, in sentences.
        best: the largest similarity of the hits that it is one of; 0 if it is no hit.

    """

    file: ClassVar[str] = "match"
    query_side: MatchSide
    document_side: MatchSide
    similarity: float
    others: tuple[float, ...]
    rather_than: str
    measure: Similarity | str
    pairs: Callable[[], Interactions] | None = field(repr=False)
    exact: Table | None = None
    notes: tuple[str, ...] = ()
    best: float = 0.0

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
        """Interactions between parts of the query and of the document, without the foil; the encoder is not called."""
        if self.pairs is None:
            raise ValueError(
                "Interactions need a method that removes features, such as method=cocoax.Rise(), and a similarity that is a "
                "dot product, cosine or dot."
            )
        return self.pairs()

    @property
    def has_interactions(self) -> bool:
        """Whether there are interactions: methods with runs and linear similarities have them, kernels do not."""
        return self.pairs is not None

    @property
    def summary(self) -> str:
        """The best sentences of long texts, and the scores in words."""
        sides = (("query", self.query_side), ("document", self.document_side))
        best = [side.best_sentences(name) for name, side in sides if side.sentences is not None]
        return "; ".join([*best, self.score_in_words])

    @property
    def score_in_words(self) -> str:
        """The scores, and which windows of long texts they are about."""
        foil = (self.rather_than, self.similarity - self.margin) if self.rather_than else None
        sides = (("query", self.query_side), ("document", self.document_side))
        document = self.query_side.corpus.name
        windows = [f"{name}: {side.window}" for name, side in sides if side.window is not None]
        return "; ".join([_total(self.query_side.word, document, self.similarity, foil), *windows])

    @property
    def sentence(self) -> str:
        """Which words of the query match which of the document, and what the others have less or more of, in a sentence."""
        if self.query.offsets is None or self.document.offsets is None:
            return ""
        parts = [self._matching] if self._matching else []
        lowers = self.margin < 0
        apart = [] if self.query_side.foil is None else reliable(self.query, lowering=lowers)
        if apart:
            number = "has" if len(self.others) == 1 else "have"
            parts.append(f"{self.rather_than} {number} {'more' if lowers else 'less'} for {_quoted(apart)}")
        if not parts:
            return "" if self._is_exact else "No word stands out of the noise; take more samples."
        return f"{parts[0][0].upper()}{parts[0][1:]}{''.join(f'; {part}' for part in parts[1:])}."

    @property
    def _matching(self) -> str:
        """Which words match: the strongest pairs that stand out of the noise; without interactions the words of each side.

        The words of a document that is hardly similar, beside what it is compared with, match nothing.
        """
        best = max((self.best, *self.others))
        if best > 0 and self.similarity < _HARDLY * best:
            return f"hardly anything matches ({self.similarity:.3f}; the best has {best:.3f})"
        if self.has_interactions:
            least = _WORTH * abs(self.similarity)
            pairs = ", ".join(f"“{first}” matches “{second}”" for first, second in reliable_pairs(self.interactions, least))
            return f"the query's {pairs}" if pairs else ""
        asked, found = (reliable(side.corpus) for side in (self.query_side, self.document_side))
        return f"the query's {_quoted(asked)} {_verb(asked)} {_quoted(found)}" if asked and found else ""

    @property
    def _is_exact(self) -> bool:
        """Whether there is no noise that more samples could lessen."""
        errors = [self.query.standard_error, self.document.standard_error]
        return all(
            error is None or not bool((error > 2 * side.floor).any())
            for error, side in zip(errors, (self.query, self.document), strict=True)
        )

    def __repr__(self) -> str:
        top = [_shortly(side) for side in (self.query, self.document)]
        return f"{type(self).__name__}(similarity {self.similarity:+.3f}, query: {top[0]}; document: {top[1]})"

    @property
    def title(self) -> str:
        """The heading of a page."""
        return f"Why they match: {self.query_side.word.split()[0]} {self.similarity:+.3f}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Which words match; and whether no two parts make a difference together."""
        nothing = (NOTHING,) if self.has_interactions and self.interactions.is_nothing else ()
        return (*filter(None, (self.sentence,)), *self.notes, *nothing)

    def views(self) -> list[View]:
        """Return both sides beside each other, what is known exactly, and the links between parts where there are any."""
        links = self.interactions.views() if self.has_interactions else []
        if links and not self.interactions.is_nothing:
            links = [replace(view, title="Parts that go together") for view in links]
        exact = [] if self.exact is None else [self.exact]
        return [*self.sentence_views(), Gallery(self._tiles, 2, colour_bars=True, inches=5.5), *exact, *links]

    def sentence_views(self) -> list[View]:
        """Return the values of the sentences of query and document, of those that are long."""
        sides = (("query", self.query_side), ("document", self.document_side))
        return [replace(view, title=f"{view.title}: {name}") for name, side in sides for view in side.sentence_views()]

    @property
    def _tiles(self) -> tuple[View, View]:
        """Query and document, each under what the other one calls it."""
        query, document = self.query_side, self.document_side
        return _side_view(document.corpus.name, query), _side_view(query.corpus.name, document)

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
            "sentence": self.sentence,
            "similarity": self.similarity,
            "margin": self.margin,
            "rather_than": self.rather_than,
            "others": list(self.others),
            "query": self.query_side.describe(),
            "document": self.document_side.describe(),
            "pairs": pairs_of(self.interactions) if self.has_interactions else None,
            **({} if self.exact is None else {"exact": self.exact.records()}),
            "notes": list(self.notes),
        }


def _side_view(heading: str, side: MatchSide) -> View:
    """Return one side under what it is like."""
    view = side.attribution.view()
    total = "" if side.foil is None and side.window is None else f"{side.score_in_words}."
    note = " ".join(filter(None, (total, view.note, *side.attribution.remarks)))
    title = f"{heading}: what makes it like {side.attribution.name}"
    return replace(view, title=f"{title}\nscore {side.attribution.score:+.3f}", note=note)


def _shortly(attribution: Attribution) -> str:
    """Return the three words that raise the score most, or the kind of input where it has no words."""
    return "a picture" if attribution.names is None else ", ".join(word for word, _ in attribution.top(3, "positive"))


def _verb(words: Sequence[str]) -> str:
    return "matches" if len(words) == 1 else "match"


def _quoted(words: Sequence[str]) -> str:
    return ", ".join(f"“{word}”" for word in words)


@dataclass(frozen=True, eq=False)
class Hit(Match):
    """Why one hit of a search came up: the match of the query and this hit.

    The score is the margin: the similarity of query and hit, minus the mean similarity of the query to what the hit is
    compared with. Of the hit's own parts, the margin depends on nothing but the similarity to the query.

    Attributes:
        rank: its place among the hits, from 1.
        content: the hit.
        is_query: whether the hit is the query itself.
        search_score: the score that the search gave it, if it came with one.
        id, metadata: what the search knows about it.

    """

    file: ClassVar[str] = "hit"
    rank: int = field(kw_only=True)
    content: Input = field(kw_only=True)
    is_query: bool = field(kw_only=True)
    search_score: float | None = field(default=None, kw_only=True)
    id: Any = field(default=None, kw_only=True)
    metadata: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def __repr__(self) -> str:
        return f"Hit({self.rank}, {label_of(self.content, 40)!r}, {self.summary})"

    @property
    def score_in_words(self) -> str:
        """The scores in words."""
        words = super().score_in_words
        return f"{words}; the query itself" if self.is_query else words

    @property
    def title(self) -> str:
        """The rank and the hit."""
        return f"{self.rank}. {label_of(self.content)}"

    def facts(self) -> dict[str, Any]:
        """Return the same as of a match, with rank, content, id and metadata."""
        content = self.document.text if self.document.text is not None else label_of(self.content)
        own = {"rank": self.rank, "id": self.id, "content": content, "is_query": self.is_query}
        return {**own, "search_score": self.search_score, "metadata": dict(self.metadata), **super().facts()}

    @property
    def origin(self) -> str:
        """What the search says about it: its id, its score and its metadata."""
        score = {} if self.search_score is None else {"the search's score": f"{self.search_score:.4g}"}
        known = {**({} if self.id is None else {"id": self.id}), **score, **self.metadata}
        said = [f"{name} {label_of(str(_plain(value)))}" for name, value in known.items() if value is not None]
        return f"From the search: {', '.join(said)}." if said else ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the search says about it, and those of a match."""
        return (*filter(None, (self.origin,)), *super().remarks)

    @property
    def pairs_in_words(self) -> str:
        """The strongest pairs in a sentence, without those that may be noise; nothing for kernels, which have no pairs."""
        if not self.has_interactions:
            return ""
        if self.interactions.is_nothing:
            return NOTHING
        strongest = self.interactions.top(3)
        pairs = [f"{a} – {b} {value:+.3f}" for a, b, value, error in strongest if abs(value) > 2 * (error or 0.0)]
        return f"Strongest pairs: {', '.join(pairs)}." if pairs else ""


@dataclass(frozen=True, eq=False)
class Hits(ResultList[Hit]):
    """Why the hits of a search came up, in the order of the hits; made by :func:`cocoax.explain_hits`.

    ``print`` it with a console of Rich to see texts in colour.
    """

    file: ClassVar[str] = "hits"
    query: Input
    hits: tuple[Hit, ...]
    encoder: str
    notes: tuple[str, ...] = ()

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
        return f"{len(self)} hits of {label_of(self.query)!r}; the first: {self.hits[0].score_in_words}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Where the search saw something else than the encoder."""
        return self.notes

    @property
    def _sentences(self) -> tuple[str, ...]:
        """The same, and how to read the colours."""
        return (*super()._sentences, HOW_TO_READ)

    def __str__(self) -> str:
        lines = (f"{hit.title}\n   {' '.join(filter(None, (f'{hit.summary}.', hit.sentence)))}" for hit in self.hits)
        return "\n".join((self.title, *lines, *self.notes))

    def views(self) -> list[View]:
        """Return query and hit beside each other, for each hit."""
        views: list[View] = []
        for hit in self.hits:
            words = " ".join(
                filter(None, (hit.origin, hit.sentence, f"{hit.score_in_words}.", hit.pairs_in_words, *hit.notes))
            )
            views.append(Gallery(hit._tiles, 2, colour_bars=True, inches=5.5, title=hit.title, note=words, part=hit.title))
            views += [replace(view, part=hit.title) for view in hit.sentence_views()]
            views += [] if hit.exact is None else [replace(hit.exact, part=hit.title)]
        return views

    def table(self) -> Table:
        """Return one row for each hit: what the search said, its scores, and what in query and hit raises it most."""
        columns = ("rank", "id", "content", "search_score", "similarity", "margin", "rather_than", "is_query")
        more = list(dict.fromkeys(name for hit in self.hits for name in hit.metadata if name not in columns))
        rows = tuple(
            (
                *(hit.rank, hit.id, hit.document.text if hit.document.text is not None else label_of(hit.content)),
                *(hit.search_score, hit.similarity, hit.margin, hit.rather_than, hit.is_query),
                *("; ".join(side.most()) for side in (hit.query, hit.document)),
                hit.sentence,
                *(_plain(hit.metadata.get(name)) for name in more),
            )
            for hit in self.hits
        )
        return Table((*columns, "query_parts", "hit_parts", "sentence", *more), rows)

    def facts(self) -> dict[str, Any]:
        """Return query, encoder and all hits."""
        first = self.hits[0]
        query = first.query.text if first.query.text is not None else label_of(self.query)
        hits = [hit.facts() for hit in self.hits]
        return {"query": query, "encoder": self.encoder, "similarity": str(first.measure), "notes": self.notes, "hits": hits}


def _plain(value: Any) -> Any:
    """Return a value of a hit's metadata as a table holds it."""
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)

"""Why a document matches a query, and why the hits of a search came up: runs of both, found again where they were made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor

from cocoax.checks import as_items, check_count, check_kind
from cocoax.encoders import Encoder
from cocoax.encoders.function_calls import cost_sentence, say_cost
from cocoax.encoders.late_interaction import TokenModule
from cocoax.encoders.rerankers import Reranker
from cocoax.inputs import Explicand
from cocoax.inputs.text import check_features
from cocoax.methods import Attribution, Method, RemovalMethod, Rise, Run
from cocoax.methods.method import INPUT_TYPES, Input, check_encoder
from cocoax.methods.run_cache import cached_run
from cocoax.questions.hit_forms import SearchHit, read_hit, read_hits
from cocoax.questions.long_texts import (
    HIT_BUDGET,
    MATCH_BUDGET,
    QUERY_BUDGET,
    Budget,
    NestedRun,
    is_long,
    nested_run,
    run_interactions,
)
from cocoax.questions.match_results import Hit, Hits, Match, MatchSide
from cocoax.questions.sparse_terms import is_sparse, shared_terms
from cocoax.questions.summaries import label_of
from cocoax.questions.windows import Piece, closest, closest_to, pieces_of, represent
from cocoax.references import Reference
from cocoax.similarity import LinearSimilarity, Similarity, get_similarity
from cocoax.targets import Target, similarity_to

SAMPLES = 500  # of inputs that are no texts


@dataclass(frozen=True)
class _Settings:
    """The options by which inputs are explained.

    Attributes:
        method: of all; None chooses one for each kind of input.
        features: ``"words"``, ``"tokens"``, ``"sentences"``, or ``"auto"``: words, and of long texts sentences and the words
            of those that matter. None is auto where there is no method, and the encoder's own with one.
        budget: how many masked copies a document gets, where there is no method.
        max_tokens: where the search cut texts off.

    """

    method: Method | None
    features: str | None = None
    budget: Budget = MATCH_BUDGET
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.method is not None:
            check_kind("The 'method' parameter", self.method, Method, "must be an attribution method, such as cocoax.Rise()")
        if self.features is not None and str(self.features) != "auto":
            check_features(str(self.features))
        if self.features == "auto" and self.method is not None:
            raise ValueError("features='auto' chooses the samples of each level; leave out 'method', or name the features.")
        if self.max_tokens is not None:
            check_count("max_tokens", self.max_tokens, 1)


def explain_text(
    encoder: Encoder,
    text: Input,
    corpus: Reference,
    foil: Reference | None = None,
    *,
    method: Method | None = None,
    features: str | None = None,
    similarity: str | Similarity = "cosine",
    progress: bool | None = None,
) -> MatchSide:
    """Explain what in a text, or another input, makes it similar to some things, rather than to others.

    One run gives the attribution and both of its parts; ``method`` and ``features`` are those of :func:`explain_match`.
    """
    matcher = Matcher(_Settings(method, features), get_similarity(similarity), progress)
    return matcher.side(Piece(encoder, text, text), corpus, foil)


def explain_match(
    encoder: Encoder,
    query: Input,
    document: Any,
    rather_than: Any = (),
    *,
    method: Method | None = None,
    features: str | None = None,
    similarity: str | Similarity | None = None,
    document_encoder: Encoder | None = None,
    max_tokens: int | None = None,
    progress: bool | None = None,
) -> Match:
    """Explain why a document matched a query, rather than some others.

    Strings are texts; everything else (a :class:`pathlib.Path`, a PIL image, an array) is of the encoder's own kind, say
    pictures. Texts with more tokens than the encoder takes are looked at in windows that overlap by half; the two windows
    that are most similar are explained, and ``match.document_side.window`` says which. Runs and representations are kept in
    the cache folder, so the same call encodes nothing.

    Args:
        encoder: a text encoder, an image encoder, or one with both towers.
        query: what was searched for: a text, a picture, a sound.
        document: what was found, in any form that :func:`explain_hits` takes.
        rather_than: other documents, which should not have matched, or matched less. The words of the query are explained
            by the margin over these, those of the document by its similarity to the query. The document is never compared
            with itself.
        method: how to explain; by default :class:`cocoax.Rise`, with as many samples as the length of the text asks for.
        features: ``"words"``, ``"tokens"``, ``"sentences"``; or ``"auto"``, the default without a ``method``: words of short
            texts; of long ones the sentences, and the words of the sentences that matter.
        similarity: that of the search: ``"cosine"`` (the default), ``"dot"``, or ``"maxsim"`` of encoders with one vector for
            each token.
        document_encoder: that of documents, where it is another one; prompts of queries are those of ``encoder.queries``.
        max_tokens: where the search cut texts off, in tokens of the encoder; there are no windows then.
        progress: show a progress bar (``None``: when it takes long).

    """
    settings = _Settings(method, features, MATCH_BUDGET, max_tokens)
    check_encoder(encoder)
    matcher = _matcher_for(encoder, settings, similarity, progress)
    inputs = [read_hit(document).content, *(hit.content for hit in _as_hits(rather_than))]
    found, *others = matcher.found(encoder, query, encoder if document_encoder is None else document_encoder, inputs)
    foils = _distinct(found, others, "The document")
    foil = Foil(foils, "the other" if len(foils) == 1 else f"the {len(foils)} others") if foils else None
    matcher.say_cost([found, *foils])
    return Match(**matcher.match(found, foil, "this document"))


def explain_hits(
    encoder: Encoder,
    query: Input,
    hits: Any,
    rather_than: Any = None,
    *,
    method: Method | None = None,
    features: str | None = None,
    similarity: str | Similarity | None = None,
    document_encoder: Encoder | None = None,
    max_tokens: int | None = None,
    text: str | None = None,
    texts: Sequence[str] | None = None,
    progress: bool | None = None,
) -> Hits:
    """Explain why the hits of a search came up: what in the query and what in each hit, rather than the next hits.

    Every input gets one run, from which all questions are answered; the same input twice gets one. Runs and representations
    are kept in the cache folder, so the same call encodes nothing. Of texts that are longer than the encoder takes, the
    windows that are most similar are explained; a long query has a run for each of its windows that fits a hit best.

    Args:
        encoder: that of the search.
        query: what was searched for.
        hits: what was found, best first: texts (everything else is of the encoder's own kind), ``(text, score)``, dicts,
            Documents of LangChain, nodes of LlamaIndex, rows of a data frame, points of Qdrant, rows of LanceDB, an answer of
            Chroma. Ids, scores and metadata go into rows, JSON and page.
        rather_than: what each hit is compared with. By default the hits after it; the last has none, and is compared with
            nothing. Other inputs: those, for every hit. An empty list: nothing. A hit is never compared with itself.
        method: one that removes features.
        features, similarity, document_encoder, max_tokens: those of :func:`explain_match`.
        text: the key or column of a hit that holds its text; found by its name if not given.
        texts: what the numbers of FAISS are numbers of; hits are then the two arrays that it returns.
        progress: show a progress bar (``None``: when it takes long).

    """
    settings = _Settings(method, features, HIT_BUDGET, max_tokens)
    if method is not None:
        advice = "must be one that removes features, such as cocoax.Rise(): hits are explained from its runs"
        check_kind("The 'method' parameter", method, RemovalMethod, advice)
    given = read_hits(hits, text, texts)
    if not given:
        raise ValueError("There are 0 hits to explain; pass what the search found, best first.")
    check_encoder(encoder)
    matcher = _matcher_for(encoder, settings, similarity, progress)
    inputs = [hit.content for hit in [*given, *([] if rather_than is None else _as_hits(rather_than))]]
    every = matcher.found(encoder, query, encoder if document_encoder is None else document_encoder, inputs)
    found, others = every[: len(given)], every[len(given) :]
    foils = _next_hits(found) if rather_than is None else _given_foils(found, others)
    matcher.say_cost(found)
    for hit in found:  # all runs first: what a hit is compared with is then known from its own
        matcher.prepare(hit)
    explained = [
        Hit(
            **matcher.match(hit, foil, f"hit {rank}"),
            rank=rank,
            content=own.content,
            is_query=hit.is_query,
            search_score=own.score,
            id=own.id,
            metadata=own.metadata,
        )
        for rank, (own, hit, foil) in enumerate(zip(given, found, foils, strict=True), start=1)
    ]
    return Hits(query, tuple(explained), encoder.name, _search_differs(given, explained))


def _matcher_for(
    encoder: Encoder, settings: _Settings, similarity: str | Similarity | None, progress: bool | None
) -> Matcher:
    """Return what explains matches by a similarity; that of the encoder if none is given."""
    if isinstance(encoder, Reranker):
        from cocoax.questions.rerankers import RerankerMatcher

        if similarity is not None:
            raise ValueError(f"A reranker scores pairs by itself; leave out 'similarity'. Got {similarity!r}.")
        return RerankerMatcher(settings, get_similarity("dot"), progress)
    if (isinstance(similarity, str) and similarity == "maxsim") or (
        similarity is None and isinstance(encoder.module, TokenModule)
    ):
        from cocoax.questions.late_interaction import LateMatcher

        return LateMatcher(settings, get_similarity("dot"), progress)
    default = "dot" if is_sparse(encoder) else "cosine"
    return Matcher(settings, get_similarity(default if similarity is None else similarity), progress)


def _as_hits(inputs: Any) -> list[SearchHit]:
    """Return one input, or many, as hits."""
    return read_hits(inputs if isinstance(inputs, INPUT_TYPES) else as_items("Inputs", inputs))


_DIFFERS = 0.01  # between a similarity and the score that a hit came with


def _search_differs(given: Sequence[SearchHit], hits: Sequence[Hit]) -> tuple[str, ...]:
    """Return sentences about scores and an order of the search that the encoder's own similarities differ from."""
    notes = []
    own = [hit.similarity for hit in hits]
    theirs = [(hit.score, similarity) for hit, similarity in zip(given, own, strict=True) if hit.score is not None]
    scores = [] if any(hit.is_distance for hit in given) else theirs
    far = [(score, similarity) for score, similarity in scores if abs(score - similarity) > _DIFFERS]
    if far:
        score, similarity = max(far, key=lambda pair: abs(pair[0] - pair[1]))
        notes.append(
            f"The search's scores are not the encoder's similarities ({score:.3f} is {similarity:.3f} here, the largest "
            f"difference of {len(scores)}): it uses another model, prompt, similarity or max_tokens, or reranks."
        )
    order = sorted(range(len(own)), key=lambda place: -own[place])
    swapped = [place for place in range(len(own) - 1) if own[place + 1] > own[place] + 1e-4]
    if swapped:
        ranks = ", ".join(str(place + 1) for place in order)
        notes.append(f"By the encoder's own similarity the order of the hits is {ranks}.")
    return tuple(notes)


# --- runs -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Found:
    """An input that a query is compared with, in windows if it is long."""

    pieces: Sequence[Piece]  # its windows, or all of it
    representations: Tensor | None  # of these, where query or input are long
    query: Piece  # the window of the query and its own that are most similar, as they are in a search by windows
    piece: Piece
    key: object  # equal for equal inputs
    is_query: bool


@dataclass(frozen=True, eq=False)
class Foil:
    """The inputs that a hit is compared with, and their common name."""

    parts: Sequence[Found]
    name: str


class Matcher:
    """The runs of a search, one for each distinct input, and the matches from them."""

    def __init__(self, settings: _Settings, measure: Similarity, progress: bool | None) -> None:
        self.settings, self.measure, self.progress = settings, measure, progress
        self._explicands: dict[Piece, tuple[Explicand, object]] = {}
        self._runs: dict[object, Run | NestedRun] = {}
        self._representations: dict[object, Tensor] = {}

    def _explicand(self, piece: Piece) -> tuple[Explicand, object]:
        """Return a piece made ready to be explained, and what equal ones share."""
        if piece not in self._explicands:
            explicand = self._by(piece).explicand()
            self._explicands[piece] = explicand, piece.key(explicand)
        return self._explicands[piece]

    def _by(self, piece: Piece, features: str | None = None) -> Piece:
        """Return a piece of text with the features that are asked for."""
        features = features or self.settings.features
        return piece if features in (None, "auto") else piece.by(str(features))

    def _is_auto(self, piece: Piece) -> bool:
        return self.settings.method is None and self.settings.features in (None, "auto") and piece.has_words

    def found(self, encoder: Encoder, query: Input, document_encoder: Encoder, inputs: Sequence[Input]) -> list[Found]:
        """Return each input with the windows of the query and of its own that fit best; raise if any is empty."""
        most = self.settings.max_tokens
        asked = pieces_of(getattr(encoder, "queries", encoder), query, most, True)
        every = [pieces_of(document_encoder, item, most) for item in inputs]
        own = represent(asked) if any(len(pieces) > 1 for pieces in (asked, *every)) else None
        found = []
        for pieces in every:
            theirs = None if own is None or len(asked) == len(pieces) == 1 else represent(pieces)
            best, piece = closest(asked, pieces, self.measure, own, theirs)
            key = self._explicand(piece)[1]
            found.append(Found(pieces, theirs, best, piece, key, key == self._explicand(best)[1]))
        return found

    def say_cost(self, found: Sequence[Found]) -> None:
        """Say how much will be sent at most, if the encoder is a function whose calls may cost money."""
        pieces = {self._explicand(piece)[1]: piece for each in found for piece in (each.query, each.piece)}
        paid = {key: piece for key, piece in pieces.items() if hasattr(piece.tower.module, "affordable")}
        if not paid:
            return
        counts = {key: self._most_copies(piece, key) for key, piece in paid.items()}
        characters = sum(
            counts[key] * len(piece.content) / 2 for key, piece in paid.items() if isinstance(piece.content, str)
        )
        name = next(iter(paid.values())).tower.name
        say_cost(cost_sentence(name, sum(counts.values()), characters), self.progress)

    def _most_copies(self, piece: Piece, key: object) -> int:
        budget = self._budget(piece)
        if not self._is_auto(piece):
            return 2 + int(getattr(self.settings.method, "samples", SAMPLES))
        if is_long(piece.content):
            return 2 + budget.sentences + budget.deep * (2 + budget.each)
        features: int = self._explicand(piece)[0].shape[0]
        return 2 + (budget.words if features > 16 else min(budget.words, 2**features))

    def _budget(self, piece: Piece) -> Budget:
        return QUERY_BUDGET if piece.is_query else self.settings.budget

    def run(self, piece: Piece, *targets: Target) -> Run | NestedRun:
        """Return the runs of an input, from memory or the cache folder where they were made before."""
        explicand, key = self._explicand(piece)
        if key not in self._runs:
            self._runs[key] = self._start(piece, explicand, targets)
        return self._runs[key]

    def _start(self, piece: Piece, explicand: Explicand, targets: Sequence[Target]) -> Run | NestedRun:
        def make(chosen: Explicand, method: RemovalMethod, asked: Sequence[Target]) -> Run:
            return cached_run(piece.tower, chosen, method, asked, progress=self.progress)

        method = self.settings.method
        if method is not None or not self._is_auto(piece):
            return make(explicand, method if isinstance(method, RemovalMethod) else Rise(samples=SAMPLES), targets)
        budget = self._budget(piece)
        sentences = piece.by("sentences").explicand() if is_long(piece.content) else None
        if sentences is None or sentences.shape[0] < 2 or not targets:
            return make(explicand, Rise(samples=budget.words), targets)
        return nested_run(sentences, explicand, budget, 0, targets, make)

    def representation(self, piece: Piece) -> Tensor:
        """Return the representation of an input, ``[d]``; a run has it already."""
        key = self._explicand(piece)[1]
        if key in self._runs:
            return self._runs[key].anchors[0]
        if key not in self._representations:
            self._representations[key] = represent([piece])[0]
        return self._representations[key]

    def reference(self, piece: Piece, name: str) -> Reference:
        """Return an input as a reference."""
        return Reference.from_representations(self.representation(piece)[None], name=name, space=piece.tower.identity.space)

    def prepare(self, found: Found) -> None:
        """Make the runs of a query and an input; each is encoded as a reference only where its run needs the other first."""
        if not (self._is_auto(found.query) and is_long(found.query.content)):
            self.run(found.query)
        self.run(found.piece, similarity_to(self.reference(found.query, "the query"), self.measure))
        self.run(found.query, similarity_to(self.reference(found.piece, "a document"), self.measure))

    def side(self, piece: Piece, corpus: Reference, foil: Reference | None) -> MatchSide:
        """Return what in an input makes it similar to a corpus, rather than to a foil."""
        targets = [similarity_to(corpus, self.measure)]
        if foil is not None:
            unlike = similarity_to(foil, self.measure)
            targets = [targets[0] - unlike, targets[0], unlike]
        if self.settings.method is not None and not isinstance(self.settings.method, RemovalMethod):
            explicand = self._explicand(piece)[0]
            answers = self.settings.method.explain(piece.tower, explicand, targets, progress=self.progress)
            return _side(answers, None, piece)
        run = self.run(piece, *targets)
        sentences = run.explain_sentences(targets[0]) if isinstance(run, NestedRun) else None
        return replace(_side(run.explain(targets), run, piece), sentences=sentences)

    def match(self, found: Found, foil: Foil | None, name: str) -> dict[str, Any]:
        """Return the match of the query and an input, as arguments of :class:`Match`."""
        if self.settings.method is None or isinstance(self.settings.method, RemovalMethod):
            self.prepare(found)
        query, document = self.reference(found.query, "the query"), self.reference(found.piece, name)
        others = [self.reference(self._compared(other, found.query), "another") for other in (foil.parts if foil else ())]
        merged = others[0].merge(*others[1:], name=foil.name) if foil else None
        sides = self.side(found.query, document, merged), self.side(found.piece, query, None)
        own = query.mean.float()[None]  # of one input, so its representation
        scores = [float(similarity_to(each, self.measure).score(own)[0]) for each in (document, *others)]
        first, second, pairs = sides[0].run, sides[1].run, None
        if first is not None and second is not None and isinstance(self.measure, LinearSimilarity):
            pairs = partial(run_interactions, first, second, self.measure)
        exact = None
        if is_sparse(found.piece.tower) and first is not None and second is not None:
            exact = shared_terms(found.piece.tower.module, first, second)
        return {
            "query_side": sides[0],
            "document_side": sides[1],
            "similarity": scores[0],
            "others": tuple(scores[1:]),
            "rather_than": foil.name if foil else "",
            "measure": self.measure,
            "pairs": pairs,
            "exact": exact,
        }

    def _compared(self, other: Found, query: Piece) -> Piece:
        """Return the window of another input that is most similar to one window of the query, which the margin is over."""
        if other.query is query or len(other.pieces) == 1:
            return other.piece
        return closest_to(other.pieces, self.representation(query), self.measure, other.representations)


def _side(answers: Sequence[Attribution], run: Run | NestedRun | None, piece: Piece) -> MatchSide:
    """Return a side from one answer, or from those to the difference, the corpus and the foil."""
    if len(answers) == 1:
        return MatchSide(answers[0], answers[0], None, run, piece.window)
    return MatchSide(answers[0], answers[1], answers[2], run, piece.window)


def _distinct(hit: Found, others: Sequence[Found], noun: str) -> list[Found]:
    """Return the distinct inputs that are not the hit itself; raise if all of them are."""
    distinct = {other.key: other for other in others if other.key != hit.key}
    if others and not distinct:
        raise ValueError(
            f"{noun} is to be explained rather than itself: 'rather_than' holds nothing but that input. Give another one, or "
            "leave it out."
        )
    return list(distinct.values())


def _next_hits(hits: Sequence[Found]) -> list[Foil | None]:
    """Return what each hit is compared with by default: those after it that are not the same input once more."""
    foils: list[Foil | None] = []
    for rank, hit in enumerate(hits, 1):
        later = [other for other in range(rank + 1, len(hits) + 1) if hits[other - 1].key != hit.key]
        name = f"hit{'s' if len(later) > 1 else ''} {_range(later)}"
        foils.append(Foil([hits[other - 1] for other in later], name) if later else None)
    return foils


def _given_foils(hits: Sequence[Found], others: Sequence[Found]) -> list[Foil | None]:
    """Return what each hit is compared with, of inputs that were given: all of them but the hit itself."""
    foils: list[Foil | None] = []
    for rank, hit in enumerate(hits, 1):
        parts = _distinct(hit, others, f"Hit {rank}")
        name = label_of(parts[0].piece.whole, 40) if len(parts) == 1 else f"{len(parts)} others"
        foils.append(Foil(parts, name) if parts else None)
    return foils


def _range(ranks: Sequence[int]) -> str:
    """Return ranks in words: ``3``, ``2 to 10``, ``2, 4``."""
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]} to {ranks[-1]}"
    return " and ".join(map(str, ranks)) if len(ranks) < 3 else ", ".join(map(str, ranks))

"""Why a document matches a query, and why the hits of a search came up: runs of both, found again where they were made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from cocoax.cautions import caution
from cocoax.checks import as_items, check_count, check_kind
from cocoax.encoders import Encoder
from cocoax.encoders.function_calls import BudgetError, FunctionModule, NotKnownError, function_module, say_cost
from cocoax.encoders.late_interaction import TokenModule
from cocoax.encoders.rerankers import Reranker
from cocoax.inputs import Explicand
from cocoax.inputs.features import Features, Sentences, features_by_kind
from cocoax.methods import Attribution, KernelShap, Method, RemovalMethod, Rise, Run, interactions
from cocoax.methods.method import INPUT_TYPES, Input, check_encoder
from cocoax.methods.run_cache import cached_run
from cocoax.questions.hit_forms import SearchHit, read_hit, read_hits
from cocoax.questions.long_texts import (
    FEWEST,
    HIT_BUDGET,
    MATCH_BUDGET,
    Budget,
    Plan,
    is_long,
)
from cocoax.questions.match_results import Hit, Hits, Match, MatchSide
from cocoax.questions.sparse_terms import is_sparse, shared_terms
from cocoax.questions.summaries import label_of
from cocoax.questions.windows import Piece, closest, closest_to, pieces_of, represent, tower_of
from cocoax.references import Reference
from cocoax.similarity import LinearSimilarity, Similarity, get_similarity
from cocoax.store import digest
from cocoax.targets import Target, similarity_to

SAMPLES = 500  # of inputs that are no texts
_SHARES = [share / 20 for share in range(20, 0, -1)]  # of the masked copies, where max_calls allows no more
T = TypeVar("T")


@dataclass(frozen=True)
class _Settings:
    """The options by which inputs are explained.

    Attributes:
        method: of all; None chooses one for each kind of input.
        features: by the kind of input. What is not in it is divided as the encoder or the method chooses; without a method
            texts are divided into words, and long ones into sentences and the words of those that matter.
        many: whether documents are hits, each of which gets fewer masked copies where there is no method.
        max_tokens: where the search cut texts off.

    """

    method: Method | None
    features: Mapping[str, Features] = field(default_factory=dict)
    many: bool = False
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.method is not None:
            check_kind("The 'method' parameter", self.method, Method, "must be an attribution method, such as cocoax.Rise()")
        if self.max_tokens is not None:
            check_count("max_tokens", self.max_tokens, 1)


def _features_for(asked: Any, method: Method | None, towers: Iterable[Encoder]) -> dict[str, Features]:
    """Return what ``features=`` means for each kind of input that has such; raise if none has."""
    if isinstance(asked, str) and asked == "auto":
        if method is not None:
            raise ValueError("features='auto' chooses the samples of each level; leave out 'method', or name the features.")
        return {}
    return {} if asked is None else features_by_kind(asked, (tower.inputs for tower in towers))


def _towers(encoder: Encoder, query: Input, document_encoder: Encoder | None, inputs: Sequence[Input]) -> list[Encoder]:
    """Return the encoders that take a query and documents."""
    own = encoder if document_encoder is None else document_encoder
    return [tower_of(getattr(encoder, "queries", encoder), query), *(tower_of(own, item) for item in inputs)]


def explain_text(
    encoder: Encoder,
    text: Input,
    corpus: Reference,
    foil: Reference | None = None,
    *,
    method: Method | None = None,
    features: Any = None,
    similarity: str | Similarity = "cosine",
    progress: bool | None = None,
) -> MatchSide:
    """Explain what in a text, or another input, makes it similar to some things, rather than to others.

    One run gives the attribution and both of its parts; ``method`` and ``features`` are those of :func:`explain_match`.
    """
    settings = _Settings(method, _features_for(features, method, [encoder]))
    matcher = Matcher(settings, get_similarity(similarity), progress)
    piece = Piece(encoder, text, text)
    return matcher.answered(lambda: matcher.side(piece, corpus, foil), [piece])


def explain_match(
    encoder: Encoder,
    query: Input,
    document: Any,
    rather_than: Any = (),
    *,
    method: Method | None = None,
    features: Any = None,
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
        features: what is removed as one part, see :meth:`cocoax.Encoder.explicand`: ``"sentences"``, ``Segments(20)``, a
            label map. Query and document are both divided so where both can be. ``"auto"``, the default without a
            ``method``: words of short texts; of long ones the sentences, and the words of the sentences that matter. To
            divide each side in its own way, pass ``encoder.explicand(photo, features)`` as the side.
        similarity: that of the search: ``"cosine"`` (the default), ``"dot"``, or ``"maxsim"`` of encoders with one vector for
            each token.
        document_encoder: that of documents, where it is another one; prompts of queries are those of ``encoder.queries``.
        max_tokens: where the search cut texts off, in tokens of the encoder; there are no windows then.
        progress: show a progress bar (``None``: when it takes long).

    Example:
        >>> encoder = cocoax.load("minilm")
        >>> found, other = "Patch the inner tube of your bike.", "Repair a leaking tap."
        >>> match = cocoax.explain_match(encoder, "repair a flat tyre", found, rather_than=[other])
        >>> [word for word, effect in match.query.top(1)], [word for word, effect in match.document.top(2)]
        (['tyre'], ['Patch', 'bike'])

    """
    check_encoder(encoder)
    inputs = [read_hit(document).content, *(hit.content for hit in _as_hits(rather_than))]
    chosen = _features_for(features, method, _towers(encoder, query, document_encoder, inputs))
    matcher = _matcher_for(encoder, _Settings(method, chosen, False, max_tokens), similarity, progress)
    found, *others = matcher.found(encoder, query, encoder if document_encoder is None else document_encoder, inputs)
    foils = _distinct(found, others, "The document")
    name = _document_name(found)
    one = "the other" if name == "this document" else "another"
    foil = Foil(foils, one if len(foils) == 1 else f"the {len(foils)} others") if foils else None
    ask = partial(matcher.match, found, foil, name)
    return Match(**matcher.answered(ask, *matcher.encoded([found], foils)))


def explain_hits(
    encoder: Encoder,
    query: Input,
    hits: Any,
    rather_than: Any = None,
    *,
    method: Method | None = None,
    features: Any = None,
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

    Example:
        >>> hits = cocoax.explain_hits(cocoax.load("minilm"), "drop duplicate rows", ["Return unique rows.", "Sort rows."])
        >>> [word for word, effect in hits[0].query.top(1)]
        ['duplicate']

    """
    if method is not None:
        advice = "must be one that removes features, such as cocoax.Rise(): hits are explained from its runs"
        check_kind("The 'method' parameter", method, RemovalMethod, advice)
    given = read_hits(hits, text, texts)
    if not given:
        raise ValueError("There are 0 hits to explain; pass what the search found, best first.")
    check_encoder(encoder)
    inputs = [hit.content for hit in [*given, *([] if rather_than is None else _as_hits(rather_than))]]
    chosen = _features_for(features, method, _towers(encoder, query, document_encoder, inputs))
    matcher = _matcher_for(encoder, _Settings(method, chosen, True, max_tokens), similarity, progress)
    every = matcher.found(encoder, query, encoder if document_encoder is None else document_encoder, inputs)
    found, others = every[: len(given)], every[len(given) :]
    foils = _next_hits(found) if rather_than is None else _given_foils(found, others)

    def ask() -> list[dict[str, Any]]:
        for hit in found:  # all runs first: what a hit is compared with is then known from its own
            matcher.prepare(hit)
        return [matcher.match(hit, foil, f"hit {rank}") for rank, (hit, foil) in enumerate(zip(found, foils, strict=True), 1)]

    matches = matcher.answered(ask, *matcher.encoded(found, others))
    best = max(match["similarity"] for match in matches)
    explained = [
        Hit(
            **match,
            best=best,
            rank=rank,
            content=own.content,
            is_query=hit.is_query,
            search_score=own.score,
            id=own.id,
            metadata=own.metadata,
        )
        for rank, (own, hit, match) in enumerate(zip(given, found, matches, strict=True), start=1)
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

    budgets: ClassVar[tuple[Budget, Budget]] = MATCH_BUDGET, HIT_BUDGET  # of documents and queries, and of hits
    noun: ClassVar[str] = "A match"

    def __init__(self, settings: _Settings, measure: Similarity, progress: bool | None) -> None:
        self.settings, self.measure, self.progress = settings, measure, progress
        self._explicands: dict[Piece, tuple[Explicand, object]] = {}
        self._runs: dict[object, Run] = {}
        self._sentence_runs: dict[object, Run] = {}  # of long texts, the first ones
        self._representations: dict[object, Tensor] = {}
        self._share = 1.0  # of the masked copies, where max_calls allows no more

    def _explicand(self, piece: Piece) -> tuple[Explicand, object]:
        """Return a piece made ready to be explained, and what equal ones share."""
        if piece not in self._explicands:
            explicand = self._by(piece).explicand()
            self._explicands[piece] = explicand, piece.key(explicand)
        return self._explicands[piece]

    def _by(self, piece: Piece) -> Piece:
        """Return a piece with the features that are asked for."""
        features = self.settings.features.get(piece.tower.inputs.feature_kind)
        return piece if features is None else replace(piece, features=features)

    def _is_auto(self, piece: Piece) -> bool:
        return self.settings.method is None and self._by(piece).has_words

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

    def encoded(self, found: Sequence[Found], others: Sequence[Found]) -> tuple[list[Piece], list[Piece]]:
        """Return the pieces that get runs, and those that are encoded alone."""
        return [piece for each in found for piece in (each.query, each.piece)], [other.piece for other in others]

    def answered(self, ask: Callable[[], T], runs: Sequence[Piece], alone: Sequence[Piece] = ()) -> T:
        """Return an answer; of functions whose calls may cost money, after saying how much will be sent, if anything is.

        Where that is more than is left of ``max_calls``, every run gets the same share of its masked copies.
        """
        functions = {id(own.calls): own for piece in (*runs, *alone) if (own := function_module(piece.tower.module))}
        if not functions:
            return ask()
        with ExitStack() as stack:
            for function in functions.values():
                stack.enter_context(function.calls.only_known())
            with suppress(NotKnownError):
                return ask()
            runs = [*dict.fromkeys(runs)]
            parts = [(each, _of_function(each, runs), _of_function(each, alone)) for each in functions.values()]
            questions = [
                (each.calls, digest(*sorted(self._needed(each, *pieces)[0])))
                for each, *pieces in parts
                if each.calls.max_calls is not None
            ]
            self._share = min((calls.share_of(question) for calls, question in questions), default=1.0)
            if self._share < 1:  # the same question was asked under the same budget
                with suppress(NotKnownError):
                    return ask()
        for part in parts:
            self._keep_within_budget(*part)
        if self._share < 1:
            for calls, question in questions:
                calls.keep_share(question, self._share)
        return ask()

    def _keep_within_budget(self, function: FunctionModule, runs: Sequence[Piece], alone: Sequence[Piece]) -> None:
        """Choose the share of the masked copies that a function's budget allows, and say what will be sent."""
        name, left = (runs or alone)[0].tower.name, function.calls.left
        unit = "pair" if isinstance((runs or alone)[0].tower, Reranker) else "text"
        unit = unit if all(isinstance(piece.content, str) for piece in (*runs, *alone)) else "picture"
        for share in (own for own in _SHARES if own <= self._share):
            self._share = share
            count, characters = self._cost(function, runs, alone)
            if count <= left:
                break
        else:
            raise BudgetError(
                f"{name}: max_calls={function.calls.max_calls} allows {left:.0f} more {unit}s, and an answer needs up to "
                f"{count}. Nothing was sent now, and what was paid for before is kept; take a larger max_calls."
            )
        if self._share < 1:
            sentence = (
                f"{name}: max_calls leaves {left:.0f} {unit}s, so there are fewer masked copies, and errors are larger."
            )
            caution("budget", f"{name} {left} {count} {characters}", sentence)
        say_cost(name, count, unit, characters, self.progress)

    def _cost(self, function: FunctionModule, runs: Sequence[Piece], alone: Sequence[Piece]) -> tuple[int, int]:
        """Return how many items will be sent to a function at most, and how many characters they have."""
        keys, later, characters = self._needed(function, runs, alone)
        missing = function.calls.missing(keys)
        is_text = all(isinstance(piece.content, str) for piece in (*runs, *alone))
        return len(missing) + later, sum(map(len, missing)) + characters if is_text else 0

    def _needed(self, function: FunctionModule, runs: Sequence[Piece], alone: Sequence[Piece]) -> tuple[set[str], int, int]:
        """Return the keys of what is sent first, and how many items, of how many characters, are chosen by what these say."""
        keys = set(function.keys(self._explicand(piece)[0].tensor for piece in alone))
        later, characters = 0, 0
        for piece in runs:
            plan = self._plan(piece)
            keys.update(function.keys(plan.inputs(piece.tower)))
            if plan.by_words is not None:
                copies = 1 + plan.budget.inside if plan.budget.deep else 0
                later += copies
                characters += copies * len(piece.content)
        return keys, later, characters

    def _plan(self, piece: Piece) -> Plan:
        """Return what is encoded of a piece."""
        explicand, method = self._explicand(piece)[0], self.settings.method
        if method is None and not self._is_auto(piece):
            method = Rise(samples=SAMPLES)
        if method is not None:
            return Plan(explicand, self._shortened(method))
        budget = self._budget(piece)
        if is_long(piece.content) and (by_sentences := replace(piece, features=Sentences()).explicand()).shape[0] > 1:
            return Plan(by_sentences, KernelShap(samples=budget.sentences), explicand, budget)
        return Plan(explicand, Rise(samples=budget.words))

    def _shortened(self, method: Method) -> RemovalMethod:
        """Return a method with the share of its samples that a budget allows; raise if it makes no runs."""
        if not isinstance(method, RemovalMethod):
            raise TypeError(
                f"{self.noun} is explained by a method that removes features. Got {type(method).__name__} instead."
            )
        samples: Any = getattr(method, "samples", None)
        if self._share == 1 or samples is None:
            return method
        shorter: Any = replace(method, samples=max(int(samples * self._share), FEWEST))  # type: ignore[call-arg]
        return shorter  # type: ignore[no-any-return]

    def _budget(self, piece: Piece) -> Budget:
        return self.budgets[self.settings.many and not piece.is_query] * self._share

    def run(self, piece: Piece, *targets: Target) -> Run:
        """Return the run of an input, from memory or the cache folder where it was made before."""
        key = self._explicand(piece)[1]
        if key not in self._runs:
            self._runs[key] = self._carried_out(piece, targets)
        return self._runs[key]

    def _carried_out(self, piece: Piece, targets: Sequence[Target], encoder: Encoder | None = None) -> Run:
        """Return the run of a piece, of its tower or another encoder of the same inputs; of a long text the second one."""

        def make(explicand: Explicand, method: RemovalMethod) -> Run:
            return cached_run(encoder or piece.tower, explicand, method, targets, progress=self.progress)

        plan = self._plan(piece)
        run = make(plan.features, plan.method)
        if plan.by_words is None or not targets:
            return run
        self._sentence_runs[self._explicand(piece)[1]] = run
        refined = plan.refined(run, targets[0])
        with suppress(BudgetError):  # the sentences are known then
            return run if refined is None else make(refined, Rise(samples=plan.budget.inside))
        return run

    def sentences(self, piece: Piece, target: Target) -> Attribution | None:
        """Return the attribution to the sentences of an input at two levels; None of others."""
        run = self._sentence_runs.get(self._explicand(piece)[1])
        return None if run is None else run.explain(target)

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
        own = self.representation(piece)
        if not own.any():
            where = f"The vector that {piece.tower.name} gives for {label_of(piece.content)!r}"
            raise ValueError(f"{where} is zero, so it has no direction; leave that input out.")
        return Reference.from_representations(own[None], name=name, space=piece.tower.identity.space)

    def prepare(self, found: Found) -> None:
        """Make the runs of a query and an input; each is encoded as a reference only where its run needs the other first."""
        if not (self._is_auto(found.query) and is_long(found.query.content)):
            self.run(found.query)
        self.run(found.piece, similarity_to(self.reference(found.query, query_name(found)), self.measure))
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
        return replace(_side(run.explain(targets), run, piece), sentences=self.sentences(piece, targets[0]))

    def match(self, found: Found, foil: Foil | None, name: str) -> dict[str, Any]:
        """Return the match of the query and an input, as arguments of :class:`Match`."""
        if self.settings.method is None or isinstance(self.settings.method, RemovalMethod):
            self.prepare(found)
        query, document = self.reference(found.query, query_name(found)), self.reference(found.piece, name)
        others = [self.reference(self._compared(other, found.query), "another") for other in (foil.parts if foil else ())]
        merged = others[0].merge(*others[1:], name=foil.name) if foil else None
        sides = self.side(found.query, document, merged), self.side(found.piece, query, None)
        own = query.mean.float()[None]  # of one input, so its representation
        scores = [float(similarity_to(each, self.measure).score(own)[0]) for each in (document, *others)]
        first, second, pairs = sides[0].run, sides[1].run, None
        if first is not None and second is not None and isinstance(self.measure, LinearSimilarity):
            pairs = partial(interactions, first, second, self.measure)
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


def _of_function(function: FunctionModule, pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces that a function encodes."""
    return [piece for piece in pieces if function_module(piece.tower.module) is function]


_NOUNS = {"image": "photo", "sound": "sound", "row": "row"}  # of inputs that are no texts


def query_name(found: Found) -> str:
    """Return what to call the query."""
    noun = _NOUNS.get(found.query.tower.inputs.noun)
    return f"this {noun}" if noun else "the query"


def _document_name(found: Found) -> str:
    """Return what to call what a query matches: another input of its kind, or one of another kind."""
    noun = _NOUNS.get(found.piece.tower.inputs.noun)
    name = f"this {noun}" if noun else "this document"
    return name if name != query_name(found) else f"the other {noun}"


def _side(answers: Sequence[Attribution], run: Run | None, piece: Piece) -> MatchSide:
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

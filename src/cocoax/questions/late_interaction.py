"""Matches by MaxSim: what each token of the query found is exact; what in the document made it so is removal-based."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cocoax.encoders import Encoder
from cocoax.encoders.late_interaction import (
    MaxSims,
    MaxSimScores,
    TokenModule,
    around,
    late_interaction,
    token_names,
    token_vectors,
)
from cocoax.inputs import Names
from cocoax.methods import Interactions, Rise, Run
from cocoax.methods.method import Input
from cocoax.questions.long_texts import Plan
from cocoax.questions.match_results import MatchSide
from cocoax.questions.matches import Foil, Found, Matcher
from cocoax.questions.windows import Piece, cut_off, tower_of
from cocoax.references import Reference
from cocoax.results.interactions import PairSide, Sampled
from cocoax.show import Table
from cocoax.targets import Target, similarity_to

WORD = "MaxSim with"


class LateMatcher(Matcher):
    """The runs of queries and documents that are compared by MaxSim, and the matches from them."""

    noun = "MaxSim"

    def found(self, encoder: Encoder, query: Input, document_encoder: Encoder, inputs: Sequence[Input]) -> list[Found]:
        """Return each document; texts that are longer than the encoder takes are cut off, as ColBERT does."""
        asked = self._whole(getattr(encoder, "queries", encoder), query, True)
        found = []
        for item in inputs:
            piece = self._whole(document_encoder, item, False)
            found.append(Found([piece], None, asked, piece, self._explicand(piece)[1], item is query or item == query))
        return found

    def _whole(self, encoder: Encoder, item: Input, is_query: bool) -> Piece:
        tower = tower_of(encoder, item)
        if isinstance(item, str):
            tower = cut_off(tower, self.settings.max_tokens or tower.inputs.limit)  # type: ignore[attr-defined]
        return Piece(late_interaction(tower), item, item, is_query=is_query)

    def _vectors(self, piece: Piece) -> Tensor:
        """Return the token vectors of an input, ``[tokens, d]``."""
        explicand, key = self._explicand(piece)
        if key not in self._representations:
            self._representations[key] = token_vectors(piece.tower, explicand.tensor)
        return self._representations[key]

    def prepare(self, found: Found) -> None:
        """Make the run of a document."""
        self.document_run(found)

    def document_run(self, found: Found) -> Run:
        """Return the run of a document, whose representation is the vector of what each query token finds."""
        piece, key = found.piece, self._explicand(found.piece)[1]
        if key not in self._runs:
            encoder = around(piece.tower, MaxSims(_tokens_of(piece), self._vectors(found.query)))
            self._runs[key] = self._carried_out(piece, [_sum_of(encoder, len(self._vectors(found.query)))], encoder)
        return self._runs[key]

    def _plan(self, piece: Piece) -> Plan:
        """Return what is encoded of a piece; queries are never explained at two levels."""
        plan = super()._plan(piece)
        if plan.by_words is None or not piece.is_query:
            return plan
        return Plan(plan.by_words, Rise(samples=self._budget(piece).words))

    def match(self, found: Found, foil: Foil | None, name: str) -> dict[str, Any]:
        """Return the match of a query and a document, as arguments of :class:`Match`."""
        documents = [found, *(foil.parts if foil is not None else ())]
        vectors = self._vectors(found.query)
        asked = MaxSimScores(_tokens_of(found.query), [self._vectors(document.piece) for document in documents])
        encoder = around(found.query.tower, asked)
        units = torch.eye(len(documents))
        own, *others = (_unit(encoder, row, name) for row in units)
        targets = [own]
        if others and foil is not None:
            mean = (sum(others[1:], others[0]) / len(others)).named(foil.name)
            targets = [(own - mean).named(f"{name} rather than {foil.name}"), own, mean]
        query_run = self._carried_out(found.query, targets, encoder)
        run = self.document_run(found)
        answers = query_run.explain(targets)
        scores = [self._score(vectors, self._vectors(document.piece)) for document in documents]
        total = _sum_of_run(run, len(vectors)).named("the query")
        document = run.explain([total])[0]
        side = MatchSide(
            document,
            document,
            None,
            run,
            sentences=self.sentences(found.piece, total),
            word=WORD,
        )
        corpus, rest = (answers[0], None) if len(answers) == 1 else (answers[1], answers[2])
        names, found_names = (
            token_names(
                piece.tower, self._explicand(piece)[0].tensor, piece.content if isinstance(piece.content, str) else None
            )
            for piece in (found.query, found.piece)
        )
        return {
            "query_side": MatchSide(answers[0], corpus, rest, query_run, word=WORD),
            "document_side": side,
            "similarity": scores[0],
            "others": tuple(scores[1:]),
            "rather_than": foil.name if foil else "",
            "measure": "maxsim",
            "pairs": partial(_token_interactions, run, names, scores[0]),
            "exact": _alignment(vectors, self._vectors(found.piece), names, found_names),
        }

    @staticmethod
    def _score(query: Tensor, document: Tensor) -> float:
        return float((query.double() @ document.double().T).amax(1).sum())


def _tokens_of(piece: Piece) -> TokenModule:
    module = piece.tower.module
    assert isinstance(module, TokenModule)
    return module


def _alignment(query: Tensor, document: Tensor, names: Sequence[str], found_names: Sequence[str]) -> Table:
    """Return the token that each token of the query found, and its similarity; these sum to the score."""
    best, places = (query.double() @ document.double().T).max(1)
    rows = zip(names, [found_names[place] for place in places.tolist()], best.tolist(), strict=True)
    return Table(("query token", "found", "similarity"), tuple(rows), title="What each token of the query found (exact)")


def _token_interactions(run: Run, names: Sequence[str], score: float) -> Interactions:
    """Return what keeping a word of the document does to what each token of the query finds, ``[tokens, features]``."""
    found = run.representations.double()
    effects = run.method.effects(run.masks, found, run.anchors.double())
    values = effects.values.reshape(found.shape[1], -1)
    tokens = PairSide(Names(tuple(names)), (len(names),))
    shown = PairSide(run.explicand.display, tuple(run.explicand.shape))
    sampled = None
    if effects.x is not None and len(run.explicand.shape) == 1:
        every = torch.eye(len(values), dtype=torch.float64)
        sampled = (Sampled(run.masks.tensors, effects.along(every), effects.x.flatten(1)),)
    if len(run.explicand.shape) == 2:  # pixels: cells of the masks
        raise ValueError("Interactions of MaxSim are with words of texts; of a picture look at document.plot().")
    return Interactions(values.float(), tokens, shown, score, sampled)


def _unit(encoder: Encoder, row: Tensor, name: str) -> Target:
    reference = Reference.from_representations(row[None], name=name, space=encoder.space)
    return similarity_to(reference, "dot")


def _sum_of(encoder: Encoder, count: int) -> Target:
    return _unit(encoder, torch.ones(count), "the query")


def _sum_of_run(run: Run, count: int) -> Target:
    return similarity_to(Reference.from_representations(torch.ones(1, count), name="the query", space=run.space), "dot")

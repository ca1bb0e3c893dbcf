"""Matches by rerankers: words of query and document are players of one game, so pairs of them have interactions.

A value is the change in score when the word is kept, the mean over random subsets of all other words of both sides (Banzhaf);
an interaction that when both are kept, beyond what each does alone. Both are exact where all subsets are scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cocoax.encoders import Encoder
from cocoax.encoders.rerankers import SEPARATOR, joint_text
from cocoax.inputs.features import Sentences, Words
from cocoax.inputs.text import Text, sentences, words
from cocoax.masking import BitMasks
from cocoax.masking.control_variates import ORDERS, REST, product_kernel
from cocoax.methods import Attribution, Interactions, Rise, Run
from cocoax.methods.method import Input
from cocoax.questions.long_texts import Budget, Plan, is_long, with_spans
from cocoax.questions.match_results import MatchSide
from cocoax.questions.matches import Foil, Found, Matcher
from cocoax.questions.windows import Piece
from cocoax.references import Reference
from cocoax.results.interactions import PairSide, Sampled
from cocoax.targets import Target, similarity_to

RERANKED_MATCH_BUDGET = Budget(words=256, sentences=40, inside=72)
RERANKED_HIT_BUDGET = Budget(words=96, sentences=24, inside=40, deep=2)


class RerankerMatcher(Matcher):
    """The runs of pairs of a query and documents, and the matches from them."""

    budgets = RERANKED_MATCH_BUDGET, RERANKED_HIT_BUDGET
    noun = "A reranker"

    def found(self, encoder: Encoder, query: Input, document_encoder: Encoder, inputs: Sequence[Input]) -> list[Found]:
        """Return each pair."""
        if self.settings.max_tokens is not None:
            raise ValueError("A reranker cuts texts off by itself; leave out 'max_tokens'.")
        for item in (query, *inputs):
            if not isinstance(item, str) or not words(item):
                raise ValueError(f"A reranker scores texts of at least one word. Got {item!r:.60} instead.")
        pieces = [Piece(encoder, item, joint_text(str(query), str(item))) for item in inputs]
        return [Found([piece], None, piece, piece, piece.whole, piece.whole == query) for piece in pieces]

    def prepare(self, found: Found) -> None:
        """Make the run of a pair."""
        self.run(found.piece, _score_of(found.piece.tower))

    def encoded(self, found: Sequence[Found], others: Sequence[Found]) -> tuple[list[Piece], list[Piece]]:
        """Return all pairs: each gets a run."""
        return [each.piece for each in (*found, *others)], []

    def _plan(self, piece: Piece) -> Plan:
        """Return what is encoded of a pair: words of both sides, or words of the query and sentences of the document."""
        budget, method = self._budget(piece), self.settings.method
        by_words, in_two = piece.tower.explicand(piece.content), self._is_auto(piece) and is_long(piece.whole)
        spans, count = _spans_with_sentences(piece.content)
        in_two = in_two and len(spans) > count + 1
        asked = self.settings.features.get("text")
        if not isinstance(asked, Words | Sentences | None):
            raise ValueError(
                "Texts of a reranker are divided into words or sentences; name one of them, or leave 'features' out."
            )
        features = with_spans(by_words, spans) if in_two or isinstance(asked, Sentences) else by_words
        if in_two:
            return Plan(features, Rise(samples=budget.sentences), by_words, budget, count)
        return Plan(features, Rise(samples=budget.words) if method is None else self._shortened(method))

    def match(self, found: Found, foil: Foil | None, name: str) -> dict[str, Any]:
        """Return the match of a query and a document, as arguments of :class:`Match`."""
        target = _score_of(found.piece.tower)
        run, target = self.run(found.piece, target), target.named(name)
        whole = run.explain([target])[0]
        query, document = _sides(whole, found.piece.content)
        others = [self.run(other.piece, target).explain([target])[0] for other in (foil.parts if foil else ())]
        difference, mean = query, None
        if foil is not None:
            mean = _mean([_sides(other, part.piece.content)[0] for other, part in zip(others, foil.parts, strict=True)])
            mean = replace(mean, metadata={**mean.metadata, "target": foil.name})
            difference = _difference(query, mean, f"{name} rather than {foil.name}")
        document = replace(document, metadata={**document.metadata, "target": "the query"})
        word = "score of"
        sampled = isinstance(run.masks, BitMasks)
        return {
            "query_side": MatchSide(difference, query, mean, run, word=word),
            "document_side": MatchSide(document, document, None, run, word=word),
            "similarity": whole.score,
            "others": tuple(other.score for other in others),
            "rather_than": foil.name if foil else "",
            "measure": "score",
            "pairs": partial(_joint_interactions, run, found.piece.content) if sampled else None,
        }


def _score_of(encoder: Encoder) -> Target:
    """Return the score itself as a target."""
    one = Reference.from_representations(torch.ones(1, 1), name="the score", space=encoder.space)
    return similarity_to(one, "dot").named("the score")


def _spans_with_sentences(text: str) -> tuple[list[tuple[int, int]], int]:
    """Return the words of the query and the sentences of the document, where they stand; and how many words there are."""
    query, _, document = text.partition(SEPARATOR)
    start = len(query) + 1
    asked = words(query)
    return [*asked, *((begin + start, end + start) for begin, end in sentences(document))], len(asked)


def _sides(whole: Attribution, text: str) -> tuple[Attribution, Attribution]:
    """Return the attributions to the query and to the document of that to both."""
    query, _, document = text.partition(SEPARATOR)
    start = len(query) + 1
    assert whole.offsets is not None
    count = sum(begin < start for begin, _ in whole.offsets)
    shown = (
        (slice(count), Text(query, tuple(whole.offsets[:count]))),
        (slice(count, None), Text(document, tuple((begin - start, end - start) for begin, end in whole.offsets[count:]))),
    )
    error = whole.standard_error
    query_part, document_part = (
        replace(
            whole,
            values=whole.relative[rows].float(),
            unit=1.0,
            standard_error=None if error is None else error[rows],
            neutral=0.0,
            display=display,
            features=None,
            raw=None,
        )
        for rows, display in shown
    )
    return query_part, document_part


def _mean(parts: Sequence[Attribution]) -> Attribution:
    """Return the mean of attributions of independent runs."""
    count = len(parts)
    errors = [part.standard_error for part in parts if part.standard_error is not None]
    return replace(
        parts[0],
        values=torch.stack([part.values for part in parts]).mean(0),
        score=sum(part.score for part in parts) / count,
        baseline_score=sum(part.baseline_score for part in parts) / count,
        standard_error=torch.stack(errors).square().sum(0).sqrt() / count if len(errors) == count else None,
        floor=max(part.floor for part in parts),
    )


def _difference(own: Attribution, other: Attribution, name: str) -> Attribution:
    """Return what of an attribution is left after another one of an independent run."""
    error = None
    if own.standard_error is not None and other.standard_error is not None:
        error = (own.standard_error.square() + other.standard_error.square()).sqrt()
    return replace(
        own,
        values=own.values - other.values,
        score=own.score - other.score,
        baseline_score=own.baseline_score - other.baseline_score,
        standard_error=error,
        metadata={**own.metadata, "target": name},
    )


# --- interactions ---------------------------------------------------------------------------------------------------------


def _joint_interactions(run: Run, text: str) -> Interactions:
    """Return how features of the query and of the document interact in one game of both."""
    whole: Attribution = run.explain(_score_of_run(run))
    query, document = _sides(whole, text)
    count = len(query.values)
    masks, scores = run.masks, run.representations[:, 0].double()
    assert isinstance(masks, BitMasks)
    values, sampled = _pair_effects(masks, scores, count)
    sides = [PairSide(side.display, tuple(side.values.shape)) for side in (query, document)]
    return Interactions(values.float(), sides[0], sides[1], whole.score, sampled)


def _score_of_run(run: Run) -> Target:
    one = Reference.from_representations(torch.ones(1, 1), name="the score", space=run.space)
    return similarity_to(one, "dot")


def _pair_effects(masks: BitMasks, y: Tensor, first: int) -> tuple[Tensor, tuple[Sampled, ...]]:
    """Return the interactions of the first features with the others, from scores ``y [n]``, and how samples move them.

    With c = (m - p) / p(1 - p), the interaction of i and j is E[y cᵢ cⱼ]. What a kernel regression on single features and
    products of two and three explains of y is known exactly; each sample corrects a model that has not seen it, as in Rise.
    Where the masks are all subsets the mean is exact.
    """
    p = masks.keep
    centred = masks.bits.double() - p
    c = centred / (p * (1 - p))
    left, right = c[:, :first], c[:, first:]
    if masks.complete:
        return (left * y[:, None]).T @ right / len(y), (Sampled(masks.tensors, left[:0], right[:0]),)
    z = centred / (p * (1 - p)) ** 0.5
    pairs = z.shape[1] * (z.shape[1] - 1) / 2
    inverse = torch.linalg.inv(product_kernel(z, z) + REST * torch.eye(len(z), dtype=z.dtype))
    ones = inverse.sum(1)
    matrix = inverse - torch.outer(ones, ones) / ones.sum()  # from scores to kernel weights, the mean left free
    weights = matrix @ y
    residuals = weights / matrix.diagonal()  # of models that have not seen the sample
    # The coefficient of a product of two features, in units of the score, is linear in the kernel weights.
    scale = ORDERS[2] / pairs / (p * (1 - p))
    model = scale * (z[:, :first] * weights[:, None]).T @ z[:, first:]
    correction = (left * residuals[:, None]).T @ right / len(y)
    # What each model owes to its own sample is taken back.
    seen = torch.einsum("kn,ki,kj,n->ij", matrix, z[:, :first], z[:, first:], residuals) * scale / len(y)
    sampled = Sampled(masks.tensors, left * residuals[:, None] / len(y), right)
    return model + correction - seen, (sampled,)

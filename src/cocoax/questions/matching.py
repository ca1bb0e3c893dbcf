"""Why two texts match: questions about one text, and about both sides of a match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cocoax.attribution import Attribution, Method, Rise
from cocoax.encoders import Encoder, TextEncoder
from cocoax.references import Reference
from cocoax.similarity import Similarity
from cocoax.targets import similarity_to

SAMPLES = 500


@dataclass(frozen=True, eq=False)
class Side:
    """One text explained: its attribution, and the two parts that it is the difference of.

    Attributes:
        attribution: of the similarity to the corpus minus that to the foil.
        corpus: of the similarity to the corpus.
        foil: of the similarity to the foil, if there is one.

    """

    attribution: Attribution
    corpus: Attribution
    foil: Attribution | None

    def __str__(self) -> str:
        score = f"score {self.attribution.score:+.3f}"
        if self.foil is None:
            return score
        return f"{score}: corpus {self.corpus.score:+.3f}, foil {self.foil.score:+.3f}"


@dataclass(frozen=True, eq=False)
class Match:
    """Why a document matches a query, seen from both sides.

    Attributes:
        query: which words of the query make it more similar to the document than to the others.
        document: which words of the document make it more similar to the query than to the others.
        query_side, document_side: the same with their corpus and foil parts.
        similarity: of query and document.
        others: the similarity of the query to each of the other documents.

    """

    query_side: Side
    document_side: Side
    similarity: float
    others: tuple[float, ...]

    @property
    def query(self) -> Attribution:
        """The attribution to the words of the query."""
        return self.query_side.attribution

    @property
    def document(self) -> Attribution:
        """The attribution to the words of the document."""
        return self.document_side.attribution

    def __repr__(self) -> str:
        top = [", ".join(word for word, _ in side.top(3)) for side in (self.query, self.document)]
        return f"Match(similarity {self.similarity:+.3f}, query: {top[0]}; document: {top[1]})"

    def html(self) -> str:
        """Both texts with their words in colour, as an HTML fragment."""
        return self.query.html() + self.document.html()

    _repr_html_ = html


def ask_text(
    encoder: Encoder,
    text: str,
    like: Reference,
    unlike: Reference | None = None,
    *,
    method: Method | None = None,
    similarity: str | Similarity = "cosine",
    progress: bool | None = None,
) -> Side:
    """Which words of a text make it similar to some things, rather than to others; one run for the answer and its parts."""
    corpus = similarity_to(like, similarity)
    foil = None if unlike is None else similarity_to(unlike, similarity)
    targets = [corpus] if foil is None else [corpus - foil, corpus, foil]
    answers = (Rise(samples=SAMPLES) if method is None else method).explain(encoder, text, targets, progress=progress)
    return Side(answers[0], answers[0] if foil is None else answers[1], None if foil is None else answers[2])


def explain_match(
    encoder: Encoder,
    query: str,
    document: str,
    rather_than: str | Sequence[str] = (),
    *,
    method: Method | None = None,
    similarity: str | Similarity = "cosine",
    documents: Encoder | None = None,
    progress: bool | None = None,
) -> Match:
    """Why a document matched a query, rather than some others.

    Args:
        encoder: a text encoder, or one with a text tower.
        query: what was searched for.
        document: what was found.
        rather_than: other documents, which should not have matched, or matched less. Without them the question is only
            what makes query and document similar.
        method: how to explain; :class:`cocoax.Rise` with 500 samples if not given.
        similarity: that of the search.
        documents: the encoder of documents, where queries have another prompt: ``encoder.by(prompt="passage: ")``.
        progress: show a progress bar (``None``: when it takes long).

    """
    encoder = _text_tower(encoder)
    documents = encoder if documents is None else _text_tower(documents)
    others = [rather_than] if isinstance(rather_than, str) else list(rather_than)
    found = documents.reference([document], name="the document", progress=False)
    asked = encoder.reference([query], name="the query", progress=False)
    each = [documents.reference([other], name="another", progress=False) for other in others]
    foil = each[0].merge(*each[1:], name="the other documents" if len(each) > 1 else "the other document") if each else None
    options: dict[str, Any] = {"method": method, "similarity": similarity, "progress": progress}
    own = asked.mean.float()[None]  # of one text, so its representation
    scores = [float(similarity_to(one, similarity).score(own)[0]) for one in (found, *each)]
    return Match(
        query_side=ask_text(encoder, query, found, foil, **options),
        document_side=ask_text(documents, document, asked, foil, **options),
        similarity=scores[0],
        others=tuple(scores[1:]),
    )


def _text_tower(encoder: Encoder) -> Encoder:
    return encoder if isinstance(encoder, TextEncoder) else encoder.text

"""Why two texts match: which words of either make them similar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cocoax.attribution import Attribution, Method, Rise
from cocoax.encoders import Encoder
from cocoax.encoders.identity import looking_once
from cocoax.references import Reference
from cocoax.similarity import Similarity, get_similarity
from cocoax.targets import similarity_to

SAMPLES = 500


@dataclass(frozen=True, eq=False)
class ExplainedText:
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

    query_side: ExplainedText
    document_side: ExplainedText
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
        """Return both texts with their words in colour, as an HTML fragment."""
        return self.query.html() + self.document.html()

    _repr_html_ = html


def explain_text(
    encoder: Encoder,
    text: str,
    corpus: Reference,
    foil: Reference | None = None,
    *,
    method: Method | None = None,
    similarity: str | Similarity = "cosine",
    progress: bool | None = None,
) -> ExplainedText:
    """Explain which words of a text make it similar to some things, rather than to others.

    Without a ``method`` it is :class:`cocoax.Rise` with 500 samples; one run gives the attribution and both of its parts.
    """
    method = Rise(samples=SAMPLES) if method is None else method
    like = similarity_to(corpus, similarity)
    if foil is None:
        attribution = method.explain(encoder, text, like, progress=progress)
        return ExplainedText(attribution, attribution, None)
    unlike = similarity_to(foil, similarity)
    return ExplainedText(*method.explain(encoder, text, [like - unlike, like, unlike], progress=progress))


@looking_once()
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
    """Explain why a document matched a query, rather than some others.

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
    queries = encoder.text
    documents = queries if documents is None else documents.text
    rather_than = [rather_than] if isinstance(rather_than, str) else rather_than
    keep = get_similarity(similarity).needs_samples

    def reference(tower: Encoder, text: str, name: str) -> Reference:
        return tower.reference([text], name=name, keep_samples=keep, progress=False)

    matched = reference(documents, document, "the document")
    searched = reference(queries, query, "the query")
    others = [reference(documents, other, "another") for other in rather_than]
    plural = "s" if len(others) > 1 else ""
    foil = others[0].merge(*others[1:], name=f"the other document{plural}") if others else None
    own = searched.mean.float()[None]  # of one text, so its representation
    scores = [float(similarity_to(each, similarity).score(own)[0]) for each in (matched, *others)]

    def explained(tower: Encoder, text: str, corpus: Reference) -> ExplainedText:
        return explain_text(tower, text, corpus, foil, method=method, similarity=similarity, progress=progress)

    return Match(
        query_side=explained(queries, query, matched),
        document_side=explained(documents, document, searched),
        similarity=scores[0],
        others=tuple(scores[1:]),
    )

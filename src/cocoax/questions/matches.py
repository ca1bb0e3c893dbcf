"""Why two inputs match: what in either of them makes them similar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cocoax.checks import as_items
from cocoax.encoders import Encoder
from cocoax.encoders.identity import looking_once
from cocoax.methods import Attribution, Interactions, Method, RemovalMethod, Rise, Run, interactions
from cocoax.methods.method import INPUT_TYPES, Input
from cocoax.questions.summaries import fragment_of, pairs_of, parts_of
from cocoax.questions.windows import Piece, Window, closest, closest_to, pieces_of
from cocoax.references import Reference
from cocoax.report import Section, write_report
from cocoax.similarity import LinearSimilarity, Similarity, get_similarity
from cocoax.store import to_json, write_as_named, write_figure, write_text
from cocoax.targets import similarity_to

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLES = 500


@dataclass(frozen=True, eq=False)
class ExplainedText:
    """One side of a match explained, a text or a picture: its attribution, and the two parts that it is the difference of.

    Attributes:
        attribution: of the similarity to the corpus minus that to the foil.
        corpus: of the similarity to the corpus.
        foil: of the similarity to the foil, if there is one.
        run: what all of them come from, where the method makes runs.
        window: which part of a long text it is about.

    """

    attribution: Attribution
    corpus: Attribution
    foil: Attribution | None
    run: Run | None = None
    window: Window | None = None

    def __str__(self) -> str:
        score = f"score {self.attribution.score:+.3f}"
        if self.foil is not None:
            score += f": corpus {self.corpus.score:+.3f}, foil {self.foil.score:+.3f}"
        return score if self.window is None else f"{score}; {self.window}"

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


@dataclass(frozen=True, eq=False)
class Match:
    """Why a document matches a query, seen from both sides. Either may be a text, a picture, or what else encoders take.

    Attributes:
        query: what in the query makes it more similar to the document than to the others.
        document: what in the document makes it more similar to the query than to the others.
        query_side, document_side: the same with their corpus and foil parts, and the window of a long text that matched.
        similarity: of query and document.
        others: the similarity of the query to each of the other documents.
        measure: the similarity s that was used.

    """

    query_side: ExplainedText
    document_side: ExplainedText
    similarity: float
    others: tuple[float, ...]
    measure: Similarity

    @property
    def query(self) -> Attribution:
        """The attribution to the words or pixels of the query."""
        return self.query_side.attribution

    @property
    def document(self) -> Attribution:
        """The attribution to the words or pixels of the document."""
        return self.document_side.attribution

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

    def __repr__(self) -> str:
        top = [_shortly(side) for side in (self.query, self.document)]
        return f"Match(similarity {self.similarity:+.3f}, query: {top[0]}; document: {top[1]})"

    def html(self) -> str:
        """Return both sides as an HTML fragment: texts with their words in colour, pictures with their maps."""
        return fragment_of(self.query) + fragment_of(self.document)

    def _repr_html_(self) -> str:
        sides = f"<h4>The query</h4>{self.query._repr_html_()}<h4>The document</h4>{self.document._repr_html_()}"
        return f"<div><p><b>Why they match</b>: similarity {self.similarity:+.3f}</p>{sides}</div>"

    def plot(self) -> Figure:
        """Draw both sides beside each other: maps over pictures, bars for words."""
        from cocoax.inputs.figures import new_figure
        from cocoax.inputs.fonts import wrapped

        height = max(4.4, *(side.display.height for side in (self.query, self.document)))
        figure = new_figure(11, height)
        for heading, ax, side in zip(("query", "document"), figure.subplots(1, 2), (self.query, self.document), strict=True):
            title = wrapped(f"{heading}: what makes it like {side.name}", 44, 3)
            side.plot(ax, title=f"{title}\nscore {side.score:+.3f}")
        return figure

    def describe(self) -> dict[str, Any]:
        """Return it as plain values: similarities, both sides with what counts in them, and the strongest pairs."""
        return {
            "similarity": self.similarity,
            "others": list(self.others),
            "query": self.query_side.describe(),
            "document": self.document_side.describe(),
            "pairs": pairs_of(self.interactions) if self._has_interactions else None,
        }

    @property
    def _has_interactions(self) -> bool:
        runs = self.query_side.run is not None and self.document_side.run is not None
        return runs and isinstance(self.measure, LinearSimilarity)

    def save(self, path: str | Path) -> list[Path]:
        """Write a page that loads nothing (.html), its numbers (.json) or a drawing (.png), or all of them into a folder.

        Return the files.
        """
        kinds = {
            ".html": self._write_page,
            ".json": lambda file: write_text(file, to_json(self.describe(), indent=1)),
            ".png": self._write_drawing,
        }
        return write_as_named(path, "match", kinds)

    def _write_page(self, file: Path) -> Path:
        sections = [
            Section(heading, f"What makes it like {side.attribution.name}: {side}.", html=fragment_of(side.attribution))
            for heading, side in (("The query", self.query_side), ("The document", self.document_side))
        ]
        if self._has_interactions:
            sections.append(Section("How their parts meet", html=self.interactions.html()))
        return write_report(file, f"Why they match: similarity {self.similarity:+.3f}", sections)

    def _write_drawing(self, file: Path) -> Path:
        import matplotlib.pyplot as plt

        figure = self.plot()
        drawing = write_figure(file, figure)
        plt.close(figure)
        return drawing


def _shortly(attribution: Attribution) -> str:
    """Return the three words that raise the score most, or the kind of input where it has no words."""
    return "a picture" if attribution.names is None else ", ".join(word for word, _ in attribution.top(3, "positive"))


def explain_text(
    encoder: Encoder,
    text: Input,
    corpus: Reference,
    foil: Reference | None = None,
    *,
    method: Method | None = None,
    similarity: str | Similarity = "cosine",
    progress: bool | None = None,
) -> ExplainedText:
    """Explain what in a text, or another input, makes it similar to some things, rather than to others.

    Without a ``method`` it is :class:`cocoax.Rise` with 500 samples; one run gives the attribution and both of its parts.
    """
    method = Rise(samples=SAMPLES) if method is None else method
    like = similarity_to(corpus, similarity)
    targets = [like]
    if foil is not None:
        unlike = similarity_to(foil, similarity)
        targets = [like - unlike, like, unlike]
    run = None
    if isinstance(method, RemovalMethod):
        run = method.run(encoder, text, targets, progress=progress)
        answers = run.explain(targets)
    else:
        answers = method.explain(encoder, text, targets, progress=progress)
    return ExplainedText(answers[0], answers[0] if foil is None else answers[1], None if foil is None else answers[2], run)


@looking_once()
def explain_match(
    encoder: Encoder,
    query: Input,
    document: Input,
    rather_than: Input | Sequence[Input] = (),
    *,
    method: Method | None = None,
    similarity: str | Similarity = "cosine",
    documents: Encoder | None = None,
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
        documents: the encoder of documents, where queries have another prompt: ``encoder.by(prompt="passage: ")``.
        progress: show a progress bar (``None``: when it takes long).

    """
    documents = encoder if documents is None else documents
    measure = get_similarity(similarity)
    searched_piece, matched_piece = closest(pieces_of(encoder, query), pieces_of(documents, document), measure)

    def reference(piece: Piece, name: str) -> Reference:
        return piece.tower.reference([piece.seen], name=name, keep_samples=measure.needs_samples, progress=False)

    matched, searched = reference(matched_piece, "the document"), reference(searched_piece, "the query")
    own = searched.mean.float()[None]  # of one input, so its representation
    foils = [closest_to(pieces_of(documents, other), own[0], measure) for other in as_list(rather_than)]
    others = [reference(piece, "another") for piece in _other_than(matched_piece, foils)]
    plural = "s" if len(others) > 1 else ""
    foil = others[0].merge(*others[1:], name=f"the other document{plural}") if others else None
    scores = [float(similarity_to(each, measure).score(own)[0]) for each in (matched, *others)]

    def explained(piece: Piece, corpus: Reference) -> ExplainedText:
        side = explain_text(
            piece.tower, piece.explicand(), corpus, foil, method=method, similarity=measure, progress=progress
        )
        return ExplainedText(side.attribution, side.corpus, side.foil, side.run, piece.window)

    return Match(
        query_side=explained(searched_piece, matched),
        document_side=explained(matched_piece, searched),
        similarity=scores[0],
        others=tuple(scores[1:]),
        measure=measure,
    )


def _other_than(document: Piece, foils: Sequence[Piece]) -> list[Piece]:
    """Return the foils that are not the document itself; raise if all of them are."""
    others = [foil for foil in foils if foil.key() != document.key()]
    if foils and not others:
        raise ValueError(
            "The document is to be explained rather than itself: 'rather_than' holds nothing but the document. Give another "
            "input, or leave it out."
        )
    return others


def as_list(inputs: Input | Sequence[Input]) -> list[Input]:
    """Return one input, or many, as a list."""
    return [inputs] if isinstance(inputs, INPUT_TYPES) else as_items("Inputs", inputs)

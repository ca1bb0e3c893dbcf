"""Windows: texts that are longer than an encoder takes, looked at in pieces that overlap by half."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cocoax.cautions import caution
from cocoax.checks import as_items
from cocoax.encoders import Encoder
from cocoax.encoders.identity import looking_once
from cocoax.inputs import Explicand
from cocoax.inputs.text import words
from cocoax.methods import Attribution, Interactions, Method, RemovalMethod, Rise, Run, interactions
from cocoax.methods.method import INPUT_TYPES, Input, check_encoder
from cocoax.questions.summaries import fragment_of, pairs_of, parts_of
from cocoax.references import Reference
from cocoax.report import Section, write_report
from cocoax.similarity import LinearSimilarity, Similarity, get_similarity
from cocoax.store import digest, to_json, write_as_named, write_figure, write_text
from cocoax.targets import similarity_to

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Window:
    """A piece of a long text: number ``number`` of ``count``, from 1, the characters from ``begin`` to ``end``."""

    number: int
    count: int
    begin: int
    end: int

    def __str__(self) -> str:
        return f"window {self.number} of {self.count}, characters {self.begin} to {self.end}"


@dataclass(frozen=True, eq=False)
class Piece:
    """What is explained of an input: all of it, or one window of a text.

    Attributes:
        tower: the encoder that takes it.
        whole: the input.
        content: what the encoder is given: the input, or the text of the window.
        window: which window it is, if the input is too long to be taken as a whole.

    """

    tower: Encoder
    whole: Any
    content: Any
    window: Window | None = None

    def explicand(self) -> Explicand:
        """Return it made ready to be explained; a window is shown within its whole text."""
        explicand = self.tower.explicand(self.content)
        if self.window is None:
            return explicand
        shown: Any = explicand.display
        offsets = tuple((begin + self.window.begin, end + self.window.begin) for begin, end in shown.offsets)
        return replace(explicand, display=replace(shown, text=self.whole, offsets=offsets))

    @property
    def seen(self) -> Any:
        """What is encoded where it is compared: the text; of a picture what is explained of it, which may be all of it."""
        return self.content if isinstance(self.content, str) else self.explicand()

    def key(self, explicand: Explicand | None = None) -> object:
        """Return what equal inputs of one encoder share; two texts of the same tokens may be written in two ways."""
        explicand = self.explicand() if explicand is None else explicand
        return id(self.tower.module), digest(explicand.tensor), getattr(explicand.display, "text", None)


def tower_of(encoder: Encoder, item: object) -> Encoder:
    """Return the tower that takes an input: the text tower for strings, the encoder itself for everything else.

    A string that names a file may have been meant as what is in the file: that is said once for each encoder.
    """
    check_encoder(encoder)
    if not (isinstance(item, str) or (isinstance(item, Explicand) and item.text is not None)):
        return encoder
    try:
        tower = encoder.text
    except AttributeError as error:
        if isinstance(item, str) and _is_input(encoder, item):
            return encoder
        raise ValueError(f"{error} Texts are explained by encoders that take them.") from error
    if tower is not encoder and isinstance(item, str) and os.path.isfile(item):  # a Path raises where the text is long
        instead = f"pass pathlib.Path({item!r}) to explain the {encoder.inputs.noun}"
        caution("a file as a text", encoder.name, f"{item!r} is a file, but strings are texts here; {instead}.")
    return tower


def _is_input(encoder: Encoder, item: str) -> bool:
    """Whether a string is an input itself where there is no text tower: the path of a file, or what the kind reads."""
    try:
        return Path(item).exists() or encoder.prepare(item) is not None
    except (OSError, ValueError, TypeError):
        return False


def pieces_of(encoder: Encoder, item: Any) -> list[Piece]:
    """Return an input as one piece, or as windows where it is a text with more tokens than the encoder takes.

    An encoder that was told to cut long texts off (``too_long="cut"``) gets them whole, and cuts them off.
    """
    tower = tower_of(encoder, item)
    windows = windows_of(tower, item) if isinstance(item, str) else []
    if len(windows) < 2:
        return [Piece(tower, item, item)]
    return [Piece(tower, item, item[window.begin : window.end], window) for window in windows]


def windows_of(tower: Encoder, text: str) -> list[Window]:
    """Return windows of whole words that overlap by half and together cover a text; none where all of it fits."""
    inputs: Any = tower.inputs
    limit = getattr(inputs, "limit", None)
    if limit is None or inputs.too_long == "cut" or not text.strip() or len(list(inputs.tokenize(text))) <= limit:
        return []
    spans = words(text)
    _, places = inputs.places(text)
    special = sum(place is None for place in places)
    tokens = [0] * len(spans)  # of each word
    number = 0
    for place in (place for place in places if place is not None):
        while number + 1 < len(spans) and place[0] >= spans[number + 1][0]:
            number += 1
        tokens[number] += 1
    room = max(limit - special, 1)
    pieces: list[tuple[int, int]] = []
    first = 0
    while True:
        last = _fitting(tokens, first, room)
        # Tokens at the edges may come out otherwise when the rest of the text is missing.
        while last > first + 1 and len(list(inputs.tokenize(text[spans[first][0] : spans[last - 1][1]]))) > limit:
            last -= 1
        if not pieces or spans[last - 1][1] > pieces[-1][1]:  # after a very long word it may hold nothing new
            pieces.append((spans[first][0], spans[last - 1][1]))
        if last == len(spans):
            break
        first = max(min(_fitting(tokens, first, room // 2), last), first + 1)
    return [Window(index + 1, len(pieces), begin, end) for index, (begin, end) in enumerate(pieces)]


def _fitting(tokens: Sequence[int], first: int, room: int) -> int:
    """Return where words from ``first`` on end that have no more tokens than there is room for; at least one word."""
    total, last = 0, first
    while last < len(tokens) and (total + tokens[last] <= room or last == first):
        total += tokens[last]
        last += 1
    return last


def closest(
    pieces: Sequence[Piece],
    others: Sequence[Piece],
    similarity: Similarity,
    own: Tensor | None = None,
    theirs: Tensor | None = None,
) -> tuple[Piece, Piece]:
    """Return the most similar pair of pieces of two inputs; nothing is encoded where there is one of each.

    ``own`` and ``theirs`` are the representations of the pieces of each, if they are known.
    """
    if len(pieces) == len(others) == 1:
        return pieces[0], others[0]
    own, theirs = represent(pieces) if own is None else own, represent(others) if theirs is None else theirs
    scores = similarity.pairwise(own.double(), theirs.double())
    best = int(scores.argmax())
    return pieces[best // len(others)], others[best % len(others)]


def closest_to(pieces: Sequence[Piece], own: Tensor, similarity: Similarity, theirs: Tensor | None = None) -> Piece:
    """Return the piece that is most similar to a representation ``[d]``; ``theirs`` are the pieces' own, if known."""
    if len(pieces) == 1:
        return pieces[0]
    theirs = represent(pieces) if theirs is None else theirs
    return pieces[int(similarity.pairwise(own[None].double(), theirs.double()).argmax())]


def represent(pieces: Sequence[Piece], progress: bool | None = False) -> Tensor:
    """Return the representations of pieces of one encoder's inputs, ``[n, d]``."""
    return torch.as_tensor(pieces[0].tower.represent((piece.seen for piece in pieces), progress=progress))


# --- matches ----------------------------------------------------------------------------------------------------------------

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

"""What the page offers beside one photo: matches, searches, sounds, rows of tables, and data sets.

A view is a small class: what it asks for, examples, and how the library answers. The result is shown as the page that
``save("x.html")`` writes, in a frame of its own.
"""

from __future__ import annotations

import csv
import html
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

import cocoax
from cocoax.app import parts
from cocoax.app.service import EncoderService
from cocoax.encoders import Encoder
from cocoax.inputs.open import TABLE_SUFFIXES, open_inputs
from cocoax.questions import Question, Side
from cocoax.results import Result
from cocoax.seeding import stream
from cocoax.show import Table
from cocoax.show.palette import DISTINCT
from cocoax.similarity import get_similarity
from cocoax.survey import Index
from cocoax.survey.answers import parse_question
from cocoax.targets import similarity_to

MAX_DOCUMENTS = 2000  # of a search, which are encoded while its visitor waits
MAX_WORDS = 20_000  # characters of a text that is explained
MAX_PASTED = 1_000_000  # characters of all documents together
MAX_KEPT = 64  # results, and sets of documents
EXPLAINED = 3  # hits of a search, each rather than the next ones
RANKED = 10  # hits that are listed
MAX_POINTS = 2000  # of a scatter


@dataclass(frozen=True)
class _TextField:
    """Words that a view asks for; ``endings`` are those of files that may be read into it."""

    name: str
    label: str
    example: str = ""
    lines: int = 1
    longest: int = MAX_WORDS
    endings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Example:
    """Inputs to try: texts by field, and names of the page's samples by side."""

    label: str
    texts: Mapping[str, str]
    samples: Mapping[str, str] = field(default_factory=dict)


class TaskView(ABC):
    """A view of the page.

    Attributes:
        name: of its tab, and in the address bar.
        task: what it does, in a sentence.
        fields: the texts that it asks for.
        sides: what may be an upload of the encoder's kind: labels, by the name of the field or of the side.
        button: what its button says.
        examples: inputs to try.
        chart: HTML whose script fills in fields; empty for none.

    """

    name: ClassVar[str]
    task: str
    fields: tuple[_TextField, ...]
    sides: Mapping[str, str] = {}
    button: ClassVar[str] = "Explain"
    examples: tuple[_Example, ...] = ()
    chart: str = ""

    def __init__(self, service: EncoderService) -> None:
        self.service = service
        self._kept: OrderedDict[object, str] = OrderedDict()
        self._lock = Lock()

    @classmethod
    @abstractmethod
    def serves(cls, encoder: Encoder) -> bool:
        """Whether an encoder can do this."""

    @abstractmethod
    def answer(self, texts: Mapping[str, str], uploads: Mapping[str, Any]) -> tuple[Result, Sequence[Table]]:
        """Return the result for some inputs, and tables that stand above it."""

    def read(self, path: Path, texts: Mapping[str, str]) -> str:
        """Return what a file says as the text of a field."""
        raise ValueError(f"{self.name} reads no files.")

    def shown(self, texts: Mapping[str, str], uploads: Mapping[str, Any]) -> str:
        """Return the answer as a page; the same inputs are explained once."""
        for each in self.fields:
            if len(texts.get(each.name, "")) > each.longest:
                raise ValueError(f"'{each.label}' takes up to {each.longest:,} characters. Got {len(texts[each.name]):,}.")
        seen = {name: self.service.encoder.inputs.digest(upload) for name, upload in uploads.items()}
        key = (*sorted(texts.items()), *sorted(seen.items()))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        with self.service.networks():
            result, tables = self.answer(texts, uploads)
        written = result.page(tables)
        with self._lock:
            self._kept[key] = written
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return written


def framed(written: str, name: str) -> str:
    """Return a page in a frame of its own, as tall as what is in it."""
    grow = (
        "const fit = () => { this.style.height = this.contentDocument.documentElement.scrollHeight + 'px'; }; fit(); "
        "new ResizeObserver(fit).observe(this.contentDocument.body);"
    )
    source = html.escape(written, quote=True).replace("{", "&#123;").replace("$", "&#36;")
    label = html.escape(name, quote=True)
    return f'<iframe class="cx-frame" title="{label}" srcdoc="{source}" onload="{html.escape(grow, quote=True)}"></iframe>'


def _filled(texts: Mapping[str, str], name: str, label: str) -> str:
    """Return a text; raise if it is empty."""
    text = texts.get(name, "").strip()
    if not text:
        raise ValueError(f"'{label}' is empty; write something there.")
    return text


_SIDES = {"first": "One", "second": "The other"}


class MatchView(TaskView):
    """Two inputs of the encoder's kind: texts, pictures, one of each, or sounds."""

    name = "Match"
    task = "Why do these two match? The parts that go together, and how much they add to the similarity."
    button = "Explain the match"

    def __init__(self, service: EncoderService) -> None:
        super().__init__(service)
        words, pictures = service.takes_words, service.takes_pictures
        self.sides = _SIDES if service.takes_uploads else {}
        self.fields = ()
        if words:
            self.fields = (
                _TextField("first", "One", "how do I repair a flat tyre"),
                _TextField("second", "The other", "Patch the inner tube of your bicycle.", lines=3),
                _TextField("rather", "Rather than (optional)", "Bread needs two hours to rise."),
            )
        texts = _Example(
            "two texts",
            {
                "first": "how do I repair a flat tyre",
                "second": "Find the hole in the inner tube of your bicycle and glue a patch on it.",
                "rather": "Bread needs two hours to rise in a warm place.",
            },
        )
        crossed = _Example("a text and a photo", {"first": "a cat beside a red motorbike"}, {"second": "collage"})
        photos = _Example("two photos", {}, {"first": "cat", "second": "collage"})
        sounds = _Example("two sounds", {}, {"first": "low hum", "second": "low, then high"})
        offered = ((words, texts), (words and pictures, crossed), (pictures, photos), (service.takes_sounds, sounds))
        self.examples = tuple(example for possible, example in offered if possible)

    @classmethod
    def serves(cls, encoder: Encoder) -> bool:
        """Whether inputs can be typed or uploaded."""
        return hasattr(encoder, "text") or encoder.inputs.noun in ("image", "sound")

    def answer(self, texts: Mapping[str, str], uploads: Mapping[str, Any]) -> tuple[Result, Sequence[Table]]:
        """Return the match of both sides."""
        both = []
        for side, label in _SIDES.items():
            given = self.service.explicand(uploads[side]) if side in uploads else texts.get(side, "").strip()
            if isinstance(given, str) and not given:
                raise ValueError(f"'{label}' is empty; {self.service.how_to_give}.")
            both.append(given)
        others = [line.strip() for line in texts.get("rather", "").splitlines() if line.strip()]
        return cocoax.explain_match(self.service.encoder, both[0], both[1], others, progress=False), ()


class SoundView(TaskView):
    """A sound: which of its moments sound like some sounds, rather than like others."""

    name = "Sound"
    task = "Which moments of a sound make it sound like this, rather than like that?"
    fields = ()
    sides = {"input": "Sound", "like": "Sounds like", "unlike": "rather than (optional)"}  # noqa: RUF012
    examples = (
        _Example("low, then high", {}, {"input": "low, then high", "like": "low hum", "unlike": "high hum"}),
        _Example("high, then low", {}, {"input": "high, then low", "like": "high hum", "unlike": "low hum"}),
    )

    @classmethod
    def serves(cls, encoder: Encoder) -> bool:
        """Whether an encoder takes sounds."""
        return encoder.inputs.noun == "sound"

    def answer(self, texts: Mapping[str, str], uploads: Mapping[str, Any]) -> tuple[Result, Sequence[Table]]:
        """Return what in the sound makes it like that."""
        if "input" not in uploads:
            raise ValueError("There is no sound yet; choose one.")
        encoder = self.service.encoder
        like, unlike = (
            Side(encoded=encoder.reference([uploads[side]], name=uploads[side].filename or label, progress=False))
            if side in uploads
            else Side()
            for side, label in (("like", "one sound"), ("unlike", "the other"))
        )
        return self.service.answer_once(uploads["input"], Question(like, unlike)), ()


class RowView(TaskView):
    """A row of a table: which of its columns make it like some rows, rather than like others."""

    name = "Table row"
    task = "Which columns make a row like these rows, rather than like those?"

    def __init__(self, service: EncoderService) -> None:
        super().__init__(service)
        self.columns: tuple[str, ...] = service.encoder.inputs.columns  # type: ignore[attr-defined]
        self.task = f"{type(self).task} Columns, in this order, with commas between: {', '.join(self.columns)}."
        given = service.sample_rows()
        some = ", ".join(f"{value:.4g}" for value in given[0]) if given else ", ".join(self.columns)
        self.fields = (
            _TextField("row", "Row", some),
            _TextField("like", "Like these rows, one on each line", some, lines=3),
            _TextField("unlike", "rather than these (optional)", some, lines=3),
        )
        if len(given) > 2:
            row, like, unlike = (", ".join(f"{value:.6g}" for value in each) for each in given[:3])
            self.examples = (_Example("three rows", {"row": row, "like": like, "unlike": unlike}),)

    @classmethod
    def serves(cls, encoder: Encoder) -> bool:
        """Whether an encoder takes rows, and knows what may stand in place of a column."""
        return encoder.inputs.noun == "row" and encoder.inputs.removes_by_default

    def answer(self, texts: Mapping[str, str], uploads: Mapping[str, Any]) -> tuple[Result, Sequence[Table]]:
        """Return which columns make the row like that."""
        rows = {each.name: self._rows(texts.get(each.name, ""), each.label) for each in self.fields}
        if len(rows["row"]) != 1:
            raise ValueError(f"'Row' takes one row. Got {len(rows['row'])} instead.")
        encoder = self.service.encoder
        like, unlike = (
            Side(encoded=encoder.reference(rows[side], name=name, progress=False)) if rows[side] else Side()
            for side, name in (("like", "these rows"), ("unlike", "those rows"))
        )
        return self.service.answer_once(rows["row"][0], Question(like, unlike)), ()

    def _rows(self, text: str, label: str) -> list[list[float]]:
        """Return the rows in a text; a line of column names is left out."""
        rows = []
        for number, cells in enumerate(csv.reader(line for line in text.splitlines() if line.strip()), 1):
            named = [cell.strip() for cell in cells]
            if tuple(named) == self.columns:
                continue
            if len(named) != len(self.columns):
                raise ValueError(f"Line {number} of '{label}' has {len(named)} values; the columns are {len(self.columns)}.")
            try:
                rows.append([float(cell) for cell in named])
            except ValueError as error:
                raise ValueError(f"Line {number} of '{label}' must hold numbers only ({error}).") from error
        return rows


_DOCUMENT_FILES = (".txt", *sorted(TABLE_SUFFIXES))


class SearchView(TaskView):
    """A query and documents: the ranked hits, and why the first ones came up."""

    name = "Search"
    task = "Which documents match a query, and why these: in the query and in each hit, rather than in the next ones."
    button = "Search and explain"
    fields = (
        _TextField("query", "Query", "repair a flat tyre"),
        _TextField("documents", "Documents, one on each line", "Paste texts here …", 8, MAX_PASTED, _DOCUMENT_FILES),
        _TextField("column", "Column, of a table that you upload", "text"),
    )
    examples = (
        _Example(
            "seven documents",
            {
                "query": "how do I repair a flat tyre",
                "documents": "Find the hole in the inner tube of your bicycle and glue a patch on it.\n"
                "Pump the tyres of your car every month to save fuel.\n"
                "Bread needs two hours to rise in a warm place.\n"
                "A flat in the city costs more than a house in the country.\n"
                "The wheel of a bicycle has thirty-six spokes.\n"
                "Cats sleep for most of the day.\n"
                "A mechanic repairs engines, brakes and gears.",
            },
        ),
    )

    def __init__(self, service: EncoderService, collection: Index | None = None) -> None:
        super().__init__(service)
        self._encoded: OrderedDict[str, Tensor] = OrderedDict()
        self.collection = collection
        if collection is not None:
            query, documents, column = self.fields
            hint = f"Leave this empty to search the {len(collection):,} texts of the index, or paste texts here …"
            self.fields = (query, replace(documents, example=hint), column)

    @classmethod
    def serves(cls, encoder: Encoder) -> bool:
        """Whether an encoder takes words."""
        return hasattr(encoder, "text")

    def answer(self, texts: Mapping[str, str], uploads: Mapping[str, Any]) -> tuple[Result, Sequence[Table]]:
        """Return why the first hits came up, and the ranking."""
        query = _filled(texts, "query", "Query")
        documents = [line.strip() for line in texts.get("documents", "").splitlines() if line.strip()]
        documents = list(dict.fromkeys(documents))
        if not documents and self.collection is None:
            raise ValueError("'Documents' is empty; write something there.")
        if len(documents) > MAX_DOCUMENTS:
            raise ValueError(
                f"A search here takes up to {MAX_DOCUMENTS:,} documents, which are encoded while you wait. Got "
                f"{len(documents):,}; search more in Python, and explain the hits with cocoax.explain_hits."
            )
        encoder = self.service.encoder.text
        collection = self.collection if not documents else None
        representations = self._represented(encoder, documents) if collection is None else collection.representations
        own = encoder.represent([query], progress=False)
        asked = cocoax.Reference.from_representations(own, space=encoder.identity.space)
        scores = similarity_to(asked, get_similarity("cosine")).score(representations.float())
        order = torch.argsort(scores, descending=True, stable=True)[:RANKED].tolist()
        if collection is None:
            hits = [documents[at] for at in order]
        else:
            hits = [str(getattr(shown, "text", "")) for shown in collection.displays(order)]
        ranks = zip(range(1, len(hits) + 1), scores[order].tolist(), hits, strict=True)
        rows = tuple((rank, float(f"{score:.4g}"), hit[:300]) for rank, score, hit in ranks)
        ranked = Table(("rank", "similarity", "document"), rows, title=f"The first {len(rows)} of {len(scores):,}")
        rivals = hits[1 : EXPLAINED + 1] if len(hits) > 2 else None  # one of two hits would have itself for a rival
        found = cocoax.explain_hits(encoder, query, hits[:EXPLAINED], rivals, progress=False)
        return found, (ranked,)

    def read(self, path: Path, texts: Mapping[str, str]) -> str:
        """Return the lines of a text file, or the texts in a column of a table, one on each line."""
        if path.suffix.lower() not in _DOCUMENT_FILES:
            raise ValueError(f"{path.name} holds no documents; they come in files that end in {', '.join(_DOCUMENT_FILES)}.")
        if path.suffix.lower() == ".txt":
            return path.read_text(encoding="utf-8", errors="replace")
        documents = open_inputs(path, texts.get("column", "").strip() or None)
        return "\n".join(" ".join(str(document).split()) for document in documents)

    def _represented(self, encoder: Encoder, documents: Sequence[str]) -> Tensor:
        """Return the representations of documents, which a further query finds again."""
        key = sha256("\0".join(documents).encode()).hexdigest()
        if key not in self._encoded:
            self._encoded[key] = encoder.represent(list(documents), progress=False)
            while len(self._encoded) > MAX_KEPT:
                self._encoded.popitem(last=False)
        return self._encoded[key]


class DatasetView(TaskView):
    """A question about all inputs of an index, in words or by two groups of them."""

    name = "Data set"
    task = (
        "What in these inputs makes them similar to something: the strongest ones, the spread of scores, and the mean map. "
        "Choose points to see one explained, or to ask about two groups."
    )
    button = "Ask"

    def __init__(self, service: EncoderService, index: Index) -> None:
        super().__init__(service)
        self.index = index
        self._rows = {name: row for row, name in enumerate(index.ids)}
        groups = (
            _TextField("input", "Explain only this input", index.ids[0]),
            _TextField("like", "Like these inputs, one on each line", lines=3),
            _TextField("unlike", "rather than these", lines=3),
        )
        words = (_TextField("question", "Question", "a dog rather than a cat"),) if service.takes_words else ()
        self.fields = (*words, *groups)
        self.examples = (_Example("one input", {"input": index.ids[0]}),)
        if words and service.takes_pictures:
            self.examples = (_Example("a dog rather than a cat", {"question": "a dog rather than a cat"}), *self.examples)
        self.chart = self._scatter()

    @classmethod
    def serves(cls, encoder: Encoder) -> bool:
        """Whether an encoder can do this: every one that an index is of."""
        return True

    def answer(self, texts: Mapping[str, str], uploads: Mapping[str, Any]) -> tuple[Result, Sequence[Table]]:
        """Return the survey of the data set, or the map of one input."""
        question = self._question(texts)
        chosen = self._named(texts.get("input", ""))
        if not chosen:
            return self.index.ask(question, top=24), ()
        name, target, _ = parse_question(self.index, question)
        rows = tuple((self.index.ids[row], name) for row in chosen)
        return self.index.attributions(chosen[:1], target)[0], (Table(("input", "question"), rows[:1]),)

    def _question(self, texts: Mapping[str, str]) -> str | Question:
        """Return the question in words, or about two groups; of one input, what makes it similar to itself."""
        words = texts.get("question", "").strip()
        like, unlike = (self._named(texts.get(side, "")) for side in ("like", "unlike"))
        if words and (like or unlike):
            raise ValueError("The question is in words and about groups; clear one of both.")
        if words:
            return words
        if not like and (unlike or not texts.get("input", "").strip()):
            raise ValueError("There is no question; write one, or choose inputs that the others are compared with.")
        sides = (
            Side(encoded=self.index.reference(rows, name=f"{len(rows)} {what} input{'s' * (len(rows) > 1)}"))
            if rows
            else Side()
            for rows, what in ((like, "chosen"), (unlike, "other"))
        )
        return Question(*sides, similarity=self.index.similarity)

    def _named(self, text: str) -> list[int]:
        """Return the rows of some ids, one on each line."""
        names = [line.strip() for line in text.splitlines() if line.strip()]
        unknown = [name for name in names if name not in self._rows]
        if unknown:
            raise ValueError(f"There is no input {unknown[0][:60]!r} in this index; the first is {self.index.ids[0]!r}.")
        return [self._rows[name] for name in names]

    def _scatter(self) -> str:
        """Return the inputs as points: the two directions in which their representations differ most."""
        count = len(self.index)
        rows = np.arange(count) if count <= MAX_POINTS else np.sort(stream(0).choice(count, MAX_POINTS, replace=False))
        if len(rows) < 3:
            return ""
        from sklearn.decomposition import PCA

        features = self.index.similarity.features(self.index.representations[rows].double()).numpy()
        places = PCA(2, svd_solver="full").fit_transform(features) if features.shape[1] > 1 else np.repeat(features, 2, 1)
        label = next(
            (name for name, said in self.index.columns.items() if 2 <= len(set(map(str, said))) <= len(DISTINCT)), ""
        )
        groups = [str(value) for value in self.index.columns[label][rows]] if label else [""] * len(rows)
        return parts.scatter(places, [self.index.ids[row] for row in rows.tolist()], groups, count)


_KINDS: tuple[type[TaskView], ...] = (SoundView, RowView, MatchView, SearchView)


def views_of(service: EncoderService, index: Index | None = None) -> list[TaskView]:
    """Return the views that an encoder can serve, in their order."""
    views: list[TaskView] = [kind(service) for kind in _KINDS if kind.serves(service.encoder)]
    if index is not None:
        if index.manifest.noun == "text" and len(index):
            views = [SearchView(service, index) if isinstance(view, SearchView) else view for view in views]
        index.check_any()
        views.append(DatasetView(service, index))
    return views

"""What the page offers beside one photo: matches, searches and data sets. Each view asks for some inputs and shows a result.

A view is a small class: what it asks for, examples, and how the library answers. The result is shown as the page that
``save("x.html")`` writes, in a frame of its own.
"""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from typing import Any, ClassVar

import torch
from PIL import Image
from torch import Tensor

import cocoax
from cocoax.app.service import EncoderService
from cocoax.encoders import Encoder
from cocoax.results import Result
from cocoax.show import Table
from cocoax.show.html import page
from cocoax.similarity import get_similarity
from cocoax.survey import Index
from cocoax.targets import similarity_to

MAX_DOCUMENTS = 2000  # of a search, which are encoded while its visitor waits
MAX_WORDS = 20_000  # characters of a text that is explained
MAX_PASTED = 1_000_000  # characters of all documents together
MAX_KEPT = 64  # results, and sets of documents
EXPLAINED = 3  # hits of a search, each rather than the next ones
RANKED = 10  # hits that are listed


@dataclass(frozen=True)
class _TextField:
    """Words that a view asks for."""

    name: str
    label: str
    example: str = ""
    lines: int = 1
    longest: int = MAX_WORDS


@dataclass(frozen=True)
class _Example:
    """Inputs to try: texts by field, and sample photos by side."""

    label: str
    texts: Mapping[str, str]
    photos: Mapping[str, str] = field(default_factory=dict)


class TaskView(ABC):
    """A view of the page.

    Attributes:
        name: of its tab, and in the address bar.
        task: what it does, in a sentence.
        fields: the texts that it asks for.
        sides: the fields that may be a picture instead, if the encoder takes pictures.
        button: what its button says.
        examples: inputs to try.

    """

    name: ClassVar[str]
    task: ClassVar[str]
    fields: tuple[_TextField, ...]
    sides: tuple[str, ...] = ()
    button: ClassVar[str] = "Explain"
    examples: tuple[_Example, ...] = ()

    def __init__(self, service: EncoderService) -> None:
        self.service = service
        self._kept: OrderedDict[object, str] = OrderedDict()
        self._lock = Lock()

    @classmethod
    @abstractmethod
    def serves(cls, encoder: Encoder) -> bool:
        """Whether an encoder can do this."""

    @abstractmethod
    def answer(self, texts: Mapping[str, str], pictures: Mapping[str, Image.Image]) -> tuple[Result, Sequence[Table]]:
        """Return the result for some inputs, and tables that stand above it."""

    def shown(self, texts: Mapping[str, str], pictures: Mapping[str, Image.Image]) -> str:
        """Return the answer as a page; the same inputs are explained once."""
        for each in self.fields:
            if len(texts.get(each.name, "")) > each.longest:
                raise ValueError(f"'{each.label}' takes up to {each.longest:,} characters. Got {len(texts[each.name]):,}.")
        seen = {name: sha256(image.tobytes()).digest() for name, image in pictures.items()}
        key = (*sorted(texts.items()), *sorted(seen.items()))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        with self.service.networks():
            result, tables = self.answer(texts, pictures)
        remarks = (*(() if result.summary == result.title else (result.summary,)), *result.remarks)
        written = page(result.title, remarks, [*tables, *result.views()])
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


_SIDES = ("first", "second")


class MatchView(TaskView):
    """Two inputs: texts, pictures, or one of each."""

    name = "Match"
    task = "Why do these two match? The parts that go together, and how much they add to the similarity."
    button = "Explain the match"

    def __init__(self, service: EncoderService) -> None:
        super().__init__(service)
        pictures = service.takes_pictures
        words = service.takes_words
        self.sides = _SIDES if pictures else ()
        self.fields = (
            _TextField("first", "One", "how do I repair a flat tyre"),
            _TextField("second", "The other", "Patch the inner tube of your bicycle.", lines=3),
            _TextField("rather", "Rather than (optional)", "Bread needs two hours to rise."),
        )
        if not words:
            self.fields = ()
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
        offered = ((words, texts), (words and pictures, crossed), (pictures, photos))
        self.examples = tuple(example for possible, example in offered if possible)

    @classmethod
    def serves(cls, encoder: Encoder) -> bool:
        """Whether an encoder can do this: every one can."""
        return True

    def answer(self, texts: Mapping[str, str], pictures: Mapping[str, Image.Image]) -> tuple[Result, Sequence[Table]]:
        """Return the match of both sides."""
        labels = {each.name: each.label for each in self.fields}
        both: list[Any] = [
            pictures[side] if side in pictures else _filled(texts, side, labels.get(side, "A photo")) for side in _SIDES
        ]
        others = [line.strip() for line in texts.get("rather", "").splitlines() if line.strip()]
        return cocoax.explain_match(self.service.encoder, both[0], both[1], others, progress=False), ()


class SearchView(TaskView):
    """A query and documents: the ranked hits, and why the first ones came up."""

    name = "Search"
    task = "Which documents match a query, and why these: in the query and in each hit, rather than in the next ones."
    button = "Search and explain"
    fields = (
        _TextField("query", "Query", "repair a flat tyre"),
        _TextField("documents", "Documents, one on each line", "Paste texts here …", lines=8, longest=MAX_PASTED),
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

    def __init__(self, service: EncoderService) -> None:
        super().__init__(service)
        self._encoded: OrderedDict[str, Tensor] = OrderedDict()

    @classmethod
    def serves(cls, encoder: Encoder) -> bool:
        """Whether an encoder takes words."""
        return hasattr(encoder, "text")

    def answer(self, texts: Mapping[str, str], pictures: Mapping[str, Image.Image]) -> tuple[Result, Sequence[Table]]:
        """Return why the first hits came up, and the ranking."""
        query = _filled(texts, "query", "Query")
        lines = _filled(texts, "documents", "Documents").splitlines()
        documents = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
        if len(documents) > MAX_DOCUMENTS:
            raise ValueError(
                f"A search here takes up to {MAX_DOCUMENTS:,} documents, which are encoded while you wait. Got "
                f"{len(documents):,}; search more in Python, and explain the hits with cocoax.explain_hits."
            )
        encoder = self.service.encoder.text
        representations = self._represented(encoder, documents)
        own = encoder.represent([query], progress=False)
        asked = cocoax.Reference.from_representations(own, space=encoder.identity.space)
        scores = similarity_to(asked, get_similarity("cosine")).score(representations.float())
        order = torch.argsort(scores, descending=True, stable=True)[:RANKED].tolist()
        hits = [documents[at] for at in order]
        rows = tuple((rank, float(f"{float(scores[at]):.4g}"), documents[at][:300]) for rank, at in enumerate(order, 1))
        ranked = Table(("rank", "similarity", "document"), rows, title=f"The first {len(rows)} of {len(documents):,}")
        found = cocoax.explain_hits(encoder, query, hits[:EXPLAINED], hits[1:4] or None, progress=False)
        return found, (ranked,)

    def _represented(self, encoder: Encoder, documents: Sequence[str]) -> Tensor:
        """Return the representations of documents, which a further query finds again."""
        key = sha256("\0".join(documents).encode()).hexdigest()
        if key not in self._encoded:
            self._encoded[key] = encoder.represent(list(documents), progress=False)
            while len(self._encoded) > MAX_KEPT:
                self._encoded.popitem(last=False)
        return self._encoded[key]


class _DatasetView(TaskView):
    """A question about all inputs of an index."""

    name = "Data set"
    task = "What in these inputs makes them similar to something: the strongest ones, the spread of scores, and the mean map."
    button = "Ask"
    fields = (_TextField("question", "Question", "a dog rather than a cat"),)

    def __init__(self, service: EncoderService, index: Index) -> None:
        super().__init__(service)
        self.index = index

    @classmethod
    def serves(cls, encoder: Encoder) -> bool:
        """Whether an encoder takes words."""
        return hasattr(encoder, "text")

    def answer(self, texts: Mapping[str, str], pictures: Mapping[str, Image.Image]) -> tuple[Result, Sequence[Table]]:
        """Return the survey of the data set."""
        return self.index.ask(_filled(texts, "question", "Question"), top=24), ()


def views_of(service: EncoderService, index: Index | None = None) -> list[TaskView]:
    """Return the views that an encoder can serve, in their order."""
    views: list[TaskView] = [kind(service) for kind in (MatchView, SearchView) if kind.serves(service.encoder)]
    if index is not None and _DatasetView.serves(service.encoder):
        views.append(_DatasetView(service, index))
    return views

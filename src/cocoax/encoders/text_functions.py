"""Encoders whose model is out of reach: functions of the user's from texts, or from pictures, to vectors.

Such a model takes strings, so a text is cut into pieces here, each word with the space before it, and a masked text is the
pieces that are kept, put together again. Pictures go to the function as PIL images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, Protocol, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cocoax.encoders.encoder import Encoder
from cocoax.encoders.function_calls import (
    FunctionCalls,
    FunctionModule,
    advice_on_single,
    error_in_words,
    hints_of,
    may_be_of_single,
    vectors_of,
)
from cocoax.encoders.text import TextEncoder
from cocoax.inputs import Pictures
from cocoax.inputs.text import Span, TextPart, Tokenizer, words
from cocoax.store import digest

FILLER = "…"
UNLIMITED = 1_000_000  # pieces of a text; the model itself may take fewer
_PROBE = "A small brown dog runs after 3 red balls."
_QUERY_TOLERANCE = 1e-3  # of a vector's length: how far those of one text may lie apart


class Embed(Protocol):
    """From texts to vectors, one for each."""

    def __call__(self, texts: list[str], /) -> Any:
        """Return the vectors."""


def text_function_encoder(
    embed: Embed,
    *,
    embed_query: Embed | None = None,
    name: str | None = None,
    features: TextPart = "words",
    query_prefix: str = "",
    document_prefix: str = "",
    filler: str = FILLER,
    max_tokens: int | None = None,
    batch_size: int = 64,
    parallel: int = 1,
    max_calls: int | None = None,
) -> TextEncoder:
    """Return an encoder around a function from texts to vectors.

    Args:
        embed: the function; it gets a list of strings and returns one vector for each (an array, a tensor, or lists).
        embed_query: the same for queries, where those go to another function.
        name: of the model. With a name, vectors are kept in the cache folder and found again by later processes; change the
            name when the model changes. Without one they are kept in memory.
        features: what explanations are about: ``"words"``, ``"sentences"`` or ``"paragraphs"``.
        query_prefix, document_prefix: put before queries and before documents, as in ``"query: "``; never part of an
            explanation.
        filler: the text that is embedded where nothing is left, and the word that ``baseline="mask"`` puts in the place of
            removed ones. By default removed words are deleted.
        max_tokens: where the search cuts texts off, in words and punctuation marks; by default nowhere.
        batch_size: texts of one call.
        parallel: calls at the same time.
        max_calls: the most texts that are sent. A run that needs more ends there, with larger errors; a run that could say
            nothing raises :class:`BudgetError`. All that was paid for is kept.

    """
    pieces = PieceTokenizer(filler, document_prefix, query_prefix)
    by_role = partial(embed_by_role, embed, embed_query)
    calls = FunctionCalls(
        by_role,
        name,
        batch_size=batch_size,
        parallel=parallel,
        max_calls=max_calls,
        advice=advice_on_single(embed, "text"),
    )
    function = FunctionModule(calls, partial(text_item, pieces, embed_query is not None), embed)
    limit, too_long = (UNLIMITED, "raise") if max_tokens is None else (max_tokens, "cut")
    return TextEncoder(function, pieces, limit=limit, features=features, too_long=too_long, name=name)  # type: ignore[arg-type]


class PieceTokenizer(Tokenizer):
    """Cuts a text into words with the space before them, and puts pieces together again; its vocabulary grows with use."""

    pad = 0
    mask = 1  # the piece that stands for removed words where baseline="mask" is asked for
    query = 2  # the first piece of a query
    unknown = None
    default_removal = "Deletion"

    def __init__(self, filler: str = FILLER, prompt: str = "", query_prompt: str = "") -> None:
        self._filler, self.prompt, self.query_prompt = filler, prompt, query_prompt
        self.content = f"pieces, {filler!r}"
        self._pieces = ["", " " + filler, ""]
        self._numbers: dict[str, int] = {}
        self._prompts: set[int] = set()  # the pieces that are prompts
        self._is_query = False

    def with_prompt(self, prompt: str) -> Self:
        """Return the tokenizer of documents with another prompt."""
        other = super().with_prompt(prompt)
        other._is_query = False
        return other

    def for_queries(self) -> Self:
        """Return the tokenizer of queries: with their prompt, and a first piece that says so."""
        other = self.with_prompt(self.query_prompt or "")
        other._is_query = True
        return other

    def __call__(self, text: str) -> list[int]:
        """Return the numbers of the pieces."""
        return self.places(text)[0]

    def places(self, text: str) -> tuple[list[int], list[Span | None]]:
        """Return the numbers of the pieces, and where their words stand in the text; the prompt stands nowhere."""
        spans = words(text)
        begins = [0, *(end for _, end in spans[:-1])]
        ends = [*(end for _, end in spans[:-1]), len(text)]
        numbers = [self._number(text[begin:end]) for begin, end in zip(begins, ends, strict=True)] if spans else []
        before = [self.query] * self._is_query
        if self.prompt:
            before.append(self._number(self.prompt))
            self._prompts.add(before[-1])
        return ([*before, *numbers], [*[None] * len(before), *spans]) if numbers else (numbers, [])

    def text(self, numbers: Sequence[int]) -> tuple[str, bool]:
        """Return the pieces put together, or the filler where nothing is left but a prompt; and whether it is a query."""
        is_query = bool(numbers) and numbers[0] == self.query
        prompt = "".join(self._pieces[number] for number in numbers[: 1 + is_query] if number in self._prompts)
        body = "".join(self._pieces[number] for number in numbers if number not in self._prompts)
        return (prompt + body.strip()).strip() or self._filler, is_query

    def _number(self, piece: str) -> int:
        if piece not in self._numbers:
            self._numbers[piece] = len(self._pieces)
            self._pieces.append(piece)
        return self._numbers[piece]

    def __repr__(self) -> str:
        return f"PieceTokenizer({self._filler!r})"


def text_item(pieces: PieceTokenizer, roles: bool, ids: Tensor) -> tuple[str, tuple[str, bool]]:
    """Return the key of a text, which with ``roles`` is another one for a query, and the text with whether it is a query."""
    text, is_query = pieces.text(ids.tolist())
    return f"query\0{text}" if is_query and roles else text, (text, is_query)


def embed_by_role(
    embed: Embed, embed_query: Embed | None, texts: list[tuple[str, bool]], check: Callable[..., Any] = vectors_of
) -> Any:
    """Return arrays of documents and of queries, each by their function."""
    if embed_query is None or not any(is_query for _, is_query in texts):
        return embed([text for text, _ in texts])
    vectors: list[Any] = [None] * len(texts)
    for role, function in ((False, embed), (True, embed_query)):
        places = [place for place, (_, is_query) in enumerate(texts) if is_query == role]
        if places:
            found = check(function([texts[place][0] for place in places]), len(places))
            for place, vector in zip(places, found, strict=True):
                vectors[place] = vector
    return vectors


# --- pictures ---------------------------------------------------------------------------------------------------------------


def picture_function_encoder(
    embed: Callable[[list[Image.Image]], Any],
    *,
    name: str | None = None,
    batch_size: int = 16,
    parallel: int = 1,
    max_calls: int | None = None,
) -> Encoder:
    """Return an encoder around a function from PIL images to vectors, one for each.

    Pictures are sent in their own size, upright and in RGB; the other options are those of :func:`text_function_encoder`.
    """
    advice = advice_on_single(embed, "picture")
    calls = FunctionCalls(embed, name, batch_size=batch_size, parallel=parallel, max_calls=max_calls, advice=advice)
    return Encoder(FunctionModule(calls, picture_item, embed), inputs=Pictures(any_shape=True), name=name)


def picture_item(picture: Tensor) -> tuple[str, Image.Image]:
    """Return the digest of a picture ``[3, H, W]`` in [0, 1], and the picture."""
    pixels = _as_uint8(picture)
    return digest(pixels), Image.fromarray(pixels)


def _as_uint8(picture: Tensor) -> np.ndarray:
    """Return a picture ``[3, H, W]`` or ``[1, H, W]`` as uint8 ``[H, W, 3]``."""
    pixels = picture.detach().cpu().clamp(0, 1).mul(255).round().to(torch.uint8)
    return pixels.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy()


# --- what users hold --------------------------------------------------------------------------------------------------------

_DOCUMENTS = ("embed_documents", "get_text_embedding_batch", "encode_document", "encode")
_SINGLE_QUERIES = ("embed_query", "get_query_embedding")


def embedding_of(model: Any) -> tuple[Embed, Embed | None] | None:
    """Return an object's functions for documents and for queries (LangChain, LlamaIndex, sentence-transformers' look-alikes).

    The second is None where queries go to the first; all of it where it has neither.
    """
    if isinstance(model, str):
        return None
    documents = next((found for name in _DOCUMENTS if callable(found := getattr(model, name, None))), None)
    if documents is None:
        if not callable(single := getattr(model, "get_text_embedding", None)):
            return None
        documents = _one_by_one(single)
    single_query = next((found for name in _SINGLE_QUERIES if callable(found := getattr(model, name, None))), None)
    queries = getattr(model, "encode_query", None) if single_query is None else _one_by_one(single_query)
    return documents, None if queries is None else _unless_same(documents, queries)


def _one_by_one(single: Callable[[str], Any]) -> Embed:
    return lambda texts: [single(text) for text in texts]


def _unless_same(documents: Embed, queries: Embed) -> Embed:
    """Return the function for queries, or that for documents, which takes many at once, if both do the same to a text."""
    chosen: list[Embed] = []

    def embed(texts: list[str]) -> Any:
        if not chosen:
            one, other = (vectors_of(function([_PROBE]), 1)[0] for function in (documents, queries))
            same = one.shape == other.shape and np.linalg.norm(one - other) <= _QUERY_TOLERANCE * np.linalg.norm(one)
            chosen.append(documents if same else queries)
        return chosen[0](texts)

    return embed


def items_of(function: Any) -> tuple[Literal["texts", "pictures", "pairs"] | None, str]:
    """Return what a function takes a list of, by its type hint, or else by what it makes of one text; None for arrays.

    The second is what it said about a text that it did not take.
    """
    hints = hints_of(function)
    if hints and "uple" in hints[0] and "str" in hints[0]:
        return "pairs", ""
    if hints:
        return "texts" if "str" in hints[0] else "pictures" if "Image" in hints[0] else None, ""
    try:
        vectors_of(function([FILLER]), 1)
    except Exception as error:  # whatever a function of arrays says about a list of texts
        advice = advice_on_single(function, "text") if may_be_of_single(error) else " If it takes texts, say takes='texts'."
        return None, f"takes no texts: tried on a list of one it said {error_in_words(error).rstrip('.')}.{advice}"
    return "texts", ""

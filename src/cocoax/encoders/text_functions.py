"""Encoders whose model is out of reach: functions and servers that turn texts into vectors.

Such a model takes strings, so a text is cut into pieces here, each word with the space before it, and a masked text is the
pieces that are kept, put together again. Every distinct text is embedded once: vectors are kept in memory, and in the cache
folder where the model has a name.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import check_count
from cocoax.encoders.forward import ForwardError
from cocoax.encoders.text import TextEncoder
from cocoax.inputs.text import Features, Span, Tokenizer, words
from cocoax.store.vectors import VectorCache

FILLER = "…"
UNLIMITED = 1_000_000  # pieces of a text; the model itself may take fewer
_WAITS = (1.0, 2.0, 4.0, 8.0, 16.0)  # seconds before a request is sent again
_BUSY = (408, 409, 425, 429, 500, 502, 503, 504)


class EmbeddingError(ForwardError):
    """A function or server gave no usable vectors; vectors that it gave before are kept."""


class BudgetError(EmbeddingError):
    """More texts would have to be embedded than ``max_calls`` allows; vectors that were paid for are kept."""


class Embed(Protocol):
    """From texts to vectors, one for each."""

    def __call__(self, texts: list[str], /) -> Any:
        """Return the vectors."""


def text_function_encoder(
    embed: Embed,
    *,
    name: str | None = None,
    features: Features = "words",
    prefix: str = "",
    filler: str = FILLER,
    batch_size: int = 64,
    parallel: int = 1,
    max_calls: int | None = None,
) -> TextEncoder:
    """Return an encoder around a function from a list of texts to their vectors.

    Args:
        embed: the function; it gets a list of strings and returns one vector for each (an array, a tensor, or lists).
        name: of the model. With a name, vectors are kept in the cache folder and found again by later processes; change the
            name when the model changes. Without one they are kept in memory.
        features: what explanations are about: ``"words"`` or ``"sentences"``.
        prefix: put before every text, as in ``"query: "``; it is never part of an explanation.
        filler: the text that is embedded where nothing is left, and the word that ``baseline="mask"`` puts in the place of
            removed ones. By default removed words are deleted.
        batch_size: texts of one call.
        parallel: calls at the same time.
        max_calls: the most texts that are embedded; more raise :class:`BudgetError`.

    """
    if not callable(embed):
        raise TypeError(f"The embedding must be a function from texts to vectors. Got {type(embed).__name__} instead.")
    check_count("batch_size", batch_size, 1)
    check_count("parallel", parallel, 1)
    if max_calls is not None:
        check_count("max_calls", max_calls, 1)
    pieces = PieceTokenizer(filler, prefix)
    function = EmbeddingFunction(embed, pieces, name, batch_size, parallel, max_calls)
    return TextEncoder(function, pieces, limit=UNLIMITED, features=features, name=name)  # type: ignore[arg-type]


class PieceTokenizer(Tokenizer):
    """Cuts a text into words with the space before them, and puts pieces together again; its vocabulary grows with use."""

    pad = 0
    mask = 1  # the piece that stands for removed words where baseline="mask" is asked for
    unknown = None
    default_removal = "Deletion"

    def __init__(self, filler: str = FILLER, prompt: str = "") -> None:
        self._filler, self.prompt = filler, prompt
        self.content = f"pieces, {filler!r}"
        self._pieces = ["", " " + filler]
        self._numbers = {piece: number for number, piece in enumerate(self._pieces)}

    def __call__(self, text: str) -> list[int]:
        """Return the numbers of the pieces."""
        return self.places(text)[0]

    def places(self, text: str) -> tuple[list[int], list[Span | None]]:
        """Return the numbers of the pieces, and where their words stand in the text; the prompt stands nowhere."""
        spans = words(text)
        begins = [0, *(end for _, end in spans[:-1])]
        ends = [*(end for _, end in spans[:-1]), len(text)]
        numbers = [self._number(text[begin:end]) for begin, end in zip(begins, ends, strict=True)] if spans else []
        if self.prompt and numbers:
            return [self._number(self.prompt), *numbers], [None, *spans]
        return numbers, list(spans)

    def text(self, numbers: Sequence[int]) -> str:
        """Return the pieces put together, or the filler where nothing is left but a prompt."""
        return "".join(self._pieces[number] for number in numbers).strip() or self._filler

    def _number(self, piece: str) -> int:
        if piece not in self._numbers:
            self._numbers[piece] = len(self._pieces)
            self._pieces.append(piece)
        return self._numbers[piece]

    def __repr__(self) -> str:
        return f"PieceTokenizer({self._filler!r})"


class EmbeddingFunction:
    """From token ids of :class:`PieceTokenizer` to vectors ``[n, d]``; every distinct text is embedded once."""

    def __init__(
        self,
        embed: Embed,
        pieces: PieceTokenizer,
        name: str | None,
        batch_size: int,
        parallel: int,
        max_calls: int | None,
    ) -> None:
        self._embed, self._pieces = embed, pieces
        self._batch_size, self._parallel, self._max_calls = batch_size, parallel, max_calls
        self._cache = VectorCache(name)
        self.__name__ = str(getattr(embed, "__name__", type(embed).__name__))
        self.sent = 0  # texts that were embedded, not found

    def __call__(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the vectors of texts, given as their padded ``input_ids`` and ``attention_mask``."""
        rows = zip(batch["input_ids"].tolist(), batch["attention_mask"].tolist(), strict=True)
        texts = [self._pieces.text([number for number, kept in zip(ids, mask, strict=True) if kept]) for ids, mask in rows]
        known = self._cache.get(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            known |= self._embedded(missing)
        return torch.from_numpy(np.stack([known[text] for text in texts]))

    def _embedded(self, texts: list[str]) -> dict[str, np.ndarray]:
        """Return the vectors of texts that were never embedded; those that come before an error are kept."""
        allowed = len(texts) if self._max_calls is None else self._max_calls - self.sent
        if allowed < len(texts):
            if allowed > 0:
                self._embedded(texts[:allowed])
            raise BudgetError(
                f"max_calls={self._max_calls} texts are embedded, and {len(texts) - allowed} more are needed. All vectors "
                "are kept; take fewer samples or a larger max_calls."
            )
        batches = [texts[start : start + self._batch_size] for start in range(0, len(texts), self._batch_size)]
        vectors: dict[str, np.ndarray] = {}
        with ThreadPoolExecutor(self._parallel) as pool:
            jobs = [pool.submit(self._one_call, batch) for batch in batches]
            try:
                for batch, job in zip(batches, jobs, strict=True):
                    rows = dict(zip(batch, job.result(), strict=True))
                    self._cache.add(rows)
                    self.sent += len(batch)
                    vectors |= rows
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return vectors

    def _one_call(self, texts: list[str]) -> np.ndarray:
        try:
            output = self._embed(list(texts))
        except EmbeddingError:
            raise
        except Exception as error:
            raise EmbeddingError(f"The embedding function failed on {len(texts)} texts: {_short(error)}") from error
        return _checked(output, len(texts), self._cache.width)


def _checked(output: Any, count: int, width: int | None) -> np.ndarray:
    """Return what a function gave as float32 vectors ``[count, d]``; raise if it is anything else."""
    try:
        if isinstance(output, Tensor):
            output = output.detach().float().cpu()
        vectors = np.asarray(output, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbeddingError(
            f"The embedding function must return one vector of numbers for each text, all of one length. Got "
            f"{type(output).__name__} instead."
        ) from error
    if vectors.ndim != 2 or len(vectors) != count or vectors.shape[1] == 0:
        raise EmbeddingError(
            f"The embedding function must return one vector for each of {count} texts. Got shape {list(vectors.shape)} "
            "instead."
        )
    if width is not None and vectors.shape[1] != width:
        raise EmbeddingError(
            f"The embedding function gave vectors of {vectors.shape[1]} dimensions, but {width} before; give another model "
            "another name=."
        )
    if not np.isfinite(vectors).all():
        raise EmbeddingError("The embedding function returned NaN or infinity; check its inputs.")
    return vectors


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"


# --- what users hold ------------------------------------------------------------------------------------------------------


def embedding_of(model: Any) -> Embed | None:
    """Return the function from texts to vectors of an object of LangChain, LlamaIndex or alike; None if it has none."""
    for method in ("embed_documents", "get_text_embedding_batch"):
        if callable(found := getattr(model, method, None)):
            return found  # type: ignore[no-any-return]
    if callable(single := getattr(model, "get_text_embedding", None)):
        return lambda texts: [single(text) for text in texts]
    if callable(encode := getattr(model, "encode", None)) and not isinstance(model, str):
        return encode  # type: ignore[no-any-return]
    return None


def takes_texts(function: Any) -> bool:
    """Whether a function takes a list of texts: by its type hint, or else by what it makes of one text."""
    try:
        hints = [str(hint) for name, hint in getattr(function, "__annotations__", {}).items() if name != "return"]
    except Exception:  # hints are the user's
        hints = []
    if hints:
        return "str" in hints[0]
    try:
        return len(_checked(function([FILLER]), 1, None)) == 1
    except Exception:  # whatever a function of arrays says about a list of texts
        return False


def server_embedding(url: str, model: str, key: str | None = None, timeout: float = 60.0) -> Embed:
    """Return the function that asks a server that speaks the OpenAI embeddings protocol.

    The key is read from ``$COCOAX_API_KEY`` or ``$OPENAI_API_KEY`` if not given; it is in no file, cache or error. Requests
    that meet a busy server (429, 5xx) or a broken connection are sent again, after 1, 2, 4, 8 and 16 seconds.
    """
    address = url.rstrip("/") + "/embeddings"

    def embed(texts: list[str]) -> list[list[float]]:
        secret = key or os.environ.get("COCOAX_API_KEY") or os.environ.get("OPENAI_API_KEY")
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {secret}"} if secret else {})}
        body = json.dumps({"model": model, "input": texts}).encode()
        for wait in (*_WAITS, None):
            try:
                request = urllib.request.Request(address, body, headers)
                with urllib.request.urlopen(request, timeout=timeout) as reply:
                    return _vectors_of(json.loads(reply.read()), len(texts))
            except urllib.error.HTTPError as error:
                if error.code not in _BUSY or wait is None:
                    raise EmbeddingError(f"{address} answered {error.code} {error.reason}.") from None
            except (OSError, ValueError) as error:
                if wait is None:
                    raise EmbeddingError(f"{address} cannot be asked: {_without(_short(error), secret)}") from None
            time.sleep(wait)
        raise AssertionError  # the last round returns or raises

    return embed


def _vectors_of(reply: Any, count: int) -> list[list[float]]:
    try:
        rows = sorted(reply["data"], key=lambda row: row["index"])
        vectors = [row["embedding"] for row in rows]
    except (KeyError, TypeError) as error:
        raise EmbeddingError("The server's answer has no data[].embedding, as the OpenAI protocol has it.") from error
    if len(vectors) != count:
        raise EmbeddingError(f"The server gave {len(vectors)} vectors for {count} texts.")
    return vectors


def _without(message: str, secret: str | None) -> str:
    return message.replace(secret, "***") if secret else message


def load_server(url: str, *, model: str, key: str | None = None, timeout: float = 60.0, **options: Any) -> TextEncoder:
    """Return an encoder around an embeddings server (vLLM, TEI, Ollama, OpenAI); options as :func:`text_function_encoder`."""
    options.setdefault("name", f"{model} at {url}")
    return text_function_encoder(server_embedding(url, model, key, timeout), **options)

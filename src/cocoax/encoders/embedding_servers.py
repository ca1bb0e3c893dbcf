"""Servers that speak the OpenAI embeddings protocol (vLLM, TEI, Ollama, OpenAI itself), as encoders of texts."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from cocoax.encoders.function_calls import EmbeddingError, without_secrets
from cocoax.encoders.text import TextEncoder
from cocoax.encoders.text_functions import Embed, text_function_encoder

_WAITS = (1.0, 2.0, 4.0, 8.0, 16.0)  # seconds before a request is sent again
_BUSY = (408, 409, 425, 429, 500, 502, 503, 504)


def load_server(url: str, *, model: str, key: str | None = None, timeout: float = 60.0, **options: Any) -> TextEncoder:
    """Return an encoder around an embeddings server; other options are those of :func:`text_function_encoder`.

    The key is read from ``$COCOAX_API_KEY`` or ``$OPENAI_API_KEY`` if not given; it is in no file, cache or error.
    """
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise ValueError("The address of a server holds no password; pass key=, or set $COCOAX_API_KEY.")
    options.setdefault("name", f"{model} at {urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip('/'), '', ''))}")
    return text_function_encoder(_server_embedding(url, model, key, timeout), **options)


def _server_embedding(url: str, model: str, key: str | None = None, timeout: float = 60.0) -> Embed:
    """Return the function that asks a server for vectors.

    Requests that meet a busy server (429, 5xx) or a broken connection are sent again, after 1, 2, 4, 8 and 16 seconds, or as
    the server's Retry-After says.
    """
    parts = urlsplit(url)
    address = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + "/embeddings", parts.query, ""))
    shown = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + "/embeddings", "", ""))

    def embed(texts: list[str]) -> list[list[float]]:
        secret = key or os.environ.get("COCOAX_API_KEY") or os.environ.get("OPENAI_API_KEY")
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {secret}"} if secret else {})}
        body = json.dumps({"model": model, "input": texts, "encoding_format": "float"}).encode()
        for wait in (*_WAITS, None):
            try:
                request = urllib.request.Request(address, body, headers)
                with urllib.request.urlopen(request, timeout=timeout) as reply:
                    return _vectors_of(json.loads(reply.read()), len(texts))
            except urllib.error.HTTPError as error:
                if error.code not in _BUSY or wait is None:
                    raise EmbeddingError(f"{shown} answered {error.code} {error.reason}.{_advice(error.code)}") from None
                asked = error.headers.get("Retry-After", "")
                time.sleep(max(wait, float(asked)) if asked.isdigit() and int(asked) <= 60 else wait)
            except (OSError, ValueError) as error:
                if wait is None:
                    said = without_secrets(f"{type(error).__name__}: {str(error)[:300]}")
                    said = said.replace(secret, "***") if secret else said
                    raise EmbeddingError(f"{shown} cannot be asked: {said}. Is the server there?") from None
                time.sleep(wait)
        raise AssertionError  # the last round returns or raises

    return embed


def _advice(code: int) -> str:
    if code in (401, 403):
        return " Set $COCOAX_API_KEY or $OPENAI_API_KEY, or pass key=."
    return " Check the address, which ends in /v1 mostly, and model=." if code == 404 else ""


def _vectors_of(reply: Any, count: int) -> list[list[float]]:
    try:
        rows = sorted(reply["data"], key=lambda row: row["index"])
        vectors = [row["embedding"] for row in rows]
    except (KeyError, TypeError) as error:
        raise EmbeddingError("The server's answer has no data[].embedding, as the OpenAI protocol has it.") from error
    if len(vectors) != count:
        raise EmbeddingError(f"The server gave {len(vectors)} vectors for {count} texts.")
    return vectors

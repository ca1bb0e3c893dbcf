"""Digests of content, and JSON that carries one, so that damage is noticed."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from cocoax.checks import check_plain


def digest(*parts: object) -> str:
    """Return a digest of tensors, arrays, bytes and plain values, of their kind as well as of their content."""
    import numpy as np
    import torch

    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, torch.Tensor):
            if part.device.type == "meta":
                check_plain(part)
            part = part.detach().cpu()
            part = part if part.layout == torch.strided else part.to_dense()
            sha.update(f"tensor {part.dtype} {tuple(part.shape)} ".encode())
            sha.update(part.contiguous().reshape(-1).view(torch.uint8).numpy().data)
        elif isinstance(part, np.ndarray):
            sha.update(f"array {part.dtype} {part.shape} ".encode())
            sha.update(np.ascontiguousarray(part).data if part.dtype.kind in "biufc" else repr(part.tolist()).encode())
        elif isinstance(part, bytes):
            sha.update(b"bytes " + part)
        else:
            sha.update(f"{type(part).__name__} {part!r} ".encode())
    return sha.hexdigest()[:32]


def file_digest(path: str | Path) -> str:
    """Return a digest of a file's content; raise if there is no file."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"No file at {path}; check the path.")
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def with_checksum(text: str, *parts: object) -> str:
    """Return a JSON object, given as text, with one entry more at its beginning: a digest of the text and of ``parts``."""
    return f'{{"digest": "{digest(text, *parts)}", {text[1:]}'


def without_checksum(text: str, *parts: object) -> str:
    """Return the text that :func:`with_checksum` was given; raise if the text or one of the ``parts`` has changed since."""
    checksum = re.match(r'\{"digest": "([0-9a-f]{32})", ', text)
    if checksum is None:
        raise ValueError("its header is damaged")
    plain = "{" + text[checksum.end() :]
    if digest(plain, *parts) != checksum[1]:
        raise ValueError("its content is not what was written")
    return plain

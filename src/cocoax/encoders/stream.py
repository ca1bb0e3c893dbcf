"""Streaming a corpus or a foil through an encoder, once, into a reference."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cocoax.checks import shown
from cocoax.encoders.function_calls import BudgetError, EmbeddingError, NotKnownError
from cocoax.inputs.base import naming_input
from cocoax.inputs.open import each_input
from cocoax.progress import bar
from cocoax.references import CHUNKS, KEPT, Reference
from cocoax.store import digest

if TYPE_CHECKING:
    from cocoax.encoders.encoder import Encoder
    from cocoax.encoders.identity import Identity

_CHUNK = 256  # inputs that are encoded, and cached, together
WINDOW = 1024  # inputs that are sorted by length together


@dataclass(frozen=True)
class Streaming:
    """The options of ``encoder.reference``; with ``skip``, inputs that fail are left out."""

    keep_samples: bool | None
    batch_size: int | None
    skip: bool
    cache: bool
    progress: bool | None
    key: str | None = None

    def keeps(self, start: int) -> bool:
        """Whether the samples of a chunk that begins at input ``start`` are kept."""
        return start < KEPT if self.keep_samples is None else self.keep_samples


def stream_reference(encoder: Encoder, inputs: Any, name: str | None, how: Streaming) -> Reference:
    """Encode inputs in chunks, each of which is cached, and return the reference of all of them."""
    items, total = each_input(inputs, encoder.inputs, how.key)
    numbered = enumerate(items)
    caches = how.cache and encoder.recognisable
    identity: Identity | None = None
    parts: list[Reference] = []
    skipped: list[tuple[int, str]] = []
    labels: list[str] = []
    with bar(total, f"encoding with {encoder.name}", how.progress) as shown:
        while labelled := [
            (index, _prepared_unless_path(encoder, item), encoder.inputs.label(item))
            for index, item in islice(numbered, _CHUNK)
        ]:
            chunk = [(index, item) for index, item, _ in labelled]
            keep = how.keeps(chunk[0][0])
            identity = encoder.identify() if identity is None else identity  # once inputs say which shape they have
            key = _key(encoder, chunk, identity.key, keep) if caches else None
            part = None if key is None else CHUNKS.get(key, Reference.load)
            if part is None:
                failed: list[tuple[int, str]] | None = [] if how.skip else None
                representations = _encode_chunk(encoder, chunk, how.batch_size, failed)
                if len(representations):
                    # In the cache a chunk bears the name of its encoder.
                    part = Reference.from_representations(representations, name=encoder.name, keep_samples=keep)
                skipped += sorted(failed or [])
                if key is not None and part is not None and not failed:
                    CHUNKS.put(key, part.save)
            left_out = {index for index, _ in skipped}
            if part is not None and len(labels) < 4:
                labels += [label for index, _, label in labelled if index not in left_out][:4]
            parts += [part] if part is not None else []
            if len(parts) == _CHUNK:  # memory does not grow with the length of the stream
                parts = [parts[0].merge(*parts[1:])]
            shown.update(len(chunk))
    if skipped:
        reasons = "; ".join(reason for _, reason in skipped[:3])
        noun = "input was" if len(skipped) == 1 else "inputs were"
        warnings.warn(f"{len(skipped)} {noun} skipped ({reasons}).", stacklevel=3)
    if not parts:
        where = f" There are none in {inputs}." if isinstance(inputs, str | Path) else ""
        raise ValueError(f"The reference has 0 inputs; pass at least one.{where}")
    merged = parts[0].merge(*parts[1:])
    if how.keep_samples is None and merged.count > KEPT:
        merged = replace(merged, samples=None)
    if name is None and isinstance(inputs, str | Path) and not encoder.inputs.is_one(inputs):
        name = Path(inputs).resolve().name  # of a folder
    name = encoder.inputs.set_label(labels[:4], merged.count) if name is None else name
    return replace(merged, name=name, space=encoder.identity.space, skipped=tuple(skipped))


def prepared_batches(
    encoder: Encoder, numbered: Iterable[tuple[int, Any]], batch_size: int | None
) -> Iterator[tuple[list[int], list[Tensor]]]:
    """Yield prepared inputs in batches, with their numbers; an error says which input it was.

    Inputs that a batch pads to the longest (texts) come sorted by length, ``WINDOW`` of them at a time.
    """
    prepared = ((index, _prepare_numbered(encoder, index, item)) for index, item in numbered)
    indices: list[int] = []
    batch: list[Tensor] = []
    for index, tensor in _longest_first(prepared) if encoder.inputs.padded else prepared:
        batch.append(tensor)
        indices.append(index)
        if len(batch) >= encoder.batch_size(batch[0], batch_size):
            yield indices, batch
            indices, batch = [], []
    if batch:
        yield indices, batch


def _longest_first(prepared: Iterator[tuple[int, Tensor]]) -> Iterator[tuple[int, Tensor]]:
    while window := list(islice(prepared, WINDOW)):
        yield from sorted(window, key=lambda numbered: -numbered[1].shape[-1])


def in_order(parts: Sequence[Tensor], indices: Sequence[int]) -> Tensor:
    """Return the rows of all parts in the order of their numbers."""
    rows = torch.cat(list(parts))
    return rows if list(indices) == sorted(indices) else rows[torch.tensor(indices).argsort()]


def _key(encoder: Encoder, chunk: list[tuple[int, Any]], fingerprint: str, keep: bool) -> str | None:
    """Return the cache key of a chunk; None if an input cannot be read, an error that encoding the chunk reports."""
    try:
        return digest(fingerprint, keep, *(encoder.inputs.digest(item) for _, item in chunk))
    except (ValueError, TypeError, OSError, RuntimeError):
        return None


def _prepare_numbered(encoder: Encoder, index: int, item: Any) -> Tensor:
    try:
        with naming_input(index):
            return encoder.prepare(item)
    except FileNotFoundError as error:
        if hasattr(encoder, "text") and not Path(item).suffix:
            raise FileNotFoundError(f"{error} For words, use encoder.text.reference([...]).") from error
        raise


def _prepared_unless_path(encoder: Encoder, item: Any) -> Any:
    """Return a path as it is, to be read when it is encoded, and any other input prepared, which takes less memory."""
    if isinstance(item, str | Path):
        return item
    try:
        return encoder.prepare(item)
    except (ValueError, TypeError, OSError, RuntimeError):
        return item  # it will fail again, and be reported, where inputs are encoded


def _encode_chunk(
    encoder: Encoder, chunk: list[tuple[int, Any]], batch_size: int | None, failed: list[tuple[int, str]] | None
) -> Tensor:
    """Return representations of a chunk, in order. Failures are added to ``failed`` with their reasons, or raised if None."""

    def fail(index: int, error: Exception, cause: Exception | None = None) -> None:
        if failed is None:
            raise error from cause
        failed.append((index, str(error)))

    def readable() -> Iterator[tuple[int, Any]]:
        for index, item in chunk:
            try:
                yield index, _prepare_numbered(encoder, index, item)
            except (ValueError, TypeError, OSError, RuntimeError) as error:
                fail(index, error)

    kept: list[Tensor] = []
    numbers: list[int] = []
    for indices, prepared in prepared_batches(encoder, readable(), batch_size):
        try:
            output = encoder.encode(prepared)
        except (BudgetError, NotKnownError):  # no input is to blame
            raise
        except (ValueError, TypeError, RuntimeError) as error:
            if failed is None or len(prepared) == 1:
                which = f"Input {indices[0]}" if len(indices) == 1 else f"Inputs {min(indices)} to {max(indices)}"
                kind = next(own for own in (EmbeddingError, ValueError, TypeError, RuntimeError) if isinstance(error, own))
                fail(indices[0], kind(f"{which}: {error}"), error)
            else:  # one of them is to blame: find it
                for item in zip(indices, prepared, strict=True):
                    row = _encode_chunk(encoder, [item], 1, failed)
                    kept += [row]
                    numbers += [item[0]] * len(row)
            continue
        finite = torch.isfinite(output).all(1)
        good = finite & (output != 0).any(1)
        for row in (~good).nonzero()[:, 0].tolist():
            what = "zero, so it has no direction" if finite[row] else "not finite"
            index = indices[row]
            item = dict(chunk)[index]
            which = f"Input {index} ({shown(item)})" if isinstance(item, str) else f"Input {index}"
            fail(index, ValueError(f"{which}: its representation is {what}; leave it out, or on_error='skip'."))
        kept.append(output[good])
        numbers += [index for index, own in zip(indices, good.tolist(), strict=True) if own]
    kept = [part for part in kept if len(part)]
    return in_order(kept, numbers) if kept else torch.empty(0, 0)

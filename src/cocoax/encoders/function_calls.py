"""Calls of a function whose model is out of reach: in batches, in parallel, within a budget, and never twice for one item.

Texts, pictures and pairs of texts go to such functions (an embedding API, a reranker). An item is known by a key, a string;
its array is kept in memory, and in the cache folder where the model has a name, so that nothing is paid for twice.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cocoax.checks import check_count, shown
from cocoax.encoders.forward import ForwardError
from cocoax.store.vectors import VectorCache

_TOKENS_PER_CHARACTER = 0.25  # of English text
_SECRETS = re.compile(r"\b(?:sk|pk|hf|key|api)[-_][A-Za-z0-9_\-*]{6,}|(?<=Bearer )[^\s,;]+", re.IGNORECASE)


class EmbeddingError(ForwardError):
    """A function or server gave no usable numbers; what it gave before is kept."""


class BudgetError(EmbeddingError):
    """More items would have to be sent than ``max_calls`` allows; what was paid for is kept."""


class NotKnownError(EmbeddingError):
    """An item would have to be sent inside of :meth:`FunctionCalls.only_known`."""


class FunctionCalls:
    """A function from a list of items to one array for each, called as little as possible.

    Args:
        function: the user's; it gets a list of items.
        name: of the model: its arrays are in the cache folder as well. None keeps them in memory alone.
        batch_size: items of one call.
        parallel: calls at the same time.
        max_calls: the most items that are sent; more raise :class:`BudgetError`.
        check: from what the function gave and the number of items to one float32 array for each; raises EmbeddingError.
        noun: what the function is called in errors.
        advice: a sentence for whoever passed a function of one item; it follows the errors of a function that never answered.

    Attributes:
        sent: items that were sent, not found.

    """

    def __init__(
        self,
        function: Callable[[list[Any]], Any],
        name: str | None,
        *,
        batch_size: int = 64,
        parallel: int = 1,
        max_calls: int | None = None,
        check: Callable[[Any, int], Sequence[np.ndarray]] | None = None,
        noun: str = "embedding function",
        advice: str = "",
    ) -> None:
        if not callable(function):
            raise TypeError(f"The {noun} must be a function of a list. Got {type(function).__name__} instead.")
        check_count("batch_size", batch_size, 1)
        check_count("parallel", parallel, 1)
        if max_calls is not None:
            check_count("max_calls", max_calls, 1)
        self._function, self._check, self.noun, self._advice = function, check or self._vectors, noun, advice
        self._batch_size, self._parallel, self.max_calls = batch_size, parallel, max_calls
        self._cache = VectorCache(name)
        self._shares = VectorCache(None if name is None else f"shares of {name}")
        self._only_known = False
        self.sent = 0

    def __call__(self, items: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return the array of each item, by its key."""
        known = self._cache.get(list(items))
        missing = [key for key in items if key not in known]
        if missing and self._only_known:
            raise NotKnownError(f"{len(missing)} items are not known.")
        return known | self._sent(missing, items) if missing else known

    @contextmanager
    def only_known(self) -> Iterator[None]:
        """Send nothing: what is not known raises :class:`NotKnownError`."""
        self._only_known = True
        try:
            yield
        finally:
            self._only_known = False

    def missing(self, keys: Iterable[str]) -> set[str]:
        """Return the keys of the items that would have to be sent."""
        distinct = set(keys)
        return distinct - self._cache.get(list(distinct)).keys()

    @property
    def left(self) -> float:
        """How many items may still be sent."""
        return math.inf if self.max_calls is None else max(self.max_calls - self.sent, 0)

    def share_of(self, question: str) -> float:
        """Return the share of its masked copies that a question got before under this ``max_calls``; 1 if it is new."""
        key = self._share_key(question)
        return round(float(self._shares.get([key]).get(key, np.ones(1))[0]), 6)  # it is kept in single precision

    def keep_share(self, question: str, share: float) -> None:
        """Keep what the same question will get again, so that it sends nothing then."""
        self._shares.add({self._share_key(question): np.array([share], np.float32)})

    def _share_key(self, question: str) -> str:
        return f"{self.max_calls} {question}"

    def affordable(self, keys: Sequence[str]) -> int:
        """Return how many of the first items can be had within ``max_calls``; what is known costs nothing."""
        if self.max_calls is None or self._only_known:
            return len(keys)
        known = self._cache.get(keys)
        new: set[str] = set()
        for place, key in enumerate(keys):
            if key not in known:
                new.add(key)
            if len(new) > self.left:
                return place
        return len(keys)

    def _sent(self, missing: list[str], items: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return the arrays of items that were never sent; arrays that arrive before an error are kept."""
        allowed = int(min(len(missing), self.left))
        arrays: dict[str, np.ndarray] = {}
        batches = [missing[start : min(start + self._batch_size, allowed)] for start in range(0, allowed, self._batch_size)]
        lock = Lock()

        def kept(batch: list[str]) -> dict[str, np.ndarray]:
            """Send a batch and keep its arrays as they arrive: a killed process loses no more than calls under way."""
            rows = dict(zip(batch, self._one_call([items[key] for key in batch]), strict=True))
            good = {key: row for key, row in rows.items() if np.isfinite(row).all()}
            with lock:
                self._cache.add(good)
                self.sent += len(batch)
            if bad := [_of(items[key]) for key in batch if key not in good]:
                raise EmbeddingError(f"The {self.noun} returned NaN or infinity{bad[0]}; what it gave besides is kept.")
            return rows

        with ThreadPoolExecutor(self._parallel) as pool:
            jobs = [pool.submit(kept, batch) for batch in batches]
            failed: BaseException | None = None
            for job in jobs:
                try:
                    arrays |= job.result()
                except BaseException as error:  # calls under way are paid for: their arrays are kept too
                    pool.shutdown(wait=False, cancel_futures=True)
                    failed = error if failed is None else failed
            if failed is not None:
                raise failed
        if allowed < len(missing):
            raise BudgetError(
                f"max_calls={self.max_calls} are sent to the {self.noun}, and {len(missing) - allowed} more are needed. All "
                "that was paid for is kept; take fewer samples or a larger max_calls."
            )
        return arrays

    def _one_call(self, items: list[Any]) -> Sequence[np.ndarray]:
        advice = "" if self.sent else self._advice  # a function that answered before takes lists
        try:
            output = self._function(items)
        except EmbeddingError:
            raise
        except Exception as error:
            hidden = error_in_words(error)
            said = f"{hidden.rstrip('.')}.{advice}" if advice and may_be_of_single(error) else hidden
            sentence = f"The {self.noun} failed on {len(items)} items: {said}"
            raise EmbeddingError(sentence) from (error if hidden == _in_words(error) else None)
        try:
            return self._check(output, len(items))
        except EmbeddingError as error:
            if not advice:
                raise
            raise EmbeddingError(f"{error}{advice}") from error.__cause__

    def _vectors(self, output: Any, count: int) -> Sequence[np.ndarray]:
        """Return one vector for each item, all of the width that was seen before."""
        vectors = vectors_of(output, count, self.noun)
        if self._cache.width not in (None, vectors.shape[1]):
            raise EmbeddingError(
                f"The {self.noun} gave vectors of {vectors.shape[1]} dimensions, but {self._cache.width} before; give "
                "another model another name=."
            )
        return list(vectors)


class FunctionModule:
    """Calls of a function as a module from batches to arrays ``[n, d]``.

    Args:
        calls: of the function.
        item_of: from one prepared input to the key and the item that is sent for it.
        function: the user's, which names an encoder around it that is given no name.

    """

    def __init__(self, calls: FunctionCalls, item_of: Callable[[Tensor], tuple[str, Any]], function: object) -> None:
        self.calls, self._item_of = calls, item_of
        self.__name__ = str(getattr(function, "__name__", type(function).__name__))

    def items(self, batch: Tensor | Mapping[str, Tensor]) -> list[tuple[str, Any]]:
        """Return key and item of each input of ``[n, ...]``, or of padded ``input_ids`` with their ``attention_mask``."""
        inputs: Iterable[Tensor] = batch  # type: ignore[assignment]
        if isinstance(batch, Mapping):
            rows = zip(batch["input_ids"], batch["attention_mask"], strict=True)
            inputs = [ids[mask.bool()] for ids, mask in rows]
        return [self._item_of(one) for one in inputs]

    def arrays(self, batch: Tensor | Mapping[str, Tensor]) -> list[np.ndarray]:
        """Return the array of each input of a batch."""
        items = self.items(batch)
        arrays = self.calls(dict(items))
        return [arrays[key] for key, _ in items]

    def __call__(self, batch: Tensor | Mapping[str, Tensor]) -> Tensor:
        """Return the arrays of a batch as one tensor."""
        return torch.from_numpy(np.stack(self.arrays(batch)))

    def keys(self, inputs: Iterable[Tensor]) -> list[str]:
        """Return the key of each prepared input."""
        return [self._item_of(one)[0] for one in inputs]


def function_module(module: Any) -> FunctionModule | None:
    """Return the function that a module is, or is around; None where it is around none."""
    while module is not None and not isinstance(module, FunctionModule):
        module = getattr(module, "source", None)
    return module


def vectors_of(output: Any, count: int, noun: str = "embedding function") -> np.ndarray:
    """Return what a function gave as float32 vectors ``[count, d]``; raise if it is anything else."""
    try:
        if isinstance(output, Tensor):
            output = output.detach().float().cpu()
        vectors = np.asarray(output, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbeddingError(
            f"The {noun} must return one vector of numbers for each item, all of one length. Got {type(output).__name__} "
            "instead."
        ) from error
    if vectors.ndim != 2 or len(vectors) != count or vectors.shape[1] == 0:
        raise EmbeddingError(
            f"The {noun} must return one vector for each of {count} items. Got shape {list(vectors.shape)} instead."
        )
    return vectors


def _of(item: Any) -> str:
    """Return which texts an item is made of, shortened; nothing of a picture."""
    parts = [shown(part) for part in item if isinstance(part, str)] if isinstance(item, tuple) else []
    return f" for {' and '.join(parts)}" if parts else ""


def advice_on_single(function: object, item: str) -> str:
    """Return what to write for a function of one item; nothing for methods, and where the type hint names a list."""
    hint = next(iter(hints_of(function)), "")
    if any(word in hint for word in ("ist", "equence", "terable")) or hasattr(function, "__self__"):
        return ""
    wrapped = f"lambda {item}s: [function({'*' * (item == 'pair')}{item}) for {item} in {item}s]"
    return f" It is called with a list of {item}s; of a function of one {item} pass {wrapped}."


def may_be_of_single(error: Exception) -> bool:
    """Return whether an error may come from a list where one item was expected; that of a connection does not."""
    return not isinstance(error, OSError)


def hints_of(function: object) -> list[str]:
    """Return the type hints of a function's arguments as they are written."""
    try:
        return [str(hint) for name, hint in getattr(function, "__annotations__", {}).items() if name != "return"]
    except Exception:  # hints are the user's
        return []


def error_in_words(error: Exception) -> str:
    """Return what an error of the user's function says, without what looks like a key."""
    return without_secrets(_in_words(error))


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"


def without_secrets(message: str) -> str:
    """Return a message without what looks like a key, and without the values of variables that hold keys."""
    for name, value in os.environ.items():
        if len(value) >= 6 and name.upper().endswith(("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")):
            message = message.replace(value, "***")
    return _SECRETS.sub("***", message)


def say_cost(name: str, count: int, unit: str, characters: float, progress: bool | None) -> None:
    """Say how much will be sent at most, on standard error: how many texts, pairs or pictures, and roughly how many tokens.

    ``progress=False`` and COCOAX_PROGRESS=0 silence it; where nothing is sent, nothing is said.
    """
    if count and progress is not False and os.environ.get("COCOAX_PROGRESS") != "0" and sys.stderr is not None:
        tokens = max(round(characters * _TOKENS_PER_CHARACTER, -2), 100)
        what = f"{unit if count == 1 else f'{unit}s'}{f', about {tokens:,.0f} tokens in all' if characters else ''}"
        print(f"{name}: sends up to {count:,} {what}.", file=sys.stderr)

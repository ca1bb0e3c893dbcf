"""A tokenizer of transformers, with what explaining a text needs: where each token stands in it, and which are special."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from cocoax.inputs.words import Span
from cocoax.store import digest


class Tokenizer:
    """From a string to token ids, and to their places.

    Args:
        tokenizer: of transformers (a fast one; all but a few are).
        prompt: text that is put before every input, as some encoders want; it is never part of an explanation.

    """

    def __init__(self, tokenizer: Any, prompt: str = "") -> None:
        self.tokenizer = tokenizer
        self.prompt = prompt
        self.content = _content(tokenizer)  # identifies vocabulary and rules

    def __call__(self, text: str) -> list[int]:
        """Return token ids, special tokens included."""
        ids: list[int] = self.tokenizer(self.prompt + text, truncation=False, verbose=False)["input_ids"]
        return ids

    def places(self, text: str) -> tuple[list[int], list[Span | None]]:
        """Return token ids, and where each begins and ends in the text; None for special tokens and those of the prompt."""
        if not getattr(self.tokenizer, "is_fast", False):
            raise TypeError(
                f"{type(self.tokenizer).__name__} does not say where its tokens stand in a text, so texts can be references "
                "but not explicands; load the fast tokenizer of the model."
            )
        encoded = self.tokenizer(
            self.prompt + text,
            truncation=False,
            verbose=False,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
        )
        start = len(self.prompt)
        places: list[Span | None] = [
            None if special or end <= start else (max(begin - start, 0), end - start)
            for (begin, end), special in zip(encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True)
        ]
        return encoded["input_ids"], _with_marks(text, places)

    @property
    def pad(self) -> int:
        """The id that fills up a batch; nothing attends to it, so any will do where the tokenizer has none."""
        for token in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id):
            if token is not None:
                return int(token)
        return 0

    @property
    def unknown(self) -> int | None:
        """The id that stands for words it does not know; None if it has none, or uses one for something else too."""
        others = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id)
        token = getattr(self.tokenizer, "unk_token_id", None)
        return None if token is None or token in others else int(token)

    @property
    def mask(self) -> int | None:
        """The id of the mask token, if there is one."""
        token = getattr(self.tokenizer, "mask_token_id", None)
        return None if token is None else int(token)

    def __repr__(self) -> str:
        return f"{type(self.tokenizer).__name__}({self.content}, {self.prompt!r})"


def _content(tokenizer: Any) -> str:
    """Return a digest of vocabulary and rules."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return digest(sorted(tokenizer.get_vocab().items()))
    rules = json.loads(backend.to_str())
    # Calls switch these on and off; and parts of it have another order in every process.
    return digest(
        json.dumps({key: value for key, value in rules.items() if key not in ("truncation", "padding")}, sort_keys=True)
    )


def _with_marks(text: str, places: list[Span | None]) -> list[Span | None]:
    """Return the places with the marks on their last letter, which normalisation takes off; those of other tokens stay."""
    taken = {index for span in places if span is not None for index in range(*span)}
    spans: list[Span | None] = []
    for span in places:
        if span is not None:
            begin, end = span
            while begin < end < len(text) and end not in taken and unicodedata.category(text[end]) == "Mn":
                end += 1
            span = begin, end
        spans.append(span)
    return spans

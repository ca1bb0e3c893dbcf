"""Text encoders: sentences in, representations out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any

import torch
from torch import Tensor, nn

from cocoax.encoders.encoder import Encoder
from cocoax.encoders.fingerprint import describe, digest
from cocoax.encoders.images import Explicand


class TextEncoder(Encoder):
    """An encoder of strings.

    Args:
        module: from a dict of ``input_ids`` and ``attention_mask`` (both ``[n, tokens]``) to representations ``[n, d]``.
        tokenize: from a string to its token ids, special tokens included.
        limit: the most tokens the module takes; a longer text is an error, never cut silently.
        pad: the id that fills up shorter texts of a batch.
        name: shown in pictures.

    """

    hint = "Check that the tokenizer is the one the module was trained with."

    def __init__(
        self,
        module: nn.Module,
        tokenize: Callable[[str], Sequence[int]],
        *,
        limit: int,
        pad: int = 0,
        name: str | None = None,
    ) -> None:
        super().__init__(module, name=name)
        self.tokenize = tokenize
        self.limit = limit
        self.pad = pad

    def is_one(self, inputs: object) -> bool:
        """Whether this is one text rather than many."""
        return isinstance(inputs, str)

    def several(self, inputs: Any) -> tuple[Iterator[Any], int | None]:
        """Texts one by one, and how many if that is known; a single string is one text."""
        if isinstance(inputs, str):
            return iter([inputs]), 1
        if not isinstance(inputs, Iterable):
            raise TypeError(f"Inputs must be a string or an iterable of strings. Got {type(inputs).__name__} instead.")
        return iter(inputs), len(inputs) if isinstance(inputs, Sized) else None

    @property
    def fingerprint(self) -> str:
        """Identifies weights and tokenizer."""
        return digest(super().fingerprint, describe(self.tokenize), self.pad)

    def prepare(self, one: Any) -> Tensor:
        """The token ids of a text."""
        if isinstance(one, Tensor):
            return one
        if not isinstance(one, str):
            raise TypeError(f"A text must be a string. Got {type(one).__name__} instead.")
        if not one.strip():
            raise ValueError("The text is empty; write at least one word.")
        ids = torch.tensor(list(self.tokenize(one)), dtype=torch.long)
        if len(ids) == 0:
            raise ValueError(f"The text has no tokens that {self.name!r} knows; write other words: {one[:60]!r}.")
        if len(ids) > self.limit:
            raise ValueError(
                f"The text has {len(ids)} tokens but {self.name!r} takes at most {self.limit}; shorten it: {one[:60]!r}…"
            )
        return ids

    def explicand(self, one: Any) -> Explicand:
        """Texts serve as corpus and foil; explaining them is not there yet."""
        raise TypeError(
            f"The encoder {self.name!r} takes texts, which can be references but not yet explicands; pass an image."
        )

    def collate(self, prepared: Sequence[Tensor] | Tensor) -> dict[str, Tensor]:
        """Token ids, padded to the longest, with their attention mask."""
        ids = nn.utils.rnn.pad_sequence(list(prepared), batch_first=True, padding_value=self.pad)
        lengths = torch.tensor([len(one) for one in prepared])
        mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        return {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}

    def batch_size(self, one: Any, asked: int | None = None) -> int:
        """64 texts at a time unless asked otherwise."""
        return super().batch_size(one, 64 if asked is None else asked)

    def digest_input(self, one: Any) -> str:
        """A digest of the text."""
        return digest(one)

    def label(self, one: Any) -> str:
        """The text itself."""
        return str(one)

    def made_up_name(self, labels: list[str], count: int) -> str:
        """Up to three texts, or the first and how many more."""
        return " / ".join(labels) if count <= 3 and len(labels) == count else f"{labels[0]} and {count - 1} more"

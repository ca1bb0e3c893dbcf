"""How words are removed from a text: replaced by the mask token, deleted, or hidden from attention.

Special tokens ([CLS], [SEP], a prompt) always stay. What comes out are token ids ``[L]``, or ids over an attention mask
``[2, L]``, as :class:`cocoax.TextEncoder` takes them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cocoax.checks import check_count
from cocoax.encoders.embedding import Embeddings
from cocoax.inputs import Explicand, Inputs
from cocoax.masking.baselines import Embedded
from cocoax.masking.removals import Removal


@dataclass(frozen=True)
class TokenRemoval(Removal):
    """A way to remove words.

    Args:
        token: id of the token that takes part: in place of a removed one, or as what an empty text consists of. Filled in
            from the encoder where it is not given.

    """

    made_for = "texts"
    token: int | None = None

    def __post_init__(self) -> None:
        if self.token is not None:
            check_count("token", self.token, 0)

    @abstractmethod
    def remove(self, explicand: Explicand, kept: Tensor) -> list[Tensor]:
        """Return the text with some features kept and the rest removed, for every row of ``kept [n, m]``."""

    def emptied(self, explicand: Explicand) -> Tensor:
        """Return the text without its words."""
        return self.remove(explicand, torch.zeros(1, *explicand.shape))[0]

    def masked(self, explicand: Explicand, emptied: Tensor, kept: Tensor) -> list[Tensor]:
        """Return the texts."""
        return self.remove(explicand, kept)

    def ready(self, inputs: Inputs) -> TokenRemoval:
        """Return the same with its token filled in from the tokenizer."""
        if self.token is not None:
            return self
        pad: int | None = getattr(inputs, "pad", None)
        if pad is None:
            raise ValueError(
                f"The tokenizer of {inputs.encoder!r} has no padding token; name what an empty text consists of: "
                f"{type(self).__name__}(token_id)."
            )
        return replace(self, token=pad)


@dataclass(frozen=True)
class MaskToken(TokenRemoval):
    """Each token of a removed word becomes the tokenizer's mask token; the others stay where they are."""

    called = "mask"

    def ready(self, inputs: Inputs) -> MaskToken:
        """Return the same with the tokenizer's mask token."""
        if self.token is not None:
            return self
        mask: int | None = getattr(inputs, "mask", None)
        if mask is None:
            raise ValueError(
                f"The tokenizer of {inputs.encoder!r} has no mask token; remove words by baseline='deletion' or 'attention', "
                "or name a token to put in their place: cocoax.MaskToken(token_id)."
            )
        return replace(self, token=mask)

    def embedded(self, inputs: Embeddings) -> Embedded:
        """Return the embedding of the mask token in place of those of the words."""
        ready = self.ready(inputs)
        assert ready.token is not None
        return Embedded(inputs.laid_under([], ready.token), ready)

    def remove(self, explicand: Explicand, kept: Tensor) -> list[Tensor]:
        """Return ids of the same length."""
        assert self.token is not None
        return list(torch.where(explicand.elements_kept(kept.bool()), explicand.tensor, self.token))


@dataclass(frozen=True)
class Deletion(TokenRemoval):
    """Removed words are cut out, and what comes after them moves up."""

    called = "deletion"

    def remove(self, explicand: Explicand, kept: Tensor) -> list[Tensor]:
        """Return ids of different lengths."""
        rows = explicand.elements_kept(kept.bool())
        return [explicand.tensor[row] if bool(row.any()) else self._empty() for row in rows]

    def in_order(self, explicand: Explicand, kept: Tensor) -> Tensor:
        """Return short texts together with short ones."""
        return torch.argsort(self._lengths(explicand.elements_kept(kept.bool())), stable=True)

    def _lengths(self, rows: Tensor) -> Tensor:
        return rows.sum(1).clamp(min=1)

    def _empty(self) -> Tensor:
        """Return what stands for a text without any token, where the tokenizer adds no special ones."""
        return torch.tensor([self.token])


@dataclass(frozen=True)
class AttentionMask(Deletion):
    """Removed words stay in place, but no other token attends to them and they are left out of the mean."""

    called = "attention"

    def remove(self, explicand: Explicand, kept: Tensor) -> list[Tensor]:
        """Return ids over attention masks, ``[2, L]``."""
        rows = explicand.elements_kept(kept.bool())
        return [torch.stack([explicand.tensor, row.long()]) if bool(row.any()) else self._empty() for row in rows]

    def _lengths(self, rows: Tensor) -> Tensor:
        return torch.where(rows.any(1), rows.shape[1], 1)

"""How words are removed from a text: replaced by the mask token, deleted, or hidden from attention.

Special tokens ([CLS], [SEP], a prompt) always stay. What comes out are token ids ``[L]``, or ids over an attention mask
``[2, L]``, as :class:`cocoax.TextEncoder` takes them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cocoax.encoders import Explicand, TextEncoder
from cocoax.features.baselines import Baseline


@dataclass(frozen=True)
class TokenRemoval(Baseline):
    """A way to remove words.

    Args:
        token: id of the token that takes part: in place of a removed one, or as what an empty text consists of. Filled in
            from the encoder where it is not given.

    """

    token: int | None = None

    def __call__(self, explicand: Tensor) -> Tensor:
        """Not for images."""
        raise TypeError(f"{type(self).__name__} removes words; it cannot take the place of a tensor's elements.")

    @abstractmethod
    def remove(self, explicand: Explicand, kept: Tensor) -> list[Tensor]:
        """The text with some features kept and the rest removed, for every row of ``kept [n, m]``."""

    def ready(self, encoder: TextEncoder) -> TokenRemoval:
        """The same with its token filled in from the encoder."""
        return self if self.token is not None else replace(self, token=encoder.pad)


@dataclass(frozen=True)
class MaskToken(TokenRemoval):
    """Each token of a removed word becomes the tokenizer's mask token; the others stay where they are."""

    def ready(self, encoder: TextEncoder) -> TokenRemoval:
        """The same with the encoder's mask token."""
        if self.token is not None:
            return self
        if encoder.mask is None:
            raise ValueError(
                f"The tokenizer of {encoder.name!r} has no mask token; remove words by baseline='deletion' or 'attention', "
                "or name a token to put in their place: cocoax.MaskToken(token_id)."
            )
        return replace(self, token=encoder.mask)

    def remove(self, explicand: Explicand, kept: Tensor) -> list[Tensor]:
        """Ids of the same length."""
        assert self.token is not None
        return list(torch.where(_kept_tokens(explicand, kept), explicand.tensor, self.token))


@dataclass(frozen=True)
class Deletion(TokenRemoval):
    """Removed words are cut out, and what comes after them moves up."""

    def remove(self, explicand: Explicand, kept: Tensor) -> list[Tensor]:
        """Ids of different lengths."""
        return [explicand.tensor[row] if bool(row.any()) else self._empty() for row in _kept_tokens(explicand, kept)]

    def _empty(self) -> Tensor:
        """What stands for a text without any token, where the tokenizer adds no special ones."""
        return torch.tensor([self.token])


@dataclass(frozen=True)
class AttentionMask(Deletion):
    """Removed words stay in place, but no other token attends to them and they are left out of the mean."""

    def remove(self, explicand: Explicand, kept: Tensor) -> list[Tensor]:
        """Ids over attention masks, ``[2, L]``."""
        rows = _kept_tokens(explicand, kept)
        return [torch.stack([explicand.tensor, row.long()]) if bool(row.any()) else self._empty() for row in rows]


REMOVALS: dict[str, type[TokenRemoval]] = {"mask": MaskToken, "deletion": Deletion, "attention": AttentionMask}


def _kept_tokens(explicand: Explicand, kept: Tensor) -> Tensor:
    """Which tokens stay, ``[n, L]``, when these features do."""
    assert explicand.members is not None
    # Special tokens are members of -1, the column of ones that is put at the end.
    always = torch.cat([kept.bool(), torch.ones(len(kept), 1, dtype=torch.bool)], dim=1)
    return always[:, explicand.members]

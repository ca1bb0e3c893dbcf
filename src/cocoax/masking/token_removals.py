"""Removals of words from a text: replaced by the mask token, deleted, or hidden from attention.

Special tokens ([CLS], [SEP], a prompt) always stay. What comes out are token ids ``[L]``, or ids over an attention mask
``[2, L]``, as :class:`cocoax.TextEncoder` takes them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cocoax.checks import check_count
from cocoax.encoders import Encoder
from cocoax.encoders.embedding import Embeddings
from cocoax.encoders.patches import Shortened, patches_of, without_patches
from cocoax.inputs import Explicand, Inputs
from cocoax.inputs.segmentation import check_sides, grid_segments
from cocoax.masking.baselines import Embedded, Removal


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

    def baseline_input(self, explicand: Explicand) -> Tensor:
        """Return the text without its words."""
        return self.remove(explicand, torch.zeros(1, *explicand.shape))[0]

    def masked(self, explicand: Explicand, baseline_input: Tensor, kept: Tensor) -> list[Tensor]:
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
        return Embedded(inputs.with_words([], ready.token), ready)

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


# --- drop tokens ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DropTokens(Removal):
    """Removed patches are left out of the tokens of a vision transformer; the others keep their places.

    There is nothing to put in place, so no baseline to choose, and half the tokens take half the time. Class tokens and
    registers stay. With all patches dropped they are all there is; of an encoder without any (SigLIP, or the mean over
    patches) the emptied input is a picture of zeros, which is the mean colour of most.

    Features are segments of whole patches, or cells of them, as equal as their number allows. Maps show the value of its part
    at every pixel, and ``features`` has one for each.

    Args:
        grid: cells, a number or (rows, columns); by default those of the method (``Rise(grid=7)``), and where it has none,
            as curves and ``Occlusion``, one for each patch.

    """

    made_for = "pictures and vision transformers"
    grid: int | tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.grid is not None:
            check_sides(self.grid)

    def with_features(self, explicand: Explicand, encoder: Encoder, grid: int | tuple[int, int] | None = None) -> Explicand:
        """Return the picture with cells of whole patches as its features; one that has features of its own is checked."""
        patches = patches_of(encoder, explicand.tensor)
        (height, width), (rows, columns) = patches.size, patches.grid
        if explicand.tree is not None and explicand.label_map is not None:
            labels = _in_patches(explicand.label_map, height, width, rows, columns)
            return replace(explicand, feature_ids=labels, tree=None)
        if explicand.feature_ids is not None:
            _check_whole(explicand.feature_ids, height, width, rows, columns)
            return explicand
        asked = self.grid or grid or (rows, columns)
        across = check_sides(asked)
        if across[0] > rows or across[1] > columns:
            raise ValueError(
                f"A grid of {across[0]} x {across[1]} is finer than the {rows} x {columns} patches that {encoder.name!r} "
                "cuts a picture into; use a smaller grid."
            )
        cells = grid_segments(rows, columns, across)
        members = torch.full(tuple(explicand.tensor.shape[1:]), -1)  # an incomplete patch at the border is never seen
        members[: rows * height, : columns * width] = cells.repeat_interleave(height, 0).repeat_interleave(width, 1)
        return replace(explicand, feature_ids=members)

    def encoder_for(self, encoder: Encoder, explicand: Explicand) -> Encoder:
        """Return the encoder that leaves tokens out."""
        if isinstance(encoder.module, Shortened):
            return encoder
        return without_patches(encoder, patches_of(encoder, explicand.tensor))

    def baseline_input(self, explicand: Explicand) -> Tensor:
        """Return the picture over a mask that keeps nothing, ``[C + 1, H, W]``."""
        return torch.cat([explicand.tensor, torch.zeros_like(explicand.tensor[:1])])

    def masked(self, explicand: Explicand, baseline_input: Tensor, kept: Tensor) -> Tensor:
        """Return the picture over masks, ``[n, C + 1, H, W]``."""
        pictures = explicand.tensor.expand(len(kept), *explicand.tensor.shape)
        return torch.cat([pictures, explicand.elements_kept(kept).to(pictures)], dim=1)

    def in_order(self, explicand: Explicand, kept: Tensor) -> Tensor:
        """Return those with as many patches left together."""
        return torch.argsort(explicand.elements_kept(kept).flatten(1).sum(1), stable=True)


def _in_patches(labels: Tensor, height: int, width: int, rows: int, columns: int) -> Tensor:
    """Return segments ``[H, W]`` made of whole patches: each patch belongs to the segment that has most of it."""
    inside = labels[: rows * height, : columns * width].reshape(rows, height, columns, width)
    most = inside.transpose(1, 2).flatten(2).mode(-1).values
    numbers = torch.unique(most, return_inverse=True)[1]  # a segment may have most of no patch
    snapped = torch.full_like(labels, -1)
    snapped[: rows * height, : columns * width] = numbers.repeat_interleave(height, 0).repeat_interleave(width, 1)
    return snapped


def _check_whole(members: Tensor, height: int, width: int, rows: int, columns: int) -> None:
    """Raise unless features are made of whole patches."""
    fits = members.ndim == 2
    if fits:
        inside = members[: rows * height, : columns * width].reshape(rows, height, columns, width)
        fits = bool((inside == inside[:, :1, :, :1]).all())
    if not fits:
        raise ValueError(
            f"DropTokens removes whole patches of {height} x {width} pixels, and features of this input cut through "
            "them; leave out its 'feature_ids', or make them of whole patches."
        )

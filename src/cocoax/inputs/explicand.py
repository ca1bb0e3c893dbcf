"""Explicands: inputs made ready to be explained."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

Box = tuple[float, float, float, float]
WHOLE: Box = (0.0, 0.0, 1.0, 1.0)
Offsets = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Explicand:
    """An input, ready to be explained, and what is needed to show its attribution.

    The features of an image are its pixels; those of a text (words, tokens, sentences) and of a table's row (columns) are a
    list with names.

    Attributes:
        tensor: the preprocessed input: an image ``[C, H, W]``, columns ``[1, m]``, or the token ids ``[L]`` of a text.
            Explicands are masked after preprocessing.
        picture: of an image, uint8 ``[h, w, 3]``: the original.
        box: which part of the picture the tensor shows.
        tokens: of a list of features, their names: words as they stand in the text, or columns.
        text: of a text, the original.
        offsets: of a text, where each feature begins and ends in it, so that ``text[begin:end]`` is the feature.
        members: of a text, the feature that each token belongs to ``[L]``; -1 for special tokens, which are never removed.
        left_out: of a text, how many tokens were cut off because the encoder takes no more.

    """

    tensor: Tensor
    picture: Tensor | None = None
    box: Box = WHOLE
    tokens: tuple[str, ...] | None = None
    text: str | None = None
    offsets: Offsets | None = None
    members: Tensor | None = None
    left_out: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its features: (H, W), or (m,) for a list of them."""
        return tuple(self.tensor.shape[1:]) if self.tokens is None else (len(self.tokens),)

    def per_feature(self, raw: Tensor) -> Tensor:
        """Values of all elements as values of features: ``[..., C, H, W]`` to ``[..., H, W]``, the mean over channels;
        ``[..., C, L]`` to ``[..., m]``, the sum over the embedding and the tokens of a feature.
        """
        if self.tokens is None:
            return raw.mean(-3)
        summed = raw.sum(-2)
        if self.members is None:
            return summed
        own = self.members >= 0
        values = summed.new_zeros(*summed.shape[:-1], len(self.tokens))
        return values.index_add_(-1, self.members[own], summed[..., own])

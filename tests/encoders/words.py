"""Small networks of words, for tests of text encoders."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.tiny import bert_tokenizer

WORDS = ("<pad>", "<start>", "a", "cat", "dog", "photo", "of", "the", "red", "big")


def tokenize(text: str) -> list[int]:
    """A start token, then one token for each known word."""
    return [1] + [WORDS.index(word) for word in text.split() if word in WORDS]


class Words(nn.Module):
    """The mean over a text's tokens, through a small network; remembers the shapes it has seen."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.embedding = nn.Embedding.from_pretrained(torch.randn(len(WORDS), 6, generator=generator))
        self.register_buffer("matrix", torch.randn(6, 5, generator=generator))
        self.matrix: Tensor
        self.drop = nn.Dropout(0.5)
        self.shapes: list[tuple[int, ...]] = []

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        self.shapes.append(tuple(tokens["input_ids"].shape))
        mask = tokens["attention_mask"].unsqueeze(-1).to(self.matrix)
        mean = (self.embedding(tokens["input_ids"]) * mask).sum(1) / mask.sum(1)
        return torch.tanh(self.drop(mean) @ self.matrix)


class Pieces(Words):
    """The same network with a vocabulary for the real tokenizer."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.embedding = nn.Embedding.from_pretrained(torch.randn(len(bert_tokenizer()), 6, generator=generator))

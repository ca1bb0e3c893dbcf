"""Three ways to remove words, against their definitions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from cocoax import AttentionMask, Deletion, Explicand, MaskToken, TextEncoder
from cocoax.inputs import Names, Pictures
from cocoax.masking import REMOVALS, TokenRemoval, resolve
from tests.tiny import bert_tokenizer, bytes_tokenizer

# [CLS] big violin ##s [SEP]: two words
EXPLICAND = Explicand(torch.tensor([2, 7, 8, 9, 3]), Names(("big", "violins")), torch.tensor([-1, 0, 1, 1, -1]))
KEPT = torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])


def test_mask_token__stands_for_every_token_of_a_removed_word() -> None:
    found = MaskToken(4).remove(EXPLICAND, KEPT)
    assert [row.tolist() for row in found] == [[2, 7, 8, 9, 3], [2, 4, 8, 9, 3], [2, 7, 4, 4, 3], [2, 4, 4, 4, 3]]


def test_deletion__cuts_out() -> None:
    found = Deletion(0).remove(EXPLICAND, KEPT)
    assert [row.tolist() for row in found] == [[2, 7, 8, 9, 3], [2, 8, 9, 3], [2, 7, 3], [2, 3]]


def test_attention_mask__hides() -> None:
    found = AttentionMask(0).remove(EXPLICAND, KEPT)
    assert [row[0].tolist() for row in found] == [[2, 7, 8, 9, 3]] * 4
    assert [row[1].tolist() for row in found] == [[1, 1, 1, 1, 1], [1, 0, 1, 1, 1], [1, 1, 0, 0, 1], [1, 0, 0, 0, 1]]


@pytest.mark.parametrize("kind", [Deletion, AttentionMask])
def test_remove__nothing_left_is_one_padding_token(kind: Any) -> None:
    bare = Explicand(torch.tensor([7, 8]), Names(("a", "b")), torch.tensor([0, 1]))
    assert kind(5).remove(bare, torch.zeros(1, 2))[0].tolist() == [5]


def test_ready__tokens_come_from_the_encoder() -> None:
    encoder = TextEncoder(nn.Identity(), bert_tokenizer(), limit=9)
    kinds = [REMOVALS[name] for name in encoder.inputs.removals]
    tokens = {kind.called: kind().ready(encoder.inputs).token for kind in kinds if issubclass(kind, TokenRemoval)}
    assert tokens == {"mask": 4, "deletion": 0, "attention": 0}
    assert tuple(tokens) == encoder.inputs.removal_names
    assert MaskToken(7).ready(encoder.inputs).token == 7
    bare = TextEncoder(nn.Identity(), bytes_tokenizer(), limit=9, name="bare")
    with pytest.raises(ValueError, match=r"The tokenizer of 'bare' has no mask token.*cocoax\.MaskToken\(token_id\)"):
        MaskToken().ready(bare.inputs)


def test_resolve__is_not_for_pictures() -> None:
    with pytest.raises(ValueError, match=r"Deletion is for texts\. Pictures take cocoax\.Blur"):
        resolve(Deletion(), Pictures())

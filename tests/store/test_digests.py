"""Digests of content, and JSON that carries one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from cocoax.store import digest, file_digest, with_checksum, without_checksum
from tests.conftest import images


def test_digest__same_content_same_digest() -> None:
    tensor = images(1)[0]
    assert digest(tensor) == digest(tensor.clone())
    assert digest(tensor) == digest(tensor.clone().requires_grad_())
    assert digest(tensor) == digest(tensor.permute(1, 2, 0).contiguous().permute(2, 0, 1))
    assert digest(np.arange(6).reshape(2, 3)) == digest(np.arange(6).reshape(3, 2).copy().reshape(2, 3))
    assert digest("a", 1, None, 2.5) == digest("a", 1, None, 2.5)


def test_digest__everything_that_must_differ() -> None:
    zeros = torch.zeros(4)
    different: list[tuple[object, ...]] = [
        (zeros,),
        (zeros.view(2, 2),),
        (zeros.view(4, 1),),
        (zeros.double(),),
        (zeros.half(),),
        (zeros.bfloat16(),),
        (zeros.int(),),
        (zeros.bool(),),
        (torch.zeros(5),),
        (torch.tensor([0.0, 0.0, 0.0, 1e-30]),),
        (torch.tensor([0.0, 0.0, 1e-30, 0.0]),),
        (torch.zeros(0),),
        (torch.zeros(0, 3),),
        (torch.zeros(()),),
        (zeros.numpy(),),
        (zeros.double().numpy(),),
        (zeros.view(2, 2).numpy(),),
        (zeros, zeros),
        (),
        ("1",),
        (1,),
        (1.0,),
        (True,),
        (None,),
        ("None",),
        (b"1",),
        ("a", "b"),
        ("ab",),
        ("a b",),
        ("b", "a"),
        ((1, 2),),
        (1, 2),
    ]
    found = [digest(*parts) for parts in different]
    assert len(set(found)) == len(different)


def test_file_digest__content_not_name(tmp_path: Path) -> None:
    for name, content in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        (tmp_path / name).write_bytes(content)
    assert file_digest(tmp_path / "a") == file_digest(tmp_path / "b") != file_digest(tmp_path / "c")
    assert file_digest(tmp_path / "a") == "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"


def test_digest__arrays_without_elements_and_in_any_order() -> None:
    assert digest(np.zeros((0, 3))) == digest(np.zeros((0, 3))) != digest(np.zeros((3, 0)))
    array = np.arange(6).reshape(2, 3)
    assert digest(array) == digest(np.asfortranarray(array)) == digest(array[::-1][::-1])


TEXT = json.dumps({"kind": "run", "name": "a cat’s", "number": 0.1})


def test_with_checksum__is_json_with_one_entry_more() -> None:
    text = with_checksum(TEXT, torch.zeros(3))
    assert {**json.loads(TEXT), "digest": digest(TEXT, torch.zeros(3))} == json.loads(text)
    assert without_checksum(text, torch.zeros(3)) == TEXT


def test_without_checksum__every_changed_character_is_noticed() -> None:
    text = with_checksum(TEXT, torch.zeros(3))
    for place in range(len(text)):
        damaged = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        with pytest.raises(ValueError, match=r"damaged|not what was written"):
            without_checksum(damaged, torch.zeros(3))
    with pytest.raises(ValueError, match="not what was written"):
        without_checksum(text, torch.tensor([0.0, 0.0, 1e-45]))

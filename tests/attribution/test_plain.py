"""Methods and removals as plain values, and back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.attribution.plain import from_plain, to_plain
from tests.conftest import images


def test_to_plain__and_back() -> None:
    image = images(1)[0]
    method = cocoax.IntegratedGradients(steps=3, baseline=cocoax.Fixed(image))
    tensors: dict[str, Tensor] = {}
    plain = json.loads(json.dumps(to_plain(method, tensors)))
    assert list(tensors) == [plain["baseline"]["image"]["key"]]
    known = {"IntegratedGradients": cocoax.IntegratedGradients, "Fixed": cocoax.Fixed}
    back = from_plain(plain, tensors, known)
    assert isinstance(back, cocoax.IntegratedGradients)
    assert back.steps == 3
    assert torch.equal(back.baseline.image, image)


def test_to_plain__without_room_for_tensors_tells_their_shape() -> None:
    assert to_plain(cocoax.Fixed(images(1)[0])) == {"type": "Fixed", "image": {"type": "Tensor", "shape": [3, 16, 16]}}


def test_to_plain__values() -> None:
    assert to_plain((1, "a", None, [2.5, True])) == [1, "a", None, [2.5, True]]
    assert to_plain(np.arange(2)) == {"type": "Tensor", "shape": [2]}
    assert to_plain(Path("a")) == "a"  # anything else is told as text


def test_from_plain__unknown_type() -> None:
    with pytest.raises(ValueError, match="written with 'Magic', which this version of Cocoax does not know"):
        from_plain({"type": "Magic"}, {}, {"Blur": cocoax.Blur})

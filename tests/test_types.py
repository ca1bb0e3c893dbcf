"""What type checkers know: one input gives one answer, many give a list."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import cocoax

ROOT = Path(cocoax.__file__).parents[2]
SNIPPET = """
from pathlib import Path
from typing import assert_type

import numpy as np
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax.methods import RemovalMethod
from cocoax.evaluation import Curve, curves


def explain(method: cocoax.Method, encoder: cocoax.Encoder, target: cocoax.Target, explicand: cocoax.Explicand) -> None:
    targets = [target, target]
    assert_type(method.explain(encoder, "cat.png", target), cocoax.Attribution)
    assert_type(method.explain(encoder, Path("cat.png"), target), cocoax.Attribution)
    assert_type(method.explain(encoder, Image.new("RGB", (9, 9)), target), cocoax.Attribution)
    assert_type(method.explain(encoder, np.zeros((9, 9)), target), cocoax.Attribution)
    assert_type(method.explain(encoder, explicand, target), cocoax.Attribution)
    assert_type(method.explain(encoder, [1.0, 2.0], target), cocoax.Attribution)
    assert_type(method.explain(encoder, (1, 2.0), target), cocoax.Attribution)
    assert_type(method.explain(encoder, (np.zeros(9), 8000), target), cocoax.Attribution)
    assert_type(method.explain(encoder, (8000, explicand.tensor), target), cocoax.Attribution)
    assert_type(method.explain(encoder, explicand, targets), list[cocoax.Attribution])
    assert_type(method.explain(encoder, ["cat.png", "dog.png"], target), list[cocoax.Attribution])
    assert_type(method.explain(encoder, [[1.0, 2.0], [3.0, 4.0]], target), list[cocoax.Attribution])
    assert_type(method.explain(encoder, [(np.zeros(9), 8000)], target), list[cocoax.Attribution])
    assert_type(method.explain(encoder, [explicand], targets), list[list[cocoax.Attribution]])
    assert_type(method.explain(encoder, (item for item in [explicand]), targets), list[list[cocoax.Attribution]])


def run(method: RemovalMethod, encoder: cocoax.Encoder, target: cocoax.Target, image: Tensor) -> None:
    assert_type(method.run(encoder, image), cocoax.Run)
    assert_type(method.run(encoder, "a text", [target]), cocoax.Run)
    assert_type(method.run(encoder, [1.0, 2.0]), cocoax.Run)
    assert_type(method.run(encoder, [image, image], target), list[cocoax.Run])
    assert_type(cocoax.Rise().run(encoder, image).explain(target), cocoax.Attribution)
    assert_type(cocoax.Rise().run(encoder, image).explain([target]), list[cocoax.Attribution])


def evaluate(encoder: cocoax.Encoder, image: Tensor, attribution: cocoax.Attribution, target: cocoax.Target) -> None:
    def measure(representations: Tensor) -> Tensor:
        return representations.sum(1)

    assert_type(cocoax.insertion(encoder, image, attribution, target), Curve)
    assert_type(cocoax.insertion(encoder, image, attribution, measure), Curve)
    assert_type(cocoax.insertion(encoder, image, attribution, [target, measure]), list[Curve])
    assert_type(cocoax.deletion(encoder, [1.0, 2.0], attribution.values, target), Curve)
    assert_type(cocoax.deletion(encoder, image, attribution, (target, target)), list[Curve])
    assert_type(curves(encoder, image, [attribution], target), list[dict[str, Curve]])
    assert_type(curves(encoder, image, [attribution], [target]), list[dict[str, list[Curve]]])


def make(module: nn.Module, target: cocoax.Target) -> None:
    assert_type(cocoax.Encoder(module), cocoax.Encoder)
    assert_type(cocoax.TabularEncoder(module, columns=["a"], head=module, name="rows"), cocoax.TabularEncoder)
    assert_type(cocoax.TextEncoder(module, lambda text: [1], limit=3).by("sentences"), cocoax.TextEncoder)
    assert_type(target + 0.5 * target - target, cocoax.Target)
"""


@pytest.mark.slow
def test_types__of_one_and_of_many(tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET)
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / ".mypy_cache"]
    checked = subprocess.run([*command, snippet], cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout

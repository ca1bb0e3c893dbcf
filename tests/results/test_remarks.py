"""Remarks: where each must appear, and where it must not."""

from __future__ import annotations

import pytest
import torch

from cocoax.results.remarks import about_caption, about_crop, about_noise, about_removal


@pytest.mark.parametrize(
    ("score", "left", "word"),
    [
        (0.081, 0.222, "no less than"),  # a blurred pug is more of a pug than the pug
        (0.3, 0.3, "no less than"),
        (0.3, 0.29, "still scores"),
        (-0.3, -0.29, "still scores"),
        (0.3, 0.1, ""),
        (0.3, -0.1, ""),
        (-0.3, 0.1, ""),  # the input lowers it, which is an answer
        (0.0, 0.2, ""),
        (0.3, float("nan"), ""),
    ],
)
def test_about_removal(score: float, left: float, word: str) -> None:
    sentence = about_removal(score, left, 1e-6, False)
    assert bool(sentence) == bool(word)
    assert word in sentence


def test_about_noise__says_how_much_is_within_it() -> None:
    effects = torch.tensor([1.0, 0.1, -0.1, 0.0])
    sentence = about_noise(effects, torch.full((4,), 0.3))
    assert "75% of it is within noise" in sentence
    assert about_noise(effects, torch.full((4,), 0.05)) == about_noise(effects, None) == ""


@pytest.mark.parametrize(("box", "said"), [((0.0, 0.0, 1.0, 1.0), False), ((0.2, 0.0, 0.8, 1.0), True)])
def test_about_crop(box: tuple[float, float, float, float], said: bool) -> None:
    assert ("60%" in about_crop(box)) == said


def test_about_caption__random_letters_are_a_measure() -> None:
    letters = torch.linspace(-0.1, 0.1, 40)
    assert "random letters" in about_caption("asdfghjkl qwerty", 0.01, letters)
    assert about_caption("a dog", 0.2, letters) == about_caption("a dog", 0.2, torch.zeros(0)) == ""

"""Windows: they fit, cover a text and overlap by half; matches say which one they are about."""

from __future__ import annotations

import re
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import cocoax
from cocoax import TextEncoder
from cocoax.cautions import Caution, forget_cautions
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.questions.windows import pieces_of, represent, tower_of, windows_of
from tests.kinds import Recordings, recording_encoder, recordings
from tests.tiny import save_bert
from tests.towers import picture, two_towers

LONG = " ".join(["the violinist parked her car."] * 12)
METHOD = cocoax.Rise(samples=40)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    return load_hf_text(str(save_bert(tmp_path_factory.mktemp("tiny"))))


@pytest.mark.parametrize("text", [LONG, "violinist " * 40, "word " * 9 + "abcdefghijklmnopqrstuvwxyz " * 4])
def test_windows_of__fit_cover_and_overlap(text: str, encoder: TextEncoder) -> None:
    windows = windows_of(encoder, text)
    assert len(windows) > 1
    assert [(window.number, window.count) for window in windows] == [(n + 1, len(windows)) for n in range(len(windows))]
    for window in windows:
        assert len(encoder.inputs.tokenize(text[window.begin : window.end])) <= encoder.inputs.limit
    assert windows[0].begin == 0
    assert windows[-1].end == len(text.rstrip())
    for first, second in pairwise(windows):
        assert first.begin < second.begin <= first.end + 1  # nothing but a space lies between
        assert first.end < second.end
    half = (windows[0].end - windows[0].begin) / 2
    if text == LONG:
        assert abs(windows[1].begin - half) < 0.2 * half


def test_windows_of__none_where_it_fits_or_is_cut(encoder: TextEncoder) -> None:
    assert windows_of(encoder, "a cat") == []
    cutting = encoder.by("words")
    cutting.inputs.too_long = "cut"
    assert windows_of(cutting, LONG) == []


def test_explain_match__long_texts_on_both_sides(encoder: TextEncoder) -> None:
    words = ["the", "violinist", "parked", "her", "car", "behind", "house", "a", "cat", "dog", "red", "big", "."]
    random = np.random.default_rng(0)
    query, document = (" ".join(random.choice(words, 60)) for _ in range(2))
    match = cocoax.explain_match(encoder, query, document, LONG, method=METHOD)
    own, its = (
        encoder.represent([text[window.begin : window.end] for window in windows_of(encoder, text)])
        for text in (query, document)
    )
    scores = torch.nn.functional.cosine_similarity(own[:, None], its[None], dim=2)
    best = divmod(int(scores.argmax()), len(its))
    sides = match.query_side, match.document_side
    for side, text, number in zip(sides, (query, document), best, strict=True):
        assert side.window is not None
        assert side.window.number == number + 1
        assert side.attribution.text == text
        assert str(side.window) in str(side)
        for (begin, end), name in zip(side.attribution.offsets or (), side.attribution.names or (), strict=True):
            assert text[begin:end] == name
            assert side.window.begin <= begin < end <= side.window.end
    assert match.similarity == pytest.approx(float(scores.max()), abs=1e-5)
    assert match.html().count('<p class="cocoax-text"') == 2
    assert match.to_dict()["document"]["window"]["number"] == best[1] + 1


def test_explain_match__a_text_that_fits_has_no_window(encoder: TextEncoder) -> None:
    match = cocoax.explain_match(encoder, "a cat", "a dog", method=METHOD)
    assert match.query_side.window is None
    assert match.to_dict()["query"]["window"] is None


class Named(Recordings):
    """Recordings that are read from strings: how many steps, or a file of it."""

    def is_one(self, inputs: object) -> bool:
        return isinstance(inputs, str) or super().is_one(inputs)

    def prepare(self, item: Any) -> Tensor:
        if isinstance(item, str):
            return recordings(1, seed=int(Path(item).read_text() if Path(item).exists() else item))[0]
        return super().prepare(item)


def test_tower_of__strings_that_are_inputs_themselves(tmp_path: Path) -> None:
    encoder = recording_encoder(Named())
    (tmp_path / "a.txt").write_text("3")
    for item in ("3", str(tmp_path / "a.txt")):
        assert tower_of(encoder, item) is encoder
    with pytest.raises(ValueError, match="has no text tower"):
        tower_of(encoder, "a cat")


def test_tower_of__a_string_that_names_a_file_is_a_text_and_that_is_said_once(
    encoder: TextEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    picture(1).save("cat.png")
    towers = two_towers()
    said = "'cat.png' is a file, but strings are texts here; pass pathlib.Path('cat.png') to explain the image."
    with pytest.warns(Caution, match=re.escape(said)):
        assert tower_of(towers, "cat.png") is towers.text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tower_of(towers, "cat.png") is towers.text
        forget_cautions()
        for item in ("dog.png", ".", "a cat " * 10_000, "a \0"):
            assert tower_of(towers, item) is towers.text
        assert tower_of(towers, Path("cat.png")) is towers
        assert tower_of(encoder, "cat.png") is encoder


def test_represent__what_is_explained_of_pictures_of_any_shape() -> None:
    encoder = two_towers().whole()
    photos = [picture(seed).resize(size) for seed, size in enumerate([(60, 20), (20, 60), (30, 30)])]
    found = represent([piece for photo in photos for piece in pieces_of(encoder, photo)])
    alone = torch.cat([encoder.encode([encoder.explicand(photo).tensor]) for photo in photos])
    torch.testing.assert_close(found, alone, rtol=0, atol=1e-5)
    (piece,) = pieces_of(encoder, "a cat")
    assert piece.seen == "a cat"

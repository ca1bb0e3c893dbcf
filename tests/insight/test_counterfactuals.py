"""Counterfactuals: verified by the encoder, as small as by brute force, within constraints; on every kind of input."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import cocoax
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.insight.counterfactuals import _ExchangeSearch, _PictureExchange
from tests.conftest import images
from tests.insight.games import COLUMNS, pictures, segmented, subsets, table
from tests.kinds import recording_encoder, recordings
from tests.tiny import save_bert


def test_pictures__flip_with_as_few_cells_as_any_exchange_of_this_arrangement() -> None:
    encoder, picture, other, target = pictures()
    found = cocoax.counterfactual(encoder, picture, target, distractors=[other], grid=3)
    flip = found[0]
    assert found.score > 0 > flip.score
    made = flip.exchange.made(flip.choice[None])[0]
    assert float(target.score(encoder.represent([made]))[0]) == pytest.approx(flip.score, abs=1e-6)
    # No smaller set of cells does it with the same offers.
    every = np.where(flip.choice > 0, flip.choice, 1)
    for size in range(1, len(flip)):
        sets = subsets(9, size) * every
        sets = sets[(flip.exchange.offered[np.arange(9), np.maximum(sets - 1, 0)] | (sets == 0)).all(1)]
        assert (target.score(encoder.represent(flip.exchange.made(sets))) >= 0).all()


def test_pictures__cells_come_from_where_it_says() -> None:
    encoder, picture, other, target = pictures()
    flip = cocoax.counterfactual(encoder, picture, target, distractors=[other], grid=4)[0]
    made = flip.exchange.made(flip.choice[None])[0]
    changed = torch.zeros(16, 16, dtype=torch.bool)
    for change in flip.changes:
        names = flip.exchange.names
        row, column = divmod(names.index(change.part), 4)
        top, left = (4 * at for at in divmod(names.index(change.after.removesuffix(" of distractor 1")), 4))
        block = made[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
        assert torch.equal(block, other[:, top : top + 4, left : left + 4])
        changed[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = True
    assert torch.equal(made[:, ~changed], picture[:, ~changed])
    assert isinstance(flip.result, Image.Image)


def test_pictures__segments_take_the_distractors_pixels(tmp_path: Path) -> None:
    encoder, picture, other, target = pictures()
    explicand = segmented(encoder, picture)
    labels = explicand.feature_ids
    assert labels is not None
    found = cocoax.counterfactual(encoder, explicand, target, distractors=[other], grid=8)
    flip = found[0]
    made = flip.exchange.made(flip.choice[None])[0]
    assert float(target.score(encoder.represent([made]))[0]) == pytest.approx(flip.score, abs=1e-6)
    assert flip.score < 0
    shifts = [source.shift for source in flip.exchange.sources]  # type: ignore[attr-defined]
    assert shifts[0] == (0, 0)
    for part, choice in enumerate(flip.choice.tolist()):
        own, (down, right) = labels == part, shifts[choice - 1] if choice else (0, 0)
        for row, column in own.nonzero().tolist():  # shifts are whole cells of two pixels
            there = other[:, row + 2 * down, column + 2 * right] if choice else picture[:, row, column]
            assert torch.equal(made[:, row, column], there)
    assert torch.equal(made[:, labels < 0], picture[:, labels < 0])
    assert "segments" in found.summary
    assert flip.changes[0].part == "bottom part"
    assert found.save(tmp_path / "flip.png").stat().st_size > 5000


def test_pictures__segments_that_touch_are_one_finding() -> None:
    encoder, picture, other, _ = pictures()
    explicand = segmented(encoder, picture)
    importance = lambda each: torch.zeros(64 if each.feature_ids is None else 7)  # noqa: E731
    exchange = _PictureExchange(encoder.inputs, explicand, [encoder.explicand(other)], importance, grid=(8, 8))
    count = len(exchange.names)
    labels = explicand.feature_ids
    assert labels is not None
    for choice in subsets(count, 2).astype(int):
        one, two = np.flatnonzero(choice)
        pairs = torch.stack([labels.flatten()[:-1], labels.flatten()[1:]], 1)[torch.arange(255) % 16 != 15].tolist()
        pairs += torch.stack([labels[:-1].flatten(), labels[1:].flatten()], 1).tolist()
        touch = [one, two] in pairs or [two, one] in pairs
        assert len(exchange.findings(choice)) == (1 if touch else 2)
    everything = exchange.findings(np.ones(count, int))
    assert everything == [f"{' + '.join(exchange.names)}: its own → the same place of distractor 1"]


def test_rows__groups_of_columns_come_from_a_distractor() -> None:
    encoder, row, others, target = table()
    groups = {"first": COLUMNS[:3], "second": COLUMNS[3:5]}
    explicand = encoder.explicand(row, groups)
    found = cocoax.counterfactual(encoder, explicand, target, distractors=others)
    members = [range(3), range(3, 5), [5], [6], [7]]
    flip = found[0]
    assert flip.score < 0
    distractors = np.stack([distractor.tensor[0].numpy() for distractor in flip.exchange.distractors])  # type: ignore[attr-defined]
    for group, choice in zip(members, flip.choice.tolist(), strict=True):
        own = row if choice == 0 else distractors[choice - 1]
        np.testing.assert_allclose(found.result[0, list(group)].numpy(), own[list(group)], rtol=1e-6)
    assert {change.part for change in found.changes} <= {"first", "second", *COLUMNS[5:]}


def test_texts__sentences_are_deleted_or_replaced(tmp_path: Path) -> None:
    encoder = load_hf_text(str(save_bert(tmp_path / "bert"))).by("sentences")
    text, other = "The big red car. A house behind. The cat parked.", "A violin. The big house."
    target = cocoax.contrastive_corpus_similarity(encoder.reference([text]), encoder.reference([other]))
    found = cocoax.counterfactual(encoder, text, target, distractors=[other])
    sentences = {"The big red car.", "A house behind.", "The cat parked."}
    assert {change.before for change in found.changes} <= sentences
    assert {change.after for change in found.changes} <= {"(deleted)", "A violin.", "The big house."}
    assert float(target.score(encoder.represent([found.result]))[0]) == pytest.approx(found[0].score, abs=1e-5)


def test_flips__need_each_of_their_parts_or_say_that_this_was_not_tried() -> None:
    encoder, picture, other, target = pictures()
    found = cocoax.counterfactual(encoder, picture, target, distractors=[other], grid=4)
    assert found[0].irreducible
    assert "not minimal" not in str(found)
    for part in np.flatnonzero(found[0].choice):
        lacking = found[0].choice.copy()
        lacking[part] = 0
        assert float(target.score(encoder.represent(found[0].exchange.made(lacking[None])))[0]) >= 0
    untried = cocoax.counterfactual(encoder, picture, target, distractors=[other], grid=4, calls=1)
    assert untried[0].irreducible or "found, not minimal" in str(untried)


def test_pictures__different_ones() -> None:
    encoder, picture, other, target = pictures()
    found = cocoax.counterfactual(encoder, picture, target, distractors=[other, images(1, seed=8)[0]], grid=4, count=3)
    sets = [frozenset(np.flatnonzero(flip.choice).tolist()) for flip in found.flips]
    assert len(set(sets)) == len(sets) >= 2
    assert not any(one < later for one in sets for later in sets)
    assert len(found.to_dict()["counterfactuals"][0]["changes"]) == len(found.changes)
    assert len(found.table().rows) == sum(map(len, found))
    assert repr(found).startswith("Counterfactual('this rather than that'")


def test_flips__the_smallest_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, picture, other, target = pictures()
    (flip,) = cocoax.counterfactual(encoder, picture, target, distractors=[other], grid=4).flips
    longer = replace(flip, changes=flip.changes * 2)
    given = iter([longer, flip])
    monkeypatch.setattr(_ExchangeSearch, "smallest", lambda *_: next(given))
    found = cocoax.counterfactual(encoder, picture, target, distractors=[other], grid=4, count=2)
    assert found.flips == (flip, longer)
    assert found.changes == flip.changes


def test_rows__change_little_and_within_the_data() -> None:
    encoder, row, others, target = table()
    found = cocoax.counterfactual(encoder, row, target, distractors=others)
    new = found.result
    changed = np.flatnonzero(new != row)
    assert [change.part for change in found.changes] == [COLUMNS[column] for column in changed]
    assert float(target.score(encoder.represent([new]))[0]) == pytest.approx(found[0].score, abs=1e-5)
    assert found[0].score < 0
    low, high = others.min(0), others.max(0)
    ends = np.sort(np.c_[row, row, low, high], axis=1)
    assert ((new >= ends[:, 0]) & (new <= ends[:, 3])).all()
    # A twentieth of the way back towards the row in all of them, and it no longer flips.
    back = new + 0.05 * (row - new)
    assert float(target.score(encoder.represent([back]))[0]) > 0


def test_rows__as_few_columns_as_brute_force_over_the_same_values() -> None:
    encoder, row, others, target = table()
    found = cocoax.counterfactual(encoder, row, target, distractors=others)
    values = np.linspace(others.min(0), others.max(0), 8)
    best = 9
    for size in range(1, len(found.changes)):
        for columns in combinations(range(8), size):
            grid = np.array(np.meshgrid(*(values[:, column] for column in columns))).reshape(size, -1).T
            rows = np.repeat(row[None], len(grid), 0)
            rows[:, columns] = grid
            if (target.score(encoder.represent(rows)) < 0).any():
                best = min(best, size)
    assert len(found.changes) <= best


def test_rows__fixed_integer_and_categorical_columns() -> None:
    encoder, row, others, target = table()
    whole = others.copy()
    whole[:, 2] = np.where(whole[:, 2] < -1, -2.0, -0.5)
    free = cocoax.counterfactual(encoder, row, target, distractors=whole)
    first = free.changes[0].part
    kept = cocoax.counterfactual(
        encoder, row, target, distractors=whole, fixed=[first], integer=["c1", "c4"], categorical="c2", count=2
    )
    for flip in kept.flips:
        assert first not in [change.part for change in flip.changes]
        assert flip.result[2] in (row[2], -2.0, -0.5)
        for column in (1, 4):
            assert flip.result[column] in (row[column], round(flip.result[column]))


def test_rows__preprocessed_and_without_distractors() -> None:
    encoder, row, others, target = table()
    assert cocoax.counterfactual(encoder, row, target)[0].score < 0  # within the background
    scaled = cocoax.TabularEncoder(encoder.module, columns=COLUMNS, preprocess=lambda each: each / 10, name="tenths")
    corpus, foil = scaled.reference([10 * row]), scaled.reference(10 * others)
    target = cocoax.contrastive_corpus_similarity(corpus, foil)
    found = cocoax.counterfactual(scaled, 10 * row, target, distractors=10 * others)
    assert abs(found.result).max() > 4  # as it was given, not as it is prepared
    with pytest.raises(ValueError, match="Which values may columns take"):
        cocoax.counterfactual(scaled, 10 * row, cocoax.contrastive_corpus_similarity(corpus, foil))


@pytest.fixture
def words(tmp_path: Path) -> tuple[Any, str, str, cocoax.Target]:
    encoder = load_hf_text(str(save_bert(tmp_path / "bert")))
    text, other = "the big red car behind a house", "the cat parked a violin"
    target = cocoax.contrastive_corpus_similarity(encoder.reference([text]), encoder.reference([other]))
    return encoder, text, other, target


def test_texts__words_deleted_or_replaced(words: tuple[Any, str, str, cocoax.Target]) -> None:
    encoder, text, other, target = words
    found = cocoax.counterfactual(encoder, text, target, distractors=[other])
    assert float(target.score(encoder.represent([found.result]))[0]) == pytest.approx(found[0].score, abs=1e-5)
    assert found[0].score < 0
    new = set(found.result.split()) - set(text.split())
    assert new <= set(other.split())
    for change in found.changes:
        assert change.before in text.split()
        assert change.after == "(deleted)" or change.after in other.split()
    assert "→" in str(found)


def test_texts__fewest_of_all_deletions(words: tuple[Any, str, str, cocoax.Target]) -> None:
    encoder, text, _, target = words
    names = text.split()
    flips = {
        size: any(
            float(target.score(encoder.represent([" ".join(kept)]))[0]) < 0 for kept in combinations(names, len(names) - size)
        )
        for size in range(1, len(names))
    }
    least = next((size for size, flipped in flips.items() if flipped), None)
    if least is None:
        with pytest.raises(ValueError, match="No exchange flips"):
            cocoax.counterfactual(encoder, text, target)
    else:
        found = cocoax.counterfactual(encoder, text, target)
        assert len(found.changes) == least
        assert {change.after for change in found.changes} == {"(deleted)"}


def test_texts__fixed_words_stay(words: tuple[Any, str, str, cocoax.Target]) -> None:
    encoder, text, other, target = words
    first = cocoax.counterfactual(encoder, text, target, distractors=[other]).changes[0].before
    found = cocoax.counterfactual(encoder, text, target, distractors=[other], fixed=[first])
    assert first not in [change.before for change in found.changes]
    with pytest.raises(ValueError, match="There is no part 'tree' to be fixed; there are the, big, red"):
        cocoax.counterfactual(encoder, text, target, distractors=[other], fixed="tree")


def test_a_kind_of_ones_own() -> None:
    encoder = recording_encoder()
    own, other = recordings(2)
    target = cocoax.contrastive_corpus_similarity(encoder.reference([own]), encoder.reference([other]))
    found = cocoax.counterfactual(encoder, own, target, distractors=[other])
    assert found[0].score < 0
    assert float(target.score(encoder.encode([found.result]))[0]) == pytest.approx(found[0].score, abs=1e-6)
    assert found.changes[0].after == "that of distractor 1"
    assert found.plot() is not None
    with pytest.raises(ValueError, match=r"Distractor 0: It has shape \[3, 6\] but the input \[3, 10\]"):
        cocoax.counterfactual(encoder, own, target, distractors=[other[:, :6].repeat(1, 1)])


def test_nothing_to_flip() -> None:
    encoder, picture, other, target = pictures()
    with pytest.raises(ValueError, match=r"so there is nothing to flip: it is not above 0. Ask the opposite \(-target\)"):
        cocoax.counterfactual(encoder, other, target, distractors=[picture])


def test_distractors__of_another_kind_or_size() -> None:
    encoder, picture, other, target = pictures()
    with pytest.raises(TypeError, match="Distractor 1: An input must be a path"):
        cocoax.counterfactual(encoder, picture, target, distractors=[other, 3.5])
    with pytest.raises(FileNotFoundError, match="Distractor 0: No file at a cat"):
        cocoax.counterfactual(encoder, picture, target, distractors=["a cat"])
    with pytest.raises(ValueError, match=r"Distractor 0: It has shape \[3, 8, 8\] but the input \[3, 16, 16\]"):
        cocoax.counterfactual(encoder, picture, target, distractors=[other[:, :8, :8].clone()])
    rows, row, _, asked = table()
    with pytest.raises(ValueError, match="Distractor 0: A row of 'table' has 8 columns"):
        cocoax.counterfactual(rows, row, asked, distractors=[[1.0, 2.0]])


def test_constraints__that_cannot_be_met() -> None:
    encoder, row, others, target = table()
    with pytest.raises(ValueError, match="No column may change: all are fixed"):
        cocoax.counterfactual(encoder, row, target, distractors=others, fixed=COLUMNS)
    with pytest.raises(ValueError, match=r"No exchange flips the score .* the lowest is \+"):
        cocoax.counterfactual(encoder, row, target, distractors=[row, row + 0.01])
    assert float(target.score(encoder.represent(others)).min()) < 0
    with pytest.raises(ValueError, match=r"No exchange flips the score .* the lowest is \+"):  # not what distractors score
        cocoax.counterfactual(encoder, row, target, distractors=others, fixed=COLUMNS[:7])
    with pytest.raises(ValueError, match="There is no column 'age'; there are c0, c1"):
        cocoax.counterfactual(encoder, row, target, distractors=others, integer=["age"])
    with pytest.raises(TypeError, match=r"take fixed, integer, categorical. Got 'grid' instead"):
        cocoax.counterfactual(encoder, row, target, distractors=others, grid=4)


def test_pictures__without_distractors() -> None:
    encoder, picture, _, target = pictures()
    with pytest.raises(ValueError, match="pass distractors="):
        cocoax.counterfactual(encoder, picture, target)

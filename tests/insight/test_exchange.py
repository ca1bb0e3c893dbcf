"""Exchanges: what a choice makes of an input, checked element by element."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

from cocoax.inputs import Explicand, Inputs, Names, Pictures, Rows, Sounds, Texts
from cocoax.inputs.text import Text
from cocoax.insight.counterfactuals import (
    Change,
    Exchange,
    FeatureExchange,
    _best_shifts,
    _ColumnExchange,
    _PictureExchange,
    _WordExchange,
    exchange_type,
)
from tests.kinds import Recordings

KIND = Recordings()


def test_kinds__have_their_exchange_or_that_of_features() -> None:
    kinds: dict[type[Inputs], type[Exchange]] = {
        Pictures: _PictureExchange,
        Texts: _WordExchange,
        Rows: _ColumnExchange,
        Sounds: FeatureExchange,
        Recordings: FeatureExchange,
    }
    for kind, exchange in kinds.items():
        assert exchange_type(kind.__new__(kind)) is exchange

    class Own(Recordings):
        pass

    class OwnExchange(FeatureExchange):
        pass

    exchange_type.register(Own, lambda kind, explicand=None: OwnExchange)
    assert exchange_type(Own()) is OwnExchange
    assert exchange_type(Recordings()) is FeatureExchange


def unimportant(explicand: Explicand) -> Tensor:
    return torch.zeros(9)


def test_features__take_the_distractors_elements() -> None:
    members = torch.tensor([-1, 0, 0, 1])
    own, one, two = (Explicand(torch.full((4,), value), Names(("a", "b")), members) for value in (1.0, 2.0, 3.0))
    exchange = FeatureExchange(KIND, own, [one, two], unimportant)
    made = exchange.made(np.array([[0, 0], [1, 0], [0, 2], [2, 1]]))
    assert [each.tolist() for each in made] == [[1, 1, 1, 1], [1, 2, 2, 1], [1, 1, 1, 3], [1, 3, 3, 2]]
    assert exchange.changes(np.array([0, 2])) == [Change("b", "its own", "that of distractor 2")]
    assert [choice.tolist() for choice in exchange.same_offer_choices()] == [[1, 1], [2, 2]]
    assert FeatureExchange(KIND, own, [one], unimportant, fixed="a").offered.tolist() == [[False], [True]]
    with pytest.raises(ValueError, match="no part 'c'"):
        FeatureExchange(KIND, own, [one], unimportant, fixed=["c"])


def test_shifts__are_those_that_promise_most() -> None:
    generator = torch.Generator().manual_seed(2)
    own, theirs = torch.randn(3, 4, generator=generator), torch.randn(3, 4, generator=generator)

    def promise(down: int, right: int) -> float:
        return sum(
            max(0.0, float(own[row, column])) * max(0.0, -float(theirs[row + down, column + right]))
            for row, column in product(range(3), range(4))
            if 0 <= row + down < 3 and 0 <= column + right < 4
        )

    shifts = [shift for shift in product(range(-2, 3), range(-3, 4)) if shift != (0, 0)]
    slow = sorted(shifts, key=lambda shift: -promise(*shift))[:2]
    assert _best_shifts(own, theirs) == [(0, 0), *slow]


def test_cells__of_a_grid_that_does_not_divide_the_side() -> None:
    own, other = Explicand(torch.zeros(3, 7, 7)), Explicand(torch.arange(49.0).view(1, 7, 7).repeat(3, 1, 1))
    importance = {id(own): torch.ones(9), id(other): -torch.ones(9)}
    exchange = _PictureExchange(KIND, own, [other], lambda each: importance[id(each)], grid=(3, 3))
    for number in range(1, exchange.offered.shape[1] + 1):
        choice = np.where(exchange.offered[:, number - 1], number, 0)
        made = exchange.made(choice[None])[0]
        assert made.shape == (3, 7, 7)
        assert len(exchange.changes(choice)) == int((choice > 0).sum())
    same = exchange.made(np.ones((1, 9), int))[0]
    assert torch.equal(same, other.tensor)
    assert exchange.outcome(np.ones(9, int)).size == (7, 7)


def words(distractors: list[Text], values: list[list[float]], fixed: tuple[str, ...] = ()) -> _WordExchange:
    def explicand(text: Text) -> Explicand:
        return Explicand(torch.arange(len(text.offsets)), text, torch.arange(len(text.offsets)))

    own = Text("a red car!", ((0, 1), (2, 5), (6, 9), (9, 10)))
    given = dict(zip([distractor.text for distractor in distractors], values, strict=True))
    return _WordExchange(
        cast(Texts, SimpleNamespace(prepare=lambda text: torch.tensor([len(text)]))),
        explicand(own),
        [explicand(distractor) for distractor in distractors],
        lambda each: torch.tensor(given[str(each.text)]),
        fixed=fixed,
    )


def test_words__deleted_and_replaced_by_those_that_lower_most() -> None:
    distractor = Text("big cat", ((0, 3), (4, 7)))
    exchange = words([distractor], [[-0.1, -0.5]])
    assert exchange.words == ["", "cat", "big"]
    assert exchange.outcome(np.array([0, 2, 1, 0])) == "a cat !"
    assert exchange.changes(np.array([0, 2, 1, 0])) == [Change("word 2", "red", "cat"), Change("word 3", "car", "(deleted)")]
    assert exchange.possible(np.array([[1, 1, 1, 1], [1, 1, 1, 0]])).tolist() == [False, True]
    assert exchange.made(np.array([[0, 0, 0, 0]]))[0].item() == len("a red car!")
    assert words([distractor], [[0.1, 0.5]]).words == [""]
    assert not words([distractor], [[-0.1, -0.5]], ("red",)).offered[1].any()
    assert not words([Text("car", ((0, 3),))], [[-1.0]]).offered[2, 1]  # a word in its own place


def test_words__token_ids_are_no_text() -> None:
    words_of_ids = Explicand(torch.arange(2), Names(("a", "b")), torch.arange(2))
    with pytest.raises(ValueError, match="not token ids"):
        _WordExchange(Texts.__new__(Texts), words_of_ids, [], unimportant)


def columns(own: list[float], data: list[list[float]], **options: list[str]) -> _ColumnExchange:
    rows = Rows(["a", "b", "c"][: len(own)])
    return _ColumnExchange(rows, rows.explicand(own), [rows.explicand(row) for row in data], unimportant, **options)


def test_columns__values_of_each_kind() -> None:
    data = [[0.0, 1.0, 5.0], [7.0, 4.0, 9.0], [3.5, 2.0, 5.0]]
    exchange = columns([1.0, 2.0, 5.0], data, integer=["b"], categorical=["c"])
    offers = [own[~np.isnan(own)].tolist() for own in exchange.values]
    assert offers[0] == [0.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]  # eight from 0 to 7, without its own
    assert offers[1] == [1.0, 3.0, 4.0]
    assert offers[2] == [9.0]
    assert exchange.outcome(np.array([7, 0, 1])).tolist() == [7.0, 2.0, 9.0]


def test_columns__whole_numbers_stay_within_the_data() -> None:
    data = [[0.2, 1.2], [3.9, 1.8]]  # there is no whole number between 1.2 and 1.8
    exchange = columns([0.5, 1.5], data, integer=["a", "b"])
    offers = [own[~np.isnan(own)].tolist() for own in exchange.values]
    assert offers == [[1.0, 2.0, 3.0], []]


@pytest.mark.parametrize(("own", "far", "least"), [(0.5, 1.0, 1.0), (0.5, 3.0, 1.0), (2.5, 2.0, 2.0), (2.5, 0.0, 2.0)])
def test_columns__closer_of_a_row_that_holds_no_whole_number(own: float, far: float, least: float) -> None:
    exchange = columns([own], [[0.0], [3.0]], integer=["a"])
    choice = np.array([exchange.values[0].tolist().index(far) + 1])
    tried: list[float] = []

    def flips(made: Sequence[Tensor]) -> np.ndarray:
        tried.extend(float(row[0, 0]) for row in made)
        return np.ones(len(made), bool)

    assert exchange.closer(choice, flips).outcome(choice).tolist() == [least]
    assert all(min(own, far) < value < max(own, far) for value in tried)


def test_columns__closer_is_as_close_as_is_enough() -> None:
    exchange = columns([1.0, 1.0], [[0.0, 0.0], [10.0, 10.0]], integer=["b"])
    choice = np.array([np.nanargmax(exchange.values[0]) + 1, np.nanargmax(exchange.values[1]) + 1])

    def flips(made: Sequence[Tensor]) -> np.ndarray:
        return np.array([bool(row[0, 0] > 4.2 and row[0, 1] > 6.5) for row in made])

    closer = exchange.closer(choice, flips)
    new = closer.outcome(choice)
    assert 4.2 < new[0] < 4.21
    assert new[1] == 7
    assert exchange.outcome(choice).tolist() == [10.0, 10.0]  # the first one is as it was

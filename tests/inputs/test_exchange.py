"""Exchanges: what a choice makes of an input, checked element by element."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from cocoax.inputs import Explicand, Names
from cocoax.inputs.exchange import Change, FeatureExchange, check_shape, without
from cocoax.inputs.exchange_pictures import CellExchange, best_shifts
from cocoax.inputs.exchange_rows import ColumnExchange
from cocoax.inputs.exchange_texts import WordExchange
from cocoax.inputs.text import Text


def test_features__take_the_donors_elements() -> None:
    members = torch.tensor([-1, 0, 0, 1])
    own, one, two = (Explicand(torch.full((4,), value), Names(("a", "b")), members) for value in (1.0, 2.0, 3.0))
    exchange = FeatureExchange(own, [one, two])
    made = exchange.made(np.array([[0, 0], [1, 0], [0, 2], [2, 1]]))
    assert [each.tolist() for each in made] == [[1, 1, 1, 1], [1, 2, 2, 1], [1, 1, 1, 3], [1, 3, 3, 2]]
    assert exchange.changes(np.array([0, 2])) == [Change("b", "its own", "that of donor 2")]
    assert [choice.tolist() for choice in exchange.arrangements()] == [[1, 1], [2, 2]]
    assert FeatureExchange(own, [one], fixed="a").offered.tolist() == [[False], [True]]
    with pytest.raises(ValueError, match=r"It has shape \[3\] but the explicand \[4\]"):
        check_shape(own, Explicand(torch.ones(3), Names(("a", "b")), members[1:]))


def test_without__a_part_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="There is no part 'c' to be fixed; there are a, b"):
        without(("a", "b"), ["c"], np.ones((2, 1), bool))


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
    assert best_shifts(own, theirs) == [(0, 0), *slow]


def test_cells__of_a_grid_that_does_not_divide_the_side() -> None:
    own, other = Explicand(torch.zeros(3, 7, 7)), Explicand(torch.arange(49.0).view(1, 7, 7).repeat(3, 1, 1))
    importance = {id(own): torch.ones(9), id(other): -torch.ones(9)}
    exchange = CellExchange(own, [other], lambda each: importance[id(each)], (3, 3))
    for number in range(1, exchange.offered.shape[1] + 1):
        choice = np.where(exchange.offered[:, number - 1], number, 0)
        made = exchange.made(choice[None])[0]
        assert made.shape == (3, 7, 7)
        assert len(exchange.changes(choice)) == int((choice > 0).sum())
    same = exchange.made(np.ones((1, 9), int))[0]
    assert torch.equal(same, other.tensor)
    assert exchange.outcome(np.ones(9, int)).size == (7, 7)


def words(donors: list[Text], values: list[list[float]], fixed: tuple[str, ...] = ()) -> WordExchange:
    def explicand(text: Text) -> Explicand:
        return Explicand(torch.arange(len(text.offsets)), text, torch.arange(len(text.offsets)))

    own = Text("a red car!", ((0, 1), (2, 5), (6, 9), (9, 10)))
    given = dict(zip([donor.text for donor in donors], values, strict=True))
    return WordExchange(
        explicand(own),
        [explicand(donor) for donor in donors],
        lambda each: torch.tensor(given[str(each.text)]),
        lambda text: torch.tensor([len(text)]),
        fixed,
    )


def test_words__deleted_and_replaced_by_those_that_lower_most() -> None:
    donor = Text("big cat", ((0, 3), (4, 7)))
    exchange = words([donor], [[-0.1, -0.5]])
    assert exchange.words == ["", "cat", "big"]
    assert exchange.outcome(np.array([0, 2, 1, 0])) == "a cat !"
    assert exchange.changes(np.array([0, 2, 1, 0])) == [Change("word 2", "red", "cat"), Change("word 3", "car", "(deleted)")]
    assert exchange.possible(np.array([[1, 1, 1, 1], [1, 1, 1, 0]])).tolist() == [False, True]
    assert exchange.made(np.array([[0, 0, 0, 0]]))[0].item() == len("a red car!")
    assert words([donor], [[0.1, 0.5]]).words == [""]
    assert not words([donor], [[-0.1, -0.5]], ("red",)).offered[1].any()
    assert not words([Text("car", ((0, 3),))], [[-1.0]]).offered[2, 1]  # a word in its own place


def test_words__token_ids_are_no_text() -> None:
    with pytest.raises(ValueError, match="must be a text, not token ids"):
        WordExchange(
            Explicand(torch.arange(2), Names(("a", "b")), torch.arange(2)), [], lambda _: torch.ones(2), torch.tensor
        )


def prepare(row: np.ndarray) -> Tensor:
    return torch.tensor(row)[None]


def test_columns__values_of_each_kind() -> None:
    data = np.array([[0.0, 1.0, 5.0], [7.0, 4.0, 9.0], [3.5, 2.0, 5.0]])
    limits = {"integer": ["b"], "categorical": ["c"]}
    exchange = ColumnExchange(np.array([1.0, 2.0, 5.0]), ("a", "b", "c"), data, prepare, limits)
    offers = [own[~np.isnan(own)].tolist() for own in exchange.values]
    assert offers[0] == [0.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]  # eight from 0 to 7, without its own
    assert offers[1] == [1.0, 3.0, 4.0]
    assert offers[2] == [9.0]
    assert exchange.outcome(np.array([7, 0, 1])).tolist() == [7.0, 2.0, 9.0]


def test_columns__whole_numbers_stay_within_the_data() -> None:
    data = np.array([[0.2, 1.2], [3.9, 1.8]])  # there is no whole number between 1.2 and 1.8
    exchange = ColumnExchange(np.array([0.5, 1.5]), ("a", "b"), data, prepare, {"integer": ["a", "b"]})
    offers = [own[~np.isnan(own)].tolist() for own in exchange.values]
    assert offers == [[1.0, 2.0, 3.0], []]


@pytest.mark.parametrize(("own", "far", "least"), [(0.5, 1.0, 1.0), (0.5, 3.0, 1.0), (2.5, 2.0, 2.0), (2.5, 0.0, 2.0)])
def test_columns__closer_of_a_row_that_holds_no_whole_number(own: float, far: float, least: float) -> None:
    exchange = ColumnExchange(np.array([own]), ("a",), np.array([[0.0], [3.0]]), prepare, {"integer": ["a"]})
    choice = np.array([exchange.values[0].tolist().index(far) + 1])
    tried: list[float] = []

    def flips(made: list[Tensor]) -> np.ndarray:
        tried.extend(float(row[0, 0]) for row in made)
        return np.ones(len(made), bool)

    assert exchange.closer(choice, flips).outcome(choice).tolist() == [least]
    assert all(min(own, far) < value < max(own, far) for value in tried)


def test_columns__closer_is_as_close_as_is_enough() -> None:
    data = np.array([[0.0, 0.0], [10.0, 10.0]])
    exchange = ColumnExchange(np.array([1.0, 1.0]), ("a", "b"), data, prepare, {"integer": ["b"]})
    choice = np.array([np.nanargmax(exchange.values[0]) + 1, np.nanargmax(exchange.values[1]) + 1])

    def flips(made: list[Tensor]) -> np.ndarray:
        return np.array([bool(row[0, 0] > 4.2 and row[0, 1] > 6.5) for row in made])

    closer = exchange.closer(choice, flips)
    new = closer.outcome(choice)
    assert 4.2 < new[0] < 4.21
    assert new[1] == 7
    assert exchange.outcome(choice).tolist() == [10.0, 10.0]  # the first one is as it was


def test_cells__drawings_are_as_high_as_the_picture() -> None:
    heights = []
    for size in ((9, 9), (9, 27), (90, 9)):
        own = Explicand(torch.zeros(3, *size))
        heights.append(CellExchange(own, [own], lambda _each: torch.zeros(9), (3, 3)).height)
    assert heights == pytest.approx([3.65, 1.45, 6.0])

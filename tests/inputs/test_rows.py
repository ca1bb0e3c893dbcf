"""Rows of a table as inputs: many forms of one row and of many, and what is wrong with some."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from cocoax.inputs import Explicand, Names, Rows

ROWS = Rows(["age", "height", "weight"], background=[[1, 2, 3], [3, 4, 5]])
ROWS.encoder = "people"
ROW = torch.tensor([[30.0, 180.0, 75.0]])


@pytest.mark.parametrize(
    "row",
    [
        [30, 180.0, np.float32(75)],
        (30, 180, 75),
        np.array([30, 180, 75]),
        torch.tensor([30, 180, 75]),
        torch.tensor([30.0, 180.0, 75.0], dtype=torch.float64, requires_grad=True),
        pd.Series([30, 180, 75], index=["age", "height", "weight"]),
        {"weight": 75, "age": 30, "height": np.float32(180)},
        ROW,
        Explicand(ROW, Names(("a", "b", "c"))),
    ],
    ids=lambda row: type(row).__name__,
)
def test_prepare__one_row_in_any_form(row: Any) -> None:
    assert ROWS.is_one(row) or (isinstance(row, torch.Tensor) and row.ndim == 2)  # a prepared row alone is a table of one
    assert torch.equal(ROWS.prepare(row), ROW)
    assert ROWS.prepare(row).dtype == torch.float32


@pytest.mark.parametrize("many", [[[1, 2, 3]], np.zeros((2, 3)), torch.zeros(2, 3), pd.DataFrame([[1, 2, 3]]), [], "abc"])
def test_is_one__many_are_not(many: Any) -> None:
    assert not ROWS.is_one(many)


def test_each__rows_of_a_data_frame() -> None:
    frame = pd.DataFrame({"age": [1.0, 2.0], "height": [3.0, 4.0], "weight": [5.0, 6.0]})
    items, count = ROWS.each(frame)
    assert ([item.tolist() for item in items], count) == ([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]], 2)


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        ([1.0, 2.0], ValueError, r"A row of 'people' has 3 columns \(age, height, weight…\)\. Got shape \[2\] instead"),
        (["1", "b", "c"], TypeError, r"column 'age' is '1'; turn categories into numbers"),
        ([1.0, "red", 2.0], TypeError, r"column 'height' is 'red'"),
        ([1.0, 2.0, None], TypeError, r"column 'weight' is None.*fill in"),
        ({"age": 1, "height": "tall", "weight": 2}, TypeError, r"column 'height' is 'tall'"),
        ({"age": 1, "height": 2}, ValueError, r"no column 'weight'"),
        ({"age": 1, "height": 2, "weight": 3, "name": 4}, ValueError, r"column 'name' too much"),
        ([1.0, float("nan"), 2.0], ValueError, r"Column 'height' is nan; fill in what is missing first"),
        (pd.Series([1, 2, 3], index=list("abc")), ValueError, r"The columns are a, b, c… but 'people' expects age, height"),
    ],
)
def test_prepare__bad_rows(row: Any, error: type[Exception], message: str) -> None:
    assert ROWS.is_one(row)  # so that the error is about the row, not about its numbers as rows
    with pytest.raises(error, match=message):
        ROWS.prepare(row)


def test_explicand__features_are_the_columns() -> None:
    explicand = ROWS.explicand([30, 180, 75])
    assert (explicand.names, explicand.shape, explicand.feature_ids) == (("age", "height", "weight"), (3,), None)
    assert ROWS.explicand(explicand) is explicand


def test_background__is_prepared() -> None:
    assert ROWS.background is not None
    assert ROWS.background.tolist() == [[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]
    doubled = Rows(["a"], preprocess=lambda row: 2 * row, background=[[1.0], [2.0]])
    assert doubled.background is not None
    assert doubled.background.tolist() == [[2.0], [4.0]]
    assert (ROWS.removes_by_default, Rows(["a"]).removes_by_default) == (True, False)


@pytest.mark.parametrize(
    ("background", "error", "message"),
    [
        ([[1.0, 2.0, 3.0], [1.0]], ValueError, r"Input 1: A row of 'the encoder' has 3 columns"),
        ([["x", 1, 2]], TypeError, r"Input 0: A row must hold numbers only"),
        (np.zeros((0, 3)), ValueError, r"The background has 0 rows; pass at least one"),
    ],
)
def test_background__bad_rows(background: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Rows(["a", "b", "c"], background=background)


@pytest.mark.parametrize("columns", ["abc", []])
def test_columns__must_be_names(columns: Any) -> None:
    with pytest.raises(ValueError, match=r"'columns' parameter must be a list of names"):
        Rows(columns)


def test_columns__twice_the_same() -> None:
    with pytest.raises(ValueError, match=r"Two columns are called 'a'"):
        Rows(["a", "b", "a"])


def test_to_module__without_the_channel() -> None:
    assert ROWS.to_module(torch.zeros(5, 1, 3)).shape == (5, 3)
    assert ROWS.default_batch_size(ROW, on_cpu=True) == 4096

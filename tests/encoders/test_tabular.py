"""Encoders of tables: rows in many forms, and what is wrong with some."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import cocoax
from cocoax import TabularEncoder

NAMES = ["age", "height", "weight"]


class Rows(nn.Module):
    """A small nonlinear map from 3 columns to 4 dimensions; remembers the shapes it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(3, 4, generator=torch.Generator().manual_seed(0)))
        self.shapes: list[tuple[int, ...]] = []

    def forward(self, rows: Tensor) -> Tensor:
        self.shapes.append(tuple(rows.shape))
        return torch.tanh(rows @ self.matrix)


TABLE = np.random.default_rng(0).normal(size=(6, 3))


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
def encoder(rows: Rows) -> TabularEncoder:
    return TabularEncoder(rows, columns=NAMES, background=TABLE)


@pytest.mark.parametrize(
    "form",
    [
        lambda table: table,
        lambda table: table.tolist(),
        lambda table: torch.from_numpy(table),
        lambda table: pd.DataFrame(table, columns=NAMES),
        lambda table: iter(table),
        lambda table: [pd.Series(row, index=NAMES) for row in table],
    ],
)
def test_represent__rows_in_every_form(form: Any, rows: Rows, encoder: TabularEncoder) -> None:
    expected = torch.tanh(torch.from_numpy(TABLE).float() @ rows.matrix).detach()
    torch.testing.assert_close(encoder.represent(form(TABLE)), expected)


def test_preprocess__is_done_to_inputs_and_background(rows: Rows) -> None:
    def scale(row: Tensor) -> Tensor:
        return row * 2

    encoder = TabularEncoder(rows, scale, columns=NAMES, background=TABLE)
    torch.testing.assert_close(encoder.inputs.background, torch.from_numpy(2 * TABLE).float())
    plain = TabularEncoder(rows, columns=NAMES)
    torch.testing.assert_close(encoder.represent(TABLE), plain.represent(2 * TABLE))
    assert encoder.fingerprint != plain.fingerprint


def test_preprocess__must_keep_the_columns(rows: Rows) -> None:
    encoder = TabularEncoder(rows, lambda row: row[:2], columns=NAMES)
    with pytest.raises(ValueError, match=r"preprocess must return one number for each of the 3 columns\. Got shape \[2\]"):
        encoder.prepare(TABLE[0])


# --- data frames -----------------------------------------------------------------------------------------------------


def test_background__a_data_frame_names_the_columns(rows: Rows) -> None:
    frame = pd.DataFrame(TABLE, columns=NAMES)
    named = TabularEncoder(rows, background=frame)
    written = TabularEncoder(rows, columns=NAMES, background=TABLE)
    target = cocoax.similarity_to(cocoax.Reference.from_representations(np.eye(4)))
    method = cocoax.KernelShap(samples=6)
    result = method.explain(named, frame.iloc[0], target)
    assert result.names == tuple(NAMES)
    assert torch.equal(result.values, method.explain(written, TABLE[0], target).values)
    baseline = cocoax.KernelShap(samples=6, baseline=cocoax.Background(frame))
    torch.testing.assert_close(baseline.explain(named, frame.iloc[0], target).values, result.values)


def test_columns__nothing_names_them(rows: Rows) -> None:
    with pytest.raises(TypeError, match=r"needs columns=, the name of each column, or a data frame as background="):
        TabularEncoder(rows, background=TABLE)

"""Sets of parts: which features belong to a part, what masks keep of it, and what it is called."""

from __future__ import annotations

import numpy as np
import torch

import cocoax
from cocoax.inputs import Names, Picture
from cocoax.insight.subset_search import Subsets, names_of, parts_of, shares
from cocoax.masking import grid_segments
from tests.insight.games import pictures, table


def test_subsets__keep_whole_parts() -> None:
    labels = grid_segments(4, 4, 2)
    masks = Subsets(labels, torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0]], dtype=torch.uint8))
    assert len(masks) == 2
    assert set(masks.tensors) == {"labels", "bits"}
    full = masks.full(slice(0, 1))[0]
    assert full.sum() == 8
    assert full[0, 0] == full[3, 3] == 1
    assert full[0, 3] == 0


def test_parts_of__segments_cells_and_columns() -> None:
    encoder, picture, _, _ = pictures()
    own = torch.arange(256).view(16, 16) // 100
    assert torch.equal(parts_of(cocoax.KernelShap(samples=6, segments=own).run(encoder, picture)), own)
    assert torch.equal(parts_of(cocoax.Rise(samples=10, grid=3).run(encoder, picture)), grid_segments(16, 16, 3))
    rows, row, _, _ = table()
    assert torch.equal(parts_of(cocoax.Rise(samples=10).run(rows, row)), torch.arange(8))


def test_shares__are_means_over_parts() -> None:
    encoder, picture, _, _ = pictures()
    run = cocoax.Rise(samples=10, grid=3).run(encoder, picture)
    labels = parts_of(run)
    full = run.masks.full(slice(0, 10))
    slow = np.array([[float(mask[labels == part].double().mean()) for part in range(9)] for mask in full])
    np.testing.assert_allclose(shares(run.masks, labels).numpy(), slow, atol=1e-6)
    shap = cocoax.KernelShap(samples=30, grid=3).run(encoder, picture)
    assert torch.equal(shares(shap.masks, parts_of(shap)), shap.masks.bits.double())  # type: ignore[attr-defined]


def test_names_of__words_cells_and_others() -> None:
    assert names_of(torch.tensor([0, 0, 1]), Names(("a", "b", "c"))) == ("a b", "c")
    assert names_of(grid_segments(4, 6, (2, 3)), Picture())[:4] == (
        "row 1, column 1",
        "row 1, column 2",
        "row 1, column 3",
        "row 2, column 1",
    )
    assert names_of(torch.arange(16).view(4, 4) // 5, Picture()) == ("part 1", "part 2", "part 3", "part 4")

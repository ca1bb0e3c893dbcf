"""Areas under curves, groups of them, and mean curves."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cocoax.paper.studies.tables import Records, by_run


def test_records__means_and_runs() -> None:
    curve = torch.tensor([[[0.0, 1.0, 2.0]], [[2.0, 2.0, 2.0]]])
    rows = [{"method": "a", "gini": 0.1}, {"method": "b", "gini": 0.1}]
    headers = [{"run": run, "explicand": 0, "rows": rows, "measures": ["m"]} for run in (1, 1, 2)]
    records = Records(
        [({"insertion": curve * k, "deletion": -curve * k}, header) for k, header in zip((1, 3, 5), headers, strict=True)]
    )
    areas = records.grouped("method", "metric")
    assert [value["value"] for value in areas["a", "insertion"]] == pytest.approx([1, 3, 5])
    assert [value["value"] for value in areas["b", "deletion"]] == pytest.approx([-2, -6, -10])
    assert by_run(areas["a", "insertion"]) == pytest.approx([2, 5])  # of runs 1 and 2
    np.testing.assert_allclose(records.mean_curves("method")["a", "m", "insertion"], [0, 3, 6])

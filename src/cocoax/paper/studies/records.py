"""The results of a study of curves: every value, groups of them, and mean curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from cocoax.paper.studies.titles import METRICS


class Records:
    """The curves of all explicands of a study, and the areas under them."""

    def __init__(self, units: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        self.units = units

    def __len__(self) -> int:
        return len(self.units)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Give every value: the row's key, the measure, the metric, its run, its explicand and the area under its curve."""
        for tensors, header in self.units:
            for metric in METRICS:
                areas = torch.trapezoid(tensors[metric].double(), dx=1 / (tensors[metric].shape[-1] - 1))
                for row, values in zip(header["rows"], areas.tolist(), strict=True):
                    for measure, value in zip(header["measures"], values, strict=True):
                        yield {
                            **row,
                            "measure": measure,
                            "metric": metric,
                            "run": header["run"],
                            "explicand": header["explicand"],
                            "value": value,
                        }

    def grouped(self, *by: str) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
        """Group the values that agree in these fields; ``None`` where a row has no such field."""
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for record in self:
            groups.setdefault(tuple(record.get(name) for name in by), []).append(record)
        return groups

    def mean_curves(self, *by: str) -> dict[tuple[Any, ...], torch.Tensor]:
        """Return mean curves ``[points]`` over explicands for rows that agree in these fields, each measure and metric."""
        groups: dict[tuple[Any, ...], list[torch.Tensor]] = {}
        for tensors, header in self.units:
            for metric in METRICS:
                for row, several in zip(header["rows"], tensors[metric], strict=True):
                    for measure, curve in zip(header["measures"], several, strict=True):
                        key = (*(row.get(name) for name in by), measure, metric)
                        groups.setdefault(key, []).append(curve)
        return {key: torch.stack(several).mean(0) for key, several in groups.items()}


def by_run(records: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the mean of each run."""
    runs: dict[int, list[float]] = {}
    for record in records:
        runs.setdefault(record["run"], []).append(record["value"])
    return [float(np.mean(values)) for values in runs.values()]

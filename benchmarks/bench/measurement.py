"""A measured figure, the goal it must reach, and the file that keeps all of them."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch

from cocoax.store import write_text


@dataclass(frozen=True)
class Measurement:
    """One measured figure: its median, all repetitions, and what it must reach."""

    name: str
    subject: str
    values: list[float]
    goal: str
    reached: bool
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The median of the repetitions."""
        return median(self.values)


def at_most(name: str, subject: str, values: list[float], goal: float, **details: Any) -> Measurement:
    """Return a measurement whose median must not be above the goal."""
    return Measurement(name, subject, values, f"≤ {goal:g}", median(values) <= goal, details)


def at_least(name: str, subject: str, values: list[float], goal: float, **details: Any) -> Measurement:
    """Return a measurement whose median must not be below the goal."""
    return Measurement(name, subject, values, f"≥ {goal:g}", median(values) >= goal, details)


def write_json(path: Path, measurements: Sequence[Measurement]) -> Path:
    """Write the measurements, and what they were made on, as JSON; return the file."""
    machine = {
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    rows = [{**asdict(measurement), "median": measurement.median} for measurement in measurements]
    return write_text(path, json.dumps({"machine": machine, "figures": rows}, indent=1))

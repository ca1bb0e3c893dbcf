"""Whole data sets: every input explained once, on one machine or many; then any question to all of them."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("pyarrow") is None:
    raise ImportError("Indexes of data sets are Parquet files: pip install 'cocoax[datasets]'.")

from cocoax.datasets.building import build
from cocoax.datasets.comparing import Comparison, compare
from cocoax.datasets.index import Index
from cocoax.datasets.layout import export_atlas, export_fiftyone
from cocoax.datasets.shortcuts import Shortcuts, Suspect, Typical
from cocoax.datasets.survey import Placed, Survey

__all__ = [
    "Comparison",
    "Index",
    "Placed",
    "Shortcuts",
    "Survey",
    "Suspect",
    "Typical",
    "build",
    "compare",
    "export_atlas",
    "export_fiftyone",
]

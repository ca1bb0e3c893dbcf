"""Whole data sets: every input explained once, on one machine or many; then any question to all of them."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("pyarrow") is None:
    raise ImportError("Indexes of data sets are Parquet files: pip install 'cocoax[datasets]'.")

from cocoax.survey.answers import RankedRow, Survey
from cocoax.survey.builder import build
from cocoax.survey.comparison import Comparison, compare
from cocoax.survey.exports import export_atlas, export_fiftyone
from cocoax.survey.index import Index
from cocoax.survey.shortcuts import Shortcuts, Suspect, Typical, Typicality

__all__ = [
    "Comparison",
    "Index",
    "RankedRow",
    "Shortcuts",
    "Survey",
    "Suspect",
    "Typical",
    "Typicality",
    "build",
    "compare",
    "export_atlas",
    "export_fiftyone",
]

"""Attributions in the forms that other libraries take."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional as F

from cocoax.masking.masks import averaging
from cocoax.masking.segments import check_grid

if TYPE_CHECKING:
    from cocoax.methods.attribution import Attribution


def to_dataframe(attribution: Attribution, grid: int) -> Any:
    """Return a pandas data frame; see :meth:`cocoax.Attribution.to_dataframe`."""
    pandas = _library("pandas", "A data frame")
    values = attribution.values.double()
    errors = attribution.standard_error
    columns: dict[str, Any]
    if values.ndim == 1:
        names = attribution.names or tuple(str(index) for index in range(len(values)))
        columns = {"feature": list(names)}
        if attribution.offsets is not None:
            columns |= {"begin": [begin for begin, _ in attribution.offsets], "end": [end for _, end in attribution.offsets]}
    else:
        rows, across = check_grid(values.shape[0], values.shape[1], grid)
        down, right = averaging(values.shape[0], rows), averaging(values.shape[1], across)
        values = down @ values @ right.T
        errors = None if errors is None else down @ errors.double() @ right.T  # at most: as if all pixels erred together
        left, top, end, bottom = attribution.box
        places = [(row, column) for row in range(rows) for column in range(across)]
        columns = {
            "feature": [f"row {row + 1}, column {column + 1}" for row, column in places],
            "left": [left + (end - left) * column / across for _, column in places],
            "top": [top + (bottom - top) * row / rows for row, _ in places],
            "right": [left + (end - left) * (column + 1) / across for _, column in places],
            "bottom": [top + (bottom - top) * (row + 1) / rows for row, _ in places],
        }
    columns["value"] = values.flatten().numpy()
    relative = columns["value"] - attribution.neutral
    columns["relative"] = np.where(np.abs(relative) > attribution.floor, relative, 0.0)
    if errors is not None:
        columns["standard_error"] = errors.double().flatten().numpy()
    return pandas.DataFrame(columns)


def to_shap(attribution: Attribution) -> Any:
    """Return a ``shap.Explanation``; see :meth:`cocoax.Attribution.to_shap`."""
    shap = _library("shap", "An explanation for SHAP")
    values = attribution.relative.float().numpy()
    # What the values leave of the score, so that SHAP's sums end at it: of Shapley values that is the score of nothing.
    base = attribution.score - float(values.sum(dtype=np.float64))
    if values.ndim == 1:
        names = attribution.names or tuple(str(index) for index in range(len(values)))
        given = getattr(attribution.display, "given", None)
        own = np.array(names, dtype=object) if given is None else np.array(given)
        return shap.Explanation(values=values, base_values=base, data=own, feature_names=list(names))
    data = None
    if attribution.picture is not None:
        left, top, right, bottom = attribution.box
        height, width = attribution.picture.shape[:2]
        seen = attribution.picture[round(top * height) : round(bottom * height), round(left * width) : round(right * width)]
        pixels = F.interpolate(seen.permute(2, 0, 1)[None].float(), size=values.shape, mode="bilinear", antialias=True)
        data = pixels[0].permute(1, 2, 0).round().to(torch.uint8).numpy()[None]
    question = [attribution.name]
    # SHAP drops the last dimension, that of the outputs, and looks at what is left: pictures of one channel.
    return shap.Explanation(values[None, ..., None, None], base_values=np.array([[base]]), data=data, output_names=question)


def _library(name: str, what: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"{what} needs the package {name!r} ({error}); pip install {name}.") from error

"""Agreement of two maps of one input, and a remark where a map of gradients and a map by removal disagree."""

from __future__ import annotations

import numpy as np

from cocoax.checks import check_kind
from cocoax.masking.masks import averaging
from cocoax.results import Attribution

_CELLS = 7  # maps of pixels are compared by the means over 7 x 7 cells
_FEWEST = 8  # parts: ranks of fewer agree or disagree by chance
_LITTLE = 0.2  # a rank correlation below which maps are said to disagree
_RELIABLE = 0.8  # the share of a map's variance that is no sampling error, below which nothing is said


def rank_agreement(first: Attribution, second: Attribution) -> float:
    """Return Spearman's rank correlation of two maps of one input; 0 where one of them is constant.

    Maps of pixels are compared by the means over 7 x 7 cells, others feature by feature.
    """
    from scipy.stats import rankdata

    values = [_parts(attribution) for attribution in (first, second)]
    if values[0].shape != values[1].shape:
        shapes = " and ".join(str(list(attribution.values.shape)) for attribution in (first, second))
        raise ValueError(f"Maps are compared that have the same features. Got shapes {shapes} instead.")
    ranks = [rankdata(own) - (len(own) + 1) / 2 for own in values]
    lengths = float(np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum()))
    return float(ranks[0] @ ranks[1]) / lengths if lengths > 0 else 0.0


def gradient_remark(gradient: Attribution, removal: Attribution) -> str | None:
    """Return a sentence if a map of gradients disagrees with a map by removal on this input; None if it does not.

    It disagrees where the rank correlation is below 0.2. Nothing is said of inputs with fewer than eight parts, and of maps
    by removal more than a fifth of whose variance may be sampling error.
    """
    values = _parts(removal)
    if len(values) < _FEWEST or not values.any():
        return None
    if removal.standard_error is not None:
        noise = float((_parts(removal, error=True) ** 2).mean())
        if noise > (1 - _RELIABLE) * float(values.var()):
            return None
    agreement = rank_agreement(gradient, removal)
    if agreement >= _LITTLE:
        return None
    names = [str(each.metadata.get("method", what)) for each, what in ((gradient, "gradients"), (removal, "removal"))]
    return (
        f"{names[0]} and {names[1]} disagree on this input (rank correlation {agreement:+.2f}): gradients tell what a small "
        f"change does, {names[1]} what the score loses without a part. Believe the removal."
    )


def _parts(attribution: Attribution, error: bool = False) -> np.ndarray:
    """Return effects of cells or features, or their standard errors, ``[parts]``."""
    check_kind("A map that is compared", attribution, Attribution, "must be an Attribution")
    chosen = attribution.standard_error if error else attribution.relative
    assert chosen is not None
    values = chosen.double().numpy()
    if values.ndim == 2:
        down, right = (averaging(side, min(_CELLS, side)).numpy() for side in values.shape)
        values = down @ values @ right.T
    parts: np.ndarray = values.ravel()
    return parts

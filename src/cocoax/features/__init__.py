"""Features: what can be removed from an input, and what replaces it."""

from cocoax.features.baselines import Baseline, Blur, Constant, Fixed, Mean, Noise
from cocoax.features.masks import GridMasks
from cocoax.features.segments import grid_segments

__all__ = ["Baseline", "Blur", "Constant", "Fixed", "GridMasks", "Mean", "Noise", "grid_segments"]

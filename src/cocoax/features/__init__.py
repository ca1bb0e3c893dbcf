"""Features: what can be removed from an input, and what replaces it."""

from cocoax.features.baselines import Background, Baseline, Blur, Constant, Fixed, Mean, Noise
from cocoax.features.bits import BitMasks
from cocoax.features.masks import GridMasks
from cocoax.features.segments import grid_segments
from cocoax.features.tokens import REMOVALS, AttentionMask, Deletion, MaskToken, TokenRemoval

__all__ = [
    "REMOVALS",
    "AttentionMask",
    "Background",
    "Baseline",
    "BitMasks",
    "Blur",
    "Constant",
    "Deletion",
    "Fixed",
    "GridMasks",
    "MaskToken",
    "Mean",
    "Noise",
    "TokenRemoval",
    "grid_segments",
]

"""Features: what can be removed from an input, and what removing it means."""

from cocoax.inputs.segmentation import grid_segments
from cocoax.masking.baselines import Background, Baseline, Blur, Constant, Fixed, Mean, Noise, Removal, Several
from cocoax.masking.masked_encoder import MaskedEncoder, Masks
from cocoax.masking.masks import BitMasks, GridMasks
from cocoax.masking.registry import REMOVALS, resolve
from cocoax.masking.token_removals import AttentionMask, Deletion, DropTokens, MaskToken, TokenRemoval

__all__ = [
    "REMOVALS",
    "AttentionMask",
    "Background",
    "Baseline",
    "BitMasks",
    "Blur",
    "Constant",
    "Deletion",
    "DropTokens",
    "Fixed",
    "GridMasks",
    "MaskToken",
    "MaskedEncoder",
    "Masks",
    "Mean",
    "Noise",
    "Several",
    "Removal",
    "TokenRemoval",
    "grid_segments",
    "resolve",
]

"""Masks, what takes the place of removed features (removals), and the encoder of masked inputs."""

from cocoax.inputs.segmentation import grid_segments
from cocoax.masking.masked_encoder import MaskedEncoder, Masks
from cocoax.masking.masks import BitMasks, GridMasks
from cocoax.masking.removals import (
    REMOVALS,
    AttentionMask,
    Background,
    Baseline,
    Blur,
    Constant,
    Deletion,
    DropTokens,
    Fixed,
    MaskToken,
    Mean,
    Noise,
    Removal,
    Several,
    TokenRemoval,
    resolve,
)

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

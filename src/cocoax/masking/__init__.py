"""Features: what can be removed from an input, and what removing it means."""

from cocoax.masking.baselines import Background, Baseline, Blur, Constant, Fixed, Mean, Noise, Several
from cocoax.masking.bits import BitMasks
from cocoax.masking.drop_tokens import DropTokens
from cocoax.masking.masked_encoder import Game, Masks
from cocoax.masking.masks import GridMasks
from cocoax.masking.registry import REMOVALS, resolve
from cocoax.masking.removals import Removal
from cocoax.masking.segments import grid_segments
from cocoax.masking.tokens import AttentionMask, Deletion, MaskToken, TokenRemoval

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
    "Game",
    "GridMasks",
    "MaskToken",
    "Masks",
    "Mean",
    "Noise",
    "Several",
    "Removal",
    "TokenRemoval",
    "grid_segments",
    "resolve",
]

"""Features: what can be removed from an input, and what removing it means."""

from cocoax.features.baselines import Background, Baseline, Blur, Constant, Fixed, Mean, Noise, Several
from cocoax.features.bits import BitMasks
from cocoax.features.drop_tokens import DropTokens
from cocoax.features.game import Game, Masks
from cocoax.features.masks import GridMasks
from cocoax.features.registry import REMOVALS, resolve
from cocoax.features.removals import Removal
from cocoax.features.segments import grid_segments
from cocoax.features.tokens import AttentionMask, Deletion, MaskToken, TokenRemoval

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

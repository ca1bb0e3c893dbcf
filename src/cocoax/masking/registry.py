"""Every removal by its name, and which of them an option ``baseline=`` means."""

from __future__ import annotations

import os
from numbers import Real
from textwrap import shorten
from typing import Any

import torch
from torch import Tensor

from cocoax.inputs import Inputs
from cocoax.masking.baselines import (
    Background,
    Baseline,
    Blur,
    Constant,
    Fixed,
    Mean,
    Noise,
    Removal,
    Several,
    Silence,
    SpectralNoise,
)
from cocoax.masking.token_removals import AttentionMask, Deletion, DropTokens, MaskToken

REMOVALS: dict[str, type[Removal]] = {
    kind.__name__: kind
    for kind in (
        Blur,
        Constant,
        Mean,
        Noise,
        Fixed,
        Background,
        Several,
        DropTokens,
        MaskToken,
        Deletion,
        AttentionMask,
        Silence,
        SpectralNoise,
    )
}


def resolve(removal: Any, inputs: Inputs) -> Removal:
    """Return the removal that an option ``baseline=`` means for a kind of input.

    That is a removal; a string that the kind knows; an input that is put in place; or None for the kind's default.
    """
    if removal is None:
        return inputs.fit(_default(inputs))
    if isinstance(removal, str):
        removal = _named(removal, inputs)
    if isinstance(removal, Removal):
        _check_suits(removal, inputs)
        return inputs.fit(removal)
    if isinstance(removal, type) and issubclass(removal, Removal):
        raise ValueError(_takes_an_object(removal.__name__, inputs))
    if not inputs.continuous:
        raise ValueError(f"{inputs.advice} Got {shorten(repr(removal), 80)} instead.")
    if isinstance(removal, Real) and not inputs.is_one(removal):
        raise ValueError(f"The 'baseline' parameter takes an object: write cocoax.Constant({removal}). {inputs.advice}")
    items = list(inputs.each(removal)[0])
    one_picture = len(items) == 1 and inputs.feature_kind == "image"  # which is seen as the explicand is
    prepared = [inputs.explicand(item).tensor if one_picture else inputs.prepare(item) for item in items]
    return inputs.fit(_put_in_place(prepared, inputs))


def _default(inputs: Inputs) -> Removal:
    """Return the removal that a kind of input has by default, which it may name."""
    default = inputs.default_removal
    if isinstance(default, Removal):
        return default
    if default not in REMOVALS:
        raise ValueError(
            f"The default removal of {type(inputs).__name__} is {default!r}, but known are {', '.join(REMOVALS)}; give it an "
            "object of a class of your own."
        )
    return REMOVALS[default].default(inputs)


def _named(name: str, inputs: Inputs) -> Removal | str:
    """Return the removal that a string stands for; one that stands for none may be the path of an input."""
    kinds = [REMOVALS[kind] for kind in inputs.removals]
    for kind in kinds:
        if name in inputs.removal_names and name in (kind.called, kind.__name__.lower()):
            return kind.default(inputs)
    if inputs.removal_names and not os.path.exists(name):
        raise ValueError(f"{inputs.advice} Got {name!r} instead, and there is no file of that name.")
    for kind in kinds:
        if kind.__name__.lower() == name.lower():
            raise ValueError(_takes_an_object(kind.__name__, inputs))
    return name


def _takes_an_object(name: str, inputs: Inputs) -> str:
    return f"The 'baseline' parameter takes an object: write cocoax.{name}(). {inputs.advice}"


def _put_in_place(prepared: list[Tensor], inputs: Inputs) -> Baseline:
    """Return the baseline that an input is, or several are where the kind takes a background."""
    several = Background.__name__ in inputs.removals
    if len(prepared) == 1:
        return Fixed(prepared[0].detach().to("cpu", torch.float32))
    if not (several and prepared):
        raise ValueError(
            f"The 'baseline' parameter must be one {inputs.noun}{' or more' if several else ''}. Got {len(prepared)} instead."
        )
    shapes = sorted({tuple(tensor.shape) for tensor in prepared})
    if len(shapes) > 1:
        raise ValueError(
            f"The inputs given as 'baseline' have different shapes, {list(shapes[0])} and {list(shapes[1])}; they must be "
            "preprocessed alike."
        )
    return Background(torch.stack([tensor.detach().to("cpu", torch.float32) for tensor in prepared]))


def _check_suits(removal: Removal, inputs: Inputs) -> None:
    """Raise if a removal makes no sense for a kind of input; users' own are trusted, but blends need numbers."""
    name = type(removal).__name__
    if REMOVALS.get(name) is type(removal):
        suits = name in inputs.removals
    else:
        suits = inputs.continuous or not isinstance(removal, Baseline)
    if not suits:
        raise ValueError(f"{name} is for {removal.made_for}. {inputs.advice}")

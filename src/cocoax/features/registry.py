"""Every removal by its name, and which of them an option ``baseline=`` means."""

from __future__ import annotations

from typing import Any

from cocoax.features.baselines import Background, Blur, Constant, Fixed, Mean, Noise
from cocoax.features.removals import Removal
from cocoax.features.spectra import Silence, SpectralNoise
from cocoax.features.tokens import AttentionMask, Deletion, MaskToken
from cocoax.inputs import Inputs

KINDS: tuple[type[Removal], ...] = (
    Blur,
    Constant,
    Mean,
    Noise,
    Fixed,
    Background,
    MaskToken,
    Deletion,
    AttentionMask,
    Silence,
    SpectralNoise,
)
REMOVALS = {kind.__name__: kind for kind in KINDS}


def resolve(removal: Any, inputs: Inputs) -> Removal:
    """Return the removal that an option ``baseline=`` means for a kind of input.

    That is a removal; a string that the kind knows; an input that is put in place; or None for the kind's default.
    """
    if removal is None:
        return inputs.fit(_registered(inputs.default_removal, inputs).default(inputs))
    if isinstance(removal, str):
        removal = _named(removal, inputs)
    if isinstance(removal, Removal):
        _check_suits(removal, inputs)
        return inputs.fit(removal)
    if not inputs.continuous:
        raise ValueError(f"{inputs.advice} Got {removal!r} instead.")
    return inputs.fit(Fixed.of([inputs.prepare(item) for item in inputs.each(removal)[0]]))


def _registered(name: str, inputs: Inputs) -> type[Removal]:
    """Return the removal of this class name, which a kind of input lists; raise if there is none."""
    if name not in REMOVALS:
        raise ValueError(
            f"{type(inputs).__name__} lists the removal {name!r}, which is not in cocoax.features.REMOVALS; known are "
            f"{', '.join(REMOVALS)}. Put it there."
        )
    return REMOVALS[name]


def _named(name: str, inputs: Inputs) -> Removal | str:
    """Return the removal that a string stands for; one that stands for none may be the path of an input."""
    if name in inputs.removal_names:
        kinds = (_registered(kind, inputs) for kind in inputs.removals)
        return next(kind.default(inputs) for kind in kinds if name in (kind.called, kind.__name__.lower()))
    if inputs.removal_names:
        raise ValueError(f"{inputs.advice} Got {name!r} instead.")
    kind = next((kind for kind in inputs.removals if kind.lower() == name.lower()), None)
    if kind is not None:
        raise ValueError(f"The 'baseline' parameter takes an object or a picture: write cocoax.{kind}().")
    return name


def _check_suits(removal: Removal, inputs: Inputs) -> None:
    """Raise if a removal makes no sense for a kind of input; users' own are trusted, but blends need numbers."""
    name = type(removal).__name__
    ours = REMOVALS.get(name) is type(removal)
    suits = name in inputs.removals if ours else inputs.continuous or not removal.blends
    if not suits:
        raise ValueError(f"{name} is for {removal.made_for}. {inputs.advice}")

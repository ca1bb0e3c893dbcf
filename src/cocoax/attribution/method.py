"""What every attribution method has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cocoax.attribution.plain import to_plain
from cocoax.attribution.result import Attribution
from cocoax.encoders import Encoder
from cocoax.encoders.identity import looking_once
from cocoax.inputs import Explicand
from cocoax.seeding import stream
from cocoax.targets import Target

Samples = np.ndarray | Tensor
# What one explicand may be: the path of a picture or a sound, a text, a row, samples with their rate. A folder and a batch of
# tensors hold many, which types cannot tell; put them into a list.
Input = str | Path | Image.Image | Samples | Explicand | Sequence[float] | tuple[Samples, float] | tuple[float, Samples]


class Method(ABC):
    """An attribution method φ: spreads a target over the features of an explicand.

    Methods are immutable descriptions; the same method with the same seed gives the same result, whatever ran before.
    """

    # A string is an iterable of strings, and a tensor one of tensors; taken as one input, they come first.
    @overload
    def explain(  # type: ignore[overload-overlap]
        self, encoder: Encoder, explicand: Input, targets: Target, *, progress: bool | None = None
    ) -> Attribution: ...

    @overload
    def explain(  # type: ignore[overload-overlap]
        self, encoder: Encoder, explicand: Input, targets: Sequence[Target], *, progress: bool | None = None
    ) -> list[Attribution]: ...

    @overload
    def explain(
        self, encoder: Encoder, explicand: Iterable[Input], targets: Target, *, progress: bool | None = None
    ) -> list[Attribution]: ...

    @overload
    def explain(
        self, encoder: Encoder, explicand: Iterable[Input], targets: Sequence[Target], *, progress: bool | None = None
    ) -> list[list[Attribution]]: ...

    def explain(
        self, encoder: Encoder, explicand: Any, targets: Target | Sequence[Target], *, progress: bool | None = None
    ) -> Attribution | list[Attribution] | list[list[Attribution]]:
        """Explain one or many targets for one or many explicands.

        Returns an :class:`Attribution`; a list of them for a list of targets; and for many explicands a list, in their
        order, of what each alone would give (gradients up to rounding, since inputs share batches).
        """
        check_encoder(encoder)
        asked = check_targets(targets)
        with torch.inference_mode(False), looking_once():  # inside inference mode nothing has gradients
            explicands = explicands_of(encoder, explicand)
            space = encoder.space
            for target in asked:
                target.check_space(space)
            results = self._explain(encoder, explicands, asked, progress)
        if encoder.is_one(explicand):
            return results[0][0] if isinstance(targets, Target) else results[0]
        return [answers[0] for answers in results] if isinstance(targets, Target) else results

    @abstractmethod
    def _explain(
        self, encoder: Encoder, explicands: list[Explicand], targets: list[Target], progress: bool | None
    ) -> list[list[Attribution]]:
        """Return one list of attributions, in the order of the targets, for each explicand."""

    def chance(self, explicand: Explicand, baseline: Tensor, seed: int = 0) -> Tensor:
        """Return the map that the method makes of an encoder that tells nothing; by default noise for each element."""
        return explicand.per_feature(normal(seed, 0, tuple(explicand.tensor.shape)))

    def describe(self) -> dict[str, Any]:
        """Return its name and options, as plain values."""
        description: dict[str, Any] = to_plain(self)
        return {**description, "type": type(self).__name__}


def check_encoder(encoder: Encoder) -> None:
    """Raise unless it is an :class:`Encoder`."""
    if not isinstance(encoder, Encoder):
        raise TypeError(
            f"The first argument must be a cocoax.Encoder: wrap your module with cocoax.Encoder(module, ...). "
            f"Got {type(encoder).__name__} instead."
        )


def explicands_of(encoder: Encoder, inputs: Any) -> list[Explicand]:
    """Return one or many inputs made ready to be explained; raise if there are none."""
    explicands = [encoder.explicand(item) for item in encoder.as_list(inputs)]
    if not explicands:
        raise ValueError("There are 0 explicands; pass at least one.")
    return explicands


def check_targets(targets: Target | Sequence[Target]) -> list[Target]:
    """Return targets as a list; raise for anything else."""
    asked = list(targets) if isinstance(targets, Iterable) and not isinstance(targets, str) else [targets]
    wrong = [target for target in asked if not isinstance(target, Target)]
    if wrong:
        raise TypeError(
            f"What is explained must be a Target, such as cocoax.contrastive_corpus_similarity(corpus, foil). "
            f"Got {type(wrong[0]).__name__} instead."
        )
    if not asked:
        raise ValueError("There are 0 targets; pass at least one.")
    return asked


def check_at_least(name: str, value: float, least: float) -> None:
    """Raise unless ``value >= least``."""
    if not value >= least:
        raise ValueError(f"The '{name}' parameter must be at least {least}. Got {value!r} instead.")


def check_count(name: str, value: int, least: int) -> None:
    """Raise unless it is an integer, ``>= least``."""
    if not isinstance(value, Integral):
        raise TypeError(f"The '{name}' parameter must be an integer of at least {least}. Got {value!r} instead.")
    check_at_least(name, value, least)


def check_positive(name: str, value: float) -> None:
    """Raise unless ``value > 0``."""
    if not value > 0:
        raise ValueError(f"The '{name}' parameter must be above 0. Got {value!r} instead.")


def normal(seed: int, row: int, shape: tuple[int, ...]) -> Tensor:
    """Return standard normal noise number ``row`` of a seed; the same whatever else is drawn."""
    return torch.from_numpy(stream(seed, row).standard_normal(shape, dtype="float32"))

"""Removals: what it means to take a feature away.

A removal turns an explicand and a batch of kept features into inputs for the encoder. Numbers are blended with a baseline;
words are masked, deleted or hidden from attention; patches of a vision transformer are left out of its tokens. A removal of
words gives token ids ``[L]``, or ids over an attention mask ``[2, L]``, as :class:`cocoax.TextEncoder` takes them; special
tokens ([CLS], [SEP], a prompt) always stay. ``baseline=`` is turned into a removal by :func:`resolve`.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from textwrap import shorten
from typing import Any, ClassVar, Self

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from cocoax.checks import as_float, as_items, as_numbers, check_at_least, check_count, shown
from cocoax.encoders import Encoder
from cocoax.encoders.embedding import Embeddings
from cocoax.encoders.patches import Shortened, patches_of, without_patches
from cocoax.inputs import Explicand, Inputs
from cocoax.inputs.image import image_files
from cocoax.inputs.segmentation import check_sides, grid_segments
from cocoax.inputs.sound import from_spectra, to_spectra
from cocoax.seeding import stream


class Removal(ABC):
    """A way to remove features of an explicand.

    Attributes:
        called: the string that stands for it where the kind of input allows that, as in ``baseline="mask"``.
        made_for: the inputs it makes sense for, in words.
        defined: every removal that has been imported, so that files can name those of users too.

    """

    called: ClassVar[str | None] = None
    made_for: ClassVar[str] = "numbers"
    defined: ClassVar[list[type[Removal]]] = []

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Removal.defined.append(cls)

    @abstractmethod
    def baseline_input(self, explicand: Explicand) -> Tensor:
        """Return the explicand with all of its features removed, prepared for the encoder; or :meth:`versions` of that."""

    def versions(self, explicand: Explicand, baseline_input: Tensor) -> Sequence[Tensor]:
        """Return each version of the explicand without its features; scores are averaged over them.

        Where inputs are numbers, those are ``baseline_input`` with one dimension more than the explicand has.
        """
        several = explicand.tensor.is_floating_point() and baseline_input.ndim > explicand.tensor.ndim
        # Token ids may lie over an attention mask, which is no version.
        return list(baseline_input) if several else [baseline_input]

    @abstractmethod
    def masked(self, explicand: Explicand, baseline_input: Tensor, kept: Tensor) -> Sequence[Tensor] | Tensor:
        """Return the explicand with some features kept, for every row of ``kept [n, *shape]``; prepared for the encoder.

        Where the baseline input has K versions, so has each row, one after the other. Numbers are where the encoder is.
        """

    def with_features(self, explicand: Explicand, encoder: Encoder, grid: int | tuple[int, int] | None = None) -> Explicand:
        """Return the explicand with features that can be removed; ``grid`` are the cells of a method that has some.

        By default the features that it has.
        """
        return explicand

    def encoder_for(self, encoder: Encoder, explicand: Explicand) -> Encoder:
        """Return the encoder that takes what :meth:`masked` gives; by default the one that takes the explicand."""
        return encoder

    @property
    def blends(self) -> bool:
        """Whether masked inputs are nothing but blends of the explicand and the baseline input."""
        return False

    def in_order(self, explicand: Explicand, kept: Tensor) -> Tensor | None:
        """Return the order in which rows are best encoded: those of a length together. None: as they come."""
        return None

    @classmethod
    def default(cls, inputs: Inputs) -> Self:
        """Return the removal as a kind of input has it by default."""
        return cls()

    def ready(self, inputs: Inputs) -> Removal:
        """Return the same with what only the kind of input knows filled in."""
        return self

    def embedded(self, inputs: Embeddings) -> Removal:
        """Return the removal as gradients see it: embeddings in place of those of the words."""
        raise ValueError(f"{inputs.advice} Got {self!r} instead.")


@dataclass(frozen=True)
class Forgotten(Removal):
    """A removal of a user's own in a file, which holds what it did but not how.

    Args:
        name: of its class.

    """

    name: str

    def baseline_input(self, explicand: Explicand) -> Tensor:
        """Raise."""
        raise ValueError(
            f"The run removed features by {self.name!r}, which files cannot hold; it answers targets but cannot be extended. "
            "Start a new run."
        )

    def masked(self, explicand: Explicand, baseline_input: Tensor, kept: Tensor) -> Tensor:
        """Raise."""
        return self.baseline_input(explicand)


# --- baselines --------------------------------------------------------------------------------------------------------------

_ROUNDING = 8 * torch.finfo(torch.float32).eps
_WIDEST = 10_001  # of a blur's kernel, in pixels
_STRONG = (121, 20.0)  # kernel and sigma of a blur in which next to nothing can be recognised


class Baseline(Removal):
    """Gives the input whose elements stand for "nothing here"; masked inputs are blends of it and the explicand."""

    @abstractmethod
    def __call__(self, explicand: Tensor) -> Tensor:
        """Return the baseline ``[C, H, W]`` of an explicand ``[C, H, W]``, or several ``[K, C, H, W]``.

        Scores are averaged over several.
        """

    def baseline_input(self, explicand: Explicand) -> Tensor:
        """Return the baseline, with the explicand's own elements where they are never removed."""
        tensor = explicand.tensor
        baseline = self(tensor).detach().to(tensor)
        if tuple(tensor.shape) not in (tuple(baseline.shape), tuple(baseline.shape[1:])) or len(baseline) == 0:
            raise ValueError(
                f"{type(self).__name__} gave a baseline of shape {list(baseline.shape)} for an input of shape "
                f"{list(tensor.shape)}; it must have that shape, or be several of it."
            )
        # A blur of one colour is that colour but for rounding, and what differs by rounding is no feature to remove.
        baseline = torch.where((baseline - tensor).abs() <= _ROUNDING * tensor.abs(), tensor, baseline)
        return baseline if explicand.feature_ids is None else torch.where(explicand.feature_ids >= 0, baseline, tensor)

    @property
    def blends(self) -> bool:
        """Whether masked inputs are blends, as long as a subclass does not mask in another way."""
        return type(self).masked is Baseline.masked

    def masked(self, explicand: Explicand, baseline_input: Tensor, kept: Tensor) -> Tensor:
        """Return blends ``[n * K, C, ...]`` of the explicand and its K baselines, for every row of ``kept [n, *shape]``."""
        kept = explicand.elements_kept(kept)
        tensor = explicand.tensor
        if tensor.ndim == baseline_input.ndim == 3 and kept.shape[1] == 1:  # one baseline, and channels that belong together
            return _blend(baseline_input, tensor - baseline_input, kept[:, 0])
        kept = kept[:, None]  # [n, K, C, ...]: each mask with each baseline
        return (kept * tensor + (1 - kept) * baseline_input.view(-1, *tensor.shape)).flatten(0, 1)

    def embedded(self, inputs: Embeddings) -> Removal:
        """Return embeddings in place of those of the words."""
        return _Embedded(inputs.keep_special(self(inputs.embeddings)), self)


def _blend(baseline: Tensor, difference: Tensor, kept: Tensor) -> Tensor:
    """Return ``baseline + kept * difference`` for every mask ``[n, H, W]``, written channels-last, as encoders take it.

    Channel by channel, which is ten times as fast as blending first and changing the memory layout afterwards.
    """
    batch = torch.empty(
        (len(kept), *baseline.shape), dtype=baseline.dtype, device=baseline.device, memory_format=torch.channels_last
    )
    for channel, (low, step) in enumerate(zip(baseline, difference, strict=True)):
        torch.addcmul(low, kept, step, out=batch[:, channel])
    return batch


@dataclass(frozen=True)
class Blur(Baseline):
    """Gaussian blur of the explicand with reflected borders; by default that of the paper.

    Pictures are blurred by ``Blur(121, 20)`` unless told otherwise.
    """

    made_for = "images"
    kernel_size: int = 21
    sigma: float = 5.0

    @classmethod
    def default(cls, inputs: Inputs) -> Self:
        """Return the strong blur."""
        return cls(*_STRONG)

    def __post_init__(self) -> None:
        if not isinstance(self.kernel_size, Integral) or self.kernel_size < 1 or self.kernel_size % 2 == 0:
            raise ValueError(f"The 'kernel_size' parameter must be odd and positive. Got {self.kernel_size!r} instead.")
        if self.kernel_size > _WIDEST:
            raise ValueError(
                f"The 'kernel_size' parameter must be at most {_WIDEST}. Got {self.kernel_size} instead; the blur of "
                "everything is cocoax.Mean()."
            )
        if not (isinstance(self.sigma, Real) and 0 < as_float(self.sigma) < math.inf):
            raise ValueError(f"The 'sigma' parameter must be above 0. Got {self.sigma!r} instead.")

    def __call__(self, explicand: Tensor) -> Tensor:
        """Return the blurred explicand."""
        rows, columns = (
            _blurring(self.kernel_size, as_float(self.sigma), side).to(explicand) for side in explicand.shape[-2:]
        )
        return rows @ explicand @ columns.T


@lru_cache(maxsize=8)
@torch.inference_mode(False)  # what is kept must do for later gradients
def _blurring(kernel_size: int, sigma: float, side: int) -> Tensor:
    """Return the blur along one side as a matrix ``[side, side]``; images smaller than the kernel work too."""
    radius = kernel_size // 2
    offsets = torch.arange(-radius, radius + 1)
    weights = torch.exp(-0.5 * (offsets.double() / sigma) ** 2)
    weights /= weights.sum()
    period = max(1, 2 * (side - 1))  # reflecting without repeating the border has this period
    at = (torch.arange(side)[:, None] + offsets) % period
    at = torch.where(at < side, at, period - at)
    return torch.zeros(side, side, dtype=torch.float64).scatter_add_(1, at, weights.expand(side, -1))


@dataclass(frozen=True)
class Constant(Baseline):
    """One value everywhere, or one per channel, in units of the preprocessed input (0 is the mean colour of most)."""

    value: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        if not bool(torch.isfinite(as_numbers("The 'value' parameter", self.value)).all()):
            raise ValueError(f"The 'value' parameter must be finite. Got {shown(self.value)} instead.")

    def __call__(self, explicand: Tensor) -> Tensor:
        """Return the constant."""
        values = torch.as_tensor(self.value).reshape(-1, *[1] * (explicand.ndim - 1))
        if len(values) not in (1, len(explicand)):
            raise ValueError(
                f"Constant needs 1 value or one for each of the {len(explicand)} channels. Got {len(values)} instead."
            )
        return values.to(explicand).expand_as(explicand).clone()


@dataclass(frozen=True)
class Mean(Baseline):
    """The mean of each channel of the explicand: the mean colour of a picture."""

    def __call__(self, explicand: Tensor) -> Tensor:
        """Return those means, everywhere."""
        return explicand.mean(_places(explicand), keepdim=True).expand_as(explicand).clone()


@dataclass(frozen=True)
class Noise(Baseline):
    """Gaussian noise with the mean and the standard deviation of each channel of the explicand, or a given one."""

    std: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.std is not None:
            check_at_least("std", self.std, 0)

    def __call__(self, explicand: Tensor) -> Tensor:
        """Return the noise; the same for the same seed."""
        noise = stream(self.seed).standard_normal(tuple(explicand.shape), dtype=np.float32)
        std = explicand.std(_places(explicand), keepdim=True) if self.std is None else self.std
        return explicand.mean(_places(explicand), keepdim=True) + torch.from_numpy(noise).to(explicand) * std


def stretched(pictures: Tensor, explicand: Tensor) -> Tensor:
    """Return pictures ``[..., C, h, w]`` in the size of an explicand ``[C, H, W]``; as they are where they have that."""
    size = tuple(explicand.shape[-2:])
    if pictures.ndim < 3 or explicand.ndim != 3 or tuple(pictures.shape[-2:]) == size:
        return pictures
    flat = pictures.reshape(-1, 1, *pictures.shape[-2:])
    return F.interpolate(flat, size, mode="bilinear").reshape(*pictures.shape[:-2], *size)


@dataclass(frozen=True, eq=False)
class Fixed(Baseline):
    """A given input, such as an image ``[C, H, W]``, preprocessed like the explicand.

    Args:
        image: the input.
        stretch: stretch it over an explicand of another size, as is done with pictures.

    """

    subject: ClassVar[str] = "The baseline has"  # of the sentence about a wrong shape
    image: Tensor = field(repr=False)
    stretch: bool = field(default=False, kw_only=True)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.image.shape)})"

    def __post_init__(self) -> None:
        object.__setattr__(self, "image", as_numbers("A baseline", self.image))

    def __call__(self, explicand: Tensor) -> Tensor:
        """Return the input; raise if it does not have the explicand's shape."""
        image = stretched(self.image, explicand) if self.stretch else self.image
        if image.shape != explicand.shape:
            raise ValueError(
                f"{self.subject} shape {list(image.shape)} but the input has {list(explicand.shape)}; "
                "they must be preprocessed alike."
            )
        return image.to(explicand)

    def ready(self, inputs: Inputs) -> Fixed:
        """Return the same that is stretched if it is a picture."""
        return replace(self, stretch=True) if inputs.feature_kind == "image" else self


@dataclass(frozen=True, eq=False)
class _Embedded(Fixed):
    """The embeddings ``[d, L]`` of a text without its words; special tokens are still there.

    Attributes:
        image: the embeddings.
        how: what stands for the words.

    """

    how: Removal

    def embedded(self, inputs: Embeddings) -> Removal:
        """Return itself."""
        return self


@dataclass(frozen=True, eq=False)
class Background(Baseline):
    """Inputs, such as rows of a table, that stand for what a feature usually holds.

    Args:
        rows: background samples, preprocessed like the explicand: rows of a table ``[n, m]``, also as an array or
            a data frame; other inputs in the shape of the explicand, ``[n, *tensor.shape]``.
        draws: average every score over this many of the samples, drawn once (all of them if there are no more): removed
            features take their values from each in turn, as in SHAP. Costs that many times the encoder work. By default one
            is put in, their mean.
        seed: of the draws.

    """

    rows: Tensor = field(repr=False)
    draws: int | None = None
    seed: int = 0
    stretch: bool = field(default=False, kw_only=True)  # over an explicand of another size, as is done with pictures

    def __post_init__(self) -> None:
        rows: Any = self.rows  # a tensor, an array, a list or a data frame
        if not isinstance(rows, Tensor):
            try:
                rows = np.array(rows, dtype=np.float32)
            except (ValueError, TypeError, OverflowError) as error:
                raise TypeError(f"The background must hold numbers only ({error}); turn categories into numbers.") from error
        rows = as_numbers("The background", rows)
        if rows.ndim < 2 or len(rows) == 0:
            raise ValueError(
                "The background must be n >= 1 samples: [n, m] of a table, [n, *tensor.shape] of other inputs. Got "
                f"{list(rows.shape)} instead."
            )
        object.__setattr__(self, "rows", rows.to("cpu", torch.float32))
        if not bool(torch.isfinite(self.rows).all()):
            raise ValueError("The background has values that are not finite; leave those rows out or fill them in.")
        if self.draws is not None and not (isinstance(self.draws, Integral) and self.draws >= 1):
            raise ValueError(f"The 'draws' parameter must be at least 1. Got {self.draws!r} instead.")

    @classmethod
    def default(cls, inputs: Inputs) -> Self:
        """Return the background that a table's encoder was given."""
        rows: Tensor | None = getattr(inputs, "background", None)
        if rows is None:
            raise ValueError(
                f"What should removed columns of {inputs.encoder!r} hold? Give the encoder background=rows, or the method a "
                "baseline: cocoax.Background(rows), a row, or cocoax.Constant(0.0)."
            )
        return cls(rows)

    def ready(self, inputs: Inputs) -> Background:
        """Return the same whose samples are stretched if they are pictures."""
        return replace(self, stretch=True) if inputs.feature_kind == "image" else self

    def __call__(self, explicand: Tensor) -> Tensor:
        """Return the mean of the samples, or the drawn ones ``[draws, *tensor.shape]``."""
        samples = self.rows[:, None] if self.rows.ndim == explicand.ndim == 2 else self.rows  # rows have one channel
        samples = stretched(samples, explicand) if self.stretch else samples
        if samples.shape[1:] != explicand.shape:
            raise ValueError(
                f"The background holds samples of shape {list(self.rows.shape[1:])} but the input has shape "
                f"{list(explicand.shape)}; they must be preprocessed alike, or be rows of the same table."
            )
        if self.draws is None:
            return samples.mean(0)
        if self.draws >= len(samples):
            return samples
        chosen = np.sort(stream(self.seed).choice(len(samples), self.draws, replace=False))
        return samples[torch.from_numpy(chosen)]


@dataclass(frozen=True)
class Several(Baseline):
    """Several baselines, over which every score is averaged: what one of them leaves, another may take away.

    Costs as many times the encoder work as there are.

    Args:
        baselines: at least one, such as ``(Blur(121, 20), Mean())``; one that has several versions counts once for each.

    """

    made_for = "images"
    baselines: tuple[Baseline, ...]

    def __post_init__(self) -> None:
        given = as_items("The 'baselines' parameter", self.baselines)
        wrong = [one for one in given if not isinstance(one, Baseline)]
        if wrong or not given:
            got = shown(wrong[0]) if wrong else "none"
            raise TypeError(f"The 'baselines' parameter must list baselines, such as (Blur(), Mean()). Got {got} instead.")
        object.__setattr__(self, "baselines", tuple(given))

    def __call__(self, explicand: Tensor) -> Tensor:
        """Return all of them, ``[K, *tensor.shape]``."""
        return torch.cat([one(explicand).to(explicand).reshape(-1, *explicand.shape) for one in self.baselines])


def _places(explicand: Tensor) -> tuple[int, ...]:
    """Return all dimensions but that of channels."""
    return tuple(range(1, explicand.ndim))


# --- spectra ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Silence(Constant):
    """Nothing at all: zeros in place of samples or spectra."""

    made_for = "sounds"
    called = "silence"


@dataclass(frozen=True)
class SpectralNoise(Baseline):
    """Noise with the spectrum of the whole sound: as loud at every frequency, but without any course in time.

    Every frequency of the whole sound gets a random phase. Spectra are those of that noise: random numbers in place of them
    would not fit together, and half as loud a noise would be heard.

    Args:
        seed: of the noise; the same for the same seed.

    """

    made_for = "sounds"
    called = "noise"
    seed: int = 0

    def __call__(self, explicand: Tensor) -> Tensor:
        """Return noise for samples ``[1, T]``, or for spectra ``[2, F, frames]``."""
        if explicand.ndim == 3:
            return to_spectra(self(from_spectra(explicand[None]))[0])
        spectrum = torch.fft.rfft(explicand)
        phases = stream(self.seed).uniform(0, 2 * np.pi, spectrum.shape[-1])
        phases[0] = 0  # the mean, and the highest frequency of an even number of samples, have a sign, not a phase
        if explicand.shape[-1] % 2 == 0:
            phases[-1] = 0
        turned = torch.from_numpy(phases).to(explicand)
        noise: Tensor = torch.fft.irfft(spectrum * torch.polar(torch.ones_like(turned), turned), explicand.shape[-1])
        return noise


# --- removals of words and patches ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenRemoval(Removal):
    """A way to remove words.

    Args:
        token: id of the token that takes part: in place of a removed one, or as what an empty text consists of. Filled in
            from the encoder where it is not given.

    """

    made_for = "texts"
    token: int | None = None

    def __post_init__(self) -> None:
        if self.token is not None:
            check_count("token", self.token, 0)

    @abstractmethod
    def remove(self, explicand: Explicand, kept: Tensor) -> list[Tensor]:
        """Return the text with some features kept and the rest removed, for every row of ``kept [n, m]``."""

    def baseline_input(self, explicand: Explicand) -> Tensor:
        """Return the text without its words."""
        return self.remove(explicand, torch.zeros(1, *explicand.shape))[0]

    def masked(self, explicand: Explicand, baseline_input: Tensor, kept: Tensor) -> list[Tensor]:
        """Return the texts."""
        return self.remove(explicand, kept)

    def ready(self, inputs: Inputs) -> TokenRemoval:
        """Return the same with its token filled in from the tokenizer."""
        if self.token is not None:
            return self
        pad: int | None = getattr(inputs, "pad", None)
        if pad is None:
            raise ValueError(
                f"The tokenizer of {inputs.encoder!r} has no padding token; name what an empty text consists of: "
                f"{type(self).__name__}(token_id)."
            )
        return replace(self, token=pad)


@dataclass(frozen=True)
class MaskToken(TokenRemoval):
    """Each token of a removed word becomes the tokenizer's mask token; the others stay where they are."""

    called = "mask"

    def ready(self, inputs: Inputs) -> MaskToken:
        """Return the same with the tokenizer's mask token."""
        if self.token is not None:
            return self
        mask: int | None = getattr(inputs, "mask", None)
        if mask is None:
            raise ValueError(
                f"The tokenizer of {inputs.encoder!r} has no mask token; remove words by baseline='deletion' or 'attention', "
                "or name a token to put in their place: cocoax.MaskToken(token_id)."
            )
        return replace(self, token=mask)

    def embedded(self, inputs: Embeddings) -> _Embedded:
        """Return the embedding of the mask token in place of those of the words."""
        ready = self.ready(inputs)
        assert ready.token is not None
        return _Embedded(inputs.with_words([], ready.token), ready)

    def remove(self, explicand: Explicand, kept: Tensor) -> list[Tensor]:
        """Return ids of the same length."""
        assert self.token is not None
        return list(torch.where(explicand.elements_kept(kept.bool()), explicand.tensor, self.token))


@dataclass(frozen=True)
class Deletion(TokenRemoval):
    """Removed words are cut out, and what comes after them moves up."""

    called = "deletion"

    def remove(self, explicand: Explicand, kept: Tensor) -> list[Tensor]:
        """Return ids of different lengths."""
        rows = explicand.elements_kept(kept.bool())
        return [explicand.tensor[row] if bool(row.any()) else self._empty() for row in rows]

    def in_order(self, explicand: Explicand, kept: Tensor) -> Tensor:
        """Return short texts together with short ones."""
        return torch.argsort(self._lengths(explicand.elements_kept(kept.bool())), stable=True)

    def _lengths(self, rows: Tensor) -> Tensor:
        return rows.sum(1).clamp(min=1)

    def _empty(self) -> Tensor:
        """Return what stands for a text without any token, where the tokenizer adds no special ones."""
        return torch.tensor([self.token])


@dataclass(frozen=True)
class AttentionMask(Deletion):
    """Removed words stay in place, but no other token attends to them and they are left out of the mean."""

    called = "attention"

    def remove(self, explicand: Explicand, kept: Tensor) -> list[Tensor]:
        """Return ids over attention masks, ``[2, L]``."""
        rows = explicand.elements_kept(kept.bool())
        return [torch.stack([explicand.tensor, row.long()]) if bool(row.any()) else self._empty() for row in rows]

    def _lengths(self, rows: Tensor) -> Tensor:
        return torch.where(rows.any(1), rows.shape[1], 1)


# --- drop tokens ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DropTokens(Removal):
    """Removed patches are left out of the tokens of a vision transformer; the others keep their places.

    There is nothing to put in place, so no baseline to choose, and half the tokens take half the time. Class tokens and
    registers stay. With all patches dropped they are all there is; of an encoder without any (SigLIP, or the mean over
    patches) the baseline input is a picture of zeros, which is the mean colour of most.

    Features are segments of whole patches, or cells of them, as equal as their number allows. Maps show the value of its part
    at every pixel, and ``features`` has one for each.

    Args:
        grid: cells, a number or (rows, columns); by default those of the method (``Rise(grid=7)``), and where it has none,
            as curves and ``Occlusion``, one for each patch.

    """

    made_for = "pictures and vision transformers"
    grid: int | tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.grid is not None:
            check_sides(self.grid)

    def with_features(self, explicand: Explicand, encoder: Encoder, grid: int | tuple[int, int] | None = None) -> Explicand:
        """Return the picture with cells of whole patches as its features; one that has features of its own is checked."""
        patches = patches_of(encoder, explicand.tensor)
        (height, width), (rows, columns) = patches.size, patches.grid
        if explicand.tree is not None and explicand.label_map is not None:
            labels = _in_patches(explicand.label_map, height, width, rows, columns)
            return replace(explicand, feature_ids=labels, tree=None)
        if explicand.feature_ids is not None:
            _check_whole(explicand.feature_ids, height, width, rows, columns)
            return explicand
        asked = self.grid or grid or (rows, columns)
        across = check_sides(asked)
        if across[0] > rows or across[1] > columns:
            raise ValueError(
                f"A grid of {across[0]} x {across[1]} is finer than the {rows} x {columns} patches that {encoder.name!r} "
                "cuts a picture into; use a smaller grid."
            )
        cells = grid_segments(rows, columns, across)
        members = torch.full(tuple(explicand.tensor.shape[1:]), -1)  # an incomplete patch at the border is never seen
        members[: rows * height, : columns * width] = cells.repeat_interleave(height, 0).repeat_interleave(width, 1)
        return replace(explicand, feature_ids=members)

    def encoder_for(self, encoder: Encoder, explicand: Explicand) -> Encoder:
        """Return the encoder that leaves tokens out."""
        if isinstance(encoder.module, Shortened):
            return encoder
        return without_patches(encoder, patches_of(encoder, explicand.tensor))

    def baseline_input(self, explicand: Explicand) -> Tensor:
        """Return the picture over a mask that keeps nothing, ``[C + 1, H, W]``."""
        return torch.cat([explicand.tensor, torch.zeros_like(explicand.tensor[:1])])

    def masked(self, explicand: Explicand, baseline_input: Tensor, kept: Tensor) -> Tensor:
        """Return the picture over masks, ``[n, C + 1, H, W]``."""
        pictures = explicand.tensor.expand(len(kept), *explicand.tensor.shape)
        return torch.cat([pictures, explicand.elements_kept(kept).to(pictures)], dim=1)

    def in_order(self, explicand: Explicand, kept: Tensor) -> Tensor:
        """Return those with as many patches left together."""
        return torch.argsort(explicand.elements_kept(kept).flatten(1).sum(1), stable=True)


def _in_patches(labels: Tensor, height: int, width: int, rows: int, columns: int) -> Tensor:
    """Return segments ``[H, W]`` made of whole patches: each patch belongs to the segment that has most of it."""
    inside = labels[: rows * height, : columns * width].reshape(rows, height, columns, width)
    most = inside.transpose(1, 2).flatten(2).mode(-1).values
    numbers = torch.unique(most, return_inverse=True)[1]  # a segment may have most of no patch
    snapped = torch.full_like(labels, -1)
    snapped[: rows * height, : columns * width] = numbers.repeat_interleave(height, 0).repeat_interleave(width, 1)
    return snapped


def _check_whole(members: Tensor, height: int, width: int, rows: int, columns: int) -> None:
    """Raise unless features are made of whole patches."""
    fits = members.ndim == 2
    if fits:
        inside = members[: rows * height, : columns * width].reshape(rows, height, columns, width)
        fits = bool((inside == inside[:, :1, :, :1]).all())
    if not fits:
        raise ValueError(
            f"DropTokens removes whole patches of {height} x {width} pixels, and features of this input cut through "
            "them; leave out its 'feature_ids', or make them of whole patches."
        )


# --- removals by name -----------------------------------------------------------------------------------------------------


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


# --- presets --------------------------------------------------------------------------------------------------------------


_MAX_OTHER_PICTURES = 3  # other pictures that scores are averaged over
# docs/explanation/removals.md has how good their maps are.
PRESETS: dict[str, Baseline] = {
    "blur": Blur(),
    "strong blur": Blur(*_STRONG),
    "mean colour": Mean(),
    "strong blur and mean colour": Several((Blur(*_STRONG), Mean())),
}
_TOKEN_PRESETS = {"drop tokens": DropTokens()}  # of a vision transformer
DEFAULT_PRESET = "strong blur"  # what all take unless told otherwise


def presets_of(encoder: Encoder) -> dict[str, Removal]:
    """Return what may be chosen by name with an encoder: tokens are dropped only where it has them."""
    noise = stream(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    try:
        patches_of(encoder, encoder.explicand(Image.fromarray(noise)).tensor)
    except ValueError:
        return {**PRESETS}
    return {**PRESETS, **_TOKEN_PRESETS}


def preset(name: str, inputs: Inputs, seed: int = 0) -> Any:
    """Return the baseline that a name, a picture's path or a folder of pictures stands for.

    Of a folder ``_MAX_OTHER_PICTURES`` are drawn; pictures are stretched over the explicand. Raise if there is no such thing.
    """
    plain = name.replace("-", " ").strip().lower()
    known = {**PRESETS, **_TOKEN_PRESETS}
    if plain in known:
        return known[plain]
    path = Path(name)
    if path.is_dir():
        files: Sequence[Path] = image_files(path)
        chosen = stream(seed).choice(len(files), min(_MAX_OTHER_PICTURES, len(files)), replace=False)
        pictures = [files[index] for index in sorted(chosen)]
    else:
        pictures = [path] if path.is_file() else []
    if pictures:
        return Several(tuple(Fixed(inputs.explicand(picture).tensor, stretch=True) for picture in pictures))
    names = ", ".join(one.replace(" ", "-") for one in known)
    raise ValueError(f"Removed parts become one of {names}, a picture, or pictures of a folder. Got {name!r} instead.")

"""Patches of a vision transformer, and the same encoder without the tokens of some patches.

A plain vision transformer cuts a picture into patches by one convolution and adds a position embedding to each. Its blocks
then treat the tokens as a set: neither their order nor their number matters. A patch is therefore removed by dropping its
token before the first block; the other tokens keep their values and position embeddings.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from cocoax.encoders.encoder import Encoder
from cocoax.encoders.fast_encoder import agree
from cocoax.encoders.forward import locked

_KNOWN: WeakKeyDictionary[Encoder, dict[torch.Size, _Patches]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class _Patches:
    """The patches that an encoder cuts pictures of one size into.

    Attributes:
        size: height and width of a patch, in pixels.
        grid: rows and columns of patches.
        channels: of a picture.
        before: number of tokens before those of patches (class token, registers), which are never dropped.
        alone: whether the representation of these tokens without any patch is finite.
        block: the first block that takes the tokens.

    """

    size: tuple[int, int]
    grid: tuple[int, int]
    channels: int
    before: int
    alone: bool
    block: nn.Module

    @property
    def count(self) -> int:
        """The number of patches."""
        return self.grid[0] * self.grid[1]


def patches_of(encoder: Encoder, picture: Tensor) -> _Patches:
    """Return how an encoder cuts a picture ``[C, H, W]`` into patches; raise if its tokens cannot be dropped.

    This is checked by forward passes with permuted tokens, which must give the same representation.
    """
    known = _KNOWN.setdefault(encoder, {})
    if picture.shape not in known:
        known[picture.shape] = _found(encoder, picture)
    return known[picture.shape]


def without_patches(encoder: Encoder, patches: _Patches) -> Encoder:
    """Return the encoder that also takes a picture with a mask as last channel, ``[C + 1, H, W]``, and drops masked patches.

    If no token is left, neither of a patch nor a class token, the representation is that of a picture of zeros.
    """
    other = copy.copy(encoder)
    other.inputs = copy.copy(encoder.inputs)
    other.inputs.any_shape = True  # pictures with a mask and without
    other.module = Shortened(encoder, patches)
    other._submodule = None  # the encoder itself knows its layer
    return other


class Shortened(nn.Module):
    """Representations of pictures with masks ``[n, C + 1, H, W]``; pictures with equally many patches form a batch."""

    def __init__(self, encoder: Encoder, patches: _Patches) -> None:
        super().__init__()
        self.owner = encoder.owner  # whose device and precision are those of this
        self.encode = encoder.__call__
        self.patches = patches
        self.training = False  # of this wrapper alone

    def forward(self, batch: Tensor) -> Tensor:
        """``[n, C + 1, H, W]``, or pictures alone, ``[n, C, H, W]``, to ``[n, d]``."""
        (height, width), (rows, columns) = self.patches.size, self.patches.grid
        if batch.shape[1] == self.patches.channels:
            return self.encode(batch)
        kept = batch[:, -1, ::height, ::width][:, :rows, :columns].flatten(1) > 0.5
        pictures = batch[:, :-1]
        counts = kept.sum(1)
        parts, order = [], []
        for count in sorted(set(counts.tolist())):
            members = (counts == count).nonzero()[:, 0]
            if count or self.patches.alone:
                parts.append(self._with(pictures[members], kept[members]))
            else:
                parts.append(self.encode(torch.zeros_like(pictures[:1])).expand(len(members), -1))
            order.append(members)
        return torch.cat(parts)[torch.cat(order).argsort()]

    def _with(self, pictures: Tensor, kept: Tensor) -> Tensor:
        """Return representations of pictures ``[n, C, H, W]`` from as many kept patches, ``[n, patches]`` booleans."""
        n, before = len(kept), self.patches.before
        chosen = kept.nonzero()[:, 1].view(n, -1) + before
        at = torch.cat([torch.arange(before, device=kept.device).expand(n, -1), chosen], dim=1)[..., None]
        with _tokens(self.owner, self.patches.block, lambda tokens: tokens.gather(1, at.expand(-1, -1, tokens.shape[2]))):
            return self.encode(pictures)


@contextmanager
def _tokens(owner: nn.Module | None, block: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Change the tokens that a block is given, for this thread's forward passes."""

    def before(_block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (change(args[0]), *args[1:]), kwargs

    with locked(owner), block.register_forward_pre_hook(before, with_kwargs=True):
        yield


# --- finding them ---------------------------------------------------------------------------------------------------------


def _found(encoder: Encoder, picture: Tensor) -> _Patches:
    owner = encoder.owner
    if owner is None:
        _refuse(encoder, "is a function, whose layers cannot be seen")
    batch = encoder.collate(torch.stack([picture.detach(), picture.detach().flip(-1)]))
    with torch.no_grad():
        expected, convolutions, blocks = _watched(encoder, owner, batch)
        if len(convolutions) != 1 or not _cuts(convolutions[0][0]):
            why = f"has {len(convolutions)} convolutions" if convolutions else "has no convolution that cuts pictures up"
            _refuse(encoder, f"{why}, where a vision transformer has one that cuts the picture into patches")
        convolution, (rows, columns) = convolutions[0]
        block, tokens = blocks[0] if blocks else (owner, 0)
        if tokens < rows * columns:
            _refuse(encoder, "has no blocks that take one token for each patch")
        height, width = convolution.kernel_size
        found = _Patches((height, width), (rows, columns), convolution.in_channels, tokens - rows * columns, False, block)
        if not all(_same_in(order, encoder, found, batch, expected) for order in _orders(found.count)):
            _refuse(
                encoder,
                "does not treat its tokens as a set: its layers or its pooling depend on where a token stands (windows as in "
                "Swin, relative or rotary positions, pooling='flatten')",
            )
        return replace(found, alone=found.before > 0 and _finite_alone(encoder, found, batch))


def _refuse(encoder: Encoder, why: str) -> NoReturn:
    raise ValueError(
        f"DropTokens leaves patches out of the tokens of a vision transformer, but {encoder.name!r} {why}. Remove pixels "
        "instead: cocoax.Blur(), Mean() or Constant(0.0)."
    )


_Conv = tuple[nn.Conv2d, tuple[int, int]]


def _watched(encoder: Encoder, owner: nn.Module, batch: Tensor) -> tuple[Tensor, list[_Conv], list[tuple[nn.Module, int]]]:
    """Return representations; the convolutions that ran, with the size of what they gave; and the blocks, with their tokens.

    Blocks are members of a list or a sequence of modules that take a sequence of vectors for each picture.
    """
    convolutions: list[_Conv] = []
    blocks: list[tuple[nn.Module, int]] = []

    def after(module: nn.Module, _inputs: Any, output: Tensor) -> None:
        assert isinstance(module, nn.Conv2d)
        convolutions.append((module, (output.shape[2], output.shape[3])))

    def before(module: nn.Module, args: tuple[Any, ...]) -> None:
        if args and isinstance(args[0], Tensor) and args[0].ndim == 3 and len(args[0]) == len(batch):
            blocks.append((module, args[0].shape[1]))

    lists = (part for part in owner.modules() if isinstance(part, nn.ModuleList | nn.Sequential))
    with locked(owner), ExitStack() as hooks:
        for part in owner.modules():
            if isinstance(part, nn.Conv2d):
                hooks.enter_context(part.register_forward_hook(after))
        for member in chain.from_iterable(lists):
            hooks.enter_context(member.register_forward_pre_hook(before))
        return encoder(batch), convolutions, blocks


def _cuts(convolution: nn.Conv2d) -> bool:
    """Whether a convolution looks at patches that neither overlap nor leave gaps."""
    size = convolution.kernel_size
    return convolution.stride == size and max(size) > 1 and convolution.padding in ((0, 0), "valid")


def _orders(count: int) -> Iterator[Tensor]:
    """Yield other orders of tokens: backwards, in which even two change places, and two shuffled ones.

    Backwards is not enough: windows and distances between tokens survive it.
    """
    yield torch.arange(count).flip(0)
    for seed in (0, 1):
        yield torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def _same_in(order: Tensor, encoder: Encoder, patches: _Patches, batch: Tensor, expected: Tensor) -> bool:
    at = torch.cat([torch.arange(patches.before), patches.before + order])
    try:
        with _tokens(encoder.owner, patches.block, lambda tokens: tokens[:, at.to(tokens.device)]):
            return agree(encoder(batch), expected)
    except Exception:  # whatever a module says about tokens that it did not expect
        return False


def _finite_alone(encoder: Encoder, patches: _Patches, batch: Tensor) -> bool:
    """Whether the tokens that come before those of patches make a representation by themselves."""
    try:
        with _tokens(encoder.owner, patches.block, lambda tokens: tokens[:, : patches.before]):
            return bool(torch.isfinite(encoder(batch)).all())
    except Exception:  # a mean over no tokens, say
        return False

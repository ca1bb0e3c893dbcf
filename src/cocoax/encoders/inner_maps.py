"""Feature maps inside an encoder: what it makes of each place of a picture, half way to the representation."""

from __future__ import annotations

import math
from collections import OrderedDict
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from cocoax.encoders.forward import locked
from cocoax.store import digest

if TYPE_CHECKING:
    from cocoax.encoders.encoder import Encoder

_STRIDES = (8, 16)  # pixels of the picture for one of the map, of the two maps of a convolutional network
_KEPT = 8  # pictures whose maps are kept in memory
_KNOWN: WeakKeyDictionary[nn.Module, OrderedDict[str, list[Tensor]]] = WeakKeyDictionary()
_DEPTHS = (0.5, 1.0)  # of the blocks of a transformer


def inner_maps(encoder: Encoder, picture: Tensor) -> list[Tensor]:
    """Return up to two feature maps ``[d, h, w]`` of a prepared picture ``[C, H, W]``; none of what has no layers to see.

    Of a convolutional network the last map of each of two resolutions, of a transformer the patch tokens of two depths.
    Those of the last pictures are kept: who asks about one again waits for no forward pass.
    """
    owner = encoder.owner
    if owner is None or picture.ndim != 3:
        return []
    known, key = _KNOWN.setdefault(owner, OrderedDict()), digest(picture, *encoder._weights.version())
    maps = known.get(key)
    if maps is None:
        maps = known[key] = _chosen(*_seen(encoder, owner, picture), picture)
        while len(known) > _KEPT:
            known.popitem(last=False)
    return maps


def _chosen(maps: dict[tuple[int, int], Tensor], tokens: list[Tensor], picture: Tensor) -> list[Tensor]:
    """Return two of the maps of each size, or the tokens of two depths."""
    if tokens:
        return [tokens[max(0, math.ceil(depth * len(tokens)) - 1)] for depth in _DEPTHS]
    side = math.sqrt(picture.shape[1] * picture.shape[2])
    by_stride = {side / math.sqrt(h * w): one for (h, w), one in maps.items()}
    fitting = [stride for stride in by_stride if 2 < stride <= 32]
    chosen = {min(fitting, key=lambda stride: abs(math.log2(stride / wanted))) for wanted in _STRIDES} if fitting else set()
    return [by_stride[stride] for stride in sorted(chosen)]


def _seen(encoder: Encoder, owner: nn.Module, picture: Tensor) -> tuple[dict[tuple[int, int], Tensor], list[Tensor]]:
    """Return the last map of each size, and the tokens of every block as maps, of one forward pass.

    Blocks are members of a list or a sequence of modules; without any that give maps, all modules count.
    """
    of_blocks: dict[tuple[int, int], Tensor] = {}
    of_others: dict[tuple[int, int], Tensor] = {}
    tokens: list[Tensor] = []
    cut: list[tuple[int, int]] = []  # rows and columns of patches

    def after(module: nn.Module, _inputs: Any, output: Any) -> None:
        output = output[0] if isinstance(output, tuple) and output else output
        if not isinstance(output, Tensor) or len(output) != 1 or not output.is_floating_point():
            return
        if output.ndim == 4 and min(output.shape[2:]) > 1:
            if isinstance(module, nn.Conv2d) and module.stride == module.kernel_size and max(module.kernel_size) > 1:
                cut.append((output.shape[2], output.shape[3]))
            maps = of_blocks if module in members else of_others
            maps[output.shape[2], output.shape[3]] = output[0].float().cpu()
        elif output.ndim == 3 and cut and module in members:
            rows, columns = cut[0]
            if output.shape[1] >= rows * columns:
                tokens.append(output[0, -rows * columns :].T.reshape(-1, rows, columns).float().cpu())

    members = {member for part in owner.modules() if isinstance(part, nn.ModuleList | nn.Sequential) for member in part}
    with locked(owner), torch.no_grad(), ExitStack() as hooks:
        for part in owner.modules():
            hooks.enter_context(part.register_forward_hook(after))
        encoder(encoder.collate([picture]))
    return of_blocks or of_others, tokens

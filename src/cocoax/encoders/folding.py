"""Batch normalisation folded into the convolution before it: the same function in less time.

In eval mode a normalisation is a scale and a shift of each channel, which the convolution's weights can do on the way.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def agree(output: Tensor, expected: Tensor) -> bool:
    """Whether representations ``[n, d]`` are the expected ones but for rounding.

    Each entry is held against the size it has itself, so that one that is huge does not hide what happens in the others;
    those that are smaller than most against the size of most.
    """
    if output.shape != expected.shape:
        return False
    sizes = expected.abs().amax(0)
    typical = sizes[sizes > 0].median() if bool(sizes.any()) else sizes.new_zeros(())
    return bool(((output - expected).abs() <= 1e-4 * sizes.clamp(min=typical)).all())


def can_be_folded(module: nn.Module) -> bool:
    """Whether there is anything to fold, in a precision that allows it, and no hook that would notice."""
    parts = list(module.modules())
    precise = all(p.dtype in (torch.float32, torch.float64) for p in module.parameters() if p.is_floating_point())
    hooked = any(
        part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks for part in parts
    )
    return precise and not hooked and any(isinstance(part, _NORMS) for part in parts)


def fold(module: nn.Module, run: Callable[[nn.Module], object]) -> nn.Module | None:
    """Return a folded copy of a module, or None if nothing can be folded; ``run`` runs the copy on examples."""
    try:
        copied = shallow_copy(module)
        return copied if _fold_norms(copied, lambda: run(copied)) else None
    except Exception:  # a module that cannot be copied serves as it is
        return None


def shallow_copy(module: nn.Module, *, own_gradients: bool = False) -> nn.Module:
    """Return the same network of modules around the same weights, in eval mode.

    With ``own_gradients``, a backward pass through the copy leaves no gradients in the parameters of the original.
    """
    weights = {id(tensor): tensor for tensor in chain(module.parameters(), module.buffers())}
    if own_gradients:
        weights |= {id(part): nn.Parameter(part.detach(), part.requires_grad) for part in module.parameters()}
    copied: nn.Module = copy.deepcopy(module, weights)
    for part in copied.modules():  # not .eval(), which some modules take as the moment to change their weights
        part.training = False
    return copied


def _fold_norms(module: nn.Module, forward: Callable[[], object]) -> bool:
    """Fold, in place, each normalisation that directly follows a convolution; ``forward`` runs the module on examples.

    Which follows which is seen in that run, and each fold is tried on noise there, so that convolutions which do something
    else with their weights, and modules that run more than once, stay as they are. Returns whether any was folded.
    """
    made: dict[int, tuple[nn.Module, Tensor, Tensor, int]] = {}
    calls: Counter[nn.Module] = Counter()
    pairs: dict[nn.Module, tuple[nn.Module, nn.Module]] = {}

    def after_convolution(convolution: nn.Module, inputs: Any, output: Tensor) -> None:
        calls[convolution] += 1
        made[id(output)] = convolution, inputs[0], output, output._version

    def after_norm(norm: nn.Module, inputs: Any, output: Tensor) -> None:
        calls[norm] += 1
        convolution, given, before, version = made.pop(id(inputs[0]), (norm, output, output, 0))
        if before is inputs[0] and before._version == version:  # nothing has worked on it in place
            folded = fuse_conv_bn_eval(convolution, norm)  # type: ignore[type-var, arg-type]
            noise = torch.randn(given[:1].shape, generator=torch.Generator().manual_seed(0)).to(given)
            # Not calls, which hooks would notice.
            outputs = folded.forward(noise), norm.forward(convolution.forward(noise))
            if agree(*(each.movedim(1, -1).flatten(0, -2) for each in outputs)):
                pairs[norm] = convolution, folded

    with ExitStack() as hooks:
        for part in module.modules():
            if isinstance(part, _CONVOLUTIONS):
                hooks.enter_context(part.register_forward_hook(after_convolution))
            elif isinstance(part, _NORMS) and part.track_running_stats:
                hooks.enter_context(part.register_forward_hook(after_norm))
        forward()
    once = {norm: pair for norm, pair in pairs.items() if calls[norm] == calls[pair[0]] == 1}
    for convolution, folded in once.values():
        # Weights in the memory layout of the inputs need not be turned around in every pass.
        if isinstance(folded, nn.Conv2d):
            folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        for name in ("weight", "bias"):
            setattr(convolution, name, nn.Parameter(getattr(folded, name).detach(), requires_grad=False))
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if child in once:
                setattr(parent, name, nn.Identity())
    return bool(once)

"""The forward pass: a module in eval mode, alone with its thread, and one vector for each input."""

from __future__ import annotations

import difflib
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

Pooling = Literal["mean", "flatten", "first"]
# How far rounding moves what is computed from representations in single precision: every layer adds its own.
ROUNDING = 16 * torch.finfo(torch.float32).eps

# A forward pass sets the mode of the module and hooks into its layers, so that one module serves one thread at a time.
_LOCKS: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


class ForwardError(RuntimeError):
    """A forward pass failed; the message names the encoder and the batch."""


def owner_of(module: Callable[..., Any]) -> nn.Module | None:
    """Return the module behind a callable, if it can be seen: itself, or what it is a method of."""
    owner = module if isinstance(module, nn.Module) else getattr(module, "__self__", None)
    return owner if isinstance(owner, nn.Module) else None


def first_parameter(owner: nn.Module | None) -> Tensor:
    """Return a floating-point parameter or buffer of a module, for its device and precision; of none, an empty tensor."""
    for tensor in chain(owner.parameters(), owner.buffers()) if owner is not None else ():
        if tensor.is_floating_point():
            return tensor
    return torch.empty(0, dtype=torch.float32)


def layer_name(owner: nn.Module | None, layer: str | nn.Module, name: str) -> str:
    """Return the name of a layer of the encoder called ``name``; raise if it is a module that is no part of it."""
    if isinstance(layer, str):
        return layer
    parts = [] if owner is None else owner.named_modules()
    for known, part in parts:
        if part is layer and known:
            return str(known)
    raise ValueError(f"The layer {type(layer).__name__} is no part of the encoder {name!r}; pass one of its own modules.")


def layer_named(owner: nn.Module | None, layer: str, name: str) -> nn.Module:
    """Return the submodule of this name in the encoder called ``name``; an error lists close names."""
    names = [known for known, _ in owner.named_modules() if known] if owner is not None else []
    if owner is None or layer not in names:
        close = difflib.get_close_matches(layer, names, n=5, cutoff=0.3) or names[:5]
        hint = f"close ones are {', '.join(close)}" if close else "it is not an nn.Module with layers"
        raise ValueError(f"The encoder {name!r} has no layer {layer!r}; {hint}.")
    return owner.get_submodule(layer)


class ModelFunction(nn.Module):
    """A function of a model and a batch, as a module; the model is left in the mode that it has.

    Args:
        model: becomes the part ``model`` of the module.
        function: from the model, a batch and options to representations.
        options: of the function, the same for every batch.

    """

    def __init__(self, model: nn.Module, function: Callable[..., Tensor], **options: Any) -> None:
        super().__init__()
        self.model, self.function, self.options = model, function, options
        self.training = False  # of this wrapper alone

    def forward(self, batch: Any) -> Tensor:
        """Return what the function gives."""
        return self.function(self.model, batch, **self.options)


_COUNTS: ContextVar[list[int] | None] = ContextVar("counts", default=None)


@contextmanager
def counted_inputs() -> Iterator[list[int]]:
    """Collect the sizes of the batches that modules of encoders see meanwhile, in this thread."""
    sizes: list[int] = []
    token = _COUNTS.set(sizes)
    try:
        yield sizes
    finally:
        _COUNTS.reset(token)


def note_batch(size: int) -> None:
    """Note the size of a batch, for :func:`counted_inputs`."""
    if (sizes := _COUNTS.get()) is not None:
        sizes.append(size)


def run_module(module: Callable[..., Any], batch: Any, layer: nn.Module | None = None) -> Any:
    """Return what a module makes of a batch, in eval mode; or what its ``layer`` gave, None if that did not run."""
    owner = owner_of(module)
    with locked(owner), evaluating(owner):
        if layer is None:
            return module(batch)
        caught: list[Any] = []
        with layer.register_forward_hook(lambda _module, _inputs, output: caught.append(_copy(output))):
            module(batch)
    return caught[-1] if caught else None


def _copy(output: Any) -> Any:
    """Return what a layer gave, safe from later layers that work in place; of (hidden states, attentions, ...) the first."""
    if isinstance(output, tuple) and output and isinstance(output[0], Tensor):
        output = output[0]
    return output.clone() if isinstance(output, Tensor) else output


def pooled(output: Tensor, pooling: Pooling) -> Tensor:
    """Return one vector for each input, ``[n, d]``, of what a module or a layer gave."""
    if output.ndim <= 2:
        return output
    if pooling == "flatten":
        return output.flatten(1)
    if output.ndim == 3:  # [n, tokens, d]
        return output[:, 0] if pooling == "first" else output.mean(1)
    return output.flatten(2)[..., 0] if pooling == "first" else output.flatten(2).mean(2)  # [n, channels, positions...]


def by_shape(prepared: Sequence[Tensor], encode: Callable[[Sequence[Tensor]], Tensor]) -> Tensor:
    """Return representations of inputs of several shapes, in their order; those of one shape form a batch."""
    shapes = [tensor.shape for tensor in prepared]
    groups = [[index for index, own in enumerate(shapes) if own == shape] for shape in dict.fromkeys(shapes)]
    outputs = torch.cat([encode([prepared[index] for index in group]) for group in groups])
    return outputs[torch.tensor([index for group in groups for index in group]).argsort()]


@contextmanager
def locked(module: nn.Module | None) -> Iterator[None]:
    """Be alone with a module: other threads wait."""
    if module is None:
        yield
        return
    with _LOCKS_LOCK:
        lock = _LOCKS.setdefault(module, threading.RLock())
    with lock:
        yield


@contextmanager
def evaluating(module: nn.Module | None) -> Iterator[None]:
    """Put a module into eval mode for a while; every submodule gets its own mode back."""
    training = (
        [] if module is None else [part for part in module.modules() if getattr(part, "training", False)]
    )  # frozen scripts have no mode
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def frozen(module: nn.Module | None) -> Iterator[None]:
    """Take no gradients of the weights, which nobody asked for; every parameter is given back as it was."""
    trained = [] if module is None else [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Leave the global random states as they were, whichever of them a function draws from."""
    states = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.random.set_rng_state(states[2])


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError)
        and any(text in str(error) for text in ("can't allocate memory", "not enough memory", "out of memory"))
    )

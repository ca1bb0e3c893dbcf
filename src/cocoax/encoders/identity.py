"""Fingerprints: short digests that tell whether two encoders, or two inputs, are the same."""

from __future__ import annotations

import dis
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import chain
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cocoax.inputs import Inputs
from cocoax.storage import digest

# What has been looked at inside of `looking_once`, by what computes the digest.
_LOOKED_AT: ContextVar[dict[Callable[[], str], str] | None] = ContextVar("looked_at", default=None)


@contextmanager
def looking_once() -> Iterator[None]:
    """Take the weights for what they are at their first look, within this block and thread: looking reads all of them."""
    if _LOOKED_AT.get() is not None:
        yield
        return
    token = _LOOKED_AT.set({})
    try:
        yield
    finally:
        _LOOKED_AT.reset(token)


def look(compute: Callable[[], str]) -> str:
    """Return a digest, computed anew; inside of :func:`looking_once`, the one from its first computation there."""
    looked_at = _LOOKED_AT.get()
    if looked_at is None:
        return compute()
    if compute not in looked_at:
        looked_at[compute] = compute()
    return looked_at[compute]


class WeightsDigest:
    """The digest of a module's weights, computed again only when they changed."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._seen: object = None
        self._digest = ""

    def __call__(self) -> str:
        """Return the digest of structure, parameters and buffers (those that are not saved too: they count all the same)."""
        state = dict(chain(self._module.named_parameters(), self._module.named_buffers()))
        structure = [_structure(name, part) for name, part in self._module.named_modules()]
        seen = (structure, [(name, tensor.data_ptr(), _probe(tensor)) for name, tensor in state.items()])
        if seen != self._seen:
            tensors = [part for name, tensor in state.items() for part in (name, tensor)]
            self._digest = digest(*structure, *tensors)
            self._seen = seen
        return self._digest


def _structure(name: str, module: nn.Module) -> str:
    """Return what a module does apart from its weights and parts: its kind, its own forward code, its settings."""
    kind = type(module)
    text = f"{name} {kind.__module__}.{kind.__qualname__} {module.extra_repr()}"
    if kind.__module__.startswith("torch.nn.") or not isinstance(kind.forward, FunctionType):
        return text  # torch's own are fully told by that, and compiled ones cannot be looked into
    own = {**vars(kind), **vars(module), "training": False}  # in whatever mode it is left, it runs in eval mode
    read = _only_read(kind.forward.__code__)
    settings = {name: own[name] for name in read if name in own and not isinstance(own[name], nn.Module)}
    return f"{text} {describe((kind.forward, settings))}"


@lru_cache(maxsize=4096)  # code never changes, and one network has many modules of a kind
def _only_read(code: CodeType) -> frozenset[Any]:
    """Return names that code reads but never writes. Such attributes are settings; others count or record things."""
    steps = list(dis.get_instructions(code))
    written = {step.argval for step in steps if step.opname == "STORE_ATTR"}
    return frozenset(step.argval for step in steps if step.opname.startswith("LOAD_")) - written


def _probe(tensor: Tensor) -> tuple[object, int]:
    """Return cheap evidence of a change: the version counter, and a sum of all bits for writes that bypass it."""
    flat = tensor.detach().reshape(-1)
    raw = flat.cpu().view(torch.uint8).numpy()
    whole = len(raw) // 8 * 8
    version = None if tensor.is_inference() else tensor._version
    return version, int(raw[:whole].view(np.uint64).sum()) + int(raw[whole:].sum())


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def describe(value: Any, inside: tuple[int, ...] = ()) -> str:
    """Return what a value is, as text that is the same in every process.

    That is the code of a function and all it holds, the content of a tensor, ``repr`` of an object that has one of its own
    and else what it holds.
    """
    if id(value) in inside:
        return "again"
    within = (*inside, id(value))
    if isinstance(value, Tensor | np.ndarray):
        return digest(value)
    if isinstance(value, nn.Module):
        return WeightsDigest(value)()
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{describe(key, within)}: {describe(item, within)}' for key, item in value.items()))}}}"
    if isinstance(value, set | frozenset):
        return f"set({', '.join(sorted(describe(item, within) for item in value))})"
    if isinstance(value, tuple | list):
        return f"({', '.join(describe(item, within) for item in value)})"
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, partial):
        return f"partial {describe((value.func, value.args, value.keywords), within)}"
    if isinstance(value, MethodType):
        return f"method {describe((value.__func__, value.__self__), within)}"
    if isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or ()]
        if not _installed(value.__code__):  # globals of a library are its own affair: transformers keeps registries in them
            held += [value.__globals__[name] for name in _names(value.__code__) if _counts(value.__globals__.get(name))]
        return f"function {describe((value.__code__, value.__defaults__, value.__kwdefaults__, held), within)}"
    text = repr(value)
    short = " object at 0x" in text or isinstance(value, Inputs)  # which tells where it lies, or only some options
    if short and hasattr(value, "__dict__"):
        return f"{type(value).__module__}.{type(value).__qualname__} {describe(vars(value), within)}"
    return f"{type(value).__qualname__} {_without_addresses(text)}"


def describe_settings(settings: object, inputs: Inputs) -> list[str]:
    """Return what the settings of a kind of input are; raise unless they are a tuple, of which nothing is overlooked."""
    if not isinstance(settings, tuple):
        raise TypeError(
            f"The 'settings' of {type(inputs).__name__} must be a property that returns a tuple, of all options that change "
            f"the prepared tensor. Got {type(settings).__name__} instead."
        )
    return [describe(setting) for setting in settings]


@lru_cache(maxsize=4096)
def _code(code: CodeType) -> str:
    return f"{code.co_name} {code.co_code.hex()} {code.co_names} {describe(code.co_consts)}"


@lru_cache(maxsize=4096)
def _names(code: CodeType) -> list[str]:
    """Return the global names that code uses, nested functions included."""
    nested = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return sorted({*code.co_names, *nested})


def _installed(code: CodeType) -> bool:
    return any(folder in code.co_filename for folder in ("site-packages", "dist-packages"))


def _counts(value: Any) -> bool:
    """Whether a global is part of what a function does: not a library, a class or something built in."""
    own = isinstance(value, FunctionType) and not value.__module__.startswith(("torch", "numpy", "PIL", "cocoax"))
    return own or isinstance(
        value, bool | int | float | str | tuple | list | dict | Tensor | np.ndarray | nn.Module | partial
    )


def weights_digest_of(module: Callable[..., Any], name: str | None) -> Callable[[], str]:
    """Return what gives the digest of what computes the representations.

    A module, or a method of one, is known by its weights. Any other callable is known by the name its user gave it, or
    else by nothing that outlives this process.
    """
    owner = getattr(module, "__self__", None)
    if isinstance(module, nn.Module):
        return WeightsDigest(module)
    if isinstance(owner, nn.Module):
        weights = WeightsDigest(owner)
        return lambda: digest(weights(), getattr(module, "__name__", ""))
    if name is None:
        unnamed = f"unnamed-{uuid.uuid4().hex}"
        return lambda: unnamed
    return lambda: digest("callable", name, describe(module))  # a network that it closes over is described by its weights

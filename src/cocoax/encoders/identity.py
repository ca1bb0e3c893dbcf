"""Fingerprints: short digests that tell whether two encoders, or two inputs, are the same."""

from __future__ import annotations

import logging
import os
import re
import sys
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import chain
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cocoax.encoders.code import is_installed, lasting, methods_of, names_in, own_attributes, state_of, written_by
from cocoax.inputs import Inputs
from cocoax.store import digest

# What has been looked at inside of `looking_once`, by what computes the digest.
_LOOKED_AT: ContextVar[dict[Callable[[], str], str] | None] = ContextVar("looked_at", default=None)
# What a function may hold and cannot have changed by itself.
_CONSTANTS = (bool, int, float, str, bytes, tuple, frozenset, Tensor, np.ndarray, nn.Module, FunctionType, partial)
# Libraries whose objects say in words what they are, though not all that they hold.
_TELLING = {"cocoax", "numpy", "tokenizers", "torch", "transformers", *sys.stdlib_module_names}
_RECORDING = {"tokenizers", "transformers"}  # and those whose objects hold records of their calls, and settings in words


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


class Walk:
    """The way through a value that is being described: what it is a part of, and the objects described already.

    So a circle ends, and what many parts of a value share is described once. ``called`` are names that the code on the way
    reads: of an object that it holds, methods of these names run.
    """

    def __init__(
        self,
        path: tuple[int, ...] = (),
        texts: dict[int, tuple[object, str]] | None = None,
        called: frozenset[str] = frozenset(),
    ) -> None:
        self._path = path
        self.texts = {} if texts is None else texts
        self.called = called

    def __contains__(self, value: object) -> bool:
        return id(value) in self._path

    def into(self, value: object, called: frozenset[str] | None = None) -> Walk:
        """Return the way into one more value, whose code reads the names ``called``, if it is code."""
        return Walk((*self._path, id(value)), self.texts, self.called if called is None else called)


class Identity:
    """What an encoder's module is known by, and whether that means anything in another process.

    Args:
        module: what computes the representations. A module, or a method of one, is known by its weights, structure, code and
            settings. Any other callable is known by the name its user gave it and by what it holds, or else by nothing that
            outlives this process.
        name: given by the user.

    """

    def __init__(self, module: Callable[..., Any], name: str | None) -> None:
        owner = getattr(module, "__self__", None)
        self.recognisable = True
        self._note = ""
        self._final: str | None = None
        self._compute: Callable[[], str]
        if isinstance(module, nn.Module):
            self._compute = WeightsDigest(module)
        elif isinstance(owner, nn.Module):
            method = getattr(module, "__name__", "")
            weights = WeightsDigest(owner, method)
            self._compute = lambda: digest(weights(), method)
        elif name is None:
            self.recognisable = False
            unnamed = uuid.uuid4().hex
            self._compute = lambda: digest(unnamed, _as_run(module))
        else:  # a network that it closes over is described by its weights
            self._compute = lambda: digest("callable", name, describe(module))

    def __call__(self) -> str:
        """Return the digest as it is now."""
        now = self._compute() if self._final is None else self._final
        return digest(now, self._note) if self._note else now

    def freeze(self) -> None:
        """Take what there is as final, from the first time on."""
        self._final = self._compute() if self._final is None else self._final

    def changed(self, note: str | None) -> None:
        """Be another one from now on; ``note`` is what it is known by."""
        self.recognisable = self.recognisable and note is not None
        self._note = f"note {note}" if note is not None else uuid.uuid4().hex
        if self._final is not None:
            self._final = self._compute()


class WeightsDigest:
    """The digest of a module's weights, structure, code and settings; weights are digested only when they changed.

    Args:
        module: the module.
        method: the name of the method that runs, if it is not ``forward``.

    """

    def __init__(self, module: nn.Module, method: str = "forward") -> None:
        self._module = module
        self._method = method
        self._seen: object = None
        self._digest = ""

    def __call__(self, walk: Walk | None = None) -> str:
        """Return the digest of structure, parameters and buffers (those that are not saved too: they count all the same)."""
        state = dict(chain(self._module.named_parameters(), self._module.named_buffers()))
        tensors = [(name, plain) for name, tensor in state.items() for plain in _plain_tensors(tensor, name)]
        within = (walk or Walk()).into(self._module)
        structure = [
            _structure(name, part, self._method if part is self._module else "forward", within)
            for name, part in self._module.named_modules()
        ]
        seen = (structure, [(name, tensor.data_ptr(), _probe(tensor)) for name, tensor in tensors])
        if seen != self._seen:
            self._digest = digest(*structure, *chain.from_iterable(tensors))
            self._seen = seen
        return self._digest


def _structure(name: str, module: nn.Module, method: str, walk: Walk) -> str:
    """Return what a module does apart from its weights and parts: its kind, the code that runs, settings, hooks."""
    kind = type(module)
    parts = [f"{name} {kind.__module__}.{kind.__qualname__} {module.extra_repr()}"]
    within = walk.into(module)
    if isinstance(module, torch.jit.ScriptModule):
        parts.append(_script(module))
    elif kind.__module__.startswith("torch.nn."):  # of these the class tells the code; not all tell their settings in words
        plain = {  # without torch's own records, such as of the kind of hooks
            key: value
            for key, value in vars(module).items()
            if not key.startswith("_") and isinstance(value, bool | int | float | str)
        }
        activation = getattr(module, "activation", None)
        parts.append(f"{sorted({**plain, 'training': False}.items())} {getattr(activation, '__name__', '')}")
    else:
        methods = methods_of(kind, "forward", method)
        kept = [value for value in vars(module).values() if isinstance(value, FunctionType)]  # functions as attributes
        names = [names_in(each.__code__) for each in (*methods, *kept)]
        read = frozenset().union(*(each.reads for each in names)) - frozenset().union(*(each.writes for each in names))
        # In whatever mode it is left, it runs in eval mode.
        own = {key: value for key, value in own_attributes(kind).items() if not isinstance(value, FunctionType)}
        own |= {**vars(module), "training": False}
        settings = {key: own[key] for key in read if key in own and _is_setting(own[key])}
        parts.append(describe((methods, settings), walk.into(module, read)))
    if "forward" in vars(module):  # patched on this one
        parts.append(f"forward {_as_run(vars(module)['forward'], within)}")
    for hook in (*module._forward_pre_hooks.values(), *module._forward_hooks.values()):
        if not str(getattr(hook, "__module__", "")).startswith("cocoax."):  # ours only look
            parts.append(f"hook {_as_run(hook, within)}")
    if type(module)._save_to_state_dict is not nn.Module._save_to_state_dict:  # quantised modules pack their weights
        packed: dict[str, Any] = {}
        module._save_to_state_dict(packed, "", keep_vars=False)
        parts.append(f"packed {describe(packed, within)}")
    return " ".join(parts)


def _is_setting(value: object) -> bool:
    return not isinstance(value, nn.Module | property | staticmethod | classmethod)


def _script(module: torch.jit.ScriptModule) -> str:
    """Return what a module of TorchScript does: its code, and the constants that freezing made of its weights."""
    graph = getattr(module, "graph", None)  # a container has none
    if graph is None:
        return ""
    constants = [
        getattr(node, node.kindOf("value"))("value")
        for kind in ("prim::Constant", "prim::ConstantMKLDNNTensor")
        for node in graph.findAllNodes(kind)
        if node.hasAttribute("value")
    ]
    return describe((_without_addresses(getattr(module, "code", "")), constants))


def _plain_tensors(tensor: Tensor, name: str) -> list[Tensor]:
    """Return the plain tensors that a parameter or buffer consists of; raise if it has no values."""
    if tensor.device.type == "meta":
        raise ValueError(
            f"{name or 'A tensor'!r} is on the meta device: it has a shape but no values, so there is nothing to encode "
            "with. Load the weights first (module.to_empty(device='cpu'), then load_state_dict), or load the model without "
            "offloading."
        )
    tensor = tensor.detach()
    if tensor.is_quantized:
        each = tensor.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric)
        scale = tensor.q_per_channel_scales() if each else torch.tensor(tensor.q_scale())
        zero = tensor.q_per_channel_zero_points() if each else torch.tensor(tensor.q_zero_point())
        return [tensor.int_repr(), scale, zero]
    if tensor.layout == torch.sparse_coo:
        tensor = tensor.coalesce()
        return [tensor.indices(), tensor.values()]
    return [tensor if tensor.layout == torch.strided else tensor.to_dense()]


def _probe(tensor: Tensor) -> object:
    """Return cheap evidence of a change, of writes that bypass the version counter too."""
    raw = tensor.reshape(-1).cpu().view(torch.uint8).numpy()
    return zlib.crc32(raw.data)


def _without_addresses(text: str) -> str:
    return re.sub(r"( at |address=)0x[0-9a-fA-F]+", "", text)


def describe(value: Any, walk: Walk | None = None) -> str:
    """Return what a value is, as text that is the same in every process.

    That is the code of a function and all it holds, the content of a tensor, and of an object its ``repr``, what it holds and
    the code that runs when it is called.
    """
    walk = Walk() if walk is None else walk
    if value in walk:
        return "again"
    within = walk.into(value)
    if isinstance(value, Tensor):
        return digest(*_plain_tensors(value, ""))
    if isinstance(value, np.ndarray):
        return digest(value)
    if isinstance(value, nn.Module):
        return WeightsDigest(value)(walk)
    if isinstance(value, dict | MappingProxyType):
        return f"{{{', '.join(sorted(f'{describe(key, within)}: {describe(item, within)}' for key, item in value.items()))}}}"
    if isinstance(value, set | frozenset):
        return f"set({', '.join(sorted(describe(item, within) for item in value))})"
    if isinstance(value, tuple | list | deque):
        return f"({', '.join(describe(item, within) for item in value)})"
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, re.Pattern):  # of a long one the repr has the beginning
        return f"pattern {value.flags} {value.pattern!r}"
    if isinstance(value, partial):
        return f"partial {describe((value.func, value.args, value.keywords), within)}"
    if isinstance(value, MethodType):
        helpers = methods_of(type(value.__self__), value.__name__)
        within = walk.into(value, frozenset([value.__name__]))
        return f"method {describe((value.__func__, helpers, value.__self__), within)}"
    if isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        parts = (value.__code__, value.__defaults__, value.__kwdefaults__, held, _globals(value))
        return f"function {describe(parts, walk.into(value, names_in(value.__code__).reads))}"
    return _object(value, within)


def _object(value: Any, within: Walk) -> str:
    """Return what any other object is; what its own code assigns when it runs are records, and do not count."""
    kind = type(value)
    if value is os.environ or isinstance(value, logging.Logger | logging.LoggerAdapter):  # other in every process, or later
        return kind.__qualname__
    if id(value) in within.texts:
        return within.texts[id(value)][1]
    shown = repr(value)
    bare = " object at 0x" in shown  # which tells where it lies
    library = kind.__module__.partition(".")[0]
    telling = isinstance(value, type) or library in _TELLING
    if telling and not bare and not isinstance(value, Inputs):  # which tell only some options
        # What they hold is in their words, but rounded and cut.
        lasts = {} if isinstance(value, type) or library in _RECORDING else lasting(value)
        lasts = {name: item for name, item in lasts.items() if not _is_told(item, library)}
        text = f"{kind.__qualname__} {_without_addresses(shown)}{digest(describe(lasts, within)) if lasts else ''}"
        within.texts[id(value)] = value, text
        return text
    methods = methods_of(kind, "__call__", *sorted(within.called & own_attributes(kind).keys()))
    written, state = written_by(methods), state_of(value, pickled=not telling)
    records = {key for part in state if isinstance(part, dict) for key in part if key in written}
    held = [part if not isinstance(part, dict) else {key: part[key] for key in part.keys() - records} for part in state]
    words = "" if bare or records else _without_addresses(shown)  # which may have the records too
    called = frozenset().union(*(names_in(method.__code__).reads for method in methods))
    text = f"{kind.__module__}.{kind.__qualname__} {words} {digest(describe((methods, held), within.into(value, called)))}"
    within.texts[id(value)] = value, text
    return text


def _is_told(item: object, holder: str) -> bool:
    """Whether the words of who holds an object, of a library ``holder``, tell all that counts of it.

    Tokenizers say where they were loaded from, and keep what they have seen; ours that hold one tell its vocabulary.
    """
    library = type(item).__module__.partition(".")[0]
    return library in _RECORDING or (holder == "cocoax" and library not in _TELLING)


def describe_settings(settings: object, inputs: Inputs) -> list[str]:
    """Return what the settings of a kind of input are; raise unless they are a tuple, of which nothing is overlooked."""
    if not isinstance(settings, tuple):
        raise TypeError(
            f"The 'settings' of {type(inputs).__name__} must be a property that returns a tuple, of all options that change "
            f"the prepared tensor. Got {type(settings).__name__} instead."
        )
    return [describe(setting) for setting in settings]


def _as_run(value: Any, walk: Walk | None = None) -> str:
    """Return what a callable does that may keep records: its code, and what it holds and cannot have changed by itself.

    So a hook that collects what it sees in a list stays the same. What it holds in lists, dicts and other objects does not
    count, then.
    """
    walk = Walk() if walk is None else walk
    if value in walk:
        return "again"
    within = walk.into(value)
    held: dict[Any, Any]
    if isinstance(value, partial):
        held = {**dict(enumerate(value.args)), **value.keywords}
        return f"partial {_as_run(value.func, within)} {_constants(held, within)}"
    if isinstance(value, FunctionType):
        cells = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=True))
        assigned = names_in(value.__code__).assigned
        held = {name: cell.cell_contents for name, cell in cells.items() if _is_filled(cell) and name not in assigned}
        held.update(enumerate(value.__defaults__ or ()))
        held.update(value.__kwdefaults__ or {})
        held.update(_globals(value))
        return f"function {_code(value.__code__)} {_constants(held, within)}"
    owner = getattr(value, "__self__", value)
    method = value.__func__ if isinstance(value, MethodType) else own_attributes(type(value)).get("__call__")
    if not isinstance(method, FunctionType):
        return f"{type(value).__module__}.{type(value).__qualname__}"
    names = names_in(method.__code__)
    held = {name: item for name, item in getattr(owner, "__dict__", {}).items() if name in names.reads - names.writes}
    return f"method {_as_run(method, within)} {_constants(held, within)}"


def _constants(held: dict[Any, Any], walk: Walk) -> str:
    return describe({key: item for key, item in held.items() if item is None or isinstance(item, _CONSTANTS)}, walk)


def _is_filled(cell: Any) -> bool:
    """Whether a variable of an outer function has a value yet."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)
def _code(code: CodeType) -> str:
    return f"{code.co_name} {code.co_code.hex()} {code.co_names} {describe(code.co_consts)}"


def _globals(function: FunctionType) -> dict[str, Any]:
    """Return the globals that are part of what a function does; those of a library (it may keep registries) are not."""
    if is_installed(function.__code__):
        return {}
    known = function.__globals__
    names = sorted(names_in(function.__code__).globals & known.keys())
    return {name: known[name] for name in names if _counts(known[name])}


def _counts(value: Any) -> bool:
    """Whether a global is part of what a function does: not a library, a class or something built in."""
    if isinstance(value, FunctionType):
        return not value.__module__.startswith(("torch", "numpy", "PIL", "cocoax"))
    return not isinstance(value, ModuleType | type | BuiltinFunctionType)

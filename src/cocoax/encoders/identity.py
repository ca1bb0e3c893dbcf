"""The identity of an encoder: a digest of its weights, classes and settings, and its representation of a probe.

The digest of parameters and buffers is computed again when torch's version counters or their addresses have changed.
The probe is a small fixed input of the encoder's kind. It is encoded whenever the identity is needed, which costs one forward
pass. Its representation shows what the digest does not cover (hooks, patched methods, weights written through ``.data``,
changed preprocessing or helpers), and does not change with counters, records or the number of threads.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from cocoax.encoders.forward import owner_of, random_state_kept
from cocoax.spaces import close, name_space, rounded, sketch
from cocoax.store import digest

if TYPE_CHECKING:
    from cocoax.encoders.encoder import Encoder


@dataclass(frozen=True)
class Identity:
    """The identity of an encoder at one time.

    Attributes:
        space: the name of its representation space, to be compared by :func:`cocoax.spaces.same_space`.
        key: the key of its representations in caches; it depends on weights, settings, probe, device and precision.

    """

    space: str
    key: str


def identify(encoder: Encoder, towers: tuple[Encoder, ...]) -> Identity:
    """Return the identity of an encoder; ``towers`` are the encoders that share its representation space."""
    probe, sketched = encoder._probe.run(encoder)
    own = digest(_described(encoder, encoder.inputs.settings), probe)
    shared = [_described(tower, tower.inputs.space_settings) for tower in towers]
    space = name_space(shared[0] if len(shared) == 1 else digest("towers", *shared), probe, sketched)
    return Identity(space, digest(own, encoder.device.type, *([] if sketched is None else rounded(sketched))))


def _described(encoder: Encoder, settings: tuple[object, ...]) -> str:
    """Return a digest of weights, layer, pooling, settings of the inputs and precision."""
    if not isinstance(settings, tuple):
        raise TypeError(
            f"The 'settings' of {type(encoder.inputs).__name__} must be a property that returns a tuple, of all options that "
            f"change the prepared tensor. Got {type(settings).__name__} instead."
        )
    precision = () if encoder.autocast_precision is None else (str(encoder.autocast_precision),)
    kind = type(encoder.inputs).__qualname__
    return digest(encoder._weights(), encoder.layer, encoder.pooling, kind, *map(describe, settings), *precision)


class WeightsDigest:
    """The digest of a module's class names, parameters and buffers, computed again when one of those has changed.

    Args:
        module: computes representations. A callable that is neither a module nor a method of one is identified by its name.
        name: given by the user; without it, the digest of a callable is valid in this process only.

    """

    def __init__(self, module: Callable[..., Any], name: str | None) -> None:
        self._module, self._owner = module, owner_of(module)
        self.recognisable = self._owner is not None or name is not None
        if self._owner is None:
            self._called = f"callable {name if name is not None else uuid.uuid4().hex}"
        else:
            self._called = "" if module is self._owner else str(getattr(module, "__name__", ""))
        self._seen: object = None
        self._digest = ""

    def __call__(self) -> str:
        """Return the digest."""
        seen = self.version()
        if seen != self._seen:
            self._seen, self._digest = seen, digest(self._called, *seen[0], *_plain_weights(self._owner))
        return self._digest

    def version(self) -> tuple[list[str], list[object]]:
        """Return cheap evidence of a change: classes, and address and version counter of each tensor."""
        content = [] if self._owner is not None else [str(getattr(self._module, "content", ""))]
        return [*content, *_structure(self._owner)], [
            (name, tensor.data_ptr(), -1 if tensor.is_inference() else tensor._version, tensor.dtype, tensor.device)
            for name, tensor in _weights(self._owner)
            if tensor.layout == torch.strided
        ]

    def forget(self) -> None:
        """Read the weights again next time: some were written behind torch's back."""
        self._seen = None


def _weights(owner: nn.Module | None) -> list[tuple[str, Tensor]]:
    return [] if owner is None else list(chain(owner.named_parameters(), owner.named_buffers()))


def _plain_weights(owner: nn.Module | None) -> Iterator[object]:
    """Yield names and values of weights, quantised ones dequantised; raise if one is on the meta device."""
    for name, tensor in _weights(owner):
        if tensor.device.type == "meta":
            raise ValueError(
                f"{name!r} is on the meta device: it has a shape but no values, so there is nothing to encode with. Load the "
                "weights first (module.to_empty(device='cpu'), then load_state_dict), or load the model without offloading."
            )
        yield from (name, tensor.detach().dequantize() if tensor.is_quantized else tensor)


def _structure(owner: nn.Module | None) -> list[str]:
    """Return the name and class of each part of a module; torch's own parts say their settings too."""
    parts = [] if owner is None else list(owner.named_modules())
    return [
        f"{name} {type(part).__module__}.{type(part).__qualname__} {part.extra_repr() if _is_torchs(part) else ''}"
        for name, part in parts
    ]


def _is_torchs(part: nn.Module) -> bool:
    return type(part).__module__.startswith("torch.nn.")


class Probe:
    """A fixed input of an encoder's kind, and the sketch of its last representation.

    If the module does not take the probe of the kind (a network without preprocessing that takes pictures of one size), noise
    of the shape of the first prepared input is used.

    Args:
        skipped: whether it is never encoded, since a call of the model may cost money.

    """

    def __init__(self, skipped: bool = False) -> None:
        self._example: tuple[int, ...] | None = None
        self._fails = skipped
        self._last: Tensor | None = None

    def note(self, prepared: Tensor) -> None:
        """Note the shape of an input."""
        if self._example is None and prepared.is_floating_point():
            self._example = tuple(prepared.shape)

    def run(self, encoder: Encoder) -> tuple[str, Tensor | None]:
        """Return a name of the probe and a sketch of its representation; nothing where there is no probe."""
        name, representation = encoder.inputs.noun, None
        if not self._fails:
            representation = _represent(encoder, encoder.inputs.probe)
            self._fails = representation is None
        if representation is None and (shape := self._example) is not None:
            name = f"{name} {'x'.join(map(str, shape))}"
            representation = _represent(encoder, lambda: noise(*shape))
        if representation is None:
            return "", None
        sketched = sketch(representation)
        if self._last is not None and not close(sketched, self._last):
            encoder._weights.forget()
        self._last = sketched
        return name, sketched


def _represent(encoder: Encoder, probe: Callable[[], Tensor | None]) -> Tensor | None:
    try:
        with random_state_kept(), torch.no_grad():
            prepared = probe()
            return None if prepared is None else encoder(encoder.collate([prepared]))[0]
    except Exception:  # whatever a module says about an input that it does not take
        return None


def noise(*shape: int) -> Tensor:
    """Return normal noise of a shape, always the same."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32)


def describe(value: object) -> str:
    """Return a setting as text that is the same in every process: values, names of functions and of classes.

    The code of functions and the state of objects are not described; they change the representation of the probe.
    """
    if isinstance(value, Tensor | np.ndarray):
        return digest(value)
    if isinstance(value, nn.Module):
        return WeightsDigest(value, None)()
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{describe(key)}: {describe(item)}' for key, item in value.items()))}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(describe, value)))}}}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(describe, value))})"
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if is_dataclass(value) and not isinstance(value, type):
        return f"{kind}({', '.join(f'{each.name}={describe(getattr(value, each.name))}' for each in fields(value))})"
    if hasattr(value, "__qualname__"):  # functions and classes
        return f"{value.__module__}.{value.__qualname__}"
    shown = repr(value)
    return kind if re.search(r" at 0x[0-9a-fA-F]+", shown) else f"{kind} {shown}"

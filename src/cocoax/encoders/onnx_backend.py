"""A network run by ONNX Runtime: the same function, on a CPU in half the time or less where convolutions are depthwise.

Used where the packages ``onnx`` and ``onnxruntime`` are installed (the extra ``fast``) and a network is large enough for the
second that it takes to hand it over. What it gives is held against torch before it counts, like a folded copy.
"""

from __future__ import annotations

import copy
import io
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.jit import TracerWarning  # type: ignore[attr-defined]
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from cocoax.encoders.forward import pooled, run_module

if TYPE_CHECKING:
    from cocoax.encoders.encoder import Encoder

VARIABLE = "COCOAX_ONNX"  # 0 leaves everything to torch
MIN_WEIGHTS = 1_000_000  # weights: with fewer, torch is done before the network is handed over
_ONE_AT_A_TIME = threading.Lock()  # torch's exporter has one state for the whole process
_READS_VALUES = {"tolist", "numpy", "__array__", "__dlpack__", "data_ptr", "untyped_storage", "storage"}
_DATA_DEPENDENT = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
# What the exporter warns of is no matter of whoever explains a picture.
_IGNORED_WARNINGS: list[Any] = [
    ("ignore", None, TracerWarning, None, 0),
    ("ignore", None, DeprecationWarning, None, 0),
    ("ignore", None, UserWarning, re.compile(r"torch\."), 0),
]


def run_by_onnx(encoder: Encoder, batch: Any) -> Encoder | None:
    """Return the encoder around its network as ONNX Runtime runs it, or None; ``batch`` is what the module takes."""
    owner = encoder.owner
    if owner is None or not _fits(owner, batch) or encoder.autocast_precision is not None:
        return None
    if not all(find_spec(package) for package in ("onnx", "onnxruntime")):
        return None
    network = _Representing(encoder)
    try:
        with _ONE_AT_A_TIME, torch.inference_mode(False), torch.no_grad():
            if _has_data_dependent_control_flow(network, batch):
                return None
            session = _session(network, batch)
    except Exception:  # whatever cannot be handed over stays with torch
        return None
    other = copy.copy(encoder)
    # Layer and pooling are inside of the network that was handed over.
    other.module, other._submodule = _Exported(network, session), None
    return other


def _fits(owner: nn.Module, batch: Any) -> bool:
    """Whether it is a network, and inputs, in single precision on the CPU, and a large network."""
    weights = list(owner.parameters())
    precise = isinstance(batch, Tensor) and all(
        part.dtype == torch.float32 and part.device.type == "cpu" for part in (batch, *weights)
    )
    return precise and sum(part.numel() for part in weights) >= MIN_WEIGHTS


def _has_data_dependent_control_flow(network: nn.Module, batch: Tensor) -> bool:
    """Whether a network looks at the numbers of a tensor in Python, or at how many there are of a kind, to decide by them.

    A network that was handed over would decide as for these inputs for good. It may look at the sizes of its inputs: what
    follows from them is tried on every explicand.
    """
    with _Calls() as calls, _Operations() as operations:  # type: ignore[no-untyped-call]
        network(batch)
    return bool(calls.seen or operations.seen)


class _Calls(TorchFunctionMode):
    """Notes whether numbers leave torch."""

    seen = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen = self.seen or getattr(func, "__name__", "") in _READS_VALUES
        return func(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes whether there is a number, or a size, that depends on the numbers of a tensor."""

    seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen = self.seen or not _DATA_DEPENDENT.isdisjoint(func.tags)
        return func(*args, **(kwargs or {}))


class _Representing(nn.Module):
    """From what a module takes to representations ``[n, d]``."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.network, self._submodule, self._pooling = encoder.owner, encoder._submodule, encoder.pooling
        self._called = encoder.module
        self.training = False

    def train(self, mode: bool = True) -> _Representing:
        """Leave the network in its mode, since some networks take a change as the moment to change their weights."""
        return self

    def forward(self, batch: Tensor) -> Tensor:
        """Run the module, or its layer, and pool what it gives."""
        if torch.onnx.is_in_onnx_export():
            torch._C._jit_set_onnx_log_enabled(False)  # it prints the network where something cannot be exported
        return pooled(run_module(self._called, batch, self._submodule), self._pooling)


class _Exported(nn.Module):
    """A session of ONNX Runtime in place of a module; the module stays at hand for what the session cannot do."""

    def __init__(self, network: _Representing, session: Any) -> None:
        super().__init__()
        self.network = network
        self._session = session
        self.training = False

    def forward(self, batch: Tensor) -> Tensor:
        """Return representations ``[n, d]``; with torch, where gradients are wanted or the session refuses the shape."""
        if not (torch.is_grad_enabled() and batch.requires_grad):
            try:
                (found,) = self._session.run(None, {"batch": batch.contiguous().numpy()})
            except Exception:  # of a shape that is fixed inside of the network
                found = None
            if found is not None and len(found) == len(batch):
                return torch.from_numpy(found)
        output: Tensor = self.network(batch)
        return output


def _session(module: nn.Module, batch: Tensor) -> Any:
    """Return a session that runs a module on any number of inputs like those of a batch, of any size; raise if none can."""
    import onnxruntime

    # The sizes of a picture, or the length of a sound, may change.
    axes = {"batch": {axis: f"size{axis}" for axis in range(batch.ndim) if axis != 1}, "representations": {0: "size0"}}
    written = io.BytesIO()
    with _ignored_warnings():
        torch.onnx.export(
            module,
            (batch.contiguous(),),
            written,  # type: ignore[arg-type]
            input_names=["batch"],
            output_names=["representations"],
            dynamic_axes=axes,
            dynamo=False,
        )
    onnxruntime.disable_telemetry_events()  # on Windows it has some
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4
    # Between batches torch works with as many threads.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(written.getvalue(), options, providers=["CPUExecutionProvider"])


@contextmanager
def _ignored_warnings() -> Iterator[None]:
    """Ignore some warnings. Unlike ``warnings.catch_warnings`` this leaves nothing behind if other threads use that too."""
    module: Any = warnings
    changed = module.filters
    changed[:0] = _IGNORED_WARNINGS
    try:
        yield
    finally:
        for filters in (changed, module.filters):
            filters[:] = [entry for entry in filters if not any(entry is unheard for unheard in _IGNORED_WARNINGS)]

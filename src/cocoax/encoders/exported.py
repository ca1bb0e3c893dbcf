"""A network run by ONNX Runtime: the same function, on a CPU in half the time or less where convolutions are depthwise.

Used where the packages ``onnx`` and ``onnxruntime`` are installed (the extra ``fast``) and a network is worth the second that
it takes to hand it over. What it gives is held against torch before it counts, like a folded copy.
"""

from __future__ import annotations

import copy
import io
import os
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.jit._trace import TracerWarning

from cocoax.encoders.forward import locked, pooled, run_module

if TYPE_CHECKING:
    from cocoax.encoders.encoder import Encoder

VARIABLE = "COCOAX_ONNX"  # 0 leaves everything to torch
WORTHWHILE = 50  # inputs, and
LARGE = 1_000_000  # weights: with fewer of either, torch is done before the network is handed over


def for_many(encoder: Encoder, examples: Sequence[Tensor]) -> Encoder:
    """Return a folded encoder as ONNX Runtime runs it on many inputs like these, or itself."""
    if encoder.agreed is None:  # no copy that games try before they trust it
        return encoder
    with locked(encoder.owner):
        if encoder._exported is None:
            batch = encoder.inputs.to_module(encoder.collate(torch.stack(list(examples))))
            encoder._exported = _exported(encoder, batch) or encoder
        return encoder._exported


def _exported(encoder: Encoder, batch: Any) -> Encoder | None:
    """Return the encoder around its network as ONNX Runtime runs it, or None; ``batch`` is what the module takes."""
    owner = encoder.owner
    if owner is None or not _fits(owner, batch) or encoder._autocast is not None:
        return None
    if not all(find_spec(package) for package in ("onnx", "onnxruntime")) or os.environ.get(VARIABLE) == "0":
        return None
    try:
        with torch.inference_mode(False), torch.no_grad():
            session = _session(_Representing(encoder), batch)
    except Exception:  # whatever cannot be handed over stays with torch
        return None
    other = copy.copy(encoder)
    # Layer and pooling are inside of the network that was handed over.
    other.module, other._submodule, other.agreed, other._exported = _Exported(encoder, session), None, set(), other
    return other


def _fits(owner: nn.Module, batch: Any) -> bool:
    """Whether it is a network, and inputs, in single precision on the CPU, and a large network."""
    weights = list(owner.parameters())
    precise = isinstance(batch, Tensor) and all(
        part.dtype == torch.float32 and part.device.type == "cpu" for part in (batch, *weights)
    )
    return precise and sum(part.numel() for part in weights) >= LARGE


class _Representing(nn.Module):
    """From what a module takes to representations ``[n, d]``."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.network, self._encoder = encoder.owner, encoder
        self.training = False

    def train(self, mode: bool = True) -> _Representing:
        """Leave the network in its mode, since some networks take a change as the moment to change their weights."""
        return self

    def forward(self, batch: Tensor) -> Tensor:
        """Run the module, or its layer, and pool what it gives."""
        return pooled(run_module(self._encoder.module, batch, self._encoder._submodule), self._encoder.pooling)


class _Exported(nn.Module):
    """A session of ONNX Runtime in place of a module; the module stays at hand for what the session cannot do."""

    def __init__(self, encoder: Encoder, session: Any) -> None:
        super().__init__()
        self.network = _Representing(encoder)
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # What a forward pass decides by its input would be decided once and for all.
        warnings.simplefilter("error", TracerWarning)
        torch.onnx.export(
            module,
            (batch.contiguous(),),
            written,  # type: ignore[arg-type]
            input_names=["batch"],
            output_names=["representations"],
            dynamic_axes=axes,
            dynamo=False,
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4
    # Between batches torch works with as many threads.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(written.getvalue(), options, providers=["CPUExecutionProvider"])

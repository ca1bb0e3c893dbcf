"""FastEncoder: an encoder on many similar inputs, run by its fastest copy that gives the same representations.

There are two copies. In one, batch normalisation is folded into the convolution before it: in eval mode a normalisation is a
scale and a shift of each channel, which the convolution's weights can do on the way. The other is that one as ONNX Runtime
runs it, on a CPU in half the time or less where convolutions are depthwise; it is made where the packages ``onnx`` and
``onnxruntime`` are installed (the extra ``fast``) and the network is large enough for the second that the export takes.

Each copy is held against the network itself, on examples and on the first batch of every situation (an explicand with its
removal); one that differs by more than rounding is given up.
"""

from __future__ import annotations

import copy
import io
import os
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.jit import TracerWarning  # type: ignore[attr-defined]
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from cocoax.encoders.forward import locked, pooled, run_module
from cocoax.store import digest

if TYPE_CHECKING:
    from cocoax.encoders.encoder import Encoder

# --- batch normalisation folded into convolutions -------------------------------------------------------------------------


_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def agree(output: Tensor, expected: Tensor) -> bool:
    """Whether representations ``[n, d]`` are the expected ones but for rounding.

    The tolerance of an entry is relative to its own largest value, or to the median of those if that is larger, so that one
    huge entry does not hide errors in the others.
    """
    if output.shape != expected.shape:
        return False
    sizes = expected.abs().amax(0)
    typical = sizes[sizes > 0].median() if bool(sizes.any()) else sizes.new_zeros(())
    return bool(((output - expected).abs() <= 1e-4 * sizes.clamp(min=typical)).all())


def _can_be_folded(module: nn.Module) -> bool:
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


# --- ONNX Runtime ---------------------------------------------------------------------------------------------------------


VARIABLE = "COCOAX_ONNX"  # 0 leaves everything to torch
_MIN_WEIGHTS = 1_000_000  # weights: with fewer, torch is done before the network is handed over
_ONE_AT_A_TIME = threading.Lock()  # torch's exporter has one state for the whole process
_READS_VALUES = {"tolist", "numpy", "__array__", "__dlpack__", "data_ptr", "untyped_storage", "storage"}
_DATA_DEPENDENT = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
# Warnings of the exporter are about its own workings.
_IGNORED_WARNINGS: list[Any] = [
    ("ignore", None, TracerWarning, None, 0),
    ("ignore", None, DeprecationWarning, None, 0),
    ("ignore", None, UserWarning, re.compile(r"torch\."), 0),
]


def _run_by_onnx(encoder: Encoder, batch: Any) -> Encoder | None:
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
    return precise and sum(part.numel() for part in weights) >= _MIN_WEIGHTS


def _has_data_dependent_control_flow(network: nn.Module, batch: Tensor) -> bool:
    """Whether a network has control flow that depends on the values of its tensors.

    The exported network would take the branches of these inputs for good. Control flow that depends on the sizes of inputs is
    allowed: copies are tried on every explicand.
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
    options.enable_mem_pattern = False  # which keeps a block of memory for every size of picture
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


# --- an encoder with its copies -------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Copy:
    """A faster copy, and the situations in which it was seen to agree with the network; ``onnx`` is an even faster one."""

    encoder: Encoder
    agreed: set[str] = field(default_factory=set)
    onnx: _Copy | None = None
    onnx_tried: bool = False


@dataclass(eq=False)
class Copies:
    """The folded copy of an encoder, if there is one, the version of its weights, and the shape it was made with."""

    version: object
    folded: _Copy | None
    shape: torch.Size


class FastEncoder:
    """An encoder for many inputs that are like some examples.

    Args:
        plain: the encoder itself.
        examples: prepared inputs of one shape.
        expected: their representations ``[n, d]``.
        situation: what later inputs have in common, as parts of a digest: in a situation once tried, copies are trusted.

    """

    def __init__(
        self, plain: Encoder, examples: Sequence[Tensor], expected: Tensor, situation: Sequence[object] = ()
    ) -> None:
        self.plain = plain
        self._examples, self._expected, self._situation_parts = examples, expected, situation
        self._uses_onnx = self._adopted = False

    @property
    def encoder(self) -> Encoder:
        """The copy that is used, or the encoder itself; the copy is made when this is first asked for."""
        copy = self._fastest
        return self.plain if copy is None else copy.encoder

    @property
    def trusted(self) -> bool:
        """Whether the copy needs no more trial, or there is none."""
        copy = self._fastest
        return copy is None or self._adopted or self._situation in copy.agreed

    def encode(self, inputs: Sequence[Tensor] | Tensor) -> Tensor:
        """Return representations ``[n, d]`` of prepared inputs; the first are encoded by the network itself, too."""
        copy = self._fastest
        if copy is None or self.trusted:
            return self.encoder.encode(inputs)
        found = copy.encoder.encode(inputs)
        if agree(found, self.plain.encode(inputs)):
            copy.agreed.add(self._situation)
            return found
        self._give_up(copy)
        return self.encode(inputs)

    def use_onnx(self) -> None:
        """Go over to ONNX Runtime, if it can run the folded copy: worth it for many inputs without gradients."""
        copy = self._copy
        if copy is None or self._adopted or os.environ.get(VARIABLE) == "0":
            return
        with locked(copy.encoder.owner):
            if not copy.onnx_tried:
                batch = copy.encoder.inputs.to_module(copy.encoder.collate(torch.stack(list(self._examples))))
                exported = _run_by_onnx(copy.encoder, batch)
                copy.onnx = None if exported is None else _Copy(exported)
                copy.onnx_tried = True
        self._uses_onnx = True

    def adopt(self, other: FastEncoder) -> None:
        """Use the copy that another one has tried, and trust it: the caller compares."""
        self._copy, self._uses_onnx, self._adopted = other._copy, other._uses_onnx, True

    def use_plain(self) -> None:
        """Use the encoder itself."""
        self._copy = None

    @property
    def _fastest(self) -> _Copy | None:
        return self._copy.onnx if self._uses_onnx and self._copy is not None and self._copy.onnx is not None else self._copy

    def _give_up(self, copy: _Copy) -> None:
        """Use the next best."""
        if self._copy is not None and copy is self._copy.onnx:
            self._copy.onnx = None
            return
        self._copy = None
        if self.plain._copies is not None:
            self.plain._copies.folded = None

    @cached_property
    def _situation(self) -> str:
        return digest(*self._situation_parts)

    @cached_property
    def _copy(self) -> _Copy | None:
        """The folded copy, kept while weights stay what they are; None where nothing can be folded or the fold is wrong."""
        encoder, owner, shape = self.plain, self.plain.owner, self._examples[0].shape
        alike = all(example.shape == shape and example.is_floating_point() for example in self._examples)
        if owner is None or not alike:
            return None
        # Parameters must not be inference tensors, which later gradients could not use.
        with locked(owner), torch.inference_mode(False), torch.no_grad():
            if not can_be_faster(encoder):  # another thread's hooks, which it removes under the lock, do not count
                return None
            version = encoder._weights.version(), encoder.device
            batch = encoder.collate(torch.stack(list(self._examples)))
            kept = encoder._copies if encoder._copies is not None and encoder._copies.version == version else None
            if kept is not None and (kept.folded is None or self._gives_expected(kept.folded, batch)):
                return kept.folded
            if kept is not None and kept.shape == shape:
                return None
            module = fold(owner, lambda draft: encoder.with_module(draft, encoder.name)(batch))
            made = None if module is None else _Copy(encoder.with_equal_module(module))
            encoder._copies = Copies(version, made, shape)
            return made if made is not None and self._gives_expected(made, batch) else None

    def _gives_expected(self, copy: _Copy, batch: Any) -> bool:
        try:
            output = copy.encoder(batch)
        except Exception:  # whatever a module says that misses its norms
            return False
        return agree(output.to(self._expected), self._expected)


def can_be_faster(encoder: Encoder) -> bool:
    """Whether copies of an encoder are worth a trial."""
    return encoder.can_be_copied and encoder.owner is not None and _can_be_folded(encoder.owner)


def shared_encoder(fast: Sequence[FastEncoder]) -> Encoder:
    """Return the copy that is right for all of several, or else the encoder itself."""
    first = fast[0].encoder
    return first if all(each.encoder is first for each in fast) else fast[0].plain

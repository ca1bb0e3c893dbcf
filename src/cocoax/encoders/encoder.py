"""The encoder f: a module with its kind of inputs, which batches, encodes and knows its identity."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor, nn

from cocoax.checks import check_choice, check_count, check_kind, check_plain
from cocoax.encoders.devices import HALF, device_named, precision_named
from cocoax.encoders.fast_encoder import Copies, shallow_copy
from cocoax.encoders.forward import (
    ROUNDING,
    ForwardError,
    Pooling,
    by_shape,
    first_parameter,
    is_out_of_memory,
    layer_name,
    layer_named,
    note_batch,
    owner_of,
    pooled,
    run_module,
)
from cocoax.encoders.identity import Identity, Probe, WeightsDigest, identify
from cocoax.encoders.inner_maps import inner_maps
from cocoax.encoders.stream import Streaming, in_order, prepared_batches, stream_reference
from cocoax.inputs import Explicand, Inputs, Pictures, Rows
from cocoax.inputs.base import check_batch
from cocoax.inputs.features import features_of
from cocoax.inputs.open import each_input, is_one
from cocoax.progress import bar
from cocoax.references import Reference

_MAX_NAME = 200  # characters of a name: titles and files bear it


def _check_module(module: object) -> None:
    """Raise unless it can be called, or if it is a model that takes no batch as it is."""
    if not callable(module):
        hint = "; cocoax.wrap takes transformers of scikit-learn" if hasattr(module, "transform") else ""
        raise TypeError(f"An encoder must be an nn.Module or a callable. Got {type(module).__name__} instead{hint}.")
    if not isinstance(module, nn.Module):
        return
    if is_sentence_transformer(module):
        raise TypeError(f"{type(module).__name__} encodes texts and brings its own tokenizer; use cocoax.wrap(model).")
    if isinstance(module, torch.jit.ScriptModule):  # it does not tell its parameters
        return
    first = next(iter(inspect.signature(module.forward).parameters), None)
    if first == "input_ids":
        what = "the processor" if hasattr(module, "get_image_features") else "the tokenizer"
        raise TypeError(
            f"{type(module).__name__} takes texts as token ids; use cocoax.wrap(model, processor) with {what} that it was "
            "trained with, or cocoax.TextEncoder around a module from tokens to representations."
        )


def _name_of(module: Callable[..., Any], name: str | None) -> str:
    """Return the name of an encoder: the one it was given, or that of its module."""
    if name is not None:
        check_kind("The 'name' parameter", name, str, "must be a string")
        if len(name) > _MAX_NAME:
            raise ValueError(f"The 'name' parameter must have at most {_MAX_NAME} characters. Got {len(name)} instead.")
    return name or getattr(module, "__name__", None) or type(module).__name__


def is_sentence_transformer(model: object) -> bool:
    """Whether it is a model of sentence-transformers; that package is not imported for it."""
    return any(
        kind.__name__ in ("SentenceTransformer", "SparseEncoder") and kind.__module__.startswith("sentence_transformers")
        for kind in type(model).__mro__
    )


def _check_classes(classes: Sequence[str] | None, head: nn.Module | None) -> None:
    """Raise unless there is one name for each output of the head."""
    outputs = getattr(head, "out_features", None)
    if classes is not None and (head is None or (outputs is not None and outputs != len(classes))):
        what = "there is no head" if head is None else f"the head has {outputs} outputs"
        raise ValueError(f"'classes' names {len(classes)} classes but {what}; pass one name for each output of the head.")


def _inputs_for(inputs: object, preprocess: Any) -> Inputs:
    """Return the kind of inputs that is asked for: pictures, unless ``inputs`` says otherwise."""
    if isinstance(preprocess, Inputs):
        raise TypeError(f"{type(preprocess).__name__} is a kind of input, no preprocessing; pass it as inputs=.")
    if inputs is None:
        return Pictures(preprocess)
    if isinstance(inputs, type):
        raise TypeError(f"The 'inputs' parameter takes an object: write inputs={inputs.__name__}(...).")
    check_kind("The 'inputs' parameter", inputs, Inputs, "must be a kind of input, such as cocoax.inputs.Rows(...)")
    if preprocess is not None:
        raise ValueError("'inputs' says all about the inputs; leave out 'preprocess'.")
    assert isinstance(inputs, Inputs)
    return inputs


# --- encoder ----------------------------------------------------------------------------------------------------------------


class Encoder:
    """An encoder f: a module with its kind of inputs, batching and bookkeeping.

    Args:
        module: an ``nn.Module`` or any callable from a batch ``[n, C, H, W]`` to representations ``[n, d]``.
        preprocess: from an upright RGB or grey PIL image to a tensor ``[C, H, W]``; without it pixels become floats in
            [0, 1]. :class:`cocoax.ImagePreprocess` is one; torchvision transforms work too.
        layer: take the representation from inside the module: the output of this submodule, or of the one of this name in
            ``module.named_modules()`` (the paper's penultimate layer).
        pooling: what makes one vector of an output with more than two dimensions: ``"mean"`` over positions or tokens
            (``[64, 8, 8]`` becomes 64 numbers), ``"flatten"``, or the ``"first"`` token.
        head: an optional classifier on top of the representation.
        classes: the names of the head's classes, in the order of its outputs.
        text: the text tower of an image-and-text encoder; both must share one representation space.
        name: shown in pictures; for a bare callable it also is what references and caches recognise it by.
        inputs: the kind of inputs, if they are no pictures (:class:`cocoax.inputs.Inputs`).

    The inputs of an image encoder are pictures (paths, PIL images, arrays ``[H, W, C]`` of uint8 or of floats from 0 to 1),
    which are preprocessed, or preprocessed float tensors ``[C, H, W]``, which are taken as they are. The module runs in eval
    mode, where its parameters are, and is left as it was found.

    """

    can_be_copied: ClassVar[bool] = True  # by whatever makes faster copies of the module
    why_no_texts: str = "has no text tower; cocoax.load('starter') has one."  # the end of a sentence

    def __init__(
        self,
        module: Callable[..., Any],
        preprocess: Callable[[Any], Tensor] | None = None,
        layer: str | nn.Module | None = None,
        *,
        pooling: Pooling = "mean",
        head: nn.Module | None = None,
        classes: Sequence[str] | None = None,
        text: Encoder | None = None,
        name: str | None = None,
        inputs: Inputs | None = None,
    ) -> None:
        _check_module(module)
        check_choice("pooling", pooling, get_args(Pooling))
        _check_classes(classes, head)
        self.name = _name_of(module, name)
        self.inputs = copy.copy(_inputs_for(inputs, preprocess))
        self.inputs.encoder = self.name
        self.module = module
        self.layer = None if layer is None else layer_name(self.owner, layer, self.name)
        self.pooling: Pooling = pooling
        self.head = head
        self.classes = None if classes is None else list(classes)
        if text is not None and not isinstance(text, Encoder):
            raise TypeError(f"The 'text' parameter must be an Encoder, the text tower. Got {type(text).__name__} instead.")
        self._text = copy.copy(text)
        self._image_tower: Encoder | None = None
        if self._text is not None:
            self._text._image_tower, self._text._identity = self, None  # the towers share a space
        self._weights = WeightsDigest(module, name)
        self._probe = Probe()
        self._identity: Identity | None = None
        self._submodule = self.layer_named(self.layer) if self.layer is not None else None
        self._autocast: torch.dtype | None = None
        self._max_batch_size: int | None = None  # learned when memory ran out
        self._checked = 0  # 1 after one input alone was encoded twice, 2 after one of a batch was
        self._copies: Copies | None = None
        self.inputs = self.inputs.whole(self._takes_shapes, _patch_size(self.owner))

    def __repr__(self) -> str:
        # How a layer's output becomes a vector; what a whole module gives mostly is one.
        layer = f", layer={self.layer!r}, pooling={self.pooling!r}" if self.layer else ""
        return f"{type(self).__name__}({self.name!r}{layer})"

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def text(self) -> Encoder:
        """The text tower, whose representations live in the same space."""
        if self._text is None:
            raise AttributeError(f"The encoder {self.name!r} {self.why_no_texts}")
        return self._text

    @property
    def preprocess(self) -> Callable[[Any], Tensor] | None:
        """The preprocessing of its inputs, if they have one."""
        return getattr(self.inputs, "preprocess", None)

    def identify(self) -> Identity:
        """Compute its identity as it is now, from weights, settings and the representation of a probe: one forward pass."""
        image = self if self._image_tower is None else self._image_tower
        towers = (image,) if image._text is None else (image, self if image is not self else image._text)
        self._identity = identify(self, towers)
        return self._identity

    @property
    def identity(self) -> Identity:
        """Its identity when that was last computed: a forward pass of the probe at the first access, none later."""
        return self.identify() if self._identity is None else self._identity

    @property
    def fingerprint(self) -> str:
        """The key of its representations in caches: weights, layer, pooling, preprocessing, precision, kind of device.

        Each access is a forward pass of the probe; :attr:`identity` has the key of the last one without.
        """
        return self.identify().key

    @property
    def space(self) -> str:
        """The name of its representation space, which the towers of one encoder share; see :mod:`cocoax.spaces`.

        Each access is a forward pass of the probe; :attr:`identity` has the name of the last one without.
        """
        return self.identify().space

    @property
    def recognisable(self) -> bool:
        """Whether its fingerprint is valid in other processes; that of an unnamed callable is not."""
        return self._weights.recognisable

    @property
    def autocast_precision(self) -> torch.dtype | None:
        """The precision that torch computes in where it deems that safe: this encoder's, or that of ``torch.autocast``."""
        device = self.device.type
        if self._autocast is None and torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
            return torch.get_autocast_dtype(device)
        return self._autocast

    @property
    def rounding(self) -> float:
        """How far rounding moves scores of its representations, relative to the terms that they are sums of."""
        return max(ROUNDING, 16 * torch.finfo(self._computes_in).eps)  # representations are in single precision at most

    @property
    def _computes_in(self) -> torch.dtype:
        return self.autocast_precision or self.precision

    @property
    def device(self) -> torch.device:
        """Where the module's parameters are."""
        return first_parameter(self.owner).device

    @property
    def precision(self) -> torch.dtype:
        """The precision of the module's parameters."""
        return first_parameter(self.owner).dtype

    @property
    def owner(self) -> nn.Module | None:
        """The module behind the callable, if it can be seen."""
        return owner_of(self.module)

    def layer_named(self, layer: str) -> nn.Module:
        """Return the submodule of this name; an error lists close names."""
        return layer_named(self.owner, layer, self.name)

    # --- where it runs ------------------------------------------------------------------------------------------------

    def to(self, device: str | torch.device | torch.dtype | None = None, dtype: str | torch.dtype | None = None) -> Self:
        """Move the module, the head and the text tower to a device or into another precision; return itself.

        ``"auto"`` is the GPU if there is one. Another precision makes other representations, so that references have to be
        encoded again; half precision is tried out in a process of its own first.
        """
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        place = self.device if device is None else device_named(device)
        precision = None if dtype is None else precision_named(dtype, place)
        towers: list[Encoder] = [self] if self._text is None else [self, self._text]
        if any(tower.owner is None and (place != tower.device or dtype is not None) for tower in towers):
            raise ValueError(f"The encoder {self.name!r} is a function, which cannot be moved; make one that runs elsewhere.")
        for tower in towers:
            for module in (tower.owner, tower.head):
                if module is not None:
                    module.to(place, precision)
            tower._max_batch_size, tower._copies, tower._checked = None, None, 0
        return self

    def autocast(self, dtype: str | torch.dtype | None) -> Self:
        """Let torch compute in half precision where it deems that safe, and keep the weights as they are; return itself.

        Tried out first, and another space, as with :meth:`to`. None ends it.
        """
        precision = None if dtype is None else precision_named(dtype, self.device)
        if precision is not None and precision not in HALF:
            raise ValueError(f"The 'dtype' parameter must be 'float16' or 'bfloat16'. Got {dtype!r} instead.")
        for tower in (self, self._text):
            if tower is not None:
                tower._autocast, tower._checked, tower._copies = precision, 0, None
        return self

    def release_text(self) -> None:
        """Free the weights of a text tower of its own; its vectors, and the space of both, cannot be computed afterwards."""
        text = None if self._text is None else self._text.owner
        own = set() if self.owner is None else set(self.owner.parameters())
        if text is not None and own.isdisjoint(text.parameters()):
            text.to("meta")

    # --- the same encoder around another module -----------------------------------------------------------------------

    def with_module(self, module: nn.Module, name: str) -> Self:
        """Return the encoder around another module of the same architecture; without the text tower, whose space it left."""
        other = copy.copy(self)
        # One around a method of a module (``model.encode_image``) stays around that method.
        other.module = module if isinstance(self.module, nn.Module) else getattr(module, self.module.__name__)
        other.name = name
        other.inputs = copy.copy(self.inputs)
        other.inputs.encoder = name
        other._text = other._image_tower = None
        other._weights, other._probe, other._identity = WeightsDigest(other.module, name), Probe(), None
        other._submodule = other.layer_named(self.layer) if self.layer is not None else None
        other._checked = 0
        other._copies = None
        return other

    def with_equal_module(self, module: nn.Module) -> Self:
        """Return the encoder around a module that gives the same representations, with its text tower."""
        other = self.with_module(module, self.name)
        other._text, other._image_tower = self._text, self._image_tower
        return other

    def copied(self) -> Self:
        """Return the same encoder around a copy of its module that shares the weights, but neither hooks nor gradients."""
        return self if self.owner is None else self.with_equal_module(shallow_copy(self.owner, own_gradients=True))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_copies": None}  # a copy makes faster ones of its own

    def whole(self) -> Self:
        """Return the same encoder that explains all of a photo, as every encoder does unless it is :meth:`cropped`.

        Photos keep their proportions if the module takes pictures of other shapes, which is tried out, and are squeezed if
        not. The pictures of references are prepared as they were, and the representation space is the same. A
        preprocessing of your own does what it does.
        """
        return self.with_inputs(self.inputs.whole(self._takes_shapes, _patch_size(self.owner)))

    def cropped(self) -> Self:
        """Return the same encoder that explains only what its preprocessing cuts out of the centre of a photo."""
        return self.with_inputs(self.inputs.cropped())

    def _takes_shapes(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether grey pictures of these shapes have representations of one length."""
        try:
            lengths = {self.encode([torch.zeros(shape)]).shape[1] for shape in shapes}
        except Exception:  # whatever a module says about a shape that it does not take
            return False
        return len(lengths) == 1

    def with_inputs(self, inputs: Inputs) -> Self:
        """Return the same encoder with another kind of inputs."""
        other = copy.copy(self)
        other.inputs, other._identity = inputs, None
        return other

    # --- inputs -------------------------------------------------------------------------------------------------------

    def is_one(self, inputs: object) -> bool:
        """Whether this is one input rather than many."""
        return is_one(inputs, self.inputs)

    def as_list(self, inputs: Any) -> list[Any]:
        """Return one or many inputs as a list."""
        return list(each_input(inputs, self.inputs)[0])

    def single(self, inputs: Any) -> Any:
        """Return the only input there is; raise if there are none, or several."""
        if len(items := self.as_list(inputs)) != 1:
            raise ValueError(f"Expected one input, got {len(items)}.")
        return items[0]

    def prepare(self, item: Any) -> Tensor:
        """Return one input as the tensor that the module takes."""
        prepared = self.inputs.prepare(item)
        self._probe.note(prepared)
        return prepared

    def explicand(self, item: Any, features: Any = None) -> Explicand:
        """Return one input made ready to be explained, on the CPU.

        Args:
            item: the input; an explicand is divided anew.
            features: what is removed and shown as one part: a name in ``cocoax.inputs.features.FEATURES`` for the kind of
                input, such as ``"segments"`` or ``"sentences"``; of a picture also the cells of a grid, a label map or masks;
                of a row groups of columns. By default those of the kind; of a picture the method chooses.

        """
        explicand = self.inputs.checked_explicand(item)
        self._probe.note(explicand.tensor)
        explicand = explicand if explicand is item else explicand.detached_copy()
        if features is None and (isinstance(item, Explicand) or self.inputs.chosen_features is None):
            return explicand
        return self.divided(explicand, self.inputs.chosen_features if features is None else features)

    def divided(self, explicand: Explicand, features: Any) -> Explicand:
        """Return an explicand with other features."""
        divided = features_of(features, self.inputs).apply(explicand, self)
        divided.check()
        return divided

    def by(self, features: Any) -> Self:
        """Return the same encoder whose inputs are divided into these features; see :meth:`explicand`."""
        features_of(features, self.inputs)
        return self.with_inputs(self.inputs.by(features))

    def inner_maps(self, picture: Tensor) -> list[Tensor]:
        """Return up to two feature maps ``[d, h, w]`` of a prepared picture; see :mod:`cocoax.encoders.inner_maps`."""
        return inner_maps(self, picture)

    def collate(self, prepared: Sequence[Tensor] | Tensor) -> Any:
        """Return prepared inputs as one batch for the module, on its device."""
        return self.inputs.collate(prepared, first_parameter(self.owner))

    def batch_size(self, prepared: Tensor, asked: int | None = None) -> int:
        """Return how many inputs like this one are encoded at a time.

        It depends on nothing but the input's size (and on memory having run out before), so results are repeatable.
        """
        if asked is not None:
            check_count("batch_size", asked, 1)
        size = self.inputs.default_batch_size(prepared, self.device.type == "cpu") if asked is None else asked
        return size if self._max_batch_size is None else min(size, self._max_batch_size)

    # --- representations ----------------------------------------------------------------------------------------------

    def __call__(self, batch: Any) -> Tensor:
        """Return representations ``[n, d]`` of a collated batch, differentiable; for the rest it is :meth:`represent`."""
        if not isinstance(batch, Tensor | Mapping):
            return self.represent(batch)
        size, own = _size_of(batch), first_parameter(self.owner)
        note_batch(size)
        if isinstance(batch, Tensor) and batch.is_floating_point() and own.numel() > 0:
            batch = batch.to(own.device, own.dtype)
        try:
            with torch.autocast(self.device.type, self._autocast) if self._autocast is not None else nullcontext():
                output = run_module(self.module, self.inputs.to_module(batch), self._submodule)
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
            if isinstance(error, ForwardError) or is_out_of_memory(error):
                raise
            shape = list(batch.shape) if isinstance(batch, Tensor) else f"of {size} input{'s' * (size != 1)}"
            runs = own.dtype == torch.float32
            hint = self.inputs.hint if runs else f"It may not run in {own.dtype}: encoder.to(dtype='float32')."
            raise ForwardError(f"The encoder {self.name!r} failed on a batch {shape}: {error}. {hint}") from error
        if self._submodule is not None and output is None:
            raise ForwardError(f"The layer {self.layer!r} did not run in the forward pass of {self.name!r}.")
        return _one_vector_each(output, size, self.pooling, self.name)

    def encode(self, prepared: Sequence[Tensor] | Tensor) -> Tensor:
        """Return representations ``[n, d]`` of prepared inputs, as float32 on the CPU, without autograd state.

        Memory running out halves the batch, now and from now on. What is not prepared yet goes to :meth:`represent`.
        """
        if not _is_prepared(prepared):
            return self.represent(prepared)
        if self.inputs.any_shape and not isinstance(prepared, Tensor) and len({tensor.shape for tensor in prepared}) > 1:
            return by_shape(prepared, self.encode)
        try:
            batch = self.collate(prepared)
            with torch.no_grad():
                output = self(batch).detach().to("cpu", torch.float32)  # some modules switch gradients on by themselves
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(prepared) == 1:
                raise MemoryError(
                    f"The encoder {self.name!r} ran out of memory on a single input of shape "
                    f"{list(np.shape(prepared[0]))}; use a smaller input or a smaller encoder."
                ) from error
            half = len(prepared) // 2
            self._max_batch_size = half
            return torch.cat([self.encode(prepared[:half]), self.encode(prepared[half:])])
        if self._checked < min(len(output), 2):
            _check_deterministic(self, prepared[0], output[0])
            self._checked = min(len(output), 2)
        return output

    def represent(self, inputs: Any, batch_size: int | None = None, *, progress: bool | None = None) -> Tensor:
        """Return representations ``[n, d]`` of any number of inputs: a batch tensor, a list, a folder or an iterator.

        A progress bar shows when it takes long; ``progress=False`` silences it.
        """
        parts: list[Tensor] = []
        order: list[int] = []
        items, total = each_input(inputs, self.inputs)
        with bar(total, f"encoding with {self.name}", progress) as shown:
            for indices, prepared in prepared_batches(self, enumerate(items), batch_size):
                output = self.encode(prepared)
                bad = (~torch.isfinite(output).all(1)).nonzero()[:, 0].tolist()
                if bad:
                    raise ValueError(f"The representation of input {indices[bad[0]]} is not finite; leave it out.")
                parts.append(output)
                order += indices
                shown.update(len(indices))
        if not parts:
            raise ValueError("There are 0 inputs; pass at least one.")
        return in_order(parts, order)

    def reference(
        self,
        inputs: Any,
        *,
        name: str | None = None,
        keep_samples: bool | None = None,
        batch_size: int | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        cache: bool = True,
        progress: bool | None = None,
        key: str | None = None,
    ) -> Reference:
        """Encode a corpus or a foil once: one input, a list, a folder, a data loader or an iterator of any length.

        Args:
            inputs: what to encode; streamed, never held in memory together. Batches, ``(input, label)`` pairs, data sets too.
            name: what pictures call it; made up from the inputs if not given.
            keep_samples: keep every representation, as kernels and selections need; by default up to 10 000.
            batch_size: inputs encoded at a time; automatic if not given.
            on_error: ``"raise"`` names the input that failed; ``"skip"`` leaves it out, goes on and reports.
            cache: keep what was encoded on disk, and look there first.
            progress: show a progress bar (``None``: when it takes long).
            key: the entry to take where inputs come as dicts.

        """
        check_choice("on_error", on_error, ("raise", "skip"))
        how = Streaming(keep_samples, batch_size, on_error == "skip", cache, progress, key)
        return stream_reference(self, inputs, name, how)


def _patch_size(owner: nn.Module | None) -> int:
    """Return the side of the patches that a module cuts pictures into by its first convolution; 1 if it does not."""
    first = next((part for part in owner.modules() if isinstance(part, nn.Conv2d)), None) if owner is not None else None
    return first.kernel_size[0] if first is not None and first.stride == first.kernel_size else 1


# --- encoders of tables ---------------------------------------------------------------------------------------------------


class TabularEncoder(Encoder):
    """An encoder of rows of a table, whose explanations are about columns.

    Args:
        module: from rows ``[n, m]`` to representations ``[n, d]``.
        columns: the names of the m columns; those of the background if that is a data frame.
        background: rows ``[n, m]`` that say what columns usually hold; removed columns are replaced by their mean, or see
            :class:`cocoax.Background`.
        preprocess: from a row ``[m]`` as given to the floats ``[m]`` that the module takes; also done to the background.
        layer, head, classes, name: as in :class:`cocoax.Encoder`.

    """

    inputs: Rows

    def __init__(
        self,
        module: Callable[..., Any],
        preprocess: Callable[[Tensor], Tensor] | None = None,
        layer: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        background: Any = None,
        head: nn.Module | None = None,
        classes: Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        columns = getattr(background, "columns", None) if columns is None else columns
        if columns is None:
            raise TypeError("An encoder of columns needs columns=, the name of each column, or a data frame as background=.")
        inputs = Rows(columns, preprocess, background)
        super().__init__(module, layer=layer, head=head, classes=classes, name=name, inputs=inputs)


def _one_vector_each(output: Any, size: int, pooling: Pooling, name: str) -> Tensor:
    """Return the representations ``[n, d]`` that the encoder called ``name`` gave for a batch of ``size``."""
    if not isinstance(output, Tensor):
        kind = type(output).__name__
        if isinstance(output, tuple | list):
            what, do = f"a {kind} of {len(output)}", "lambda x: model(x)[0]"
        elif hasattr(output, "keys"):
            keys = [str(key) for key in output]
            what, do = f"a {kind} with keys {', '.join(keys)}", f"lambda x: model(x)[{keys[0]!r}]"
        else:
            what, do = f"a {kind}", "lambda x: ..."
        hint = f"Take a layer= whose output is a tensor, or wrap it: Encoder({do}, name=...)."
        if kind == "ndarray":
            hint = "cocoax.wrap(...) takes functions of NumPy and the models of scikit-learn."
        raise TypeError(f"The encoder {name!r} returned {what}; it must return one tensor [n, d]. {hint}")
    check_plain(output, f"What the encoder {name!r} returns")
    if output.ndim < 2 or len(output) != size:
        raise ValueError(
            f"The encoder {name!r} returned shape {list(output.shape)} for a batch of {size}; expected [{size}, d]. "
            "It must return one row per input: take a layer= that does, or wrap the model."
        )
    output = pooled(output, pooling)
    representations: Tensor = output if output.dtype == torch.float64 else output.float()
    return representations


def _size_of(batch: Tensor | Mapping[str, Tensor]) -> int:
    """Return how many inputs a batch holds; raise if it is none."""
    parts = [batch] if isinstance(batch, Tensor) else list(batch.values())
    if not parts or not all(isinstance(part, Tensor) and part.ndim > 0 for part in parts):
        raise TypeError("A batch must be a tensor with one row per input, or a dict of such tensors.")
    for part in parts:
        check_batch(part)
    return len(parts[0])


def _is_prepared(inputs: object) -> bool:
    """Whether inputs are tensors already, one for each: a batch, or a list of them."""
    if isinstance(inputs, list | tuple):
        return len(inputs) > 0 and all(isinstance(tensor, Tensor) for tensor in inputs)
    return isinstance(inputs, Tensor)


def _check_deterministic(encoder: Encoder, prepared: Tensor, before: Tensor) -> None:
    """Raise if an input, encoded again and alone, has another representation: attribution is meaningless then."""
    with torch.no_grad():
        again = encoder(encoder.collate([prepared])).detach().to("cpu")[0]
    allowed = (5e-2 if torch.finfo(encoder._computes_in).bits < 32 else 1e-3) * float(before.double().norm())
    if float((again.double() - before.double()).norm()) > allowed:  # False for NaN, which is reported by index elsewhere
        raise ValueError(
            f"The encoder {encoder.name!r} gave two representations of the same input: it is random even in eval mode "
            "(dropout or noise that ignores it), or its output depends on the rest of the batch. Switch that off."
        )

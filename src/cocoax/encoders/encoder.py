"""The encoder f: any module or callable that turns inputs into representations."""

from __future__ import annotations

import copy
import difflib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self
from weakref import WeakKeyDictionary

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from cocoax.encoders.folding import can_be_folded, fold_norms, shallow_copy
from cocoax.encoders.identity import WeightsDigest, describe, weights_digest_of
from cocoax.encoders.stream import stream_reference
from cocoax.inputs.images import WHOLE, Explicand, image_files, open_image, picture_of, picture_of_tensor, to_tensor
from cocoax.progress import bar
from cocoax.references import Reference
from cocoax.storage import digest, file_digest

# Elements of a batch on a CPU: measured, larger ones leave the caches and take up to twice as long per image.
CPU_BATCH = 640_000
Pooling = Literal["mean", "flatten", "first"]

# A forward pass sets the mode of the module and hooks into its layers, so that one module serves one thread at a time.
_LOCKS: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()
_LOCKS_LOCK = threading.Lock()


class Encoder:
    """An image encoder f, with its preprocessing, batching and bookkeeping.

    Args:
        module: an ``nn.Module`` or any callable from a batch ``[n, C, H, W]`` to representations ``[n, d]``.
        preprocess: from an upright RGB or grey PIL image to a tensor ``[C, H, W]``; without it pixels become floats in
            [0, 1]. :class:`cocoax.ImagePreprocess` is one; torchvision transforms work too.
        layer: take the representation from inside the module: the output of the submodule of this name, as in
            ``module.named_modules()`` (the paper's penultimate layer).
        pooling: what makes one vector of an output with more than two dimensions: ``"mean"`` over positions or tokens,
            ``"flatten"``, or the ``"first"`` token.
        head: an optional classifier on top of the representation.
        classes: the names of the head's classes, in the order of its outputs.
        text: the text tower of an image-and-text encoder; both must share one representation space.
        name: shown in pictures; for a bare callable it also is what references and caches recognise it by.
        features: ``"pixels"``. With ``"columns"`` it is a :class:`cocoax.TabularEncoder`, for rows of a table, and takes
            the options of that.

    Inputs are pictures (paths, PIL images, uint8 arrays ``[H, W, C]``) or preprocessed float tensors ``[C, H, W]``.
    The module runs in eval mode, where its parameters are, and is left as it was found.

    """

    hint = "Check the number of channels and the size that it expects."  # where the module itself fails

    def __new__(cls, *_args: Any, features: str = "pixels", **_options: Any) -> Encoder:
        """An encoder of tables for ``features="columns"``, of images otherwise."""
        if cls is Encoder and features == "columns":
            from cocoax.encoders.columns import TabularEncoder

            return super().__new__(TabularEncoder)
        if cls is Encoder and features != "pixels":
            raise ValueError(
                f"The 'features' parameter must be 'pixels' or 'columns'; for texts use cocoax.TextEncoder. Got {features!r}."
            )
        return super().__new__(cls)

    def __init__(
        self,
        module: Callable[..., Any],
        preprocess: Callable[[Image.Image], Tensor] | None = None,
        layer: str | None = None,
        *,
        pooling: Pooling = "mean",
        head: nn.Module | None = None,
        classes: Sequence[str] | None = None,
        text: Encoder | None = None,
        name: str | None = None,
        features: str = "pixels",
    ) -> None:
        if not callable(module):
            raise TypeError(f"An encoder must be an nn.Module or a callable. Got {type(module).__name__} instead.")
        if pooling not in ("mean", "flatten", "first"):
            raise ValueError(f"The 'pooling' parameter must be 'mean', 'flatten' or 'first'. Got {pooling!r} instead.")
        outputs = getattr(head, "out_features", None)
        if classes is not None and (head is None or (outputs is not None and outputs != len(classes))):
            what = "there is no head" if head is None else f"the head has {outputs} outputs"
            raise ValueError(f"'classes' names {len(classes)} classes but {what}; pass one name for each output of the head.")
        self.module = module
        self.preprocess = preprocess
        self.layer = layer
        self.pooling = pooling
        self.head = head
        self.classes = None if classes is None else list(classes)
        self.name: str = name or getattr(module, "__name__", None) or type(module).__name__
        self._text = copy.copy(text)
        self._image_tower: Encoder | None = None
        if self._text is not None:
            self._text._image_tower = self  # the towers share a space
        self._weights = weights_digest_of(module, name)
        self._submodule = self.layer_named(layer) if layer is not None else None
        self._most_at_once: int | None = None  # learned when memory ran out
        self._checked = 0  # 1 after one input alone was encoded twice, 2 after one of a batch was
        self._folded: tuple[object, Encoder | None] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}{f', layer={self.layer!r}' if self.layer else ''})"

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def text(self) -> Encoder:
        """The text tower, whose representations live in the same space."""
        if self._text is None:
            raise AttributeError(f"The encoder {self.name!r} has no text tower; cocoax.load('starter') has one.")
        return self._text

    @property
    def fingerprint(self) -> str:
        """Identifies weights, layer, pooling and preprocessing."""
        return digest(self._weights(), self.layer, self.pooling, describe(self.preprocess))

    def freeze(self) -> Self:
        """Take the weights as final, so that fingerprints need not look at them again; returns itself.

        For programs that ask many small questions: looking takes longer than encoding a few words does. Changing the
        weights afterwards goes unnoticed, so do not.
        """
        final = self._weights()
        self._weights = lambda: final
        if self._text is not None:
            self._text.freeze()
        return self

    @property
    def recognisable(self) -> bool:
        """Whether the fingerprint means anything beyond this process; that of an unnamed callable does not."""
        # Of a module there is always a digest, and reading all its weights to see that would take long.
        return isinstance(self._weights, WeightsDigest) or not self._weights().startswith("unnamed-")

    @property
    def space(self) -> str:
        """Identifies the representation space; the towers of one encoder share it."""
        if self._text is not None:
            return digest("towers", self.fingerprint, self._text.fingerprint)
        return self.fingerprint if self._image_tower is None else self._image_tower.space

    @property
    def device(self) -> torch.device:
        """Where the module's parameters are."""
        return self._first_parameter().device

    def _first_parameter(self) -> Tensor:
        owner = self.owner
        if owner is not None:
            for tensor in chain(owner.parameters(), owner.buffers()):
                if tensor.is_floating_point():
                    return tensor
        return torch.empty(0)

    @property
    def owner(self) -> nn.Module | None:
        """The module behind the callable, if it can be seen."""
        owner = self.module if isinstance(self.module, nn.Module) else getattr(self.module, "__self__", None)
        return owner if isinstance(owner, nn.Module) else None

    def with_module(self, module: nn.Module, name: str) -> Self:
        """The same encoder around another module of the same architecture; without the text tower, whose space it left."""
        other = copy.copy(self)
        # An encoder around a method of a module (``model.encode_image``) stays around that method.
        other.module = module if isinstance(self.module, nn.Module) else getattr(module, self.module.__name__)
        other.name = name
        other._text = other._image_tower = None
        other._weights = weights_digest_of(other.module, name)
        other._submodule = other.layer_named(self.layer) if self.layer is not None else None
        other._checked = 0
        other._folded = None
        return other

    def folded(self, space: str, examples: Sequence[Tensor], expected: Tensor) -> Encoder:
        """The same encoder, faster on many inputs like these ``[C, H, W]``: batch normalisation is folded into convolutions.

        It is kept for as long as the weights stay what they are, which ``space``, the encoder's own, tells. Where nothing can
        be folded, or the examples' representations are not the ``expected`` ones but for rounding, it is the encoder itself.
        """
        owner = self.owner
        shape = examples[0].shape
        alike = all(one.shape == shape and one.is_floating_point() for one in examples)
        if owner is None or not alike or not can_be_folded(owner):
            return self
        key = space, shape, self.device
        # Parameters must not be inference tensors, which later gradients could not use.
        with locked(owner), torch.inference_mode(False), torch.no_grad():
            batch = self.collate(torch.stack(list(examples)))
            if self._folded is None or self._folded[0] != key:
                self._folded = key, self._fold(owner, batch)
            other = self._folded[1]
            return other if other is not None and other._gives(batch, expected) else self

    def _fold(self, owner: nn.Module, batch: Tensor) -> Encoder | None:
        try:
            module = shallow_copy(owner)
            draft = self.with_module(module, self.name)
            if not fold_norms(module, lambda: draft(batch)):
                return None
            other = self.with_module(module, self.name)  # again: a layer of it may be another module now
        except Exception:  # a module that cannot be copied serves as it is
            return None
        other._text, other._image_tower, other._weights = self._text, self._image_tower, self._weights
        return other

    def _gives(self, batch: Tensor, expected: Tensor) -> bool:
        try:
            change = (self(batch).to(expected) - expected).norm(dim=1)
        except Exception:  # whatever a module says that misses its norms
            return False
        return bool((change <= 1e-4 * expected.norm(dim=1)).all())

    def layer_named(self, layer: str) -> nn.Module:
        """The submodule of this name; an error lists close names."""
        owner = self.owner
        names = [name for name, _ in owner.named_modules() if name] if owner is not None else []
        if owner is None or layer not in names:
            close = difflib.get_close_matches(layer, names, n=5, cutoff=0.3) or names[:5]
            hint = f"close ones are {', '.join(close)}" if close else "it is not an nn.Module with layers"
            raise ValueError(f"The encoder {self.name!r} has no layer {layer!r}; {hint}.")
        return owner.get_submodule(layer)

    # --- inputs -------------------------------------------------------------------------------------------------------

    def is_one(self, inputs: object) -> bool:
        """Whether this is one input rather than many."""
        if isinstance(inputs, np.ndarray) and inputs.dtype == np.uint8:
            return inputs.ndim <= 3
        if isinstance(inputs, Tensor | np.ndarray):
            return inputs.ndim in (1, 3)
        return isinstance(inputs, Image.Image | Explicand) or (isinstance(inputs, str | Path) and not Path(inputs).is_dir())

    def as_list(self, inputs: Any, one: bool = False) -> list[Any]:
        """Inputs as a list; ``one`` demands a single input."""
        found = list(self.several(inputs)[0])
        if one and len(found) != 1:
            raise ValueError(f"Expected one input, got {len(found)}.")
        return found

    def several(self, inputs: Any) -> tuple[Iterator[Any], int | None]:
        """Inputs one by one (a single one, those of a folder, what an iterable gives), and how many if that is known."""
        if self.is_one(inputs):
            inputs = [inputs]
        elif isinstance(inputs, str | Path):
            inputs = image_files(Path(inputs))
        elif not isinstance(inputs, Iterable) or (isinstance(inputs, Tensor | np.ndarray) and inputs.ndim == 0):
            raise TypeError(f"Inputs must be pictures, tensors or an iterable of those. Got {type(inputs).__name__}.")
        return iter(inputs), len(inputs) if hasattr(inputs, "__len__") else None

    def prepare(self, one: Any) -> Any:
        """One input as the tensor ``[C, H, W]`` that the module takes; tensors and float arrays are taken as they are."""
        if isinstance(one, Explicand):
            return one.tensor
        if isinstance(one, Tensor) or (isinstance(one, np.ndarray) and one.dtype != np.uint8):
            return self._check_tensor(one)
        return self._preprocessed(open_image(self._check_picture(one)))

    def explicand(self, one: Any) -> Explicand:
        """One input made ready to be explained."""
        if isinstance(one, Explicand):
            return one
        if isinstance(one, Tensor) or (isinstance(one, np.ndarray) and one.dtype != np.uint8):
            tensor = self._check_tensor(one)
            image = None
        else:
            image = open_image(self._check_picture(one))
            tensor = self._preprocessed(image)
        if tensor.ndim != 3:
            raise ValueError(f"An explicand must be one image [C, H, W]. Got shape {list(tensor.shape)} instead.")
        if tensor.shape[1] * tensor.shape[2] < 2:
            raise ValueError("The explicand has a single pixel; there is nothing to compare. Pass a larger image.")
        tensor = tensor.detach().to("cpu", torch.float32)
        tensor = tensor.clone() if tensor.is_inference() else tensor  # so that gradients can be taken
        box_of = (lambda _size: WHOLE) if self.preprocess is None else getattr(self.preprocess, "box", None)
        if image is None or box_of is None:  # which part of a picture it shows is not known
            return Explicand(tensor, picture_of_tensor(tensor))
        return Explicand(tensor, picture_of(image), box_of(image.size))

    def differentiable(self, explicand: Explicand) -> tuple[Encoder, Explicand]:
        """The encoder and the explicand as gradients see them: float tensors in, representations out."""
        return self, explicand

    def _preprocessed(self, image: Image.Image) -> Tensor:
        if self.preprocess is None:
            return to_tensor(image)
        tensor = self.preprocess(image)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"The encoder's preprocess must return a float tensor [C, H, W]. Got {type(tensor).__name__} instead."
            )
        return self._check_tensor(tensor)

    @staticmethod
    def _check_picture(one: Any) -> Any:
        if not isinstance(one, str | Path | Image.Image | np.ndarray):
            raise TypeError(f"An input must be a path, a PIL image, an array or a tensor. Got {type(one).__name__} instead.")
        return one

    @staticmethod
    def _check_tensor(given: Tensor | np.ndarray) -> Tensor:
        # Arrays are copied: torch cannot take those that run backwards or cannot be written.
        tensor = torch.from_numpy(np.array(given)) if isinstance(given, np.ndarray) else given
        if not tensor.is_floating_point():
            raise TypeError(
                f"A tensor must be a preprocessed float input [C, H, W]. Got {tensor.dtype} instead; "
                "pass pictures as PIL images, paths or uint8 arrays [H, W, C]."
            )
        if tensor.numel() == 0:
            raise ValueError(
                f"The input has no elements: its shape is {list(tensor.shape)}; pass a float tensor [C, H, W] with pixels."
            )
        return tensor

    def collate(self, prepared: Sequence[Any] | Tensor) -> Any:
        """Prepared inputs as one batch for the module, on its device."""
        like = self._first_parameter()
        if isinstance(prepared, Tensor):
            return _channels_last(prepared.to(like.device, like.dtype))
        shapes = {tuple(tensor.shape) for tensor in prepared}
        if len(shapes) > 1:
            raise ValueError(
                f"Inputs have different shapes, {' and '.join(str(list(shape)) for shape in sorted(shapes)[:2])}, and cannot "
                "form a batch; give the encoder a preprocess= that resizes, such as "
                "cocoax.ImagePreprocess(resize=224, crop=224), or pass batch_size=1."
            )
        return _channels_last(torch.stack([tensor.detach() for tensor in prepared]).to(like.device, like.dtype))

    # --- representations ----------------------------------------------------------------------------------------------

    def __call__(self, batch: Any) -> Tensor:
        """Representations ``[n, d]`` of a collated batch, differentiable; :meth:`represent` is for everything else."""
        size = len(batch) if isinstance(batch, Tensor) else len(next(iter(batch.values())))
        caught: list[Any] = []
        with locked(self.owner), evaluating(self.owner):
            hook = None
            if self._submodule is not None:
                hook = self._submodule.register_forward_hook(lambda _module, _inputs, output: caught.append(_copy(output)))
            try:
                output = self.module(batch)
            except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
                if is_out_of_memory(error):
                    raise
                shape = list(batch.shape) if isinstance(batch, Tensor) else f"of {size} inputs"
                raise RuntimeError(f"The encoder {self.name!r} failed on a batch {shape}: {error}. {self.hint}") from error
            finally:
                if hook is not None:
                    hook.remove()
        if self.layer is not None:
            if not caught:
                raise RuntimeError(f"The layer {self.layer!r} did not run in the forward pass of {self.name!r}.")
            output = caught[-1]
        return self._one_vector_each(output, size)

    def _one_vector_each(self, output: Any, size: int) -> Tensor:
        if not isinstance(output, Tensor):
            kind = type(output).__name__
            if isinstance(output, tuple | list):
                what, do = f"a {kind} of {len(output)}", "lambda x: model(x)[0]"
            elif hasattr(output, "keys"):
                keys = [str(key) for key in output]
                what, do = f"a {kind} with keys {', '.join(keys)}", f"lambda x: model(x)[{keys[0]!r}]"
            else:
                what, do = f"a {kind}", "lambda x: ..."
            raise TypeError(
                f"The encoder {self.name!r} returned {what}; it must return one tensor [n, d]. Take a layer= whose output "
                f"is a tensor, or wrap it: Encoder({do}, name=...)."
            )
        if output.ndim < 2 or len(output) != size:
            raise ValueError(
                f"The encoder {self.name!r} returned shape {list(output.shape)} for a batch of {size}; expected [{size}, d]. "
                "It must return one row per input: take a layer= that does, or wrap the model."
            )
        if output.ndim > 2:
            if self.pooling == "flatten":
                output = output.flatten(1)
            elif output.ndim == 3:  # [n, tokens, d]
                output = output[:, 0] if self.pooling == "first" else output.mean(1)
            else:  # [n, channels, positions...]
                output = output.flatten(2)[..., 0] if self.pooling == "first" else output.flatten(2).mean(2)
        representations: Tensor = output.float()
        return representations

    def encode(self, prepared: Sequence[Any] | Tensor) -> Tensor:
        """Representations ``[n, d]`` of prepared inputs, as float32 on the CPU, without autograd state.

        Memory running out halves the batch, now and from now on.
        """
        try:
            batch = self.collate(prepared)
            with torch.no_grad():
                output = self(batch).to("cpu")
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(prepared) == 1:
                raise MemoryError(
                    f"The encoder {self.name!r} ran out of memory on a single input of shape "
                    f"{list(np.shape(prepared[0]))}; use a smaller input or a smaller encoder."
                ) from error
            half = len(prepared) // 2
            self._most_at_once = half
            return torch.cat([self.encode(prepared[:half]), self.encode(prepared[half:])])
        if self._checked < min(len(output), 2):
            self._check_deterministic(prepared[0], output[0])
            self._checked = min(len(output), 2)
        return output

    def _check_deterministic(self, one: Any, before: Tensor) -> None:
        """Encode one input again, alone: attribution is meaningless where that gives something else."""
        with torch.no_grad():
            again = self(self.collate([one])).to("cpu")[0]
        low_precision = self._first_parameter().dtype in (torch.float16, torch.bfloat16)
        allowed = (5e-2 if low_precision else 1e-3) * float(before.norm())
        if float((again - before).norm()) > allowed:  # False for NaN, which is reported by index elsewhere
            raise ValueError(
                f"The encoder {self.name!r} gave two representations of the same input: it is random even in eval mode "
                "(dropout or noise that ignores it), or its output depends on the rest of the batch. Switch that off."
            )

    def batch_size(self, one: Any, asked: int | None = None) -> int:
        """How many inputs like this one are encoded at a time.

        It depends on nothing but the input's size (and on memory having run out before), so results are repeatable.
        """
        if asked is not None and not (isinstance(asked, int) and asked >= 1):
            raise ValueError(f"The 'batch_size' parameter must be an integer of at least 1. Got {asked!r} instead.")
        if asked is None:
            most, elements = (64, CPU_BATCH) if self.device.type == "cpu" else (512, 100 * CPU_BATCH)
            asked = max(1, min(most, elements // one.numel()))
        return asked if self._most_at_once is None else min(asked, self._most_at_once)

    def represent(self, inputs: Any, batch_size: int | None = None, *, progress: bool | None = None) -> Tensor:
        """Representations ``[n, d]`` of any number of inputs: a batch tensor, a list, a folder or an iterator.

        A progress bar shows when it takes long; ``progress=False`` silences it.
        """
        parts: list[Tensor] = []
        several, total = self.several(inputs)
        with bar(total, f"encoding with {self.name}", progress) as shown:
            for indices, prepared in self.prepared_batches(enumerate(several), batch_size):
                output = self.encode(prepared)
                bad = (~torch.isfinite(output).all(1)).nonzero()[:, 0].tolist()
                if bad:
                    raise ValueError(f"The representation of input {indices[bad[0]]} is not finite; leave it out.")
                parts.append(output)
                shown.update(len(indices))
        if not parts:
            raise ValueError("There are 0 inputs; pass at least one.")
        return torch.cat(parts)

    def prepared_batches(
        self, numbered: Iterator[tuple[int, Any]], batch_size: int | None
    ) -> Iterator[tuple[list[int], list[Any]]]:
        """Prepared inputs in batches, with their numbers."""
        indices: list[int] = []
        batch: list[Any] = []
        for index, one in numbered:
            batch.append(self.prepare_numbered(index, one))
            indices.append(index)
            if len(batch) >= self.batch_size(batch[0], batch_size):
                yield indices, batch
                indices, batch = [], []
        if batch:
            yield indices, batch

    def prepare_numbered(self, index: int, one: Any) -> Any:
        """As :meth:`prepare`; an error says which input it was."""
        try:
            return self.prepare(one)
        except (ValueError, TypeError, OSError, RuntimeError) as error:
            kind = next((kind for kind in (FileNotFoundError, TypeError) if isinstance(error, kind)), ValueError)
            words = kind is FileNotFoundError and self._text is not None and not Path(one).suffix
            hint = " For words, use encoder.text.reference([...])." if words else ""
            raise kind(f"Input {index}: {error}{hint}") from error

    # --- references ---------------------------------------------------------------------------------------------------

    def reference(
        self,
        inputs: Any,
        *,
        name: str | None = None,
        keep_samples: bool = False,
        batch_size: int | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        cache: bool = True,
        progress: bool | None = None,
    ) -> Reference:
        """Encode a corpus or a foil once: one input, a list, a folder or an iterator of any length.

        Args:
            inputs: what to encode; streamed, never held in memory together.
            name: what pictures call it; made up from the inputs if not given.
            keep_samples: keep every representation, as kernel similarities need.
            batch_size: inputs encoded at a time; automatic if not given.
            on_error: ``"raise"`` names the input that failed; ``"skip"`` leaves it out, goes on and reports.
            cache: keep what was encoded on disk, and look there first.
            progress: show a progress bar (``None``: when it takes long).

        """
        if on_error not in ("raise", "skip"):
            raise ValueError(f"The 'on_error' parameter must be 'raise' or 'skip'. Got {on_error!r} instead.")
        return stream_reference(self, inputs, name, keep_samples, batch_size, on_error == "skip", cache, progress)

    def digest_input(self, one: Any) -> str:
        """A digest of one input: the content of a file, or the prepared tensor."""
        if isinstance(one, str | Path):
            return file_digest(Path(one)) if Path(one).is_file() else "missing"
        return digest(one)

    def label(self, one: Any) -> str:
        """What to call one input."""
        return Path(one).stem if isinstance(one, str | Path) else "image"

    def made_up_name(self, labels: list[str], count: int) -> str:
        """What to call a reference of ``count`` inputs that has no name; ``labels`` are those of the first few."""
        together = ", ".join(labels)
        if count <= 3 and len(labels) == count and "image" not in labels and len(together) <= 40:
            return together
        return f"{count} image{'s' if count != 1 else ''}"


@contextmanager
def locked(module: nn.Module | None) -> Iterator[None]:
    """Alone with a module: other threads wait."""
    if module is None:
        yield
        return
    with _LOCKS_LOCK:
        lock = _LOCKS.setdefault(module, threading.RLock())
    with lock:
        yield


@contextmanager
def evaluating(module: nn.Module | None) -> Iterator[None]:
    """Eval mode for a while; every submodule gets its own mode back."""
    training = [] if module is None else [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def frozen(module: nn.Module | None) -> Iterator[None]:
    """Without gradients of the weights, which nobody asked for; every parameter is given back as it was."""
    trained = [] if module is None else [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


def _copy(output: Any) -> Any:
    """What a layer gave, safe from later layers that work in place; of (hidden states, attentions, ...) the first."""
    if isinstance(output, tuple) and output and isinstance(output[0], Tensor):
        output = output[0]
    return output.clone() if isinstance(output, Tensor) else output


def _channels_last(batch: Tensor) -> Tensor:
    """Images with the channels innermost, in which convolutions run up to twice as fast; the values are the same."""
    return batch.contiguous(memory_format=torch.channels_last) if batch.ndim == 4 else batch


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError)
        and any(text in str(error) for text in ("can't allocate memory", "not enough memory", "out of memory"))
    )

"""Live models: whatever a user holds in memory, as an encoder, with the defaults of loading it by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cocoax.encoders.encoder import Encoder
from cocoax.encoders.text import TextEncoder


def wrap(model: Any, processor: Any = None, **options: Any) -> Encoder:
    """Return an encoder around a model that is in memory, fine-tuned weights and all.

    Args:
        model: a ``SentenceTransformer``; a model of transformers, timm or open_clip; a fitted transformer of scikit-learn (PCA,
            a pipeline); any ``nn.Module``; or a function that returns NumPy.
        processor: what prepares its inputs: the tokenizer or image processor of transformers, the transform of timm, open_clip or
            torchvision. A ``SentenceTransformer`` has its own.
        options: of :class:`cocoax.Encoder`, :class:`cocoax.TextEncoder` or :class:`cocoax.TabularEncoder`, such as ``name``,
            ``layer``, ``columns``, ``features``.

    """
    for recognises, make in _KINDS:
        if recognises(model, processor):
            return make(model, processor, options)
    raise TypeError(
        f"cocoax.wrap does not know what to do with {type(model).__name__}; pass a module, a function from a batch to "
        "representations, or a fitted transformer of scikit-learn."
    )


def _library(model: object) -> str:
    """Return the names of the libraries that a model's classes come from, as one string."""
    return " ".join(kind.__module__.split(".")[0] for kind in type(model).__mro__)


def _is_tokenizer(processor: object) -> bool:
    return hasattr(processor, "convert_ids_to_tokens")


def _sentence_transformer(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    from cocoax.encoders.load.sentence import sentence_encoder

    if processor is not None:
        raise ValueError("A SentenceTransformer brings its own tokenizer; leave the second argument out.")
    return sentence_encoder(model, **options)


def _text_model(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    from cocoax.encoders.load.sentence import text_model_encoder

    vocabulary = getattr(getattr(model, "config", None), "vocab_size", None)
    if vocabulary is not None and len(processor) > vocabulary:
        raise ValueError(
            f"The tokenizer has {len(processor)} tokens but the model knows {vocabulary}; use the tokenizer it was trained with."
        )
    return text_model_encoder(model, processor, **options)


def _vision_model(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    from cocoax.encoders.load.huggingface import vision_encoder

    return vision_encoder(model, processor, **options)


def _rows(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    columns = options.pop("columns", None)
    if columns is None:
        names = getattr(model, "feature_names_in_", None)
        count = getattr(model, "n_features_in_", None)
        if names is None and count is None:
            raise ValueError(
                f"{type(model).__name__} is not fitted yet; fit it first, or pass columns=, the names of the columns."
            )
        columns = [str(name) for name in names] if names is not None else [f"column {index}" for index in range(count)]
    return Encoder(
        from_numpy(model.transform), processor, columns=columns, features="columns", name=_name(model, options), **options
    )


def _module(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    if _is_tokenizer(processor):
        limit = options.pop("limit", min(getattr(processor, "model_max_length", 512), 100_000))
        return TextEncoder(model, processor, limit=limit, **options)
    return Encoder(model, processor, **options)


def _function(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    return Encoder(from_numpy(model), processor, name=_name(model, options), **options)


def _name(model: Any, options: dict[str, Any]) -> str:
    name: str = options.pop("name", None) or getattr(model, "__name__", None) or type(model).__name__
    return name


def from_numpy(function: Callable[[Any], Any]) -> Callable[[Tensor], Tensor]:
    """Return a function from NumPy to NumPy (or torch) as one from tensors to tensors; it has no gradients."""

    def encode(batch: Tensor) -> Tensor:
        output = function(batch.detach().cpu().numpy())
        if hasattr(output, "toarray"):  # a sparse matrix
            output = output.toarray()
        return output if isinstance(output, Tensor) else torch.from_numpy(np.asarray(output, dtype=np.float32))

    encode.__name__ = getattr(function, "__name__", "encode")
    return encode


_Recognises = Callable[[Any, Any], bool]
_Makes = Callable[[Any, Any, dict[str, Any]], Encoder]
_KINDS: Sequence[tuple[_Recognises, _Makes]] = (
    (lambda model, _: "sentence_transformers" in _library(model), _sentence_transformer),
    (lambda model, processor: "transformers" in _library(model) and _is_tokenizer(processor), _text_model),
    (lambda model, processor: "transformers" in _library(model) and processor is not None, _vision_model),
    (lambda model, _: isinstance(model, nn.Module), _module),
    (lambda model, _: hasattr(model, "transform") and hasattr(model, "fit"), _rows),
    (lambda model, _: callable(model), _function),
)

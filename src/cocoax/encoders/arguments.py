"""What an encoder is made of, checked before anything is encoded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_args

import torch
from torch import nn

from cocoax.checks import check_kind
from cocoax.encoders.forward import Pooling
from cocoax.inputs import Inputs, Pictures, Rows


def check_module(module: object) -> None:
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


def name_of(module: Callable[..., Any], name: str | None) -> str:
    """Return the name of an encoder: the one it was given, or that of its module."""
    if name is not None:
        check_kind("The 'name' parameter", name, str, "must be a string")
    return name or getattr(module, "__name__", None) or type(module).__name__


def is_sentence_transformer(model: object) -> bool:
    """Whether it is a model of sentence-transformers; that package is not imported for it."""
    return any(
        kind.__name__ == "SentenceTransformer" and kind.__module__.startswith("sentence_transformers")
        for kind in type(model).__mro__
    )


def check_pooling(pooling: str) -> None:
    """Raise unless it is one of the ways to make one vector of many."""
    if not isinstance(pooling, str) or pooling not in get_args(Pooling):
        raise ValueError(f"The 'pooling' parameter must be 'mean', 'flatten' or 'first'. Got {pooling!r} instead.")


def check_classes(classes: Sequence[str] | None, head: nn.Module | None) -> None:
    """Raise unless there is one name for each output of the head."""
    outputs = getattr(head, "out_features", None)
    if classes is not None and (head is None or (outputs is not None and outputs != len(classes))):
        what = "there is no head" if head is None else f"the head has {outputs} outputs"
        raise ValueError(f"'classes' names {len(classes)} classes but {what}; pass one name for each output of the head.")


def inputs_for(
    inputs: object, features: str, preprocess: Any, columns: Sequence[str] | None, background: Any, name: str
) -> Inputs:
    """Return the kind of inputs that the options of :class:`cocoax.Encoder` describe."""
    if isinstance(preprocess, Inputs):
        raise TypeError(f"{type(preprocess).__name__} is a kind of input, no preprocessing; pass it as inputs=.")
    if inputs is not None:
        if isinstance(inputs, type):
            raise TypeError(f"The 'inputs' parameter takes an object: write inputs={inputs.__name__}(...).")
        check_kind("The 'inputs' parameter", inputs, Inputs, "must be a kind of input, such as cocoax.inputs.Rows(...)")
        if features != "pixels" or any(option is not None for option in (preprocess, columns, background)):
            raise ValueError(
                "'inputs' says all about the inputs; leave out 'preprocess', 'columns', 'background' and 'features'."
            )
        assert isinstance(inputs, Inputs)
        return inputs
    check_kind("The 'features' parameter", features, str, "must be 'pixels' or 'columns'; for texts use cocoax.TextEncoder")
    if features == "columns":
        columns = getattr(background, "columns", None) if columns is None else columns
        if columns is None:
            raise TypeError("An encoder of columns needs columns=, the name of each column, or a data frame as background=.")
        return Rows(columns, preprocess, background, name)
    if features != "pixels":
        raise ValueError(
            f"The 'features' parameter must be 'pixels' or 'columns'; for texts use cocoax.TextEncoder. Got {features!r}."
        )
    if columns is not None or background is not None:
        raise TypeError("'columns' and 'background' are for rows of a table; add features='columns'.")
    return Pictures(preprocess)

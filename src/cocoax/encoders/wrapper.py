"""Live models: what a user holds in memory, as an encoder, with the defaults of loading it by name."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cocoax.encoders.devices import HALF, precision_named
from cocoax.encoders.encoder import Encoder, TabularEncoder, is_sentence_transformer
from cocoax.encoders.families import clip, huggingface, open_clip, sentence, timm
from cocoax.encoders.families.processors import Preprocess, noise, preprocess_of, same_pixels
from cocoax.encoders.forward import ModelFunction, first_parameter, random_state_kept
from cocoax.encoders.late_interaction import is_pylate, late_function_encoder, late_picture_encoder, pylate_encoder
from cocoax.encoders.rerankers import Reranker, is_cross_encoder
from cocoax.encoders.text import TextEncoder
from cocoax.encoders.text_functions import embedding_of, items_of, picture_function_encoder, text_function_encoder


def wrap(model: Any, processor: Any = None, **options: Any) -> Encoder:
    """Return an encoder around a model that is in memory: its weights as they are now, and the model left as it is.

    Args:
        model: a ``SentenceTransformer``; a model of transformers, timm or open_clip; a fitted transformer of scikit-learn
            (PCA, a pipeline); any other ``nn.Module``; a function from a list of texts, or of PIL images, to vectors, or an
            object that has one (LangChain, LlamaIndex); or a function from a batch to representations, both NumPy arrays.
        processor: what prepares its inputs: the tokenizer, image processor or processor of transformers, or a function from a
            picture to a tensor, such as the transform of timm, open_clip or torchvision. A ``SentenceTransformer``, and most
            models of timm and open_clip, bring it along.
        options: those of loading such a model by name (``pooling``, ``layer``, ``prompt``, ``features``, …), of
            :class:`cocoax.Encoder` for other modules and functions, and of :class:`cocoax.TabularEncoder` for scikit-learn.
            ``tokenizer=`` adds the text tower of a model with two, beside the transform or image processor. What a function
            takes is told by its type hint, or by ``takes="texts"``, ``"pictures"`` or ``"pairs"`` (of query and document: a
            reranker). ``late_interaction=True``: it gives one vector for each token or patch, an array ``[tokens, d]``.

    Example:
        >>> def embed(texts: list[str]) -> np.ndarray:  # or the client of an API
        ...     return np.array([[1.0 + text.count(letter) for letter in "abcde"] for text in texts])
        >>> encoder = cocoax.wrap(embed, name="letters")
        >>> encoder.represent(["a bad cab", "a deed"]).shape
        torch.Size([2, 5])

    """
    model = _bare(model)
    _check_precision(model)
    for recognises, make in _KINDS:
        if recognises(model):
            return make(model, processor, options)
    raise TypeError(
        f"cocoax.wrap takes a module, a function from a batch to representations, or a fitted transformer of scikit-learn. "
        f"Got {type(model).__name__} instead."
    )


def _bare(model: Any) -> Any:
    """Return the model inside of what compiles it, spreads it over devices, or holds its adapters."""
    if "_orig_mod" in getattr(model, "_modules", ()):
        return _bare(model._modules["_orig_mod"])
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        return _bare(model.module)
    if _comes_from(model, "peft"):
        return _bare(model.get_base_model())  # which has the adapters in it
    return model


def _check_precision(model: Any) -> None:
    """Raise if the model is in half precision and this machine cannot compute in it, which may end the process."""
    parameter = first_parameter(model if isinstance(model, nn.Module) else None)
    if parameter.dtype in HALF:
        try:
            precision_named(parameter.dtype, parameter.device)
        except ValueError as error:
            raise ValueError(f"{type(model).__name__} is in half precision. {error} Write model.float() first.") from error


def _comes_from(model: object, library: str) -> bool:
    return any(kind.__module__.partition(".")[0] == library for kind in type(model).__mro__)


# --- processors -----------------------------------------------------------------------------------------------------------


def _tokenizer_in(processor: Any) -> Any:
    """Return the tokenizer of transformers that a processor is or holds, or None."""
    held = getattr(processor, "tokenizer", None)
    return next((part for part in (processor, held) if hasattr(part, "convert_ids_to_tokens")), None)


def _image_processor_in(processor: Any) -> Any:
    """Return the image processor of transformers that a processor is or holds, or None."""
    held = getattr(processor, "image_processor", None)
    parts = (part for part in (held, processor) if not hasattr(part, "convert_ids_to_tokens"))
    return next((part for part in parts if "pixel_values" in getattr(part, "model_input_names", ())), None)


def _misfit(model: Any, needs: str, processor: Any) -> TypeError:
    got = "nothing" if processor is None else type(processor).__name__
    return TypeError(f"{type(model).__name__} needs {needs} as the second argument of cocoax.wrap. Got {got} instead.")


def _check_vocabulary(model: Any, tokenizer: Any) -> None:
    tables = [part for part in model.modules() if isinstance(part, nn.Embedding)]
    most = max((table.num_embeddings for table in tables), default=len(tokenizer))
    if len(tokenizer) > most:
        raise ValueError(
            f"The tokenizer has {len(tokenizer)} tokens but {type(model).__name__} knows {most}; use the tokenizer that it "
            "was trained with."
        )


def _transform(transform: Any, own: Callable[[], Preprocess] | None = None) -> Preprocess:
    """Return a user's transform; or the model's ``own`` if that does the same, since that one knows what it cuts off."""
    if not callable(transform):
        raise TypeError(f"A transform must be a function from a picture to a tensor. Got {type(transform).__name__} instead.")
    picture = noise(211, 140)
    with random_state_kept():
        try:
            first, second = transform(picture), transform(picture)
        except Exception as error:
            raise ValueError(
                f"The transform {type(transform).__name__} failed on a picture of 211 x 140 pixels: {error}. It must take a "
                "PIL image and give a tensor [C, H, W]."
            ) from error
    if isinstance(first, Tensor) and isinstance(second, Tensor) and not torch.equal(first, second):
        raise ValueError(
            "The transform gives another tensor each time, as those for training do; pass the one for evaluation "
            "(open_clip gives it last, timm with is_training=False)."
        )
    try:
        expressed = None if own is None else own()
    except ImportError:  # the model's own needs a package that is not there
        expressed = None
    chosen: Preprocess = transform if expressed is None or not same_pixels(expressed, transform) else expressed
    return chosen


# --- kinds of models ------------------------------------------------------------------------------------------------------


def _sentence_transformer(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    if processor is not None:
        raise TypeError("A SentenceTransformer brings its own tokenizer; leave out the second argument of cocoax.wrap.")
    return sentence.sentence_encoder(model, **options)


def _transformers(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    if clip.is_dual(type(model)):
        return _dual(model, processor, options)
    if model.main_input_name == "pixel_values":
        images = _image_processor_in(processor)
        if images is None and (_tokenizer_in(processor) is not None or not callable(processor)):
            raise _misfit(model, "its image processor, or a function from a picture to a tensor,", processor)
        preprocess = _transform(processor) if images is None else preprocess_of(images)
        return huggingface.vision_encoder(model, preprocess, **options)
    if model.main_input_name != "input_ids":
        raise TypeError(
            f"{type(model).__name__} takes {model.main_input_name}, which cocoax.wrap does not know; pass cocoax.Encoder a "
            "function from a batch to representations, and inputs= for the kind of inputs."
        )
    tokenizer = _tokenizer_in(processor)
    if tokenizer is None:
        raise _misfit(model, "its tokenizer", processor)
    _check_vocabulary(model, tokenizer)
    return sentence.text_model_encoder(model, tokenizer, **options)


def _dual(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    images = _image_processor_in(processor)
    tokenizer = options.pop("tokenizer", None) or _tokenizer_in(processor)
    if images is None and (processor is None or processor is tokenizer):
        raise _misfit(model, "its processor (or its image processor, and tokenizer=)", processor)
    if tokenizer is not None:
        _check_vocabulary(model, tokenizer)
    preprocess = _transform(processor) if images is None else clip.dual_preprocess(model, images)
    return clip.dual_encoder(model, preprocess, tokenizer, **options)


def _timm(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    if _tokenizer_in(processor) is not None:
        raise _misfit(model, "a function from a picture to a tensor (or nothing)", processor)
    preprocess = None if processor is None else _transform(processor, lambda: timm.timm_preprocess(model))
    return timm.timm_encoder(model, preprocess, **options)


def _open_clip(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    if hasattr(processor, "context_length"):
        raise _misfit(model, "its transform for evaluation (or nothing), and the tokenizer as tokenizer=,", processor)
    preprocess = None if processor is None else _transform(processor, lambda: open_clip.open_clip_preprocess(model))
    return open_clip.open_clip_encoder(model, preprocess, **options)


def _module(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    tokenizer = _tokenizer_in(processor)
    if tokenizer is not None:
        _check_vocabulary(model, tokenizer)
        limit = options.pop("limit", None) or min(tokenizer.model_max_length, sentence.UNLIMITED)
        by_name = next(iter(signature(model.forward).parameters), None) == "input_ids"
        return TextEncoder(ModelFunction(model, _by_name) if by_name else model, tokenizer, limit=limit, **options)
    images = _image_processor_in(processor)
    if images is None:
        return Encoder(model, processor, **options)
    return Encoder(model, preprocess_of(images), **options)


def _by_name(model: nn.Module, tokens: dict[str, Tensor]) -> Any:
    """Return what a module makes of token ids and attention mask, which it takes by their names."""
    return model(**tokens)


def _rows(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    kind = type(model).__name__
    columns = options.pop("columns", None)
    names = getattr(model, "feature_names_in_", None)
    if columns is None:
        columns = names if names is not None else _numbered(getattr(model, "n_features_in_", None), kind)
    name = options.pop("name", None) or kind
    return TabularEncoder(_Transformer(model, names), processor, columns=list(columns), name=name, **options)


def _numbered(count: int | None, kind: str) -> list[str]:
    if count is None:
        raise ValueError(
            f"{kind} does not say how many columns it takes: it is not fitted yet, or it takes no table. Fit it first, or "
            "pass columns=, the names of the columns."
        )
    return [f"column {index}" for index in range(count)]


def _texts(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    """Make an encoder of an object that embeds texts, as those of LangChain and LlamaIndex do."""
    if processor is not None:
        raise _misfit(model, "nothing", processor)
    functions = embedding_of(model)
    assert functions is not None
    return text_function_encoder(functions[0], **{"embed_query": functions[1], **options})


def _pairs(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    """Make a reranker of a cross-encoder."""
    if processor is not None:
        raise _misfit(model, "nothing", processor)
    return Reranker(model, **options)


def _function(model: Any, processor: Any, options: dict[str, Any]) -> Encoder:
    late = options.pop("late_interaction", False)
    takes, no_texts = options.pop("takes", "texts" if late else None), ""
    if takes is None and processor is None and not {"columns", "inputs"} & options.keys():
        takes, no_texts = items_of(model)
    made_of: dict[str, Callable[..., Encoder]] = {
        "texts": late_function_encoder if late else text_function_encoder,
        "pictures": late_picture_encoder if late else picture_function_encoder,
        "pairs": Reranker,
    }
    if takes is not None:
        if takes not in made_of:
            raise ValueError(f"The 'takes' parameter must be 'texts', 'pictures' or 'pairs'. Got {takes!r} instead.")
        return made_of[takes](model, **options)
    kind = TabularEncoder if "columns" in options else Encoder
    encoder = kind(_NumpyFunction(model), processor, **options)
    encoder.why_no_texts = no_texts or encoder.why_no_texts
    return encoder


class _NumpyFunction:
    """A function from NumPy to NumPy as one from tensors to tensors; no gradients go through it."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, batch: Tensor) -> Tensor:
        output = self._run(batch.detach().cpu().numpy())
        if isinstance(output, Tensor):
            return output
        if hasattr(output, "toarray"):  # a sparse matrix
            output = output.toarray()
        return torch.from_numpy(np.asarray(output, dtype=np.float32))

    def _run(self, batch: np.ndarray) -> Any:
        return self.function(batch)


class _Transformer(_NumpyFunction):
    """A fitted transformer of scikit-learn; its content identifies it."""

    def __init__(self, model: Any, names: Sequence[str] | None) -> None:
        super().__init__(model.transform)
        self.model = model
        self.names = names

    def _run(self, batch: np.ndarray) -> Any:
        if self.names is None or importlib.util.find_spec("pandas") is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "X does not have valid feature names")
                return self.function(batch)
        frame = import_module("pandas").DataFrame(batch, columns=list(self.names))  # some parts choose columns by name
        return self.function(frame)

    @property
    def content(self) -> str:
        """Identifies what was fitted."""
        return f"{type(self.model).__name__}({import_module('joblib').hash(self.model)})"


_Makes = Callable[[Any, Any, dict[str, Any]], Encoder]
# The first that recognises a model makes the encoder.
_KINDS: Sequence[tuple[Callable[[Any], bool], _Makes]] = (
    (is_pylate, lambda model, processor, options: pylate_encoder(model, **options)),
    (is_cross_encoder, _pairs),
    (is_sentence_transformer, _sentence_transformer),
    (lambda model: _comes_from(model, "transformers") and hasattr(model, "main_input_name"), _transformers),
    (lambda model: _comes_from(model, "timm") and hasattr(model, "reset_classifier"), _timm),
    (lambda model: _comes_from(model, "open_clip") and hasattr(model, "encode_image"), _open_clip),
    (lambda model: isinstance(model, nn.Module), _module),
    (lambda model: hasattr(model, "transform") and hasattr(model, "fit"), _rows),
    (lambda model: embedding_of(model) is not None, _texts),
    (callable, _function),
)

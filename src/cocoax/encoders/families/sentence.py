"""Text encoders: ``"st:NAME_OR_FOLDER"`` of sentence-transformers, and the text models of ``"hf:NAME_OR_FOLDER"``."""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Unpack, get_args

import torch
from torch import Tensor, nn

from cocoax.checks import check_choice
from cocoax.encoders.families.hub import (
    Repository,
    fetching,
    import_package,
    layer_of,
    name_of,
    quiet,
    title_of,
    with_part,
)
from cocoax.encoders.forward import layer_name
from cocoax.encoders.text import TextEncoder
from cocoax.inputs.text import TextPart, Tokenizer, TooLong

_TextPooling = Literal["mean", "first", "last", "max"]
UNLIMITED = 100_000  # tokenizers without a limit say 10^30


class TextOptions(TypedDict, total=False):
    """The options of :class:`cocoax.TextEncoder` beside the module and the tokenizer."""

    limit: int
    pad: int | None
    mask: int | None
    features: TextPart
    too_long: TooLong
    embedding: str | None
    name: str | None


def load_sentence_transformer(
    name_or_folder: str, *, prompt: str | None = None, revision: str | None = None, **options: Unpack[TextOptions]
) -> TextEncoder:
    """Load an encoder of sentence-transformers: ``cocoax.load("st:all-MiniLM-L6-v2")``, or a folder.

    Args:
        name_or_folder: on the Hugging Face hub, or a folder.
        prompt: what is put before each text: the name of one of the model's prompts (``"query"``), or a text. By default the
            model's own default. It is never part of an explanation.
        revision: a branch, tag or commit of the repository on the hub.
        options: of :class:`cocoax.TextEncoder`: ``features``, ``too_long``, ``name``, ….

    """
    library, transformers = (import_package(package, "st", "hf") for package in ("sentence_transformers", "transformers"))
    failure = f"No text encoder could be loaded from {name_or_folder!r}"
    advice = (
        "It must be a folder written by save_pretrained, or a name on the Hugging Face hub, which needs the internet the "
        "first time."
    )
    with fetching(failure, advice), quiet(transformers, reports=True, bars=False):
        model = library.SentenceTransformer(name_or_folder, device="cpu", revision=revision).float().eval()
    settings: TextOptions = {"name": _short(name_or_folder), **options}
    return sentence_encoder(model, prompt=prompt, **settings)


def sentence_encoder(model: Any, *, prompt: str | None = None, **options: Unpack[TextOptions]) -> TextEncoder:
    """Return the encoder around a ``SentenceTransformer``, which is left as it is; ``prompt`` and options as above."""
    name = options.get("name") or _short(name_of(getattr(model[0], "auto_model", model)))
    tokenizer = model.tokenizer
    if tokenizer is None or not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise TypeError(
            f"{name!r} does not tokenize with transformers, so its words cannot be told apart; use a model based on a "
            "transformer."
        )
    prompts = dict(model.prompts or {})
    query_prompt = prompts.get("query") if prompt is None else None
    if prompt is None:
        prompt = prompts.get(model.default_prompt_name, "")
    prompt = prompts.get(prompt, prompt)
    if (prompt or query_prompt) and any(getattr(part, "include_prompt", True) is False for part in model):
        raise ValueError(f"{name!r} leaves its prompt out of the mean, which is not supported; pass prompt=''.")
    limit = model.max_seq_length or _limit(tokenizer, None)
    settings: TextOptions = {"limit": limit, **options, "name": name}
    kind = _SparseModel if type(model).__name__ == "SparseEncoder" else _SentenceModel
    return TextEncoder(kind(model), Tokenizer(tokenizer, prompt or "", query_prompt), **settings)


class _TextModelOptions(TextOptions, total=False):
    """The options of :func:`text_model_encoder` beside the model and the tokenizer."""

    pooling: _TextPooling | None
    layer: str | nn.Module | None
    prompt: str
    normalize: bool


def load_hf_text(name_or_folder: str, *, revision: str | None = None, **options: Unpack[_TextModelOptions]) -> TextEncoder:
    """Load a text model of transformers, as :func:`text_model_encoder` makes an encoder of it.

    Args:
        name_or_folder: on the Hugging Face hub, or a folder.
        revision: a branch, tag or commit of the repository on the hub.
        options: of :func:`text_model_encoder`: ``pooling``, ``layer``, ``prompt``, ….

    """
    _check_pooling(options.get("pooling"))
    repository = Repository("hf", name_or_folder, revision)
    tokenizer = repository.tokenizer()
    unused = {"pooler", "decoder"} if repository.config.is_encoder_decoder else {"pooler"}
    model, missing = repository.model(repository.transformers.AutoModel, unused)
    if missing and hasattr(model, "pooler"):  # it would be random
        model.pooler = nn.Identity()
    settings: _TextModelOptions = {"name": _short(name_or_folder), **options}
    return text_model_encoder(model, tokenizer, **settings)


def text_model_encoder(
    model: Any,
    tokenizer: Any,
    *,
    pooling: _TextPooling | None = None,
    layer: str | nn.Module | None = None,
    prompt: str = "",
    normalize: bool = False,
    **options: Unpack[TextOptions],
) -> TextEncoder:
    """Return the encoder around a text model of transformers: its last hidden states, made into one vector.

    Args:
        model: it is left as it is; what a classifier or a language model has on top is not used.
        tokenizer: the one that the model was trained with.
        pooling: the ``"mean"`` over tokens (the default), the ``"first"`` (BERT's [CLS]) or ``"last"`` one, or the ``"max"``
            over tokens.
        layer: take the hidden states from the output of this submodule instead, or of the one of this name in
            ``named_modules()``.
        prompt: what is put before each text; never part of an explanation.
        normalize: make unit vectors.
        options: of :class:`cocoax.TextEncoder`: ``features``, ``too_long``, ``name``, ….

    """
    _check_pooling(pooling)
    name = options.get("name") or _short(name_of(model))
    body = model.base_model
    if body.config.is_encoder_decoder:
        body = body.get_encoder()
    if layer is None and isinstance(getattr(body, "pooler", None), nn.Module):  # BERT's dense pooler, which is not read
        body = with_part(body, "pooler", nn.Identity())
    inside = layer_of(body, layer)
    inside = inside if inside is None else layer_name(body, inside, name)
    settings: TextOptions = {"limit": _limit(tokenizer, body.config), **options, "name": name}
    encoder = TextEncoder(_TextModel(body, pooling or "mean", inside, normalize), Tokenizer(tokenizer, prompt), **settings)
    if inside is not None:
        encoder.layer_named(inside)  # raises if there is none of this name
    return encoder


def _check_pooling(pooling: str | None) -> None:
    if pooling is not None:
        check_choice("pooling", pooling, get_args(_TextPooling))


class _TextModel(nn.Module):
    """The hidden states of a text model, or of one of its layers, as one vector per text."""

    def __init__(self, model: nn.Module, pooling: _TextPooling, layer: str | None = None, normalize: bool = False) -> None:
        super().__init__()
        self.model = model
        self.pooling = pooling
        self.layer = layer
        self.normalize = normalize
        self.training = False  # of this wrapper alone: the model is left as it is

    def token_states(self, tokens: dict[str, Tensor]) -> Tensor:
        """Hidden states ``[n, L, d]``."""
        return self._hidden(tokens, self.layer)

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        """Vectors ``[n, d]``."""
        hidden = self._hidden(tokens, self.layer)
        mask = tokens["attention_mask"].unsqueeze(-1).to(hidden)
        if hidden.ndim == 2:  # of a layer that pools already
            pooled = hidden
        elif self.pooling == "mean":
            pooled = (hidden * mask).sum(1) / mask.sum(1)
        elif self.pooling == "max":
            pooled = hidden.masked_fill(mask == 0, -torch.inf).amax(1)
        else:  # of those that are attended to
            places = torch.arange(hidden.shape[1], device=hidden.device)
            there = mask[..., 0] > 0
            if self.pooling == "last":
                index = torch.where(there, places, -1).amax(1)
            else:
                index = torch.where(there, places, hidden.shape[1]).amin(1)
            pooled = hidden[torch.arange(len(hidden), device=hidden.device), index]
        return nn.functional.normalize(pooled, dim=1) if self.normalize else pooled

    def _hidden(self, tokens: dict[str, Tensor], layer: str | None) -> Tensor:
        """The output of a layer, ``[n, tokens, d]``, or the last hidden states of the model."""
        if layer is None:
            states: Tensor = self.model(**tokens).last_hidden_state
            return states
        outputs: list[Tensor] = []

        def keep(_module: nn.Module, _inputs: object, output: Tensor | tuple[Tensor, ...]) -> None:
            # Of (hidden states, attentions, ...) the first; a copy is safe from later layers that work in place.
            outputs.append((output if isinstance(output, Tensor) else output[0]).clone())

        with self.get_submodule(layer).register_forward_hook(keep):
            self.model(**tokens)
        if not outputs:
            raise RuntimeError(f"the layer {layer!r} did not run")
        return outputs[-1]


class _SentenceModel(nn.Module):
    """A model of sentence-transformers as a module from tokens to ``[n, d]``."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.training = False  # of this wrapper alone

    def token_states(self, tokens: dict[str, Tensor]) -> Tensor:
        """Token vectors ``[n, L, d]``."""
        states: Tensor = self.model(dict(tokens))["token_embeddings"]
        return states

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        """Vectors ``[n, d]``."""
        embeddings: Tensor = self.model(dict(tokens))["sentence_embedding"]
        return embeddings


class _SparseModel(_SentenceModel):
    """A ``SparseEncoder`` (SPLADE, Formal et al. 2021): one weight for each term of the vocabulary, ``[n, terms]``."""

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        """Weights ``[n, terms]``."""
        weights = super().forward(tokens)
        return weights.to_dense() if weights.is_sparse else weights

    def terms(self, numbers: list[int]) -> list[str]:
        """Return the terms of numbers."""
        named = self.model.tokenizer.convert_ids_to_tokens(numbers)  # type: ignore[union-attr, operator]
        return [str(term) for term in named]


def _limit(tokenizer: Any, config: Any) -> int:
    """The most tokens that model and tokenizer take."""
    positions = getattr(config, "max_position_embeddings", None)
    if positions and any(kind in config.model_type for kind in ("roberta", "camembert", "mpnet", "longformer", "esm")):
        positions -= config.pad_token_id + 1  # these begin to count after the padding token
    known = [limit for limit in (tokenizer.model_max_length, positions) if limit and limit < UNLIMITED]
    return min(known, default=UNLIMITED)


def _short(name: str) -> str:
    """Return the name of a text model in figures: the last part of its name."""
    return title_of(name).rpartition("/")[2]

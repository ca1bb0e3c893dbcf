"""Text encoders from sentence-transformers and transformers, by name or from a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from cocoax.encoders.text import TextEncoder
from cocoax.inputs.tokenizer import Tokenizer

TextPooling = Literal["mean", "first", "last", "max"]
UNLIMITED = 100_000  # tokenizers without a limit say 10^30


def load_sentence_transformer(name_or_folder: str, *, prompt: str | None = None, **options: Any) -> TextEncoder:
    """An encoder of sentence-transformers: ``cocoax.load("st:all-MiniLM-L6-v2")``, or a folder.

    Args:
        name_or_folder: on the Hugging Face hub, or on disk.
        prompt: what is put before each text: the name of one of the model's prompts (``"query"``), or a text. By default the
            model's own default. It is never part of an explanation.
        options: of :class:`cocoax.TextEncoder`: ``features``, ``too_long``, ``name``, ….

    """
    library = _import("sentence_transformers")
    with _loading(name_or_folder):
        model = library.SentenceTransformer(name_or_folder, device="cpu").float().eval()
    tokenizer = model.tokenizer
    if tokenizer is None or not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise TypeError(
            f"{name_or_folder!r} does not tokenize with transformers, so its words cannot be told apart; use a model "
            "based on a transformer."
        )
    prompts = dict(model.prompts or {})
    if prompt is None:
        prompt = prompts.get(model.default_prompt_name, "")
    prompt = prompts.get(prompt, prompt)
    if prompt and any(getattr(part, "include_prompt", True) is False for part in model):
        raise ValueError(f"{name_or_folder!r} leaves its prompt out of the mean, which is not supported; pass prompt=''.")
    options = {"limit": model.max_seq_length or _limit(tokenizer, None), "name": _short(name_or_folder), **options}
    return TextEncoder(_Sentences(model), Tokenizer(tokenizer, prompt or ""), **options)


def load_hf_text(
    name_or_folder: str, *, pooling: TextPooling | str = "mean", prompt: str = "", normalize: bool = False, **options: Any
) -> TextEncoder:
    """A text model of transformers, its last hidden states made into one vector.

    Args:
        name_or_folder: on the Hugging Face hub, or on disk.
        pooling: ``"mean"`` over tokens, the ``"first"`` (BERT's [CLS]) or ``"last"`` one, or the ``"max"`` over tokens.
        prompt: what is put before each text; never part of an explanation.
        normalize: make unit vectors.
        options: of :class:`cocoax.TextEncoder`: ``features``, ``too_long``, ``name``, ….

    """
    pooling = {"cls": "first"}.get(pooling, pooling)
    if pooling not in get_args(TextPooling):
        raise ValueError(f"The 'pooling' parameter must be 'mean', 'first', 'last' or 'max'. Got {pooling!r} instead.")
    transformers = _import("transformers")
    with _loading(name_or_folder):
        tokenizer = transformers.AutoTokenizer.from_pretrained(name_or_folder)
        model = transformers.AutoModel.from_pretrained(name_or_folder, dtype=torch.float32).eval()
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    options = {"limit": _limit(tokenizer, model.config), "name": _short(name_or_folder), **options}
    return TextEncoder(Pooled(model, pooling, normalize), Tokenizer(tokenizer, prompt), **options)


class Pooled(nn.Module):
    """The hidden states of a text model as one vector per text."""

    def __init__(self, model: nn.Module, pooling: str, normalize: bool = False) -> None:
        super().__init__()
        self.model = model
        self.pooling = pooling
        self.normalize = normalize

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        """Vectors ``[n, d]``."""
        hidden: Tensor = self.model(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1).to(hidden)
        if self.pooling == "mean":
            pooled = (hidden * mask).sum(1) / mask.sum(1)
        elif self.pooling == "max":
            pooled = hidden.masked_fill(mask == 0, -torch.inf).amax(1)
        else:  # of those that are attended to
            places = torch.arange(hidden.shape[1], device=hidden.device)
            there = mask[..., 0] > 0
            if self.pooling == "first":
                index = torch.where(there, places, hidden.shape[1]).amin(1)
            else:
                index = torch.where(there, places, -1).amax(1)
            pooled = hidden[torch.arange(len(hidden), device=hidden.device), index]
        return nn.functional.normalize(pooled, dim=1) if self.normalize else pooled


class _Sentences(nn.Module):
    """A SentenceTransformer as a module from tokens to ``[n, d]``."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        embeddings: Tensor = self.model(dict(tokens))["sentence_embedding"]
        return embeddings


def _limit(tokenizer: Any, config: Any) -> int:
    """The most tokens that model and tokenizer take."""
    positions = getattr(config, "max_position_embeddings", None)
    if positions and any(kind in config.model_type for kind in ("roberta", "camembert", "mpnet", "longformer", "esm")):
        positions -= config.pad_token_id + 1  # these begin to count after the padding token
    known = [limit for limit in (tokenizer.model_max_length, positions) if limit and limit < UNLIMITED]
    return min(known, default=UNLIMITED)


def _short(name_or_folder: str) -> str:
    return Path(name_or_folder).name or str(name_or_folder)


@contextmanager
def _loading(name: str) -> Iterator[None]:
    """Quietly, without touching the global random state; an error says what to do."""
    logging = _import("transformers").utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with torch.random.fork_rng():  # layers draw initial weights before those of the file replace them
            yield
    except OSError as error:
        raise OSError(
            f"No text encoder could be loaded from {name!r}: it must be a folder written by save_pretrained, or a name on "
            f"the Hugging Face hub, which needs the internet the first time. ({str(error).splitlines()[0]})"
        ) from error
    finally:
        if shown:
            logging.enable_progress_bar()


def _import(name: str) -> Any:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"This encoder needs the package {name!r} ({error}); pip install 'cocoax[hf]'.") from error

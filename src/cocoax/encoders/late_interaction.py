"""Late interaction (ColBERT, Khattab & Zaharia 2020): encoders with one vector for each token, or patch, of an input.

MaxSim of a query and a document is Σᵢ maxⱼ qᵢ·dⱼ over their token vectors. Against a given query a document is the vector of
its maxima, one for each query token, whose sum is the score; against given documents a query is the vector of its scores.
Both are ordinary representations, so that everything that explains those explains MaxSim.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from cocoax.encoders.encoder import Encoder
from cocoax.encoders.function_calls import EmbeddingError, FunctionCalls, FunctionModule, advice_on_single, function_module
from cocoax.encoders.identity import Probe, WeightsDigest
from cocoax.encoders.text import TextEncoder
from cocoax.encoders.text_functions import (
    FILLER,
    UNLIMITED,
    Embed,
    PieceTokenizer,
    embed_by_role,
    picture_item,
    text_item,
)
from cocoax.inputs import Pictures


class TokenModule(nn.Module):
    """A module with one vector for each token; as a plain encoder it gives their mean."""

    @abstractmethod
    def tokens(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Return unit vectors ``[n, L, d]`` of a batch, and which of them there are ``[n, L]``."""

    def names(self, batch: Any, encoder: Encoder) -> list[str]:
        """Return what the token vectors of the only input of a batch are called."""
        return [f"vector {number + 1}" for number in range(int(self.tokens(batch)[1].sum()))]

    def forward(self, batch: Any) -> Tensor:
        """Return the mean of the token vectors, ``[n, d]``."""
        vectors, there = self.tokens(batch)
        weights = there[..., None].to(vectors)
        mean: Tensor = (vectors * weights).sum(1) / weights.sum(1).clamp(min=1)
        return mean


class _HiddenTokens(TokenModule):
    """The last hidden states of a text model, without those of special tokens (which include masks of removed words).

    Args:
        model: a module with ``token_states(tokens)``, the hidden states ``[n, L, d]``.
        special: ids of special tokens.

    """

    def __init__(self, model: nn.Module, special: Sequence[int]) -> None:
        super().__init__()
        self.model = model
        self.special: Tensor
        self.register_buffer("special", torch.tensor(sorted(special), dtype=torch.long))
        self.training = False  # of this wrapper alone

    def tokens(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return unit vectors ``[n, L, d]``, and which of them are of words."""
        states: Tensor = self.model.token_states(dict(batch))  # type: ignore[operator]
        there = batch["attention_mask"].bool() & ~torch.isin(batch["input_ids"], self.special.to(batch["input_ids"].device))
        return nn.functional.normalize(states, dim=-1), there


class _FunctionTokens(TokenModule):
    """A function from texts, or from pictures, to one array ``[tokens, d]`` for each."""

    def __init__(self, function: FunctionModule, naming: Any = None) -> None:
        super().__init__()
        self.source, self._naming = function, naming
        self.__name__ = function.calls.noun
        self.training = False

    def tokens(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Return unit vectors ``[n, L, d]``, and which of them there are."""
        rows = [torch.from_numpy(np.array(array)) for array in self.source.arrays(batch)]
        vectors = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        there = torch.arange(vectors.shape[1])[None] < torch.tensor([len(row) for row in rows])[:, None]
        return nn.functional.normalize(vectors, dim=-1), there

    def names(self, batch: Any, encoder: Encoder) -> list[str]:
        """Return the tokens, where the function's owner names as many as there are vectors."""
        numbered = super().names(batch, encoder)
        if self._naming is None:
            return numbered
        named: list[str] = self._naming(*self.source.items(batch)[0][1])
        return named if len(named) == len(numbered) else numbered


class MaxSims(nn.Module):
    """From a batch of documents to the maxima that tokens ``query [q, d]`` find, ``[n, q]``, whose sum is the score."""

    def __init__(self, source: TokenModule, query: Tensor) -> None:
        super().__init__()
        self.source = source
        self.query: Tensor
        self.register_buffer("query", query)
        self.training = False

    def forward(self, batch: Any) -> Tensor:
        """Return the maxima; 0 where there is no token."""
        vectors, there = self.source.tokens(batch)
        similarities = (vectors @ self.query.to(vectors).T).masked_fill(~there[..., None], -torch.inf)
        best: Tensor = similarities.amax(1)
        return torch.where(there.any(1)[:, None], best, 0.0)


class MaxSimScores(nn.Module):
    """From a batch of queries to their MaxSim with each of some documents, ``[n, documents]``."""

    def __init__(self, source: TokenModule, documents: Sequence[Tensor]) -> None:
        super().__init__()
        self.source, self.count = source, len(documents)
        self.found: Tensor
        self.owner: Tensor
        self.register_buffer("found", torch.cat(list(documents)))
        numbers = torch.arange(len(documents))
        self.register_buffer("owner", numbers.repeat_interleave(torch.tensor([len(own) for own in documents])))
        self.training = False

    def forward(self, batch: Any) -> Tensor:
        """Return the scores."""
        vectors, there = self.source.tokens(batch)
        similarities = vectors @ self.found.to(vectors).T
        best = torch.stack([similarities[..., self.owner == number].amax(-1) for number in range(self.count)], dim=-1)
        scores: Tensor = (best * there[..., None]).sum(1)
        return scores


# --- encoders ---------------------------------------------------------------------------------------------------------------


def around(encoder: Encoder, module: nn.Module) -> Encoder:
    """Return an encoder of the same inputs around another module."""
    other = copy.copy(encoder)
    recognisable = encoder.recognisable
    other.module, other._text, other._image_tower = module, None, None
    other._weights, other._identity = WeightsDigest(module, encoder.name), None
    other._probe = Probe(skipped=function_module(module) is not None)
    other._weights.recognisable = recognisable
    other._submodule, other._checked, other._copies = None, 0, None
    return other


def late_interaction(encoder: Encoder) -> Encoder:
    """Return the encoder with one vector for each token; raise if its module has none."""
    if isinstance(encoder.module, TokenModule):
        return encoder
    tokenize: Any = getattr(encoder.inputs, "tokenize", None)
    if not hasattr(encoder.module, "token_states") or tokenize is None:
        raise TypeError(
            f"similarity='maxsim' needs one vector for each token, and {encoder.name!r} gives one for each input. Load a "
            "text model of transformers or sentence-transformers, or wrap a function with late_interaction=True."
        )
    module: Any = encoder.module
    special = getattr(getattr(tokenize, "tokenizer", None), "all_special_ids", None)
    if special is None:
        places = tokenize.places("a")[1]
        special = [number for number, place in zip(tokenize("a"), places, strict=True) if place is None]
        special += [own for own in (getattr(tokenize, "mask", None), getattr(tokenize, "pad", None)) if own is not None]
    return around(encoder, _HiddenTokens(module, special))


def token_vectors(encoder: Encoder, prepared: Tensor) -> Tensor:
    """Return the token vectors of one prepared input, ``[tokens, d]``."""
    with torch.no_grad():
        vectors, there = encoder.module.tokens(encoder.collate([prepared]))  # type: ignore[attr-defined]
    own: Tensor = vectors[0][there[0]].float().cpu()
    return own


def token_names(encoder: Encoder, prepared: Tensor, text: str | None) -> list[str]:
    """Return what the token vectors of one prepared input are called; those of a text as they stand in it."""
    module: Any = encoder.module
    inputs: Any = encoder.inputs
    with torch.no_grad():
        names: list[str] = module.names(encoder.collate([prepared]), encoder)
    if isinstance(module, _HiddenTokens) and text is not None:
        ids, places = inputs.places(text)
        special = set(module.special.tolist())
        pairs = [
            (token, place) for token, place in zip(ids, places, strict=True) if token not in special and place is not None
        ]
        own = [text[slice(*place)] for _, place in pairs]
        return own[: len(names)] if len(own) >= len(names) else names
    return names


def late_function_encoder(
    embed: Embed,
    *,
    embed_query: Embed | None = None,
    names: Callable[[str, bool], list[str]] | None = None,
    name: str | None = None,
    query_prefix: str = "",
    document_prefix: str = "",
    filler: str = FILLER,
    batch_size: int = 32,
    parallel: int = 1,
    max_calls: int | None = None,
) -> TextEncoder:
    """Return an encoder around a function from texts to one array ``[tokens, d]`` for each.

    ``names`` gives the tokens of a text, and takes whether it is a query; the other options are those of embedding functions.
    """
    pieces = PieceTokenizer(filler, document_prefix, query_prefix)

    by_role = partial(embed_by_role, embed, embed_query, check=_matrices)
    calls = FunctionCalls(
        by_role,
        name,
        batch_size=batch_size,
        parallel=parallel,
        max_calls=max_calls,
        check=_matrices,
        noun=NOUN,
        advice=advice_on_single(embed, "text"),
    )
    function = FunctionModule(calls, partial(text_item, pieces, embed_query is not None), embed)
    encoder = TextEncoder(_FunctionTokens(function, names), pieces, limit=UNLIMITED, name=name)
    encoder._weights.recognisable = name is not None
    return encoder


def late_picture_encoder(
    embed: Callable[[list[Image.Image]], Any],
    *,
    name: str | None = None,
    batch_size: int = 8,
    parallel: int = 1,
    max_calls: int | None = None,
) -> Encoder:
    """Return an encoder around a function from PIL images to one array ``[patches, d]`` for each, as ColPali is one."""

    calls = FunctionCalls(
        embed,
        name,
        batch_size=batch_size,
        parallel=parallel,
        max_calls=max_calls,
        check=_matrices,
        noun=NOUN,
        advice=advice_on_single(embed, "picture"),
    )
    encoder = Encoder(_FunctionTokens(FunctionModule(calls, picture_item, embed)), inputs=Pictures(any_shape=True), name=name)
    encoder._weights.recognisable = name is not None
    return encoder


NOUN = "function of token vectors"


def _matrices(output: Any, count: int) -> Sequence[np.ndarray]:
    """Return what a function gave as one float32 array ``[tokens, d]`` for each item; raise if it is anything else."""
    sentence = f"The {NOUN} must return one array [tokens, d] for each of {count} items."
    try:
        rows = [np.asarray(row.detach().float().cpu() if isinstance(row, Tensor) else row, np.float32) for row in output]
    except (TypeError, ValueError) as error:
        raise EmbeddingError(f"{sentence} Got {type(output).__name__} instead.") from error
    shapes = [list(row.shape) for row in rows]
    if len(rows) != count or any(row.ndim != 2 or 0 in row.shape for row in rows) or len({row.shape[1] for row in rows}) > 1:
        raise EmbeddingError(f"{sentence} Got {shapes[:3]} instead.")
    return rows


def is_pylate(model: Any) -> bool:
    """Whether it is a ColBERT of PyLate; that package is not imported for it."""
    return any(kind.__name__ == "ColBERT" and kind.__module__.startswith("pylate") for kind in type(model).__mro__)


def pylate_encoder(model: Any, **options: Any) -> TextEncoder:
    """Return the encoder around a ColBERT of PyLate: its queries and documents are encoded as it does."""

    def embed(is_query: bool) -> Embed:
        return lambda texts: model.encode(texts, is_query=is_query, show_progress_bar=False, convert_to_numpy=True)

    def names(text: str, is_query: bool) -> list[str]:
        ids = model.tokenize([text], is_query=is_query)["input_ids"][0]
        return [str(token) for token in model.tokenizer.convert_ids_to_tokens(ids)]

    options.setdefault("name", f"ColBERT {WeightsDigest(model, None)()[:16]}")
    return late_function_encoder(embed(False), embed_query=embed(True), names=names, **options)

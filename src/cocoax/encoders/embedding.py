"""Gradients of texts: the embeddings of an explicand's tokens as inputs of the encoder.

Token ids have no gradients. The explicand becomes the embeddings of its tokens, and the encoder a function of embeddings: its
network runs on the explicand's ids, while a hook replaces the output of its embedding layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cocoax.encoders.encoder import Encoder
from cocoax.encoders.forward import ForwardError, locked
from cocoax.encoders.identity import Identity
from cocoax.inputs import Explicand, Inputs, Texts
from cocoax.inputs.base import Fitted, Fitting


def differentiable(encoder: Encoder, explicand: Explicand) -> tuple[Encoder, Explicand]:
    """Return encoder and explicand as gradients see them: float tensors in, representations out."""
    if encoder.inputs.continuous:
        return encoder, explicand
    view = _EmbeddedEncoder(encoder, explicand)
    own, embeddings = view.inputs.own, view.inputs.embeddings
    return view, replace(explicand, tensor=embeddings, scale=own * embeddings[:, own].std())


class _EmbeddedEncoder(Encoder):
    """An encoder as a function of embeddings ``[d, L]`` in place of those of one explicand's tokens.

    The network runs on the explicand's token ids, with its positions and attention; a hook replaces the output of the
    embedding layer.
    """

    inputs: Embeddings
    can_be_copied = False  # a copy of the network would have another embedding layer

    def __init__(self, encoder: Encoder, explicand: Explicand) -> None:
        self._of_tokens = encoder
        self._layer = embedding_layer(encoder)
        self._ids = explicand.tensor
        inputs = Embeddings(encoder.inputs, explicand, self._embed)
        super().__init__(encoder.module, layer=encoder.layer, pooling=encoder.pooling, name=encoder.name, inputs=inputs)
        self._checked, self._max_batch_size = encoder._checked, encoder._max_batch_size

    def identify(self) -> Identity:
        """Return what the encoder of tokens is known by."""
        return self._of_tokens.identify()

    @property
    def identity(self) -> Identity:
        """The identity of the encoder of tokens."""
        return self._of_tokens.identity

    def _embed(self, ids: Tensor) -> Tensor:
        """Return the embeddings ``[d, L]`` of token ids."""
        encoder = self._of_tokens
        with torch.no_grad(), locked(encoder.owner):  # what another view has put there must be gone
            embeddings: Tensor = self._layer(ids[None].to(encoder.device))[0]
        return embeddings.T.to("cpu", torch.float32)

    def __call__(self, batch: Any) -> Tensor:
        """Return representations of embeddings ``[n, d, L]``, differentiable."""
        used: list[bool] = []
        ids = self._ids.to(self.device).expand(len(batch), -1)

        def put(_module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
            used.append(True)
            own: Tensor = batch.mT.to(output.dtype)
            if output.shape[1] == ids.shape[1]:
                return own
            # The network fills every text up to one length, on the right or on the left, and the filling counts.
            right = torch.equal(inputs[0][:, : ids.shape[1]], ids)
            parts = [own, output[:, ids.shape[1] :]] if right else [output[:, : -ids.shape[1]], own]
            return torch.cat(parts, dim=1)

        # Locked, or another thread would get these embeddings for its own text.
        with locked(self.owner), self._layer.register_forward_hook(put):
            representations = self._of_tokens({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        if not used:
            raise ForwardError(f"The layer of token embeddings did not run in {self.name!r}; name another with embedding=.")
        return representations


class Embeddings(Inputs):
    """The embeddings ``[d, L]`` that stand for the tokens of one explicand; ``embed`` gives those of any token ids."""

    noun = Texts.noun
    hint = Texts.hint
    removals: ClassVar[tuple[str, ...]] = ("MaskToken", "Constant", "Fixed")
    removal_names: ClassVar[tuple[str, ...]] = ("mask",)
    advice = "Gradients need something in place of a word: baseline='mask', or cocoax.Constant(0.0) for zero embeddings."

    def __init__(self, texts: Inputs, explicand: Explicand, embed: Callable[[Tensor], Tensor]) -> None:
        assert explicand.feature_ids is not None  # without them a list of tokens would have no features
        self.texts: Any = texts
        self.encoder = texts.encoder
        self.mask: int | None = getattr(texts, "mask", None)
        self.ids = explicand.tensor
        self.own = explicand.feature_ids >= 0
        self._embed = embed
        self.embeddings = embed(self.ids)

    @property
    def settings(self) -> tuple[object, ...]:
        """Those of the texts."""
        return tuple(self.texts.settings)

    @property
    def space_settings(self) -> tuple[object, ...]:
        """Those of the texts."""
        return tuple(self.texts.space_settings)

    @property
    def default_removal(self) -> str:
        """The embedding of the mask token, or zero where there is none."""
        return "Constant" if self.mask is None else "MaskToken"

    def fit(self, removal: Fitting[Fitted]) -> Fitted:
        """Return the removal as embeddings in place of those of the words."""
        return removal.embedded(self)

    def with_words(self, words: Sequence[int], filler: int) -> Tensor:
        """Return embeddings with the explicand's words replaced by other token ids, cut off or filled up to their number."""
        number = int(self.own.sum())
        ids = self.ids.clone()
        ids[self.own] = torch.tensor([*words[:number], *[filler] * (number - len(words))])
        return self._embed(ids)

    def keep_special(self, embeddings: Tensor) -> Tensor:
        """Return the same with the explicand's own embeddings for its special tokens."""
        return torch.where(self.own, embeddings, self.embeddings)

    def is_one(self, inputs: object) -> bool:
        """Whether this is one text, or its embeddings, rather than many."""
        return inputs.ndim == 2 if isinstance(inputs, Tensor) else bool(self.texts.is_one(inputs))

    def prepare(self, item: Any) -> Tensor:
        """Return embeddings as they are; the words of a text take the places of those of the explicand."""
        if isinstance(item, Tensor):
            return item
        ids, places = self.texts.places(item)
        words = [token for token, span in zip(ids, places, strict=True) if span is not None]
        return self.with_words(words, self.texts.pad if self.mask is None else self.mask)

    def explicand(self, item: Any) -> Explicand:
        """Return an explicand that was made of embeddings, as it is."""
        explicand: Explicand = item
        return explicand

    def default_batch_size(self, tensor: Tensor, on_cpu: bool) -> int:
        """Return as many as of texts."""
        return int(self.texts.default_batch_size(tensor, on_cpu))


def embedding_layer(encoder: Encoder) -> nn.Module:
    """Return the layer that turns token ids into embeddings."""
    name: str | None = getattr(encoder.inputs, "embedding", None)
    if name is not None:
        return encoder.layer_named(name)
    parts = [] if encoder.owner is None else list(encoder.owner.modules())
    known = [layer for layer in map(_input_embeddings, parts) if layer is not None]
    # An image tower has a layer for its patches there, which is no table of tokens.
    for layer in (*(layer for layer in known if isinstance(layer, nn.Embedding)), *known):
        return layer
    for part in parts:
        if isinstance(part, nn.Embedding):
            return part
    raise ValueError(
        f"The encoder {encoder.name!r} has no layer of token embeddings that could be found; name it with embedding=, or "
        "use a method that removes words, such as cocoax.Rise."
    )


def _input_embeddings(part: nn.Module) -> nn.Module | None:
    """Return the layer that a network of transformers calls its input embeddings, if it is one and knows."""
    get: Any = getattr(part, "get_input_embeddings", None)
    try:
        layer = get() if callable(get) else None
    except NotImplementedError:  # of a network with two towers
        return None
    return layer if isinstance(layer, nn.Module) else None

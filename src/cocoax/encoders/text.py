"""Text encoders: sentences in, representations out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Self

from torch import nn

from cocoax.encoders.embedding import embedding_layer
from cocoax.encoders.encoder import Encoder
from cocoax.inputs.features import TextFeatures, features_of
from cocoax.inputs.text import TextPart, Texts, Tokenizer, TooLong, check_features


class TextEncoder(Encoder):
    """An encoder of strings.

    Args:
        module: from a dict of ``input_ids`` and ``attention_mask`` (both ``[n, tokens]``) to representations ``[n, d]``.
        tokenize, limit, pad, mask, features, too_long, embedding: see :class:`cocoax.inputs.Texts`.
        name: shown in pictures.

    """

    inputs: Texts

    def __init__(
        self,
        module: nn.Module,
        tokenize: Callable[[str], Sequence[int]],
        *,
        limit: int,
        pad: int | None = None,
        mask: int | None = None,
        features: TextPart = "words",
        too_long: TooLong = "raise",
        embedding: str | None = None,
        name: str | None = None,
    ) -> None:
        inputs = Texts(tokenize, limit, pad=pad, mask=mask, features=features, too_long=too_long, embedding=embedding)
        super().__init__(module, name=name, inputs=inputs)

    def by(self, features: Any = None, *, prompt: str | None = None) -> Self:
        """Return the encoder with explanations about other features, ``encoder.by("sentences")``, or with another prompt."""
        inputs = copy.copy(self.inputs)
        if features is not None:
            chosen = features_of(features, self.inputs)
            if isinstance(chosen, TextFeatures):
                inputs.features, inputs.chosen_features = check_features(chosen.name), None
            else:
                inputs.chosen_features = chosen
        if prompt is not None:
            if not isinstance(self.inputs.tokenize, Tokenizer):
                raise TypeError(f"The encoder {self.name!r} has a tokenizer of its own, which takes no prompt.")
            inputs.tokenize = self.inputs.tokenize.with_prompt(prompt)
        return self.with_inputs(inputs)

    @property
    def queries(self) -> Self:
        """The encoder of queries: with their prompt or function where the model has one for them, else itself."""
        for_queries = getattr(self.inputs.tokenize, "for_queries", None)
        if for_queries is None:
            return self
        inputs = copy.copy(self.inputs)
        inputs.tokenize = for_queries()
        return self.with_inputs(inputs)

    @property
    def text(self) -> Encoder:
        """Itself: texts go in here."""
        return self

    @property
    def embedding_layer(self) -> nn.Module:
        """The layer that turns token ids into embeddings."""
        return embedding_layer(self)

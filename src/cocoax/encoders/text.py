"""Text encoders: sentences in, representations out."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from cocoax.encoders.encoder import Encoder, locked
from cocoax.encoders.identity import describe
from cocoax.inputs.explicand import Explicand
from cocoax.inputs.tokenizer import Tokenizer
from cocoax.inputs.words import Features, Span, check_features, group
from cocoax.storage import digest

TooLong = Literal["raise", "cut"]


class TextEncoder(Encoder):
    """An encoder of strings.

    Args:
        module: from a dict of ``input_ids`` and ``attention_mask`` (both ``[n, tokens]``) to representations ``[n, d]``.
        tokenize: a tokenizer of transformers, or any callable from a string to its token ids, special tokens included. To be
            explained, a text also needs ``tokenize.places(text)``, as :class:`cocoax.inputs.tokenizer.Tokenizer` has it.
        limit: the most tokens the module takes.
        pad: the id that fills up shorter texts of a batch; the tokenizer's if not given.
        mask: the id of the mask token, which can stand for removed words; the tokenizer's if not given.
        features: what explanations are about: ``"words"``, ``"tokens"`` or ``"sentences"``.
        too_long: what happens to a text over the limit: ``"raise"`` says how long it is, ``"cut"`` leaves out the end and
            warns.
        embedding: the layer of the token embeddings, which gradients are taken of, as in ``module.named_modules()``; found
            by itself in most networks.
        name: shown in pictures.

    """

    hint = "Check that the tokenizer is the one the module was trained with."

    def __init__(
        self,
        module: nn.Module,
        tokenize: Callable[[str], Sequence[int]],
        *,
        limit: int,
        pad: int | None = None,
        mask: int | None = None,
        features: Features = "words",
        too_long: TooLong = "raise",
        embedding: str | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(module, name=name)
        if hasattr(tokenize, "convert_ids_to_tokens"):
            tokenize = Tokenizer(tokenize)
        if too_long not in ("raise", "cut"):
            raise ValueError(f"The 'too_long' parameter must be 'raise' or 'cut'. Got {too_long!r} instead.")
        self.tokenize = tokenize
        self.limit = limit
        self.pad: int = getattr(tokenize, "pad", 0) if pad is None else pad
        self.mask: int | None = getattr(tokenize, "mask", None) if mask is None else mask
        self.features = check_features(features)
        self.too_long = too_long
        self.embedding = embedding

    def by(self, features: Features | None = None, *, prompt: str | None = None) -> Self:
        """The same encoder with explanations about other features, ``encoder.by("sentences")``, or with another prompt."""
        other = copy.copy(self)
        if features is not None:
            other.features = check_features(features)
        if prompt is not None:
            if not isinstance(self.tokenize, Tokenizer):
                raise TypeError(f"The encoder {self.name!r} has a tokenizer of its own, which takes no prompt.")
            other.tokenize = Tokenizer(self.tokenize.tokenizer, prompt)
        return other

    def is_one(self, inputs: object) -> bool:
        """Whether this is one text rather than many."""
        return isinstance(inputs, str | Explicand)

    def several(self, inputs: Any) -> tuple[Iterator[Any], int | None]:
        """Texts one by one, and how many if that is known; a single string is one text."""
        if isinstance(inputs, str | Explicand):
            return iter([inputs]), 1
        if not isinstance(inputs, Iterable):
            raise TypeError(f"Inputs must be a string or an iterable of strings. Got {type(inputs).__name__} instead.")
        return iter(inputs), len(inputs) if isinstance(inputs, Sized) else None

    @property
    def fingerprint(self) -> str:
        """Identifies weights, tokenizer and what happens to texts over the limit."""
        cut = self.limit if self.too_long == "cut" else None
        return digest(super().fingerprint, describe(self.tokenize), self.pad, cut)

    @property
    def space(self) -> str:
        """Identifies the representation space, which texts with different prompts share."""
        if self._image_tower is not None:
            return super().space
        rules = self.tokenize.content if isinstance(self.tokenize, Tokenizer) else describe(self.tokenize)
        return digest(super().fingerprint, rules)

    def prepare(self, one: Any) -> Tensor:
        """The token ids of a text."""
        if isinstance(one, Tensor):
            return one
        if isinstance(one, Explicand):
            return one.tensor
        ids = list(self.tokenize(self._check_text(one)))
        self._check_tokens(one, ids)
        if len(ids) > self.limit:
            ids, _ = self._cut(one, ids, self._places(one)[1] if hasattr(self.tokenize, "places") else None)
            warnings.warn(f"Texts over {self.limit} tokens, the most that {self.name!r} takes, were cut off.", stacklevel=2)
        return torch.tensor(ids, dtype=torch.long)

    def explicand(self, one: Any) -> Explicand:
        """A text made ready to be explained: its tokens, and which word (or sentence) each belongs to."""
        if isinstance(one, Explicand):
            return one
        ids, places = self._places(self._check_text(one))
        self._check_tokens(one, ids)
        total = len(ids)
        if total > self.limit:
            ids, places = self._cut(one, ids, places)
            left = total - len(ids)
            first = next((span[1] for span in reversed(places) if span is not None), 0)
            warnings.warn(
                f"The text has {total} tokens but {self.name!r} takes at most {self.limit}; the last {left} were left out, "
                f"from {one[first:].strip()[:30]!r} on.",
                stacklevel=2,
            )
        spans, members = group(one, places, self.features)
        if not spans:
            raise ValueError(f"The text has no tokens that {self.name!r} knows; write other words: {one[:60]!r}.")
        return Explicand(
            torch.tensor(ids),
            tokens=tuple(one[begin:end] for begin, end in spans),
            text=one,
            offsets=tuple(spans),
            members=torch.tensor(members),
            left_out=total - len(ids),
        )

    def _places(self, text: str) -> tuple[list[int], list[Span | None]]:
        if not hasattr(self.tokenize, "places"):
            raise TypeError(
                f"The tokenizer of {self.name!r} does not say where its tokens stand in a text, so texts can be references "
                "but not explicands; give the encoder a tokenizer of transformers, or one with a method places(text)."
            )
        ids, places = self.tokenize.places(text)
        return list(ids), list(places)

    @staticmethod
    def _check_text(one: Any) -> str:
        if not isinstance(one, str):
            raise TypeError(f"A text must be a string. Got {type(one).__name__} instead.")
        if not one.strip():
            raise ValueError("The text is empty; write at least one word.")
        return one

    def _check_tokens(self, text: str, ids: Sequence[int]) -> None:
        if len(ids) == 0:
            raise ValueError(f"The text has no tokens that {self.name!r} knows; write other words: {text[:60]!r}.")
        if len(ids) > self.limit and self.too_long == "raise":
            raise ValueError(
                f"The text has {len(ids)} tokens but {self.name!r} takes at most {self.limit}; shorten it: {text[:60]!r}… "
                "Or load the encoder with too_long='cut', which leaves out the end."
            )

    def _cut(self, text: str, ids: list[int], places: list[Span | None] | None) -> tuple[list[int], list[Span | None]]:
        """Without the last words; special tokens at the end stay there."""
        places = [(0, 0)] * len(ids) if places is None else places
        end = 0
        while end < len(places) and places[-1 - end] is None:
            end += 1
        keep = self.limit - end
        return ids[:keep] + ids[len(ids) - end :], places[:keep] + places[len(places) - end :]

    def collate(self, prepared: Sequence[Tensor] | Tensor) -> dict[str, Tensor]:
        """Token ids, padded to the longest, with their attention mask. What is ``[2, L]`` holds ids and its own mask."""
        rows = [one if one.ndim == 2 else torch.stack([one, torch.ones_like(one)]) for one in prepared]
        ids = nn.utils.rnn.pad_sequence([row[0] for row in rows], batch_first=True, padding_value=self.pad)
        mask = nn.utils.rnn.pad_sequence([row[1] for row in rows], batch_first=True)
        return {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}

    def batch_size(self, one: Any, asked: int | None = None) -> int:
        """64 texts at a time unless asked otherwise."""
        return super().batch_size(one, 64 if asked is None else asked)

    def digest_input(self, one: Any) -> str:
        """A digest of the text."""
        return digest(one)

    def label(self, one: Any) -> str:
        """The text itself."""
        return str(one)

    def made_up_name(self, labels: list[str], count: int) -> str:
        """Up to three texts, or the first and how many more."""
        return " / ".join(labels) if count <= 3 and len(labels) == count else f"{labels[0]} and {count - 1} more"

    def differentiable(self, explicand: Explicand) -> tuple[Encoder, Explicand]:
        """An encoder of the explicand's embeddings, and the explicand as those embeddings ``[d, L]``."""
        view = EmbeddedText(self, explicand)
        return view, replace(explicand, tensor=view.embeddings)

    @property
    def embedding_layer(self) -> nn.Module:
        """The layer that turns token ids into embeddings."""
        if self.embedding is not None:
            return self.layer_named(self.embedding)
        owner = self.owner
        parts = [] if owner is None else list(owner.modules())
        for part in parts:  # networks of transformers know it
            find: Any = getattr(part, "get_input_embeddings", None)
            found = find() if callable(find) else None
            if isinstance(found, nn.Module):
                return found
        for part in parts:
            if isinstance(part, nn.Embedding):
                return part
        raise ValueError(
            f"The encoder {self.name!r} has no layer of token embeddings that could be found; name it with embedding=, or "
            "use a method that removes words, such as cocoax.Rise."
        )


class EmbeddedText(TextEncoder):
    """A text encoder whose inputs are embeddings ``[d, L]`` in place of those of one explicand's tokens.

    The network runs on the explicand's token ids, and its embedding layer gives what it is told to; positions and attention
    are those of the explicand.
    """

    def __init__(self, encoder: TextEncoder, explicand: Explicand) -> None:
        self.__dict__.update(encoder.__dict__)
        assert explicand.members is not None
        self._layer = encoder.embedding_layer
        self._ids = explicand.tensor
        self._own = explicand.members >= 0
        self.embeddings = self._embed(self._ids)

    def folded(self, space: str, examples: Sequence[Tensor], expected: Tensor) -> Encoder:
        """Itself: a copy of the network would have another embedding layer."""
        return self

    def _embed(self, ids: Tensor) -> Tensor:
        with torch.no_grad(), locked(self.owner):  # what another view has put there must be gone
            found: Tensor = self._layer(ids[None].to(self.device))[0]
        return found.T.to("cpu", torch.float32)

    @property
    def spread(self) -> Tensor:
        """The standard deviation of the words' embeddings, for each token ``[L]``; 0 for special ones."""
        return self._own * self.embeddings[:, self._own].std()

    def laid_under(self, words: Sequence[int], filler: int) -> Tensor:
        """The embeddings ``[d, L]`` of other tokens in place of the explicand's, cut off or filled up; special ones stay."""
        number = int(self._own.sum())
        ids = self._ids.clone()
        ids[self._own] = torch.tensor([*words[:number], *[filler] * (number - len(words))])
        return self._embed(ids)

    def keep_special(self, embeddings: Tensor) -> Tensor:
        """The same with the explicand's own embeddings for its special tokens."""
        return torch.where(self._own, embeddings, self.embeddings)

    def prepare(self, one: Any) -> Tensor:
        """Embeddings as they are; a text is laid under the explicand."""
        if isinstance(one, Tensor):
            return one
        ids, places = self._places(self._check_text(one))
        content = [token for token, span in zip(ids, places, strict=True) if span is not None]
        return self.laid_under(content, self.pad if self.mask is None else self.mask)

    def collate(self, prepared: Sequence[Tensor] | Tensor) -> Any:
        """A batch ``[n, d, L]``."""
        like = self._first_parameter()
        batch = prepared if isinstance(prepared, Tensor) else torch.stack(list(prepared))
        return batch.to(like.device, like.dtype)

    def __call__(self, batch: Any) -> Tensor:
        """Representations of embeddings ``[n, d, L]``, differentiable."""
        used: list[bool] = []

        def put(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
            used.append(True)
            embeddings: Tensor = batch.mT.to(output.dtype)
            return embeddings

        ids = self._ids.to(self.device).expand(len(batch), -1)
        with locked(self.owner):  # or another thread would get these embeddings for its own text
            hook = self._layer.register_forward_hook(put)
            try:
                representations = super().__call__({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
            finally:
                hook.remove()
        if not used:
            raise RuntimeError(f"The layer of token embeddings did not run in {self.name!r}; name another with embedding=.")
        return representations

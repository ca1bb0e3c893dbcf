"""Texts as inputs: words, tokens, sentences and paragraphs, the tokenizer, the display, and the kind of input.

Words are those of Unicode's default rules (UAX #29): "don't", "3.14" and an emoji with all its parts are one, punctuation
marks are words of their own, and so is each character of Chinese; Katakana stays together. The rules know no dictionary, so
Thai, Lao, Khmer and Burmese come as single characters: ``features="tokens"`` says more about those.
"""

from __future__ import annotations

import copy
import json
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self, cast, get_args

import regex
import torch
from torch import Tensor, nn

from cocoax.cautions import caution
from cocoax.checks import check_choice
from cocoax.inputs.base import Inputs
from cocoax.inputs.explicand import Display, Explicand
from cocoax.show import ColouredText, Effects, Paragraph
from cocoax.store import digest

_CPU_TOKENS = 4096  # tokens of a batch on a CPU: measured with MiniLM, larger ones leave the caches and take 10 % longer

Span = tuple[int, int]
TextPart = Literal["words", "tokens", "sentences", "paragraphs"]

_WORD_BOUNDARY = regex.compile(r"\b", regex.WORD | regex.VERSION1)
# A sentence ends at . ! ? … (and quotes after them) before a space that no small letter follows, at the marks of Chinese and
# Japanese, or at an empty line.
_SENTENCE_END = regex.compile(r"""[.!?…؟۔]+[\p{Pe}\p{Pf}"']*(?=\s+[^\s\p{Ll}]|\s*$)|[。！？]+[\p{Pe}\p{Pf}]*|\n\s*\n""")
_EMPTY_LINE = regex.compile(r"\n\s*\n")


def check_features(features: str) -> TextPart:
    """Raise unless it is one of the four."""
    check_choice("features", features, get_args(TextPart))
    return cast("TextPart", features)


def words(text: str) -> list[Span]:
    """Return begin and end of every word and punctuation mark."""
    return _pieces(text, [match.start() for match in _WORD_BOUNDARY.finditer(text)])


def sentences(text: str) -> list[Span]:
    """Return begin and end of every sentence, by its punctuation; an abbreviation before a capital letter ends one too."""
    return _pieces(text, [match.end() for match in _SENTENCE_END.finditer(text)])


def paragraphs(text: str) -> list[Span]:
    """Return begin and end of every paragraph: they are apart by empty lines, or by line ends where there is no such line."""
    ends = [match.end() for match in _EMPTY_LINE.finditer(text.strip())]
    start = len(text) - len(text.lstrip())
    ends = [start + end for end in ends] or [place + 1 for place, letter in enumerate(text) if letter == "\n"]
    return _pieces(text, ends)


def _pieces(text: str, cuts: Sequence[int]) -> list[Span]:
    """Return begin and end of what lies between the cuts, without the space around it."""
    bounds = [0, *cuts, len(text)]
    spans = []
    for begin, end in pairwise(bounds):
        piece = text[begin:end]
        if piece.strip():
            spans.append((begin + len(piece) - len(piece.lstrip()), begin + len(piece.rstrip())))
    return spans


_SPANS = {"words": words, "sentences": sentences, "paragraphs": paragraphs}


def group(text: str, tokens: Sequence[Span | None], features: TextPart) -> tuple[list[Span], list[int]]:
    """Return the features of a text, and for each token the one that it belongs to; special tokens are None and -1.

    A token belongs to the feature it shares most characters with; a token of nothing but space to the one before. Words that
    have no token but such a one (an unknown word of Thai is one token, and each of its characters a word) join that feature.
    What is in no token, such as a character that the tokenizer drops, the encoder never sees, and it is no feature.
    """
    if features == "tokens":
        spans = [_trimmed(text, span) for span in tokens if span is not None]
        numbers = iter(range(len(spans)))
        return spans, [-1 if span is None else next(numbers) for span in tokens]
    spans = _SPANS[features](text)
    owner = [-1] * len(text)
    for number, (begin, end) in enumerate(spans):
        owner[begin:end] = [number] * (end - begin)
    members: list[int | None] = []
    within: dict[int, set[int]] = {}  # for each feature, those that its tokens touch
    before = 0
    for span in tokens:
        if span is None:
            members.append(None)
            continue
        shared = Counter(number for number in owner[slice(*span)] if number >= 0)
        before = max(shared, key=lambda number: (shared[number], -number)) if shared else before
        members.append(before)
        within.setdefault(before, {before}).update(shared)
    seen = sorted({number for number in members if number is not None})
    place = {number: index for index, number in enumerate(seen)}
    own = set(seen)
    joined = [_joined(spans, number, within[number] - own) for number in seen]
    return joined, [-1 if number is None else place[number] for number in members]


def _joined(spans: Sequence[Span], number: int, others: Collection[int]) -> Span:
    """Return a span joined with those of ``others`` that follow it, or come before it, without a gap in their numbers."""
    first = last = number
    while first - 1 in others:
        first -= 1
    while last + 1 in others:
        last += 1
    return spans[first][0], spans[last][1]


def _trimmed(text: str, span: Span) -> Span:
    """Return a span without space at its ends, which some tokenizers count to a token, unless it is nothing else."""
    inner = _pieces(text[slice(*span)], [])
    return (span[0] + inner[0][0], span[0] + inner[0][1]) if inner else span


# --- tokenizer --------------------------------------------------------------------------------------------------------------


class Tokenizer:
    """From a string to token ids, and to their places.

    Args:
        tokenizer: of transformers (a fast one; all but a few are).
        prompt: text that is put before every input, as some encoders want; it is never part of an explanation.
        query_prompt: the same for queries, where they have one of their own.

    """

    def __init__(self, tokenizer: Any, prompt: str = "", query_prompt: str | None = None) -> None:
        self.tokenizer = tokenizer
        self.prompt = prompt
        self.query_prompt = query_prompt
        self.content = _content(tokenizer)  # identifies vocabulary and rules

    def __call__(self, text: str) -> list[int]:
        """Return token ids, special tokens included."""
        ids: list[int] = self.tokenizer(self.prompt + text, truncation=False, verbose=False)["input_ids"]
        return ids

    def places(self, text: str) -> tuple[list[int], list[Span | None]]:
        """Return token ids, and where each begins and ends in the text; None for special tokens and those of the prompt."""
        if not getattr(self.tokenizer, "is_fast", False):
            raise TypeError(
                f"{type(self.tokenizer).__name__} does not say where its tokens stand in a text, so texts can be references "
                "but not explicands; load the fast tokenizer of the model."
            )
        encoded = self.tokenizer(
            self.prompt + text,
            truncation=False,
            verbose=False,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
        )
        start = len(self.prompt)
        places: list[Span | None] = [
            None if special or end <= start else (max(begin - start, 0), end - start)
            for (begin, end), special in zip(encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True)
        ]
        return encoded["input_ids"], _with_marks(text, places)

    @property
    def pad(self) -> int:
        """The id that fills up a batch; nothing attends to it, so any will do where the tokenizer has none."""
        for token in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id):
            if token is not None:
                return int(token)
        return 0

    @property
    def unknown(self) -> int | None:
        """The id that stands for words it does not know; None if it has none, or uses one for something else too."""
        others = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id)
        token = getattr(self.tokenizer, "unk_token_id", None)
        return None if token is None or token in others else int(token)

    @property
    def mask(self) -> int | None:
        """The id of the mask token, if there is one."""
        token = getattr(self.tokenizer, "mask_token_id", None)
        return None if token is None else int(token)

    def for_queries(self) -> Self:
        """Return the tokenizer of queries."""
        return self if self.query_prompt is None else self.with_prompt(self.query_prompt)

    def with_prompt(self, prompt: str) -> Self:
        """Return the same with another prompt."""
        other = copy.copy(self)
        other.prompt = prompt
        return other

    def __repr__(self) -> str:
        return f"{type(self.tokenizer).__name__}({self.content}, {self.prompt!r})"


def _content(tokenizer: Any) -> str:
    """Return a digest of vocabulary and rules."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return digest(sorted(tokenizer.get_vocab().items()))
    rules = json.loads(backend.to_str())
    # Calls switch these on and off; and parts of it have another order in every process.
    return digest(
        json.dumps({key: value for key, value in rules.items() if key not in ("truncation", "padding")}, sort_keys=True)
    )


def _with_marks(text: str, places: list[Span | None]) -> list[Span | None]:
    """Return the places with the marks on their last letter, which normalisation takes off; those of other tokens stay."""
    taken = {index for span in places if span is not None for index in range(*span)}
    spans: list[Span | None] = []
    for span in places:
        if span is not None:
            begin, end = span
            while begin < end < len(text) and end not in taken and unicodedata.category(text[end]) == "Mn":
                end += 1
            span = begin, end
        spans.append(span)
    return spans


# --- text -------------------------------------------------------------------------------------------------------------------

TooLong = Literal["raise", "cut"]


@dataclass(frozen=True, eq=False)
class Text(Display):
    """A text, with its words in colour.

    Attributes:
        text: the original.
        offsets: where each feature begins and ends in it, so that ``text[begin:end]`` is the feature.
        left_out: how many tokens were cut off because the encoder takes no more.
        unknown: the words that the encoder does not know.

    """

    kind = "text"
    doubt = "Underlined with dots"
    text: str
    offsets: tuple[Span, ...] = field(repr=False)
    left_out: int = 0
    unknown: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The features as they stand in the text."""
        return tuple(self.text[begin:end] for begin, end in self.offsets)

    @property
    def notes(self) -> Mapping[str, object]:
        """The number of tokens that were cut off, and the unknown words, if any."""
        notes = {"left_out": self.left_out, "unknown": list(self.unknown)}
        return {name: note for name, note in notes.items() if note}

    @property
    def remarks(self) -> tuple[str, ...]:
        """The same in sentences."""
        remarks = []
        if self.unknown:
            words = ", ".join(map(repr, self.unknown[:5])) + (f" and {len(self.unknown) - 5} more" * (len(self.unknown) > 5))
            remarks.append(f"The encoder does not know {words}: all unknown words are the same to it.")
        if self.left_out:
            were = "token of the text was" if self.left_out == 1 else f"{self.left_out} tokens of the text were"
            remarks.append(f"The last {were} left out: the encoder takes no more.")
        return tuple(remarks)

    def view(self, effects: Effects) -> ColouredText:
        """Return the text with its features in colour."""
        return ColouredText(effects, self.text, self.offsets)

    def input_view(self) -> Paragraph:
        """Return the text."""
        return Paragraph(self.text, title="input")

    def parts_view(self, chosen: Tensor | None, title: str) -> Paragraph:
        """Return the text, with dots in the place of what is not chosen."""
        return Paragraph(self.text if chosen is None else _only(self.names, chosen.tolist()), title=title)

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the text and its offsets."""
        header = {"text": self.text, "offsets": self.offsets, "left_out": self.left_out, "unknown": self.unknown}
        return {}, header

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> Self:
        """Return the text that was saved."""
        offsets = tuple((begin, end) for begin, end in header["offsets"])
        return cls(header["text"], offsets, header["left_out"], tuple(header.get("unknown", ())))


def _only(names: Sequence[str], chosen: Sequence[bool]) -> str:
    """Return the chosen words of a text, with three dots in the place of all others between them."""
    words = [name if own else "…" for name, own in zip(names, chosen, strict=True)]
    return " ".join(word for index, word in enumerate(words) if word != "…" or index == 0 or words[index - 1] != "…")


class Texts(Inputs):
    """Strings, as token ids.

    Args:
        tokenize: a tokenizer of transformers, or any callable from a string to its token ids, special tokens included. To be
            explained, a text also needs ``tokenize.places(text)``, as :class:`cocoax.inputs.text.Tokenizer` has it.
        limit: the most tokens the module takes.
        pad: the id that fills up shorter texts of a batch; the tokenizer's if not given.
        mask: the id of the mask token, which can stand for removed words; the tokenizer's if not given.
        features: what explanations are about: ``"words"``, ``"tokens"``, ``"sentences"`` or
            ``"paragraphs"``.
        too_long: what happens to a text over the limit: ``"raise"`` says how long it is, ``"cut"`` leaves out the end and
            warns.
        embedding: the layer of the token embeddings, which gradients are taken of, as in ``module.named_modules()``; found
            by itself in most networks.

    """

    noun = "text"
    feature_kind = "text"
    hint = "Check that the tokenizer is the one the module was trained with."
    continuous = False
    padded = True
    removals: ClassVar[tuple[str, ...]] = ("MaskToken", "Deletion", "AttentionMask")
    removal_names: ClassVar[tuple[str, ...]] = ("mask", "deletion", "attention")
    advice = "Words are removed by baseline='mask', 'deletion' or 'attention' (or cocoax.MaskToken() and so on)."

    def __init__(
        self,
        tokenize: Callable[[str], Sequence[int]],
        limit: int,
        *,
        pad: int | None = None,
        mask: int | None = None,
        features: TextPart = "words",
        too_long: TooLong = "raise",
        embedding: str | None = None,
    ) -> None:
        if hasattr(tokenize, "convert_ids_to_tokens"):
            tokenize = Tokenizer(tokenize)
        check_choice("too_long", too_long, get_args(TooLong))
        self.tokenize = tokenize
        self.limit = limit
        self.pad: int = getattr(tokenize, "pad", 0) if pad is None else pad
        self.mask: int | None = getattr(tokenize, "mask", None) if mask is None else mask
        self.features = check_features(features)
        self.too_long = too_long
        self.warns = True  # of texts that were cut off
        self.embedding = embedding

    @property
    def settings(self) -> tuple[object, ...]:
        """The tokenizer, and what happens to texts over the limit."""
        return self.tokenize, self.pad, self.limit if self.too_long == "cut" else None

    @property
    def space_settings(self) -> tuple[object, ...]:
        """The rules of the tokenizer; texts with different prompts share a space."""
        return (self.tokenize.content if isinstance(self.tokenize, Tokenizer) else self.tokenize,)

    def probe(self) -> Tensor:
        """Return the token ids of a sentence, without the prompt."""
        tokenize = self.tokenize.with_prompt("") if isinstance(self.tokenize, Tokenizer) else self.tokenize
        return torch.tensor(list(tokenize("A small brown dog runs after 3 red balls."))[: self.limit])

    @property
    def default_removal(self) -> str:
        """The mask token, or deletion where there is none or the tokenizer asks for it."""
        default = "Deletion" if self.mask is None else "MaskToken"
        return str(getattr(self.tokenize, "default_removal", default))

    def is_one(self, inputs: object) -> bool:
        """Whether this is one text rather than many."""
        return isinstance(inputs, str | Explicand)

    def prepare(self, item: Any) -> Tensor:
        """Return the token ids of a text."""
        if isinstance(item, Explicand):
            item = item.tensor
        if isinstance(item, Tensor):
            _check_ids(item)
            return item
        ids = list(self.tokenize(_check_text(item)))
        self._check_tokens(item, ids)
        if len(ids) > self.limit:
            ids, _ = self._cut(ids, self.places(item)[1] if hasattr(self.tokenize, "places") else None)
            self._warn(f"Texts over {self.limit} tokens, the most that {self.encoder!r} takes, were cut off.")
        return torch.tensor(ids, dtype=torch.long)

    def explicand(self, item: Any) -> Explicand:
        """Return a text made ready to be explained: its tokens, and which word (or sentence) each belongs to."""
        if isinstance(item, Explicand):
            return item
        ids, places = self.places(item)
        self._check_tokens(item, ids)
        total = len(ids)
        if total > self.limit:
            ids, places = self._cut(ids, places)
            left = total - len(ids)
            end = next((span[1] for span in reversed(places) if span is not None), 0)
            self._warn(
                f"The text has {total} tokens but {self.encoder!r} takes at most {self.limit}; the last {left} were left "
                f"out, from {item[end:].strip()[:30]!r} on."
            )
        spans, members = group(item, places, self.features)
        if not spans:
            raise ValueError(f"The text has no tokens that {self.encoder!r} knows; write other words: {item[:60]!r}.")
        display = Text(item, tuple(spans), total - len(ids), self._unknown(item, ids, places))
        return Explicand(torch.tensor(ids), display, torch.tensor(members))

    def _warn(self, sentence: str) -> None:
        if self.warns:
            warnings.warn(sentence, stacklevel=3)

    def unknown_words(self, text: str) -> str:
        """Return a sentence about the parts of a text that the encoder does not know; empty if it knows all."""
        if getattr(self.tokenize, "unknown", None) is None or not hasattr(self.tokenize, "places"):
            return ""
        ids, places = self.places(text)
        if not (unknown := self._unknown(text, ids, places)):
            return ""
        if self._knows_nothing(ids, places):
            finding = f"knows no word of {text[:60]!r}: all such texts are the same to it. Write other words."
        else:
            words = ", ".join(map(repr, unknown[:5]))
            finding = f"does not know {words} in {text[:60]!r}: all unknown words are the same to it."
        return f"The encoder {self.encoder!r} {finding}"

    def _knows_nothing(self, ids: Sequence[int], places: Sequence[Span | None]) -> bool:
        own = {token for token, place in zip(ids, places, strict=True) if place is not None}
        return own == {getattr(self.tokenize, "unknown", None)}

    def _unknown(self, text: str, ids: Sequence[int], places: Sequence[Span | None]) -> tuple[str, ...]:
        """Return the parts of a text that the tokenizer has nothing but one token for all unknown words for."""
        token = getattr(self.tokenize, "unknown", None)
        spans = [span for number, span in zip(ids, places, strict=True) if number == token and span is not None]
        return tuple(dict.fromkeys(text[begin:end] for begin, end in spans))

    def places(self, text: str) -> tuple[list[int], list[Span | None]]:
        """Return the token ids of a text, and where each token stands in it; None for special ones."""
        _check_text(text)
        if not hasattr(self.tokenize, "places"):
            raise TypeError(
                f"The tokenizer of {self.encoder!r} does not say where its tokens stand in a text, so texts can be "
                "references but not explicands; give the encoder a tokenizer of transformers, or one with a method "
                "places(text)."
            )
        ids, places = self.tokenize.places(text)
        return list(ids), list(places)

    def _check_tokens(self, text: str, ids: Sequence[int]) -> None:
        if len(ids) == 0:
            raise ValueError(f"The text has no tokens that {self.encoder!r} knows; write other words: {text[:60]!r}.")
        if len(ids) > self.limit and self.too_long == "raise":
            raise ValueError(
                f"The text has {len(ids)} tokens but {self.encoder!r} takes at most {self.limit}; shorten it: {text[:60]!r}… "
                "Or load the encoder with too_long='cut', which leaves out the end."
            )
        unknown = getattr(self.tokenize, "unknown", None)
        if unknown is not None and unknown in ids and (sentence := self.unknown_words(text)):
            # The first text with some unknown words is named, and the first with no others.
            check = "unknown texts" if self._knows_nothing(*self.places(text)) else "unknown words"
            caution(check, self.encoder, sentence)

    def _cut(self, ids: list[int], places: list[Span | None] | None) -> tuple[list[int], list[Span | None]]:
        """Return both without the last words; special tokens at the end stay there."""
        places = [(0, 0)] * len(ids) if places is None else places
        end = 0
        while end < len(places) and places[-1 - end] is None:
            end += 1
        keep = self.limit - end
        return ids[:keep] + ids[len(ids) - end :], places[:keep] + places[len(places) - end :]

    def collate(self, prepared: Sequence[Tensor] | Tensor, like: Tensor) -> dict[str, Tensor]:
        """Return token ids, padded to the longest, with their attention mask.

        A text of shape ``[2, L]`` holds its ids and an attention mask of its own.
        """
        rows = [ids if ids.ndim == 2 else torch.stack([ids, torch.ones_like(ids)]) for ids in prepared]
        ids = nn.utils.rnn.pad_sequence([row[0] for row in rows], batch_first=True, padding_value=self.pad)
        mask = nn.utils.rnn.pad_sequence([row[1] for row in rows], batch_first=True)
        return {"input_ids": ids.to(like.device), "attention_mask": mask.to(like.device)}

    def default_batch_size(self, tensor: Tensor, on_cpu: bool) -> int:
        """Return as many texts as have ``_CPU_TOKENS`` tokens together on a CPU, and at most 64."""
        return max(1, min(64, _CPU_TOKENS // tensor.shape[-1])) if on_cpu else 64

    def label(self, item: Any) -> str:
        """Return the text itself."""
        return str(item)

    def set_label(self, labels: Sequence[str], count: int) -> str:
        """Return up to three texts, or the first and how many more."""
        return " / ".join(labels) if count <= 3 and len(labels) == count else f"{labels[0]} and {count - 1} more"


def _check_ids(ids: Tensor) -> None:
    """Raise unless a tensor is token ids, or ids over an attention mask."""
    kinds = (torch.int64, torch.int32)
    if (
        ids.layout != torch.strided
        or ids.dtype not in kinds
        or ids.ndim not in (1, 2)
        or 0 in ids.shape
        or ids.shape[:-1] > (2,)
    ):
        raise TypeError(
            "A text that is a tensor must be token ids [L], or ids over an attention mask [2, L], as integers. "
            f"Got {ids.dtype} {list(ids.shape)} instead."
        )


def _check_text(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"A text must be a string. Got {type(text).__name__} instead.")
    if not text.strip():
        raise ValueError("The text is empty; write at least one word.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"The text holds half a character, {text[error.start]!r} (a lone surrogate), at place {error.start}; decode the "
            "file it came from with errors='replace'."
        ) from None
    return text

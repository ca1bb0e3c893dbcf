"""Sides of a question: captions, pictures, what is encoded already, and the references they become."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from cocoax.checks import as_items
from cocoax.encoders import Encoder
from cocoax.inputs.image import image_files
from cocoax.methods.method import INPUT_TYPES, Input
from cocoax.references import Reference
from cocoax.similarity import Similarity, get_similarity
from cocoax.targets import Target, rather_than, representation_similarity, similarity_to

SEPARATOR = " / "  # between the captions and pictures of a side, where it is written or typed as one text

_REMEMBERED = 4096  # captions whose representations are kept in memory
_UNCACHED_CAPTIONS = 16  # new captions up to which the cache on disk, slower than encoding them, is not looked into
_captions: OrderedDict[tuple[str, str], Tensor] = OrderedDict()
_captions_lock = Lock()


Encoded = Reference | Target  # what needs no encoder any more


@dataclass(frozen=True, eq=False, init=False)
class Side:
    """One side of a question: captions, pictures, references and targets, or several of these.

    The captions together, the pictures together, and each reference or target count the same.

    Attributes:
        captions: one or many; the same caption twice counts once.
        images: whatever ``encoder.reference`` takes: pictures, files, folders; one or many.
        name: what the question calls this side; made up from what it holds if not given.
        encoded: references of the encoder that is asked, and targets; one or many.

    """

    captions: tuple[str, ...]
    images: tuple[Input, ...]
    name: str
    encoded: tuple[Encoded, ...]

    def __init__(
        self,
        captions: str | Iterable[str] = (),
        images: Input | Iterable[Input] = (),
        name: str = "",
        encoded: Encoded | Iterable[Encoded] = (),
    ) -> None:
        texts = [captions] if isinstance(captions, str) else as_items("Captions", captions)
        for caption in texts:
            if not isinstance(caption, str):
                raise TypeError(
                    f"A caption must be a string. Got {type(caption).__name__} instead; pictures go into images=."
                )
            if not caption.strip():
                raise ValueError("A caption is empty; write at least one word, or leave it out.")
        object.__setattr__(self, "captions", tuple(dict.fromkeys(" ".join(caption.split()) for caption in texts)))
        object.__setattr__(self, "images", _as_tuple(images))
        object.__setattr__(self, "encoded", (encoded,) if isinstance(encoded, Reference | Target) else tuple(encoded))
        object.__setattr__(self, "name", name or self._made_up_name())

    @classmethod
    def of(cls, content: Content) -> Side:
        """Return the side that one argument of a question stands for.

        Strings are captions, references and targets are what they are, and everything else is pictures.
        """
        if isinstance(content, Side):
            return content
        if content is None:
            return cls()
        if isinstance(content, str):
            return cls(content)
        if isinstance(content, Reference | Target):
            return cls(encoded=content)
        contents: tuple[Any, ...] = _as_tuple(content)
        encoded = [part for part in contents if isinstance(part, Reference | Target)]
        rest = [part for part in contents if not isinstance(part, Reference | Target)]
        captions = [part for part in rest if isinstance(part, str)]
        return cls(captions, encoded=encoded) if len(captions) == len(rest) else cls(images=rest, encoded=encoded)

    def __repr__(self) -> str:
        return f"Side({self.name!r}, captions: {len(self.captions)}, pictures: {len(self.images)})"

    def __bool__(self) -> bool:
        return bool(self.captions or self.images or self.encoded)

    def same_as(self, other: Side) -> bool:
        """Return whether two sides hold the same captions, pictures, references and targets."""
        same_images = len(self.images) == len(other.images) and all(map(_same_picture, self.images, other.images))
        return set(self.captions) == set(other.captions) and same_images and self.encoded == other.encoded

    def _made_up_name(self) -> str:
        pictures = [self._images_name()] if self.images else []
        return SEPARATOR.join([*_few(self.captions), *pictures, *_few([known.name for known in self.encoded])])

    def _images_name(self) -> str:
        paths = [path for picture in self.images if (path := _path_of(picture)) is not None]
        if len(paths) == len(self.images) <= 2:
            return SEPARATOR.join(
                f"the pictures of {path.name}" if os.path.isdir(path) else f"the picture {path.stem}" for path in paths
            )
        return "a picture" if len(self.images) == 1 else f"{len(self.images)} pictures"

    def references(self, encoder: Encoder, similarity: str | Similarity = "cosine") -> list[Reference]:
        """Return the references of its captions and of its pictures, one for each kind there is.

        Samples of captions are always kept; those of pictures too, up to 10 000, or all where the similarity needs them.
        """
        references = []
        if self.captions:
            references.append(_caption_reference(encoder, self.captions))
        if self.images:
            pictures = [file for picture in self.images for file in _files_of(picture)]
            keep = get_similarity(similarity).needs_samples or None
            references.append(encoder.reference(pictures, name=self._images_name(), keep_samples=keep))
        return references

    def targets(self, encoder: Encoder, similarity: str | Similarity = "cosine") -> list[Target]:
        """Return what it compares with: its captions together, its pictures together, and each reference or target."""
        made = [similarity_to(reference, similarity) for reference in self.references(encoder, similarity)]
        return made + [as_target(known, similarity) for known in self.encoded]

    def describe(self) -> dict[str, Any]:
        """Return all of it as plain values: a picture without a file by its type, references and targets by their names."""
        images = [str(_path_of(picture) or type(picture).__name__) for picture in self.images]
        encoded = [known.name for known in self.encoded]
        return {"name": self.name, "captions": list(self.captions), "images": images, "encoded": encoded}


# What one argument of a question may be.
Content = Side | Encoded | Input | Iterable[Input | Encoded] | None


def as_target(known: Encoded, similarity: str | Similarity) -> Target:
    """Return a target as it is, and of a reference the mean similarity to it."""
    return known if isinstance(known, Target) else similarity_to(known, similarity)


def _few(names: Sequence[str]) -> list[str]:
    """Return up to three names, or the first of more and how many others there are."""
    return list(names) if len(names) <= 3 else [f"{names[0]} and {len(names) - 1} more"]


def _as_tuple(pictures: Input | Iterable[Input | Encoded]) -> tuple[Any, ...]:
    """Return one or many pictures as a tuple; an array or a tensor is one picture."""
    return (pictures,) if isinstance(pictures, INPUT_TYPES) or not isinstance(pictures, Iterable) else tuple(pictures)


def _path_of(picture: Input) -> Path | None:
    """Return where a picture comes from, which Pillow remembers of those it has opened."""
    path = picture if isinstance(picture, str | Path) else getattr(picture, "filename", None)
    return Path(path) if path else None


def _same_picture(first: Input, second: Input) -> bool:
    if isinstance(first, str | Path) and isinstance(second, str | Path):
        return Path(first) == Path(second)
    return first is second or (isinstance(first, Image.Image) and isinstance(second, Image.Image) and first == second)


def _files_of(picture: Input) -> list[Input]:
    """Return the pictures of a folder one by one, anything else as it is."""
    return list(image_files(Path(picture))) if isinstance(picture, str | Path) and Path(picture).is_dir() else [picture]


def _caption_reference(encoder: Encoder, captions: Sequence[str]) -> Reference:
    """Return the captions' reference, with samples; what was encoded before in this process is not encoded again."""
    try:
        text = encoder.text
    except AttributeError as error:
        raise ValueError(f"{error} Ask it with pictures instead of captions.") from error
    space = text.space
    rows = {caption: row for caption in captions if (row := _captions.get((space, caption))) is not None}
    missing = [caption for caption in captions if caption not in rows]
    if missing:
        many = len(missing) > _UNCACHED_CAPTIONS
        encoded = text.reference(missing, keep_samples=True).samples if many else text.represent(missing, progress=False)
        assert encoded is not None
        rows.update(zip(missing, encoded, strict=True))
    with _captions_lock:  # a web page asks from many threads
        for caption in captions:
            _captions[space, caption] = rows[caption]
            _captions.move_to_end((space, caption))
        while len(_captions) > _REMEMBERED:
            _captions.popitem(last=False)
    samples = torch.stack([rows[caption] for caption in captions])
    return Reference.from_representations(samples, name=text.inputs.set_label(list(captions[:4]), len(captions)), space=space)


# --- question ---------------------------------------------------------------------------------------------------------------

_ITSELF = "itself"
_RATHER = " rather than "


@dataclass(frozen=True, eq=False, init=False)
class Question:
    """What in a picture is like ``like`` rather than like ``unlike``?

    Strings are captions; references of the encoder, and targets, are taken as they are; everything else is pictures. A
    :class:`Side` has several of these. Without ``like`` the picture is compared with itself (label-free), without ``unlike``
    there is no contrast. A target brings its similarity, which then is that of the question.

    A question is what a person asks, a :class:`cocoax.Target` is the number that is explained, and this is where the words of
    the two meet: what the picture should be ``like`` is the corpus of the target, what it should be ``unlike`` is its foil.
    """

    like: Side
    unlike: Side
    similarity: str | Similarity

    def __init__(
        self,
        like: Content = None,
        unlike: Content = None,
        *,
        similarity: str | Similarity = "cosine",
    ) -> None:
        object.__setattr__(self, "like", Side.of(like))
        object.__setattr__(self, "unlike", Side.of(unlike))
        targets = [known for side in (self.like, self.unlike) for known in side.encoded if isinstance(known, Target)]
        object.__setattr__(self, "similarity", targets[0].similarity if targets else similarity)
        if self.like and self.like.same_as(self.unlike):
            raise ValueError(f"Both sides of the question are {self.like.name!r}, so nothing is left; change one of them.")

    @classmethod
    def parse(cls, text: str, similarity: str | Similarity = "cosine") -> Question:
        """Return the question that :attr:`name` writes as this text; ``itself`` is the picture."""
        words = "A question reads 'a cat / a kitten rather than a dog'"
        if not isinstance(text, str):
            raise TypeError(f"{words}. Got {type(text).__name__} instead.")
        like, contrast, unlike = text.partition(_RATHER)
        if not text.strip() or (contrast and not (like.strip() and unlike.strip())) or _RATHER in unlike:
            raise ValueError(f"{words}. Got {text!r} instead.")
        likes = None if like.strip() == _ITSELF else like.split(SEPARATOR)
        return cls(likes, unlike.split(SEPARATOR) if contrast else None, similarity=similarity)

    def __repr__(self) -> str:
        return f"Question({self.name!r}, {get_similarity(self.similarity)})"

    @classmethod
    def of(cls, asked: Question | Encoded | str) -> Question:
        """Return a question as it is, the one that a text writes, or that of a reference or a target."""
        if isinstance(asked, Question):
            return asked
        return cls.parse(asked) if isinstance(asked, str) else cls(asked)

    @property
    def like_name(self) -> str:
        """The name of ``like``, or ``itself``."""
        return self.like.name if self.like else _ITSELF

    @property
    def name(self) -> str:
        """The question in words: ``a cat / a kitten rather than a cup of coffee``."""
        return rather_than(self.like_name, self.unlike.name) if self.unlike else self.like_name

    def parts(self, encoder: Encoder) -> tuple[Target, Target | None]:
        """Return the corpus part and the foil part, whose difference is the target."""
        corpus = self._target(self.like, encoder) if self.like else representation_similarity(self.similarity)
        return corpus, self._target(self.unlike, encoder) if self.unlike else None

    def _target(self, side: Side, encoder: Encoder) -> Target:
        targets = side.targets(encoder, self.similarity)
        mean = targets[0] if len(targets) == 1 else sum(target / len(targets) for target in targets)
        assert isinstance(mean, Target)
        return mean.named(side.name)

    def target(self, encoder: Encoder) -> Target:
        """Return the target that is explained: the corpus part minus the foil part."""
        return self.difference(*self.parts(encoder))

    def difference(self, corpus: Target, foil: Target | None) -> Target:
        """Return the target with these two :meth:`parts`, under the name of the question."""
        return (corpus if foil is None else corpus - foil).named(self.name)

    def describe(self) -> dict[str, Any]:
        """Return the question and both of its sides as plain values."""
        return {
            "question": self.name,
            "like": self.like.describe(),
            "unlike": self.unlike.describe(),
            "similarity": str(get_similarity(self.similarity)),
        }

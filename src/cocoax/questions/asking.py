"""Questions: what in this picture is like these words and pictures, rather than like those?

    question = Question(like="a cat", unlike=["a dog", "a wolf"])
    question = Question(like=Side(["a cat"], images=["cats/"]), unlike="a cup of coffee")
    answers = ask(encoder, run, [question, Question(), Question.parse("a cat rather than a sofa")])

A side of a question is captions, pictures or both. Captions and pictures of one side count half each, however many there
are, so that a hundred photos do not drown the words. Nothing on the left asks about the picture's own representation
(label-free), nothing on the right leaves out the contrast.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from cocoax.attribution import Attribution, Method, Rise, Run
from cocoax.attribution.removal import RemovalMethod
from cocoax.attribution.saved import saved_run
from cocoax.encoders import Encoder, Explicand
from cocoax.inputs.images import image_files
from cocoax.questions.regions import Region, top_regions
from cocoax.references import Reference
from cocoax.similarity import LinearSimilarity, Similarity, get_similarity
from cocoax.targets import Target, representation_similarity, score_all, similarity_to

ITSELF = "itself"
_RATHER = " rather than "
_OR = " / "
_REMEMBERED = 4096  # captions whose representations are kept in memory
_FEW = 16
_captions: OrderedDict[tuple[str, str], Tensor] = OrderedDict()
_captions_lock = Lock()


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a question: captions, pictures or both.

    Attributes:
        captions: one or many.
        images: whatever ``encoder.reference`` takes: pictures, files, folders; one or many.
        name: what the question calls this side; made up from captions and file names if not given.

    """

    captions: Sequence[str] = ()
    images: Sequence[Any] = ()
    name: str = ""

    def __post_init__(self) -> None:
        captions = [self.captions] if isinstance(self.captions, str) else list(self.captions)
        for caption in captions:
            if not isinstance(caption, str):
                raise TypeError(
                    f"A caption must be a string. Got {type(caption).__name__} instead; pictures go into images=."
                )
            if not caption.strip():
                raise ValueError("A caption is empty; write at least one word, or leave it out.")
        several = isinstance(self.images, Iterable) and not isinstance(self.images, str | Path | Image.Image | Tensor)
        images = tuple(self.images) if several and not hasattr(self.images, "shape") else (self.images,)
        object.__setattr__(self, "captions", tuple(dict.fromkeys(" ".join(caption.split()) for caption in captions)))
        object.__setattr__(self, "images", images)
        object.__setattr__(self, "name", self.name or self._made_up_name())

    def __bool__(self) -> bool:
        return bool(self.captions or self.images)

    def _made_up_name(self) -> str:
        captions = list(self.captions)
        if len(captions) > 3:
            captions = [f"{captions[0]} and {len(captions) - 1} more"]
        return _OR.join([*captions, *([self._images_name()] if self.images else [])])

    def _images_name(self) -> str:
        paths = [path for one in self.images if (path := _file(one)) is not None]
        if len(paths) == len(self.images) <= 2:
            return _OR.join(f"the pictures of {path.name}" if path.is_dir() else f"the picture {path.stem}" for path in paths)
        return "a picture" if len(self.images) == 1 else f"{len(self.images)} pictures"

    def references(
        self, encoder: Encoder, similarity: str | Similarity = "cosine", space: str | None = None
    ) -> list[Reference]:
        """Its captions and its pictures as references, one for each kind there is; every caption's sample is kept.

        ``space`` is that of the encoder, for callers that have it: finding it out means reading all weights.
        """
        found = []
        if self.captions:
            found.append(_caption_reference(encoder, self.captions, encoder.space if space is None else space))
        if self.images:
            inputs = [part for one in self.images for part in _files(one)]
            keep = not isinstance(get_similarity(similarity), LinearSimilarity)
            found.append(encoder.reference(inputs, name=self._images_name(), keep_samples=keep))
        return found


def _file(one: Any) -> Path | None:
    """Where a picture comes from, which Pillow remembers of those it has opened."""
    name = one if isinstance(one, str | Path) else getattr(one, "filename", None)
    return Path(name) if name else None


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, str | Path) and isinstance(other, str | Path):
        return Path(one) == Path(other)
    return one is other or (isinstance(one, Image.Image) and isinstance(other, Image.Image) and one == other)


def _files(one: Any) -> list[Any]:
    """A picture as it is, those of a folder one by one."""
    return list(image_files(Path(one))) if isinstance(one, str | Path) and Path(one).is_dir() else [one]


def _caption_reference(encoder: Encoder, captions: Sequence[str], space: str) -> Reference:
    """The captions' reference, with samples; what was encoded before in this process is not encoded again."""
    try:
        text = encoder.text
    except AttributeError as error:
        raise ValueError(f"{error} Ask it with pictures instead of captions.") from error
    rows = {caption: row for caption in captions if (row := _captions.get((space, caption))) is not None}
    missing = [caption for caption in captions if caption not in rows]
    if missing:
        # Looking into the cache on disk takes longer than encoding a few words.
        many = len(missing) > _FEW
        found = text.reference(missing, keep_samples=True).samples if many else text.represent(missing, progress=False)
        assert found is not None
        rows.update(zip(missing, found, strict=True))
    with _captions_lock:  # a web page asks from many threads
        for caption in captions:
            _captions[space, caption] = rows[caption]
            _captions.move_to_end((space, caption))
        while len(_captions) > _REMEMBERED:
            _captions.popitem(last=False)
    samples = torch.stack([rows[caption] for caption in captions])
    return Reference.from_representations(
        samples, name=text.inputs.name_together(list(captions[:4]), len(captions)), space=space
    )


def _side(given: Any) -> Side:
    if isinstance(given, Side):
        return given
    if given is None:
        return Side()
    strings = isinstance(given, str) or (isinstance(given, Sequence) and all(isinstance(one, str) for one in given))
    return Side(captions=given) if strings else Side(images=given)


@dataclass(frozen=True, eq=False)
class Question:
    """What in a picture is like ``like`` rather than like ``unlike``?

    Strings are captions, everything else is pictures; a :class:`Side` has both. Without ``like`` the picture is compared
    with itself (label-free), without ``unlike`` there is no contrast.
    """

    like: Any = None
    unlike: Any = None
    similarity: str | Similarity = field(default="cosine", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "like", _side(self.like))
        object.__setattr__(self, "unlike", _side(self.unlike))
        same_images = len(self.like.images) == len(self.unlike.images) and all(
            map(_same, self.like.images, self.unlike.images)
        )
        if self.like and set(self.like.captions) == set(self.unlike.captions) and same_images:
            raise ValueError(f"Both sides of the question are {self.like.name!r}, so nothing is left; change one of them.")

    @classmethod
    def parse(cls, text: str, similarity: str | Similarity = "cosine") -> Question:
        """A question in words, as :attr:`name` writes it; ``itself`` is the picture."""
        like, contrast, unlike = text.partition(_RATHER)
        if not text.strip() or (contrast and not (like.strip() and unlike.strip())) or _RATHER in unlike:
            raise ValueError(f"A question reads 'a cat / a kitten rather than a dog'. Got {text!r} instead.")
        likes = None if like.strip() == ITSELF else like.split(_OR)
        return cls(likes, unlike.split(_OR) if contrast else None, similarity=similarity)

    @property
    def name(self) -> str:
        """The question in words: ``a cat / a kitten rather than a cup of coffee``."""
        like = self.like.name if self.like else ITSELF
        return f"{like}{_RATHER}{self.unlike.name}" if self.unlike else like

    def parts(self, encoder: Encoder, space: str | None = None) -> tuple[Target, Target | None]:
        """The corpus part and the foil part, whose difference is the target."""
        corpus = self._target(self.like, encoder, space) if self.like else representation_similarity(self.similarity)
        return corpus, self._target(self.unlike, encoder, space) if self.unlike else None

    def _target(self, side: Side, encoder: Encoder, space: str | None) -> Target:
        first, *rest = (similarity_to(one, self.similarity) for one in side.references(encoder, self.similarity, space))
        return (0.5 * first + 0.5 * rest[0] if rest else first).named(side.name)

    def target(self, encoder: Encoder) -> Target:
        """What is explained."""
        return self._difference(*self.parts(encoder))

    def _difference(self, corpus: Target, foil: Target | None) -> Target:
        return (corpus if foil is None else corpus - foil).named(self.name)

    def describe(self) -> dict[str, Any]:
        """Both sides, as plain values."""

        def side(one: Side) -> dict[str, Any]:
            images = [str(_file(image) or type(image).__name__) for image in one.images]
            return {"name": one.name, "captions": list(one.captions), "images": images}

        like, unlike = side(self.like), side(self.unlike)
        return {"question": self.name, "like": like, "unlike": unlike, "similarity": str(get_similarity(self.similarity))}


@dataclass(frozen=True)
class Rival:
    """How similar the picture is to one caption (or to the pictures of a side), for comparison."""

    name: str
    score: float
    side: str  # "like", "unlike", or "other" for those of other questions
    is_caption: bool


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to one question.

    Attributes:
        question: what was asked.
        attribution: the map, its standard errors, the score and how it was made.
        corpus_score: the part of the score that comes from what the picture should be like.
        foil_score: the part that is subtracted; None without a foil. The score is the first minus the second.
        comparison: every caption (and set of pictures) in play with its own similarity to the picture, highest first.
        regions: what raises the score most, strongest first.
        against: what lowers it most.

    """

    question: Question
    attribution: Attribution
    corpus_score: float
    foil_score: float | None
    comparison: tuple[Rival, ...]
    regions: tuple[Region, ...]
    against: tuple[Region, ...]

    @property
    def name(self) -> str:
        """The question."""
        return self.question.name

    @property
    def score(self) -> float:
        """Corpus part minus foil part."""
        return self.attribution.score

    @property
    def rank(self) -> int | None:
        """The place, from 1, of the best caption of ``like`` among all captions; None if there is nothing to compare.

        Pictures stand apart: every picture is more similar to pictures than to words.
        """
        captions = [rival for rival in self.comparison if rival.is_caption]
        places = [place for place, rival in enumerate(captions, 1) if rival.side == "like"]
        return places[0] if places and len(captions) > 1 else None

    def split(self) -> str:
        """The score and its parts, in words: ``+0.120: +0.310 to 'a cat' minus +0.190 to 'a dog'``."""
        if self.foil_score is None:
            return f"{self.score:+.3f}"
        like = self.question.like.name if self.question.like else ITSELF
        unlike = self.question.unlike.name
        return f"{self.score:+.3f}: {self.corpus_score:+.3f} to {like!r} minus {self.foil_score:+.3f} to {unlike!r}"

    def describe(self, values: bool = True) -> dict[str, Any]:
        """All of it as plain values, ready for JSON; ``values=False`` leaves out map and errors."""
        one = self.attribution

        def rounded(tensor: Tensor | None) -> Any:
            return None if tensor is None else [[float(f"{value:.6g}") for value in row] for row in tensor.tolist()]

        def regions(found: Sequence[Region]) -> list[dict[str, Any]]:
            return [{**vars(region), "box": list(region.box), "certain": region.certain} for region in found]

        return {
            **self.question.describe(),
            "score": one.score,
            "corpus_score": self.corpus_score,
            "foil_score": self.foil_score,
            "baseline_score": one.baseline_score,
            "rank": self.rank,
            "comparison": [dict(vars(rival)) for rival in self.comparison],
            "regions": regions(self.regions),
            "against": regions(self.against),
            "neutral": one.neutral,
            "box": list(one.box),
            **dict(one.metadata),
            **({"values": rounded(one.values), "standard_error": rounded(one.standard_error)} if values else {}),
        }


def ask(
    encoder: Encoder,
    about: Run | Explicand | Any,
    questions: Question | Sequence[Question],
    method: Method | None = None,
    *,
    at_least: bool = False,
    progress: bool | None = None,
) -> list[Answer]:
    """Answer questions about one picture.

    ``about`` is a run, which answers without the encoder seeing the picture again, or a picture, which ``method`` (Rise by
    default) explains; runs of removal-based methods are kept and found again (``cocoax.attribution.saved``), those with more
    samples than asked for as a whole if ``at_least``.
    """
    asked = [questions] if isinstance(questions, Question) else list(questions)
    if not asked:
        raise ValueError("There are 0 questions; ask at least one.")
    space = encoder.space
    parts = [question.parts(encoder, space) for question in asked]
    targets = [question._difference(*part) for question, part in zip(asked, parts, strict=True)]
    method = Rise() if method is None else method
    if not isinstance(about, Run) and isinstance(method, RemovalMethod):
        about = saved_run(encoder, about, method, targets, at_least=at_least, progress=progress)
    if isinstance(about, Run):
        attributions, own = about.explain(targets), about.ends[0]
    else:
        explicand = encoder.explicand(about)
        attributions = method.explain(encoder, explicand, targets, progress=progress)
        own = encoder.represent([explicand], progress=False)[0]
    rivals = [_rivals(question, part) for question, part in zip(asked, parts, strict=True)]
    answers = []
    for index, (question, (corpus, foil), attribution) in enumerate(zip(asked, parts, attributions, strict=True)):
        others = {
            name: replace(rival, side="other")
            for number, found in enumerate(rivals)
            if number != index and asked[number].similarity == question.similarity
            for name, rival in found.items()
        }
        in_play = {**others, **rivals[index]}
        scored = [corpus, *([] if foil is None else [foil]), *(rival.target for rival in in_play.values())]
        scores = [float(score) for score in score_all(scored, own[None], own)[0]]
        compared = zip(in_play.values(), scores[-len(in_play) :], strict=True) if in_play else ()
        comparison = [Rival(one.target.name, score, one.side, one.is_caption) for one, score in compared]
        answers.append(
            Answer(
                question=question,
                attribution=attribution,
                corpus_score=scores[0],
                foil_score=None if foil is None else scores[1],
                comparison=tuple(sorted(comparison, key=lambda rival: -rival.score)),
                regions=tuple(top_regions(attribution)),
                against=tuple(top_regions(attribution, lowering=True)),
            )
        )
    return answers


@dataclass(frozen=True)
class _Candidate:
    target: Target
    side: str
    is_caption: bool


def _rivals(question: Question, parts: tuple[Target, Target | None]) -> dict[str, _Candidate]:
    """What takes part in a question, each by itself: every caption, and the pictures of a side together."""
    found: dict[str, _Candidate] = {}
    for name, side, target in (("unlike", question.unlike, parts[1]), ("like", question.like, parts[0])):
        if target is None or not side:
            continue
        references = target.references
        if side.captions:
            captions = references.pop(0)
            assert captions.samples is not None
            for caption, sample in zip(side.captions, captions.samples, strict=True):
                alone = Reference.from_representations(sample[None], name=caption, space=captions.space)
                found[caption] = _Candidate(similarity_to(alone, target.similarity), name, True)
        for pictures in references:
            found[f"{pictures.name} {id(pictures)}"] = _Candidate(similarity_to(pictures, target.similarity), name, False)
    return found

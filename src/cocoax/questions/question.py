"""One question about a picture, and the target it becomes.

A side of a question is captions, pictures, references, targets, or several of these. Captions and pictures of one side count
half each, however many there are, so that a hundred photos do not drown the words. Nothing on the left asks about the
picture's own representation (label-free), nothing on the right leaves out the contrast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cocoax.encoders import Encoder
from cocoax.questions.sides import SEPARATOR, Content, Encoded, Side
from cocoax.similarity import Similarity, get_similarity
from cocoax.targets import Target, rather_than, representation_similarity

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
        like, contrast, unlike = text.partition(_RATHER)
        if not text.strip() or (contrast and not (like.strip() and unlike.strip())) or _RATHER in unlike:
            raise ValueError(f"A question reads 'a cat / a kitten rather than a dog'. Got {text!r} instead.")
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
        """What the picture is compared with, in words: the name of ``like``, or ``itself``."""
        return self.like.name if self.like else _ITSELF

    @property
    def name(self) -> str:
        """The question in words: ``a cat / a kitten rather than a cup of coffee``."""
        return rather_than(self.like_name, self.unlike.name) if self.unlike else self.like_name

    def parts(self, encoder: Encoder, space: str | None = None) -> tuple[Target, Target | None]:
        """Return the corpus part and the foil part, whose difference is the target.

        ``space`` is that of the encoder, for callers that know it already: finding it out means reading all weights.
        """
        if space is None and self.like.captions and self.unlike.captions:
            space = encoder.space  # once for both sides
        corpus = self._target(self.like, encoder, space) if self.like else representation_similarity(self.similarity)
        return corpus, self._target(self.unlike, encoder, space) if self.unlike else None

    def _target(self, side: Side, encoder: Encoder, space: str | None) -> Target:
        targets = side.targets(encoder, self.similarity, space)
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

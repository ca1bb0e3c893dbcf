"""Separability tests: whether an encoder separates a corpus from a foil, without which a map of the difference is noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from math import comb
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from cocoax.checks import check_count
from cocoax.evaluation.separability import (
    MAX_COMPARED_SAMPLES,
    MIN_PERMUTATIONS,
    Separability,
    auc_and_error,
    mann_whitney,
    pairwise_similarities,
    separability,
)
from cocoax.evaluation.statistics import wilson
from cocoax.references import Reference, check_same_space
from cocoax.results import Result
from cocoax.seeding import check_seed, stream
from cocoax.show import Curves, Line, Table
from cocoax.show.fonts import wrapped
from cocoax.similarity import Similarity, get_similarity
from cocoax.targets import Target, contrastive_corpus_similarity, similarity_to

_DRAWS = 20  # corpora of each size that are tried
_SIZES = (1, 2, 3, 5, 10, 20, 50, 100, 200)
_WIDE = 0.2  # of the interval of an AUC, from which on sizes of the corpus cannot be compared
_SAME_AUC = 0.01  # AUCs that differ by less are the same
Test = Literal["held-out members", "given inputs", "random captions"]


@dataclass(frozen=True)
class _CorpusSizeAuc:
    """The separation of held-out members from the foil by corpora of one size: mean AUC over random ones, and its spread."""

    size: int
    auc: float
    deviation: float


@dataclass(frozen=True)
class Knowledge(Result):
    """The result of a test whether an encoder separates a corpus from a foil; made by :func:`cocoax.knows`.

    Attributes:
        corpus, foil: their names.
        separability: the AUC with its interval and p-value.
        test: on what: held-out members of corpus and foil, inputs that were given, or random captions in place of the corpus.
        sizes: the AUC of smaller corpora.

    """

    file: ClassVar[str] = "knows"
    measured: ClassVar[str] = "AUC"
    chance: ClassVar[str] = "knows nothing"
    corpus: str
    foil: str
    separability: Separability
    test: Test
    sizes: tuple[_CorpusSizeAuc, ...] = ()

    @property
    def auc(self) -> float:
        """The share of pairs in which a held-out member of the corpus scores above a member of the foil."""
        return self.separability.auc

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the AUC."""
        return self.separability.low, self.separability.high

    @property
    def p_value(self) -> float:
        """The probability that an encoder without any difference between the two would do as well."""
        return self.separability.p_value

    @property
    def verdict(self) -> str:
        """``"separated"``, ``"not separated"``, ``"reversed"`` or ``"inconclusive"``."""
        return self.separability.verdict

    def __bool__(self) -> bool:
        return self.separability.verdict == "separated"

    @property
    def summary(self) -> str:
        """The finding, in a sentence."""
        ours, theirs = self.separability.counts
        which = f"these {ours}" if self.test == "held-out members" else f"the {ours} inputs that show"
        if self.verdict == "separated":
            return (
                f"The encoder separates {which} {self.corpus!r} from the {theirs} of {self.foil!r}: AUC {self.separability}."
            )
        if self.verdict == "not separated":
            return (
                f"It does not separate {self.corpus!r} from {self.foil!r}: AUC {self.separability}; a map would show noise."
            )
        if self.verdict == "reversed":
            return (
                f"Members of {self.corpus!r} score lower than those of {self.foil!r}: AUC {self.separability}; a map would "
                "show the opposite of the question. Are the two sides swapped?"
            )
        few = f"AUC {self.separability} from {ours} and {theirs} samples; add some, or try another layer of the encoder"
        return f"Too few samples to say whether it separates {self.corpus!r} from {self.foil!r}: {few}."

    @property
    def enough(self) -> int | None:
        """The smallest corpus that does as well as the largest that was tried, if there is a smaller one."""
        if len(self.sizes) < 2:
            return None
        return next(of.size for of in self.sizes if of.auc >= self.sizes[-1].auc - _SAME_AUC)

    @property
    def remarks(self) -> tuple[str, ...]:
        """The influence of the size of the corpus, in a sentence; empty if none was found or the interval is wide."""
        low, high = self.interval
        if self.enough is None or not self or high - low > _WIDE:
            return ()
        last = self.sizes[-1]
        if self.enough < last.size:
            return (
                f"A corpus of {self.enough} would do as well as one of {last.size}, the largest that was tried on the "
                f"members left over: AUC {last.auc:.2f}.",
            )
        before = self.sizes[-2]
        return (f"More members help: AUC {before.auc:.2f} with {before.size}, {last.auc:.2f} with {last.size}.",)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.summary!r})"

    @property
    def title(self) -> str:
        """The heading of a page."""
        return "Does the encoder know this?"

    @property
    def _caption(self) -> str:
        return f"{self.corpus} and {self.foil}: {self.verdict}"

    def views(self) -> list[Curves]:
        """Return the AUC with its interval beside chance, and that of smaller corpora."""
        whole, tested = self.separability.counts[0], self.separability
        lines = []
        if self.sizes:
            sizes, aucs, deviations = (np.array(column) for column in zip(*map(astuple, self.sizes), strict=True))
            style = {"marker": "o"}
            lines.append(Line(sizes, aucs, "smaller corpora", style, low=aucs - deviations, high=aucs + deviations))
        red = {"color": "#b2182b"}
        lines.append(Line(np.array([whole] * 2), np.array([tested.low, tested.high]), "", red))
        lines.append(Line(np.array([whole]), np.array([tested.auc]), f"{self.measured} {tested}", {"marker": "s", **red}))
        label = "members of the corpus" if self.test == "held-out members" else "inputs"
        ticks = (*(float(of.size) for of in self.sizes if of.size < 0.75 * whole), float(whole))
        title = wrapped(self._caption, 56, 2)
        return [Curves(tuple(lines), label, self.measured, (("y", 0.5, self.chance),), ticks, logarithmic=True, title=title)]

    def table(self) -> Table:
        """Return one row for each size of the corpus that was tried, and one for all of it."""
        rows = [(of.size, of.auc, of.deviation, None, None) for of in self.sizes]
        whole = (self.separability.counts[0], self.separability.auc, None, self.separability.low, self.separability.high)
        return Table(("members", self.measured, "deviation", "low", "high"), (*rows, whole))

    def facts(self) -> dict[str, Any]:
        """Return names, test, verdict, separability and sizes."""
        return {
            "corpus": self.corpus,
            "foil": self.foil,
            "test": self.test,
            "verdict": self.verdict,
            **vars(self.separability),
            "sizes": [vars(of) for of in self.sizes],
        }


class CaptionComparison(Knowledge):
    """A comparison of a corpus with random captions: how many of these make a smaller difference between inputs."""

    measured = "random captions beaten"
    chance = "a random caption"

    @property
    def auc(self) -> float:
        """Raise, since random captions give no AUC."""
        raise ValueError("Random captions give no AUC; 'beaten' is the share of them that make a smaller difference.")

    @property
    def beaten(self) -> float:
        """The share of random captions that make a smaller difference between the inputs."""
        return self.separability.auc

    @property
    def verdict(self) -> str:
        """``"stands out"``, ``"does not stand out"`` or ``"may be chance"``."""
        return {"separated": "stands out", "inconclusive": "may be chance"}.get(
            self.separability.verdict, "does not stand out"
        )

    @property
    def summary(self) -> str:
        """The finding, in a sentence."""
        share = f"{100 * self.beaten:.0f} % of {self.separability.counts[1]} random captions"
        known = "which may be chance" if self.verdict == "may be chance" else f"so it {self.verdict} among them"
        return (
            f"On these {self.separability.counts[0]} inputs {self.corpus!r} makes a larger difference than {share}, "
            f"{known}. Only inputs that show it can confirm what it stands for."
        )

    @property
    def _caption(self) -> str:
        return f"{self.corpus} among random captions: {self.verdict}"

    def facts(self) -> dict[str, Any]:
        """Return names, test, verdict, separability and sizes."""
        return {("beaten" if name == "auc" else name): value for name, value in super().facts().items()}


def knows(
    corpus: Reference,
    foil: Reference,
    *,
    shown: Reference | None = None,
    others: Reference | None = None,
    captions: Reference | None = None,
    similarity: str | Similarity = "cosine",
    permutations: int = 999,
    seed: int = 0,
) -> Knowledge:
    """Test whether an encoder knows the difference between a corpus and a foil.

    Held-out members are scored by their similarity to the rest of the corpus minus that to the rest of the foil; the AUC is
    how often a corpus member scores above a foil member. The p-value comes from random corpora and foils of the same members,
    the interval from DeLong's error, widened by what that misses on the random ones.

    Captions are tested on pictures: those that show the corpus (``shown``) and those that do not (``others``). Without labels
    ``shown`` alone is scored, and the spread of scores is compared with that by random ``captions``.

    Args:
        corpus, foil: what is compared with; both must have kept their samples (``keep_samples=True``), of which up to 500
            each are used, however they are weighted.
        shown: inputs to test on, in place of members that are left out; none of them in the corpus or the foil.
        others: inputs that do not show the corpus.
        captions: random captions, as ``encoder.text.reference(...)`` gives.
        similarity: cosine by default.
        permutations: random corpora.
        seed: of all that is random.

    Example:
        >>> encoder = cocoax.load("minilm")
        >>> music = encoder.reference(["a sonata", "a violin", "a choir", "an orchestra"], name="music")
        >>> sport = encoder.reference(["a goal", "a match", "a referee", "a striker"], name="sport")
        >>> cocoax.knows(music, sport).auc
        1.0

    """
    check_seed(seed)
    check_same_space([side for side in (corpus, foil, shown, others, captions) if side is not None])
    if shown is None:
        if others is not None or captions is not None:
            raise ValueError("'others' and 'captions' say what 'shown' is compared with; give the inputs as 'shown', too.")
        found = separability(corpus, foil, similarity, permutations=permutations, seed=seed)
        return Knowledge(corpus.name, foil.name, found, "held-out members", _aucs_of_sizes(corpus, foil, similarity, seed))
    if (others is None) == (captions is None):
        raise ValueError(
            "Inputs that show the corpus are told from inputs that do not: give those as 'others'. Where nobody knows which "
            "is which, give random captions as 'captions'. One of the two, please."
        )
    target = contrastive_corpus_similarity(corpus, foil, similarity)
    if captions is not None:
        _check_new([shown], [corpus])
        found = _against_captions(target, corpus, foil, shown, captions, permutations, seed)
        return CaptionComparison(corpus.name, foil.name, found, "random captions")
    assert others is not None
    for side in (shown, others):
        if side.count < 2:
            raise ValueError(f"{side.name!r} has 1 sample; give at least two, or chance cannot be told from knowledge.")
    _check_new([shown, others], [corpus, foil])
    scores = np.concatenate([_scores(target, side) for side in (shown, others)])
    return Knowledge(corpus.name, foil.name, mann_whitney(scores, shown.count), "given inputs")


def _check_new(tested: Sequence[Reference], sides: Sequence[Reference]) -> None:
    """Raise if test inputs are among the samples of the corpus or foil, since each is most similar to itself."""
    for side in (side for side in sides if side.samples is not None):
        own = {row.tobytes() for row in side.kept("knows()").numpy()}
        for given in tested:
            again = sum(row.tobytes() in own for row in given.kept("knows()").numpy())
            if again:
                raise ValueError(
                    f"{again} of the {given.count} samples of {given.name!r} are in {side.name!r} too, and each is like "
                    "itself, whatever the encoder knows. Test on others, or give corpus and foil alone; members are left out."
                )


def _scores(target: Target, inputs: Reference) -> np.ndarray:
    return np.asarray(target.score(inputs.kept("knows()").double()).numpy())


def _against_captions(
    target: Target,
    corpus: Reference,
    foil: Reference,
    shown: Reference,
    captions: Reference,
    permutations: int,
    seed: int,
) -> Separability:
    """Return how many random corpora of captions spread the scores of inputs less than this one does.

    They are drawn from the captions and the corpus together; where there are few different ones, each is taken once.
    """
    check_count("permutations", permutations, MIN_PERMUTATIONS)
    pool, size = captions.kept("knows()"), corpus.count
    wanted = max(MIN_PERMUTATIONS, size + 2)
    if len(pool) < wanted or shown.count < 2:
        raise ValueError(
            f"There are {len(pool)} random captions and {shown.count} inputs; give at least {wanted} and 2 of them."
        )
    own = float(_scores(target, shown).std())
    together = torch.cat([pool, corpus.kept("knows()")])
    total = len(together)
    draws = stream(seed, 3)
    if comb(total, size) - 1 <= permutations:
        chosen = [list(places) for places in combinations(range(total), size)][:-1]  # the last is the corpus itself
    else:
        chosen = [draws.choice(total, size, replace=False).tolist() for _ in range(permutations)]
    spreads = []
    for places in chosen:
        random = Reference.from_representations(together[places], name="random", space=corpus.space, keep_samples=True)
        difference = similarity_to(random, target.similarity) - similarity_to(foil, target.similarity)
        spreads.append(float(_scores(difference, shown).std()))
    beaten = int(sum(spread < own for spread in spreads))
    independent = min(len(chosen), len(pool) // size)  # corpora that share no caption
    low, high = wilson(round(beaten / len(chosen) * independent), independent)
    p_value = (1 + len(chosen) - beaten) / (1 + len(chosen))
    return Separability(beaten / len(chosen), low, high, p_value, (shown.count, len(chosen)))


def _aucs_of_sizes(corpus: Reference, foil: Reference, similarity: str | Similarity, seed: int) -> tuple[_CorpusSizeAuc, ...]:
    """Return how well smaller corpora do on the members that are not in them: the mean over some that are drawn."""
    similarities, count = pairwise_similarities(corpus, foil, get_similarity(similarity), MAX_COMPARED_SAMPLES, seed)
    total = len(similarities)
    to_foil = similarities[:, count:].sum(1)
    rest = to_foil / (total - count)  # the foil without the member itself, where it is one
    rest[count:] = (to_foil[count:] - similarities.diagonal()[count:]) / (total - count - 1)
    found = []
    for size in (size for size in _SIZES if size <= count - 2):
        draws = stream(seed, 4, size)
        aucs = []
        for _ in range(_DRAWS):
            order = draws.permutation(count)
            used, left = order[:size], order[size:]
            scores = similarities[:, used].mean(1) - rest
            aucs.append(float(auc_and_error(np.concatenate([scores[left], scores[count:]])[:, None], len(left))[0][0]))
        found.append(_CorpusSizeAuc(size, float(np.mean(aucs)), float(np.std(aucs))))
    return tuple(found)

"""Does the encoder know this? Sentences, corpora of other sizes, captions, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

import cocoax
from cocoax.evaluation.separability import Separability
from cocoax.evaluation.statistics import wilson
from cocoax.insight import Knowledge
from cocoax.insight.knowledge import CaptionComparison, _CorpusSizeAuc
from tests.towers import picture, two_towers


def reference(count: int, seed: int, shift: float = 0.0, name: str = "set") -> cocoax.Reference:
    rows = np.random.default_rng(seed).normal(size=(count, 6))
    rows[:, 0] += shift
    return cocoax.Reference.from_representations(rows, name=name)


@pytest.fixture
def known() -> Knowledge:
    return cocoax.knows(reference(30, 0, 3.0, "cats"), reference(40, 1, name="rest"), permutations=99)


def test_knows__says_so_in_a_sentence(known: Knowledge) -> None:
    assert known
    low, high = known.interval
    assert known.summary == (
        f"The encoder separates these 30 'cats' from the 40 of 'rest': AUC {known.auc:.2f} [{low:.2f}, {high:.2f}]."
    )
    assert known.p_value == 0.01
    assert known.test == "held-out members"
    nothing = cocoax.knows(reference(60, 2, name="even"), reference(60, 3, name="odd"), permutations=99)
    assert not nothing
    assert nothing.summary.startswith("It does not separate 'even' from 'odd': AUC 0.")
    assert nothing.summary.endswith("; a map would show noise.")
    little = cocoax.knows(reference(3, 0, 0.7, name="a"), reference(3, 1, name="b"), permutations=99)
    assert little.summary.startswith("Too few samples to say whether it separates 'a' from 'b'")
    assert little.sizes[0].size == 1


def test_knows__smaller_corpora_are_tested_on_the_members_that_are_not_in_them() -> None:
    corpus, foil = reference(9, 0, 1.0), reference(12, 1)
    knowledge = cocoax.knows(corpus, foil, permutations=39)
    assert [of.size for of in knowledge.sizes] == [1, 2, 3, 5]
    assert corpus.samples is not None
    assert foil.samples is not None
    ours, theirs = (
        side.double().numpy() / np.linalg.norm(side.double().numpy(), axis=1, keepdims=True)
        for side in (corpus.samples, foil.samples)
    )
    for of in knowledge.sizes[1:]:  # another twenty corpora of that size, scored by hand
        aucs = []
        for seed in range(20):
            order = np.random.default_rng(seed).permutation(9)
            centre = ours[order[: of.size]].mean(0)
            scores = [row @ (centre - theirs.mean(0)) for row in ours[order[of.size :]]]
            scores += [row @ (centre - np.delete(theirs, place, 0).mean(0)) for place, row in enumerate(theirs)]
            aucs.append(roc_auc_score([1] * (9 - of.size) + [0] * 12, scores))
        error = np.hypot(of.deviation, np.std(aucs)) / np.sqrt(20)
        assert abs(of.auc - np.mean(aucs)) < 4 * error + 0.01


def test_knows__how_many_are_enough(known: Knowledge) -> None:
    best = known.sizes[-1]
    enough = next(of.size for of in known.sizes if best.auc - of.auc <= 0.01)
    assert known.enough == enough < best.size
    tried = f"one of {best.size}, the largest that was tried on the members left over"
    assert known.remarks == (f"A corpus of {enough} would do as well as {tried}: AUC {best.auc:.2f}.",)
    low, high = known.interval
    assert high - low < 0.2
    assert replace(known, separability=replace(known.separability, low=high - 0.21)).remarks == ()
    few, many = _CorpusSizeAuc(2, 0.7, 0.1), _CorpusSizeAuc(5, 0.8, 0.1)
    assert replace(known, sizes=(few, many)).remarks == ("More members help: AUC 0.70 with 2, 0.80 with 5.",)
    assert known.sizes[0].auc < best.auc
    assert cocoax.knows(reference(2, 0), reference(5, 1), permutations=39).remarks == ()


def test_knows__captions_with_pictures_of_both_kinds() -> None:
    encoder = two_towers()
    corpus, foil = (encoder.text.reference([words], name=words) for words in ("a cat", "a dog"))
    pictures = [picture(seed) for seed in range(40)]
    target = cocoax.contrastive_corpus_similarity(corpus, foil)
    scores = target.score(encoder.represent(pictures)).numpy()
    order = np.argsort(-scores)
    shown = encoder.reference([pictures[n] for n in order[:20]], name="shown")
    others = encoder.reference([pictures[n] for n in order[20:]], name="others")
    knowledge = cocoax.knows(corpus, foil, shown=shown, others=others)
    assert knowledge.auc == 1
    assert knowledge.test == "given inputs"
    assert knowledge.summary.startswith("The encoder separates the 20 inputs that show 'a cat' from the 20 of 'a dog'")
    swapped = cocoax.knows(corpus, foil, shown=others, others=shown)
    assert swapped.auc == 0
    assert not swapped
    assert swapped.verdict == "reversed"
    assert "a map would show the opposite of the question" in swapped.summary
    assert "noise" not in swapped.summary


def test_knows__is_not_tested_on_its_own_members() -> None:
    a, b, c = (reference(30, seed, name=name) for seed, name in enumerate("abc"))
    for sides in ((a, b), (c, b), (a, c), (b, c)):
        with pytest.raises(ValueError, match=r"30 of the 30 samples of '[ab]' are in '[ab]' too, and each is like itself"):
            cocoax.knows(a, b, shown=sides[0], others=sides[1])
    with pytest.raises(ValueError, match=r"2 of the 32 samples of .* are in 'b' too"):
        cocoax.knows(a, b, shown=c, others=reference(30, 4).merge(b[:2]))
    with pytest.raises(ValueError, match="30 of the 30 samples of 'a' are in 'a' too"):
        cocoax.knows(a, b, shown=a, captions=reference(50, 5))
    assert not cocoax.knows(a, b, shown=c, others=reference(30, 3))


def beside(corpus: list[str], count: int, permutations: int = 99) -> Knowledge:
    """Return how captions stand among so many random ones."""
    encoder = two_towers()
    shown = encoder.reference([picture(seed) for seed in range(12)])
    words = encoder.text.reference([f"thing number {number}" for number in range(count)])
    foil = encoder.text.reference(["a dog"])
    named = encoder.text.reference(corpus, name=corpus[0])
    return cocoax.knows(named, foil, shown=shown, captions=words, permutations=permutations)


def test_knows__captions_beside_random_ones_are_named_honestly() -> None:
    encoder = two_towers()
    shown = encoder.represent([picture(seed) for seed in range(12)]).double()
    spreads = [
        (cocoax.similarity_to(encoder.text.reference([text])) - cocoax.similarity_to(encoder.text.reference(["a dog"])))
        .score(shown)
        .numpy()
        .std()
        for text in ("a cat", *(f"thing number {number}" for number in range(40)))
    ]
    knowledge = beside(["a cat"], 40)  # each of them once, however many are asked for
    assert isinstance(knowledge, CaptionComparison)
    assert knowledge.test == "random captions"
    below = int(sum(spread < spreads[0] for spread in spreads[1:]))
    assert knowledge.beaten == below / 40
    assert knowledge.p_value == (41 - below) / 41
    assert knowledge.interval == wilson(below, 40)
    assert knowledge.separability.counts == (12, 40)
    assert f"{100 * below / 40:.0f} % of 40 random captions" in knowledge.summary
    assert "Only inputs that show it can confirm" in knowledge.summary
    with pytest.raises(ValueError, match="Random captions give no AUC"):
        _ = knowledge.auc
    plain = knowledge.to_dict()
    assert plain["beaten"] == knowledge.beaten
    assert "auc" not in plain
    (view,) = knowledge.views()
    said = [view.y_label, view.title, view.marks[0][2]]
    assert said == ["random captions beaten", f"a cat among random captions: {knowledge.verdict}", "a random caption"]


def test_knows__p_values_of_captions_that_are_as_random_as_the_others_are_uniform() -> None:
    p_values = []
    for seed in range(80):
        rows = np.random.default_rng(seed).normal(size=(80, 8))
        parts = np.split(rows, [2, 10, 30])
        corpus, foil, shown, captions = (cocoax.Reference.from_representations(part, keep_samples=True) for part in parts)
        found = cocoax.knows(corpus, foil, shown=shown, captions=captions, permutations=59, seed=seed)
        p_values.append(found.p_value)
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert np.mean(np.array(p_values) <= 0.05) <= 0.1


def test_knows__a_corpus_that_beats_all_captions_is_drawn() -> None:
    rows = np.random.default_rng(0).normal(size=(150, 64))
    rows[:40, 0] *= 30
    rows[40:, 0] = 0
    corpus = np.eye(64)[[0, 0]]
    shown, foil, captions = (cocoax.Reference.from_representations(part) for part in np.split(rows, [40, 50]))
    named = cocoax.Reference.from_representations(corpus)
    knowledge = cocoax.knows(named, foil, shown=shown, captions=captions, permutations=99)
    assert isinstance(knowledge, CaptionComparison)
    assert knowledge.beaten == knowledge.interval[1] == 1
    assert knowledge.plot()


def test_knows__several_captions_beside_as_many_random_ones() -> None:
    knowledge = beside(["a cat", "a kitten", "a tabby"], 45, 60)
    assert knowledge.separability.counts == (12, 60)
    assert isinstance(knowledge, CaptionComparison)
    assert knowledge.interval == wilson(round(15 * knowledge.beaten), 15)  # of 45 captions 15 corpora share none


@pytest.mark.parametrize(
    ("separability", "verdict", "said"),
    [
        (Separability(0.99, 0.93, 1.0, 0.01, (9, 100)), "stands out", "so it stands out among them"),
        (Separability(0.9, 0.82, 0.95, 0.11, (9, 100)), "may be chance", "which may be chance"),
        (Separability(0.5, 0.4, 0.6, 0.5, (9, 100)), "does not stand out", "so it does not stand out among them"),
        (Separability(0.0, 0.0, 0.05, 1.0, (9, 100)), "does not stand out", "so it does not stand out among them"),
    ],
)
def test_knows__what_is_said_beside_random_captions(separability: Separability, verdict: str, said: str) -> None:
    knowledge = CaptionComparison("a cat", "a dog", separability, "random captions")
    assert knowledge.verdict == verdict
    assert said in knowledge.summary
    assert bool(knowledge) == (verdict == "stands out")


def test_knows__what_is_missing_is_asked_for() -> None:
    corpus, foil = reference(5, 0), reference(5, 1)
    with pytest.raises(ValueError, match="give the inputs as 'shown', too"):
        cocoax.knows(corpus, foil, others=foil)
    with pytest.raises(ValueError, match=r"give those as 'others'.*random captions as 'captions'"):
        cocoax.knows(corpus, foil, shown=corpus)
    with pytest.raises(ValueError, match="has 1 sample; give at least two"):
        cocoax.knows(corpus, foil, shown=corpus[0], others=foil)
    with pytest.raises(ValueError, match="5 random captions and 5 inputs; give at least 39 and 2"):
        cocoax.knows(corpus, foil, shown=foil, captions=corpus)
    with pytest.raises(TypeError, match="must be a Reference"):
        cocoax.knows(corpus, ["a cat"])  # type: ignore[arg-type]


def test_knowledge__numbers(known: Knowledge) -> None:
    plain = known.to_dict()
    assert (plain["verdict"], plain["auc"]) == ("separated", known.auc)
    assert known.table().rows[-1] == (30, known.auc, None, *known.interval)
    assert [row[:2] for row in known.table().rows[:-1]] == [(of.size, of.auc) for of in known.sizes]
    assert str(known) == "\n".join((known.summary, *known.remarks))

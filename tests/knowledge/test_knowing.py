"""Does the encoder know this? Sentences, corpora of other sizes, captions, files."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import cocoax
from cocoax.knowledge import Knowledge
from tests.pages import EVIL, Page
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
    assert known.sentence == (
        f"The encoder tells these 30 'cats' from the 40 of 'rest': AUC {known.auc:.2f} [{low:.2f}, {high:.2f}]."
    )
    assert known.p_value == 0.01
    assert known.test == "held-out members"
    nothing = cocoax.knows(reference(60, 2, name="even"), reference(60, 3, name="odd"), permutations=99)
    assert not nothing
    assert nothing.sentence.startswith("It cannot tell 'even' from 'odd': AUC 0.")
    assert nothing.sentence.endswith("; a map would show noise.")
    little = cocoax.knows(reference(3, 0, 0.7, name="a"), reference(3, 1, name="b"), permutations=99)
    assert little.sentence.startswith("There is too little to tell whether it knows 'a' from 'b'")
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
    assert known.enough in {of.size for of in known.sizes}
    assert "corpus of" in known.size_sentence or "More members help" in known.size_sentence
    assert known.sizes[0].auc < known.sizes[-1].auc
    assert cocoax.knows(reference(2, 0), reference(5, 1), permutations=39).size_sentence == ""


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
    assert knowledge.sentence.startswith("The encoder tells the 20 inputs that show 'a cat' from the 20 of 'a dog'")
    swapped = cocoax.knows(corpus, foil, shown=others, others=shown)
    assert swapped.auc == 0
    assert not swapped


def test_knows__captions_beside_random_ones_are_named_honestly() -> None:
    encoder = two_towers()
    shown = encoder.reference([picture(seed) for seed in range(12)])
    words = encoder.text.reference([f"thing number {number}" for number in range(30)])
    corpus, foil = (encoder.text.reference([text], name=text) for text in ("a cat", "a dog"))
    knowledge = cocoax.knows(corpus, foil, shown=shown, captions=words, permutations=99)
    assert knowledge.test == "random captions"
    assert "random captions" in knowledge.sentence
    assert "only inputs that show it can tell" in knowledge.sentence
    target = cocoax.contrastive_corpus_similarity(corpus, foil)
    assert shown.samples is not None
    assert words.samples is not None
    spread = target.score(shown.samples.double()).numpy().std()
    others = [
        (cocoax.similarity_to(words[number]) - cocoax.similarity_to(foil)).score(shown.samples.double()).numpy().std()
        for number in range(30)
    ]
    assert knowledge.auc == pytest.approx(np.mean(spread > np.array(others)), abs=0.15)


def test_knows__what_is_missing_is_asked_for() -> None:
    corpus, foil = reference(5, 0), reference(5, 1)
    with pytest.raises(ValueError, match="give the inputs as 'shown', too"):
        cocoax.knows(corpus, foil, others=foil)
    with pytest.raises(ValueError, match=r"give those as 'others'.*random captions as 'captions'"):
        cocoax.knows(corpus, foil, shown=corpus)
    with pytest.raises(ValueError, match="has 1 sample; give at least two"):
        cocoax.knows(corpus, foil, shown=corpus[0], others=foil)
    with pytest.raises(ValueError, match="1 random captions"):
        cocoax.knows(corpus, foil, shown=foil, captions=corpus[0])
    with pytest.raises(TypeError, match="must be a Reference"):
        cocoax.knows(corpus, ["a cat"])  # type: ignore[arg-type]


def test_knowledge__files_and_notebooks(known: Knowledge, tmp_path: Path) -> None:
    assert known.save(tmp_path / "knows.png").stat().st_size > 5000
    plain = json.loads(known.save(tmp_path / "knows.json").read_text())
    assert plain["verdict"] == "tells"
    assert plain["auc"] == known.auc
    page = Page(known.save(tmp_path / "knows.html"))
    assert page.count("img") == 1
    assert known.sentence in " ".join(page.texts["p"])
    assert repr(known) == f"Knowledge({known.sentence!r})"
    assert "<img" in known._repr_html_()
    with pytest.raises(ValueError, match=r"written as \.html, \.png or \.json"):
        known.save(tmp_path / "knows.txt")
    assert not plt.get_fignums()


def test_knowledge__names_are_escaped(tmp_path: Path) -> None:
    knowledge = cocoax.knows(reference(6, 0, name=EVIL), reference(6, 1), permutations=39)
    assert Page(knowledge.save(tmp_path / "page.html")).count("script") == 0
    assert "<script>" not in knowledge._repr_html_()


def test_knowledge__is_drawn_on_given_axes(known: Knowledge) -> None:
    _, ax = plt.subplots()
    assert known.plot(ax) is ax
    plt.close("all")

"""Matches: both sides against asking each question by itself."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch

import cocoax
from cocoax import TextEncoder
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.questions.matches import explain_text
from cocoax.similarity import Similarity, get_similarity
from tests.similarities import Overlap, Signs
from tests.tiny import save_bert
from tests.towers import Spaces, picture, two_towers

QUERY, DOCUMENT, OTHERS = "red car", "The violinist parked her car.", ["a big dog", "the cat behind the house"]
METHOD = cocoax.KernelShap(samples=200)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    return load_hf_text(str(save_bert(tmp_path_factory.mktemp("tiny"))))


def test_explain_match__both_sides(encoder: TextEncoder) -> None:
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT, OTHERS, method=METHOD)
    query, document, foil = (encoder.reference(texts) for texts in ([QUERY], [DOCUMENT], OTHERS))
    for found, text, corpus in ((match.query, QUERY, document), (match.document, DOCUMENT, query)):
        expected = METHOD.explain(encoder, text, cocoax.contrastive_corpus_similarity(corpus, foil))
        torch.testing.assert_close(found.values, expected.values, rtol=0, atol=1e-5)
        assert found.score == pytest.approx(expected.score, abs=1e-5)
    assert match.query.tokens == ("red", "car")
    assert match.document.name == "the query rather than the other documents"
    own = encoder.represent([QUERY, DOCUMENT, *OTHERS])
    similarities = torch.nn.functional.cosine_similarity(own[:1], own[1:]).tolist()
    assert [match.similarity, *match.others] == pytest.approx(similarities, abs=1e-5)
    assert "similarity" in repr(match)
    assert match.html().count("<p") == 2


def test_explain_match__parts_add_up(encoder: TextEncoder) -> None:
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT, OTHERS, method=METHOD)
    for side in (match.query_side, match.document_side):
        assert side.foil is not None
        torch.testing.assert_close(side.attribution.values, side.corpus.values - side.foil.values, rtol=0, atol=1e-5)
        assert side.attribution.score == pytest.approx(side.corpus.score - side.foil.score, abs=1e-5)
        parts = f"corpus {side.corpus.score:+.3f}, foil {side.foil.score:+.3f}"
        assert str(side) == f"score {side.attribution.score:+.3f}: {parts}"


def test_explain_match__without_others_and_with_one(encoder: TextEncoder) -> None:
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT, method=METHOD)
    assert match.query_side.foil is None
    assert match.query.score == pytest.approx(match.similarity, abs=1e-5)
    assert str(match.query_side) == f"score {match.query.score:+.3f}"
    one = cocoax.explain_match(encoder, QUERY, DOCUMENT, OTHERS[0], method=METHOD)
    assert len(one.others) == 1


def test_explain_match__a_document_is_never_compared_with_itself(encoder: TextEncoder) -> None:
    method = cocoax.Rise(samples=20)
    with pytest.raises(ValueError, match=r"rather than itself: 'rather_than' holds nothing but the document\. Give another"):
        cocoax.explain_match(encoder, "the red car", "a big dog", ["a big dog", "a big dog"], method=method)
    match = cocoax.explain_match(encoder, "the red car", "a big dog", ["a big dog", "the cat"], method=method)
    other = cocoax.explain_match(encoder, "the red car", "a big dog", ["the cat"], method=method)
    torch.testing.assert_close(match.query.values, other.query.values)
    assert match.others == other.others


def test_explain_match__documents_with_another_prompt(encoder: TextEncoder) -> None:
    passages = encoder.by(prompt="the house ")
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT, OTHERS, documents=passages, method=METHOD)
    expected = torch.nn.functional.cosine_similarity(encoder.represent(QUERY), passages.represent(DOCUMENT))
    assert match.similarity == pytest.approx(float(expected), abs=1e-5)
    assert match.document.tokens is not None
    assert match.document.tokens[0] == "The"


def test_explain_match__one_word_query_and_default_method(encoder: TextEncoder) -> None:
    match = cocoax.explain_match(encoder, "car", "a red car", "a dog")
    assert match.query.tokens == ("car",)
    assert match.query.metadata["samples"] == 2  # all subsets of one word


@pytest.mark.parametrize(("query", "document"), [("", "a cat"), ("a cat", " ")])
def test_explain_match__empty_text(query: str, document: str, encoder: TextEncoder) -> None:
    with pytest.raises(ValueError, match=r"The text is empty"):
        cocoax.explain_match(encoder, query, document)


def test_explain_match__encoder_without_texts(encoder: TextEncoder, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no text tower; .*Texts are explained by encoders that take them"):
        cocoax.explain_match(cocoax.Encoder(torch.nn.Flatten()), "a", "b")


def test_explain_text__one_run_for_all_parts(encoder: TextEncoder) -> None:
    calls: list[int] = []
    # Before the references: with a hook it may be another encoder.
    handle = encoder.owner.register_forward_hook(lambda *_: calls.append(1))  # type: ignore[union-attr]
    corpus, foil = encoder.reference(["a cat"]), encoder.reference(["a dog"])
    calls.clear()
    try:
        explain_text(encoder, DOCUMENT, corpus, foil, method=cocoax.Occlusion())
        with_foil = len(calls)
        explain_text(encoder, DOCUMENT, corpus, method=cocoax.Occlusion())
    finally:
        handle.remove()
    assert len(calls) == 2 * with_foil


@pytest.mark.parametrize("similarity", ["rbf", Signs(), Overlap()])
def test_explain_match__similarity_that_needs_samples(similarity: str | Similarity, encoder: TextEncoder) -> None:
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT, OTHERS, method=cocoax.Occlusion(), similarity=similarity)
    own = encoder.represent([QUERY, DOCUMENT, *OTHERS])
    expected = get_similarity(similarity).pairwise(own[:1], own[1:])[0].tolist()
    assert [match.similarity, *match.others] == pytest.approx(expected, abs=1e-5)
    assert match.query.score == pytest.approx(expected[0] - sum(expected[1:]) / len(OTHERS), abs=1e-5)


def test_explain_match__interactions_call_no_encoder(encoder: TextEncoder) -> None:
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT, OTHERS)
    calls: list[int] = []
    handle = encoder.owner.register_forward_hook(lambda *_: calls.append(1))  # type: ignore[union-attr]
    try:
        pairs = match.interactions
    finally:
        handle.remove()
    assert not calls
    runs = [cocoax.Rise(samples=500).run(encoder, text) for text in (QUERY, DOCUMENT)]
    torch.testing.assert_close(pairs.values, cocoax.interactions(*runs).values)
    assert match.interactions is pairs


def test_explain_match__interactions_need_runs(encoder: TextEncoder) -> None:
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT, method=cocoax.IntegratedGradients(steps=4))
    assert match.query_side.run is None
    with pytest.raises(ValueError, match=r"method=cocoax.Rise\(\)"):
        _ = match.interactions
    assert match.describe()["pairs"] is None


def test_explain_match__two_pictures(towers: cocoax.Encoder) -> None:
    first, second, other = (picture(seed) for seed in range(3))
    method = cocoax.Rise(samples=40, grid=4)
    match = cocoax.explain_match(towers, first, second, other, method=method)
    target = cocoax.contrastive_corpus_similarity(towers.reference([second]), towers.reference([other]))
    expected = method.explain(towers, first, target)
    torch.testing.assert_close(match.query.values, expected.values, rtol=0, atol=1e-5)
    assert match.interactions.values.shape == (4, 4, 4, 4)
    assert "a picture" in repr(match)
    assert match.html().count("data:image/png") == 2


def test_explain_match__a_picture_and_a_caption(tmp_path: Path) -> None:
    encoder = two_towers()
    encoder.text.inputs.tokenize = Spaces()  # type: ignore[attr-defined]
    picture(1).save(tmp_path / "photo.png")
    method = cocoax.Rise(samples=40, grid=4)
    for photo in (picture(1), tmp_path / "photo.png"):
        match = cocoax.explain_match(encoder, photo, "a red car", "a dog", method=method)
        own = torch.cat([encoder.represent([photo]), encoder.text.represent(["a red car", "a dog"])])
        expected = torch.nn.functional.cosine_similarity(own[:1], own[1:]).tolist()
        assert [match.similarity, *match.others] == pytest.approx(expected, abs=1e-5)
        assert match.interactions.values.shape == (4, 4, 3)
        assert match.document.names == ("a", "red", "car")
    files = match.save(tmp_path / "out")
    assert [file.name for file in files] == ["match.html", "match.json", "match.png"]
    page = files[0].read_text()
    assert "cocoax-links" in page
    assert "http" not in page
    assert json.loads(files[1].read_text())["query"]["parts"][0]["place"]


def test_match__titles_are_within_the_figure() -> None:
    encoder, method = two_towers(), cocoax.Rise(samples=20, grid=4)
    encoder.text.inputs.tokenize = Spaces()  # type: ignore[attr-defined]
    for query in (picture(1), picture(1).resize((20, 60)), "a red car"):
        match = cocoax.explain_match(encoder, query, "a red car behind houses", ["a dog", "a house"], method=method)
        figure = match.plot()
        figure.draw_without_rendering()
        titles = [ax.title.get_window_extent() for ax in figure.axes if ax.get_title()]
        plt.close(figure)
        assert len(titles) == 2
        assert not titles[0].overlaps(titles[1])
        for title in titles:
            assert 0 <= title.x0 < title.x1 <= figure.bbox.x1
            assert title.y1 <= figure.bbox.y1


def test_explain_match__all_of_both_photos() -> None:
    encoder = two_towers()
    wide, high = picture(1).resize((60, 20)), picture(2).resize((20, 60))
    for seeing in (encoder, encoder.whole()):
        own, other, third = (seeing.encode([seeing.explicand(each).tensor])[0] for each in (wide, high, picture(3)))
        match = cocoax.explain_match(seeing, wide, high, picture(3), method=cocoax.Rise(samples=20))
        similarities = [float(torch.cosine_similarity(own, each, 0)) for each in (other, third)]
        assert [match.similarity, *match.others] == pytest.approx(similarities, abs=1e-5)
        assert match.query.score == pytest.approx(similarities[0] - similarities[1], abs=1e-5)

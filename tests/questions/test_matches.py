"""Matches and hits: each against asking its question by itself, one run for each text, and mistakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor

import cocoax
from cocoax import TextEncoder
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.questions.matches import explain_text
from cocoax.questions.windows import pieces_of
from cocoax.similarity import Similarity, get_similarity
from tests.similarities import Overlap, Signs
from tests.tiny import save_bert
from tests.towers import Spaces, Words, picture, two_towers

QUERY, DOCUMENT, OTHERS = "red car", "The violinist parked her car.", ["a big dog", "the cat behind the house"]
HITS = ["the violinist parked her car", "a big red dog behind the house", "the cat and the dog in her house"]
METHOD = cocoax.KernelShap(samples=150)
SHORT = cocoax.Rise(samples=40)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    return load_hf_text(str(save_bert(tmp_path_factory.mktemp("tiny"))))


def cosines(encoder: cocoax.Encoder, first: Any, others: list[Any]) -> list[float]:
    own = encoder.represent([first, *others])
    return torch.nn.functional.cosine_similarity(own[:1], own[1:]).tolist()


@contextmanager
def encoding_nothing(encoder: TextEncoder) -> Iterator[None]:
    assert encoder.owner is not None
    handle = encoder.owner.register_forward_pre_hook(lambda *_: pytest.fail("nothing is to be encoded"))
    try:
        yield
    finally:
        handle.remove()


def test_match__both_sides_are_those_of_asking_by_itself(encoder: TextEncoder) -> None:
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT, OTHERS, method=METHOD)
    query, document, foil = (encoder.reference(texts) for texts in ([QUERY], [DOCUMENT], OTHERS))
    expected = METHOD.explain(encoder, QUERY, cocoax.contrastive_corpus_similarity(document, foil))
    side = match.query_side
    torch.testing.assert_close(side.attribution.values, expected.values, rtol=0, atol=1e-5)
    assert side.attribution.score == pytest.approx(expected.score, abs=1e-5)
    assert side.foil is not None
    torch.testing.assert_close(side.attribution.values, side.corpus.values - side.foil.values, rtol=0, atol=1e-5)
    assert side.attribution.score == pytest.approx(side.corpus.score - side.foil.score, abs=1e-5)
    toward = METHOD.explain(encoder, DOCUMENT, cocoax.similarity_to(query))
    torch.testing.assert_close(match.document.values, toward.values, rtol=0, atol=1e-5)
    assert match.document_side.foil is None
    assert [match.similarity, *match.others] == pytest.approx(cosines(encoder, QUERY, [DOCUMENT, *OTHERS]), abs=1e-5)
    assert match.query.tokens == ("red", "car")
    assert match.document.name == "the query"
    words = f"similarity to this document ({match.similarity:.3f}) − to the 2 others ({sum(match.others) / 2:.3f})"
    assert match.summary == str(match.query_side) == f"{match.margin:+.3f} = {words}"
    assert "similarity" in repr(match)


def test_features__of_each_side_by_its_kind() -> None:
    towers = two_towers()
    halves = np.repeat([[0], [1]], [8, 16], axis=0) * np.ones((1, 24), dtype=int)

    def counts(query: Any, document: Any, features: Any, method: cocoax.RemovalMethod | None = SHORT) -> list[int]:
        match = cocoax.explain_match(towers.cropped(), query, document, features=features, method=method)
        return [
            len(side.features if side.features is not None else side.values.unique())
            for side in (match.query, match.document)
        ]

    towers.text.inputs.tokenize = Spaces()  # type: ignore[attr-defined]
    assert counts(picture(0), picture(1), cocoax.inputs.Segments(5)) == [5, 5]
    assert counts("a red car", picture(1), cocoax.inputs.Segments(5)) == [3, 5]
    assert counts("a red car", picture(1), halves, None) == [3, 2]
    assert counts("a red car.\na dog", picture(1), "paragraphs")[0] == 2
    whole = towers.whole()
    hits = cocoax.explain_hits(
        whole, picture(0), [picture(1), picture(2)], features=(2, 3), method=cocoax.KernelShap(samples=60)
    )
    assert [len(hit.document.values.unique()) for hit in hits] == [6, 6]
    own = [whole.explicand(picture(seed), features) for seed, features in ((0, halves), (1, 1 - halves[::-1]))]
    match = cocoax.explain_match(whole, *own, method=SHORT)
    assert [side.values.unique().numel() for side in (match.query, match.document)] == [2, 2]


@pytest.mark.parametrize(("features", "words"), [("letters", "'words'"), (3.5, "3.5"), (cocoax.inputs.Columns(), "Columns")])
def test_features__that_neither_side_has(encoder: TextEncoder, features: Any, words: str) -> None:
    with encoding_nothing(encoder), pytest.raises(ValueError, match=words):
        cocoax.explain_match(encoder, QUERY, DOCUMENT, features=features)
    with encoding_nothing(encoder), pytest.raises(ValueError, match=words):
        cocoax.explain_hits(encoder, QUERY, HITS, features=features)


def test_match__without_others_and_with_one(encoder: TextEncoder) -> None:
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT, method=METHOD)
    assert match.query_side.foil is None
    assert match.query.score == pytest.approx(match.similarity, abs=1e-5)
    assert match.summary == f"similarity to this document {match.similarity:+.3f}"
    assert len(cocoax.explain_match(encoder, QUERY, DOCUMENT, OTHERS[0], method=METHOD).others) == 1


def test_hits__each_rather_than_the_next(encoder: TextEncoder) -> None:
    hits = cocoax.explain_hits(encoder, QUERY, HITS, method=METHOD)
    similarities = cosines(encoder, QUERY, HITS)
    assert len(hits) == 3
    for index, hit in enumerate(hits):
        assert (hit.rank, hit.content) == (index + 1, HITS[index])
        assert hit.similarity == pytest.approx(similarities[index], abs=1e-5)
        assert hit.others == pytest.approx(tuple(similarities[index + 1 :]), abs=1e-5)
        target = cocoax.similarity_to(encoder.reference([HITS[index]]))
        if index < 2:
            target = target - cocoax.similarity_to(encoder.reference(HITS[index + 1 :]))
        expected = METHOD.explain(encoder, QUERY, target)
        torch.testing.assert_close(hit.query.values, expected.values, rtol=0, atol=1e-5)
        assert hit.query.score == pytest.approx(hit.margin, abs=1e-5)
        toward = METHOD.explain(encoder, HITS[index], cocoax.similarity_to(encoder.reference([QUERY])))
        torch.testing.assert_close(hit.document.values, toward.values, rtol=0, atol=1e-5)
        # All words of a hit together move its similarity by what removing all of them does: Shapley values are complete.
        assert float(hit.document.values.sum()) == pytest.approx(hit.similarity - hit.document.baseline_score, abs=1e-4)
    assert [hit.rather_than for hit in hits] == ["hits 2 and 3", "hit 3", ""]


def test_hits__rather_than_given(encoder: TextEncoder) -> None:
    for given, name in ((OTHERS, "2 others"), (OTHERS[0], "a big dog")):
        hits = cocoax.explain_hits(encoder, QUERY, HITS, given, method=METHOD)
        expected = cosines(encoder, QUERY, [given] if isinstance(given, str) else given)
        for hit in hits:
            assert hit.others == pytest.approx(tuple(expected), abs=1e-5)
            assert hit.rather_than == name
    alone = cocoax.explain_hits(encoder, QUERY, HITS, [], method=METHOD)
    assert [hit.others for hit in alone] == [(), (), ()]
    assert alone[0].margin == alone[0].similarity


def test_hits__nothing_is_encoded_twice(encoder: TextEncoder) -> None:
    # Texts of many words, so that two random masks are never equal, nor one that keeps everything.
    query = "a big red car behind the house a violinist the cat her red dog the big car"
    hits = [f"{query} {more}" for more in ("cat", "the big dog", "red violinist behind her car")]
    encoder.represent([query, query])  # what is looked at once in the life of an encoder
    seen: list[tuple[int, ...]] = []
    probe = encoder.inputs.probe()

    def look(_module: object, arguments: tuple[dict[str, Tensor], ...]) -> None:
        ids, mask = arguments[0]["input_ids"], arguments[0]["attention_mask"]
        rows = (row[own.bool()] for row, own in zip(ids, mask, strict=True))
        seen.extend(tuple(row.tolist()) for row in rows if not torch.equal(row, probe))

    assert encoder.owner is not None
    handle = encoder.owner.register_forward_pre_hook(look)
    try:
        found = cocoax.explain_hits(encoder, query, [*hits, hits[0]], method=cocoax.Rise(samples=60))
    finally:
        handle.remove()
    assert len(seen) == len(set(seen)) == 4 * (60 + 2)  # query and three distinct hits: masks, and both ends
    with encoding_nothing(encoder):  # everything afterwards comes from the runs
        for hit in found:
            assert hit.interactions.values.shape == (len(hit.query.values), len(hit.document.values))
        found.to_json()
        found.html()


def test_match__one_run_for_each_side_and_interactions_from_them(encoder: TextEncoder) -> None:
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT, OTHERS)
    runs = [cocoax.Rise(samples=500).run(encoder, text) for text in (QUERY, DOCUMENT)]
    with encoding_nothing(encoder):
        torch.testing.assert_close(match.interactions.values, cocoax.interactions(*runs).values)
    assert match.interactions is match.interactions


def test_explain_text__one_run_for_all_parts(encoder: TextEncoder) -> None:
    calls: list[int] = []
    # Before the references: with a hook it may be another encoder.
    handle = encoder.owner.register_forward_hook(lambda *_: calls.append(1))  # type: ignore[union-attr]
    corpus, foil = encoder.reference(["a cat"]), encoder.reference(["a dog"])
    calls.clear()
    try:
        explain_text(encoder, DOCUMENT, corpus, foil, method=cocoax.Occlusion())
        first = len(calls)
        explain_text(encoder, DOCUMENT, corpus, method=cocoax.Occlusion())
    finally:
        handle.remove()
    assert first > 1
    assert len(calls) == first + 1  # the probe by which an encoder is known


def test_nothing_is_compared_with_itself(encoder: TextEncoder) -> None:
    given = ["a big dog", "the cat", "the cat"]
    match = cocoax.explain_match(encoder, QUERY, "a big dog", given, method=SHORT)
    other = cocoax.explain_match(encoder, QUERY, "a big dog", "the cat", method=SHORT)
    torch.testing.assert_close(match.query.values, other.query.values)
    assert match.others == other.others
    hits = cocoax.explain_hits(encoder, QUERY, HITS[:2], [HITS[0], "a dog"], method=SHORT)
    assert [len(hit.others) for hit in hits] == [1, 2]
    hits = cocoax.explain_hits(encoder, QUERY, [QUERY, HITS[0], HITS[0]], method=METHOD)
    assert [hit.is_query for hit in hits] == [True, False, False]
    assert hits[0].similarity == pytest.approx(1, abs=1e-5)
    assert "the query itself" in repr(hits[0])
    assert hits[1].others == ()
    assert hits[1].document_side.run is hits[2].document_side.run
    with encoding_nothing(encoder):
        with pytest.raises(ValueError, match="rather than itself"):
            cocoax.explain_match(encoder, QUERY, "a big dog", ["a big dog", "a big dog"])
        with pytest.raises(ValueError, match=r"Hit 1 .* rather than itself"):
            cocoax.explain_hits(encoder, QUERY, HITS[:2], HITS[0])


def test_documents_with_an_encoder_of_their_own(encoder: TextEncoder) -> None:
    passages = encoder.by(prompt="the house ")
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT, OTHERS, document_encoder=passages, method=METHOD)
    expected = torch.nn.functional.cosine_similarity(encoder.represent(QUERY), passages.represent(DOCUMENT))
    assert match.similarity == pytest.approx(float(expected), abs=1e-5)
    assert match.document.tokens is not None
    assert match.document.tokens[0] == "The"
    hits = cocoax.explain_hits(encoder, QUERY, [QUERY, HITS[0]], document_encoder=passages, method=METHOD)
    expected = torch.nn.functional.cosine_similarity(encoder.represent(QUERY), passages.represent(QUERY))
    assert hits[0].similarity == pytest.approx(float(expected), abs=1e-5)
    assert not hits[0].is_query


def test_one_word(encoder: TextEncoder) -> None:
    match = cocoax.explain_match(encoder, "car", "a red car", "a dog")
    assert match.query.tokens == ("car",)
    assert match.query.metadata["samples"] == 2  # all subsets of one word
    hit = cocoax.explain_hits(encoder, "car", ["cat", "dog"], method=SHORT)[0]
    assert [span.text for span in hit.spans] == ["cat"]
    assert hit.interactions.values.shape == (1, 1)


def test_spans_json_page_and_terminal(encoder: TextEncoder, tmp_path: Path) -> None:
    hits = cocoax.explain_hits(encoder, QUERY, HITS, method=cocoax.Rise(samples=60))
    for span in hits[0].spans:
        assert HITS[0][span.start : span.end] == span.text
        assert span.standard_error is not None
        assert span.standard_error >= 0
    assert [span.text for span in hits[0].query_spans] == ["red", "car"]
    expected = hits[0].document.relative.tolist()
    assert [span.score for span in hits[0].spans] == pytest.approx(expected, abs=1e-6)
    plain = json.loads(hits.to_json())
    assert plain == json.loads(json.dumps(hits.to_dict()))
    assert plain["query"] == QUERY
    assert set(plain["hits"][0]["document"]["parts"][0]) == {"start", "end", "text", "score", "standard_error"}
    assert len(plain["hits"][0]["pairs"]) == 5
    page, numbers, _ = hits.save_all(tmp_path)
    assert json.loads(numbers.read_text()) == plain
    assert page.read_text().count('<p class="cocoax-text"') == 6
    assert "http" not in page.read_text()
    console = Console(width=120, record=True, file=StringIO())
    console.print(hits)
    output = console.export_text()
    assert "to hits 2 and 3 (" in output
    assert all(text in output for text in HITS)
    assert "Strongest pairs" in output
    assert "Hit(1," in repr(hits)
    against = cocoax.explain_hits(encoder, QUERY, HITS[:1], "a <b>dog</b>", method=cocoax.Rise(samples=20))
    assert "<b>" not in against.html()


@pytest.mark.parametrize("similarity", ["rbf", Signs(), Overlap()])
def test_similarity_that_needs_samples(similarity: str | Similarity, encoder: TextEncoder) -> None:
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT, OTHERS, method=cocoax.Occlusion(), similarity=similarity)
    own = encoder.represent([QUERY, DOCUMENT, *OTHERS])
    expected = get_similarity(similarity).pairwise(own[:1], own[1:])[0].tolist()
    assert [match.similarity, *match.others] == pytest.approx(expected, abs=1e-5)
    assert match.query.score == pytest.approx(expected[0] - sum(expected[1:]) / len(OTHERS), abs=1e-5)
    hits = cocoax.explain_hits(encoder, QUERY, [DOCUMENT, *OTHERS], method=METHOD, similarity=similarity)
    assert [hit.similarity for hit in hits] == pytest.approx(expected, abs=1e-5)


def test_interactions__need_runs_and_a_linear_similarity(encoder: TextEncoder) -> None:
    gradients = cocoax.explain_match(encoder, QUERY, DOCUMENT, method=cocoax.IntegratedGradients(steps=4))
    kernel = cocoax.explain_hits(encoder, QUERY, HITS, method=METHOD, similarity="rbf")[0]
    for match, word in ((gradients, "Rise"), (kernel, "cosine")):
        assert match.to_dict()["pairs"] is None
        with pytest.raises(ValueError, match=word):
            _ = match.interactions


def test_pictures(towers: cocoax.Encoder, tmp_path: Path) -> None:
    method = cocoax.Rise(samples=40, grid=4)
    pictures = [picture(seed) for seed in range(3)]
    match = cocoax.explain_match(towers, *pictures, method=method)
    target = cocoax.contrastive_corpus_similarity(towers.reference([pictures[1]]), towers.reference([pictures[2]]))
    torch.testing.assert_close(match.query.values, method.explain(towers, pictures[0], target).values, rtol=0, atol=1e-5)
    hits = cocoax.explain_hits(towers, pictures[0], pictures[1:], method=method)
    assert [hit.similarity for hit in hits] == pytest.approx(cosines(towers, pictures[0], pictures[1:]), abs=1e-5)
    torch.testing.assert_close(hits[0].query.values, match.query.values)
    for found in (match, hits[0]):
        assert found.interactions.values.shape == (4, 4, 4, 4)
        assert set(found.to_dict()["document"]["parts"][0]) == {"place", "box", "score", "standard_error"}
        assert found.html().count('class="heat valued"') == 2
    assert "data:image/jpeg" in hits.save_all(tmp_path)[0].read_text()
    with pytest.raises(ValueError, match="regions"):
        _ = hits[0].spans


def test_a_picture_and_a_caption(tmp_path: Path) -> None:
    encoder = two_towers().cropped()
    encoder.text.inputs.tokenize = Spaces()  # type: ignore[attr-defined]
    picture(1).save(tmp_path / "photo.png")
    for photo in (picture(1), tmp_path / "photo.png"):
        match = cocoax.explain_match(encoder, photo, "a red car", "a dog", method=cocoax.Rise(samples=40, grid=4))
        own = torch.cat([encoder.represent([photo]), encoder.text.represent(["a red car", "a dog"])])
        expected = torch.nn.functional.cosine_similarity(own[:1], own[1:]).tolist()
        assert [match.similarity, *match.others] == pytest.approx(expected, abs=1e-5)
        assert match.interactions.values.shape == (4, 4, 3)
        assert match.document.names == ("a", "red", "car")
    files = match.save_all(tmp_path / "out")
    assert [file.name for file in files] == ["match.html", "match.json", "match.png"]
    page = files[0].read_text()
    assert 'class="links"' in page
    assert "http" not in page
    assert json.loads(files[1].read_text())["query"]["parts"][0]["place"]


def test_match__all_of_both_photos() -> None:
    encoder = two_towers()
    wide, high = picture(1).resize((60, 20)), picture(2).resize((20, 60))
    for seeing in (encoder.cropped(), encoder):
        own, other, third = (seeing.encode([seeing.explicand(each).tensor])[0] for each in (wide, high, picture(3)))
        match = cocoax.explain_match(seeing, wide, high, picture(3), method=cocoax.Rise(samples=20))
        similarities = [float(torch.cosine_similarity(own, each, 0)) for each in (other, third)]
        assert [match.similarity, *match.others] == pytest.approx(similarities, abs=1e-5)
        assert match.query.score == pytest.approx(similarities[0] - similarities[1], abs=1e-5)


def test_hits__a_long_query_in_the_window_that_fits_each_hit(encoder: TextEncoder) -> None:
    """Hits are ranked by the most similar window; similarities are those, and no later hit is closer."""
    query = "the cat " * 30 + "a big red car behind the house " * 8
    found = ["the violinist parked her car", "a big red car behind the house", "the cat the cat the cat"]
    windows = [piece.content for piece in pieces_of(encoder, query)]
    best = (unit(encoder.represent(found)) @ unit(encoder.represent(windows)).T).amax(1)
    order = best.argsort(descending=True).tolist()
    hits = cocoax.explain_hits(encoder, query, [found[at] for at in order], method=SHORT)
    assert [hit.similarity for hit in hits] == pytest.approx(best[order].tolist(), abs=1e-5)
    assert all(hit.margin >= 0 for hit in hits)
    chosen = {hit.query_side.window.number for hit in hits if hit.query_side.window is not None}
    assert len(chosen) > 1
    assert len({id(hit.query_side.run) for hit in hits}) == len(chosen)
    for hit in hits:
        assert hit.query.score == pytest.approx(hit.margin, abs=1e-5)


def test_hits__others_in_the_window_that_fits_this_hits_window_of_the_query() -> None:
    text = TextEncoder(Words().eval(), Spaces(), limit=6, name="words")
    random = np.random.default_rng(0)
    query, *found = (" ".join(random.choice([f"w{number}" for number in range(60)], 14)) for _ in range(4))
    hits = cocoax.explain_hits(text, query, found, method=cocoax.Rise(samples=20))
    assert len({hit.query_side.window.number for hit in hits if hit.query_side.window is not None}) > 1
    for hit in hits[:2]:
        windows = [unit(text.represent([piece.content for piece in pieces_of(text, other)])) for other in found[hit.rank :]]
        assert hit.query_side.run is not None
        best = [float((each @ unit(hit.query_side.run.anchors[:1]).T).max()) for each in windows]
        assert hit.others == pytest.approx(best, abs=1e-5)
        assert hit.query.score == pytest.approx(hit.margin, abs=1e-5)


def unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors, dim=1)


def test_mistakes__are_told_before_anything_is_encoded(encoder: TextEncoder) -> None:
    wrong: Any = "rise"
    with encoding_nothing(encoder):
        for explain in (cocoax.explain_match, cocoax.explain_hits):
            with pytest.raises(TypeError, match=r"'method' parameter .* Got str"):
                explain(encoder, QUERY, HITS, method=wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="Got IntegratedGradients"):
            cocoax.explain_hits(encoder, QUERY, HITS, method=cocoax.IntegratedGradients())
        with pytest.raises(ValueError, match="0 hits"):
            cocoax.explain_hits(encoder, QUERY, [])
        for query, document in (("", "a cat"), ("a cat", " ")):
            with pytest.raises(ValueError, match="empty"):
                cocoax.explain_match(encoder, query, document)
            with pytest.raises(ValueError, match=r"empty|Hit 4 has no text"):
                cocoax.explain_hits(encoder, query, [*HITS, document])
    with pytest.raises(ValueError, match="no text tower"):
        cocoax.explain_match(cocoax.Encoder(torch.nn.Flatten()), "a", "b")


def bag_of_words(*vocabulary: str, weight: float = 1.0) -> Any:
    """Return a function from texts to their counts of words, beside a one."""

    def embed(texts: list[str]) -> np.ndarray:
        return np.array([[1.0, *(weight * text.lower().count(word) for word in vocabulary)] for text in texts])

    return cocoax.wrap(embed)


def test_sentence__of_hits_that_hardly_match() -> None:
    encoder = bag_of_words("bike", "repair", "snow", "oslo", weight=4.0)
    hits = cocoax.explain_hits(encoder, "repair bike", ["bike repair shop", "snow in Oslo"])
    assert "“bike” matches “bike”" in hits[0].sentence
    assert hits[1].similarity < hits[0].similarity / 3
    assert hits[1].sentence == f"Hardly anything matches ({hits[1].similarity:.3f}; the best has {hits[0].similarity:.3f})."
    other = cocoax.explain_match(encoder, "repair bike", "snow in Oslo", ["bike repair shop"])
    assert other.sentence.startswith("Hardly anything matches (")
    alone = cocoax.explain_match(encoder, "repair bike", "snow in Oslo")  # nothing to hold it against
    assert not alone.sentence.startswith("Hardly")


def test_sentence__of_pairs_that_make_no_difference() -> None:
    match = cocoax.explain_match(bag_of_words("bike", weight=0.05), "a bike", "the bike")
    assert match.similarity > 0.99
    ((first, second, value, error),) = match.interactions.top(1)
    assert (first, second) == ("bike", "bike")
    assert 0 < value < 0.02
    assert not error  # it is sure, and too small to be named
    assert match.sentence == ""

"""Hits: each against asking by itself, one run per text, and mistakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor

import cocoax
from cocoax import TextEncoder
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.questions.matches import pieces_of
from tests.tiny import save_bert
from tests.towers import Spaces, Words, picture

QUERY = "red car"
HITS = ["the violinist parked her car", "a big red dog behind the house", "the cat and the dog in her house"]
METHOD = cocoax.KernelShap(samples=150)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    return load_hf_text(str(save_bert(tmp_path_factory.mktemp("tiny"))))


def cosine(encoder: TextEncoder, first: str, others: list[str]) -> list[float]:
    own = encoder.represent([first, *others])
    return torch.nn.functional.cosine_similarity(own[:1], own[1:]).tolist()


def test_explain_hits__each_rather_than_the_next(encoder: TextEncoder) -> None:
    hits = cocoax.explain_hits(encoder, QUERY, HITS, method=METHOD)
    similarities = cosine(encoder, QUERY, HITS)
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
    assert [hit.rather_than for hit in hits] == ["hits 2 and 3", "hit 3", ""]


def test_explain_hits__the_margin_is_what_is_explained(encoder: TextEncoder) -> None:
    # All words of a hit together move the margin by what removing all of them does: Shapley values are complete.
    hit = cocoax.explain_hits(encoder, QUERY, HITS, method=METHOD)[0]
    assert float(hit.document.values.sum()) == pytest.approx(hit.similarity - hit.document.baseline_score, abs=1e-4)


def test_explain_hits__nothing_is_encoded_twice(encoder: TextEncoder) -> None:
    # Texts of many words, so that two random masks are never equal, nor one that keeps everything.
    query = "a big red car behind the house a violinist the cat her red dog the big car"
    hits = [f"{query} {more}" for more in ("cat", "the big dog", "red violinist behind her car")]
    encoder.represent([query, query])  # what is looked at once in the life of an encoder
    seen: list[tuple[int, ...]] = []

    def look(_module: object, arguments: tuple[dict[str, Tensor], ...]) -> None:
        ids, mask = arguments[0]["input_ids"], arguments[0]["attention_mask"]
        seen.extend(tuple(row[own.bool()].tolist()) for row, own in zip(ids, mask, strict=True))

    assert encoder.owner is not None
    handle = encoder.owner.register_forward_pre_hook(look)
    try:
        hits_ = cocoax.explain_hits(encoder, query, [*hits, hits[0]], method=cocoax.Rise(samples=60))
        encoded = len(seen)
        for hit in hits_:
            assert hit.interactions.values.shape == (len(hit.query.values), len(hit.document.values))
        hits_.to_json()
        hits_.html()
    finally:
        handle.remove()
    assert len(seen) == encoded  # everything afterwards comes from the runs
    assert encoded == 4 * (60 + 2)  # query and three distinct hits: masks, and both ends
    assert len(set(seen)) == encoded


def test_explain_hits__rather_than_given(encoder: TextEncoder) -> None:
    others = ["a big dog", "the house"]
    for given, name in ((others, "2 others"), (others[0], "a big dog")):
        hits = cocoax.explain_hits(encoder, QUERY, HITS, given, method=METHOD)
        expected = cosine(encoder, QUERY, [given] if isinstance(given, str) else given)
        for hit in hits:
            assert hit.others == pytest.approx(tuple(expected), abs=1e-5)
            assert hit.rather_than == name
    alone = cocoax.explain_hits(encoder, QUERY, HITS, [], method=METHOD)
    assert [hit.others for hit in alone] == [(), (), ()]
    assert alone[0].margin == alone[0].similarity


def test_explain_hits__spans_and_json(encoder: TextEncoder, tmp_path: Path) -> None:
    hits = cocoax.explain_hits(encoder, QUERY, HITS, method=cocoax.Rise(samples=60))
    for span in hits[0].spans:
        assert HITS[0][span.start : span.end] == span.text
        assert span.standard_error is not None
        assert span.standard_error >= 0
    assert [span.text for span in hits[0].query_spans] == ["red", "car"]
    expected = (hits[0].document.values - hits[0].document.neutral).tolist()
    assert [span.score for span in hits[0].spans] == pytest.approx(expected, abs=1e-6)
    plain = json.loads(hits.to_json())
    assert plain == json.loads(json.dumps(hits.describe()))
    assert plain["query"] == QUERY
    assert set(plain["hits"][0]["document"][0]) == {"start", "end", "text", "score", "standard_error"}
    assert len(plain["hits"][0]["pairs"]) == 5
    page, numbers = hits.save(tmp_path)
    assert json.loads(numbers.read_text()) == plain
    text = page.read_text()
    assert text.count("cocoax-text") == 6
    assert "http" not in text


def test_explain_hits__terminal_and_repr(encoder: TextEncoder) -> None:
    hits = cocoax.explain_hits(encoder, QUERY, HITS, method=cocoax.Rise(samples=60))
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(hits)
    output = console.export_text()
    console.file.close()
    assert "over hits 2 and 3" in output
    assert all(text in output for text in HITS)
    assert "Strongest pairs" in output
    assert "Hit(1," in repr(hits)
    assert hits.html().count("<h3>") == 3
    against = cocoax.explain_hits(encoder, QUERY, HITS[:1], "a <b>dog</b>", method=cocoax.Rise(samples=20))
    assert "<b>" not in against.html()


def test_explain_hits__the_same_twice_and_the_query_itself(encoder: TextEncoder) -> None:
    hits = cocoax.explain_hits(encoder, QUERY, [QUERY, HITS[0], HITS[0]], method=METHOD)
    assert [hit.is_query for hit in hits] == [True, False, False]
    assert hits[0].similarity == pytest.approx(1, abs=1e-5)
    assert "the query itself" in repr(hits[0])
    assert hits[1].others == ()  # a hit is not compared with itself
    assert hits[1].runs[1] is hits[2].runs[1]


def test_explain_hits__a_foil_equal_to_a_hit(encoder: TextEncoder) -> None:
    hits = cocoax.explain_hits(encoder, QUERY, HITS[:2], [HITS[0], "a dog"], method=METHOD)
    assert [len(hit.others) for hit in hits] == [1, 2]
    with encoding_nothing(encoder), pytest.raises(ValueError, match=r"Hit 1 is to be explained rather than itself"):
        cocoax.explain_hits(encoder, QUERY, HITS[:2], HITS[0], method=METHOD)


@contextmanager
def encoding_nothing(encoder: TextEncoder) -> Iterator[None]:
    assert encoder.owner is not None
    handle = encoder.owner.register_forward_pre_hook(lambda *_: pytest.fail("a mistake is told before anything is encoded"))
    yield
    handle.remove()


def test_explain_hits__one_word(encoder: TextEncoder) -> None:
    hits = cocoax.explain_hits(encoder, "car", ["cat", "dog"], method=cocoax.Rise(samples=20))
    assert [span.text for span in hits[0].spans] == ["cat"]
    assert hits[0].interactions.values.shape == (1, 1)


def test_explain_hits__mistakes(encoder: TextEncoder) -> None:
    with pytest.raises(ValueError, match=r"There are 0 hits to explain"):
        cocoax.explain_hits(encoder, QUERY, [])
    with pytest.raises(TypeError, match=r"Got IntegratedGradients instead"):
        cocoax.explain_hits(encoder, QUERY, HITS, method=cocoax.IntegratedGradients())
    with encoding_nothing(encoder), pytest.raises(ValueError, match=r"The text is empty"):
        cocoax.explain_hits(encoder, QUERY, [*HITS, " "])


def test_explain_hits__kernel(encoder: TextEncoder) -> None:
    hits = cocoax.explain_hits(encoder, QUERY, HITS, method=METHOD, similarity="rbf")
    assert hits.describe()["hits"][0]["pairs"] is None
    with pytest.raises(ValueError, match=r"dot product, cosine or dot"):
        _ = hits[0].interactions


def test_explain_hits__pictures(towers: cocoax.Encoder, tmp_path: Path) -> None:
    pictures = [picture(seed) for seed in range(3)]
    hits = cocoax.explain_hits(towers, pictures[0], pictures[1:], method=cocoax.Rise(samples=40, grid=4))
    assert hits[0].interactions.values.shape == (4, 4, 4, 4)
    own = towers.represent(pictures)
    expected = torch.nn.functional.cosine_similarity(own[:1], own[1:]).tolist()
    assert [hit.similarity for hit in hits] == pytest.approx(expected, abs=1e-5)
    part = hits.describe()["hits"][0]["document"][0]
    assert set(part) == {"place", "box", "score", "standard_error"}
    assert "data:image/png" in hits.save(tmp_path)[0].read_text()
    with pytest.raises(ValueError, match=r"a picture has regions"):
        _ = hits[0].spans


def test_explain_hits__documents_with_another_prompt(encoder: TextEncoder) -> None:
    passages = encoder.by(prompt="the house ")
    hits = cocoax.explain_hits(encoder, QUERY, [QUERY, HITS[0]], documents=passages, method=METHOD)
    expected = torch.nn.functional.cosine_similarity(encoder.represent(QUERY), passages.represent(QUERY))
    assert hits[0].similarity == pytest.approx(float(expected), abs=1e-5)
    assert not hits[0].is_query


def test_explain_hits__a_long_hit_in_its_best_window(encoder: TextEncoder) -> None:
    long = "the cat " * 30 + "a big red car"
    hit = cocoax.explain_hits(encoder, "a big red car", [long], method=cocoax.Rise(samples=40))[0]
    assert hit.window is not None
    assert hit.window.count > 1
    assert all(long[span.start : span.end] == span.text for span in hit.spans)
    assert {span.start for span in hit.spans} <= set(range(hit.window.begin, hit.window.end))


def test_explain_hits__a_long_query_in_the_window_that_fits_each_hit(encoder: TextEncoder) -> None:
    """Hits are ranked by the most similar window; similarities are those, and no later hit is closer."""
    query = "the cat " * 30 + "a big red car behind the house " * 8
    found = ["the violinist parked her car", "a big red car behind the house", "the cat the cat the cat"]
    windows = [piece.content for piece in pieces_of(encoder, query)]
    best = (unit(encoder.represent(found)) @ unit(encoder.represent(windows)).T).amax(1)
    order = best.argsort(descending=True).tolist()
    hits = cocoax.explain_hits(encoder, query, [found[at] for at in order], method=cocoax.Rise(samples=40))
    assert [hit.similarity for hit in hits] == pytest.approx(best[order].tolist(), abs=1e-5)
    assert all(hit.margin >= 0 for hit in hits)
    chosen = {hit.query_window.number for hit in hits if hit.query_window is not None}
    assert len(chosen) > 1
    assert len({id(hit.runs[0]) for hit in hits}) == len(chosen)
    for hit in hits:
        assert hit.query.score == pytest.approx(hit.margin, abs=1e-5)


def test_explain_hits__others_in_the_window_that_fits_this_hits_window_of_the_query() -> None:
    text = TextEncoder(Words().eval(), Spaces(), limit=6, name="words")
    random = np.random.default_rng(0)
    query, *found = (" ".join(random.choice([f"w{number}" for number in range(60)], 14)) for _ in range(4))
    hits = cocoax.explain_hits(text, query, found, method=cocoax.Rise(samples=20))
    assert len({hit.query_window.number for hit in hits if hit.query_window is not None}) > 1
    for hit in hits[:2]:
        windows = [unit(text.represent([piece.content for piece in pieces_of(text, other)])) for other in found[hit.rank :]]
        best = [float((each @ unit(hit.runs[0].ends[:1]).T).max()) for each in windows]
        assert hit.others == pytest.approx(best, abs=1e-5)
        assert hit.query.score == pytest.approx(hit.margin, abs=1e-5)


def unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors, dim=1)

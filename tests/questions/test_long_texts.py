"""Texts at two levels, calls that are made and those that are not, and what the search saw."""

from __future__ import annotations

import hashlib
import itertools
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cocoax
from cocoax.encoders.function_calls import BudgetError
from cocoax.questions.long_texts import HIT_BUDGET, Budget, is_long
from cocoax.questions.matches import Matcher

WIDTH = 512
FACTS = [
    "The violinist tuned the strings of her old instrument before the concert began.",
    "A mechanic repaired the brakes of the red car in the afternoon.",
    "Two dogs slept in front of the warm fire all evening.",
    "The cook baked bread with flour and butter and a little salt.",
    "Snow fell on the mountains and covered the roads to the village.",
    "Children played with a ball in the garden behind the school.",
    "The library bought many books about the history of the town.",
]
LONG = " ".join(FACTS)
QUERY = "repaired brakes car"


class Embedder:
    """The mean of the words' vectors; notes what it was asked for."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: list[str]) -> np.ndarray:
        self.texts += texts
        return np.stack([np.mean([self.vector(word) for word in text.split()], axis=0) for text in texts])

    @staticmethod
    @cache
    def vector(word: str) -> np.ndarray:
        seed = int.from_bytes(hashlib.sha256(word.strip(".,…").lower().encode()).digest()[:4], "little")
        return np.random.default_rng(seed).standard_normal(WIDTH).astype(np.float32)

    @property
    def sent(self) -> int:
        return len([text for text in self.texts if text != "…"])  # what tells a function of texts from one of arrays


def test_auto__sentences_first_then_words_of_those_that_matter() -> None:
    embed = Embedder()
    match = cocoax.explain_match(cocoax.wrap(embed, name="bag"), QUERY, LONG)
    side = match.document_side
    assert side.sentences is not None
    assert side.sentences.top(1)[0][0] == FACTS[1]
    names = match.document.names
    assert names is not None
    assert {"repaired", "brakes", "car"} <= set(names)
    assert sum(name in FACTS for name in names) == len(FACTS) - 3
    assert {word for word, _ in match.document.top(3, "positive")} == {"repaired", "brakes", "car"}
    assert match.document.standard_error is not None
    assert bool((match.document.standard_error > 0).any())
    assert "".join(LONG[begin:end] for begin, end in match.document.offsets or ()).replace(" ", "") == LONG.replace(" ", "")
    query_copies = 2**3
    assert len(set(embed.texts)) <= 80 + query_copies + 2


def test_auto__words_and_other_sentences_are_of_one_game(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Matcher, "budgets", (Budget(words=128, sentences=24, inside=400, deep=1), HIT_BUDGET))
    match = cocoax.explain_match(cocoax.wrap(Embedder(), name="bag"), QUERY, LONG)
    players = [FACTS[0], *FACTS[1].rstrip(".").split(), ".", *FACTS[2:]]
    assert match.document.names == tuple(players)
    target = Embedder()([QUERY])[0]
    sums = np.stack([sum(Embedder.vector(word) for word in player.split()) for player in players]).astype(np.float64)
    sums[players.index(".")] = 0  # it is part of the word before it
    kept = np.array(list(itertools.product((0, 1), repeat=len(players))), dtype=np.float64)
    lengths = np.einsum("ni,ij,nj->n", kept, sums @ sums.T, kept, optimize=True) ** 0.5
    scores = np.divide(kept @ (sums @ target), lengths * np.linalg.norm(target), where=lengths > 0, out=np.zeros(len(kept)))
    exact = np.array([(2 * own - 1) @ scores * 2 / len(scores) for own in kept.T])
    assert match.document.standard_error is not None
    far = (match.document.relative.numpy() - exact) / match.document.standard_error.numpy()
    assert np.mean(np.square(far)) ** 0.5 < 2


def test_auto__sentences_have_their_shapley_values() -> None:
    side = cocoax.explain_match(cocoax.wrap(Embedder(), name="bag"), QUERY, LONG).document_side
    exact = cocoax.explain_match(
        cocoax.wrap(Embedder()), QUERY, LONG, features="sentences", method=cocoax.KernelShap(samples=2**7 - 2)
    ).document
    assert side.sentences is not None
    assert side.sentences.standard_error is not None
    assert float(side.sentences.relative.sum()) == pytest.approx(float(exact.relative.sum()), abs=1e-5)
    far = (side.sentences.relative - exact.relative) / side.sentences.standard_error
    assert float(far.square().mean().sqrt()) < 2


def test_sentences__are_on_the_page_and_first_in_the_summary() -> None:
    match = cocoax.explain_match(cocoax.wrap(Embedder()), QUERY, LONG)
    sentences = match.document_side.sentences
    assert sentences is not None
    (best, value), *_ = sentences.top(1)
    assert match.summary.startswith(f"Strongest sentences of the document: “{best[:30]}")
    assert f"{value:+.3f}" in match.summary
    assert "Sentences, by their own run: document" in match._repr_html_()


def test_short_texts__words_alone() -> None:
    assert not is_long(QUERY)
    match = cocoax.explain_match(cocoax.wrap(Embedder()), QUERY, FACTS[1])
    assert match.document_side.sentences is None
    assert match.document.names is not None
    assert "brakes" in match.document.names


def test_interactions__of_a_text_at_two_levels() -> None:
    match = cocoax.explain_match(cocoax.wrap(Embedder()), QUERY, LONG)
    pairs = match.interactions
    assert pairs.values.shape == (len(match.query.values), len(match.document.values))
    assert pairs.standard_error is not None
    assert pairs.standard_error.shape == pairs.values.shape
    assert {(a, b) for a, b, _, _ in pairs.top(3)} == {("repaired", "repaired"), ("brakes", "brakes"), ("car", "car")}


def test_features__asked_for() -> None:
    encoder = cocoax.wrap(Embedder())
    method = cocoax.Rise(samples=40)
    assert cocoax.explain_match(encoder, QUERY, LONG, features="sentences", method=method).document.names == tuple(FACTS)
    words = cocoax.explain_match(encoder, QUERY, LONG, features="words", method=method).document.names
    assert words is not None
    assert len(words) > 70
    with pytest.raises(ValueError, match="auto"):
        cocoax.explain_match(encoder, QUERY, LONG, features="auto", method=method)
    with pytest.raises(ValueError, match="features"):
        cocoax.explain_match(encoder, QUERY, LONG, features="letters")


def test_nothing_twice__a_repeated_call_sends_nothing_and_says_the_same() -> None:
    def ask(embed: Embedder, **options: Any) -> tuple[cocoax.Match, cocoax.Hits]:
        encoder = cocoax.wrap(embed, name="bag")
        return (
            cocoax.explain_match(encoder, QUERY, LONG, FACTS[:2], **options),
            cocoax.explain_hits(encoder, QUERY, FACTS[:3], **options),
        )

    first, again, other = Embedder(), Embedder(), Embedder()
    found, repeated = ask(first), ask(again)
    assert first.sent > 100
    assert again.sent == 0
    assert found[0].to_dict() == repeated[0].to_dict()
    assert found[1].to_dict() == repeated[1].to_dict()
    ask(other, similarity="dot")  # another question about the same texts
    assert other.sent == 0


def test_hits__ten_within_600_calls_and_each_has_a_sentence() -> None:
    embed = Embedder()
    found = [" ".join(np.roll(np.array(FACTS, dtype=object), shift).tolist()) + f" And {shift}." for shift in range(10)]
    hits = cocoax.explain_hits(cocoax.wrap(embed, name="bag"), QUERY, found)
    assert embed.sent <= 600
    assert "repaired" in hits[0].sentence or "brakes" in hits[0].sentence
    assert "match" in hits[0].sentence
    assert hits.to_dataframe()["sentence"][0] == hits[0].sentence


def test_hits__ids_scores_and_metadata_are_carried_through() -> None:
    encoder = cocoax.wrap(Embedder())
    rows = [
        {"id": number, "text": text, "score": 0.5 - number / 10, "source": "book"} for number, text in enumerate(FACTS[:3])
    ]
    hits = cocoax.explain_hits(encoder, QUERY, rows)
    assert [(hit.id, hit.search_score, hit.metadata["source"]) for hit in hits] == [
        (n, 0.5 - n / 10, "book") for n in range(3)
    ]
    frame = hits.to_dataframe()
    assert list(frame["source"]) == ["book"] * 3
    assert list(frame["search_score"]) == [0.5, 0.4, 0.3]
    assert hits.to_dict()["hits"][1]["metadata"] == {"source": "book"}
    for page in (hits._repr_html_(), hits[1]._repr_html_()):
        assert "id 1, the search's score 0.4, source book" in " ".join(unescape(page).split())
    assert any("scores" in note for note in hits.notes)
    assert any("order" in note for note in hits.notes)  # the second is nearest to the query
    own = [(text, float(similarity)) for text, similarity in zip(FACTS[:3], [hit.similarity for hit in hits], strict=True)]
    best = sorted(own, key=lambda pair: -pair[1])
    assert cocoax.explain_hits(encoder, QUERY, best).notes == ()


def test_max_tokens__what_the_search_saw() -> None:
    embed = Embedder()
    encoder = cocoax.wrap(embed)
    match = cocoax.explain_match(encoder, QUERY, LONG, max_tokens=30, method=cocoax.Rise(samples=20))
    assert match.document.metadata["left_out"] > 40
    assert any("left out" in remark for remark in match.document.remarks)
    assert match.document_side.window is None
    assert max(len(text.split()) for text in embed.texts) <= 30
    plain = Embedder()([" ".join(LONG.split()[: len(match.document.names or ()) - 2]), QUERY])
    assert match.similarity == pytest.approx(
        plain[0] @ plain[1] / np.linalg.norm(plain[0]) / np.linalg.norm(plain[1]), abs=0.03
    )


def test_cost__is_said_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("COCOAX_PROGRESS")
    embed = Embedder()
    cocoax.explain_match(cocoax.wrap(embed, name="paid"), QUERY, LONG)
    said = capsys.readouterr().err
    assert "paid: sends up to" in said
    assert "tokens" in said
    count = int(said.split("up to ")[1].split(" texts")[0])
    assert count - 8 <= embed.sent <= count  # some words of a sentence are removed together twice
    cocoax.explain_match(cocoax.wrap(embed, name="paid"), QUERY, LONG)
    assert capsys.readouterr().err == ""  # nothing is sent, and so nothing is said
    before = embed.sent
    cocoax.explain_match(cocoax.wrap(embed, name="paid"), QUERY, FACTS[2])  # the query is known
    assert f"sends up to {embed.sent - before} texts" in capsys.readouterr().err
    cocoax.explain_match(cocoax.wrap(embed, name="paid"), QUERY, FACTS[3], progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("most", [30, 45, 70])
def test_budget__every_run_gets_its_share(most: int) -> None:
    for ask in (
        lambda encoder: [cocoax.explain_match(encoder, QUERY, LONG, FACTS[:1])],
        lambda encoder: cocoax.explain_hits(encoder, QUERY, FACTS[1:3]),
    ):
        embed = Embedder()
        with pytest.warns(cocoax.cautions.Caution, match="errors are larger"):
            found = ask(cocoax.wrap(embed, max_calls=most))
        assert most / 2 <= embed.sent <= most
        assert found[0].document.standard_error is not None
        assert isinstance(found[0].similarity, float)


@pytest.mark.filterwarnings("ignore::cocoax.cautions.Caution")
@pytest.mark.parametrize("kill", [False, True])
def test_budget__a_repeat_sends_nothing(kill: bool) -> None:
    def asked(most: int | None, embed: Embedder) -> cocoax.Match:
        return cocoax.explain_match(cocoax.wrap(embed, name="paid", max_calls=most, batch_size=4), QUERY, LONG)

    class Killed(Embedder):
        def __call__(self, texts: list[str]) -> Any:
            if self.sent > 15:
                raise KeyboardInterrupt
            return super().__call__(texts)

    if kill:
        with pytest.raises(KeyboardInterrupt):
            asked(45, Killed())
    first = asked(45, Embedder())
    repeat, more = Embedder(), Embedder()
    again = asked(45, repeat)  # as another process would find it
    assert repeat.sent == 0
    assert again.document.values.tolist() == first.document.values.tolist()
    assert asked(None, more).document.metadata["samples"] > first.document.metadata["samples"]  # a larger budget is used
    assert more.sent > 0


class TokenEmbedder(Embedder):
    """One vector for each word."""

    def __call__(self, texts: list[str]) -> Any:
        self.texts += texts
        return [np.stack([self.vector(word) for word in text.split()]) for text in texts]


@pytest.mark.filterwarnings("ignore::cocoax.cautions.Caution")
@pytest.mark.parametrize("most", range(10, 38, 3))
@pytest.mark.parametrize(
    ("kind", "query", "options"),
    [
        (Embedder, QUERY, {}),
        (Embedder, " ".join(FACTS[::-1]), {}),
        (Embedder, QUERY, {"features": "words", "method": cocoax.KernelShap(samples=100)}),
        (TokenEmbedder, QUERY, {}),
    ],
    ids=["two levels", "a long query", "KernelShap", "late interaction"],
)
def test_budget__an_answer_or_nothing_is_sent(kind: type[Embedder], query: str, options: Any, most: int) -> None:
    embed = kind()
    late = {"late_interaction": True} if kind is TokenEmbedder else {}
    encoder = cocoax.wrap(embed, takes="texts", max_calls=most, **late)
    said = ""
    try:
        assert cocoax.explain_match(encoder, query, LONG, **options).document.standard_error is not None
    except BudgetError as error:
        said = str(error)
    assert embed.sent <= most
    assert (embed.texts == []) == ("Nothing was sent" in said) == (said != "")
    assert most < 30 or not said


def test_budget__too_small_for_an_answer_sends_nothing() -> None:
    embed = Embedder()
    with pytest.raises(BudgetError, match="Nothing was sent"):
        cocoax.explain_match(cocoax.wrap(embed, max_calls=15), QUERY, LONG)
    with pytest.raises(BudgetError, match="an answer needs"):
        cocoax.explain_match(cocoax.wrap(embed, max_calls=15), QUERY, LONG, features="words", method=cocoax.Occlusion())
    assert embed.sent == 0


def test_interactions__of_a_query_of_one_feature_by_kernel_shap() -> None:
    method = cocoax.KernelShap(samples=24)  # no coalitions of a single sentence
    match = cocoax.explain_match(cocoax.wrap(Embedder()), QUERY, LONG, features="sentences", method=method)
    assert match.interactions.values.shape == (1, len(FACTS))
    assert match.interactions.top(1)[0][1] == FACTS[1]


def test_page__of_hits_has_the_sentences_once(tmp_path: Path) -> None:
    hits = cocoax.explain_hits(cocoax.wrap(Embedder()), QUERY, [LONG, FACTS[1]])
    assert "Strongest sentences" in hits[0].summary
    assert hits[0].sentence_views()  # which are on the page
    hits.save(tmp_path / "why.html")
    assert "Strongest sentences" not in (tmp_path / "why.html").read_text()

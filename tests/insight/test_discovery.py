"""Corpora found among pictures, texts and rows, whole and in parts; in an index, too."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from torch import nn

import cocoax
from cocoax.insight import Discovery, Importance
from tests.conftest import images
from tests.pages import EVIL, Page
from tests.towers import picture, two_towers

COLUMNS = list("abcdef")
EXPLAINER = cocoax.Rise(samples=60)


def clouds(count: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around three corners, and the corner of each."""
    truth = np.repeat(np.arange(3), count)
    return 3 * np.eye(6)[truth] + 0.3 * np.random.default_rng(seed).normal(size=(len(truth), 6)), truth


def table(rows: np.ndarray) -> cocoax.Encoder:
    return cocoax.TabularEncoder(nn.Identity(), columns=COLUMNS, background=rows, name="table")


@pytest.fixture(scope="module")
def found() -> Discovery:
    rows, _ = clouds()
    return cocoax.discover(table(rows), rows, 3, explainer=EXPLAINER)


def test_discover__rows_in_three_corners(found: Discovery) -> None:
    _, truth = clouds()
    assert len(found) == 3
    assert found.purity(truth) == 1
    assert found.explained > 0.9
    assert all(corpus.stability is not None and corpus.stability > 0.9 for corpus in found)
    assert found.enough == 3
    assert sorted(len(corpus.members) for corpus in found) == [30, 30, 30]
    assert [corpus.number for corpus in found] == [1, 2, 3]
    assert found[0].name == "corpus 1"
    assert {label for label, count in found.beside(truth).values() if count == 30} == {0, 1, 2}


def test_discover__members_are_ordered_by_how_typical_they_are(found: Discovery) -> None:
    rows, _ = clouds()
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for corpus in found:
        centre = unit[corpus.members].mean(0)
        cosines = unit[corpus.members] @ centre / np.linalg.norm(centre)
        assert (np.diff(cosines) <= 1e-6).all()


def test_discover__a_corpus_can_be_asked_about_at_once(found: Discovery) -> None:
    rows, truth = clouds()
    encoder = table(rows)
    corpus = found[0]
    corner = int(truth[corpus.members[0]])
    target = cocoax.similarity_to(corpus.reference) - cocoax.similarity_to(found.everything)
    result = cocoax.KernelShap().explain(encoder, rows[corpus.members[0]], target)
    assert float(result.values[corner]) == pytest.approx(float(result.values.max()), rel=0.5)
    maps = found.maps(corpus, 4)
    assert all(float(each.relative[corner]) > 0.5 * float(each.relative.max()) for each in maps)
    assert maps[0].name == corpus.name


def test_discover__a_concept_is_checked_against_corpora(found: Discovery) -> None:
    rows, truth = clouds()
    concept = table(rows).reference(clouds(seed=5)[0][:10], name="first corner")
    best, telling = found.check(concept)[0]
    assert set(truth[best.members]) == {0}
    assert telling.auc == 1
    assert found.check(concept)[-1][1].auc < 0.5
    with pytest.raises(ValueError, match="no text tower; give the concept as a reference"):
        found.check("a corner")


def test_discover__hdbscan() -> None:
    rows, truth = clouds()
    discovery = cocoax.discover(table(rows), rows, 3, "hdbscan")
    assert discovery.purity(truth) > 0.9
    assert discovery.curve == ()
    assert discovery.enough is None


@pytest.mark.parametrize(("method", "similarity"), [("fields", "cosine"), ("fields", "dot"), ("crops", "dot")])
def test_discover__a_planted_part(method: Any, similarity: str) -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(60, 6))
    marked = np.arange(0, 60, 5)
    rows[marked, 5] = 6.0  # in a fifth of the rows a column sticks out
    background = rows.copy()
    background[:, 5] = 0.0
    discovery = cocoax.discover(table(background), rows, 8, method, similarity=similarity, explainer=EXPLAINER)
    best = max(
        discovery, key=lambda corpus: len(np.intersect1d(corpus.members, marked)) / len(np.union1d(corpus.members, marked))
    )
    assert set(marked) <= set(best.members)
    assert len(best.members) < 30
    maps = discovery.collection.maps(marked.tolist(), discovery.target(best))
    assert np.mean([each.top(1)[0][0] == "f" for each in maps]) >= 0.95
    assert 0 < discovery.explained < 1


def test_discover__texts_with_names() -> None:
    texts = [
        f"{thing} {thing} {thing} {place}"
        for thing in ("zebra", "spoon")
        for place in ("here", "there", "outside", "inside", "today")
    ]
    encoder = two_towers().text
    discovery = cocoax.discover(encoder, texts, 2, explainer=EXPLAINER)
    assert discovery.purity([text.split()[0] for text in texts]) >= 0.8
    assert all(corpus.words for corpus in discovery)
    assert {word.word for corpus in discovery for word in corpus.words} & {"zebra", "spoon"}
    assert discovery.collection.label(0).startswith("zebra zebra")


@pytest.mark.parametrize("method", ["fields", "crops"])
def test_discover__the_only_part_of_each_input_is_a_part(method: Any) -> None:
    class Curved(nn.Module):
        """A number, its square, and what is the same for all, which no part adds."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, x.square(), torch.ones_like(x)], dim=1)

    rows = 3 + np.random.default_rng(0).normal(size=(20, 1))
    encoder = cocoax.TabularEncoder(Curved(), columns=["a"], background=rows, name="curved")
    discovery = cocoax.discover(encoder, rows, 2, method, similarity="dot", explainer=EXPLAINER)
    parts = discovery.collection.parts(method, 0)
    assert parts.owners.tolist() == list(range(20))
    assert discovery.everything.samples is not None
    np.testing.assert_allclose(discovery.everything.samples.numpy(), parts.vectors, rtol=1e-4, atol=1e-6)
    assert all((corpus.reference.weights is not None) == (method == "fields") for corpus in discovery)
    assert cocoax.discover(encoder, rows, 2)[0].reference.weights is None


def test_discover__too_few_inputs_to_tell_stability(tmp_path: Path) -> None:
    rows, _ = clouds(5)
    discovery = cocoax.discover(table(rows), rows, 10, explainer=EXPLAINER)
    assert [corpus.stability for corpus in discovery] == [None] * 10
    assert "stability unknown, too few inputs to tell" in repr(discovery[0])
    assert discovery.to_dict()["corpora"][0]["stability"] is None
    assert "stability unknown, too few inputs to tell" in discovery.save(tmp_path / "found.html").read_text()


def test_discover__pictures_with_names_and_words_checked() -> None:
    encoder = two_towers()
    pictures = [picture(seed) for seed in range(20)]
    discovery = cocoax.discover(encoder, pictures, 3, vocabulary=["cat", "dog", "cup", "tree"], explainer=EXPLAINER)
    assert all(set(corpus.name.split(", ")) <= {"cat", "dog", "cup", "tree"} for corpus in discovery)
    assert len(discovery.check("a cat")) == 3
    again = cocoax.discover(encoder, pictures, 3, vocabulary=["cat", "dog", "cup", "tree"], explainer=EXPLAINER)
    assert [corpus.members.tolist() for corpus in again] == [corpus.members.tolist() for corpus in discovery]


def test_discover__parts_of_pictures() -> None:
    encoder = two_towers()
    pictures = [picture(seed) for seed in range(12)]
    for method in ("fields", "crops"):
        discovery = cocoax.discover(
            encoder,
            pictures,
            3,
            method,  # type: ignore[arg-type]
            vocabulary=["cat", "dog"],
            explainer=cocoax.Rise(samples=40, grid=3),
        )
        assert 1 <= len(discovery) <= 3
        assert discovery.maps(discovery[0], 1)[0].values.shape == ((3, 3) if method == "fields" else (7, 7))


def test_discover__a_planted_square() -> None:
    random = np.random.default_rng(0)
    pictures = random.integers(0, 256, (40, 32, 32, 3), dtype=np.uint8)
    marked, corners = np.arange(0, 40, 5), random.integers(0, 25, (40, 2))
    for number in marked:
        top, left = corners[number]
        pictures[number, top : top + 8, left : left + 8] = (255, 0, 200)
    encoder = cocoax.Encoder(lambda batch: batch.mean((2, 3)), cocoax.ImagePreprocess(32, 32), name="mean colour")
    discovery = cocoax.discover(encoder, list(pictures), 4, "crops", similarity="dot")
    best = max(
        discovery, key=lambda found: len(np.intersect1d(found.members, marked)) / len(np.union1d(found.members, marked))
    )
    assert sorted(best.members) == marked.tolist()
    (shown,) = discovery.collection.maps([5], discovery.target(best))
    assert shown.values.shape == (7, 7)
    row, column = np.unravel_index(int(shown.values.argmax()), (7, 7))
    assert np.abs(4 * np.array([row, column]) - corners[5]).max() <= 2  # the window that has most of it
    window = torch.from_numpy(pictures[5, 4 * row : 4 * row + 8, 4 * column : 4 * column + 8] / 255.0).mean((0, 1))
    direction = discovery.target(best).direction(window).double()
    assert float(shown.values.max()) == pytest.approx(float(window @ direction), abs=1e-4)


def test_discover__an_index(tmp_path: Path) -> None:
    from cocoax.survey import build

    rows, truth = clouds()
    encoder = table(rows)
    index = build(encoder, rows, tmp_path / "index", cocoax.Rise(samples=60), labels=truth)
    truth = index.column("label")
    assert cocoax.discover(encoder, index, 3).purity(truth) == 1
    alone = cocoax.discover(index, corpora=3)
    assert alone.purity("label") == 1
    assert alone.beside("label") == alone.beside(truth)
    with pytest.raises(ValueError, match="There is no column 'kind'"):
        alone.purity("kind")
    for method in ("kmeans", "fields"):
        discovery = cocoax.discover(encoder, index, 3, method)  # type: ignore[arg-type]
        assert discovery.collection.label(0) == index.ids[0]
        assert len(discovery.maps(discovery[0], 2)) == 2
    whole = index.field_vectors(np.array([3, 0]))
    torch.testing.assert_close(whole[0], index.field(3).values)
    torch.testing.assert_close(whole[1], index.field(0).values)
    with pytest.raises(ValueError, match="no inputs that could be cut into crops; use method='fields'"):
        cocoax.discover(encoder, index, 3, "crops")


def test_discover__importance_to_a_class() -> None:
    rows, truth = clouds()
    encoder = table(rows)
    with torch.random.fork_rng():
        head = nn.Linear(6, 3, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.eye(6)[:3])
    encoder.head, encoder.classes = head, ["first", "second", "third"]
    discovery = cocoax.discover(encoder, rows, 3)
    importances = discovery.importance("first")
    (own,) = [corpus for corpus in discovery if truth[corpus.members[0]] == 0]
    assert {each.concept: each.score for each in importances}[own.name] == 1
    assert max(importances, key=lambda each: each.sensitivity).concept == own.name
    assert len(discovery.importance("first", rows[:5])) == 3


def test_discover__importance_among_more_than_references_keep() -> None:
    rows, truth = clouds(3500)
    encoder = table(rows)
    with torch.random.fork_rng():
        encoder.head = nn.Linear(6, 3, bias=False)
    with torch.no_grad():
        encoder.head.weight.copy_(torch.eye(6)[:3])
    discovery = cocoax.discover(encoder, rows, 3)
    assert len(discovery.everything) == 10_000
    whole = cocoax.Reference.from_representations(rows)
    torch.testing.assert_close(discovery.everything.mean_unit, whole.mean_unit, atol=0.02, rtol=0)
    assert discovery.importance(0)[0].concept in {corpus.name for corpus in discovery if truth[corpus.members[0]] == 0}


# --- files --------------------------------------------------------------------------------------------------------------


def test_discover__leaves_no_tensor_behind() -> None:
    """Without the garbage collector: nothing that a call made is part of a reference cycle."""
    rows, _ = clouds()
    encoder = table(rows)
    counts: list[int] = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(4):
            cocoax.discover(encoder, rows, 3, explainer=EXPLAINER)
            counts.append(sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects()))
    finally:
        gc.enable()
    assert len(set(counts[1:])) == 1


def test_discovery__files_and_notebooks(found: Discovery, tmp_path: Path) -> None:
    files = found.save_all(tmp_path)
    references = [f"{number}.safetensors" for number in (1, 2, 3)]
    assert [file.name for file in files] == ["discovery.html", "discovery.json", "discovery.png", *references]
    page = Page(files[0])
    assert "3 corpora among 90 rows, by kmeans" in " ".join(page.texts["p"])
    plain = json.loads(files[1].read_text())
    assert [corpus["inputs"] for corpus in plain["corpora"]] == [30, 30, 30]
    assert files[2].stat().st_size > 5000
    again = cocoax.Reference.load(files[3])
    torch.testing.assert_close(again.mean_unit, found[0].reference.mean_unit)
    assert repr(found).startswith("Discovery(3 corpora by kmeans, 9")
    assert repr(found[0]).startswith("FoundCorpus(1, 'corpus 1', 30 inputs, stability ")
    assert found.table().records()[0]["inputs"] == 30
    assert not plt.get_fignums()


def test_discovery__what_was_asked_is_in_its_files(found: Discovery, tmp_path: Path) -> None:
    rows, _ = clouds()
    corner = table(rows).reference(rows[:10], name="first corner")
    importance = Importance("corpus 1", "first", 1.0, 0.9, 1.0, 0.5, 2.0, 0.025)
    asked = replace(found, checked={"first corner": found.check(corner)}, importances=(importance,))
    page = asked.save(tmp_path / "page.html")
    cells = Page(page).texts["td"]
    assert str(asked.checked["first corner"][0][1]) in cells
    assert "+0.500" in cells
    plain = asked.to_dict()
    assert plain["checked"]["first corner"][0]["auc"] == 1
    assert plain["importance"][0]["label"] == "first"


def test_discovery__pictures_are_drawn(tmp_path: Path) -> None:
    discovery = cocoax.discover(
        two_towers(),
        [picture(seed) for seed in range(9)],
        2,
        vocabulary=[EVIL, "dog"],
        explainer=cocoax.Rise(samples=30, grid=3),
    )
    assert len(discovery.plot().axes) >= 9
    page = Page(discovery.save(tmp_path / "page.html"))
    assert "<script>alert" not in (tmp_path / "page.html").read_text()
    assert page.count("img") >= 2 * (6 - 3)
    assert "<script>alert" not in discovery._repr_html_()


# --- bad input ----------------------------------------------------------------------------------------------------------


def test_discover__bad_input(encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match="10 corpora cannot be found among 4 images; ask for fewer, or give more inputs"):
        cocoax.discover(encoder, images(4))
    with pytest.raises(ValueError, match="10 corpora cannot be found among 1 image;"):
        cocoax.discover(encoder, images(1))
    with pytest.raises(ValueError, match="All 20 inputs have the same representation"):
        cocoax.discover(encoder, images(1).repeat(20, 1, 1, 1))
    with pytest.raises(ValueError, match="20 inputs have 4 different representations, too few for 5 corpora"):
        cocoax.discover(encoder, images(4).repeat(5, 1, 1, 1), 5)
    with pytest.raises(ValueError, match="0 inputs"):
        cocoax.discover(encoder, [])
    with pytest.raises(ValueError, match="must be one of kmeans, hdbscan, fields, crops"):
        cocoax.discover(encoder, images(20), 3, "means")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'corpora' parameter must be at least 2"):
        cocoax.discover(encoder, images(20), 1)
    with pytest.raises(ValueError, match="rbf does not have; use cosine or dot"):
        cocoax.discover(encoder, images(20), 3, similarity="rbf")
    with pytest.raises(ValueError, match="pass the encoder of these inputs"):
        cocoax.discover(None, images(20), 3)
    with pytest.raises(ValueError, match="There are 20 inputs but 3 labels"):
        cocoax.discover(encoder, images(20), 3).purity([1, 2, 3])

"""Which examples matter: contributions sum to the score and to the map, mixtures are the closest; on all kinds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import cocoax
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.insight.important_examples import METHODS, Neighbours, _mixture
from tests.conftest import SmallNet, images
from tests.insight.games import table
from tests.tiny import TEXTS, save_bert


@pytest.fixture
def encoder() -> cocoax.Encoder:
    return cocoax.Encoder(SmallNet().eval(), name="small")


def test_contribution__sums_to_the_score_and_to_the_map(encoder: cocoax.Encoder) -> None:
    picture, members = images(1, seed=3)[0], images(6, seed=5)
    run = cocoax.Rise(samples=60, grid=3).run(encoder, picture)
    found = cocoax.examples(encoder, picture, members, run=run, grid=(2, 2))
    reference = encoder.reference(members)
    target = cocoax.similarity_to(reference)
    assert float(found.values.sum()) == pytest.approx(float(target.score(run.anchors[:1])[0]), abs=1e-6)
    answer = run.field(grid=2).explain(target)
    assert found.parts is not None
    torch.testing.assert_close(found.parts.sum(0).view(2, 2).float(), answer.values - answer.neutral, atol=1e-5, rtol=1e-4)
    # One member alone is the map of the similarity to it.
    own = run.field(grid=2).explain(cocoax.similarity_to(reference[4]))
    torch.testing.assert_close(found.parts[4].view(2, 2).float() * 6, own.values - own.neutral, atol=1e-5, rtol=1e-4)
    assert found.top(1, "top right")[0][1] == pytest.approx(float(found.parts[:, 1].max()))
    with pytest.raises(ValueError, match="There is no part 'row 9'; there are top left, top right"):
        found.top(1, "row 9")


def test_contribution__words_that_occur_twice_have_values_of_their_own(tmp_path: Path) -> None:
    encoder = load_hf_text(str(save_bert(tmp_path / "bert")))
    found = cocoax.examples(encoder, "the cat behind the house", TEXTS[:4], samples=60)
    assert found.part_names == ("the 1", "cat", "behind", "the 4", "house")
    assert found.parts is not None
    assert found.top(1, "the 4")[0][1] == pytest.approx(float(found.parts[:, 3].max()))
    assert float(found.parts[:, 3].max()) != float(found.parts[:, 0].max())
    assert list(found.to_dict()["parts"]) == list(found.part_names)


@pytest.mark.parametrize("similarity", ["cosine", "rbf"])
def test_contribution__of_a_weighted_reference_sums_to_its_score(encoder: cocoax.Encoder, similarity: str) -> None:
    picture, rows = images(1, seed=3)[0], encoder.represent(images(4, seed=5))
    weights = [5.0, 1.0, 0.0, 2.0]
    reference = cocoax.Reference.from_representations(rows, space=encoder.space, keep_samples=True, weights=weights)
    run = cocoax.Rise(samples=60, grid=3).run(encoder, picture)
    found = cocoax.examples(encoder, picture, reference, similarity=similarity, run=run, grid=(2, 2))
    target = cocoax.similarity_to(reference, similarity=similarity)
    score = float(target.score(run.anchors[:1])[0])
    assert float(found.values.sum()) == pytest.approx(score, abs=1e-6)
    assert f"the mean similarity to the corpus, {score:+.3f}." in str(found)
    assert float(found.values[2]) == 0
    if found.parts is not None:
        answer = run.field(grid=2).explain(target)
        torch.testing.assert_close(
            found.parts.sum(0).view(2, 2).float(), answer.values - answer.neutral, atol=1e-5, rtol=1e-4
        )


def test_contribution__a_run_of_another_input_or_encoder(encoder: cocoax.Encoder) -> None:
    (picture, another), members = images(2, seed=3), images(4, seed=5)
    method = cocoax.Rise(samples=20, grid=3)
    with pytest.raises(ValueError, match="The run is of another input than the one that is asked about; pass its own"):
        cocoax.examples(encoder, picture, members, run=method.run(encoder, another))
    other = cocoax.Encoder(SmallNet(seed=1).eval(), name="other")
    with pytest.raises(ValueError, match="The run was made by the encoder 'other' as it was then; 'small' is another one"):
        cocoax.examples(encoder, picture, members, run=method.run(other, picture))
    with pytest.raises(TypeError, match=r"'run' parameter must be a run, as cocoax.Rise.*Got str instead"):
        cocoax.examples(encoder, picture, members, run="run.cocoax")


def test_contribution__is_in_the_order_of_similarity(encoder: cocoax.Encoder) -> None:
    picture, members = images(1, seed=3)[0], images(6, seed=5)
    found = cocoax.examples(encoder, picture, members, samples=20)
    slow = [
        float(torch.cosine_similarity(encoder.represent([picture]), encoder.represent([member]))[0]) / 6 for member in members
    ]
    np.testing.assert_allclose(found.values.numpy(), slow, atol=1e-6)
    assert [name for name, _ in found.top(6)] == [f"image {number + 1}" for number in np.argsort(slow)[::-1]]
    kernel = cocoax.examples(encoder, picture, members, similarity="rbf")
    assert kernel.parts is None


def test_simplex__is_the_closest_mixture() -> None:
    generator = torch.Generator().manual_seed(0)
    for count in (3, 12, 40):
        members = torch.randn(count, 8, generator=generator).double()
        vector = torch.randn(8, generator=generator).double()
        weights = _mixture(vector, members)
        slow = minimize(
            lambda own, m=members, v=vector: float(((own @ m.numpy() - v.numpy()) ** 2).sum()),
            np.full(count, 1 / count),
            method="SLSQP",
            bounds=[(0, None)] * count,
            constraints={"type": "eq", "fun": lambda own: own.sum() - 1},
            options={"maxiter": 500, "ftol": 1e-12},
        )
        assert float(weights.sum()) == pytest.approx(1)
        assert float(weights.min()) >= 0
        assert float((weights @ members - vector).square().sum()) <= slow.fun + 1e-5
    inside = members[:3].mean(0)
    assert float((_mixture(inside, members) @ members - inside).norm()) < 1e-4


def test_simplex__says_what_is_left_over(encoder: cocoax.Encoder) -> None:
    picture, members = images(1, seed=3)[0], images(8, seed=5)
    found = cocoax.examples(encoder, picture, members, "simplex")
    own, corpus = encoder.represent([picture])[0].double(), encoder.represent(members).double()
    left = float((own - found.values @ corpus).norm())
    assert f"{left:.3g}." in str(found)
    inside = cocoax.examples(encoder, members[2], members, "simplex")
    assert inside.top(1)[0] == ("image 3", pytest.approx(1, abs=1e-5))
    far = cocoax.examples(encoder, 5 * torch.ones(3, 16, 16), members, "simplex")
    assert "outside of what the corpus spans" in str(far)


def test_neighbours__are_the_closest(encoder: cocoax.Encoder) -> None:
    picture, members = images(1, seed=3)[0], images(8, seed=5)
    found = cocoax.examples(encoder, picture, members, "neighbours")
    distances = [float((encoder.represent([picture]) - encoder.represent([member])).norm()) for member in members]
    np.testing.assert_allclose(-found.values.numpy(), distances, rtol=1e-5)


def test_examples__of_a_reference(encoder: cocoax.Encoder) -> None:
    picture, members = images(1, seed=3)[0], images(8, seed=5)
    reference = encoder.reference(members, name="corpus")
    found = cocoax.examples(encoder, picture, reference, "simplex")
    torch.testing.assert_close(found.values, cocoax.examples(encoder, picture, members, "simplex").values)
    assert found.names[0] == "corpus 1"
    assert found.plot() is not None
    with pytest.raises(ValueError, match="This needs the members themselves"):
        cocoax.examples(encoder, picture, reference, "influence")


@pytest.mark.parametrize("method", ["contribution", "simplex", "neighbours", "influence"])
def test_examples__of_texts_and_rows(method: str, tmp_path: Path) -> None:
    texts = load_hf_text(str(save_bert(tmp_path / "bert")))
    found = cocoax.examples(texts, "the red car", TEXTS, method)
    assert found.names == tuple(TEXTS)
    described = found.to_dict()
    assert [member["name"] for member in described["members"]] == TEXTS
    assert set(described["parts"]) == ({"the", "red", "car"} if method == "contribution" else set())
    rows, row, others, _ = table()
    assert len(cocoax.examples(rows, row, others, method)) == 20


def test_examples__table_and_views_are_in_the_order_of_importance(encoder: cocoax.Encoder) -> None:
    found = cocoax.examples(encoder, images(1, seed=3)[0], images(6, seed=5), samples=20)
    rows = found.table().rows
    assert [row[1] for row in rows] == sorted(found.values.tolist(), reverse=True)
    assert [(row[0], row[1]) for row in rows] == found.top(6)
    gallery, bars, parts = found.views()
    assert len(gallery.tiles) == 1 + 5  # type: ignore[attr-defined]
    assert len(bars.names) == 6  # type: ignore[attr-defined]
    assert len(parts.rows) == len(found.part_names)  # type: ignore[attr-defined]
    assert repr(found).startswith("Examples(contribution of 6 members")


def test_examples__mistakes(encoder: cocoax.Encoder) -> None:
    picture, members = images(1, seed=3)[0], images(4, seed=5)
    with pytest.raises(ValueError, match="'method' parameter must be one of contribution, simplex, neighbours"):
        cocoax.examples(encoder, picture, members, "shapley")
    with pytest.raises(ValueError, match="nothing to rank in a corpus of 1; pass at least two"):
        cocoax.examples(encoder, picture, members[:1])
    other = cocoax.Encoder(SmallNet(seed=1).eval(), name="other")
    with pytest.raises(ValueError, match="is of another encoder"):
        cocoax.examples(encoder, picture, other.reference(members))
    with pytest.raises(TypeError, match="Give similarity, seed to the method itself"):
        cocoax.examples(encoder, picture, members, Neighbours(), similarity="dot", seed=1)
    assert set(METHODS) == {"contribution", "simplex", "neighbours", "tracin", "influence"}


def test_examples__all_equal(encoder: cocoax.Encoder) -> None:
    picture = images(1, seed=3)[0]
    members = picture[None].repeat(4, 1, 1, 1)
    for method in ("contribution", "simplex", "neighbours"):
        found = cocoax.examples(encoder, picture, members, method)
        assert torch.isfinite(found.values).all()
    assert float(cocoax.examples(encoder, picture, members, "simplex").values.sum()) == pytest.approx(1)

"""Targets: the propositions of the paper's appendix, the algebra, scoring, and targets as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import nn

import cocoax
from cocoax import (
    Reference,
    Target,
    contrastive_corpus_similarity,
    contrastive_similarity,
    corpus_similarity,
    representation_similarity,
    similarity_to,
)
from cocoax.similarity import Cosine, Rbf, Similarity
from cocoax.targets import score_all
from tests.scoring import (
    SIMILARITIES,
    TIGHT,
    draw,
    every_kernel,
    every_similarity,
    property_test,
    reference,
    seeds,
    slow_score,
    small,
    weights,
)
from tests.similarities import Signs

# --- the algebra ------------------------------------------------------------------------------------------------------


@every_similarity
@given(seed=seeds, u=weights, v=weights, w=weights)
@property_test
def test_algebra__is_linear_in_the_scores(similarity: Similarity, seed: int, u: float, v: float, w: float) -> None:
    z, samples = draw(seed, 3, 4), [draw(seed + 1 + n, n + 1, 4) for n in range(3)]
    a, b, c = (similarity_to(Reference.from_representations(part), similarity) for part in samples)
    expected = slow_score(similarity, z, list(zip((u, v, w), samples, strict=True)))
    for target in (u * a + v * b + w * c, a * u + (b * v + c * w), -(u * -a - v * b) + w * c, -w * -c - (-v * b - a * u)):
        np.testing.assert_allclose(target.score(z).numpy(), expected, **TIGHT)


def test_algebra__weights_of_one_reference_add_up() -> None:
    cats, dogs = reference(0, name="cats"), reference(1, name="dogs")
    target = similarity_to(cats) - similarity_to(dogs) + 2 * similarity_to(cats)
    assert dict(target.weights) == {cats: 3.0, dogs: -1.0}
    own = representation_similarity() + representation_similarity()
    assert dict(own.weights) == {None: 2.0}


def test_algebra__difference_with_itself_is_nothing() -> None:
    target = similarity_to(reference(0)) - similarity_to(reference(0))
    same = similarity_to(cats := reference(1)) - similarity_to(cats)
    np.testing.assert_allclose(target.score(draw(2, 3, 3)).numpy(), np.zeros(3), atol=1e-14)
    assert same.score(draw(2, 3, 3)).tolist() == [0.0, 0.0, 0.0]
    assert same.name == "nothing"


def test_algebra__leaves_its_operands_alone() -> None:
    cats, dogs = reference(0), reference(1)
    a, b = similarity_to(cats), similarity_to(dogs)
    _ = (a + b, a - b, 3 * a, -a, a.named("x"))
    assert dict(a.weights) == {cats: 1.0}
    assert dict(b.weights) == {dogs: 1.0}
    with pytest.raises(TypeError, match="does not support item assignment"):
        a.weights[cats] = 2.0  # type: ignore[index]


def test_algebra__numpy_scalars_are_scalars() -> None:
    cats = reference(0)
    halves: list[Any] = [np.float64(0.5), np.float32(0.5)]
    for half in halves:
        for target in (half * similarity_to(cats), similarity_to(cats) * half):
            assert isinstance(target, Target)
            assert dict(target.weights) == {cats: 0.5}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda target: target + 1,
        lambda target: target - 1,
        lambda target: 1 - target,
        lambda target: target * target,
        lambda target: target * "2",
        lambda target: target + reference(0),
    ],
    ids=["+ 1", "- 1", "1 -", "target * target", "* text", "+ reference"],
)
def test_algebra__with_something_else_is_a_type_error(wrong: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match=r"unsupported operand|can't multiply"):
        wrong(similarity_to(reference(0)))


@pytest.mark.parametrize(
    ("one", "other"), [("cosine", "dot"), ("cosine", "rbf"), (Rbf(0.1), Rbf(0.2)), ("rbf", "laplacian")], ids=str
)
def test_algebra__mixed_similarities_are_an_error(one: str | Similarity, other: str | Similarity) -> None:
    a, b = similarity_to(reference(0), one), similarity_to(reference(1), other)
    mixes: list[Callable[[], Target]] = [lambda: a + b, lambda: a - b, lambda: representation_similarity(one) + b]
    for mix in mixes:
        with pytest.raises(ValueError, match=r"Cannot add a target of .* to one of .*Use one similarity"):
            mix()


def test_algebra__equal_similarities_may_be_different_objects() -> None:
    a, b = similarity_to(reference(0), Rbf(0.3)), similarity_to(reference(1), Rbf(0.3))
    expected = a.score(draw(2, 3, 3)) - b.score(draw(2, 3, 3))
    np.testing.assert_allclose((a - b).score(draw(2, 3, 3)).numpy(), expected.numpy(), **TIGHT)


# --- names ------------------------------------------------------------------------------------------------------------


def test_name__asks_the_question_in_words() -> None:
    cats, dogs, cups = (similarity_to(reference(seed, name=name)) for seed, name in enumerate(["cats", "dogs", "cups"]))
    assert cats.name == "cats"
    assert (cats - dogs).name == "cats rather than dogs"
    assert (0.5 * cats + 0.25 * dogs - cups).name == "0.5·cats + 0.25·dogs rather than cups"
    assert (cats - 2 * dogs - cups).name == "cats rather than 2·dogs + cups"
    assert (cats * (1 / 3)).name == "0.333·cats"
    assert (-cats).name == "unlike cats"
    assert (0 * cats).name == "nothing"
    assert (cats + 0 * dogs).name == "cats"
    assert representation_similarity().name == "itself"
    assert (representation_similarity() - cats).name == "itself rather than cats"


def test_named__is_the_same_target_under_another_name() -> None:
    target = contrastive_corpus_similarity(reference(0), reference(1), "dot")
    named = target.named("what matters")
    assert named.name == "what matters"
    assert named.similarity == target.similarity
    assert named.weights == target.weights
    assert "what matters" in repr(named)
    assert (2 * named).name != "what matters"  # another target, so another name


def test_repr__shows_name_and_similarity() -> None:
    assert repr(similarity_to(reference(0, name="cats"), Rbf(0.3))) == "Target('cats', Rbf(gamma=0.3))"


# --- the named targets ------------------------------------------------------------------------------------------------


@every_similarity
@given(seed=seeds, n=small, c=small, f=small, d=small)
@property_test
def test_named_targets__equal_their_definitions(similarity: Similarity, seed: int, n: int, c: int, f: int, d: int) -> None:
    z, own, corpus, foil = draw(seed, n, d), draw(seed + 1, 1, d), draw(seed + 2, c, d), draw(seed + 3, f, d)
    corpus_reference, foil_reference = (Reference.from_representations(part) for part in (corpus, foil))
    for target, parts in [
        (representation_similarity(similarity), [(1.0, own)]),
        (contrastive_similarity(foil_reference, similarity), [(1.0, own), (-1.0, foil)]),
        (corpus_similarity(corpus_reference, similarity), [(1.0, corpus)]),
        (contrastive_corpus_similarity(corpus_reference, foil_reference, similarity), [(1.0, corpus), (-1.0, foil)]),
    ]:
        assert target.needs_explicand == (parts[0][1] is own)
        np.testing.assert_allclose(target.score(z, own[0]).numpy(), slow_score(similarity, z, parts), **TIGHT)


def test_named_targets__cosine_unless_told() -> None:
    corpus, foil = reference(0), reference(1)
    for target in (
        similarity_to(corpus),
        corpus_similarity(corpus),
        contrastive_similarity(foil),
        representation_similarity(),
        contrastive_corpus_similarity(corpus, foil),
    ):
        assert target.similarity == Cosine()


@pytest.mark.parametrize("wrong", [draw(0, 2, 3), [1.0, 2.0], "cat.jpg", None], ids=["tensor", "list", "path", "None"])
def test_named_targets__other_than_a_reference_is_a_type_error(wrong: object) -> None:
    message = rf"A target compares with a Reference; make one with encoder\.reference.* Got {type(wrong).__name__} instead"
    makes: list[Callable[[Any], Target]] = [similarity_to, corpus_similarity, contrastive_similarity]
    for make in makes:
        with pytest.raises(TypeError, match=message):
            make(wrong)
    for pair in ((wrong, reference(0)), (reference(0), wrong)):
        with pytest.raises(TypeError, match=message):
            contrastive_corpus_similarity(*pair)


def test_named_targets__unknown_similarity() -> None:
    with pytest.raises(ValueError, match="'similarity'"):
        similarity_to(reference(0), "euclid")


# --- references that do not fit ---------------------------------------------------------------------------------------


def test_space__references_of_two_spaces_are_an_error() -> None:
    here, there = (Reference.from_representations(draw(0, 2, 3), name=space, space=space) for space in ("here", "there"))
    with pytest.raises(ValueError, match="'there' lives in another representation space than reference 'here'"):
        contrastive_corpus_similarity(here, there)
    anywhere = reference(1)  # without a space it fits everywhere
    assert contrastive_corpus_similarity(here, anywhere).references == [here, anywhere]


def test_space__references_of_two_dimensions_are_an_error() -> None:
    with pytest.raises(ValueError, match="'long' has 4 dimensions but 'short' has 3"):
        contrastive_corpus_similarity(reference(0, d=3, name="short"), reference(1, d=4, name="long"))


def test_space__check_space() -> None:
    here = Reference.from_representations(draw(0, 2, 3), name="cats", space="here")
    target = similarity_to(here)
    target.check_space("here", 3)
    with pytest.raises(ValueError, match="'cats' lives in another representation space than the encoder"):
        target.check_space("there")
    with pytest.raises(ValueError, match="'cats' has 3 dimensions but the encoder's representations have 5"):
        target.check_space("here", 5)


@every_similarity
def test_space__representations_of_another_dimension_are_an_error(similarity: Similarity) -> None:
    target = similarity_to(reference(0, d=3, name="cats"), similarity)
    with pytest.raises(ValueError, match="'cats' has 3 dimensions but the encoder's representations have 5"):
        target.score(draw(1, 2, 5))


@pytest.mark.parametrize("similarity", ["cosine", "rbf"])
def test_space__explicand_of_another_dimension_is_an_error(similarity: str) -> None:
    with pytest.raises(ValueError, match="The input has") as caught:
        representation_similarity(similarity).score(draw(0, 2, 3), explicand=draw(1, 5))
    assert "5" in str(caught.value)
    assert "3" in str(caught.value)


@every_kernel
def test_kernel__without_samples_is_an_error_that_says_what_to_do(similarity: Similarity) -> None:
    means = Reference.from_representations(draw(0, 3, 3), name="cats", keep_samples=False)
    message = f"'cats' keeps only means, but the {similarity.name} similarity .* keep_samples=True"
    with pytest.raises(ValueError, match=message):
        similarity_to(means, similarity)
    with pytest.raises(ValueError, match=message):
        contrastive_corpus_similarity(reference(1), means, similarity)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_linear__needs_no_samples(similarity: str) -> None:
    z = draw(0, 2, 3)
    kept, means = (Reference.from_representations(draw(1, 4, 3), keep_samples=keep) for keep in (True, False))
    assert torch.equal(similarity_to(means, similarity).score(z), similarity_to(kept, similarity).score(z))


# --- scoring ----------------------------------------------------------------------------------------------------------


def many_targets() -> list[Target]:
    a, b = reference(0, 3, 4), reference(1, 5, 4)
    targets: list[Target] = []
    for similarity in SIMILARITIES:
        targets += [
            contrastive_corpus_similarity(a, b, similarity),
            representation_similarity(similarity),
            0.5 * contrastive_similarity(b, similarity) - 2 * similarity_to(a, similarity),
        ]
    return targets[::2] + targets[1::2]  # similarities take turns, so that columns must be put back in order


def test_score_all__equals_one_by_one() -> None:
    targets, z, own = many_targets(), draw(2, 6, 4), draw(3, 4)
    found = score_all(targets, z, own)
    assert found.shape == (6, len(targets))
    for column, target in enumerate(targets):
        np.testing.assert_allclose(found[:, column].numpy(), target.score(z, own).numpy(), **TIGHT)


@every_kernel
def test_score__more_representations_than_are_scored_at_a_time(similarity: Similarity) -> None:
    z, samples = draw(0, 4100, 2), draw(1, 3, 2)
    found = similarity_to(Reference.from_representations(samples), similarity).score(z)
    np.testing.assert_allclose(found.numpy(), slow_score(similarity, z, [(1, samples)]), **TIGHT)


@every_similarity
def test_score__keeps_dtype(similarity: Similarity) -> None:
    z = draw(0, 3, 4)
    target = contrastive_corpus_similarity(reference(1, d=4), reference(2, d=4), similarity)
    single = target.score(z.float())
    assert single.dtype == torch.float32
    assert target.score(z).dtype == torch.float64
    # single precision, of scores made of terms up to about a hundred (polynomial)
    np.testing.assert_allclose(single.numpy(), target.score(z).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(3,), (1, 2, 3)], ids=str)
def test_score__wrong_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"must have shape \[n, d\]\. Got \["):
        similarity_to(reference(0)).score(torch.ones(shape))


@pytest.mark.parametrize("similarity", [similarity for similarity in SIMILARITIES if similarity != Cosine()], ids=str)
def test_score__zero_representation_is_fine_otherwise(similarity: Similarity) -> None:
    z, samples = torch.zeros(1, 3, dtype=torch.float64), draw(1, 4, 3)
    found = similarity_to(Reference.from_representations(samples), similarity).score(z)
    np.testing.assert_allclose(found.numpy(), slow_score(similarity, z, [(1, samples)]), **TIGHT)


@every_similarity
def test_score__without_the_explicand_it_needs(similarity: Similarity) -> None:
    for target in (representation_similarity(similarity), contrastive_similarity(reference(0, name="cats"), similarity)):
        with pytest.raises(ValueError, match=r"The target 'itself.*' compares with the input; pass explicand="):
            target.score(draw(1, 2, 3))


@every_similarity
def test_score__gradcheck(similarity: Similarity) -> None:
    own = draw(0, 3)
    target = contrastive_corpus_similarity(reference(1), reference(2), similarity) + 0.5 * representation_similarity(
        similarity
    )
    assert torch.autograd.gradcheck(lambda z: target.score(z, own), (draw(3, 4, 3).requires_grad_(),))


def test_score_all__gradient_equals_that_of_each_target() -> None:
    targets, own = many_targets(), draw(3, 4)
    z = draw(2, 2, 4).requires_grad_()
    scores = score_all(targets, z, own)
    for column, target in enumerate(targets):
        (found,) = torch.autograd.grad(scores[:, column].sum(), z, retain_graph=True)
        (expected,) = torch.autograd.grad(target.score(z, own).sum(), z)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), **TIGHT)


def test_score__no_gradient_reaches_the_explicand() -> None:
    """The explicand is what everything is compared with, a constant: else the label-free gradient would be doubled."""
    own = draw(0, 3).requires_grad_()
    z = own.reshape(1, 3)
    (gradient,) = torch.autograd.grad(representation_similarity("dot").score(z, own).sum(), own)
    np.testing.assert_allclose(gradient.numpy(), own.detach().numpy(), **TIGHT)  # 2 * own if it did


def test_linear__similarity_of_your_own_needs_samples_at_once() -> None:
    few = Reference.from_representations(draw(0, 4, 3), name="few", keep_samples=False)
    with pytest.raises(ValueError, match=r"Reference 'few' keeps only means, but the signs similarity compares with every"):
        cocoax.similarity_to(few, Signs())
    kept = Reference.from_representations(draw(0, 4, 3), name="kept")
    z = draw(1, 5, 3)
    expected = (torch.tanh(3 * z) @ torch.tanh(3 * draw(0, 4, 3)).T).mean(1)
    torch.testing.assert_close(cocoax.similarity_to(kept, Signs()).score(z), expected)


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -float("inf"), "2", None])
def test_target__weights_are_finite_numbers(weight: Any) -> None:
    reference = Reference.from_representations(torch.eye(3), name="axes")
    with pytest.raises(ValueError, match="The weight of 'axes' in a target must be a finite number"):
        Target({reference: weight})
    with pytest.raises((ValueError, TypeError)):
        weight * similarity_to(reference)


def test_class_score__a_head_in_training_mode_is_asked_as_in_use_and_left_alone(net: nn.Module) -> None:
    with torch.random.fork_rng():
        head = nn.Sequential(nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    encoder = cocoax.Encoder(net, head=head)
    before = {name: value.clone() for name, value in head.state_dict().items()}
    target = cocoax.targets.class_score(encoder, 1)
    points = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(target.score(points), target.score(points))
    assert head.training
    assert all(torch.equal(value, before[name]) for name, value in head.state_dict().items())

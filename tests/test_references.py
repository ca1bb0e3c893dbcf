"""References: means, merging, files, and how large a foil must be."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from torch import Tensor

import cocoax
from cocoax.references import Reference, check_same_space, foil_size
from cocoax.similarity import Cosine, Dot, LinearSimilarity
from tests.conftest import images
from tests.encoders.streams import assert_same, draw, flat_encoder, slow_means

property_test = settings(
    max_examples=25, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
seeds = st.integers(0, 2**31 - 1)


# --- what people hold --------------------------------------------------------------------------------------------------


def test_from_representations__pieces_of_a_memory_map_are_the_whole(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(9000, 3)).astype(np.float32)  # three pieces, the last of them shorter
    np.save(tmp_path / "rows.npy", rows)
    weights = np.random.default_rng(1).random(9000)
    mapped = Reference.from_representations(np.load(tmp_path / "rows.npy", mmap_mode="r"), weights=weights)
    wide, unit = rows.astype(np.float64), rows / np.sqrt((rows.astype(np.float64) ** 2).sum(1, keepdims=True))
    np.testing.assert_allclose(mapped.mean.numpy(), np.average(wide, 0, weights), rtol=1e-9)
    np.testing.assert_allclose(mapped.mean_unit.numpy(), np.average(unit, 0, weights), rtol=1e-6)
    assert mapped.samples is not None
    assert np.array_equal(mapped.samples.numpy(), rows)


@pytest.mark.parametrize("weights", [[0, 0, 0], [1, -1, 2], [1, np.nan, 1], [1, np.inf, 1], [1, 1]], ids=str)
def test_weights__that_cannot_be_counted_by(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weight"):
        Reference.from_representations(draw(0, 3, 2), weights=weights)


def test_selection__of_nothing() -> None:
    reference = Reference.from_representations(draw(0, 3, 2), name="cats")
    for empty in (np.zeros(3, bool), slice(3, 3), []):
        with pytest.raises(ValueError, match="Nothing of 'cats' was chosen; choose at least one of its 3 samples"):
            reference[empty]


def test_selection__without_samples() -> None:
    reference = Reference.from_representations(draw(0, 3, 2), name="cats", keep_samples=False)
    with pytest.raises(ValueError, match=r"'cats' keeps only means, but a selection compares with every sample"):
        reference.where([True, False, True])


# --- from representations ---------------------------------------------------------------------------------------------


@given(seed=seeds, n=st.integers(1, 9), d=st.integers(1, 6), keep=st.booleans())
@property_test
def test_from_representations__means_against_numpy(seed: int, n: int, d: int, keep: bool) -> None:
    representations = draw(seed, n, d)
    reference = Reference.from_representations(representations, name="a", space="s", keep_samples=keep)
    raw, unit = slow_means(representations)
    np.testing.assert_allclose(reference.mean.numpy(), raw, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(reference.mean_unit.numpy(), unit, rtol=1e-12, atol=1e-14)
    assert (reference.count, reference.dimension, reference.name, reference.space) == (n, d, "a", "s")
    if keep:
        assert reference.samples is not None
        assert torch.equal(reference.samples, representations)
    else:
        assert reference.samples is None


@pytest.mark.parametrize("shape", [(0, 3), (3,), (2, 3, 4)], ids=str)
def test_from_representations__wrong_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"must have shape \[n, d\] with n >= 1\. Got \["):
        Reference.from_representations(torch.zeros(shape))


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0])
def test_from_representations__a_row_without_a_direction_is_named(value: float) -> None:
    representations = torch.zeros(3, 2)
    representations[[0, 2]] = 1.0
    representations[1, 0] = value
    with pytest.raises(ValueError, match="The vector of row 1 is"):
        Reference.from_representations(representations)


def test_from_representations__does_not_carry_gradients() -> None:
    reference = Reference.from_representations(draw(0, 3, 2).requires_grad_())
    assert reference.samples is not None
    assert not any(tensor.requires_grad for tensor in (reference.mean, reference.mean_unit, reference.samples))


def test_from_representations__later_changes_of_the_tensor_do_not_matter() -> None:
    representations = draw(0, 4, 3)
    reference = Reference.from_representations(representations)
    before = representations.clone()
    representations.zero_()
    assert reference.samples is not None
    assert torch.equal(reference.samples, before)


def test_mean_features__of_each_linear_similarity() -> None:
    class Squares(LinearSimilarity):
        def features(self, representations: Tensor) -> Tensor:
            return representations.square()

    representations = draw(0, 5, 3)
    reference = Reference.from_representations(representations)
    raw, unit = slow_means(representations)
    np.testing.assert_allclose(reference.mean_features(Dot()).numpy(), raw, rtol=1e-12)
    np.testing.assert_allclose(reference.mean_features(Cosine()).numpy(), unit, rtol=1e-12)
    np.testing.assert_allclose(
        reference.mean_features(Squares()).numpy(), (representations.double().numpy() ** 2).mean(0), rtol=1e-12
    )
    with pytest.raises(ValueError, match=r"'few' keeps only means.*keep_samples=True"):
        Reference.from_representations(representations, name="few", keep_samples=False).mean_features(Squares())


# --- merging ----------------------------------------------------------------------------------------------------------


@given(seed=seeds, sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4), d=st.integers(1, 4))
@property_test
def test_merge__weighs_every_input_alike(seed: int, sizes: list[int], d: int) -> None:
    everything = draw(seed, sum(sizes), d)
    parts = [Reference.from_representations(part, name=f"part {n}") for n, part in enumerate(torch.split(everything, sizes))]
    merged = parts[0].merge(*parts[1:], name="all")
    raw, unit = slow_means(everything)
    np.testing.assert_allclose(merged.mean.numpy(), raw, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(merged.mean_unit.numpy(), unit, rtol=1e-12, atol=1e-14)
    assert merged.samples is not None
    assert torch.equal(merged.samples, everything)
    assert (merged.count, merged.name) == (sum(sizes), "all")


def test_merge__keeps_samples_only_if_every_part_did() -> None:
    kept = Reference.from_representations(draw(0, 3, 2))
    means = Reference.from_representations(draw(1, 2, 2), keep_samples=False)
    assert kept.merge(means).samples is None
    assert means.merge(kept).samples is None
    assert kept.merge(means).count == 5


def test_merge__names_and_spaces() -> None:
    cats, dogs, more = (
        Reference.from_representations(draw(seed, 2, 3), name=name, space=space)
        for seed, (name, space) in enumerate([("cats", None), ("dogs", "s"), ("cats", "s")])
    )
    merged = cats.merge(dogs, more)
    assert merged.name == "cats and dogs"
    assert merged.space == "s"


def test_merge__collects_what_was_skipped() -> None:
    encoder = flat_encoder()
    good, bad = torch.ones(1, 2, 2), torch.zeros(1, 2, 2)
    with pytest.warns(UserWarning, match="skipped"):
        parts = [encoder.reference([good, bad, good], on_error="skip"), encoder.reference([bad, good], on_error="skip")]
    assert [index for index, _ in parts[0].merge(parts[1]).skipped] == [1, 0]


def test_merge__other_space_or_dimension_is_an_error() -> None:
    here = Reference.from_representations(draw(0, 2, 3), name="here", space="s")
    there = Reference.from_representations(draw(1, 2, 3), name="there", space="t")
    longer = Reference.from_representations(draw(2, 2, 4), name="longer")
    with pytest.raises(ValueError, match="'there' lives in another representation space than reference 'here'"):
        here.merge(there)
    with pytest.raises(ValueError, match="'longer' has 4 dimensions but 'here' has 3"):
        here.merge(longer)


def test_check_same_space__names_the_owner() -> None:
    reference = Reference.from_representations(draw(0, 2, 3), name="cats", space="s")
    anywhere = Reference.from_representations(draw(0, 2, 3), name="anywhere")
    check_same_space([reference, anywhere], "s")
    with pytest.raises(ValueError, match=r"'cats' lives in another representation space than the encoder.*Encode it again"):
        check_same_space([anywhere, reference], "t")


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("space", ["s", None])
def test_save__round_trip(tmp_path: Path, keep: bool, space: str | None) -> None:
    reference = Reference.from_representations(draw(0, 4, 3), name="größer\n猫", space=space, keep_samples=keep)
    path = reference.save(tmp_path / "new folder" / "reference.safetensors")
    assert path == tmp_path / "new folder" / "reference.safetensors"
    loaded = Reference.load(path)
    assert_same(loaded, reference)
    assert loaded.name == reference.name
    assert [file.name for file in path.parent.iterdir()] == ["reference.safetensors"]  # no temporary file is left


def test_save__round_trip_of_what_was_skipped(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="skipped"):
        reference = flat_encoder().reference([torch.zeros(1, 2, 2), torch.ones(1, 2, 2)], on_error="skip")
    loaded = Reference.load(reference.save(tmp_path / "reference.safetensors"))
    assert_same(loaded, reference)
    assert len(loaded.skipped) == 1


def test_save__loaded_reference_scores_the_same(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    reference = encoder.reference(images(5))
    z = draw(0, 3, 8)
    loaded = Reference.load(reference.save(tmp_path / "reference.safetensors"))
    assert torch.equal(cocoax.similarity_to(loaded).score(z), cocoax.similarity_to(reference).score(z))


# --- how large a foil must be: the paper's sample-size proposition ----------------------------------------------------


def test_foil_size__of_the_paper() -> None:
    assert foil_size(0.05, 0.01, nonnegative=True) == 1060
    assert foil_size(0.05, 0.01) == 4239


probabilities = st.floats(0.001, 0.999)
tolerances = st.floats(0.02, 0.9)


@given(epsilon=tolerances, delta=probabilities, nonnegative=st.booleans())
@property_test
def test_foil_size__is_the_smallest_that_satisfies_the_bound(epsilon: float, delta: float, nonnegative: bool) -> None:
    def bound(m: int) -> float:
        """Hoeffding: m similarities within an interval of this width, their mean further than epsilon away."""
        width = 1 if nonnegative else 2
        return 2 * math.exp(-2 * m * epsilon**2 / width**2)

    m = foil_size(epsilon, delta, nonnegative)
    assert bound(m) <= delta * (1 + 1e-9)
    assert bound(m - 1) > delta * (1 - 1e-9)


@given(epsilon=tolerances, delta=probabilities, p=probabilities, nonnegative=st.booleans())
@property_test
def test_foil_size__bounds_the_exact_probability(epsilon: float, delta: float, p: float, nonnegative: bool) -> None:
    """For similarities at the ends of their interval, the worst case, the number of large ones is binomial."""
    m = foil_size(epsilon, delta, nonnegative)
    low, high = (0, 1) if nonnegative else (-1, 1)
    large = np.arange(m + 1)
    means = low + (high - low) * large / m
    far = np.abs(means - (low + (high - low) * p)) >= epsilon
    assert binom.pmf(large, m, p)[far].sum() <= delta


@pytest.mark.parametrize("epsilon", [0.0, -0.1, math.nan, 1e300, 1e-300])
def test_foil_size__bad_epsilon(epsilon: float) -> None:
    with pytest.raises(ValueError, match="'epsilon'"):
        foil_size(epsilon, 0.1)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_foil_size__bad_delta(delta: float) -> None:
    with pytest.raises(ValueError, match=f"'delta' parameter must lie between 0 and 1. Got {delta} instead"):
        foil_size(0.1, delta)

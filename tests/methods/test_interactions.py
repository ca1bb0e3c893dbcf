"""Interactions: against the whole game of pairs, for every kind of pair; errors, names, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.text import Text
from PIL import Image
from torch import Tensor

import cocoax
from cocoax import TextEncoder
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.masking import GridMasks
from cocoax.masking.control_variates import KernelControls, RidgeControls
from cocoax.results.interactions import NOTHING
from tests.conftest import SmallNet, images
from tests.sounds import hum, listener
from tests.tiny import save_bert
from tests.towers import Spaces, Words, picture

A = "The violinist parked her big red car behind"
B = "a cat behind the big red house dog"
ALL = cocoax.Rise(samples=256)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    return load_hf_text(str(save_bert(tmp_path_factory.mktemp("tiny"))))


@pytest.fixture(scope="module")
def runs(text: TextEncoder) -> tuple[cocoax.Run, cocoax.Run]:
    """Runs of all subsets of eight words each."""
    first, second = ALL.run(text, [A, B])
    assert len(first) == len(second) == 256
    return first, second


def features(run: cocoax.Run, similarity: str) -> Tensor:
    representations = run.representations.double()
    return torch.nn.functional.normalize(representations, dim=1) if similarity == "cosine" else representations


def subset(run: cocoax.Run, samples: int, seed: int, keep: float = 0.5) -> cocoax.Run:
    """Return what a run of so many samples would be, from the run of all subsets."""
    masks = cocoax.masking.BitMasks.draw(8, keep, samples, seed)
    method = replace(run.method, samples=samples, seed=seed, keep=keep)  # type: ignore[call-arg]
    places = run.masks.places(masks)  # type: ignore[attr-defined]
    return replace(run, method=method, masks=masks, representations=run.representations[places])


# --- what they mean ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_values__coefficients_of_the_whole_game(similarity: str, runs: tuple[cocoax.Run, cocoax.Run]) -> None:
    """All 2^16 pairs of texts: least squares on s_i, t_j and s_i t_j."""
    first, second = runs
    s, t = (run.masks.full(slice(None)).double() for run in runs)
    scores = features(first, similarity) @ features(second, similarity).T  # [256, 256]
    ones = torch.ones(256, 1, dtype=torch.float64)
    design_a, design_b = torch.cat([ones, s], 1), torch.cat([ones, t], 1)
    design = torch.einsum("ai,bj->abij", design_a, design_b).reshape(2**16, 81)
    coefficients = torch.linalg.solve(design.T @ design, design.T @ scores.flatten()).view(9, 9)

    answer = cocoax.interactions(first, second, similarity)

    torch.testing.assert_close(answer.values.double(), coefficients[1:, 1:], rtol=0, atol=1e-6 * float(scores.abs().max()))
    assert answer.standard_error is not None
    assert not bool(answer.standard_error.any())
    assert answer.values.shape == (8, 8)


def test_values__mean_of_the_mixed_difference(runs: tuple[cocoax.Run, cocoax.Run]) -> None:
    """By the definition: s(both) - s(i alone) - s(j alone) + s(neither), the mean over everything else."""
    first, second = runs
    places = [{tuple(row): number for number, row in enumerate(run.masks.tensors["bits"].tolist())} for run in runs]
    scores = features(first, "cosine") @ features(second, "cosine").T
    i, j = 2, 5
    total = []
    for a, b in product(product((0, 1), repeat=7), product((0, 1), repeat=7)):
        with_i, without_i = (places[0][(*a[:i], bit, *a[i:])] for bit in (1, 0))
        with_j, without_j = (places[1][(*b[:j], bit, *b[j:])] for bit in (1, 0))
        mixed = scores[with_i, with_j] - scores[with_i, without_j] - scores[without_i, with_j] + scores[without_i, without_j]
        total.append(float(mixed))
    assert float(cocoax.interactions(first, second).values[i, j]) == pytest.approx(np.mean(total), abs=1e-6)


@pytest.mark.parametrize("keep", [0.3, 0.7])
def test_values__other_chances_of_keeping(keep: float, runs: tuple[cocoax.Run, cocoax.Run]) -> None:
    """E over subsets that keep each word with chance p, of each side's own p: against weighted enumeration."""
    fields = []
    for run, p in zip(runs, (keep, 0.6), strict=True):
        bits = run.masks.full(slice(None)).double()
        chances = (p**bits * (1 - p) ** (1 - bits)).prod(1, keepdim=True)
        vectors = features(run, "cosine")
        kept, removed = ((chances * which).T @ vectors / share for which, share in ((bits, p), (1 - bits, 1 - p)))
        fields.append(kept - removed)
    expected = fields[0] @ fields[1].T
    answers = [
        cocoax.interactions(subset(runs[0], 400, seed, keep), subset(runs[1], 400, 1000 + seed, 0.6)) for seed in range(20)
    ]
    values = torch.stack([answer.values.double() for answer in answers])
    errors = torch.stack([answer.standard_error for answer in answers])  # type: ignore[misc]
    z = (values.mean(0) - expected) / (errors.double().square().mean(0) / 20).sqrt()
    assert float(z.abs().max()) < 4.5
    assert 0.9 < float(((values - expected).abs() < 1.96 * errors).double().mean()) < 0.99


def test_values__kernel_shap_products_of_shapley_values(text: TextEncoder) -> None:
    first, second = (cocoax.KernelShap(samples=254).run(text, words) for words in (A, B))
    answer = cocoax.interactions(first, second)
    corners = features(replace(first, representations=first.anchors), "cosine") @ (
        features(replace(second, representations=second.anchors), "cosine").T
    )
    contrast = corners[0, 0] - corners[0, 1] - corners[1, 0] + corners[1, 1]
    assert float(answer.values.sum()) == pytest.approx(float(contrast), abs=1e-5)
    assert answer.score == pytest.approx(float(corners[0, 0]), abs=1e-6)
    fields = [run.field().values.double() for run in (first, second)]  # Shapley values of every dimension
    torch.testing.assert_close(answer.values.double(), fields[0] @ fields[1].T, rtol=0, atol=1e-6)
    assert answer.standard_error is not None
    assert not bool(answer.standard_error.any())


def test_values__occlusion_is_the_mixed_difference_at_the_whole(
    text: TextEncoder, runs: tuple[cocoax.Run, cocoax.Run]
) -> None:
    answer = cocoax.interactions(*(cocoax.Occlusion().run(text, words) for words in (A, B)))
    whole = torch.ones(8, dtype=torch.uint8)
    vectors = []
    for run in runs:
        bits = torch.stack([whole, *(whole - row for row in torch.eye(8, dtype=torch.uint8))])
        places = run.masks.places(cocoax.masking.BitMasks(bits, 0.5))  # type: ignore[attr-defined]
        chosen = features(run, "cosine")[places]
        vectors.append(chosen[:1] - chosen[1:])
    torch.testing.assert_close(answer.values.double(), vectors[0] @ vectors[1].T, rtol=0, atol=1e-5)
    assert answer.standard_error is None
    assert answer.top(1)[0][3] is None


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("apart", [0, 1000], ids=["same masks", "independent masks"])
def test_standard_error__covers(apart: int, runs: tuple[cocoax.Run, cocoax.Run]) -> None:
    """Also where both sides have the same masks, whose errors go together."""
    truth = cocoax.interactions(*runs).values.double()
    seeds = 150
    answers = [cocoax.interactions(subset(runs[0], 100, seed), subset(runs[1], 100, seed + apart)) for seed in range(seeds)]
    values = torch.stack([answer.values.double() for answer in answers])
    errors = torch.stack([answer.standard_error for answer in answers]).double()  # type: ignore[misc]
    assert 0.93 < float(((values - truth).abs() < 1.96 * errors).double().mean()) < 0.975
    z = (values.mean(0) - truth) / (values.std(0) / seeds**0.5)
    assert float(z.abs().max()) < 4.5
    assert 0.9 < float((errors.square().mean() / (values - truth).square().mean()).sqrt()) < 1.2


@pytest.mark.parametrize("apart", [0, 1000], ids=["same coalitions", "independent coalitions"])
def test_standard_error__kernel_shap_covers(apart: int, text: TextEncoder) -> None:
    truth = cocoax.interactions(*(cocoax.KernelShap(samples=254).run(text, words) for words in (A, B))).values
    inside = []
    for seed in range(40):
        pair = [cocoax.KernelShap(samples=90, seed=seed + own).run(text, words) for own, words in ((0, A), (apart, B))]
        answer = cocoax.interactions(*pair)
        assert answer.standard_error is not None
        inside.append(((answer.values - truth).abs() < 1.96 * answer.standard_error).double().mean())
    assert 0.88 < float(torch.stack(inside).mean()) < 0.995


def test_errors_of_sums__kernel_shap_covers_all_of_each_size(text: TextEncoder) -> None:
    """What is known of all features together has no error, and sums of some, however many, are covered alike."""
    first, second = (cocoax.KernelShap(samples=254).run(text, words) for words in (A, B))
    truth = cocoax.interactions(first, second).matrix
    answers = [cocoax.interactions(first, cocoax.KernelShap(samples=90, seed=seed).run(text, B)) for seed in range(25)]
    covered = {}
    for size in (1, 3, 5, 7):
        chosen = [sum(torch.eye(8, dtype=torch.float64)[list(some)]) for some in combinations(range(8), size)]
        weights = torch.stack(chosen, dim=1)  # type: ignore[arg-type]
        inside = [
            ((answer.matrix - truth).double() @ weights).abs() < 1.96 * answer.errors_of_sums(weights, "b")  # type: ignore[operator]
            for answer in answers
        ]
        covered[size] = float(torch.stack(inside).double().mean())
    assert all(0.91 < share < 0.975 for share in covered.values()), covered
    everything = answers[0].errors_of_sums(torch.ones(8, 1, dtype=torch.float64), "b")
    assert everything is not None
    assert float(everything.max()) < 1e-6 * float(answers[0].errors_of_sums(weights, "b").max())  # type: ignore[union-attr]


def regions_and_words(text: TextEncoder) -> cocoax.Encoder:
    return cocoax.Encoder(SmallNet(dimension=16).eval(), cocoax.ImagePreprocess(resize=18, crop=16), text=text)


@pytest.mark.parametrize("apart", [0, 1000], ids=["same masks", "independent masks"])
def test_standard_error__regions_and_regions_cover(apart: int, encoder: cocoax.Encoder) -> None:
    """Against a long run: of pairs of cells, of a block of cells, and of a cell rather than its neighbour."""

    def found(samples: int, *seeds: int) -> cocoax.Interactions:
        methods = [cocoax.Rise(samples=samples, grid=3, seed=seed) for seed in seeds]
        sides = zip(methods, images(2), strict=True)
        return cocoax.interactions(*(method.run(encoder, image, progress=False) for method, image in sides))

    asked: list[tuple[Any, list[Any]]] = [([(0, 0), (0, 1), (1, 0), (1, 1)], []), ((1, 1), [(1, 2)])]
    truth = found(6000, 91, 92)
    inside = np.array([_covered(found(300, seed, seed + apart), truth, asked) for seed in range(40)])
    assert ((inside.mean(0) > 0.92) & (inside.mean(0) < 0.985)).all(), inside.mean(0)


def test_standard_error__regions_and_words_cover(text: TextEncoder) -> None:
    towers = regions_and_words(text)

    def found(samples: int, words: int, seed: int) -> cocoax.Interactions:
        photo = cocoax.Rise(samples=samples, grid=3, seed=seed).run(towers, picture(), progress=False)
        return cocoax.interactions(photo, cocoax.Rise(samples=words, seed=seed).run(towers.text, A, progress=False))

    truth = found(6000, 256, 91)  # all subsets of the words
    inside = np.array([_covered(found(300, 150, seed), truth, [([1, 6], []), (1, [0, 3])]) for seed in range(40)])
    assert ((inside.mean(0) > 0.92) & (inside.mean(0) < 0.985)).all(), inside.mean(0)


def _covered(found: cocoax.Interactions, truth: cocoax.Interactions, asked: list[tuple[Any, list[Any]]]) -> list[float]:
    """Return which share of true values lies within 1.96 errors: of pairs, and of each of some sums."""
    maps = [[each.given(part, rather_than=others) for part, others in asked] for each in (found, truth)]
    return [
        float(((one.values - other.values).abs() < 1.96 * one.standard_error).double().mean())
        for one, other in ((found, truth), *zip(*maps, strict=True))
    ]


# --- kinds of pairs ---------------------------------------------------------------------------------------------------


def test_interactions__regions_and_words(text: TextEncoder) -> None:
    towers = regions_and_words(text)
    photo = cocoax.Rise(samples=60, grid=4).run(towers, picture())
    words = cocoax.Rise(samples=60).run(towers.text, "the cat behind a dog")
    answer = cocoax.interactions(photo, words)
    assert answer.values.shape == (4, 4, 5)
    on_photo = answer.given("cat")
    assert on_photo.values.shape == (4, 4)
    assert on_photo.picture is not None
    on_words = answer.given((1, 2), side="a")
    assert on_words.names == ("the", "cat", "behind", "a", "dog")
    torch.testing.assert_close(on_words.values, answer.values[1, 2])
    torch.testing.assert_close(on_photo.values, answer.values[..., 1])
    assert cocoax.interactions(photo, words, grid=(2, 3)).values.shape == (2, 3, 5)
    turned = cocoax.interactions(words, photo)
    torch.testing.assert_close(turned.values, answer.values.permute(2, 0, 1))
    assert turned.a.names[1] == "cat"
    assert turned.b.names[5] == "row 2, column 2"


def test_interactions__values_and_errors_of_one_fit(text: TextEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    towers = regions_and_words(text)
    photo = cocoax.Rise(samples=40, grid=3).run(towers, picture())
    words = cocoax.Rise(samples=40).run(towers.text, B)
    fitted: list[type] = []
    for kind in (RidgeControls, KernelControls):
        monkeypatch.setattr(kind, "fit", lambda self, y, fit=kind.fit: fitted.append(type(self)) or fit(self, y))
    assert cocoax.interactions(photo, words).standard_error is not None
    assert fitted == [RidgeControls, KernelControls]


def test_interactions__segments_and_words() -> None:
    """All subsets of six segments of a sound and of three words: the mixed difference, by the definition."""
    sound, words = listener(), TextEncoder(Words().eval(), Spaces(), limit=12, name="words")
    runs = [
        replace(cocoax.Rise(samples=64).run(encoder, content), space="shared")
        for encoder, content in ((sound, hum()), (words, "a red car"))
    ]
    answer = cocoax.interactions(*runs)
    assert answer.values.shape == (6, 3)
    assert answer.a.names[0].endswith(" s")
    assert answer.b.names == ("a", "red", "car")
    vectors = [features(run, "cosine") for run in runs]
    kept = [run.masks.full(slice(None)).bool() for run in runs]
    for i, j in product(range(6), range(3)):
        one, other = (
            vector[bits[:, at]].mean(0) - vector[~bits[:, at]].mean(0)
            for vector, bits, at in zip(vectors, kept, (i, j), strict=True)
        )
        assert float(answer.values[i, j]) == pytest.approx(float(one @ other), abs=1e-6)


@pytest.mark.parametrize("method", [cocoax.Rise(samples=60, grid=4), cocoax.KernelShap(samples=60, grid=3)], ids=["r", "k"])
def test_interactions__regions_and_regions(method: Any, encoder: cocoax.Encoder) -> None:
    first, second = method.run(encoder, list(images(2)))
    answer = cocoax.interactions(first, second)
    side = 4 if isinstance(method, cocoax.Rise) else 3
    assert answer.values.shape == (side,) * 4
    assert answer.standard_error is not None
    assert answer.standard_error.shape == (side,) * 4
    if isinstance(method, cocoax.KernelShap):
        anchors = [torch.nn.functional.normalize(run.anchors.double(), dim=1) for run in (first, second)]
        contrast = (anchors[0][0] - anchors[0][1]) @ (anchors[1][0] - anchors[1][1])
        other = replace(method, seed=1).run(encoder, images(2)[1])  # other coalitions, so that nothing is corrected
        assert float(cocoax.interactions(first, other).values.sum()) == pytest.approx(float(contrast), abs=1e-5)


def test_values__rise_on_pictures_along_the_other_sides_field(encoder: cocoax.Encoder) -> None:
    """An interaction with a cell is the map, relative to neutral and over 1 - p, of that cell's vector as a target."""
    first = cocoax.Rise(samples=80, grid=4, keep=0.4).run(encoder, images(1)[0])
    second = cocoax.Rise(samples=70, grid=4, seed=1).run(encoder, images(2)[1])
    answer = cocoax.interactions(first, second, "dot")
    own, other = (run.field("dot", grid=4) for run in (first, second))
    vectors = [(field.values - field.neutral) / (1 - p) for field, p in ((own, 0.4), (other, 0.5))]
    expected = torch.einsum("ijd,kld->ijkl", *vectors)
    torch.testing.assert_close(answer.values, expected, rtol=0, atol=0.05 * float(expected.abs().max()))


def test_values__rise_on_pictures_of_a_linear_encoder() -> None:
    """By hand: of a linear encoder the effect of a cell is Cov(f(m x), m) / p(1-p), which is known."""
    sizes = [torch.randn(64, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in (0, 1)]
    encoders = [cocoax.Encoder(Linear(size), name="linear") for size in sizes]
    whole = torch.ones(1, 8, 8)
    runs, vectors = [], []
    for seed, (encoder, size) in enumerate(zip(encoders, sizes, strict=True)):
        method = cocoax.Rise(samples=400, grid=4, seed=seed, baseline=torch.zeros(1, 8, 8))
        runs.append(replace(method.run(encoder, whole, progress=False), space="one"))
        masks = method.draw((8, 8))
        assert isinstance(masks, GridMasks)
        # One shift is as likely as another, and a mask is K G Kᵀ with cells G that are kept independently.
        down, right = (torch.stack([k @ k.T for k in up]).mean(0) for up in masks.geometry.up)
        covariance = torch.einsum("ab,cd->acbd", down, right)  # of pixels, over p(1-p)
        vectors.append(covariance.view(4, 2, 4, 2, 64).mean((1, 3)).flatten(0, 1) @ size)
    expected = (vectors[0] @ vectors[1].T).view(4, 4, 4, 4)
    found = cocoax.interactions(*runs, "dot", grid=4)
    assert found.standard_error is not None
    assert float(((found.values - expected) / found.standard_error).abs().max()) < 5
    scale = float((found.values * expected).sum() / expected.square().sum())
    assert scale == pytest.approx(1, abs=0.02)


class Linear(torch.nn.Module):
    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = weights.float()

    def forward(self, pictures: Tensor) -> Tensor:
        return pictures.flatten(1) @ self.weights


# --- reading them -----------------------------------------------------------------------------------------------------


def test_top__largest_first(runs: tuple[cocoax.Run, cocoax.Run]) -> None:
    answer = cocoax.interactions(subset(runs[0], 100, 0), subset(runs[1], 100, 1))
    best = answer.top(3)
    assert len(best) == 3
    assert [value for _, _, value, _ in best] == sorted(answer.values.flatten().tolist(), reverse=True)[:3]
    first, second, value, error = best[0]
    place = answer.a.names.index(first), answer.b.names.index(second)
    assert float(answer.values[place]) == value
    assert answer.standard_error is not None
    assert float(answer.standard_error[place]) == pytest.approx(error)
    assert len(answer.top(1000)) == 64
    assert repr(answer).startswith("Interactions(8 x 8, score ")
    assert len(repr(answer)) < 100


def test_top__of_two_pictures_the_regions_that_are_most_alike(encoder: cocoax.Encoder) -> None:
    first, second = (cocoax.Rise(samples=80, grid=3, seed=seed).run(encoder, images(2)[seed]) for seed in (0, 1))
    answer = cocoax.interactions(first, second)
    vectors = []
    for run in (first, second):
        scores, anchors = features(run, "cosine"), features(replace(run, representations=run.anchors), "cosine")
        vectors.append(run.method.effects(run.method.cells(run.masks, 3), scores, anchors).values.flatten(1))
    lengths = [each.norm(dim=0).clamp(min=float(each.norm()) / 3) for each in vectors]  # of 9, at least as usual
    alike = {
        (i, j): float(vectors[0][:, i] @ vectors[1][:, j] / (lengths[0][i] * lengths[1][j]))
        for i, j in product(range(9), range(9))
    }
    expected = sorted(alike, key=lambda pair: -alike[pair])[:4]
    assert answer.strongest(4) == expected
    assert expected[0] != divmod(int(answer.matrix.argmax()), 9)


def test_links__neighbours_are_one_finding_whose_value_is_the_sum_of_its_pairs(encoder: cocoax.Encoder) -> None:
    first, second = (cocoax.Rise(samples=80, grid=3, seed=seed).run(encoder, images(2)[seed]) for seed in (0, 1))
    answer = cocoax.interactions(first, second)
    links = answer.links(5)
    assert [link.value for link in links] == sorted((link.value for link in links), key=abs, reverse=True)
    assert links[:2] == answer.links(2)
    assert links == answer.links(1000)[:5]
    every = [pair for link in answer.links(1000) for pair in product(link.a, link.b)]
    assert len(every) == len(set(every)) == 81  # each pair of features belongs to one finding
    assert [(*link.names, link.value, link.error) for link in links] == answer.top(5)
    merged = [link for link in links if len(link.a) * len(link.b) > 1]
    assert merged
    for link in links:
        block = answer.matrix[list(link.a)][:, list(link.b)]
        assert link.value == pytest.approx(float(block.sum()), rel=1e-5)
        for cells in (link.a, link.b):  # each cell touches another one of its region
            places = [divmod(cell, 3) for cell in cells]
            near = [min(abs(r - u) + abs(c - v) for u, v in places if (u, v) != (r, c)) for r, c in places if len(cells) > 1]
            assert all(distance == 1 for distance in near)
    weights = torch.zeros(9, dtype=torch.float64)
    weights[list(links[0].b)] = 1
    if len(links[0].a) == 1:
        error = answer.errors_of_sums(weights[:, None], "b")
        assert error is not None
        assert links[0].error == pytest.approx(float(error[links[0].a[0], 0]), rel=1e-4)


class Corner(torch.nn.Module):
    """Sees nothing but one corner of a picture."""

    def __init__(self) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)
        self.register_buffer("weights", torch.randn(3 * 12 * 12, 12, generator=random) / 5)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.tanh(batch[:, :, :12, :12].flatten(1) @ self.weights) + 0.2


def test_top__what_an_encoder_ignores_is_not_alike() -> None:
    """Vectors of regions that it does not see are noise, and some of them point the same way by chance."""
    encoder, found = cocoax.Encoder(Corner().eval()), []
    for seed in range(3):
        method = cocoax.Rise(samples=100, grid=7, seed=seed, baseline=cocoax.Constant(0.0))
        answer = cocoax.interactions(*(method.run(encoder, images_of(32, 5 + at) - 0.5, progress=False) for at in (0, 1)))
        found += [place for pair in answer.strongest(5) for place in pair]
    assert all(max(divmod(place, 7)) <= 3 for place in found)


def test_given__by_number_name_and_side(runs: tuple[cocoax.Run, cocoax.Run]) -> None:
    answer = cocoax.interactions(*runs)
    by_name, by_number, from_the_end = answer.given("house"), answer.given(6), answer.given(-2)
    for given in (by_name, by_number, from_the_end, answer.given(np.int64(6)), answer.given((6,))):  # type: ignore[arg-type]
        torch.testing.assert_close(given.values, answer.values[:, 6])
    assert by_name.names == tuple(A.split())
    assert by_name.metadata["target"] == "house"
    assert by_name.score == pytest.approx(float(answer.values[:, 6].sum()), abs=1e-6)
    torch.testing.assert_close(answer.given("violinist", side="a").values, answer.values[1])
    assert answer.given("violinist", side="a").names == tuple(B.split())


def test_given__rather_than_others(runs: tuple[cocoax.Run, cocoax.Run]) -> None:
    answer = cocoax.interactions(*runs)
    contrast = answer.given("house", rather_than=[0, "cat"])
    torch.testing.assert_close(contrast.values, answer.values[:, 6] - (answer.values[:, 0] + answer.values[:, 1]) / 2)
    assert contrast.name == "house rather than a / cat"
    other = answer.given(1, side="a", rather_than=[3])
    torch.testing.assert_close(other.values, answer.values[1] - answer.values[3])
    with pytest.raises(ValueError, match="cannot be contrasted with itself"):
        answer.given(6, rather_than=[-2])


def test_given__phrases_and_lists_are_added(runs: tuple[cocoax.Run, cocoax.Run]) -> None:
    answer = cocoax.interactions(*runs)
    phrase = answer.given("big red house", rather_than=["a cat", ["dog", 2]])
    own, first, second = answer.values[:, 4:7].sum(1), answer.values[:, :2].sum(1), answer.values[:, [2, 7]].sum(1)
    torch.testing.assert_close(phrase.values, own - (first + second) / 2)
    assert phrase.name == "big red house rather than a cat / behind dog"
    torch.testing.assert_close(answer.given([4, "house", 4]).values, answer.values[:, 4] + answer.values[:, 6])
    with pytest.raises(ValueError, match=r"No feature is called 'red big'"):  # words that do not follow each other
        answer.given("red big")
    with pytest.raises(ValueError, match=r"A list of features is empty; give at least one\."):
        answer.given([])


@pytest.mark.parametrize("seed", [0, 1], ids=["same masks", "independent masks"])
def test_given__errors_are_made_of_what_each_sample_does(seed: int, text: TextEncoder) -> None:
    """Sample by sample: it moves the vectors of its own side, and with them the sum over the others."""
    pair = cocoax.Rise(40).run(text, A), cocoax.Rise(40, seed=seed).run(text, B)
    answer = cocoax.interactions(*pair)
    weights = torch.zeros(8, dtype=torch.float64)
    weights[[2, 3, 0, 5]] = torch.tensor([1.0, 1.0, -0.5, -0.5], dtype=torch.float64)
    effects = []
    for run in pair:
        scores, anchors = features(run, "cosine"), features(replace(run, representations=run.anchors), "cosine")
        effects.append(run.method.effects(run.masks, scores, anchors))
    vectors = [each.values.view(16, 8) for each in effects]
    (x_a, r_a), (x_b, r_b) = ((each.x, each.r) for each in effects)
    wider = []
    for each, along in zip(effects, reversed(vectors), strict=True):
        assert each.r is not None
        wider.append(float((each.along(along)[0] / (each.r @ along)[0]).mean()))
    assert isinstance(x_a, Tensor)
    assert isinstance(x_b, Tensor)
    assert isinstance(r_a, Tensor)
    assert isinstance(r_b, Tensor)
    for side in ("b", "a"):
        told = answer.given([2, 3], side, rather_than=[0, 5]).standard_error
        assert told is not None
        for other in range(8):
            moved = []
            for n in range(40):
                if side == "b":
                    by_a = x_a[n, other] * (r_a[n] @ vectors[1] @ weights)
                    by_b = (x_b[n] @ weights) * (r_b[n] @ vectors[0][:, other])
                else:
                    by_a = (x_a[n] @ weights) * (r_a[n] @ vectors[1][:, other])
                    by_b = x_b[n, other] * (r_b[n] @ vectors[0] @ weights)
                by_a, by_b = by_a * wider[0], by_b * wider[1]
                moved += [by_a + by_b] if seed == 0 else [by_a, by_b]
            assert float(told[other]) == pytest.approx(float(torch.stack(moved).square().sum().sqrt()), rel=1e-5)
    single = answer.given(2).standard_error
    assert single is not None
    assert answer.standard_error is not None
    torch.testing.assert_close(single, answer.standard_error[:, 2])


@pytest.mark.parametrize(("feature", "rather_than"), [([4, 5, 6], []), (7, [0, 2, 4]), ([6, 7], [[0, 1], [2, 3]])])
def test_given__errors_of_sums_and_contrasts_cover(
    feature: Any, rather_than: list[Any], runs: tuple[cocoax.Run, cocoax.Run]
) -> None:
    truth = cocoax.interactions(*runs).given(feature, rather_than=rather_than).values
    inside = []
    for seed in range(60):
        found = cocoax.interactions(subset(runs[0], 60, seed), subset(runs[1], 60, seed + 5000))
        map_ = found.given(feature, rather_than=rather_than)
        assert map_.standard_error is not None
        inside.append(float(((map_.values - truth).abs() <= 1.96 * map_.standard_error).double().mean()))
    assert 0.9 <= float(np.mean(inside)) <= 0.99


def test_given__below_rounding_is_nothing(text: TextEncoder) -> None:
    """A plain white picture has no part that counts: what is left is rounding, drawn as nothing and said to be nothing."""
    towers, method = regions_and_words(text), cocoax.Rise(samples=60, grid=3)
    white, photo = (Image.new("RGB", (24, 24), "white"), picture())
    with pytest.warns(UserWarning, match="Nothing is removed"):
        blank = method.run(towers, white)
    words = cocoax.Rise(samples=60).run(towers.text, "the cat behind a dog")
    # Rounding that is there, as other machines and batches have it.
    noise = torch.randn(blank.representations.shape, generator=torch.Generator().manual_seed(0))
    blank.representations = blank.representations * (1 + 1e-7 * noise)
    answer = cocoax.interactions(blank, words)
    assert answer.values.any()
    assert answer.is_nothing
    assert answer.top(5) == []
    assert repr(answer).endswith("nothing but rounding)")
    for given in (answer.given("cat"), answer.given((1, 1), "a"), answer.given("cat", rather_than=["dog"])):
        assert given.floor > 0
        assert given.is_nothing
        assert given.remarks[0] == "No part of the input makes a difference: all there is to see is rounding."
        assert given.standard_error is not None
        assert float(2 * given.standard_error.min()) == pytest.approx(given.floor)
    beside = answer - cocoax.interactions(blank, cocoax.Rise(samples=60).run(towers.text, "a dog"))
    assert beside.is_nothing
    assert beside.given(list(range(5))).is_nothing
    other = cocoax.interactions(method.run(towers, photo), blank)  # by cosine the noise of two regions may be very alike
    assert other.top(5) == []
    for one in (answer, beside, other):
        assert NOTHING in one.html()
        for kind in (None, "matrix"):
            figure = one.plot(kind)
            written = " ".join(text.get_text() for text in figure.findobj(Text))
            assert NOTHING in written.replace("\n", " ")
    seen = cocoax.interactions(method.run(towers, photo), words)
    assert not seen.is_nothing
    torch.testing.assert_close(seen.shown, seen.matrix)


def test_given__mistakes(runs: tuple[cocoax.Run, cocoax.Run], text: TextEncoder) -> None:
    answer = cocoax.interactions(*runs)
    with pytest.raises(ValueError, match=r"No feature is called 'hause'; close are house"):
        answer.given("hause")
    with pytest.raises(ValueError, match=r"No feature is called 'ho'; close are house\.$"):  # those that begin like it
        answer.given("ho")
    with pytest.raises(ValueError, match=r"The 'count' parameter must be at least 0\. Got -1 instead"):
        answer.top(-1)
    with pytest.raises(ValueError, match=r"The 'side' parameter must be 'a' or 'b'\. Got 'c' instead"):
        answer.given(0, side="c")
    for wrong in (8, -9, (0, 0), 1.5, None):
        with pytest.raises(IndexError, match=r"A feature is a place in \[8\]\. Got"):
            answer.given(wrong)  # type: ignore[arg-type]
    twice = cocoax.interactions(runs[0], ALL.run(text, "the cat the dog"))
    with pytest.raises(ValueError, match=r"2 features are called 'the'; give one's number: \[0, 2\]"):
        twice.given("the")


def test_add_and_subtract__put_the_others_beside(runs: tuple[cocoax.Run, cocoax.Run], text: TextEncoder) -> None:
    other = ALL.run(text, "a dog")
    first, second = cocoax.interactions(*runs), cocoax.interactions(runs[0], other)
    rather = first - second
    assert rather.values.shape == (8, 10)
    torch.testing.assert_close(rather.values, torch.cat([first.values, -second.values], 1))
    assert rather.b.names[-2:] == ("a (instead)", "dog (instead)")
    assert rather.score == pytest.approx(first.score - second.score)
    # What each word of a counts for, rather than the other, is the sum over both.
    torch.testing.assert_close(rather.values.sum(1), first.values.sum(1) - second.values.sum(1))
    both = first + second
    torch.testing.assert_close(both.values[:, 8:], second.values)
    assert both.b.names[-1] == "dog"
    assert both.standard_error is not None
    for another in (cocoax.KernelShap(samples=254).run(text, A), subset(runs[0], 200, 0, 0.3)):  # other kinds of values
        with pytest.raises(ValueError, match=r"one method"):
            first - cocoax.interactions(another, other)
    with pytest.raises(ValueError, match=r"of the same input a"):
        first - cocoax.interactions(other, runs[1])
    with pytest.raises(TypeError):
        first - 1  # type: ignore[operator]


@pytest.mark.parametrize("seeds", [(0, 1000, 2000), (0, 0, 0)], ids=["independent masks", "same masks"])
def test_subtract__errors_of_sums_over_both_cover(
    seeds: tuple[int, int, int], runs: tuple[cocoax.Run, cocoax.Run], text: TextEncoder
) -> None:
    """For this document rather than that one: both halves share the errors of a."""
    other = ALL.run(text, "the dog behind a red cat house big")

    def contrast(*three: cocoax.Run) -> cocoax.Attribution:
        first, second = (cocoax.interactions(three[0], each) for each in three[1:])
        return (first - second).given(list(range(16)))

    truth = contrast(*runs, other).values
    inside = []
    for number in range(60):
        sampled = [subset(run, 80, number + seed) for run, seed in zip((*runs, other), seeds, strict=True)]
        found = contrast(*sampled)
        assert found.standard_error is not None
        inside.append(float(((found.values - truth).abs() <= 1.96 * found.standard_error).double().mean()))
    assert 0.9 <= float(np.mean(inside)) <= 0.99


# --- what is refused --------------------------------------------------------------------------------------------------


def test_interactions__different_spaces(encoder: cocoax.Encoder, runs: tuple[cocoax.Run, cocoax.Run]) -> None:
    other = cocoax.Rise(samples=20, grid=4).run(cocoax.Encoder(SmallNet(seed=3).eval(), name="other"), images(1)[0])
    mine = cocoax.Rise(samples=20, grid=4).run(encoder, images(1)[0])
    with pytest.raises(ValueError, match=r"different representation spaces: one was made by .*, the other by 'other'"):
        cocoax.interactions(mine, other)


def test_interactions__kernels_have_none(runs: tuple[cocoax.Run, cocoax.Run]) -> None:
    with pytest.raises(ValueError, match=r"a dot product, cosine or dot\. Got rbf instead"):
        cocoax.interactions(*runs, similarity="rbf")


def test_interactions__run_too_short(runs: tuple[cocoax.Run, cocoax.Run]) -> None:
    with pytest.raises(ValueError, match=r"The run has 7 samples, too few .* extend it to at least 10"):
        cocoax.interactions(subset(runs[0], 20, 0).first(7), runs[1])


def test_interactions__one_word(runs: tuple[cocoax.Run, cocoax.Run], text: TextEncoder) -> None:
    """One word is what the text is without nothing: the whole difference between the text and an empty one."""
    answer = cocoax.interactions(ALL.run(text, "dog"), runs[1])
    assert answer.values.shape == (1, 8)
    shapley = cocoax.interactions(cocoax.KernelShap().run(text, "dog"), runs[1])
    torch.testing.assert_close(answer.values, shapley.values, rtol=0, atol=1e-6)


def test_interactions__one_seed_on_pictures_of_two_sizes_is_not_biased() -> None:
    """Masks of one seed have the same cells whatever the size; what their errors have in common is taken out."""
    encoder = cocoax.Encoder(SmallNet().eval())
    first, second = images_of(24, 0), images_of(27, 1)
    truth = cocoax.interactions(
        cocoax.Rise(samples=1500, grid=3, seed=91).run(encoder, first, progress=False),
        cocoax.Rise(samples=1500, grid=3, seed=92).run(encoder, second, progress=False),
        grid=3,
    ).matrix
    errors = []
    for seed in range(25):
        method = cocoax.Rise(samples=60, grid=3, seed=seed)
        runs = [method.run(encoder, image, progress=False) for image in (first, second)]
        errors.append((cocoax.interactions(*runs, grid=3).matrix - truth).diagonal())
    together = torch.stack(errors)
    bias, spread = float(together.mean()), float(together.mean(1).std()) / len(errors) ** 0.5
    assert abs(bias) < 4 * spread


def test_interactions__one_seed_on_a_tall_and_a_wide_picture_is_one_draw() -> None:
    encoder = cocoax.Encoder(SmallNet().eval())
    wide = images_of(24, 0)[:, :18]
    runs = [
        cocoax.Rise(samples=40, grid=grid).run(encoder, picture, progress=False)
        for grid, picture in (((3, 4), wide), ((4, 3), wide.mT), ((3, 4), wide))
    ]
    assert torch.equal(runs[0].masks.bits.flatten(1), runs[1].masks.bits.flatten(1))  # type: ignore[attr-defined]
    here, there = (cocoax.interactions(runs[0], other).sampled for other in runs[1:])
    assert here is not None
    assert there is not None
    assert here[0].shared(here[1]) == there[0].shared(there[1]) > 0


def images_of(side: int, seed: int) -> torch.Tensor:
    return torch.rand(3, side, side, generator=torch.Generator().manual_seed(seed))


def test_contrast__other_pictures_are_refused() -> None:
    encoder = cocoax.Encoder(SmallNet().eval())
    runs = [cocoax.Rise(samples=40, grid=3).run(encoder, images_of(24, seed), progress=False) for seed in range(4)]
    with pytest.raises(ValueError, match="of the same input a, one method and one similarity"):
        cocoax.interactions(runs[0], runs[1]) - cocoax.interactions(runs[2], runs[3])
    with pytest.raises(ValueError, match="of the same input a, one method and one similarity"):
        cocoax.interactions(runs[0], runs[1]) - cocoax.interactions(runs[0], runs[2], "dot")

"""Insertion and deletion curves, against one input at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cocoax
from cocoax.evaluation import curves
from cocoax.evaluation.curves import Curve, features_moved, overshoot_remark
from tests.conftest import SmallNet, images


def cocoa(encoder: cocoax.Encoder) -> cocoax.Target:
    corpus, foil = encoder.reference(images(5, seed=1)), encoder.reference(images(7, seed=2))
    return cocoax.contrastive_corpus_similarity(corpus, foil)


def published_sizes(pixels: int, steps: int) -> list[int]:
    """How many pixels each step moves, as the published rule has it."""
    return [pixels // steps + (1 if step < pixels % steps else 0) for step in range(steps)]


def slow_curve(
    encoder: cocoax.Encoder, x: Tensor, values: Tensor, target: cocoax.Target, steps: int, kind: str
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return x, y and the area, pixel by pixel as the definition says, with trapezoids drawn one at a time."""
    blur = cocoax.Blur(121, 20.0)(x)
    start, end = (blur, x) if kind == "insertion" else (x, blur)
    order = sorted(range(values.numel()), key=lambda i: -float(values.reshape(-1)[i]))  # equal ones stay in raster order
    image = start.clone().reshape(len(x), -1)
    at, scores = [0.0], [float(target.score(encoder.represent([start]))[0])]
    area, done = 0.0, 0
    for size in published_sizes(values.numel(), steps):
        for pixel in order[done : done + size]:
            image[:, pixel] = end.reshape(len(x), -1)[:, pixel]
        done += size
        at.append(done / values.numel())
        scores.append(float(target.score(encoder.represent([image.reshape(x.shape)]))[0]))
        area += (at[-1] - at[-2]) * (scores[-1] + scores[-2]) / 2
    return np.array(at), np.array(scores), area


@pytest.mark.parametrize("kind", ["insertion", "deletion"])
@pytest.mark.parametrize(("steps", "levels"), [(20, 1000), (20, 3), (7, 1000), (99, 1000), (50, 2)])
def test_curve__equals_slow_version(encoder: cocoax.Encoder, kind: str, steps: int, levels: int) -> None:
    """With few levels many pixels are equal, and come in raster order."""
    x = images(1, height=11, width=9)[0]
    values = (images(1, height=11, width=9, channels=1, seed=5)[0, 0] * levels).round()
    target = cocoa(encoder)
    curve = getattr(cocoax, kind)(encoder, x, values, target, steps=steps)
    at, scores, area = slow_curve(encoder, x, values, target, steps, kind)
    np.testing.assert_allclose(curve.x.numpy(), at, rtol=1e-14)
    np.testing.assert_allclose(curve.y.numpy(), scores, atol=1e-5)
    assert curve.auc == pytest.approx(area, abs=1e-6)
    # Over the same scores the area is the same to the last digits.
    assert curve.auc == pytest.approx(float(np.trapezoid(curve.y.double().numpy(), at)), abs=1e-12)


def test_moved__first_steps_move_the_remainder() -> None:
    sizes = np.diff(features_moved(1024, 50)).tolist()
    assert sizes == [21] * 24 + [20] * 26
    for features, steps in ((1024, 50), (7, 7), (50, 7), (10, 1), (50176, 50)):
        assert np.diff(features_moved(features, steps)).tolist() == published_sizes(features, steps)


def test_curve__more_steps_than_features_takes_one_feature_a_step(encoder: cocoax.Encoder) -> None:
    explicand, target = images(1)[0], cocoax.representation_similarity()
    curve = cocoax.insertion(encoder, explicand, torch.zeros(16, 16), target, steps=100_000)
    assert len(curve.x) == 257
    with pytest.raises(ValueError, match="at most 10000000"):
        cocoax.insertion(encoder, explicand, torch.zeros(16, 16), target, steps=2**63)


def test_curve__has_51_points_by_default_and_takes_an_attribution(encoder: cocoax.Encoder) -> None:
    x = images(1)[0]
    target = cocoa(encoder)
    result = cocoax.Rise(samples=40, grid=4).explain(encoder, x, target)
    curve = cocoax.insertion(encoder, x, result, target)
    assert len(curve.x) == len(curve.y) == 51
    assert curve.y[-1] == pytest.approx(result.score, abs=1e-5)
    assert curve.y[0] == pytest.approx(result.baseline_score, abs=1e-5)


def test_curves__encode_each_distinct_image_once(encoder: cocoax.Encoder, net: SmallNet) -> None:
    x = images(1)[0]
    maps = [images(1, channels=1, seed=seed)[0, 0] for seed in range(3)]
    target = cocoa(encoder)
    measures = [target, cocoax.representation_similarity(), lambda z: z[:, 0]]
    before = net.inputs
    answers = curves(encoder, x, maps, measures, steps=10)
    assert net.inputs - before == 2 + 3 * 2 * 9
    assert [len(answer["insertion"]) for answer in answers] == [3, 3, 3]
    for values, answer in zip(maps, answers, strict=True):
        alone = cocoax.deletion(encoder, x, values, target, steps=10)
        torch.testing.assert_close(answer["deletion"][0].y, alone.y, atol=1e-5, rtol=0)
        torch.testing.assert_close(answer["deletion"][0].y[-1], answer["insertion"][0].y[0])


def test_curve__label_free_measure_compares_with_the_explicand(encoder: cocoax.Encoder) -> None:
    x = images(1)[0]
    curve = cocoax.insertion(encoder, x, torch.zeros(16, 16), cocoax.representation_similarity(), steps=4)
    assert curve.y[-1] == pytest.approx(1, abs=1e-5)


def test_curve__good_order_beats_its_opposite() -> None:
    # The score is the mean of the left half, so the left half should come first.
    encoder = cocoax.Encoder(lambda batch: batch[..., :4].mean((1, 2, 3))[:, None].expand(-1, 2), name="left half")
    x = torch.ones(1, 8, 8)
    left = torch.zeros(8, 8)
    left[:, :4] = 1

    def measure(z: Tensor) -> Tensor:
        return z[:, 0]

    good = cocoax.insertion(encoder, x, left, measure, baseline=cocoax.Constant(0.0))
    bad = cocoax.insertion(encoder, x, -left, measure, baseline=cocoax.Constant(0.0))
    assert good.auc == pytest.approx(0.75, abs=0.01)
    assert bad.auc == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attribution": torch.zeros(4, 4)}, "16 x 16"),
        ({"attribution": torch.full((16, 16), float("nan"))}, "not finite"),
        ({"steps": 0}, "at least 1"),
        ({"measures": lambda z: z}, "one value"),
        ({"measures": ["cosine"]}, "Target or a callable"),
    ],
)
def test_curve__bad_input(encoder: cocoax.Encoder, change: dict[str, object], message: str) -> None:
    arguments = {"attribution": torch.zeros(16, 16), "measures": cocoax.representation_similarity(), "steps": 5} | change
    with pytest.raises((ValueError, TypeError), match=message):
        cocoax.insertion(encoder, images(1)[0], **arguments)  # type: ignore[arg-type]


def test_curve__target_of_another_encoder_is_an_error(encoder: cocoax.Encoder) -> None:
    other = cocoax.Encoder(SmallNet(seed=3))
    with pytest.raises(ValueError, match="another representation space"):
        cocoax.insertion(encoder, images(1)[0], torch.zeros(16, 16), cocoa(other))


@pytest.mark.parametrize("kinds", [("insertions",), ()])
def test_curves__unknown_kind(encoder: cocoax.Encoder, kinds: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="'kinds' parameter must name 'insertion', 'deletion' or both"):
        curves(encoder, images(1)[0], [torch.zeros(16, 16)], cocoax.representation_similarity(), kinds=kinds)


def test_curve__measure_that_is_a_network(encoder: cocoax.Encoder) -> None:
    """A sequence of layers can be called and gone through; it is one measure."""
    layers = nn.Sequential(nn.Softmax(1), nn.Flatten(), Column(2))
    explicand, target = images(1)[0], cocoa(encoder)
    attribution = cocoax.Occlusion().explain(encoder, explicand, target)
    curve = cocoax.insertion(encoder, explicand, attribution, layers, steps=4)
    assert torch.equal(curve.y, cocoax.insertion(encoder, explicand, attribution, [layers], steps=4)[0].y)
    own = encoder.represent(explicand).softmax(1)[0, 2]
    assert float(curve.y[-1]) == pytest.approx(float(own))


class Column(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def forward(self, batch: Tensor) -> Tensor:
        return batch[:, self.index]


def test_curve__measure_that_is_none(encoder: cocoax.Encoder) -> None:
    with pytest.raises(TypeError, match=r"A measure must be a Target or a callable on representations\. Got int instead"):
        cocoax.insertion(encoder, images(1)[0], torch.zeros(16, 16), 3)


def test_curves__several_baselines_are_averaged() -> None:
    table = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    matrix = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    encoder = cocoax.TabularEncoder(lambda rows: torch.tanh(rows @ matrix) + 0.1, columns=list("abc"), name="rows")
    row, target = torch.tensor([0.5, -1.0, 2.0]), cocoax.representation_similarity("dot")
    background = cocoax.Background(table, draws=100)
    order = torch.tensor([3.0, 2.0, 1.0])
    curve = cocoax.insertion(encoder, row, order, target, baseline=background)
    own = encoder.represent(row)[0]
    expected = []
    for kept in range(4):
        mixed = torch.stack([torch.cat([row[:kept], other[kept:]]) for other in table])
        expected.append(float((encoder.represent(mixed) @ own).mean()))
    assert curve.y.tolist() == pytest.approx(expected, rel=1e-5)
    assert curve.x.tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_curve__argument_of_another_library(encoder: cocoax.Encoder) -> None:
    target = cocoax.representation_similarity()
    with pytest.raises(TypeError, match=r"deletion\(\) has no argument 'n_steps'; here it is called 'steps'\."):
        cocoax.deletion(encoder, images(1)[0], torch.zeros(16, 16), target, n_steps=4)
    with pytest.raises(TypeError, match=r"insertion\(\) has no argument 'nonsense'\.$"):
        cocoax.insertion(encoder, images(1)[0], torch.zeros(16, 16), target, nonsense=4)


def test_curves__say_method_kind_and_what_is_better_and_are_drawn_in_one_picture(encoder: cocoax.Encoder) -> None:
    x, target = images(1)[0], cocoax.representation_similarity()
    maps = [cocoax.KernelShap(samples=20, grid=3), cocoax.RandomAttribution()]
    found = curves(encoder, x, [*(each.explain(encoder, x, target) for each in maps), torch.zeros(16, 16)], target, 4)
    first, plain = found[0]["insertion"], found[2]["deletion"]
    area = f"{first.auc:.3g}"
    assert str(first).startswith(f"{target.name}, KernelShap, insertion: area {area} (higher is better)")
    assert plain.summary == f"{target.name}, deletion: area {plain.auc:.3g} (lower is better)"
    labels = [[line.label for line in view.lines] for view in found.views()]
    assert [label.split(",")[0] for label in labels[0]] == ["KernelShap", "RandomAttribution", "map"]
    assert labels[0][0] == f"KernelShap, area {area}"
    drawn = found.plot()
    assert [len(ax.lines) for part in drawn.subfigs for ax in part.axes] == [3, 3]
    assert found.summary.startswith(f"{target.name}, insertion (higher area is better): KernelShap {area}, RandomAttribution")
    assert len(found.table().rows) == 6
    twice = curves(encoder, x, [torch.zeros(16, 16), torch.ones(16, 16)], [target, target], 4)
    assert [row[0] for row in twice.table().rows] == ["map 1"] * 4 + ["map 2"] * 4


def test_curves__names_count_the_maps_of_one_method(encoder: cocoax.Encoder) -> None:
    image, target = images(1)[0], cocoax.representation_similarity()
    occlusion = cocoax.Occlusion(window=8, stride=8).explain(encoder, image, target)
    random = [cocoax.RandomAttribution(seed=seed).explain(encoder, image, target) for seed in range(2)]
    named = cocoax.curves(encoder, image, [occlusion, *random], target, steps=4, kinds=["insertion"])
    assert [row[0] for row in named.table().rows] == ["Occlusion", "RandomAttribution 1", "RandomAttribution 2"]
    (alone,) = cocoax.curves(encoder, image, occlusion, target, steps=4)
    assert alone["insertion"].method == "Occlusion"


def test_curve__repr_names_the_attribute() -> None:
    curve = cocoax.Curve(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 0.5]), "mine")
    assert repr(curve) == f"Curve('mine', 2 points, auc {curve.auc:.4g})" == "Curve('mine', 2 points, auc 0.25)"


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([0.0, 0.2, 0.4], None),
        ([0.0, 1.1, 0.4], None),  # less than twice the way
        ([0.0, 1.21, 0.4], "The first 50% of the map alone score +1.210, more than the whole input with +0.400"),
        ([-0.1, 0.0, 0.6, 0.1], "The first 67% of the map"),
        ([0.5, 0.9, 0.4], None),  # the emptied input scores higher: another remark
        ([0.0, 0.0, 0.0], None),
    ],
)
def test_overshoot_remark__where_it_must_and_must_not_appear(y: list[float], said: str | None) -> None:
    remark = overshoot_remark(Curve(torch.linspace(0, 1, len(y)), torch.tensor(y), "a cat"))
    assert (remark is None) if said is None else str(remark).startswith(said)


def test_overshoot_remark__of_a_part_that_lowers_the_score() -> None:
    encoder = cocoax.TabularEncoder(torch.nn.Identity(), columns=["a", "b", "c"], background=np.zeros((1, 3)), name="rows")
    target = cocoax.similarity_to(encoder.reference(np.ones((1, 3))), "dot")
    for row, overshoots in (([1.0, 1.0, -1.5], True), ([1.0, 1.0, -0.2], False), ([1.0, 1.0, 1.0], False)):
        attribution = cocoax.KernelShap().explain(encoder, row, target)
        curve = cocoax.insertion(encoder, row, attribution, target)
        assert (overshoot_remark(curve) is not None) == overshoots == bool(curve.remarks) == bool(curve.to_dict()["remarks"])
        assert cocoax.deletion(encoder, row, attribution, target).remarks == ()

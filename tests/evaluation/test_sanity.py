"""Sanity checks: chance levels, sparsity, representations, consistency and randomised parameters, against slow versions."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor, nn

import cocoax
from cocoax.evaluation import chance_map, gini, randomised, t_interval
from cocoax.evaluation.sanity import _parametrised_layers, consistency, effective_rank, knn_accuracy
from cocoax.methods.gradients import normal
from tests.conftest import SmallNet, images

X = images(1, height=12, width=10)[0]


BASELINE = cocoax.Blur()(X)


@pytest.mark.parametrize("keep", [0.5, 0.3])
def test_chance_map__paper_rise_is_the_mean_of_the_masks(keep: float) -> None:
    method = cocoax.Rise(samples=60, grid=3, keep=keep, estimator="paper", seed=4)
    masks = method.draw((12, 10)).full(slice(0, 60)).double()
    np.testing.assert_allclose(chance_map(method, X, BASELINE).numpy(), masks.mean(0).numpy() / keep, rtol=1e-5)


def test_chance_map__paper_rise_is_its_map_of_a_constant_score() -> None:
    """An encoder that gives everything the same representation has nothing to tell."""
    blind = cocoax.Encoder(lambda batch: torch.ones(len(batch), 4), name="blind")
    method = cocoax.Rise(samples=60, grid=3, estimator="paper", seed=4)
    found = method.explain(blind, X, cocoax.representation_similarity())
    torch.testing.assert_close(chance_map(method, X, BASELINE), found.values.float(), atol=1e-5, rtol=1e-5)


def test_chance_map__efficient_rise_is_its_map_of_noise() -> None:
    method = cocoax.Rise(samples=400, grid=3, estimator="efficient", seed=4)
    found = [chance_map(method, X, BASELINE, seed) for seed in range(40)]
    assert not torch.equal(found[0], found[1])
    assert torch.equal(found[0], chance_map(method, X, BASELINE, 0))
    # Nothing is to be found: no pixel is high or low on average.
    maps = torch.stack(found)
    assert float((maps.mean(0) / (maps.std(0) / 40**0.5)).abs().max()) < 4.5
    # It is as smooth as the method's maps are: neighbours are alike, which they are not in noise of pixels.
    pairs = [np.corrcoef(one[:, 1:].ravel(), one[:, :-1].ravel())[0, 1] for one in maps.numpy()]
    assert np.mean(pairs) > 0.8


@pytest.mark.parametrize("method", [cocoax.IntegratedGradients(4), cocoax.GradientShap(4)])
def test_chance_map__gradients_that_are_noise(method: cocoax.Method) -> None:
    noise = normal(7, 0, (3, 12, 10))
    torch.testing.assert_close(chance_map(method, X, BASELINE, 7), (noise * (X - BASELINE)).mean(0))
    flat = X.clone()
    flat[:, :4] = BASELINE[:, :4]  # where explicand and baseline agree, these methods have nothing to say
    assert float(chance_map(method, flat, BASELINE, 7)[:4].abs().max()) == 0


@pytest.mark.parametrize("method", [cocoax.RandomAttribution(), cocoax.VanillaGradients(), cocoax.Occlusion()])
def test_chance_map__others_are_noise_of_pixels(method: cocoax.Method) -> None:
    torch.testing.assert_close(chance_map(method, X, BASELINE, 3), normal(3, 0, (3, 12, 10)).mean(0))
    large = chance_map(method, torch.zeros(3, 100, 100), torch.zeros(3, 100, 100))
    assert float(large.mean()) == pytest.approx(0, abs=0.03)
    assert float(large.std()) == pytest.approx(3**-0.5, rel=0.03)


def double_sum(values: np.ndarray) -> float:
    """The definition: the mean difference between two magnitudes, as a fraction of twice their mean."""
    sizes = np.abs(values).ravel()
    return float(np.abs(sizes[:, None] - sizes[None, :]).mean() / (2 * sizes.mean()))


@pytest.mark.parametrize("seed", range(3))
def test_gini__equals_the_double_sum(seed: int) -> None:
    values = images(1, height=7, width=5, channels=1, seed=seed)[0, 0]
    assert gini(values) == pytest.approx(double_sum(values.numpy()), rel=1e-6)
    assert gini(-3 * values) == pytest.approx(gini(values))


def test_gini__ends() -> None:
    single = torch.zeros(4, 5)
    single[2, 3] = -2
    assert gini(single) == pytest.approx(19 / 20)
    assert gini(torch.full((4, 5), -3.0)) == pytest.approx(0, abs=1e-12)
    assert gini(torch.zeros(4, 5)) == 0


def test_gini__of_an_attribution_counts_from_its_neutral_value() -> None:
    values = images(1, channels=1)[0, 0]
    attribution = cocoax.Attribution(values + 5, 0.0, 0.0, neutral=5.0)
    assert gini(attribution) == pytest.approx(double_sum(values.numpy()), rel=1e-4)
    assert gini(attribution) > 3 * gini(values + 5)


def clouds(number: int, seed: int, classes: int = 4, dimension: int = 6) -> tuple[torch.Tensor, np.ndarray]:
    """Points around one centre for each class, overlapping."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, dimension))
    labels = random.integers(0, classes, number)
    return torch.from_numpy(centres[labels] + random.normal(size=(number, dimension)) * 1.2), labels


@pytest.mark.parametrize("neighbours", [1, 7, 20, 300])
def test_knn_accuracy__equals_scikit_learn(neighbours: int) -> None:
    (known, labels), (asked, truth) = clouds(200, 0), clouds(150, 1)
    slow = KNeighborsClassifier(
        min(neighbours, 200), metric="cosine", algorithm="brute", weights=lambda distances: np.exp((1 - distances) / 0.1)
    )
    expected = slow.fit(known.numpy(), labels).score(asked.numpy(), truth)
    assert 0.4 < expected < 0.95  # neither too easy nor chance
    assert knn_accuracy(known, labels, asked, truth, neighbours) == pytest.approx(expected, abs=1e-6)


def test_knn_accuracy__lengths_do_not_matter_and_labels_may_be_of_any_type() -> None:
    (known, labels), (asked, truth) = clouds(100, 2), clouds(80, 3)
    accuracy = knn_accuracy(known, labels, asked, truth)
    stretched = known * torch.linspace(0.1, 10, 100)[:, None]
    small = truth.astype(np.uint8)
    small.setflags(write=False)
    assert knn_accuracy(stretched, labels.astype(np.int32), 3 * asked, small) == accuracy


def test_knn_accuracy__a_class_that_is_not_known_is_never_right() -> None:
    known, labels = clouds(50, 4, classes=2)
    assert knn_accuracy(known, labels, known, np.full(50, 5)) == 0


@pytest.mark.parametrize("dimension", [1, 2, 7])
def test_effective_rank__is_the_dimension_if_all_directions_vary_alike(dimension: int) -> None:
    corners = torch.cat([torch.eye(dimension), -torch.eye(dimension)])
    assert effective_rank(3 * corners + 5) == pytest.approx(dimension)


def test_effective_rank__of_a_single_point_is_one() -> None:
    assert effective_rank(torch.full((5, 3), 0.1)) == 1
    assert effective_rank(torch.ones(1, 3)) == 1


def test_effective_rank__equals_slow_version_however_the_axes_lie() -> None:
    random = np.random.default_rng(0)
    points = random.normal(size=(50, 5)) * [4, 2, 1, 0.5, 0.1]
    turned = points @ np.linalg.qr(random.normal(size=(5, 5)))[0]
    variances = np.linalg.eigvalsh(np.cov(points.T))
    shares = variances / variances.sum()
    expected = math.exp(-sum(share * math.log(share) for share in shares))
    assert effective_rank(torch.from_numpy(points)) == pytest.approx(expected, abs=1e-9)
    assert effective_rank(torch.from_numpy(turned * 7 + 3)) == pytest.approx(expected, abs=1e-9)


def test_consistency__counts_the_first_ones() -> None:
    random = np.random.default_rng(0)
    importance, labels, members = random.normal(size=(7, 30)), random.integers(3, size=7), random.integers(3, size=30)
    found = consistency(importance, labels, members, (0.1, 0.5))
    for share, count in ((0.1, 3), (0.5, 15)):
        slow = []
        for row, label in zip(importance, labels, strict=True):
            first = sorted(range(30), key=lambda index: -row[index])[:count]
            slow.append(sum(members[index] == label for index in first) / count)
        assert found[share].mean == pytest.approx(np.mean(slow))
        assert found[share].half == pytest.approx(t_interval(slow).half)


def test_consistency__random_rankings_are_at_chance_and_perfect_ones_fall() -> None:
    random = np.random.default_rng(1)
    members = np.repeat(np.arange(10), 20)
    labels = random.integers(10, size=200)
    chance = consistency(random.normal(size=(200, 200)), labels, members)
    assert all(abs(each.mean - 0.1) < 4 * each.half / 1.96 + 1e-9 for each in chance.values())
    perfect = consistency((labels[:, None] == members).astype(float), labels, members)
    assert [round(each.mean, 3) for each in perfect.values()] == [1, 1, 1, 0.5, 0.2, 0.1]


def test_consistency__mistakes() -> None:
    with pytest.raises(ValueError, match=r"one row for each of 2 inputs and one column for each of 3 members. Got \[2, 4\]"):
        consistency(np.ones((2, 4)), [0, 1], [0, 1, 2])
    with pytest.raises(ValueError, match="'shares' parameter must hold numbers above 0"):
        consistency(np.ones((1, 2)), [0], [0, 1], [0.0])


class Net(nn.Module):
    """Convolution, batch norm and two ways to a representation."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.conv = nn.Conv2d(3, 40, 3, bias=False)
            self.norm = nn.BatchNorm2d(40)
            self.fc = nn.Linear(40, 50)
            with torch.no_grad():
                self.norm.running_mean.normal_()  # type: ignore[union-attr]
                self.fc.bias.add_(3)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.fc(self.features(x))
        return z

    def features(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x)).mean((2, 3))


@pytest.fixture
def module() -> Net:
    return Net().eval()


def changed(first: nn.Module, second: nn.Module) -> set[str]:
    after = second.state_dict()
    return {name for name, tensor in first.state_dict().items() if not torch.equal(tensor, after[name])}


def module_of(encoder: cocoax.Encoder) -> nn.Module:
    assert isinstance(encoder.module, nn.Module)
    return encoder.module


def test_randomised__statistics_of_each_tensor(module: Net) -> None:
    found = dict(module_of(randomised(cocoax.Encoder(module))).named_parameters())
    for name in ("conv.weight", "fc.weight"):
        before, after = (each[name].detach().double().numpy().ravel() for each in (dict(module.named_parameters()), found))
        low, high, mean, std = before.min(), before.max(), before.mean(), before.std()
        assert low <= after.min()
        assert after.max() <= high
        expected = stats.truncnorm((low - mean) / std, (high - mean) / std, mean, std)
        assert stats.kstest(after, expected.cdf).pvalue > 0.01
        assert after.mean() == pytest.approx(expected.mean(), abs=4 * expected.std() / np.sqrt(after.size))
        assert after.std() == pytest.approx(expected.std(), rel=0.1)


def test_randomised__buffers_and_original_are_untouched(module: Net) -> None:
    before = copy.deepcopy(module)
    other = randomised(cocoax.Encoder(module))
    assert changed(before, module) == set()
    # Constants (batch norm's ones and zeros) have nothing to be drawn from; buffers stay.
    assert changed(module, module_of(other)) == {"conv.weight", "fc.weight", "fc.bias"}
    assert other.space != cocoax.Encoder(module).space
    assert all(parameter.requires_grad for parameter in module_of(other).parameters())


def test_randomised__cascades_from_the_last_layer(module: Net) -> None:
    with torch.no_grad():
        module.norm.weight.copy_(torch.linspace(0.5, 2, 40))
    encoder = cocoax.Encoder(module)
    assert _parametrised_layers(module) == ["conv", "norm", "fc"]
    one, two, three, whole = (module_of(randomised(encoder, 5, last)) for last in (1, 2, 3, None))
    assert changed(module, one) == {"fc.weight", "fc.bias"}
    assert changed(module, two) == {"fc.weight", "fc.bias", "norm.weight"}
    assert changed(one, two) == {"norm.weight"}  # the last layers get the same values, however many are redrawn
    assert changed(three, whole) == set()


def test_randomised__the_rest_of_the_encoder_stays() -> None:
    with torch.random.fork_rng():
        head = nn.Linear(6, 3)
    encoder = cocoax.Encoder(SmallNet().eval(), layer="act", head=head, classes=["a", "b", "c"], name="mine")
    other = randomised(encoder, last=1)
    assert (other.layer, other.head, other.classes) == ("act", head, ["a", "b", "c"])
    assert other.name == "mine, last 1 layers randomised"
    # The last layer comes after the one that is looked at, which must be that of the copy all the same.
    x = images(2)
    torch.testing.assert_close(other.represent(x), encoder.represent(x))
    assert not torch.allclose(randomised(encoder).represent(x), encoder.represent(x))


def test_with_module__encoder_around_a_method(module: Net) -> None:
    encoder = cocoax.Encoder(module.features, name="features")
    other = randomised(encoder)
    x = images(2)
    assert other.represent(x).shape == (2, 40)  # not the 50 of forward
    assert not torch.allclose(other.represent(x), encoder.represent(x))
    assert other.owner is not module
    torch.testing.assert_close(other.represent(x), other.owner.features(x).detach())  # type: ignore[union-attr, operator]
    same = encoder.with_module(copy.deepcopy(module), "copy")
    torch.testing.assert_close(same.represent(x), encoder.represent(x))
    assert same.space == encoder.space


def test_with_module__leaves_the_text_tower_behind() -> None:
    text = cocoax.Encoder(SmallNet(seed=1), name="words")
    encoder = cocoax.Encoder(SmallNet(), text=text)
    with pytest.raises(AttributeError, match="no text tower"):
        _ = encoder.with_module(SmallNet(seed=2), "other").text


@pytest.mark.parametrize("last", [0, 3, -1])
def test_randomised__wrong_number_of_layers(encoder: cocoax.Encoder, last: int) -> None:
    with pytest.raises(ValueError, match=f"'last'.*Got {last}"):
        randomised(encoder, last=last)


def test_randomised__callable_without_parameters() -> None:
    with pytest.raises(TypeError, match=r"'mine' is a callable whose parameters cannot be seen; wrap an nn.Module"):
        randomised(cocoax.Encoder(lambda x: x.mean((2, 3)), name="mine"))

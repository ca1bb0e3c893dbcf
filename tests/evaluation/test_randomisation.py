from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import cocoax
from cocoax.evaluation import randomised
from cocoax.evaluation.sanity import parametrised_layers
from tests.conftest import SmallNet, images


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
    assert parametrised_layers(module) == ["conv", "norm", "fc"]
    one, two, three, whole = (module_of(randomised(encoder, 5, last)) for last in (1, 2, 3, None))
    assert changed(module, one) == {"fc.weight", "fc.bias"}
    assert changed(module, two) == {"fc.weight", "fc.bias", "norm.weight"}
    assert changed(one, two) == {"norm.weight"}  # the last layers get the same values, however many are redrawn
    assert changed(three, whole) == set()


def test_randomised__seeds(module: Net) -> None:
    encoder = cocoax.Encoder(module)
    first, again, other = (module_of(randomised(encoder, seed)) for seed in (1, 1, 2))
    assert changed(first, again) == set()
    assert changed(first, other) == {"conv.weight", "fc.weight", "fc.bias"}


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
    with pytest.raises(ValueError, match=f"between 1 and the number of layers, 2. Got {last}"):
        randomised(encoder, last=last)


def test_randomised__callable_without_parameters() -> None:
    with pytest.raises(TypeError, match=r"'mine' is a callable whose parameters cannot be seen; wrap an nn.Module"):
        randomised(cocoax.Encoder(lambda x: x.mean((2, 3)), name="mine"))


def test_randomised__bad_seed(encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match="'seed' parameter"):
        randomised(encoder, seed=-1)

"""Folding must never change what an encoder says, whatever the module does with its layers."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

import cocoax
from cocoax.encoders.fast_encoder import FastEncoder, agree
from cocoax.encoders.forward import locked
from cocoax.paper.networks.resnet import cifar_resnet18
from tests.encoders.networks import merging, norm, plain


class Shared(nn.Module):
    """One convolution and one norm, used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 3, 3, padding=1), norm(3)

    def forward(self, images: Tensor) -> Tensor:
        return self.norm(self.convolution(self.norm(self.convolution(images))))


class Tapped(nn.Module):
    """What the convolution gives is used beside the norm too."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 3, 3), norm(3)

    def forward(self, images: Tensor) -> Tensor:
        found = self.convolution(images)
        return self.norm(found) + found


class Reading(nn.Module):
    """The norm's weights are read where its module is not called."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 3, 3), norm(3)

    def forward(self, images: Tensor) -> Tensor:
        return self.norm(self.convolution(images)) * self.norm.weight[:, None, None]


class Standardised(nn.Conv2d):
    """A convolution that does not use its weights as they are."""

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.conv2d(images, self.weight / self.weight.norm(), self.bias)


class Uncopied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = plain()

    def __deepcopy__(self, _memo: object) -> Uncopied:
        raise TypeError("not to be copied")

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)


def standardised() -> nn.Module:
    return nn.Sequential(Standardised(3, 4, 3), norm(4), nn.ReLU(), nn.Conv2d(4, 4, 3), norm(4))


def hooked() -> nn.Module:
    module = plain()
    module[0].register_forward_hook(lambda _module, _inputs, output: output * 2)
    return module


def norms(module: nn.Module) -> int:
    return sum(isinstance(part, nn.BatchNorm2d) for part in module.modules())


def folded(encoder: cocoax.Encoder, inputs: Tensor) -> cocoax.Encoder:
    return FastEncoder(encoder, list(inputs[:2]), encoder.encode(inputs[:2])).encoder


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.fixture
def inputs(seeded: None) -> Tensor:
    return torch.rand(5, 3, 16, 16)


@pytest.mark.parametrize(
    ("make", "left"),
    [
        (plain, 0),
        (cifar_resnet18, 0),
        (standardised, 1),
        (hooked, 2),
        (Shared, 1),
        (Tapped, 1),
        (Reading, 1),
        (merging, 0),
        (Uncopied, 2),
    ],
)
def test_folding_changes_only_the_speed(make: Callable[[], nn.Module], left: int, inputs: Tensor) -> None:
    module = make().eval()
    before = copy.deepcopy(module.state_dict())
    encoder = cocoax.Encoder(module, pooling="flatten")
    found = folded(encoder, inputs)
    assert (found is encoder) == (make in (hooked, Shared, Tapped, Reading, Uncopied))
    assert norms(found.module) == left  # type: ignore[arg-type]
    assert torch.allclose(found.encode(inputs), encoder.encode(inputs), rtol=1e-4, atol=1e-5)
    assert norms(module) == norms(make())
    assert all(torch.equal(tensor, module.state_dict()[name]) for name, tensor in before.items())


def test_a_folded_encoder_is_kept_until_the_weights_change(inputs: Tensor) -> None:
    module = plain()
    encoder = cocoax.Encoder(module, pooling="flatten")
    first = folded(encoder, inputs)
    assert folded(encoder, inputs) is first
    with torch.no_grad():
        module[3].weight *= 2
    second = folded(encoder, inputs)
    assert second is not first
    assert torch.allclose(second.encode(inputs), encoder.encode(inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", ["0", "1", "2"])
def test_a_layer_gives_what_it_gave(layer: str, inputs: Tensor) -> None:
    encoder = cocoax.Encoder(plain(), layer=layer, pooling="flatten")
    found = folded(encoder, inputs)
    assert (found is encoder) == (layer == "0")  # a convolution on its own does not give what it gives with its norm
    assert torch.allclose(found.encode(inputs), encoder.encode(inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", [cocoax.Rise(samples=40, grid=4), cocoax.IntegratedGradients(steps=8)])
def test_attributions_are_those_of_the_module_itself(
    method: cocoax.Rise | cocoax.IntegratedGradients, inputs: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = cocoax.Encoder(plain(), pooling="flatten")
    target = cocoax.corpus_similarity(encoder.reference(inputs[1:3]))
    fast = method.explain(encoder, inputs[0], target)
    assert folded(encoder, inputs) is not encoder
    monkeypatch.setattr(cocoax.Encoder, "can_be_copied", False)
    slow = method.explain(encoder, inputs[0], target)
    assert torch.allclose(fast.values, slow.values, rtol=1e-3, atol=1e-5 * float(slow.values.abs().max()))
    assert not torch.equal(fast.values, slow.values)  # that it was folded shows in the rounding


def test_hooks_and_settings_that_come_later_count(inputs: Tensor) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.settings = plain(), [1.0]

        def features(self, images: Tensor) -> Tensor:  # where the fingerprint does not look
            return self.layers(images) ** getattr(self, "sett" + "ings")[0]

        def forward(self, images: Tensor) -> Tensor:
            return self.features(images)

    module = Scaled()
    encoder = cocoax.Encoder(module, pooling="flatten")
    assert folded(encoder, inputs) is not encoder
    for register, hook in (
        (module.layers[0].register_forward_hook, lambda _module, _inputs, output: output * 2),
        (module.layers[1].register_full_backward_hook, lambda _module, gradients, _outputs: gradients),
    ):
        handle = register(hook)
        assert folded(encoder, inputs) is encoder
        handle.remove()
        assert folded(encoder, inputs) is not encoder
    module.settings[0] = 2.0
    assert folded(encoder, inputs) is encoder


def test_a_first_input_that_shows_nothing(inputs: Tensor) -> None:
    encoder = cocoax.Encoder(standardised(), pooling="flatten")
    black = torch.zeros_like(inputs)
    assert norms(folded(encoder, black).module) == 1  # type: ignore[arg-type]
    assert torch.allclose(folded(encoder, black).encode(inputs), encoder.encode(inputs), rtol=1e-4, atol=1e-5)


def test_inference_mode(inputs: Tensor) -> None:
    encoder = cocoax.Encoder(plain(), pooling="flatten")
    target = cocoax.representation_similarity()
    with torch.inference_mode():
        cocoax.Rise(samples=20, grid=4).explain(encoder, inputs[0], target)
    assert cocoax.IntegratedGradients(steps=4).explain(encoder, inputs[0], target).values.any()


class Clamped(nn.Module):
    """Something works in place between convolution and norm, and does nothing to either end."""

    def __init__(self, in_place: bool = True) -> None:
        super().__init__()
        self.convolution, self.norm, self.in_place = nn.Conv2d(3, 4, 3), norm(4), in_place
        with torch.no_grad():
            self.convolution.weight.fill_(1 / 27)
            self.convolution.bias.zero_()  # type: ignore[union-attr]

    def forward(self, images: Tensor) -> Tensor:
        between = self.convolution(images)
        between = between.clamp_(max=0.8) if self.in_place else between.clamp(max=0.8)
        return self.norm(between)


def test_in_place_work_between_convolution_and_norm(inputs: Tensor) -> None:
    encoder = cocoax.Encoder(Clamped(), pooling="flatten")
    dark = inputs * 0.1
    assert folded(encoder, dark) is encoder
    assert encoder._copies is not None
    assert encoder._copies.folded is None  # seen at once, not only where it shows


class Masking(nn.Module):
    """Does something else with a masked input than with either end, in a way that no fold can see."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 3), norm(4)

    def forward(self, images: Tensor) -> Tensor:
        middle = (images.std((1, 2, 3)) > 0.01).float()[:, None, None, None]
        before = self.convolution(images)
        return self.norm(before) + middle * before


def ends_are_flat(module: nn.Module) -> tuple[cocoax.Encoder, Tensor, cocoax.Constant]:
    """An encoder, an explicand and a baseline that are both of one colour; all between them is not."""
    return cocoax.Encoder(module, pooling="flatten"), torch.full((3, 16, 16), 0.9), cocoax.Constant(0.1)


def test_masked_inputs_show_that_a_fold_is_wrong() -> None:
    module = Masking()
    encoder, explicand, baseline = ends_are_flat(module)
    method = cocoax.Rise(samples=40, grid=4, baseline=baseline, batch_size=8)
    run = method.run(encoder, explicand)
    expected = torch.stack(
        [_alone(module, run.baseline + mask * (explicand - run.baseline)) for mask in run.masks.full(slice(0, 40))]
    )
    torch.testing.assert_close(run.representations, expected, atol=1e-4, rtol=1e-4)
    assert encoder._copies is not None
    assert encoder._copies.folded is None


def _alone(module: nn.Module, image: Tensor) -> Tensor:
    with torch.no_grad():
        return module.eval()(image[None])[0].flatten()


def test_gradients_show_that_a_fold_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, explicand, _ = ends_are_flat(Masking())
    noisy = torch.rand(3, 16, 16) * 0.1
    method = cocoax.IntegratedGradients(steps=6, baseline=noisy - noisy)
    target = cocoax.representation_similarity("dot")
    explicand = explicand.clone()
    explicand[:, :8] = 0.2
    fast = method.explain(encoder, explicand, target)
    monkeypatch.setattr(cocoax.Encoder, "can_be_copied", False)
    slow = method.explain(encoder, explicand, target)
    assert torch.allclose(fast.values, slow.values, rtol=1e-3, atol=1e-5 * float(slow.values.abs().max()))


class Bright(Masking):
    """Does something else with what is between the ends, if these are far apart: that is not so for the first explicand."""

    def forward(self, images: Tensor) -> Tensor:
        between = (images.mean((1, 2, 3)) - 0.5).abs() < 0.3
        before = self.convolution(images)
        return self.norm(before) + between.float()[:, None, None, None] * before


def test_another_removal_of_the_same_explicand_tries_a_fold_again() -> None:
    module = Bright()
    encoder = cocoax.Encoder(module, pooling="flatten")
    explicand = torch.full((3, 16, 16), 0.9)
    near, far = (cocoax.Rise(samples=10, grid=4, baseline=cocoax.Constant(value)) for value in (0.85, 0.1))
    near.run(encoder, explicand)  # nothing is seen there
    assert encoder._copies is not None
    assert encoder._copies.folded is not None
    run = far.run(encoder, explicand)
    expected = torch.stack(
        [_alone(module, run.baseline + mask * (explicand - run.baseline)) for mask in run.masks.full(slice(0, 10))]
    )
    torch.testing.assert_close(run.representations, expected, atol=1e-4, rtol=1e-4)


def test_a_fold_is_tried_on_the_first_batch_of_an_explicand_only(inputs: Tensor) -> None:
    module = plain()
    encoder = cocoax.Encoder(module, pooling="flatten")
    seen: list[int] = []
    encode = cocoax.Encoder.encode

    def counted(self: cocoax.Encoder, prepared: Tensor) -> Tensor:
        seen.append(len(prepared))
        return encode(self, prepared)

    method = cocoax.Rise(samples=40, grid=4, batch_size=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cocoax.Encoder, "encode", counted)
        run = method.run(encoder, inputs[0])
        assert sum(seen) == 2 + 40 + 8
        seen.clear()
        run.extend(encoder, 16)
        assert sum(seen) == 16
        cocoax.insertion(encoder, inputs[0], torch.rand(16, 16), cocoax.representation_similarity(), steps=10)
        assert sum(seen) == 16 + 2 + 9


def test_hooks_that_another_thread_has_for_a_moment(inputs: Tensor) -> None:
    module = plain()
    fast = FastEncoder(encoder := cocoax.Encoder(module), list(inputs[:2]), encoder.encode(inputs[:2]))
    hooked = threading.Event()

    def look() -> None:
        with locked(module), module[0].register_forward_hook(lambda *_: None):
            hooked.set()
            time.sleep(0.2)

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        hooked.wait()
        assert norms(fast.encoder.module) == 0
        looking.result()


def test_agree__holds_each_entry_against_its_own_size() -> None:
    expected = torch.randn(6, 20)
    expected[:, 3] = 1e6  # a constant that is all there is to a norm
    assert agree(expected * (1 + 1e-6), expected)
    wrong = expected.clone()
    wrong[2, 5] += 0.01
    assert not agree(wrong, expected)
    assert float((wrong - expected).norm()) < 1e-4 * float(expected.norm())
    assert not agree(torch.full_like(expected, torch.nan), expected)
    assert agree(torch.zeros(2, 3), torch.zeros(2, 3))
    assert not agree(expected[:, :5], expected)

"""The forward pass: modes, layers, pooling, threads, and what a module must not return."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cocoax import Encoder
from cocoax.encoders.forward import by_shape, evaluating, frozen, locked
from tests.conftest import SmallNet, images


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


def flat(batch: Tensor) -> Tensor:
    return batch.flatten(1)


# --- the module is left as it was found ---------------------------------------------------------------------------------


class Moody(nn.Module):
    """Layers that behave differently in training, and a record of the mode they were run in."""

    def __init__(self) -> None:
        super().__init__()
        self.net = SmallNet()
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.idle = nn.Identity()
        self.modes: list[bool] = []
        self.broken = False

    def forward(self, batch: Tensor) -> Tensor:
        self.modes += [self.training, self.norm.training, self.drop.training]
        if self.broken:
            raise RuntimeError("the module broke")
        return self.idle(self.drop(self.norm(self.net(batch))))


def test_represent__eval_mode_for_the_time_being() -> None:
    module = Moody().train()
    module.net.eval()
    module.idle.eval()
    before = {name: part.training for name, part in module.named_modules()}
    statistics = module.norm.running_mean.clone()
    encoder = Encoder(module)
    close(encoder.represent(images(4)), encoder.represent(images(4)))
    assert module.modes
    assert not any(module.modes)
    assert {name: part.training for name, part in module.named_modules()} == before
    assert set(before.values()) == {True, False}
    assert torch.equal(statistics, module.norm.running_mean)


def test_represent__training_flags_come_back_when_the_module_raises() -> None:
    module = Moody().train()
    module.net.eval()
    module.broken = True
    before = {name: part.training for name, part in module.named_modules()}
    with pytest.raises(RuntimeError, match="the module broke"):
        Encoder(module, layer="norm").represent(images(4))
    assert not any(module.modes)
    assert {name: part.training for name, part in module.named_modules()} == before
    assert not module.norm._forward_hooks


def test_evaluating__restores_on_any_exception() -> None:
    module = Moody().train()
    within: list[bool] = []

    def interrupted() -> None:
        with evaluating(module):
            within.extend(part.training for part in module.modules())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert within
    assert not any(within)
    assert all(part.training for part in module.modules())


def test_frozen__gives_every_parameter_back(net: SmallNet) -> None:
    net.conv.weight.requires_grad_(False)
    before = [parameter.requires_grad for parameter in net.parameters()]
    within: list[bool] = []

    def interrupted() -> None:
        with frozen(net):
            within.extend(parameter.requires_grad for parameter in net.parameters())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert within == [False] * len(before)
    assert [parameter.requires_grad for parameter in net.parameters()] == before
    assert set(before) == {True, False}


def test_represent__no_autograd_state(encoder: Encoder, net: SmallNet) -> None:
    net.fc.bias.requires_grad_(False)
    before = {name: parameter.requires_grad for name, parameter in net.named_parameters()}
    found = encoder.represent(images(3))
    assert not found.requires_grad
    assert found.grad_fn is None
    assert not found.is_inference()  # such a tensor could not be used in later gradients
    assert {name: parameter.requires_grad for name, parameter in net.named_parameters()} == before
    assert all(parameter.grad is None for parameter in net.parameters())
    assert torch.is_grad_enabled()


def test_call__is_differentiable(encoder: Encoder, net: SmallNet) -> None:
    batch = images(2).requires_grad_()
    encoder(batch).sum().backward()
    (expected,) = torch.autograd.grad(net(batch).sum(), batch)
    assert batch.grad is not None
    close(batch.grad, expected)
    assert float(expected.abs().max()) > 0


# --- layers and pooling -------------------------------------------------------------------------------------------------


def test_layer__output_of_the_inner_layer(net: SmallNet) -> None:
    batch = images(3)
    inner = net.act(net.conv(batch)).detach()
    close(Encoder(net, layer="act", pooling="flatten").represent(batch), inner.flatten(1))
    close(Encoder(net, layer="act").represent(batch), inner.mean((2, 3)))
    close(Encoder(net, layer="act", pooling="first").represent(batch), inner[:, :, 0, 0])
    close(Encoder(net, layer="fc").represent(batch), net(batch).detach())


def test_layer__followed_by_an_in_place_layer() -> None:
    net = nn.Sequential(SmallNet().conv, nn.ReLU(inplace=True))
    batch = images(3)
    close(Encoder(net, layer="0").represent(batch), net[0](batch).mean((2, 3)).detach())


@pytest.mark.parametrize(
    ("pooling", "pooled"),
    [
        ("mean", lambda output: output.mean(1)),
        ("flatten", lambda output: output.reshape(len(output), -1)),
        ("first", lambda output: output[:, 0]),
    ],
)
def test_pooling__tokens(pooling: Any, pooled: Callable[[Tensor], Tensor]) -> None:
    def tokens(batch: Tensor) -> Tensor:
        return batch.flatten(2).transpose(1, 2)[:, :7]  # [n, 7 tokens, 3]

    batch = images(4)
    close(Encoder(tokens, pooling=pooling).represent(batch), pooled(tokens(batch)))


def test_pooling__unknown(net: SmallNet) -> None:
    with pytest.raises(ValueError, match=r"'pooling' parameter must be 'mean', 'flatten' or 'first'\. Got 'max' instead"):
        Encoder(net, pooling="max")  # type: ignore[arg-type]


def test_layer__unknown_lists_close_names(net: SmallNet) -> None:
    with pytest.raises(ValueError, match=r"'SmallNet' has no layer 'convv'; close ones are conv"):
        Encoder(net, layer="convv")
    with pytest.raises(ValueError, match=r"no layer '###'; close ones are conv, act, pool, fc"):
        Encoder(net, layer="###")


@pytest.mark.parametrize("module", [flat, lambda batch: batch.flatten(1), nn.Tanh()])
def test_layer__of_something_without_layers(module: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(ValueError, match=r"has no layer 'fc'; it is not an nn\.Module with layers"):
        Encoder(module, layer="fc")


def test_layer__that_does_not_run() -> None:
    module = Moody()
    module.spare = nn.Identity()
    with pytest.raises(RuntimeError, match=r"layer 'spare' did not run in the forward pass of 'Moody'"):
        Encoder(module, layer="spare").represent(images(2))


# --- what an encoder must not return ------------------------------------------------------------------------------------


def test_layer__first_of_a_tuple() -> None:
    class Pair(nn.Module):
        def forward(self, batch: Tensor) -> tuple[Tensor, None]:
            return batch.flatten(1) * 2, None

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pair = Pair()

        def forward(self, batch: Tensor) -> Tensor:
            return self.pair(batch)[0].sum(1, keepdim=True)

    batch = images(3)
    close(Encoder(Net(), layer="pair").represent(batch), batch.flatten(1) * 2)


def test_output__random_even_in_eval_mode() -> None:
    encoder = Encoder(lambda batch: F.dropout(batch.flatten(1), 0.5, training=True), name="noisy")
    with (
        torch.random.fork_rng(),
        pytest.raises(
            ValueError, match=r"'noisy' gave two representations of the same input: it is random .* Switch that off"
        ),
    ):
        encoder.represent(images(4))


def batch_normalised(batch: Tensor) -> Tensor:
    """Batch norm without running statistics: every output depends on the whole batch."""
    return F.batch_norm(batch, None, None, training=True).mean((2, 3))


def test_output__depends_on_the_rest_of_the_batch() -> None:
    with pytest.raises(ValueError, match=r"'norm' gave two .* its output depends on the rest of the batch\. Switch that off"):
        Encoder(batch_normalised, name="norm").represent(images(4))


def test_output__depends_on_the_batch_after_a_first_batch_of_one() -> None:
    encoder = Encoder(batch_normalised)
    encoder.represent(images(1))
    with pytest.raises(ValueError, match="depends on the rest of the batch"):
        encoder.represent(images(4))


def test_output__not_finite_names_the_input() -> None:
    batch = images(7).abs() + 0.1
    batch[5, 0, 0, 0] = -1.0
    with pytest.raises(ValueError, match=r"representation of input 5 is not finite; leave it out"):
        Encoder(lambda batch: batch.flatten(1).log()).represent(batch, batch_size=2)


# --- threads ------------------------------------------------------------------------------------------------------------


class Slow(nn.Module):
    """Two layers with time between them for other threads, and a dropout that shows a module in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Flatten()
        self.drop = nn.Dropout(0.5)

    def forward(self, batch: Tensor) -> Tensor:
        hidden = self.first(batch)
        time.sleep(0.002)
        return self.drop(hidden)


@pytest.mark.parametrize("layer", ["first", None])
def test_represent__threads_do_not_see_each_others_layers(layer: str | None) -> None:
    net = Slow().train()
    encoders = [Encoder(net, layer=layer), Encoder(net, layer=layer)]  # two encoders of one module
    batches = [images(2, 4, 4, seed=seed) for seed in range(40)]

    def ask(index: int) -> Tensor:
        return encoders[index % 2].represent(batches[index])

    with ThreadPoolExecutor(8) as pool:
        for batch, found in zip(batches, pool.map(ask, range(40)), strict=True):
            assert torch.equal(found, batch.flatten(1))
    assert net.drop.training
    assert not net.first._forward_hooks


# --- its parts ----------------------------------------------------------------------------------------------------------


def test_by_shape__order_is_kept_and_every_shape_is_one_batch() -> None:
    sizes = [3, 1, 3, 2, 1, 1]
    batches: list[list[int]] = []

    def encode(batch: Sequence[Tensor]) -> Tensor:
        batches.append([len(tensor) for tensor in batch])
        return torch.stack([tensor.sum()[None] for tensor in batch])

    tensors = [torch.full((size,), float(index)) for index, size in enumerate(sizes)]
    assert by_shape(tensors, encode)[:, 0].tolist() == [float(index * size) for index, size in enumerate(sizes)]
    assert batches == [[3, 3], [1, 1, 1], [2]]


def test_locked__one_thread_at_a_time_and_again_within() -> None:
    module = nn.Identity()
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        with locked(module), locked(module):  # nested, as a view within its encoder
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.01)
            inside.remove(number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))
    assert max(most) == 1
    with locked(None):
        pass


WRONG: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "tuple": (lambda output: (output, None), r"a tuple of 2; .*lambda x: model\(x\)\[0\]"),
    "dict": (
        lambda output: {"pooled": output, "tokens": None},
        r"a dict with keys pooled, tokens; .*lambda x: model\(x\)\['pooled'\]",
    ),
    "nothing": (lambda _output: None, "a NoneType"),
    "an array": (lambda output: output.detach().numpy(), r"an? ndarray; .*cocoax\.wrap"),
    "fewer rows": (lambda output: output[::2], r"shape \[2, 8\] for a batch of 4; expected \[4, d\].*row per input"),
    "one dimension": (lambda output: output[:, 0], r"shape \[4\] for a batch of 4; expected \[4, d\].*row per input"),
    "sparse": (lambda output: output.to_sparse(), "must be plain real numbers. Got one that is sparse"),
    "complex": (lambda output: torch.complex(output, output), "must be plain real numbers. Got one that is complex"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_output__that_is_no_tensor_of_one_row_per_input(wrong: str, net: SmallNet) -> None:
    change, said = WRONG[wrong]
    with pytest.raises((TypeError, ValueError), match=rf"[Tt]he encoder 'odd' return(ed|s) {said}"):
        Encoder(lambda batch: change(net(batch)), name="odd").represent(images(4))

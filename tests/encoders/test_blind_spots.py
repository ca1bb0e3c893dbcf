"""Changes that a fingerprint might overlook: each is noticed, or has a way out in ``encoder.changed()``."""

from __future__ import annotations

import functools
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cocoax
from tests.conftest import SmallNet, images


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


# Globals of the names that modules use for their attributes, as an ordinary script has them.
model: nn.Module | None = None
size = 3


class Wrapper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = SmallNet()
        self.size = 2.0

    def forward(self, batch: Tensor) -> Tensor:
        return self.model(batch) * self.size


def test_fingerprint__attributes_are_no_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = Wrapper()
    before = cocoax.Encoder(wrapper).fingerprint
    monkeypatch.setitem(globals(), "model", wrapper)
    monkeypatch.setitem(globals(), "size", 4)
    assert cocoax.Encoder(wrapper).fingerprint == before


class UsesItself(nn.Module):
    """Its forward really loads a global that is the module itself."""

    def forward(self, batch: Tensor) -> Tensor:
        assert model is not None
        return batch.mean((2, 3)) * len(list(model.children()))


def test_fingerprint__module_that_is_a_global_of_its_own_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    module = UsesItself()
    monkeypatch.setitem(globals(), "model", module)
    encoder = cocoax.Encoder(module)
    assert encoder.fingerprint == encoder.fingerprint


FACTOR = 1.0


def scale_of_all() -> float:
    return (lambda: FACTOR)()


class UsesAGlobal(nn.Module):
    def forward(self, batch: Tensor) -> Tensor:
        return batch.mean((2, 3)) * scale_of_all()


def test_fingerprint__globals_that_nested_code_loads_count(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = cocoax.Encoder(UsesAGlobal())
    before = encoder.fingerprint
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert encoder.fingerprint != before


# --- weights that change behind torch's back ----------------------------------------------------------------------------


def permuted(net: SmallNet) -> None:
    net.fc.weight.data.copy_(
        net.fc.weight.data.flatten()[torch.arange(net.fc.weight.numel() - 1, -1, -1)].view_as(net.fc.weight)
    )


def rows_swapped(net: SmallNet) -> None:
    weight = net.fc.weight.detach().numpy()
    weight[[0, 1]] = weight[[1, 0]]


def negated(net: SmallNet) -> None:
    net.fc.weight.data.neg_()


def two_signs(net: SmallNet) -> None:
    net.fc.weight.detach().numpy().reshape(-1)[[1, 3]] *= -1


def negated_through_numpy(net: SmallNet) -> None:
    weight = net.conv.weight.detach().numpy()
    weight *= -1


def added_and_taken(net: SmallNet) -> None:
    bits = net.fc.weight.detach().view(torch.int32).numpy().reshape(-1)
    bits[0] += 64
    bits[5] -= 64


@pytest.mark.parametrize("change", [permuted, rows_swapped, negated, two_signs, negated_through_numpy, added_and_taken])
def test_fingerprint__order_and_sign_of_weights_count(net: SmallNet, change: Callable[[SmallNet], None]) -> None:
    encoder = cocoax.Encoder(net)
    before = encoder.fingerprint
    change(net)
    assert encoder.fingerprint != before
    assert encoder.fingerprint == cocoax.Encoder(net).fingerprint


@pytest.mark.filterwarnings("ignore:torch.quantize")
def test_fingerprint__packed_weights_of_quantised_modules() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces another home for this
        net = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Flatten(), nn.Linear(12, 4)), {nn.Linear})
    encoder = cocoax.Encoder(net)
    before = encoder.fingerprint
    weight, bias = net[1]._packed_params._weight_bias()
    flipped = torch.quantize_per_tensor(-weight.dequantize(), weight.q_scale(), weight.q_zero_point(), torch.qint8)
    net[1].set_weight_bias(flipped, bias)
    assert encoder.fingerprint != before
    net[1].set_weight_bias(weight, bias)
    assert encoder.fingerprint == before


def test_fingerprint__sparse_weights() -> None:
    net = SmallNet()
    net.register_buffer("extra", torch.eye(3).to_sparse())
    encoder = cocoax.Encoder(net)
    before = encoder.fingerprint
    net.extra = (2 * torch.eye(3)).to_sparse()  # type: ignore[assignment]
    assert encoder.fingerprint != before


def test_fingerprint__weights_without_values() -> None:
    encoder = cocoax.Encoder(SmallNet().to("meta"))
    with pytest.raises(ValueError, match=r"'conv.weight' is on the meta device: it has a shape but no values"):
        encoder.reference(images(2))


# --- settings and code --------------------------------------------------------------------------------------------------


class Base(nn.Module):
    power = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.exponent = 1.0
        self.seen = 0

    def forward(self, batch: Tensor) -> Tensor:
        self.count()
        return batch.mean((2, 3)) ** self.exponent * self.power

    def count(self) -> None:
        self.seen += 1


class Derived(Base):
    def __init__(self) -> None:
        super().__init__()
        self.shift, self.slope = 0.0, 1.0

    def forward(self, batch: Tensor) -> Tensor:
        return self.helper(super().forward(batch))

    def helper(self, representations: Tensor) -> Tensor:
        return self.deeper(representations) + self.shift

    def deeper(self, representations: Tensor) -> Tensor:
        return representations * self.gain

    @property
    def gain(self) -> float:
        return self.slope


@pytest.mark.parametrize("setting", ["shift", "slope", "exponent", "power"])
def test_fingerprint__settings_that_helpers_read(setting: str) -> None:
    module = Derived()
    encoder = cocoax.Encoder(module)
    before = encoder.fingerprint
    encoder.represent(images(2))
    assert module.seen > 0
    assert encoder.fingerprint == before
    setattr(module, setting, 3.0)
    assert encoder.fingerprint != before


def test_fingerprint__settings_that_another_method_reads() -> None:
    module = Derived()
    encoder = cocoax.Encoder(module.deeper)
    before = encoder.fingerprint
    module.slope = 2.0
    assert encoder.fingerprint != before


def test_fingerprint__code_of_a_helper_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = cocoax.Encoder(Derived())
    before = encoder.fingerprint
    monkeypatch.setattr(Derived, "deeper", lambda self, representations: representations * 7)
    assert encoder.fingerprint != before


def test_fingerprint__forward_patched_on_the_instance(net: SmallNet) -> None:
    encoder = cocoax.Encoder(net)
    before = encoder.fingerprint
    plain = net.forward
    net.forward = lambda batch: 2 * plain(batch)  # type: ignore[method-assign]
    twice = encoder.fingerprint
    net.forward = lambda batch: 3 * plain(batch)  # type: ignore[method-assign]
    assert len({before, twice, encoder.fingerprint}) == 3
    net.forward = functools.partial(SmallNet.forward, net)  # type: ignore[method-assign]
    assert encoder.fingerprint == encoder.fingerprint


class WithFunctions(Base):
    """A module that keeps functions, among its attributes and in its class."""

    squash = staticmethod(nn.functional.relu)

    def __init__(self) -> None:
        super().__init__()
        self.activation: Callable[[Tensor], Tensor] = nn.functional.relu
        self.factor = 2.0
        self.pool = lambda batch: batch.mean((2, 3)) * self.factor

    def forward(self, batch: Tensor) -> Tensor:
        return self.squash(self.activation(self.pool(batch)))


CHANGES: dict[str, Callable[[WithFunctions], None]] = {
    "function of a library": lambda module: setattr(module, "activation", nn.functional.silu),
    "function of one's own": lambda module: setattr(module, "pool", lambda batch: batch.amax((2, 3))),
    "method patched on the instance": lambda module: setattr(module, "squash", lambda batch: 3 * batch),
    "setting that a function reads": lambda module: setattr(module, "factor", 3.0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_fingerprint__functions_that_a_module_keeps(change: str) -> None:
    module = WithFunctions()
    encoder = cocoax.Encoder(module)
    before = encoder.fingerprint
    assert cocoax.Encoder(WithFunctions()).fingerprint == before
    CHANGES[change](module)
    assert encoder.fingerprint != before


# --- hooks --------------------------------------------------------------------------------------------------------------


def times(factor: float) -> Callable[[nn.Module, Any, Tensor], Tensor]:
    return lambda _module, _inputs, output: output * factor


def test_fingerprint__hooks_count(net: SmallNet) -> None:
    encoder = cocoax.Encoder(net)
    before = encoder.fingerprint
    seen = {before}
    for register, hook in [
        (net.act.register_forward_hook, times(2)),
        (net.act.register_forward_hook, times(3)),
        (net.register_forward_pre_hook, lambda _module, inputs: (inputs[0] + 1,)),
        (net.conv.register_forward_hook, functools.partial(lambda factor, _m, _i, output: output * factor, 5)),
    ]:
        handle = register(hook)  # type: ignore[operator]
        seen.add(encoder.fingerprint)
        handle.remove()
    assert len(seen) == 5
    assert encoder.fingerprint == before


class Recorder:
    def __init__(self) -> None:
        self.outputs: list[Tensor] = []
        self.calls = 0

    def __call__(self, _module: nn.Module, _inputs: Any, output: Tensor) -> None:
        self.calls += 1
        self.outputs.append(output)


def test_fingerprint__what_hooks_record_does_not_count(net: SmallNet) -> None:
    collected: list[Tensor] = []
    last = torch.zeros(1)

    def keep(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        nonlocal last
        last = output
        collected.append(output)

    recorder = Recorder()
    net.act.register_forward_hook(keep)
    net.act.register_forward_hook(recorder)
    encoder = cocoax.Encoder(net)
    before = encoder.fingerprint
    encoder.represent(images(2))
    assert collected
    assert recorder.calls
    assert encoder.fingerprint == before


# --- callables ----------------------------------------------------------------------------------------------------------


def test_fingerprint__unnamed_function_whose_network_changes(net: SmallNet) -> None:
    encoder = cocoax.Encoder(lambda batch: net(batch))
    before = encoder.fingerprint
    encoder.represent(images(2))
    assert encoder.fingerprint == before
    with torch.no_grad():
        net.fc.weight.add_(1)
    assert encoder.fingerprint != before
    assert not encoder.recognisable


def test_fingerprint__unnamed_function_that_counts() -> None:
    calls: list[int] = []

    def function(batch: Tensor) -> Tensor:
        calls.append(len(batch))
        return batch.mean((2, 3))

    encoder = cocoax.Encoder(function)
    before = encoder.fingerprint
    encoder.represent(images(2))
    assert calls
    assert encoder.fingerprint == before


def test_changed__is_the_way_out_where_nothing_shows() -> None:
    settings = {"factor": 1.0}
    encoder = cocoax.Encoder(lambda batch: batch.mean((2, 3)) * settings["factor"])
    before, corpus = encoder.fingerprint, encoder.reference(images(2))
    settings["factor"] = 2.0
    assert encoder.fingerprint == before  # what it keeps in a dict cannot be told from what it records
    assert encoder.changed() is encoder
    assert encoder.fingerprint != before
    with pytest.raises(ValueError, match="another representation space"):
        cocoax.Rise(samples=20, grid=4).explain(encoder, images(1)[0], cocoax.corpus_similarity(corpus))


def test_changed__with_a_note_is_known_again(net: SmallNet) -> None:
    first, second = cocoax.Encoder(net).changed("calibrated"), cocoax.Encoder(net).changed("calibrated")
    assert first.fingerprint == second.fingerprint != cocoax.Encoder(net).fingerprint
    assert first.recognisable
    assert not cocoax.Encoder(net).changed().recognisable
    assert cocoax.Encoder(net).changed().fingerprint != cocoax.Encoder(net).changed().fingerprint


def test_changed__after_freeze(net: SmallNet) -> None:
    encoder = cocoax.Encoder(net).freeze()
    before = encoder.fingerprint
    assert encoder.changed("again").fingerprint != before


# --- TorchScript --------------------------------------------------------------------------------------------------------


class Plain(nn.Module):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4)
        weight = torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(seed))
        self.convolution.weight.data.copy_(weight)

    def forward(self, batch: Tensor) -> Tensor:
        return self.norm(self.convolution(batch)).mean((2, 3))


def scripted(net: nn.Module) -> nn.Module:
    return torch.jit.script(net)


def reloaded(net: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(net), file)
    file.seek(0)
    return torch.jit.load(file)


SPELLINGS: dict[str, Callable[[nn.Module], Any]] = {
    "script": scripted,
    "script in training mode": lambda net: torch.jit.script(net.train()),
    "trace": lambda net: torch.jit.trace(net, images(2)),
    "freeze": lambda net: torch.jit.freeze(torch.jit.script(net)),
    "freeze of a trace": lambda net: torch.jit.freeze(torch.jit.trace(net, images(2))),
    "optimised": lambda net: torch.jit.optimize_for_inference(torch.jit.script(net)),
    "loaded": reloaded,
    "part of a module": lambda net: nn.Sequential(torch.jit.script(net)),
}


@pytest.fixture
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls TorchScript deprecated
        yield


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_fingerprint__torchscript(spelling: str) -> None:
    make = SPELLINGS[spelling]
    encoder, same, other = (cocoax.Encoder(make(Plain(seed).eval())) for seed in (0, 0, 1))
    assert encoder.fingerprint == same.fingerprint != other.fingerprint
    result = cocoax.Rise(samples=20, grid=4).explain(encoder, images(1)[0], cocoax.representation_similarity())
    plain = cocoax.Rise(samples=20, grid=4).explain(cocoax.Encoder(Plain()), images(1)[0], cocoax.representation_similarity())
    torch.testing.assert_close(result.values, plain.values, atol=1e-5, rtol=0)


@pytest.mark.usefixtures("quiet")
def test_fingerprint__weights_of_a_script_change() -> None:
    net = torch.jit.script(Plain())
    encoder = cocoax.Encoder(net)
    before = encoder.fingerprint
    net.convolution.weight.data.neg_()
    assert encoder.fingerprint != before


@pytest.mark.usefixtures("quiet")
def test_fingerprint__script_function() -> None:
    @torch.jit.script
    def means(batch: Tensor) -> Tensor:
        return batch.mean(dim=[2, 3])

    encoder = cocoax.Encoder(means, name="means")
    assert encoder.represent(images(2)).shape == (2, 3)
    assert encoder.fingerprint == cocoax.Encoder(means, name="means").fingerprint


def test_settings__of_torchs_own_attention_count() -> None:
    """Heads, the place of norms and the activation are in no ``extra_repr``."""

    def layer(heads: int, **options: Any) -> cocoax.Encoder:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            module = nn.TransformerEncoderLayer(8, heads, 16, batch_first=True, **options)
        return cocoax.Encoder(module.eval(), name="attention")

    same = layer(2).fingerprint
    assert layer(2).fingerprint == same
    watched = layer(2)
    watched.module.linear1.register_full_backward_hook(lambda *_: None)  # it sees gradients only
    assert watched.fingerprint == same
    for other in (layer(4), layer(2, norm_first=True), layer(2, activation="gelu")):
        assert other.fingerprint != same

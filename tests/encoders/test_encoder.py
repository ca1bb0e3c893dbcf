"""The encoder: what goes in, how it is batched, what comes out, and what is said when something is wrong."""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax import Encoder
from cocoax.encoders.forward import evaluating, frozen
from cocoax.inputs import Pictures
from cocoax.progress import bar
from tests.conftest import SmallNet, images


def pixels(count: int = 5, height: int = 12, width: int = 10, seed: int = 0) -> np.ndarray:
    """Random pictures, uint8 ``[count, H, W, 3]``."""
    return np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def flat(batch: Tensor) -> Tensor:
    return batch.flatten(1)


def saved(folder: Path, arrays: np.ndarray) -> list[Path]:
    folder.mkdir()
    paths = [folder / f"{index:02}.png" for index in range(len(arrays))]
    for path, array in zip(paths, arrays, strict=True):
        Image.fromarray(array).save(path)
    return paths


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


# --- batches ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 2, 3, 6, 7, 8, 100, None])
def test_represent__batch_size_changes_no_numbers(encoder: Encoder, net: SmallNet, batch_size: int | None) -> None:
    batch = images(7)
    close(encoder.represent(batch, batch_size=batch_size), net(batch).detach())


def test_represent__batch_size_is_kept_to() -> None:
    sizes: list[int] = []

    def module(batch: Tensor) -> Tensor:
        sizes.append(len(batch))
        return flat(batch)

    Encoder(module).represent(images(7), batch_size=3)
    assert sizes == [3, 1, 3, 1]  # the second is the check that the encoder is deterministic


def test_represent__iterator_is_read_at_most_one_batch_ahead() -> None:
    read = 0
    encoded = 0
    ahead: list[int] = []

    def stream() -> Iterator[Tensor]:
        nonlocal read
        for one in images(20):
            read += 1
            yield one

    def module(batch: Tensor) -> Tensor:
        nonlocal encoded
        ahead.append(read - encoded)
        encoded += len(batch)
        return flat(batch)

    assert len(Encoder(module).represent(stream(), batch_size=4)) == 20
    assert len(ahead) == 6
    assert max(ahead) <= 8


def test_represent__failing_input_of_an_endless_stream_is_reported_at_once(encoder: Encoder) -> None:
    def endless() -> Iterator[Any]:
        yield from images(5)
        yield {"not": "an input"}
        raise AssertionError("read on after the failure")

    with pytest.raises(TypeError, match=r"Input 5: .*path, a PIL image, an array or a tensor\. Got dict"):
        encoder.represent(endless(), batch_size=4)


@pytest.mark.parametrize("batch_size", [0, -3])
def test_represent__batch_size_below_one(encoder: Encoder, batch_size: int) -> None:
    with pytest.raises(ValueError, match=rf"'batch_size' parameter must be .*at least 1\. Got {batch_size} instead"):
        encoder.represent(images(2), batch_size=batch_size)


@pytest.mark.parametrize("batch_size", ["3", 2.5])
def test_represent__batch_size_that_is_no_integer(encoder: Encoder, batch_size: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"'batch_size' parameter must be .*Got {batch_size!r} instead"):
        encoder.represent(images(2), batch_size=batch_size)


def test_batch_size__smaller_for_larger_inputs(encoder: Encoder) -> None:
    small, large = torch.zeros(3, 32, 32), torch.zeros(3, 512, 512)
    assert 1 <= encoder.batch_size(large) < encoder.batch_size(small) <= 64
    assert encoder.batch_size(torch.zeros(3, 2000, 2000)) == 1
    assert encoder.batch_size(large, 17) == 17


# --- memory -------------------------------------------------------------------------------------------------------------


class Limited(nn.Module):
    """Runs out of memory on more than ``most`` inputs at once; remembers the sizes of its batches."""

    def __init__(self, most: int, fail: Callable[[], object]) -> None:
        super().__init__()
        self.most = most
        self.fail = fail
        self.sizes: list[int] = []
        self.net = SmallNet()

    def forward(self, batch: Tensor) -> Tensor:
        self.sizes.append(len(batch))
        if len(batch) > self.most:
            self.fail()
        return self.net(batch)


def raising(error: BaseException) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail


OUT_OF_MEMORY: dict[str, Callable[[], object]] = {
    "cuda": raising(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")),
    "cpu": raising(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes")),
    "mps": raising(RuntimeError("MPS backend out of memory (MPS allocated: 8.00 GB)")),
    "windows": raising(RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 64 bytes.")),
    "python": raising(MemoryError()),
    "real": lambda: torch.empty(10**15),
}


@pytest.mark.parametrize("kind", OUT_OF_MEMORY)
@pytest.mark.parametrize("count", [8, 11])
def test_represent__out_of_memory_halves_the_batch(kind: str, count: int) -> None:
    module = Limited(3, OUT_OF_MEMORY[kind])
    encoder = Encoder(module)
    batch = images(count)
    close(encoder.represent(batch), module.net(batch).detach())
    assert max(module.sizes) == count
    module.sizes.clear()
    close(encoder.represent(batch), module.net(batch).detach())
    assert max(module.sizes) <= 3, "the smaller batch was not remembered"
    assert encoder.batch_size(batch[0], 64) <= 3


def test_represent__out_of_memory_on_a_single_input() -> None:
    encoder = Encoder(Limited(0, OUT_OF_MEMORY["cuda"]), name="huge")
    with pytest.raises(
        MemoryError, match=r"'huge' ran out of memory on a single input of shape \[3, 16, 16\]; use a smaller"
    ):
        encoder.represent(images(4))


def test_represent__other_runtime_errors_do_not_shrink_the_batch() -> None:
    module = Limited(3, raising(RuntimeError("something else")))
    encoder = Encoder(module)
    with pytest.raises(RuntimeError, match="something else"):
        encoder.represent(images(8))
    assert module.sizes == [8]
    assert encoder.batch_size(images(1)[0], 64) == 64


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


# --- device and precision -----------------------------------------------------------------------------------------------


def test_represent__float64_module() -> None:
    net = SmallNet().double().eval()
    batch = images(3)
    found = Encoder(net).represent(batch)
    assert found.dtype == torch.float32
    close(found, net(batch.double()).detach().float(), 1e-6)


def test_represent__float16_inputs(encoder: Encoder, net: SmallNet) -> None:
    batch = images(3).half()
    close(encoder.represent(batch), net(batch.float()).detach())


def test_device__is_that_of_the_module() -> None:
    assert Encoder(SmallNet()).device == torch.device("cpu")
    assert Encoder(SmallNet().to("meta")).device == torch.device("meta")
    assert Encoder(flat).device == torch.device("cpu")


def test_collate__moves_to_the_device_of_the_module() -> None:
    assert Encoder(SmallNet().to("meta")).collate(list(images(2))).device == torch.device("meta")


# --- layers and pooling -------------------------------------------------------------------------------------------------


def test_layer__output_of_the_inner_layer(net: SmallNet) -> None:
    batch = images(3)
    inner = net.act(net.conv(batch)).detach()
    close(Encoder(net, layer="act", pooling="flatten").represent(batch), inner.flatten(1))
    close(Encoder(net, layer="act").represent(batch), inner.mean((2, 3)))
    close(Encoder(net, layer="act", pooling="first").represent(batch), inner[:, :, 0, 0])
    close(Encoder(net, layer="fc").represent(batch), net(batch).detach())


def test_layer__nested_name(net: SmallNet) -> None:
    batch = images(3)
    close(Encoder(nn.Sequential(nn.Identity(), net), layer="1.conv").represent(batch), net.conv(batch).mean((2, 3)).detach())


def test_layer__followed_by_an_in_place_layer() -> None:
    net = nn.Sequential(SmallNet().conv, nn.ReLU(inplace=True))
    batch = images(3)
    close(Encoder(net, layer="0").represent(batch), net[0](batch).mean((2, 3)).detach())


def test_layer__used_twice_gives_its_last_output(net: SmallNet) -> None:
    tanh = nn.Tanh()
    batch = images(2)
    encoder = Encoder(nn.Sequential(tanh, tanh), layer="0", pooling="flatten")
    close(encoder.represent(batch), batch.tanh().tanh().flatten(1))


def test_layer__no_hook_is_left_behind(net: SmallNet) -> None:
    Encoder(net, layer="conv").represent(images(2))
    assert not net.conv._forward_hooks


def test_layer__differentiable(net: SmallNet) -> None:
    batch = images(2).requires_grad_()
    Encoder(net, layer="conv")(batch).sum().backward()
    (expected,) = torch.autograd.grad(net.conv(batch).mean((2, 3)).sum(), batch)
    assert batch.grad is not None
    close(batch.grad, expected)


def test_layer__of_a_bound_method() -> None:
    module = WithMethod()
    batch = images(2)
    close(Encoder(module.features, layer="net.act").represent(batch), module.net.act(module.net.conv(batch)).mean((2, 3)))


@pytest.mark.parametrize(
    ("pooling", "pooled"),
    [
        ("mean", lambda output: output.mean((2, 3))),
        ("flatten", lambda output: output.reshape(len(output), -1)),
        ("first", lambda output: output[:, :, 0, 0]),
    ],
)
def test_pooling__feature_maps(net: SmallNet, pooling: Any, pooled: Callable[[Tensor], Tensor]) -> None:
    batch = images(3)
    close(Encoder(net.conv, pooling=pooling).represent(batch), pooled(net.conv(batch)).detach())


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


# --- callables ----------------------------------------------------------------------------------------------------------


class WithMethod(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = SmallNet()
        self.drop = nn.Dropout(0.5)
        self.modes: list[bool] = []

    def features(self, batch: Tensor) -> Tensor:
        self.modes.append(self.drop.training)
        return self.drop(self.net(batch))


def test_callable__function_and_lambda(net: SmallNet) -> None:
    batch = images(3)
    close(Encoder(flat).represent(batch), batch.flatten(1))
    close(Encoder(lambda batch: net(batch) * 2).represent(batch), net(batch).detach() * 2)


def test_callable__bound_method_of_a_module() -> None:
    module = WithMethod().double().train()
    encoder = Encoder(module.features)
    batch = images(3)
    close(encoder.represent(batch), module.net(batch.double()).float().detach())
    assert module.modes
    assert not any(module.modes)
    assert module.drop.training
    assert encoder.owner is module
    assert encoder.name == "features"


def test_callable__not_one() -> None:
    with pytest.raises(TypeError, match=r"An encoder must be an nn\.Module or a callable\. Got str instead"):
        Encoder("resnet50")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Got dict instead"):
        Encoder({"weight": images(1)})  # type: ignore[arg-type]


def test_name__given_or_that_of_the_module(net: SmallNet) -> None:
    assert Encoder(net).name == "SmallNet"
    assert Encoder(net, name="mine").name == "mine"
    assert repr(Encoder(net, layer="fc", name="mine")) == "Encoder('mine', layer='fc')"
    assert repr(Encoder(net)) == "Encoder('SmallNet')"


def test_text__missing_tower_says_where_there_is_one(encoder: Encoder) -> None:
    with pytest.raises(AttributeError, match=r"'SmallNet' has no text tower; cocoax\.load\('starter'\) has one"):
        _ = encoder.text


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


def test_output__tuple(net: SmallNet) -> None:
    with pytest.raises(TypeError, match=r"'pair' returned a tuple of 2; it must return one tensor \[n, d\]\.") as caught:
        Encoder(lambda batch: (net(batch), None), name="pair").represent(images(2))
    assert "lambda x: model(x)[0]" in str(caught.value)


def test_output__dict(net: SmallNet) -> None:
    with pytest.raises(TypeError, match=r"returned a dict with keys pooled, tokens; it must return one tensor") as caught:
        Encoder(lambda batch: {"pooled": net(batch), "tokens": None}).represent(images(2))
    assert "lambda x: model(x)['pooled']" in str(caught.value)


def test_output__advice_for_a_dict_works(net: SmallNet) -> None:
    def model(batch: Tensor) -> dict[str, Tensor]:
        return {"pooled": net(batch)}

    close(Encoder(lambda batch: model(batch)["pooled"], name="wrapped").represent(images(2)), net(images(2)).detach())


@pytest.mark.parametrize("output", [None, "text", 3.5, np.zeros((2, 4), dtype=np.float32)])
def test_output__something_else(output: object) -> None:
    with pytest.raises(TypeError, match=rf"returned a {type(output).__name__}; it must return one tensor \[n, d\]"):
        Encoder(lambda batch: output).represent(images(2))


def test_output__wrong_batch_size() -> None:
    with pytest.raises(ValueError, match=r"'halves' returned shape \[2, 768\] for a batch of 4; expected \[4, d\]") as caught:
        Encoder(lambda batch: batch.flatten(1)[::2], name="halves").represent(images(4))
    assert re.search(r"layer=|wrap|row per input", str(caught.value)), str(caught.value)


def test_output__one_dimension() -> None:
    with pytest.raises(ValueError, match=r"'scores' returned shape \[4\] for a batch of 4; expected \[4, d\]") as caught:
        Encoder(lambda batch: batch.mean((1, 2, 3)), name="scores").represent(images(4))
    assert re.search(r"layer=|wrap|row per input", str(caught.value)), str(caught.value)


def test_output__random_even_in_eval_mode() -> None:
    encoder = Encoder(lambda batch: F.dropout(batch.flatten(1), 0.5, training=True), name="noisy")
    with (
        torch.random.fork_rng(),
        pytest.raises(
            ValueError, match=r"'noisy' gave two representations of the same input: it is random .* Switch that off"
        ),
    ):
        encoder.represent(images(4))


def test_output__random_on_a_single_input() -> None:
    generator = torch.Generator().manual_seed(0)
    encoder = Encoder(lambda batch: torch.rand(len(batch), 4, generator=generator))
    with pytest.raises(ValueError, match="two representations of the same input"):
        encoder.represent(images(1))


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


def test_output__not_finite_in_the_first_input() -> None:
    with pytest.raises(ValueError, match=r"representation of input 0 is not finite"):
        Encoder(lambda batch: batch.flatten(1) / 0).represent(torch.ones(2, 3, 4, 4))


# --- progress -----------------------------------------------------------------------------------------------------------


def test_progress__forced(encoder: Encoder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("COCOAX_PROGRESS")
    encoder.represent(images(3), progress=True)
    captured = capsys.readouterr()
    assert "encoding with SmallNet" in captured.err
    assert "/3" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(("variable", "progress"), [(None, False), (None, None), ("0", True), ("0", None)])
def test_progress__silent(
    encoder: Encoder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str | None,
    progress: bool | None,
) -> None:
    monkeypatch.delenv("COCOAX_PROGRESS")
    if variable is not None:
        monkeypatch.setenv("COCOAX_PROGRESS", variable)
    encoder.represent(images(3), progress=progress)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_progress__total_of_a_stream_and_of_a_folder(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("COCOAX_PROGRESS")
    encoder.represent(iter(images(3)), progress=True)
    assert re.search(r"\b0it", capsys.readouterr().err)  # the length of a stream is not known
    saved(tmp_path / "pictures", pixels(3))
    encoder.represent(str(tmp_path / "pictures"), progress=True)
    totals = set(re.findall(r"\d+/(\d+)", capsys.readouterr().err))
    assert totals <= {"3"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress__on_a_terminal_only_when_work_is_long(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COCOAX_PROGRESS")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    encoder.represent(images(3))
    assert "encoding" not in terminal.getvalue()
    with bar(10, "long work") as shown:
        assert not shown.disable
        shown.start_t -= 5  # as if five seconds had passed
        shown.last_print_t -= 5
        shown.update(5)
    assert "long work" in terminal.getvalue()


# --- the head and its classes -------------------------------------------------------------------------------------------


def test_classes__name_the_outputs_of_the_head(net: SmallNet) -> None:
    with torch.random.fork_rng():
        head = nn.Linear(8, 2)
    assert Encoder(net, head=head, classes=("cat", "dog")).classes == ["cat", "dog"]
    assert Encoder(net, head=head).classes is None
    assert Encoder(net, head=lambda x: x[:, :3], classes=["a", "b", "c"]).classes == ["a", "b", "c"]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'classes' names 3 classes but the head has 2 outputs"):
        Encoder(net, head=head, classes=["cat", "dog", "cow"])
    with pytest.raises(ValueError, match=r"'classes' names 1 classes but there is no head"):
        Encoder(net, classes=["cat"])


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


# --- final weights ----------------------------------------------------------------------------------------------------


def test_freeze__fingerprints_stay_and_are_not_computed_again(net: SmallNet) -> None:
    other = SmallNet(seed=1).eval()
    encoder = cocoax.Encoder(net, text=cocoax.Encoder(other))
    before = encoder.fingerprint, encoder.space, encoder.text.fingerprint
    assert encoder.freeze() is encoder
    with torch.no_grad():
        net.fc.weight += 1
        other.fc.weight += 1
    assert (encoder.fingerprint, encoder.space, encoder.text.fingerprint) == before
    assert cocoax.Encoder(net).fingerprint != before[0]


def test_inputs__say_all_about_the_inputs(net: SmallNet) -> None:
    kind = Pictures()
    for options in ({"preprocess": flat}, {"columns": ["a"]}, {"background": [[1.0]]}, {"features": "columns"}):
        with pytest.raises(ValueError, match=r"'inputs' says all about the inputs; leave out 'preprocess', 'columns'"):
            Encoder(net, inputs=kind, **options)  # type: ignore[arg-type]


def test_inputs__are_a_copy_that_knows_its_encoder(net: SmallNet) -> None:
    kind = Pictures()
    first, second = Encoder(net, inputs=kind, name="first"), Encoder(net, inputs=kind, name="second")
    assert (kind.encoder, first.inputs.encoder, second.inputs.encoder) == ("the encoder", "first", "second")


def test_with_module__errors_name_the_new_encoder() -> None:
    rows = cocoax.TabularEncoder(nn.Identity(), columns=["a", "b"], name="old")
    new = rows.with_module(nn.Tanh(), "new")
    with pytest.raises(ValueError, match=r"A row of 'new' has 2 columns"):
        new.represent([[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match=r"A row of 'old' has 2 columns"):
        rows.represent([[1.0, 2.0, 3.0]])

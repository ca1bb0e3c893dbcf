"""Devices and precisions: names, errors, and that everything stays where the encoder is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cocoax
from cocoax.encoders import devices
from cocoax.encoders.devices import _why_not, device_asked_for, device_named, precision_named
from cocoax.evaluation.curves import class_probability
from cocoax.spaces import same_space
from tests.conftest import SmallNet, images
from tests.second_device import ELSEWHERE, SecondDevice
from tests.towers import two_towers


class Normed(nn.Module):
    """A network with something to fold."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.conv, self.norm, self.fc = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Linear(6, 8)
            self.norm.running_mean.copy_(torch.randn(6))  # type: ignore[union-attr]

    def forward(self, pictures: Tensor) -> Tensor:
        output: Tensor = self.fc(self.norm(self.conv(pictures)).relu().mean((2, 3)))
        return output


@pytest.fixture
def second() -> Iterator[SecondDevice]:
    with SecondDevice() as device:
        yield device


# --- names ----------------------------------------------------------------------------------------------------------------


def test_device_named__cpu_and_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_named("cpu") == device_named(torch.device("cpu")) == torch.device("cpu")
    for cuda, mps, expected in ((True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
        assert device_named("auto") == torch.device(expected)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu", r"No device is called 'gpu'; write 'cpu', 'cuda', 'cuda:1', 'mps' or 'auto'\."),
        ("lazy", r"The device 'lazy' is not there: this machine, or torch, has none\. Use 'cpu', or 'auto' for the fastest"),
        ("cuda:99", r"The device 'cuda:99' is not there: "),
        ("meta", r"The device 'meta' holds no numbers"),
    ],
)
def test_device_named__not_there(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        device_named(name)
    with pytest.raises(ValueError, match=message):
        cocoax.load("simclr-cifar10-small", device=name)


def test_device_asked_for__environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_asked_for(None) is None
    monkeypatch.setenv("COCOAX_DEVICE", "cpu")
    assert device_asked_for(None) == torch.device("cpu")
    monkeypatch.setenv("COCOAX_DEVICE", "lazy:0")
    with pytest.raises(
        ValueError, match=r"environment variable COCOAX_DEVICE is 'lazy:0'\. The device 'lazy:0' is not there"
    ):
        cocoax.load("simclr-cifar10-small")
    assert cocoax.load("simclr-cifar10-small", device="cpu").device == torch.device("cpu")  # what is said goes first
    with SecondDevice():
        assert cocoax.load("simclr-cifar10-small").device == ELSEWHERE
    monkeypatch.setenv("COCOAX_DEVICE", "")
    assert device_asked_for(None) is None


@pytest.mark.parametrize("name", ["int8", torch.int64, torch.float8_e5m2, 16])
def test_precision_named__unknown(name: Any) -> None:
    with pytest.raises(ValueError, match=r"'dtype' parameter must be 'float16', 'half', 'bfloat16', .*Got .* instead"):
        precision_named(name, torch.device("cpu"))


# --- half precision is tried out first ------------------------------------------------------------------------------------


@pytest.fixture
def fresh() -> Iterator[None]:
    _why_not.cache_clear()
    yield
    _why_not.cache_clear()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("trial", "message"),
    [
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGILL)",
            r"cannot compute in torch\.bfloat16 on 'cpu': the process was killed by SIGILL \(tried in a process of its own\)",
        ),
        ("raise RuntimeError('not implemented for {device}')", r"on 'cpu': RuntimeError: not implemented for cpu \(tried"),
    ],
)
def test_precision_named__kills_or_fails(trial: str, message: str, monkeypatch: pytest.MonkeyPatch, net: SmallNet) -> None:
    monkeypatch.setattr(devices, "_TRIAL", trial)
    encoder = cocoax.Encoder(net)
    with pytest.raises(ValueError, match=message):
        encoder.to(dtype="bfloat16")
    assert net.fc.weight.dtype == torch.float32  # nothing was moved
    with pytest.raises(ValueError, match=message):
        encoder.autocast(torch.bfloat16)
    with pytest.raises(ValueError, match=message):
        cocoax.load("simclr-cifar10-small", dtype="bfloat16")


@pytest.mark.usefixtures("fresh")
def test_why_not__the_trial_itself() -> None:
    assert _why_not("cpu", "torch.float32") is None  # in single precision it runs everywhere


def half(dtype: torch.dtype = torch.float16) -> torch.dtype:
    reason = _why_not("cpu", str(dtype))
    if reason is not None:
        pytest.skip(f"{dtype} does not run here: {reason}")
    return dtype


def test_to__half_precision() -> None:
    encoder, expected = cocoax.Encoder(SmallNet().eval()), cocoax.Encoder(SmallNet().eval()).represent(images(5))
    encoder.to(half())
    assert encoder.represent(images(5)).dtype == torch.float32  # representations are, whatever computes them
    torch.testing.assert_close(encoder.represent(images(5)), expected, rtol=0.02, atol=0.02)
    target = cocoax.similarity_to(encoder.reference(images(2)))
    result = cocoax.IntegratedGradients(steps=20).explain(encoder, images(3)[2], target)
    assert float(3 * result.values.sum()) == pytest.approx(result.score - result.baseline_score, abs=0.05)


def test_autocast__weights_stay() -> None:
    net = SmallNet().eval()
    encoder = cocoax.Encoder(net)
    before, expected = encoder.fingerprint, encoder.represent(images(5))
    assert encoder.autocast(half()) is encoder
    lower = encoder.represent(images(5))
    assert net.fc.weight.dtype == torch.float32
    assert 0 < float((lower - expected).abs().max()) < 0.02
    assert encoder.fingerprint != before  # these representations are others
    cocoax.VanillaGradients().explain(encoder, images(1)[0], cocoax.similarity_to(encoder.reference(images(2))))
    encoder.autocast(None)
    assert encoder.fingerprint == before
    assert torch.equal(encoder.represent(images(5)), expected)
    with pytest.raises(ValueError, match=r"must be 'float16' or 'bfloat16'\. Got 'float64'"):
        encoder.autocast("float64")


# --- another precision ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", torch.float64])
def test_to__double_precision(dtype: Any) -> None:
    single, double = cocoax.Encoder(Normed().eval()), cocoax.Encoder(Normed().eval())
    reference = double.reference(images(2))
    assert double.to(dtype=dtype) is double
    assert next(double.owner.parameters()).dtype == torch.float64  # type: ignore[union-attr]
    torch.testing.assert_close(double.represent(images(4)), single.represent(images(4)), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="lives in another representation space"):
        cocoax.Rise(samples=20).run(double, images(1)[0]).explain(cocoax.similarity_to(reference))
    results = [
        [
            method.explain(encoder, images(3)[2], cocoax.similarity_to(encoder.reference(images(2))))
            for encoder in (single, double)
        ]
        for method in (cocoax.Rise(samples=60, grid=4), cocoax.IntegratedGradients(steps=5), cocoax.Captum("Saliency"))
    ]
    for first, second in results:
        torch.testing.assert_close(first.values, second.values, rtol=1e-3, atol=1e-6)
    assert double.to("cpu", torch.float32).fingerprint == single.fingerprint


def test_to__module_that_cannot() -> None:
    class Single(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3, 2))

        def forward(self, pictures: Tensor) -> Tensor:
            return pictures.mean((2, 3)).float() @ self.weight

    encoder = cocoax.Encoder(Single()).to(dtype="float64")
    with pytest.raises(RuntimeError, match=r"It may not run in torch\.float64: encoder\.to\(dtype='float32'\)"):
        encoder.represent(images(1))
    assert encoder.to(dtype="float32").represent(images(1)).shape == (1, 2)


def test_to__a_function_cannot_be_moved(second: SecondDevice) -> None:
    encoder = cocoax.Encoder(lambda batch: batch.flatten(1), name="mine")
    assert encoder.to("cpu") is encoder
    for place in ({"device": ELSEWHERE}, {"dtype": "float64"}):
        with pytest.raises(ValueError, match="'mine' is a function, which cannot be moved; make one that runs elsewhere"):
            encoder.to(**place)  # type: ignore[arg-type]


# --- everything stays on the encoder's device -------------------------------------------------------------------------------


METHODS = [
    cocoax.Rise(samples=40, grid=4),
    cocoax.KernelShap(samples=120),
    cocoax.Occlusion(),
    cocoax.VanillaGradients(),
    cocoax.IntegratedGradients(steps=6),
    cocoax.SmoothGrad(samples=4),
    cocoax.GradientShap(samples=4),
    cocoax.ExpectedGradients(images(3), samples=4),
    cocoax.RandomAttribution(),
    *(cocoax.Captum(name) for name in ("Saliency", "DeepLift", "InputXGradient", "FeatureAblation")),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: getattr(method, "method", type(method)).__name__)
@pytest.mark.parametrize("make", [SmallNet, Normed])
def test_device__methods(method: Any, make: type[nn.Module], second: SecondDevice) -> None:
    here, there = cocoax.Encoder(make().eval()), cocoax.Encoder(make().eval()).to(ELSEWHERE)
    results = []
    for encoder in (here, there):
        corpus, foil = encoder.reference(images(3)), encoder.reference(images(4, seed=1), keep_samples=True)
        assert corpus.mean.device == torch.device("cpu")
        results.append(method.explain(encoder, images(3, seed=2)[2], cocoax.contrastive_corpus_similarity(corpus, foil)))
    assert results[1].values.device == torch.device("cpu")
    assert torch.equal(results[0].values, results[1].values)
    assert second.operations > 0
    assert same_space(here.space, there.space)  # the device is no part of it
    assert here.fingerprint != there.fingerprint  # but of what caches go by


def test_device__curves_heads_and_kernels(second: SecondDevice) -> None:
    with torch.random.fork_rng():
        head = nn.Linear(8, 3)
    encoder = cocoax.Encoder(SmallNet().eval(), head=head).to(ELSEWHERE)
    assert head.weight.device == ELSEWHERE
    target = cocoax.similarity_to(encoder.reference(images(3), keep_samples=True), "rbf")
    result = cocoax.Rise(samples=40, grid=4).explain(encoder, images(1)[0], target)
    for measure in (target, class_probability(head, 1)):
        curve = cocoax.insertion(encoder, images(1)[0], result, measure)
        assert torch.isfinite(curve.y).all()
    scores = target.as_module(encoder)(images(2).to(ELSEWHERE))
    assert scores.device == ELSEWHERE
    assert torch.allclose(scores.detach().to("cpu"), target.score(encoder.represent(images(2))).float(), atol=1e-6)


def test_device__only_batches_travel(second: SecondDevice) -> None:
    """Masks and pictures are blended on the device: it is sent the masks, not every masked picture."""
    encoder = cocoax.Encoder(SmallNet().eval()).to(ELSEWHERE)
    cocoax.Rise(samples=64, grid=4).run(encoder, images(1, 32, 32)[0])
    sent = sum(torch.Size(shape).numel() for shape in second.arrivals)
    assert sent < 64 * 32 * 32 + 20 * 3 * 32 * 32 + 10_000


def test_to__text_tower_comes_along(second: SecondDevice) -> None:
    encoder = two_towers()
    expected = encoder.text.represent(["a cat"])
    encoder.to(ELSEWHERE)
    assert encoder.device == encoder.text.device == ELSEWHERE
    assert torch.allclose(encoder.text.represent(["a cat"]), expected, atol=1e-6)

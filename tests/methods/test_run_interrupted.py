"""Runs that are interrupted keep what they have, and go on from there."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.modules.module import register_module_forward_pre_hook

import cocoax
from cocoax.methods.run import Interrupted, RemovalMethod, Run
from tests.conftest import SmallNet, images
from tests.methods.runs import METHODS, every_method


def interrupt_after(net: SmallNet, inputs: int) -> Any:
    """Ctrl-C when the net has seen this many more inputs."""
    last = net.inputs + inputs

    def press(module: object, _inputs: object) -> None:
        if module is net and net.inputs >= last:
            raise KeyboardInterrupt

    return register_module_forward_pre_hook(press)  # of all modules: one of its own would make it another encoder


def interrupted_run(net: SmallNet, encoder: cocoax.Encoder, method: RemovalMethod, samples: int) -> Run:
    hook = interrupt_after(net, 2 + samples)
    with pytest.raises(Interrupted, match=f"interrupted after {samples} samples") as caught:
        replace(method, batch_size=4).run(encoder, images(1)[0])
    hook.remove()
    return caught.value.run


@pytest.mark.parametrize("samples", [20, 40])
def test_interruption__rise_keeps_what_it_has(
    net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target, samples: int
) -> None:
    run = interrupted_run(net, encoder, METHODS["rise"], samples)

    assert len(run) == len(run.masks) == samples
    assert run.stopped == "interrupted"
    shorter = cocoax.Rise(samples=samples, grid=4).explain(encoder, images(1)[0], target)
    torch.testing.assert_close(run.explain(target).values, shorter.values, atol=1e-5, rtol=0)


INTERRUPTED = [("rise", 12), ("rise-paper", 4), ("kernel-shap", 4), ("kernel-shap", 40)]
INTERRUPTED += [("occlusion", 12)]


@pytest.mark.parametrize(("name", "samples"), INTERRUPTED)
def test_interruption__goes_on_where_it_stopped(
    net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target, name: str, samples: int
) -> None:
    whole = METHODS[name].run(encoder, images(1)[0])

    run = interrupted_run(net, encoder, METHODS[name], samples)
    before = net.inputs
    run.extend(encoder, len(whole) - samples)

    assert net.inputs - before == len(whole) - samples
    torch.testing.assert_close(run.explain(target).values, whole.explain(target).values, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("name", "samples"), INTERRUPTED)
def test_interruption__what_there_is_answers_targets(
    net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target, name: str, samples: int
) -> None:
    run = interrupted_run(net, encoder, METHODS[name], samples)

    assert len(run.masks) == len(run) == samples
    if name == "occlusion":  # its first windows say nothing about some segments
        with pytest.raises(ValueError, match="extend it"):
            run.explain(target)
    else:
        assert run.explain(target).values.shape == (16, 16)


def test_interruption__too_few_samples_to_answer(net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    run = interrupted_run(net, encoder, METHODS["rise"], 4)

    with pytest.raises(ValueError, match="at least 10 samples"):  # as Rise(samples=4) would have said
        run.explain(target)
    run.extend(encoder, 56)
    whole = METHODS["rise"].explain(encoder, images(1)[0], target)
    torch.testing.assert_close(run.explain(target).values, whole.values, atol=1e-5, rtol=0)


@every_method
def test_interruption__before_the_first_sample(net: SmallNet, encoder: cocoax.Encoder, method: RemovalMethod) -> None:
    encoder.represent(images(2))
    hook = interrupt_after(net, 2)

    with pytest.raises(KeyboardInterrupt):
        method.run(encoder, images(1)[0])

    hook.remove()


def test_interruption__while_extending(net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    run = cocoax.Rise(samples=40, grid=4, batch_size=10).run(encoder, images(1)[0])
    hook = interrupt_after(net, 20)

    with pytest.raises(Interrupted) as caught:
        run.extend(encoder, 100)
    hook.remove()

    assert caught.value.run is run
    assert len(run) == 60
    longer = cocoax.Rise(samples=60, grid=4).explain(encoder, images(1)[0], target)
    torch.testing.assert_close(run.explain(target).values, longer.values, atol=1e-5, rtol=0)


def test_interruption__between_rounds(encoder: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def press(_self: object, _run: Run, _targets: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cocoax.Rise, "samples_needed", press)

    with pytest.raises(Interrupted) as caught:
        cocoax.Rise(samples=40, grid=4, tolerance=1e-6).run(encoder, images(1)[0])

    assert len(caught.value.run) == len(caught.value.run.masks) == 40
    assert caught.value.run.stopped == "interrupted"


SLOW_RUN = """
import signal, time, torch, cocoax

signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background start with it ignored

def slow(batch):
    print("encoding", flush=True)
    time.sleep(0.02)
    return torch.tanh(batch).flatten(1)

encoder = cocoax.Encoder(slow, name="slow")
explicand = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(0))
target = cocoax.representation_similarity()
try:
    cocoax.Rise(samples=100_000, grid=4, batch_size=2).run(encoder, explicand, progress=False)
except cocoax.Interrupted as stop:
    kept = len(stop.run)
    stop.run.extend(encoder, 10, progress=False)
    whole = cocoax.Rise(samples=kept + 10, grid=4).explain(encoder, explicand, target, progress=False)
    difference = float((stop.run.explain(target).values - whole.values).abs().max())
    print("kept", kept, difference < 1e-5, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for another process")
def test_interruption__a_real_signal() -> None:
    with subprocess.Popen([sys.executable, "-c", SLOW_RUN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(12):  # the ends, the check that it is deterministic, and then at least eight batches of two
            assert process.stdout.readline() == "encoding\n"
        process.send_signal(signal.SIGINT)
        words = process.stdout.read().split("\n")[-2].split()

    assert words[0] == "kept"
    assert int(words[1]) >= 14
    assert words[2] == "True"
    assert process.returncode == 0

"""Fingerprints: the same for what is the same, here and in another process, and different for all else."""

from __future__ import annotations

import collections
import copy
import functools
import json
import logging
import os
import re
import subprocess
import sys
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax import Encoder, ImagePreprocess, TextEncoder
from cocoax.encoders.identity import Identity, look, looking_once
from cocoax.inputs.image import to_tensor
from cocoax.store import digest
from tests.conftest import SmallNet, images

ROOT = Path(__file__).parents[2]


# --- weights ------------------------------------------------------------------------------------------------------------


def test_fingerprint__same_weights_same_fingerprint(net: SmallNet) -> None:
    expected = Encoder(net).fingerprint
    assert Encoder(net).fingerprint == expected
    assert Encoder(SmallNet()).fingerprint == expected
    assert Encoder(copy.deepcopy(net)).fingerprint == expected
    assert Encoder(net, name="another name").fingerprint == expected
    assert Encoder(net).recognisable


def test_fingerprint__other_weights_other_fingerprint(net: SmallNet) -> None:
    assert Encoder(net).fingerprint != Encoder(SmallNet(seed=1)).fingerprint
    assert Encoder(net).space != Encoder(SmallNet(seed=1)).space


def test_fingerprint__not_changed_by_use(encoder: Encoder, net: SmallNet) -> None:
    before = encoder.fingerprint
    encoder.represent(images(3))
    encoder(images(2)).sum().backward()
    assert encoder.fingerprint == before
    net.train()
    assert encoder.fingerprint == before
    assert Encoder(net).fingerprint == before
    net.requires_grad_(False)
    net.zero_grad()
    net.to(memory_format=torch.channels_last)
    assert encoder.fingerprint == before
    assert Encoder(net).fingerprint == before


def in_place(net: SmallNet) -> None:
    with torch.no_grad():
        net.fc.weight.add_(0.1)


def one_element_in_place(net: SmallNet) -> None:
    with torch.no_grad():
        net.conv.weight[3, 2, 1, 1] += 0.1


def through_data(net: SmallNet) -> None:
    net.fc.weight.data.mul_(1.1)


def new_data(net: SmallNet) -> None:
    net.fc.weight.data = net.fc.weight.data + 0.1


def new_parameter(net: SmallNet) -> None:
    net.fc.weight = nn.Parameter(net.fc.weight.detach() + 0.1)


def load_weights(net: SmallNet) -> None:
    net.load_state_dict(SmallNet(seed=1).state_dict())


def assign_weights(net: SmallNet) -> None:
    net.load_state_dict(SmallNet(seed=1).state_dict(), assign=True)


def optimise(net: SmallNet) -> None:
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    net(images(2)).sum().backward()
    optimiser.step()


def to_double(net: SmallNet) -> None:
    net.double()


def other_activation(net: SmallNet) -> None:
    net.act = nn.ReLU()  # type: ignore[assignment]


@pytest.mark.parametrize(
    "change",
    [
        in_place,
        one_element_in_place,
        through_data,
        new_data,
        new_parameter,
        load_weights,
        assign_weights,
        optimise,
        to_double,
    ],
)
def test_fingerprint__changes_with_the_weights(net: SmallNet, change: Callable[[SmallNet], None]) -> None:
    encoder = Encoder(net)
    before = encoder.fingerprint
    change(net)
    assert encoder.fingerprint != before
    assert encoder.fingerprint == Encoder(net).fingerprint
    assert encoder.space == encoder.fingerprint


def test_fingerprint__changes_and_comes_back(encoder: Encoder, net: SmallNet) -> None:
    before, weights = encoder.fingerprint, copy.deepcopy(net.state_dict())
    in_place(net)
    assert encoder.fingerprint != before
    net.load_state_dict(weights)
    assert encoder.fingerprint == before


def test_fingerprint__changes_with_a_single_element_through_data(encoder: Encoder, net: SmallNet) -> None:
    for index in range(net.conv.weight.numel()):
        before = encoder.fingerprint
        net.conv.weight.data.view(-1)[index] += 0.5
        assert encoder.fingerprint != before, f"element {index}"


def test_fingerprint__structure_counts(net: SmallNet) -> None:
    expected = Encoder(net).fingerprint
    other = copy.deepcopy(net)
    other_activation(other)
    assert Encoder(other).fingerprint != expected
    assert Encoder(nn.Sequential(net)).fingerprint != expected


class WithBuffers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.ones(3))
        self.register_buffer("unsaved", torch.ones(3), persistent=False)
        self.kept: Tensor
        self.unsaved: Tensor

    def forward(self, batch: Tensor) -> Tensor:
        return batch.mean((2, 3)) * self.kept + self.unsaved


@pytest.mark.parametrize("name", ["kept", "unsaved"])
def test_fingerprint__changes_with_a_buffer(name: str) -> None:
    module = WithBuffers()
    encoder = Encoder(module)
    before = encoder.fingerprint
    getattr(module, name).add_(1)
    assert encoder.fingerprint != before


def test_fingerprint__statistics_of_a_batch_norm() -> None:
    module = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten())
    encoder = Encoder(module)
    before = encoder.fingerprint
    module(images(4))  # in training mode, so it updates its statistics
    assert encoder.fingerprint != before


def test_fingerprint__weights_made_in_inference_mode() -> None:
    expected = Encoder(SmallNet()).fingerprint
    with torch.inference_mode():
        net = SmallNet()
    assert Encoder(net).fingerprint == expected


def test_fingerprint__module_without_weights() -> None:
    assert Encoder(nn.Flatten()).fingerprint == Encoder(nn.Flatten()).fingerprint
    assert Encoder(nn.Flatten()).fingerprint != Encoder(nn.Identity()).fingerprint


# --- layer, pooling, preprocessing --------------------------------------------------------------------------------------


def test_fingerprint__layer_and_pooling(net: SmallNet) -> None:
    encoders = [
        Encoder(net),
        Encoder(net, layer="conv"),
        Encoder(net, layer="act"),
        Encoder(net, layer="conv", pooling="flatten"),
        Encoder(net, layer="conv", pooling="first"),
    ]
    assert len({encoder.fingerprint for encoder in encoders}) == len(encoders)
    assert len({encoder.space for encoder in encoders}) == len(encoders)


def test_fingerprint__preprocess_of_ours(net: SmallNet) -> None:
    kinds = [
        None,
        ImagePreprocess(),
        ImagePreprocess(resize=8),
        ImagePreprocess(resize=9),
        ImagePreprocess(crop=8),
        ImagePreprocess(mean=(0.5, 0.5, 0.5)),
        ImagePreprocess(std=(0.5, 0.5, 0.5)),
        ImagePreprocess(interpolation="bilinear"),
    ]
    assert len({Encoder(net, kind).fingerprint for kind in kinds}) == len(kinds)
    assert Encoder(net, ImagePreprocess(resize=8)).fingerprint == Encoder(net, ImagePreprocess(resize=8)).fingerprint


def scaled(factor: float) -> Callable[[Image.Image], Tensor]:
    return lambda image: to_tensor(image) * factor


def with_default(factor: float) -> Callable[[Image.Image], Tensor]:
    def preprocess(image: Image.Image, factor: float = factor) -> Tensor:
        return to_tensor(image) * factor

    return preprocess


def with_keyword_default(factor: float) -> Callable[[Image.Image], Tensor]:
    def preprocess(image: Image.Image, *, factor: float = factor) -> Tensor:
        return to_tensor(image) * factor

    return preprocess


def less(mean: Tensor) -> Callable[[Image.Image], Tensor]:
    return lambda image: to_tensor(image) - mean


def calling(inner: Callable[[Image.Image], Tensor]) -> Callable[[Image.Image], Tensor]:
    return lambda image: inner(image)


class Scale:
    """A callable object whose repr tells nothing."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, image: Image.Image) -> Tensor:
        return to_tensor(image) * self.factor

    def method(self, image: Image.Image) -> Tensor:
        return to_tensor(image) * self.factor


@dataclass
class Short:
    """A callable object whose repr tells some of what it holds."""

    held: Any

    def __repr__(self) -> str:
        return "Short()"

    def __call__(self, image: Image.Image) -> Tensor:
        return to_tensor(image) * self.held


class Slots:
    __slots__ = ("factor",)

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, image: Image.Image) -> Tensor:
        return to_tensor(image) * self.factor


def fitted(factor: float) -> Any:
    from sklearn.preprocessing import StandardScaler

    return StandardScaler().fit(np.arange(6.0).reshape(3, 2) * factor)


def table(factor: float) -> Any:
    import pandas

    return pandas.DataFrame({"column": np.where(np.arange(1000) == 500, factor, 0.0)})


def edited(factor: float) -> Callable[[Image.Image], Tensor]:
    """The same line of the same file, before and after an edit inside a nested function."""
    code = f"f = lambda image: (lambda tensor: tensor * {factor})(to_tensor(image))"
    names: dict[str, Any] = {"to_tensor": to_tensor}
    exec(compile(code, "preprocess.py", "exec"), names)
    return names["f"]  # type: ignore[no-any-return]


def middle(value: float) -> Tensor:
    """A large tensor that differs where its repr shows dots."""
    tensor = torch.zeros(3, 100, 100)
    tensor[:, 50, 50] = value
    return tensor


PREPROCESSES: dict[str, Callable[[float], Callable[..., Any]]] = {
    "closure": scaled,
    "default": with_default,
    "partial": lambda factor: functools.partial(with_default(1.0), factor=factor),
    "keyword default": with_keyword_default,
    "object without repr": Scale,
    "bound method": lambda factor: Scale(factor).method,
    "nested function": edited,
    "partial of a closure": lambda factor: functools.partial(scaled(factor)),
    "closure over a large tensor": lambda factor: less(middle(factor)),
    "closure over an object": lambda factor: calling(Scale(factor)),
    "object whose repr is short": lambda factor: calling(Short(middle(factor))),
    "object with slots": lambda factor: calling(Slots(factor)),
    "object of an object": lambda factor: calling(Short([Scale(1.0), Scale(factor)])),
    "fitted estimator": lambda factor: fitted(factor).transform,
    "table": lambda factor: functools.partial(calling, table(factor)),
    "object with a function": lambda factor: calling(Short(scaled(factor))),
}


@pytest.mark.parametrize("kind", PREPROCESSES)
def test_fingerprint__preprocess_with_other_numbers(net: SmallNet, kind: str) -> None:
    make = PREPROCESSES[kind]
    assert Encoder(net, make(2.0)).fingerprint == Encoder(net, make(2.0)).fingerprint
    assert Encoder(net, make(2.0)).fingerprint != Encoder(net, make(3.0)).fingerprint


def test_fingerprint__lambda_with_other_constants_or_code(net: SmallNet) -> None:
    kinds: list[Callable[[Image.Image], Tensor]] = [
        lambda image: to_tensor(image) * 2,
        lambda image: to_tensor(image) * 3,
        lambda image: to_tensor(image) + 2,
        lambda image: to_tensor(image).mul(2),
        lambda image: to_tensor(image).add(2),
    ]
    assert len({Encoder(net, kind).fingerprint for kind in kinds}) == len(kinds)


# --- callables ----------------------------------------------------------------------------------------------------------


def test_fingerprint__unnamed_callables_differ() -> None:
    def flat(batch: Tensor) -> Tensor:
        return batch.flatten(1)

    first, second = Encoder(flat), Encoder(flat)
    assert first.fingerprint == first.fingerprint
    assert first.fingerprint != second.fingerprint
    assert not first.recognisable


def test_fingerprint__named_callables_are_known_by_their_name() -> None:
    def flat(batch: Tensor) -> Tensor:
        return batch.flatten(1)

    first, second = (Encoder(flat, name="flat v1") for _ in range(2))
    assert first.fingerprint == second.fingerprint
    assert first.recognisable
    assert first.fingerprint != Encoder(flat, name="flat v2").fingerprint
    assert first.fingerprint != Encoder(flat, ImagePreprocess(), name="flat v1").fingerprint


class TwoWays(nn.Module):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.net = SmallNet(seed=seed)

    def forward(self, batch: Tensor) -> Tensor:
        return self.net(batch)

    def early(self, batch: Tensor) -> Tensor:
        return self.net.conv(batch)

    def late(self, batch: Tensor) -> Tensor:
        return self.net(batch) * 2


def test_fingerprint__bound_methods_are_known_by_weights_and_method() -> None:
    module = TwoWays()
    encoder = Encoder(module.early)
    before = encoder.fingerprint
    assert encoder.recognisable
    assert Encoder(TwoWays().early).fingerprint == before
    assert Encoder(TwoWays(seed=1).early).fingerprint != before
    assert len({before, Encoder(module.late).fingerprint, Encoder(module).fingerprint}) == 3
    in_place(module.net)
    assert encoder.fingerprint != before


# --- the space of two towers --------------------------------------------------------------------------------------------


class Words(nn.Module):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        weight = torch.randn(40, 8, generator=torch.Generator().manual_seed(seed))
        self.embedding = nn.Embedding.from_pretrained(weight)

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        return self.embedding(tokens["input_ids"]).sum(1)


def length_of_words(text: str) -> list[int]:
    return [len(word) for word in text.split()]


def text_tower(seed: int = 0) -> TextEncoder:
    return TextEncoder(Words(seed), length_of_words, limit=10)


def test_space__shared_by_the_towers_of_one_encoder(net: SmallNet) -> None:
    encoder = Encoder(net, text=text_tower())
    assert encoder.space == encoder.text.space
    assert encoder.fingerprint != encoder.text.fingerprint
    assert encoder.space == Encoder(SmallNet(), text=text_tower()).space


def test_space__differs_between_encoders(net: SmallNet) -> None:
    encoders = [
        Encoder(net),
        Encoder(SmallNet(seed=1)),
        text_tower(),
        Encoder(net, text=text_tower()),
        Encoder(net, text=text_tower(1)),
        Encoder(SmallNet(seed=1), text=text_tower()),
    ]
    assert len({encoder.space for encoder in encoders}) == len(encoders)


def test_space__changes_with_the_weights_of_either_tower(net: SmallNet) -> None:
    encoder = Encoder(net, text=text_tower())
    first = encoder.space
    in_place(net)
    second = encoder.space
    encoder.text.module.embedding.weight.add_(1)  # type: ignore[attr-defined]
    third = encoder.space
    assert len({first, second, third}) == 3
    assert encoder.text.space == third


def test_space__one_text_tower_for_two_image_encoders(net: SmallNet) -> None:
    text = text_tower()
    first, second = Encoder(net, text=text), Encoder(SmallNet(seed=1), text=text)
    assert first.space == first.text.space
    assert second.space == second.text.space
    assert first.space != second.space


# --- across processes ---------------------------------------------------------------------------------------------------


def plain_function(image: Image.Image, factor: float = 2.0) -> Tensor:
    return to_tensor(image.convert("RGB")) * factor


def with_a_set(image: Image.Image) -> Tensor:
    return to_tensor(image.convert("RGB") if image.mode in {"L", "LA", "P", "PA", "1", "I", "CMYK", "RGBA"} else image)


def stable() -> dict[str, str]:
    """Fingerprints that must be the same in every process."""
    net = SmallNet()
    encoders = {
        "module": Encoder(net),
        "layer": Encoder(net, layer="conv", pooling="first"),
        "preprocess": Encoder(net, ImagePreprocess(resize=9, crop=8, mean=(0.1, 0.2, 0.3))),
        "function": Encoder(net, plain_function),
        "closure": Encoder(net, scaled(2.5)),
        "set": Encoder(net, with_a_set),
        "method": Encoder(TwoWays().early),
        "named": Encoder(len, name="a callable"),
        "towers": Encoder(net, text=text_tower()),
    }
    found = {name: encoder.space for name, encoder in encoders.items()}
    return found | {"values": digest(images(2), np.arange(4), "text", (1, 2.5), None)}


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, str]:
    """The same, from another process with another hash seed."""
    code = "import json; from tests.encoders.test_identity import stable; print(json.dumps(stable()))"
    environment = os.environ | {"PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "name", ["module", "layer", "preprocess", "function", "closure", "method", "named", "towers", "values"]
)
def test_fingerprint__same_in_another_process(elsewhere: dict[str, str], name: str) -> None:
    assert elsewhere[name] == stable()[name]


def test_fingerprint__same_in_another_process_for_code_with_a_set(elsewhere: dict[str, str]) -> None:
    assert elsewhere["set"] == stable()["set"]


class Scaled(nn.Module):
    factor = 1.0

    def __init__(self, shift: int = 0) -> None:
        super().__init__()
        self.shift = shift
        self.calls = 0

    def forward(self, batch: Tensor) -> Tensor:
        self.calls += 1
        return batch.mean((2, 3)) * self.factor + self.shift


class OtherForward(Scaled):
    def forward(self, batch: Tensor) -> Tensor:
        return batch.amax((2, 3)) * self.factor + self.shift


def test_fingerprint__plain_settings_of_a_module_count() -> None:
    assert Encoder(Scaled(0)).fingerprint != Encoder(Scaled(5)).fingerprint


def test_fingerprint__constants_of_a_class_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Encoder(Scaled()).fingerprint
    monkeypatch.setattr(Scaled, "factor", 2.0)
    assert Encoder(Scaled()).fingerprint != before


def test_fingerprint__code_of_forward_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Encoder(Scaled()).fingerprint
    monkeypatch.setattr(Scaled, "forward", OtherForward.forward)
    assert Encoder(Scaled()).fingerprint != before


def test_fingerprint__what_forward_counts_does_not() -> None:
    module = Scaled()
    encoder = Encoder(module)
    before = encoder.fingerprint
    encoder.represent(torch.ones(2, 3, 4, 4))
    assert module.calls > 0
    assert encoder.fingerprint == before == Encoder(module).fingerprint


def test_fingerprint__network_inside_a_named_function_counts() -> None:
    def wrapped(seed: int) -> Encoder:
        network = SmallNet(seed=seed)
        return Encoder(lambda batch: network(batch), name="wrapped")

    assert wrapped(0).fingerprint == wrapped(0).fingerprint != wrapped(1).fingerprint


BRIGHTNESS = 1.0


def brightened(image: Image.Image) -> Tensor:
    return torch.ones(3, 4, 4) * BRIGHTNESS


def test_fingerprint__globals_of_a_preprocess_count(net: SmallNet, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder(net, brightened)
    before = encoder.fingerprint
    monkeypatch.setitem(globals(), "BRIGHTNESS", 2.0)
    assert encoder.fingerprint != before


TRANSFORM: Any = Scale(1.0)


def transformed(image: Image.Image) -> Tensor:
    return torch.ones(3, 4, 4) * TRANSFORM.factor


@pytest.mark.parametrize("kind", ["object", "dataclass", "namespace", "estimator", "table", "set", "none"])
def test_fingerprint__objects_among_the_globals_count(kind: str, net: SmallNet, monkeypatch: pytest.MonkeyPatch) -> None:
    make: dict[str, Callable[[float], Any]] = {
        "object": Scale,
        "dataclass": lambda factor: Short(torch.tensor([1.0, factor * 1e-6])),
        "namespace": lambda factor: types.SimpleNamespace(factor=factor),
        "estimator": fitted,
        "table": table,
        "set": lambda factor: {1.0, factor},
        "none": lambda factor: None if factor == 2.0 else factor,
    }
    encoder = Encoder(net, transformed)
    seen = []
    for factor in (2.0, 2.0, 3.0):
        monkeypatch.setitem(globals(), "TRANSFORM", make[kind](factor))
        seen.append(encoder.fingerprint)
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.parametrize("kind", ["rounded", "cut", "deque", "pattern", "mapping", "distribution", "baseline", "encoder"])
def test_fingerprint__what_a_repr_rounds_or_cuts_counts(kind: str, net: SmallNet, monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers(last: float) -> Tensor:
        return torch.cat([torch.ones(1000), torch.tensor([last]), torch.ones(1000)])

    make: dict[str, Callable[[float], Any]] = {
        "rounded": lambda last: types.SimpleNamespace(factor=torch.tensor(0.12341 + last * 1e-5)),
        "cut": lambda last: types.SimpleNamespace(factor=numbers(last)),
        "deque": lambda last: collections.deque([numbers(last)]),
        "pattern": lambda last: re.compile("x" * 250 + str(last)),
        "mapping": lambda last: types.MappingProxyType({"factor": numbers(last)}),
        "distribution": lambda last: torch.distributions.Categorical(numbers(last)),
        "baseline": lambda last: cocoax.Background(numbers(last)[None]),
        "encoder": lambda last: Encoder(lambda batch: batch * numbers(last)[1000], name="inner"),
    }
    encoder = Encoder(net, transformed)
    seen = []
    for last in (2.0, 2.0, 3.0):
        monkeypatch.setitem(globals(), "TRANSFORM", make[kind](last))
        seen.append(encoder.fingerprint)
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.parametrize(
    ("held", "use"),
    [
        (lambda: Path("a"), lambda path: (hash(path), str(path), path.parts)),
        (
            lambda: Encoder(lambda batch: batch.flatten(1), name="inner"),
            lambda inner: inner.represent(torch.ones(2, 3, 4, 4)),
        ),
    ],
)
def test_fingerprint__what_objects_of_libraries_keep_does_not_count(
    held: Callable[[], Any], use: Callable[[Any], object], net: SmallNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, value = Encoder(net, transformed), held()
    monkeypatch.setitem(globals(), "TRANSFORM", value)
    before = encoder.fingerprint
    use(value)
    assert encoder.fingerprint == before


@dataclass
class Meter:
    """An object of one's own that counts when a method is called, and has a setting that a method sets."""

    calls: int = 0
    factor: float = 1.0

    def update(self) -> float:
        self.calls += 1
        return self.factor

    def set(self, factor: float) -> None:
        self.factor = factor


METER, LOG = Meter(), logging.getLogger("tests.encoders.test_identity")


class Metered(SmallNet):
    """A network that counts, tells and looks around by globals."""

    def forward(self, batch: Tensor) -> Tensor:
        LOG.debug("forward")
        return super().forward(batch) * METER.update() * float(os.environ.get("FACTOR", "1"))


def test_fingerprint__counters_loggers_and_the_environment_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder(Metered().eval(), name="metered")
    before = encoder.fingerprint
    calls = METER.calls
    run = cocoax.Rise(samples=20, grid=2).run(encoder, images(1)[0])
    assert METER.calls > calls
    monkeypatch.setattr(LOG, "level", logging.CRITICAL)
    monkeypatch.setenv("UNRELATED", "1")
    assert encoder.fingerprint == before
    assert len(run.extend(encoder, 5)) == 25
    monkeypatch.setattr(METER, "factor", 2.0)  # what only another method sets counts
    assert encoder.fingerprint != before


class Counting(Scale):
    """A callable object of one's own that keeps a record, and a helper."""

    calls = 0

    def __call__(self, image: Image.Image) -> Tensor:
        self.calls += 1
        return self.helper(image)

    def helper(self, image: Image.Image) -> Tensor:
        return to_tensor(image) * self.factor


def test_fingerprint__what_an_object_counts_does_not(net: SmallNet) -> None:
    preprocess = Counting(2.0)
    encoder = Encoder(net, preprocess)
    before = encoder.fingerprint
    encoder.represent([Image.new("RGB", (8, 8))])
    assert preprocess.calls > 0
    assert encoder.fingerprint == before


@pytest.mark.parametrize("method", ["__call__", "helper"])
def test_fingerprint__code_of_an_object_counts(method: str, net: SmallNet, monkeypatch: pytest.MonkeyPatch) -> None:
    encoders = [Encoder(net, Counting(2.0)), Encoder(net, Counting(2.0).__call__)]
    before = [encoder.fingerprint for encoder in encoders]
    monkeypatch.setattr(Counting, method, lambda self, image: to_tensor(image) + self.factor)
    assert all(encoder.fingerprint != old for encoder, old in zip(encoders, before, strict=True))


def test_fingerprint__many_ways_to_one_object(net: SmallNet) -> None:
    held: Any = 2.0
    for _ in range(60):  # 2^60 ways to the number
        held = Short([held, held])
    assert Encoder(net, held).fingerprint == Encoder(net, copy.deepcopy(held)).fingerprint
    round_trip = Short(held)
    held.held.append(round_trip)  # a circle
    assert Encoder(net, round_trip).recognisable


def test_fingerprint__tokenizer_that_keeps_how_it_was_called(net: SmallNet) -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]", pad_token="[UNK]")
    encoder = Encoder(net, calling(tokenizer))
    before = encoder.fingerprint
    tokenizer(["a", "a a"], padding=True, truncation=True, max_length=2)
    assert encoder.fingerprint == before


def test_fingerprint__of_a_library_model_whatever_else_was_loaded() -> None:
    from transformers import BertConfig, BertModel, GPT2Config, GPT2Model

    with torch.random.fork_rng():
        bert = BertModel(BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8))
        before = Identity(bert, None)()
        GPT2Model(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=10))  # enters a registry that all models share
    assert Identity(bert, None)() == before


def test_looking_once__inside_and_again_outside() -> None:
    compute = functools.partial(next, iter("abc"))
    assert look(compute) == "a"
    with looking_once():
        assert look(compute) == "b"
        with looking_once():  # nested, which changes nothing
            assert look(compute) == "b"
        assert look(compute) == "b"
    assert look(compute) == "c"


def test_looking_once__in_its_own_thread_only() -> None:
    compute = functools.partial(next, iter("ab"))
    with looking_once(), ThreadPoolExecutor(1) as threads:
        assert look(compute) == "a"
        assert threads.submit(look, compute).result() == "b"
        assert look(compute) == "a"

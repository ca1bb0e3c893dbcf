"""What encoders are known by: changes behind their back are noticed, and what makes no difference is not."""

from __future__ import annotations

import functools
import io
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax import Encoder, ImagePreprocess, TabularEncoder, TextEncoder
from cocoax.inputs.image import _to_tensor
from cocoax.spaces import name_space, same_space, sketch
from cocoax.store import digest
from tests.conftest import SmallNet, images
from tests.encoders.words import Words, tokenize

ROOT = Path(__file__).parents[2]
FACTOR = 1.0


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


class Helper:
    """Something that a network holds: settings, and records of its calls."""

    def __init__(self) -> None:
        self.factor, self.calls = 1.0, 0
        self.settings = {"shift": 0.0}
        self.seen: list[int] = []

    def __call__(self, representations: Tensor) -> Tensor:
        self.calls += 1
        self.seen.append(len(representations))
        return representations * self.factor + self.settings["shift"]


class Net(nn.Module):
    """A network with all that can be changed behind an encoder's back."""

    power = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.net, self.norm, self.helper = SmallNet().eval(), nn.BatchNorm1d(8), Helper()
        self.gain, self.calls = 1.0, 0
        self.squash: Callable[[Tensor], Tensor] = torch.tanh
        self.register_buffer("shift", torch.zeros(8), persistent=False)
        self.shift: Tensor

    def forward(self, batch: Tensor) -> Tensor:
        self.calls += 1
        return self.end(self.norm(self.net(batch)) ** 1 * self.gain * self.power * FACTOR + self.shift)

    def end(self, representations: Tensor) -> Tensor:
        return self.helper(self.squash(representations))


class Preprocess:
    """A user's own preprocessing, with settings and a counter."""

    def __init__(self) -> None:
        self.size, self.mean, self.calls = 12, 0.5, 0

    def __call__(self, image: Image.Image) -> Tensor:
        self.calls += 1
        return _to_tensor(image.resize((self.size, self.size))) - self.mean


def network() -> Encoder:
    return Encoder(Net().eval(), Preprocess())


def of(encoder: Encoder) -> Any:
    return encoder.module


def set_global(value: float) -> Callable[[Encoder], None]:
    return lambda _encoder: globals().__setitem__("FACTOR", value)


def assign(path: str, value: Any) -> Callable[[Encoder], None]:
    def change(encoder: Encoder) -> None:
        *owners, name = path.split(".")
        setattr(functools.reduce(getattr, owners, encoder), name, value)

    return change


def numpy_weight(change: Callable[[np.ndarray], None]) -> Callable[[Encoder], None]:
    return lambda encoder: change(of(encoder).net.fc.weight.detach().numpy())


def swap_rows(weight: np.ndarray) -> None:
    weight[[0, 1]] = weight[[1, 0]]


def flip_two_signs(weight: np.ndarray) -> None:
    weight.reshape(-1)[[1, 3]] *= -1


def negate(weight: np.ndarray) -> None:
    weight *= -1


def in_place(encoder: Encoder) -> None:
    with torch.no_grad():
        of(encoder).net.fc.weight.view(-1)[3] += 1e-5  # too little for a probe, but torch counts versions


def load_state(encoder: Encoder) -> None:
    of(encoder).net.load_state_dict(SmallNet(seed=1).state_dict())


def train_a_step(encoder: Encoder) -> None:
    encoder(images(4)).sum().backward()
    torch.optim.SGD(of(encoder).parameters(), 0.1).step()


def permute(encoder: Encoder) -> None:
    weight = of(encoder).net.fc.weight.data
    weight.copy_(weight.flatten().flip(0).view_as(weight))


def twice(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
    return output * 2


def patch_forward(encoder: Encoder) -> None:
    plain = of(encoder).forward
    of(encoder).forward = lambda batch: 2 * plain(batch)


def add_dropout_that_is_a_mask(encoder: Encoder) -> None:
    of(encoder).net.act = nn.Sequential(of(encoder).net.act, nn.Threshold(0.1, 0.0))


CHANGES: dict[str, Callable[[Encoder], object]] = {
    "weight in place": in_place,
    "weights loaded": load_state,
    "a step of training": train_a_step,
    "weight replaced": lambda encoder: of(encoder).net.fc.__setattr__("weight", nn.Parameter(torch.ones(8, 24))),
    "weights permuted through .data": permute,
    "weights negated through .data": lambda encoder: of(encoder).net.fc.weight.data.neg_(),
    "rows swapped through NumPy": numpy_weight(swap_rows),
    "two signs through NumPy": numpy_weight(flip_two_signs),
    "all signs through NumPy": numpy_weight(negate),
    "bias through .data": lambda encoder: of(encoder).net.fc.bias.data.add_(1),
    "statistics of a norm": lambda encoder: of(encoder).norm.running_mean.add_(1),
    "statistics of a norm through NumPy": lambda encoder: of(encoder).norm.running_var.numpy().__imul__(9),
    "buffer that is not saved": lambda encoder: of(encoder).shift.add_(1),
    "buffer replaced": assign("module.shift", torch.ones(8)),
    "half precision and back": lambda encoder: of(encoder).net.half().float(),
    "double precision": lambda encoder: encoder.to(dtype="float64"),
    "forward hook": lambda encoder: of(encoder).net.act.register_forward_hook(twice),
    "forward hook of a partial": lambda encoder: of(encoder).register_forward_hook(functools.partial(twice)),
    "forward pre-hook": lambda encoder: of(encoder).net.register_forward_pre_hook(lambda _module, given: (given[0] + 1,)),
    "global hook": lambda _encoder: nn.modules.module.register_module_forward_hook(
        lambda module, _given, output: output * 2 if isinstance(module, nn.Linear) else None
    ),
    "forward patched on the instance": patch_forward,
    "method patched on the instance": assign("module.end", torch.abs),
    "method patched on the class": lambda _encoder: setattr(Net, "end", lambda _self, batch: batch * 3),
    "constant of the class": lambda _encoder: setattr(Net, "power", 2.0),
    "setting of the module": assign("module.gain", 2.0),
    "function that the module holds": assign("module.squash", torch.relu),
    "setting of a helper": assign("module.helper.factor", 3.0),
    "setting in a dict of a helper": lambda encoder: of(encoder).helper.settings.update(shift=2.0),
    "another helper": assign("module.helper", torch.exp),
    "code of a helper": lambda _encoder: setattr(Helper, "__call__", lambda _self, batch: batch * 5),
    "global that forward reads": set_global(4.0),
    "setting of torch's own module": assign("module.norm.eps", 1.0),
    "padding of a convolution": assign("module.net.conv.padding", (0, 0)),
    "part replaced by another class": assign("module.net.act", nn.ReLU()),
    "part added": add_dropout_that_is_a_mask,
    "size of the preprocessing": assign("inputs.preprocess.size", 9),
    "mean of the preprocessing": assign("inputs.preprocess.mean", 0.4),
    "another preprocessing": assign("inputs.preprocess", ImagePreprocess(resize=12, crop=12)),
    "code of the preprocessing": lambda _encoder: setattr(
        Preprocess, "__call__", lambda _self, image: _to_tensor(image.resize((12, 12))) ** 2
    ),
    "pooling": assign("pooling", "first"),
    "layer": assign("layer", "net"),
    "autocast of the encoder": assign("_autocast", torch.bfloat16),
    "parametrisation": lambda encoder: nn.utils.parametrizations.spectral_norm(of(encoder).net.fc),
}
HARMLESS: dict[str, Callable[[Encoder], object]] = {
    "use": lambda encoder: encoder.represent(images(3)),
    "an explanation": lambda encoder: cocoax.Rise(samples=20, grid=4).explain(
        encoder, images(1)[0], cocoax.representation_similarity()
    ),
    "counters and records": lambda encoder: vars(of(encoder)).update(calls=99),
    "train mode": lambda encoder: of(encoder).train(),
    "requires_grad": lambda encoder: of(encoder).requires_grad_(False),
    "gradients": lambda encoder: encoder(images(2)).sum().backward(),
    "hook that records": lambda encoder: of(encoder).net.act.register_forward_hook(lambda *_given: None),
    "backward hook": lambda encoder: of(encoder).net.fc.register_full_backward_hook(lambda *_given: None),
    "channels last": lambda encoder: of(encoder).net.to(memory_format=torch.channels_last),
    "cautious precision of products": lambda _encoder: torch.set_float32_matmul_precision("high"),
    "threads": lambda _encoder: torch.set_num_threads(2),
    "default dtype": lambda _encoder: torch.set_default_dtype(torch.float64),
    "inference mode": lambda _encoder: torch.inference_mode().__enter__(),
    "deterministic algorithms": lambda _encoder: torch.use_deterministic_algorithms(True),
    "last bits through NumPy": numpy_weight(lambda weight: weight.__imul__(np.float32(1 + 1e-7))),
    "another name": assign("name", "another"),
    "fewer at once": assign("_max_batch_size", 1),
    "all of a photo": lambda encoder: encoder.whole(),
}


@pytest.fixture
def undone() -> Iterator[None]:
    """Settings of torch, and classes of this file, are as they were afterwards."""
    kept = {kind: dict(vars(kind)) for kind in (Net, Helper, Preprocess)}
    hooks = dict(nn.modules.module._global_forward_hooks)
    threads, precision, dtype = torch.get_num_threads(), torch.get_float32_matmul_precision(), torch.get_default_dtype()
    with torch.inference_mode(False):
        yield
    globals()["FACTOR"] = 1.0
    for kind, names in kept.items():
        for name in ("power", "end", "__call__"):
            if name in names:
                setattr(kind, name, names[name])
    nn.modules.module._global_forward_hooks.clear()
    nn.modules.module._global_forward_hooks.update(hooks)
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    torch.set_default_dtype(dtype)
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("undone")
@pytest.mark.parametrize("change", CHANGES)
def test_change_is_noticed(change: str) -> None:
    encoder = network()
    before, corpus = encoder.identify(), encoder.reference(images(2))
    CHANGES[change](encoder)
    now = encoder.identify()
    assert not same_space(now.space, before.space)
    assert now.key != before.key
    with pytest.raises(ValueError, match="another representation space"):
        cocoax.Rise(samples=20, grid=4).explain(encoder, images(1)[0], cocoax.corpus_similarity(corpus))


@pytest.mark.usefixtures("undone")
@pytest.mark.parametrize("change", HARMLESS)
def test_what_makes_no_difference_is_not_noticed(change: str) -> None:
    encoder = network()
    before, corpus = encoder.identify(), encoder.reference(images(2))
    HARMLESS[change](encoder)
    now = encoder.identify()
    assert same_space(now.space, before.space)
    assert now.key == before.key
    target = cocoax.corpus_similarity(corpus)
    assert cocoax.Rise(samples=20, grid=4).explain(encoder, images(1)[0], target).values.isfinite().all()


def test_autocast_is_another_precision(encoder: Encoder) -> None:
    before, corpus = encoder.identify(), encoder.reference(images(2))
    with torch.autocast("cpu", torch.bfloat16):
        now = encoder.identify()
        assert not same_space(now.space, before.space)
        assert now.key != before.key
        with pytest.raises(ValueError, match="another representation space"):
            cocoax.Rise(samples=20, grid=4).explain(encoder, images(1)[0], cocoax.corpus_similarity(corpus))
    assert encoder.identify() == before


def test_a_change_that_is_undone_leaves_the_same_encoder(encoder: Encoder, net: SmallNet) -> None:
    before = encoder.identify()
    net.fc.weight.data.neg_()
    assert encoder.identify() != before
    assert encoder.identify() == Encoder(net).identify()  # weights are read again when the probe shows a change
    net.fc.weight.data.neg_()
    assert encoder.identify() == before


# --- the price ----------------------------------------------------------------------------------------------------------


class Counted(SmallNet):
    """Counts all inputs, probes too."""

    def forward(self, batch: Tensor) -> Tensor:
        self.inputs += len(batch)
        return super().forward(batch)


METHODS = [cocoax.Rise(samples=20, grid=4), cocoax.IntegratedGradients(steps=4), cocoax.Captum("Saliency")]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_an_explanation_costs_one_probe(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder(SmallNet().eval())
    target = cocoax.corpus_similarity(encoder.reference(images(2)))
    probes: list[object] = []
    identify = Encoder.identify
    monkeypatch.setattr(Encoder, "identify", lambda self: probes.append(self) or identify(self))
    method.explain(encoder, images(3), target)
    assert len(probes) == 1


def test_a_probe_is_one_input_and_draws_no_random_numbers() -> None:
    counted = Counted().eval()
    encoder = Encoder(lambda batch: counted(batch) + 0 * torch.rand(1) + 0 * np.random.rand())
    states = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[union-attr, index]
    encoder.identify()
    assert counted.inputs == 1
    assert torch.equal(torch.random.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # type: ignore[index, arg-type]


def test_weights_are_read_once(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder.identify()
    read: list[object] = []
    monkeypatch.setattr("cocoax.encoders.identity._plain_weights", lambda owner: iter([read.append(owner)]))
    encoder.identify()
    assert not read


# --- kinds of encoders --------------------------------------------------------------------------------------------------


class Vocabulary:
    """A text embedding that gives each new word the next number, and counts."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self.texts = 0

    def __call__(self, text: str) -> list[int]:
        self.texts += 1
        return [self.words.setdefault(word, 1 + len(self.words)) for word in text.split()]


class Fixed(nn.Module):
    """Takes one size of pictures only."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * 16 * 16, 4)
        self.gain = 1.0

    def forward(self, batch: Tensor) -> Tensor:
        return self.linear(batch.flatten(1)) * self.gain


def table(factor: float = 1.0) -> TabularEncoder:
    return TabularEncoder(lambda rows: rows * factor, columns=["a", "b"], name="table")


def test_a_vocabulary_that_grows_is_the_same_encoder() -> None:
    net = nn.Embedding(100, 4)
    module = nn.Module()
    module.net = net
    module.forward = lambda tokens: net(tokens["input_ids"]).mean(1)
    encoder = TextEncoder(module, Vocabulary(), limit=20)
    corpus = encoder.reference(["a cat", "a dog"])
    before = encoder.identify()
    encoder.represent(["words that were never seen before"])
    assert encoder.identify() == before
    assert same_space(encoder.space, corpus.space)  # type: ignore[arg-type]


def test_a_network_of_one_size_is_probed_with_that_size() -> None:
    encoder = Encoder(Fixed())
    assert "@" not in encoder.space
    corpus = encoder.reference(images(2))
    assert "@image 3x16x16" in corpus.space  # type: ignore[operator]
    of(encoder).gain = 2.0
    with pytest.raises(ValueError, match="another representation space"):
        cocoax.Rise(samples=10, grid=4).explain(encoder, images(1)[0], cocoax.corpus_similarity(corpus))


def test_functions_are_known_by_name_and_probe() -> None:
    assert table().recognisable
    assert table().identify() == table().identify()
    assert not same_space(table().space, table(2.0).space)
    assert table().fingerprint != table(2.0).fingerprint
    function = torch.mean
    unnamed = [Encoder(lambda batch: function(batch, (2, 3))) for _ in range(2)]
    assert not unnamed[0].recognisable
    assert not same_space(unnamed[0].space, unnamed[1].space)
    assert unnamed[0].identify() == unnamed[0].identify()


def test_methods_of_a_module_are_known_by_weights_and_name() -> None:
    module = Net().eval()
    encoder = Encoder(module.net.forward)
    assert encoder.recognisable
    assert encoder.space != Encoder(module.net).space
    assert same_space(encoder.space, Encoder(Net().eval().net.forward).space)
    in_place(Encoder(module))
    assert not same_space(encoder.space, Encoder(Net().eval().net.forward).space)


def test_prompts_share_a_space_and_no_key() -> None:
    from tests.encoders.words import Pieces
    from tests.tiny import bert_tokenizer

    encoder = TextEncoder(Pieces().eval(), bert_tokenizer(), limit=20)
    other = encoder.by(prompt="a photo of ")
    assert same_space(encoder.space, other.space)
    assert encoder.fingerprint != other.fingerprint
    assert encoder.by("tokens").identify() == encoder.identify()


@pytest.mark.filterwarnings("ignore")
def test_quantised_sparse_and_scripted_modules() -> None:
    quantised = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 4)), {nn.Linear})
    sparse = SmallNet().eval()
    sparse.register_buffer("extra", torch.eye(3).to_sparse())
    script = torch.jit.script(nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1)))
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    frozen = torch.jit.freeze(torch.jit.script(SmallNet().eval()))
    for module in (quantised, sparse, script, torch.jit.load(file), frozen):
        assert Encoder(module).identify() == Encoder(module).identify()
    encoder = Encoder(quantised)
    before = encoder.space
    weight, bias = quantised[1]._packed_params._weight_bias()
    flipped = torch.quantize_per_tensor(-weight.dequantize(), weight.q_scale(), weight.q_zero_point(), torch.qint8)
    quantised[1].set_weight_bias(flipped, bias)
    assert not same_space(encoder.space, before)


# --- towers -------------------------------------------------------------------------------------------------------------


def text_tower(seed: int = 0) -> TextEncoder:
    return TextEncoder(Words(seed), tokenize, limit=10)


def test_towers_share_a_space(net: SmallNet) -> None:
    encoder = Encoder(net, text=text_tower())
    assert same_space(encoder.space, encoder.text.space)
    assert encoder.fingerprint != encoder.text.fingerprint
    assert encoder.identify() == Encoder(SmallNet(), text=text_tower()).identify()
    others = [Encoder(net), text_tower(), Encoder(net, text=text_tower(1)), Encoder(SmallNet(seed=1), text=text_tower())]
    for other in others:
        assert not same_space(other.space, encoder.space)
        assert not same_space(other.space, encoder.text.space)


def test_a_change_in_one_tower_is_noticed_in_both(net: SmallNet) -> None:
    encoder = Encoder(net, text=text_tower())
    pictures, texts = encoder.space, encoder.text.space
    with torch.no_grad():
        of(encoder.text).embedding.weight.add_(1)
    assert not same_space(encoder.space, pictures)
    assert not same_space(encoder.text.space, texts)


def test_one_text_tower_of_two_encoders(net: SmallNet) -> None:
    text = text_tower()
    first, second = Encoder(net, text=text), Encoder(SmallNet(seed=1), text=text)
    assert same_space(first.space, first.text.space)
    assert same_space(second.space, second.text.space)
    assert not same_space(first.text.space, second.text.space)


# --- names of spaces ----------------------------------------------------------------------------------------------------


def test_sketches_agree_within_a_tolerance() -> None:
    representation = torch.randn(50)
    name = name_space("digest", "probe", sketch(representation))
    assert same_space(name, name_space("digest", "probe", sketch(representation * (1 + 1e-5))))
    assert same_space(name, name_space("digest", "probe", sketch(torch.cat([representation, torch.zeros(9)]))))
    assert not same_space(name, name_space("digest", "probe", sketch(representation * 1.01)))
    assert not same_space(name, name_space("other", "probe", sketch(representation)))
    assert same_space(name, name_space("digest", "of another probe", sketch(-representation)))
    assert same_space(name, "digest")
    assert not same_space("a name of a user", "another@name")
    assert same_space("a@name:zz", "a@name:zz")
    zero = name_space("digest", "probe", sketch(torch.full((3,), torch.nan)))
    assert same_space(zero, zero)
    assert not same_space(zero, name)


# --- across processes ---------------------------------------------------------------------------------------------------


def plain_function(image: Image.Image, factor: float = 2.0) -> Tensor:
    return _to_tensor(image.convert("RGB")) * factor


def stable() -> dict[str, str]:
    """Identities that must be the same in every process."""
    net = SmallNet()
    encoders = {
        "module": Encoder(net),
        "layer": Encoder(net, layer="conv", pooling="first"),
        "preprocess": Encoder(net, ImagePreprocess(resize=9, crop=8, mean=(0.1, 0.2, 0.3))),
        "function": Encoder(net, plain_function),
        "object": Encoder(net, Preprocess()),
        "lambda": Encoder(net, lambda image: plain_function(image)),
        "named": table(),
        "towers": Encoder(net, text=text_tower()),
    }
    found = {name: f"{encoder.space} {encoder.fingerprint}" for name, encoder in encoders.items()}
    return found | {"values": digest(images(2), np.arange(4), "text", (1, 2.5), None)}


def test_same_in_another_process() -> None:
    code = "import json; from tests.encoders.test_identity import stable; print(json.dumps(stable()))"
    environment = os.environ | {"PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert json.loads(done.stdout) == stable()

"""The encoder: what goes in, how it is batched, what comes out, and what is said when something is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax import Encoder
from cocoax.inputs import Pictures
from tests.conftest import SmallNet, images
from tests.kinds import Recordings


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


# --- device and precision -----------------------------------------------------------------------------------------------


def test_represent__float16_inputs(encoder: Encoder, net: SmallNet) -> None:
    batch = images(3).half()
    close(encoder.represent(batch), net(batch.float()).detach())


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


def test_text__missing_tower_says_where_there_is_one(encoder: Encoder) -> None:
    with pytest.raises(AttributeError, match=r"'SmallNet' has no text tower; cocoax\.load\('starter'\) has one"):
        _ = encoder.text


def test_release_text__pictures_are_encoded_as_before(net: SmallNet) -> None:
    tower = SmallNet(seed=1)
    encoder = Encoder(net, text=Encoder(tower))
    before = encoder.represent(images(2))
    encoder.release_text()
    assert {part.device.type for part in tower.parameters()} == {"meta"}
    close(encoder.represent(images(2)), before)
    with pytest.raises(ValueError, match="is on the meta device"):
        _ = encoder.space


def test_release_text__weights_that_pictures_need_stay(net: SmallNet) -> None:
    encoder = Encoder(net, text=Encoder(nn.Sequential(net, nn.Flatten())))
    encoder.release_text()
    assert {part.device.type for part in net.parameters()} == {"cpu"}


# --- progress -----------------------------------------------------------------------------------------------------------


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


# --- inputs ----------------------------------------------------------------------------------------------------------


def test_inputs__say_all_about_the_inputs(net: SmallNet) -> None:
    kind = Pictures()
    with pytest.raises(ValueError, match=r"'inputs' says all about the inputs; leave out 'preprocess'"):
        Encoder(net, flat, inputs=kind)


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


# --- called like a network -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [Encoder.__call__, Encoder.encode], ids=["call", "encode"])
def test_call__takes_what_people_hold(call: Callable[[Encoder, Any], Tensor], tmp_path: Path) -> None:
    encoder = Encoder(SmallNet().eval(), cocoax.ImagePreprocess())
    arrays = pixels(2)
    expected = encoder.represent(arrays)
    paths = saved(tmp_path / "pictures", arrays)
    ready = torch.stack([encoder.prepare(array) for array in arrays])
    several: list[Any] = [arrays, list(arrays), [Image.fromarray(array) for array in arrays], paths, paths[0].parent]
    several += [ready, ready.numpy(), ready.double(), ready.double().numpy(), list(ready.numpy())]
    for held in several:
        torch.testing.assert_close(call(encoder, held).detach(), expected)
    for one in (arrays[0], Image.fromarray(arrays[0]), paths[0], str(paths[0]), ready[0].numpy()):
        torch.testing.assert_close(call(encoder, one).detach(), expected[:1])


def test_call__in_the_precision_of_the_network_and_with_gradients() -> None:
    encoder = Encoder(SmallNet().eval().double())
    batch = images(2).requires_grad_()
    output = encoder(batch)
    assert output.dtype == torch.float64
    output.sum().backward()
    assert batch.grad is not None
    assert bool(batch.grad.any())
    assert encoder.encode(images(2)).dtype == torch.float32


def test_inputs__no_object_of_a_kind() -> None:
    wrong: list[tuple[Any, str]] = [
        (Recordings, r"^The 'inputs' parameter takes an object: write inputs=Recordings\(\.\.\.\)\.$"),
        ("recordings", r"^The 'inputs' parameter must be a kind of input, .*Got str instead\.$"),
    ]
    for inputs, sentence in wrong:
        with pytest.raises(TypeError, match=sentence):
            Encoder(SmallNet(), inputs=inputs)
    with pytest.raises(TypeError, match=r"^Recordings is a kind of input, no preprocessing; pass it as inputs=\.$"):
        Encoder(SmallNet(), Recordings())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "kind", "match"), [({"name": "x" * 300}, ValueError, "200"), ({"text": "x"}, TypeError, "text")]
)
def test_init__a_long_name_or_a_text_that_is_no_encoder(options: dict[str, Any], kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        Encoder(SmallNet(), **options)

"""The cache of streamed references: what is found in it, what is not, and what happens to damaged files."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import cocoax
from cocoax.references import Reference
from cocoax.store import cache_folder, cache_info, write_safetensors
from tests.conftest import SmallNet, images
from tests.encoders.streams import assert_same, checked, encoded_by, write_pictures


def test_cache__second_call_does_not_run_the_encoder(net: SmallNet) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(300, 8, 8)
    made: list[Reference] = []
    assert encoded_by(net, lambda: made.append(encoder.reference(inputs))) == 300
    assert encoded_by(net, lambda: made.append(encoder.reference(inputs))) == 0
    assert encoded_by(net, lambda: made.append(encoder.reference(list(inputs), name="other"))) == 0
    assert_same(made[1], made[0])
    assert_same(made[2], made[0])
    assert made[2].name == "other"  # the name is not cached


def test_cache__serves_an_equal_encoder(net: SmallNet) -> None:
    """As in the next session: other objects, the same weights."""
    inputs = images(5)
    expected = cocoax.Encoder(net).reference(inputs)
    again = SmallNet().eval()
    found = cocoax.Encoder(again).reference(inputs)
    assert again.inputs == 0
    assert_same(found, expected)


def test_cache__samples_are_there_when_asked_for(net: SmallNet) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(5)
    encoder.reference(inputs, keep_samples=False)
    kept = encoder.reference(inputs, keep_samples=True)
    assert kept.samples is not None
    assert encoded_by(net, lambda: encoder.reference(inputs, keep_samples=True)) == 0
    assert_same(encoder.reference(inputs, keep_samples=True), kept)
    assert encoder.reference(inputs, keep_samples=False).samples is None


def change_in_place(net: SmallNet) -> None:
    with torch.no_grad():
        net.fc.weight[0, 0] += 1


def change_by_loading(net: SmallNet) -> None:
    net.load_state_dict(SmallNet(seed=1).state_dict())


def change_by_replacing(net: SmallNet) -> None:
    net.fc = SmallNet(seed=1).fc


@pytest.mark.parametrize("change", [change_in_place, change_by_loading, change_by_replacing])
def test_cache__changed_weights_miss(net: SmallNet, change: Callable[[SmallNet], None]) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(5)
    old = encoder.reference(inputs)
    change(net)
    made: list[Reference] = []
    assert encoded_by(net, lambda: made.append(encoder.reference(inputs))) == 5
    assert made[0].space != old.space
    np.testing.assert_allclose(made[0].mean.numpy(), encoder.represent(inputs).double().mean(0).numpy(), rtol=1e-6)
    with pytest.raises(ValueError, match="another representation space"):
        old.merge(made[0])


def test_cache__layer_and_pooling_miss(net: SmallNet) -> None:
    inputs = images(5)
    spaces = {
        cocoax.Encoder(net, layer="act").reference(inputs).space,
        cocoax.Encoder(net, layer="act", pooling="flatten").reference(inputs).space,
        cocoax.Encoder(net, layer="conv").reference(inputs).space,
        cocoax.Encoder(net).reference(inputs).space,
    }
    assert len(spaces) == 4
    assert cache_info().files == 4


def test_cache__changed_input_misses(net: SmallNet) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(300, 8, 8)
    encoder.reference(inputs)
    inputs[10, 0, 0, 0] += 1e-3
    assert encoded_by(net, lambda: encoder.reference(inputs)) == 256  # the chunk that holds it, and not the other one
    assert encoded_by(net, lambda: encoder.reference(inputs[:200])) == 200
    assert encoded_by(net, lambda: encoder.reference(inputs.flip(0))) == 300


def test_cache__changed_file_misses(net: SmallNet, tmp_path: Path) -> None:
    encoder = checked(cocoax.Encoder(net))
    paths = write_pictures(tmp_path, ["a.png", "b.png"])
    encoder.reference(paths)
    assert encoded_by(net, lambda: encoder.reference(paths)) == 0
    Image.new("RGB", (16, 16), "red").save(paths[1])
    assert encoded_by(net, lambda: encoder.reference(paths)) == 2


class Brightness:
    """A preprocessing object without a repr of its own."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, image: Image.Image) -> Tensor:
        return torch.from_numpy(np.array(image, dtype=np.float32).transpose(2, 0, 1) / 255 * self.factor)


def by_closure(factor: float) -> Callable[[Image.Image], Tensor]:
    return lambda image: Brightness(1.0)(image) * factor


def by_default(factor: float) -> Callable[[Image.Image], Tensor]:
    def preprocess(image: Image.Image, factor: float = factor) -> Tensor:
        return Brightness(factor)(image)

    return preprocess


def by_keyword_only_default(factor: float) -> Callable[[Image.Image], Tensor]:
    def preprocess(image: Image.Image, *, factor: float = factor) -> Tensor:
        return Brightness(factor)(image)

    return preprocess


def by_image_preprocess(factor: float) -> Callable[[Image.Image], Tensor]:
    return cocoax.ImagePreprocess(std=(1 / factor,) * 3)


@pytest.mark.parametrize(
    "preprocess",
    [
        by_image_preprocess,
        by_closure,
        by_default,
        by_keyword_only_default,
        Brightness,
        lambda factor: Brightness(factor).__call__,
    ],
    ids=["ImagePreprocess", "closure", "default", "keyword-only default", "object", "bound method"],
)
def test_cache__changed_preprocess_misses(
    net: SmallNet, tmp_path: Path, preprocess: Callable[[float], Callable[[Image.Image], Tensor]]
) -> None:
    paths = write_pictures(tmp_path, ["a.png", "b.png"])
    first, same, other = (cocoax.Encoder(net, preprocess=preprocess(factor)) for factor in (1.0, 1.0, 2.0))
    expected = first.reference(paths)
    assert_same(same.reference(paths), expected)
    changed = other.reference(paths)
    assert changed.space != expected.space
    assert torch.equal(changed.mean, other.reference(paths, cache=False).mean)


def flip_kind(path: Path) -> None:
    write_safetensors(path, {"values": torch.ones(2)}, "attribution", {})


def empty_reference(path: Path) -> None:
    write_safetensors(path, {"mean": torch.ones(2)}, "reference", {"skipped": []})


def headless_reference(path: Path) -> None:
    write_safetensors(path, {"mean": torch.ones(2)}, "reference", {})


@pytest.mark.parametrize(
    "corrupt",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-10]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"rubbish" * 50),
        flip_kind,
        empty_reference,
        headless_reference,
    ],
    ids=["truncated", "empty", "rubbish", "other kind", "fields missing", "header missing"],
)
def test_cache__corrupt_file_is_encoded_again(net: SmallNet, corrupt: Callable[[Path], object]) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(5)
    expected = encoder.reference(inputs)
    (file,) = (cache_folder() / "references").iterdir()
    corrupt(file)
    made: list[Reference] = []
    with pytest.warns(UserWarning, match=rf"{file.name}.* It was put aside as {file.name}\.damaged"):
        assert encoded_by(net, lambda: made.append(encoder.reference(inputs))) == 5
    assert_same(made[0], expected)
    assert cache_info().leftovers == 1
    assert encoded_by(net, lambda: encoder.reference(inputs)) == 0  # and the file is whole again


def test_cache__off(net: SmallNet) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(5)
    encoder.reference(inputs, cache=False)
    assert cache_info().files == 0
    encoder.reference(inputs)
    assert encoded_by(net, lambda: encoder.reference(inputs, cache=False)) == 5  # nor is it read


def test_cache__unnamed_callables_are_not_cached(net: SmallNet) -> None:
    encoder = checked(cocoax.Encoder(lambda batch: net(batch)))
    inputs = images(5)
    assert encoded_by(net, lambda: encoder.reference(inputs)) == 5
    assert encoded_by(net, lambda: encoder.reference(inputs)) == 5
    assert cache_info().files == 0
    other = cocoax.Encoder(lambda batch: net(batch))
    assert encoder.reference(inputs).space == encoder.space != other.space


def test_cache__named_callables_are_known_by_their_name(net: SmallNet) -> None:
    inputs = images(5)
    checked(cocoax.Encoder(lambda batch: net(batch), name="mine")).reference(inputs)
    assert encoded_by(net, lambda: cocoax.Encoder(lambda batch: net(batch), name="mine").reference(inputs)) == 0
    other = cocoax.Encoder(lambda batch: net(batch), name="yours")
    assert encoded_by(net, lambda: other.reference(inputs)) > 0


def test_cache__interrupted_stream_goes_on_where_it_stopped(net: SmallNet) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(600, 8, 8)
    expected = encoder.reference(inputs, cache=False)

    def interrupted() -> Iterator[Tensor]:
        yield from inputs[:300]
        raise ConnectionError("the line is dead")

    with pytest.raises(ConnectionError, match="the line is dead"):
        encoder.reference(interrupted())
    assert cache_info().files == 1  # the finished chunk
    made: list[Reference] = []
    assert encoded_by(net, lambda: made.append(encoder.reference(iter(inputs)))) == 600 - 256
    assert_same(made[0], expected)


def test_cache__bad_input_later_on_keeps_what_came_before(net: SmallNet) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(300, 8, 8)
    spoiled = inputs.clone()
    spoiled[299] = math.nan
    with pytest.raises(ValueError, match="Input 299: its representation is not finite"):
        encoder.reference(spoiled)
    assert encoded_by(net, lambda: encoder.reference(inputs)) == 300 - 256


def test_cache__skipped_inputs_are_reported_every_time(four_files: list[Path], encoder: cocoax.Encoder) -> None:
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"1 input.* skipped"):
            assert encoder.reference(four_files, on_error="skip").skipped[0][0] == 2
    with pytest.raises(ValueError, match="Input 2"):
        encoder.reference(four_files)


def test_cache__that_cannot_be_written_only_warns(
    encoder: cocoax.Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file stands where the folder should be, which stops root as well."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("COCOAX_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="cache of references cannot be written .*; going on without"):
        reference = encoder.reference(images(3))
    assert_same(reference, encoder.reference(images(3), cache=False))


def test_cache__full_disk_only_warns(encoder: cocoax.Encoder) -> None:
    resource = pytest.importorskip("resource", reason="the size of files can be limited on Unix only")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))  # no file may grow beyond 64 bytes
            reference = encoder.reference(images(3))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert any("cannot be written" in str(warning.message) for warning in caught)
    assert reference.count == 3
    assert cache_info().files == 0


@pytest.mark.parametrize("place", [-1, -40, 60, 150])
def test_cache__flipped_bit_is_encoded_again(net: SmallNet, place: int) -> None:
    encoder = checked(cocoax.Encoder(net))
    inputs = images(5)
    expected = encoder.reference(inputs)
    (file,) = (cache_folder() / "references").iterdir()
    damaged = bytearray(file.read_bytes())
    damaged[place] ^= 4
    file.write_bytes(damaged)
    made: list[Reference] = []
    with pytest.warns(UserWarning, match=rf"{file.name}.* It was put aside"):
        assert encoded_by(net, lambda: made.append(encoder.reference(inputs))) == 5
    assert_same(made[0], expected)

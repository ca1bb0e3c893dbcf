"""References: streaming, merging, files, the cache, what is skipped, and how large a foil must be."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import binom
from torch import Tensor, nn

import cocoax
from cocoax.encoders import stream
from cocoax.references import Reference, check_same_space, foil_size
from cocoax.similarity import Cosine, Dot, LinearSimilarity
from cocoax.storage import cache_folder, cache_info, clear_cache, write_safetensors
from tests.conftest import SmallNet, images

property_test = settings(
    max_examples=25, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
seeds = st.integers(0, 2**31 - 1)


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def slow_means(representations: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the raw and of the unit vectors, one vector after the other."""
    rows = representations.double().numpy()
    raw, unit = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for row in rows:
        raw += row / len(rows)
        unit += row / np.sqrt((row**2).sum()) / len(rows)
    return raw, unit


def assert_same(found: Reference, expected: Reference) -> None:
    """Equal, bit for bit, in everything but the name."""
    assert found.count == expected.count
    assert torch.equal(found.mean, expected.mean)
    assert torch.equal(found.mean_unit, expected.mean_unit)
    assert (found.samples is None) == (expected.samples is None)
    if found.samples is not None and expected.samples is not None:
        assert torch.equal(found.samples, expected.samples)
    assert found.space == expected.space
    assert found.skipped == expected.skipped


def encoded_by(net: SmallNet, work: Callable[[], object]) -> int:
    """How many inputs the network sees while ``work`` is done."""
    before = net.inputs
    work()
    return net.inputs - before


def checked(encoder: cocoax.Encoder) -> cocoax.Encoder:
    """The encoder with its one-time check behind it (one input encoded twice), so that inputs can be counted exactly."""
    encoder.represent(torch.zeros(2, 3, 16, 16))
    return encoder


def flat_encoder(name: str | None = "flat") -> cocoax.Encoder:
    """Its representations are the input's values, so tests decide what they are."""
    return cocoax.Encoder(lambda batch: batch.flatten(1), name=name)


# --- from representations ---------------------------------------------------------------------------------------------


@given(seed=seeds, n=st.integers(1, 9), d=st.integers(1, 6), keep=st.booleans())
@property_test
def test_from_representations__means_against_numpy(seed: int, n: int, d: int, keep: bool) -> None:
    representations = draw(seed, n, d)
    reference = Reference.from_representations(representations, name="a", space="s", keep_samples=keep)
    raw, unit = slow_means(representations)
    np.testing.assert_allclose(reference.mean.numpy(), raw, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(reference.mean_unit.numpy(), unit, rtol=1e-12, atol=1e-14)
    assert (reference.count, reference.dimension, reference.name, reference.space) == (n, d, "a", "s")
    if keep:
        assert reference.samples is not None
        assert torch.equal(reference.samples, representations)
    else:
        assert reference.samples is None


@pytest.mark.parametrize("shape", [(0, 3), (3,), (2, 3, 4)], ids=str)
def test_from_representations__wrong_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"must have shape \[n, d\] with n >= 1\. Got \["):
        Reference.from_representations(torch.zeros(shape))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_from_representations__not_finite(value: float) -> None:
    representations = torch.ones(3, 2)
    representations[1, 0] = value
    with pytest.raises(ValueError, match="must be finite"):
        Reference.from_representations(representations)


def test_from_representations__zero_row_names_the_index() -> None:
    representations = torch.ones(3, 2)
    representations[1] = 0
    with pytest.raises(ValueError, match="Representation 1 of 3 is zero"):
        Reference.from_representations(representations)


def test_from_representations__zero_row_advises_what_can_be_done() -> None:
    with pytest.raises(ValueError, match="is zero") as caught:
        Reference.from_representations(torch.zeros(1, 2))
    assert "similarity='dot'" not in str(caught.value)


def test_from_representations__does_not_carry_gradients() -> None:
    reference = Reference.from_representations(draw(0, 3, 2).requires_grad_())
    assert reference.samples is not None
    assert not any(tensor.requires_grad for tensor in (reference.mean, reference.mean_unit, reference.samples))


def test_from_representations__later_changes_of_the_tensor_do_not_matter() -> None:
    representations = draw(0, 4, 3)
    reference = Reference.from_representations(representations)
    before = representations.clone()
    representations.zero_()
    assert reference.samples is not None
    assert torch.equal(reference.samples, before)


def test_mean_features__of_each_linear_similarity() -> None:
    class Squares(LinearSimilarity):
        def features(self, representations: Tensor) -> Tensor:
            return representations.square()

    representations = draw(0, 5, 3)
    reference = Reference.from_representations(representations)
    raw, unit = slow_means(representations)
    np.testing.assert_allclose(reference.mean_features(Dot()).numpy(), raw, rtol=1e-12)
    np.testing.assert_allclose(reference.mean_features(Cosine()).numpy(), unit, rtol=1e-12)
    np.testing.assert_allclose(
        reference.mean_features(Squares()).numpy(), (representations.double().numpy() ** 2).mean(0), rtol=1e-12
    )
    with pytest.raises(ValueError, match=r"'few' keeps only means.*keep_samples=True"):
        Reference.from_representations(representations, name="few", keep_samples=False).mean_features(Squares())


# --- merging ----------------------------------------------------------------------------------------------------------


@given(seed=seeds, sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4), d=st.integers(1, 4))
@property_test
def test_merge__weighs_every_input_alike(seed: int, sizes: list[int], d: int) -> None:
    everything = draw(seed, sum(sizes), d)
    parts = [Reference.from_representations(part, name=f"part {n}") for n, part in enumerate(torch.split(everything, sizes))]
    merged = parts[0].merge(*parts[1:], name="all")
    raw, unit = slow_means(everything)
    np.testing.assert_allclose(merged.mean.numpy(), raw, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(merged.mean_unit.numpy(), unit, rtol=1e-12, atol=1e-14)
    assert merged.samples is not None
    assert torch.equal(merged.samples, everything)
    assert (merged.count, merged.name) == (sum(sizes), "all")


def test_merge__keeps_samples_only_if_every_part_did() -> None:
    kept = Reference.from_representations(draw(0, 3, 2))
    means = Reference.from_representations(draw(1, 2, 2), keep_samples=False)
    assert kept.merge(means).samples is None
    assert means.merge(kept).samples is None
    assert kept.merge(means).count == 5


def test_merge__names_and_spaces() -> None:
    cats, dogs, more = (
        Reference.from_representations(draw(seed, 2, 3), name=name, space=space)
        for seed, (name, space) in enumerate([("cats", None), ("dogs", "s"), ("cats", "s")])
    )
    merged = cats.merge(dogs, more)
    assert merged.name == "cats and dogs"
    assert merged.space == "s"


def test_merge__collects_what_was_skipped() -> None:
    encoder = flat_encoder()
    good, bad = torch.ones(1, 2, 2), torch.zeros(1, 2, 2)
    with pytest.warns(UserWarning, match="skipped"):
        parts = [encoder.reference([good, bad, good], on_error="skip"), encoder.reference([bad, good], on_error="skip")]
    assert [index for index, _ in parts[0].merge(parts[1]).skipped] == [1, 0]


def test_merge__other_space_or_dimension_is_an_error() -> None:
    here = Reference.from_representations(draw(0, 2, 3), name="here", space="s")
    there = Reference.from_representations(draw(1, 2, 3), name="there", space="t")
    longer = Reference.from_representations(draw(2, 2, 4), name="longer")
    with pytest.raises(ValueError, match="'there' lives in another representation space than reference 'here'"):
        here.merge(there)
    with pytest.raises(ValueError, match="'longer' has 4 dimensions but 'here' has 3"):
        here.merge(longer)


def test_check_same_space__names_the_owner() -> None:
    reference = Reference.from_representations(draw(0, 2, 3), name="cats", space="s")
    anywhere = Reference.from_representations(draw(0, 2, 3), name="anywhere")
    check_same_space([reference, anywhere], "s")
    with pytest.raises(ValueError, match=r"'cats' lives in another representation space than the encoder.*Encode it again"):
        check_same_space([anywhere, reference], "t")


# --- streaming --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 255, 256, 257, 600])
def test_reference__stream_equals_all_at_once(encoder: cocoax.Encoder, count: int) -> None:
    inputs = images(count, 8, 8)
    with torch.no_grad():
        representations = encoder.module(inputs)
    raw, unit = slow_means(representations)
    reference = encoder.reference((one for one in inputs), keep_samples=True)
    # the network itself differs by a few float32 roundings between batch sizes
    np.testing.assert_allclose(reference.mean.numpy(), raw, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(reference.mean_unit.numpy(), unit, rtol=1e-5, atol=1e-6)
    assert (reference.count, reference.dimension, reference.space) == (count, 8, encoder.space)
    assert reference.samples is not None
    torch.testing.assert_close(reference.samples, representations, rtol=1e-5, atol=1e-5)  # so they are in order, too


def test_reference__list_tensor_and_generator_are_the_same(encoder: cocoax.Encoder) -> None:
    inputs = images(300, 8, 8)
    expected = encoder.reference(inputs, keep_samples=True, cache=False)
    assert_same(encoder.reference(list(inputs), keep_samples=True, cache=False), expected)
    assert_same(encoder.reference(iter(inputs), keep_samples=True, cache=False), expected)
    assert_same(encoder.reference(inputs.numpy(), keep_samples=True, cache=False), expected)


def test_reference__order_changes_samples_but_not_means(encoder: cocoax.Encoder) -> None:
    inputs = images(300, 8, 8)
    forward, backward = (encoder.reference(each, keep_samples=True) for each in (inputs, inputs.flip(0)))
    assert forward.samples is not None
    assert backward.samples is not None
    torch.testing.assert_close(forward.samples, backward.samples.flip(0), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(forward.mean, backward.mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(forward.mean_unit, backward.mean_unit, rtol=1e-5, atol=1e-6)


def test_reference__keeps_few_samples_unless_told_otherwise(encoder: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = images(5)
    assert encoder.reference(inputs, keep_samples=False).samples is None
    assert encoder.reference(inputs).samples is not None
    monkeypatch.setattr(stream, "KEPT", 4)
    assert encoder.reference(inputs).samples is None
    kept = encoder.reference(inputs, keep_samples=True)
    assert kept.samples is not None
    assert kept.samples.shape == (5, 8)


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_reference__very_long_streams_are_folded_without_loss(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """After CHUNK chunks of CHUNK inputs (65536) the parts are merged into one; a small CHUNK makes that happen here."""
    monkeypatch.setattr(stream, "CHUNK", chunk)
    inputs = images(40, 2, 2, channels=1)
    reference = flat_encoder().reference(inputs, keep_samples=True)
    raw, unit = slow_means(inputs.flatten(1))
    np.testing.assert_allclose(reference.mean.numpy(), raw, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(reference.mean_unit.numpy(), unit, rtol=1e-12, atol=1e-14)
    assert reference.count == 40
    assert reference.samples is not None
    assert torch.equal(reference.samples, inputs.flatten(1))


def test_reference__a_stream_is_not_read_ahead(encoder: cocoax.Encoder) -> None:
    """A stream of any length is held one chunk at a time: what was encoded is never far behind what was read."""
    net = encoder.module
    assert isinstance(net, SmallNet)
    behind: list[int] = []

    def watched() -> Iterator[Tensor]:
        for read, one in enumerate(images(700, 4, 4)):
            behind.append(read - net.inputs)
            yield one

    encoder.reference(watched())
    assert max(behind) <= 256


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_reference__batch_size_is_obeyed_and_changes_nothing(net: SmallNet, batch_size: int) -> None:
    encoder = checked(cocoax.Encoder(net))
    expected = encoder.reference(images(20), cache=False)
    before = net.batches
    reference = encoder.reference(images(20), batch_size=batch_size, cache=False)
    assert net.batches - before == math.ceil(20 / batch_size)
    torch.testing.assert_close(reference.mean, expected.mean, rtol=1e-5, atol=1e-6)


def test_reference__one_input(encoder: cocoax.Encoder) -> None:
    picture = Image.fromarray(np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3))
    assert encoder.reference(picture).count == 1
    assert encoder.reference(images(1)[0]).count == 1


@pytest.mark.parametrize("nothing", [[], iter(()), torch.empty(0, 3, 8, 8)], ids=["list", "iterator", "tensor"])
def test_reference__of_nothing_is_an_error(encoder: cocoax.Encoder, nothing: object) -> None:
    with pytest.raises(ValueError, match="has 0 inputs; pass at least one"):
        encoder.reference(nothing)


def test_reference__of_no_inputs_at_all(encoder: cocoax.Encoder) -> None:
    with pytest.raises(TypeError, match=r"Inputs must be pictures, tensors or an iterable of those\. Got int"):
        encoder.reference(5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"on_error": "ignore"}, "'on_error' parameter must be 'raise' or 'skip'. Got 'ignore'"),
        ({"batch_size": 0}, "at least 1"),
    ],
    ids=["on_error", "batch_size"],
)
def test_reference__bad_arguments(encoder: cocoax.Encoder, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encoder.reference(images(2), **wrong)


# --- names, folders, towers -------------------------------------------------------------------------------------------


def write_pictures(folder: Path, names: list[str]) -> list[Path]:
    """Pictures that differ from each other, one for each name."""
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    return [folder / name for name in names]


def test_reference__folder(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    paths = write_pictures(folder, ["b.png", "a.png", "deeper/c.PNG"])
    (folder / "notes.txt").write_text("not a picture")
    expected = encoder.reference([paths[1], paths[0], paths[2]], keep_samples=True, cache=False)  # sorted
    for source in (folder, str(folder)):
        reference = encoder.reference(source, keep_samples=True, cache=False)
        assert_same(reference, expected)
        assert reference.name == "a, b, c"


def test_reference__folder_without_pictures(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a picture")
    with pytest.raises(ValueError, match="No pictures below"):
        encoder.reference(tmp_path)


def test_reference__names(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    paths = write_pictures(tmp_path, ["cat.png", "dog.png", "cup.png", "car.png"])
    assert encoder.reference(paths[0]).name == "cat"
    assert encoder.reference(paths[:3]).name == "cat, dog, cup"
    assert encoder.reference(paths).name == "4 images"
    assert encoder.reference(images(1)).name == "1 image"
    assert encoder.reference(paths, name="things").name == "things"


class Bag(nn.Module):
    """A text encoder: the sum of the embeddings of the characters."""

    def __init__(self, dimension: int = 8) -> None:
        super().__init__()
        self.register_buffer("table", draw(5, 128, dimension))

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        table: Tensor = self.get_buffer("table")
        return (table[batch["input_ids"]] * batch["attention_mask"][..., None]).sum(1)


def text_tower() -> cocoax.TextEncoder:
    return cocoax.TextEncoder(Bag(), lambda text: [ord(letter) for letter in text], limit=50, name="bag")


def test_reference__of_texts(net: SmallNet) -> None:
    encoder = cocoax.Encoder(net, text=text_tower())
    texts = ["a cat", "a dog, far away"]
    reference = encoder.text.reference(texts, keep_samples=True)
    table = draw(5, 128, 8)
    expected = torch.stack([sum((table[ord(letter)] for letter in text), torch.zeros(8)) for text in texts])
    assert reference.samples is not None
    torch.testing.assert_close(reference.samples, expected, rtol=1e-5, atol=1e-5)
    assert reference.name == "a cat / a dog, far away"
    assert encoder.text.reference("a cat").name == "a cat"
    assert encoder.text.reference([*texts, "a cup", "a car"]).name == "a cat and 3 more"


def test_reference__towers_share_a_space(net: SmallNet) -> None:
    encoder = cocoax.Encoder(net, text=text_tower())
    pictures, texts = encoder.reference(images(2)), encoder.text.reference(["a cat"])
    assert pictures.space == texts.space == encoder.space
    assert pictures.merge(texts).count == 3
    with pytest.raises(ValueError, match="another representation space"):
        pictures.merge(cocoax.Encoder(net).reference(images(2)))  # without the tower it is another encoder


def test_reference__text_tower_of_two_encoders(net: SmallNet) -> None:
    tower = text_tower()
    first = cocoax.Encoder(net, text=tower)
    second = cocoax.Encoder(net, preprocess=cocoax.ImagePreprocess(resize=8), text=tower)
    assert second.text.reference("a cat").space == second.space
    assert first.text.reference("a cat").space == first.space


def test_reference__without_a_text_tower(encoder: cocoax.Encoder) -> None:
    with pytest.raises(AttributeError, match="'SmallNet' has no text tower"):
        encoder.text.reference(["a cat"])


# --- inputs that fail -------------------------------------------------------------------------------------------------


@pytest.fixture
def four_files(tmp_path: Path) -> list[Path]:
    """Four files, of which number 2 is no picture."""
    paths = write_pictures(tmp_path / "four", ["a.png", "b.png", "bad.png", "d.png"])
    paths[2].write_bytes(b"no picture")
    return paths


def test_on_error_skip__bad_file_in_the_middle(encoder: cocoax.Encoder, four_files: list[Path]) -> None:
    with pytest.warns(UserWarning, match=r"1 input.* skipped \(Input 2: .*bad\.png is not an image"):
        reference = encoder.reference(four_files, on_error="skip", keep_samples=True)
    expected = encoder.reference([four_files[0], four_files[1], four_files[3]], keep_samples=True)
    ((index, reason),) = reference.skipped
    assert index == 2
    assert "bad.png is not an image that can be read" in reason
    assert reference.count == 3
    assert torch.equal(reference.mean, expected.mean)
    assert reference.samples is not None
    assert expected.samples is not None
    assert torch.equal(reference.samples, expected.samples)


def test_on_error_raise__bad_file_names_the_input(encoder: cocoax.Encoder, four_files: list[Path]) -> None:
    with pytest.raises(ValueError, match=r"Input 2: .*bad\.png is not an image that can be read"):
        encoder.reference(four_files)
    with pytest.raises(FileNotFoundError, match=r"Input 1: No file at .*gone\.png; check the path"):
        encoder.reference([four_files[0], four_files[0].with_name("gone.png")])
    with pytest.raises(TypeError, match=r"Input 1: An input must be a path, a PIL image, an array or a tensor\. Got int"):
        encoder.reference([four_files[0], 7])


@pytest.mark.parametrize(
    ("value", "reason"),
    [(math.nan, "is not finite"), (math.inf, "is not finite"), (0.0, "is zero, so it has no direction")],
)
def test_on_error__representation_without_a_direction(value: float, reason: str) -> None:
    encoder = flat_encoder()
    inputs = images(300, 2, 2, channels=1)
    inputs[[0, 5, 290]] = value  # the first of the stream, within a batch, in another chunk
    message = f"Input {{}}: its representation {reason}"
    with pytest.raises(ValueError, match=message.format(0)):
        encoder.reference(inputs)
    with pytest.raises(ValueError, match=message.format(4)):
        encoder.reference(inputs[1:])
    with pytest.warns(UserWarning, match=r"3 input.* skipped"):
        reference = encoder.reference(inputs, on_error="skip", keep_samples=True)
    assert [index for index, _ in reference.skipped] == [0, 5, 290]
    assert all(message.format(index) in text for index, text in reference.skipped)
    good = [index for index in range(300) if index not in (0, 5, 290)]
    assert reference.samples is not None
    assert torch.equal(reference.samples, inputs[good].flatten(1))
    np.testing.assert_allclose(reference.mean.numpy(), slow_means(inputs[good].flatten(1))[0], rtol=1e-11, atol=1e-14)


def test_on_error_skip__input_that_the_encoder_refuses(encoder: cocoax.Encoder) -> None:
    """It fails its whole batch; the others of the batch are encoded all the same, in order."""
    good = images(5)
    with pytest.warns(UserWarning, match=r"1 input.* skipped"):
        reference = encoder.reference([*good[:3], images(1, channels=1)[0], *good[3:]], on_error="skip", keep_samples=True)
    assert [index for index, _ in reference.skipped] == [3]
    assert "to have 3 channels, but got 1" in reference.skipped[0][1]
    assert reference.samples is not None
    torch.testing.assert_close(reference.samples, encoder.represent(good), rtol=1e-5, atol=1e-5)


def test_on_error_raise__input_that_the_encoder_refuses_is_named(encoder: cocoax.Encoder) -> None:
    inputs = [*images(2), images(1, channels=1)[0]]
    with pytest.raises(RuntimeError, match="Input 2"):
        encoder.reference(inputs, batch_size=1)
    with pytest.warns(UserWarning, match="Input 2"):
        encoder.reference(inputs, on_error="skip")


@pytest.mark.parametrize("kind", ["picture", "path"])
def test_on_error__preprocess_that_raises_as_torch_does(net: SmallNet, tmp_path: Path, kind: str) -> None:
    def preprocess(image: Image.Image) -> Tensor:
        array = np.array(image, dtype=np.float32) / 255
        pixels = torch.from_numpy(array.reshape(image.height, image.width, -1)).permute(2, 0, 1).contiguous()
        return pixels.sub_(torch.full((3, 1, 1), 0.5))  # in place, so one channel cannot become three

    encoder = cocoax.Encoder(net, preprocess=preprocess)
    paths = write_pictures(tmp_path, ["a.png", "grey.png"])
    Image.new("L", (16, 16), 128).save(paths[1])
    inputs = [Image.open(path).copy() for path in paths] if kind == "picture" else paths
    with pytest.warns(UserWarning, match=r"1 input.* skipped"):
        reference = encoder.reference(inputs, on_error="skip")
    assert [index for index, _ in reference.skipped] == [1]
    with pytest.raises(Exception, match="Input 1: "):
        encoder.reference(inputs)


def test_on_error_skip__everything_fails() -> None:
    with pytest.warns(UserWarning, match=r"2 input.* skipped"), pytest.raises(ValueError, match="0 inputs"):
        flat_encoder().reference(torch.zeros(2, 1, 2, 2), on_error="skip")


def test_on_error_skip__nothing_fails(encoder: cocoax.Encoder) -> None:
    """No warning (warnings are errors here), and the same reference."""
    inputs = images(4)
    assert_same(encoder.reference(inputs, on_error="skip", cache=False), encoder.reference(inputs, cache=False))


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("space", ["s", None])
def test_save__round_trip(tmp_path: Path, keep: bool, space: str | None) -> None:
    reference = Reference.from_representations(draw(0, 4, 3), name="größer\n猫", space=space, keep_samples=keep)
    path = reference.save(tmp_path / "new folder" / "reference.safetensors")
    assert path == tmp_path / "new folder" / "reference.safetensors"
    loaded = Reference.load(path)
    assert_same(loaded, reference)
    assert loaded.name == reference.name
    assert [file.name for file in path.parent.iterdir()] == ["reference.safetensors"]  # no temporary file is left


def test_save__round_trip_of_what_was_skipped(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="skipped"):
        reference = flat_encoder().reference([torch.zeros(1, 2, 2), torch.ones(1, 2, 2)], on_error="skip")
    loaded = Reference.load(reference.save(tmp_path / "reference.safetensors"))
    assert_same(loaded, reference)
    assert len(loaded.skipped) == 1


def test_save__loaded_reference_scores_the_same(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    reference = encoder.reference(images(5))
    z = draw(0, 3, 8)
    loaded = Reference.load(reference.save(tmp_path / "reference.safetensors"))
    assert torch.equal(cocoax.similarity_to(loaded).score(z), cocoax.similarity_to(reference).score(z))


def test_save__replaces_an_older_file(tmp_path: Path) -> None:
    old, new = (Reference.from_representations(draw(seed, 2, 3)) for seed in (0, 1))
    path = old.save(tmp_path / "reference.safetensors")
    new.save(path)
    assert_same(Reference.load(path), new)


def test_load__missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No file at .*gone\.safetensors; check the path"):
        Reference.load(tmp_path / "gone.safetensors")


@pytest.mark.parametrize("kept", [0, 4, 100, -1], ids=["nothing", "4 bytes", "100 bytes", "all but one byte"])
def test_load__truncated_file(tmp_path: Path, kept: int) -> None:
    path = Reference.from_representations(draw(0, 4, 3)).save(tmp_path / "reference.safetensors")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"reference\.safetensors is not a readable safetensors file .*truncated"):
        Reference.load(path)


def test_load__other_kind_of_file(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("these are only words, and quite a few of them")
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        Reference.load(text)
    attribution = write_safetensors(tmp_path / "map.safetensors", {"values": torch.ones(2)}, "attribution", {})
    with pytest.raises(ValueError, match="does not hold a Cocoax reference: it holds attribution"):
        Reference.load(attribution)


def test_load__safetensors_of_another_program(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"weight": torch.ones(2)}, tmp_path / "weights.safetensors")
    with pytest.raises(ValueError, match="does not hold a Cocoax reference: it holds something else"):
        Reference.load(tmp_path / "weights.safetensors")


# --- the cache --------------------------------------------------------------------------------------------------------


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
    assert encoded_by(net, lambda: made.append(encoder.reference(inputs))) == 5
    assert_same(made[0], expected)
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


def test_cache_info__and_clear_cache(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert (cache_info().folder, cache_info().files, cache_info().bytes) == (folder, 0, 0)
    encoder.reference(images(300, 8, 8))
    on_disk = list((folder / "references").iterdir())
    info = cache_info()
    assert (info.folder, info.files) == (folder, 2)
    assert info.bytes == sum(file.stat().st_size for file in on_disk) > 0
    bystander = folder / "notes.txt"
    bystander.write_text("not ours")
    assert clear_cache() == info
    assert cache_info().files == 0
    assert list((folder / "references").iterdir()) == []
    assert bystander.exists()


def test_cache_folder__without_a_variable_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("COCOAX_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "cocoax"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "cocoax"


def test_cache__that_cannot_be_written_only_warns(
    encoder: cocoax.Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file stands where the folder should be, which stops root as well."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("COCOAX_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="cache folder .* cannot be written .*; going on without"):
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


# --- how large a foil must be: the paper's sample-size proposition ----------------------------------------------------


def test_foil_size__of_the_paper() -> None:
    assert foil_size(0.05, 0.01, nonnegative=True) == 1060
    assert foil_size(0.05, 0.01) == 4239


probabilities = st.floats(0.001, 0.999)
tolerances = st.floats(0.02, 0.9)


@given(epsilon=tolerances, delta=probabilities, nonnegative=st.booleans())
@property_test
def test_foil_size__is_the_smallest_that_satisfies_the_bound(epsilon: float, delta: float, nonnegative: bool) -> None:
    def bound(m: int) -> float:
        """Hoeffding: m similarities within an interval of this width, their mean further than epsilon away."""
        width = 1 if nonnegative else 2
        return 2 * math.exp(-2 * m * epsilon**2 / width**2)

    m = foil_size(epsilon, delta, nonnegative)
    assert bound(m) <= delta * (1 + 1e-9)
    assert bound(m - 1) > delta * (1 - 1e-9)


@given(epsilon=tolerances, delta=probabilities, p=probabilities, nonnegative=st.booleans())
@property_test
def test_foil_size__bounds_the_exact_probability(epsilon: float, delta: float, p: float, nonnegative: bool) -> None:
    """For similarities at the ends of their interval, the worst case, the number of large ones is binomial."""
    m = foil_size(epsilon, delta, nonnegative)
    low, high = (0, 1) if nonnegative else (-1, 1)
    large = np.arange(m + 1)
    means = low + (high - low) * large / m
    far = np.abs(means - (low + (high - low) * p)) >= epsilon
    assert binom.pmf(large, m, p)[far].sum() <= delta


def violations(foil_values: Tensor, z: Tensor, m: int, epsilon: float, draws: int, seed: int) -> float:
    """How often, in ``draws`` foils of m samples, the empirical contrastive corpus similarity is off by epsilon or more."""
    generator = torch.Generator().manual_seed(seed)
    corpus = Reference.from_representations(foil_values[:1])
    everything = cocoax.contrastive_corpus_similarity(corpus, Reference.from_representations(foil_values))
    expectation = float(everything.score(z))
    off = 0
    for _ in range(draws):
        chosen = torch.randint(len(foil_values), (m,), generator=generator)
        foil = Reference.from_representations(foil_values[chosen], keep_samples=False)
        off += abs(float(cocoax.contrastive_corpus_similarity(corpus, foil).score(z)) - expectation) >= epsilon
    return off / draws


EPSILON, DELTA, DRAWS = 0.2, 0.1, 1000
SIGNED = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])  # cosine to [1, 0]: 1 or -1, the widest spread there is
NONNEGATIVE = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # cosine to [1, 0]: 1 or 0
EXPLICAND = torch.tensor([[1.0, 0.0]], dtype=torch.float64)


@pytest.mark.parametrize(("values", "nonnegative"), [(SIGNED, False), (NONNEGATIVE, True)], ids=["signed", "nonnegative"])
def test_foil_size__simulated_violations_are_rare_enough(values: Tensor, nonnegative: bool) -> None:
    # the true frequency is below 0.018 (binomial), so 0.1 is nearly twenty standard errors of 1000 draws away
    assert violations(values, EXPLICAND, foil_size(EPSILON, DELTA, nonnegative), EPSILON, DRAWS, seed=0) <= DELTA


def test_foil_size__of_nonnegative_representations_is_too_small_for_signed_ones() -> None:
    """So the simulation above can tell one bound from the other: here the true frequency is 0.256 (binomial)."""
    m = foil_size(EPSILON, DELTA, nonnegative=True)
    assert violations(SIGNED, EXPLICAND, m, EPSILON, DRAWS, seed=0) > 1.5 * DELTA


@pytest.mark.parametrize("epsilon", [0.0, -0.1, math.nan])
def test_foil_size__bad_epsilon(epsilon: float) -> None:
    with pytest.raises(ValueError, match=f"'epsilon' parameter must be above 0. Got {epsilon} instead"):
        foil_size(epsilon, 0.1)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_foil_size__bad_delta(delta: float) -> None:
    with pytest.raises(ValueError, match=f"'delta' parameter must lie between 0 and 1. Got {delta} instead"):
        foil_size(0.1, delta)

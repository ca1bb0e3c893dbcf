"""Features: what inputs are divided into, by name or by what users hold."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage
from skimage import measure
from skimage.segmentation import slic
from torch import Tensor, nn

import cocoax
from cocoax.cautions import Caution
from cocoax.data.samples import photo as sample_photo
from cocoax.encoders import inner_maps
from cocoax.inputs import features
from cocoax.inputs.features import Columns, Grid, LabelMap, MaskStack, Segments, SoundSegments
from cocoax.inputs.segmentation import _superpixels, grid_segments, segment
from tests.sounds import hum, listener

PREPROCESS = cocoax.ImagePreprocess(resize=32, crop=32)


def photo(seed: int = 0, width: int = 48, height: int = 36) -> Image.Image:
    """A picture of large blurred spots."""
    noise = np.random.default_rng(seed).normal(size=(height, width, 3))
    smooth = ndimage.gaussian_filter(noise, (4, 4, 0))
    return Image.fromarray(((smooth - smooth.min()) / np.ptp(smooth) * 255).astype(np.uint8))


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.fixture
def encoder() -> cocoax.Encoder:
    layers = nn.Conv2d(3, 8, 5, 2, 2), nn.ReLU(), nn.Conv2d(8, 12, 5, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return cocoax.Encoder(nn.Sequential(*layers).eval(), PREPROCESS, name="tiny").cropped()


def labels_of(encoder: cocoax.Encoder, features: Any, picture: Any = None) -> Tensor:
    labels = encoder.explicand(photo() if picture is None else picture, features).feature_ids
    assert labels is not None
    return labels


# --- segments ---------------------------------------------------------------------------------------------------------------


def check_partition(labels: Tensor) -> None:
    """Every pixel lies in one connected part, and no number is missing."""
    numbers = torch.unique(labels).tolist()
    assert numbers == list(range(len(numbers)))
    for number in numbers:
        assert ndimage.label(labels.numpy() == number)[1] == 1


@pytest.mark.parametrize("count", [2, 7, 16, 30])
def test_segments__are_connected_and_as_many_as_asked_for(encoder: cocoax.Encoder, count: int) -> None:
    labels = labels_of(encoder, Segments(count))

    check_partition(labels)
    assert int(labels.max()) + 1 == count


def test_segments__are_the_same_every_time(encoder: cocoax.Encoder) -> None:
    labels = labels_of(encoder, "segments")
    features._TREES.clear()
    inner_maps._KNOWN.clear()
    assert torch.equal(labels, labels_of(encoder, Segments()))


def test_segments__of_one_picture_are_computed_once_for_the_same_weights(encoder: cocoax.Encoder) -> None:
    calls = []
    assert encoder.owner is not None
    encoder.owner.register_forward_hook(lambda *_: calls.append(1))
    first = encoder.explicand(photo(5), "segments")
    seen = len(calls)
    again = encoder.explicand(photo(5), Segments(9))
    assert len(calls) == seen > 0
    assert again.tree is first.tree
    with torch.no_grad():
        next(encoder.owner.parameters()).mul_(-2)
    encoder.explicand(photo(5), "segments")
    assert len(calls) > seen


SAMPLES = ("cat", "coffee", "astronaut")


def sample(name: str, noise: float = 0.0) -> np.ndarray:
    pixels = np.asarray(sample_photo(name).resize((224, 224)), float)
    return np.clip(pixels + np.random.default_rng(0).normal(0, noise, pixels.shape), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("name", SAMPLES)
def test_superpixels__of_photos_are_those_of_slic(name: str) -> None:
    pixels = sample(name).astype(np.float32) / 255
    expected = measure.label(slic(pixels, 200, 10.0, start_label=1), connectivity=1, background=0) - 1

    assert np.array_equal(_superpixels(pixels), expected)


@pytest.mark.parametrize("noise", [10.0, 25.0, 40.0])
@pytest.mark.parametrize("name", SAMPLES)
def test_segments__of_a_noisy_photo_are_as_many(name: str, noise: float) -> None:
    tree = segment(torch.from_numpy(sample(name, noise)))

    areas = torch.bincount(tree.labels(tree.parts(16)).flatten())
    assert len(areas) == 16
    assert float(areas.max()) < 0.4 * 224**2


@pytest.mark.parametrize("shape", [(224, 224), (64, 64), (300, 20)])
def test_segments__of_noise_are_as_many(shape: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    tree = segment(torch.from_numpy(pixels))

    check_partition(tree.labels(tree.parts(16)))
    assert len(tree.parts(16)) == 16
    assert len(tree) >= 100


def test_superpixels__where_nothing_can_be_followed_are_cells() -> None:
    rows, columns = np.indices((224, 224)) // 2
    board = np.repeat(((rows + columns) % 2 * 1.0)[:, :, None], 3, axis=2)

    assert np.array_equal(_superpixels(board), grid_segments(224, 224, 14).numpy())


def test_segments__follow_the_borders_of_what_differs() -> None:
    picture = np.zeros((64, 96, 3), np.uint8)
    picture[:, :40], picture[20:50, 50:80] = (200, 40, 40), (30, 200, 60)

    tree = segment(torch.from_numpy(picture))

    labels = tree.labels(tree.parts(3))
    for colour in ((200, 40, 40), (30, 200, 60), (0, 0, 0)):
        own = labels[torch.from_numpy((picture == colour).all(2))]
        assert float((own == own.mode().values).float().mean()) > 0.97


def test_segments__more_of_them_refine_fewer() -> None:
    tree = segment(torch.from_numpy(np.array(photo(2, 90, 60))))
    coarse, fine = (tree.labels(tree.parts(count)) for count in (6, 15))

    for number in range(15):
        assert len(torch.unique(coarse[fine == number])) == 1


def test_segments__none_is_tiny() -> None:
    for seed in range(5):
        labels = (tree := segment(torch.from_numpy(np.array(photo(seed, 120, 80))))).labels(tree.parts(16))
        assert int(torch.bincount(labels.flatten()).min()) >= 0.01 * labels.numel()


@pytest.mark.parametrize("size", [(2, 2), (3, 40), (1, 30), (60, 400), (700, 600)])
def test_segments__of_pictures_of_any_shape(size: tuple[int, int]) -> None:
    tree = segment(torch.full((*size, 3), 90, dtype=torch.uint8))

    labels = tree.labels(tree.parts(4))
    assert labels.shape == size
    check_partition(labels)


def test_segments__the_encoders_own_maps_count() -> None:
    grey = torch.full((64, 64, 3), 128, dtype=torch.uint8)
    seen = torch.zeros(5, 8, 8)
    seen[2, :, 4:] = 1

    labels = (tree := segment(grey, [seen])).labels(tree.parts(2))

    left, right = labels[:, :24], labels[:, 40:]
    assert left.unique().numel() == right.unique().numel() == 1
    assert int(left[0, 0]) != int(right[0, 0])


def test_inner_maps__of_convolutions_and_of_nothing_to_see(encoder: cocoax.Encoder) -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 4, 4), nn.ReLU(), nn.Conv2d(4, 6, 2, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    maps = cocoax.Encoder(network.eval(), PREPROCESS).inner_maps(torch.zeros(3, 32, 32))
    assert [tuple(one.shape) for one in maps] == [(6, 4, 4)]
    assert cocoax.Encoder(lambda batch: batch.flatten(1), PREPROCESS, name="f").inner_maps(torch.zeros(3, 32, 32)) == []


# --- what users hold -------------------------------------------------------------------------------------------------------


def test_label_map__in_the_size_of_the_tensor_or_of_the_picture(encoder: cocoax.Encoder) -> None:
    whole = torch.zeros(36, 48, dtype=torch.int64)
    whole[:, 24:], whole[18:, :24] = 7, 40  # with gaps between the numbers

    cropped = labels_of(encoder, whole)

    assert cropped.shape == (32, 32)
    assert torch.equal(torch.unique(cropped), torch.arange(3))
    assert torch.equal(cropped[:, 17:], torch.ones(32, 15, dtype=torch.int64))
    assert torch.equal(labels_of(encoder, cropped), cropped)


def test_label_map__below_zero_is_never_removed(encoder: cocoax.Encoder) -> None:
    labels = torch.randint(2, (32, 32))
    labels[:5] = -3

    assert torch.equal(labels_of(encoder, labels), labels.clamp(min=-1))


@pytest.mark.parametrize(
    ("labels", "word"),
    [
        (torch.zeros(32, 32, dtype=torch.int64), "single part"),
        (torch.zeros(10, 90, dtype=torch.int64), "proportions"),
        (torch.arange(32 * 32).view(32, 32), "more than 1000"),
        (torch.rand(32, 32), "integers"),
    ],
)
def test_label_map__bad_ones(encoder: cocoax.Encoder, labels: Tensor, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        encoder.explicand(photo(), labels)


@pytest.mark.parametrize("damage", ["cut off", "empty", "text", "huge", "three channels", "one part"])
def test_label_map__file_that_is_none_is_named(damage: str, encoder: cocoax.Encoder, tmp_path: Path) -> None:
    path = tmp_path / "labels.png"
    Image.fromarray((np.arange(32 * 32).reshape(32, 32) // 256).astype(np.uint8)).save(path)
    assert encoder.explicand(photo(width=32, height=32), features=path).shape == (4,)
    whole = path.read_bytes()
    if damage == "three channels":
        photo(width=32, height=32).save(path)
    elif damage == "one part":
        Image.new("L", (32, 32)).save(path)
    else:
        header = whole[12:16] + (60_000).to_bytes(4, "big") * 2 + whole[24:29]  # with a checksum that is right
        huge = whole[:12] + header + zlib.crc32(header).to_bytes(4, "big") + whole[33:]
        path.write_bytes({"cut off": whole[:-30], "empty": b"", "text": b"labels", "huge": huge}[damage])
    expected = {"three channels": "must be integers", "one part": "a single part"}.get(damage, "labels.png ")
    with pytest.raises(ValueError, match=expected):
        encoder.explicand(photo(width=32, height=32), features=path)


def test_masks__the_smallest_on_top_and_the_rest_together(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    masks = torch.zeros(4, 32, 32, dtype=torch.bool)
    masks[0, :20, :20] = masks[1, 4:8, 4:8] = masks[2, :20, :20] = True  # the third hides the first of its size
    masks[3, 15:25, 5:12] = True
    expected = torch.full((32, 32), 2)
    expected[:20, :20] = 1
    expected[15:25, 5:12] = 3
    expected[4:8, 4:8] = 0
    dicts = [{"segmentation": mask.numpy(), "area": int(mask.sum())} for mask in masks]
    for number, mask in enumerate(masks):
        Image.fromarray(mask.numpy().astype(np.uint8) * 255).save(tmp_path / f"{number}.png")

    for given in (masks, dicts, tmp_path, str(tmp_path)):
        labels = labels_of(encoder, given)
        for part in torch.unique(expected):
            assert labels[expected == part].unique().numel() == 1
        assert int(labels.max()) == 3


@pytest.mark.parametrize(
    ("given", "error", "word"),
    [
        ([], ValueError, "0 masks"),
        ([{"segmentation": {"size": [32, 32], "counts": "abc"}}], ValueError, "run lengths"),
        ([np.ones((32, 32)), np.ones((16, 32))], ValueError, "one size"),
        (Path("nowhere"), FileNotFoundError, "No folder of masks at nowhere"),
        ("nowhere.png", FileNotFoundError, "No label map at nowhere.png"),
        ("segmnts", ValueError, "For images it takes 'segments'"),
    ],
)
def test_masks__bad_ones(encoder: cocoax.Encoder, given: Any, error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        encoder.explicand(photo(), given)


def test_grid__is_left_to_the_method(encoder: cocoax.Encoder) -> None:
    explicand = encoder.explicand(photo(), 4)

    assert (explicand.grid, explicand.feature_ids) == ((4, 4), None)
    run = cocoax.Rise(samples=20).run(encoder, explicand)
    assert run.masks.tensors["bits"].shape == (20, 4, 4)
    assert cocoax.KernelShap(samples=40).run(encoder, explicand).explicand.shape == (16,)


def test_columns__in_groups() -> None:
    table = cocoax.TabularEncoder(nn.Linear(4, 3), columns=["age", "size", "lat", "lon"], background=np.zeros((2, 4)))
    row = np.array([1.0, 2.0, 3.0, 4.0])

    for groups in ({"place": ["lat", "lon"]}, [["lat", "lon"]]):
        explicand = table.explicand(row, groups)
        assert explicand.feature_ids is not None
        assert explicand.feature_ids.tolist() == [0, 1, 2, 2]
    target = cocoax.similarity_to(table.reference(np.ones((1, 4))), "dot")
    grouped = cocoax.KernelShap().explain(table, row, target, features={"place": ["lat", "lon"]})
    single = cocoax.KernelShap().explain(table, row, target)
    assert grouped.names == ("age", "size", "place")
    torch.testing.assert_close(grouped.values[2], single.values[2:].sum())


@pytest.mark.parametrize(
    ("groups", "word"),
    [
        ([["a", "e"]], "'e'; the columns are"),
        ({"x": ["a", "b"], "y": "b"}, "'b' is in two groups, 'x' and 'y'"),
        ([["a", "b", "c", "d"]], "All columns are in one group"),
    ],
)
def test_columns__bad_groups(groups: Any, word: str) -> None:
    table = cocoax.TabularEncoder(nn.Linear(4, 3), columns=list("abcd"), background=np.zeros((2, 4)))
    with pytest.raises(ValueError, match=word):
        table.explicand(torch.zeros(4), groups)


def test_sound_segments__of_time_and_of_bands() -> None:
    halves = listener().explicand(hum(), 2)
    assert halves.names is not None
    assert len(halves.names) == 2
    cells = listener("cells", segments=6, bands=2)
    assert cells.explicand(hum(), 3).shape == (6,)
    with pytest.raises(ValueError, match="too short for 10000000 segments"):
        listener().explicand(hum(), 10**7)
    with pytest.raises(ValueError, match="the number of segments"):
        listener().explicand(hum(), 2.5)


# --- everywhere ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [cocoax.Rise(samples=60), cocoax.KernelShap(samples=60), cocoax.Occlusion()])
def test_methods__show_one_value_for_each_segment(encoder: cocoax.Encoder, method: cocoax.RemovalMethod) -> None:
    target = cocoax.representation_similarity()

    answer = method.explain(encoder, photo(), target, features=Segments(6))

    assert answer.features is not None
    assert answer.feature_ids is not None
    assert (answer.values.shape, answer.features.shape) == ((32, 32), (6,))
    torch.testing.assert_close(answer.values, answer.features[answer.feature_ids])


@pytest.mark.parametrize(
    ("picture", "nothing"),
    [(Image.new("RGB", (60, 40), (200, 40, 40)), True), (photo(1, 5000, 20), False), (photo(2, 2, 2), False)],
    ids=["one colour", "5000 x 20", "2 x 2"],
)
def test_rise__photos_with_hardly_any_segments(encoder: cocoax.Encoder, picture: Image.Image, nothing: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Caution)  # small pictures, narrow ones, and those that a blur does not change
        answer = cocoax.Rise(samples=40).explain(encoder.whole(), picture, cocoax.representation_similarity())

    assert bool(torch.isfinite(answer.relative).all())
    assert float(answer.relative.abs().max()) < 1e-5 or not nothing


def test_field__of_segments_answers_as_its_run(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    run = cocoax.Rise(samples=60).run(encoder, photo(), features=Segments(9))
    target = cocoax.representation_similarity()
    run.field().save(tmp_path / "field.safetensors")

    field = cocoax.Field.load(tmp_path / "field.safetensors")

    assert run.field().values.shape[0] == 9
    torch.testing.assert_close(field.explain(target).relative, run.explain(target).relative, rtol=0.01, atol=1e-5)


def test_by__gives_all_inputs_the_same_features(encoder: cocoax.Encoder) -> None:
    assert torch.equal(labels_of(encoder.by(Segments(5)), None), labels_of(encoder, Segments(5)))


@pytest.mark.parametrize(("features", "word"), [("sentences", "segments"), (Columns([["a"]]), "row"), ("nowhere/", "grid")])
def test_features__of_another_kind(encoder: cocoax.Encoder, features: Any, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        encoder.explicand(photo(), features)


def test_features__a_class_is_no_object(encoder: cocoax.Encoder) -> None:
    for kind in (Segments, Grid, LabelMap, MaskStack, SoundSegments):
        with pytest.raises(TypeError, match="object"):
            encoder.explicand(photo(), kind)

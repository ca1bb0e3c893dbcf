"""Which removal an option ``baseline=`` means, for every kind of input."""

from __future__ import annotations

import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax.inputs import Explicand, Inputs, Pictures, Rows, Sounds, Texts
from cocoax.masking import REMOVALS, Removal, resolve
from tests.conftest import SmallNet, images
from tests.kinds import Recordings, recording_encoder, recordings
from tests.tiny import bert_tokenizer, bytes_tokenizer

TABLE = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))


def pictures() -> Pictures:
    return Pictures()


def rows() -> Rows:
    return Rows(["a", "b", "c"], background=TABLE)


def texts() -> Texts:
    return Texts(bert_tokenizer(), 32)


def sounds() -> Sounds:
    return Sounds(8000)


every_kind = pytest.mark.parametrize("make", [pictures, rows, texts, sounds, Recordings], ids=lambda make: make.__name__)


def test_removals__are_known_by_their_names() -> None:
    assert {name: kind for name, kind in REMOVALS.items() if name != kind.__name__} == {}


@every_kind
def test_kinds__list_removals_that_there_are(make: Any) -> None:
    inputs: Inputs = make()
    assert set(inputs.removals) <= set(REMOVALS)
    assert inputs.default_removal in inputs.removals
    for name in inputs.removal_names:
        assert isinstance(resolve(name, inputs), Removal)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (pictures(), cocoax.Blur),
        (rows(), cocoax.Background),
        (texts(), cocoax.MaskToken),
        (Texts(bytes_tokenizer(), 32), cocoax.Deletion),
        (Recordings(), cocoax.Constant),
    ],
)
def test_resolve__default_is_that_of_the_kind(inputs: Inputs, expected: type) -> None:
    assert type(resolve(None, inputs)) is expected


def test_resolve__default_of_rows_is_their_background() -> None:
    assert torch.equal(resolve(None, rows()).rows, TABLE)  # type: ignore[attr-defined]


def test_resolve__default_of_rows_without_a_background() -> None:
    with pytest.raises(ValueError, match=r"What should removed columns of 'the encoder' hold\? .*background=rows"):
        resolve(None, Rows(["a"]))


@dataclass(frozen=True)
class Doubled(Removal):
    """A removal of a user's own."""

    factor: float = 2.0

    def baseline_input(self, explicand: Explicand) -> Tensor:
        return explicand.tensor * self.factor

    def masked(self, explicand: Explicand, baseline_input: Tensor, kept: Tensor) -> Tensor:
        return torch.where(explicand.elements_kept(kept).bool(), explicand.tensor, baseline_input)


class Loud(Recordings):
    """A kind of a user's own, with a default removal of its own."""

    default_removal = Doubled(3.0)  # type: ignore[assignment]


def test_resolve__default_may_be_a_removal_of_ones_own() -> None:
    assert resolve(None, Loud()) == Doubled(3.0)
    encoder = recording_encoder(Loud())
    result = cocoax.Occlusion().explain(encoder, recordings(1)[0], cocoax.representation_similarity())
    assert result.metadata["options"]["baseline"] == {"type": "tests.masking.test_registry.Doubled", "factor": 3.0}


def test_resolve__default_that_there_is_not() -> None:
    class Odd(Recordings):
        default_removal = "Nonsense"  # type: ignore[assignment]

    with pytest.raises(ValueError, match=r"default removal of Odd is 'Nonsense', but known are Blur, Constant"):
        resolve(None, Odd())


@pytest.mark.parametrize(
    ("removal", "inputs", "message"),
    [
        (cocoax.Blur(), texts(), r"Blur is for images\. Words are removed by baseline='mask'"),
        (cocoax.Constant(0.0), texts(), r"Constant is for numbers\. Words are removed by baseline='mask'"),
        (cocoax.Blur(), rows(), r"Blur is for images\. Columns take cocoax\.Background"),
        (cocoax.Mean(), rows(), r"Mean is for numbers\. Columns take cocoax\.Background"),
        (cocoax.MaskToken(), pictures(), r"MaskToken is for texts\. Pictures take cocoax\.Blur"),
        (cocoax.Background(TABLE), texts(), r"Background is for numbers\. Words are removed by baseline='mask'"),
        (cocoax.Blur(), sounds(), r"Blur is for images\. Sounds take"),
    ],
)
def test_resolve__removal_of_another_kind(removal: Removal, inputs: Inputs, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve(removal, inputs)


class Darker(cocoax.Baseline):
    """A baseline of a user's own."""

    def __call__(self, explicand: Tensor) -> Tensor:
        return explicand - 1


class Blur(cocoax.Baseline):
    """A user's own that is called as one of ours."""

    def __call__(self, explicand: Tensor) -> Tensor:
        return explicand * 0


@pytest.mark.parametrize("own", [Darker(), Blur()])
def test_resolve__baseline_of_ones_own_suits_numbers_only(own: cocoax.Baseline) -> None:
    for inputs in (pictures(), rows(), sounds(), Recordings()):
        assert resolve(own, inputs) is own
    with pytest.raises(ValueError, match=r"(Darker|Blur) is for numbers\. Words are removed by"):
        resolve(own, texts())


def test_resolve__removal_of_ones_own_suits_everything() -> None:
    for inputs in (pictures(), rows(), texts(), Recordings()):
        assert resolve(Doubled(), inputs) == Doubled()


def test_resolve__class_instead_of_an_object() -> None:
    with pytest.raises(ValueError, match=r"takes an object: write cocoax\.Blur\(\)"):
        resolve(cocoax.Blur, pictures())
    with pytest.raises(ValueError, match=r"takes an object: write cocoax\.MaskToken\(\)"):
        resolve(cocoax.MaskToken, texts())


# --- strings ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [("mask", cocoax.MaskToken(4)), ("deletion", cocoax.Deletion(0)), ("attention", cocoax.AttentionMask(0))],
)
def test_resolve__names_of_removals_of_words(name: str, expected: Removal) -> None:
    assert resolve(name, texts()) == expected


@pytest.mark.parametrize(
    ("inputs", "name", "message"),
    [
        (texts(), "blur", r"Words are removed by baseline='mask'.*Got 'blur' instead"),
        (pictures(), "blur", r"takes an object: write cocoax\.Blur\(\)\. Pictures take"),
        (pictures(), "Mean", r"takes an object: write cocoax\.Mean\(\)"),
        (sounds(), "silnce", r"Sounds take baseline='silence'.*Got 'silnce' instead"),
    ],
)
def test_resolve__string_that_is_no_name(inputs: Inputs, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve(name, inputs)


@pytest.mark.parametrize("name", ["constant", "zero"])
def test_resolve__rows_take_no_strings(name: str) -> None:
    with pytest.raises((ValueError, TypeError), match=r"cocoax\.Constant\(|rows of numbers.*Got str"):
        resolve(name, rows())


def test_resolve__string_that_is_a_path(tmp_path: Path) -> None:
    path = tmp_path / "grey.png"
    Image.new("RGB", (4, 4), (51, 51, 51)).save(path)
    removal = resolve(str(path), pictures())
    assert torch.equal(removal.baseline_input(Explicand(torch.ones(3, 4, 4))), torch.full((3, 4, 4), 0.2))
    with pytest.raises(FileNotFoundError, match=r"No file at .*missing\.png"):
        resolve(str(tmp_path / "missing.png"), pictures())


def test_resolve__path_of_another_sound(tmp_path: Path) -> None:
    path = tmp_path / "low.wav"
    samples = (np.sin(np.arange(4000) / 9) * 20000).astype(np.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(samples.tobytes())
    removal = resolve(str(path), sounds())
    expected = torch.from_numpy(samples.astype(np.float32) / 32768)[None]
    torch.testing.assert_close(removal.baseline_input(Explicand(torch.zeros(1, 4000))), expected)


# --- inputs that are put in place -----------------------------------------------------------------------------------------


def test_resolve__an_input_is_put_in_place() -> None:
    grey = torch.full((3, 4, 4), 0.5)
    for given in (grey, [grey], Explicand(grey), grey.double().requires_grad_()):
        baseline_input = resolve(given, pictures()).baseline_input(Explicand(torch.ones(3, 4, 4)))
        assert torch.equal(baseline_input, grey)
        assert not baseline_input.requires_grad


def test_resolve__rows_put_in_place() -> None:
    assert torch.equal(resolve([1.0, 2.0, 3.0], rows()).image, torch.tensor([[1.0, 2.0, 3.0]]))  # type: ignore[attr-defined]
    several = resolve(TABLE, rows())
    assert isinstance(several, cocoax.Background)
    assert torch.equal(several.rows[:, 0], TABLE)


@pytest.mark.parametrize("several", [torch.arange(96.0).view(2, 3, 4, 4), list(torch.arange(96.0).view(2, 3, 4, 4))])
def test_resolve__several_pictures_are_a_background(several: Any) -> None:
    removal = resolve(several, pictures())
    assert isinstance(removal, cocoax.Background)
    mean = torch.arange(96.0).view(2, 3, 4, 4).mean(0)
    torch.testing.assert_close(removal.baseline_input(Explicand(torch.ones(3, 4, 4))), mean)


def test_resolve__several_inputs_of_different_shapes() -> None:
    with pytest.raises(ValueError, match=r"'baseline' have different shapes, \[3, 4, 4\] and \[3, 4, 5\]; they must be prep"):
        resolve([torch.zeros(3, 4, 5), torch.zeros(3, 4, 4)], pictures())


def test_resolve__no_rows() -> None:
    with pytest.raises(ValueError, match=r"'baseline' parameter must be one row or more\. Got 0 instead"):
        resolve([], rows())


@pytest.mark.parametrize("wrong", [3.5, {"a": 1}, torch.zeros(3, 4, 4)])
def test_resolve__something_else_in_place_of_words(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"Words are removed by baseline='mask'.*Got .{1,80} instead"):
        resolve(wrong, texts())


def test_resolve__something_that_is_no_input() -> None:
    with pytest.raises(TypeError, match=r"Inputs must be pictures, tensors .*Got object"):
        resolve(object(), pictures())


# --- tokens of a kind of a user's own ---------------------------------------------------------------------------------------


class Notes(Inputs):
    """Melodies as ids of notes; a kind of a user's own whose notes can be removed as words are."""

    continuous = False
    removals = ("Deletion", "MaskToken")

    def is_one(self, inputs: object) -> bool:
        return isinstance(inputs, Tensor | Explicand)

    def prepare(self, item: Any) -> Tensor:
        tensor: Tensor = item.tensor if isinstance(item, Explicand) else item
        return tensor

    def explicand(self, item: Any) -> Explicand:
        return item if isinstance(item, Explicand) else Explicand(item, feature_ids=torch.arange(len(item)))

    def collate(self, prepared: Any, like: Tensor) -> Tensor:
        return nn.utils.rnn.pad_sequence(list(prepared), batch_first=True)


def test_resolve__tokens_of_a_kind_of_ones_own() -> None:
    assert resolve(cocoax.MaskToken(7), Notes()) == cocoax.MaskToken(7)
    assert resolve(cocoax.Deletion(0), Notes()) == cocoax.Deletion(0)
    with pytest.raises(ValueError, match=r"'the encoder' has no mask token.*MaskToken\(token_id\)"):
        resolve(cocoax.MaskToken(), Notes())
    with pytest.raises(ValueError, match=r"'the encoder' has no padding token.*Deletion\(token_id\)"):
        resolve(None, Notes())
    noted = Notes()
    noted.pad, noted.mask = 0, 9  # type: ignore[attr-defined]
    assert resolve(None, noted) == cocoax.Deletion(0)
    assert resolve(cocoax.MaskToken(), noted) == cocoax.MaskToken(9)


def test_resolve_baseline__picture_is_prepared_like_an_input(net: SmallNet) -> None:
    encoder = cocoax.Encoder(net, cocoax.ImagePreprocess(resize=16, crop=16, mean=(0.5,) * 3, std=(0.25,) * 3))
    white = Image.new("RGB", (20, 16), "white")
    baseline = resolve(white, encoder.inputs)
    assert torch.equal(baseline(images(1)[0]), torch.full((3, 16, 16), 2.0))


def test_resolve_baseline__baseline_is_kept(encoder: cocoax.Encoder) -> None:
    mean = cocoax.Mean()
    assert resolve(mean, encoder.inputs) is mean


@pytest.mark.parametrize("make", [pictures, rows, sounds, Recordings], ids=lambda make: make.__name__)
@pytest.mark.parametrize("number", [0, 0.0, np.float32(1)])
def test_resolve__a_number_is_written_as_a_constant(make: Any, number: Any) -> None:
    with pytest.raises(
        ValueError, match=r"^The 'baseline' parameter takes an object: write cocoax\.Constant\([\d.]+\)\. \w+"
    ):
        resolve(number, make())


def test_resolve__a_file_that_is_not_there_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Got 'nope\.wav' instead, and there is no file of that name\.$"):
        resolve("nope.wav", sounds())
    rate = np.zeros(800, np.int16)
    for name, loud in (("a", 1000), ("b", 3000)):
        with wave.open(str(tmp_path / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes((rate + loud).tobytes())
    background = resolve(str(tmp_path), sounds())
    assert isinstance(background, cocoax.Background)
    assert background.rows.shape == (2, 1, 800)

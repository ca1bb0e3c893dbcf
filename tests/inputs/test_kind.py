"""What every kind of input has unless it says otherwise, and how a kind of a user's own goes through everything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import cocoax
from cocoax.inputs import Inputs, Rows
from cocoax.inputs.base import _CPU_BATCH, plural
from cocoax.store import file_digest
from tests.kinds import CHANNELS, STEPS, Recordings, recording_encoder, recordings


def test_each__one_is_a_list_of_one() -> None:
    kind = Recordings()
    one, many = recordings(1)[0], recordings(3)
    items, count = kind.each(one)
    assert ([item is one for item in items], count) == ([True], 1)
    items, count = kind.each(many)
    assert (len(list(items)), count) == (3, 3)
    items, count = kind.each(iter(many))
    assert (len(list(items)), count) == (3, None)


def test_each__what_cannot_be_gone_through() -> None:
    with pytest.raises(TypeError, match=r"Inputs must be one recording or an iterable of them\. Got int instead"):
        Recordings().each(3)


def test_collate__device_and_precision_of_the_module() -> None:
    like = torch.zeros(1, dtype=torch.float64)
    batch = Recordings().collate(list(recordings(2).requires_grad_()), like)
    assert (batch.dtype, tuple(batch.shape), batch.requires_grad) == (torch.float64, (2, 3, 10), False)
    assert Recordings().collate(recordings(2), torch.empty(0, device="meta")).device.type == "meta"


@pytest.mark.parametrize(
    ("elements", "on_cpu", "expected"),
    [(30, True, 64), (_CPU_BATCH // 10, True, 10), (10 * _CPU_BATCH, True, 1), (30, False, 512), (_CPU_BATCH, False, 100)],
)
def test_default_batch_size__depends_on_the_size_alone(elements: int, on_cpu: bool, expected: int) -> None:
    assert Recordings().default_batch_size(torch.empty(1, 1).expand(1, elements), on_cpu) == expected


def test_defaults__of_a_kind_that_says_nothing() -> None:
    kind = Recordings()
    assert (kind.settings, kind.space_settings) == ((), ())
    assert kind.label(recordings(1)[0]) == "recording"
    assert (kind.set_label(["recording"], 1), kind.set_label([], 4)) == ("1 recording", "4 recordings")
    assert kind.digest(recordings(1)[0]) == kind.digest(recordings(1)[0]) != kind.digest(recordings(2)[1])
    assert kind.to_module(recordings(2)) is not None
    assert kind.default_removal == "Constant"
    assert kind.removes_by_default
    assert not kind.any_shape
    with pytest.raises(TypeError, match="abstract"):
        Inputs()  # type: ignore[abstract]


class Scaled(Recordings):
    """A kind whose settings count."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    @property
    def settings(self) -> tuple[object, ...]:
        return (self.scale,)

    def to_module(self, batch: torch.Tensor) -> torch.Tensor:
        return batch * self.scale


def test_settings__are_part_of_the_fingerprint_and_of_the_space() -> None:
    encoders = [recording_encoder(Scaled(scale)) for scale in (1.0, 1.0, 2.0)]
    first, same, other = (encoder.fingerprint for encoder in encoders)
    assert first == same != other
    assert encoders[0].space == encoders[1].space != encoders[2].space


def test_encoder__of_a_kind_of_ones_own() -> None:
    encoder = recording_encoder()
    module = encoder.module
    torch.testing.assert_close(encoder.represent(recordings(5)), module(recordings(5)).detach())
    reference = encoder.reference(recordings(5))
    assert (reference.name, reference.count) == ("5 recordings", 5)
    with pytest.raises(cocoax.encoders.forward.ForwardError, match=r"'recordings' failed .* Check the shape of the inputs"):
        encoder.represent([torch.zeros(2, 2)])


@pytest.mark.parametrize("wrong", [{"scale": 1.0}, ["scale"], "scale"])
def test_settings__must_be_a_tuple(wrong: object) -> None:
    class Wrong(Recordings):
        settings = wrong  # type: ignore[assignment]

    with pytest.raises(TypeError, match=rf"'settings' of Wrong must be a property .* Got {type(wrong).__name__} instead"):
        _ = recording_encoder(Wrong()).fingerprint


def test_settings__written_as_a_method() -> None:
    class Wrong(Recordings):
        def settings(self) -> tuple[object, ...]:  # type: ignore[override]
            return (1.0,)

    with pytest.raises(TypeError, match=r"must be a property that returns a tuple.* Got method instead"):
        recording_encoder(Wrong()).reference(recordings(2))


class Folders(Recordings):
    """A kind of which a string is a number of recordings."""

    def many(self, inputs: Any) -> Iterable[Any]:
        return (recording for recording in recordings(int(inputs))) if isinstance(inputs, str) else super().many(inputs)


def test_many__a_generator_of_what_a_folder_holds() -> None:
    encoder = recording_encoder(Folders())
    assert torch.equal(encoder.represent("3"), encoder.represent(recordings(3)))
    assert encoder.reference("3").count == 3
    assert len(cocoax.Occlusion().explain(encoder, "2", cocoax.representation_similarity())) == 2
    with pytest.raises(TypeError, match=r"one recording or an iterable of them\. Got str instead"):
        recording_encoder().represent("3")


def test_each__a_generator_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.each must return an iterator and a count; write a generator as 'many'"):

        class Wrong(Recordings):
            def each(self, inputs: Any) -> Iterator[Any]:  # type: ignore[override]
                yield from inputs


def test_set_label__of_a_noun_that_ends_in_s() -> None:
    class Plural(Recordings):
        noun = "series"

    assert [Plural().set_label([], count) for count in (1, 2)] == ["1 series", "2 series"]


def test_repr__options_but_not_data() -> None:
    assert repr(Recordings(segments=3)) == "Recordings(segments=3, fixed=0)"
    assert repr(recording_encoder().inputs) == "Recordings(segments=2, fixed=0, encoder='recordings')"
    many = repr(Rows([f"column {number}" for number in range(99)]))
    assert many.startswith("Rows(columns=('column 0',")
    assert len(many) < 120


class Reading(Recordings):
    """Recordings in files, one number a line."""

    def is_one(self, inputs: object) -> bool:
        return isinstance(inputs, str) or super().is_one(inputs)

    def prepare(self, item: Any) -> torch.Tensor:
        if isinstance(item, str):
            numbers = [float(line) for line in Path(item).read_text().splitlines()]
            return torch.tensor(numbers)[None].expand(CHANNELS, STEPS)
        return super().prepare(item)

    def explicand(self, item: Any) -> cocoax.Explicand:
        return super().explicand(self.prepare(item) if isinstance(item, str) else item)

    def digest(self, item: Any) -> str:
        return file_digest(item) if isinstance(item, str) else super().digest(item)


def test_files__a_missing_one_is_told_with_its_number(tmp_path: Path) -> None:
    encoder = recording_encoder(Reading())
    (tmp_path / "a.txt").write_text("1\n" * STEPS)
    files = [str(tmp_path / name) for name in ("a.txt", "gone.txt")]
    missing = r"^Input 1: No file at .*gone\.txt; check the path\.$"
    with pytest.raises(FileNotFoundError, match=missing):
        encoder.reference(files)
    with pytest.raises(FileNotFoundError, match=missing):
        encoder.represent(files)
    with pytest.raises(FileNotFoundError, match=missing):
        cocoax.Occlusion().explain(encoder, files, cocoax.representation_similarity())
    with pytest.warns(UserWarning, match="1 input was skipped"):
        assert encoder.reference(files, on_error="skip").count == 1


def test_files__one_that_changed_is_read_again(tmp_path: Path) -> None:
    encoder, file = recording_encoder(Reading()), tmp_path / "a.txt"
    file.write_text("1\n" * STEPS)
    first = encoder.reference(str(file))
    file.write_text("2\n" * STEPS)
    assert not torch.equal(encoder.reference(str(file)).mean, first.mean)


class Whole(Recordings):
    """Recordings that somebody prepares as whole numbers, and an explicand that is a tensor."""

    def explicand(self, item: Any) -> Any:
        return item if item.ndim == 1 else super().explicand(item)


def test_explicand__no_floats_or_no_explicand() -> None:
    encoder = recording_encoder(Whole())
    with pytest.raises(
        TypeError, match=r"A recording must be prepared as a tensor of floats, .*let Whole\.prepare return .*int64"
    ):
        encoder.explicand(torch.ones(CHANNELS, STEPS, dtype=torch.int64))
    with pytest.raises(TypeError, match=r"Whole\.explicand must return a cocoax\.Explicand\. Got Tensor instead"):
        encoder.explicand(torch.ones(STEPS))


@pytest.mark.parametrize(
    ("noun", "nouns"), [("image", "images"), ("series", "series"), ("melody", "melodies"), ("essay", "essays")]
)
def test_plural(noun: str, nouns: str) -> None:
    assert plural(noun) == nouns


def test_nouns__a_kind_may_say_its_own() -> None:
    class People(Recordings):
        noun = "person"
        nouns = "people"

    assert (People().set_label([], 2), Recordings().set_label([], 2)) == ("2 people", "2 recordings")


class Shelf(Recordings):
    """Recordings in a folder, of which there may be none."""

    noun = "series"

    def many(self, inputs: Any) -> Any:
        return sorted(inputs.glob("*.npy")) if isinstance(inputs, Path) else super().many(inputs)


def test_reference__of_an_empty_folder_names_it(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=rf"^The reference has 0 inputs; pass at least one\. There are none in {tmp_path}\.$"
    ):
        recording_encoder(Shelf()).reference(tmp_path)

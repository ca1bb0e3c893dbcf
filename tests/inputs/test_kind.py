"""What every kind of input has unless it says otherwise, and how a kind of a user's own goes through everything."""

from __future__ import annotations

import pytest
import torch

import cocoax
from cocoax.inputs import Inputs
from cocoax.inputs.kind import CPU_BATCH
from tests.kinds import Recordings, recording_encoder, recordings


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
    [(30, True, 64), (CPU_BATCH // 10, True, 10), (10 * CPU_BATCH, True, 1), (30, False, 512), (CPU_BATCH, False, 100)],
)
def test_at_once__depends_on_the_size_alone(elements: int, on_cpu: bool, expected: int) -> None:
    assert Recordings().at_once(torch.empty(1, 1).expand(1, elements), on_cpu) == expected


def test_defaults__of_a_kind_that_says_nothing() -> None:
    kind = Recordings()
    assert (kind.settings, kind.space_settings) == ((), ())
    assert kind.label(recordings(1)[0]) == "recording"
    assert (kind.name_together(["recording"], 1), kind.name_together([], 4)) == ("1 recording", "4 recordings")
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

"""Methods and removals as plain values, and back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.methods.serialise import from_json_value, to_file_value, to_json_value, type_name
from tests.conftest import SmallNet, images


def test_to_plain__and_back() -> None:
    image = images(1)[0]
    method = cocoax.IntegratedGradients(steps=3, baseline=cocoax.Fixed(image))
    tensors: dict[str, Tensor] = {}
    plain = json.loads(json.dumps(to_json_value(method, tensors)))
    assert list(tensors) == [plain["baseline"]["image"]["key"]]
    known = {"IntegratedGradients": cocoax.IntegratedGradients, "Fixed": cocoax.Fixed}
    back = from_json_value(plain, tensors, known)
    assert isinstance(back, cocoax.IntegratedGradients)
    assert back.steps == 3
    assert torch.equal(back.baseline.image, image)


def test_to_plain__without_room_for_tensors_tells_their_shape() -> None:
    assert to_json_value(cocoax.Fixed(images(1)[0]))["image"] == {"type": "Tensor", "shape": [3, 16, 16]}


def test_to_plain__values() -> None:
    assert to_json_value((1, "a", None, [2.5, True])) == [1, "a", None, [2.5, True]]
    assert to_json_value(np.arange(2)) == {"type": "Tensor", "shape": [2]}
    assert to_json_value(Path("a")) == "a"  # anything else is told as text


def test_from_plain__unknown_type() -> None:
    with pytest.raises(ValueError, match="written with 'Magic', which this version of Cocoax does not know"):
        from_json_value({"type": "Magic"}, {}, {"Blur": cocoax.Blur})
    with pytest.raises(
        ValueError, match=r"written with 'lime\.Lime', which is not known here; import the module that defines"
    ):
        from_json_value({"type": "lime.Lime"}, {}, {"Blur": cocoax.Blur})


@dataclass(frozen=True)
class Rise(cocoax.Method):
    """A method of a user's own, called as one of ours."""

    baseline: Any = None

    def _explain(self, *_what: Any) -> Any:
        raise NotImplementedError


def test_type_name__ours_by_name_others_by_module_too() -> None:
    assert type_name(cocoax.Rise) == "Rise"
    assert type_name(Rise) == "tests.methods.test_serialise.Rise"
    assert type_name(dict) == "builtins.dict"
    assert to_json_value(Rise(cocoax.Mean())) == {"type": "tests.methods.test_serialise.Rise", "baseline": {"type": "Mean"}}
    assert Rise().describe()["type"] == "Rise"  # for readers


def test_from_plain__users_class_does_not_take_the_place_of_ours() -> None:
    known = {type_name(kind): kind for kind in (cocoax.Rise, Rise)}
    ours, own = (from_json_value(to_json_value(method), {}, known) for method in (cocoax.Rise(samples=12), Rise()))
    assert type(ours) is cocoax.Rise
    assert ours.samples == 12
    assert type(own) is Rise


def test_to_plain__other_things_as_told() -> None:
    assert to_json_value([Path("a"), {"b"}], None, lambda value: type(value).__name__) == ["PosixPath", "set"]


@dataclass(frozen=True, eq=False)
class WithOptions(cocoax.Occlusion):
    """A method of a user's own with an option of any kind."""

    option: Any = None


def test_for_file__options_come_back_as_they_were() -> None:
    known = {type_name(WithOptions): WithOptions, "Blur": cocoax.Blur}
    for option in (1, "a", None, (1, (2.5, "b")), True):
        assert (
            from_json_value(json.loads(json.dumps(to_file_value(WithOptions(option=option), {}))), {}, known).option == option
        )
    tensors: dict[str, Tensor] = {}
    array = from_json_value(to_file_value(WithOptions(option=np.arange(3.0)), tensors), tensors, known).option
    assert isinstance(array, np.ndarray)
    assert array.tolist() == [0.0, 1.0, 2.0]
    single = to_file_value(WithOptions(option=np.float32(0.5)), {})["option"]
    assert (type(single), single) == (float, 0.5)


@pytest.mark.parametrize("option", [{"a": 1}, len, Path("a"), ("a", {1}), np.array([None])], ids=str)
def test_for_file__what_no_file_holds_is_refused(option: Any, tmp_path: Path) -> None:
    encoder = cocoax.Encoder(SmallNet().eval(), name="small")
    run = WithOptions(option=option).run(encoder, images(1)[0])
    with pytest.raises(
        TypeError, match=r"^The option 'option' of .*WithOptions holds a \w+, which files do not hold; they hold"
    ):
        run.save(tmp_path / "run.safetensors")
    assert not list(tmp_path.iterdir())

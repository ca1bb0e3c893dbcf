"""Names of other libraries: the error says what to write here, what it says is there, and nothing else changes."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import nn

import cocoax
from cocoax.habits import HABITS, OPTIONS, check_options
from tests.conftest import SmallNet, images


def things() -> dict[str, Any]:
    """Return one of each that habits are about."""
    encoder = cocoax.Encoder(SmallNet().eval(), name="small")
    result = cocoax.Occlusion().explain(encoder, images(1)[0], cocoax.representation_similarity())
    return {"cocoax": cocoax, "method": cocoax.IntegratedGradients(), "encoder": encoder, "attribution": result}


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return things()


@pytest.mark.parametrize(("whose", "name"), [(whose, name) for whose, names in HABITS.items() for name in names])
def test_habit__ends_in_what_to_write(whose: str, name: str, made: dict[str, Any]) -> None:
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; write {re.escape(HABITS[whose][name])}\.$"):
        getattr(made[whose], name)
    assert not hasattr(made[whose], name)


@pytest.mark.parametrize(("whose", "name"), [(whose, name) for whose, names in HABITS.items() for name in names])
def test_habit__what_it_says_is_there(whose: str, name: str, made: dict[str, Any]) -> None:
    written = HABITS[whose][name]
    for path in re.findall(r"\b(?:cocoax|dataclasses)(?:\.\w+)+", written):
        module, _, last = path.rpartition(".")
        assert hasattr(import_module(module), last), path
    for thing, attribute in re.findall(r"(?<!\.)\b(method|encoder|attribution)\.(\w+)", written):
        subject = {"method": cocoax.Rise(), **made}[thing]
        assert hasattr(type(subject), attribute) or hasattr(subject, attribute), attribute


def test_missing__what_is_no_habit_is_told_as_always(made: dict[str, Any]) -> None:
    for whose in ("method", "encoder", "attribution"):
        with pytest.raises(AttributeError, match=rf"^'{type(made[whose]).__name__}' object has no attribute 'nonsense'$"):
            made[whose].nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="The encoder 'small' has no text tower"):  # what a property says
        made["encoder"].text  # noqa: B018


def test_things__are_copied_and_pickled_as_ever(made: dict[str, Any]) -> None:
    for method in (cocoax.Rise(samples=12), cocoax.Captum("Lime", n_samples=5), cocoax.ExpectedGradients(images(2))):
        for other in (copy.copy(method), copy.deepcopy(method), pickle.loads(pickle.dumps(method))):
            assert other.describe() == method.describe()
    assert replace(cocoax.Rise(), samples=70).samples == 70
    for other in (copy.deepcopy(made["attribution"]), pickle.loads(pickle.dumps(made["attribution"]))):
        assert torch.equal(other.values, made["attribution"].values)
    assert copy.copy(made["encoder"]).fingerprint == made["encoder"].fingerprint


def test_from_pretrained__is_looked_for_on_the_class() -> None:
    for kind in (cocoax.Encoder, cocoax.TextEncoder):
        with pytest.raises(
            AttributeError, match=rf"^'{kind.__name__}' has no attribute 'from_pretrained'; write cocoax\.load\("
        ):
            kind.from_pretrained("facebook/dinov2-small")


@pytest.mark.parametrize("name", OPTIONS)
def test_options__by_another_name(name: str) -> None:
    methods: list[Any] = [cocoax.Rise, cocoax.IntegratedGradients, cocoax.Occlusion, cocoax.SmoothGrad]
    having = [method for method in methods if OPTIONS[name] in method.__dataclass_fields__]
    assert having
    for method in having:
        with pytest.raises(
            TypeError, match=rf"^{method.__name__} has no option '{name}'; here it is called '{OPTIONS[name]}'\.$"
        ):
            method(**{name: 3})


@dataclass(frozen=True)
class Counted(cocoax.Occlusion):
    """A method of a user's own that has options by such names, and one that is a module."""

    n_samples: int = 3
    judge: Any = None


def test_options__of_ones_own_and_of_captum_stay() -> None:
    assert Counted(n_samples=5, judge=nn.Flatten()).n_samples == 5
    assert isinstance(Counted(None, None, 5, nn.Flatten()).judge, nn.Flatten)
    assert cocoax.Captum("Lime", n_samples=5).options == {"n_samples": 5}
    check_options(cocoax.VanillaGradients, {"n_samples": 3})  # it has nothing of that kind: Python says so itself
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_samples'"):
        cocoax.VanillaGradients(n_samples=3)  # type: ignore[call-arg]


def test_method__made_of_an_encoder_or_a_model(made: dict[str, Any]) -> None:
    sentence = r"^KernelShap is made of its options alone, .*: cocoax\.KernelShap\(\)\.explain\(encoder, input, target\)\.$"
    for given in (made["encoder"], nn.Flatten()):
        with pytest.raises(TypeError, match=sentence):
            cocoax.KernelShap(given)


def test_explain__without_a_target(made: dict[str, Any]) -> None:
    with pytest.raises(
        TypeError, match=r"^What is explained is missing: .*without labels, .*cocoax\.representation_similarity"
    ):
        cocoax.Rise().explain(made["encoder"], images(1)[0])  # type: ignore[call-overload]


def test_dir__what_is_public_and_nothing_else() -> None:
    shown = [name for name in dir(cocoax) if not name.startswith("__")]
    assert set(cocoax.__all__) - {"__version__"} <= set(shown)
    assert not {"Any", "TYPE_CHECKING", "import_module", "annotations"} & set(shown)

"""What every attribution method promises: shapes, seeds, errors and metadata."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import cocoax
from cocoax.methods.method import _OPTIONS_ELSEWHERE, check_targets
from cocoax.version import versions
from tests.conftest import SmallNet, images

SEEDED: dict[str, Callable[[int], cocoax.Method]] = {
    "Rise": lambda seed: cocoax.Rise(samples=30, grid=3, seed=seed),
    "KernelShap": lambda seed: cocoax.KernelShap(samples=30, grid=3, seed=seed),
    "SmoothGrad": lambda seed: cocoax.SmoothGrad(samples=5, seed=seed),
    "GradientShap": lambda seed: cocoax.GradientShap(samples=5, seed=seed),
    "ExpectedGradients": lambda seed: cocoax.ExpectedGradients(images(6, seed=9), samples=5, seed=seed),
    "RandomAttribution": lambda seed: cocoax.RandomAttribution(seed=seed),
    "Captum GradientShap": lambda seed: cocoax.Captum("GradientShap", stdevs=0.2, seed=seed),
    "Captum KernelShap": lambda seed: cocoax.Captum("KernelShap", n_samples=20, grid=3, seed=seed),
    "Captum ShapleyValueSampling": lambda seed: cocoax.Captum("ShapleyValueSampling", n_samples=2, grid=3, seed=seed),
}
UNSEEDED: dict[str, Callable[[int], cocoax.Method]] = {
    "VanillaGradients": lambda _: cocoax.VanillaGradients(),
    "IntegratedGradients": lambda _: cocoax.IntegratedGradients(steps=4),
    "Occlusion": lambda _: cocoax.Occlusion(),
    "Captum Saliency": lambda _: cocoax.Captum("Saliency"),
}
EVERY = {**SEEDED, **UNSEEDED}

every_method = pytest.mark.parametrize("name", EVERY)
every_seeded_method = pytest.mark.parametrize("name", SEEDED)


@pytest.fixture
def target(encoder: cocoax.Encoder) -> cocoax.Target:
    corpus = encoder.reference(images(4, seed=1), name="corpus")
    foil = encoder.reference(images(5, seed=2), name="foil")
    return cocoax.contrastive_corpus_similarity(corpus, foil)


@pytest.fixture
def targets(target: cocoax.Target) -> list[cocoax.Target]:
    return [target, cocoax.representation_similarity("dot")]


@pytest.fixture
def other_random_states() -> Iterator[None]:
    """The generators of Python and numpy are given back to the other tests as they were."""
    python, numpy = random.getstate(), np.random.get_state()
    yield
    random.setstate(python)
    np.random.set_state(numpy)


def assert_same(one: cocoax.Attribution, other: cocoax.Attribution, *, exactly: bool = False) -> None:
    tolerance = 0.0 if exactly else 1e-6
    torch.testing.assert_close(one.values, other.values, rtol=0, atol=tolerance)
    for name in ("raw", "standard_error", "features"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance)
    assert one.score == pytest.approx(other.score, abs=tolerance)
    assert one.metadata == other.metadata


# --- shapes -----------------------------------------------------------------------------------------------------------


@every_method
def test_explain__picture_and_its_box_are_kept(name: str, net: SmallNet) -> None:
    encoder = cocoax.Encoder(net, cocoax.ImagePreprocess(resize=18, crop=16)).cropped()
    pixels = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    result = EVERY[name](0).explain(encoder, Image.fromarray(pixels), cocoax.representation_similarity())
    assert result.values.shape == (16, 16)
    assert result.picture is not None
    assert np.array_equal(result.picture.numpy(), pixels)
    assert result.box == pytest.approx((4 / 24, 1 / 18, 20 / 24, 17 / 18))


# --- seeds ------------------------------------------------------------------------------------------------------------


@every_method
@pytest.mark.usefixtures("other_random_states")
def test_explain__same_seed_is_bit_identical_whatever_was_drawn_before(
    name: str, encoder: cocoax.Encoder, targets: list[cocoax.Target]
) -> None:
    explicand = images(1)[0]
    before = EVERY[name](7).explain(encoder, explicand, targets)
    with torch.random.fork_rng():
        torch.manual_seed(123)
        torch.rand(5)
        np.random.seed(5)
        np.random.rand(3)
        random.seed(1)
        again = EVERY[name](7).explain(encoder, explicand, targets)
    for one, other in zip(before, again, strict=True):
        assert_same(one, other, exactly=True)


@every_seeded_method
def test_explain__other_seed_differs(name: str, encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    explicand = images(1)[0]
    one, other = (SEEDED[name](seed).explain(encoder, explicand, target) for seed in (0, 1))
    assert not torch.equal(one.values, other.values)


@every_method
def test_explain__random_state_of_numpy_and_python_is_left_alone(
    name: str, encoder: cocoax.Encoder, target: cocoax.Target
) -> None:
    def states() -> tuple[Any, Any]:
        return random.getstate(), [str(part) for part in np.random.get_state()]

    with np.printoptions(threshold=10_000):
        before = states()
        EVERY[name](3).explain(encoder, images(1)[0], target)
        assert states() == before


# --- errors -----------------------------------------------------------------------------------------------------------


@every_method
def test_explain__target_of_another_encoder(name: str, target: cocoax.Target) -> None:
    other = cocoax.Encoder(SmallNet(seed=5).eval())
    with pytest.raises(ValueError, match="'corpus' lives in another representation space than the encoder"):
        EVERY[name](0).explain(other, images(1)[0], target)


@every_method
def test_explain__no_targets(name: str, encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match="There are 0 targets; pass at least one"):
        EVERY[name](0).explain(encoder, images(1)[0], [])


@every_method
@pytest.mark.parametrize("nothing", [[], images(1)[:0]], ids=["list", "tensor"])
def test_explain__no_explicands(name: str, nothing: Any, encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    with pytest.raises(ValueError, match="There are 0 inputs; pass at least one"):
        EVERY[name](0).explain(encoder, nothing, target)


@pytest.mark.parametrize("wrong", ["a cat", ["a cat"], 3, [None]], ids=repr)
def test_explain__not_a_target(wrong: Any, encoder: cocoax.Encoder) -> None:
    with pytest.raises(TypeError, match=r"must be a Target, such as .* Got (str|int|NoneType) instead"):
        cocoax.VanillaGradients().explain(encoder, images(1)[0], wrong)


def test_explain__reference_instead_of_target(encoder: cocoax.Encoder) -> None:
    corpus = encoder.reference(images(2))
    with pytest.raises(TypeError, match=r"must be a Target, such as .* Got Reference instead"):
        cocoax.VanillaGradients().explain(encoder, images(1)[0], corpus)


def test_check_targets__among_good_ones(target: cocoax.Target) -> None:
    assert check_targets(target) == [target]
    assert check_targets((target, target)) == [target, target]
    with pytest.raises(TypeError, match="Got int instead"):
        check_targets([target, 4])  # type: ignore[list-item]


@pytest.mark.parametrize("method", [cocoax.SmoothGrad, cocoax.GradientShap, cocoax.RandomAttribution])
def test_explain__negative_seed(method: Any, encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match=r"seed.*-1"):
        method(seed=-1).explain(encoder, images(1)[0], cocoax.representation_similarity())


# --- metadata ---------------------------------------------------------------------------------------------------------


@every_method
def test_metadata__says_how_it_was_made(name: str, encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    result = EVERY[name](3).explain(encoder, images(1)[0], target)
    metadata = dict(result.metadata)
    assert json.loads(json.dumps(metadata)) == metadata
    assert metadata["method"] == name
    assert metadata["target"] == "corpus rather than foil"
    assert metadata["similarity"] == "Cosine()"
    assert metadata["encoder"] == "SmallNet"
    assert metadata["space"] == encoder.space
    assert metadata["versions"] == versions()
    assert metadata["versions"].items() >= {"cocoax": cocoax.__version__, "torch": torch.__version__}.items()
    if name in SEEDED:
        assert metadata["options"]["seed"] == 3
    assert result.name == "corpus rather than foil"


def test_metadata__options(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    method = cocoax.IntegratedGradients(steps=3, baseline=cocoax.Constant((0.1, 0.2, 0.3)), batch_size=2)
    result = method.explain(encoder, images(1)[0], target)
    assert result.metadata["options"] == {
        "steps": 3,
        "baseline": {"type": "Constant", "value": [0.1, 0.2, 0.3]},
        "batch_size": 2,
    }
    assert result.metadata["samples"] == 3


def test_describe__every_option() -> None:
    assert cocoax.SmoothGrad(samples=4, noise=0.1, seed=2).describe() == {
        "type": "SmoothGrad",
        "baseline": None,
        "batch_size": None,
        "samples": 4,
        "noise": 0.1,
        "seed": 2,
    }


# --- options as plain values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Rise", "IntegratedGradients", "GradientShap", "Captum"])
def test_baseline__of_another_shape(name: str, encoder: cocoax.Encoder) -> None:
    made = {
        "Rise": cocoax.Rise(samples=10, baseline=images(1, 8, 8, channels=1)[0]),
        "IntegratedGradients": cocoax.IntegratedGradients(baseline=images(1, 8, 8, channels=1)[0]),
        "GradientShap": cocoax.GradientShap(baseline=images(1, 8, 8, channels=1)[0]),
        "Captum": cocoax.Captum("DeepLift", baseline=images(1, 8, 8, channels=1)[0]),
    }[name]
    with pytest.raises(ValueError, match=r"baseline has shape \[1, 16, 16\] but the input has \[3, 16, 16\]"):
        made.explain(encoder, images(1)[0], cocoax.representation_similarity())


def test_explain__arguments_in_the_wrong_order(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    for call in (cocoax.Rise().explain, cocoax.Rise().run):
        with pytest.raises(TypeError, match=r"The first argument must be a cocoax.Encoder: .* Got Tensor instead"):
            call(images(1)[0], encoder, target)


def test_baseline__named_by_a_string(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    with pytest.raises(ValueError, match=r"write cocoax\.Blur\(\)"):
        cocoax.Rise(samples=20, grid=4, baseline="blur").explain(encoder, images(1)[0], target)


def test_repr__fits_on_a_line(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    run = cocoax.Rise(samples=20, grid=4).run(encoder, images(1)[0])
    for thing in (run, run.explain(target), target.references[0], target, encoder):
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 200


@pytest.mark.parametrize("name", ["attribute", "shap_values", "explain_instance", "fit"])
def test_explain__by_the_name_that_another_library_has(name: str) -> None:
    with pytest.raises(AttributeError, match=r"here it is explain\(encoder, input, targets\)"):
        getattr(cocoax.Rise(), name)


@pytest.mark.parametrize("argument", ["target", "feature_mask", "baselines", "n_samples", "nonsense"])
def test_explain__argument_of_another_library(argument: str, encoder: cocoax.Encoder) -> None:
    hints = {
        "baselines": "Rise(baseline=...)",
        "n_samples": "Rise(samples=...)",
        "target": "here it is 'targets'",
        "feature_mask": "here it is 'features'",
    }
    hint = hints.get(argument, "")
    with pytest.raises(TypeError, match=rf"has no argument '{argument}'.*{re.escape(hint)}"):
        cocoax.Rise().explain(encoder, images(1)[0], **{argument: 0})  # type: ignore[call-overload]


@pytest.mark.parametrize("name", _OPTIONS_ELSEWHERE)
def test_options__by_the_name_that_another_library_has(name: str) -> None:
    having = [
        kind
        for kind in (cocoax.Rise, cocoax.IntegratedGradients, cocoax.Occlusion, cocoax.SmoothGrad)
        if _OPTIONS_ELSEWHERE[name] in kind.__dataclass_fields__
    ]
    assert having
    for kind in having:
        with pytest.raises(TypeError, match=f"'{_OPTIONS_ELSEWHERE[name]}'"):
            kind(**{name: 3})


@pytest.mark.parametrize("kind", [cocoax.IntegratedGradients, cocoax.KernelShap, cocoax.Rise])
def test_options__take_no_encoder(kind: Any, encoder: cocoax.Encoder) -> None:
    for model in (encoder, encoder.module):
        with pytest.raises(TypeError, match=rf"{kind.__name__} takes options only; the encoder goes to explain\(encoder"):
            kind(model)
    with pytest.raises(TypeError, match=r"'n_segments'; .* is given to explain\(encoder, input, target, features=\.\.\.\)"):
        kind(n_segments=20)


@dataclass(frozen=True)
class Counted(cocoax.Occlusion):
    """A method of a user's own with an option that has such a name."""

    n_samples: int = 3


def test_options__of_ones_own_and_of_captum_keep_their_names() -> None:
    assert Counted(n_samples=5).n_samples == 5
    assert cocoax.Captum("Lime", n_samples=5).options == {"n_samples": 5}
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_samples'"):
        cocoax.VanillaGradients(n_samples=3)  # type: ignore[call-arg]


def test_explain__without_a_target(encoder: cocoax.Encoder) -> None:
    with pytest.raises(TypeError, match="missing"):
        cocoax.Rise().explain(encoder, images(1)[0])  # type: ignore[call-overload]

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import captum.attr
import numpy as np
import pytest
import torch
from captum._utils.models.linear_model import SkLearnLasso
from torch import Tensor, nn

import cocoax
from cocoax.inputs import Explicand, Inputs, Names
from cocoax.methods.captum import seeded
from tests.conftest import SmallNet, images


class ReluNet(nn.Module):
    """What DeepLift, LRP and guided backpropagation ask for: ReLUs that are modules, none used twice."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.conv = nn.Conv2d(3, 6, 3, padding=1, stride=2)
            self.relu = nn.ReLU()
            self.pool = nn.AdaptiveAvgPool2d(2)
            self.fc = nn.Linear(24, 8)

    def forward(self, images: Tensor) -> Tensor:
        representations: Tensor = self.fc(self.pool(self.relu(self.conv(images))).flatten(1))
        return representations


@pytest.fixture
def relu_encoder() -> cocoax.Encoder:
    return cocoax.Encoder(ReluNet().eval())


@pytest.fixture
def target(relu_encoder: cocoax.Encoder) -> cocoax.Target:
    corpus = relu_encoder.reference(images(4, seed=1), name="corpus")
    foil = relu_encoder.reference(images(5, seed=2), name="foil")
    return cocoax.contrastive_corpus_similarity(corpus, foil)


METHODS: dict[str, dict[str, Any]] = {
    "Saliency": {},
    "InputXGradient": {},
    "DeepLift": {},
    "DeepLiftShap": {},
    "GuidedBackprop": {},
    "Deconvolution": {},
    "IntegratedGradients": {"n_steps": 5},
    "GradientShap": {"n_samples": 3, "stdevs": 0.1},
    "FeatureAblation": {},
    "Occlusion": {},
    "ShapleyValueSampling": {"n_samples": 2, "grid": 3},
    "ShapleyValues": {"grid": (1, 3)},
    # Captum's own choice, with a penalty that leaves more than zeros of scores as small as these.
    "Lime": {"n_samples": 20, "grid": 3, "interpretable_model": SkLearnLasso(alpha=1e-5)},
    "KernelShap": {"n_samples": 20, "grid": 3},
    "LRP": {},
    "LayerGradCam": {"layer": "conv"},
    "GuidedGradCam": {"layer": "conv"},
    "NoiseTunnel": {"attribution_method": "Saliency", "nt_samples": 3},
}
every_method = pytest.mark.parametrize("name", METHODS)


# --- every method -----------------------------------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("label_free", [False, True])
def test_captum__runs(name: str, label_free: bool, relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    asked = cocoax.representation_similarity("dot") if label_free else target
    result = cocoax.Captum(name, **METHODS[name]).explain(relu_encoder, images(1)[0], asked)
    assert result.values.shape == (16, 16)
    assert bool(torch.isfinite(result.values).all())
    assert float(result.values.std()) > 0
    assert result.metadata["method"] == f"Captum {name}"
    assert result.raw.shape == ((1, 16, 16) if name == "LayerGradCam" else (3, 16, 16))


@every_method
def test_captum__leaves_the_encoder_as_it_was(name: str, relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    net = relu_encoder.owner
    assert net is not None
    net.train()
    net.fc.weight.requires_grad_(False)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    cocoax.Captum(name, **METHODS[name]).explain(relu_encoder, images(1)[0], target)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert [key for key, value in net.named_parameters() if not value.requires_grad] == ["fc.weight"]
    assert all(value.grad is None for value in net.parameters())
    assert all(part.training for part in net.modules())
    for part in net.modules():
        assert not part._forward_hooks
        assert not part._forward_pre_hooks
        assert not part._backward_hooks


@every_method
def test_captum__same_seed_same_result(name: str, relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    method = cocoax.Captum(name, seed=4, **METHODS[name])
    one, same = (method.explain(relu_encoder, images(1)[0], target) for _ in range(2))
    assert torch.equal(one.values, same.values)


@pytest.mark.parametrize("name", ["GradientShap", "KernelShap", "ShapleyValueSampling", "NoiseTunnel"])
def test_captum__other_seed_other_result(name: str, relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    one, other = (
        cocoax.Captum(name, seed=seed, **METHODS[name]).explain(relu_encoder, images(1)[0], target) for seed in (0, 1)
    )
    assert not torch.equal(one.values, other.values)


def test_captum__many_targets_share_the_same_random_numbers(relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    method = cocoax.Captum("GradientShap", stdevs=0.1)
    first, second = method.explain(relu_encoder, images(1)[0], [target, -target])
    torch.testing.assert_close(first.raw, -second.raw, rtol=1e-5, atol=1e-6)


# --- against Captum itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label_free", [False, True])
@pytest.mark.parametrize("name", ["DeepLift", "FeatureAblation", "InputXGradient", "Saliency", "IntegratedGradients"])
def test_captum__same_as_calling_captum(
    name: str, label_free: bool, relu_encoder: cocoax.Encoder, target: cocoax.Target
) -> None:
    explicand = images(1)[0]
    asked = cocoax.representation_similarity("dot") if label_free else target
    module = asked.as_module(relu_encoder, explicand if label_free else None)
    baseline = cocoax.Blur(121, 20.0)(explicand)[None]
    rows = torch.arange(16) * 4 // 16
    patches = (rows[:, None] * 4 + rows)[None, None]
    options: dict[str, Any] = {
        "DeepLift": {"baselines": baseline},
        "FeatureAblation": {"baselines": baseline, "feature_mask": patches},
        "InputXGradient": {},
        "Saliency": {"abs": False},
        "IntegratedGradients": {"baselines": baseline},
    }[name]
    # DeepLift warns about the hooks that it sets.
    with pytest.warns(UserWarning, match="hooks") if name == "DeepLift" else torch.enable_grad():
        made = getattr(captum.attr, name)(module)
        expected = made.attribute(explicand[None].clone().requires_grad_(), **options)[0].detach().float()
    result = cocoax.Captum(name, grid=4).explain(relu_encoder, explicand, asked)
    torch.testing.assert_close(result.raw, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(result.values, expected.mean(0), rtol=1e-5, atol=1e-6)


def test_captum__integrated_gradients_same_as_ours(encoder: cocoax.Encoder) -> None:
    target = cocoax.representation_similarity()
    theirs = cocoax.Captum("IntegratedGradients", n_steps=20).explain(encoder, images(1)[0], target)
    ours = cocoax.IntegratedGradients(steps=20).explain(encoder, images(1)[0], target)
    torch.testing.assert_close(theirs.raw, ours.raw, rtol=0, atol=1e-5)


def test_captum__feature_ablation_is_the_score_that_a_patch_costs(
    relu_encoder: cocoax.Encoder, target: cocoax.Target
) -> None:
    explicand = images(1)[0]
    baseline = cocoax.Mean()(explicand)
    result = cocoax.Captum("FeatureAblation", baseline=cocoax.Mean(), grid=2).explain(relu_encoder, explicand, target)
    score = float(target.score(relu_encoder.represent(explicand)))
    for rows in (slice(0, 8), slice(8, 16)):
        for columns in (slice(0, 8), slice(8, 16)):
            removed = explicand.clone()
            removed[:, rows, columns] = baseline[:, rows, columns]
            cost = score - float(target.score(relu_encoder.represent(removed)))
            torch.testing.assert_close(result.values[rows, columns], torch.full((8, 8), cost), rtol=1e-4, atol=1e-6)


def test_captum__shapley_values_are_complete(relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    result = cocoax.Captum("ShapleyValues", grid=2).explain(relu_encoder, images(1)[0], target)
    patches = [float(result.values[row, column]) for row in (0, 8) for column in (0, 8)]
    assert sum(patches) == pytest.approx(result.score - result.baseline_score, abs=1e-5)


class Series(Inputs):
    """Tensors ``[2, 6]``, whose features are places, pairs of places, or pairs of places of each channel apart."""

    def __init__(self, members: Tensor | None) -> None:
        self.feature_ids = members

    def is_one(self, inputs: object) -> bool:
        return isinstance(inputs, Explicand) or getattr(inputs, "ndim", 0) == 2

    def prepare(self, item: Any) -> Tensor:
        return item.tensor if isinstance(item, Explicand) else item

    def explicand(self, item: Any) -> Explicand:
        features = 6 if self.feature_ids is None else int(self.feature_ids.max()) + 1
        return item if isinstance(item, Explicand) else Explicand(item, Names(tuple("abcdef"[:features])), self.feature_ids)


PAIRS = torch.arange(6) // 2


@pytest.mark.parametrize(
    "members", [None, PAIRS, torch.stack([PAIRS, PAIRS + 3]), torch.tensor([-1, 0, 0, 1, 1, -1])], ids=str
)
def test_captum__feature_ablation_of_any_features_is_occlusion(members: Tensor | None) -> None:
    x = torch.randn(2, 6, generator=torch.Generator().manual_seed(0))
    weight = torch.randn(12, 5, generator=torch.Generator().manual_seed(1))
    encoder = cocoax.Encoder(lambda batch: torch.tanh(batch.flatten(1) @ weight + 1), inputs=Series(members), name="series")
    target = cocoax.representation_similarity()
    result = cocoax.Captum("FeatureAblation").explain(encoder, x, target)
    expected = cocoax.Occlusion().explain(encoder, x, target)
    torch.testing.assert_close(result.values, expected.values, rtol=0, atol=1e-5)
    assert float(result.values.abs().max()) > 0.01


def test_captum__layer_grad_cam_is_enlarged(relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    explicand = images(1)[0]
    net = relu_encoder.owner
    assert isinstance(net, ReluNet)
    made = captum.attr.LayerGradCam(target.as_module(relu_encoder), net.conv)
    small = made.attribute(explicand[None].clone().requires_grad_()).detach()
    assert small.shape == (1, 1, 8, 8)
    expected = nn.functional.interpolate(small, size=(16, 16), mode="bilinear", align_corners=False)[0, 0]
    result = cocoax.Captum("LayerGradCam", layer="conv").explain(relu_encoder, explicand, target)
    torch.testing.assert_close(result.values, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("grid", [7, 4, (2, 4)])
def test_captum__occlusion_window_is_a_cell_of_the_grid(
    grid: int | tuple[int, int], relu_encoder: cocoax.Encoder, target: cocoax.Target
) -> None:
    explicand = images(1)[0]
    rows, columns = (grid, grid) if isinstance(grid, int) else grid
    window = (3, -(-16 // rows), -(-16 // columns))
    strides = (3, -(-16 // (2 * rows)), -(-16 // (2 * columns)))
    expected = captum.attr.Occlusion(target.as_module(relu_encoder)).attribute(
        explicand[None], sliding_window_shapes=window, strides=strides, baselines=cocoax.Blur(121, 20.0)(explicand)[None]
    )[0]
    result = cocoax.Captum("Occlusion", grid=grid).explain(relu_encoder, explicand, target)
    torch.testing.assert_close(result.raw, expected.detach().float(), rtol=1e-5, atol=1e-6)


# --- options ----------------------------------------------------------------------------------------------------------


def test_captum__class_instead_of_name(relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    by_class = cocoax.Captum(captum.attr.Deconvolution).explain(relu_encoder, images(1)[0], target)
    by_name = cocoax.Captum("Deconvolution").explain(relu_encoder, images(1)[0], target)
    assert torch.equal(by_class.raw, by_name.raw)
    assert by_class.metadata == by_name.metadata


def test_captum__baselines_given_win(relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    explicand = images(1)[0]
    given = cocoax.Captum("IntegratedGradients", baselines=0.5).explain(relu_encoder, explicand, target)
    same = cocoax.Captum("IntegratedGradients", baseline=cocoax.Constant(0.5)).explain(relu_encoder, explicand, target)
    torch.testing.assert_close(given.raw, same.raw, rtol=1e-5, atol=1e-6)


def test_captum__abs_given_wins(relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    signed = cocoax.Captum("Saliency").explain(relu_encoder, images(1)[0], target)
    unsigned = cocoax.Captum("Saliency", abs=True).explain(relu_encoder, images(1)[0], target)
    assert float(signed.raw.min()) < 0
    assert torch.equal(unsigned.raw, signed.raw.abs())


def test_captum__convergence_delta_is_left_out(relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    plain = cocoax.Captum("DeepLift").explain(relu_encoder, images(1)[0], target)
    with_delta = cocoax.Captum("DeepLift", return_convergence_delta=True).explain(relu_encoder, images(1)[0], target)
    assert torch.equal(plain.raw, with_delta.raw)


def test_captum__option_that_is_called_method(relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    result = cocoax.Captum("IntegratedGradients", method="riemann_left", n_steps=5).explain(
        relu_encoder, images(1)[0], target
    )
    expected = captum.attr.IntegratedGradients(target.as_module(relu_encoder)).attribute(
        images(1), baselines=cocoax.Blur(121, 20.0)(images(1)[0])[None], method="riemann_left", n_steps=5
    )[0]
    torch.testing.assert_close(result.raw, expected.float(), rtol=1e-5, atol=1e-6)


def test_captum__options_of_the_method_inside_a_noise_tunnel(relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    method = cocoax.Captum("NoiseTunnel", attribution_method="IntegratedGradients", nt_samples=2, n_steps=3)
    assert float(method.explain(relu_encoder, images(1)[0], target).values.std()) > 0


def test_captum__image_smaller_than_the_grid(relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    result = cocoax.Captum("Saliency").explain(relu_encoder, images(1, 6, 6)[0], target)
    assert result.values.shape == (6, 6)


def test_captum__grid_finer_than_the_image(relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    with pytest.raises((ValueError, RuntimeError), match="grid of 7 x 7 is finer than the image of 6 x 6 pixels"):
        cocoax.Captum("FeatureAblation").explain(relu_encoder, images(1, 6, 6)[0], target)


def test_captum__description() -> None:
    method = cocoax.Captum("Lime", n_samples=7, grid=(2, 3), seed=5)
    assert repr(method) == "Captum('Lime', n_samples=7)"
    assert method.describe() == {
        "type": "Captum Lime",
        "baseline": None,
        "grid": [2, 3],
        "seed": 5,
        "n_samples": 7,
    }


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["DeepLiftt", "infidelity", "visualization", ""])
def test_captum__unknown_method(name: str) -> None:
    with pytest.raises(ValueError, match=f"Captum has no attribution '{name}';.* it has .*DeepLift, .*Saliency"):
        cocoax.Captum(name)


@pytest.mark.parametrize("wrong", [dict, nn.Linear])
def test_captum__class_that_is_no_attribution(wrong: type) -> None:
    with pytest.raises((TypeError, ValueError), match="Captum has no attribution"):
        cocoax.Captum(wrong)


def test_captum__unknown_option() -> None:
    with pytest.raises(ValueError, match=r"Captum's DeepLift has no option 'n_step'; it takes .*baselines, .*eps"):
        cocoax.Captum("DeepLift", n_step=4)


def test_captum__unknown_layer(relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    with pytest.raises(ValueError, match="'ReluNet' has no layer 'convv'; close ones are conv"):
        cocoax.Captum("LayerGradCam", layer="convv").explain(relu_encoder, images(1)[0], target)


@pytest.mark.parametrize("name", ["LayerGradCam", "GuidedGradCam"])
def test_captum__layer_missing(name: str) -> None:
    with pytest.raises(ValueError, match=rf"Captum's {name} explains a layer; pass layer="):
        cocoax.Captum(name)
    with pytest.raises(ValueError, match=r"has no option 'target_layers'; it takes layer\."):
        cocoax.Captum(name, target_layers=["conv"])


def test_captum__close_names_come_first() -> None:
    with pytest.raises(
        ValueError, match=r"no attribution 'GradCAM'; close ones are GuidedGradCam, LayerGradCam[^;]*; it has "
    ):
        cocoax.Captum("GradCAM")


def test_captum__layer_without_positions(relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    with pytest.raises(ValueError, match=r"A map of shape \[\d+\] cannot be laid over an image; use a convolutional layer"):
        cocoax.Captum("LayerActivation", layer="fc").explain(relu_encoder, images(1)[0], target)


def test_captum__noise_tunnel_without_a_method(relu_encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    with pytest.raises((ValueError, RuntimeError), match=r"NoiseTunnel.*attribution_method"):
        cocoax.Captum("NoiseTunnel").explain(relu_encoder, images(1)[0], target)


class ReusesItsRelu(SmallNet):
    """DeepLift cannot explain a network that calls one activation module twice."""

    def __init__(self) -> None:
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, images: Tensor) -> Tensor:
        return self.act(self.fc(self.pool(self.act(self.conv(images))).flatten(1)))


def test_captum__failure_inside_captum_is_told_with_both_names() -> None:
    encoder = cocoax.Encoder(ReusesItsRelu().eval())
    with pytest.raises(RuntimeError, match="Captum's DeepLift cannot explain 'ReusesItsRelu': "):
        cocoax.Captum("DeepLift").explain(encoder, images(1)[0], cocoax.representation_similarity("dot"))


# --- seeds ------------------------------------------------------------------------------------------------------------


def draw() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def states() -> tuple[Any, str, list[int]]:
    with np.printoptions(threshold=10_000):
        return random.getstate(), str(np.random.get_state()), torch.random.get_rng_state().tolist()


def test_seeded__same_numbers_and_nothing_left_behind() -> None:
    before = states()
    drawn = []
    for _ in range(2):
        with seeded(3):
            drawn.append(draw())
    with seeded(4):
        drawn.append(draw())
    assert states() == before
    assert drawn[0] == drawn[1]
    assert all(one != other for one, other in zip(drawn[0], drawn[2], strict=True))


def test_seeded__nothing_left_behind_after_an_exception() -> None:
    def draw_and_fail() -> None:
        with seeded(3):
            draw()
            raise KeyError

    before = states()
    with pytest.raises(KeyError):
        draw_and_fail()
    assert states() == before


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeded__seed_that_numpy_refuses(seed: int) -> None:
    before = states()
    with suppress(ValueError), seeded(seed):
        pass
    try:
        assert states() == before
    finally:
        random.setstate(before[0])

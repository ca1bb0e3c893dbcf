"""Targets as modules in other libraries: Captum, SHAP, shapiq, Quantus, pytorch-grad-cam, each with the real package.

What they give is compared with what it should be; and nothing of them stays in the user's module.
"""

from __future__ import annotations

import copy
import importlib.util
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cocoax
from cocoax.encoders.families.torchvision import import_library
from tests.conftest import images
from tests.tiny import TEXTS, bert_tokenizer, save_bert

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "interop.md"
BACKGROUND, INPUTS = images(6, seed=5), images(2, seed=3)


class Rectified(nn.Module):
    """A network whose parts SHAP's DeepExplainer knows the rules of."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.conv = nn.Conv2d(3, 6, 3, padding=1)
            self.relu = nn.ReLU()
            self.pool = nn.AvgPool2d(8)
            self.fc = nn.Linear(24, 8)

    def forward(self, pictures: Tensor) -> Tensor:
        representations: Tensor = self.fc(self.pool(self.relu(self.conv(pictures))).flatten(1))
        return representations


@pytest.fixture(autouse=True)
def undisturbed() -> Iterator[None]:
    """Let libraries warn and draw random numbers, as they do in the hands of their users."""
    state = np.random.get_state()
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    np.random.set_state(state)


def left_in(module: nn.Module) -> dict[str, Any]:
    """Return all that a library could leave in a module, and in its parts."""
    return {
        name: {
            "hooks": {kind: len(getattr(part, kind)) for kind in vars(part) if kind.endswith("_hooks")},
            "buffers": sorted(part._buffers),
            "attributes": sorted(vars(part)),
            "weights": {key: value.tolist() for key, value in part.named_parameters(recurse=False)},
            "gradients": [parameter.grad is None for parameter in part.parameters(recurse=False)],
            "training": part.training,
        }
        for name, part in module.named_modules()
    }


@pytest.fixture
def network() -> Iterator[Rectified]:
    """A user's module, in which nothing is left behind."""
    made = Rectified().eval()
    before = left_in(made)
    yield made
    assert left_in(made) == before


@pytest.fixture
def encoder(network: Rectified) -> cocoax.Encoder:
    return cocoax.Encoder(network, name="rectified")


@pytest.fixture
def target(encoder: cocoax.Encoder) -> cocoax.Target:
    """A target that is linear in representations, so that values sum to a difference of scores."""
    corpus, foil = encoder.reference(images(5, seed=1)), encoder.reference(images(6, seed=2))
    return cocoax.contrastive_corpus_similarity(corpus, foil, similarity="dot")


def scores(target: cocoax.Target, encoder: cocoax.Encoder, inputs: Tensor) -> np.ndarray:
    return target.score(encoder.represent(inputs)).numpy()


# --- Captum (more in tests/test_target_module.py) ---------------------------------------------------------------------


@pytest.mark.parametrize("column", [False, True])
def test_captum__integrated_gradients_and_deep_lift(target: Any, encoder: cocoax.Encoder, column: bool) -> None:
    from captum.attr import DeepLift, IntegratedGradients

    module = target.as_module(encoder, column=column)
    expected = scores(target, encoder, INPUTS) - scores(target, encoder, torch.zeros_like(INPUTS))
    which = {"target": 0} if column else {}
    paths = IntegratedGradients(module).attribute(INPUTS, n_steps=200, **which)
    np.testing.assert_allclose(paths.sum((1, 2, 3)).numpy(), expected, rtol=1e-2)
    deep = DeepLift(module).attribute(INPUTS, **which)
    np.testing.assert_allclose(deep.sum((1, 2, 3)).detach().numpy(), expected, rtol=1e-4)


# --- SHAP -------------------------------------------------------------------------------------------------------------


def test_shap__deep_explainer_adds_up_and_leaves_nothing(target: Any, encoder: cocoax.Encoder) -> None:
    shap = pytest.importorskip("shap")
    module = target.as_module(encoder, column=True)
    values = shap.DeepExplainer(module, BACKGROUND).shap_values(INPUTS, check_additivity=True)
    assert values.shape == (2, 3, 16, 16, 1)
    expected = scores(target, encoder, INPUTS) - scores(target, encoder, BACKGROUND).mean()
    np.testing.assert_allclose(values.sum((1, 2, 3, 4)), expected, rtol=1e-4)


def test_shap__gradient_explainer_is_expected_gradients(target: Any, encoder: cocoax.Encoder) -> None:
    shap = pytest.importorskip("shap")
    module = target.as_module(encoder, column=True)
    values = shap.GradientExplainer(module, BACKGROUND).shap_values(INPUTS, nsamples=2000, rseed=0)
    assert values.shape == (2, 3, 16, 16, 1)
    method = cocoax.ExpectedGradients(BACKGROUND, samples=2000)
    for index, picture in enumerate(INPUTS):
        raw = method.explain(encoder, picture, target).raw
        assert raw is not None
        alike = np.corrcoef(values[index, ..., 0].ravel(), raw.numpy().ravel())[0, 1]
        assert alike > 0.98  # both are means of 2000 draws


def test_shap__partition_of_a_text_adds_up(tmp_path: Path) -> None:
    shap = pytest.importorskip("shap")
    encoder = cocoax.load(f"hf:{save_bert(tmp_path)}")
    target = cocoax.similarity_to(encoder.reference(["the cat"]))
    explainer = shap.PartitionExplainer(target.as_module(encoder), shap.maskers.Text(bert_tokenizer()))
    explanation = explainer(TEXTS[1:2], silent=True)
    assert list(explanation.data[0][1:-1]) == ["a ", "big ", "red ", "dog"]
    total = float(explanation.base_values[0] + explanation.values[0].sum())
    assert total == pytest.approx(float(target.score(encoder.represent(TEXTS[1:2]))), abs=1e-4)


@pytest.mark.interop  # SHAP compiles for twenty seconds
def test_shap__partition_of_a_picture_adds_up(target: Any, encoder: cocoax.Encoder) -> None:
    shap = pytest.importorskip("shap")
    module = target.as_module(encoder, column=True)

    def score(pictures: np.ndarray) -> np.ndarray:  # SHAP has channels last
        return module(torch.tensor(pictures, dtype=torch.float32).permute(0, 3, 1, 2)).detach().numpy()

    masker = shap.maskers.Image(np.zeros((16, 16, 3)), (16, 16, 3))
    picture = INPUTS[:1].permute(0, 2, 3, 1).numpy()
    explanation = shap.PartitionExplainer(score, masker)(picture, max_evals=200, silent=True)
    assert explanation.values.shape == (1, 16, 16, 3, 1)
    total = explanation.base_values.sum() + explanation.values.sum()
    assert total == pytest.approx(scores(target, encoder, INPUTS[:1])[0], rel=1e-3)


# --- shapiq -----------------------------------------------------------------------------------------------------------


def test_shapiq__exact_shapley_values_of_columns_are_kernel_shap() -> None:
    shapiq = pytest.importorskip("shapiq")
    rows = np.random.default_rng(2).normal(size=(20, 4)).astype(np.float32)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).eval()
    columns = ["age", "height", "weight", "pulse"]
    encoder = cocoax.TabularEncoder(network, columns=columns, background=rows, name="table")
    target = cocoax.similarity_to(encoder.reference(rows[:5]))
    module = target.as_module(encoder)

    def game(coalitions: np.ndarray) -> np.ndarray:
        held = np.where(coalitions, rows[7], rows.mean(0))
        return module(torch.tensor(held)).detach().numpy()

    exact = shapiq.ExactComputer(game, n_players=4)("SV", order=1)
    own = cocoax.KernelShap(samples=16).explain(encoder, rows[7], target)
    np.testing.assert_allclose([exact[(index,)] for index in range(4)], own.values.numpy(), atol=1e-5)


# --- Quantus ----------------------------------------------------------------------------------------------------------


@pytest.mark.interop
def test_quantus__pixel_flipping_by_hand(target: Any, encoder: cocoax.Encoder) -> None:
    quantus = pytest.importorskip("quantus")
    module = target.as_module(encoder, column=True)
    maps = images(2, seed=8).numpy()
    metric = quantus.PixelFlipping(features_in_step=64, perturb_baseline="black", disable_warnings=True)
    nothing = np.zeros(2, dtype=int)
    options = {"x_batch": INPUTS.numpy(), "y_batch": nothing, "a_batch": maps, "device": "cpu"}
    curves = metric(model=module, softmax=False, **options)
    for picture, order, curve in zip(INPUTS, maps, curves, strict=True):
        flipped, darkest = picture.flatten().clone(), float(picture.min())
        ranked = np.argsort(-order.ravel())
        expected = []
        for start in range(0, 768, 64):
            flipped[ranked[start : start + 64]] = darkest
            expected.append(scores(target, encoder, flipped.view(1, 3, 16, 16))[0])
        np.testing.assert_allclose(curve, expected, rtol=1e-3, atol=1e-4)
    assert np.all(np.array(metric(model=module, **options)) == 1)  # what the page warns of: a softmax over one column


@pytest.mark.interop
def test_quantus__randomised_parameters_are_its_own(target: Any, encoder: cocoax.Encoder) -> None:
    quantus = pytest.importorskip("quantus")
    module = target.as_module(encoder, column=True)
    metric = quantus.MPRT(disable_warnings=True)
    options = {"explain_func": quantus.explain, "explain_func_kwargs": {"method": "Saliency"}}
    found = metric(model=module, x_batch=INPUTS.numpy(), y_batch=np.zeros(2, dtype=int), device="cpu", **options)
    layers = [name for name in found if name != "orig"] if isinstance(found, dict) else found
    assert len(layers) >= 1


# --- pytorch-grad-cam -------------------------------------------------------------------------------------------------


@pytest.mark.interop
def test_grad_cam__by_hand(target: Any, encoder: cocoax.Encoder, network: Rectified) -> None:
    pytest.importorskip("cv2")
    library = import_library("pytorch_grad_cam")
    module = target.as_module(encoder, column=True)
    with library.GradCAM(model=module, target_layers=[module.module.conv]) as cam:
        heat = cam(input_tensor=INPUTS, targets=None)
    hidden = network.conv(INPUTS).detach().requires_grad_()
    score = target.score(network.fc(network.pool(network.relu(hidden)).flatten(1))).sum()
    (gradient,) = torch.autograd.grad(score, hidden)
    raised = (gradient.mean((2, 3), keepdim=True) * hidden).sum(1).clamp(min=0).detach().numpy()
    lowest, highest = raised.min((1, 2), keepdims=True), raised.max((1, 2), keepdims=True)
    np.testing.assert_allclose(heat, (raised - lowest) / (highest - lowest), atol=1e-4)


# --- a copy that libraries can take apart ------------------------------------------------------------------------------


def test_module__can_be_copied(target: Any, encoder: cocoax.Encoder, network: Rectified) -> None:
    module = target.as_module(encoder, column=True)
    other = copy.deepcopy(module)
    with torch.no_grad():
        other.module.fc.weight.zero_()
    assert float(network.fc.weight.abs().sum()) > 0
    assert not torch.equal(other(INPUTS), module(INPUTS))


# --- the page -----------------------------------------------------------------------------------------------------------


def blocks() -> dict[str, str]:
    """Return the code of each section of the page, by its heading."""
    sections = re.split(r"^#+ (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {}
    for heading, text in zip(sections[::2], sections[1::2], strict=True):
        found[heading] = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    return found


FASTER = {  # what stands on the page, and what is run instead
    "n_steps=50": "n_steps=2",
    "nsamples=200": "nsamples=2",
    "max_evals=500": "max_evals=30",
    "samples=1000": "samples=20",
    "nr_runs=100": "nr_runs=3",
}


@pytest.fixture(scope="module")
def begun() -> dict[str, Any]:
    """What the first block of the page makes."""
    names: dict[str, Any] = {}
    exec(compile(blocks()["In other libraries"], "interop.md", "exec"), names)
    return names


@pytest.mark.parametrize(
    ("heading", "package", "shapes"),
    [
        ("Captum", "captum", {"paths": (2, 3, 224, 224), "coarse": (2, 1, 7, 7)}),
        ("SHAP", "shap", {"gradients": (2, 3, 224, 224, 1), "deep": (2, 3, 224, 224, 1), "words": (1, 6)}),
        ("shapiq", "shapiq", {}),
        pytest.param("Quantus", "quantus", {}, marks=pytest.mark.interop),
        pytest.param("pytorch-grad-cam", "pytorch_grad_cam", {"heat": (2, 224, 224)}, marks=pytest.mark.interop),
    ],
)
def test_page__code_runs(heading: str, package: str, shapes: dict[str, Any], begun: dict[str, Any]) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    if package == "pytorch_grad_cam":
        import_library(package)
    names, code = dict(begun), blocks()[heading]
    for there, here in FASTER.items():
        code = code.replace(there, here)
    if heading == "shapiq":
        names["reader"] = names["target"].as_module(names["encoder"].text)
    exec(compile(code, f"interop.md: {heading}", "exec"), names)
    for name, shape in shapes.items():
        assert tuple(names[name].shape) == shape
        numbers = names[name].values if name == "words" else names[name]
        assert float(torch.as_tensor(numbers).abs().sum()) > 0
    if heading == "shapiq":
        single = {names["spoken"][index]: names["pairs"][(index,)] for index in range(5)}
        assert max(single, key=single.get) == "cat"
        assert min(single, key=single.get) == "coffee"
    if heading == "Quantus":
        assert np.isfinite(names["faithful"]).all()


def test_page__has_a_recipe_for_each_package_in_its_table() -> None:
    table = re.findall(r"^\| ([\w-]+) \| [\d.]+ \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert table == [heading for heading in blocks() if heading != "In other libraries"]

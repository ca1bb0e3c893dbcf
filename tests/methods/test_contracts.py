"""What holds for every method on every kind of input."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.encoders.embedding import differentiable
from cocoax.inputs import Explicand
from cocoax.masking import MaskedEncoder
from cocoax.methods import GradientMethod
from tests.methods.runs import assert_identical
from tests.methods.settings import GRADIENTS, KINDS, METHODS, REMOVAL, Setting, name_of
from tests.methods.settings import setting as setting_of

every_kind = pytest.mark.parametrize("kind", KINDS)
every_method = pytest.mark.parametrize("method", METHODS, ids=name_of)
every_removal = pytest.mark.parametrize("method", REMOVAL, ids=name_of)
every_gradient = pytest.mark.parametrize("method", GRADIENTS, ids=name_of)


@pytest.fixture(scope="module")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tiny")


@pytest.fixture
def setting(kind: str, text_model: Path) -> Setting:
    return setting_of(kind, text_model)


def parts_of(result: cocoax.Attribution) -> list[Tensor]:
    parts = [getattr(result, name) for name in ("values", "standard_error", "raw", "features")]
    return [
        torch.tensor([result.score, result.baseline_score, result.neutral]),
        *[part for part in parts if part is not None],
    ]


# --- values -----------------------------------------------------------------------------------------------------------


def per_feature(explicand: Explicand, raw: Tensor) -> Tensor:
    """The mean over the channels of each place, or the sum over the elements of each feature, element by element."""
    if explicand.feature_ids is None:
        return raw.sum(0) / len(raw)
    values = torch.zeros(explicand.shape, dtype=raw.dtype)
    for place in torch.cartesian_prod(*map(torch.arange, explicand.feature_ids.shape)).view(-1, explicand.feature_ids.ndim):
        feature = int(explicand.feature_ids[tuple(place)])
        if feature >= 0:
            values[feature] += raw[(..., *place)].sum()
    return values


def assert_near(one: Tensor | None, other: Tensor | None) -> None:
    """The same but for what rounding does to sums of their size."""
    assert one is not None
    assert other is not None
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * max(1.0, float(other.abs().max())), check_dtype=False)


def close_to(result: cocoax.Attribution, other: cocoax.Attribution) -> None:
    for one, two in zip(parts_of(result), parts_of(other), strict=True):
        assert_near(one, two)
    assert result.metadata == other.metadata
    assert result.names == other.names


@every_kind
@every_method
def test_explain__one_value_for_each_feature(method: Any, setting: Setting) -> None:
    encoder, targets = setting.encoder, setting.targets
    explicand = encoder.explicand(setting.input)
    results = method.explain(encoder, setting.input, targets)
    assert [result.name for result in results] == [target.name for target in targets]
    own = encoder.encode([explicand.tensor])
    for result, target in zip(results, targets, strict=True):
        assert result.values.shape == setting.shape
        assert bool(torch.isfinite(result.values).all())
        assert float(result.values.std()) > 0
        assert result.standard_error is None or result.standard_error.shape == setting.shape
        assert (result.names, result.text, result.offsets) == (explicand.names, explicand.text, explicand.offsets)
        assert result.metadata["method"] == method.describe()["type"]
        assert result.score == pytest.approx(float(target.score(own, own[0])), rel=1e-5)
        empty = MaskedEncoder(encoder, explicand).score([target])
        if not (isinstance(method, GradientMethod) and not encoder.inputs.continuous):
            assert result.baseline_score == pytest.approx(float(empty[1, 0]), rel=1e-5, abs=1e-5)
        if result.raw is not None and encoder.inputs.continuous:
            assert result.raw.shape == explicand.tensor.shape
            assert_near(result.values, per_feature(explicand, result.raw))


@every_kind
@every_method
def test_explain__many_inputs_and_targets_are_what_each_alone_gives(method: Any, setting: Setting) -> None:
    encoder, targets, inputs = setting.encoder, setting.targets, setting.inputs[:2]
    alone = [[method.explain(encoder, one, target) for target in targets] for one in inputs]
    forms = method.explain(encoder, inputs, {"first": targets[0], "second": targets[1]})
    for one, answers, form in zip(alone, method.explain(encoder, inputs, targets), forms, strict=True):
        for expected, result, named in zip(one, answers, form.values(), strict=True):
            close_to(result, expected)
            assert torch.equal(named.values, result.values)
        assert [each.name for each in form.values()] == list(form) == ["first", "second"]
    assert [len(method.explain(encoder, inputs[:1], targets[:1])), len(method.explain(encoder, inputs[0], targets[:1]))] == [
        1,
        1,
    ]
    for expected, result in zip(alone, method.explain(encoder, inputs, targets[0]), strict=True):
        close_to(result, expected[0])


@pytest.mark.parametrize("kind", KINDS)
@every_gradient
def test_gradients__same_as_one_point_at_a_time(method: Any, setting: Setting) -> None:
    """Σ w ∇γ(x) ⊙ d and its standard error, with one autograd call for each point."""
    encoder, targets = setting.encoder, setting.targets
    results = method.explain(encoder, setting.input, targets)
    view, explicand = differentiable(encoder, encoder.explicand(setting.input))
    ready = method.prepared(view)
    baseline, weights = ready.baseline.baseline_input(explicand), ready.weights().double()
    own = view.encode([explicand.tensor])[0]
    for target, result in zip(targets, results, strict=True):
        parts = []
        for index in range(len(weights)):
            points = ready.points(explicand, baseline, slice(index, index + 1))
            at = points.at.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(target.score(view(view.collate(at)), own).sum(), at)
            parts.append((gradient * points.factor)[0].double())
        raw = torch.stack([weight * part for weight, part in zip(weights, parts, strict=True)]).sum(0)
        assert_near(result.raw, raw)
        assert_near(result.values, per_feature(explicand, raw))
        if method.sampled:
            each = torch.stack([per_feature(explicand, part) for part in parts])
            error = (each.std(0) / len(each) ** 0.5).float()
            torch.testing.assert_close(result.standard_error, error, rtol=1e-2, atol=1e-5)
        else:
            assert result.standard_error is None


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "pixels"])
def test_occlusion__is_the_drop_without_a_feature_and_so_is_captums_ablation(setting: Setting) -> None:
    encoder, explicand = setting.encoder, setting.encoder.explicand(setting.input)
    masked = MaskedEncoder(encoder, explicand)
    without = masked.removal.masked(explicand, masked.baseline_input, 1 - torch.eye(explicand.shape[0]))
    own = encoder.encode([explicand.tensor])
    representations = torch.cat([encoder.encode([one]) for one in without])
    for target in setting.targets:
        expected = target.score(own, own[0]) - target.score(representations, own[0])
        assert_near(cocoax.Occlusion().explain(encoder, explicand, target).values, expected)
        ablated = cocoax.Captum("FeatureAblation").explain(encoder, explicand, target)
        assert_near(ablated.values, expected)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "pixels"])
@pytest.mark.parametrize("method", [cocoax.KernelShap(samples=100), cocoax.IntegratedGradients(steps=200)], ids=name_of)
def test_explain__complete(method: Any, setting: Setting) -> None:
    """The values sum to the score of the input less that of the baseline."""
    for result in method.explain(setting.encoder, setting.input, setting.targets):
        size = max(1.0, abs(result.score))
        values = result.values if result.raw is None else result.raw  # a place has the mean over its channels
        assert float(values.sum()) == pytest.approx(result.score - result.baseline_score, abs=2e-4 * size)


# --- runs -------------------------------------------------------------------------------------------------------------


@every_kind
@every_removal
def test_run__saves_loads_and_extends(method: Any, setting: Setting, tmp_path: Path) -> None:
    encoder, targets = setting.encoder, setting.targets
    if isinstance(method, cocoax.Rise):
        method = replace(method, keep=0.4)  # with one half all subsets of few columns are there already
    run = method.run(encoder, setting.input)
    loaded = cocoax.Run.load(run.save(tmp_path / "run.safetensors"))
    for one, other in zip(run.explain(targets), loaded.explain(targets), strict=True):
        assert_identical(one, other)
        assert one.metadata == other.metadata
        assert (one.names, one.text, one.offsets) == (other.names, other.text, other.offsets)
        assert one.html() == other.html()
        again = cocoax.Attribution.load(one.save(tmp_path / "map.safetensors"))
        assert_identical(one, again)
        assert (one.metadata, one.html()) == (again.metadata, again.html())
    if isinstance(method, cocoax.Rise):
        longer = replace(method, samples=60).run(encoder, setting.input)
        assert torch.equal(loaded.extend(encoder, 20).masks.full(slice(None)), longer.masks.full(slice(None)))
        assert_near(loaded.representations, longer.representations)


@every_kind
def test_curves__end_with_the_input_and_its_baseline(setting: Setting) -> None:
    encoder, (target, _) = setting.encoder, setting.targets
    attribution = cocoax.Occlusion().explain(encoder, setting.input, target)
    curve = cocoax.insertion(encoder, setting.input, attribution, target)
    if len(setting.shape) == 1:
        assert len(curve.x) == setting.shape[0] + 1
    assert [float(curve.y[0]), float(curve.y[-1])] == pytest.approx(
        [attribution.baseline_score, attribution.score], rel=1e-4, abs=1e-5
    )


# --- the process around it --------------------------------------------------------------------------------------------


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@every_kind
@every_method
def test_explain__does_not_depend_on_the_default_dtype(method: Any, setting: Setting) -> None:
    encoder, targets = setting.encoder, setting.targets
    expected = method.explain(encoder, setting.input, targets)
    with default_dtype(torch.float64):
        results = method.explain(encoder, setting.input, targets)
    for result, other in zip(results, expected, strict=True):
        for one, two in zip(parts_of(result), parts_of(other), strict=True):
            torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-7, check_dtype=False)
        assert result.values.dtype == torch.float32


@every_kind
@every_removal
def test_run__neither_fields_nor_interactions_depend_on_the_default_dtype(
    method: Any, setting: Setting, tmp_path: Path
) -> None:
    (target, _), similarity = setting.targets, "cosine"
    expected = method.run(setting.encoder, setting.input)
    with default_dtype(torch.float64):
        run = method.run(setting.encoder, setting.input)
        run = cocoax.Run.load(run.save(tmp_path / "run.safetensors"))
        field, matrix = run.field(similarity), cocoax.interactions(run, run).matrix
        answer = field.explain(target)
    assert torch.equal(run.representations, expected.representations)
    torch.testing.assert_close(field.values, expected.field(similarity).values, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(answer.values, expected.field(similarity).explain(target).values, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(matrix, cocoax.interactions(expected, expected).matrix, rtol=1e-6, atol=1e-7)


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def live_tensors() -> int:
    return sum(issubclass(type(one), Tensor) for one in gc.get_objects())


@pytest.mark.parametrize("kind", ["pixels", "columns"])
@every_method
def test_explain__leaves_no_tensor_behind(method: Any, setting: Setting) -> None:
    """Without the garbage collector: nothing that a call made is part of a reference cycle."""
    (target, _), encoder = setting.targets, setting.encoder
    calls: list[Callable[[], object]] = [lambda: method.explain(encoder, setting.input, target)]
    if method in REMOVAL:
        calls.append(lambda: method.run(encoder, setting.input).field().explain(target))
        calls.append(lambda: cocoax.interactions(*method.run(encoder, setting.inputs[:2])))
    for call in calls:
        call()
        with without_collector():
            before = live_tensors()
            for _ in range(50 if isinstance(method, cocoax.Rise) and method.estimator == "efficient" else 5):
                call()
            assert live_tensors() == before


# --- one scale ------------------------------------------------------------------------------------------------------------


@every_kind
@every_method
def test_explain__shows_lists_and_exports_one_number(method: Any, setting: Setting, tmp_path: Path) -> None:
    (result, _) = method.explain(setting.encoder, setting.input, setting.targets)
    own, table = result.relative, result.table()
    listed = torch.tensor([row[table.columns.index("value")] for row in table.rows], dtype=torch.float64)
    assert "relative" not in table.columns
    assert torch.equal(torch.as_tensor(result.effects.values), own)
    assert [row["value"] for row in result.to_dict()["rows"]] == listed.tolist()
    assert result.to_dataframe()["value"].tolist() == listed.tolist()
    assert torch.equal(cocoax.Attribution.load(result.save(tmp_path / "map.safetensors")).relative, own)
    if own.ndim == 1:
        assert torch.equal(listed, own)
        assert dict(result.top(len(own))) == dict(zip(result.names, own.tolist(), strict=True))
    elif result.feature_ids is not None:
        assert torch.equal(listed[result.feature_ids], own)
    else:
        torch.testing.assert_close(torch.tensor([row[5] for row in result.table(grid=16).rows]), own.flatten().float())


TERMS = torch.tensor([0.5, -1.0, 2.0, 0.0, 1.5, -0.25, 0.75, 1.25])


@pytest.mark.parametrize(
    "method",
    [
        cocoax.Rise(samples=256),
        cocoax.Rise(samples=256, estimator="paper"),
        cocoax.KernelShap(samples=100),
        cocoax.Occlusion(),
        cocoax.IntegratedGradients(4),
        cocoax.GradientShap(samples=8, noise=0),
        cocoax.Captum("ShapleyValueSampling"),
    ],
    ids=repr,
)
def test_effects__of_a_sum_are_its_terms(method: cocoax.Method) -> None:
    """E[score | kept] - E[score | removed] of a term is the term, whatever the others are; 256 samples are all subsets."""
    encoder = cocoax.TabularEncoder(
        torch.nn.Identity(), columns=list("abcdefgh"), background=torch.zeros(1, 8).numpy(), name="sum"
    )
    corpus = cocoax.Reference.from_representations(torch.ones(1, 8), name="one", space=encoder.space)
    result = method.explain(encoder, TERMS.numpy(), cocoax.similarity_to(corpus, "dot"))
    torch.testing.assert_close(result.relative.float(), TERMS, rtol=1e-4, atol=1e-4)

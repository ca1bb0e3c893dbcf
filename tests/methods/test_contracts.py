"""What holds for every method on every kind of input."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cocoax
from tests.methods.settings import KINDS, METHODS, REMOVAL, Setting, name_of
from tests.methods.settings import setting as setting_of

every_kind = pytest.mark.parametrize("kind", KINDS)
every_method = pytest.mark.parametrize("method", METHODS, ids=name_of)
every_removal = pytest.mark.parametrize("method", REMOVAL, ids=name_of)


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

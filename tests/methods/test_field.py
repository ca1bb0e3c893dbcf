"""Fields: they answer as their runs do, pooled to cells; errors, files, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import cocoax
from cocoax import TabularEncoder, TextEncoder
from cocoax.encoders.families.sentence import load_hf_text
from tests.conftest import SmallNet, images
from tests.tiny import save_bert

TEXT = "The violinist parked her big red car behind the house."
TABLE = np.random.default_rng(1).normal(size=(9, 6)).astype(np.float32)
METHODS = [
    cocoax.Rise(samples=60, grid=4),
    cocoax.Rise(samples=60, grid=(3, 4), keep=0.4, estimator="paper"),
    cocoax.KernelShap(samples=60, grid=3),
    cocoax.Occlusion(),
]


def name_of(method: Any) -> str:
    return f"{type(method).__name__}-{getattr(method, 'estimator', '')}"


def references(encoder: cocoax.Encoder, corpus: Any, foil: Any, similarity: str) -> list[cocoax.Target]:
    first, second = encoder.reference(corpus, cache=False), encoder.reference(foil, cache=False)
    return [
        cocoax.contrastive_corpus_similarity(first, second, similarity=similarity),
        cocoax.corpus_similarity(first, similarity),
        cocoax.representation_similarity(similarity),
    ]


def pooled(full: Tensor, rows: int, columns: int) -> Tensor:
    """Means over cells, written out."""
    row, column = torch.arange(full.shape[0]) * rows // full.shape[0], torch.arange(full.shape[1]) * columns // full.shape[1]
    return torch.tensor(
        [[float(full[row == r][:, column == c].double().mean()) for c in range(columns)] for r in range(rows)]
    )


def check_same(field: cocoax.Field, run: cocoax.Run, targets: list[cocoax.Target]) -> None:
    expected = run.explain(targets)
    for answer, own in zip(field.explain(targets), expected, strict=True):
        values = own.values
        if values.ndim == 2:
            values = pooled(values, *answer.values.shape)
        scale = max(1.0, float(own.values.abs().max()))
        torch.testing.assert_close(answer.values, values, rtol=0, atol=1e-5 * scale)
        assert answer.neutral == pytest.approx(own.neutral, abs=1e-5 * scale)
        assert answer.score == pytest.approx(own.score, abs=1e-5 * scale)
        assert answer.baseline_score == pytest.approx(own.baseline_score, abs=1e-5 * scale)
        assert answer.metadata == own.metadata
        assert answer.names == own.names
    single = field.explain(targets[0])
    torch.testing.assert_close(single.values, field.explain(targets)[0].values)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    return load_hf_text(str(save_bert(tmp_path_factory.mktemp("tiny"))))


@pytest.fixture
def table() -> TabularEncoder:
    weights = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    return TabularEncoder(lambda rows: torch.tanh(rows @ weights) + 0.3, columns=list("abcdef"), background=TABLE)


# --- the same answers -------------------------------------------------------------------------------------------------


def test_field__grid_of_numpy(encoder: cocoax.Encoder) -> None:
    run = cocoax.Rise(samples=40, grid=np.int64(3)).run(encoder, images(1, 15, 18)[0])  # type: ignore[arg-type]
    assert run.field(groups=0).values.shape[:2] == (6, 6)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_explain__same_as_the_run_of_a_picture(method: Any, similarity: str, encoder: cocoax.Encoder) -> None:
    run = method.run(encoder, images(1, 15, 18)[0])
    targets = references(encoder, images(3, seed=1), images(2, seed=2), similarity)
    field = run.field(similarity)
    grids = {"Occlusion": (14, 14), "KernelShap": (6, 6), "efficient": (8, 8), "paper": (6, 8)}
    assert field.values.shape == (*grids[getattr(method, "estimator", type(method).__name__)], 8)
    check_same(field, run, targets)
    check_same(run.field(similarity, grid=(3, 5)), run, targets)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_explain__same_as_the_run_of_a_text(method: Any, similarity: str, text: TextEncoder) -> None:
    run = method.run(text, TEXT)
    field = run.field(similarity)
    assert field.values.shape == (11, 16)
    check_same(field, run, references(text, ["a big dog"], ["red house", "the cat"], similarity))


@pytest.mark.parametrize("draws", [1, 3])
@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_explain__same_as_the_run_of_a_row(method: Any, draws: int, table: TabularEncoder) -> None:
    from dataclasses import replace

    background = cocoax.Background(torch.from_numpy(TABLE), draws=draws)
    run = replace(method, baseline=background).run(table, TABLE[0] + 1)
    for similarity in ("cosine", "dot"):
        check_same(run.field(similarity), run, references(table, TABLE[:2], TABLE[2:], similarity))


# --- errors -----------------------------------------------------------------------------------------------------------


def ratio(field: cocoax.Field, run: cocoax.Run, targets: list[cocoax.Target]) -> float:
    """Root mean square of the field's errors over the run's own."""
    ours, own = field.explain(targets), run.explain(targets)
    squares = [
        sum(float(answer.standard_error.double().square().mean()) for answer in answers if answer.standard_error is not None)
        for answers in (ours, own)
    ]
    return float((squares[0] / squares[1]) ** 0.5)


@pytest.mark.parametrize("method", METHODS[:3], ids=name_of)
def test_standard_error__as_the_run_has_it_for_a_text(method: Any, text: TextEncoder) -> None:
    run = method.run(text, TEXT)
    targets = references(text, ["a big dog"], ["red house", "the cat"], "cosine")
    # 16 random sums know a variance to √(2/16), an error to 18 %, and the sums of all features have signs in common.
    assert 0.5 < ratio(run.field(), run, targets) < 1.6
    assert 0.95 < ratio(run.field(groups=4000), run, targets) < 1.05


def test_standard_error__as_the_run_has_it_for_a_picture(encoder: cocoax.Encoder) -> None:
    """A run's own errors are of pixels; with as many cells as pixels they can be compared."""
    targets = references(encoder, images(3, seed=1), images(2, seed=2), "cosine")
    for method in (METHODS[0], METHODS[1]):
        run = method.run(encoder, images(1, 12, 12)[0])
        assert 0.93 < ratio(run.field(grid=12, groups=1500), run, targets) < 1.07


def test_standard_error__kernel_shap_is_the_sandwich(text: TextEncoder) -> None:
    run = cocoax.KernelShap(samples=90).run(text, TEXT)
    targets = references(text, ["a big dog"], ["red house", "the cat"], "cosine")
    for answer, own in zip(run.field(groups=6000).explain(targets), run.explain(targets), strict=True):
        torch.testing.assert_close(answer.standard_error, own.standard_error, rtol=0.1, atol=1e-6)


def test_standard_error__zero_where_nothing_is_left_to_chance(text: TextEncoder) -> None:
    target = references(text, ["a big dog"], ["the cat"], "cosine")[0]
    for method in (cocoax.Rise(samples=16), cocoax.KernelShap(samples=14)):
        error = method.run(text, "the big red dog").field().explain(target).standard_error
        assert error is not None
        assert not bool(error.any())
    assert cocoax.Occlusion().run(text, TEXT).field().explain(target).standard_error is None
    assert cocoax.Rise(samples=30).run(text, TEXT).field(groups=0).explain(target).standard_error is None


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_save__loses_what_half_precision_takes(similarity: str, text: TextEncoder, tmp_path: Path) -> None:
    field = cocoax.Rise(samples=80).run(text, TEXT).field(similarity)
    targets = references(text, ["a big dog"], ["red house", "the cat"], similarity)
    loaded = cocoax.Field.load(field.save(tmp_path / "field.safetensors"))
    assert repr(loaded) == repr(field) == f"Field(11 vectors of 16 dimensions, {similarity}, {field.origin.encoder!r})"
    # Each vector (minus the neutral one) is stored with its own scale: its largest number loses at most 2^-11 of itself.
    apart = (loaded.values - field.values).abs().amax(-1)
    assert bool((apart <= 2**-11 * (field.values - field.neutral).abs().amax(-1) + 1e-7).all())
    for answer, own in zip(loaded.explain(targets), field.explain(targets), strict=True):
        size = float((own.values - own.neutral).abs().max())
        torch.testing.assert_close(answer.values, own.values, rtol=0, atol=2e-3 * size)
        torch.testing.assert_close(answer.standard_error, own.standard_error, rtol=0.01, atol=2e-3 * size)
        assert (answer.score, answer.baseline_score, answer.names) == (own.score, own.baseline_score, own.names)


def test_save__a_picture_keeps_its_display(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    field = cocoax.Rise(samples=20, grid=4).run(encoder, images(1)[0]).field()
    path = field.save(tmp_path / "field.safetensors")
    assert cocoax.Field.load(path).values.shape == (8, 8, 8)
    with pytest.raises(ValueError, match="field"):
        cocoax.Run.load(path)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_field__kernel_is_refused(encoder: cocoax.Encoder) -> None:
    run = cocoax.Rise(samples=20, grid=4).run(encoder, images(1)[0])
    with pytest.raises(ValueError, match=r"cosine or dot; rbf compares with every sample and has no such vectors\. Keep the"):
        run.field("rbf")


def test_explain__another_similarity_is_refused(encoder: cocoax.Encoder) -> None:
    field = cocoax.Rise(samples=20, grid=4).run(encoder, images(1)[0]).field("dot")
    with pytest.raises(ValueError, match=r"answers targets of the dot similarity, not of cosine"):
        field.explain(cocoax.representation_similarity())
    reference = encoder.reference(images(3, seed=1), keep_samples=True, cache=False)
    with pytest.raises(ValueError, match=r"not of rbf: .* kernels have none\. Ask the run"):
        field.explain(cocoax.corpus_similarity(reference, "rbf"))


def test_explain__another_space_is_refused(encoder: cocoax.Encoder) -> None:
    field = cocoax.Rise(samples=20, grid=4).run(encoder, images(1)[0]).field()
    other = cocoax.Encoder(SmallNet(seed=5).eval())
    with pytest.raises(ValueError, match="space"):
        field.explain(cocoax.corpus_similarity(other.reference(images(2, seed=1), cache=False)))


def test_field__grid_finer_than_the_picture(encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match=r"A grid of 40 x 40 is finer than the image"):
        cocoax.Rise(samples=20, grid=4).run(encoder, images(1)[0]).field(grid=40)

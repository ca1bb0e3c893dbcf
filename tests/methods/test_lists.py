"""Attribution to words and columns: every method against its definition, Captum or SHAP, on real kinds of encoders."""

from __future__ import annotations

import warnings
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import captum.attr
import numpy as np
import pytest
import torch
from torch import Tensor

import cocoax
from cocoax import TabularEncoder, TextEncoder
from cocoax.encoders.embedding import differentiable
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.masking import control_variates as controls
from cocoax.masking import resolve
from tests.methods.settings import METHODS, ROW, TABLE, TEXT, RowNet, name_of
from tests.tiny import save_bert

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import shap


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> TextEncoder:
    return load_hf_text(str(save_bert(tmp_path_factory.mktemp("tiny"))))


def targets_of(encoder: cocoax.Encoder, corpus: Any, foil: Any) -> list[cocoax.Target]:
    one, other = encoder.reference(corpus, cache=False), encoder.reference(foil, cache=False)
    return [
        cocoax.contrastive_corpus_similarity(one, other),
        cocoax.corpus_similarity(one, "dot"),
        cocoax.representation_similarity(),
    ]


@pytest.fixture(scope="module")
def targets(text: TextEncoder) -> list[cocoax.Target]:
    return targets_of(text, ["a big dog"], ["red house", "the cat"])


@pytest.fixture
def table() -> TabularEncoder:
    return TabularEncoder(RowNet(), columns=["a", "b", "c", "d"], background=TABLE)


# --- removing -----------------------------------------------------------------------------------------------------------


def score_without(encoder: TextEncoder, target: cocoax.Target, kept: tuple[int, ...], how: str) -> float:
    """The score of a text with some words removed, written out by hand."""
    explicand = encoder.explicand(TEXT)
    assert explicand.feature_ids is not None
    stays = torch.tensor([member < 0 or bool(kept[member]) for member in explicand.feature_ids.tolist()])
    ids, mask = explicand.tensor.clone(), torch.ones_like(explicand.tensor)
    if how == "mask":
        ids[~stays] = 4
    elif how == "deletion":
        ids, mask = ids[stays], mask[stays]
    else:
        mask = stays.long()
    with torch.no_grad():
        found = encoder({"input_ids": ids[None], "attention_mask": mask[None]})
        own = encoder({"input_ids": explicand.tensor[None], "attention_mask": torch.ones_like(explicand.tensor)[None]})[0]
    return float(target.score(found, own)[0])


@pytest.mark.parametrize("how", ["mask", "deletion", "attention"])
def test_occlusion__is_the_drop_without_a_word(how: str, text: TextEncoder, targets: list[cocoax.Target]) -> None:
    for target, result in zip(targets, cocoax.Occlusion(baseline=how).explain(text, TEXT, targets), strict=True):
        whole = score_without(text, target, (1,) * 6, how)
        expected = [whole - score_without(text, target, tuple(int(i != word) for i in range(6)), how) for word in range(6)]
        torch.testing.assert_close(result.values, torch.tensor(expected), rtol=0, atol=2e-5)


def test_occlusion__windows_of_several_words(text: TextEncoder, targets: list[cocoax.Target]) -> None:
    result = cocoax.Occlusion(window=2, stride=2).explain(text, TEXT, targets[0])
    whole = score_without(text, targets[0], (1,) * 6, "mask")
    drop = whole - score_without(text, targets[0], (1, 1, 0, 0, 1, 1), "mask")
    torch.testing.assert_close(result.values[2:4], torch.tensor([drop, drop]), rtol=0, atol=2e-5)
    with pytest.raises(ValueError, match=r"A window of 9 is larger than the 6 words or columns"):
        cocoax.Occlusion(window=9).explain(text, TEXT, targets[0])
    with pytest.raises(ValueError, match=r"one side, an integer"):
        cocoax.Occlusion(window=(1, 2)).explain(text, TEXT, targets[0])


@pytest.mark.parametrize("how", ["mask", "deletion", "attention"])
def test_rise__converges_to_its_definition(how: str, text: TextEncoder, targets: list[cocoax.Target]) -> None:
    """With all 64 subsets at hand, E[y m]/p is a mean over those that keep the word, weighted by their chances."""
    p = 0.52  # one half would be enumerated
    scores = {kept: score_without(text, targets[0], kept, how) for kept in product((0, 1), repeat=6)}
    chances = {kept: p ** sum(kept) * (1 - p) ** (6 - sum(kept)) for kept in scores}
    expected = torch.tensor([sum(chances[kept] * y * kept[word] / p for kept, y in scores.items()) for word in range(6)])
    result = cocoax.Rise(samples=3000, keep=p, baseline=how).explain(text, TEXT, targets[0])
    assert result.standard_error is not None
    mean = sum(chances[kept] * y for kept, y in scores.items())
    z = (result.relative - (expected - mean) * result.unit) / result.standard_error
    assert float(z.abs().max()) < 4
    assert float((result.values.double() - expected).abs().max()) < 0.02
    assert result.neutral == pytest.approx(mean, abs=0.02)


@pytest.mark.parametrize("estimator", ["efficient", "paper"])
def test_rise__all_subsets_where_they_are_few(estimator: Any, text: TextEncoder, targets: list[cocoax.Target]) -> None:
    scores = {kept: score_without(text, targets[0], kept, "mask") for kept in product((0, 1), repeat=6)}
    expected = torch.tensor([np.mean([y for kept, y in scores.items() if kept[word]]) for word in range(6)])
    run = cocoax.Rise(samples=64, estimator=estimator).run(text, TEXT)
    result = run.explain(targets[0])
    assert len(run) == 64
    torch.testing.assert_close(result.values.double(), expected, rtol=0, atol=2e-5)
    assert result.standard_error is not None
    assert not bool(result.standard_error.any())
    assert result.neutral == pytest.approx(np.mean(list(scores.values())), abs=2e-5)
    with pytest.raises(ValueError, match=r"All 64 subsets of the 6 features are there already; the values are exact"):
        run.extend(text, 1)
    some = run.first(40).explain(targets[0])  # a fair sample of all subsets, with errors
    assert some.standard_error is not None
    assert float(((some.relative - result.relative) / some.standard_error).abs().max()) < 4
    assert len(cocoax.Rise(samples=63, estimator=estimator).run(text, TEXT)) == 63
    assert len(cocoax.Rise(samples=100, keep=0.4, estimator=estimator).run(text, TEXT)) == 100


def every_score(features: int, targets: int) -> Tensor:
    """The scores of all subsets of columns in a random network, ``[2^features, targets]``."""
    random = np.random.default_rng(7)
    kept = (np.arange(2**features)[:, None] >> np.arange(features)) & 1
    first, second = random.standard_normal((features, 12)), random.standard_normal((12, targets))
    return torch.from_numpy(np.tanh((kept - 0.3) @ first / 2) @ second)


def rise_apart(scores: Tensor, samples: int, seeds: int) -> tuple[Tensor, Tensor]:
    """How far values relative to neutral are from exact ones, and their errors, ``[seeds, targets, features]``."""
    features = len(scores).bit_length() - 1
    kept = (torch.arange(len(scores))[:, None] >> torch.arange(features)) & 1
    exact = (kept.double().T @ scores / (len(scores) / 2) - scores.mean(0)).T
    apart, errors = [], []
    for seed in range(seeds):
        method = cocoax.Rise(samples=samples, seed=seed)
        masks = method.draw((features,))
        found = method.estimate(masks, scores[masks.bits.long() @ 2 ** torch.arange(features)], scores[[-1, 0]])
        assert found.neutral is not None
        assert found.standard_error is not None
        apart.append(found.values[:, 0] - found.neutral[:, None] - exact)
        errors.append(found.standard_error[:, 0])
    return torch.stack(apart), torch.stack(errors)


@pytest.mark.parametrize("samples", [40, 100, 300])
def test_rise__intervals_of_relative_values_cover(samples: int) -> None:
    """Against all subsets: 93 to 97 % within 1.96 standard errors, and no bias."""
    seeds = 400 if samples < 300 else 100  # a coverage is then known to half a per cent
    apart, errors = rise_apart(every_score(11, 8), samples, seeds)
    assert 0.93 < float((apart.abs() < 1.96 * errors).double().mean()) < 0.97
    z = apart.mean(0) / (apart.std(0) / seeds**0.5)
    assert float(z.square().mean()) < 1.5
    assert float(z.abs().max()) < 4.5


def test_rise__more_samples_are_never_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they are more than the model of the scores is fitted to."""
    monkeypatch.setattr(controls, "_SEEN", 128)
    scores = every_score(11, 8)
    squares = [float(rise_apart(scores, samples, 40)[0].square().mean()) for samples in (128, 130, 192, 256, 512)]
    assert squares[1] < 1.1 * squares[0]
    assert all(later < 0.9 * earlier for earlier, later in pairwise(squares[1:]))
    apart, errors = rise_apart(scores, 512, 40)
    assert 0.92 < float((apart.abs() < 1.96 * errors).double().mean()) < 0.98


def test_kernel_shap__one_word_counts_for_everything(text: TextEncoder, targets: list[cocoax.Target]) -> None:
    result = cocoax.KernelShap().explain(text, "violinist", targets[0])
    assert result.values.tolist() == pytest.approx([result.score - result.baseline_score])


@pytest.mark.parametrize("word", ["cat", "violinist", "👍"])
@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_explain__text_of_one_word(method: cocoax.Method, word: str, text: TextEncoder, targets: list[cocoax.Target]) -> None:
    result = method.explain(text, word, targets[0])
    assert result.tokens == (word,)
    assert bool(torch.isfinite(result.values).all())


def test_run__equal_masks_are_encoded_once(text: TextEncoder) -> None:
    seen: list[Tensor] = []
    handle = text.owner.register_forward_hook(lambda _m, inputs, _o: seen.append(inputs[0]["input_ids"]))  # type: ignore[union-attr]
    try:
        run = cocoax.Rise(samples=500, keep=0.4, baseline="deletion").run(text, TEXT)
    finally:
        handle.remove()
    assert len(run) == 500
    assert sum(map(len, seen)) <= 64 + 4  # all subsets of six words, the two ends and the checks of determinism
    lengths = [batch.shape[1] for batch in seen[2:]]
    assert lengths == sorted(lengths)  # short ones together


@pytest.mark.parametrize("wrong", ["blur", cocoax.Blur(5, 1.0), cocoax.Mean(), 3])
def test_baseline__not_a_way_to_remove_words(wrong: Any, text: TextEncoder, targets: list[cocoax.Target]) -> None:
    with pytest.raises(ValueError, match=r"Words are removed by baseline='mask', 'deletion' or 'attention'"):
        cocoax.Rise(samples=20, baseline=wrong).explain(text, TEXT, targets[0])


@pytest.mark.parametrize("wrong", ["deletion", "attention", cocoax.Deletion(), cocoax.Blur(5, 1.0)])
def test_baseline__gradients_need_something_in_place(wrong: Any, text: TextEncoder, targets: list[cocoax.Target]) -> None:
    with pytest.raises(ValueError, match=r"Gradients need something in place of a word"):
        cocoax.IntegratedGradients(baseline=wrong).explain(text, TEXT, targets[0])


# --- gradients ----------------------------------------------------------------------------------------------------------


def layer_ig(encoder: TextEncoder, target: cocoax.Target, text: str, baseline: list[int], steps: int) -> Tensor:
    """Captum's LayerIntegratedGradients on the token embeddings, ``[L]``."""
    ids = encoder.prepare(text)[None]
    module = target.as_module(encoder, text if target.needs_explicand else None)
    method = captum.attr.LayerIntegratedGradients(module, encoder.embedding_layer)
    found = method.attribute(ids, baselines=torch.tensor([baseline]), n_steps=steps, method="gausslegendre")
    return found.sum(-1)[0].detach()


@pytest.mark.parametrize("features", ["words", "tokens"])
def test_integrated_gradients__same_as_captums_layer_integrated_gradients(
    features: Any, text: TextEncoder, targets: list[cocoax.Target]
) -> None:
    explicand = text.by(features).explicand(TEXT)
    masked = [
        4 if member >= 0 else token for token, member in zip(explicand.tensor.tolist(), explicand.feature_ids, strict=True)
    ]
    for target, result in zip(
        targets, cocoax.IntegratedGradients(steps=40).explain(text.by(features), TEXT, targets), strict=True
    ):
        tokens = layer_ig(text, target, TEXT, masked, 40)
        expected = explicand.per_feature(tokens)
        torch.testing.assert_close(result.values, expected.float(), rtol=0, atol=1e-5)
        assert float(tokens[[0, -1]].abs().max()) < 1e-6  # special tokens do not count


@pytest.mark.parametrize("baseline", ["mask", cocoax.MaskToken(9), cocoax.Constant(0.0)], ids=str)
def test_integrated_gradients__complete(baseline: Any, text: TextEncoder, targets: list[cocoax.Target]) -> None:
    for result in cocoax.IntegratedGradients(steps=200, baseline=baseline).explain(text, TEXT, targets):
        assert float(result.values.sum()) == pytest.approx(result.score - result.baseline_score, abs=2e-4)
        assert result.raw is not None
        torch.testing.assert_close(result.raw.sum(), result.values.sum(), rtol=0, atol=1e-5)


def test_vanilla_gradients__are_slopes_towards_the_words(text: TextEncoder, targets: list[cocoax.Target]) -> None:
    result = cocoax.VanillaGradients().explain(text, TEXT, targets[0])
    view, embedded = differentiable(text, text.explicand(TEXT))
    masked = resolve("mask", view.inputs).baseline_input(embedded)
    step = 1e-3
    for word in range(6):
        direction = (embedded.tensor - masked) * (embedded.feature_ids == word)
        anchors = view.encode([embedded.tensor - step * direction, embedded.tensor + step * direction])
        low, high = targets[0].score(anchors.double()).tolist()
        assert float(result.values[word]) == pytest.approx((high - low) / (2 * step), abs=2e-3)


def test_smoothgrad__noise_is_in_units_of_the_embeddings(text: TextEncoder, targets: list[cocoax.Target]) -> None:
    few = cocoax.SmoothGrad(samples=30, noise=1e-4).explain(text, TEXT, targets[0])
    plain = cocoax.VanillaGradients().explain(text, TEXT, targets[0])
    torch.testing.assert_close(few.values, plain.values, rtol=0, atol=1e-3)
    assert few.standard_error is not None


def test_expected_gradients__background_of_texts(text: TextEncoder, targets: list[cocoax.Target]) -> None:
    """With one background text that has as many tokens, the mean over draws of Integrated Gradients from it."""
    background = "a dog a dog a dog a."
    result = cocoax.ExpectedGradients([background], samples=3000).explain(text, TEXT, targets[0])
    content = text.prepare(background)[1:-1].tolist()
    expected = text.explicand(TEXT).per_feature(layer_ig(text, targets[0], TEXT, [2, *content, 3], 60)[None])
    assert len(text.prepare(TEXT)) == len(content) + 2
    assert result.standard_error is not None
    assert bool(((result.values - expected).abs() <= 4.5 * result.standard_error + 1e-7).all())


# --- columns ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draws", [None, 3, 7])
def test_kernel_shap__columns_same_as_shap(draws: int | None, table: TabularEncoder) -> None:
    target = targets_of(table, TABLE[:2], TABLE[2:])[0]
    baseline = cocoax.Background(torch.from_numpy(TABLE), draws=draws)
    result = cocoax.KernelShap(samples=14, baseline=baseline).explain(table, ROW, target)
    rows = baseline(torch.from_numpy(ROW)[None]).reshape(-1, 4).numpy()
    explainer = shap.ExactExplainer(
        lambda x: target.score(table.represent(x)).numpy(), shap.maskers.Independent(rows, max_samples=len(rows))
    )
    np.testing.assert_allclose(result.values.numpy(), explainer(ROW[None]).values[0], atol=2e-5)
    assert float(result.values.sum()) == pytest.approx(result.score - result.baseline_score, abs=1e-5)


def test_run__several_baselines_save_load_and_extend(table: TabularEncoder, tmp_path: Path) -> None:
    target = targets_of(table, TABLE[:2], TABLE[2:])[0]
    baseline = cocoax.Background(torch.from_numpy(TABLE), draws=3)
    run = cocoax.Rise(samples=30, keep=0.4, baseline=baseline).run(table, ROW)
    assert run.representations.shape == (30, 3, 5)
    loaded = cocoax.Run.load(run.save(tmp_path / "run.safetensors")).extend(table, 20)
    longer = cocoax.Rise(samples=50, keep=0.4, baseline=baseline).explain(table, ROW, target)
    torch.testing.assert_close(loaded.explain(target).values, longer.values, rtol=0, atol=1e-5)


def test_integrated_gradients__columns_same_as_captum(table: TabularEncoder) -> None:
    target = targets_of(table, TABLE[:2], TABLE[2:])[0]
    result = cocoax.IntegratedGradients(steps=50).explain(table, ROW, target)
    expected = captum.attr.IntegratedGradients(target.as_module(table)).attribute(
        torch.from_numpy(ROW)[None], baselines=torch.from_numpy(TABLE.mean(0, keepdims=True)), n_steps=50
    )
    torch.testing.assert_close(result.values, expected[0].float(), rtol=0, atol=1e-5)
    assert float(result.values.sum()) == pytest.approx(result.score - result.baseline_score, abs=1e-4)


@pytest.mark.parametrize("method", [cocoax.KernelShap(), cocoax.Occlusion(), cocoax.IntegratedGradients()], ids=name_of)
def test_explain__constant_column_counts_for_nothing(method: cocoax.Method) -> None:
    """A column that is the same in the background and in the explicand cannot be removed."""
    rows = TABLE.copy()
    rows[:, 2] = ROW[2]
    encoder = TabularEncoder(RowNet(), columns=["a", "b", "c", "d"], background=rows)
    result = method.explain(encoder, ROW, cocoax.representation_similarity())
    assert float(result.values[2]) == pytest.approx(0, abs=1e-6)
    assert float(result.values.abs().max()) > 0.01


@pytest.mark.parametrize("given", [TABLE[0], TABLE[0].tolist(), cocoax.Constant(0.0), TABLE, cocoax.Background(TABLE[:3])])
def test_baseline__of_columns_in_many_forms(given: Any, table: TabularEncoder) -> None:
    expected = (
        {1: TABLE[0], 2: TABLE.mean(0)}.get(np.ndim(given), np.zeros(4)) if not hasattr(given, "rows") else TABLE[:3].mean(0)
    )
    run = cocoax.Occlusion(baseline=given).run(table, ROW)
    np.testing.assert_allclose(run.baseline[0].numpy(), expected, atol=1e-6)


def test_baseline__columns_without_a_background() -> None:
    encoder = TabularEncoder(RowNet(), columns=["a", "b", "c", "d"], name="bare")
    target = cocoax.representation_similarity()
    with pytest.raises(ValueError, match=r"What should removed columns of 'bare' hold\? Give the encoder background=rows"):
        cocoax.Rise(samples=20).explain(encoder, ROW, target)
    with pytest.raises(ValueError, match=r"Noise is for numbers\. Columns take cocoax\.Background"):
        cocoax.Rise(samples=20, baseline=cocoax.Noise()).explain(encoder, ROW, target)
    with pytest.raises(ValueError, match=r"IntegratedGradients takes one baseline, but Background gives 3; use one"):
        cocoax.IntegratedGradients(baseline=cocoax.Background(TABLE, draws=3)).explain(encoder, ROW, target)

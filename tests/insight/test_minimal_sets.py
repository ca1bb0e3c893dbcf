"""Minimal sets, against brute force over all sets; on pictures, texts and rows."""

from __future__ import annotations

import copy
import gc
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.modules.module import register_module_forward_pre_hook

import cocoax
from cocoax.encoders.families.sentence import load_hf_text
from cocoax.insight import PartSet
from cocoax.insight.minimal_sets import _parts_of
from tests.conftest import SmallNet, images
from tests.insight.games import all_scores, all_sets, pictures, segmented, table
from tests.insight.samples import minimal as minimal_sets
from tests.tiny import save_bert


@pytest.mark.parametrize("keep", [0.5, 0.9])
@pytest.mark.parametrize("seed", [1, 8])
def test_minimal__is_the_smallest_on_pictures(keep: float, seed: int) -> None:
    encoder, picture, _, target = pictures(seed)
    run = cocoax.KernelShap(samples=200, grid=3).run(encoder, picture)
    sizes, scores = all_scores(run, encoder, target, _parts_of(run))
    found = cocoax.minimal(run, target, keep=keep)
    level = float(scores[0] + keep * (scores[-1] - scores[0]))
    assert found.level == pytest.approx(level, abs=1e-5)
    assert len(found.kept) == int(sizes[scores >= found.level].min())
    assert len(found.removed) == 9 - int(sizes[scores < found.level].max())
    assert found.kept.score >= found.level > found.removed.score
    by_set = dict(zip(map(tuple, all_sets(9).tolist()), scores.tolist(), strict=True))
    for parts, kept in ((found.kept, True), (found.removed, False)):
        own = [int((part in parts.parts) == kept) for part in range(9)]
        assert by_set[tuple(own)] == pytest.approx(parts.score, abs=1e-5)
        lacking = [by_set[(*own[:part], 1 - own[part], *own[part + 1 :])] for part in parts.parts]
        needed = all((score < found.level) == kept for score in lacking)
        assert needed  # a smallest set needs each of its parts
        assert not parts.proven or parts.irreducible


@pytest.mark.parametrize("method", [cocoax.KernelShap(samples=100), cocoax.Rise(samples=100)])
def test_minimal__segments_of_a_picture(method: Any, tmp_path: Path) -> None:
    encoder, picture, _, target = pictures()
    explicand = segmented(encoder, picture)
    run = method.run(encoder, explicand)
    count = explicand.shape[0]
    sizes, scores = all_scores(run, encoder, target, torch.arange(count))
    found = cocoax.minimal(run, target, keep=0.8, calls=200)
    assert found.total == count
    assert len(found.kept) == int(sizes[scores >= found.level].min())
    assert len(found.removed) == count - int(sizes[scores < found.level].max())
    assert explicand.feature_ids is not None
    for parts in (found.kept, found.removed):
        assert parts.irreducible
        assert torch.equal(parts.mask, torch.isin(explicand.feature_ids, torch.tensor(parts.parts)))
        assert len(set(parts.names)) == len(parts.parts)
        assert not any(name.startswith("segment") for name in parts.names)  # but where they are, as in maps
        assert sorted(part for region in parts.regions for part in region) == list(parts.parts)
    assert found.save(tmp_path / "least.png").stat().st_size > 5000


def test_minimal__parts_that_touch_are_one_region() -> None:
    mask = torch.zeros(6, 8, dtype=torch.bool)
    parts = PartSet((0, 1, 4), ("a", "b", "c"), mask, 0.5, 3, False, False, ((0, 1), (4,)))
    least = replace(minimal_sets(), kept=parts)
    assert "'a + b', 'c'" in least.summary
    assert "Enough: 3 sets of one part fewer were tried, and none does; found, not minimal" in str(least)
    assert least.to_dict()["kept"]["regions"] == ["a + b", "c"]


def test_minimal__says_what_was_not_tried() -> None:
    encoder, picture, _, target = pictures()
    run = cocoax.KernelShap(samples=60, grid=4).run(encoder, picture)
    found = cocoax.minimal(run, target, keep=0.8, calls=2)
    assert not found.kept.irreducible
    assert "may be enough" in str(found)
    assert "needs each of them" in str(cocoax.minimal(run, target, keep=0.8, calls=400))


def test_minimal__every_set_was_encoded_and_calls_are_counted() -> None:
    encoder, picture, _, target = pictures()
    run = cocoax.KernelShap(samples=60, grid=4).run(encoder, picture)
    encoder.module.inputs = 0  # type: ignore[attr-defined]
    found = cocoax.minimal(run, target, keep=0.8, calls=30)
    # The folded copy agrees with the network on the first batch, which is encoded by both.
    assert found.calls <= 30
    assert found.calls <= encoder.module.inputs <= 2 * found.calls  # type: ignore[attr-defined,operator]
    labels = _parts_of(run)
    for mask, score, kept in ((found.kept.mask, found.kept.score, True), (~found.removed.mask, found.removed.score, False)):
        blended = torch.where(mask, run.explicand.tensor, run.baseline)
        own = float(target.score(encoder.represent([blended]))[0])
        assert own == pytest.approx(score, abs=1e-5)
        assert (own >= found.level) == kept
    assert set(labels[found.kept.mask].tolist()) == set(found.kept.parts)


@pytest.mark.parametrize("calls", [2, 3, None])
def test_minimal__takes_no_more_calls_than_it_may(calls: int | None) -> None:
    encoder, picture, _, target = pictures()
    run = cocoax.KernelShap(samples=60, grid=4).run(encoder, picture)
    found = cocoax.minimal(run, target, keep=0.8, calls=calls)
    checks = 0 if calls else 2 * found.total  # of each set without each of its parts, unless it shrinks
    assert found.calls <= (calls or 0.3 * 60) + checks
    assert calls or (found.kept.irreducible and found.removed.irreducible)
    assert found.kept.score >= found.level > found.removed.score


def test_minimal__level_in_place_of_a_share() -> None:
    encoder, picture, _, target = pictures()
    run = cocoax.KernelShap(samples=100, grid=3).run(encoder, picture)
    low, high = (float(target.score(end[None])[0]) for end in (run.anchors[1], run.anchors[0]))
    level = (low + 3 * high) / 4
    assert cocoax.minimal(run, target, level=level).level == level
    with pytest.raises(ValueError, match=r"The 'level' parameter must lie above .* Got \+9\.000 instead"):
        cocoax.minimal(run, target, level=9.0)
    with pytest.raises(ValueError, match=r"'keep' parameter must lie above 0 and be at most 1. Got 2 instead"):
        cocoax.minimal(run, target, keep=2)


def test_minimal__soft_masks_of_rise() -> None:
    encoder, picture, _, target = pictures()
    run = cocoax.Rise(samples=200, grid=3).run(encoder, picture)
    sizes, scores = all_scores(run, encoder, target, _parts_of(run))
    found = cocoax.minimal(run, target, keep=0.7)
    assert 0 <= len(found.kept) - int(sizes[scores >= found.level].min()) <= 1


def test_minimal__rows_and_several_baselines() -> None:
    encoder, row, others, target = table()
    run = cocoax.KernelShap(samples=100, baseline=cocoax.Background(torch.tensor(others), draws=3)).run(encoder, row)
    found = cocoax.minimal(run, target, keep=0.6)
    assert found.total == 8
    assert set(found.kept.names) <= set(encoder.inputs.columns)  # type: ignore[attr-defined]
    assert found.kept.score >= found.level > found.removed.score


def test_minimal__passes_are_counted_under_every_baseline() -> None:
    encoder, picture, _, target = pictures()
    baseline = cocoax.Several((cocoax.Blur(), cocoax.Constant(0.0)))
    run = cocoax.KernelShap(samples=60, grid=(3, 3), baseline=baseline).run(encoder, picture, progress=False)
    counted = []
    handle = register_module_forward_pre_hook(
        lambda module, given: counted.append(len(given[0])) if module is encoder.module else None
    )
    found = cocoax.minimal(run, target)
    assert sum(counted) - 1 == found.calls <= 2 * (0.3 * 60 + 9 + 9)  # without the probe
    assert f"{found.calls} forward passes, beside the 120 of the run." in str(found)
    counted.clear()
    assert cocoax.minimal(run, target, calls=9).calls == sum(counted) - 1 <= 9
    handle.remove()
    with pytest.raises(ValueError, match=r"'calls' .* at least 4"):
        cocoax.minimal(run, target, calls=3)


def test_minimal__texts(tmp_path: Path) -> None:
    encoder = load_hf_text(str(save_bert(tmp_path / "bert")))
    target = cocoax.contrastive_corpus_similarity(encoder.reference(["a red car"]), encoder.reference(["the cat"]))
    run = cocoax.KernelShap(samples=100).run(encoder, "the big red car behind a house")
    try:
        found = cocoax.minimal(run, target, keep=0.8)
    except ValueError:
        found = cocoax.minimal(run, -target, keep=0.8)
    words = {"the", "big", "red", "car", "behind", "a", "house"}
    assert set(found.kept.names) <= words
    assert found.to_dict()["kept"]["names"] == list(found.kept.names)
    assert found.table().records()[0]["which"] == "; ".join(found.kept.names)


def test_minimal__says_it_and_shows_it() -> None:
    encoder, picture, _, target = pictures()
    found = cocoax.minimal(cocoax.KernelShap(samples=100, grid=3).run(encoder, picture), target)
    assert f"{len(found.kept)} of 9 parts alone keep{'s' * (len(found.kept) == 1)} the score" in found.summary
    assert f"{found.calls} forward passes, beside the 100 of the run." in found.remarks
    assert repr(found).startswith("Minimal('this rather than that'")
    shown: Any = found.views()[0].tiles
    for tile, mask in zip(shown[1:], (found.kept.mask, found.removed.mask), strict=True):
        assert (tile.marked == mask.numpy()).all()


def test_minimal__says_where_hardly_anything_is_removed() -> None:
    said = "With everything removed it still scores +0.579 of +0.603, so that little is needed to keep it."
    assert said in minimal_sets(1, 0.579, score=0.603).remarks
    assert said in minimal_sets(1, 0.579, score=0.603).to_dict()["remarks"]
    assert "still scores -0.620, so that" in str(minimal_sets(1, -0.62, score=-0.603))
    assert "little is needed" not in str(minimal_sets(1, 0.3))
    assert "little is needed" not in str(minimal_sets(1, -0.01))


def test_minimal__one_part_keeps_and_two_keep() -> None:
    assert "1 of 8 parts alone keeps the score" in str(minimal_sets(1, 0.3))
    assert "2 of 8 parts alone keep the score" in str(minimal_sets(2, 0.3))


def test_minimal__the_encoder_is_gone_or_another() -> None:
    encoder, picture, _, target = pictures()
    run = cocoax.KernelShap(samples=20, grid=2).run(encoder, picture)
    other = cocoax.Encoder(SmallNet(seed=1).eval(), name="other")
    with pytest.raises(ValueError, match="'other' is another one"):
        cocoax.minimal(run, target, encoder=other)
    again = pickle.loads(pickle.dumps(run))
    assert again.maker is None
    assert copy.copy(run).maker is None
    with pytest.raises(ValueError, match="does not hold its encoder 'small', and it is not in memory; pass encoder="):
        cocoax.minimal(again, target)
    assert cocoax.minimal(again, target, encoder=encoder).calls >= 2
    del encoder
    gc.collect()
    with pytest.raises(ValueError, match="pass encoder="):
        cocoax.minimal(run, target)


def test_minimal__mistakes() -> None:
    encoder, picture, _, target = pictures()
    run = cocoax.KernelShap(samples=20, grid=2).run(encoder, picture)
    with pytest.raises(TypeError, match=r"must be a run, as cocoax.KernelShap\(\).run\(encoder, input\) makes one"):
        cocoax.minimal(encoder, target)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes one target"):
        cocoax.minimal(run, [target])  # type: ignore[arg-type]
    filled = cocoax.KernelShap(samples=20, grid=2, baseline=cocoax.Fixed(picture)).run(encoder, images(1, seed=9)[0])
    with pytest.raises(ValueError, match=r"nothing in the input raises it, so there is nothing to keep. Ask the opposite"):
        cocoax.minimal(filled, target)

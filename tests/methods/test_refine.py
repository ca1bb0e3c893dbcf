"""Refinement: from few segments to smaller ones where much happens."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import cocoax
from cocoax.inputs import Segments
from cocoax.survey import build

SIZE = 24
GENERATOR = torch.Generator().manual_seed(5)
WEIGHTS = torch.randn(4, SIZE * SIZE * 3, generator=GENERATOR) / SIZE
WEIGHTS[:, : SIZE * SIZE * 3 // 6] *= 6  # most happens in one corner


def network(batch: Tensor) -> Tensor:
    """Products of sums, so that parts interact."""
    sums = batch.flatten(1) @ WEIGHTS.T
    return torch.cat([sums, sums[:, :2] * sums[:, 2:]], dim=1)


@pytest.fixture
def encoder() -> cocoax.Encoder:
    return cocoax.Encoder(network, name="sums")


def picture(seed: int = 0) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize((SIZE, SIZE), Image.Resampling.BICUBIC)


def target(encoder: cocoax.Encoder) -> cocoax.Target:
    return cocoax.corpus_similarity(encoder.reference([picture(9)], cache=False), "dot")


def exact_effects(encoder: cocoax.Encoder, run: cocoax.Run, asked: cocoax.Target) -> Tensor:
    """E[score | kept] - E[score | removed] over all subsets of the other parts."""
    labels, tensor = run.explicand.label_map, run.explicand.tensor
    assert labels is not None
    bits = torch.tensor(list(product([0.0, 1.0], repeat=run.explicand.shape[0])))
    kept = bits[:, labels][:, None]
    scores = asked.score(network(kept * tensor + (1 - kept) * run.baseline), run.anchors[0]).double()
    return torch.stack(
        [scores[bits[:, part] == 1].mean() - scores[bits[:, part] == 0].mean() for part in range(bits.shape[1])]
    )


def test_refine__splits_what_counts_most(encoder: cocoax.Encoder) -> None:
    asked = target(encoder)
    run = cocoax.Rise(samples=400).run(encoder, picture(), features=Segments(4))
    for targets in ([], asked):
        finer = run.refine(targets, count=6, encoder=encoder)
        coarse, fine = run.explicand.label_map, finer.explicand.label_map
        assert coarse is not None
        assert fine is not None
        inside = [int(coarse[fine == part].unique()) for part in range(6)]  # each lies in one coarse part
        assert sorted(inside) != list(range(4))
        most = int(run.explicand.per_part(run.explain(asked).relative.abs()).argmax())
        if targets:
            assert inside.count(most) > 1


def test_refine__numbers_are_those_of_enumeration(encoder: cocoax.Encoder) -> None:
    asked = target(encoder)
    run = cocoax.Rise(samples=60).run(encoder, picture(), features=Segments(4)).refine(asked, count=6, encoder=encoder)
    assert len(run) == 60
    enumerated = replace(run.method, samples=64).run(encoder, run.explicand).explain(asked)
    assert enumerated.features is not None
    found = enumerated.relative
    labels = run.explicand.label_map
    assert labels is not None
    torch.testing.assert_close(found, exact_effects(encoder, run, asked)[labels], rtol=1e-3, atol=1e-5)


def test_refine__errors_cover_across_levels(encoder: cocoax.Encoder) -> None:
    asked, inside, total = target(encoder), 0, 0
    for seed in range(60):
        coarse = cocoax.Rise(samples=40, seed=2 * seed).run(encoder, picture(seed % 6), features=Segments(5))
        run = coarse.refine(asked, count=8, encoder=encoder)
        answer = run.explain(asked)
        assert answer.standard_error is not None
        apart = run.explicand.per_part(answer.relative) - exact_effects(encoder, run, asked)
        inside += int((apart.abs() <= 1.96 * run.explicand.per_part(answer.standard_error)).sum())
        total += len(apart)
    assert 0.92 <= inside / total <= 0.985


def test_refine__of_a_saved_run(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    run = cocoax.Rise(samples=40).run(encoder, picture(), features=Segments(4))
    loaded = cocoax.Run.load(run.save(tmp_path / "run.safetensors"))
    again, now = (each.refine(count=6, encoder=encoder) for each in (loaded, run))
    assert torch.equal(again.representations, now.representations)


def test_refine__bad_calls(encoder: cocoax.Encoder) -> None:
    run = cocoax.Rise(samples=40).run(encoder, picture(), features=Segments(4))
    with pytest.raises(ValueError, match="another one"):
        run.refine(encoder=cocoax.Encoder(lambda batch: network(batch) * 2 + batch.mean(), name="other"))
    with pytest.raises(ValueError, match="count"):
        run.refine(count=4, encoder=encoder)
    with pytest.raises(ValueError, match="segments"):
        cocoax.Rise(samples=40, grid=3).run(encoder, picture()).refine(encoder=encoder)


# --- one scale ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["efficient", "paper"])
def test_effects__one_number_by_run_field_table_and_index(encoder: cocoax.Encoder, tmp_path: Path, estimator: Any) -> None:
    """What is shown, listed and stored of an input is E[score | kept] - E[score | removed], by enumeration."""
    asked, method = target(encoder), cocoax.Rise(samples=64, estimator=estimator)
    run = method.run(encoder, picture(), features=Segments(6))
    expected = exact_effects(encoder, run, asked)
    answer = run.explain(asked)
    of_field = run.field("dot").explain(asked)
    (tmp_path / "photos").mkdir()
    picture().save(tmp_path / "photos" / "one.png")
    index = build(encoder, tmp_path / "photos", tmp_path / "index", method, similarity="dot", features=Segments(6))
    stored = index.field(0).explain(asked)
    for found in (answer, of_field, stored):
        torch.testing.assert_close(run.explicand.per_part(found.relative), expected, rtol=2e-3, atol=2e-4)
        listed = sorted(found.to_dataframe()["value"])
        np.testing.assert_allclose(listed, sorted(expected.tolist()), rtol=2e-3, atol=2e-4)
    assert answer.effects.unit == of_field.effects.unit == stored.effects.unit

"""Dropped tokens in runs, curves, fields and files, against shorter forward passes one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cocoax
from cocoax import DropTokens
from cocoax.inputs import Explicand
from cocoax.masking import MaskedEncoder
from cocoax.masking.removals import PRESETS, preset, presets_of
from cocoax.methods.run_cache import cached_run
from cocoax.survey.builder import EntryBuilder, _with_own_seed
from cocoax.survey.items import Item
from cocoax.survey.storage import IndexRecipe
from tests.conftest import SmallNet

SIDE, PATCH = 24, 4  # pixels of a picture and of a patch: 6 x 6 patches
TARGET = cocoax.representation_similarity()


class SmallTransformer(nn.Module):
    """A vision transformer: patches with places, a class token that is the representation."""

    def __init__(self, side: int = SIDE) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.embed = nn.Conv2d(3, 8, PATCH, PATCH)
            self.first = nn.Parameter(torch.randn(1, 1, 8))
            self.places = nn.Parameter(torch.randn((side // PATCH) ** 2, 8))
            self.blocks = nn.Sequential(*(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(2)))

    def tokens(self, images: Tensor) -> Tensor:
        patches = self.embed(images).flatten(2).mT + self.places
        return torch.cat([self.first.expand(len(images), -1, -1), patches], dim=1)

    def forward(self, images: Tensor) -> Tensor:
        representations: Tensor = self.blocks(self.tokens(images))[:, 0]
        return representations


@pytest.fixture
def encoder() -> cocoax.Encoder:
    return cocoax.Encoder(SmallTransformer().eval(), name="small transformer")


def picture(seed: int = 0, side: int = SIDE) -> Tensor:
    return torch.randn(3, side, side, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def slowly(encoder: cocoax.Encoder, image: Tensor, kept: Tensor, grid: tuple[int, int]) -> Tensor:
    """Return the representation ``[d]`` of the kept ones of ``grid`` cells, from a sequence of their tokens alone."""
    network: Any = encoder.module
    side = image.shape[1] // PATCH
    tokens = network.tokens(image[None])
    chosen = [0]
    for row, column in product(range(side), range(side)):
        if bool(kept.view(grid)[row * grid[0] // side, column * grid[1] // side]):
            chosen.append(1 + row * side + column)
    representation: Tensor = network.blocks(tokens[:, chosen])[0, 0]
    return representation


def score(representation: Tensor, own: Tensor) -> Tensor:
    return torch.cosine_similarity(representation, own, dim=-1)


def test_run__rise_is_the_mean_over_dropped_cells(encoder: cocoax.Encoder) -> None:
    image = picture()
    run = cocoax.Rise(samples=60, grid=3, baseline=DropTokens(), estimator="paper").run(encoder, image)
    bits = run.masks.full(slice(0, 60))
    assert bits.shape == (60, 9)
    expected = torch.stack([slowly(encoder, image, row, (3, 3)) for row in bits])
    torch.testing.assert_close(run.representations, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(run.anchors[1], slowly(encoder, image, torch.zeros(9), (3, 3)), rtol=1e-5, atol=1e-5)
    result = run.explain(TARGET)
    cells = (score(expected, run.anchors[0])[:, None] * bits).mean(0) / 0.5
    torch.testing.assert_close(result.features, cells)
    torch.testing.assert_close(result.values, cells.view(3, 3).repeat_interleave(8, 0).repeat_interleave(8, 1))
    assert result.standard_error is not None
    assert result.standard_error.shape == (SIDE, SIDE)


def test_run__cells_of_unequal_size(encoder: cocoax.Encoder) -> None:
    image = picture()
    run = cocoax.Rise(samples=40, grid=(4, 5), baseline=DropTokens()).run(encoder, image)  # of 6 x 6 patches
    bits = run.masks.full(slice(0, 40))
    expected = torch.stack([slowly(encoder, image, row, (4, 5)) for row in bits])
    torch.testing.assert_close(run.representations, expected, rtol=1e-5, atol=1e-5)
    values = run.explain(TARGET).values
    patches = values.view(6, PATCH, 6, PATCH)
    assert bool((patches == patches[:, :1, :, :1]).all())  # nothing changes within a patch


def test_run__kernel_shap_is_complete_and_exact(encoder: cocoax.Encoder) -> None:
    image, own = picture(), encoder.encode([picture()])[0]
    result = cocoax.KernelShap(samples=14, grid=2, baseline=DropTokens()).explain(encoder, image, TARGET)
    game = {bits: float(score(slowly(encoder, image, torch.tensor(bits), (2, 2)), own)) for bits in product((0, 1), repeat=4)}
    shapley = []
    for cell in range(4):
        total = 0.0
        for bits in (bits for bits in game if not bits[cell]):
            joined = tuple(1 if index == cell else bit for index, bit in enumerate(bits))
            weight = (1 / 4, 1 / 12, 1 / 12, 1 / 4)[sum(bits)]
            total += weight * (game[joined] - game[bits])
        shapley.append(total)
    torch.testing.assert_close(result.features, torch.tensor(shapley), rtol=1e-4, atol=1e-5)
    assert result.features is not None
    assert float(result.features.sum()) == pytest.approx(result.score - result.baseline_score, abs=1e-5)


def test_run__occlusion_drops_one_patch_at_a_time(encoder: cocoax.Encoder) -> None:
    image, own = picture(), encoder.encode([picture()])[0]
    result = cocoax.Occlusion(baseline=DropTokens()).explain(encoder, image, TARGET)
    for patch in (0, 7, 35):
        kept = (torch.arange(36) != patch).float()
        drop = 1 - float(score(slowly(encoder, image, kept, (6, 6)), own))
        row, column = divmod(patch, 6)
        assert float(result.values[row * PATCH, column * PATCH]) == pytest.approx(drop, abs=1e-5)


def test_run__saved_loaded_and_extended(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    method = cocoax.Rise(samples=20, grid=3, baseline=DropTokens())
    run = cocoax.Run.load(method.run(encoder, picture()).save(tmp_path / "run.safetensors")).extend(encoder, 10)
    longer = cocoax.Rise(samples=30, grid=3, baseline=DropTokens()).explain(encoder, picture(), TARGET)
    torch.testing.assert_close(run.explain(TARGET).values, longer.values, rtol=0, atol=1e-5)


def test_saved_run__is_told_from_another_grid_and_removal(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    lengths = {}
    for removal in (DropTokens(), DropTokens(grid=2), None):
        run = cached_run(encoder, picture(), cocoax.Rise(samples=20, grid=3, baseline=removal), folder=tmp_path)
        lengths[str(removal)] = run.masks.full(slice(0, 1)).numel()
        again = cached_run(encoder, picture(), cocoax.Rise(samples=24, grid=3, baseline=removal), folder=tmp_path)
        torch.testing.assert_close(again.representations[:20], run.representations, rtol=0, atol=0)
    assert list(lengths.values()) == [9, 4, SIDE * SIDE]
    assert len(list(tmp_path.glob("*.safetensors"))) == 3


def test_curves__drop_patches_in_order(encoder: cocoax.Encoder) -> None:
    image, own = picture(), encoder.encode([picture()])[0]
    values = torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    curve = cocoax.deletion(encoder, image, values, TARGET, steps=6, baseline=DropTokens())
    means = values.view(6, PATCH, 6, PATCH).mean((1, 3)).flatten()
    order = means.argsort(descending=True)
    for step in range(7):
        kept = torch.ones(36)
        kept[order[: 6 * step]] = 0
        assert float(curve.y[step]) == pytest.approx(float(score(slowly(encoder, image, kept, (6, 6)), own)), abs=1e-5)


def test_curves__of_a_map_of_dropped_tokens_by_another_removal(encoder: cocoax.Encoder) -> None:
    result = cocoax.Rise(samples=20, grid=3, baseline=DropTokens()).explain(encoder, picture(), TARGET)
    curve = cocoax.insertion(encoder, picture(), result, TARGET, steps=4, baseline=cocoax.Mean())
    assert float(curve.y[-1]) == pytest.approx(1)


@pytest.mark.parametrize("grid", [(2, 3), (4, 5)], ids=["equal cells", "unequal ones"])
def test_field__has_a_vector_for_each_cell(grid: tuple[int, int], encoder: cocoax.Encoder, tmp_path: Path) -> None:
    run = cocoax.Rise(samples=40, grid=grid, baseline=DropTokens()).run(encoder, picture())
    field = cocoax.Field.load(run.field().save(tmp_path / "field.safetensors"))
    assert len(field.values) == grid[0] * grid[1]
    torch.testing.assert_close(field.explain(TARGET).values, run.explain(TARGET).values, rtol=1e-2, atol=2e-3)


def test_entry__of_an_index_has_the_field_of_a_run(encoder: cocoax.Encoder) -> None:
    method = cocoax.Rise(samples=40, grid=(2, 3), baseline=DropTokens())
    maker = EntryBuilder(encoder, IndexRecipe(method), encoder.space)
    first, second = maker.make([maker.read(Item(name, picture(seed))) for seed, name in enumerate("ab")])
    assert (first.error, second.error) == (None, None)
    run = _with_own_seed(method, "b").run(encoder, picture(1))
    vectors, anchors = (torch.nn.functional.normalize(part.double()) for part in (run.representations, run.anchors))
    effects = run.method.effects(run.masks, vectors, anchors).values  # [d, cells]
    assert second.field is not None
    torch.testing.assert_close(second.field, effects.reshape(-1, 2, 3).movedim(0, -1).float(), rtol=1e-3, atol=1e-5)


def test_interactions__of_two_pictures(encoder: cocoax.Encoder) -> None:
    run_a, run_b = (
        cocoax.KernelShap(samples=14, grid=2, baseline=DropTokens()).run(encoder, picture(seed)) for seed in (0, 1)
    )
    pairs = cocoax.interactions(run_a, run_b)
    assert pairs.values.shape == (2, 2, 2, 2)
    a, b = (torch.nn.functional.normalize(run.anchors.double()) for run in (run_a, run_b))
    expected = (a[0] - a[1]) @ (b[0] - b[1])
    assert float(pairs.values.sum()) == pytest.approx(float(expected), abs=1e-5)


def test_interactions__each_cell_once_whatever_its_size() -> None:
    """Six patches a side in four cells: some have one patch, some two; the border that is never seen has no part."""
    encoder = cocoax.Encoder(SmallTransformer().eval(), name="small transformer")
    pictures = [torch.randn(3, SIDE + 2, SIDE + 3, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1)]
    runs = [cocoax.Rise(samples=60, grid=4, baseline=DropTokens(), seed=3).run(encoder, picture) for picture in pictures]
    pairs = cocoax.interactions(*runs)
    assert pairs.values.shape == (4, 4, 4, 4)
    assert len(set(pairs.top(5))) == 5
    assert pairs.a.names[5] == "row 2, column 2"
    members = runs[0].explicand.feature_ids
    assert members is not None
    given = pairs.given((1, 2))
    assert given.values.shape == members.shape
    assert given.features is not None
    for cell in range(16):
        assert bool((given.values[members == cell] == given.features[cell]).all())
    assert not bool(given.values[members < 0].any())
    assert given.score == pytest.approx(float(given.features.sum()))
    rows, columns = (members == 5).nonzero().T
    left, top, width, height = (
        torch.tensor(pairs.a.link_side.cell_box(5)).mul(torch.tensor([SIDE + 3, SIDE + 2] * 2)).tolist()
    )
    assert (left, top) == pytest.approx((int(columns.min()), int(rows.min())))
    assert (left + width, top + height) == pytest.approx((int(columns.max()) + 1, int(rows.max()) + 1))
    pairs.plot()
    assert 'aria-label="bottom right, ' in pairs.html()


def test_interactions__parts_that_are_no_grid(encoder: cocoax.Encoder) -> None:
    members = torch.zeros(SIDE, SIDE, dtype=torch.int64)
    members[SIDE // 2 :, SIDE // 2 :] = 1
    explicand = replace(encoder.explicand(picture()), feature_ids=members)
    run = cocoax.KernelShap(samples=2, baseline=DropTokens()).run(encoder, explicand)
    pairs = cocoax.interactions(run, run)
    assert pairs.values.shape == (2, 2)
    assert len(set(pairs.a.names)) == 2
    assert pairs.a.names[1].startswith("bottom right")
    assert pairs.given(1).values.shape == (SIDE, SIDE)


def test_field__what_the_encoder_does_not_see_is_neutral() -> None:
    encoder = cocoax.Encoder(SmallTransformer().eval(), name="small transformer")
    image = torch.randn(3, SIDE + 2, SIDE + 3, generator=torch.Generator().manual_seed(0))
    run = cocoax.Rise(samples=30, grid=3, baseline=DropTokens()).run(encoder, image)
    shown, whole = run.field().explain(TARGET), run.explain(TARGET)
    steps = [full // part for full, part in zip(whole.values.shape, shown.values.shape, strict=True)]
    torch.testing.assert_close(shown.values, whole.values[:: steps[0], :: steps[1]], rtol=0, atol=1e-5)
    assert shown.standard_error is not None
    assert not bool(shown.standard_error[-1].any())


def test_game__everything_and_nothing(encoder: cocoax.Encoder) -> None:
    game = MaskedEncoder(encoder, encoder.explicand(picture()), DropTokens())
    assert game.explicand.shape == (36,)
    torch.testing.assert_close(game.anchors[0], encoder.encode([picture()])[0])
    # Only the class token is left: the same for every picture.
    torch.testing.assert_close(
        game.anchors[1], MaskedEncoder(encoder, encoder.explicand(picture(5)), DropTokens()).anchors[1]
    )


def test_explain__what_the_encoder_does_not_see_is_neutral() -> None:
    encoder = cocoax.Encoder(SmallTransformer().eval(), name="small transformer")
    image = torch.randn(3, SIDE + 2, SIDE + 3, generator=torch.Generator().manual_seed(0))  # incomplete patches at the border
    result = cocoax.Rise(samples=30, grid=3, baseline=DropTokens()).explain(encoder, image, TARGET)
    assert result.values.shape == (SIDE + 2, SIDE + 3)
    assert not bool(result.relative[SIDE:].abs().gt(1e-6).any())
    assert not bool(result.relative[:, SIDE:].abs().gt(1e-6).any())


def test_explain__features_of_whole_patches_given(encoder: cocoax.Encoder) -> None:
    halves = torch.zeros(SIDE, SIDE, dtype=torch.int64)
    halves[:, SIDE // 2 :] = 1
    result = cocoax.Rise(samples=10, baseline=DropTokens()).explain(encoder, Explicand(picture(), feature_ids=halves), TARGET)
    assert result.features is not None
    assert result.features.shape == (2,)
    halves[:, 9:] = 1  # within a patch
    with pytest.raises(ValueError, match="removes whole patches of 4 x 4 pixels, and features of this input cut through"):
        cocoax.Rise(samples=10, baseline=DropTokens()).explain(encoder, Explicand(picture(), feature_ids=halves), TARGET)


def test_explain__a_grid_finer_than_the_patches(encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match=r"7 x 7 is finer than the 6 x 6 patches that 'small transformer' cuts"):
        cocoax.Rise(samples=10, grid=7, baseline=DropTokens()).explain(encoder, picture(), TARGET)
    with pytest.raises(ValueError, match="'grid' parameter must be at least 1"):
        DropTokens(grid=0)


def test_explain__no_patches() -> None:
    encoder = cocoax.Encoder(SmallNet(), name="small")
    with pytest.raises(ValueError, match=r"DropTokens leaves patches out .* but 'small' has .*cocoax\.Blur\(\)"):
        cocoax.Rise(samples=10, grid=2, baseline=DropTokens()).explain(encoder, picture(), TARGET)
    rows = cocoax.TabularEncoder(lambda rows: rows, columns=["a", "b"], name="rows")
    with pytest.raises(ValueError, match="DropTokens is for pictures and vision transformers"):
        cocoax.Rise(samples=10, baseline=DropTokens()).explain(rows, [1.0, 2.0], TARGET)


@pytest.mark.parametrize("method", [cocoax.IntegratedGradients(steps=3, baseline=DropTokens()), "captum"])
def test_explain__gradients_need_an_input_to_begin_at(method: Any, encoder: cocoax.Encoder) -> None:
    method = cocoax.Captum("IntegratedGradients", baseline=DropTokens()) if method == "captum" else method
    with pytest.raises(ValueError, match="needs another input to compare with, and DropTokens has none"):
        method.explain(encoder, picture(), TARGET)


def test_offered__by_name_where_there_are_tokens(encoder: cocoax.Encoder) -> None:
    pictures = cocoax.ImagePreprocess(resize=SIDE, crop=SIDE)
    seeing = cocoax.Encoder(encoder.module, pictures, name="small transformer")
    assert preset("drop-tokens", seeing.inputs) == DropTokens()
    assert presets_of(seeing)["drop tokens"] == DropTokens()
    assert set(presets_of(cocoax.Encoder(SmallNet().eval(), pictures, name="small"))) == set(PRESETS)


def test_interactions__parts_of_a_picture_have_no_other_grid() -> None:
    encoder = cocoax.Encoder(SmallTransformer().eval())
    method = cocoax.Rise(samples=20, grid=3, baseline=cocoax.DropTokens())
    first, second = (method.run(encoder, picture(seed), progress=False) for seed in (0, 1))
    usual = cocoax.interactions(first, second)
    assert torch.equal(cocoax.interactions(first, second, grid=usual.a.shape).values, usual.values)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"are parts of a picture, \d+ x \d+ of them, .* leave 'grid' out"):
        cocoax.interactions(first, second, grid=5)

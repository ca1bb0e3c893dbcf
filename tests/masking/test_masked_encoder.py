"""The game: masks become representations, compared with masking the inputs one element at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cocoax
from cocoax.inputs import Explicand
from cocoax.masking import BitMasks, GridMasks, MaskedEncoder, Masks
from cocoax.masking.masked_encoder import score_anchors, score_masked
from tests.conftest import SmallNet, images
from tests.kinds import CHANNELS, STEPS, RecordingNet, Recordings, Series, SeveralConstants, recording_encoder, recordings
from tests.tiny import save_bert

TEXT = "The violinist parked her big car."


def slowly_blended(explicand: Explicand, baselines: Sequence[Tensor], kept: Tensor) -> list[Tensor]:
    """Return the explicand with one mask, element by element, once for each baseline."""
    tensor = explicand.tensor
    versions = []
    for baseline in baselines:
        masked = torch.empty_like(tensor)
        for place in torch.cartesian_prod(*(torch.arange(side) for side in tensor.shape)).tolist():
            if explicand.feature_ids is None:
                share = float(kept[tuple(place[1:])])
            else:
                feature = int(explicand.feature_ids[tuple(place[tensor.ndim - explicand.feature_ids.ndim :])])
                share = 1.0 if feature < 0 else float(kept[feature])
            masked[tuple(place)] = share * tensor[tuple(place)] + (1 - share) * baseline[tuple(place)]
        versions.append(masked)
    return versions


def check(
    encoder: cocoax.Encoder, explicand: Explicand, game: MaskedEncoder, masks: Masks, baselines: Sequence[Tensor]
) -> None:
    """Compare a game's representations with those of inputs that were masked slowly, each encoded alone."""
    rows = masks.full(slice(0, len(masks))).reshape(len(masks), *explicand.shape)
    slow = [torch.cat([encoder.encode([version]) for version in slowly_blended(explicand, baselines, row)]) for row in rows]
    expected = torch.stack(slow) if len(baselines) > 1 else torch.cat(slow)
    torch.testing.assert_close(torch.cat(list(game.encode(masks, 0))), expected)
    anchors = torch.cat([encoder.encode([end]) for end in (explicand.tensor, *slowly_emptied(explicand, baselines))])
    torch.testing.assert_close(game.anchors, anchors)


def slowly_emptied(explicand: Explicand, baselines: Sequence[Tensor]) -> list[Tensor]:
    return slowly_blended(explicand, baselines, torch.zeros(explicand.shape))


def test_encode__pictures(encoder: cocoax.Encoder) -> None:
    explicand = encoder.explicand(images(1, 8, 6)[0])
    masks = GridMasks.draw(8, 6, (3, 2), 0.5, 9, seed=1)
    check(encoder, explicand, MaskedEncoder(encoder, explicand), masks, [cocoax.Blur(121, 20.0)(explicand.tensor)])
    mean = cocoax.Mean()
    check(encoder, explicand, MaskedEncoder(encoder, explicand, mean), masks, [mean(explicand.tensor)])


def test_encode__pictures_with_several_baselines(encoder: cocoax.Encoder) -> None:
    explicand = encoder.explicand(images(1, 8, 6)[0])
    several = SeveralConstants(0.0, 1.0, -0.5)
    masks = GridMasks.draw(8, 6, 2, 0.5, 4, seed=1)
    check(encoder, explicand, MaskedEncoder(encoder, explicand, several), masks, list(several(explicand.tensor)))


@pytest.mark.parametrize("draws", [None, 3, 100])
def test_encode__rows(draws: int | None) -> None:
    table = torch.randn(5, 4, generator=torch.Generator().manual_seed(2))
    matrix = nn.Parameter(torch.randn(4, 3, generator=torch.Generator().manual_seed(3)))
    encoder = cocoax.TabularEncoder(lambda rows: torch.tanh(rows @ matrix), columns=list("abcd"), name="rows")
    explicand = encoder.explicand(torch.tensor([0.3, -1.0, 2.0, 0.5]))
    background = cocoax.Background(table, draws=draws)
    baselines = background(explicand.tensor)
    masks = BitMasks.draw(4, 0.5, 20, seed=0)
    game = MaskedEncoder(encoder, explicand, background)
    check(encoder, explicand, game, masks, [baselines] if draws is None else list(baselines))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return cocoax.load(f"st:{save_bert(tmp_path_factory.mktemp('bert'))}")


@pytest.mark.parametrize("features", ["words", "tokens", "sentences"])
@pytest.mark.parametrize("how", ["mask", "deletion", "attention"])
def test_encode__texts(how: str, features: Any, text: cocoax.TextEncoder) -> None:
    encoder = text.by(features)
    explicand = encoder.explicand(TEXT + " A red cat.")
    assert explicand.feature_ids is not None
    masks = BitMasks.draw(explicand.shape[0], 0.5, 12, seed=0)
    expected = []
    for row in [*masks.bits, torch.zeros(explicand.shape, dtype=torch.uint8)]:
        ids, attention = [], []
        for token, member in zip(explicand.tensor.tolist(), explicand.feature_ids.tolist(), strict=True):
            stays = member < 0 or bool(row[member])
            if stays or how != "deletion":
                ids.append(text.inputs.mask if how == "mask" and not stays else token)
                attention.append(0 if how == "attention" and not stays else 1)
        batch = {"input_ids": torch.tensor([ids]), "attention_mask": torch.tensor([attention])}
        with torch.no_grad():
            expected.append(encoder(batch))
    game = MaskedEncoder(encoder, explicand, how)
    torch.testing.assert_close(torch.cat(list(game.encode(masks, 0))), torch.cat(expected[:-1]))
    torch.testing.assert_close(game.anchors, torch.cat([encoder.represent(TEXT + " A red cat."), expected[-1]]))


@pytest.mark.parametrize("fixed", [0, 3])
@pytest.mark.parametrize("values", [(0.5,), (0.0, 1.0), (0.0, 1.0, -1.0)])  # three: as many as there are channels
def test_encode__channels_with_features_of_their_own(values: tuple[float, ...], fixed: int) -> None:
    encoder = recording_encoder(Recordings(fixed=fixed))
    explicand = encoder.explicand(recordings(1)[0])
    assert explicand.shape == (2 * CHANNELS,)
    baseline: Any = cocoax.Constant(0.5) if len(values) == 1 else SeveralConstants(*values)
    baselines = [torch.full((CHANNELS, STEPS), value) for value in values]
    masks = BitMasks.draw(2 * CHANNELS, 0.5, 20, seed=0)
    check(encoder, explicand, MaskedEncoder(encoder, explicand, baseline), masks, baselines)


def test_encode__steps_of_all_channels_together() -> None:
    encoder = recording_encoder(Series())
    explicand = encoder.explicand(recordings(1)[0])
    assert explicand.shape == (STEPS,)
    masks = BitMasks.draw(STEPS, 0.5, 20, seed=0)
    check(
        encoder,
        explicand,
        MaskedEncoder(encoder, explicand, SeveralConstants(0.0, 1.0)),
        masks,
        [torch.zeros(3, 10), torch.ones(3, 10)],
    )


def test_encode__from_a_mask_on(encoder: cocoax.Encoder) -> None:
    game = MaskedEncoder(encoder, encoder.explicand(images(1)[0]))
    masks = GridMasks.draw(16, 16, 4, 0.5, 150, seed=1)
    whole = torch.cat(list(game.encode(masks, 0)))
    torch.testing.assert_close(torch.cat(list(game.encode(masks, 100, batch_size=7))), whole[100:])


@pytest.mark.parametrize("batch_size", [1, 4, 7])
def test_encode__batch_size_counts_every_baseline(batch_size: int) -> None:
    encoder = recording_encoder()
    game = MaskedEncoder(encoder, encoder.explicand(recordings(1)[0]), SeveralConstants(*range(5)))
    module: Any = encoder.module
    module.batches = []
    list(game.encode(BitMasks.draw(2 * CHANNELS, 0.5, 10, seed=0), 0, batch_size))
    assert max(module.batches) <= batch_size


def test_encode__memory_that_ran_out_is_remembered_within_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    class Limited(RecordingNet):
        def forward(self, batch: Tensor) -> Tensor:
            if len(batch) > 16:
                self.batches = [*self.batches, len(batch)]
                raise MemoryError
            return super().forward(batch)

    module = Limited()
    encoder = cocoax.Encoder(module, inputs=Recordings(segments=5))
    game = MaskedEncoder(encoder, encoder.explicand(recordings(1)[0]))
    list(game.encode(BitMasks.draw(5 * CHANNELS, 0.5, 400, seed=0), 0))
    assert sum(size > 16 for size in module.batches) <= 3  # 64, 32, and never again


def test_encode__where_the_encoder_is(monkeypatch: pytest.MonkeyPatch) -> None:
    meta = torch.device("meta")  # no numbers, but no mixing with other devices either
    for encoder, item, masks in (
        (cocoax.Encoder(SmallNet()), images(1, 8, 8)[0], GridMasks.draw(8, 8, 2, 0.5, 5, seed=0)),
        (recording_encoder(Recordings(fixed=2)), recordings(1)[0], BitMasks.draw(2 * CHANNELS, 0.5, 5, seed=0)),
    ):
        game = MaskedEncoder(encoder, encoder.explicand(item), SeveralConstants(0.0, 1.0) if item.ndim == 2 else None)
        devices: list[torch.device] = []

        def encode(prepared: Tensor, devices: list[torch.device] = devices) -> Tensor:
            devices.append(prepared.device)
            return torch.zeros(len(prepared), 4)

        monkeypatch.setattr(type(encoder), "device", property(lambda _self: meta))
        monkeypatch.setattr(game.encoder, "encode", encode)
        assert len(torch.cat(list(game.encode(masks, 0)))) == 5
        assert set(devices) == {meta}
        monkeypatch.undo()


def test_encode__not_finite_says_what_else_to_take() -> None:
    matrix = nn.Parameter(torch.ones(2, 3))

    def module(rows: Tensor) -> Tensor:
        return torch.where((rows == 0).sum(1, keepdim=True) == 1, torch.nan, rows @ matrix)

    encoder = cocoax.TabularEncoder(module, columns=["a", "b"], background=torch.zeros(1, 2), name="nan")
    game = MaskedEncoder(encoder, encoder.explicand([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"masked input \d+ is not finite.*Columns take cocoax\.Background\(rows\)"):
        list(game.encode(BitMasks.draw(2, 0.5, 20, seed=0), 0))


def test_ends__baseline_of_another_shape() -> None:
    class Flat(cocoax.Baseline):
        def __call__(self, explicand: Tensor) -> Tensor:
            return explicand.flatten()

    encoder = recording_encoder()
    with pytest.raises(ValueError, match=r"Flat.* shape \[30\] .*input of shape \[3, 10\]"):
        MaskedEncoder(encoder, encoder.explicand(recordings(1)[0]), Flat())


def test_ends__baseline_of_another_precision_or_with_gradients() -> None:
    class Learned(cocoax.Baseline):
        def __call__(self, explicand: Tensor) -> Tensor:
            return nn.Parameter(torch.zeros_like(explicand, dtype=torch.float64))

    encoder = recording_encoder()
    game = MaskedEncoder(encoder, encoder.explicand(recordings(1)[0]), Learned())
    assert game.baseline_input.dtype == torch.float32
    assert not game.baseline_input.requires_grad


def test_game__folds_only_where_masks_are_encoded() -> None:
    class Normed(SmallNet):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm2d(6)

        def forward(self, batch: Tensor) -> Tensor:
            self.inputs += len(batch)
            return self.fc(self.pool(self.act(self.norm(self.conv(batch)))).flatten(1))  # type: ignore[no-any-return]

    net = Normed().eval()
    encoder = cocoax.Encoder(net)
    encoder.represent(images(2))  # it is looked at twice once
    before = net.inputs
    cocoax.RandomAttribution().explain(encoder, images(1, seed=3)[0], cocoax.representation_similarity())
    assert net.inputs - before == 3  # the probe, the explicand and its blur
    assert encoder._copies is None


@dataclass(frozen=True)
class Halved(cocoax.masking.Removal):
    """A removal that is no blend: what is removed is halved."""

    def baseline_input(self, explicand: Explicand) -> Tensor:
        return explicand.tensor / 2

    def masked(self, explicand: Explicand, baseline_input: Tensor, kept: Tensor) -> Tensor:
        stays = explicand.elements_kept(kept).bool()
        return torch.where(stays, explicand.tensor, baseline_input)


def test_encode__removal_of_ones_own() -> None:
    encoder = recording_encoder()
    explicand = encoder.explicand(recordings(1)[0])
    masks = BitMasks.draw(2 * CHANNELS, 0.5, 20, seed=0)
    check(encoder, explicand, MaskedEncoder(encoder, explicand, Halved()), masks, [explicand.tensor / 2])


def test_score__mean_over_several_baselines() -> None:
    encoder = recording_encoder()
    target = cocoax.corpus_similarity(encoder.reference(recordings(3, seed=1)))
    game = MaskedEncoder(encoder, encoder.explicand(recordings(1)[0]), SeveralConstants(0.0, 1.0))
    every = target.score(game.anchors)
    assert game.score([target])[:, 0].tolist() == pytest.approx([float(every[0]), float(every[1:].mean())])
    assert torch.equal(score_anchors([target], game.anchors), game.score([target]))
    masked = torch.cat(list(game.encode(BitMasks.draw(2 * CHANNELS, 0.5, 4, seed=0), 0)))
    expected = torch.stack([target.score(row).mean() for row in masked])
    torch.testing.assert_close(score_masked([target], masked, game.anchors)[:, 0], expected)


def test_score__zero_representation_says_which(tmp_path: Path) -> None:
    encoder = cocoax.Encoder(lambda batch: batch.flatten(1), name="flat")
    target = cocoax.representation_similarity()
    for method in (cocoax.VanillaGradients, cocoax.Occlusion, cocoax.RandomAttribution):
        with pytest.raises(ValueError, match=r"representation of the explicand is zero.*use another explicand"):
            method().explain(encoder, torch.zeros(3, 8, 8), target)
    with pytest.raises(ValueError, match=r"representation of the baseline is zero.*use another baseline"):
        cocoax.IntegratedGradients(steps=2, baseline=cocoax.Constant(0.0)).explain(encoder, images(1, 8, 8)[0], target)

from pathlib import Path

import pytest
import torch
from border import Border
from kept_mean import KeptMean
from torch import Tensor, nn

import cocoax
from cocoax.inputs import Explicand


def small() -> cocoax.Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return cocoax.Encoder(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten()))


def picture(seed: int = 0) -> Tensor:
    return torch.randn(3, 7, 9, generator=torch.Generator().manual_seed(seed))


def test_border__slow_version() -> None:
    x = picture()
    outer = [x[:, row, column] for row in range(7) for column in range(9) if row in (0, 6) or column in (0, 8)]
    expected = torch.stack(outer).mean(0)
    torch.testing.assert_close(Border()(x), expected[:, None, None].expand(3, 7, 9))


def test_border__wrong_width() -> None:
    with pytest.raises(ValueError, match="'width' parameter must be at least 1"):
        Border(0)


def test_kept_mean__slow_version() -> None:
    x = picture()
    mask = (torch.rand(2, 7, 9, generator=torch.Generator().manual_seed(1)) < 0.5).float()
    explicand = Explicand(x)
    masked = KeptMean().masked(explicand, KeptMean().baseline_input(explicand), mask)
    for number, channel in [(0, 0), (1, 2)]:
        fill = x[channel][mask[number] == 1].mean()
        expected = torch.where(mask[number] == 1, x[channel], fill)
        torch.testing.assert_close(masked[number, channel], expected)


def test_kept_mean__both_ends() -> None:
    explicand = Explicand(picture())
    baseline_input = KeptMean().baseline_input(explicand)
    both = KeptMean().masked(explicand, baseline_input, torch.stack([torch.ones(7, 9), torch.zeros(7, 9)]))
    torch.testing.assert_close(both, torch.stack([explicand.tensor, baseline_input]))


def test_kept_mean__what_is_never_removed_stays() -> None:
    explicand = Explicand(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), feature_ids=torch.tensor([0, 0, 1, -1]))
    masked = KeptMean().masked(explicand, KeptMean().baseline_input(explicand), torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    torch.testing.assert_close(masked, torch.tensor([[[3.5, 3.5, 3.0, 4.0]], [[4.0, 4.0, 4.0, 4.0]]]))


def test_kept_mean__channels_with_features_of_their_own() -> None:
    feature_ids = torch.tensor([[0, 0, 1], [2, 2, 3]])  # two channels of three places
    explicand = Explicand(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), feature_ids=feature_ids)
    masked = KeptMean().masked(explicand, KeptMean().baseline_input(explicand), torch.tensor([[1.0, 0.0, 0.0, 1.0]]))
    torch.testing.assert_close(masked, torch.tensor([[[1.0, 2.0, 1.5], [6.0, 6.0, 6.0]]]))


def test_run__saved_loaded_and_extended(tmp_path: Path) -> None:
    encoder, target = small(), cocoax.representation_similarity()
    run = cocoax.Rise(samples=20, grid=3, baseline=KeptMean()).run(encoder, picture())
    loaded = cocoax.Run.load(run.save(tmp_path / "run.safetensors")).extend(encoder, 10)
    longer = cocoax.Rise(samples=30, grid=3, baseline=KeptMean()).explain(encoder, picture(), target)
    torch.testing.assert_close(loaded.explain(target).values, longer.values, rtol=0, atol=1e-5)


def test_explain__columns_too() -> None:
    encoder = cocoax.TabularEncoder(lambda rows: rows + 1, columns=["a", "b", "c"], name="rows")
    result = cocoax.KernelShap(samples=6, baseline=KeptMean()).explain(
        encoder, [1.0, 2.0, 6.0], cocoax.representation_similarity("dot")
    )
    assert float(result.values.sum()) == pytest.approx(result.score - result.baseline_score, abs=1e-4)

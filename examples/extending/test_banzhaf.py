from pathlib import Path

import pytest
import torch
from banzhaf import Banzhaf
from torch import Tensor, nn

import cocoax


class Net(nn.Module):
    """A small network that counts its inputs."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(3 * 64, 5, generator=generator))
        self.inputs = 0

    def forward(self, images: Tensor) -> Tensor:
        self.inputs += len(images)
        return torch.tanh(images.flatten(1) @ self.weight / 8) + 0.3


def images(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


def setting() -> tuple[cocoax.Encoder, Tensor, cocoax.Target]:
    encoder = cocoax.Encoder(Net())
    corpus, foil = encoder.reference(images(4, seed=1)), encoder.reference(images(5, seed=2))
    return encoder, images(1)[0], cocoax.contrastive_corpus_similarity(corpus, foil)


def test_values__slow_version() -> None:
    encoder, picture, target = setting()
    method = Banzhaf(samples=30, grid=2, baseline=cocoax.Constant(0.0))
    masks = method.draw((8, 8)).full(slice(0, 30))
    scores = [float(target.score(encoder.represent((picture * mask)[None]))) for mask in masks]
    result = method.explain(encoder, picture, target)
    for y, x in [(0, 0), (3, 4), (7, 7)]:
        kept = [score for score, mask in zip(scores, masks, strict=True) if mask[y, x] == 1]
        removed = [score for score, mask in zip(scores, masks, strict=True) if mask[y, x] == 0]
        expected = sum(kept) / len(kept) - sum(removed) / len(removed)
        assert float(result.values[y, x]) == pytest.approx(expected, abs=1e-5)


def test_values__of_a_linear_encoder_are_known() -> None:
    encoder = cocoax.TabularEncoder(lambda rows: rows, columns=["a", "b", "c"], name="rows")
    target = cocoax.similarity_to(encoder.reference([[1.0, 2.0, -1.0]]), "dot")
    result = Banzhaf(samples=4000, baseline=cocoax.Constant(0.0)).explain(encoder, [3.0, 1.0, 2.0], target)
    truth = torch.tensor([3.0, 2.0, -2.0])  # the product of each column with that of the reference
    assert result.names == ("a", "b", "c")
    assert result.standard_error is not None
    assert bool(((result.values - truth).abs() < 4 * result.standard_error).all())


def test_estimate__linear_in_the_scores() -> None:
    method, generator = Banzhaf(samples=30, grid=2), torch.Generator().manual_seed(0)
    masks = method.draw((8, 8))
    a, b = torch.randn(2, 30, 1, generator=generator)
    ends_a, ends_b = torch.randn(2, 2, 1, generator=generator)
    separately = method.estimate(masks, a, ends_a).values + method.estimate(masks, b, ends_b).values
    torch.testing.assert_close(method.estimate(masks, a + b, ends_a + ends_b).values, separately)


def test_run__longer_saved_and_loaded(tmp_path: Path) -> None:
    encoder, picture, target = setting()
    run = Banzhaf(samples=20, grid=2).run(encoder, picture)
    loaded = cocoax.Run.load(run.save(tmp_path / "run.safetensors"))
    assert torch.equal(loaded.explain(target).values, run.explain(target).values)
    longer = Banzhaf(samples=30, grid=2).explain(encoder, picture, target)
    assert torch.equal(loaded.extend(encoder, 10).explain(target).values, longer.values)


def test_explain__many_targets_cost_one_run() -> None:
    encoder, picture, target = setting()
    encoder.represent(images(2))  # its first inputs are encoded twice, to see whether it is random
    before = encoder.module.inputs
    Banzhaf(samples=20, grid=2).explain(encoder, picture, [target, 2 * target, cocoax.representation_similarity()])
    assert (
        encoder.module.inputs - before == 20 + 2 + 1
    )  # the masks, the two ends, and the probe by which the encoder is known


def test_explain__several_pictures_as_each_alone() -> None:
    encoder, picture, target = setting()
    method = Banzhaf(samples=20, grid=2)
    together = method.explain(encoder, [images(1, seed=7)[0], picture], target)
    assert torch.equal(together[1].values, method.explain(encoder, picture, target).values)


def test_estimate__too_few_samples() -> None:
    encoder, picture, target = setting()
    with pytest.raises(ValueError, match="too few to tell every feature apart"):
        Banzhaf(samples=4, grid=4).explain(encoder, picture, target)

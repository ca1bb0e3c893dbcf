"""Runs: encode once, ask anything, save, load, extend."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from tqdm import tqdm

import cocoax
from cocoax.masking import GridMasks, Removal
from cocoax.methods import run as run_module
from cocoax.methods.estimate import Estimate
from cocoax.methods.rise import relative_error
from cocoax.methods.run import RemovalMethod
from cocoax.store import read_safetensors, write_safetensors
from tests.conftest import SmallNet, images
from tests.methods.runs import EXTENDABLE, METHODS, SAMPLED, assert_identical, every_method

# --- what a run holds -------------------------------------------------------------------------------------------------


@every_method
def test_run__representations_of_the_masked_inputs(net: SmallNet, encoder: cocoax.Encoder, method: RemovalMethod) -> None:
    explicand = images(1)[0]

    run = method.run(encoder, explicand)

    assert len(run) == len(run.masks) == len(run.representations)
    assert not run.representations.requires_grad
    for i in range(len(run)):
        mask = run.masks.full(slice(i, i + 1))[0]
        masked = explicand * mask + run.baseline * (1 - mask)
        torch.testing.assert_close(run.representations[i], net(masked[None])[0].detach(), atol=1e-5, rtol=0)
    torch.testing.assert_close(run.anchors, net(torch.stack([explicand, run.baseline])).detach(), atol=1e-6, rtol=0)


# --- run once, ask anything -------------------------------------------------------------------------------------------


@every_method
def test_explain__twenty_targets_for_the_price_of_one(
    net: SmallNet, encoder: cocoax.Encoder, corpus: cocoax.Reference, foil: cocoax.Reference, method: RemovalMethod
) -> None:
    explicand = images(1)[0]
    targets = [cocoax.similarity_to(corpus) - (k / 5) * cocoax.similarity_to(foil) for k in range(10)]
    targets += [cocoax.similarity_to(corpus, "dot") - (k / 5) * cocoax.similarity_to(foil, "dot") for k in range(8)]
    targets += [cocoax.representation_similarity(), cocoax.contrastive_similarity(foil, "rbf")]
    assert len(targets) == 20

    before = net.inputs
    method.explain(encoder, explicand, targets[0])
    one = net.inputs - before
    before = net.inputs
    many = method.explain(encoder, explicand, targets)

    assert net.inputs - before == one == many[0].metadata["samples"] + 2  # the two ends
    assert len(many) == 20


@every_method
def test_explain__does_not_touch_the_encoder(
    net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target, method: RemovalMethod
) -> None:
    run = method.run(encoder, images(1)[0])
    before = net.inputs

    run.explain([target, cocoax.representation_similarity()])

    assert net.inputs == before


def test_explain__kernel_similarity_from_a_run(encoder: cocoax.Encoder, corpus: cocoax.Reference) -> None:
    run = cocoax.Rise(samples=40, grid=4, estimator="paper").run(encoder, images(1)[0])

    result = run.explain(cocoax.similarity_to(corpus, cocoax.Rbf(gamma=0.05)))

    assert corpus.samples is not None
    expected = np.zeros((16, 16))
    for i, z in enumerate(run.representations.double().numpy()):
        similarities = [np.exp(-0.05 * ((z - r) ** 2).sum()) for r in corpus.samples.double().numpy()]
        expected += np.mean(similarities) * run.masks.full(slice(i, i + 1))[0].double().numpy() / 0.5 / 40
    np.testing.assert_allclose(result.values.numpy(), expected, atol=1e-5)


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", range(0, 64, 8))
def test_save__bit_identical_however_the_file_is_aligned(
    encoder: cocoax.Encoder, target: cocoax.Target, padding: int, tmp_path: Path
) -> None:
    # The length of a file's header decides where in memory its tensors lie, and matrix products of tensors that are
    # aligned in another way differ in the last bit.
    run = cocoax.Rise(samples=20, grid=4).run(encoder, images(1)[0])
    run.encoder = "x" * (padding + 1)

    loaded = cocoax.Run.load(run.save(tmp_path / "run.safetensors"))

    assert_identical(loaded.explain(target), run.explain(target))


BASELINES: dict[str, Any] = {
    "constant": cocoax.Constant((0.1, 0.2, 0.3)),
    "mean": cocoax.Mean(),
    "noise": cocoax.Noise(std=0.3, seed=4),
    "fixed": cocoax.Fixed(images(1, seed=9)[0]),
    "tensor": images(1, seed=9)[0],
}


@pytest.mark.parametrize("baseline", BASELINES.values(), ids=BASELINES.keys())
def test_save__every_baseline(encoder: cocoax.Encoder, target: cocoax.Target, baseline: Any, tmp_path: Path) -> None:
    run = cocoax.Rise(samples=20, grid=4, baseline=baseline).run(encoder, images(1)[0])

    loaded = cocoax.Run.load(run.save(tmp_path / "run.safetensors"))

    assert_identical(loaded.explain(target), run.explain(target))
    again = loaded.method.run(encoder, images(1, seed=2)[0])  # the loaded method works for other explicands too
    assert_identical(again.explain(target), run.method.explain(encoder, images(1, seed=2)[0], target))


@dataclass(frozen=True)
class Scaled(cocoax.Baseline):
    factor: float = 0.5

    def __call__(self, explicand: Tensor) -> Tensor:
        return self.factor * explicand


class Negative(cocoax.Baseline):
    """Not a dataclass, so its options are not known."""

    def __call__(self, explicand: Tensor) -> Tensor:
        return -explicand


@pytest.mark.parametrize("baseline", [Scaled(), Negative()])
def test_save__baseline_of_your_own(
    encoder: cocoax.Encoder, target: cocoax.Target, baseline: cocoax.Baseline, tmp_path: Path
) -> None:
    # The baseline's pixels are all that the run needs from then on.
    run = cocoax.Rise(samples=20, grid=4, baseline=baseline).run(encoder, images(1)[0])
    before = run.explain(target)

    loaded = cocoax.Run.load(run.save(tmp_path / "run.safetensors"))

    assert_identical(loaded.explain(target), before)
    assert len(loaded.extend(encoder, 5)) == 25


# --- extending --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", SAMPLED.values(), ids=SAMPLED.keys())
def test_extend__equals_a_longer_run(
    net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target, method: cocoax.Rise
) -> None:
    explicand = images(1)[0]
    run = method.run(encoder, explicand)
    before = net.inputs

    same = run.extend(encoder, 300)

    assert same is run
    assert net.inputs - before == 300
    assert len(run) == len(run.masks) == 360
    longer = replace(method, samples=360).explain(encoder, explicand, target)
    result = run.explain(target)
    torch.testing.assert_close(result.values, longer.values, atol=1e-5, rtol=0)
    assert result.standard_error is not None
    torch.testing.assert_close(result.standard_error, longer.standard_error, atol=1e-5, rtol=0)
    assert result.metadata["samples"] == 360


@pytest.mark.parametrize("method", EXTENDABLE.values(), ids=EXTENDABLE.keys())
def test_extend__a_loaded_run(
    net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target, method: RemovalMethod, tmp_path: Path
) -> None:
    run = method.run(encoder, images(1)[0])
    loaded = cocoax.Run.load(run.save(tmp_path / "run.safetensors"))
    before = net.inputs

    loaded.extend(encoder, 25)

    assert net.inputs - before == 25
    assert_identical(loaded.explain(target), run.extend(encoder, 25).explain(target))


def test_extend__by_an_equal_encoder(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    run = METHODS["rise"].run(encoder, images(1)[0])

    run.extend(cocoax.Encoder(SmallNet().eval()), 10)  # the same weights in another module

    assert len(run) == 70


def test_extend__needs_no_full_size_masks_but_those_of_a_batch(
    encoder: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 20 000 masks of 224 x 224 pixels are 4 GB.
    run = cocoax.Rise(samples=100, grid=4, batch_size=8).run(encoder, images(1)[0])
    sizes: list[int] = []
    full = GridMasks.full

    def recording(masks: GridMasks, rows: slice) -> Tensor:
        found = full(masks, rows)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(GridMasks, "full", recording)

    run.extend(encoder, 20)

    assert max(sizes) <= 8


def test_extend__changed_weights(net: SmallNet, encoder: cocoax.Encoder) -> None:
    run = METHODS["rise"].run(encoder, images(1)[0])
    with torch.no_grad():
        net.fc.bias.add_(0.1)

    with pytest.raises(ValueError, match=r"its weights or preprocessing have changed. Start a new run"):
        run.extend(encoder, 10)
    assert len(run) == 60


def test_extend__another_encoder(encoder: cocoax.Encoder) -> None:
    run = METHODS["rise"].run(encoder, images(1)[0])

    with pytest.raises(ValueError, match="'other' is another one"):
        run.extend(cocoax.Encoder(SmallNet(seed=1).eval(), name="other"), 10)


@pytest.mark.parametrize("samples", [0, -5])
def test_extend__by_nothing(encoder: cocoax.Encoder, samples: int) -> None:
    run = METHODS["rise"].run(encoder, images(1)[0])

    with pytest.raises(ValueError, match=f"'samples' parameter must be at least 1. Got {samples} instead"):
        run.extend(encoder, samples)


# --- errors -----------------------------------------------------------------------------------------------------------


def test_run__out_of_memory_on_a_single_input() -> None:
    def huge(batch: Tensor) -> Tensor:
        return torch.empty(10**15)

    with pytest.raises(MemoryError, match="'huge' ran out of memory on a single input"):
        METHODS["rise"].run(cocoax.Encoder(huge, name="huge"), images(1)[0])


@every_method
def test_explain__target_of_another_encoder(net: SmallNet, encoder: cocoax.Encoder, method: RemovalMethod) -> None:
    other = cocoax.Encoder(SmallNet(seed=1).eval())
    foreign = cocoax.similarity_to(other.reference(images(3), name="theirs"))
    run = method.run(encoder, images(1)[0])

    with pytest.raises(ValueError, match="Reference 'theirs' lives in another representation space than the encoder"):
        run.explain(foreign)
    before = net.inputs
    with pytest.raises(ValueError, match="Reference 'theirs' lives in another representation space than the encoder"):
        method.explain(encoder, images(1)[0], foreign)
    assert net.inputs == before  # told before anything is encoded


def test_run__target_of_another_encoder(net: SmallNet, encoder: cocoax.Encoder) -> None:
    other = cocoax.Encoder(SmallNet(seed=1).eval())
    foreign = cocoax.similarity_to(other.reference(images(3), name="theirs"))

    with pytest.raises(ValueError, match="Reference 'theirs' lives in another representation space than the encoder"):
        cocoax.Rise(samples=60, tolerance=0.1).run(encoder, images(1)[0], foreign)
    assert net.inputs == 0  # told before anything is encoded


def test_explain__target_of_another_dimension(encoder: cocoax.Encoder) -> None:
    run = METHODS["rise"].run(encoder, images(1)[0])
    narrow = cocoax.Reference.from_representations(torch.ones(2, 5), name="narrow")

    with pytest.raises(ValueError, match="'narrow' has 5 dimensions but the encoder's representations have 8"):
        run.explain(cocoax.similarity_to(narrow))


def test_explain__target_of_changed_weights(net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    with torch.no_grad():
        net.fc.bias.add_(0.1)
    run = METHODS["rise"].run(encoder, images(1)[0])

    with pytest.raises(ValueError, match="weights, layer or preprocessing have changed"):
        run.explain(target)


def test_run__non_finite_representation_names_the_sample() -> None:
    def corner(batch: Tensor) -> Tensor:
        """The sum of the image; not a number where nothing but the lower right quarter is missing."""
        missing = (batch[..., 4:, 4:] == 0).all((1, 2, 3)) & (batch != 0).any((1, 2, 3))
        return torch.where(missing[:, None], torch.nan, batch.sum((1, 2, 3), keepdim=True)[:, :, 0, 0])

    method = cocoax.Occlusion(window=4, stride=4, baseline=cocoax.Constant(0.0))

    with pytest.raises(ValueError, match=r"masked input 3 is not finite; .* Try another one\. .*cocoax\.Blur\(\), Mean\(\)"):
        method.run(cocoax.Encoder(corner), torch.ones(3, 8, 8))
    with pytest.raises(ValueError, match=r"masked input 3 is not finite"):  # its number, not that within its batch
        replace(method, batch_size=3).run(cocoax.Encoder(corner), torch.ones(3, 8, 8))


def test_run__non_finite_representation_of_the_baseline() -> None:
    def logarithm(batch: Tensor) -> Tensor:
        return batch.mean((2, 3)).log()

    # "Input 1" would mean nothing to a user with one explicand, and it cannot be left out.
    with pytest.raises(ValueError, match="baseline is not finite"):
        cocoax.Rise(samples=20, grid=2, baseline=cocoax.Constant(0.0)).run(cocoax.Encoder(logarithm), torch.ones(3, 8, 8))


def test_explain__zero_representation_under_cosine() -> None:
    def two_quarters(batch: Tensor) -> Tensor:
        return (batch[..., :4, :4] + batch[..., 4:, 4:]).mean((2, 3))

    baseline = torch.full((3, 8, 8), 3.0)
    baseline[:, 4:, 4:] = -1  # the two quarters of explicand and baseline sum to 2, but with the last window gone to 0
    method = cocoax.Occlusion(window=4, stride=4, baseline=baseline)
    run = method.run(cocoax.Encoder(two_quarters), torch.ones(3, 8, 8))

    with pytest.raises(ValueError, match="Representation 3 of 4 is zero, so its cosine similarity is undefined"):
        run.explain(cocoax.representation_similarity())
    result = run.explain(cocoax.representation_similarity("dot"))  # 12 = (2, 2, 2)·(2, 2, 2) at both ends
    torch.testing.assert_close(result.features, torch.tensor([12 - 24.0, 0, 0, 12]))


def test_explain__zero_representation_of_the_baseline() -> None:
    def rectified(batch: Tensor) -> Tensor:
        return batch.clamp(min=0).flatten(2).sum(2)

    run = cocoax.Occlusion(window=4, baseline=cocoax.Constant(0.0)).run(cocoax.Encoder(rectified), torch.ones(3, 8, 8))

    # "Representation 1 of 2" would not tell that the baseline is at fault, nor that another one helps.
    with pytest.raises(ValueError, match="baseline"):
        run.explain(cocoax.representation_similarity())


@dataclass(frozen=True)
class Dimmed(cocoax.masking.Removal):
    """A removal that is no blend with what is left of the explicand: what is removed is halved, and the rest brighter."""

    def baseline_input(self, explicand: cocoax.Explicand) -> Tensor:
        return explicand.tensor / 2

    def masked(self, explicand: cocoax.Explicand, baseline_input: Tensor, kept: Tensor) -> Tensor:
        return torch.where(kept[:, None] > 0.5, explicand.tensor + 0.1, baseline_input)


def test_save__removal_of_your_own_that_is_no_blend(
    encoder: cocoax.Encoder, target: cocoax.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = cocoax.Rise(samples=20, grid=4, baseline=Dimmed())
    run = method.run(encoder, images(1)[0])
    known = cocoax.Run.load(run.save(tmp_path / "run.safetensors"))
    assert isinstance(known.method.baseline, Dimmed)
    monkeypatch.setattr(Removal, "defined", [kind for kind in Removal.defined if kind is not Dimmed])  # not imported

    loaded = cocoax.Run.load(tmp_path / "run.safetensors")

    assert_identical(loaded.explain(target), run.explain(target))
    with pytest.raises(ValueError, match=r"removed features by 'tests\.methods\.test_run\.Dimmed', .*cannot be extended"):
        loaded.extend(encoder, 5)
    again = cocoax.Run.load(loaded.save(tmp_path / "again.safetensors"))
    assert_identical(again.explain(target), run.explain(target))
    again.method = method  # who has the class can go on
    longer = replace(method, samples=25).run(encoder, images(1)[0])
    assert torch.equal(again.extend(encoder, 5).representations, longer.representations)


def test_load__run_of_an_older_version(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    path = METHODS["occlusion"].run(encoder, images(1)[0]).save(tmp_path / "run.safetensors")
    tensors, header = read_safetensors(path, "run")
    del header["display"]
    write_safetensors(path, tensors, "run", header)
    with pytest.raises(ValueError, match=r"written by another version of Cocoax"):
        cocoax.Run.load(path)


@dataclass(frozen=True)
class Rise(RemovalMethod):
    """A method of a user's own, called as one of ours."""

    windows: int = 4

    def draw(self, shape: tuple[int, ...], count: int | None = None) -> GridMasks:
        return GridMasks.draw(*shape, 2, 0.5, self.windows if count is None else count, 0)

    def restore(self, shape: tuple[int, ...], tensors: dict[str, Tensor]) -> GridMasks:
        return self.draw(shape, len(tensors["bits"]))

    def estimate(self, masks: Any, scores: Tensor, ends: Tensor) -> Estimate:
        return Estimate(masks.weighted_sum(scores.double()))


def test_load__method_of_a_users_own_with_one_of_our_names(
    encoder: cocoax.Encoder, target: cocoax.Target, tmp_path: Path
) -> None:
    ours = cocoax.Rise(samples=20, grid=4).run(encoder, images(1)[0]).save(tmp_path / "ours.safetensors")
    own = Rise(windows=6).run(encoder, images(1)[0]).save(tmp_path / "own.safetensors")
    assert type(cocoax.Run.load(ours).method) is cocoax.Rise
    loaded = cocoax.Run.load(own)
    assert type(loaded.method) is Rise
    assert (loaded.method.windows, len(loaded)) == (6, 6)
    assert loaded.explain(target).metadata["method"] == "Rise"


def test_load__method_of_a_users_own_that_has_moved(
    encoder: cocoax.Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Rise(windows=6).run(encoder, images(1)[0]).save(tmp_path / "own.safetensors")
    monkeypatch.delitem(RemovalMethod.defined, "tests.methods.test_run.Rise")  # as if it were not imported
    with pytest.raises(ValueError, match=r"'tests\.methods\.test_run\.Rise', which is not known here; import the module"):
        cocoax.Run.load(path)
    monkeypatch.setitem(RemovalMethod.defined, "tests.methods.test_run.Rise", Rise)  # what files called it
    assert type(cocoax.Run.load(path).method) is Rise


def test_bar__shows_how_many_samples_it_will_take(encoder: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[Any] = []
    totals: list[int] = []

    class Recorded(tqdm):  # type: ignore[misc]
        def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
            totals.append(self.total)

    def recorded(total: int | None, *_: object) -> Recorded:
        bars.append(Recorded(total=total, file=io.StringIO()))
        return bars[-1]

    monkeypatch.setattr(run_module, "bar", recorded)
    method = cocoax.Rise(samples=32, grid=4, tolerance=0.05, max_samples=640)
    run = method.run(encoder, images(1)[0])
    assert len(run) > 128
    assert totals[0] > 2 * 32  # a round doubles a run at most
    assert totals[0] == method.expected(32, relative_error(run.first(32).explain(cocoax.representation_similarity())))
    assert bars[0].total == bars[0].n == len(run)  # which a bar is filled up to

    short = run.first(32)
    short.resume(encoder, 16, [])
    assert len(bars) == 2
    assert len(short) == len(run) or short.stopped
    assert bars[1].total == bars[1].n == len(short) - 32

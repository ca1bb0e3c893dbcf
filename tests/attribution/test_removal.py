"""Runs of removal-based methods: encode once, ask anything, save, load, extend."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import cocoax
from cocoax.attribution.removal import RemovalMethod
from cocoax.attribution.run import Interrupted, Run
from cocoax.features import GridMasks, Removal
from cocoax.storage import write_safetensors
from tests.conftest import SmallNet, images

METHODS = {
    "rise": cocoax.Rise(samples=60, grid=4),
    "rise-paper": cocoax.Rise(samples=60, grid=(3, 5), keep=0.4, estimator="paper", baseline=cocoax.Mean()),
    "kernel-shap": cocoax.KernelShap(samples=60, grid=3),
    "kernel-shap-segments": cocoax.KernelShap(
        samples=20, segments=torch.arange(16)[:, None].div(6, rounding_mode="floor").expand(16, 16) * 10
    ),
    "occlusion": cocoax.Occlusion(window=5, stride=3),
}
SAMPLED = {"rise": METHODS["rise"], "rise-paper": METHODS["rise-paper"]}
EXTENDABLE = {name: method for name, method in METHODS.items() if name in ("rise", "rise-paper", "kernel-shap")}

every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


@pytest.fixture
def corpus(encoder: cocoax.Encoder) -> cocoax.Reference:
    return encoder.reference(images(5, seed=11), name="corpus", keep_samples=True)


@pytest.fixture
def foil(encoder: cocoax.Encoder) -> cocoax.Reference:
    return encoder.reference(images(7, seed=12), name="foil", keep_samples=True)


@pytest.fixture
def target(corpus: cocoax.Reference, foil: cocoax.Reference) -> cocoax.Target:
    return cocoax.contrastive_corpus_similarity(corpus, foil)


def assert_identical(first: cocoax.Attribution, second: cocoax.Attribution) -> None:
    """Bit for bit the same."""
    assert first.score == second.score
    assert first.baseline_score == second.baseline_score
    assert first.neutral == second.neutral
    for name in ("values", "standard_error", "features"):
        one, other = getattr(first, name), getattr(second, name)
        assert (one is None) == (other is None), name
        assert one is None or torch.equal(one, other), name


def slow_cosine(representations: Tensor, references: Tensor) -> np.ndarray:
    """Mean cosine similarity of every representation to the references."""
    scores = []
    for z in representations.double().numpy():
        similarities = [z @ r / (np.linalg.norm(z) * np.linalg.norm(r)) for r in references.double().numpy()]
        scores.append(sum(similarities) / len(similarities))
    return np.array(scores)


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
    torch.testing.assert_close(run.ends, net(torch.stack([explicand, run.baseline])).detach(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("method", [cocoax.Rise(samples=20), cocoax.KernelShap(samples=100), cocoax.Occlusion()])
def test_run__default_baseline_is_the_blur(encoder: cocoax.Encoder, method: RemovalMethod) -> None:
    explicand = images(1)[0]

    run = method.run(encoder, explicand)

    assert torch.equal(run.baseline, cocoax.Blur(21, 5.0)(explicand))


@every_method
def test_explain__score_and_baseline_score(
    encoder: cocoax.Encoder, corpus: cocoax.Reference, foil: cocoax.Reference, target: cocoax.Target, method: RemovalMethod
) -> None:
    explicand = images(1)[0]

    run = method.run(encoder, explicand)
    result = run.explain(target)

    assert corpus.samples is not None
    assert foil.samples is not None
    expected = slow_cosine(run.ends, corpus.samples) - slow_cosine(run.ends, foil.samples)
    assert result.score == pytest.approx(expected[0], abs=1e-6)
    assert result.baseline_score == pytest.approx(expected[1], abs=1e-6)
    assert result.values.shape == (16, 16)
    assert result.metadata["method"] == type(method).__name__
    assert result.metadata["samples"] == len(run)
    assert result.metadata["target"] == "corpus rather than foil"


@every_method
def test_explain__of_the_method_is_that_of_its_run(
    encoder: cocoax.Encoder, target: cocoax.Target, method: RemovalMethod
) -> None:
    explicand = images(1)[0]

    assert_identical(method.explain(encoder, explicand, target), method.run(encoder, explicand).explain(target))


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


@every_method
def test_explain__each_target_gets_its_own_answer(
    encoder: cocoax.Encoder, corpus: cocoax.Reference, foil: cocoax.Reference, method: RemovalMethod
) -> None:
    run = method.run(encoder, images(1)[0])
    targets = [
        cocoax.similarity_to(foil, "dot"),
        cocoax.similarity_to(corpus, "rbf"),
        cocoax.similarity_to(corpus),
        cocoax.representation_similarity("dot"),
    ]

    together = run.explain(targets)

    for result, target in zip(together, targets, strict=True):
        alone = run.explain(target)
        torch.testing.assert_close(result.values, alone.values, atol=1e-5, rtol=1e-5)
        assert result.score == pytest.approx(alone.score, rel=1e-5)
        assert result.metadata["target"] == target.name
        assert result.metadata["similarity"] == str(target.similarity)


def test_explain__kernel_similarity_from_a_run(encoder: cocoax.Encoder, corpus: cocoax.Reference) -> None:
    run = cocoax.Rise(samples=40, grid=4, estimator="paper").run(encoder, images(1)[0])

    result = run.explain(cocoax.similarity_to(corpus, cocoax.Rbf(gamma=0.05)))

    assert corpus.samples is not None
    expected = np.zeros((16, 16))
    for i, z in enumerate(run.representations.double().numpy()):
        similarities = [np.exp(-0.05 * ((z - r) ** 2).sum()) for r in corpus.samples.double().numpy()]
        expected += np.mean(similarities) * run.masks.full(slice(i, i + 1))[0].double().numpy() / 0.5 / 40
    np.testing.assert_allclose(result.values.numpy(), expected, atol=1e-5)


def test_explain__kernel_similarity_needs_samples(encoder: cocoax.Encoder) -> None:
    means_only = encoder.reference(images(5, seed=11))

    with pytest.raises(ValueError, match="keep_samples=True"):
        cocoax.similarity_to(means_only, "rbf")


# --- explicands -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [METHODS[name] for name in ("rise", "rise-paper", "kernel-shap", "occlusion")])
def test_explain__many_explicands_give_what_each_alone_gives(
    encoder: cocoax.Encoder, target: cocoax.Target, method: RemovalMethod
) -> None:
    explicands = [images(1, 16, 16, seed=1)[0], images(1, 13, 22, seed=2)[0], images(1, 16, 16, seed=3)[0]]
    own = cocoax.representation_similarity()

    together = method.explain(encoder, explicands, target)
    lists = method.explain(encoder, explicands, [target, own])
    runs = method.run(encoder, explicands)

    assert len(together) == len(lists) == len(runs) == 3
    for explicand, result, both, run in zip(explicands, together, lists, runs, strict=True):
        alone = method.explain(encoder, explicand, target)
        assert_identical(result, alone)
        assert_identical(run.explain(target), alone)
        for one, other in zip(both, method.explain(encoder, explicand, [target, own]), strict=True):
            assert_identical(one, other)


def test_explain__a_batch_tensor_is_many(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    batch = images(2)

    results = METHODS["rise"].explain(encoder, batch, target)

    assert isinstance(results, list)
    for result, explicand in zip(results, batch, strict=True):
        assert_identical(result, METHODS["rise"].explain(encoder, explicand, target))


@pytest.mark.parametrize("method", [METHODS[name] for name in ("rise", "rise-paper", "kernel-shap", "occlusion")])
@pytest.mark.parametrize(("channels", "height", "width"), [(1, 16, 16), (4, 16, 16), (3, 13, 22), (1, 5, 31), (4, 9, 7)])
def test_explain__channels_and_sizes(method: RemovalMethod, channels: int, height: int, width: int) -> None:
    encoder = cocoax.Encoder(SmallNet(channels).eval())
    explicand = images(1, height, width, channels)[0]

    result = method.explain(encoder, explicand, cocoax.representation_similarity())

    assert result.values.shape == (height, width)
    assert bool(torch.isfinite(result.values).all())
    assert float(result.values.std()) > 0
    assert result.score == pytest.approx(1, abs=1e-6)


def test_explain__picture_is_kept_for_drawing(net: SmallNet) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 40, 3), dtype=np.uint8)
    preprocess = cocoax.ImagePreprocess(resize=16, crop=16)
    encoder = cocoax.Encoder(net, preprocess)

    result = METHODS["occlusion"].explain(encoder, Image.fromarray(pixels), cocoax.representation_similarity())

    assert result.picture is not None
    np.testing.assert_array_equal(result.picture.numpy(), pixels)
    assert result.box == pytest.approx((0.25, 0, 0.75, 1))
    assert_identical(
        result,
        METHODS["occlusion"].explain(encoder, preprocess(Image.fromarray(pixels)), cocoax.representation_similarity()),
    )


def test_run__no_explicands(encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    with pytest.raises(ValueError, match="0 explicands; pass at least one"):
        METHODS["rise"].run(encoder, [])
    with pytest.raises(ValueError, match="0 explicands; pass at least one"):
        METHODS["rise"].explain(encoder, [], target)


# --- seeds ------------------------------------------------------------------------------------------------------------


@every_method
def test_explain__whatever_random_numbers_were_drawn_before(
    encoder: cocoax.Encoder, target: cocoax.Target, method: RemovalMethod
) -> None:
    explicand = images(1)[0]
    numpy_state, python_state = np.random.get_state(legacy=False), random.getstate()

    first = method.explain(encoder, explicand, target)
    after = np.random.get_state(legacy=False)
    np.random.random(3)
    random.random()
    with torch.random.fork_rng():
        torch.rand(17)
        second = method.explain(encoder, explicand, target)
    np.random.set_state(numpy_state)
    random.setstate(python_state)

    assert_identical(first, second)
    assert str(after) == str(numpy_state)  # NumPy's global stream has not moved


@pytest.mark.parametrize("method", EXTENDABLE.values(), ids=EXTENDABLE.keys())
def test_explain__another_seed_gives_another_result(encoder: cocoax.Encoder, target: cocoax.Target, method: Any) -> None:
    explicand = images(1)[0]

    first = method.explain(encoder, explicand, target)
    second = replace(method, seed=1).explain(encoder, explicand, target)

    assert not torch.equal(first.values, second.values)


@every_method
def test_explain__batch_size_does_not_matter(encoder: cocoax.Encoder, target: cocoax.Target, method: RemovalMethod) -> None:
    explicand = images(1)[0]

    whole = method.explain(encoder, explicand, target)
    pieces = replace(method, batch_size=7).explain(encoder, explicand, target)

    torch.testing.assert_close(whole.values, pieces.values, atol=1e-5, rtol=0)


def test_batch_size__is_kept_to(net: SmallNet, encoder: cocoax.Encoder) -> None:
    encoder.represent(images(2))  # the first use also checks that the encoder is deterministic
    before = net.batches

    cocoax.Rise(samples=60, batch_size=7).run(encoder, images(1)[0])

    assert net.batches - before == 1 + 9  # the ends, and 60 / 7 rounded up


def test_batch_size__not_positive(encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match=r"'batch_size' parameter must be .*at least 1. Got 0 instead"):
        cocoax.Rise(samples=60, batch_size=0).run(encoder, images(1)[0])


# --- files ------------------------------------------------------------------------------------------------------------


@every_method
def test_save__round_trip(
    encoder: cocoax.Encoder,
    corpus: cocoax.Reference,
    target: cocoax.Target,
    method: RemovalMethod,
    tmp_path: Path,
) -> None:
    targets = [target, cocoax.representation_similarity(), cocoax.similarity_to(corpus, "rbf")]
    run = method.run(encoder, images(1)[0])
    before = run.explain(targets)

    path = run.save(tmp_path / "runs" / "one.safetensors")
    loaded = cocoax.Run.load(path)

    assert len(loaded) == len(run)
    assert loaded.encoder == run.encoder
    assert loaded.method.describe() == run.method.describe()
    assert torch.equal(loaded.baseline, run.baseline)
    for one, other in zip(before, loaded.explain(targets), strict=True):
        assert_identical(one, other)
        assert dict(one.metadata) == dict(other.metadata)


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


@dataclass(frozen=True)
class Zeroed(Removal):
    """Removed pixels are zero, and the rest is as much brighter: no blend."""

    power: float = 1.0

    def emptied(self, explicand: cocoax.Explicand) -> Tensor:
        return torch.zeros_like(explicand.tensor)

    def masked(self, explicand: cocoax.Explicand, emptied: Tensor, kept: Tensor) -> Tensor:
        return explicand.tensor * kept[:, None] / kept.mean((1, 2))[:, None, None, None].clamp(min=0.1) ** self.power


def test_save__removal_of_your_own_that_does_not_blend(
    encoder: cocoax.Encoder, target: cocoax.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = cocoax.Rise(samples=20, grid=4, baseline=Zeroed(0.5)).run(encoder, images(1)[0])
    path = run.save(tmp_path / "run.safetensors")

    longer = cocoax.Run.load(path).extend(encoder, 10)

    assert longer.method.baseline == Zeroed(0.5)
    expected = cocoax.Rise(samples=30, grid=4, baseline=Zeroed(0.5)).run(encoder, images(1)[0])
    torch.testing.assert_close(longer.representations, expected.representations, rtol=0, atol=1e-6)
    # Where its module is not imported nobody knows what it does; to blend in its place would be wrong.
    monkeypatch.setattr(Removal, "defined", [kind for kind in Removal.defined if kind is not Zeroed])
    with pytest.raises(ValueError, match=r"removes features by .*Zeroed, which is not known"):
        cocoax.Run.load(path)


def test_save__explicand_is_kept_for_drawing(net: SmallNet, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 40, 3), dtype=np.uint8)
    encoder = cocoax.Encoder(net, cocoax.ImagePreprocess(resize=16, crop=16))
    run = METHODS["occlusion"].run(encoder, pixels)

    result = cocoax.Run.load(run.save(tmp_path / "run.safetensors")).explain(cocoax.representation_similarity())

    assert result.picture is not None
    np.testing.assert_array_equal(result.picture.numpy(), pixels)
    assert result.box == pytest.approx((0.25, 0, 0.75, 1))


@pytest.mark.parametrize(("kind", "load"), [("run", cocoax.Run.load), ("attribution", cocoax.Attribution.load)])
def test_load__from_before_there_were_displays(kind: str, load: Any, tmp_path: Path) -> None:
    path = write_safetensors(
        tmp_path / "old.safetensors", {"values": torch.zeros(2, 2)}, kind, {"score": 0.5, "tokens": None}
    )

    with pytest.raises(ValueError, match="written by an earlier version of Cocoax, whose files are not read any more"):
        load(path)


def test_load__not_a_run(encoder: cocoax.Encoder, target: cocoax.Target, tmp_path: Path) -> None:
    path = METHODS["occlusion"].explain(encoder, images(1)[0], target).save(tmp_path / "attribution.safetensors")

    with pytest.raises(ValueError, match="does not hold a Cocoax run: it holds attribution"):
        cocoax.Run.load(path)


def test_load__cut_off(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    path = METHODS["occlusion"].run(encoder, images(1)[0]).save(tmp_path / "run.safetensors")
    path.write_bytes(path.read_bytes()[:-100])

    with pytest.raises(ValueError, match="it may be truncated"):
        cocoax.Run.load(path)


def test_load__no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No file at .*nothing.safetensors"):
        cocoax.Run.load(tmp_path / "nothing.safetensors")


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
def test_extend__in_steps_or_at_once(
    net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target, method: RemovalMethod
) -> None:
    explicand = images(1)[0]
    before = net.inputs
    steps = method.run(encoder, explicand).extend(encoder, 7).extend(encoder, 1).extend(encoder, 22)
    first = net.inputs - before
    at_once = method.run(encoder, explicand).extend(encoder, 30)

    assert net.inputs - before - first == first
    torch.testing.assert_close(steps.explain(target).values, at_once.explain(target).values, atol=1e-5, rtol=0)


@pytest.mark.parametrize("method", EXTENDABLE.values(), ids=EXTENDABLE.keys())
def test_extend__begins_with_what_there_is(encoder: cocoax.Encoder, method: RemovalMethod) -> None:
    run = method.run(encoder, images(1)[0])
    masks, representations = run.masks.full(slice(0, 60)), run.representations.clone()

    run.extend(encoder, 13)

    assert torch.equal(run.masks.full(slice(0, 60)), masks)
    assert torch.equal(run.representations[:60], representations)
    assert len(run.representations) == len(run.masks) == 73


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


# --- interruptions ----------------------------------------------------------------------------------------------------


def interrupt_after(net: SmallNet, inputs: int) -> Any:
    """Ctrl-C when the net has seen this many more inputs."""
    last = net.inputs + inputs

    def press(_module: object, _inputs: object) -> None:
        if net.inputs >= last:
            raise KeyboardInterrupt

    return net.register_forward_pre_hook(press)


def interrupted_run(net: SmallNet, encoder: cocoax.Encoder, method: RemovalMethod, samples: int) -> Run:
    hook = interrupt_after(net, 2 + samples)
    with pytest.raises(Interrupted, match=f"interrupted after {samples} samples") as caught:
        replace(method, batch_size=4).run(encoder, images(1)[0])
    hook.remove()
    return caught.value.run


@pytest.mark.parametrize("samples", [20, 40])
def test_interruption__rise_keeps_what_it_has(
    net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target, samples: int
) -> None:
    run = interrupted_run(net, encoder, METHODS["rise"], samples)

    assert len(run) == len(run.masks) == samples
    assert run.stopped == "interrupted"
    shorter = cocoax.Rise(samples=samples, grid=4).explain(encoder, images(1)[0], target)
    torch.testing.assert_close(run.explain(target).values, shorter.values, atol=1e-5, rtol=0)


INTERRUPTED = [("rise", 12), ("rise-paper", 4), ("kernel-shap", 4), ("kernel-shap", 40), ("kernel-shap-segments", 4)]
INTERRUPTED += [("occlusion", 12)]


@pytest.mark.parametrize(("name", "samples"), INTERRUPTED)
def test_interruption__goes_on_where_it_stopped(
    net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target, name: str, samples: int
) -> None:
    whole = METHODS[name].run(encoder, images(1)[0])

    run = interrupted_run(net, encoder, METHODS[name], samples)
    before = net.inputs
    run.extend(encoder, len(whole) - samples)

    assert net.inputs - before == len(whole) - samples
    torch.testing.assert_close(run.explain(target).values, whole.explain(target).values, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("name", "samples"), INTERRUPTED)
def test_interruption__what_there_is_answers_targets(
    net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target, name: str, samples: int
) -> None:
    run = interrupted_run(net, encoder, METHODS[name], samples)

    assert len(run.masks) == len(run) == samples
    if name == "occlusion" or (name.startswith("kernel-shap") and samples == 4):  # these say nothing about some segments
        with pytest.raises(ValueError, match="extend it"):
            run.explain(target)
    else:
        assert run.explain(target).values.shape == (16, 16)


def test_interruption__too_few_samples_to_answer(net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    run = interrupted_run(net, encoder, METHODS["rise"], 4)

    with pytest.raises(ValueError, match="at least 10 samples"):  # as Rise(samples=4) would have said
        run.explain(target)
    run.extend(encoder, 56)
    whole = METHODS["rise"].explain(encoder, images(1)[0], target)
    torch.testing.assert_close(run.explain(target).values, whole.values, atol=1e-5, rtol=0)


@every_method
def test_interruption__before_the_first_sample(net: SmallNet, encoder: cocoax.Encoder, method: RemovalMethod) -> None:
    encoder.represent(images(2))
    hook = interrupt_after(net, 2)

    with pytest.raises(KeyboardInterrupt):
        method.run(encoder, images(1)[0])

    hook.remove()


def test_interruption__while_extending(net: SmallNet, encoder: cocoax.Encoder, target: cocoax.Target) -> None:
    run = cocoax.Rise(samples=40, grid=4, batch_size=10).run(encoder, images(1)[0])
    hook = interrupt_after(net, 20)

    with pytest.raises(Interrupted) as caught:
        run.extend(encoder, 100)
    hook.remove()

    assert caught.value.run is run
    assert len(run) == 60
    longer = cocoax.Rise(samples=60, grid=4).explain(encoder, images(1)[0], target)
    torch.testing.assert_close(run.explain(target).values, longer.values, atol=1e-5, rtol=0)


def test_interruption__between_rounds(encoder: cocoax.Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def press(_self: object, _run: Run, _targets: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cocoax.Rise, "more", press)

    with pytest.raises(Interrupted) as caught:
        cocoax.Rise(samples=40, grid=4, tolerance=1e-6).run(encoder, images(1)[0])

    assert len(caught.value.run) == len(caught.value.run.masks) == 40
    assert caught.value.run.stopped == "interrupted"


SLOW_RUN = """
import signal, time, torch, cocoax

signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background start with it ignored

def slow(batch):
    print("encoding", flush=True)
    time.sleep(0.02)
    return torch.tanh(batch).flatten(1)

encoder = cocoax.Encoder(slow, name="slow")
explicand = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(0))
target = cocoax.representation_similarity()
try:
    cocoax.Rise(samples=100_000, grid=4, batch_size=2).run(encoder, explicand, progress=False)
except cocoax.Interrupted as stop:
    kept = len(stop.run)
    stop.run.extend(encoder, 10, progress=False)
    whole = cocoax.Rise(samples=kept + 10, grid=4).explain(encoder, explicand, target, progress=False)
    difference = float((stop.run.explain(target).values - whole.values).abs().max())
    print("kept", kept, difference < 1e-5, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for another process")
def test_interruption__a_real_signal() -> None:
    with subprocess.Popen([sys.executable, "-c", SLOW_RUN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(12):  # the ends, the check that it is deterministic, and then at least eight batches of two
            assert process.stdout.readline() == "encoding\n"
        process.send_signal(signal.SIGINT)
        words = process.stdout.read().split("\n")[-2].split()

    assert words[0] == "kept"
    assert int(words[1]) >= 14
    assert words[2] == "True"
    assert process.returncode == 0


# --- errors -----------------------------------------------------------------------------------------------------------


def test_run__out_of_memory_on_a_single_input() -> None:
    def huge(batch: Tensor) -> Tensor:
        return torch.empty(10**15)

    with pytest.raises(MemoryError, match="'huge' ran out of memory on a single input"):
        METHODS["rise"].run(cocoax.Encoder(huge, name="huge"), images(1)[0])


def test_explain__no_targets(encoder: cocoax.Encoder) -> None:
    run = METHODS["rise"].run(encoder, images(1)[0])

    with pytest.raises(ValueError, match="0 targets; pass at least one"):
        run.explain([])


def test_explain__not_a_target(encoder: cocoax.Encoder, corpus: cocoax.Reference) -> None:
    run = METHODS["rise"].run(encoder, images(1)[0])

    with pytest.raises(TypeError, match=r"must be a Target, .* Got Reference instead"):
        run.explain([corpus])


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

    with pytest.raises(ValueError, match=r"masked input 3 is not finite; .* Try another one, such as baseline=cocoax.Mean"):
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

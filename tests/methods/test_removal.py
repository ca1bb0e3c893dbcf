"""Methods that remove parts: one input or many, seeds, batches."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import cocoax
from cocoax.methods.run import RemovalMethod
from tests.conftest import SmallNet, images
from tests.methods.runs import METHODS, assert_identical, every_method

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


# --- seeds ------------------------------------------------------------------------------------------------------------


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

    assert net.batches - before == 1 + 1 + 9  # the inner maps that segments are made of, the ends, and 60 / 7 rounded up


def test_batch_size__not_positive(encoder: cocoax.Encoder) -> None:
    with pytest.raises(ValueError, match=r"'batch_size' parameter must be .*at least 1. Got 0 instead"):
        cocoax.Rise(samples=60, batch_size=0).run(encoder, images(1)[0])


# --- what every method promises -----------------------------------------------------------------------------------------

OURS: list[RemovalMethod] = [
    kind() for kind in RemovalMethod.defined.values() if kind.__module__.startswith("cocoax.")
]  # new ones too
PLANES = [(method, (16, 16)) for method in (*METHODS.values(), *OURS)]
LISTS = [(method, (6,)) for method in OURS]


@pytest.mark.parametrize(("method", "shape"), [*PLANES, *LISTS])
def test_estimate__linear_in_the_scores(method: RemovalMethod, shape: tuple[int, ...]) -> None:
    """So that a run answers targets that nobody has asked yet, and a field is the same as the run."""
    masks, generator = method.draw(shape), torch.Generator().manual_seed(0)
    scores = torch.randn(2, len(masks), 3, generator=generator, dtype=torch.float64)
    anchors = torch.randn(2, 2, 3, generator=generator, dtype=torch.float64)
    mixed = method.estimate(masks, 2 * scores[0] - scores[1], 2 * anchors[0] - anchors[1])
    first, second = (method.estimate(masks, *parts) for parts in zip(scores, anchors, strict=True))
    torch.testing.assert_close(mixed.values, 2 * first.values - second.values, rtol=1e-5, atol=1e-6)
    if mixed.neutral is not None:
        assert first.neutral is not None
        assert second.neutral is not None
        torch.testing.assert_close(mixed.neutral, 2 * first.neutral - second.neutral)

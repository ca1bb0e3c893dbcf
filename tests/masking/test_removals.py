"""What every removal has unless it says otherwise, and a removal that a file only names."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import cocoax
from cocoax import Explicand, TextEncoder
from cocoax.encoders.embedding import differentiable
from cocoax.inputs import Pictures
from cocoax.masking import MaskedEncoder, Removal, resolve
from cocoax.masking.removals import Forgotten
from tests.encoders.words import Pieces
from tests.kinds import SeveralConstants, recording_encoder, recordings
from tests.tiny import bert_tokenizer


@dataclass(frozen=True)
class Turned(Removal):
    """What is removed is turned around."""

    def baseline_input(self, explicand: Explicand) -> Tensor:
        return -explicand.tensor

    def masked(self, explicand: Explicand, baseline_input: Tensor, kept: Tensor) -> Tensor:
        return torch.where(explicand.elements_kept(kept).bool(), explicand.tensor, baseline_input)


class OwnVersions(Turned):
    """No baseline, with two versions: what is removed is turned around, or doubled."""

    def baseline_input(self, explicand: Explicand) -> Tensor:
        return torch.stack([-explicand.tensor, 2 * explicand.tensor])

    def masked(self, explicand: Explicand, baseline_input: Tensor, kept: Tensor) -> Tensor:
        kept = explicand.elements_kept(kept)[:, None].bool()
        return torch.where(kept, explicand.tensor, baseline_input).flatten(0, 1)


def test_versions__of_a_removal_that_is_no_baseline() -> None:
    encoder, recording = recording_encoder(), recordings(1)[0]
    target = cocoax.representation_similarity("dot")
    result = cocoax.Occlusion(baseline=OwnVersions()).explain(encoder, recording, target)
    own, members = encoder.represent(recording)[0], encoder.explicand(recording).feature_ids
    for feature in range(len(result.values)):
        versions = [torch.where(members == feature, version, recording) for version in (-recording, 2 * recording)]
        drops = own @ own - encoder.represent(torch.stack(versions)) @ own
        assert float(result.values[feature]) == pytest.approx(float(drops.mean()), abs=1e-5)


def test_defaults__of_a_removal_that_says_nothing() -> None:
    removal = Turned()
    explicand = Explicand(torch.ones(3, 4, 4))
    baseline_input = removal.baseline_input(explicand)
    assert removal.versions(explicand, baseline_input) == [baseline_input]
    assert not removal.blends
    assert removal.in_order(explicand, torch.ones(2, 4, 4)) is None
    assert removal.ready(Pictures()) is removal
    assert Turned.default(Pictures()) == removal


def test_embedded__removal_that_gradients_cannot_use() -> None:
    encoder = TextEncoder(Pieces(), bert_tokenizer(), limit=32)
    view, _ = differentiable(encoder, encoder.explicand("a cat"))
    with pytest.raises(ValueError, match=r"Gradients need something in place of a word.*Got Turned\(\) instead"):
        resolve(Turned(), view.inputs)


def test_blends__of_baselines_that_mask_as_all_do() -> None:
    class Rounded(cocoax.Baseline):
        def __call__(self, explicand: Tensor) -> Tensor:
            return explicand * 0

        def masked(self, explicand: Explicand, baseline_input: Tensor, kept: Tensor) -> Tensor:
            return super().masked(explicand, baseline_input, kept.round())

    assert cocoax.Blur().blends
    assert SeveralConstants(0.0).blends
    assert not Rounded().blends
    assert not cocoax.MaskToken(4).blends


def test_versions__of_several_baselines() -> None:
    explicand = Explicand(torch.ones(3, 4, 4))
    several, one = SeveralConstants(0.0, 1.0), cocoax.Mean()
    assert [version.shape for version in several.versions(explicand, several.baseline_input(explicand))] == [(3, 4, 4)] * 2
    assert [version.shape for version in one.versions(explicand, one.baseline_input(explicand))] == [(3, 4, 4)]
    both = OwnVersions()
    assert [version.shape for version in both.versions(explicand, both.baseline_input(explicand))] == [(3, 4, 4)] * 2
    hidden = cocoax.AttentionMask(0)  # ids over an attention mask are one version, of two rows
    text = Explicand(torch.tensor([5, 6]), feature_ids=torch.tensor([0, -1]))
    baseline_input = hidden.baseline_input(text)
    assert baseline_input.tolist() == [[5, 6], [0, 1]]
    assert len(hidden.versions(text, baseline_input)) == 1


def test_forgotten__says_what_is_missing() -> None:
    encoder = recording_encoder()
    with pytest.raises(ValueError, match=r"The run removed features by 'mine\.Own', which files cannot hold"):
        MaskedEncoder(encoder, encoder.explicand(recordings(1)[0]), Forgotten("mine.Own"))

from pathlib import Path

import pytest
import torch
from dna import Dna, Strand
from torch import Tensor

import cocoax

METHODS = [
    cocoax.Rise(samples=40),
    cocoax.KernelShap(samples=40),
    cocoax.Occlusion(),
    cocoax.VanillaGradients(),
    cocoax.SmoothGrad(samples=4),
    cocoax.IntegratedGradients(steps=30),
    cocoax.GradientShap(samples=4),
    cocoax.RandomAttribution(),
    cocoax.Captum("FeatureAblation"),
]
SEQUENCE = "acGTTACGGAt"


def counts(strands: Tensor) -> Tensor:
    """The letters of a sequence, and neighbours that are alike: ``[n, 4, L]`` to ``[n, 5]``."""
    alike = (strands[..., 1:] * strands[..., :-1]).sum((1, 2), keepdim=True)[..., 0]
    return torch.cat([strands.mean(2), alike], 1)


def encoder(width: int = 3) -> cocoax.Encoder:
    return cocoax.Encoder(counts, inputs=Dna(width), name="counts")


def target() -> cocoax.Target:
    return cocoax.contrastive_corpus_similarity(encoder().reference(["GGATT", "GGGC"]), encoder().reference(["ACCA"]))


def test_prepare__slow_version() -> None:
    prepared = Dna().prepare("gAT")
    assert prepared.tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert Dna().prepare(prepared) is prepared  # what was prepared before
    assert torch.equal(Dna().prepare(Dna().explicand("gAT")), prepared)


def test_inputs__one_and_many() -> None:
    assert [Dna().is_one(given) for given in ("ACG", ["ACG"], Dna().explicand("ACG"))] == [True, False, True]
    assert encoder().represent("ACG").shape == (1, 5)
    lengths = encoder().represent(["ACG", "ACGTT", "TTT"])  # of several lengths, in their order
    assert torch.equal(lengths[1], encoder().represent("ACGTT")[0])


def test_explicand__features() -> None:
    explicand = Dna(3).explicand(SEQUENCE)
    assert explicand.feature_ids.tolist() == [-1, -1, 0, 0, 0, 1, 1, 1, 2, 2, -1]
    assert explicand.shape == (3,)
    assert explicand.names == ("GTT@3", "ACG@6", "GA@9")


def test_removal__small_letters_stay() -> None:
    run = cocoax.Occlusion(baseline=cocoax.Constant(0.0)).run(encoder(), SEQUENCE)
    kept = run.baseline.sum(0)
    assert kept.tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]


def test_occlusion__slow_version() -> None:
    result = cocoax.Occlusion().explain(encoder(), SEQUENCE, target())
    prepared = Dna().prepare(SEQUENCE)
    mean = prepared.mean(1, keepdim=True)
    whole = target().score(encoder().represent(prepared))
    for feature, places in enumerate([(2, 3, 4), (5, 6, 7), (8, 9)]):
        without = prepared.clone()
        without[:, places] = mean
        drop = whole - target().score(encoder().represent(without))
        assert float(result.values[feature]) == pytest.approx(float(drop), abs=1e-5)


def test_explain__every_method() -> None:
    for method in METHODS:
        one, other = method.explain(encoder(), [SEQUENCE, "GGGATTACA"], target())
        assert one.values.shape == other.values.shape == (3,)
        assert one.names == ("GTT@3", "ACG@6", "GA@9")
        assert bool(torch.isfinite(torch.stack([one.values, other.values])).all())


def test_explain__complete_methods_add_up() -> None:
    for method in (cocoax.KernelShap(samples=6), cocoax.IntegratedGradients(steps=100)):
        result = method.explain(encoder(), SEQUENCE, target())
        assert float(result.values.sum()) == pytest.approx(result.score - result.baseline_score, abs=1e-4)


def test_run__saved_and_loaded(tmp_path: Path) -> None:
    # With keep=0.5 all subsets of so few features would be encoded, each once, and nothing would be left to extend.
    run = cocoax.Rise(samples=30, keep=0.4).run(encoder(), SEQUENCE)
    loaded = cocoax.Run.load(run.save(tmp_path / "run.safetensors"))
    result = loaded.extend(encoder(), 10).explain(target())
    again = cocoax.Attribution.load(result.save(tmp_path / "result.safetensors"))
    assert isinstance(again.display, Strand)
    assert (again.display.letters, again.names) == (SEQUENCE, run.explicand.names)
    assert again.html().count("<span") == len(again.names)
    assert len(again.plot(title="DNA").axes[0].get_yticklabels()) == len(again.names)


def test_width__changes_features_but_no_representation() -> None:
    assert encoder(2).space == encoder(3).space
    assert Dna(2).explicand(SEQUENCE).shape == (4,)


def test_explicand__wrong() -> None:
    wrong = {"ACXT": "letters A, C, G and T,", "": "at least one", 3: "must be a string", "acgt": "nothing to remove"}
    for given, message in wrong.items():
        with pytest.raises((ValueError, TypeError), match=message):
            Dna().explicand(given)


def test_baseline__another_sequence() -> None:
    run = cocoax.Occlusion(baseline="GGGGGGGGGGG").run(encoder(), SEQUENCE)
    assert run.baseline[2].tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0]  # G, except where small letters stay
    several = cocoax.Occlusion(baseline=["GGGGGGGGGGG", "TTTTTTTTTTT"]).run(encoder(), SEQUENCE)
    assert several.baseline[2].tolist() == [0, 0, *[0.5] * 8, 0]  # the mean of both
    with pytest.raises(ValueError, match="they must be preprocessed alike"):
        cocoax.Occlusion(baseline="GG").run(encoder(), SEQUENCE)

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.inputs import Display, Names, Picture, Text
from cocoax.show import WHOLE
from tests.conftest import images


def full_attribution() -> cocoax.Attribution:
    """One with every field set to something that is not the default."""
    raw = images(1, 6, 8)[0]
    return cocoax.Attribution(
        values=raw.mean(0),
        score=0.1 + 0.2,  # not a short decimal
        baseline_score=-1e-9,
        standard_error=images(1, 6, 8, channels=1, seed=1)[0, 0].abs(),
        raw=raw,
        features=torch.arange(4.0),
        neutral=1 / 3,
        metadata={"target": "a “cat” rather than <dogs>", "options": {"seed": 3, "grid": [2, 3], "baseline": None}},
        display=Picture(torch.arange(5 * 7 * 3, dtype=torch.uint8).reshape(5, 7, 3), (0.1, 1 / 3, 0.9, 2 / 3)),
        feature_ids=(torch.arange(48) % 4).view(6, 8),
        unit=2.0,
    )


def assert_same(name: str, mine: object, theirs: object) -> None:
    if isinstance(mine, Tensor):
        assert isinstance(theirs, Tensor)
        assert mine.dtype == theirs.dtype, name
        assert torch.equal(mine, theirs), name
    elif isinstance(mine, Display):
        assert type(mine) is type(theirs)
        for key, value in vars(mine).items():
            assert_same(key, value, vars(theirs)[key])
    else:
        assert mine == theirs, name
        assert type(mine) is type(theirs), name


def assert_equal(one: cocoax.Attribution, other: cocoax.Attribution) -> None:
    for field in fields(cocoax.Attribution):
        assert_same(field.name, getattr(one, field.name), getattr(other, field.name))


def test_save__round_trip_of_every_field(tmp_path: Path) -> None:
    attribution = full_attribution()
    assert all(getattr(attribution, field.name) is not None for field in fields(attribution))
    path = attribution.save(tmp_path / "deep" / "er" / "cat.safetensors")
    assert path == tmp_path / "deep" / "er" / "cat.safetensors"
    assert_equal(cocoax.Attribution.load(path), attribution)


@pytest.mark.parametrize(
    "display",
    [
        Picture(),
        Names(("el", "niño", "👩‍👧")),
        Text("el niño 👩‍👧", ((0, 2), (3, 7), (8, 11)), left_out=2),
    ],
    ids=lambda display: display.kind,
)
def test_save__round_trip_of_every_display(display: Display, tmp_path: Path) -> None:
    attribution = cocoax.Attribution(torch.zeros(3), 0.0, 0.0, display=display)
    loaded = cocoax.Attribution.load(attribution.save(tmp_path / "file.safetensors"))
    assert_equal(loaded, attribution)
    assert (loaded.tokens, loaded.names) == (display.names, display.names)
    assert loaded.text == ("el niño 👩‍👧" if display.kind == "text" else None)
    assert loaded.offsets == (((0, 2), (3, 7), (8, 11)) if display.kind == "text" else None)


def test_load__display_that_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cocoax.Attribution(torch.zeros(3), 0.0, 0.0).save(tmp_path / "file.safetensors")
    monkeypatch.setattr("cocoax.inputs.explicand._DISPLAYS", {})
    with pytest.raises(ValueError, match=r"called 'picture', which is not known here; import the module that defines it"):
        cocoax.Attribution.load(path)


def test_save__round_trip_of_the_fewest_fields(tmp_path: Path) -> None:
    attribution = cocoax.Attribution(values=torch.zeros(2, 3), score=0.0, baseline_score=0.0)
    loaded = cocoax.Attribution.load(str(attribution.save(str(tmp_path / "one.safetensors"))))
    assert_equal(loaded, attribution)
    assert loaded.raw is None
    assert loaded.box == WHOLE


@pytest.mark.parametrize(
    "method",
    [
        cocoax.Rise(samples=20, grid=3),
        cocoax.KernelShap(samples=20, grid=3),
        cocoax.Occlusion(),
        cocoax.VanillaGradients(),
        cocoax.SmoothGrad(samples=3),
        cocoax.IntegratedGradients(steps=3),
        cocoax.GradientShap(samples=3),
        cocoax.ExpectedGradients(images(3), samples=3),
        cocoax.RandomAttribution(),
        cocoax.Captum("Saliency"),
    ],
    ids=lambda method: type(method).__name__,
)
def test_save__what_every_method_gives(method: cocoax.Method, encoder: cocoax.Encoder, tmp_path: Path) -> None:
    targets = [cocoax.representation_similarity(), cocoax.representation_similarity("dot")]
    for index, attribution in enumerate(method.explain(encoder, images(1)[0], targets)):
        path = attribution.save(tmp_path / f"{index}.safetensors")
        assert_equal(cocoax.Attribution.load(path), attribution)
        assert path.stat().st_size < 16 * 16 * 4 * 7 + 4000  # one target's maps, not those of all


def test_name__is_the_question() -> None:
    assert full_attribution().name == "a “cat” rather than <dogs>"
    assert cocoax.Attribution(torch.zeros(2, 2), 0.0, 0.0).name == "attribution"


def test_attribution__cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        full_attribution().score = 1.0  # type: ignore[misc]


def test_relative__counts_from_neutral() -> None:
    attribution = cocoax.Attribution(torch.tensor([0.25, 1.0]), 1.0, 0.0, neutral=0.75, display=Names(("a", "b")))
    assert attribution.relative.tolist() == [-0.5, 0.25]
    assert attribution.top() == [("a", -0.5), ("b", 0.25)]


def test_top__by_size_and_by_sign() -> None:
    values, names = torch.tensor([0.25, -1.0, 2.0, 0.0, -0.5]), Names(tuple("abcde"))
    attribution = cocoax.Attribution(values, 1.0, 0.0, display=names)
    assert attribution.top() == [("c", 2.0), ("b", -1.0), ("e", -0.5), ("a", 0.25), ("d", 0.0)]
    assert attribution.top(2) == [("c", 2.0), ("b", -1.0)]
    assert attribution.top(2, "positive") == [("c", 2.0), ("a", 0.25)]
    assert attribution.top(sign="negative") == [("b", -1.0), ("e", -0.5)]
    with pytest.raises(ValueError, match=r"The 'sign' parameter must be 'positive', 'negative' or None\. Got 'up' instead"):
        attribution.top(sign="up")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pixels have no names"):
        full_attribution().top()


# --- what the removal takes away ----------------------------------------------------------------------------------------


def scored(score: float, left: float, floor: float = 0.0) -> cocoax.Attribution:
    return cocoax.Attribution(torch.tensor([[1.0, -1.0]]), score, left, floor=floor)


@pytest.mark.parametrize(
    ("score", "left", "removed", "remark"),
    [
        (0.597, 0.579, 0.0302, "it still scores +0.579 of +0.597: the map explains the last 3 %."),
        (-0.4, -0.39, 0.025, "it still scores -0.390 of -0.400: the map explains the last 2.5 %."),
        (0.38, 0.4, 0.05, "though the red ones do. Another baseline may score less."),
        (-0.38, -0.4, 0.05, "it scores -0.400, as it is -0.380: the map explains those 5 %."),
        (0.6, 0.6, 0.0, "though the red ones do. Another baseline may score less."),
        (0.6, 0.3, 0.5, None),
        (0.6, 0.0, 1.0, None),
        (0.2, -0.2, 2.0, None),
        (0.0, 0.3, 1.0, None),
    ],
)
def test_removed__how_much_of_the_score(score: float, left: float, removed: float, remark: str | None) -> None:
    attribution = scored(score, left)
    assert attribution.removed == pytest.approx(removed, abs=1e-3)
    assert len(attribution.remarks) == (remark is not None)
    assert remark is None or attribution.remarks[0].endswith(remark)
    assert ("of the score removed" in repr(attribution)) == (remark is not None)


@pytest.mark.parametrize(("score", "left"), [(0.6, float("nan")), (0.0, 0.0)])
def test_removed__is_not_known(score: float, left: float) -> None:
    assert math.isnan(scored(score, left).removed)
    assert scored(score, left).remarks == ()


def test_removed__what_is_within_rounding_is_nothing() -> None:
    nothing = replace(scored(0.6, 0.6 + 1e-7, floor=1e-6), values=torch.zeros(1, 2))
    assert nothing.remarks[1] == "Nothing is removed: with everything removed it scores the same."


def test_removed__of_runs_and_their_answers(encoder: cocoax.Encoder) -> None:
    explicand = images(1)[0]
    target = cocoax.representation_similarity()
    run = cocoax.Rise(samples=20, grid=3).run(encoder, explicand)
    own, empty = encoder.represent(torch.stack([explicand, cocoax.Blur(121, 20.0)(explicand)]))
    left = float(torch.cosine_similarity(own, empty, dim=0))
    assert run.removed(target) == pytest.approx(1 - left, abs=1e-5)
    assert run.explain(target).removed == pytest.approx(run.removed(target))

"""What commands see of pictures: the same of a photo, whichever is asked, and the same in place of removed parts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import cocoax
from cocoax.cli.view import check_pictured, note_crop, seen
from cocoax.inputs.display import Picture
from cocoax.masking import resolve
from cocoax.masking.baseline_presets import OFFERED, OtherPictures
from tests.cli.support import invoke, picture
from tests.sounds import listener
from tests.towers import Spaces


@pytest.fixture
def wide(tmp_path: Path) -> str:
    """The file of a photo that is three times as wide as high."""
    picture(3).resize((60, 20)).save(tmp_path / "wide.png")
    return str(tmp_path / "wide.png")


def read(*arguments: str) -> dict[str, object]:
    result = invoke(*arguments, "--json", catch_exceptions=False)
    assert result.exit_code == 0, result.output
    numbers: dict[str, object] = json.loads(result.stdout)
    return numbers


@pytest.mark.parametrize("crop", [[], ["--crop"]])
def test_seen__commands_agree_on_the_score(
    crop: list[str], towers: cocoax.Encoder, wide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(towers.text.inputs, "tokenize", Spaces())
    (tmp_path / "others").mkdir()
    for seed in range(2):
        picture(seed).save(tmp_path / "others" / f"{seed}.png")
    captions = ["red", "dog"]
    own = towers.represent([(towers if crop else towers.whole()).explicand(wide)])
    target = cocoax.contrastive_corpus_similarity(*(towers.text.reference([caption]) for caption in captions))
    score = float(target.score(own)[0])
    captions = captions if score > 0 else captions[::-1]  # so that there is something to flip and to keep
    like = ["--like", captions[0], "--unlike", captions[1], *crop]
    answers = read("ask", wide, *like, "--samples", "30", "--out", str(tmp_path / "out"))
    asked = answers["pictures"][0]["answers"][0]["score"]  # type: ignore[index]
    assert asked == pytest.approx(abs(score), abs=1e-5)
    match = read("match", wide, captions[0], "--rather-than", captions[1], *crop, "--samples", "30")
    assert match["query"]["score"] == pytest.approx(asked, abs=1e-5)  # type: ignore[index]
    assert match["similarity"] - match["others"][0] == pytest.approx(asked, abs=1e-5)  # type: ignore[index,operator]
    flipped = read("counterfactual", wide, *like, "--gradient", "--smoothness", "0")
    assert flipped["score"] == pytest.approx(asked, abs=1e-5)
    others = str(tmp_path / "others")
    least = read("minimal", wide, "--like", wide, *crop, "--samples", "100")
    itself = read("ask", wide, "--like-image", wide, *crop, "--samples", "30", "--out", str(tmp_path / "out"))
    assert least["score"] == pytest.approx(itself["pictures"][0]["answers"][0]["score"], abs=1e-5)  # type: ignore[index]
    pictures = read("ask", wide, "--like-image", others, *crop, "--samples", "30", "--out", str(tmp_path / "out"))
    asked = pictures["pictures"][0]["answers"][0]["score"]  # type: ignore[index]
    members = read("examples", wide, "--member", str(tmp_path / "others"), *crop)["members"]
    assert sum(member["value"] for member in members) == pytest.approx(asked, abs=1e-5)  # type: ignore[attr-defined]


def test_seen__what_takes_the_place_of_removed_parts(towers: cocoax.Encoder, wide: str) -> None:
    assert resolve(None, towers.inputs) == OFFERED["blur"]  # the library's own is the paper's
    assert resolve(None, seen(towers).inputs) == OFFERED["strong blur"]
    assert resolve(None, seen(towers, crop=True, baseline="mean-colour").inputs) == OFFERED["mean colour"]
    assert isinstance(resolve(None, seen(towers, baseline=wide).inputs), OtherPictures)
    run = cocoax.Rise(samples=10).run(seen(towers), wide)
    assert run.method.baseline == OFFERED["strong blur"]
    assert cocoax.Rise(samples=10, baseline=cocoax.Mean()).run(seen(towers), wide).method.baseline == cocoax.Mean()
    with pytest.raises(ValueError, match="Removed parts become one of blur, strong-blur"):
        seen(towers, baseline="blurr")
    sounds = listener()
    assert seen(sounds).inputs is sounds.inputs  # which are removed as ever


def test_seen__keeps_the_space_and_the_view(towers: cocoax.Encoder, wide: str) -> None:
    assert seen(towers).space == towers.space
    assert seen(towers).explicand(wide).box == (0, 0, 1, 1)
    assert seen(towers, crop=True).explicand(wide).box == towers.explicand(wide).box != (0, 0, 1, 1)


def test_check_pictured(complaint: Callable[..., str]) -> None:
    check_pictured(["a text", Path("photo.png")], True, "blur")
    check_pictured(["a text", Path("voice.wav")], False, None)
    with pytest.raises(ValueError, match="--crop is about pictures, and none is explained here"):
        check_pictured(["a text", Path("voice.wav")], True, None)
    for command in ("minimal", "counterfactual"):
        said = complaint(command, "a red car", "--like", "a car", "--baseline", "blur")
        assert said == "--baseline is about pictures, and none is explained here; leave it out."
    assert "--crop is about pictures" in complaint("match", "a red car", "a car", "--crop")


def test_note_crop(capsys: pytest.CaptureFixture[str]) -> None:
    note_crop([None, Picture(), Picture(box=(0.06, 0.06, 0.94, 0.94))])  # a square loses as much all round
    assert capsys.readouterr().err == ""
    note_crop([Picture(box=(0.3, 0.05, 0.7, 0.95)), Picture(box=(0.3, 0.05, 0.7, 0.95))])
    assert (
        capsys.readouterr().err == "Of each photo, the square in the centre is looked at; what lies beside it is not seen.\n"
    )

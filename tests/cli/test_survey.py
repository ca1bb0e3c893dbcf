"""cocoax index, survey and compare: built, asked, compared; stopped and continued."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import cocoax
from cocoax.cli.main import app
from cocoax.cli.survey import _rows_where, is_index
from cocoax.survey import Index
from tests.survey import photos
from tests.towers import picture, two_towers

runner = CliRunner()


@pytest.fixture
def towers(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, **_options: object) -> cocoax.Encoder:
        return two_towers()

    monkeypatch.setattr("cocoax.survey.builder.load", load)
    monkeypatch.setattr("cocoax.survey.index.load", load)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for kind in ("noise", "more"):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for seed in range(3):
            picture(seed + (kind == "more") * 10).save(tmp_path / "photos" / kind / f"{seed}.png")
    return tmp_path / "photos"


def test_index__then_ask_all_of_it(towers: None, folder: Path, tmp_path: Path) -> None:
    options = ["--out", str(tmp_path / "index"), "--samples", "20", "--grid", "4", "--shard", "2"]
    done = runner.invoke(app, ["index", str(folder), *options], catch_exceptions=False)
    assert "6 images in" in done.output
    assert len(Index.open(tmp_path / "index")) == 6
    ask = ["survey", str(tmp_path / "index"), "--like", "a cat", "--unlike", "a dog", "--where", "label=more", "--json"]
    answer = json.loads(runner.invoke(app, [*ask, "--out", str(tmp_path / "a.html")], catch_exceptions=False).stdout)
    assert answer["answers"][0]["inputs"] == 3
    assert answer["answers"][0]["question"] == "a cat rather than a dog"
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    several = runner.invoke(app, [*ask[:-1], "--out", str(tmp_path / "out")], catch_exceptions=False)
    assert "a cat rather than a dog: 3 images" in several.output
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == ["answer.html", "answer.json"]
    runner.invoke(app, [*ask[:-1], "--out", str(tmp_path / "out")], catch_exceptions=False)  # what is there stays
    assert sorted(path.name for path in (tmp_path / "out").glob("*.html")) == ["answer-2.html", "answer.html"]
    runner.invoke(app, [*ask[:-1], "--out", str(tmp_path / "answer.parquet")], catch_exceptions=False)
    assert (tmp_path / "answer.parquet").is_file()


def test_index__json(towers: None, folder: Path, tmp_path: Path) -> None:
    (folder / "noise" / "bad.png").write_bytes(b"no")
    options = ["--out", str(tmp_path / "index"), "--samples", "20", "--json"]
    said = json.loads(runner.invoke(app, ["index", str(folder), *options], catch_exceptions=False).stdout)
    assert said["inputs"] == 6
    assert list(said["failed"]) == ["noise/bad.png"]


def test_compare__two_indexes(folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        cocoax.survey.build(photos.encoder(), folder, tmp_path / name, cocoax.Rise(samples=20, grid=4))
    arguments = ["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--label", "label", "--out", str(tmp_path / "c.json")]
    done = runner.invoke(app, arguments, catch_exceptions=False)
    assert "correlate by 1.000 on average" in done.output
    assert "Scores moved most" in done.output
    assert json.loads((tmp_path / "c.json").read_text())["inputs"] == 6
    unasked = runner.invoke(app, arguments[:3], catch_exceptions=False).output
    assert "Maps changed most" in unasked
    assert "Scores moved most" not in unasked  # every input is as like itself as can be
    assert "two scores" not in unasked
    said = str(runner.invoke(app, ["compare", *arguments[1:2], str(tmp_path / "b" / ".." / "a")]).exception)
    assert said.startswith(f"Both are the index {tmp_path / 'a'}; name the indexes of two encoders. Two classes of one index")


def test_survey__words_without_an_option() -> None:
    for command in ("survey", "compare"):
        said = runner.invoke(app, [command, "a", "b", "c"]).stderr
        assert "unexpected extra argument" in said
        assert "A question goes to --question" in said
    assert "question" not in runner.invoke(app, ["encoders", "a"]).stderr


def test_rows_where__conditions() -> None:
    assert _rows_where(["label=cat, dog", "year=2020"]) == {"label": ["cat", "dog"], "year": ["2020"]}
    assert _rows_where([]) is None
    with pytest.raises(ValueError, match=r"A condition reads label=cat.* Got 'cat' instead"):
        _rows_where(["cat"])


def test_index__stopped_before_its_first_shard(towers: None, folder: Path, tmp_path: Path) -> None:
    index = str(tmp_path / "index")
    build = ["index", str(folder), "--out", index, "--samples", "20"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cocoax.survey.builder._build_here", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        runner.invoke(app, build)
    assert (tmp_path / "index" / "manifest.json").is_file()
    for command in (["survey", index, "--like", "a cat"], ["compare", index, index], ["discover", index]):
        said = str(runner.invoke(app, command).exception)
        assert said == f"The index {index} is unfinished: it has no images yet. Run the same 'cocoax index' command again."
    assert "6 images in" in runner.invoke(app, build, catch_exceptions=False).output


def test_is_index__pictures_with_a_manifest_of_something_else(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"kind": "album"}')
    assert not is_index(folder)


def test_index__says_how_long_it_takes_and_what_is_cut_off(towers: None, folder: Path, tmp_path: Path) -> None:
    picture(5).resize((60, 20)).save(folder / "more" / "wide.png")
    for options, cut in (["--crop"], True), (["--baseline", "mean-colour", "--features", "segments"], False):
        index = ["--out", str(tmp_path / str(cut)), "--samples", "20", *options]
        done = runner.invoke(app, ["index", str(folder), *index], catch_exceptions=False)
        assert "7 images: about" in done.stderr
        assert ("Of each photo, the square in the centre is looked at" in done.stderr) is cut
        recipe = Index.open(tmp_path / str(cut)).manifest.recipe
        assert (recipe.get("view"), recipe.get("features")) == ((None, None) if cut else ("whole", "Segments(count=16)"))

"""cocoax ask: what it prints and writes, and what it says about bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import cocoax
from cocoax.app.service import EncoderService
from cocoax.app.sessions import Session
from cocoax.masking.removals import DEFAULT_PRESET, PRESETS
from cocoax.methods.rise import relative_error
from cocoax.questions.answers import MAX_COPIES, MIN_COPIES, TOLERANCE
from cocoax.survey import build
from cocoax.survey.builder import _with_own_seed
from tests.cli.support import interrupt_after, invoke, picture, rows_of, run_main
from tests.conftest import SmallNet

PROBES = 1  # inputs that tell whether an encoder is still the same, each time that a picture is asked about


def ask(image: str, *arguments: str, out: Path | None = None) -> Any:
    folder = Path(image).parent / "out" if out is None else out
    short = () if "--samples" in arguments or "--method" in arguments else ("--samples", "30")
    return invoke("ask", image, *arguments, *short, "--out", str(folder))


def test_ask__prints_score_comparison_and_regions_and_writes_files(
    towers: cocoax.Encoder, image: str, tmp_path: Path
) -> None:
    result = ask(image, "--like", "a cat", "--like", "a kitten", "--unlike", "a cup of coffee")
    assert result.exit_code == 0, result.output
    question = cocoax.Question(["a cat", "a kitten"], "a cup of coffee")
    (answer,) = cocoax.ask(towers.whole(), image, question, cocoax.Rise(samples=30, baseline=PRESETS[DEFAULT_PRESET]))
    assert "a cat / a kitten rather than a cup of coffee" in result.output
    assert f"score {answer.split()}" in result.output
    assert "Of 3 captions the picture is most similar to" in result.output
    assert answer.regions[0].place in result.output
    assert "Rise on towers, 30 samples" in result.output
    content = json.loads((tmp_path / "out" / "answers.json").read_text())["answers"]
    attribution = cocoax.Attribution.load(tmp_path / "out" / content[0]["map"])
    np.testing.assert_allclose(attribution.values.numpy(), answer.attribution.values.numpy(), rtol=1e-4, atol=1e-6)
    assert (tmp_path / "out" / content[0]["overlay"]).stat().st_size > 1000
    assert (tmp_path / "out" / "answers.json").stat().st_size < 10_000
    assert content[0]["score"] == pytest.approx(answer.score, abs=1e-6)
    names = {file.suffix for file in (tmp_path / "out").glob("[!.]*")}
    assert names == {".png", ".safetensors", ".html", ".json"}
    for file in (tmp_path / "out").glob("[!.]*"):
        assert f"wrote {file}" in result.output


def test_ask__again_answers_from_the_saved_run(towers: cocoax.Encoder, image: str) -> None:
    net = towers.module
    assert isinstance(net, SmallNet)
    ask(image, "--like", "a cat", "--samples", "30")
    net.inputs = 0
    result = ask(image, "--like", "a dog", "--unlike", "a cat", "--samples", "30")
    assert net.inputs <= PROBES + 1  # for its segments
    assert "30 samples" in result.output
    result = ask(image, "--like", "a dog", "--samples", "50")
    assert 20 <= net.inputs <= 23 + 3 * PROBES  # one of them twice: an encoder that is new here may be random
    assert "50 samples" in result.output


def test_ask__without_samples_uses_all_that_are_saved(
    towers: cocoax.Encoder, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(image, "--like", "a cat", "--samples", "1040")
    result = invoke("ask", image, "--like", "a cat", "--out", str(Path(image).parent / "out"))
    assert "1040 samples" in result.output


def test_ask__again_into_the_same_folder_keeps_the_earlier_report(towers: cocoax.Encoder, image: str, tmp_path: Path) -> None:
    ask(image, "--like", "a cat")
    result = ask(image, "--like", "a dog")
    assert "a cat" in (tmp_path / "out" / "report.html").read_text()
    assert "a dog" in (tmp_path / "out" / "report-2.html").read_text()
    assert f"wrote {tmp_path / 'out' / 'report-2.html'}" in result.output


def test_ask__each_against_the_others(towers: cocoax.Encoder, image: str, tmp_path: Path) -> None:
    picture(9).save(tmp_path / "cup.png")
    arguments = (
        "--like",
        "a cat",
        "--like",
        "a dog",
        "--like-image",
        str(tmp_path / "cup.png"),
        "--unlike",
        "a rocket",
        "--each",
    )
    result = ask(image, *arguments)
    assert result.exit_code == 0, result.output
    asked = [line for line in result.output.splitlines() if " rather than " in line]
    assert asked == [
        "a cat rather than a dog / a rocket / the picture cup",
        "a dog rather than a cat / a rocket / the picture cup",
        "the picture cup rather than a cat / a dog / a rocket",
    ]


def test_ask__nothing_is_the_picture_itself(towers: cocoax.Encoder, image: str) -> None:
    result = ask(image)
    assert "itself" in result.output.splitlines()
    assert "score +1.000" in result.output


def test_ask__many_foils(towers: cocoax.Encoder, image: str, tmp_path: Path) -> None:
    result = ask(image, "--like", "a rocket", "--unlike-many", "cifar100")
    assert "a rocket rather than an apple and 98 more" in result.output.replace("\n", " ")
    (tmp_path / "names.txt").write_text("cat\n\ndog\nrocket\n")
    result = ask(image, "--like", "a rocket", "--unlike-many", str(tmp_path / "names.txt"), "--template", "a {}")
    assert "a rocket rather than a cat / a dog" in result.output.splitlines()


def test_ask__library_command_page_and_index_agree(towers: cocoax.Encoder, tmp_path: Path) -> None:
    """The same view, features, baseline, samples and seed; an index up to the half precision of its fields."""
    (tmp_path / "photos").mkdir()
    photo = tmp_path / "photos" / "a.png"
    picture(4, 40).crop((0, 0, 40, 30)).save(photo)
    encoder, question = cocoax.load("starter"), cocoax.Question("a cat", "a dog")
    index = build(encoder, tmp_path / "photos", tmp_path / "index", cocoax.Rise(samples=60))
    method: Any = _with_own_seed(cocoax.Rise(samples=60), index.ids[0])
    (answer,) = cocoax.ask(encoder, photo, question, method)
    expected = answer.attribution

    sides = ("--like", "a cat", "--unlike", "a dog", "--samples", "60", "--seed", str(method.seed))
    ask(str(photo), *sides, out=tmp_path / "out")
    (told,) = json.loads((tmp_path / "out" / "answers.json").read_text())["answers"]
    command = cocoax.Attribution.load(tmp_path / "out" / told["map"])
    service, session = EncoderService(encoder, method), Session()
    service.choose(session, Image.open(photo), ("a cat", "a dog"))
    list(service.sample(session))
    assert session.answers[0] is not None
    for found in (command, session.answers[0].attribution):
        torch.testing.assert_close(found.relative, expected.relative, rtol=1e-5, atol=1e-7)
        assert (found.score, found.baseline_score) == pytest.approx((expected.score, expected.baseline_score), abs=1e-6)
        assert torch.equal(found.feature_ids, expected.feature_ids)  # type: ignore[arg-type]

    index.encoder = encoder
    own = index.ask(question).highest[0].attribution
    half = 2**-11 * float(index.field(0).values.abs().max() * question.target(encoder).direction().abs().sum())
    torch.testing.assert_close(own.relative, expected.relative, rtol=0, atol=half)
    assert (own.score, own.baseline_score) == pytest.approx((expected.score, expected.baseline_score), abs=1e-5)
    assert torch.equal(own.feature_ids, expected.feature_ids)  # type: ignore[arg-type]


def test_ask__stops_by_itself_when_the_answer_is_known(towers: cocoax.Encoder, image: str, tmp_path: Path) -> None:
    result = invoke("ask", image, "--like", "a cat", "--unlike", "a dog", "--out", str(tmp_path / "out"))
    (answer,) = cocoax.ask(towers.whole(), image, cocoax.Question("a cat", "a dog"))
    assert answer.attribution.metadata["samples"] == int(re.findall(r"(\d+) samples", result.output)[0])
    assert MIN_COPIES <= answer.attribution.metadata["samples"] < MAX_COPIES
    assert relative_error(answer.attribution) <= TOLERANCE
    stopped = re.search(r"(\d+) samples: relative error 0\.\d+ after \1 samples, ", result.output)  # it sees the whole photo
    assert stopped is not None
    assert MIN_COPIES <= int(stopped[1]) < MAX_COPIES
    assert "within the tolerance of 0.1" in result.output


def test_ask__tolerance_that_cannot_be_reached_says_what_was(
    towers: cocoax.Encoder, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cocoax.Rise, "max_samples", 120)
    out = tmp_path / "out"
    result = invoke("ask", image, "--like", "a cat", "--unlike", "a dog", "--tolerance", "0.001", "--out", str(out))
    said = re.search(
        r"relative error (0\.\d+) after 120 samples, the maximum; the tolerance of 0.001 was not reached", result.output
    )
    assert said is not None, result.output
    (content,) = json.loads((out / "answers.json").read_text())["answers"]
    attribution = cocoax.Attribution.load(out / content["map"])
    assert float(said[1]) == pytest.approx(relative_error(attribution), abs=1e-3)
    assert content["stopped"] in result.output


def test_ask__baseline(towers: cocoax.Encoder, image: str, tmp_path: Path) -> None:
    def score_left(*options: str) -> float:
        out = tmp_path / "-".join(options).replace("/", "-")
        result = ask(image, "--like", "a cat", *options, out=out)
        assert result.exit_code == 0, result.output
        (content,) = json.loads((out / "answers.json").read_text())["answers"]
        assert isinstance(content["baseline_score"], float)
        return content["baseline_score"]

    plain = score_left()
    assert score_left("--baseline", "strong-blur") == score_left("--method", "rise", "--samples", "40") == plain
    assert score_left("--baseline", "blur") != plain
    whole = towers.whole()
    target = cocoax.Question("a cat").target(whole)
    mean = cocoax.Rise(samples=30, baseline=cocoax.Mean()).explain(whole, image, target)
    assert score_left("--baseline", "mean-colour") == pytest.approx(mean.baseline_score, abs=1e-6)
    donor = cocoax.Rise(samples=30, baseline=image).explain(whole, image, target)
    assert score_left("--baseline", image) == pytest.approx(donor.score, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("text.jpg", lambda path: path.write_text("not a picture"), "text.jpg is not an image that can be read"),
        (
            "cut.png",
            lambda path: picture(1, 40).save(path) or path.write_bytes(path.read_bytes()[:300]),
            "damaged or cut off",
        ),
        ("one.png", lambda path: Image.new("RGB", (1, 1)).save(path), "has 1 x 1 pixels; at least 2 x 2 are needed"),
        ("none.png", lambda path: None, "No file at"),
        ("folder", lambda path: path.mkdir(), "No pictures below"),
    ],
)
def test_ask__bad_pictures_are_told_before_anything_is_loaded(
    name: str,
    write: Callable[[Path], object],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    complaint: Callable[..., str],
) -> None:
    def load(name: str, device: str | None) -> None:
        raise AssertionError("the encoder was loaded")

    monkeypatch.setattr(cocoax, "load", load)
    write(tmp_path / name)
    out = tmp_path / "out"
    assert message in complaint("ask", str(tmp_path / name), "--like", "a cat", "--out", str(out))
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--like", "a cat", "--each"], "--each asks about several things"),
        (["--like", "a cat", "--method", "ryse"], "Did you mean 'rise'?"),
        (
            ["--method", "occlusion", "--tolerance", "0.1"],
            "The method 'occlusion' has no option --tolerance; it has --baseline.",
        ),
        (
            ["--method", "smoothgrad", "--tolerance", "0.3"],
            "has no option --tolerance; it has --samples and --baseline and --seed.",
        ),
        (["--like", "a cat", "--unlike-many", "cifar"], "--unlike-many takes cifar100 or a text file"),
        (["--like", "a cat", "--tolerance", "10"], "0.1 is 10 %"),
    ],
)
def test_ask__bad_questions(
    arguments: list[str], message: str, towers: cocoax.Encoder, image: str, tmp_path: Path, complaint: Callable[..., str]
) -> None:
    assert message in complaint("ask", image, *arguments, "--out", str(tmp_path / "out"))


# --- many pictures ------------------------------------------------------------------------------------------------------


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of three pictures, one of them in a folder of its own, and a broken one."""
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    picture(1, 40).save(folder / "a.png")
    picture(2, 40).save(folder / "more" / "c.png")
    (folder / "b.jpg").write_text("not a picture")
    picture(3, 40).save(folder / "more" / "d.png")
    return folder


def test_ask__a_folder_goes_on_after_a_broken_picture(
    towers: cocoax.Encoder,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    stopped = run_main(
        monkeypatch, "ask", str(photos), "--like", "a cat", "--unlike", "a dog", "--samples", "30", "--out", str(out)
    )
    assert stopped.code == 1
    shown = capsys.readouterr()
    assert shown.err.splitlines() == [
        f"left out: {photos / 'b.jpg'} is not an image that can be read; expected JPEG, PNG, WebP or the like.",
        f"error: 1 of 4 pictures could not be answered: {photos / 'b.jpg'}.",
    ]
    header, *rows = rows_of(shown.out)
    assert header == ["picture", "question", "score", "raised most by", "lowered most by"]
    names = ("a.png", "more/c.png", "more/d.png")
    question = cocoax.Question("a cat", "a dog")
    for row, name in zip(rows, names, strict=False):
        (answer,) = cocoax.ask(
            towers.whole(), photos / name, question, cocoax.Rise(samples=30, baseline=PRESETS[DEFAULT_PRESET])
        )
        assert row[:3] == [str(photos / name), "a cat rather than a dog", f"{answer.score:+.3f}"]
        assert row[3].startswith(answer.regions[0].place)
        folder = out / Path(name).with_suffix("")
        assert {file.suffix for file in folder.glob("[!.]*")} == {".png", ".safetensors", ".html", ".json"}
    written = [f"wrote {(out / name).with_suffix('') / 'report.html'}" for name in names]
    assert shown.out.splitlines()[4:] == written


def test_ask__several_files_of_one_name_have_folders_of_their_own(
    towers: cocoax.Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ["x.png", "x.jpg", "other/x.png", "third/x.png"]
    for number, name in enumerate(files):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        picture(number).save(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    result = invoke("ask", *files, "x.png", "--like", "a cat", "--samples", "30", "--out", "out")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["x", "x.jpg", "x.png", "x.png-2"]
    titles = [json.loads(path.read_text())["title"] for path in sorted((tmp_path / "out").glob("*/answers.json"))]
    assert titles == [f"{name}: what is it like?" for name in ("x.png", "x.jpg", "x.png", "x.png")]


def test_ask__many_pictures_are_each_encoded_once_and_references_once(
    towers: cocoax.Encoder, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (photos / "b.jpg").unlink()
    picture(9).save(tmp_path / "cup.png")
    made: list[Any] = []
    reference = cocoax.Encoder.reference
    monkeypatch.setattr(
        cocoax.Encoder, "reference", lambda self, *what, **how: made.append(what) or reference(self, *what, **how)
    )
    arguments = ("ask", str(photos), "--like-image", str(tmp_path / "cup.png"), "--samples", "30")
    assert invoke(*arguments, "--out", str(tmp_path / "out")).exit_code == 0
    assert len(made) == 1
    net = towers.module
    assert isinstance(net, SmallNet)
    net.inputs = 0
    assert invoke(*arguments, "--out", str(tmp_path / "again")).exit_code == 0
    assert net.inputs <= 3 * (PROBES + 1) + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--like", "cat " * 13], "13 tokens but 'words' takes at most 12; shorten it"),
        (["--like-image", "nowhere.png"], "No file at nowhere.png"),
    ],
)
def test_ask__what_is_wrong_with_the_question_is_no_fault_of_the_pictures(
    arguments: list[str], message: str, towers: cocoax.Encoder, photos: Path, tmp_path: Path, complaint: Callable[..., str]
) -> None:
    assert message in complaint("ask", str(photos), *arguments, "--out", str(tmp_path / "out"))


# --- JSON ---------------------------------------------------------------------------------------------------------------


def test_ask__json_and_nothing_else_on_standard_output(towers: cocoax.Encoder, photos: Path, tmp_path: Path) -> None:
    arguments = ("--like", "a cat", "--unlike", "a dog", "--samples", "30", "--out", str(tmp_path / "out"), "--json")
    result = invoke("ask", str(photos), *arguments)
    content = json.loads(result.stdout)
    assert result.exit_code == 1
    assert "left out" in result.stderr
    assert [record["picture"] for record in content["pictures"]] == [
        str(photos / name) for name in ("a.png", "more/c.png", "more/d.png")
    ]
    (answer,) = cocoax.ask(towers.whole(), photos / "a.png", cocoax.Question("a cat", "a dog"), cocoax.Rise(samples=30))
    (plain,) = content["pictures"][0]["answers"]
    assert plain["score"] == pytest.approx(answer.score, abs=1e-6)
    assert "values" not in plain
    assert all(Path(file).exists() for file in content["pictures"][0]["files"])
    assert [failure["picture"] for failure in content["failed"]] == [str(photos / "b.jpg")]
    alone = json.loads(invoke("ask", str(photos / "a.png"), *arguments).stdout)
    assert alone["pictures"][0]["answers"] == [plain]
    assert alone["failed"] == []


# --- Ctrl-C -------------------------------------------------------------------------------------------------------------


def test_ask__interrupted_says_what_was_kept_and_goes_on(
    towers: cocoax.Encoder, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]
) -> None:
    arguments = ("ask", image, "--like", "a cat", "--samples", "500", "--out", str(tmp_path / "out"))
    with monkeypatch.context() as patch:
        interrupt_after(patch, SmallNet, "forward", 11)
        said = interruption(*arguments)
    samples = int(said.split()[2])
    assert 0 < samples < 500
    assert said == f"interrupted: kept {samples} of 500 samples; the same command goes on from there"
    net = towers.module
    assert isinstance(net, SmallNet)
    net.inputs = 0
    assert "500 samples" in invoke(*arguments).output
    assert net.inputs <= 4 + 500 - samples + PROBES  # the two ends are encoded again, one of them twice


def test_ask__interrupted_among_many(
    towers: cocoax.Encoder, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]
) -> None:
    arguments = ("ask", str(photos), "--like", "a cat", "--samples", "300", "--out", str(tmp_path / "out"))
    with monkeypatch.context() as patch:
        interrupt_after(patch, SmallNet, "forward", 23)
        said = interruption(*arguments)
    assert re.fullmatch(
        r"interrupted: kept the answers about [12] of 4 pictures and \d+ of 300 samples; the same command goes on from there",
        said,
    )


def test_ask__the_whole_photo_or_the_crop(towers: cocoax.Encoder, tmp_path: Path) -> None:
    picture(3).resize((60, 20)).save(tmp_path / "wide.png")
    boxes = {}
    for arguments in ([], ["--crop"]):
        result = ask(str(tmp_path / "wide.png"), "--like", "a cat", *arguments, "--json")
        assert result.exit_code == 0, result.output
        (content,) = json.loads(result.stdout)["pictures"][0]["answers"]
        boxes[len(arguments)] = content["box"]
    assert boxes[0] == [0, 0, 1, 1]
    assert boxes[1][0] > 0.3


@pytest.mark.parametrize(
    "asked",
    [["--like", "coffee.jpg"], ["--like", "a cat", "--unlike", "FILE"], ["--question", "a cat rather than coffee.jpg"]],
)
def test_ask__names_of_files_are_no_captions(
    asked: list[str], image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: Callable[..., str]
) -> None:
    monkeypatch.setattr(cocoax, "load", lambda _name, device: pytest.fail("loaded an encoder"))
    (tmp_path / "notes").touch()
    said = complaint("ask", image, *(word.replace("FILE", str(tmp_path / "notes")) for word in asked))
    assert "is the name of a file" in said
    assert "pictures are given by --like-image and --unlike-image" in said


@pytest.mark.parametrize("text", ["a cat on a sofa", "A cat. It is on a sofa.", "a cat " * 200])
def test_ask__texts_are_for_another_command(text: str, complaint: Callable[..., str]) -> None:
    assert "explain a text by 'cocoax ask-text'" in complaint("ask", text, "--like", "a cat")
    assert "ask-text" not in complaint("ask", "my photo.jpg", "--like", "a cat")

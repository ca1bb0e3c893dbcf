"""cocoax localise: its table, its files, and what is said about bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

import cocoax
from tests.cli.support import interrupt_after, invoke, picture
from tests.conftest import SmallNet


def write_coco(folder: Path) -> Path:
    """Write two pictures and their annotations; those of the second lie where the encoder does not look."""
    for number, name in enumerate(("one.png", "two.png")):
        picture(number).resize((30, 20)).save(folder / name)
    content = {
        "images": [
            {"id": number, "file_name": f"{name}.png", "height": 20, "width": 30} for number, name in ((1, "one"), (2, "two"))
        ],
        "categories": [{"id": 10, "name": "cat"}, {"id": 20, "name": "dog"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 10, "bbox": [0, 0, 5, 5]},
            {"id": 2, "image_id": 1, "category_id": 10, "bbox": [10, 10, 5, 5]},
            {"id": 3, "image_id": 1, "category_id": 20, "bbox": [20, 0, 5, 5]},
            {"id": 4, "image_id": 2, "category_id": 20, "bbox": [1, 1, 3, 3]},
        ],
    }
    path = folder / "annotations.json"
    path.write_text(json.dumps(content))
    return path


def test_localise__coco(towers: cocoax.Encoder, tmp_path: Path) -> None:
    annotations = write_coco(tmp_path)
    arguments = ("localise", str(tmp_path), "--annotations", str(annotations), "--samples", "20", "--crop")
    arguments += ("--out", str(tmp_path / "out"))
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert "1 picture\n" in result.stdout
    assert result.stderr == "two.png: nothing that is annotated lies in the part that the encoder sees\n"
    assert all(target in result.output for target in ("contrastive", "corpus", "label-free"))
    content = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {(summary["target"], summary["name"]) for summary in content["summaries"]} >= {
        ("contrastive", ""),
        ("corpus", "dog"),
    }
    net = towers.module
    assert isinstance(net, SmallNet)
    net.inputs = 0
    assert invoke(*arguments).output == result.output
    assert net.inputs == 0
    everything = invoke(*arguments, "--foil", "all")
    assert everything.exit_code == 0, everything.output
    assert net.inputs > 0  # the runs were not kept
    net.inputs = 0
    whole = invoke(*(argument for argument in arguments if argument != "--crop"))
    assert "2 pictures\n" in whole.stdout  # nothing lies outside of what is seen
    assert net.inputs > 0  # what was found out about the crop does not serve


def test_localise__collages_and_masks(towers: cocoax.Encoder, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for number, name in enumerate(("n01440764_cat", "dog", "cup", "rocket", "bird")):
        picture(number).save(tmp_path / "photos" / f"{name}.png")
    result = invoke("localise", str(tmp_path / "photos"), "--collages", "2", "--samples", "20", "--out", str(tmp_path / "a"))
    assert result.exit_code == 0, result.output
    lines = (tmp_path / "a" / "results.jsonl").read_text().splitlines()
    assert [len(json.loads(line)) for line in lines] == [9] * 24
    strips = ("--strips", "2", "--samples", "20", "--out", str(tmp_path / "s"))
    assert invoke("localise", str(tmp_path / "photos"), *strips).exit_code == 0
    assert len(list((tmp_path / "s" / "units").iterdir())) == 2
    (tmp_path / "masks" / "cat").mkdir(parents=True)
    Image.new("L", (24, 24), 255).save(tmp_path / "masks" / "cat" / "dog.png")
    arguments = ("--masks", str(tmp_path / "masks"), "--samples", "20", "--out", str(tmp_path / "b"))
    result = invoke("localise", str(tmp_path / "photos"), *arguments)
    assert result.exit_code == 0, result.output
    assert "100.0%" in result.output  # the mask is everything


def test_localise__json_and_nothing_else_on_standard_output(towers: cocoax.Encoder, tmp_path: Path) -> None:
    arguments = ("--annotations", str(write_coco(tmp_path)), "--samples", "20", "--out", str(tmp_path / "out"))
    result = invoke("localise", str(tmp_path), *arguments, "--crop", "--json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    written = json.loads((tmp_path / "out" / "summary.json").read_text(), parse_constant=lambda name: pytest.fail(name))
    assert content["summaries"] == written["summaries"]
    assert (content["encoder"], content["samples"], content["pictures"]) == ("starter", 20, 1)
    assert content["files"] == [str(tmp_path / "out" / name) for name in ("summary.json", "results.jsonl")]
    assert "two.png: nothing" in result.stderr


def test_localise__interrupted_says_what_was_kept_and_goes_on(
    towers: cocoax.Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: Callable[..., str]
) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(8):
        picture(number).save(tmp_path / "photos" / f"{number}.png")
    out = tmp_path / "out"
    arguments = ("localise", str(tmp_path / "photos"), "--collages", "3", "--samples", "100", "--out", str(out))
    with monkeypatch.context() as patch:
        interrupt_after(patch, cocoax.Encoder, "encode", 6)
        said = interruption(*arguments)
    kept = len(list((out / "units").iterdir()))
    assert 0 < kept < 3
    results = "picture" if kept == 1 else "pictures"
    assert said == f"interrupted: kept the results of {kept} {results} in {out}; the same command goes on from there"
    assert invoke(*arguments).exit_code == 0
    assert len(list((out / "units").iterdir())) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Say what is where, in one way"),
        (["--collages", "2", "--masks", "x"], "Say what is where, in one way"),
        (["--collages", "2", "--foil", "none"], "--foil is 'present' or 'all'"),
        (["--collages", "2"], "No pictures below"),
        (["--masks", "nowhere"], "No folder at nowhere"),
        (["--annotations", "nowhere.json"], "No file at nowhere.json"),
    ],
)
def test_localise__bad_input(arguments: list[str], message: str, tmp_path: Path, complaint: Callable[..., str]) -> None:
    (tmp_path / "empty").mkdir()
    assert message in complaint("localise", str(tmp_path / "empty"), *arguments, "--out", str(tmp_path / "out"))

"""Pictures with what is where: COCO annotations against pycocotools, image-mask pairs, collages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pycocotools.mask
import pytest
from PIL import Image

from cocoax.inputs.image import open_image
from cocoax.paper.annotations import (
    _coco_mask,
    class_names,
    coco_examples,
    collage_examples,
    mask_examples,
)
from tests.data.tiny import HEIGHT, WIDTH, picture, random_mask, write_coco

# --- COCO -------------------------------------------------------------------------------------------------------------


def runs(counts: Any, height: int = 2, width: int = 3) -> dict[str, Any]:
    return {"segmentation": {"size": [height, width], "counts": counts}}


def test_coco_mask__run_lengths() -> None:
    # Column by column, background first: two off, three on, one off.
    assert _coco_mask(runs([2, 3, 1]), 2, 3).tolist() == [[False, True, True], [False, True, False]]
    assert _coco_mask(runs([0, 6]), 2, 3).all()
    mask = random_mask(5, 120, 90)
    counts = pycocotools.mask.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"]
    for compressed in (counts, counts.decode()):
        assert np.array_equal(_coco_mask(runs(compressed, 120, 90), 120, 90), mask)


@pytest.mark.parametrize("counts", [[2, 3], [2, 3, 9], [7, -1], "zzzz"])
def test_coco_mask__damaged_run_lengths(counts: Any) -> None:
    with pytest.raises((ValueError, OverflowError), match=r"damaged|Invalid|out of bounds"):
        _coco_mask(runs(counts), 2, 3)


def test_coco_mask__needs_pycocotools_for_outlines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycocotools", None)
    assert _coco_mask({"bbox": [0, 0, 1, 1]}, 2, 3).sum() == 1
    with pytest.raises(ImportError, match=r"pip install 'cocoax\[paper\]'"):
        _coco_mask(runs([6]), 2, 3)


def test_coco_mask__polygon_on_pixel_corners_is_exact() -> None:
    found = _coco_mask({"segmentation": [[5, 5, 20, 5, 20, 12, 5, 12]]}, 20, 30)
    expected = np.zeros((20, 30), bool)
    expected[5:12, 5:20] = True
    assert np.array_equal(found, expected)


def test_coco_mask__box() -> None:
    expected = np.zeros((20, 30), bool)
    expected[3:7, 2:12] = True
    assert np.array_equal(_coco_mask({"bbox": [2, 3, 10, 4]}, 20, 30), expected)
    assert np.array_equal(_coco_mask({"bbox": [2, 3, 10, 4], "segmentation": []}, 20, 30), expected)


@pytest.mark.parametrize(
    ("annotation", "complaint"),
    [
        ({"id": 7}, "The annotation 7 has neither an outline nor a box"),
        ({"segmentation": [[1, 2, 3, 4]]}, "at least three points x, y. Got 4 numbers"),
        ({"id": 7, "segmentation": {"size": [4, 4], "counts": [16]}}, r"of size \[4, 4\], not \[20, 30\]"),
    ],
)
def test_coco_mask__bad(annotation: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        _coco_mask(annotation, 20, 30)


IMAGE = {"id": 1, "file_name": "one.png", "height": HEIGHT, "width": WIDTH}


def test_coco_examples__one_per_picture_and_objects_of_a_class_together(tmp_path: Path) -> None:
    examples = coco_examples(write_coco(tmp_path), tmp_path)
    assert [(example.name, example.classes) for example in examples] == [("one.png", ("cat", "dog")), ("two.png", ("dog",))]
    assert class_names(examples) == ["cat", "dog"]
    path, masks = examples[0].load()
    assert Path(path).name == "one.png"
    expected = np.zeros((HEIGHT, WIDTH), bool)
    expected[:5, :5] = expected[10:15, 10:15] = True
    assert np.array_equal(masks["cat"], expected)
    assert masks["dog"].sum() == 25


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"categories": []}, "is not a COCO json: KeyError 10"),
        ({"images": []}, "annotates the image 1, which is not among its images"),
        ({"annotations": []}, "has no annotations"),
        ({"images": [{**IMAGE, "file_name": "../x.png"}, {**IMAGE, "id": 2}]}, "lies outside of"),
        ({"images": [{**IMAGE, "width": float("inf")}]}, "is not a COCO json: OverflowError"),
        ({"images": [{**IMAGE, "width": "wide"}]}, "is not a COCO json: ValueError .*wide"),
        *(
            ({"images": [{key: value for key, value in IMAGE.items() if key != missing}]}, f"KeyError '{missing}'; expected")
            for missing in IMAGE
        ),
    ],
)
def test_coco_examples__bad_content(changes: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=complaint):
        coco_examples(write_coco(tmp_path, **changes), tmp_path)


def test_coco_examples__bad_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="No file at"):
        coco_examples(tmp_path / "none.json", tmp_path)
    (tmp_path / "no.json").write_text("not json")
    with pytest.raises(ValueError, match="is not a COCO json"):
        coco_examples(tmp_path / "no.json", tmp_path)
    path = write_coco(tmp_path)
    with pytest.raises(FileNotFoundError, match="No folder at"):
        coco_examples(path, tmp_path / "none")
    first, second = coco_examples(path, tmp_path)
    (tmp_path / "one.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"one.png, which .*\.json names; check the folder of pictures"):
        first.load()
    picture(10, 10).save(tmp_path / "two.png")
    with pytest.raises(ValueError, match=r"has 10 x 10 pixels, but .*\.json says 31 x 23"):
        second.load()


@pytest.mark.parametrize("box", [{}, {"bbox": 3}, {"bbox": [1, 2]}, {"segmentation": {"counts": "a"}}])
def test_coco_examples__bad_outlines_name_the_file_and_the_picture(box: dict[str, Any], tmp_path: Path) -> None:
    annotations = [{"id": 1, "image_id": 1, "category_id": 10, **box}]
    path = write_coco(tmp_path, annotations=annotations)
    (example,) = coco_examples(path, tmp_path)
    with pytest.raises(ValueError, match=rf"{path.name} cannot be read as annotations of {example.name} \("):
        example.load()


def oriented(path: Path, pixels: np.ndarray, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(path, exif=exif)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_coco_examples__masks_are_turned_with_the_picture(tmp_path: Path, orientation: int) -> None:
    path = write_coco(tmp_path)
    pixels = np.zeros((HEIGHT, WIDTH), np.uint8)
    pixels[:5, :5] = pixels[10:15, 10:15] = 255  # the cats
    oriented(tmp_path / "one.png", pixels, orientation)
    file, masks = coco_examples(path, tmp_path)[0].load()
    assert np.array_equal(masks["cat"], np.asarray(open_image(file)) > 0)


def test_coco_examples__annotations_of_the_upright_picture(tmp_path: Path) -> None:
    path = write_coco(tmp_path)
    oriented(tmp_path / "one.png", np.zeros((WIDTH, HEIGHT), np.uint8), 6)  # stored lying down
    masks = coco_examples(path, tmp_path)[0].load()[1]
    expected = np.zeros((HEIGHT, WIDTH), bool)
    expected[:5, :5] = expected[10:15, 10:15] = True
    assert np.array_equal(masks["cat"], expected)


# --- image-mask pairs -------------------------------------------------------------------------------------------------


def test_mask_examples__pairs_by_name(tmp_path: Path) -> None:
    for folder in ("pictures/cat", "masks/cat", "masks/a_big_dog"):
        (tmp_path / folder).mkdir(parents=True)
    picture().save(tmp_path / "pictures/cat/one.jpg")
    picture(seed=1).save(tmp_path / "pictures/two.png")
    cat, dog = random_mask(1), random_mask(2)
    Image.fromarray(cat.astype(np.uint8) * 255).save(tmp_path / "masks/cat/one.png")
    Image.fromarray(cat).save(tmp_path / "masks/cat/two.png")  # 1 bit
    Image.fromarray(np.stack([dog.astype(np.uint8)] * 3, 2)).save(tmp_path / "masks/a_big_dog/two.png")  # RGB, 1 of 255
    first, second = mask_examples(tmp_path / "pictures", tmp_path / "masks")
    assert (first.name, first.classes) == ("cat/one.jpg", ("cat",))
    assert (second.name, set(second.classes)) == ("two.png", {"cat", "a big dog"})
    assert np.array_equal(first.load()[1]["cat"], cat)
    masks = second.load()[1]
    assert np.array_equal(masks["cat"], cat)
    assert np.array_equal(masks["a big dog"], dog)


def rgba(mask: np.ndarray, colour: np.ndarray, solid: bool = False) -> Image.Image:
    alpha = np.full_like(mask, 255, np.uint8) if solid else mask.astype(np.uint8) * 255
    return Image.fromarray(np.dstack([colour.astype(np.uint8)] * 3 + [alpha]))


def palette(mask: np.ndarray, **options: Any) -> Image.Image:
    image = Image.fromarray(mask.astype(np.uint8)).convert("P")
    image.putpalette([255, 255, 255, 0, 0, 0])
    image.info.update(options)
    return image


KINDS: dict[str, Any] = {
    "small numbers of 16 bits": lambda mask: Image.fromarray(mask.astype(np.uint16) * 7),
    "cut out": lambda mask: rgba(mask, np.zeros(mask.shape)),
    "solid with alpha": lambda mask: rgba(mask, mask * 255, solid=True),
    "grey with alpha": lambda mask: rgba(mask, mask * 9).convert("LA"),
    "palette": palette,
    "palette with a clear colour": lambda mask: palette(mask, transparency=1),
    "one clear colour": lambda mask: Image.fromarray(mask.astype(np.uint8) * 255),
}


@pytest.mark.parametrize("kind", KINDS)
def test_mask_examples__numbers_count_as_they_are(tmp_path: Path, kind: str) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "masks/cat").mkdir(parents=True)
    picture().save(tmp_path / "pictures/one.png")
    mask = random_mask(1)
    options = {"transparency": 0} if kind == "one clear colour" else {}
    KINDS[kind](mask).save(tmp_path / "masks/cat/one.png", **options)
    (example,) = mask_examples(tmp_path / "pictures", tmp_path / "masks")
    assert np.array_equal(example.load()[1]["cat"], mask)


def test_mask_examples__turned_as_exif_says(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "masks/cat").mkdir(parents=True)
    mask = random_mask(1)
    oriented(tmp_path / "pictures/one.png", mask.astype(np.uint8), 6)
    oriented(tmp_path / "masks/cat/one.png", mask.astype(np.uint8), 6)
    (example,) = mask_examples(tmp_path / "pictures", tmp_path / "masks")
    assert np.array_equal(example.load()[1]["cat"], np.rot90(mask, -1))


def test_mask_examples__bad(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "masks/cat").mkdir(parents=True)
    picture().save(tmp_path / "pictures/one.png")
    picture().save(tmp_path / "masks/flat.png")
    with pytest.raises(ValueError, match="lies in no class folder"):
        mask_examples(tmp_path / "pictures", tmp_path / "masks")
    (tmp_path / "masks/flat.png").unlink()
    picture().save(tmp_path / "masks/cat/two.png")
    with pytest.raises(ValueError, match="No picture belongs to the mask"):
        mask_examples(tmp_path / "pictures", tmp_path / "masks")
    (tmp_path / "masks/cat/two.png").rename(tmp_path / "masks/cat/one.png")
    picture(5, 5).save(tmp_path / "masks/cat/one.png")
    (example,) = mask_examples(tmp_path / "pictures", tmp_path / "masks")
    with pytest.raises(ValueError, match="has 5 x 5 pixels, its picture 31 x 23"):
        example.load()


# --- collages ---------------------------------------------------------------------------------------------------------

COLOURS = {
    "n01440764_red_fish": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "n02_white": (255, 255, 255),
    "grey": (99,) * 3,
}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number, (name, colour) in enumerate(COLOURS.items()):
        Image.new("RGB", (20 + number, 30), colour).save(tmp_path / f"{name}.png")
    return tmp_path


def test_collage_examples__masks_cover_the_photo_of_their_class(photos: Path) -> None:
    names = {
        "red fish": (255, 0, 0),
        "green": (0, 255, 0),
        "blue": (0, 0, 255),
        "n02 white": (255, 255, 255),
        "grey": (99,) * 3,
    }
    examples = collage_examples(photos, count=6, cell=10)
    assert len({example.name for example in examples}) == 6
    assert len({example.classes for example in examples}) > 1
    for example in examples:
        image, masks = example.load()
        assert image.size == (20, 20)
        assert set(masks) == set(example.classes)
        assert len(masks) == 4
        assert np.array_equal(sum(mask.astype(int) for mask in masks.values()), np.ones((20, 20)))
        for name, mask in masks.items():
            assert (np.asarray(image)[mask] == names[name]).all()


def test_collage_examples__classes_are_folders_where_there_are_some(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "n01440764"):
        (tmp_path / name).mkdir()
        for number in range(2):
            Image.new("RGB", (8, 8)).save(tmp_path / name / f"{number}.png")
    assert class_names(collage_examples(tmp_path, 2, cell=4)) == ["a", "b", "c", "n01440764"]


def test_collage_examples__bad(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"needs photos of 4 classes; .* has 1"):
        collage_examples(tmp_path)
    with pytest.raises(FileNotFoundError, match="No folder at"):
        collage_examples(tmp_path / "none")

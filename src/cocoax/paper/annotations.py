"""Annotated pictures, in which it is known where things are: COCO annotations, image-mask pairs, and collages of photos."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image, ImageOps

from cocoax.data.samples import square
from cocoax.inputs.image import image_files, open_image, read_file
from cocoax.seeding import stream
from cocoax.store import digest, file_digest, readable

Masks = dict[str, np.ndarray]
_ORIENTATION = ExifTags.Base.Orientation


@dataclass(frozen=True)
class Example:
    """A picture and where things are in it.

    Attributes:
        name: unique among its kind.
        classes: of the things in it.
        load: gives the picture and, for every class in it, a boolean mask ``[h, w]`` of the upright picture's size.
        version: changes when the content does, as far as can be told without reading it.

    """

    name: str
    classes: tuple[str, ...]
    load: Callable[[], tuple[Any, Masks]]
    version: str = ""


def class_names(examples: Sequence[Example]) -> list[str]:
    """Return every class that occurs, in alphabetical order."""
    return sorted({name for example in examples for name in example.classes})


# --- image-mask pairs -------------------------------------------------------------------------------------------------


def mask_examples(pictures: str | Path, masks: str | Path) -> list[Example]:
    """List pairs of pictures and masks: ``MASKS/CLASS/NAME.png`` is where the class is in ``PICTURES/CLASS/NAME.*`` or
    ``PICTURES/NAME.*``.

    What is not 0 in a mask is the class: neither black nor the first colour of a palette. Where parts of a mask are
    transparent, the others are the class. A picture with masks in several class folders has several classes.
    """
    pictures, masks = _folder(pictures), _folder(masks)
    by_place = {path.relative_to(pictures).with_suffix("").as_posix(): path for path in image_files(pictures)}
    masks_of: dict[Path, dict[str, Path]] = {}
    for mask in image_files(masks):
        if mask.parent == masks:
            raise ValueError(f"The mask {mask} lies in no class folder; put it into {masks}/CLASS/{mask.name}.")
        kind = mask.parent.relative_to(masks).as_posix()
        picture = by_place.get(f"{kind}/{mask.stem}", by_place.get(mask.stem))
        if picture is None:
            raise ValueError(
                f"No picture belongs to the mask {mask}: neither {pictures}/{kind}/{mask.stem}.* nor {mask.stem}.*."
            )
        masks_of.setdefault(picture, {})[_words(kind)] = mask
    return [
        Example(
            picture.relative_to(pictures).as_posix(),
            tuple(files),
            partial(_load_pair, picture, files),
            _stamp(picture, *files.values()),
        )
        for picture, files in sorted(masks_of.items())
    ]


def _load_pair(picture: Path, files: Mapping[str, Path]) -> tuple[Path, Masks]:
    size = open_image(picture).size
    masks: Masks = {}
    for name, path in files.items():
        mask = read_file(path, _mask)
        height, width = mask.shape
        if (width, height) != size:
            raise ValueError(f"The mask {path} has {width} x {height} pixels, its picture {size[0]} x {size[1]}.")
        masks[name] = mask
    return picture, masks


def _mask(image: Image.Image) -> np.ndarray:
    """Return where a mask is set. Its numbers count as stored; as a picture, small 16-bit ones would become black."""
    bands = ImageOps.exif_transpose(image).split()
    if image.getbands()[-1] == "A":
        *colours, alpha = bands
        bands = (alpha,) if np.asarray(alpha).min() < 255 else tuple(colours)  # a band that is solid all over says nothing
    mask: np.ndarray = np.any([np.asarray(band) != 0 for band in bands], axis=0)
    return mask


# --- COCO -------------------------------------------------------------------------------------------------------------


def coco_examples(annotations: str | Path, pictures: str | Path) -> list[Example]:
    """List the pictures of a COCO json, with the masks of their categories: outlines, or boxes where there are none.

    Annotations are of the pixels as the file has them, and are turned with the picture as its EXIF data says; only where
    their size is that of the upright picture and not of the file, they are of the upright one.
    """
    annotations, pictures = Path(annotations), _folder(pictures)
    if not annotations.is_file():
        raise FileNotFoundError(f"No file at {annotations}; check the path.")
    try:
        content = json.loads(annotations.read_text(encoding="utf-8"))
        names = {category["id"]: str(category["name"]) for category in content["categories"]}
        images = {
            image["id"]: (str(image["file_name"]), (int(image["width"]), int(image["height"]))) for image in content["images"]
        }
        by_image: dict[Any, list[dict[str, Any]]] = {}
        for annotation in content["annotations"]:
            name = names[annotation["category_id"]]
            by_image.setdefault(annotation["image_id"], []).append({**annotation, "name": name})
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:  # the decoder has ValueErrors
        raise ValueError(
            f"{annotations} is not a COCO json: {type(error).__name__} {error}; expected images (with id, file_name, width "
            "and height), annotations (with image_id and category_id) and categories (with id and name)."
        ) from error
    unknown = [key for key in by_image if key not in images]
    if unknown:
        raise ValueError(f"{annotations} annotates the image {unknown[0]!r}, which is not among its images.")
    examples = []
    version = file_digest(annotations)
    for key, objects in by_image.items():
        name, size = images[key]
        path = (pictures / name).resolve()
        if not path.is_relative_to(pictures.resolve()):
            raise ValueError(f"The image {name!r} of {annotations} lies outside of {pictures}.")
        load = partial(_load_coco, annotations, path, size, objects)
        classes = tuple(dict.fromkeys(annotation["name"] for annotation in objects))
        examples.append(Example(name, classes, load, version))
    if not examples:
        raise ValueError(f"{annotations} has no annotations.")
    return examples


def _load_coco(
    annotations: Path, path: Path, size: tuple[int, int], objects: Sequence[Mapping[str, Any]]
) -> tuple[Path, Masks]:
    if not path.is_file():
        raise FileNotFoundError(f"No file at {path}, which {annotations} names; check the folder of pictures.")
    width, height = size
    stored, orientation = read_file(path, lambda image: (image.size, image.getexif().get(_ORIENTATION, 1)))
    upright = stored[::-1] if orientation in (5, 6, 7, 8) else stored
    if size not in (stored, upright):
        raise ValueError(f"{path} has {upright[0]} x {upright[1]} pixels, but {annotations} says {width} x {height}.")
    masks: Masks = {}
    for annotation in objects:
        with readable(annotations, f"annotations of {path.name}"):
            name, mask = annotation["name"], _coco_mask(annotation, height, width)
        masks[name] = masks[name] | mask if name in masks else mask
    if size == stored:
        masks = {name: _turned(mask, orientation) for name, mask in masks.items()}
    return path, masks


def _turned(mask: np.ndarray, orientation: int) -> np.ndarray:
    """Turn a mask of the stored pixels as a picture of this orientation is turned."""
    image = Image.fromarray(mask)
    image.getexif()[_ORIENTATION] = orientation
    return np.asarray(ImageOps.exif_transpose(image))


def _coco_mask(annotation: Mapping[str, Any], height: int, width: int) -> np.ndarray:
    """Return the mask ``[height, width]`` of a COCO annotation: polygons, run lengths (plain or compressed), or its box."""
    outline = annotation.get("segmentation")
    if not outline:
        if "bbox" not in annotation:
            raise ValueError(f"The annotation {annotation.get('id')!r} has neither an outline nor a box.")
        x, y, w, h = (float(number) for number in annotation["bbox"])
        rows, columns = np.arange(height) + 0.5, np.arange(width) + 0.5
        box: np.ndarray = ((rows >= y) & (rows < y + h))[:, None] & ((columns >= x) & (columns < x + w))[None]
        return box
    coco = _pycocotools()
    if isinstance(outline, Mapping):
        counts = outline["counts"]
        if list(outline["size"]) != [height, width]:
            raise ValueError(f"The annotation {annotation.get('id')!r} is of size {outline['size']}, not {[height, width]}.")
        if not isinstance(counts, str | bytes) and sum(counts) != height * width:
            raise ValueError(f"The run lengths add up to {sum(counts)} pixels, not to {height} x {width}; they are damaged.")
        runs = dict(outline) if isinstance(counts, str | bytes) else coco.frPyObjects(dict(outline), height, width)
    else:
        for polygon in outline:
            if len(polygon) < 6 or len(polygon) % 2 or not np.isfinite(polygon).all():
                raise ValueError(f"A polygon needs at least three points x, y. Got {len(polygon)} numbers instead.")
        inside = [np.clip(np.reshape(polygon, (-1, 2)), 0, (width, height)).ravel().tolist() for polygon in outline]
        runs = coco.merge(coco.frPyObjects(inside, height, width))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pycocotools' arrays are of NumPy 1
        mask: np.ndarray = coco.decode(runs)
    if mask.max() > 1 or mask.sum() != coco.area(runs):  # pycocotools leaves pixels undefined where runs are too short
        raise ValueError(f"The run lengths do not add up to {height} x {width} pixels; they are damaged.")
    return mask.astype(bool)


def _pycocotools() -> Any:
    try:
        from pycocotools import mask
    except ImportError as error:
        raise ImportError(
            "Outlines of COCO are read by pycocotools; install it with: pip install 'cocoax[paper]'."
        ) from error
    return mask


# --- collages ---------------------------------------------------------------------------------------------------------


def collage_examples(folder: str | Path, count: int = 50, seed: int = 0, cell: int = 256) -> list[Example]:
    """Draw collages of four photos of different classes: where each class is, is known without annotation.

    Classes are the folders that photos lie in, or the names of files that lie together, without synset numbers.
    """
    classes = _photos_by_class(folder, count)
    examples = []
    for number in range(count):
        photos = _draw_photos(classes, 4, stream(seed, number))
        load = partial(_load_collage, photos, cell)
        version = digest(cell, list(photos), _stamp(*photos.values()))
        examples.append(Example(f"collage-{seed}-{number:03d}", tuple(photos), load, version))
    return examples


def _photos_by_class(folder: str | Path, count: int) -> dict[str, list[Path]]:
    """Return the photos below a folder by class, of which there must be enough for ``count`` pictures of up to four."""
    folder = _folder(folder)
    classes: dict[str, list[Path]] = {}
    for path in image_files(folder):
        classes.setdefault(_words(path.stem if path.parent == folder else path.parent.name), []).append(path)
    if len(classes) < 4:
        raise ValueError(f"A collage needs photos of 4 classes; {folder} has {len(classes)}.")
    if count < 1:
        raise ValueError(f"The 'count' parameter must be at least 1. Got {count} instead.")
    return classes


def _draw_photos(classes: Mapping[str, Sequence[Path]], count: int, random: np.random.Generator) -> dict[str, Path]:
    """Return a photo of each of ``count`` classes."""
    names = sorted(classes)
    drawn = [names[index] for index in random.choice(len(names), count, replace=False)]
    return {name: classes[name][int(random.integers(len(classes[name])))] for name in drawn}


def _load_collage(photos: Mapping[str, Path], cell: int) -> tuple[Image.Image, Masks]:
    canvas = Image.new("RGB", (2 * cell, 2 * cell))
    masks = {}
    for index, (name, path) in enumerate(photos.items()):
        row, column = divmod(index, 2)
        canvas.paste(square(open_image(path), cell), (column * cell, row * cell))
        masks[name] = np.zeros((2 * cell, 2 * cell), bool)
        masks[name][row * cell : (row + 1) * cell, column * cell : (column + 1) * cell] = True
    return canvas, masks


def _words(name: str) -> str:
    """Return a file or folder name as words: without a synset's number, underscores as spaces."""
    return re.sub(r"^n\d{8}[_-]?(?=.)", "", name).replace("_", " ").strip()


def _folder(path: str | Path) -> Path:
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"No folder at {path}; check the path.")
    return path


def _stamp(*paths: Path) -> str:
    """Return a digest of the names, sizes and times of files."""
    return digest(*((path.name, (stat := path.stat()).st_size, stat.st_mtime_ns) for path in paths))

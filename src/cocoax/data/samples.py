"""Sample photos, from the scikit-image package: nothing is downloaded."""

from __future__ import annotations

from importlib.resources import files

from PIL import Image

from cocoax.inputs.image import open_image

_FILES = {
    "astronaut": "astronaut.png",
    "cat": "chelsea.png",
    "coffee": "coffee.png",
    "rocket": "rocket.jpg",
    "motorbike": "motorcycle_left.png",
}
COLLAGE = ("cat", "coffee", "rocket", "motorbike")  # row by row


def photo(name: str) -> Image.Image:
    """Open a sample photo: astronaut, cat, coffee, rocket or motorbike."""
    if name not in _FILES:
        raise ValueError(f"No sample photo is called {name!r}; there are {', '.join(_FILES)}.")
    try:
        folder = files("skimage.data")
    except ModuleNotFoundError as error:
        raise ImportError(
            "The sample photos come with scikit-image; install it with: pip install 'cocoax[starter]'."
        ) from error
    with folder.joinpath(_FILES[name]).open("rb") as file, Image.open(file) as image:
        return open_image(image)


def collage(side: int = 512) -> Image.Image:
    """Put four photos into one, a quadrant each: cat and coffee above, rocket and motorbike below."""
    if side < 2:
        raise ValueError(f"The 'side' parameter must be at least 2. Got {side} instead.")
    half = side // 2
    canvas = Image.new("RGB", (2 * half, 2 * half))
    for index, name in enumerate(COLLAGE):
        canvas.paste(square(photo(name), half), (index % 2 * half, index // 2 * half))
    return canvas


def square(image: Image.Image, side: int) -> Image.Image:
    """Cut the largest square out of the middle of a picture and resize it to ``side`` pixels."""
    short = min(image.size)
    left, top = (image.width - short) // 2, (image.height - short) // 2
    return image.crop((left, top, left + short, top + short)).resize((side, side), Image.Resampling.BICUBIC)

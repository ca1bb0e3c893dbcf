"""How often remarks appear on ordinary questions, and on ones that they are made for.

    python benchmarks/remarks.py PHOTOS [--count 100] [--encoder starter]

PHOTOS is a folder of ImageNet photos, ``nXXXXXXXX_class_name.jpg``. Ordinary questions, two for each photo: the name of its
class, and that rather than the name of another class. Made for remarks: random letters. Remarks on noise need a run, and are
not counted; they appear where the error of a map is above 30 %.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import cocoax
from cocoax.data import caption
from cocoax.evaluation.statistics import wilson
from cocoax.inputs.image import image_files
from cocoax.masking import MaskedEncoder
from cocoax.questions.answers import random_letters
from cocoax.results.remarks import about_caption, about_crop, about_removal
from cocoax.seeding import stream

WORDS = ("asdfghjkl qwerty", "xqzv brtk", "lorem fnord", "hjkhjk", "wqp vnb zxc")


def remarks_on(encoder: cocoax.Encoder, path: Path, text: str, other: str | None, letters: torch.Tensor) -> list[str]:
    """Return which remarks a question about a photo has."""
    explicand = encoder.explicand(path)
    target = cocoax.similarity_to(encoder.text.reference([text], cache=False))
    if other is not None:
        target = target - cocoax.similarity_to(encoder.text.reference([other], cache=False))
    masked = MaskedEncoder(encoder, explicand)
    score, left = masked.score([target])[:, 0].tolist()
    own = torch.nn.functional.normalize(masked.anchors[:1].double())
    chance = (torch.nn.functional.normalize(letters.double()) @ own.T)[:, 0]
    alone = float(torch.nn.functional.normalize(encoder.text.represent([text]).double()) @ own[0])
    said = {
        "removal": about_removal(score, left, 0.0, False),
        "caption": about_caption(text, alone, chance),
        "crop": about_crop(explicand.box),
    }
    return [name for name, sentence in said.items() if sentence]


def main() -> None:
    """Read the command line and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--encoder", default="starter")
    options = parser.parse_args()
    encoder = cocoax.load(options.encoder)
    found = random_letters(encoder)
    assert found is not None
    assert found.samples is not None
    files = image_files(options.photos)
    chosen = [files[index] for index in stream(31).permutation(len(files))[: 2 * options.count]]
    names = [caption(path.stem.partition("_")[2].replace("_", " "), "a {}") for path in chosen]
    ordinary, made = [], []
    for number in range(options.count):
        for other in (None, names[options.count + number]):
            ordinary.append(remarks_on(encoder, chosen[number], names[number], other, found.samples))
        made.append(remarks_on(encoder, chosen[number], WORDS[number % len(WORDS)], None, found.samples))
    for title, rows in (("ordinary questions", ordinary), ("random letters", made)):
        for name in ("removal", "caption", "crop", "any"):
            count = sum(bool(row) if name == "any" else name in row for row in rows)
            low, high = wilson(count, len(rows))
            print(f"{title}: {name} {count} of {len(rows)} ({count / len(rows):.1%}, 95 % interval {low:.1%} to {high:.1%})")


if __name__ == "__main__":
    main()

"""From the name of a table or figure to its files."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cocoax.attribution import Rise
from cocoax.data.labelled import LabelledImages
from cocoax.encoders import Encoder
from cocoax.seeding import stream
from cocoax.storage import write_text
from cocoax.studies import NAMES
from cocoax.studies.augmentations import explain_augmentations, write_augmentations
from cocoax.studies.completeness import completeness, completeness_table
from cocoax.studies.figures import save
from cocoax.studies.folder import Library
from cocoax.studies.localisation import explain_localisation, plot_localisation
from cocoax.studies.main import MainStudy
from cocoax.studies.randomisation import RandomisationStudy
from cocoax.studies.sampling import RUN_SEEDS, draw_foil, draw_of
from cocoax.studies.sensitivity import CorpusSizeStudy, FoilSizeStudy
from cocoax.studies.study import PRESETS, Options, Study, grid_of
from cocoax.studies.tables import write_results

STUDIES: dict[str, type[Study]] = {
    study.name: study for study in (MainStudy, RandomisationStudy, CorpusSizeStudy, FoilSizeStudy)
}


def options_of(preset: str, changes: Mapping[str, Any], study: str = "main") -> Options:
    """The options of a preset for a study, with those changed that are not ``None``."""
    if preset not in PRESETS:
        raise ValueError(f"The 'preset' parameter must be one of {', '.join(PRESETS)}. Got {preset!r} instead.")
    own = {"samples": 20_000} if (preset, study) == ("paper", "localisation") else {}
    return replace(PRESETS[preset], **own | {name: value for name, value in changes.items() if value is not None})


def class_numbers(asked: str, classes: Sequence[str]) -> tuple[int, ...]:
    """The numbers of classes given by names or numbers, with commas between them."""
    numbers = []
    for item in (part.strip() for part in asked.split(",")):
        if item in classes:
            numbers.append(classes.index(item))
        elif item.isdecimal() and int(item) < len(classes):
            numbers.append(int(item))
        else:
            close = difflib.get_close_matches(item, classes, n=3, cutoff=0.3) or list(classes[:3])
            raise ValueError(f"The data have no class {item!r}; close are {', '.join(close)}.")
    return tuple(numbers)


def run_study(
    name: str,
    encoder: Encoder,
    train: LabelledImages,
    held_out: LabelledImages,
    out: str | Path,
    options: Options,
    progress: bool | None = None,
) -> list[Path]:
    """Run the study that makes this table or figure, as far as it was not run yet, and write its files.

    They go to ``out / encoder / study``; the files of the named table come last.
    """
    study = NAMES[name][1]
    folder = folder_of(out, encoder, study)
    if study == "completeness":
        return _completeness(encoder, train, held_out, folder, options, progress)
    if study == "augmentations":
        return _augmentations(encoder, train, held_out, folder, options, progress)
    work = STUDIES[study](encoder, train, held_out, folder, options)
    written = write_results(work, work.run(progress))
    return sorted(written, key=lambda path: path.stem == name)


def _completeness(
    encoder: Encoder,
    train: LabelledImages,
    held_out: LabelledImages,
    folder: Path,
    options: Options,
    progress: bool | None,
) -> list[Path]:
    """A held-out picture of each class, with the corpus and the foil of the first; drawn as in the first run of a study."""
    streams = {label: stream(RUN_SEEDS[0], 0, label) for label in options.classes or range(len(train.classes))}
    numbers = [int(draw_of(held_out, label, 1, random, "explicands")[0]) for label, random in streams.items()]
    first, random = next(iter(streams.items()))
    own = draw_of(train, first, options.corpus, random, "corpus images")
    others = draw_foil(train, options.foil, random, without=own)
    library = Library(encoder, train, folder)
    corpus, foil = library.reference(own, "corpus"), library.reference(others, "foil")
    images = [held_out.images[number] for number in numbers]
    gaps = completeness(encoder, images, corpus, foil, progress=progress)
    return [write_text(folder / "completeness.md", completeness_table(gaps))]


def _augmentations(
    encoder: Encoder,
    train: LabelledImages,
    held_out: LabelledImages,
    folder: Path,
    options: Options,
    progress: bool | None,
) -> list[Path]:
    """Held-out pictures of the first three classes, with random training images as the foil."""
    random = stream(RUN_SEEDS[0])
    classes = np.unique(held_out.labels) if options.classes is None else options.classes
    first = [int(draw_of(held_out, label, 1, random, "explicands")[0]) for label in classes[:3]]
    others = draw_foil(train, options.foil, random, without=[])
    foil = Library(encoder, train, folder).reference(others, "random images")
    images = [held_out.images[number] for number in first]
    method = Rise(options.samples, grid_of(encoder, images[0], options.grid), estimator=options.estimator)
    rows = [explain_augmentations(encoder, image, foil, method, progress=progress) for image in images]
    return write_augmentations(folder, [f"held-out image {number}" for number in first], rows)


def run_localisation(
    encoder: Encoder,
    pictures: Sequence[tuple[Any, str, str]],
    out: str | Path,
    options: Options,
    progress: bool | None = None,
) -> list[Path]:
    """The paper's localisation figure for pictures with two things P and Q in each."""
    folder = folder_of(out, encoder, "localisation")
    folder.mkdir(parents=True, exist_ok=True)
    method = Rise(options.samples, options.grid or 7, estimator=options.estimator)
    answers = [explain_localisation(encoder, image, p, q, method, progress=progress) for image, p, q in pictures]
    return save(plot_localisation(answers), folder / "localisation", dpi=110)


def folder_of(out: str | Path, encoder: Encoder, study: str) -> Path:
    """Where the files of a study go."""
    return Path(out) / encoder.name.replace(":", "-").replace("/", "-") / study

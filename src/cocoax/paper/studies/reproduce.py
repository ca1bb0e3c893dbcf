"""From the name of a table or figure to its files."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cocoax.data.labelled import LabelledImages
from cocoax.encoders import Encoder
from cocoax.paper.studies import NAMES, STUDIES
from cocoax.paper.studies.localisation import LocalisationStudy
from cocoax.paper.studies.study import PRESETS, LabelledStudy, Options


def options_of(preset: str, changes: Mapping[str, Any], name: str = "main") -> Options:
    """Return the options of a preset for the study that makes ``name``; changes that are not ``None`` replace them."""
    if preset not in PRESETS:
        raise ValueError(f"The 'preset' parameter must be one of {', '.join(PRESETS)}. Got {preset!r} instead.")
    own = STUDIES[NAMES[name][1]].paper if preset == "paper" else {}
    return replace(PRESETS[preset], **{**own, **{option: value for option, value in changes.items() if value is not None}})


def class_numbers(asked: str, classes: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of classes that are written as names or numbers, with commas between them."""
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
    study = STUDIES[NAMES[name][1]]
    if not issubclass(study, LabelledStudy):
        raise TypeError(f"The study {study.name!r} takes pictures of its own rather than labelled data.")
    written = study(encoder, train, held_out, _folder_of(out, encoder, study.name), options).write(progress)
    table = name if name != study.name else None
    return sorted(written, key=lambda path: path.stem == table)


def run_localisation(
    encoder: Encoder,
    pictures: Sequence[tuple[Any, str, str]],
    out: str | Path,
    options: Options,
    progress: bool | None = None,
) -> list[Path]:
    """Write the paper's localisation figure for pictures with two things P and Q in each; return its files."""
    folder = _folder_of(out, encoder, LocalisationStudy.name)
    return LocalisationStudy(encoder, pictures, folder, options).write(progress)


def _folder_of(out: str | Path, encoder: Encoder, study: str) -> Path:
    """Return the folder for the files of a study."""
    return Path(out) / encoder.name.replace(":", "-").replace("/", "-") / study

"""From the name of a table or figure to its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cocoax.data.labelled import LabelledImages
from cocoax.encoders import Encoder
from cocoax.studies import NAMES
from cocoax.studies.completeness import completeness, completeness_table
from cocoax.studies.folder import Library, write_text
from cocoax.studies.main import MainStudy
from cocoax.studies.randomisation import RandomisationStudy
from cocoax.studies.sampling import RUN_SEEDS, draw
from cocoax.studies.sensitivity import CorpusSizeStudy, FoilSizeStudy
from cocoax.studies.study import PRESETS, Options, Study
from cocoax.studies.tables import write_results

STUDIES: dict[str, type[Study]] = {
    study.name: study for study in (MainStudy, RandomisationStudy, CorpusSizeStudy, FoilSizeStudy)
}


def options_of(preset: str, changes: Mapping[str, Any]) -> Options:
    """The options of a preset, with those changed that are not ``None``."""
    if preset not in PRESETS:
        raise ValueError(f"The 'preset' parameter must be one of {', '.join(PRESETS)}. Got {preset!r} instead.")
    return replace(PRESETS[preset], **{name: value for name, value in changes.items() if value is not None})


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
    folder = Path(out) / encoder.name.replace(":", "-").replace("/", "-") / study
    if study == "completeness":
        return _completeness(encoder, train, held_out, folder, options, progress)
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
    classes = list(range(len(train.classes)))
    drawn = draw(train, held_out, classes=classes, explicands=1, corpus=options.corpus, foil=options.foil, seed=RUN_SEEDS[0])
    library = Library(encoder, train, folder)
    corpus, foil = library.reference(drawn.corpora[0], "corpus"), library.reference(drawn.foils[0], "foil")
    images = [held_out.images[one.number] for one in drawn.explicands]
    gaps = completeness(encoder, images, corpus, foil, progress=progress)
    return [write_text(folder / "completeness.md", completeness_table(gaps))]

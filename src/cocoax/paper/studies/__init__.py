"""Studies: every table and figure of the paper, on any encoder and data. Each is a file; this is the list of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from cocoax.paper.studies.published import paper_tables

if TYPE_CHECKING:
    from cocoax.paper.studies.study import Study

    STUDIES: dict[str, type[Study]]

# Of each study the module and class, and what it makes. Naming them all must not take the time to import them.
_STUDIES = {
    "main": ("insertion_deletion:MainStudy", "the eight tables of insertion and deletion"),
    "randomised": ("insertion_deletion:RandomisationStudy", "the four tables of parameter randomisation"),
    "corpus-size": ("insertion_deletion:CorpusSizeStudy", "figures: how results depend on the size of the corpus"),
    "foil-size": ("insertion_deletion:FoilSizeStudy", "figures: how results depend on the size of the foil"),
    "augmentations": ("augmentations:AugmentationsStudy", "figures: what survives each of seven augmentations"),
    "localisation": (
        "localisation:LocalisationStudy",
        "figure: what a caption names, with an image-and-text encoder",
    ),
    "completeness": (
        "completeness:CompletenessStudy",
        "check: attributions add up to what the explicand changes",
    ),
}
_ABOUT = {name: (about, name) for name, (_, about) in _STUDIES.items()}
_WITH_TABLES = {table.study for table in paper_tables().values()}

# What can be asked for by name: what it is, and the study that makes it. Studies of tables come first, with their tables.
NAMES: dict[str, tuple[str, str]] = {
    **{name: about for name, about in _ABOUT.items() if name in _WITH_TABLES},
    **{name: (table.title, table.study) for name, table in paper_tables().items()},
    **_ABOUT,
}


def __getattr__(name: str) -> object:
    if name != "STUDIES":
        raise AttributeError(f"module 'cocoax.paper.studies' has no attribute {name!r}")
    studies = {}
    for study, (place, _) in _STUDIES.items():
        module, kind = place.split(":")
        studies[study] = getattr(import_module(f"cocoax.paper.studies.{module}"), kind)
    globals()["STUDIES"] = studies
    return studies

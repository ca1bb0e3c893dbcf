"""Studies: every table and figure of the paper, on any encoder and data. Each is a file; this is the list of them."""

from __future__ import annotations

from cocoax.studies.augmentations import AugmentationsStudy
from cocoax.studies.completeness import CompletenessStudy
from cocoax.studies.localisation import LocalisationStudy
from cocoax.studies.main import MainStudy
from cocoax.studies.published import paper_tables
from cocoax.studies.randomisation import RandomisationStudy
from cocoax.studies.sensitivity import CorpusSizeStudy, FoilSizeStudy
from cocoax.studies.study import Study

STUDIES: dict[str, type[Study]] = {
    study.name: study
    for study in (
        MainStudy,
        RandomisationStudy,
        CorpusSizeStudy,
        FoilSizeStudy,
        AugmentationsStudy,
        LocalisationStudy,
        CompletenessStudy,
    )
}
_ABOUT = {name: (study.about, name) for name, study in STUDIES.items()}

# What can be asked for by name: what it is, and the study that makes it. Studies of tables come first, with their tables.
NAMES: dict[str, tuple[str, str]] = {
    **{name: about for name, about in _ABOUT.items() if STUDIES[name].tables()},
    **{name: (table.title, table.study) for name, table in paper_tables().items()},
    **_ABOUT,
}

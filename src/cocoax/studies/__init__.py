"""Studies: every table and figure of the paper, on any encoder and data."""

from __future__ import annotations

from cocoax.studies.published import paper_tables

# What can be asked for by name: what it is, and the study that makes it.
NAMES: dict[str, tuple[str, str]] = {
    "main": ("the eight tables of insertion and deletion", "main"),
    "randomised": ("the four tables of parameter randomisation", "randomised"),
    **{name: (table.title, table.study) for name, table in paper_tables().items()},
    "corpus-size": ("figures: how results depend on the size of the corpus", "corpus-size"),
    "foil-size": ("figures: how results depend on the size of the foil", "foil-size"),
    "augmentations": ("figures: what survives each of seven augmentations", "augmentations"),
    "localisation": ("figure: what a caption names, with an image-and-text encoder", "localisation"),
    "completeness": ("check: attributions add up to what the explicand changes", "completeness"),
}

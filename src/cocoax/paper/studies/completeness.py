"""Completeness: attributions of Integrated Gradients and KernelSHAP add up to the difference that the explicand makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from cocoax.encoders import Encoder
from cocoax.methods import IntegratedGradients, KernelShap
from cocoax.paper.studies.study import RUN_SEEDS, LabelledStudy, Library, draw_foil, draw_of, four_targets
from cocoax.progress import bar
from cocoax.references import Reference
from cocoax.results import Result
from cocoax.seeding import stream
from cocoax.show import Table


class CompletenessStudy(LabelledStudy):
    """A held-out image of each class, with the corpus and the foil of the first; drawn as in the first run of a study."""

    name = "completeness"

    def write(self, progress: bool | None = None) -> list[Path]:
        """Write the table of gaps as page, numbers and picture; return the files."""
        options = self.options
        streams = {label: stream(RUN_SEEDS[0], 0, label) for label in options.classes or range(len(self.train.classes))}
        numbers = [int(draw_of(self.held_out, label, 1, random, "explicands")[0]) for label, random in streams.items()]
        first, random = next(iter(streams.items()))
        own = draw_of(self.train, first, options.corpus, random, "corpus images")
        others = draw_foil(self.train, options.foil, random, without=own)
        library = Library(self.encoder, self.train, self.folder)
        corpus, foil = library.reference(own, "corpus"), library.reference(others, "foil")
        images = [self.held_out.images[number] for number in numbers]
        gaps = completeness(self.encoder, images, corpus, foil, progress=progress)
        return Completeness(tuple(gaps)).save_all(self.folder)


@dataclass(frozen=True)
class _Gap:
    """The sum of an attribution against the score of the explicand minus that of the baseline."""

    method: str
    similarity: str
    target: str
    total: float
    difference: float

    @property
    def gap(self) -> float:
        """The difference between the sum of the map and the change of the score."""
        return abs(self.total - self.difference)


def completeness(
    encoder: Encoder,
    images: Sequence[Any],
    corpus: Reference,
    foil: Reference,
    *,
    steps: Sequence[int] = (50, 200),
    samples: int = 256,
    progress: bool | None = None,
) -> list[_Gap]:
    """Return the gaps for the paper's four targets, cosine and dot, on some images.

    Integrated Gradients approach completeness with the number of steps (a network with ReLUs has kinks along the path);
    KernelSHAP is complete by construction, whatever the number of samples.
    """
    asked = [
        (similarity, name, target)
        for similarity in ("cosine", "dot")
        for name, target in four_targets(corpus, foil, similarity).items()
    ]
    targets = [target for _, _, target in asked]
    gradients = {f"Integrated Gradients, {count} steps": IntegratedGradients(count) for count in steps}
    methods = {**gradients, "KernelSHAP": KernelShap(samples=samples, grid=7)}
    gaps = []
    with bar(len(images) * len(methods), "completeness", progress) as shown:
        for image in images:
            for title, method in methods.items():
                answers = method.explain(encoder, image, targets, progress=False)
                for (similarity, name, _), answer in zip(asked, answers, strict=True):
                    parts = answer.raw if answer.raw is not None else answer.features
                    assert parts is not None
                    total = float(parts.double().sum())
                    gaps.append(_Gap(title, similarity, name, total, answer.score - answer.baseline_score))
                shown.update()
    return gaps


@dataclass(frozen=True)
class Completeness(Result):
    """The gaps of all images, targets and methods."""

    gaps: tuple[_Gap, ...]
    file: ClassVar[str] = "completeness"

    @property
    def summary(self) -> str:
        """The largest gap."""
        worst = max(self.gaps, key=lambda gap: gap.gap)
        return f"The largest gap is {worst.gap:.2e} ({worst.method}, {worst.similarity}, {worst.target})."

    def views(self) -> list[Table]:
        """Return the table."""
        return [self.table()]

    def table(self) -> Table:
        """Return for each method and target the mean difference to explain and the largest gap."""
        groups: dict[tuple[str, str, str], list[_Gap]] = {}
        for gap in self.gaps:
            groups.setdefault((gap.method, gap.similarity, gap.target), []).append(gap)
        rows = [
            (*key, sum(abs(gap.difference) for gap in several) / len(several), max(gap.gap for gap in several))
            for key, several in groups.items()
        ]
        return Table(("method", "similarity", "target", "mean difference to explain", "largest gap"), tuple(rows))

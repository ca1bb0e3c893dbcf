"""The paper's studies of insertion and deletion: its eight main tables, randomised parameters, sizes of corpus and foil."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from cocoax.encoders import Encoder
from cocoax.evaluation import randomised
from cocoax.paper.studies.curves import Case, CurveStudy, Repetition, Task
from cocoax.paper.studies.published import CLASS_CASES, TARGET_TITLES
from cocoax.paper.studies.study import DrawnExplicand, four_targets
from cocoax.paper.studies.tables import Records, StudyPart, areas_by_size, differences, mean_curves, paper_table
from cocoax.targets import contrastive_corpus_similarity


class MainStudy(CurveStudy):
    """Four targets, cosine and dot, for explicands of the corpus' class and of others."""

    name = "main"
    variants = ("Target", [(title, target, "trained") for target, title in TARGET_TITLES.items()])

    def tasks(self, repetition: Repetition, explicand: DrawnExplicand) -> list[Task]:
        """Return eight targets in each of the two cases."""
        tasks = []
        for class_case, label in zip(CLASS_CASES, (explicand.own, explicand.other), strict=True):
            corpus, foil = repetition.corpus(label), repetition.foil(label)
            case = Case({"class_case": class_case}, repetition.measures(corpus, foil))
            for similarity in ("cosine", "dot"):
                for name, target in four_targets(corpus, foil, similarity).items():
                    key = {"similarity": similarity, "target": name, "model": "trained"}
                    tasks.append(Task(case, key, self.encoder, target))
        return tasks

    def report(self, records: Records) -> list[StudyPart]:
        """Return the eight tables, the differences between targets and the curves."""
        tables = [paper_table(table, self.variants, records, self.encoder.name) for table in self.tables()]
        return [*tables, differences(records), *mean_curves(records)]


class RandomisationStudy(CurveStudy):
    """COCOA by both encoders; corpus and foil are encoded by each, and the trained one evaluates both."""

    name = "randomised"
    variants = ("Encoder", [("Trained", "cocoa", "trained"), ("Randomised", "cocoa", "randomized")])

    def explained(self, seed: int) -> dict[str, Encoder]:
        """Return the trained encoder and one with new random parameters, others in each run."""
        return {"trained": self.encoder, "randomized": randomised(self.encoder, seed)}

    def tasks(self, repetition: Repetition, explicand: DrawnExplicand) -> list[Task]:
        """Return COCOA in each of the two cases, for each encoder."""
        tasks = []
        for class_case, label in zip(CLASS_CASES, (explicand.own, explicand.other), strict=True):
            measures = repetition.measures(repetition.corpus(label), repetition.foil(label))
            case = Case({"class_case": class_case}, measures)
            for model, encoder in repetition.encoders.items():
                corpus, foil = repetition.corpus(label, model=model), repetition.foil(label, model=model)
                key = {"similarity": "cosine", "target": "cocoa", "model": model}
                tasks.append(Task(case, key, encoder, contrastive_corpus_similarity(corpus, foil)))
        return tasks

    def report(self, records: Records) -> Sequence[StudyPart]:
        """Return the four tables."""
        return [paper_table(table, self.variants, records, self.encoder.name) for table in self.tables()]


CORPUS_SIZES = (1, 5, 20, 50, 100, 200)
FOIL_SIZES = (100, 500, 1500, 2500, 5000)


class _SizeStudy(CurveStudy):
    """COCOA with several sizes of corpus and foil, each judged by its own corpus and foil.

    ``varied`` says which of the two sizes is the one to plot.
    """

    varied: ClassVar[str]

    def tasks(self, repetition: Repetition, explicand: DrawnExplicand) -> list[Task]:
        """Return COCOA for each size, in each of the two cases."""
        tasks = []
        for class_case, label in zip(CLASS_CASES, (explicand.own, explicand.other), strict=True):
            for corpus_size, foil_size in self.pairs:
                corpus, foil = repetition.corpus(label, corpus_size), repetition.foil(label, foil_size)
                sizes = {"class_case": class_case, "corpus": corpus_size, "foil": foil_size}
                case = Case(sizes, repetition.measures(corpus, foil))
                key = {"similarity": "cosine", "target": "cocoa", "model": "trained"}
                tasks.append(Task(case, key, self.encoder, contrastive_corpus_similarity(corpus, foil)))
        return tasks

    def report(self, records: Records) -> list[StudyPart]:
        """Return the areas under the curves by size."""
        return areas_by_size(records, self.varied)


class CorpusSizeStudy(_SizeStudy):
    """Corpora of 1 to 200 images against the foil of the options."""

    name = "corpus-size"
    varied = "corpus"

    @property
    def pairs(self) -> Sequence[tuple[int, int]]:
        """Each size of the corpus, with the foil of the options."""
        return [(size, self.options.foil) for size in CORPUS_SIZES]


class FoilSizeStudy(_SizeStudy):
    """Foils of 100 to 5000 images against the corpus of the options."""

    name = "foil-size"
    varied = "foil"

    @property
    def pairs(self) -> Sequence[tuple[int, int]]:
        """Each size of the foil, with the corpus of the options."""
        return [(self.options.corpus, size) for size in FOIL_SIZES]

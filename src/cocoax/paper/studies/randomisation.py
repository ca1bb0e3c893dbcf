"""Parameter randomisation: COCOA of the trained encoder against COCOA of one that has forgotten everything."""

from __future__ import annotations

from pathlib import Path

from cocoax.encoders import Encoder
from cocoax.evaluation import randomised
from cocoax.paper.studies.curves import CurveStudy, Repetition
from cocoax.paper.studies.judging import Case, Task
from cocoax.paper.studies.records import Records
from cocoax.paper.studies.sampling import DrawnExplicand
from cocoax.paper.studies.tables import Variants, write_tables
from cocoax.paper.studies.titles import CLASS_CASES
from cocoax.targets import contrastive_corpus_similarity


class RandomisationStudy(CurveStudy):
    """COCOA by both encoders; corpus and foil are encoded by each, and the trained one evaluates both."""

    name = "randomised"
    variants = Variants("Encoder", (("Trained", "cocoa", "trained"), ("Randomised", "cocoa", "randomized")))

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

    def report(self, records: Records) -> tuple[list[str], list[Path]]:
        """Write the four tables."""
        return write_tables(self.tables(), self.variants, records, self.encoder.name, self.folder)

"""Parameter randomisation: COCOA of the trained encoder against COCOA of one that has forgotten everything."""

from __future__ import annotations

from cocoax.encoders import Encoder
from cocoax.evaluation import randomised
from cocoax.studies.explicand import Ask, Case
from cocoax.studies.sampling import Explicand
from cocoax.studies.study import Run, Study
from cocoax.targets import contrastive_corpus_similarity


class RandomisationStudy(Study):
    """COCOA by both encoders; corpus and foil are encoded by each, and the trained one evaluates both."""

    name = "randomised"

    def explained(self, seed: int) -> dict[str, Encoder]:
        """The trained encoder and, for each run, one with new random parameters."""
        return {"trained": self.encoder, "randomized": randomised(self.encoder, seed)}

    def asks(self, run: Run, one: Explicand) -> list[Ask]:
        """COCOA in each of the two cases, for each encoder."""
        asks = []
        for class_case, label in (("same", one.own), ("different", one.other)):
            case = Case({"class_case": class_case}, run.measures(run.corpus(label), run.foil(label)))
            for model, encoder in run.encoders.items():
                target = contrastive_corpus_similarity(run.corpus(label, model=model), run.foil(label, model=model))
                key = {"similarity": "cosine", "target": "cocoa", "model": model}
                asks.append(Ask(case, key, encoder, target))
        return asks

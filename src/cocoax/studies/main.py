"""The main study: the paper's eight tables of insertion and deletion, from one pass over the explicands."""

from __future__ import annotations

from cocoax.studies.explicand import Ask, Case
from cocoax.studies.sampling import Explicand
from cocoax.studies.study import Run, Study, four_targets


class MainStudy(Study):
    """Four targets, cosine and dot, for explicands of the corpus' class and of others."""

    name = "main"

    def asks(self, run: Run, one: Explicand) -> list[Ask]:
        """Eight targets in each of the two cases."""
        asks = []
        for class_case, label in (("same", one.own), ("different", one.other)):
            corpus, foil = run.corpus(label), run.foil(label)
            case = Case({"class_case": class_case}, run.measures(corpus, foil))
            for similarity in ("cosine", "dot"):
                for name, target in four_targets(corpus, foil, similarity).items():
                    key = {"similarity": similarity, "target": name, "model": "trained"}
                    asks.append(Ask(case, key, self.encoder, target))
        return asks

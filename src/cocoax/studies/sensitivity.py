"""How much COCOA depends on the sizes of corpus and foil."""

from __future__ import annotations

from collections.abc import Sequence

from cocoax.studies.explicand import Ask, Case
from cocoax.studies.sampling import Explicand
from cocoax.studies.study import Run, Study
from cocoax.targets import contrastive_corpus_similarity

CORPUS_SIZES = (1, 5, 20, 50, 100, 200)
FOIL_SIZES = (100, 500, 1500, 2500, 5000)


class SizeStudy(Study):
    """COCOA with several sizes of corpus and foil, each judged by its own corpus and foil."""

    def asks(self, run: Run, one: Explicand) -> list[Ask]:
        """COCOA for each size, in each of the two cases."""
        asks = []
        for class_case, label in (("same", one.own), ("different", one.other)):
            for corpus_size, foil_size in self.pairs:
                corpus, foil = run.corpus(label, corpus_size), run.foil(label, foil_size)
                case = Case({"class_case": class_case, "corpus": corpus_size, "foil": foil_size}, run.measures(corpus, foil))
                key = {"similarity": "cosine", "target": "cocoa", "model": "trained"}
                asks.append(Ask(case, key, self.encoder, contrastive_corpus_similarity(corpus, foil)))
        return asks


class CorpusSizeStudy(SizeStudy):
    """Corpora of 1 to 200 images against the foil of the options."""

    name = "corpus-size"

    @property
    def pairs(self) -> Sequence[tuple[int, int]]:
        """Each size of the corpus."""
        return [(size, self.options.foil) for size in CORPUS_SIZES]


class FoilSizeStudy(SizeStudy):
    """Foils of 100 to 5000 images against the corpus of the options."""

    name = "foil-size"

    @property
    def pairs(self) -> Sequence[tuple[int, int]]:
        """Each size of the foil."""
        return [(self.options.corpus, size) for size in FOIL_SIZES]

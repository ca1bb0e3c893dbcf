"""How much COCOA depends on the sizes of corpus and foil."""

from __future__ import annotations

from cocoax.studies.explicand import Ask, Case
from cocoax.studies.sampling import Explicand
from cocoax.studies.study import Run, Study
from cocoax.targets import contrastive_corpus_similarity

CORPUS_SIZES = (1, 5, 20, 50, 100, 200)
FOIL_SIZES = (100, 500, 1500, 2500, 5000)


class SizeStudy(Study):
    """COCOA with several sizes of corpus and foil, each judged by its own corpus and foil."""

    pairs: tuple[tuple[int, int], ...]

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
    """Corpora of 1 to 200 images against foils of 1500."""

    name = "corpus-size"
    pairs = tuple((size, 1500) for size in CORPUS_SIZES)
    sizes = (max(CORPUS_SIZES), 1500)


class FoilSizeStudy(SizeStudy):
    """Foils of 100 to 5000 images against corpora of 100."""

    name = "foil-size"
    pairs = tuple((100, size) for size in FOIL_SIZES)
    sizes = (100, max(FOIL_SIZES))

"""Cocoax: what in an input makes its representation similar to these things, rather than to those?

    encoder = cocoax.load("starter")
    corpus, foil = encoder.reference(images), encoder.text.reference(["a cup of coffee"])
    target = cocoax.contrastive_corpus_similarity(corpus, foil)
    run = cocoax.Rise(samples=1000).run(encoder, image)
    run.explain(target).plot()

The words are those of the paper "Contrastive Corpus Attribution for Explaining Representations" (ICLR 2023): an encoder
f, a similarity s, a corpus C and a foil F, a target γ, an attribution method φ and an explicand.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cocoax.version import __version__

if TYPE_CHECKING:  # what is imported from where; at run time that happens when a name is first used, see below
    from cocoax import plots
    from cocoax.attribution import (
        Attribution,
        Captum,
        ExpectedGradients,
        GradientShap,
        IntegratedGradients,
        Interrupted,
        KernelShap,
        Method,
        Occlusion,
        RandomAttribution,
        Rise,
        Run,
        SmoothGrad,
        VanillaGradients,
    )
    from cocoax.encoders import Encoder, Explicand, ImagePreprocess, TabularEncoder, TextEncoder, load
    from cocoax.evaluation import Curve, curves, deletion, insertion
    from cocoax.features import AttentionMask, Background, Baseline, Blur, Constant, Deletion, Fixed, MaskToken, Mean, Noise
    from cocoax.questions.asking import Answer, Question, Side, ask
    from cocoax.questions.matching import Match, explain_match
    from cocoax.references import Reference, foil_size
    from cocoax.similarity import Cosine, Dot, Laplacian, Polynomial, Rbf, Similarity
    from cocoax.storage import cache_info, clear_cache
    from cocoax.targets import (
        Target,
        contrastive_corpus_similarity,
        contrastive_similarity,
        corpus_similarity,
        representation_similarity,
        similarity_to,
    )

__all__ = ["__version__", "plots"]
__all__ += ["Encoder", "Explicand", "ImagePreprocess", "TabularEncoder", "TextEncoder", "load"]  # encoders f
__all__ += ["Cosine", "Dot", "Laplacian", "Polynomial", "Rbf", "Similarity"]  # similarities s
__all__ += ["Reference", "cache_info", "clear_cache", "foil_size"]  # corpora C and foils F
__all__ += ["Target", "contrastive_corpus_similarity", "contrastive_similarity", "corpus_similarity"]  # targets γ
__all__ += ["representation_similarity", "similarity_to"]
# what replaces removed pixels, words and columns
__all__ += ["AttentionMask", "Background", "Baseline", "Blur", "Constant", "Deletion", "Fixed", "MaskToken", "Mean", "Noise"]
# attribution methods φ, their runs and results
__all__ += ["Attribution", "Captum", "ExpectedGradients", "GradientShap", "IntegratedGradients", "Interrupted"]
__all__ += ["KernelShap", "Method", "Occlusion", "RandomAttribution", "Rise", "Run", "SmoothGrad", "VanillaGradients"]
__all__ += ["Answer", "Question", "Side", "ask"]  # questions in words and pictures
__all__ += ["Match", "explain_match"]  # why texts match
__all__ += ["Curve", "curves", "deletion", "insertion"]  # evaluation η

# The rooms that the names come from, as above. A room is imported when one of its names is first used, so that whatever needs
# no encoder, such as `cocoax --help`, need not wait for torch.
_ROOMS = {
    "attribution": "Attribution Captum ExpectedGradients GradientShap IntegratedGradients Interrupted KernelShap Method "
    "Occlusion RandomAttribution Rise Run SmoothGrad VanillaGradients",
    "encoders": "Encoder Explicand ImagePreprocess TabularEncoder TextEncoder load",
    "evaluation": "Curve curves deletion insertion",
    "features": "AttentionMask Background Baseline Blur Constant Deletion Fixed MaskToken Mean Noise",
    "questions.asking": "Answer Question Side ask",
    "questions.matching": "Match explain_match",
    "references": "Reference foil_size",
    "similarity": "Cosine Dot Laplacian Polynomial Rbf Similarity",
    "storage": "cache_info clear_cache",
    "targets": "Target contrastive_corpus_similarity contrastive_similarity corpus_similarity representation_similarity "
    "similarity_to",
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names.split()}


if not TYPE_CHECKING:  # or else a type checker would believe that there is a name for everything

    def __getattr__(name: str) -> Any:
        if name in _ROOM_OF:
            value = getattr(import_module(f"cocoax.{_ROOM_OF[name]}"), name)
        else:
            try:
                value = import_module(f"cocoax.{name}")  # a room itself, as in cocoax.plots
            except ModuleNotFoundError as error:
                if error.name != f"cocoax.{name}":
                    raise
                raise AttributeError(f"module 'cocoax' has no attribute {name!r}") from None
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

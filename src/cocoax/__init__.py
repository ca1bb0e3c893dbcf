"""Cocoax: what in an input makes its representation similar to these things, rather than to those?

    encoder = cocoax.load("starter")
    corpus, foil = encoder.reference(images), encoder.text.reference(["a cup of coffee"])
    target = cocoax.contrastive_corpus_similarity(corpus, foil)
    run = cocoax.Rise(samples=1000).run(encoder, image)
    run.explain(target).plot()

The words are those of the paper "Contrastive Corpus Attribution for Explaining Representations" (ICLR 2023): an encoder
f, a similarity s, a corpus C and a foil F, a target γ, an attribution method φ and an explicand.
"""

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
from cocoax.encoders import Encoder, Explicand, ImagePreprocess, TabularEncoder, TextEncoder, load, wrap
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
from cocoax.version import __version__

__all__ = [
    "__version__",
    # encoders f
    "Encoder",
    "Explicand",
    "ImagePreprocess",
    "TabularEncoder",
    "TextEncoder",
    "load",
    "wrap",
    # similarities s
    "Cosine",
    "Dot",
    "Laplacian",
    "Polynomial",
    "Rbf",
    "Similarity",
    # corpora C and foils F
    "Reference",
    "cache_info",
    "clear_cache",
    "foil_size",
    # targets γ
    "Target",
    "contrastive_corpus_similarity",
    "contrastive_similarity",
    "corpus_similarity",
    "representation_similarity",
    "similarity_to",
    # what replaces removed pixels, words and columns
    "AttentionMask",
    "Background",
    "Baseline",
    "Blur",
    "Constant",
    "Deletion",
    "Fixed",
    "MaskToken",
    "Mean",
    "Noise",
    # attribution methods φ
    "Attribution",
    "Captum",
    "ExpectedGradients",
    "GradientShap",
    "IntegratedGradients",
    "Interrupted",
    "KernelShap",
    "Method",
    "Occlusion",
    "RandomAttribution",
    "Rise",
    "Run",
    "SmoothGrad",
    "VanillaGradients",
    # questions in words and pictures
    "Answer",
    "Question",
    "Side",
    "ask",
    # why texts match
    "Match",
    "explain_match",
    # evaluation η
    "Curve",
    "curves",
    "deletion",
    "insertion",
    # pictures
    "plots",
]

"""Cocoax: what in an input makes its representation similar to these things, rather than to those?

    >>> import cocoax
    >>> encoder = cocoax.load("minilm")
    >>> music, traffic = encoder.reference(["music"]), encoder.reference(["traffic"])
    >>> target = cocoax.contrastive_corpus_similarity(music, traffic)
    >>> run = cocoax.Rise(samples=100).run(encoder, "The violinist parked her car.")
    >>> [word for word, effect in run.explain(target).top(1)]
    ['violinist']

The words are those of the paper "Contrastive Corpus Attribution for Explaining Representations" (ICLR 2023): an encoder
f, a similarity s, a corpus C and a foil F, a target γ, an attribution method φ and an explicand.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cocoax.version import __version__

if TYPE_CHECKING:  # at run time a name is imported when it is first used, see below
    from cocoax import plots
    from cocoax.encoders import Encoder, Explicand, ImagePreprocess, TabularEncoder, TextEncoder, load, wrap
    from cocoax.evaluation import Curve, compare_methods, curves, deletion, insertion
    from cocoax.insight import counterfactual, discover, examples, knows, minimal
    from cocoax.masking import (
        AttentionMask,
        Background,
        Baseline,
        Blur,
        Constant,
        Deletion,
        DropTokens,
        Fixed,
        MaskToken,
        Mean,
        Noise,
        Several,
    )
    from cocoax.methods import (
        Attribution,
        Captum,
        ExpectedGradients,
        Field,
        GradientShap,
        IntegratedGradients,
        Interactions,
        Interrupted,
        KernelShap,
        Method,
        Occlusion,
        RandomAttribution,
        Rise,
        Run,
        SmoothGrad,
        VanillaGradients,
        interactions,
    )
    from cocoax.questions.answers import Answer, Question, Side, ask
    from cocoax.questions.match_results import Hit, Hits, Match
    from cocoax.questions.matches import explain_hits, explain_match
    from cocoax.references import Reference, foil_size
    from cocoax.similarity import Cosine, Dot, Laplacian, Polynomial, Rbf, Similarity
    from cocoax.store import cache_info, clear_cache
    from cocoax.targets import (
        FunctionTarget,
        Target,
        class_score,
        contrastive_corpus_similarity,
        contrastive_similarity,
        corpus_similarity,
        representation_similarity,
        similarity_to,
    )

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
    "FunctionTarget",
    "Target",
    "class_score",
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
    "DropTokens",
    "Fixed",
    "MaskToken",
    "Mean",
    "Noise",
    "Several",
    # attribution methods φ
    "Attribution",
    "Captum",
    "ExpectedGradients",
    "Field",
    "GradientShap",
    "IntegratedGradients",
    "Interactions",
    "Interrupted",
    "KernelShap",
    "Method",
    "Occlusion",
    "RandomAttribution",
    "Rise",
    "Run",
    "SmoothGrad",
    "VanillaGradients",
    "interactions",
    # questions in words and pictures
    "Answer",
    "Question",
    "Side",
    "ask",
    # why inputs match, and why a search found them
    "Hit",
    "Hits",
    "Match",
    "explain_hits",
    "explain_match",
    # what an encoder knows, the least that keeps or flips an answer, the examples behind it
    "counterfactual",
    "discover",
    "examples",
    "knows",
    "minimal",
    # evaluation η
    "Curve",
    "compare_methods",
    "curves",
    "deletion",
    "insertion",
    # pictures
    "plots",
]

# Where public names are looked for when they are first used, in the order data flows through the rooms: whatever needs no
# encoder, such as `cocoax --help`, need not wait for torch.
_ROOMS = (
    "store",
    "similarity",
    "references",
    "targets",
    "encoders",
    "masking",
    "methods",
    "evaluation",
    "questions",
    "insight",
)

# What Captum, SHAP, LIME and pytorch-grad-cam call things, and what to call here.
_ELSEWHERE = {
    "Saliency": "cocoax.VanillaGradients()",
    **{name: f'cocoax.Captum("{name}")' for name in ("DeepLift", "Lime")},
    **dict.fromkeys(("GradCAM", "LayerGradCam"), 'cocoax.Captum("LayerGradCam", layer=...)'),
    "GuidedGradCam": 'cocoax.Captum("GuidedGradCam", layer=...)',
    "FeatureAblation": "cocoax.Occlusion() with features= in explain(), which removes one feature at a time",
    **dict.fromkeys(("ShapleyValueSampling", "KernelExplainer"), "cocoax.KernelShap()"),
    "LimeImageExplainer": 'cocoax.Captum("Lime")',
    **dict.fromkeys(
        ("Explainer", "explain"), "method.explain(encoder, input, target), of a method such as cocoax.KernelShap()"
    ),
    **dict.fromkeys(("summary_plot", "image_plot", "visualize_image_attr"), "attribution.plot() or cocoax.plots.panel(...)"),
    **dict.fromkeys(("infidelity", "sensitivity_max"), "cocoax.compare_methods(...), which measures infidelity"),
}

if not TYPE_CHECKING:  # or else a type checker would believe that there is a name for everything

    def __getattr__(name: str) -> Any:
        if name in __all__ and name != "plots":
            rooms = (import_module(f"cocoax.{room}") for room in _ROOMS)
            value = next(getattr(room, name) for room in rooms if hasattr(room, name))
        else:
            try:
                value = import_module(f"cocoax.{name}")  # a room itself, as in cocoax.plots
            except ModuleNotFoundError as error:
                if error.name != f"cocoax.{name}":
                    raise
                hint = f"; here it is {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
                raise AttributeError(f"module 'cocoax' has no attribute {name!r}{hint}") from None
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*__all__, *_ROOMS, *(name for name in globals() if name.startswith("__"))})

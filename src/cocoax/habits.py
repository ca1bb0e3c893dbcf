"""What other libraries call things, and what to write here instead: an error that a habit ends in says so.

These are no second names. ``hasattr`` is false for them, and everything that asks for an attribute that may not be there goes
on as it would.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

_EXPLAIN = "method.explain(encoder, input, target)"
_LOAD = "cocoax.load('hf:NAME'), or cocoax.wrap(model, processor) for a model in memory"
_NO_RUN = (
    f"{_EXPLAIN} with a list of the targets that you want. Only methods that remove features have runs and fields, such as "
    "cocoax.Rise(); of gradients they would take a backward pass for each dimension of the representation"
)
_OPTIONS = "dataclasses.replace(method, ...) for one with other options"

# By whom it is asked of: the package, a method, an encoder, an attribution.
HABITS: dict[str, dict[str, str]] = {
    "cocoax": {
        **dict.fromkeys(
            ("Explainer", "KernelExplainer", "SamplingExplainer"), "cocoax.KernelShap().explain(encoder, input, target)"
        ),
        "GradientExplainer": "cocoax.GradientShap().explain(encoder, input, target)",
        "DeepExplainer": "cocoax.Captum('DeepLift').explain(encoder, input, target)",
        "Saliency": "cocoax.VanillaGradients()",
        "NoiseTunnel": "cocoax.SmoothGrad()",
        "FeatureAblation": "cocoax.Occlusion()",
        **{name: f"cocoax.Captum({name!r})" for name in ("DeepLift", "InputXGradient", "Lime", "LayerGradCam")},
        **dict.fromkeys(("AutoModel", "AutoEncoder", "SentenceTransformer", "from_pretrained"), _LOAD),
        **{name: f"cocoax.methods.{name}" for name in ("Estimate", "GradientMethod", "Points", "RemovalMethod")},
        **{name: f"cocoax.inputs.{name}" for name in ("Display", "Inputs", "Names", "Picture")},
        "Removal": "cocoax.masking.Removal",
    },
    "method": {
        **dict.fromkeys(("attribute", "shap_values", "explain_instance", "explain_row", "fit"), _EXPLAIN),
        **dict.fromkeys(("run", "field"), _NO_RUN),
        "get_params": "method.describe()",
        "set_params": _OPTIONS,
    },
    "encoder": {
        **dict.fromkeys(("transform", "predict", "embed", "forward", "fit_transform"), "encoder.represent(inputs)"),
        **dict.fromkeys(("encode_image", "get_image_features", "embed_image"), "encoder.represent(images)"),
        **dict.fromkeys(("encode_text", "get_text_features", "embed_text"), "encoder.text.represent(texts)"),
        "from_pretrained": _LOAD,
    },
    "attribution": {
        **dict.fromkeys(
            ("attributions", "shap_values"), "attribution.values, or attribution.raw where all elements have one"
        ),
        "feature_names": "attribution.names",
        "data": "attribution.picture, .text or .names",
        "base_values": "attribution.baseline_score",
        "as_list": "attribution.top()",
        **dict.fromkeys(("show", "show_in_notebook", "visualize"), "attribution.plot()"),
    },
}
# Options of methods.
OPTIONS = {
    **dict.fromkeys(("n_samples", "nsamples", "num_samples", "npermutations", "n_perturb_samples"), "samples"),
    "n_steps": "steps",
    "random_state": "seed",
    "baselines": "baseline",
    "internal_batch_size": "batch_size",
    "perturbations_per_eval": "batch_size",
    "sliding_window_shapes": "window",
    "strides": "stride",
}


def instead(whose: str, name: str) -> str:
    """Return the end of an error about a missing name: what to write instead; nothing if it is no habit."""
    written = HABITS[whose].get(name)
    return "" if written is None else f"; write {written}."


def check_options(kind: type, options: Mapping[str, object]) -> None:
    """Raise if a class of methods is given an option by another library's name for it."""
    has = getattr(kind, "__dataclass_fields__", {})
    for name in options:
        if name not in has and OPTIONS.get(name) in has:
            raise TypeError(f"{kind.__name__} has no option '{name}'; here it is called '{OPTIONS[name]}'.")


class Hinting:
    """An object whose missing attributes may be habits; ``called`` says whose."""

    called: ClassVar[str]

    if not TYPE_CHECKING:  # or else a type checker would believe that there is an attribute for everything

        def __getattr__(self, name: str) -> Any:
            if hint := instead(type(self).called, name):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")
            return object.__getattribute__(self, name)  # raises as it would have, or what a property of that name raised


class Elsewhere:
    """A name that people look for on a class: reading it says what to write instead."""

    def __set_name__(self, kind: type[Hinting], name: str) -> None:
        self.name = name

    def __get__(self, thing: object, kind: type[Hinting]) -> Any:
        raise AttributeError(f"{kind.__name__!r} has no attribute {self.name!r}{instead(kind.called, self.name)}")

"""Attribution methods φ: how a target is spread over the features of an input."""

from cocoax.methods.captum import Captum
from cocoax.methods.estimate import Estimate
from cocoax.methods.field import Field
from cocoax.methods.gradients import (
    ExpectedGradients,
    GradientMethod,
    GradientShap,
    IntegratedGradients,
    Points,
    SmoothGrad,
    VanillaGradients,
)
from cocoax.methods.interactions import interactions
from cocoax.methods.kernel_shap import KernelShap
from cocoax.methods.method import Method
from cocoax.methods.occlusion import Occlusion
from cocoax.methods.random import RandomAttribution
from cocoax.methods.rise import Rise
from cocoax.methods.run import Interrupted, RemovalMethod, Run
from cocoax.results import Attribution, Interactions

__all__ = [
    "Attribution",
    "Captum",
    "Estimate",
    "ExpectedGradients",
    "Field",
    "GradientMethod",
    "GradientShap",
    "IntegratedGradients",
    "Interactions",
    "Interrupted",
    "KernelShap",
    "Method",
    "Occlusion",
    "Points",
    "RandomAttribution",
    "RemovalMethod",
    "Rise",
    "Run",
    "SmoothGrad",
    "VanillaGradients",
    "interactions",
]

"""Attribution methods φ: how a target is spread over the features of an input."""

from cocoax.attribution.captum import Captum
from cocoax.attribution.expected_gradients import ExpectedGradients
from cocoax.attribution.field import Field
from cocoax.attribution.gradient import GradientMethod, Points
from cocoax.attribution.gradient_shap import GradientShap
from cocoax.attribution.integrated_gradients import IntegratedGradients
from cocoax.attribution.interactions import Interactions, interactions
from cocoax.attribution.kernel_shap import KernelShap
from cocoax.attribution.method import Method
from cocoax.attribution.occlusion import Occlusion
from cocoax.attribution.random import RandomAttribution
from cocoax.attribution.removal import RemovalMethod
from cocoax.attribution.result import Attribution, Estimate
from cocoax.attribution.rise import Rise
from cocoax.attribution.run import Interrupted, Run
from cocoax.attribution.smoothgrad import SmoothGrad
from cocoax.attribution.vanilla_gradients import VanillaGradients

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

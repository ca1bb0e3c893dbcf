"""Attribution methods φ: how a target is spread over the features of an input."""

from cocoax.methods.attribution import Attribution, Estimate
from cocoax.methods.captum import Captum
from cocoax.methods.expected_gradients import ExpectedGradients
from cocoax.methods.field import Field
from cocoax.methods.gradient import GradientMethod, Points
from cocoax.methods.gradient_shap import GradientShap
from cocoax.methods.integrated_gradients import IntegratedGradients
from cocoax.methods.interactions import Interactions, interactions
from cocoax.methods.kernel_shap import KernelShap
from cocoax.methods.method import Method
from cocoax.methods.occlusion import Occlusion
from cocoax.methods.random import RandomAttribution
from cocoax.methods.removal import RemovalMethod
from cocoax.methods.rise import Rise
from cocoax.methods.run import Interrupted, Run
from cocoax.methods.smoothgrad import SmoothGrad
from cocoax.methods.vanilla_gradients import VanillaGradients

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

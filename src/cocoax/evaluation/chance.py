"""The chance level of an attribution method: its map when there is nothing to find.

Independent noise for each pixel is the wrong reference for a method with smooth maps: curves along large blobs differ from
curves along single pixels, whatever the blobs show. So each method gets uninformative input of its own kind.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cocoax.attribution import GradientShap, IntegratedGradients, Rise
from cocoax.attribution.gradient import normal
from cocoax.attribution.method import Method
from cocoax.attribution.rise import efficient_estimate, paper_estimate
from cocoax.seeding import stream


def chance_map(method: Method, explicand: Tensor, baseline: Tensor, seed: int = 0) -> Tensor:
    """What the method makes of an encoder that tells nothing, ``[H, W]``, for an explicand and a baseline ``[C, H, W]``.

    - RISE, the paper's estimator: a constant score, whose map is the mean of the masks.
    - RISE, the efficient one: scores that are noise (a constant has a constant map, which has no order).
    - Integrated Gradients and GradientSHAP: gradients that are noise, times explicand minus baseline.
    - others: noise for each pixel.
    """
    if isinstance(method, Rise):
        masks = method.draw(*explicand.shape[1:])
        if method.estimator == "paper":
            return paper_estimate(masks, torch.ones(len(masks), 1, dtype=torch.float64)).values[0].float()
        noise = torch.from_numpy(stream(seed, 0).standard_normal((len(masks), 1)))
        return efficient_estimate(masks, noise).values[0].float()
    noise = normal(seed, 0, tuple(explicand.shape))
    if isinstance(method, IntegratedGradients | GradientShap):
        noise = noise * (explicand - baseline)
    return noise.mean(0)

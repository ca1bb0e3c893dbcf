"""LARS (You et al. 2017): steps in proportion to the size of the weights, for large batches."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


class Lars(torch.optim.Optimizer):
    """SGD with momentum whose step is scaled, for each weight tensor, by ``trust * |w| / |g + decay * w|``.

    Biases and normalisation parameters (fewer than two dimensions) take plain steps without decay, as in SimCLR.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 1e-6,
        trust: float = 1e-3,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Change every parameter by one step."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                change = parameter.grad
                if parameter.ndim > 1:
                    change = change + group["weight_decay"] * parameter
                    size, length = parameter.norm(), change.norm()
                    change = change * torch.where((size > 0) & (length > 0), group["trust"] * size / length, 1.0)
                buffer = self.state[parameter].setdefault("momentum", torch.zeros_like(parameter))
                buffer.mul_(group["momentum"]).add_(change)
                parameter.add_(buffer, alpha=-group["lr"])

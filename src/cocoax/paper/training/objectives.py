"""Objectives: an encoder with the heads that only its training needs, from views of a batch to a loss; and LARS."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional


def nt_xent(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Return the normalised temperature-scaled cross entropy between two views ``[n, d]`` of a batch (Chen et al. 2020).

    Each of the 2n views must pick out its partner among the 2n - 1 others by cosine similarity.
    """
    z = functional.normalize(torch.cat([first, second]), dim=1)
    similarities = z @ z.T / temperature
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    partner = torch.arange(len(z), device=z.device).roll(len(first))
    return functional.cross_entropy(similarities.masked_fill(itself, -torch.inf), partner)


class Objective(nn.Module):
    """An encoder with the heads that its training needs; gives the loss of a batch.

    Attributes:
        views: random views of each image that a batch holds.
        may_collapse: whether the loss alone does not keep all representations from becoming the same.

    """

    views: int
    may_collapse = True

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    @property
    def classifier(self) -> nn.Linear | None:
        """The layer from representations to classes, if the objective trains one."""
        return None


class SimClr(Objective):
    """SimCLR (Chen et al. 2020): views of one image attract, those of others repel."""

    views = 2

    def __init__(self, encoder: nn.Module, width: int, temperature: float, projection: int = 128) -> None:
        super().__init__(encoder)
        self.temperature = temperature
        self.projector = nn.Sequential(
            nn.Linear(width, width, bias=False),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Linear(width, projection, bias=False),
            nn.BatchNorm1d(projection),
        )

    def forward(self, views: Tensor, _labels: Tensor) -> Tensor:
        """Return the loss of views ``[2 n, 3, H, W]``: the first views of all images, then the second ones."""
        first, second = self.projector(self.encoder(views)).chunk(2)
        return nt_xent(first, second, self.temperature)


class SimSiam(Objective):
    """SimSiam (Chen & He 2021), in its form for CIFAR-10: a view predicts the other, which is held still."""

    views = 2

    def __init__(self, encoder: nn.Module, width: int, projection: int = 2048) -> None:
        super().__init__(encoder)
        self.projector = nn.Sequential(
            nn.Linear(width, projection, bias=False),
            nn.BatchNorm1d(projection),
            nn.ReLU(),
            nn.Linear(projection, projection, bias=False),
            nn.BatchNorm1d(projection, affine=False),
        )
        self.predictor = nn.Sequential(
            nn.Linear(projection, projection // 4, bias=False),
            nn.BatchNorm1d(projection // 4),
            nn.ReLU(),
            nn.Linear(projection // 4, projection),
        )

    def forward(self, views: Tensor, _labels: Tensor) -> Tensor:
        """Return the loss of views ``[2 n, 3, H, W]``, first and second ones as in SimCLR; -1 is the lowest there is."""
        # The first and the second views pass alone, so that batch statistics are those of one view, as published.
        (z1, p1), (z2, p2) = (self._projected_and_predicted(view) for view in views.chunk(2))
        return -(functional.cosine_similarity(p1, z2).mean() + functional.cosine_similarity(p2, z1).mean()) / 2

    def _projected_and_predicted(self, view: Tensor) -> tuple[Tensor, Tensor]:
        projected = self.projector(self.encoder(view))
        return projected.detach(), self.predictor(projected)


class Classifier(Objective):
    """A linear layer on the encoder, with the cross entropy of the labels."""

    views = 1
    may_collapse = False

    def __init__(self, encoder: nn.Module, width: int, classes: int) -> None:
        super().__init__(encoder)
        self.head = nn.Linear(width, classes)

    @property
    def classifier(self) -> nn.Linear:
        """The linear layer."""
        return self.head

    def forward(self, views: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of views ``[n, 3, H, W]``."""
        return functional.cross_entropy(self.head(self.encoder(views)), labels)


class Lars(torch.optim.Optimizer):
    """LARS (You et al. 2017), for large batches: SGD with momentum and a step scaled for each weight tensor.

    The scale is ``trust * |w| / |g + decay * w|``.
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

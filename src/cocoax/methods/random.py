"""Random attributions: the reference line of every evaluation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cocoax.encoders import Encoder
from cocoax.inputs import Explicand
from cocoax.masking import MaskedEncoder
from cocoax.methods.estimate import Estimate, Origin, attributions
from cocoax.methods.method import Method, normal
from cocoax.results.attribution import Attribution
from cocoax.seeding import check_seed
from cocoax.store import digest
from cocoax.targets import Target, score_all


@dataclass(frozen=True)
class RandomAttribution(Method):
    """Standard normal values of the input's shape, the same for every target; ``values`` is their channel mean.

    Words and columns get one value each, and so do segments where ``explain`` has ``features=``: as a control of a map, draw
    over the features of that map. ``baseline_score`` is NaN for rows of a table without background.

    Args:
        seed: of the values.

    """

    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed)

    def _explain(
        self, encoder: Encoder, explicands: list[Explicand], targets: list[Target], progress: bool | None
    ) -> list[list[Attribution]]:
        origin = Origin(self.describe(), encoder.name, encoder.identity.space)
        answers = []
        for explicand in explicands:
            ends, own = self._ends(encoder, explicand, targets)
            # Each input has noise of its own, the same alone or among others, so that means over inputs average it out.
            row = int(digest(explicand.tensor)[:8], 16)
            if explicand.feature_ids is None:
                raw = torch.stack([normal(self.seed, row, tuple(explicand.tensor.shape))] * len(targets))
                maps = Estimate(explicand.per_feature(raw), raw=raw)
            else:
                maps = Estimate(torch.stack([normal(self.seed, row, explicand.shape)] * len(targets)))
            answers.append(attributions(origin, explicand, targets, ends, maps, own))
        return answers

    @staticmethod
    def _ends(encoder: Encoder, explicand: Explicand, targets: list[Target]) -> tuple[Tensor, Tensor]:
        """Return the ends, scores of explicand and emptied input, and the representation of the explicand.

        Nothing is asked of a user for the sake of the baseline, which may have no score.
        """
        if encoder.inputs.removes_by_default:
            masked = MaskedEncoder(encoder, explicand)
            return masked.score(targets), masked.anchors[0]
        own = encoder.represent([explicand], progress=False)
        scores = score_all(targets, own, own[0])
        return torch.cat([scores, torch.full_like(scores, torch.nan)]), own[0]

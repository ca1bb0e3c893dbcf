"""Random attributions: the reference line of every evaluation."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from cocoax.attribution.gradient import normal
from cocoax.attribution.method import Method, encode_ends, removed, resolve_baseline, results
from cocoax.attribution.result import Attribution
from cocoax.encoders import Encoder, Explicand
from cocoax.features import Blur
from cocoax.storage import digest
from cocoax.targets import Target, score_all


@dataclass(frozen=True)
class RandomAttribution(Method):
    """Standard normal values of the input's shape, the same for every target; ``values`` is their channel mean.

    Words and columns get one value each.

    Args:
        seed: of the values.

    """

    seed: int = 0

    def _explain(
        self, encoder: Encoder, explicands: list[Explicand], targets: list[Target], progress: bool | None
    ) -> list[list[Attribution]]:
        answers = []
        for one in explicands:
            ends = encode_ends(encoder, one.tensor, removed(one, resolve_baseline(Blur(), encoder)))
            scores = score_all(targets, ends, ends[0])
            # Each input has noise of its own, the same alone or among others, so that means over inputs average it out.
            own = int(digest(one.tensor)[:8], 16)
            shape = tuple(one.tensor.shape) if one.tokens is None else one.shape
            noise = torch.stack([normal(self.seed, own, shape)] * len(targets))
            raw, values = (noise, None) if one.tokens is None else (None, noise)
            answers.append(
                results(self.describe(), encoder.name, encoder.space, one, targets, scores, raw=raw, values=values)
            )
        return answers

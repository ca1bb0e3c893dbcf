"""Completeness: attributions of Integrated Gradients and KernelSHAP add up to the difference that the explicand makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cocoax.attribution import IntegratedGradients, KernelShap
from cocoax.encoders import Encoder
from cocoax.progress import bar
from cocoax.references import Reference
from cocoax.studies.study import four_targets


@dataclass(frozen=True)
class Gap:
    """The sum of an attribution against the score of the explicand minus that of the baseline."""

    method: str
    similarity: str
    target: str
    total: float
    difference: float

    @property
    def gap(self) -> float:
        """What is missing."""
        return abs(self.total - self.difference)


def completeness(
    encoder: Encoder,
    images: Sequence[Any],
    corpus: Reference,
    foil: Reference,
    *,
    steps: Sequence[int] = (50, 200),
    samples: int = 256,
    progress: bool | None = None,
) -> list[Gap]:
    """Gaps for the paper's four targets, cosine and dot, on some images.

    Integrated Gradients approach completeness with the number of steps (a network with ReLUs has kinks along the path);
    KernelSHAP is complete by construction, whatever the number of samples.
    """
    asked = [
        (similarity, name, target)
        for similarity in ("cosine", "dot")
        for name, target in four_targets(corpus, foil, similarity).items()
    ]
    targets = [target for _, _, target in asked]
    methods = {f"Integrated Gradients, {count} steps": IntegratedGradients(count) for count in steps}
    named = {**methods, "KernelSHAP": KernelShap(samples=samples)}
    gaps = []
    with bar(len(images) * len(named), "completeness", progress) as shown:
        for image in images:
            for title, method in named.items():
                for (similarity, name, _), answer in zip(
                    asked, method.explain(encoder, image, targets, progress=False), strict=True
                ):
                    parts = answer.raw if answer.raw is not None else answer.features
                    assert parts is not None
                    total = float(parts.double().sum())
                    gaps.append(Gap(title, similarity, name, total, answer.score - answer.baseline_score))
                shown.update()
    return gaps


def completeness_table(gaps: Sequence[Gap]) -> str:
    """For each method and target the largest gap, and the mean size of what was to be explained, as Markdown."""
    groups: dict[tuple[str, str, str], list[Gap]] = {}
    for gap in gaps:
        groups.setdefault((gap.method, gap.similarity, gap.target), []).append(gap)
    lines = ["| Method | Similarity | Target | mean difference to explain | largest gap |", "|---|---|---|---|---|"]
    for key, several in groups.items():
        difference = sum(abs(gap.difference) for gap in several) / len(several)
        lines.append(f"| {' | '.join(key)} | {difference:.4f} | {max(gap.gap for gap in several):.2e} |")
    return "\n".join([*lines, ""])

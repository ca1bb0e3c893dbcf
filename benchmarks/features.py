"""Which features, baseline and view give the best maps of a picture? At equal numbers of masked copies.

    python benchmarks/features.py encode FOLDER --encoder starter --photos IMAGENET --count 30 --collages 30 [--part other]
    python benchmarks/features.py table FOLDER

Questions, encoders, photos and judges are those of ``benchmarks/removals.py``. Features: a smooth grid, SLIC superpixels,
segments merged by colour alone, and by colour and the encoder's inner feature maps (12, 16, 20). What is done is kept in
FOLDER, line by line, and the same command goes on. ``--part other`` takes photos that none of ``--part report`` are among.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cocoax
from benchmarks.removals import STEPS, Case, Photos, _localised, _records, imgsim, judges
from cocoax.evaluation.statistics import t_interval
from cocoax.inputs import Features, LabelMap, Segments
from cocoax.inputs.features import picture_seen
from cocoax.inputs.segmentation import segment
from cocoax.masking.baselines import Baseline
from cocoax.methods.rise import relative_error

COPIES = (100, 300)
STRONG = cocoax.Blur(121, 20.0)
BOTH = cocoax.Several((STRONG, cocoax.Mean()))


def slic(explicand: cocoax.Explicand) -> Features:
    """Return plain superpixels."""
    from skimage.segmentation import slic as superpixels

    return LabelMap(superpixels(picture_seen(explicand).numpy(), 16, start_label=0))


def by_colour(explicand: cocoax.Explicand) -> Features:
    """Return segments that are merged by colour alone."""
    tree = segment(picture_seen(explicand))
    return LabelMap(tree.labels(tree.parts(16)))


@dataclass(frozen=True)
class Way:
    """One way to explain a picture."""

    features: Any
    baseline: Baseline = STRONG
    whole: bool = True
    method: Callable[..., cocoax.RemovalMethod] = cocoax.Rise


WAYS = {
    "segments 16": Way(Segments(16)),
    "segments 12": Way(Segments(12)),
    "segments 20": Way(Segments(20)),
    "grid": Way(7),
    "grid, blur, crop": Way(7, cocoax.Blur(), whole=False),
    "SLIC 16": Way(slic),
    "colour 16": Way(by_colour),
    "segments 16, KernelShap": Way(Segments(16), method=cocoax.KernelShap),
    "segments 16, blur": Way(Segments(16), cocoax.Blur()),
    "segments 16, mean colour": Way(Segments(16), cocoax.Mean()),
    "segments 16, both": Way(Segments(16), BOTH),
    "segments 16, crop": Way(Segments(16), whole=False),
}


def certain(answer: cocoax.Attribution) -> float:
    """Return the share of a map where the interval of two standard errors excludes zero."""
    assert answer.standard_error is not None
    return float((answer.relative.abs() > 2 * answer.standard_error).double().mean())


def measured(
    views: dict[bool, cocoax.Encoder], case: Case, fillers: Sequence[torch.Tensor], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Yield what is found out about the maps of one case, for each way."""
    for name, way in WAYS.items():
        if options.only and name not in options.only:
            continue
        began = time.process_time()
        encoder = views[way.whole]
        plain = encoder.explicand(case.picture)
        explicand = encoder.explicand(plain, way.features(plain) if callable(way.features) else way.features)
        versions = 2 if way.baseline is BOTH else 1
        method = way.method(samples=COPIES[-1] // versions, seed=case.number, baseline=way.baseline)
        run = method.run(encoder, explicand, progress=False)
        found: dict[str, Any] = {"features": 49 if explicand.feature_ids is None else explicand.shape[0]}
        for copies in COPIES:
            part = run.first(min(copies // versions, len(run)))  # few features have few subsets
            answers = part.explain(list(case.targets))
            found[f"error at {copies}"] = float(np.median([relative_error(answer) for answer in answers]))
            found[f"certain at {copies}"] = float(np.mean([certain(answer) for answer in answers]))
        found |= {"score": [each.score for each in answers], "left": [each.baseline_score for each in answers]}
        if case.kind == "collage":
            found |= _localised(answers)
        else:
            filling = torch.nn.functional.interpolate(
                torch.stack(list(fillers)), size=plain.tensor.shape[-2:], mode="bilinear"
            )
            for judge, removal in judges(filling).items():
                (both,) = cocoax.curves(encoder, plain, answers[:1], case.targets[0], STEPS, removal, progress=False)
                found |= {f"{kind}, {judge}": curve.auc for kind, curve in both.items()}
        yield {
            "encoder": encoder.name,
            "kind": case.kind,
            "number": case.number,
            "way": name,
            "seconds": time.process_time() - began,
            **found,
        }


def encode(options: argparse.Namespace) -> None:
    """Measure case after case, photos and collages in turns, and keep each."""
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"{options.encoder}-{options.part}.jsonl"
    done = {(record["kind"], record["number"]) for record in _records(path)}
    encoder = imgsim() if options.encoder == "imgsim" else cocoax.load(options.encoder)
    data = Photos(encoder, options.photos, options.part)
    views = {False: encoder, True: encoder.whole()}
    for number in range(max(options.count, options.collages)):
        for kind, count, make in (("collage", options.collages, data.collage), ("photo", options.count, data.single)):
            if number < count and (kind, number) not in done:
                lines = [json.dumps(record) for record in measured(views, make(number), data.fillers, options)]
                with path.open("a") as file:
                    file.write("\n".join(lines) + "\n")
                print(kind, number, flush=True)


def table(options: argparse.Namespace) -> None:
    """Print, for each encoder, the mean of every figure of every way, with half its 95 % interval."""
    for path in sorted(options.folder.glob("*.jsonl")):
        records = _records(path)
        for kind in ("collage", "photo"):
            mine = [record for record in records if record["kind"] == kind]
            if not mine:
                continue
            first = mine[0]["way"]
            print(f"\n{path.stem}: {sum(record['way'] == first for record in mine)} {kind}s\n")
            left_out = ("encoder", "kind", "number", "way", "seconds", "left", "score")
            figures = [key for key in mine[0] if key not in left_out]
            print(f"| way | left | {' | '.join(figures)} |\n|---|---|{'---|' * len(figures)}")
            for way in dict.fromkeys(record["way"] for record in mine):
                own = [record for record in mine if record["way"] == way]
                left = np.mean([np.mean(record["left"]) / max(1e-9, np.mean(np.abs(record["score"]))) for record in own])
                cells = [_cell([float(np.mean(record[figure])) for record in own]) for figure in figures]
                print(f"| {way} | {left:.0%} | {' | '.join(cells)} |")


def _cell(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.3f}"
    interval = t_interval(values)
    return f"{interval.mean:.3f} ± {interval.half:.3f}"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("encode", "table"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", default="starter")
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--part", choices=("report", "other"), default="report")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--collages", type=int, default=30)
    parser.add_argument("--only", nargs="*", default=())
    options = parser.parse_args()
    {"encode": encode, "table": table}[options.command](options)


if __name__ == "__main__":
    main()

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import cocoax
from cocoax.evaluation import chance_map, corpus_majority_probability, gini, randomised
from cocoax.methods import Method
from cocoax.paper.studies.curves import Case, Judged, Task, judge
from cocoax.paper.studies.study import four_targets
from tests.conftest import SmallNet
from tests.paper.studies.tiny import HELD_OUT, TRAIN, small_encoder

STEPS, SEED = 5, 9
IMAGE = HELD_OUT.images[0]
METHODS: dict[str, Method] = {
    "integrated_gradients": cocoax.IntegratedGradients(3),
    "gradient_shap": cocoax.GradientShap(3, seed=SEED),
    "rise": cocoax.Rise(24, 3, estimator="paper", seed=SEED),
    "rise_efficient": cocoax.Rise(24, 3, estimator="efficient", seed=SEED, complements=False),
}


def references(encoder: cocoax.Encoder, first: int) -> tuple[cocoax.Reference, cocoax.Reference]:
    corpus = encoder.reference(list(TRAIN.images[first : first + 4]), keep_samples=True)
    return corpus, encoder.reference(list(TRAIN.images[first + 4 : first + 9]), keep_samples=True)


def main_tasks(encoder: cocoax.Encoder) -> list[Task]:
    """As in the main study: two cases, eight targets in each."""
    tasks = []
    for class_case, first in (("same", 0), ("different", 9)):
        corpus, foil = references(encoder, first)
        assert encoder.head is not None
        measures = [cocoax.contrastive_corpus_similarity(corpus, foil), corpus_majority_probability(encoder.head, corpus)]
        case = Case({"class_case": class_case}, measures)
        for similarity in ("cosine", "dot"):
            for name, target in four_targets(corpus, foil, similarity).items():
                tasks.append(Task(case, {"similarity": similarity, "target": name}, encoder, target))
    return tasks


def row_of(judged: Judged, **key: Any) -> int:
    found = [number for number, row in enumerate(judged.rows) if all(row.get(name) == value for name, value in key.items())]
    assert len(found) == 1, key
    return found[0]


def check_curves(judged: Judged, place: int, evaluator: cocoax.Encoder, attribution: Any, case: Case) -> None:
    for kind in ("insertion", "deletion"):
        for number, measure in enumerate(case.measures):
            curve = getattr(cocoax, kind)(evaluator, IMAGE, attribution, measure, steps=STEPS)
            np.testing.assert_allclose(getattr(judged, kind)[place, number].numpy(), curve.y.numpy(), atol=2e-5)


def test_judge__equals_a_call_for_each_row() -> None:
    encoder = small_encoder()
    tasks = main_tasks(encoder)
    judged = judge(IMAGE, tasks, METHODS, encoder, steps=STEPS, seed=SEED)
    assert len(judged.rows) == 16 * 4 + 2 * 5
    assert judged.insertion.shape == judged.deletion.shape == (74, 2, STEPS + 1)
    for task in tasks:
        for name, method in METHODS.items():
            place = row_of(judged, **task.case.key, **task.key, method=name)
            alone = method.explain(encoder, IMAGE, task.target)
            check_curves(judged, place, encoder, alone, task.case)
            assert judged.rows[place]["gini"] == pytest.approx(gini(alone), abs=1e-4)


def test_judge__chance_levels_of_every_method() -> None:
    encoder = small_encoder()
    tasks = main_tasks(encoder)
    judged = judge(IMAGE, tasks, METHODS, encoder, steps=STEPS, seed=SEED)
    x = encoder.explicand(IMAGE).tensor
    for case in {id(task.case): task.case for task in tasks}.values():
        for name, method in {"random": cocoax.RandomAttribution(), **METHODS}.items():
            label = name if name == "random" else f"chance of {name}"
            place = row_of(judged, **case.key, method=label)
            check_curves(judged, place, encoder, chance_map(method, x, cocoax.Blur()(x), SEED), case)


def test_judge__each_distinct_image_is_encoded_once() -> None:
    encoder = small_encoder()
    tasks = main_tasks(encoder)
    net = encoder.module
    assert isinstance(net, SmallNet)
    before = net.inputs
    judge(IMAGE, tasks, METHODS, encoder, steps=STEPS, seed=SEED)
    # Distinct targets: label-free is the same in both cases, so 7 for each similarity. Maps: those by four methods, and four
    # random ones (both path methods have the same chance level). Both estimators of RISE share one run. Explicand and
    # baseline are encoded once for each of three methods and for the curves.
    maps = 14 * 4 + 4
    ends = 2 * (3 + 1)
    assert net.inputs - before == 3 + 3 + 24 + maps * 2 * (STEPS - 1) + ends


def test_judge__another_encoder_is_explained_than_the_one_that_judges() -> None:
    trained = small_encoder()
    other = randomised(trained, 1)
    corpus, foil = references(trained, 0)
    assert trained.head is not None
    case = Case({"class_case": "same"}, [cocoax.contrastive_corpus_similarity(corpus, foil)])
    targets = {
        "trained": (trained, cocoax.contrastive_corpus_similarity(corpus, foil)),
        "randomized": (other, cocoax.contrastive_corpus_similarity(*references(other, 0))),
    }
    tasks = [Task(case, {"model": model}, encoder, target) for model, (encoder, target) in targets.items()]
    judged = judge(IMAGE, tasks, METHODS, trained, steps=STEPS, seed=SEED)
    for model, (encoder, target) in targets.items():
        for name, method in METHODS.items():
            place = row_of(judged, model=model, method=name)
            check_curves(judged, place, trained, method.explain(encoder, IMAGE, target), case)
    # All curves have the same ends, those of the trained encoder.
    torch.testing.assert_close(judged.insertion[:, :, -1], judged.insertion[:1, :, -1].expand(len(judged.rows), -1))


def test_judge__methods_that_differ_in_more_than_the_estimator_do_not_share_a_run() -> None:
    encoder = small_encoder()
    tasks = main_tasks(encoder)[:1]
    methods = {"a": cocoax.Rise(24, 3, seed=1), "b": cocoax.Rise(24, 3, seed=2), "c": cocoax.Rise(24, 3, keep=0.3, seed=1)}
    judged = judge(IMAGE, tasks, methods, encoder, steps=STEPS)
    for name, method in methods.items():
        place = row_of(judged, method=name)
        check_curves(judged, place, encoder, method.explain(encoder, IMAGE, tasks[0].target), tasks[0].case)


def test_judge__same_seed_same_result() -> None:
    encoder = small_encoder()
    first, again = (judge(IMAGE, main_tasks(encoder), METHODS, encoder, steps=STEPS, seed=SEED) for _ in range(2))
    assert torch.equal(first.insertion, again.insertion)
    assert torch.equal(first.deletion, again.deletion)
    assert first.rows == again.rows


@dataclass(frozen=True)
class Read(cocoax.Occlusion):
    """A method with an option that only changes how its run is read."""

    factor: float = 1.0
    reading: ClassVar[tuple[str, ...]] = ("factor",)

    def estimate(self, masks: Any, scores: torch.Tensor, ends: torch.Tensor) -> Any:
        return super().estimate(masks, scores * self.factor, ends * self.factor)


def test_judge__methods_that_read_a_run_differently_share_it() -> None:
    encoder = small_encoder()
    tasks = main_tasks(encoder)[:1]
    net = encoder.module
    assert isinstance(net, SmallNet)
    counts = []
    both = {"a": Read(), "b": Read(factor=-1.0)}
    for methods in (both, {"a": both["a"]}, both):
        before = net.inputs
        judge(IMAGE, tasks, methods, encoder, steps=1)  # curves of one step need no image but their ends
        counts.append(net.inputs - before)
    assert counts[1] == counts[2]
    judged = judge(IMAGE, tasks, both, encoder, steps=STEPS)
    for name, method in both.items():
        place = row_of(judged, method=name)
        check_curves(judged, place, encoder, method.explain(encoder, IMAGE, tasks[0].target), tasks[0].case)

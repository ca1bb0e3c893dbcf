"""Studies of curves: one pass over an explicand equals many calls; every value, interruptions, folders that do not fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import cocoax
from cocoax.data.labelled import LabelledImages
from cocoax.evaluation import chance_map, corpus_majority_probability, gini, randomised
from cocoax.methods import Method
from cocoax.paper.studies import curves
from cocoax.paper.studies.curves import Case, Task, _judge, _Judged
from cocoax.paper.studies.insertion_deletion import MainStudy
from cocoax.paper.studies.published import MEASURES, METHOD_TITLES, TARGET_TITLES
from cocoax.paper.studies.study import four_targets
from cocoax.seeding import stream
from tests.conftest import SmallNet
from tests.paper.studies.tiny import CLASSES, HELD_OUT, OPTIONS, TRAIN, small_encoder

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


def row_of(judged: _Judged, **key: Any) -> int:
    found = [number for number, row in enumerate(judged.rows) if all(row.get(name) == value for name, value in key.items())]
    assert len(found) == 1, key
    return found[0]


def check_curves(judged: _Judged, place: int, evaluator: cocoax.Encoder, attribution: Any, case: Case) -> None:
    for kind in ("insertion", "deletion"):
        for number, measure in enumerate(case.measures):
            curve = getattr(cocoax, kind)(evaluator, IMAGE, attribution, measure, steps=STEPS)
            np.testing.assert_allclose(getattr(judged, kind)[place, number].numpy(), curve.y.numpy(), atol=2e-5)


def test_judge__equals_a_call_for_each_row() -> None:
    encoder = small_encoder()
    tasks = main_tasks(encoder)
    judged = _judge(IMAGE, tasks, METHODS, encoder, steps=STEPS, seed=SEED)
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
    judged = _judge(IMAGE, tasks, METHODS, encoder, steps=STEPS, seed=SEED)
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
    _judge(IMAGE, tasks, METHODS, encoder, steps=STEPS, seed=SEED)
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
    judged = _judge(IMAGE, tasks, METHODS, trained, steps=STEPS, seed=SEED)
    for model, (encoder, target) in targets.items():
        for name, method in METHODS.items():
            place = row_of(judged, model=model, method=name)
            check_curves(judged, place, trained, method.explain(encoder, IMAGE, target), case)
    # All curves have the same ends, those of the trained encoder.
    torch.testing.assert_close(judged.insertion[:, :, -1], judged.insertion[:1, :, -1].expand(len(judged.rows), -1))


@dataclass(frozen=True)
class Read(cocoax.Occlusion):
    """A method with an option that only changes how its run is read."""

    factor: float = 1.0
    estimator_options: ClassVar[tuple[str, ...]] = ("factor",)

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
        _judge(IMAGE, tasks, methods, encoder, steps=1)  # curves of one step need no image but their ends
        counts.append(net.inputs - before)
    assert counts[1] == counts[2]
    judged = _judge(IMAGE, tasks, both, encoder, steps=STEPS)
    for name, method in both.items():
        place = row_of(judged, method=name)
        check_curves(judged, place, encoder, method.explain(encoder, IMAGE, tasks[0].target), tasks[0].case)


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots take longer than the study."""
    monkeypatch.setattr("cocoax.paper.studies.insertion_deletion.mean_curves", lambda _records: [])


def main_study(folder: Path, encoder: cocoax.Encoder | None = None, **changes: Any) -> MainStudy:
    return MainStudy(encoder or small_encoder(), TRAIN, HELD_OUT, folder, replace(OPTIONS, **changes))


def units(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "units").glob("*.safetensors"))}


def test_run__records_every_value(tmp_path: Path) -> None:
    study = main_study(tmp_path)
    records = study.run(progress=False)
    assert len(records) == 2 * 3 * 2  # runs, classes, explicands of each
    values = list(records)
    rows = 2 * (8 * 4 + 1 + 4)  # cases; targets of both similarities by each method; pixel noise, chance levels
    assert len(values) == 12 * rows * 2 * 2
    groups = records.grouped("class_case", "similarity", "method", "target", "measure", "metric")
    for class_case in ("same", "different"):
        for measure in MEASURES:
            for metric in ("insertion", "deletion"):
                for similarity in ("cosine", "dot"):
                    for method in METHOD_TITLES:
                        for target in TARGET_TITLES:
                            assert len(groups[class_case, similarity, method, target, measure, metric]) == 12
                assert len(groups[class_case, None, "random", None, measure, metric]) == 12
    assert all(value["model"] == "trained" for value in values if value.get("target"))


def test_run__one_value_by_hand(tmp_path: Path) -> None:
    """From the draw to the area under the curve, with the public functions alone."""
    study = main_study(tmp_path)
    records = study.run(progress=False)
    encoder, drawn = study.encoder, study.draw(456)
    explicand = drawn.explicands[4]
    seed = int(stream(456, 2, 4).integers(2**31))
    image = HELD_OUT.images[explicand.number]
    for class_case, label in (("same", explicand.own), ("different", explicand.other)):
        corpus = encoder.reference([TRAIN.images[number] for number in drawn.corpora[label]], keep_samples=True)
        foil = encoder.reference([TRAIN.images[number] for number in drawn.foils[label]])
        target = cocoax.contrastive_corpus_similarity(corpus, foil, "dot")
        attribution = cocoax.Rise(20, 3, estimator="paper", seed=seed).explain(encoder, image, target)
        measure = cocoax.contrastive_corpus_similarity(corpus, foil)  # the cosine, whatever the target's similarity
        expected = cocoax.deletion(encoder, image, attribution, measure, steps=4).auc
        key = (class_case, "dot", "rise", "cocoa", "contrastive_corpus_similarity", "deletion", 456, explicand.number)
        fields = ("class_case", "similarity", "method", "target", "measure", "metric", "run", "explicand")
        (found,) = records.grouped(*fields)[key]
        assert found["value"] == pytest.approx(expected, abs=1e-5)


def test_run__training_images_are_encoded_once_and_explicands_as_often_as_needed(tmp_path: Path) -> None:
    study = main_study(tmp_path, runs=1)
    study.run(progress=False)
    net: Any = study.encoder.module
    before = net.inputs
    again = main_study(tmp_path, study.encoder, runs=1)
    again.run(progress=False)
    assert net.inputs - before == 1  # the image that tells how many classes the head knows


@pytest.mark.usefixtures("without_figures")
def test_run__interrupted_anywhere_equals_uninterrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main_study(tmp_path / "whole").write(progress=False)
    judge = curves._judge
    calls = 0

    def failing(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in (1, 4, 9):
            raise KeyboardInterrupt
        return judge(*arguments, **options)

    monkeypatch.setattr(curves, "_judge", failing)
    done = []
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            main_study(tmp_path / "parts").run(progress=False)
        done.append(len(units(tmp_path / "parts")))
    assert done == [0, 2, 6]  # nothing is lost but the explicand in hand
    main_study(tmp_path / "parts").write(progress=False)
    assert units(tmp_path / "parts") == units(tmp_path / "whole")
    assert (tmp_path / "parts/results.json").read_bytes() == (tmp_path / "whole/results.json").read_bytes()
    for path in (tmp_path / "whole").glob("*.md"):
        assert (tmp_path / "parts" / path.name).read_text() == path.read_text()


@pytest.mark.parametrize("change", [{"samples": 30}, {"explicands": 1}, {"classes": (0, 1)}])
def test_study__folder_of_other_options(tmp_path: Path, change: dict[str, Any]) -> None:
    main_study(tmp_path)
    with pytest.raises(ValueError, match=f"other options: {next(iter(change))} was"):
        main_study(tmp_path, **change)


def test_study__folder_of_another_encoder_or_head(tmp_path: Path) -> None:
    main_study(tmp_path)
    other = small_encoder()
    with torch.no_grad():
        other.module.fc.bias.add_(1)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="other options: fingerprint was"):
        main_study(tmp_path, other)
    other = small_encoder()
    assert other.head is not None
    with torch.no_grad():
        other.head.bias.add_(1)  # type: ignore[operator, union-attr]
    with pytest.raises(ValueError, match="other options: head was"):
        main_study(tmp_path, other)


@pytest.mark.parametrize("which", ["training", "held-out"])
def test_study__folder_of_other_data(tmp_path: Path, which: str) -> None:
    main_study(tmp_path)
    splits = {"training": TRAIN, "held-out": HELD_OUT}
    pixels = np.array(splits[which].images)
    pixels[5, 3, 3, 0] ^= 1  # as many images, with the same labels
    splits[which] = replace(splits[which], images=pixels)
    with pytest.raises(ValueError, match=f"other options: {which} data was"):
        MainStudy(small_encoder(), splits["training"], splits["held-out"], tmp_path, OPTIONS)


def test_study__head_that_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="head of 'tiny' tells 5 classes apart but the data have 3"):
        main_study(tmp_path, small_encoder(5))
    with pytest.raises(ValueError, match="head of 'tiny' does not know the class 'red' of the data but a, b, c, …"):
        main_study(tmp_path, small_encoder(5, classes=["a", "b", "c", "blue", "green"]))
    with pytest.raises(ValueError, match="does not know the class 'blue' of the data but cat, green, red"):  # as many
        main_study(tmp_path, small_encoder(classes=["cat", "green", "red"]))
    with pytest.raises(ValueError, match=r"'bare' has no head.*cocoax paper train linear"):
        main_study(tmp_path, cocoax.Encoder(small_encoder().module, name="bare"))
    assert not list(tmp_path.iterdir())


def test_study__head_of_more_classes_that_include_those_of_the_data(tmp_path: Path) -> None:
    """As a head for all of ImageNet, and the ten classes of Imagenette."""
    study = main_study(tmp_path, small_encoder(5, classes=["grey", *CLASSES, "black"]), runs=1, explicands=1)
    assert len(study.run(progress=False)) == 3


def test_study__splits_of_different_classes(tmp_path: Path) -> None:
    other = LabelledImages(HELD_OUT.images, HELD_OUT.labels, ["x", "y", "z"])
    with pytest.raises(ValueError, match="two splits of the data have different classes"):
        MainStudy(small_encoder(), TRAIN, other, tmp_path, OPTIONS)

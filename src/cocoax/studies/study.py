"""What all quantitative studies of the paper share: draw, explain, judge, keep."""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from cocoax.attribution import GradientShap, IntegratedGradients, Method, Rise
from cocoax.data.labelled import LabelledImages
from cocoax.encoders import Encoder
from cocoax.evaluation import Measure, corpus_majority_probability
from cocoax.evaluation.measures import logits_of
from cocoax.progress import bar
from cocoax.references import Reference
from cocoax.seeding import stream
from cocoax.storage import digest
from cocoax.studies.explicand import Ask, judge
from cocoax.studies.folder import Library, Results
from cocoax.studies.sampling import RUN_SEEDS, Draw, Explicand, draw
from cocoax.targets import (
    Target,
    contrastive_corpus_similarity,
    contrastive_similarity,
    corpus_similarity,
    representation_similarity,
)
from cocoax.version import __version__

METHODS = {
    "integrated_gradients": "Integrated Gradients",
    "gradient_shap": "GradientSHAP",
    "rise": "RISE",
    "rise_efficient": "RISE, efficient",
}
TARGETS = {
    "label_free": "Label-free",
    "contrastive_label_free": "Contrastive label-free",
    "corpus": "Corpus",
    "cocoa": "COCOA",
}
MEASURES = ("contrastive_corpus_similarity", "corpus_majority_probability")


@dataclass(frozen=True)
class Options:
    """The scale of a study; the defaults are the paper's.

    Args:
        runs: how often everything is drawn anew.
        explicands: per class and run.
        corpus: images in a corpus.
        foil: images in a foil.
        samples: masks of RISE.
        estimator: of RISE in the two figures that show maps, ``"paper"`` or ``"efficient"``; the tables have both.
        grid: cells of a mask; 4 for images of up to 64 pixels, otherwise 7, if not given.
        steps: of Integrated Gradients, and samples of GradientSHAP.
        curve_steps: of insertion and deletion.
        classes: numbers of the classes that take part; all of them if not given.

    """

    runs: int = 5
    explicands: int = 25
    corpus: int = 100
    foil: int = 1500
    samples: int = 5000
    estimator: Literal["paper", "efficient"] = "paper"
    grid: int | None = None
    steps: int = 50
    curve_steps: int = 50
    classes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        least = {"runs": 1, "explicands": 1, "corpus": 1, "foil": 1, "steps": 2, "curve_steps": 1}
        for name, number in least.items():
            if getattr(self, name) < number:
                raise ValueError(f"The '{name}' parameter must be at least {number}. Got {getattr(self, name)} instead.")


PRESETS = {"paper": Options(), "small": Options(runs=2, explicands=1, samples=1000, estimator="efficient")}


class Study(ABC):
    """A study over explicands of a labelled data set; each table and figure of numbers is one."""

    name: str

    def __init__(
        self, encoder: Encoder, train: LabelledImages, held_out: LabelledImages, folder: str | Path, options: Options
    ) -> None:
        if encoder.head is None:
            raise ValueError(
                f"The encoder {encoder.name!r} has no head, which the corpus majority probability needs; "
                "fit one with `cocoax train linear`."
            )
        if train.classes != held_out.classes:
            raise ValueError("The two splits of the data have different classes.")
        self.encoder = encoder
        self.train = train
        self.held_out = held_out
        self.options = options
        self.classes = list(range(len(train.classes))) if options.classes is None else list(options.classes)
        self._check_head(logits_of(encoder.head, encoder.represent([held_out.images[0]], progress=False)).shape[1])
        about = {
            "study": self.name,
            "encoder": encoder.name,
            "fingerprint": encoder.fingerprint,
            "head": digest(*encoder.head.state_dict().values()),
            "training data": train.fingerprint,
            "held-out data": held_out.fingerprint,
            **{name: value for name, value in asdict(options).items() if name != "estimator"},  # there are both
        }
        self.results = Results(folder, about)

    def _check_head(self, outputs: int) -> None:
        """Raise unless the head tells the classes of the study apart: by name, or where it has no names by their number.

        A head for all of ImageNet's classes may be used on ten of them; as many classes by other names are other classes.
        """
        known, classes = self.encoder.classes, self.train.classes
        unknown = [one for number, one in enumerate(classes) if number in self.classes and one not in (known or classes)]
        if known is None and outputs != len(classes):
            wrong = f"tells {outputs} classes apart but the data have {len(classes)}"
        elif known is not None and unknown:
            wrong = f"does not know the class {unknown[0]!r} of the data but {', '.join(known[:3])}, …"
        else:
            return
        raise ValueError(f"The head of {self.encoder.name!r} {wrong}; use data or a head with the same classes.")

    # --- what a study must say ----------------------------------------------------------------------------------------

    @abstractmethod
    def asks(self, run: Run, one: Explicand) -> list[Ask]:
        """What to explain of an explicand, and by which measures to judge it."""

    def explained(self, seed: int) -> dict[str, Encoder]:
        """The encoders that are explained in a run; evaluation always uses the study's own."""
        return {"trained": self.encoder}

    @property
    def pairs(self) -> Sequence[tuple[int, int]]:
        """Sizes of corpus and foil that it uses together."""
        return [(self.options.corpus, self.options.foil)]

    # --- what they share ----------------------------------------------------------------------------------------------

    @cached_property
    def grid(self) -> int:
        """Cells of a mask of RISE."""
        return grid_of(self.encoder, self.held_out.images[0], self.options.grid)

    def methods_of(self, seed: int) -> dict[str, Method]:
        """The paper's three methods, RISE by both estimators, with a seed of their own for each explicand."""
        options = self.options
        return {
            "integrated_gradients": IntegratedGradients(options.steps),
            "gradient_shap": GradientShap(options.steps, seed=seed),
            "rise": Rise(options.samples, self.grid, estimator="paper", seed=seed),
            "rise_efficient": Rise(options.samples, self.grid, estimator="efficient", seed=seed),
        }

    @property
    def seeds(self) -> list[int]:
        """Of the runs: the paper's five, then others."""
        return [*RUN_SEEDS, *range(1000, 1000 + self.options.runs)][: self.options.runs]

    def draw(self, seed: int) -> Draw:
        """The explicands, corpora and foils of a run."""
        return draw(
            self.train,
            self.held_out,
            classes=self.classes,
            explicands=self.options.explicands,
            corpus=max(corpus for corpus, _ in self.pairs),
            foil=max(foil for _, foil in self.pairs),
            seed=seed,
        )

    def unit(self, seed: int, index: int) -> str:
        """The name of the file of one explicand."""
        return f"{seed}-{index:04d}"

    def run(self, progress: bool | None = None) -> Records:
        """Do what is left to do, and give all records."""
        draws = {seed: self.draw(seed) for seed in self.seeds}
        todo = [(seed, index) for seed, one in draws.items() for index in range(len(one.explicands))]
        with bar(len(todo), f"{self.name} study of {self.encoder.name}", progress) as shown:
            current: Run | None = None
            for seed, index in todo:
                if self.unit(seed, index) not in self.results:
                    if current is None or current.draw.seed != seed:
                        current = Run(self, draws[seed])
                    self.one(current, index)
                shown.update()
        return self.records()

    def one(self, run: Run, index: int) -> None:
        """Explain and judge one explicand: a function of the encoder, the data, the options and its number alone."""
        one = run.draw.explicands[index]
        seed = int(stream(run.draw.seed, 2, index).integers(2**31))
        judged = judge(
            self.held_out.images[one.number],
            self.asks(run, one),
            self.methods_of(seed),
            self.encoder,
            steps=self.options.curve_steps,
            seed=seed,
        )
        header = {
            "run": run.draw.seed,
            "explicand": one.number,
            "own": one.own,
            "other": one.other,
            "rows": judged.rows,
            "measures": list(MEASURES),
            "versions": versions(),
        }
        self.results.write(
            self.unit(run.draw.seed, index), {"insertion": judged.insertion, "deletion": judged.deletion}, header
        )

    def records(self) -> Records:
        """What is there so far."""
        units = []
        for seed in self.seeds:
            for index in range(self.options.explicands * len(self.classes)):
                if self.unit(seed, index) in self.results:
                    units.append(self.results.read(self.unit(seed, index)))
        return Records(units)


class Run:
    """One run of a study: what was drawn, and the references made of it."""

    def __init__(self, study: Study, drawn: Draw) -> None:
        self.study = study
        self.draw = drawn
        self.encoders = study.explained(drawn.seed)
        self.libraries = {
            name: Library(encoder, study.train, study.results.folder)
            for name, encoder in {**self.encoders, "trained": study.encoder}.items()
        }
        wanted = np.unique(np.concatenate([*drawn.corpora.values(), *drawn.foils.values()]))
        for library in self.libraries.values():
            library.encode(wanted)
        self._references: dict[tuple[str, str, int, int], Reference] = {}

    def corpus(self, label: int, size: int | None = None, model: str = "trained") -> Reference:
        """The corpus of a class, or its first ``size`` images."""
        return self._reference(model, "corpus", label, self.draw.corpora[label][:size])

    def foil(self, label: int, size: int | None = None, model: str = "trained") -> Reference:
        """The foil of a class, or its first ``size`` images."""
        return self._reference(model, "foil", label, self.draw.foils[label][:size])

    def _reference(self, model: str, kind: str, label: int, numbers: np.ndarray) -> Reference:
        key = (model, kind, label, len(numbers))
        if key not in self._references:
            name = f"{kind} of {self.study.train.classes[label]}"
            self._references[key] = self.libraries[model].reference(numbers, name)
        return self._references[key]

    def measures(self, corpus: Reference, foil: Reference) -> list[Measure]:
        """The paper's two, of trained references; the similarity is always the cosine."""
        head = self.study.encoder.head
        assert head is not None
        return [contrastive_corpus_similarity(corpus, foil), corpus_majority_probability(head, corpus)]


class Records:
    """The curves of all explicands of a study, and the areas under them."""

    def __init__(self, units: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        self.units = units

    def __len__(self) -> int:
        return len(self.units)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Every value: the row's key, the measure, the metric, its run, its explicand and the area under its curve."""
        for tensors, header in self.units:
            for metric in ("insertion", "deletion"):
                areas = torch.trapezoid(tensors[metric].double(), dx=1 / (tensors[metric].shape[-1] - 1))
                for row, values in zip(header["rows"], areas.tolist(), strict=True):
                    for measure, value in zip(header["measures"], values, strict=True):
                        yield {
                            **row,
                            "measure": measure,
                            "metric": metric,
                            "run": header["run"],
                            "explicand": header["explicand"],
                            "value": value,
                        }

    def grouped(self, *by: str) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
        """Values that agree in these fields; ``None`` where a row has no such field."""
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for record in self:
            groups.setdefault(tuple(record.get(name) for name in by), []).append(record)
        return groups

    def mean_curves(self, *by: str) -> dict[tuple[Any, ...], torch.Tensor]:
        """Mean curves ``[points]`` over explicands for rows that agree in these fields, and each measure and metric."""
        groups: dict[tuple[Any, ...], list[torch.Tensor]] = {}
        for tensors, header in self.units:
            for metric in ("insertion", "deletion"):
                for row, several in zip(header["rows"], tensors[metric], strict=True):
                    for measure, curve in zip(header["measures"], several, strict=True):
                        key = (*(row.get(name) for name in by), measure, metric)
                        groups.setdefault(key, []).append(curve)
        return {key: torch.stack(several).mean(0) for key, several in groups.items()}


def by_run(records: Sequence[Mapping[str, Any]]) -> list[float]:
    """The mean of each run."""
    runs: dict[int, list[float]] = {}
    for record in records:
        runs.setdefault(record["run"], []).append(record["value"])
    return [float(np.mean(values)) for values in runs.values()]


def four_targets(corpus: Reference, foil: Reference, similarity: str) -> dict[str, Target]:
    """The paper's."""
    return {
        "label_free": representation_similarity(similarity),
        "contrastive_label_free": contrastive_similarity(foil, similarity),
        "corpus": corpus_similarity(corpus, similarity),
        "cocoa": contrastive_corpus_similarity(corpus, foil, similarity),
    }


def grid_of(encoder: Encoder, image: Any, asked: int | None) -> int:
    """Cells of a mask: the paper's choice for the size of the encoder's inputs, unless something else was asked for."""
    if asked is not None:
        return asked
    return 4 if max(encoder.explicand(image).tensor.shape[1:]) <= 64 else 7


def versions() -> dict[str, str]:
    """Of what the numbers may depend on."""
    return {
        "cocoax": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }

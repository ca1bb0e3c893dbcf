"""What the studies of insertion and deletion curves share: draw, explain, judge, keep, report."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

import numpy as np

from cocoax.data.labelled import LabelledImages
from cocoax.encoders import Encoder
from cocoax.evaluation import Measure, corpus_majority_probability
from cocoax.evaluation.curves import logits_of
from cocoax.methods import GradientShap, IntegratedGradients, Method, Rise
from cocoax.paper.studies.folder import Library
from cocoax.paper.studies.judging import Task, judge
from cocoax.paper.studies.records import Records
from cocoax.paper.studies.sampling import RUN_SEEDS, Draw, DrawnExplicand, draw_run
from cocoax.paper.studies.study import LabelledStudy, Options, grid_of
from cocoax.paper.studies.titles import MEASURES
from cocoax.progress import bar
from cocoax.references import Reference
from cocoax.seeding import stream
from cocoax.store import Layout, Results, digest, write_text
from cocoax.targets import contrastive_corpus_similarity
from cocoax.version import versions

UNIT = Layout(
    "study unit",
    {"insertion": "rows measures points", "deletion": "rows measures points"},
    {"run": int, "explicand": int, "rows": list, "measures": list},
)


class CurveStudy(LabelledStudy):
    """A study that judges attributions of many explicands by their insertion and deletion curves.

    Each explicand is a unit of work: a function of the encoder, the data, the options and its number alone, kept in a file
    of its own, so that a study that was stopped goes on where it was.
    """

    def __init__(
        self, encoder: Encoder, train: LabelledImages, held_out: LabelledImages, folder: str | Path, options: Options
    ) -> None:
        super().__init__(encoder, train, held_out, folder, options)
        if encoder.head is None:
            raise ValueError(
                f"The encoder {encoder.name!r} has no head, which the corpus majority probability needs; "
                "fit one with `cocoax train linear`."
            )
        if train.classes != held_out.classes:
            raise ValueError("The two splits of the data have different classes.")
        self.classes = list(range(len(train.classes))) if options.classes is None else list(options.classes)
        self._check_head(logits_of(encoder.head, encoder.represent([held_out.images[0]], progress=False)).shape[1])
        made_with = {
            "study": self.name,
            "encoder": encoder.name,
            "fingerprint": encoder.fingerprint,
            "head": digest(*encoder.head.state_dict().values()),
            "training data": train.fingerprint,
            "held-out data": held_out.fingerprint,
            **{name: value for name, value in asdict(options).items() if name != "estimator"},  # there are both
        }
        self.results = Results(folder, made_with, UNIT)

    def _check_head(self, outputs: int) -> None:
        """Raise unless the head tells the classes of the study apart: by name, or where it has no names by their number.

        A head for all of ImageNet's classes may be used on ten of them; as many classes by other names are other classes.
        """
        known, classes = self.encoder.classes, self.train.classes
        unknown = [name for number, name in enumerate(classes) if number in self.classes and name not in (known or classes)]
        if known is None and outputs != len(classes):
            wrong = f"tells {outputs} classes apart but the data have {len(classes)}"
        elif known is not None and unknown:
            wrong = f"does not know the class {unknown[0]!r} of the data but {', '.join(known[:3])}, …"
        else:
            return
        raise ValueError(f"The head of {self.encoder.name!r} {wrong}; use data or a head with the same classes.")

    # --- what a study must say ----------------------------------------------------------------------------------------

    @abstractmethod
    def tasks(self, repetition: Repetition, explicand: DrawnExplicand) -> list[Task]:
        """Return what to explain of an explicand, and by which measures to judge it."""

    @abstractmethod
    def report(self, records: Records) -> tuple[list[str], list[Path]]:
        """Write the study's own tables and figures; return its sections of the summary, as Markdown, and the files."""

    def explained(self, seed: int) -> dict[str, Encoder]:
        """Return the encoders that are explained in a run; the study's own encoder always judges."""
        return {"trained": self.encoder}

    @property
    def pairs(self) -> Sequence[tuple[int, int]]:
        """Sizes of corpus and foil that the study uses together."""
        return [(self.options.corpus, self.options.foil)]

    # --- what they share ----------------------------------------------------------------------------------------------

    @cached_property
    def grid(self) -> int:
        """Cells of a mask of RISE."""
        return grid_of(self.encoder, self.held_out.images[0], self.options.grid)

    def methods_of(self, seed: int) -> dict[str, Method]:
        """Return the paper's three methods, RISE by both estimators; ``seed`` is that of an explicand."""
        options = self.options
        return {
            "integrated_gradients": IntegratedGradients(options.steps),
            "gradient_shap": GradientShap(options.steps, seed=seed),
            "rise": Rise(options.samples, self.grid, estimator="paper", seed=seed),
            # With the published masks, so that both read one run.
            "rise_efficient": Rise(options.samples, self.grid, estimator="efficient", seed=seed, complements=False),
        }

    @property
    def seeds(self) -> list[int]:
        """Seeds of the runs: the paper's five, then others."""
        return [*RUN_SEEDS, *range(1000, 1000 + self.options.runs)][: self.options.runs]

    def draw(self, seed: int) -> Draw:
        """Draw the explicands, corpora and foils of a run."""
        return draw_run(
            self.train,
            self.held_out,
            classes=self.classes,
            explicands=self.options.explicands,
            corpus=max(corpus for corpus, _ in self.pairs),
            foil=max(foil for _, foil in self.pairs),
            seed=seed,
        )

    def unit(self, seed: int, index: int) -> str:
        """Return the name of the file of an explicand."""
        return f"{seed}-{index:04d}"

    def run(self, progress: bool | None = None) -> Records:
        """Judge the explicands that were not judged yet; return the records of all of them."""
        draws = {seed: self.draw(seed) for seed in self.seeds}
        units = [(seed, index) for seed, drawn in draws.items() for index in range(len(drawn.explicands))]
        with bar(len(units), f"{self.name} study of {self.encoder.name}", progress) as shown:
            current: Repetition | None = None
            for seed, index in units:
                if self.unit(seed, index) not in self.results:
                    if current is None or current.draw.seed != seed:
                        current = Repetition(self, draws[seed])
                    self.judge_explicand(current, index)
                shown.update()
        return self.records()

    def judge_explicand(self, repetition: Repetition, index: int) -> None:
        """Explain and judge an explicand of a run, and keep the result."""
        explicand, run = repetition.draw.explicands[index], repetition.draw.seed
        seed = int(stream(run, 2, index).integers(2**31))
        judged = judge(
            self.held_out.images[explicand.number],
            self.tasks(repetition, explicand),
            self.methods_of(seed),
            self.encoder,
            steps=self.options.curve_steps,
            seed=seed,
        )
        header = {
            "run": run,
            "explicand": explicand.number,
            "own": explicand.own,
            "other": explicand.other,
            "rows": judged.rows,
            "measures": list(MEASURES),
            "versions": versions(),
        }
        self.results.write(self.unit(run, index), {"insertion": judged.insertion, "deletion": judged.deletion}, header)

    def records(self) -> Records:
        """Return the records of the explicands that were judged so far."""
        units = [
            self.unit(seed, index) for seed in self.seeds for index in range(self.options.explicands * len(self.classes))
        ]
        return Records([held for unit in units if (held := self.results.get(unit)) is not None])

    def write(self, progress: bool | None = None) -> list[Path]:
        """Run what was not run yet and write all tables, figures and values; return the files."""
        return self.write_results(self.run(progress))

    def write_results(self, records: Records) -> list[Path]:
        """Write the study's tables and figures, a summary of them and every value as JSON; return the files."""
        if len(records) == 0:
            raise ValueError(f"{self.folder} has no results yet.")
        sections, written = self.report(records)
        runs = "1 run" if self.options.runs == 1 else f"{self.options.runs} runs"
        title = f"# {self.name.capitalize()} study of {self.encoder.name}\n\n{len(records)} explicands in {runs}.\n"
        every = {"options": self.results.options, "versions": versions(), "values": list(records)}
        return [
            *written,
            write_text(self.folder / "summary.md", "\n".join([title, *sections])),
            write_text(self.folder / "results.json", json.dumps(every) + "\n"),
        ]


class Repetition:
    """One run of a study: what was drawn, and the references made of it."""

    def __init__(self, study: CurveStudy, drawn: Draw) -> None:
        self.study = study
        self.draw = drawn
        self.encoders = study.explained(drawn.seed)
        self.libraries = {
            name: Library(encoder, study.train, study.folder)
            for name, encoder in {**self.encoders, "trained": study.encoder}.items()
        }
        wanted = np.unique(np.concatenate([*drawn.corpora.values(), *drawn.foils.values()]))
        for library in self.libraries.values():
            library.encode(wanted)
        self._references: dict[tuple[str, str, int, int], Reference] = {}

    def corpus(self, label: int, size: int | None = None, model: str = "trained") -> Reference:
        """Return the corpus of a class, or its first ``size`` images."""
        return self._reference(model, "corpus", label, self.draw.corpora[label][:size])

    def foil(self, label: int, size: int | None = None, model: str = "trained") -> Reference:
        """Return the foil of a class, or its first ``size`` images."""
        return self._reference(model, "foil", label, self.draw.foils[label][:size])

    def _reference(self, model: str, kind: str, label: int, numbers: np.ndarray) -> Reference:
        key = (model, kind, label, len(numbers))
        if key not in self._references:
            name = f"{kind} of {self.study.train.classes[label]}"
            self._references[key] = self.libraries[model].reference(numbers, name)
        return self._references[key]

    def measures(self, corpus: Reference, foil: Reference) -> list[Measure]:
        """Return the paper's two measures, of references by the trained encoder; the similarity is always the cosine."""
        head = self.study.encoder.head
        assert head is not None
        return [contrastive_corpus_similarity(corpus, foil), corpus_majority_probability(head, corpus)]

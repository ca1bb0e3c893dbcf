"""The paper's localisation figure: a picture, its label-free map, and each of two things against the other or many others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from cocoax.data.captions import caption, cifar100
from cocoax.encoders import Encoder
from cocoax.methods import Attribution, Rise
from cocoax.methods.run import RemovalMethod
from cocoax.methods.run_cache import cached_run
from cocoax.paper.studies.study import Options, Study
from cocoax.questions import Question, Side
from cocoax.results import Result
from cocoax.show import Gallery, Photo, Table, View


class LocalisationStudy(Study):
    """Pictures with two things P and Q in each: a picture, the name of P, and the name of Q."""

    name = "localisation"
    paper: ClassVar[Mapping[str, Any]] = {"samples": 20_000}

    def __init__(
        self, encoder: Encoder, pictures: Sequence[tuple[Any, str, str]], folder: str | Path, options: Options
    ) -> None:
        super().__init__(encoder, folder, options)
        self.pictures = pictures

    def write(self, progress: bool | None = None) -> list[Path]:
        """Write the figure as page, numbers and picture; return the files."""
        method = Rise(self.options.samples, self.options.grid or 7, estimator=self.options.estimator)
        files: list[Path] = []
        for number, (image, p, q) in enumerate(self.pictures, 1):
            answer = explain_localisation(self.encoder, image, p, q, method, progress=progress)
            files += answer.save_all(self.folder / f"{number} {p}, {q}")
        return files


@dataclass(frozen=True, eq=False)
class Localisation(Result):
    """Answers about one picture with two things P and Q in it.

    ``many`` and ``single`` are the two rows of the figure: P and Q, each against many other things or against the other.
    """

    p: str
    q: str
    label_free: Attribution
    many: tuple[Attribution, Attribution]
    single: tuple[Attribution, Attribution]
    file: ClassVar[str] = "localisation"

    @property
    def summary(self) -> str:
        """The question."""
        return f"{self.p} and {self.q}, each against many other things and against the other"

    def views(self) -> list[View]:
        """Return two rows, many foils above and a single one below: picture, label-free, P, and Q."""
        tiles: list[View | None] = []
        picture = self.label_free.picture
        for title, maps in (("many foils", self.many), ("a single foil", self.single)):
            tiles.append(None if picture is None else Photo(picture.numpy(), title=title))
            tiles += [replace(self.label_free.view(), title="label-free"), *(each.view() for each in maps)]
        return [Gallery(tuple(tiles), columns=4, colour_bars=True, inches=3.3)]

    def table(self) -> Table:
        """Return the score of each question."""
        return Table(
            ("question", "score"), tuple((each.name, each.score) for each in (self.label_free, *self.many, *self.single))
        )


def explain_localisation(
    encoder: Encoder,
    image: Any,
    p: str,
    q: str,
    method: RemovalMethod | None = None,
    *,
    progress: bool | None = None,
) -> Localisation:
    """Ask where P and Q are: label-free, against the other classes of CIFAR-100, and against each other; all from one run.

    Args:
        encoder: an image-and-text encoder.
        image: a picture with both things in it.
        p, q: names of the two things.
        method: Rise by default; the paper takes 20 000 masks of a 7 x 7 grid.
        progress: show a progress bar (``None``: when it takes long).

    """

    def side(name: str) -> Side:
        return Side([caption(name)], name=name)

    def others(name: str) -> Side:
        names = cifar100(without=[name])
        return Side([caption(other) for other in names], name=f"{len(names)} other things")

    questions = [
        Question(),
        Question(side(p), others(p)),
        Question(side(q), others(q)),
        Question(side(p), side(q)),
        Question(side(q), side(p)),
    ]
    targets = [question.target(encoder) for question in questions]
    run = cached_run(encoder, image, method or Rise(grid=7), targets, progress=progress)
    own, p_many, q_many, p_single, q_single = run.explain(targets)
    return Localisation(p, q, own, (p_many, q_many), (p_single, q_single))

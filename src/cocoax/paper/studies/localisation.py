"""The paper's localisation figure: a picture, its label-free map, and each of two things against the other or many others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cocoax.data.captions import PHOTO_CAPTION, caption, cifar100
from cocoax.encoders import Encoder
from cocoax.methods import Attribution, Rise
from cocoax.methods.removal import RemovalMethod
from cocoax.methods.run_cache import cached_run
from cocoax.paper.studies.study import Options, Study
from cocoax.paper.studies.tables import save_figure
from cocoax.plots import overlay
from cocoax.questions import Question, Side

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        """Write the figure; return its files."""
        method = Rise(self.options.samples, self.options.grid or 7, estimator=self.options.estimator)
        answers = [
            explain_localisation(self.encoder, image, p, q, method, progress=progress) for image, p, q in self.pictures
        ]
        return save_figure(plot_localisation(answers), self.folder / "localisation", dpi=110)


@dataclass(frozen=True, eq=False)
class Localisation:
    """Answers about one picture with two things P and Q in it.

    ``many`` and ``single`` are the two rows of the figure: P and Q, each against many other things or against the other.
    """

    p: str
    q: str
    label_free: Attribution
    many: tuple[Attribution, Attribution]
    single: tuple[Attribution, Attribution]


def explain_localisation(
    encoder: Encoder,
    image: Any,
    p: str,
    q: str,
    method: RemovalMethod | None = None,
    *,
    template: str = PHOTO_CAPTION,
    many: Sequence[str] | None = None,
    progress: bool | None = None,
) -> Localisation:
    """Ask where P and Q are: label-free, against many other things, and against each other; all from one run.

    Args:
        encoder: an image-and-text encoder.
        image: a picture with both things in it.
        p, q: names of the two things.
        method: Rise by default; the paper takes 20 000 masks of a 7 x 7 grid.
        template: makes a caption of a name.
        many: names of the many-foil row, P or Q left out; the classes of CIFAR-100 by default.
        progress: show a progress bar (``None``: when it takes long).

    """

    def others(name: str) -> Side:
        names = cifar100(without=[name]) if many is None else [other for other in many if other != name]
        if not names:
            raise ValueError(f"Nothing is left to compare {name!r} with; pass more names in many=.")
        return Side([caption(other, template) for other in names], name=f"{len(names)} other things")

    def side(name: str) -> Side:
        return Side([caption(name, template)], name=name)

    questions = [
        Question(),
        Question(side(p), others(p)),
        Question(side(q), others(q)),
        Question(side(p), side(q)),
        Question(side(q), side(p)),
    ]
    targets = [question.target(encoder) for question in questions]
    run = cached_run(encoder, image, method or Rise(), targets, progress=progress)
    own, p_many, q_many, p_single, q_single = run.explain(targets)
    return Localisation(p, q, own, (p_many, q_many), (p_single, q_single))


def plot_localisation(answers: Sequence[Localisation]) -> Figure:
    """Draw two rows for each picture, many foils above and a single one below: picture, label-free, P, and Q."""
    import matplotlib.pyplot as plt

    if not answers:
        raise ValueError("There are 0 pictures to draw; pass at least one.")
    size = (3.3 * 4, 3.2 * 2 * len(answers))
    figure, grid = plt.subplots(2 * len(answers), 4, figsize=size, layout="constrained", squeeze=False)
    for number, answer in enumerate(answers):
        for kind, maps in enumerate((answer.many, answer.single)):
            axes = grid[2 * number + kind]
            if answer.label_free.picture is not None:
                axes[0].imshow(answer.label_free.picture.numpy())
            axes[0].set_title(("many foils", "a single foil")[kind], fontsize=11)
            axes[0].set_axis_off()
            overlay(answer.label_free, axes[1], title="label-free")
            for ax, attribution in zip(axes[2:], maps, strict=True):
                overlay(attribution, ax)
    return figure

"""The questions, answers and report of the demo; one run of the encoder per photo."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from torch import Tensor

from cocoax.data import COLLAGE, collage, photo
from cocoax.encoders import Encoder, load
from cocoax.methods import Attribution, Rise
from cocoax.plots import panel
from cocoax.report import Section, write_report
from cocoax.store import write_figure
from cocoax.targets import Target, contrastive_corpus_similarity, representation_similarity

CAPTIONS = {"cat": "a cat", "coffee": "a cup of coffee", "rocket": "a rocket", "motorbike": "a motorbike"}
QUADRANTS = ("top left", "top right", "bottom left", "bottom right")


@dataclass(frozen=True)
class QuadrantAnswer:
    """The answer to a question about the collage, the quadrant that should be hottest and the one that is."""

    attribution: Attribution
    expected: str
    hottest: str


def collage_questions(encoder: Encoder) -> list[tuple[Target, int]]:
    """Return targets, each photo of the collage against the other three, in words and then as pictures, with quadrants."""
    words = {name: encoder.text.reference([CAPTIONS[name]], progress=False) for name in COLLAGE}
    pictures = {name: encoder.reference([photo(name)], name=f"the {name} photo", progress=False) for name in COLLAGE}
    questions = []
    for references, foil_name in ((words, "the other captions"), (pictures, "the other photos")):
        for quadrant, name in enumerate(COLLAGE):
            first, *rest = (references[other] for other in COLLAGE if other != name)
            foil = first.merge(*rest, name=foil_name)
            questions.append((contrastive_corpus_similarity(references[name], foil), quadrant))
    return questions


def quadrant_means(values: Tensor) -> list[float]:
    """Return the mean value of each quadrant of a map, row by row."""
    height, width = (side // 2 for side in values.shape)
    quadrants = (values[:height, :width], values[:height, width:], values[height:, :width], values[height:, width:])
    return [float(quadrant.mean()) for quadrant in quadrants]


def answer_collage(encoder: Encoder, samples: int, seed: int, progress: bool | None = None) -> list[QuadrantAnswer]:
    """Answer all questions about the collage, from one run."""
    questions = collage_questions(encoder)
    run = Rise(samples=samples, seed=seed).run(encoder, collage(), progress=progress)
    answers = []
    for attribution, (_, quadrant) in zip(run.explain([target for target, _ in questions]), questions, strict=True):
        means = quadrant_means(attribution.values)
        answers.append(QuadrantAnswer(attribution, QUADRANTS[quadrant], QUADRANTS[means.index(max(means))]))
    return answers


def explain_astronaut(encoder: Encoder, samples: int, seed: int, progress: bool | None = None) -> list[Attribution]:
    """Answer all questions about the astronaut photo, from one run."""
    woman, rocket, helmet = (encoder.text.reference([text], progress=False) for text in ("a woman", "a rocket", "a helmet"))
    others = encoder.text.reference(list(CAPTIONS.values()), name="the captions of the collage", progress=False)
    targets = [
        representation_similarity().named("itself (label-free)"),
        contrastive_corpus_similarity(woman, others),
        contrastive_corpus_similarity(rocket, woman),
        contrastive_corpus_similarity(helmet, woman),
    ]
    run = Rise(samples=samples, seed=seed).run(encoder, photo("astronaut"), progress=progress)
    attributions: list[Attribution] = run.explain(targets)
    return attributions


def run_demo(
    folder: Path, samples: int = 1000, seed: int = 0, progress: bool | None = None, device: str | None = None
) -> tuple[list[QuadrantAnswer], list[Path]]:
    """Answer everything, write two pictures and a report; return the answers about the collage and the files."""
    folder.mkdir(parents=True, exist_ok=True)  # now rather than after all the work
    encoder = load("starter", device=device)
    answers = answer_collage(encoder, samples, seed, progress)
    astronaut = explain_astronaut(encoder, samples, seed, progress)
    collage_panel = panel([answer.attribution for answer in answers], columns=5)
    astronaut_panel = panel(astronaut, columns=5)
    files = [folder / "collage.png", folder / "astronaut.png", folder / "report.html"]
    write_figure(files[0], collage_panel, dpi=110)
    write_figure(files[1], astronaut_panel, dpi=110)
    how = (
        f"{samples} masked copies were encoded once; every question below was answered from them. Red raises the similarity "
        "that the title asks about, blue lowers it, white makes no difference; numbers are on the colour bars. A score says "
        "how similar the whole picture is, and may be negative where the heat is still in the right place."
    )
    known = " The encoder knows ImageNet's classes: rockets and helmets are among them, women are not, and it shows."
    rows = [[a.attribution.name, f"{a.attribution.score:+.3f}", a.expected, a.hottest] for a in answers]
    sections = [
        Section("Four photos in one", how, collage_panel, ("question", "score", "where it is", "hottest quadrant"), rows),
        Section("An astronaut", how + known, astronaut_panel),
    ]
    write_report(files[2], "Cocoax demo: what makes this picture similar to that?", sections)
    for figure in (collage_panel, astronaut_panel):
        plt.close(figure)
    return answers, files

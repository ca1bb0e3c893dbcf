"""Prototypes: how many held-out pictures are more similar to the corpus of their own class than to that of any other."""

from __future__ import annotations

from pathlib import Path

import torch

from cocoax.paper.studies.study import RUN_SEEDS, LabelledStudy, Library, draw_of
from cocoax.progress import bar
from cocoax.seeding import stream
from cocoax.store import write_text
from cocoax.targets import corpus_similarity, score_all


class PrototypeStudy(LabelledStudy):
    """Draws a corpus and some held-out pictures of each class, as the first run of other studies does."""

    name = "prototypes"
    about = "how many pictures are most similar to the corpus of their own class"

    def write(self, progress: bool | None = None) -> list[Path]:
        """Write the table; return its file."""
        labels = list(self.options.classes or range(len(self.train.classes)))
        library = Library(self.encoder, self.train, self.folder)
        targets, numbers = [], {}
        for label in labels:
            random = stream(RUN_SEEDS[0], 0, label)
            numbers[label] = draw_of(self.held_out, label, self.options.explicands, random, "explicands")
            own = draw_of(self.train, label, self.options.corpus, random, "corpus images")
            targets.append(corpus_similarity(library.reference(own, self.train.classes[label])))
        lines = ["| class | most similar to its own corpus |", "|---|---|"]
        with bar(len(labels), f"{self.name} of {self.encoder.name}", progress) as shown:
            for place, label in enumerate(labels):
                images = [self.held_out.images[number] for number in numbers[label]]
                nearest = score_all(targets, self.encoder.represent(images, progress=False)).argmax(1)
                right = int(torch.sum(nearest == place))
                lines.append(f"| {self.train.classes[label]} | {right} of {len(images)} |")
                shown.update()
        return [write_text(self.folder / "prototypes.md", "\n".join([*lines, ""]))]

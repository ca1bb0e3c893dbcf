from pathlib import Path

import numpy as np
import torch
from prototypes import PrototypeStudy
from torch import Tensor, nn

import cocoax
from cocoax.data.labelled import LabelledImages
from cocoax.paper.studies.study import Options
from cocoax.seeding import stream


class Colours(nn.Module):
    """The mean colour of a picture; counts the pictures it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = 0

    def forward(self, images: Tensor) -> Tensor:
        self.inputs += len(images)
        return images.mean((2, 3))


def noise(seed: int) -> LabelledImages:
    random = np.random.default_rng(seed)
    return LabelledImages(random.integers(0, 256, (30, 8, 8, 3)).astype(np.uint8), np.repeat([0, 1, 2], 10), ["a", "b", "c"])


def test_write__a_value_by_hand(tmp_path: Path) -> None:
    encoder, train, held_out = cocoax.Encoder(Colours(), name="colours"), noise(0), noise(1)
    (path,) = PrototypeStudy(encoder, train, held_out, tmp_path, Options(explicands=4, corpus=5)).write(progress=False)
    corpora, explicands = [], []
    for label in range(3):
        draws = stream(123, 0, label)
        explicands.append(held_out.images[draws.permutation(np.flatnonzero(held_out.labels == label))[:4]])
        corpora.append(train.images[draws.permutation(np.flatnonzero(train.labels == label))[:5]])
    right = 0
    for image in explicands[1]:
        (z,) = encoder.represent([image])
        similarity = [torch.cosine_similarity(z[None], encoder.represent(list(corpus))).mean() for corpus in corpora]
        right += int(torch.stack(similarity).argmax() == 1)
    assert f"| b | {right} of 4 |" in path.read_text()


def test_write__again_encodes_no_corpus(tmp_path: Path) -> None:
    encoder = cocoax.Encoder(Colours(), name="colours")
    study = PrototypeStudy(encoder, noise(0), noise(1), tmp_path, Options(explicands=2, corpus=5, classes=(2, 0)))
    first = study.write(progress=False)[0].read_text()
    before = encoder.module.inputs
    assert study.write(progress=False)[0].read_text() == first
    assert encoder.module.inputs - before == 2 * 2 + 1  # the explicands alone, and the probe by which the encoder is known

"""Exact games: the scores of all subsets of an input's features, worked out once and kept in the cache folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.bench.subjects import PHOTOS
from cocoax.data import photo
from cocoax.encoders import Encoder, TabularEncoder, load
from cocoax.masking import MaskedEncoder, grid_segments
from cocoax.methods.kernel_shap import Coalitions
from cocoax.store import Layout, cache_folder, digest, load_or_quarantine, read_safetensors, write_safetensors
from cocoax.targets import Target, contrastive_corpus_similarity, corpus_similarity, score_all

_EVERY = 60.0  # seconds of work that an interruption loses at most
_LAYOUT = Layout("exact game", {"scores": "subsets targets"}, {"name": str})


@dataclass(frozen=True, eq=False)
class Exact:
    """Exact ``values [m, k]``, and the ``sizes [k]`` that squared errors are measured by."""

    values: Tensor
    sizes: Tensor


@dataclass(frozen=True, eq=False)
class ExactGame:
    """The scores ``[2^m, k]`` of all subsets of m features; subset number s keeps feature i where bit i of s is set."""

    name: str
    scores: Tensor

    @property
    def players(self) -> int:
        """The number of features."""
        return len(self.scores).bit_length() - 1

    def play(self, bits: Tensor) -> Tensor:
        """Return the scores ``[n, k]`` of rows of kept features ``[n, m]``."""
        return self.scores[bits.long() @ (2 ** torch.arange(self.players))]

    @property
    def anchors(self) -> Tensor:
        """The scores of the whole input and of nothing, ``[2, k]``."""
        return self.scores[[-1, 0]]

    @cached_property
    def shapley(self) -> Exact:
        """The Shapley values, by their definition."""
        everything = subsets(self.players)
        sizes = everything.sum(1)
        weights = torch.tensor([1 / (self.players * comb(self.players - 1, size)) for size in range(self.players)]).double()
        values = []
        for player in range(self.players):
            without = (everything[:, player] == 0).nonzero()[:, 0]
            gains = self.scores[without + 2**player] - self.scores[without]
            values.append(weights[sizes[without].long()] @ gains)
        found = torch.stack(values)
        return Exact(found, found.square().mean(0))

    @cached_property
    def rise(self) -> Exact:
        """The map of RISE: the mean score of all subsets with a feature. What counts is how far it is from the mean score."""
        found = subsets(self.players).double().T @ self.scores / (len(self.scores) / 2)
        return Exact(found, (found - self.scores.mean(0)).square().mean(0))


def subsets(players: int) -> Tensor:
    """Return all subsets as rows of bits, ``[2^m, m]``."""
    return ((torch.arange(2**players)[:, None] >> torch.arange(players)) & 1).to(torch.uint8)


def exact_games(quick: bool, say: Callable[[str], None] = print) -> Iterator[ExactGame]:
    """Return the games of ``--accuracy``; in full also those of 16 384 and of 65 536 subsets."""
    texts = load("minilm")
    corpora = [texts.reference([topic], progress=False) for topic in _TOPICS]
    for text in _TEXTS[: 2 if quick else 3]:
        yield exact_game(f"MiniLM, {len(text.split())} words", texts, text, corpora, say=say)
    yield wine_game(say=say)
    yield photo_game("cat", (3, 4), say=say)
    if not quick:
        yield photo_game("cat", 4, say=say)


def photo_game(name: str, grid: int | tuple[int, int] = 4, say: Callable[[str], None] = print) -> ExactGame:
    """Return the game of a photo in a grid of cells, with the other photos as references."""
    encoder = load("efficientnet-lite0")
    corpora = [encoder.reference([photo(other)], progress=False) for other in PHOTOS if other != name]
    rows, columns = (grid, grid) if isinstance(grid, int) else grid
    return exact_game(f"EfficientNet-Lite0, {rows} x {columns} cells", encoder, photo(name), corpora, grid, say)


def wine_game(row: int = 0, say: Callable[[str], None] = print) -> ExactGame:
    """Return the game of the 13 columns of a wine, with a small network that was taught to tell growers apart."""
    from sklearn.datasets import load_wine

    rows, growers = load_wine(return_X_y=True)
    return rows_game("network of 13 columns (wine)", rows, growers, row, say)


def rows_game(name: str, rows: Any, classes: Any, row: int, say: Callable[[str], None] = print) -> ExactGame:
    """Return the game of a row of a table, with a small network that was taught to tell classes apart."""
    from sklearn.neural_network import MLPClassifier

    rows = (rows - rows.mean(0)) / rows.std(0)
    taught = MLPClassifier((32, 16), activation="tanh", max_iter=2000, random_state=0).fit(rows, classes)
    layers: list[nn.Module] = []
    for weights, offsets in list(zip(taught.coefs_, taught.intercepts_, strict=True))[:-1]:
        layer: nn.Linear = nn.utils.skip_init(nn.Linear, *weights.shape)  # type: ignore[no-untyped-call]
        layer.weight.data, layer.bias.data = torch.from_numpy(weights.T).float(), torch.from_numpy(offsets).float()
        layers += [layer, nn.Tanh()]
    background = torch.from_numpy(rows).float()
    columns = [f"column {number}" for number in range(rows.shape[1])]
    encoder = TabularEncoder(nn.Sequential(*layers).eval(), columns=columns, background=background, name=name)
    others = [number for number in range(len(rows)) if number != row]
    # Four corpora: every other row of two classes.
    parts = [[i for i in others if classes[i] == own and i % 2 == half] for own in (0, 1) for half in (0, 1)]
    corpora = [encoder.reference(background[part], progress=False, cache=False) for part in parts]
    return exact_game(name, encoder, background[row], corpora, say=say)


def exact_game(
    name: str,
    encoder: Encoder,
    explicand: Any,
    corpora: Sequence[Any],
    grid: int | tuple[int, int] = 4,
    say: Callable[[str], None] = print,
) -> ExactGame:
    """Return the game of an input, from the cache folder if it is there; what an interruption leaves is gone on from.

    Each of four corpora makes two targets: rather than the others, and alone.
    """
    prepared = encoder.explicand(encoder.single(explicand))
    shape = tuple(prepared.shape)
    segments = torch.arange(shape[0]) if len(shape) == 1 else grid_segments(shape[0], shape[1], grid)
    targets = _targets(corpora)
    game = MaskedEncoder(encoder, prepared)
    key = digest(
        "exact game", encoder.fingerprint, prepared.tensor, segments, score_all(targets, game.anchors, game.anchors[0])
    )
    path = cache_folder() / "games" / f"{key}.safetensors"
    kept = load_or_quarantine(path, lambda file: read_safetensors(file, _LAYOUT)[0])
    scores = torch.zeros(0, len(targets), dtype=torch.float64) if kept is None else kept["scores"]
    players = int(segments.max()) + 1
    bits = subsets(players)
    due = time.monotonic() + _EVERY
    masks = Coalitions(segments, bits)
    if len(scores) < len(bits):
        say(f"{name}: encoding {len(bits) - len(scores)} subsets, once")
        for part in game.encode(masks, len(scores)):
            scores = torch.cat([scores, score_all(targets, part, game.anchors[0]).double()])
            if time.monotonic() > due or len(scores) == len(bits):
                write_safetensors(path, {"scores": scores}, _LAYOUT.kind, {"name": name})
                due = time.monotonic() + _EVERY
    return ExactGame(name, scores)


def _targets(corpora: Sequence[Any]) -> list[Target]:
    apart = []
    for number, corpus in enumerate(corpora):
        first, *rest = (other for index, other in enumerate(corpora) if index != number)
        apart.append(contrastive_corpus_similarity(corpus, first.merge(*rest)))
    return [*apart, *map(corpus_similarity, corpora)]


_TOPICS = ("the weather", "a film that is worth seeing", "repairing a bicycle", "cooking for guests")
_TEXTS = (
    "Heavy rain and strong winds are expected along the coast until Friday",
    "The actors were brilliant but the story drags badly in its final hour",
    "My brother tightened the loose chain before we rode into town for our dinner",
)

"""Games whose Shapley values are known: what an encoder makes of all subsets of an input's features, worked out once.

A game gives the scores of coalitions for eight targets, and representations of 32 dimensions at most (random projections of
the encoder's), from which our estimator learns its prior. :func:`reported_games` are those of the docs, error-per-call.md;
constants of estimators are chosen on :func:`tuning_games` alone.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from math import comb, factorial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.bench.subjects import PHOTOS
from cocoax.data import photo
from cocoax.encoders import Encoder, TabularEncoder, load
from cocoax.encoders.families.starter import EFFICIENTNET_PREPROCESS
from cocoax.inputs.features import picture_seen
from cocoax.inputs.segmentation import segment
from cocoax.masking import MaskedEncoder, grid_segments
from cocoax.methods.kernel_shap import Coalitions
from cocoax.seeding import stream
from cocoax.store import Layout, cache_folder, load_or_quarantine, read_safetensors, write_safetensors
from cocoax.targets import Target, contrastive_corpus_similarity, corpus_similarity, score_all

TARGETS = 8
WIDTH = 32  # dimensions of representations that are kept
TRUTH = 40_000  # coalitions by which the values of a game that is too large for a table are known
_EVERY = 60.0  # seconds of work that an interruption loses at most
_TABLE = Layout("exact game", {"scores": "subsets targets", "representations": "subsets width"}, {"name": str})
_PLAYED = Layout("played game", {"bits": "n players", "scores": "n targets", "representations": "n width"}, {"name": str})


@dataclass(frozen=True, eq=False)
class Exact:
    """Exact ``values [m, k]``, and the ``sizes [k]`` that squared errors are measured by."""

    values: Tensor
    sizes: Tensor


class Game(ABC):
    """A game of ``players`` features and several targets."""

    name: str
    players: int

    @abstractmethod
    def play(self, bits: Tensor) -> Tensor:
        """Return the scores ``[n, k]`` of rows of kept features ``[n, m]``."""

    @abstractmethod
    def represent(self, bits: Tensor) -> Tensor:
        """Return representations ``[n, d]`` of rows of kept features."""

    @property
    @abstractmethod
    def shapley(self) -> Exact:
        """The Shapley values."""

    @property
    def ends(self) -> Tensor:
        """The coalitions of everybody and of nobody, ``[2, m]``."""
        return torch.stack([torch.ones(self.players), torch.zeros(self.players)]).to(torch.uint8)

    @property
    def anchors(self) -> Tensor:
        """The scores of the whole input and of nothing, ``[2, k]``."""
        return self.play(self.ends)


@dataclass(frozen=True, eq=False)
class ExactGame(Game):
    """The scores ``[2^m, k]`` of all subsets of m features; subset number s keeps feature i where bit i of s is set."""

    name: str
    scores: Tensor
    representations: Tensor | None = None

    @property
    def players(self) -> int:  # type: ignore[override]
        """The number of features."""
        return len(self.scores).bit_length() - 1

    def play(self, bits: Tensor) -> Tensor:
        """Return the scores ``[n, k]`` of rows of kept features ``[n, m]``."""
        return self.scores[self._numbers(bits)]

    def represent(self, bits: Tensor) -> Tensor:
        """Return representations of subsets; scores stand for them where there are none."""
        return (self.scores if self.representations is None else self.representations)[self._numbers(bits)]

    def _numbers(self, bits: Tensor) -> Tensor:
        return bits.long() @ (2 ** torch.arange(self.players))

    @cached_property
    def shapley(self) -> Exact:
        """The Shapley values, by their definition."""
        everything = subsets(self.players)
        sizes = everything.sum(1)
        weights = torch.tensor(
            [1 / (self.players * comb(self.players - 1, size)) for size in range(self.players)], dtype=torch.float64
        )
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


@dataclass(frozen=True, eq=False)
class TreeGame(Game):
    """Sums of regression trees of a row, whose columns outside a coalition are those of one background row.

    A leaf is reached by the coalitions that hold all columns of ``needed`` and none of ``refused``, so each leaf is a game
    whose Shapley values are known.

    Attributes:
        name: of the game.
        needed, refused: columns of each leaf, ``[leaves, m]``.
        outputs: what a leaf adds to each target, ``[leaves, k]``.
        constant: what is there without trees, ``[k]``.

    """

    name: str
    needed: Tensor
    refused: Tensor
    outputs: Tensor
    constant: Tensor

    @property
    def players(self) -> int:  # type: ignore[override]
        """The number of columns."""
        return self.needed.shape[1]

    def play(self, bits: Tensor) -> Tensor:
        """Return the sums of the leaves that are reached."""
        kept = bits.double()
        missed = (1 - kept) @ self.needed.T + kept @ self.refused.T
        return (missed == 0).double() @ self.outputs + self.constant

    def represent(self, bits: Tensor) -> Tensor:
        """Return the outputs of the model, which are its targets."""
        return self.play(bits)

    @cached_property
    def shapley(self) -> Exact:
        """The Shapley values of the sum of the leaves."""
        values = torch.zeros(self.players, self.outputs.shape[1], dtype=torch.float64)
        for needed, refused, output in zip(self.needed, self.refused, self.outputs, strict=True):
            p, q = int(needed.sum()), int(refused.sum())
            if p:
                values += needed[:, None] * output * (factorial(p - 1) * factorial(q) / factorial(p + q))
            if q:
                values -= refused[:, None] * output * (factorial(p) * factorial(q - 1) / factorial(p + q))
        return Exact(values, values.square().mean(0))


class PlayedGame(Game):
    """A game that is too large for a table: coalitions are encoded when they are asked for, once.

    Its values are those of our regression on ``TRUTH`` coalitions more than anybody may ask for.
    """

    def __init__(self, name: str, encoder: Encoder, explicand: Any, corpora: Sequence[Any], folder: Path) -> None:
        self.name, self._targets = name, _targets(corpora)
        self._masked = MaskedEncoder(encoder, encoder.explicand(encoder.single(explicand)))
        self.players = self._masked.explicand.shape[0]
        self._path = folder / f"{_file_name(name)}.safetensors"
        kept = load_or_quarantine(self._path, lambda file: read_safetensors(file, _PLAYED)[0])
        self._parts = [] if kept is None else [(kept["bits"], kept["scores"], kept["representations"])]
        self._known = {} if kept is None else {row.tobytes(): number for number, row in enumerate(kept["bits"].numpy())}
        self._saved = time.monotonic()

    def play(self, bits: Tensor) -> Tensor:
        """Return the scores of coalitions, those that are new from the encoder."""
        return self._look_up(bits)[1]

    def represent(self, bits: Tensor) -> Tensor:
        """Return the projected representations of coalitions."""
        return self._look_up(bits)[2]

    def _look_up(self, bits: Tensor) -> tuple[Tensor, ...]:
        rows = bits.to(torch.uint8)
        keys = [row.tobytes() for row in rows.numpy()]
        new = {key: row for key, row in zip(keys, rows, strict=True) if key not in self._known}
        if new:
            self._encode(torch.stack(list(new.values())))
        numbers = torch.tensor([self._known[key] for key in keys])
        if len(self._parts) > 1:
            self._parts = [tuple(torch.cat(part) for part in zip(*self._parts, strict=True))]  # type: ignore[list-item]
        return tuple(part[numbers] for part in self._parts[0])

    def _encode(self, bits: Tensor) -> None:
        masks, done = Coalitions(torch.arange(self.players), bits), 0
        for encoded in self._masked.encode(masks, 0):
            rows = bits[done : done + len(encoded)]
            done += len(rows)
            scores = score_all(self._targets, encoded, self._masked.anchors[0]).double()
            for row in rows.numpy():
                self._known[row.tobytes()] = len(self._known)
            self._parts.append((rows, scores, projected(encoded)))
            if time.monotonic() > self._saved + _EVERY:
                self.save()

    def save(self) -> None:
        """Write what has been played."""
        names = ("bits", "scores", "representations")
        tensors = dict(zip(names, map(torch.cat, zip(*self._parts, strict=True)), strict=True))
        write_safetensors(self._path, tensors, _PLAYED.kind, {"name": self.name})
        self._saved = time.monotonic()

    @cached_property
    def shapley(self) -> Exact:
        """The values of a regression on many coalitions."""
        from cocoax.methods import KernelShap

        masks = KernelShap(samples=TRUTH, seed=10**6).draw((self.players,))
        values = KernelShap().estimate(masks, self.play(masks.bits), self.anchors).values.T
        self.save()
        return Exact(values, values.square().mean(0))


def subsets(players: int) -> Tensor:
    """Return all subsets as rows of bits, ``[2^m, m]``."""
    return ((torch.arange(2**players)[:, None] >> torch.arange(players)) & 1).to(torch.uint8)


def projected(representations: Tensor) -> Tensor:
    """Return random projections of representations ``[n, d]`` to ``WIDTH`` dimensions at most, in single precision."""
    width = representations.shape[1]
    if width <= WIDTH:
        return representations.float()
    matrix = torch.from_numpy(stream(1, width).standard_normal((width, WIDTH))).float() / WIDTH**0.5
    return representations.float() @ matrix


def games_folder() -> Path:
    """Return the folder that tables are kept in."""
    return cache_folder() / "games"


def quick_games(say: Callable[[str], None] = print) -> Iterator[Game]:
    """Return the reported games of 8192 subsets at most."""
    yield from (text_game(text, say=say) for text in _TEXTS[:2])
    yield wine_game(say=say)
    yield photo_game("cat", (3, 4), say=say)


def reported_games(say: Callable[[str], None] = print) -> Iterator[Game]:
    """Return the games of docs/evidence/error-per-call.md."""
    yield from (text_game(text, say=say) for text in _TEXTS)
    yield wine_game(say=say)
    yield tree_game()
    yield late_interaction_game(_PASSAGE, _QUESTIONS, say)
    yield photo_game("cat", (3, 4), say=say)
    yield from (segments_game(name, 12, say) for name in ("cat", "coffee", "astronaut"))
    encoder, corpora = _texts()
    yield PlayedGame(f"MiniLM, {len(_LONG.split())} words", encoder, _LONG, corpora, games_folder())
    yield photo_game("cat", 4, say=say)


def tuning_games(say: Callable[[str], None] = print) -> Iterator[Game]:
    """Return the games that constants are chosen on; none of them is reported."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

    yield from (text_game(text, f"tuning text {number}", say=say) for number, text in enumerate(_TUNING_TEXTS))
    cells, classes = load_breast_cancer(return_X_y=True)
    yield rows_game("tuning cells, network of 14 columns", cells[:, :14], classes, 7, say)
    patients, progression = load_diabetes(return_X_y=True)
    yield rows_game("tuning patients, network of 10 columns", patients, (progression > 140).astype(int), 5, say)
    digits, figures = load_digits(return_X_y=True)
    chosen = digits.std(0).argsort()[::-1][:12]
    yield rows_game("tuning digits, network of 12 columns", digits[:, chosen], figures % 2, 9, say)
    yield tree_game("tuning patients, trees of 10 columns", patients, progression, 11, depth=4)
    yield tree_game("tuning digits, trees of 25 columns", digits[:, digits.std(0).argsort()[::-1][:25]], figures, 20)
    yield photo_game("rocket", (3, 4), "tuning rocket", say)
    yield segments_game("motorbike", 12, say, "tuning motorbike")
    yield segments_game("rocket", 13, say, "tuning rocket")
    yield late_interaction_game(_TUNING_TEXTS[3], _TUNING_TEXTS[:3], say, "tuning late interaction")


@lru_cache(1)
def _texts() -> tuple[Encoder, list[Any]]:
    encoder = load("minilm")
    return encoder, [encoder.reference([topic], progress=False) for topic in _TOPICS]


def text_game(text: str, name: str = "MiniLM", say: Callable[[str], None] = print) -> ExactGame:
    """Return the game of the words of a text."""
    return exact_game(f"{name}, {len(text.split())} words", *_given(text), say=say)


def _given(text: str) -> tuple[Encoder, str, list[Any]]:
    encoder, corpora = _texts()
    return encoder, text, corpora


@lru_cache
def _photos(side: int = 224) -> Encoder:
    encoder = load("efficientnet-lite0")
    small = replace(EFFICIENTNET_PREPROCESS, resize=side * 8 // 7, crop=side)
    return encoder if side == 224 else Encoder(encoder.module, small, name=f"efficientnet-lite0 at {side}")


def photo_game(
    name: str, grid: int | tuple[int, int] = 4, title: str = "EfficientNet-Lite0", say: Callable[[str], None] = print
) -> ExactGame:
    """Return the game of a photo in a grid of cells, with the other photos as references."""
    rows, columns = (grid, grid) if isinstance(grid, int) else grid
    return exact_game(f"{title}, {rows} x {columns} cells", _photos(), photo(name), _others(name, _photos()), grid, say=say)


def segments_game(name: str, count: int, say: Callable[[str], None] = print, title: str = "EfficientNet-Lite0") -> ExactGame:
    """Return the game of a photo's segments by colour, at 112 x 112 pixels."""
    encoder = _photos(112)
    tree = segment(picture_seen(encoder.explicand(photo(name))))
    segments = tree.labels(tree.parts(count))
    title = f"{title}, {count} segments of {name}"
    return exact_game(title, encoder, photo(name), _others(name, encoder), segments, say=say)


def _others(name: str, encoder: Encoder) -> list[Any]:
    return [encoder.reference([photo(other)], progress=False) for other in PHOTOS if other != name]


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


def tree_game(
    name: str = "trees of 30 columns (cells)", rows: Any = None, answers: Any = None, row: int = 3, depth: int = 3
) -> TreeGame:
    """Return the game of a row of a table, with boosted trees; targets are models of eight samples of the rows.

    By default rows are those of the breast cancer data set of scikit-learn.
    """
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import GradientBoostingRegressor

    if rows is None:
        rows, answers = load_breast_cancer(return_X_y=True)
    rows, answers = np.asarray(rows, np.float32), np.asarray(answers, float)
    background, explicand = rows.mean(0), rows[row]
    needed, refused, outputs, constants = [], [], [], []
    for target in range(TARGETS):
        chosen = stream(target, len(rows)).choice(len(rows), len(rows))
        model = GradientBoostingRegressor(max_depth=depth, n_estimators=100, random_state=0).fit(
            rows[chosen], answers[chosen]
        )
        constants.append(float(model.init_.constant_[0, 0]))
        for estimator in model.estimators_[:, 0]:
            for present, absent, value in _leaves(estimator.tree_, explicand, background):
                needed.append([column in present for column in range(rows.shape[1])])
                refused.append([column in absent for column in range(rows.shape[1])])
                outputs.append([model.learning_rate * value * (other == target) for other in range(TARGETS)])
    leaves = (torch.tensor(part, dtype=torch.float64) for part in (needed, refused, outputs))
    return TreeGame(name, *leaves, torch.tensor(constants, dtype=torch.float64))


def _leaves(tree: Any, explicand: np.ndarray, background: np.ndarray) -> Iterator[tuple[set[int], set[int], float]]:
    """Return the columns that each leaf needs from the explicand, those that it needs from the background, its value."""
    stack: list[tuple[int, frozenset[int], frozenset[int]]] = [(0, frozenset(), frozenset())]
    while stack:
        node, present, absent = stack.pop()
        if tree.children_left[node] < 0:
            yield set(present), set(absent), float(tree.value[node, 0, 0])
            continue
        column = int(tree.feature[node])
        ours, theirs = (row[column] <= tree.threshold[node] for row in (explicand, background))
        for child, left in ((tree.children_left[node], True), (tree.children_right[node], False)):
            if ours == left and theirs == left:
                stack.append((child, present, absent))
            elif ours == left and column not in absent:
                stack.append((child, present | {column}, absent))
            elif theirs == left and column not in present:
                stack.append((child, present, absent | {column}))


def late_interaction_game(
    passage: str, queries: Sequence[str], say: Callable[[str], None] = print, name: str = "reranker by late interaction"
) -> ExactGame:
    """Return the game of a passage's words that a reranker by late interaction scores (Khattab & Zaharia 2020).

    A query's score is the mean over its words of the greatest cosine to a word of the passage, 0 if none is there.
    """
    encoder, _ = _texts()
    words = passage.split()
    own = encoder.represent(words, progress=False).double()
    table = subsets(len(words))
    parts = []
    for query in queries:
        similar = (encoder.represent(query.split(), progress=False).double() @ own.T).clamp(min=0)  # [query words, words]
        best = (table[:, None, :] * similar).amax(2) if len(words) <= 12 else _greatest(table, similar)
        parts.append(best)
    scores = torch.stack([part.mean(1) for part in parts], dim=1)
    halves = torch.stack([part[:, ::2].mean(1) for part in parts], dim=1)
    scores = torch.cat([scores, halves], dim=1)[:, :TARGETS]
    scores = torch.cat([scores] * -(-TARGETS // scores.shape[1]), dim=1)[:, :TARGETS]
    return ExactGame(f"{name}, {len(words)} words", scores, projected(torch.cat(parts, dim=1)))


def _greatest(table: Tensor, similar: Tensor) -> Tensor:
    return torch.stack([(table * row).amax(1) for row in similar], dim=1)


def exact_game(
    name: str,
    encoder: Encoder,
    explicand: Any,
    corpora: Sequence[Any],
    parts: int | tuple[int, int] | Tensor = 4,
    say: Callable[[str], None] = print,
) -> ExactGame:
    """Return the game of an input, from the cache folder if it is there; what an interruption leaves is gone on from.

    Each of four corpora makes two targets: rather than the others, and alone. ``parts`` of a picture are cells of a grid, or
    segments.
    """
    prepared = encoder.explicand(encoder.single(explicand))
    shape = tuple(prepared.shape)
    if isinstance(parts, Tensor):
        segments = parts
    else:
        segments = torch.arange(shape[0]) if len(shape) == 1 else grid_segments(shape[0], shape[1], parts)
    targets = _targets(corpora)
    path = games_folder() / f"{_file_name(name)}.safetensors"
    kept = load_or_quarantine(path, lambda file: read_safetensors(file, _TABLE)[0])
    players = int(segments.max()) + 1
    bits = subsets(players)
    scores = torch.zeros(0, len(targets), dtype=torch.float64) if kept is None else kept["scores"]
    representations = [] if kept is None else [kept["representations"]]
    if len(scores) < len(bits):
        due = time.monotonic() + _EVERY
        masked = MaskedEncoder(encoder, prepared)
        say(f"{name}: encoding {len(bits) - len(scores)} subsets, once")
        for part in masked.encode(Coalitions(segments, bits), len(scores)):
            scores = torch.cat([scores, score_all(targets, part, masked.anchors[0]).double()])
            representations.append(projected(part))
            if time.monotonic() > due or len(scores) == len(bits):
                tensors = {"scores": scores, "representations": torch.cat(representations)}
                write_safetensors(path, tensors, _TABLE.kind, {"name": name})
                due = time.monotonic() + _EVERY
    return ExactGame(name, scores, torch.cat(representations))


def _file_name(name: str) -> str:
    return "-".join("".join(sign if sign.isalnum() else " " for sign in name.lower()).split())


def _targets(corpora: Sequence[Any]) -> list[Target]:
    apart = []
    for number, corpus in enumerate(corpora):
        first, *rest = (other for index, other in enumerate(corpora) if index != number)
        apart.append(contrastive_corpus_similarity(corpus, first.merge(*rest)))
    return list(chain(apart, map(corpus_similarity, corpora)))


_TOPICS = ("the weather", "a film that is worth seeing", "repairing a bicycle", "cooking for guests")
_TEXTS = (
    "Heavy rain and strong winds are expected along the coast until Friday",
    "The actors were brilliant but the story drags badly in its final hour",
    "My brother tightened the loose chain before we rode into town for our dinner",
)
_LONG = (
    "After the storm had passed we cooked soup for our neighbours and watched an old film about cyclists crossing mountains"
)
_PASSAGE = "Store ripe tomatoes at room temperature because cold air ruins their flavour within two days"
_QUESTIONS = (
    "how should I keep tomatoes fresh",
    "does the fridge spoil the taste of vegetables",
    "best room temperature for sleeping",
    "why do tomatoes lose flavour when cold",
)
_TUNING_TEXTS = (
    "Our guide warned that thick fog would cover the pass",
    "She roasted the peppers slowly and served them with warm bread",
    "The director cut the best scene because nobody in the audience laughed",
    "A bent wheel and a rusty brake kept me off the road all week",
)

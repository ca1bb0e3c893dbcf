"""Shapley values from some of all coalitions: those of the likeliest game that agrees with the scores.

Let z be the signs of a coalition S of m players, +1 for those in it. A game is a sum of products of signs, and the Shapley
value of the product over a set A is 2/|A| for its members if |A| is odd, and 0 if it is even. So values depend on the odd
part of a game alone, g(S) = (y(S) - y(rest)) / 2, which a coalition and its complement tell, whatever the even part is.

Of the first order nothing is assumed. A priori the products of each higher odd order are independent, of equal variance,
``ORDERS[j]`` for all of order j together; what is left has a variance of about ``REST`` at each coalition. That is a Gaussian
process, whose covariance depends on the distance of two coalitions alone. The expected values given the scores are linear in
the scores: one matrix for all targets. They add up to the difference of the ends, and are exact for a score that is a sum
over players, and where all coalitions are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb

import numpy as np
import torch
from torch import Tensor

# Chosen on other inputs than docs/performance.md reports.
ORDERS = {3: 1.0, 5: 0.2, 7: 0.04}
REST = 0.01
_ENDS = 1e-9  # in place of the rest for the whole against nothing, which is kept to
_DENSE = 2048  # pairs of which the covariance is inverted as it is
_COUNTLESS = 10**300
_ROWS = 512  # pairs whose covariance with others is made at a time


@dataclass(frozen=True, eq=False)
class Precision:
    """The inverse of the covariance of odd parts, ``[n, n]``, as a product with columns.

    The first pairs and the ends are near: all that is assumed of them is kept. The others are far: what the near ones make of
    them, and something of their own that is independent of all else.

    Attributes:
        signs: of all odd parts, ``[n, m]``, the last of them the ends.
        inverse: of the covariance of the near ones.
        own: variances of what the far ones have of their own, ``[far]``.
        by_distance: the covariance of two coalitions by the number of players that they differ in, ``[m + 1]``.

    """

    signs: Tensor
    inverse: Tensor
    own: Tensor
    by_distance: Tensor

    def times(self, columns: Tensor) -> Tensor:
        """Return the product with columns ``[n, k]``."""
        near, far = self.split(columns)
        known = self.inverse @ near
        beyond = (far - self.predict(known)) / self.own[:, None]
        back = torch.zeros_like(known)
        for rows, covariance in self._across():
            back += covariance.T @ beyond[rows]
        return join(known - self.inverse @ back, beyond)

    def predict(self, known: Tensor) -> Tensor:
        """Return what near ones make of the far, ``[far, k]``, given the inverse times the near ones."""
        return torch.cat([known[:0], *(covariance @ known for _, covariance in self._across())])

    def split(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows of the near and of the far."""
        first = len(self.inverse) - 1
        return torch.cat([columns[:first], columns[-1:]]), columns[first:-1]

    @cached_property
    def diagonal(self) -> Tensor:
        """The diagonal of the inverse, ``[n]``."""
        near = self.inverse.diagonal().clone()
        for rows, covariance in self._across():
            near += ((covariance @ self.inverse).square() / self.own[rows, None]).sum(0)
        return join(near, 1 / self.own)

    def spread(self, matrix: Tensor) -> Tensor:
        """Return the variance that each row of a matrix ``[m, n]`` has by all products together, far ones too: ``[m]``."""
        total = torch.zeros(len(matrix), dtype=torch.float64)
        few = max(1, _ROWS * _DENSE // len(self.signs))
        for start in range(0, len(self.signs), few):
            rows = slice(start, start + few)
            covariance = between(self.signs[rows], self.signs, self.by_distance)
            total += (matrix[:, rows] * (covariance @ matrix.T).T).sum(1)
        return total

    def _across(self) -> Iterator[tuple[slice, Tensor]]:
        """Return the covariance of some of the far with all near, at a time."""
        near, far = self.split(self.signs)
        for start in range(0, len(far), _ROWS):
            rows = slice(start, start + _ROWS)
            yield rows, between(far[rows], near, self.by_distance)


def join(near: Tensor, far: Tensor) -> Tensor:
    """Return the rows of near and far in their order: the ends, the last of the near, come last."""
    return torch.cat([near[:-1], far, near[-1:]])


def between(signs: Tensor, others: Tensor, by_distance: Tensor) -> Tensor:
    """Return the covariance of products of two lists of coalitions."""
    return by_distance[((signs.shape[1] - signs @ others.T) / 2).round().long()]


@dataclass(frozen=True, eq=False)
class OddGame:
    """What pairs of coalitions and their complements say about Shapley values.

    Odd parts ``[pairs + 1, k]`` are those of the pairs, and last that of the whole against nothing.

    Attributes:
        matrix: from odd parts to values ``[m, k]``: ``[m, pairs + 1]``.
        variance: of each value given the scores, for a game that is as large as assumed: ``[m]``.
        inverse: of the covariance of odd parts, ``[pairs + 1, pairs + 1]``.
        regression: the inverse times the signs, ``[pairs + 1, m]``.
        solution: the inverse of signs times that, ``[m, m]``.

    """

    matrix: Tensor
    variance: Tensor
    inverse: Precision
    regression: Tensor
    solution: Tensor

    def values(self, odd: Tensor) -> Tensor:
        """Return Shapley values ``[m, k]``."""
        return self.matrix @ odd

    def surprises(self, odd: Tensor) -> Tensor:
        """Return how far each pair is from what all others make of it, ``[pairs, k]``."""
        rest = self.inverse.times(odd) - self.regression @ (self.solution @ (self.regression.T @ odd))
        return (rest / self._precision[:, None])[:-1]

    @property
    def pulls(self) -> Tensor:
        """By how much a surprise counts for the error of each value, ``[pairs, m]``.

        The game as it was assumed knows how errors fall with the number of pairs, but not how large the game is. That is told
        by the surprises, of which each should have one over its precision for a variance: their mean square, where it is to
        be one, scales the variance of all values. All pairs count alike for that; their signs are those of what they do to a
        value. What one does to all values together is nothing, since their sum is known.
        """
        apart, precision = self.matrix[:, :-1].T, self._precision[:-1, None]
        few = 1 + 3 / len(apart)  # their squares are themselves uncertain
        signed = apart.sign() * (precision * self.variance / len(apart)).sqrt()
        pulls = signed - signed.mean(1, keepdim=True)
        # All in all as much as before.
        size = self.variance.sum() / (pulls.square() / precision).sum().clamp(min=torch.finfo(pulls.dtype).tiny)
        return few * size.sqrt() * pulls

    @property
    def _precision(self) -> Tensor:
        """One over the variance of each odd part given all others, ``[pairs + 1]``."""
        own = self.inverse.diagonal
        return (own - ((self.regression @ self.solution) * self.regression).sum(1)).clamp(min=1e-12)


def odd_game(bits: Tensor) -> OddGame:
    """Return what distinct coalitions ``[pairs, m]``, each with its complement, say about Shapley values.

    Of very many pairs the first are taken as above, and the others for what these make of them, with independent rests: as
    KernelSHAP has always been, a regression on single players, but of what higher orders do not explain.
    """
    pairs, players = bits.shape
    orders = tuple((order, share) for order, share in ORDERS.items() if order <= players)
    by_size = REST * torch.from_numpy(rest_by_size(players, pairs))
    bits = torch.cat([bits, torch.ones(1, players, dtype=bits.dtype)])
    kept, size = bits.double(), bits.sum(1).long()
    rest = by_size[torch.minimum(size, players - size)]
    rest[-1] = _ENDS
    signs = 2 * kept - 1
    inverse = _precision(signs, rest, _by_distance(players, orders))
    # The values of the covariance with one pair, as a game of its own: of products, and of what is left over.
    lacking = (players - size)[:, None] - (1 - bits.long())
    weights = _weights(players)
    own = 2 * (kept * weights[size - 1][:, None] - (1 - kept) * weights[size.clamp(max=players - 1)][:, None])
    own[-1] = 0
    assumed = signs * _effects(players, orders)[lacking] + own * rest[:, None]
    near = inverse.split(assumed)[0]
    far = inverse.predict(inverse.inverse @ near) + inverse.split(own)[1] * inverse.own[:, None]
    towards = join(near, far)
    regression = inverse.times(signs)
    solution = torch.linalg.pinv(signs.T @ regression, hermitian=True)
    missing = 2 * torch.eye(players, dtype=torch.float64) - towards.T @ regression
    matrix = inverse.times(towards).T + missing @ solution @ regression.T
    variance = torch.zeros(players, dtype=torch.float64)
    if pairs < 2 ** (players - 1) - 1:
        variance += sum(share / comb(players, order) * 4 / order**2 * comb(players - 1, order - 1) for order, share in orders)
        variance += sum(float(by_size[number]) * _squares(players, number) for number in range(1, players // 2 + 1))
        variance += inverse.spread(matrix) + matrix.square() @ rest - 2 * (matrix * assumed.T).sum(1)
    return OddGame(matrix, variance.clamp(min=0), inverse, regression, solution)


def _precision(signs: Tensor, rest: Tensor, by_distance: Tensor) -> Precision:
    """Return the inverse of the covariance of odd parts, of which ``rest`` is what is left over."""
    few = min(len(signs) - 1, _DENSE)
    near = torch.cat([signs[:few], signs[-1:]])
    inverse = torch.linalg.inv(between(near, near, by_distance) + torch.cat([rest[:few], rest[-1:]]).diag())
    own = rest[few:-1]
    if len(own):
        some = between(signs[few:-1][:: -(-len(own) // _ROWS)], near, by_distance)
        unknown = float(by_distance[0]) - float(((some @ inverse) * some).sum(1).mean())
        own = own * (1 + max(unknown, 0.0) / REST)
    return Precision(signs, inverse, own, by_distance)


def pairs_of_size(players: int) -> np.ndarray:
    """Return how many pairs there are of a coalition of size s, at most half of all, and its complement: ``[m/2 + 1]``.

    Beyond ``_COUNTLESS`` they are not counted: no run has a share of these that matters, and floats end soon after.
    """
    sizes = range(1, players // 2 + 1)
    return np.array([0.0, *(min(comb(players, size), _COUNTLESS) / (1 + (2 * size == players)) for size in sizes)])


def kernel_of_pair(players: int) -> np.ndarray:
    """Return the weight of the Shapley kernel for a pair, by size as in :func:`pairs_of_size`; all of them sum to one."""
    sizes = np.arange(1, players // 2 + 1)
    of_size = 1 / (sizes * (players - sizes) * (1 + (2 * sizes == players)))
    return np.concatenate([[0.0], of_size / of_size.sum() / pairs_of_size(players)[1:]])


def rest_by_size(players: int, pairs: int) -> np.ndarray:
    """Return the variance of what is left over, by size, relative to its mean over pairs that are drawn without putting back.

    What is left over counts less where nearly all pairs of a size are there, since each of them then stands for fewer: this
    makes the linear part that of the Shapley kernel, as in KernelSHAP.
    """
    from scipy.optimize import brentq  # half a second that every start would pay

    if players < 2:
        return np.zeros(1)
    number, weight = pairs_of_size(players), kernel_of_pair(players)
    chances = np.ones_like(weight)
    if pairs < number.sum():
        rate = brentq(lambda log: (number * -np.expm1(-np.exp(log) * weight)).sum() - pairs, -50, 100)
        chances = -np.expm1(-np.exp(rate) * weight)
    stands = np.divide(chances, weight, out=np.zeros_like(weight), where=weight > 0)
    relative: np.ndarray = stands * (number * chances).sum() / (number * chances * stands).sum()
    return relative


@lru_cache(maxsize=64)
def _by_distance(players: int, orders: tuple[tuple[int, float], ...]) -> Tensor:
    """Return the covariance of two coalitions by the number of players that they differ in, ``[m + 1]``."""
    return sum(
        (share / comb(players, order) * _krawtchouk(players, order) for order, share in orders),
        torch.zeros(players + 1, dtype=torch.float64),
    )


@lru_cache(maxsize=64)
def _effects(players: int, orders: tuple[tuple[int, float], ...]) -> Tensor:
    """Return the covariance of a player's value with a coalition that has it, by how many others it lacks: ``[m]``."""
    return sum(
        (2 / order * share / comb(players, order) * _krawtchouk(players - 1, order - 1) for order, share in orders),
        torch.zeros(players, dtype=torch.float64),
    )


def _krawtchouk(players: int, order: int) -> Tensor:
    """Return the sum of all products of ``order`` signs, by how many of them are negative: ``[players + 1]``."""
    sums = [
        float(sum((-1) ** odd * comb(minus, odd) * comb(players - minus, order - odd) for odd in range(order + 1)))
        for minus in range(players + 1)
    ]
    return torch.tensor(sums, dtype=torch.float64)


def _weights(players: int) -> Tensor:
    """Return the weight of a marginal contribution to a coalition of size s in a Shapley value, ``[m]``."""
    return torch.tensor([1 / (players * comb(players - 1, size)) for size in range(players)], dtype=torch.float64)


def _squares(players: int, size: int) -> float:
    """Return the sum of squares of what odd parts of coalitions of a size, or of its complement's, weigh in a value."""
    # As many terms as there are coalitions, of which each has one over that number for its weight.
    both = 1 / comb(players - 1, size - 1) + 1 / comb(players - 1, size)
    return 4 * both / players**2 / (1 + (2 * size == players))

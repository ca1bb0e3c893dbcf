"""Shapley values from some of all coalitions: the posterior mean of a Gaussian process over games.

Let z be the signs of a coalition S of m players, +1 for its members. A game is a sum of products of signs, and the Shapley
value of the product over a set A is 2/|A| for its members if |A| is odd, and 0 if it is even. So values depend on the odd
part of a game alone, g(S) = (y(S) - y(rest)) / 2, which one coalition and its complement determine; OddSHAP (Fumagalli et
al. 2026) rests on the same fact.

The coefficients of single players have a flat prior. The coefficient of the product over a set A of 3, 5 or 7 players has the
prior variance s_|A| Π_{i in A} λ_i, with ``ORDERS[j]`` as the sum over all sets of order j, so that products of relevant
players may be larger than those of others; each pair has a residual of variance about ``RESIDUAL`` besides, and the pair of
the whole input and the baseline, the anchors, has one of its own size. The posterior mean is linear in the scores: one matrix
serves all targets. Values add up to the difference of the anchors' scores, and are exact for a game without products and
where all coalitions are known.

The relevances λ and the anchors' residual are chosen by leave-one-out error over the representations of the coalitions
(:func:`choose_prior`), which are the same for all targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np
import torch
from torch import Tensor

# Chosen on other inputs than docs/evidence/performance.md reports, as are the constants of choose_prior.
ORDERS = {3: 1.0, 5: 0.2, 7: 0.04}
RESIDUAL = 0.01
TIGHT = 1e-9  # the anchors' residual where values have to keep to them
_POWERS = (0.0, 0.5, 1.0)  # relevance is the squared value of a player, plus a floor, to one of these powers
_FLOOR = 0.1
_ANCHOR_RESIDUALS = (TIGHT, 0.1, 1.0, 10.0)
_COMPARED_PAIRS = 512  # pairs over which priors are compared
_DENSE = 2048  # pairs whose covariance is inverted without approximation
_COUNTLESS = 10**300
_ROWS = 512  # pairs whose covariance with others is computed at a time


@dataclass(frozen=True, eq=False)
class Prior:
    """Prior of a game's odd part.

    Attributes:
        relevance: λ, the factor by which a player's products may be larger, mean 1, ``[m]``.
        anchor_residual: the variance of the anchors' residual.

    """

    relevance: Tensor
    anchor_residual: float = TIGHT

    @classmethod
    def of_equals(cls, players: int, anchor_residual: float = TIGHT) -> Prior:
        """Return the prior in which all players are equally relevant."""
        return cls(torch.ones(players, dtype=torch.float64), anchor_residual)

    @cached_property
    def shares(self) -> dict[int, float]:
        """s_j by order j: the variance of one product of players whose relevance is 1."""
        sums = _elementary([float((self.relevance**power).sum()) for power in range(1, max(ORDERS) + 1)])
        return {order: share / float(sums[order]) for order, share in ORDERS.items() if order <= len(self.relevance)}

    def covariance(self, signs: Tensor, others: Tensor) -> Tensor:
        """Return the covariance of the products of two lists of coalitions, ``[n, k]``.

        It is Σ_j s_j e_j(λ z z'), with the elementary symmetric polynomials e_j from sums of powers (Newton's identities). In
        sums of even powers signs cancel out.
        """
        highest = max(self.shares, default=0)
        powers = [
            (signs * self.relevance**power) @ others.T if power % 2 else float((self.relevance**power).sum())
            for power in range(1, highest + 1)
        ]
        sums = _elementary(powers)
        total = torch.zeros(len(signs), len(others), dtype=torch.float64)
        for order, share in self.shares.items():
            total += share * sums[order]
        return total

    def value_covariance(self, signs: Tensor) -> Tensor:
        """Return the covariance of each player's value with the products of each coalition, ``[n, m]``.

        Of order j it is 2/j s_j λ_i z_i e_{j-1}(λ z without player i).
        """
        weighted = signs * self.relevance
        total = torch.zeros_like(weighted)
        highest = max(self.shares, default=1)
        sums = _elementary([(weighted**power).sum(1, keepdim=True) for power in range(1, highest)])
        without = torch.ones_like(weighted)  # e_0, and then e_j = e_j of all - λ_i z_i e_{j-1} without player i
        for order in range(1, highest + 1):
            if order in self.shares:
                total += 2 / order * self.shares[order] * weighted * without
            if order < highest:
                without = sums[order] - weighted * without
        return total

    @property
    def value_variance(self) -> Tensor:
        """The prior variance of each player's value that is due to products, ``[m]``."""
        powers = [float((self.relevance**power).sum()) for power in range(1, max(self.shares, default=1))]
        sums, without = _elementary(powers), torch.ones_like(self.relevance)
        total = torch.zeros_like(self.relevance)
        for order in range(1, max(self.shares, default=1) + 1):
            if order in self.shares:
                total += 4 / order**2 * self.shares[order] * self.relevance * without
            if order < max(self.shares):
                without = sums[order] - self.relevance * without
        return total


def _elementary(power_sums: list[float] | list[Tensor] | list[Tensor | float]) -> list[Tensor | float]:
    """Return the elementary symmetric polynomials e_0, e_1, ... of numbers, from the sums of their powers 1, 2, ..."""
    sums: list[Tensor | float] = [1.0]
    for order in range(1, len(power_sums) + 1):
        terms = ((-1) ** (power - 1) * sums[order - power] * power_sums[power - 1] for power in range(1, order + 1))
        sums.append(sum(terms, 0.0) / order)
    return sums


@dataclass(frozen=True, eq=False)
class Precision:
    """The inverse of the covariance of odd parts, ``[n, n]``, as a product with columns.

    The first pairs and the anchors are near: their covariance is inverted as it is. The others are far: they are predicted
    from the near ones, with residuals that are independent of everything else.

    Attributes:
        signs: of all odd parts, ``[n, m]``; the last row is that of the anchors.
        inverse: of the covariance of the near ones.
        residual: variances of the far ones' residuals, ``[far]``.
        prior: of the game.

    """

    signs: Tensor
    inverse: Tensor
    residual: Tensor
    prior: Prior

    def times(self, columns: Tensor) -> Tensor:
        """Return the product with columns ``[n, k]``."""
        near, far = self.split(columns)
        solved = self.inverse @ near
        scaled = (far - self.predict(solved)) / self.residual[:, None]
        back = torch.zeros_like(solved)
        for rows, covariance in self._far_blocks():
            back += covariance.T @ scaled[rows]
        return join(solved - self.inverse @ back, scaled)

    def predict(self, solved: Tensor) -> Tensor:
        """Return the prediction of the far ones, ``[far, k]``, from the inverse times the near ones."""
        return torch.cat([solved[:0], *(covariance @ solved for _, covariance in self._far_blocks())])

    def split(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows of the near and of the far."""
        first = len(self.inverse) - 1
        return torch.cat([columns[:first], columns[-1:]]), columns[first:-1]

    @cached_property
    def diagonal(self) -> Tensor:
        """The diagonal of the inverse, ``[n]``."""
        near = self.inverse.diagonal().clone()
        for rows, covariance in self._far_blocks():
            near += ((covariance @ self.inverse).square() / self.residual[rows, None]).sum(0)
        return join(near, 1 / self.residual)

    def product_variance(self, matrix: Tensor) -> Tensor:
        """Return the variance of each row of a matrix ``[m, n]`` times the products of all pairs, far ones too: ``[m]``."""
        total = torch.zeros(len(matrix), dtype=torch.float64)
        few = max(1, _ROWS * _DENSE // len(self.signs))
        for start in range(0, len(self.signs), few):
            rows = slice(start, start + few)
            covariance = self.prior.covariance(self.signs[rows], self.signs)
            total += (matrix[:, rows] * (covariance @ matrix.T).T).sum(1)
        return total

    def _far_blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Return the covariance of some of the far with all near, at a time."""
        near, far = self.split(self.signs)
        for start in range(0, len(far), _ROWS):
            rows = slice(start, start + _ROWS)
            yield rows, self.prior.covariance(far[rows], near)


def join(near: Tensor, far: Tensor) -> Tensor:
    """Return the rows of near and far in their order: the anchors, the last of the near, come last."""
    return torch.cat([near[:-1], far, near[-1:]])


@dataclass(frozen=True, eq=False)
class OddRegression:
    """The posterior of Shapley values given the odd parts of pairs of coalitions.

    Odd parts ``[pairs + 1, k]`` are those of the pairs, and last that of the anchors.

    Attributes:
        matrix: from odd parts to values ``[m, k]``: ``[m, pairs + 1]``.
        variance: posterior variance of each value for a game of the prior's size, ``[m]``.
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

    def loo_residuals(self, odd: Tensor) -> Tensor:
        """Return the difference of each pair to its prediction from all other pairs, ``[pairs, k]``."""
        rest = self.inverse.times(odd) - self.regression @ (self.solution @ (self.regression.T @ odd))
        return (rest / self._precision[:, None])[:-1]

    @property
    def error_weights(self) -> Tensor:
        """Factors that turn leave-one-out residuals into standard errors of values, ``[pairs, m]``.

        The posterior variance is known up to the size of the game. Its estimate is the mean square of the leave-one-out
        residuals times their precision, which is 1 for a game of the prior's size. All pairs have the same share of it, with
        the sign of their weight in the value, and what a pair adds to all values together is removed, since the sum of the
        values is known.
        """
        weights, precision = self.matrix[:, :-1].T, self._precision[:-1, None]
        inflation = 1 + 3 / len(weights)  # the mean square of few residuals is itself uncertain
        signed = weights.sign() * (precision * self.variance / len(weights)).sqrt()
        centred = signed - signed.mean(1, keepdim=True)
        # The sum of squared errors over all values stays that of the posterior.
        size = self.variance.sum() / (centred.square() / precision).sum().clamp(min=torch.finfo(centred.dtype).tiny)
        return inflation * size.sqrt() * centred

    @property
    def _precision(self) -> Tensor:
        """One over the variance of each odd part given all others, ``[pairs + 1]``."""
        own = self.inverse.diagonal
        return (own - ((self.regression @ self.solution) * self.regression).sum(1)).clamp(min=1e-12)


def odd_regression(bits: Tensor, prior: Prior | None = None) -> OddRegression:
    """Return the posterior of Shapley values for distinct coalitions ``[pairs, m]``, each with its complement.

    Of very many pairs the covariance of the first is kept as it is, and the others are predicted from them with independent
    residuals: KernelSHAP's regression on single players, of what higher orders do not explain.
    """
    pairs, players = bits.shape
    prior = prior or Prior.of_equals(players)
    signs, residual = _design(bits, prior)
    bits = torch.cat([bits, torch.ones(1, players, dtype=bits.dtype)])
    kept, size = bits.double(), bits.sum(1).long()
    inverse = _precision(signs, residual, prior)
    # The covariance of values with pairs: of products, and of residuals, whose weight is that of a marginal contribution.
    weights = _weights(players)
    own = 2 * (kept * weights[size - 1][:, None] - (1 - kept) * weights[size.clamp(max=players - 1)][:, None])
    towards = prior.value_covariance(signs) + own * residual[:, None]
    near = inverse.split(towards)[0]
    far = inverse.predict(inverse.inverse @ near) + inverse.split(own)[1] * inverse.residual[:, None]
    joined = join(near, far)
    regression = inverse.times(signs)
    solution = torch.linalg.pinv(signs.T @ regression, hermitian=True)
    missing = 2 * torch.eye(players, dtype=torch.float64) - joined.T @ regression
    matrix = inverse.times(joined).T + missing @ solution @ regression.T
    variance = torch.zeros(players, dtype=torch.float64)
    if pairs < 2 ** (players - 1) - 1:
        by_size = RESIDUAL * torch.from_numpy(residual_by_size(players, pairs))
        variance += prior.value_variance + prior.anchor_residual * 4 / players**2
        variance += sum(float(by_size[number]) * _squares(players, number) for number in range(1, players // 2 + 1))
        variance += inverse.product_variance(matrix) + matrix.square() @ residual - 2 * (matrix * towards.T).sum(1)
    return OddRegression(matrix, variance.clamp(min=0), inverse, regression, solution)


def choose_prior(bits: Tensor, odd: Tensor) -> Prior:
    """Return the prior whose leave-one-out error over odd parts ``[pairs + 1, d]`` of representations is the smallest.

    Compared are the powers that turn squared values into relevances, and residuals of the anchors, over the first pairs.
    """
    pairs, players = min(len(bits), _COMPARED_PAIRS), bits.shape[1]
    odd = torch.cat([odd[:pairs], odd[-1:]]).double()
    equal = Prior.of_equals(players)
    complete = pairs >= 2 ** (players - 1) - 1
    if complete or pairs < players or not bool(torch.isfinite(odd).all()) or not bool(odd.any()):
        return equal
    odd = odd / odd.abs().max()
    squares = odd_regression(bits[:pairs], Prior.of_equals(players, 1.0)).values(odd).square().mean(1)
    relevance = squares / squares.mean().clamp(min=torch.finfo(torch.float64).tiny) + _FLOOR
    best, least = equal, torch.inf
    for power in _POWERS:
        weights = relevance**power
        prior = Prior(weights / weights.mean())
        for residual, error in zip(_ANCHOR_RESIDUALS, _loo_errors(bits[:pairs], odd, prior), strict=True):
            if error < least:
                best, least = Prior(prior.relevance, residual), error
    return best


def _loo_errors(bits: Tensor, odd: Tensor, prior: Prior) -> Iterator[float]:
    """Return the mean squared leave-one-out residual of the pairs for each of ``_ANCHOR_RESIDUALS``.

    They differ in one element of the covariance, so one inverse serves all (Sherman and Morrison).
    """
    signs, residual = _design(bits, prior)
    inverse = torch.linalg.inv(prior.covariance(signs, signs) + residual.diag())
    anchor = inverse[:, -1]
    solved, regression = inverse @ odd, inverse @ signs
    for added in _ANCHOR_RESIDUALS:
        factor = added / (1 + added * anchor[-1])
        columns = regression - factor * torch.outer(anchor, anchor @ signs)
        weighted = columns @ torch.linalg.pinv(signs.T @ columns, hermitian=True)
        precision = inverse.diagonal() - factor * anchor.square() - (weighted * columns).sum(1)
        rest = solved - factor * torch.outer(anchor, anchor @ odd) - weighted @ (columns.T @ odd)
        yield float((rest / precision.clamp(min=1e-12)[:, None])[:-1].square().mean())


def _design(bits: Tensor, prior: Prior) -> tuple[Tensor, Tensor]:
    """Return the signs ``[pairs + 1, m]`` of pairs and anchors, and the variances of their residuals ``[pairs + 1]``."""
    pairs, players = bits.shape
    bits = torch.cat([bits, torch.ones(1, players, dtype=bits.dtype)])
    size = bits.sum(1).long()
    residual = RESIDUAL * torch.from_numpy(residual_by_size(players, pairs))[torch.minimum(size, players - size)]
    residual[-1] = prior.anchor_residual
    return 2 * bits.double() - 1, residual


def _precision(signs: Tensor, residual: Tensor, prior: Prior) -> Precision:
    """Return the inverse of the covariance of odd parts with these variances of residuals."""
    few = min(len(signs) - 1, _DENSE)
    near = torch.cat([signs[:few], signs[-1:]])
    inverse = torch.linalg.inv(prior.covariance(near, near) + torch.cat([residual[:few], residual[-1:]]).diag())
    own = residual[few:-1]
    if len(own):
        some = prior.covariance(signs[few:-1][:: -(-len(own) // _ROWS)], near)
        total = float(prior.covariance(signs[:1], signs[:1]))
        unexplained = total - float(((some @ inverse) * some).sum(1).mean())
        own = own * (1 + max(unexplained, 0.0) / RESIDUAL)
    return Precision(signs, inverse, own, prior)


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


def residual_by_size(players: int, pairs: int) -> np.ndarray:
    """Return the variance of residuals by size, relative to its mean over pairs that are drawn without replacement.

    A residual has less weight where nearly all pairs of a size are drawn, since each of them then stands for fewer: this
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


def _weights(players: int) -> Tensor:
    """Return the weight of a marginal contribution to a coalition of size s in a Shapley value, ``[m]``."""
    return torch.tensor([1 / (players * comb(players - 1, size)) for size in range(players)], dtype=torch.float64)


def _squares(players: int, size: int) -> float:
    """Return the sum of squares of what odd parts of coalitions of a size, or of its complement's, weigh in a value."""
    # As many terms as there are coalitions, of which each has one over that number for its weight.
    both = 1 / comb(players - 1, size - 1) + 1 / comb(players - 1, size)
    return 4 * both / players**2 / (1 + (2 * size == players))

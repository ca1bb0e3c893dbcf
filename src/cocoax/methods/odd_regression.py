"""Shapley values from some of all coalitions: the posterior mean of a Gaussian process over games.

Let z be the signs of a coalition S of m players, +1 for its members. A game is a sum of products of signs, and the Shapley
value of the product over a set A is 2/|A| for its members if |A| is odd, and 0 if it is even. So values depend on the odd
part of a game alone, g(S) = (y(S) - y(rest)) / 2, which one coalition and its complement determine; OddSHAP (Fumagalli et
al. 2026) rests on the same fact.

In the prior all coefficients are independent. Each player has a variance of its own, and so has each product of three of the
``MOST_IN_TRIPLES`` most relevant players; other products have the variance s_|A| Π_{i in A} λ_i, with relevances λ. Each pair
has a residual besides, and the pair of the whole input and the baseline, the anchors, has one of its own size; residuals are
part of the game, so that values add up to the difference of the anchors' scores and are exact where all coalitions are known.
The posterior mean is linear in the scores: one matrix serves all targets.

All variances are learned from the representations of the coalitions (:func:`learn_prior`), which are the same for all
targets, by the fixed point iteration of sparse Bayesian learning (MacKay 1992; Tipping 2001; Wipf & Rao 2007 for several
outputs).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb, exp, log, sqrt
from typing import Any

import torch
from torch import Tensor

# Constants are chosen on the tuning games of benchmarks/bench/games.py, none of which docs/evidence/performance.md reports.
MOST_IN_TRIPLES = 16  # players whose products of three have a variance each: 560 of them
_HIGHER = (5, 7)  # orders that have one variance for all products, times relevances
# Where learning begins: total variances relative to that of the players, and how far their logarithms may move.
_SINGLES, _TRIPLES, _HIGHER_TOTALS, _RESIDUAL, _ANCHORS = 1.0, 0.1, (0.02, 0.004), 0.001, 0.003
_TOTAL_SPREAD, _PLAYER_SPREAD, _RELEVANCE_SPREAD, _TRIPLE_SPREAD = 3.0, 1.0, 0.6, 0.5
_STEPS = ((128, 24), (256, 8))  # pairs that are learned from, and how many steps
_FIRST = 4  # steps before relevances are learned
_LAGGING = 4  # steps after which kernels of higher orders follow the relevances
_DAMPING, _SHARED_DAMPING, _TOTAL_DAMPING = 0.5, 0.3, 0.8  # parts of a step: of one variance, of a relevance, of a total
_MOST_OUTPUTS = 8.0  # independent outputs that representations count for at most
_LEAST_RESIDUAL = 1e-9  # relative to the variance of a game, so that covariances can be inverted
_DENSE = 2048  # pairs whose covariance is inverted without approximation
_ROWS = 512  # pairs whose covariance with others is computed at a time


@dataclass(frozen=True, eq=False)
class Prior:
    """Prior of a game's odd part.

    Attributes:
        singles: variance of each player's coefficient, ``[m]``.
        players: those whose products of three have variances of their own, ``[k]``.
        triples: these variances, in the order of ``itertools.combinations``, ``[k (k-1) (k-2) / 6]``.
        relevance: λ, by which variances of other products go, ``[m]``.
        triple_scale: variance of another product of three players whose relevance is 1.
        higher: by order, the sum of the variances of all products.
        residual: variance of a pair's residual.
        anchor_residual: variance of the anchors' residual.

    """

    singles: Tensor
    players: Tensor
    triples: Tensor
    relevance: Tensor
    triple_scale: float
    higher: dict[int, float]
    residual: float
    anchor_residual: float

    @classmethod
    def of_equals(cls, players: int) -> Prior:
        """Return the prior that learning begins with, in which all players are equally relevant."""
        return _Learning(players, torch.arange(min(players, MOST_IN_TRIPLES))).prior()

    def residuals(self, count: int) -> Tensor:
        """Return the variances of the residuals of odd parts, ``[count]``; the last are the anchors."""
        residuals = torch.full((count,), self.residual, dtype=torch.float64)
        residuals[-1] = self.anchor_residual
        return residuals

    @cached_property
    def _triples_of(self) -> Tensor:
        return _triples(self.players)

    @cached_property
    def _kernels(self) -> list[tuple[Tensor, dict[int, float]]]:
        """The kernels of products without variances of their own: weights of players, and a factor for each order."""
        factors = {order: total / _sum_of_products(self.relevance, order) for order, total in self.higher.items()}
        if len(self.players) == len(self.relevance):
            return [(self.relevance, factors)]
        inside = torch.zeros_like(self.relevance)
        inside[self.players] = self.relevance[self.players]
        return [(self.relevance, {3: self.triple_scale, **factors}), (inside, {3: -self.triple_scale})]

    def covariance(self, signs: Tensor, others: Tensor) -> Tensor:
        """Return the covariance of the products of two lists of coalitions, ``[n, k]``."""
        products = _products(signs, self._triples_of)
        of_others = products if others is signs else _products(others, self._triples_of)
        total = (products * self.triples) @ of_others.T
        for weights, factors in self._kernels:
            kernels = _product_kernels(signs, others, weights, max(factors, default=0))
            for order, factor in factors.items():
                total.add_(kernels[order], alpha=factor)
        return total

    def value_covariance(self, signs: Tensor) -> Tensor:
        """Return the covariance of each player's value with the products of each coalition, ``[n, m]``.

        A product of j players adds 2/j of its coefficient to their values.
        """
        total = 2 / 3 * (_products(signs, self._triples_of) * self.triples) @ self._members
        for weights, factors in self._kernels:
            for order, factor in factors.items():
                total += 2 / order * factor * _products_with(signs * weights, order)
        return total

    @property
    def value_variance(self) -> Tensor:
        """The prior variance of each player's value that is due to products, ``[m]``."""
        total = 4 / 9 * self.triples @ self._members
        for weights, factors in self._kernels:
            for order, factor in factors.items():
                total += 4 / order**2 * factor * _products_with(weights[None], order)[0]
        return total

    @cached_property
    def _members(self) -> Tensor:
        """Whether each player is in each triple, ``[triples, m]``."""
        return _members(self._triples_of, len(self.singles))


def _triples(players: Tensor) -> Tensor:
    """Return all sets of three players, ``[triples, 3]``."""
    return torch.tensor(list(combinations(players.tolist(), 3)), dtype=torch.int64).view(-1, 3)


def _members(triples: Tensor, players: int) -> Tensor:
    return torch.zeros(len(triples), players, dtype=torch.float64).scatter_(1, triples, 1.0)


def _products(signs: Tensor, triples: Tensor) -> Tensor:
    """Return the products of three signs, ``[n, triples]``."""
    first, second, third = triples.T
    return signs[:, first] * signs[:, second] * signs[:, third]


def _product_kernels(signs: Tensor, others: Tensor, weights: Tensor, highest: int) -> list[Any]:
    """Return by order the sums over sets A of players of Π_{i in A} weight_i z_i z'_i, ``[n, k]``.

    They are elementary symmetric polynomials, by Newton's identities from sums of powers. In sums of even powers signs cancel
    out.
    """
    return _elementary(
        [
            (signs * weights**power) @ others.T if power % 2 else float((weights**power).sum())
            for power in range(1, highest + 1)
        ]
    )


def _sum_of_products(weights: Tensor, order: int) -> float:
    """Return the sum over all sets of an order of the product of their weights."""
    return max(float(_elementary([float((weights**power).sum()) for power in range(1, order + 1)])[order]), 1e-300)


def _products_with(weighted: Tensor, order: int) -> Tensor:
    """Return, for each player, the sum over all sets of an order with that player of the product of weights, ``[n, m]``."""
    sums = _elementary([(weighted**power).sum(1, keepdim=True) for power in range(1, order)])
    without = torch.ones_like(weighted)  # e_0, and then e_j = e_j of all - weight_i e_{j-1} without player i
    for smaller in range(1, order):
        without = sums[smaller] - weighted * without
    return weighted * without


def _elementary(power_sums: Sequence[Tensor | float]) -> list[Any]:
    """Return the elementary symmetric polynomials e_0, e_1, ... of numbers, from the sums of their powers 1, 2, ..."""
    sums: list[Any] = [1.0]
    signed = [number if power % 2 else -number for power, number in enumerate(power_sums, 1)]
    for order in range(1, len(signed) + 1):
        total = sums[order - 1] * signed[0]
        for power in range(2, order + 1):
            total += sums[order - power] * signed[power - 1]  # in place, as these are the largest tensors
        total /= order
        sums.append(total)
    return sums


class _Learning:
    """Variances of a prior while they are learned: logarithms, as sums of those of totals, of players and of triples."""

    def __init__(self, players: int, explicit: Tensor) -> None:
        self._explicit, self._triples = explicit, _triples(explicit)
        self._members = _members(self._triples, players)
        count = max(comb(players, 3), 1)
        self._start = {
            "singles": log(_SINGLES / players),
            "triples": log(_TRIPLES / count),
            "residual": log(_RESIDUAL),
            "anchors": log(_ANCHORS),
            **{str(order): log(total) for order, total in zip(_HIGHER, _HIGHER_TOTALS, strict=True) if order <= players},
        }
        self._totals = dict(self._start)
        self._single, self._relevance = (torch.zeros(players, dtype=torch.float64) for _ in range(2))
        self._triple = torch.zeros(len(self._triples), dtype=torch.float64)

    def prior(self) -> Prior:
        """Return the prior of these variances."""
        relevance = self._relevance.exp()
        totals = {name: exp(total) for name, total in self._totals.items()}
        return Prior(
            totals["singles"] * self._single.exp(),
            self._explicit,
            totals["triples"] * (self._members @ self._relevance + self._triple).exp(),
            relevance,
            totals["triples"],
            {order: totals[str(order)] for order in _HIGHER if str(order) in totals},
            max(totals["residual"], _LEAST_RESIDUAL),
            max(totals["anchors"], _LEAST_RESIDUAL),
        )

    def with_most_relevant(self) -> _Learning:
        """Return the same variances, with triples of the players whose variances are the greatest."""
        learning = _Learning(len(self._single), self._single.topk(MOST_IN_TRIPLES).indices.sort().values)
        learning._totals, learning._single, learning._relevance = self._totals, self._single, self._relevance
        return learning

    def learn(self, bits: Tensor, odd: Tensor, outputs: float, steps: range) -> None:
        """Take some steps on pairs ``[n, m]`` and their odd parts ``[n + 1, d]``."""
        signs = _signs(bits)
        products, higher = _products(signs, self._triples), dict[str, Tensor]()
        for number in steps:
            if number % _LAGGING == 0:
                prior = self.prior()
                kernels = _product_kernels(signs, signs, prior.relevance, max(prior.higher, default=0))
                higher = {str(order): kernels[order] / _sum_of_products(prior.relevance, order) for order in prior.higher}
            self._step(signs, products, higher, odd, outputs, number >= _FIRST)

    def _step(
        self,
        signs: Tensor,
        products: Tensor,
        higher: dict[str, Tensor],
        odd: Tensor,
        outputs: float,
        relevances: bool,
    ) -> None:
        """Move all variances towards those under which odd parts ``[n, d]`` are likeliest.

        The derivative of the log likelihood by the logarithm of a variance v of a component with covariance v φφᵀ is half of
        v mean_d (φᵀK⁻¹y)² - v φᵀK⁻¹φ for each independent output: explained less expected.
        """
        prior = self.prior()
        residual = prior.residuals(len(signs))
        kernels = {name: exp(self._totals[name]) * kernel for name, kernel in higher.items()}
        covariance = (signs * prior.singles) @ signs.T + (products * prior.triples) @ products.T + residual.diag()
        for kernel in kernels.values():
            covariance += kernel
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(covariance))
        weights = inverse @ odd / odd.shape[1] ** 0.5
        together = weights @ weights.T

        def explained_and_expected(columns: Tensor, variances: Tensor) -> tuple[Tensor, Tensor]:
            return (
                variances * (columns.T @ weights).square().sum(1),
                variances * ((inverse @ columns) * columns).sum(0),
            )

        singles = explained_and_expected(signs, prior.singles)
        triples = explained_and_expected(products, prior.triples)
        on_diagonal = residual * weights.square().sum(1), residual * inverse.diagonal()
        parts = {
            "singles": singles,
            "triples": triples,
            "residual": (on_diagonal[0][:-1], on_diagonal[1][:-1]),
            "anchors": (on_diagonal[0][-1:], on_diagonal[1][-1:]),
            **{name: (together * kernel, inverse * kernel) for name, kernel in kernels.items()},
        }
        half = outputs / 2
        for name, (explained, expected) in parts.items():
            away = torch.tensor(self._totals[name] - self._start[name])
            change = _change(half * explained.sum(), half * expected.sum(), away, _TOTAL_SPREAD)
            self._totals[name] += _TOTAL_DAMPING * float(change)
        self._single += _DAMPING * _change(half * singles[0], half * singles[1], self._single, _PLAYER_SPREAD)
        expected_relevance = self._single - self._single.mean()
        if not relevances:
            self._relevance = expected_relevance.clone()
            return
        explained, expected = (half * self._members.T @ part for part in triples)
        away = self._relevance - expected_relevance
        self._relevance += _SHARED_DAMPING * _change(explained, expected, away, _RELEVANCE_SPREAD)
        self._triple += _DAMPING * _change(half * triples[0], half * triples[1], self._triple, _TRIPLE_SPREAD)


def _change(explained: Tensor, expected: Tensor, away: Tensor, spread: float) -> Tensor:
    """Return a step of Fisher scoring for the logarithms of variances with a normal prior of this spread."""
    return ((explained - expected - away / spread**2) / (expected + 1 / spread**2)).clamp(-1.5, 1.5)


def learn_prior(bits: Tensor, odd: Tensor) -> Prior:
    """Return the prior under which odd parts ``[pairs + 1, d]`` of representations are likely, the anchors' among them."""
    pairs, players = bits.shape
    odd = odd.double()
    scale = odd.square().mean().sqrt()
    if pairs >= 2 ** (players - 1) - 1 or players < 2 or not bool(torch.isfinite(scale)) or not bool(scale > 0):
        return Prior.of_equals(players)
    odd = odd / scale
    spectrum = torch.linalg.svdvals(odd).square()
    outputs = min(float(spectrum.sum().square() / spectrum.square().sum()), _MOST_OUTPUTS)
    learning, done = _Learning(players, torch.arange(players)[:MOST_IN_TRIPLES]), 0
    for count, steps in _STEPS:
        some = bits[:count], torch.cat([odd[: min(count, pairs)], odd[-1:]])
        if players > MOST_IN_TRIPLES and not done:
            learning.learn(*some, outputs, range(_FIRST))
            learning = learning.with_most_relevant()
        learning.learn(*some, outputs, range(done, done + steps))
        done += steps
    return learning.prior()


@dataclass(frozen=True, eq=False)
class _Precision:
    """The inverse of the covariance of odd parts, ``[n, n]``, as a product with columns.

    The first pairs and the anchors are near: their covariance is inverted as it is. The others are far: they are predicted
    from the near ones, with residuals that are independent of everything else.

    Attributes:
        signs: of all odd parts, ``[n, m]``; the last row is that of the anchors.
        inverse: of the covariance of the near ones.
        residual: variances of the far ones' residuals, ``[far]``.
        prior: of the game.
        products: the covariance of all products, where all odd parts are near.

    """

    signs: Tensor
    inverse: Tensor
    residual: Tensor
    prior: Prior
    products: Tensor | None

    def times(self, columns: Tensor) -> Tensor:
        """Return the product with columns ``[n, k]``."""
        near, far = self.split(columns)
        solved = self.inverse @ near
        scaled = (far - self.predict(solved)) / self.residual[:, None]
        back = torch.zeros_like(solved)
        for rows, covariance in self._far_blocks():
            back += covariance.T @ scaled[rows]
        return _join(solved - self.inverse @ back, scaled)

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
        return _join(near, 1 / self.residual)

    def product_variance(self, matrix: Tensor) -> Tensor:
        """Return the variance of each row of a matrix ``[m, n]`` times the products of all pairs, far ones too: ``[m]``."""
        if self.products is not None:
            return ((matrix @ self.products) * matrix).sum(1)
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


def _join(near: Tensor, far: Tensor) -> Tensor:
    """Return the rows of near and far in their order: the anchors, the last of the near, come last."""
    return torch.cat([near[:-1], far, near[-1:]])


@dataclass(frozen=True, eq=False)
class OddRegression:
    """The posterior of Shapley values given the odd parts of pairs of coalitions.

    Odd parts ``[pairs + 1, k]`` are those of the pairs, and last that of the anchors.

    Attributes:
        matrix: from odd parts to values ``[m, k]``: ``[m, pairs + 1]``.
        variance: posterior variance of each value for a game of the prior's size, ``[m]``.
        inverse: of the covariance of odd parts that single players leave over, ``[pairs + 1, pairs + 1]``; none where all
            coalitions are known.
        regression: that inverse times the signs, ``[pairs + 1, m]``.
        solution: posterior covariance of single players given the odd parts, ``[m, m]``.

    """

    matrix: Tensor
    variance: Tensor
    inverse: _Precision | None
    regression: Tensor
    solution: Tensor

    def values(self, odd: Tensor) -> Tensor:
        """Return Shapley values ``[m, k]``."""
        return self.matrix @ odd

    def loo_residuals(self, odd: Tensor) -> Tensor:
        """Return the difference of each pair to its prediction from all other pairs, ``[pairs, k]``."""
        if self.inverse is None:
            return torch.zeros_like(odd[:-1])
        rest = self.inverse.times(odd) - self.regression @ (self.solution @ (self.regression.T @ odd))
        return (rest / self._precision[:, None])[:-1]

    @cached_property
    def _precision(self) -> Tensor:
        """One over the variance of each odd part given all others, ``[pairs + 1]``."""
        assert self.inverse is not None
        of_players = ((self.regression @ self.solution) * self.regression).sum(1)
        return (self.inverse.diagonal - of_players).clamp(min=1e-12)

    @cached_property
    def error_weights(self) -> Tensor:
        """Factors that turn leave-one-out residuals into standard errors of values, ``[pairs, m]``.

        The posterior variance is known up to the size of the game. Its estimate is the mean square of the leave-one-out
        residuals times their precision, which is 1 for a game of the prior's size. All pairs have the same share of it, with
        the sign of their weight in the value, and what a pair adds to all values together is removed, since the sum of the
        values is known.
        """
        weights = self.matrix[:, :-1].T
        if self.inverse is None:
            return torch.zeros_like(weights)
        precision = self._precision[:-1, None]
        inflation = 1 + 1.2 / sqrt(len(weights))  # few residuals are uncertain, and the prior is fitted to them
        signed = weights.sign() * (precision * self.variance / len(weights)).sqrt()
        centred = signed - signed.mean(1, keepdim=True)
        # The sum of squared errors over all values stays that of the posterior.
        size = self.variance.sum() / (centred.square() / precision).sum().clamp(min=torch.finfo(centred.dtype).tiny)
        return inflation * size.sqrt() * centred


def odd_regression(bits: Tensor, prior: Prior | None = None) -> OddRegression:
    """Return the posterior of Shapley values for distinct coalitions ``[pairs, m]``, each with its complement.

    Of very many pairs the covariance of the first is kept as it is, and the others are predicted from them with independent
    residuals.
    """
    pairs, players = bits.shape
    prior = prior or Prior.of_equals(players)
    signs = _signs(bits)
    kept = (signs + 1) / 2
    size = kept.sum(1).long()
    # What each coalition weighs in a value by definition: as a marginal contribution of its members and of the others.
    weights = _weights(players)
    own = 2 * (kept * weights[size - 1][:, None] - (1 - kept) * weights[size.clamp(max=players - 1)][:, None])
    if pairs >= 2 ** (players - 1) - 1:
        none = torch.zeros(players, players, dtype=torch.float64)
        return OddRegression(own.T, none[0], None, own, none)
    residual = prior.residuals(len(signs))
    inverse = _precision(signs, residual, prior)
    towards = prior.value_covariance(signs) + own * residual[:, None]
    near = inverse.split(towards)[0]
    far = inverse.predict(inverse.inverse @ near) + inverse.split(own)[1] * inverse.residual[:, None]
    joined = _join(near, far)
    regression = inverse.times(signs)
    solution = torch.linalg.inv(signs.T @ regression + (1 / prior.singles).diag())
    missing = 2 * torch.eye(players, dtype=torch.float64) - joined.T @ regression
    matrix = inverse.times(joined).T + missing @ solution @ regression.T
    variance = prior.value_variance + prior.anchor_residual * 4 / players**2
    variance += prior.residual * sum(_squares(players, size) for size in range(1, players // 2 + 1))
    variance += inverse.product_variance(matrix) + matrix.square() @ residual - 2 * (matrix * towards.T).sum(1)
    variance += (2 * torch.eye(players, dtype=torch.float64) - matrix @ signs).square() @ prior.singles
    return OddRegression(matrix, variance.clamp(min=0), inverse, regression, solution)


def most_telling(bits: Tensor, count: int) -> list[int]:
    """Return which pairs of ``bits [pairs, m]`` to know first, one after the other.

    Each is the one that lowers the sum of the posterior variances of all values the most, given the anchors and those before
    it, in the prior of equals. There the covariance of two odd parts depends on how many players they agree about.
    """
    pairs, players = bits.shape
    prior = Prior.of_equals(players)
    factors = {
        order: total / comb(players, order)
        for order, total in {1: _SINGLES, 3: _TRIPLES, **prior.higher}.items()
        if order <= players
    }
    agreeing = torch.arange(-players, players + 1, dtype=torch.float64)
    sums = _elementary([agreeing.clone() if power % 2 else float(players) for power in range(1, max(factors) + 1)])
    covariance = torch.stack([factor * sums[order] for order, factor in factors.items()]).sum(0)
    signs = _signs(bits)  # the anchors are the last row, and known first
    towards = sum(2 / order * factor * _products_with(signs, order) for order, factor in factors.items())
    assert isinstance(towards, Tensor)
    variance = covariance[-1] + prior.residuals(pairs + 1)
    known = torch.zeros(count + 1, pairs + 1, dtype=torch.float64)  # of a Cholesky decomposition
    chosen = [pairs]
    for step in range(count + 1):
        newest = chosen[-1]
        root = variance[newest].sqrt()
        left = covariance[(signs @ signs[newest]).long() + players] - known[:step, newest] @ known[:step]
        known[step] = left / root
        towards = towards - torch.outer(known[step], towards[newest] / root)
        variance = variance - known[step].square()
        gain = towards.square().sum(1) / variance
        gain[chosen] = -torch.inf
        chosen.append(int((gain >= (1 - 1e-6) * gain.max()).nonzero()[0]))  # the first of equals, whatever the rounding
    return chosen[1 : count + 1]


def _signs(bits: Tensor) -> Tensor:
    """Return the signs of pairs and of the anchors, ``[pairs + 1, m]``."""
    return torch.cat([2 * bits.double() - 1, torch.ones(1, bits.shape[1], dtype=torch.float64)])


def _precision(signs: Tensor, residual: Tensor, prior: Prior) -> _Precision:
    """Return the inverse of the covariance of odd parts with these variances of residuals."""
    few = min(len(signs) - 1, _DENSE)
    near = torch.cat([signs[:few], signs[-1:]])
    products = prior.covariance(near, near)
    covariance = products + torch.cat([residual[:few], residual[-1:]]).diag()
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(covariance))
    own = residual[few:-1]
    if len(own):
        some = prior.covariance(signs[few:-1][:: -(-len(own) // _ROWS)], near)
        total = float(products[0, 0])
        unexplained = total - float(((some @ inverse) * some).sum(1).mean())
        own = own * (1 + max(unexplained, 0.0) / prior.residual)
    return _Precision(signs, inverse, own, prior, None if len(own) else products)


def _weights(players: int) -> Tensor:
    """Return the weight of a marginal contribution to a coalition of size s in a Shapley value, ``[m]``."""
    return torch.tensor([1 / (players * comb(players - 1, size)) for size in range(players)], dtype=torch.float64)


def _squares(players: int, size: int) -> float:
    """Return the sum of squares of what odd parts of coalitions of a size, or of its complement's, weigh in a value."""
    # As many terms as there are coalitions, of which each has one over that number for its weight.
    both = 1 / comb(players - 1, size - 1) + 1 / comb(players - 1, size)
    return 4 * both / players**2 / (1 + (2 * size == players))

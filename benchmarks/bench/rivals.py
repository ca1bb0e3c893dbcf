"""Estimators of Shapley values of other packages, run as a process in an environment that has them: ``python rivals.py``.

Neither Cocoax nor torch is imported. A job comes in as a line of JSON and ends in one; in between, the process asks for the
scores of coalitions, so that the other side encodes them (:mod:`benchmarks.bench.rival_process`).

    in   {"estimator": name, "players": m, "targets": k, "calls": n, "seed": s}
    out  {"play": rows}, then rows * m bytes;   in   rows * k floats
    out  {"values": [[...] * k] * m, "seconds": ..., "shared": ...}, or {"error": ...}

Each target is estimated with the same seed and all calls; ``shared`` says whether all of them asked for the same coalitions,
so that the calls answer all targets.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, BinaryIO

import numpy as np

# Scores [n] of rows of kept features [n, m].
Play = Callable[[np.ndarray], np.ndarray]
_MOST_OF_THREE = 20  # features
# From players, calls, a seed and a game to values [m].
Estimate = Callable[[int, int, int, Play], np.ndarray]


def _shapiq(kind: str, **options: Any) -> Estimate:
    def estimate(players: int, calls: int, seed: int, play: Play) -> np.ndarray:
        import shapiq.approximator

        if options.get("max_order") == 3 and players > _MOST_OF_THREE:
            raise ValueError(f"{kind} of order 3 takes more than ten seconds for {players} features.")
        approximator = getattr(shapiq.approximator, kind)(n=players, random_state=seed, **options)
        found = approximator.approximate(calls, play)
        return np.array([found.dict_values.get((player,), 0.0) for player in range(players)])

    return estimate


def _kernel_explainer(players: int, calls: int, seed: int, play: Play) -> np.ndarray:
    import shap

    np.random.seed(seed)
    explainer = shap.KernelExplainer(play, np.zeros((1, players)))
    found = explainer.shap_values(np.ones((1, players)), nsamples=calls - 2, l1_reg=False, silent=True)
    return np.asarray(found).reshape(players)


def estimators() -> dict[str, Estimate]:
    """Return all estimators and options that are compared, by name; those that can sample pairs do.

    Left out are those that were never near the best (Owen, stratified and permutation sampling, SVARM, unbiased KernelSHAP,
    SPEX, trees of LightGBM, ProxySPEX, RegressionMSR with folds), and ShaplEIG, which takes minutes for each estimate.
    """
    pairs = {"pairing_trick": True}
    proxies = ("xgboost", "tree", "linear")
    return {
        "shap KernelExplainer": _kernel_explainer,
        "shapiq KernelSHAP": _shapiq("KernelSHAP", **pairs),
        "shapiq LeverageSHAP": _shapiq("LeverageSHAP"),
        **{f"shapiq kADDSHAP {order}": _shapiq("kADDSHAP", max_order=order, **pairs) for order in (2, 3)},
        **{f"shapiq PolySHAP {order}": _shapiq("PolySHAP", max_order=order, **pairs) for order in (2, 3)},
        **{f"shapiq RegressionMSR {proxy}": _shapiq("RegressionMSR", index="SV", proxy_model=proxy) for proxy in proxies},
        "shapiq ProxySHAP xgboost": _shapiq("ProxySHAP", index="SV", max_order=1, proxy_model="xgboost"),
        **{
            f"shapiq ProxySHAP {proxy}, adjusted": _shapiq(
                "ProxySHAP", index="SV", max_order=1, proxy_model=proxy, adjustment=True
            )
            for proxy in proxies
        },
        **{f"shapiq OddSHAP, factor {factor}": _shapiq("OddSHAP", interaction_factor=factor) for factor in (10, 5)},
    }


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages."""
    packages = ("shap", "shapiq", "lightgbm", "xgboost", "scikit-learn", "numpy")
    return {"python": sys.version.split()[0], **{package: version(package) for package in packages}}


class _Job:
    """One estimator on one game: asks for scores, and keeps what it has asked for."""

    def __init__(self, wanted: dict[str, Any], pipes: tuple[BinaryIO, BinaryIO]) -> None:
        self._wanted, (self._in, self._out) = wanted, pipes
        self._known: dict[bytes, np.ndarray] = {}
        self._asked: list[set[bytes]] = []
        self._waited = 0.0

    def answer(self) -> dict[str, Any]:
        """Return the values of all targets, the seconds of the estimator for one, and whether targets share calls."""
        players, calls, seed = (self._wanted[name] for name in ("players", "calls", "seed"))
        estimate = estimators()[self._wanted["estimator"]]
        values, start = [], time.perf_counter()
        for target in range(self._wanted["targets"]):
            self._asked.append(set())
            values.append(estimate(players, calls, seed, lambda rows, target=target: self._play(rows)[:, target]))
        seconds = (time.perf_counter() - start - self._waited) / self._wanted["targets"]
        shared = len(set().union(*self._asked)) <= calls
        return {"values": np.stack(values, axis=1).tolist(), "seconds": seconds, "shared": shared}

    def _play(self, rows: np.ndarray) -> np.ndarray:
        """Return the scores of all targets, ``[n, k]``; each coalition is asked for once."""
        bits = (np.atleast_2d(rows) > 0.5).astype(np.uint8)
        keys = [row.tobytes() for row in bits]
        self._asked[-1].update(keys)
        new = list(dict.fromkeys(key for key in keys if key not in self._known))
        if new:
            start = time.perf_counter()
            send(self._out, {"play": len(new)}, b"".join(new))
            targets = self._wanted["targets"]
            scores = np.frombuffer(self._in.read(8 * len(new) * targets)).reshape(len(new), targets)
            self._known.update(zip(new, scores, strict=True))
            self._waited += time.perf_counter() - start
        return np.stack([self._known[key] for key in keys])


def send(pipe: BinaryIO, message: dict[str, Any], data: bytes = b"") -> None:
    """Write a line of JSON, and what follows it."""
    pipe.write(json.dumps(message).encode() + b"\n" + data)
    pipe.flush()


def main() -> None:
    """Do jobs until there are no more."""
    pipes = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what packages print must not mix with answers
    warnings.simplefilter("ignore")
    send(pipes[1], {"versions": versions(), "estimators": list(estimators())})
    while line := pipes[0].readline():
        try:
            answer = _Job(json.loads(line), pipes).answer()
        except Exception as error:  # every package has errors of its own for too few calls
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        send(pipes[1], answer)


if __name__ == "__main__":
    main()

"""The environment of other packages, and the process that runs their estimators on our games."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import torch

from benchmarks.bench import rivals
from benchmarks.bench.games import Game
from cocoax.store import cache_folder

# Lower bounds; the newest ones are installed, and the results name them.
PACKAGES = ("shapiq>=1.8", "shap>=0.52", "lightgbm", "scikit-learn", "numpy")
ALONE = ("xgboost",)  # its dependency is a GPU library, which it does without


def environment(python: str | None = None, folder: Path | None = None) -> Path:
    """Return the Python of an environment with the other packages, which is made if it is not there.

    ``python`` is a Python of version 3.12 or newer, which shapiq needs; by default the newest that is found.
    """
    folder = cache_folder() / "rivals" if folder is None else folder
    own = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / "complete").exists():
        subprocess.run([python or find_python(), "-m", "venv", "--clear", str(folder)], check=True)
        for options in (PACKAGES, ("--no-deps", *ALONE)):
            subprocess.run([str(own), "-m", "pip", "install", "--quiet", *options], check=True)
        (folder / "complete").touch()
    return own


def find_python() -> str:
    """Return a Python of version 3.12 or newer; raise if there is none."""
    known = [sys.executable, *filter(None, (shutil.which(f"python3.{minor}") for minor in (14, 13, 12)))]
    known += sorted(map(str, (Path.home() / ".pyenv" / "versions").glob("3.1[2-9]*/bin/python")))
    for python in known:
        found = subprocess.run(
            [python, "-c", "import sys; print(sys.version_info >= (3, 12))"], capture_output=True, text=True
        )
        if found.stdout.strip() == "True":
            return python
    raise FileNotFoundError("shapiq needs Python 3.12 or newer, and none was found; name one with --python.")


@dataclass(frozen=True)
class Answer:
    """What an estimator made of a game.

    Attributes:
        values: ``[m, k]``.
        seconds: of the estimator itself, for one target.
        shared: whether all targets asked for the same coalitions.

    """

    values: np.ndarray
    seconds: float
    shared: bool


@dataclass
class RivalProcess:
    """A process with the estimators of other packages; ``with RivalProcess(python) as rivals``."""

    python: Path
    versions: dict[str, str] = field(default_factory=dict)
    estimators: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        settings = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        settings |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [str(self.python), str(Path(rivals.__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=settings
        )
        hello = self._read()
        self.versions, self.estimators = hello["versions"], hello["estimators"]
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process.stdout is not None
        self._stdin.close()
        self._process.stdout.close()
        self._process.wait()

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("The process of the other packages has ended; its error is above.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def estimate(self, estimator: str, game: Game, targets: int, calls: int, seed: int) -> Answer | None:
        """Return what an estimator makes of a game with so many calls; None if it cannot do with them."""
        job = {"estimator": estimator, "players": game.players, "targets": targets, "calls": calls, "seed": seed}
        rivals.send(self._stdin, job)
        while "play" in (answer := self._read()):
            assert self._process.stdout is not None
            rows = self._process.stdout.read(answer["play"] * game.players)
            bits = torch.from_numpy(np.frombuffer(rows, np.uint8).reshape(-1, game.players).copy())
            scores = game.play(bits)[:, :targets].double().numpy()
            self._stdin.write(np.ascontiguousarray(scores).tobytes())
            self._stdin.flush()
        if "error" in answer:
            return None
        return Answer(np.array(answer["values"]), answer["seconds"], answer["shared"])

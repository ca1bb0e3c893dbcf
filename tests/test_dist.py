"""The programs by which `make dist` tries each extra: the short ones run here too, so that they name what exists."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

TRIALS: dict[str, str] = runpy.run_path(str(Path(__file__).parents[1] / "deploy" / "check_dist.py"))["TRIALS"]


@pytest.mark.parametrize("extra", [extra for extra, program in TRIALS.items() if "\n" not in program])
def test_trials__run(extra: str) -> None:
    given: dict[str, Any] = {}
    exec(compile(TRIALS[extra], f"trial of {extra}", "exec"), given)

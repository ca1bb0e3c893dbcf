"""The version of the package, and of what its numbers may depend on."""

from __future__ import annotations

from functools import cache

__version__ = "0.1.0"


def versions() -> dict[str, str]:
    """Return the versions of Cocoax, torch, NumPy, Python and ONNX Runtime, if there is one, on which numbers may depend."""
    import platform

    import numpy as np
    import torch

    return {
        "cocoax": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        **_of_onnx_runtime(),
    }


@cache
def _of_onnx_runtime() -> dict[str, str]:
    """Look once in a process: every attribution says its versions, and looking goes through all installed packages."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return {"onnxruntime": version("onnxruntime")}
    except PackageNotFoundError:
        return {}

"""The version of the package, and of what its numbers may depend on."""

from __future__ import annotations

__version__ = "0.1.0"


def versions() -> dict[str, str]:
    """Return the versions of Cocoax, torch, NumPy, Python and ONNX Runtime, if there is one, on which numbers may depend."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    import numpy as np
    import torch

    try:
        runtime = {"onnxruntime": version("onnxruntime")}
    except PackageNotFoundError:
        runtime = {}
    return {
        "cocoax": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        **runtime,
    }

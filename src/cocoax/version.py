"""The version of the package, and of what its numbers may depend on."""

from __future__ import annotations

__version__ = "0.1.0"


def versions() -> dict[str, str]:
    """Return the versions of Cocoax, torch, NumPy and Python, on which numbers may depend."""
    import platform

    import numpy as np
    import torch

    return {
        "cocoax": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }

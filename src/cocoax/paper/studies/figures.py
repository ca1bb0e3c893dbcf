"""What the figures of the studies share: colours, and how they are written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cocoax.store import write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours that people with colour-blindness can tell apart (Okabe & Ito).
LINE_COLOURS = {
    "label_free": "#E69F00",
    "contrastive_label_free": "#CC79A7",
    "corpus": "#56B4E9",
    "cocoa": "#0072B2",
    "integrated_gradients": "#E69F00",
    "gradient_shap": "#CC79A7",
    "rise": "#56B4E9",
    "rise_efficient": "#0072B2",
    "random": "#777777",
}


def save_figure(figure: Figure, path: Path, dpi: int = 150) -> list[Path]:
    """Write a figure as PNG and PDF, and close it; return the files."""
    import matplotlib.pyplot as plt

    written = [write_figure(path.with_suffix(ending), figure, dpi) for ending in (".png", ".pdf")]
    plt.close(figure)
    return written

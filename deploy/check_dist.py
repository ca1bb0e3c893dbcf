"""Builds sdist and wheel, and tries the wheel in fresh environments: `make dist`.

    python deploy/check_dist.py [--extras starter sound ...]

Each environment has nothing but the wheel, one extra and their dependencies; a short program then uses what the extra is for.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
MAX_WHEEL = 4 * 10**6  # bytes
LIBRARY = """
import numpy as np, torch, cocoax
embed = lambda texts: np.array([[1.0 + text.count(letter) for letter in "abcdefgh"] for text in texts])
match = cocoax.explain_match(cocoax.wrap(embed, takes="texts"), "a bad cab", "a faded badge", rather_than=["high edge"])
print(match.summary)
encoder = cocoax.Encoder(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 8, 8), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()))
print(cocoax.Rise(samples=40).explain(encoder, torch.rand(3, 32, 32), cocoax.representation_similarity()).values.shape)
"""
STARTER = """
import cocoax
from cocoax.data import photo
print(cocoax.ask(cocoax.load("starter"), photo("cat"), ["a cat rather than a dog"])[0].summary)
"""
RAY = """
import numpy as np, cocoax
from cocoax.survey import build
if __name__ == "__main__":
    pictures = list(np.random.default_rng(0).integers(0, 256, (6, 32, 32, 3), np.uint8))
    print(build("simclr-cifar10-small", pictures, "index", cocoax.Rise(samples=20, grid=4), workers=2, progress=False))
"""
INTEROP = """
import numpy as np, shap, shapiq, torch, cocoax
encoder = cocoax.TabularEncoder(torch.nn.Linear(4, 3), columns=list("abcd"), background=np.zeros((5, 4), np.float32))
target = cocoax.similarity_to(encoder.reference(np.ones((2, 4), np.float32)))
column = target.as_module(encoder, column=True)
print(shap.GradientExplainer(column, torch.zeros(5, 4)).shap_values(torch.ones(1, 4), nsamples=20).shape)
"""
# What an environment with an extra is tried with: the extra's libraries are used, not only imported.
TRIALS = {
    "": LIBRARY,
    "starter": STARTER,
    "fast": LIBRARY,
    "sound": "import soundfile, soxr, cocoax.inputs.sound",
    "vectors": "import cocoax, pyarrow; print(cocoax.Reference.from_vectors(pyarrow.table({'v': [[1.0, 0.0]]}), column='v'))",
    "datasets": "import pyarrow, pandas, cocoax.survey",
    "hf": "import sentence_transformers, cocoax.encoders.families.sentence",
    "app": "import gradio, cocoax.app; from cocoax.app import launch",
    "paper": "import pycocotools.mask, cocoax.paper.studies",
    "ray": RAY,
    "timm": 'import cocoax; print(cocoax.load("timm:test_convnext", pretrained=False))',
    "open-clip": "from cocoax.encoders.families.torchvision import import_library; import_library('open_clip')",
    "interop": INTEROP,
}


def build() -> Path:
    """Build both distributions from a clean folder, have their metadata checked, and return the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    run(sys.executable, "-m", "twine", "check", "--strict", *DIST.iterdir())
    (wheel,) = DIST.glob("*.whl")
    if wheel.stat().st_size > MAX_WHEEL:
        raise SystemExit(
            f"{wheel.name} has {wheel.stat().st_size / 1e6:.1f} MB; at most {MAX_WHEEL / 1e6:.0f} MB are allowed."
        )
    foreign = [name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith(("cocoax/", "cocoax-"))]
    if foreign:
        raise SystemExit(f"The wheel holds files that are not of the package: {foreign[:5]}")
    return wheel


def try_wheel(wheel: Path, extra: str) -> None:
    """Install the wheel with an extra in an environment of its own, outside the source, and run the extra's trial."""
    with tempfile.TemporaryDirectory(prefix="cocoax-dist-") as folder:
        run(sys.executable, "-m", "venv", folder)
        python = Path(folder) / "bin" / "python"
        what = f"{wheel}[{extra}]" if extra else str(wheel)
        run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", what)
        run(python, "-m", "pip", "check")
        run(python, "-c", TRIALS[extra], cwd=folder)
        run(Path(folder) / "bin" / "cocoax", "--version", cwd=folder)
    print(f"{extra or 'core only'}: works", flush=True)


def run(*command: object, cwd: str | Path = ROOT) -> None:
    """Run a program; stop if it fails."""
    subprocess.run([str(part) for part in command], cwd=cwd, check=True)


def main() -> None:
    """Build, check and try."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--extras", nargs="*", default=list(TRIALS), choices=list(TRIALS), help="'' is the core alone")
    options = parser.parse_args()
    wheel = build()
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB", flush=True)
    for extra in options.extras:
        try_wheel(wheel, extra)


if __name__ == "__main__":
    main()

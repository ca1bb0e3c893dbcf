"""Image-and-text encoders of OpenCLIP, ``"open_clip:NAME[/PRETRAINED]"``."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.nn.functional import pad

from cocoax.encoders.encoder import Encoder
from cocoax.encoders.families.hub import fetching, no_such_model, title_of
from cocoax.encoders.families.processors import Preprocess
from cocoax.encoders.families.torchvision import import_library
from cocoax.encoders.forward import ModelFunction
from cocoax.encoders.text import TextEncoder
from cocoax.inputs.image import ImagePreprocess
from cocoax.store import digest


def load_open_clip(name: str, *, pretrained: str | None = None, preprocess: Preprocess | None = None) -> Encoder:
    """Load an image encoder of OpenCLIP whose ``.text`` is the text tower.

    Args:
        name: a model and the tag of its weights (``ViT-B-32/laion2b_s34b_b79k``; without a tag, the first that there is), a
            repository of the Hugging Face hub, or a folder with an ``open_clip_config.json``.
        pretrained: the tag, or a file of weights.
        preprocess: replaces the preprocessing that comes with the weights.

    """
    library = import_library("open_clip")
    folder = Path(name).expanduser()
    architecture, slash, tag = name.partition("/")
    options: dict[str, Any] = {}
    if folder.is_dir():
        source, title = f"local-dir:{folder}", title_of(name)
    elif architecture in library.list_models():
        tag = _tag(library, architecture, tag or pretrained)
        source, title = architecture, f"{architecture}/{Path(tag).stem if Path(tag).is_file() else tag}"
        # Some weights were trained with an approximate GELU, which OpenCLIP would only warn about.
        gelu = bool((library.get_pretrained_cfg(architecture, tag) or {}).get("quick_gelu", False))
        options = {"pretrained": tag, "force_quick_gelu": gelu}
    elif slash or name.startswith("hf-hub:"):
        source, title = (name if name.startswith("hf-hub:") else f"hf-hub:{name}"), name
    else:
        raise no_such_model(library, "OpenCLIP", name, architecture)
    advice = (
        "Get them where there is internet and load 'open_clip:FOLDER', a folder with open_clip_config.json and "
        "open_clip_model.safetensors, as `hf download OWNER/NAME --local-dir FOLDER` gives it, or pass pretrained=FILE."
    )
    with fetching(f"The weights of {title!r} cannot be loaded", advice):
        model = library.create_model(source, require_pretrained=True, weights_only=True, **options).eval()
        tokenizer = library.get_tokenizer(source)
    return open_clip_encoder(model, preprocess, tokenizer, name=title)


def open_clip_encoder(
    model: Any, preprocess: Preprocess | None = None, tokenizer: Any = None, *, name: str | None = None
) -> Encoder:
    """Return the encoder around a model of OpenCLIP, which is left as it is.

    Args:
        model: its image tower; with a tokenizer, ``.text`` is its text tower.
        preprocess: from a picture to the tensor that it takes; if not given, what its configuration says.
        tokenizer: of its texts, as ``open_clip.get_tokenizer`` gives it.
        name: what pictures call it.

    """
    name = name or type(model).__name__
    text = None
    if tokenizer is not None:
        limit = int(getattr(model, "context_length", None) or tokenizer.context_length)
        words = _OpenClipTokenizer(tokenizer)
        tower = ModelFunction(model, _text_features, length=limit, padding=words.padding)
        text = TextEncoder(tower, words, limit=limit, pad=words.padding, name=name)
    preprocess = open_clip_preprocess(model) if preprocess is None else preprocess
    return Encoder(ModelFunction(model, _image_features), preprocess, text=text, name=name)


def _tag(library: Any, architecture: str, asked: str | None) -> str:
    """The tag or file of the weights to load: the one that is asked for, or else the first that there is."""
    tags: list[str] = library.list_pretrained_tags_by_model(architecture)
    if asked is not None and Path(asked).is_file():
        return asked
    if asked is None and tags:
        return tags[0]
    if asked is None or not library.get_pretrained_cfg(architecture, asked):
        there = f"there are {', '.join(tags)}" if tags else "there are none; pass pretrained=FILE"
        called = f" called {asked!r}" if asked is not None else ""
        raise ValueError(f"OpenCLIP has no weights{called} for {architecture!r}; {there}.")
    return asked


def open_clip_preprocess(model: Any) -> Preprocess:
    """The preprocessing of a model: our own where it gives the same, and else OpenCLIP's."""
    library = import_library("open_clip")
    config = library.get_model_preprocess_cfg(model)
    size = config["size"]
    height, width = (size, size) if isinstance(size, int) else size
    squash = config["resize_mode"] == "squash"
    if not squash and (config["resize_mode"] != "shortest" or height != width):
        transform: Preprocess = library.image_transform_v2(library.PreprocessCfg(**config), is_train=False)
        return transform  # needs torchvision, and says so
    interpolation = "bilinear" if config["interpolation"] == "bilinear" else "bicubic"  # as OpenCLIP reads it
    resize, crop = ((height, width), None) if squash else (height, height)
    return ImagePreprocess(resize, crop, tuple(config["mean"]), tuple(config["std"]), interpolation)


def _image_features(model: Any, images: Tensor) -> Tensor:
    """Return the image features ``[n, d]`` of pictures ``[n, 3, H, W]``."""
    features: Tensor = model.encode_image(images)
    return features


def _text_features(model: Any, tokens: dict[str, Tensor], length: int, padding: int) -> Tensor:
    """Return the text features ``[n, d]`` of token ids ``[n, tokens]``, filled up to the full length."""
    ids = tokens["input_ids"]
    features: Tensor = model.encode_text(pad(ids, (0, length - ids.shape[1]), value=padding))
    return features


class _OpenClipTokenizer:
    """An OpenCLIP tokenizer as a function from a text to its token ids, special tokens included; nothing is cut."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.padding = int(getattr(getattr(tokenizer, "tokenizer", None), "pad_token_id", None) or 0)

    def __call__(self, text: str) -> list[int]:
        """The token ids."""
        # Asked for more tokens than any text of its length has, it cuts nothing; the rest is filling.
        ids: list[int] = self.tokenizer(text, context_length=2 * len(text.encode()) + 16)[0].tolist()
        while ids and ids[-1] == self.padding:
            ids.pop()
        return ids

    @cached_property
    def _vocabulary(self) -> str:
        own = getattr(self.tokenizer, "encoder", None)
        return digest(*sorted((own if own is not None else self.tokenizer.tokenizer.get_vocab()).items()))

    def __repr__(self) -> str:
        return f"{type(self.tokenizer).__name__}({self._vocabulary})"

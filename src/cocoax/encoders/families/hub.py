"""Getting models from the Hugging Face hub or from a folder, for all families that do, and saying what went wrong.

A name on the hub and a folder written by ``save_pretrained`` go the same way. Code that comes with weights is never run,
safetensors are taken where there are any, and pickles are read with ``weights_only`` alone.
"""

from __future__ import annotations

import copy
import difflib
import os
import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from inspect import signature
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from urllib.parse import urlparse
from urllib.request import getproxies

import torch
from torch import nn

from cocoax.checks import import_optional
from cocoax.encoders.forward import is_out_of_memory


class Repository:
    """A model of transformers on the hub or in a folder: its configuration, weights, image processor and tokenizer.

    What cannot be reached is told in a sentence: what it was, where to get it and where to put it.
    """

    def __init__(self, family: str, name: str, revision: str | None = None) -> None:
        self.family = family
        self.name = name
        path = Path(name).expanduser()
        self.local = path.is_dir()
        self.source = str(path) if self.local else name
        self.title = title_of(name)
        self.transformers = import_package("transformers", family, "hf")
        if not self.local and (path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1):
            raise FileNotFoundError(
                f"No folder at {name}; write {family}:FOLDER or the name of a model on the hub, owner/name."
            )
        if self.local and not (path / "config.json").is_file():
            raise FileNotFoundError(
                f"The folder {name} has no config.json; expected what model.save_pretrained({name!r}) writes. "
                f"Found {', '.join(sorted(file.name for file in path.iterdir())[:5]) or 'nothing'}."
            )
        self.options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": self.local or _offline()}
        if revision is not None:
            self.options["revision"] = revision

    @cached_property
    def config(self) -> Any:
        """The model's configuration."""
        return self._load(self.transformers.AutoConfig, "configuration")

    @cached_property
    def model_class(self) -> type | None:
        """The class of the model, known before its weights are fetched; None if transformers has none."""
        classes = self.transformers.MODEL_MAPPING.get(type(self.config), None)
        first: type | None = classes[0] if isinstance(classes, tuple | list) else classes
        return first

    def model(self, loader: Any, unused: Collection[str] = ()) -> tuple[Any, list[str]]:
        """The model in float32 and eval mode, and the names of the tensors that its weights lack.

        Raise if they lack any outside the parts called ``unused``, which representations are not made with.
        """
        dtype = "dtype" if self._version >= 5 else "torch_dtype"
        model, info = self._load(loader, "weights", weights_only=True, output_loading_info=True, **{dtype: torch.float32})
        missing = sorted(str(key) for key in info["missing_keys"] if not str(key).endswith("mask_token"))  # for training
        needed = [key for key in missing if not set(unused) & set(key.split("."))]
        if needed:
            raise ValueError(
                f"The weights of {self.name!r} lack {len(needed)} tensors of {type(model).__name__}, {needed[0]} among them, "
                "which would be random; load the weights of a whole model."
            )
        return model.eval(), missing

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

    @property
    def _version(self) -> int:
        return int(self.transformers.__version__.split(".")[0])

    def _load(self, loader: Any, part: str, **options: Any) -> Any:
        try:
            # Modules draw initial weights, which are replaced, from the global random state.
            with torch.random.fork_rng(), quiet(self.transformers, reports=False, bars=not self.local):
                return loader.from_pretrained(self.source, **self.options, **options)
        except ImportError as error:
            raise ImportError(
                f"The {part} of {self.name!r} needs a package that cannot be imported: {_first_line(error)}. Install it, or "
                "pip install 'cocoax[hf]'; a torchvision that does not fit torch must be replaced or uninstalled."
            ) from error
        except Exception as error:  # the formats and architectures are many, and each fails in its own way
            if is_out_of_memory(error):
                raise
            kind = OSError if isinstance(error, OSError) else ValueError
            raise kind(self._explanation(part, error)) from error

    def _explanation(self, part: str, error: Exception) -> str:
        reason = _first_line(error)
        if isinstance(error, UnpicklingError):
            reason = "the file is a pickle that holds more than tensors, which could run anything; get it as safetensors"
        where = f"The {part} in the folder {self.name}" if self.local else f"The {part} of {self.name!r}"
        of_the_model = part in ("configuration", "weights")
        if of_the_model and not isinstance(error, OSError):  # they are there
            return (
                f"{where} cannot be loaded: {reason}. If it is damaged, fetch it again; a newer transformers may know it. "
                "Code that comes with weights is never run: load such a model yourself and wrap it, cocoax.Encoder(model)."
            )
        if self.local:
            writer = "model" if of_the_model else "processor"
            return f"{where} cannot be loaded: {reason}. Write it there with {writer}.save_pretrained({self.name!r})."
        return (
            f"{where} cannot be reached: it is neither a folder here nor in the Hugging Face cache, and the hub did not give "
            f"it ({reason}). Check the name. {without_internet(self.family, self.name)}"
        )


# --- libraries that fetch weights themselves ------------------------------------------------------------------------------


@contextmanager
def fetching(failure: str, advice: str) -> Iterator[None]:
    """Let a library fetch weights: only what is in the cache where there is no internet, leaving the random state alone.

    Whatever goes wrong becomes an ``OSError``: ``failure``, the reason in brackets, ``advice``.
    """
    try:
        with torch.random.fork_rng(), _cache_alone_if_offline():
            yield
    except Exception as error:  # the ways in which weights cannot be got are many
        if is_out_of_memory(error):
            raise
        raise OSError(f"{failure} ({_first_line(error)}). {advice}") from error


def without_internet(family: str, repository: str) -> str:
    """The advice how to get a repository of the hub to a machine without internet."""
    return (
        f"Without internet, run `hf download {repository} --local-dir FOLDER` where there is some, copy the folder here and "
        f"load '{family}:FOLDER'."
    )


def no_such_model(library: Any, title: str, name: str, architecture: str) -> ValueError:
    """The error that a library has no model of this name; it lists known ones that are close to its architecture."""
    close = difflib.get_close_matches(architecture, library.list_models(), n=5, cutoff=0.4)
    hint = f"close ones are {', '.join(close)}" if close else f"{library.__name__}.list_models() gives the names of all"
    return ValueError(
        f"{title} {library.__version__} has no model {name!r}; {hint}. A folder of that name is not there either."
    )


@contextmanager
def quiet(transformers: Any, *, reports: bool, bars: bool) -> Iterator[None]:
    """Silence transformers for a while: its ``reports`` on weights and its progress ``bars``, unless they are wanted."""
    logging = transformers.utils.logging
    level, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    if not reports:
        logging.set_verbosity_error()
    if not bars:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


@contextmanager
def _cache_alone_if_offline() -> Iterator[None]:
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


# --- small things ---------------------------------------------------------------------------------------------------------


def import_package(name: str, family: str, extra: str) -> Any:
    """Return a package that the encoders of a family need; its client of the hub reports nothing."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    return import_optional(name, f"Encoders '{family}:' need", extra)


def title_of(name: str) -> str:
    """Return the name of a model in figures: that of its folder, or its name on the hub."""
    path = Path(name).expanduser()
    return path.resolve().name if path.is_dir() else name


def name_of(model: Any) -> str:
    """Return the name in figures of a model of transformers in memory: where it was loaded from, or its class."""
    return title_of(getattr(getattr(model, "config", None), "_name_or_path", None) or type(model).__name__)


def layer_of(model: nn.Module, layer: str | nn.Module | None) -> str | nn.Module | None:
    """The name of a layer of the model in a module that has the model as ``model``; what is no layer stays."""
    name = next((name for name, part in model.named_modules() if part is layer or name == layer), None)
    return layer if name is None else f"model.{name}".rstrip(".")


def interpolating(forward: Callable[..., Any], wanted: bool) -> dict[str, bool]:
    """Return the option by which a model of transformers interpolates positions, if it is wanted; raise if it has none."""
    option = "interpolate_pos_encoding"
    if wanted and option not in signature(forward).parameters:
        raise ValueError(f"The 'interpolate' parameter needs a model that takes {option}=; leave it out for this one.")
    return {option: True} if wanted else {}


def with_part(model: nn.Module, name: str, part: nn.Module | None) -> Any:
    """The same model with another part of this name; the model itself is left as it is, and all else is shared with it."""
    other = copy.copy(model)
    other._modules = {**model._modules, name: part}
    return other


def _first_line(error: BaseException) -> str:
    """Return the first line of an error."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")

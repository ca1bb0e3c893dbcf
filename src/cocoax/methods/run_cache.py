"""Saved runs: the same input, encoder and method are encoded once, and asked again at once."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from cocoax.encoders import Encoder
from cocoax.inputs import Explicand
from cocoax.inputs.explicand import save_display
from cocoax.masking import resolve
from cocoax.methods.method import check_targets
from cocoax.methods.run import Interrupted, OtherMasksError, RemovalMethod, Run, RunCheckpoint
from cocoax.methods.serialise import to_json_value
from cocoax.store import KeyedCache, digest, folder_lock, load_or_quarantine
from cocoax.targets import Target

_TOKENS: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def cached_run(
    encoder: Encoder,
    explicand: Any,
    method: RemovalMethod,
    targets: Sequence[Target] = (),
    *,
    at_least: bool = False,
    folder: Path | None = None,
    features: Any = None,
    progress: bool | None = None,
) -> Run:
    """Return the run of a method on one explicand, from disk if it was made before; made, and kept there, if not.

    A run is found by the content of the input, the encoder's fingerprint and the method's options. A Rise run that is too
    short is extended and kept; of one that is longer than asked for, the first samples are used, which are what a new run
    would have drawn, or all of them if ``at_least``. What an interruption or a kill leaves of a run is kept too, and the same
    call goes on from there, to the same result. A damaged file is named in a warning and put aside; a run of the wrong length
    whose masks another version drew is made again.

    Args:
        encoder: what encodes.
        explicand: one input.
        method: how to perturb it.
        targets: those that decide when a Rise with a tolerance stops.
        at_least: use more samples than the method asks for where there are more.
        folder: where runs are kept; ``runs`` in the cache folder by default.
        features: what is removed as one part, see :meth:`cocoax.Encoder.explicand`.
        progress: show a progress bar (``None``: when it takes long).

    """
    method, prepared = method.choose_features(encoder, encoder.explicand(encoder.single(explicand), features))
    cache = KeyedCache("runs", folder)
    if not (encoder.recognisable and _has_folder(cache)):
        return method.run(encoder, prepared, targets, progress=progress)
    asked = check_targets(targets, encoder) if targets else []
    identity = encoder.identify()
    for target in asked:
        target.check_space(identity.space)
    method = replace(method, baseline=resolve(method.baseline, encoder.inputs))
    key = _key(identity.key, prepared, method)
    run = cache.get(key, Run.load)
    if run is not None:
        run.method, run.encoder, run.space = method, encoder.name, identity.space  # the other tower may have changed
    unfinished = RunCheckpoint(cache.path(f"{key}.unfinished"), encoder.name)
    try:
        run, before = _resumed(run, encoder, method, asked, at_least, progress, unfinished)
        if run is None:
            run = Run.start(method, encoder, prepared, asked, progress, unfinished)
    except Interrupted as stop:
        stop.run.checkpoint = None
        raise
    run.checkpoint = None
    if len(run) > before:
        cache.put(key, partial(_save_longest, run))
        unfinished.forget(len(run))
    return run


def _resumed(
    run: Run | None,
    encoder: Encoder,
    method: RemovalMethod,
    targets: Sequence[Target],
    at_least: bool,
    progress: bool | None,
    checkpoint: RunCheckpoint,
) -> tuple[Run | None, int]:
    """Return a kept run as long as it should be, and how much of it was there; None if its masks cannot be drawn again."""
    if run is None:
        return None, 0
    try:
        run, lacking = method.resized(run, at_least)
        there, run.checkpoint = len(run), checkpoint
        return run.resume(encoder, lacking, targets, progress), there
    except OtherMasksError:
        return None, 0


def _has_folder(cache: KeyedCache) -> bool:
    """Return whether there is a folder to keep runs in; warn if there is none."""
    try:
        cache.path("")
    except OSError as error:
        warnings.warn(f"The run cannot be kept: {error}", stacklevel=3)
        return False
    return True


def _key(encoder: str, explicand: Explicand, method: RemovalMethod) -> str:
    """Return the cache key of a run: encoder, input and the options that its masks depend on."""
    tensors: dict[str, Any] = {}
    options = {"type", *method.options_of(explicand.shape)}
    plain = {name: value for name, value in to_json_value(method, tensors, _token).items() if name in options}
    shown, display = save_display(explicand.display)
    content = (explicand.tensor, explicand.feature_ids, *shown.values(), display)
    return digest("run", encoder, plain, *tensors.values(), *content)


def _token(value: Any) -> str:
    """Return a token of an option for the key: the name of a class; of other objects one that is valid in this process."""
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    try:
        return _TOKENS.setdefault(value, uuid.uuid4().hex)
    except TypeError:  # it cannot be a key
        return uuid.uuid4().hex


def _save_longest(run: Run, path: Path) -> None:
    """Keep a run, unless another process has kept a longer one meanwhile; one that can be made no longer gives way."""
    with folder_lock(path.parent):
        there = load_or_quarantine(path, Run.load)
        if there is None or len(there) < len(run) or not there.can_be_drawn_again:
            run.save(path)

"""Saved runs: the same input, encoder and method are encoded once, and asked again at once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cocoax.attribution.plain import to_plain
from cocoax.attribution.removal import RemovalMethod
from cocoax.attribution.run import Interrupted, Run
from cocoax.encoders import Encoder
from cocoax.encoders.identity import describe, looking_once
from cocoax.features import resolve
from cocoax.inputs import Explicand
from cocoax.inputs.display import save_display
from cocoax.storage import cache_folder, digest
from cocoax.targets import Target


def saved_run(
    encoder: Encoder,
    explicand: Any,
    method: RemovalMethod,
    targets: Sequence[Target] = (),
    *,
    at_least: bool = False,
    folder: Path | None = None,
    progress: bool | None = None,
) -> Run:
    """Return the run of a method on one explicand, from disk if it was made before; made, and kept there, if not.

    A run is found by the content of the input, the encoder's fingerprint and the method's options. A Rise run that is too
    short is extended and kept; of one that is longer than asked for, the first samples are used, which are what a new run
    would have drawn, or all of them if ``at_least``. What an interruption leaves of a Rise run is kept too.

    Args:
        encoder: what encodes.
        explicand: one input.
        method: how to perturb it.
        targets: those that decide when a Rise with a tolerance stops.
        at_least: use more samples than the method asks for where there are more.
        folder: where runs are kept; ``runs`` in the cache folder by default.
        progress: show a progress bar (``None``: when it takes long).

    """
    prepared = encoder.explicand(encoder.single(explicand))
    if not encoder.recognisable:
        return method.run(encoder, prepared, targets, progress=progress)
    with looking_once():
        method = replace(method, baseline=resolve(method.baseline, encoder.inputs))
        path = (cache_folder() / "runs" if folder is None else folder) / f"{_key(encoder, prepared, method)}.safetensors"
        run = _load(path, encoder, method)
        before = 0 if run is None else len(run)
        try:
            if run is None:
                run = method.run(encoder, prepared, targets, progress=progress)
            else:
                run, lacking = method.at_length(run, at_least)
                if lacking:
                    run.extend(encoder, lacking, progress=progress)
                while more := method.more(run, targets):
                    run.extend(encoder, more, progress=progress)
        except Interrupted as stop:
            if method.lengthening and len(stop.run) > before:  # the others cannot tell a part from the whole
                _store(path, stop.run)
            raise
        if len(run) > before:
            _store(path, run)
    return run


def _key(encoder: Encoder, explicand: Explicand, method: RemovalMethod) -> str:
    """Return what a run is found by: all that it depends on, and nothing that only makes it longer or reads it."""
    tensors: dict[str, Any] = {}
    plain = dict(to_plain(method, tensors, describe))
    for option in (*method.lengthening, *method.reading):
        plain.pop(option)
    shown, display = save_display(explicand.display)
    content = (explicand.tensor, explicand.members, *shown.values(), display)
    return digest("run", encoder.space, plain, *tensors.values(), *content)


def _load(path: Path, encoder: Encoder, method: RemovalMethod) -> Run | None:
    if not path.exists():
        return None
    try:
        run = Run.load(path)
    except (ValueError, TypeError, KeyError):  # cut off, or from another version
        return None
    run.method, run.encoder = method, encoder.name
    return run


def _store(path: Path, run: Run) -> None:
    try:
        run.save(path)
    except OSError as error:
        warnings.warn(f"The run cannot be kept in {path.parent} ({error}); going on without.", stacklevel=3)

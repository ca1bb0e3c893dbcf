"""Saved runs: the same picture, encoder and method are encoded once, and asked again at once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cocoax.attribution.method import resolve_baseline, to_plain
from cocoax.attribution.removal import Interrupted, RemovalMethod, Run
from cocoax.attribution.rise import Rise
from cocoax.encoders import Encoder, Explicand
from cocoax.storage import cache_folder, digest
from cocoax.targets import Target

# Options that say how long a Rise run is, not what it is: one run serves them all.
_LENGTH = ("samples", "tolerance", "max_samples", "batch_size")


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
    """The run of a method on one explicand, from disk if it was made before; made, and kept there, if not.

    A run is found by the content of the picture, the encoder's fingerprint and the method's options. A Rise run that is too
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
    prepared = encoder.explicand(encoder.as_list(explicand, one=True)[0])
    if not encoder.recognisable:
        run: Run = method.run(encoder, prepared, targets, progress=progress)
        return run
    method = replace(method, baseline=resolve_baseline(method.baseline, encoder))
    path = (cache_folder() / "runs" if folder is None else folder) / f"{_key(encoder, prepared, method)}.safetensors"
    found = _load(path, encoder, method)
    before = 0 if found is None else len(found)
    try:
        if found is None:
            found = method.run(encoder, prepared, targets, progress=progress)
        else:
            found = _at_length(found, encoder, method, targets, at_least, progress)
    except Interrupted as stop:
        if isinstance(method, Rise) and len(stop.run) > before:  # the others cannot tell a part from the whole
            _store(path, stop.run)
        raise
    if len(found) > before:
        _store(path, found)
    return found


def _key(encoder: Encoder, explicand: Explicand, method: RemovalMethod) -> str:
    tensors: dict[str, Any] = {}
    plain = dict(to_plain(method, tensors))
    for option in _LENGTH if isinstance(method, Rise) else ():
        plain.pop(option)
    content = (explicand.tensor, explicand.picture, explicand.box)
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


def _at_length(
    run: Run, encoder: Encoder, method: RemovalMethod, targets: Sequence[Target], at_least: bool, progress: bool | None
) -> Run:
    """The run, as long as the method asks for."""
    if not isinstance(method, Rise):
        return run
    if len(run) < method.samples:
        run.extend(encoder, method.samples - len(run), progress=progress)
    elif len(run) > method.samples and not at_least and method.tolerance is None:
        kept = run.representations[: method.samples]
        return replace(run, representations=kept, masks=run._draw(method.samples), stopped="")
    run.stopped = ""
    while more := method.more(run, targets):
        run.extend(encoder, more, progress=progress)
    return run


def _store(path: Path, run: Run) -> None:
    try:
        run.save(path)
    except OSError as error:
        warnings.warn(f"The run cannot be kept in {path.parent} ({error}); going on without.", stacklevel=3)

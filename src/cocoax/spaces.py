"""Names of representation spaces: two representations may be compared if the names of their spaces agree.

A name is ``digest@probe:sketch``: a digest of the encoder's weights, classes and settings, the name of a probe (a fixed
input), and a sketch of the probe's representation (a random projection). Two names agree if the digests are equal and the
sketches agree within a tolerance. Another device, number of threads or memory layout therefore keeps the space; a hook,
another preprocessing or weights written through ``.data`` change it. Sketches of different probes, as those of the two towers
of one encoder, are not compared.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

TOLERANCE = 1e-3  # of the length of a representation: TF32 and other devices stay below, other precisions are in the digest
_DIMENSIONS = 8  # of a sketch
_SEED = 20230501


def sketch(representation: Tensor) -> Tensor:
    """Return a random projection ``[8]`` of a representation ``[d]``, which approximately keeps lengths and distances.

    Zeros at the end of a representation do not change it.
    """
    finite = torch.nan_to_num(representation.detach().double().cpu().flatten())
    projected: Tensor = finite @ _projection(len(finite))
    return torch.nan_to_num(projected.float())


@lru_cache(maxsize=16)
def _projection(dimension: int) -> Tensor:
    generator = torch.Generator().manual_seed(_SEED)
    drawn = torch.randn(dimension, _DIMENSIONS, generator=generator, dtype=torch.float64)
    return drawn.div_(_DIMENSIONS**0.5)


def name_space(digest: str, probe: str = "", sketched: Tensor | None = None) -> str:
    """Return the name of a space; ``probe`` says which input was sketched."""
    return digest if sketched is None else f"{digest}@{probe}:{sketched.numpy().astype('<f4').tobytes().hex()}"


def same_space(first: str, second: str) -> bool:
    """Whether two names are of one space."""
    (digest, probe, ours), (other_digest, other_probe, theirs) = _parts(first), _parts(second)
    if digest != other_digest:
        return False
    if ours is None or theirs is None or probe != other_probe:
        return True
    return close(ours, theirs)


def close(first: Tensor, second: Tensor) -> bool:
    """Whether two sketches agree within the tolerance."""
    first, second = first.double(), second.double()
    return bool((first - second).norm() <= TOLERANCE * max(first.norm(), second.norm()))


def space_digest(space: str) -> str:
    """Return a name without its sketch: what is the same on every machine."""
    return space.partition("@")[0]


def rounded(sketched: Tensor) -> list[int]:
    """Return a sketch in steps of the tolerance, for the keys of caches; rounding differently costs a cache miss."""
    sketched = sketched.double()
    length = float(sketched.norm())
    if length == 0:
        return []
    return [round(np.log(length) / TOLERANCE), *(sketched / (TOLERANCE * length)).round().int().tolist()]


def _parts(space: str) -> tuple[str, str, Tensor | None]:
    digest, _, rest = space.partition("@")
    probe, _, numbers = rest.rpartition(":")
    try:
        values = torch.from_numpy(np.frombuffer(bytes.fromhex(numbers), "<f4").astype(np.float32))
    except ValueError:  # not a name of ours
        return space, "", None
    return digest, probe, values if len(values) == _DIMENSIONS else None

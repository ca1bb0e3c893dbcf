"""Safetensors: our own files, which carry a digest and are checked against a layout, and those of others."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, BinaryIO

from cocoax.store.digests import with_checksum, without_checksum
from cocoax.store.files import as_path, atomic_write

if TYPE_CHECKING:
    from torch import Tensor

# Names of torch's types in files. Safetensors has the types with the largest elements first in a file.
_DTYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "float16": "F16", "bfloat16": "BF16",
    "int32": "I32", "float32": "F32", "float64": "F64", "int64": "I64",
}  # fmt: skip


# Endings of files that other functions write.
_OTHERS = {".html", ".htm", ".png", ".jpg", ".jpeg", ".svg", ".pdf", ".json", ".csv", ".npy", ".npz", ".pt", ".pkl"}

# --- writing ----------------------------------------------------------------------------------------------------------


def write_safetensors(path: str | Path, tensors: Mapping[str, Tensor], kind: str, header: Mapping[str, object]) -> Path:
    """Write tensors, a JSON header and a digest of both, all or nothing; return the path."""
    if as_path(path).suffix.lower() in _OTHERS:
        raise ValueError(
            f"{path} would not be what its name says: a Cocoax {kind} is saved as safetensors; let the name end in "
            ".safetensors. Pictures are written by .plot().savefig(path), pages by .html(), tables by .to_dataframe()."
        )
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = with_checksum(json.dumps({"kind": kind, **header}), *_by_name(plain))
    with atomic_write(path) as part, part.open("wb") as file:
        write_tensors(file, plain, {"cocoax": text})
    return Path(path)


def _by_name(tensors: Mapping[str, Tensor]) -> Iterator[object]:
    """Return names and tensors in turn, in the order of the names."""
    return chain.from_iterable(sorted(tensors.items()))


def write_tensors(file: BinaryIO, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write contiguous tensors of the CPU as ``safetensors.torch.save_file`` would write them.

    That one makes a copy of all tensors and a temporary file of its own, which a killed process leaves behind, and gives the
    file to its owner alone, whatever the umask says.
    """
    import torch

    places, order = list(_DTYPES), {}
    for name, tensor in tensors.items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in _DTYPES:
            raise ValueError(f"The tensor {name!r} has the type {tensor.dtype}, which is not kept in files.")
        order[name] = (-places.index(dtype), name)
    names = sorted(tensors, key=lambda name: order[name])
    entries: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for name in names:
        start, end = end, end + tensors[name].nbytes
        dtype = _DTYPES[places[-order[name][0]]]
        entries[name] = {"dtype": dtype, "shape": list(tensors[name].shape), "data_offsets": [start, end]}
    header = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)
    file.write(len(header).to_bytes(8, "little") + header)
    for name in names:
        file.write(tensors[name].reshape(-1).view(torch.uint8).numpy().data)


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """The layout of a kind of file.

    Attributes:
        kind: what files call it.
        tensors: the sizes of each tensor, as in ``"samples?": "count d"``. Equal names are equal sizes, also those of whole
            numbers in the header; ``*cells`` stands for any number of sizes, equal wherever it has the same name, and ``*``
            for any at all; ``?`` marks a tensor that may be absent, and ``int`` or ``any`` the type of those that are not of
            floating point. Tensors that are not listed may be there.
        header: the type of each entry of the header.

    """

    kind: str
    tensors: Mapping[str, str] = field(default_factory=dict)
    header: Mapping[str, type | UnionType] = field(default_factory=dict)

    def check(self, tensors: Mapping[str, Tensor], header: Mapping[str, object]) -> None:
        """Raise if something is missing, or is not what it should be."""
        for name, kind in self.header.items():
            if name not in header:
                raise ValueError(f"its header lacks {name!r}")
            if not isinstance(header[name], kind):
                raise ValueError(f"{name!r} in its header is {str(header[name])[:40]!r}")
        sizes: dict[str, object] = {name: size for name, size in header.items() if type(size) is int}
        for name, pattern in self.tensors.items():
            tensor = tensors.get(name.removesuffix("?"))
            if tensor is not None:
                _check_tensor(name.removesuffix("?"), tensor, pattern, sizes)
            elif not name.endswith("?"):
                raise ValueError(f"it lacks the tensor {name!r}")


def _check_tensor(name: str, tensor: Tensor, pattern: str, sizes: dict[str, object]) -> None:
    """Raise if a tensor's type or shape is not that of a pattern; ``sizes`` are those known so far, and are added to."""
    expected = pattern.split()
    kind = expected.pop(0) if expected[0] in ("int", "any") else "float"
    shape: list[object] = list(tensor.shape)
    star = next((place for place, own in enumerate(expected) if own.startswith("*")), None)
    if star is not None:
        end = len(shape) - (len(expected) - star - 1)
        shape[star:end] = [tuple(shape[star:end])]
    fits = len(shape) == len(expected) and all(
        own == "*" or (int(own) if own.isdigit() else sizes.setdefault(own, size)) == size
        for own, size in zip(expected, shape, strict=True)
    )
    if not fits or kind not in ("any", "float" if tensor.is_floating_point() else "int"):
        raise ValueError(f"its tensor {name!r} is {tensor.dtype} {list(tensor.shape)} rather than [{pattern}]")


def read_safetensors(path: str | Path, layout: Layout | str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return tensors and JSON header of a file that :func:`write_safetensors` wrote; raise unless it is whole and sound.

    ``layout`` says what it must hold, or is its kind where anything goes.
    """
    layout = Layout(layout) if isinstance(layout, str) else layout
    tensors, metadata = load_tensors(path)
    if "cocoax" not in metadata:
        raise ValueError(f"{path} does not hold a Cocoax {layout.kind}: it holds something else.")
    header = header_of(path, tensors, metadata["cocoax"])
    kind = header.pop("kind", None)
    if kind != layout.kind:
        raise ValueError(f"{path} does not hold a Cocoax {layout.kind}: it holds {kind}.")
    with corrupt_file_errors(path):
        layout.check(tensors, header)
    return tensors, header


def load_tensors(path: str | Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return tensors and metadata of a safetensors file, whoever wrote it."""
    from safetensors import SafetensorError, safe_open

    path = as_path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it.")
    if not path.exists():
        raise FileNotFoundError(f"No file at {path}; check the path.")
    path.open("rb").close()  # one that may not be read is not a damaged one
    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            # Copied to memory of their own, since sums come out differently, in the last bit, where memory is not aligned.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} is not a readable safetensors file ({error}); it may be truncated.") from error
    return tensors, metadata


def header_of(path: str | Path, tensors: Mapping[str, Tensor], text: str) -> dict[str, Any]:
    """Return the JSON header of a file of ours; raise if its digest is not that of its content."""
    try:
        header = json.loads(without_checksum(text, *_by_name(tensors)))
        if not isinstance(header, dict):
            raise TypeError("its header is no JSON object")
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {str(error)[:200]}. It is not used.") from error
    return header


@contextmanager
def corrupt_file_errors(path: str | Path) -> Iterator[None]:
    """Turn whatever the content of a file makes fail in the block into an error that names the file."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ArithmeticError, AssertionError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise ValueError(f"{path} is damaged, or not of this version of Cocoax ({reason}); make it again.") from error
    except ValueError as error:
        raise ValueError(f"{path} cannot be used: {str(error).removesuffix('.')}.") from error


def check_torch_file(path: Path) -> None:
    """Raise if a file that ``torch.save`` wrote is damaged; torch itself does not look at the checksums in it."""
    try:
        if not zipfile.is_zipfile(path):
            return  # the old format has none
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged ({error}).") from error
    if damaged is not None:
        raise ValueError(f"{path} is damaged: {damaged} in it does not have the checksum that was written with it.")

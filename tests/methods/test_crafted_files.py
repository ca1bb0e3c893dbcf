"""Files whose digest is right but whose content is not: every entry left out or replaced is read, or gives a sentence."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cocoax
from cocoax.store import load_tensors, write_safetensors
from tests.conftest import SmallNet, images
from tests.tiny import save_bert

ODD: list[Any] = [None, -1, 10**30, 2.5, "odd", [], {}, True, [[[]]], {"type": "Rise"}, {"type": "Tensor", "key": "none"}]
METHODS = [
    cocoax.Rise(samples=20, grid=4),
    cocoax.KernelShap(samples=60, grid=3),
    cocoax.Occlusion(window=8, stride=8),
]
TARGET = cocoax.representation_similarity()


def odd_headers(header: Any) -> Iterator[Any]:
    """Every header with one entry, at any depth, left out or replaced."""
    for key in header if isinstance(header, dict) else range(len(header)):
        for value in ODD:
            changed = copy.deepcopy(header)
            changed[key] = value
            yield changed
        changed = copy.deepcopy(header)
        del changed[key]
        yield changed
        if isinstance(header[key], dict | list):
            for inner in odd_headers(header[key]):
                changed = copy.deepcopy(header)
                changed[key] = inner
                yield changed


def odd_tensors(tensors: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """Every set of tensors with one left out or replaced."""
    for name, tensor in tensors.items():
        rest = {other: value for other, value in tensors.items() if other != name}
        yield rest
        for changed in (
            tensor.reshape(-1)[:0],
            tensor[:1] if tensor.ndim else tensor,
            tensor.reshape(-1),
            tensor[None],
            tensor.double() if not tensor.is_floating_point() else tensor.long(),
            torch.full_like(tensor, 120 if tensor.dtype != torch.bool else 1),
            torch.full_like(tensor, -100 if tensor.dtype not in (torch.uint8, torch.bool) else 1),
        ):
            yield {**rest, name: changed}


def crafted(path: Path) -> Iterator[tuple[dict[str, Tensor], str, dict[str, Any]]]:
    """All odd contents of a file, with its kind."""
    tensors, metadata = load_tensors(path)
    header = json.loads(metadata["cocoax"])
    kind = header.pop("kind")
    del header["digest"]
    yield from ((tensors, kind, odd) for odd in odd_headers(header))
    yield from ((odd, kind, header) for odd in odd_tensors(tensors))


def assert_read_or_told(path: Path, use: Callable[[Path], object]) -> None:
    refused = total = 0
    for tensors, kind, header in crafted(path):
        total += 1
        write_safetensors(path, tensors, kind, header)
        try:
            use(path)
        except ValueError as error:
            refused += 1
            said = str(error)
            assert said.endswith((".", ")")), said
    assert total > 20
    assert refused > total / 10


def answer(path: Path) -> None:
    cocoax.Run.load(path).explain(TARGET)


@pytest.mark.parametrize("method", METHODS)
def test_run__crafted(method: Any, encoder: cocoax.Encoder, tmp_path: Path) -> None:
    path = method.run(encoder, images(1)[0]).save(tmp_path / "run.safetensors")
    assert_read_or_told(path, answer)


def test_run__crafted_of_a_text(tmp_path: Path) -> None:
    encoder = cocoax.load(f"st:{save_bert(tmp_path / 'bert')}")
    path = cocoax.Rise(samples=20).run(encoder, "a big red dog").save(tmp_path / "run.safetensors")
    assert_read_or_told(path, answer)


def test_field_and_attribution__crafted(encoder: cocoax.Encoder, tmp_path: Path) -> None:
    run = METHODS[0].run(encoder, images(1)[0])
    path = run.field(grid=2, groups=2).save(tmp_path / "field.safetensors")
    assert_read_or_told(path, lambda file: cocoax.Field.load(file).explain(TARGET))
    path = run.explain(TARGET).save(tmp_path / "map.safetensors")
    assert_read_or_told(path, cocoax.Attribution.load)


def test_field_and_attribution__of_fewer_features_than_the_text_has_words(tmp_path: Path) -> None:
    run = cocoax.Rise(samples=20).run(cocoax.load(f"st:{save_bert(tmp_path / 'bert')}"), "a big red dog")
    for kind, thing in ((cocoax.Field, run.field()), (cocoax.Attribution, run.explain(TARGET))):
        path = thing.save(tmp_path / f"{kind.__name__}.safetensors")
        tensors, metadata = load_tensors(path)
        header = json.loads(metadata["cocoax"])
        one = {name: tensor[:, :1] if name.startswith("dev") else tensor[:1] for name, tensor in tensors.items()}
        kept = {
            name: one[name] if name.split("_")[0] in ("values", "deviations", "standard") else tensors[name] for name in one
        }
        write_safetensors(path, kept, header["kind"], {key: header[key] for key in header if key not in ("kind", "digest")})
        with pytest.raises(ValueError, match="names of 4 features and values of shape"):
            kind.load(path)


def test_reference__crafted(net: SmallNet, tmp_path: Path) -> None:
    reference = cocoax.Reference.from_representations(images(4, 1, 8, 1).flatten(1), weights=[1, 2, 3, 4])
    path = reference.save(tmp_path / "reference.safetensors")
    target = partial(cocoax.corpus_similarity, similarity="rbf")
    assert_read_or_told(path, lambda file: target(cocoax.Reference.load(file)))


@pytest.mark.parametrize("kind", ["run", "field", "attribution", "reference"])
def test_load__of_another_kind_cut_off_or_missing(kind: str, encoder: cocoax.Encoder, tmp_path: Path) -> None:
    run = METHODS[0].run(encoder, images(1)[0])
    things: dict[str, Any] = {"run": run, "field": run.field(), "attribution": run.explain(TARGET)}
    things["reference"] = encoder.reference(images(2))
    paths = {name: thing.save(tmp_path / f"{name}.safetensors") for name, thing in things.items()}
    for other, path in paths.items():
        if other != kind:
            with pytest.raises(ValueError, match=f"does not hold a Cocoax {kind}: it holds {other}"):
                type(things[kind]).load(path)
    paths[kind].write_bytes(paths[kind].read_bytes()[:-20])
    with pytest.raises(ValueError, match="it may be truncated"):
        type(things[kind]).load(paths[kind])
    with pytest.raises(FileNotFoundError, match=r"No file at .*missing"):
        type(things[kind]).load(tmp_path / "missing.safetensors")


@pytest.mark.parametrize("load", [cocoax.Run.load, cocoax.Field.load, cocoax.Attribution.load, cocoax.Reference.load])
def test_load__what_is_no_file_of_ours(load: Callable[[Path], object], tmp_path: Path) -> None:
    for content in (b"", b"\xff" * 8, b"\x02" + bytes(7) + b"{}", (2**63).to_bytes(8, "little") + b"{", bytes(1000)):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(ValueError, match=rf"{tmp_path}/file (is not a readable safetensors file|does not hold a Cocoax)"):
            load(tmp_path / "file")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)

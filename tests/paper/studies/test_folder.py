from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cocoax
from cocoax.encoders import Encoder
from cocoax.paper.studies.folder import Library, Results
from tests.conftest import SmallNet
from tests.paper.studies.tiny import TRAIN, coloured, small_encoder


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_results__are_read_as_written(tmp_path: Path) -> None:
    results = Results(tmp_path, {"runs": 2, "classes": (1, 2)})
    assert "123-0000" not in results
    results.write("123-0000", {"insertion": torch.arange(6.0).reshape(2, 3)}, {"rows": [{"method": "rise"}]})
    again = Results(tmp_path, {"runs": 2, "classes": [1, 2]})  # JSON knows lists only
    assert "123-0000" in again
    tensors, header = again.read("123-0000")
    assert torch.equal(tensors["insertion"], torch.arange(6.0).reshape(2, 3))
    assert header == {"rows": [{"method": "rise"}]}


@pytest.mark.parametrize("other", [{"runs": 3, "foil": 5}, {"runs": 2}, {"runs": 2, "foil": 5, "grid": 4}])
def test_results__of_other_options_are_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    Results(tmp_path, {"runs": 2, "foil": 5}).write("1-0000", {"a": torch.zeros(1)}, {})
    before = content(tmp_path)
    with pytest.raises(
        ValueError, match=r"holds results with other options: (runs was 2|foil was 5|grid was None), now it is"
    ):
        Results(tmp_path, other)
    assert content(tmp_path) == before


def test_results__damaged_options(tmp_path: Path) -> None:
    Results(tmp_path, {"runs": 2})
    (tmp_path / "options.json").write_text('{"runs": ')
    with pytest.raises(ValueError, match=r"options.json is damaged .*move the folder away"):
        Results(tmp_path, {"runs": 2})
    assert (tmp_path / "options.json").read_text() == '{"runs": '


def test_results__every_damaged_byte_of_the_options_is_seen(tmp_path: Path) -> None:
    Results(tmp_path, {"runs": 2, "name": "a"})
    path = tmp_path / "options.json"
    sound = path.read_bytes()
    for place in range(len(sound) - 1):  # the last is the end of the line
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        with pytest.raises(ValueError, match=r"options.json is damaged|holds results with other options"):
            Results(tmp_path, {"runs": 2, "name": "a"})


def test_results__options_from_before_there_were_digests(tmp_path: Path) -> None:
    (tmp_path / "options.json").write_text('{"runs": 2}')
    Results(tmp_path, {"runs": 2})
    with pytest.raises(ValueError, match="runs was 2, now it is 3"):
        Results(tmp_path, {"runs": 3})


def test_results__without_their_options(tmp_path: Path) -> None:
    Results(tmp_path, {"runs": 2}).write("1-0000", {"a": torch.zeros(1)}, {})
    (tmp_path / "options.json").unlink()
    with pytest.raises(ValueError, match=r"holds results but not the options.json"):
        Results(tmp_path, {"runs": 5})
    assert not (tmp_path / "options.json").exists()


@pytest.mark.parametrize("keep", [0, 5, 60, -1])
def test_results__truncated_unit(tmp_path: Path, keep: int) -> None:
    results = Results(tmp_path, {})
    results.write("1-0000", {"a": torch.zeros(100)}, {})
    path = results.path("1-0000")
    path.write_bytes(path.read_bytes()[:keep])
    before = content(tmp_path)
    with pytest.raises(ValueError, match=r"1-0000.safetensors is damaged .*delete this file and run the study again"):
        results.read("1-0000")
    assert content(tmp_path) == before


def test_results__unit_of_another_kind(tmp_path: Path) -> None:
    results = Results(tmp_path, {})
    cocoax.Reference.from_representations(torch.ones(2, 3)).save(results.path("1-0000"))
    with pytest.raises(ValueError, match=r"is damaged .*it holds reference"):
        results.read("1-0000")


def seen(encoder: Encoder) -> int:
    assert isinstance(encoder.module, SmallNet)
    return encoder.module.inputs


def test_library__references_equal_those_of_the_encoder(tmp_path: Path) -> None:
    encoder = small_encoder()
    numbers = np.array([7, 3, 11, 4])
    found = Library(encoder, TRAIN, tmp_path).reference(numbers, "some")
    expected = encoder.reference([TRAIN.images[number] for number in numbers], keep_samples=True)
    assert (found.count, found.name, found.space) == (4, "some", encoder.space)
    torch.testing.assert_close(found.samples, expected.samples, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.mean, expected.mean, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.mean_unit, expected.mean_unit, atol=1e-5, rtol=0)


def test_library__each_image_is_encoded_once(tmp_path: Path) -> None:
    encoder = small_encoder()
    encoder.represent(TRAIN.images[:2], progress=False)  # the first batch is checked for being deterministic
    library, start = Library(encoder, TRAIN, tmp_path), seen(encoder)
    library.reference(np.array([5, 2, 9]), "first")
    library.reference(np.array([9, 2, 14, 0]), "second")
    assert seen(encoder) - start == 5
    again = Library(encoder, TRAIN, tmp_path)  # another process
    reference = again.reference(np.array([14, 5]), "third")
    assert seen(encoder) - start == 5
    torch.testing.assert_close(reference.samples, library.reference(np.array([14, 5]), "third").samples, atol=0, rtol=0)


def test_library__encoders_have_files_of_their_own(tmp_path: Path) -> None:
    first, second = small_encoder(), cocoax.Encoder(SmallNet(seed=4).eval())
    for encoder in (first, second):
        found = Library(encoder, TRAIN, tmp_path).reference(np.array([1, 2]), "both")
        torch.testing.assert_close(found.samples, encoder.represent(TRAIN.images[1:3]), atol=1e-5, rtol=0)
    assert len(list(tmp_path.glob("representations-*"))) == 2


def test_library__damaged_or_of_other_data(tmp_path: Path) -> None:
    encoder = small_encoder()
    library = Library(encoder, TRAIN, tmp_path)
    library.encode(np.array([1, 2]))
    fewer = type(TRAIN)(TRAIN.images[:-1], TRAIN.labels[:-1], TRAIN.classes)
    as_many = coloured(8, 2)
    for other in (fewer, as_many):
        with pytest.raises(ValueError, match="is of another encoder or other data; move it away"):
            Library(encoder, other, tmp_path)
    whole = library.path.read_bytes()
    library.path.write_bytes(whole[:-5])
    with pytest.warns(UserWarning, match=rf"may be truncated. It was put aside as {library.path.name}.damaged"):
        again = Library(encoder, TRAIN, tmp_path)
    again.encode(np.array([1, 2]))
    assert library.path.read_bytes() == whole

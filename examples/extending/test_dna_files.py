from pathlib import Path

import pytest
import torch
from dna_files import DnaFiles

import cocoax


def encoder(longest: int = 1000) -> cocoax.Encoder:
    return cocoax.Encoder(lambda strands: strands.mean(2) + 0.1, inputs=DnaFiles(longest=longest), name="letters")


def test_folder__holds_many(tmp_path: Path) -> None:
    for name, letters in (("a", "ACGTAC"), ("b", "GGT")):
        (tmp_path / f"{name}.txt").write_text(letters)
    assert torch.equal(encoder().represent(tmp_path), encoder().represent(["ACGTAC", "GGT"]))
    assert len(cocoax.Occlusion().explain(encoder(), tmp_path, cocoax.representation_similarity())) == 2


def test_settings__what_is_read_tells_encoders_apart() -> None:
    assert encoder(longest=5).fingerprint == encoder(longest=5).fingerprint != encoder(longest=6).fingerprint


def test_digest__a_file_that_changed_is_encoded_again(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("ACG")
    before = encoder().reference([file])
    file.write_text("TTT")
    assert not torch.equal(encoder().reference([file]).mean, before.mean)


def test_files__a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ACG")
    with pytest.raises(FileNotFoundError, match=r"Input 1: No file at .*gone\.txt; check the path"):
        encoder().reference([tmp_path / "a.txt", tmp_path / "gone.txt"])

from pathlib import Path

import numpy as np
import pytest
import torch
from my_models import SmallNet
from torch import nn

import cocoax
from cocoax.data import photo
from cocoax.encoders import ENCODERS


def write(path: Path, without: str = "") -> str:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network, head = SmallNet(), nn.Linear(16, 4)
    weights = {**network.state_dict(), **{f"head.{key}": value for key, value in head.state_dict().items()}}
    torch.save({key: value for key, value in weights.items() if key != without}, path)
    return str(path)


def test_load__representations_are_those_of_the_network(tmp_path: Path) -> None:
    file = write(tmp_path / "net.pt")
    encoder = cocoax.load(f"smallnet:{file}")
    picture = photo("cat").convert("RGB").resize((32, 32), resample=2)
    pixels = torch.tensor(np.asarray(picture)).permute(2, 0, 1) / 255
    network = SmallNet()
    network.load_state_dict({key: value for key, value in torch.load(file).items() if not key.startswith("head.")})
    expected = network(((pixels - 0.5) / 0.25)[None]).detach()
    torch.testing.assert_close(encoder.represent(picture), expected, rtol=1e-5, atol=1e-6)
    assert encoder.name == "net"
    assert encoder.head is not None
    assert encoder.head(expected).shape == (1, 4)


def test_load__twice_is_the_same_encoder(tmp_path: Path) -> None:
    file = write(tmp_path / "net.pt")
    assert cocoax.load(f"smallnet:{file}").fingerprint == cocoax.load(f"smallnet:{file}").fingerprint


def test_load__weights_that_lack_something(tmp_path: Path) -> None:
    file = write(tmp_path / "net.pt", without="second.bias")
    with pytest.raises(ValueError, match=r"does not hold the weights of a SmallNet .*second\.bias"):
        cocoax.load(f"smallnet:{file}")


def test_load__no_file() -> None:
    with pytest.raises(FileNotFoundError, match=r"No file at nowhere\.pt; pass the path of a checkpoint"):
        cocoax.load("smallnet:nowhere.pt")
    with pytest.raises(ValueError, match="'smallnet:' does not say which encoder to load; write smallnet:FILE"):
        cocoax.load("smallnet:")


def test_known__nothing_is_missing() -> None:
    assert ENCODERS["smallnet:"].missing == []

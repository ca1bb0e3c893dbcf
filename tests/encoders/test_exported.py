"""ONNX Runtime must never change what an encoder says, whatever the module does."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cocoax
from cocoax.encoders import exported
from cocoax.encoders.exported import WORTHWHILE, for_many
from tests.encoders.test_folding import merging, plain

METHOD = cocoax.Rise(samples=WORTHWHILE, grid=4)
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True)
def worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The networks here are small, and are handed over all the same."""
    monkeypatch.setattr(exported, "LARGE", 1)


@pytest.fixture
def picture() -> Tensor:
    return torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(0))


def made(make: Any = plain) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def handed_over(encoder: cocoax.Encoder) -> bool:
    """Whether a session of ONNX Runtime has taken the place of the module."""
    folded = encoder._folded
    return folded is not None and folded[1] is not None and folded[1]._exported not in (None, folded[1])


def representations(encoder: cocoax.Encoder, picture: Tensor) -> Tensor:
    return METHOD.run(encoder, picture).representations


def by_torch(encoder: cocoax.Encoder, picture: Tensor) -> Tensor:
    """What torch gives, one masked picture after the other."""
    run = METHOD.run(encoder, picture)
    masked = run.baseline + run.masks.full(slice(None))[:, None] * (picture - run.baseline)
    return torch.cat([encoder.encode(each[None]) for each in masked])


@pytest.mark.parametrize("pooling", ["mean", "flatten", "first"])
@pytest.mark.parametrize("layer", [None, "1", "2", "4"])
def test_it_gives_what_torch_gives(pooling: Any, layer: str | None, picture: Tensor) -> None:
    encoder = cocoax.Encoder(made(), layer=layer, pooling=pooling)
    found = representations(encoder, picture)
    assert handed_over(encoder)
    torch.testing.assert_close(found, by_torch(encoder, picture), **CLOSE)


def test_a_method_of_a_module(picture: Tensor) -> None:
    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = plain()

        def encode_image(self, images: Tensor) -> Tensor:
            return self.layers(images).mean((2, 3))

    encoder = cocoax.Encoder(made(Towers).encode_image)
    found = representations(encoder, picture)
    assert handed_over(encoder)
    torch.testing.assert_close(found, by_torch(encoder, picture), **CLOSE)


def test_pictures_of_other_sizes_share_a_session(picture: Tensor) -> None:
    encoder = cocoax.Encoder(made())
    representations(encoder, picture)
    assert encoder._folded is not None
    first = encoder._folded[1]
    wide = torch.cat([picture, picture], 2)
    torch.testing.assert_close(representations(encoder, wide), by_torch(encoder, wide), **CLOSE)
    assert encoder._folded[1] is first
    assert handed_over(encoder)


class Fixed(nn.Module):
    """A network that looks at the size of its input, which a session would not."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = plain()

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.layers(images)
        return found.mean((2, 3)) * len(images.flatten(1)[0])


class Deciding(Fixed):
    """A network that decides by what it sees."""

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.layers(images)
        return found.mean((2, 3)) * (2.0 if float(images.mean()) > 0.5 else 1.0)


@pytest.mark.parametrize("make", [Fixed, Deciding])
def test_what_a_session_would_decide_for_good_stays_with_torch(make: type[nn.Module], picture: Tensor) -> None:
    encoder = cocoax.Encoder(made(make))
    found = representations(encoder, picture)
    assert not handed_over(encoder)
    assert encoder._folded is not None
    assert encoder._folded[1] is not None  # folded it is
    assert len(found) == WORTHWHILE


def test_a_session_that_refuses_leaves_it_to_torch(picture: Tensor) -> None:
    class Square(nn.Module):
        """As many features as there are pixels: the session cannot take other sizes, nor can the module."""

        def __init__(self) -> None:
            super().__init__()
            self.layers, self.last = plain(), nn.Linear(5 * 12 * 12, 4)

        def forward(self, images: Tensor) -> Tensor:
            found: Tensor = self.last(self.layers(images).flatten(1))
            return found

    encoder = cocoax.Encoder(made(Square))
    representations(encoder, picture)
    assert handed_over(encoder)
    with pytest.raises(RuntimeError, match="failed on a batch"):
        representations(encoder, torch.cat([picture, picture], 2))


def test_gradients_go_through_torch(picture: Tensor) -> None:
    encoder = cocoax.Encoder(made())
    representations(encoder, picture)
    assert encoder._folded is not None
    assert encoder._folded[1] is not None
    fast = for_many(encoder._folded[1], [picture, picture])
    images = torch.stack([picture, picture]).requires_grad_()
    (found,) = torch.autograd.grad(fast(images).square().sum(), images)
    (expected,) = torch.autograd.grad(encoder(images).square().sum(), images)
    torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("why", ["few", "small", "missing", "told", "half", "double"])
def test_where_it_is_not_worth_it_or_not_possible(why: str, picture: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "small":
        monkeypatch.setattr(exported, "LARGE", 10**9)
    elif why == "missing":
        monkeypatch.setattr(exported, "find_spec", lambda name: None if name == "onnxruntime" else name)
    elif why == "told":
        monkeypatch.setenv("COCOAX_ONNX", "0")
    module = made()
    encoder = cocoax.Encoder(module.double() if why == "double" else module.half() if why == "half" else module)
    samples = WORTHWHILE - 1 if why == "few" else WORTHWHILE
    cocoax.Rise(samples=samples, grid=4).run(encoder, picture)
    assert not handed_over(encoder)


def test_the_module_stays_as_it_is(picture: Tensor) -> None:
    module = made(merging)
    encoder = cocoax.Encoder(module.train(), pooling="flatten")
    before = copy.deepcopy(module.state_dict())
    representations(encoder, picture)
    assert handed_over(encoder)
    assert all(torch.equal(tensor, module.state_dict()[name]) for name, tensor in before.items())
    assert all(part.training for part in module.modules())


def test_new_weights_are_handed_over_anew(picture: Tensor) -> None:
    module = made()
    encoder = cocoax.Encoder(module)
    before = representations(encoder, picture)
    with torch.no_grad():
        module[3].weight *= 2
    after = representations(encoder, picture)
    assert handed_over(encoder)
    assert not torch.allclose(before, after, **CLOSE)
    torch.testing.assert_close(after, by_torch(encoder, picture), **CLOSE)


def test_a_session_that_gives_something_else_is_given_up(picture: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    right = exported._session

    class Wrong:
        """Twice what it should be."""

        def __init__(self, module: nn.Module, batch: Tensor) -> None:
            self.session = right(module, batch)

        def run(self, names: None, feed: dict[str, Any]) -> list[Any]:
            (found,) = self.session.run(names, feed)
            return [2 * found]

    monkeypatch.setattr(exported, "_session", Wrong)
    encoder = cocoax.Encoder(made())
    found = representations(encoder, picture)
    assert encoder._folded is not None
    assert encoder._folded[1] is None
    torch.testing.assert_close(found, by_torch(encoder, picture), **CLOSE)


def test_an_encoder_can_be_sent_elsewhere_afterwards(picture: Tensor) -> None:
    encoder = cocoax.Encoder(made(), name="small")
    found = representations(encoder, picture)
    assert handed_over(encoder)
    sent = pickle.loads(pickle.dumps(encoder))
    torch.testing.assert_close(representations(sent, picture), found, **CLOSE)
    assert handed_over(encoder)  # the one that stays keeps it


def test_the_starter_at_full_size() -> None:
    encoder = cocoax.load("starter").whole()
    picture = encoder.explicand(cocoax.data.photo("cat"))
    run = METHOD.run(encoder, picture)
    assert handed_over(encoder)
    rows = slice(0, 4)
    masked = run.baseline + run.masks.full(rows)[:, None] * (picture.tensor - run.baseline)
    torch.testing.assert_close(run.representations[rows], encoder.encode(masked), rtol=1e-4, atol=1e-7)

"""ONNX Runtime must never change what an encoder says, whatever the module does."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cocoax
from cocoax.encoders import fast_encoder
from cocoax.encoders.fast_encoder import FastEncoder
from tests.encoders.networks import merging, plain

METHOD = cocoax.Rise(samples=60, grid=4)
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True)
def worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The networks here are small, and are handed over all the same."""
    monkeypatch.setattr(fast_encoder, "_MIN_WEIGHTS", 1)


@pytest.fixture
def picture() -> Tensor:
    return torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(0))


def made(make: Any = plain) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def handed_over(encoder: cocoax.Encoder) -> bool:
    """Whether a session of ONNX Runtime has taken the place of the module."""
    copies = encoder._copies
    return copies is not None and copies.folded is not None and copies.folded.onnx is not None


class Watched:
    """A session that notes how many inputs it has taken, and may misbehave."""

    def __init__(self, session: Any, does: Callable[[Any], Any]) -> None:
        self.session, self.does, self.taken = session, does, 0

    def run(self, names: None, feed: dict[str, Any]) -> list[Any]:
        (found,) = self.session.run(names, feed)
        self.taken += len(found)
        return [self.does(found)]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Watched]]:
    """Let all sessions be watched ones; returns them as they are made."""

    def watch(does: Callable[[Any], Any] = lambda found: found) -> list[Watched]:
        sessions: list[Watched] = []
        right = fast_encoder._session

        def session(module: nn.Module, batch: Tensor) -> Watched:
            sessions.append(Watched(right(module, batch), does))
            return sessions[-1]

        monkeypatch.setattr(fast_encoder, "_session", session)
        return sessions

    return watch


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


def test_pictures_of_other_sizes_share_a_session(picture: Tensor, watched: Callable[..., list[Watched]]) -> None:
    sessions = watched()
    encoder = cocoax.Encoder(made())
    representations(encoder, picture)
    (session,) = sessions
    before = session.taken
    assert before >= len(METHOD.draw((16, 16)))
    wide = torch.cat([picture, picture], 2)
    torch.testing.assert_close(representations(encoder, wide), by_torch(encoder, wide), **CLOSE)
    assert sessions == [session]
    assert session.taken >= 2 * before  # not torch


class Deciding(nn.Module):
    """A network that decides by what it is given, in Python."""

    def __init__(self, decide: Callable[[Tensor], bool]) -> None:
        super().__init__()
        self.layers, self.decide = plain(), decide

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.layers(images)
        return found.mean((2, 3)) * (2.0 if self.decide(images) else 1.0)


def silently(images: Tensor) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(images.mean()) > 0.5


def carefully(images: Tensor) -> bool:
    try:
        return float(images.mean()) > 0.5
    except Exception:
        return False


@pytest.mark.parametrize(
    "decide",
    [
        lambda images: float(images.mean()) > 0.5,
        lambda images: bool((images > 2).any()),
        lambda images: torch.is_nonzero(images.mean() > 0.5),
        lambda images: torch.equal(images, images.round()),
        lambda images: images.mean((1, 2, 3)).tolist()[0] > 0.5,
        lambda images: bool(images.numpy().mean() > 0.5),
        lambda images: bool(np.asarray(images).mean() > 0.5),
        lambda images: bool(np.from_dlpack(images).mean() > 0.5),
        lambda images: torch.allclose(images, images.round()),
        lambda images: len(images.nonzero()) > 100,
        lambda images: images.masked_select(images > 0.5).nbytes > 100,
        silently,
        carefully,
    ],
)
def test_what_a_session_would_decide_for_good_stays_with_torch(
    decide: Callable[[Tensor], bool], picture: Tensor, recwarn: pytest.WarningsRecorder
) -> None:
    encoder = cocoax.Encoder(made(lambda: Deciding(decide)), name="deciding")
    fast = FastEncoder(encoder, [picture, picture], encoder.encode([picture, picture]))
    folded = fast.encoder
    assert folded is not encoder
    fast.use_onnx()
    assert fast.encoder is folded
    assert not [each for each in recwarn if issubclass(each.category, torch.jit.TracerWarning)]  # type: ignore[attr-defined]


class Sized(nn.Module):
    """A network that looks at the size of its input in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = plain()

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[1] != 3:
            raise ValueError("three channels")
        found: Tensor = self.layers(images)
        return found.mean((2, 3)) * (2.0 if int(images.shape[3]) > 20 else 1.0)


def test_what_depends_on_sizes_is_tried_on_each(picture: Tensor) -> None:
    encoder = cocoax.Encoder(made(Sized))
    torch.testing.assert_close(representations(encoder, picture), by_torch(encoder, picture), **CLOSE)
    assert handed_over(encoder)
    wide = torch.cat([picture, picture], 2)
    torch.testing.assert_close(representations(encoder, wide), by_torch(encoder, wide), **CLOSE)
    assert not handed_over(encoder)


def test_what_cannot_be_exported_is_not_talked_about(picture: Tensor, capfd: pytest.CaptureFixture[str]) -> None:
    encoder = cocoax.Encoder(made(lambda: nn.Sequential(plain(), nn.AdaptiveAvgPool2d(5))), pooling="flatten")
    found = representations(encoder, picture)
    assert not handed_over(encoder)
    torch.testing.assert_close(found, by_torch(encoder, picture), **CLOSE)
    assert capfd.readouterr() == ("", "")


def refusing(found: Any) -> Any:
    raise RuntimeError("of another shape")


@pytest.mark.parametrize("does", [refusing, lambda found: found[:-1], lambda found: 2 * found])
def test_a_session_that_is_wrong_leaves_it_to_torch(
    does: Callable[[Any], Any], picture: Tensor, watched: Callable[..., list[Watched]]
) -> None:
    sessions = watched(does)
    encoder = cocoax.Encoder(made())
    found = representations(encoder, picture)
    assert sessions[0].taken
    torch.testing.assert_close(found, by_torch(encoder, picture), **CLOSE)
    assert encoder._copies is not None
    assert encoder._copies.folded is not None  # folded it stays


def test_gradients_go_through_torch(picture: Tensor) -> None:
    encoder = cocoax.Encoder(made())
    representations(encoder, picture)
    assert encoder._copies is not None
    assert encoder._copies.folded is not None
    assert encoder._copies.folded.onnx is not None
    fast = encoder._copies.folded.onnx.encoder
    images = torch.stack([picture, picture]).requires_grad_()
    (found,) = torch.autograd.grad(fast(images).square().sum(), images)
    (expected,) = torch.autograd.grad(encoder(images).square().sum(), images)
    torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("why", ["small", "missing", "told", "half", "double", "autocast"])
def test_where_it_is_not_worth_it_or_not_possible(why: str, picture: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "small":
        monkeypatch.setattr(fast_encoder, "_MIN_WEIGHTS", 10**9)
    elif why == "missing":
        monkeypatch.setattr(fast_encoder, "find_spec", lambda name: None if name == "onnxruntime" else name)
    elif why == "told":
        monkeypatch.setenv("COCOAX_ONNX", "0")
    module = made()
    encoder = cocoax.Encoder(module.double() if why == "double" else module.half() if why == "half" else module)
    if why == "autocast":
        encoder._autocast = torch.float16
        assert fast_encoder._run_by_onnx(encoder, torch.stack([picture, picture])) is None
    else:
        METHOD.run(encoder, picture)
    assert not handed_over(encoder)


def test_several_encoders_at_once(picture: Tensor) -> None:
    encoders = [cocoax.Encoder(made(), name=f"number {number}") for number in range(4)]
    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda encoder: representations(encoder, picture), encoders))
    assert all(handed_over(encoder) for encoder in encoders)
    assert all(torch.equal(each, found[0]) for each in found)
    assert list(warnings.filters) == before


def test_old_sessions_go_when_weights_change(picture: Tensor, watched: Callable[..., list[Watched]]) -> None:
    sessions = watched()
    module = made()
    encoder = cocoax.Encoder(module)
    representations(encoder, picture)
    gone = weakref.ref(sessions.pop())
    gc.disable()
    try:
        with torch.no_grad():
            module[3].weight *= 2
        representations(encoder, picture)
        assert gone() is None  # at once, not when the garbage is collected
    finally:
        gc.enable()


def test_the_module_stays_as_it_is(picture: Tensor) -> None:
    module = made(merging)
    encoder = cocoax.Encoder(module.train(), pooling="flatten")
    before = copy.deepcopy(module.state_dict())
    representations(encoder, picture)
    assert handed_over(encoder)
    assert all(torch.equal(tensor, module.state_dict()[name]) for name, tensor in before.items())
    assert all(part.training for part in module.modules())


def test_an_encoder_can_be_sent_elsewhere_afterwards(picture: Tensor) -> None:
    encoder = cocoax.Encoder(made(), name="small")
    found = representations(encoder, picture)
    assert handed_over(encoder)
    sent = pickle.loads(pickle.dumps(encoder))
    torch.testing.assert_close(representations(sent, picture), found, **CLOSE)
    assert handed_over(encoder)  # the one that stays keeps it

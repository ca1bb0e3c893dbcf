"""Explicands: the shape of their features, and values of elements as values of features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import pytest
import torch

import cocoax
from cocoax import Explicand
from cocoax.inputs import Display, Names, Text
from tests.conftest import SmallNet, images
from tests.kinds import recording_encoder

TEXT = Explicand(torch.tensor([2, 7, 8, 9, 3]), Text("big violins", ((0, 3), (4, 11))), torch.tensor([-1, 0, 1, 1, -1]))


def test_shape__of_images_texts_and_rows() -> None:
    assert Explicand(torch.zeros(3, 4, 5)).shape == (4, 5)
    assert Explicand(torch.zeros(1, 3), Names(("a", "b", "c"))).shape == (3,)
    assert TEXT.shape == (2,)


def test_per_feature__channel_mean_of_an_image() -> None:
    raw = images(2)
    assert torch.equal(Explicand(raw[0]).per_feature(raw), raw.mean(1))


def test_per_feature__sum_over_the_embedding_and_the_tokens_of_a_word() -> None:
    raw = torch.randn(3, 2, 6, 5, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([raw[..., 1].sum(-1), raw[..., 2:4].sum((-1, -2))], dim=-1)
    torch.testing.assert_close(replace(TEXT, tensor=torch.zeros(6, 5)).per_feature(raw), expected)
    assert TEXT.per_feature(torch.ones(4, 5)).tolist() == [[1.0, 2.0]] * 4  # of token ids, which have no embedding


def test_per_feature__columns_are_themselves() -> None:
    raw = torch.randn(4, 1, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Explicand(torch.zeros(1, 3), Names(("a", "b", "c"))).per_feature(raw), raw[:, 0])


# Two channels of four steps: halves of each channel are features, the first step of the second channel is never removed.
OWN = Explicand(torch.arange(8.0).view(2, 4), Names(tuple("abcd")), torch.tensor([[0, 0, 1, 1], [-1, 2, 3, 3]]))


def test_shape__of_channels_with_features_of_their_own() -> None:
    assert OWN.shape == (4,)


def test_per_feature__of_channels_with_features_of_their_own() -> None:
    raw = torch.arange(16.0).view(2, 2, 4)
    assert OWN.per_feature(raw).tolist() == [[0 + 1, 2 + 3, 5, 6 + 7], [8 + 9, 10 + 11, 13, 14 + 15]]
    assert OWN.per_feature(raw[0]).tolist() == [1, 5, 5, 13]
    assert OWN.per_feature(raw.view(2, 1, 2, 4)).shape == (2, 1, 4)


def test_elements_kept__of_every_form_of_members() -> None:
    kept = torch.tensor([[1.0, 0.0, 0.5, 0.0]])
    assert OWN.elements_kept(kept).tolist() == [[[1.0, 1.0, 0.0, 0.0], [1.0, 0.5, 0.0, 0.0]]]
    assert TEXT.elements_kept(torch.tensor([[False, True]])).tolist() == [[True, False, True, True, True]]
    pixels = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Explicand(torch.zeros(3, 4, 5)).elements_kept(pixels), pixels[:, None])
    columns = Explicand(torch.zeros(2, 3), feature_ids=torch.tensor([0, 1, -1])).elements_kept(torch.tensor([[0.0, 1.0]]))
    assert columns.tolist() == [[[0.0, 1.0, 1.0]]]  # one row for both channels


@pytest.mark.parametrize(
    "members", [torch.zeros(3).long(), torch.zeros(4), torch.zeros(2, 2, 4).long(), torch.zeros(2, 1).int()]
)
def test_members__of_another_shape_or_no_integers(members: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"'feature_ids' must be integers in the shape \[2, 4\] of the tensor, or of"):
        Explicand(torch.zeros(2, 4), feature_ids=members)


@pytest.mark.parametrize("tensor", [torch.arange(5), torch.zeros(3, 2, 4, 4)])  # tokens, a video
def test_members__needed_where_places_are_no_map_or_list(tensor: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"An input of shape \[.*\] needs 'feature_ids', the feature of each"):
        Explicand(tensor)


def test_members__of_a_video_are_cells_of_time_and_space() -> None:
    cells = (torch.arange(2)[:, None, None] * 4 + torch.arange(4)[:, None] // 2 * 2 + torch.arange(4) // 2).expand(2, 4, 4)
    video = Explicand(torch.ones(3, 2, 4, 4), feature_ids=cells)
    assert video.shape == (8,)
    assert video.per_feature(torch.ones(3, 2, 4, 4)).tolist() == [12.0] * 8
    kept = cocoax.Constant(0.0).masked(video, torch.zeros(3, 2, 4, 4), torch.eye(8))
    assert kept.sum((1, 2, 3, 4)).tolist() == [12.0] * 8


def test_to__moves_all_of_it() -> None:
    meta = torch.device("meta")
    embedded = replace(TEXT, tensor=torch.zeros(6, 5), scale=torch.ones(5))
    moved = embedded.to(meta)
    assert moved.feature_ids is not None
    assert moved.scale is not None
    assert {part.device for part in (moved.tensor, moved.feature_ids, moved.scale)} == {meta}
    assert moved.display is embedded.display
    assert embedded.to(torch.device("cpu")) is embedded
    split = replace(OWN, tensor=OWN.tensor.to(meta))  # what a kind of a user's own may give
    assert split.to(meta).feature_ids.device == meta  # type: ignore[union-attr]


def test_at_rest__without_gradients_and_inference_mode() -> None:
    assert OWN.normalised() is OWN
    wanting = replace(OWN, tensor=OWN.tensor.clone().requires_grad_()).normalised()
    assert not wanting.tensor.requires_grad
    with torch.inference_mode():
        bound = Explicand(torch.ones(2, 4))
    assert bound.tensor.is_inference()
    assert not bound.normalised().tensor.is_inference()
    assert torch.equal(bound.normalised().tensor, torch.ones(2, 4))


def test_attributes__of_displays_can_be_read_here_too() -> None:
    assert (TEXT.text, TEXT.offsets, TEXT.names, TEXT.tokens) == (
        "big violins",
        ((0, 3), (4, 11)),
        ("big", "violins"),
        ("big", "violins"),
    )
    assert (TEXT.picture, TEXT.box) == (None, (0.0, 0.0, 1.0, 1.0))
    assert (OWN.text, OWN.offsets, Explicand(torch.zeros(3, 4, 5)).names) == (None, None, None)


def test_explicand__does_not_follow_what_happens_to_the_input_later() -> None:
    given = images(1)[0].clone()
    explicand = cocoax.Encoder(SmallNet()).explicand(given)
    before = explicand.tensor.clone()
    given.zero_()
    assert torch.equal(explicand.tensor, before)


MEMBERS = torch.tensor([[0, 0, 1, 1], [-1, 2, 3, 3]])
UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"feature_ids": MEMBERS.where(MEMBERS < 3, 6)}, r"from 0 without gaps\. They go up to 6, but 3 does not occur"),
    ({"feature_ids": MEMBERS * 0 - 1}, "All 'feature_ids' of the input are -1, so that there is nothing to remove"),
    ({"feature_ids": MEMBERS - 1}, "'feature_ids' are features from 0 on, and -1 for none. Got -2 too"),
    ({"display": Names(("a", "b"))}, "The display Names has 2 names for 4 features; 'names' must hold one for each"),
    ({"display": None}, "The display of an explicand must be a cocoax.inputs.Display. Got NoneType"),
    ({"scale": torch.ones(3)}, r"'scale' must be of a shape that multiplies .* \[2, 4\]\. Got \[3\] instead"),
    ({"scale": torch.ones(2, 2, 4)}, r"Got \[2, 2, 4\] instead"),
]


class Nameless(Display):
    """A display that nobody gave a kind."""

    def view(self, effects: Any) -> Any:
        raise NotImplementedError

    def saved(self) -> Any:
        return {}, {}

    @classmethod
    def restored(cls, tensors: Any, header: Any) -> Self:
        return cls()


UNFIT.append(({"display": Nameless()}, "Nameless needs a 'kind', the name that files know the display by"))


@pytest.mark.parametrize(("parts", "sentence"), UNFIT)
def test_check__parts_that_do_not_fit_together(parts: dict[str, Any], sentence: str) -> None:
    explicand = replace(OWN, **parts)
    OWN.check()
    TEXT.check()
    Explicand(torch.zeros(3, 4, 5)).check()
    replace(OWN, scale=torch.ones(2, 1)).check()
    with pytest.raises((ValueError, TypeError), match=sentence):
        explicand.check()
    with pytest.raises((ValueError, TypeError), match=sentence):
        recording_encoder().explicand(explicand)


def test_at_rest__in_single_precision() -> None:
    for dtype in (torch.float64, torch.float16):
        rested = replace(OWN, tensor=OWN.tensor.to(dtype)).normalised()
        assert torch.equal(rested.tensor, OWN.tensor)
        assert rested.feature_ids is OWN.feature_ids
    assert TEXT.normalised().tensor is TEXT.tensor  # token ids

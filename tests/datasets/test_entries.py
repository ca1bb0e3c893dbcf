from __future__ import annotations

import struct

import pytest
import torch

import cocoax
from cocoax.attribution.field import feature_vectors
from cocoax.datasets import Index
from cocoax.datasets.entries import Maker, Making, content_digest, linear_similarity
from cocoax.datasets.items import Item
from cocoax.datasets.plans import seeded
from tests.datasets import photos
from tests.datasets.photos import dawn_rather_than_dusk


def maker(method: cocoax.Rise = photos.METHOD, similarity: str = "cosine") -> Maker:
    encoder = photos.encoder()
    return Maker(encoder, Making(method, similarity), encoder.space)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_make__is_what_a_run_of_the_input_gives(similarity: str) -> None:
    own, image = maker(similarity=similarity), photos.pixels("dawn", 1)
    (entry,) = own.make([own.read(Item("a", image, {"year": 3}))])
    run = seeded(photos.METHOD, "a").run(own.encoder, image)
    vectors, ends = feature_vectors(run.representations, run.ends, linear_similarity(similarity))
    masks = run.method.cells(run.masks, (4, 4))
    expected = run.method.effects(masks, vectors, ends).values.movedim(0, -1)
    assert entry.field is not None
    assert torch.allclose(entry.field, expected.float(), atol=1e-5 * float(expected.abs().max()))
    assert entry.representation is not None
    assert torch.allclose(entry.representation, run.ends[0].float(), atol=1e-6)
    assert entry.columns == {"year": 3}


def test_noise__the_error_of_a_map_is_that_over_seeds(index: Index) -> None:
    """The spread of a map over many seeds of its masks, against the error that an entry tells, both over all cells."""
    own, image = maker(), photos.pixels("dawn", 1)
    direction = dawn_rather_than_dusk(index).direction().float()
    entries = list(own.make([own.read(Item(str(seed), image)) for seed in range(400)]))
    maps = torch.stack([entry.field @ direction for entry in entries if entry.field is not None])
    told = (
        torch.stack([(entry.noise @ direction).square().mean() for entry in entries if entry.noise is not None]).mean().sqrt()
    )
    assert float(told) == pytest.approx(float(maps.var(0).mean().sqrt()), rel=0.12)


@pytest.mark.parametrize("error", [struct.error("unpack"), EOFError("early"), AssertionError("never"), KeyError("x")])
def test_make__whatever_goes_wrong_with_one_is_its_entry(error: Exception) -> None:
    own = maker()

    class Bad(Item):
        def load(self) -> object:
            raise error

    entries = list(own.make(own.read_all([Bad("bad", None), Item("good", photos.pixels("dusk", 1))])))
    assert entries[0].error == f"{type(error).__name__}: {error}"
    assert entries[0].field is None
    assert entries[1].error is None
    assert content_digest(own.encoder, Bad("bad", None)) == ""


def test_make__one_that_is_not_finite_does_not_spoil_those_encoded_with_it() -> None:
    own, images = maker(), [photos.pixels("dawn", seed) for seed in range(3)]
    alone = [next(iter(own.make([own.read(Item(str(n), image))]))) for n, image in enumerate(images)]
    bad = torch.full((3, 16, 16), torch.nan)
    items = [Item("0", images[0]), Item("bad", bad), Item("1", images[1]), Item("2", images[2])]
    together = list(own.make(own.read_all(items)))
    assert [entry.error is None for entry in together] == [True, False, True, True]
    for entry, expected in zip([together[0], *together[2:]], alone, strict=True):
        assert entry.field is not None
        assert expected.field is not None
        assert torch.allclose(entry.field, expected.field, atol=1e-6)


def test_maker__another_encoder_than_where_the_index_was_begun() -> None:
    with pytest.raises(ValueError, match="The encoder 'halves' is another one here than where the index was begun"):
        Maker(photos.encoder(), Making(photos.METHOD), "another space")


def test_linear_similarity__kernels_have_no_fields() -> None:
    with pytest.raises(ValueError, match=r"a dot product, cosine or dot\. Got rbf instead"):
        linear_similarity("rbf")

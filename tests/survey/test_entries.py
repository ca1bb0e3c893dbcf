from __future__ import annotations

import io
import struct

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import cocoax
from cocoax.methods.field import feature_vectors
from cocoax.survey import Index
from cocoax.survey.entries import Maker, Making, content_digest, linear_similarity
from cocoax.survey.items import Item
from cocoax.survey.plans import seeded
from tests.survey import photos
from tests.survey.photos import dawn_rather_than_dusk


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
    expected = run.method.effects(masks, vectors, ends).movedim(0, -1)
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


def test_read__pictures_in_tables_are_read_as_files_are() -> None:
    """With the checks of files: known formats, and sizes that are known before anything is decoded."""
    own, file = maker(), io.BytesIO()
    Image.fromarray(photos.pixels("dawn", 3)).save(file, "PNG")
    (entry,) = own.make([own.read(Item("a", file.getvalue()))])
    (expected,) = own.make([own.read(Item("a", photos.pixels("dawn", 3)))])
    assert entry.field is not None
    assert torch.equal(entry.field, expected.field)  # type: ignore[arg-type]
    huge = b"P6 20000 20000 255\n"
    for content, why in (
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "What the table holds is not an image"),
        (huge, "has too many pixels"),
    ):
        (entry,) = own.make([own.read(Item("a", content))])
        assert why in str(entry.error)
    assert content_digest(own.encoder, Item("a", huge)) == entry.digest


def test_read__an_input_that_is_too_large_is_refused_by_its_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its bytes being read, which takes twenty seconds for these."""
    own = maker()
    monkeypatch.setattr(type(own.encoder.inputs), "digest", lambda *_: pytest.fail("its bytes were read"))
    item = Item("a", torch.zeros(1).expand(3, 20_000, 20_000))
    assert "The input has 1200000000 elements" in str(own.read(item).prepared)
    assert content_digest(own.encoder, item) == ""


class Normed(nn.Module):
    """A convolution with batch normalisation, which can be folded into it; of bright inputs the folded copy is wrong."""

    def __init__(self, limit: float = 1e9) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.conv, self.norm = nn.Conv2d(3, 5, 3, bias=False), nn.BatchNorm2d(5)
        self.limit = limit
        with torch.no_grad():
            self.norm.bias.fill_(0.5)

    def forward(self, images: Tensor) -> Tensor:
        made = self.norm(self.conv(images)).tanh().mean((2, 3))
        wrong = isinstance(self.norm, nn.Identity)  # only a folded copy has none
        return torch.where((images.mean((1, 2, 3)) > self.limit)[:, None] & wrong, -made, made)


def test_make__a_folded_encoder_is_tried_on_every_input() -> None:
    """Masked copies of a bright picture are spoilt by the fold, and those of the dark ones before it are not."""
    dark, bright = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1)).unbind()
    items = [
        Item("dark", 0.1 * dark),
        Item("other", 0.1 * dark.flip(0)),
        Item("bright", bright + 1),
        Item("last", 0.1 * dark),
    ]
    encoder = photos.encoder(Normed(limit=0.5))
    own = Maker(encoder, Making(photos.METHOD), encoder.space)
    own.begin()
    entries = list(own.make(own.read_all(items)))
    assert any(isinstance(fast.encoder.owner.norm, nn.Identity) for fast in own._fast.values())  # type: ignore[union-attr]
    for item, entry in zip(items, entries, strict=True):
        run = seeded(photos.METHOD, item.id).run(photos.encoder(Normed()), item.value)
        vectors, ends = feature_vectors(run.representations, run.ends, linear_similarity("cosine"))
        expected = run.method.effects(run.method.cells(run.masks, (4, 4)), vectors, ends).movedim(0, -1)
        assert entry.field is not None
        assert torch.allclose(entry.field, expected.float(), atol=1e-4 * float(expected.abs().max()))


def test_make__dropped_tokens_of_pictures_of_several_shapes() -> None:
    encoder = cocoax.Encoder(Patchwork().eval(), name="patchwork")
    method = cocoax.Rise(samples=30, grid=2, baseline=cocoax.DropTokens())
    own = Maker(encoder, Making(method), encoder.space)
    generator = torch.Generator().manual_seed(0)
    items = [Item(str(n), torch.randn(3, 8, width, generator=generator)) for n, width in enumerate((8, 16, 8, 24))]
    own.begin()
    for item, entry in zip(items, own.make(own.read_all(items)), strict=True):
        run = seeded(method, item.id).run(encoder, item.value)
        vectors, ends = feature_vectors(run.representations, run.ends, linear_similarity("cosine"))
        expected = run.method.effects(run.masks, vectors, ends)  # [d, cells]
        assert entry.error is None
        assert entry.field is not None
        torch.testing.assert_close(entry.field.flatten(0, -2), expected.flatten(1).T.float(), rtol=1e-3, atol=1e-5)


class Patchwork(nn.Module):
    """A vision transformer of pictures of any width: patches of 4 x 4 with places, a class token."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.embed = nn.Conv2d(3, 8, 4, 4)
            self.first = nn.Parameter(torch.randn(1, 1, 8))
            self.places = nn.Parameter(torch.randn(8, 2, 6))
            self.blocks = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True))

    def forward(self, images: Tensor) -> Tensor:
        patches = self.embed(images)
        patches = (patches + self.places[:, :, : patches.shape[3]]).flatten(2).mT
        made: Tensor = self.blocks(torch.cat([self.first.expand(len(images), -1, -1), patches], 1))[:, 0]
        return made


def test_maker__another_encoder_than_where_the_index_was_begun() -> None:
    with pytest.raises(ValueError, match="The encoder 'halves' is another one here than where the index was begun"):
        Maker(photos.encoder(), Making(photos.METHOD), "another space")


def test_linear_similarity__kernels_have_no_fields() -> None:
    with pytest.raises(ValueError, match=r"a dot product, cosine or dot\. Got rbf instead"):
        linear_similarity("rbf")

"""Vision transformers with tokens left out, against forward passes that are written out with a shorter sequence."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import cocoax
from cocoax.encoders.families.torchvision import import_library
from cocoax.encoders.patches import patches_of, without_patches
from tests.encoders.families import tiny

Shorten = Callable[[Any, Tensor, Tensor], Tensor]
KEPT = torch.tensor([1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0]).bool()  # of 4 x 4 patches


def shorten(tokens: Tensor, kept: Tensor) -> Tensor:
    """Return the tokens ``[1, before + patches, d]`` without those of removed patches."""
    before = tokens.shape[1] - len(kept)
    return torch.cat([tokens[:, :before], tokens[:, before:][:, kept]], dim=1)


def vit(model: Any, image: Tensor, kept: Tensor) -> Tensor:
    hidden = shorten(model.embeddings(image), kept)
    for layer in model.layers:
        hidden = layer(hidden)
    return model.layernorm(hidden)[:, 0]


def dinov2(model: Any, image: Tensor, kept: Tensor) -> Tensor:
    hidden = shorten(model.embeddings(image), kept)
    for layer in model.encoder.layer:
        hidden = layer(hidden)
    return model.layernorm(hidden)[:, 0]


def clip_vision(model: Any, image: Tensor, kept: Tensor) -> Tensor:
    vision = getattr(model, "vision_model", model)
    hidden = vision.pre_layrnorm(shorten(vision.embeddings(image), kept))
    for layer in vision.encoder.layers:
        hidden = layer(hidden, None)
    return vision.post_layernorm(hidden[:, 0])


def clip(model: Any, image: Tensor, kept: Tensor) -> Tensor:
    return model.visual_projection(clip_vision(model, image, kept))


def siglip(model: Any, image: Tensor, kept: Tensor) -> Tensor:
    vision = getattr(model, "vision_model", model)
    hidden = shorten(vision.embeddings(image), kept)
    for layer in vision.encoder.layers:
        hidden = layer(hidden, None)
    return vision.head(vision.post_layernorm(hidden))


REGISTERS = tiny.vision("Dinov2WithRegisters", tiny.BIT, num_register_tokens=3, **tiny.IMAGE)
FAMILIES: dict[str, tuple[str, Callable[[Path], Path], Shorten]] = {
    "vit": ("hf", tiny.VISION["vit"], vit),
    "deit": ("hf", tiny.VISION["deit"], vit),
    "dinov2": ("hf", tiny.VISION["dinov2"], dinov2),
    "dinov2_with_registers": ("hf", REGISTERS, dinov2),
    "clip": ("clip", tiny.DUAL["clip"], clip),
    "clip_vision": ("hf", tiny.VISION["clip_vision"], clip_vision),
    "siglip": ("clip", tiny.DUAL["siglip"], siglip),
    "siglip_vision": ("hf", tiny.VISION["siglip_vision"], siglip),
}


def picture(side: int = 24, seed: int = 0) -> Tensor:
    return torch.randn(3, side, side, generator=torch.Generator().manual_seed(seed))


def over_mask(image: Tensor, kept: Tensor) -> Tensor:
    """Return a picture over the pixels of the kept ones of 4 x 4 patches, ``[4, H, W]``."""
    size = image.shape[1] // 4
    pixels = kept.view(4, 4).float().repeat_interleave(size, 0).repeat_interleave(size, 1)
    return torch.cat([image, pixels[None]])


def check(encoder: cocoax.Encoder, image: Tensor, expected: Callable[[Tensor], Tensor]) -> None:
    """Compare an encoder without some patches with a shortened forward pass, in ragged batches too."""
    patches = patches_of(encoder, image)
    assert patches.grid == (4, 4)
    fewer = without_patches(encoder, patches)
    masks = [KEPT, ~KEPT, KEPT.roll(3), torch.ones(16).bool(), torch.arange(16) == 5]
    with torch.no_grad():
        slow = torch.cat([expected(kept) for kept in masks])
    torch.testing.assert_close(fewer.encode([over_mask(image, kept) for kept in masks]), slow, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(fewer.encode([image]), encoder.encode([image]))
    for kept in masks[:2]:  # and it is no small thing which ones are left
        assert float((encoder.encode([image])[0] - fewer.encode([over_mask(image, kept)])[0]).abs().max()) > 1e-2


@pytest.mark.parametrize("family", FAMILIES)
def test_without_patches__is_a_shorter_forward_pass(family: str, tmp_path: Path) -> None:
    prefix, make, shortened = FAMILIES[family]
    with tiny.making():
        make(tmp_path / family)
    encoder = cocoax.load(f"{prefix}:{tmp_path / family}")
    model, image = encoder.module.model, picture()  # type: ignore[attr-defined]
    check(encoder, image, lambda kept: shortened(model, image[None], kept))


@pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")
@pytest.mark.parametrize(
    "options",
    [{}, {"reg_tokens": 2}, {"class_token": False, "global_pool": "avg"}, {"global_pool": "map"}],
    ids=["class", "registers", "mean", "attention"],
)
def test_without_patches__timm(options: dict[str, Any], tmp_path: Path) -> None:
    timm = import_library("timm")
    size = {"img_size": 24, "patch_size": 6, "embed_dim": 16, "depth": 2, "num_heads": 2, "pre_norm": True, **options}
    with tiny.making():
        model = tiny.lively(timm.create_model("vit_tiny_patch16_224", **size))
    model.pretrained_cfg |= {"input_size": (3, 24, 24)}
    timm.models.save_for_hf(model, tmp_path / "vit", model_args=size)
    encoder = cocoax.load(f"timm:{tmp_path / 'vit'}")
    body, image = encoder.module.model, picture()  # type: ignore[attr-defined]

    def shortened(kept: Tensor) -> Tensor:
        tokens = body._pos_embed(body.patch_embed(image[None]))
        hidden = body.norm_pre(shorten(tokens, kept))
        for block in body.blocks:
            hidden = block(hidden)
        return body.forward_head(body.norm(hidden))

    check(encoder, image, shortened)


def test_without_patches__a_layer_inside(tmp_path: Path) -> None:
    with tiny.making():
        tiny.VISION["vit"](tmp_path / "vit")
    encoder = cocoax.load(f"hf:{tmp_path / 'vit'}", layer="layers.0", pooling="mean")
    model, image = encoder.module.model, picture()  # type: ignore[attr-defined]
    check(encoder, image, lambda kept: model.layers[0](shorten(model.embeddings(image[None]), kept)).mean(1))


def test_without_patches__nothing_left(tmp_path: Path) -> None:
    nothing, image = torch.zeros(16).bool(), picture()
    with tiny.making():
        for name in ("vit", "siglip_vision"):
            tiny.VISION[name](tmp_path / name)
    for name in ("vit", "siglip_vision"):
        encoder = cocoax.load(f"hf:{tmp_path / name}")
        patches = patches_of(encoder, image)
        empty = without_patches(encoder, patches).encode([over_mask(image, nothing), over_mask(image, KEPT)])[0]
        if name == "vit":  # the class token is left, whatever the picture
            with torch.no_grad():
                expected = vit(encoder.module.model, image[None], nothing)[0]  # type: ignore[attr-defined]
        else:
            assert patches.before == 0
            expected = encoder.encode([torch.zeros_like(image)])[0]
        torch.testing.assert_close(empty, expected)


def test_without_patches__leaves_the_module_alone(tmp_path: Path) -> None:
    with tiny.making():
        tiny.VISION["vit"](tmp_path / "vit")
    encoder, image = cocoax.load(f"hf:{tmp_path / 'vit'}"), picture()
    before, own = encoder.space, encoder.encode([image])
    fewer = without_patches(encoder, patches_of(encoder, image))
    fewer.encode([over_mask(image, KEPT)])
    assert encoder.space == fewer.space == before
    assert not any(part._forward_pre_hooks or part._forward_hooks for part in encoder.owner.modules())  # type: ignore[union-attr]
    torch.testing.assert_close(encoder.encode([image]), own, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "why"),
    [("swin", "does not treat its tokens as a set"), ("convnext", "has 4 convolutions"), ("resnet", "has 8 convolutions")],
)
def test_patches_of__none(name: str, why: str, tmp_path: Path) -> None:
    with tiny.making():
        tiny.VISION[name](tmp_path / name)
    with pytest.raises(ValueError, match=rf"DropTokens .* vision transformer, but {name!r} {why}.*cocoax\.Blur"):
        patches_of(cocoax.load(f"hf:{tmp_path / name}"), picture(32))


def test_patches_of__no_module() -> None:
    encoder = cocoax.Encoder(lambda batch: batch.flatten(1), name="flat")
    with pytest.raises(ValueError, match="'flat' is a function, whose layers cannot be seen"):
        patches_of(encoder, picture())


class Patchy(nn.Module):
    """A small transformer of my own: patches, places, one block; the mean or all of the tokens."""

    def __init__(self, blocks: bool = True) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.embed = nn.Conv2d(3, 8, 6, 6)
            self.places = nn.Parameter(torch.randn(16, 8))
            block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.blocks = nn.ModuleList([block]) if blocks else block

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.embed(images).flatten(2).mT + self.places
        for block in self.blocks if isinstance(self.blocks, nn.ModuleList) else [self.blocks]:
            tokens = block(tokens)
        return tokens


def test_patches_of__all_tokens_as_the_representation() -> None:
    assert patches_of(cocoax.Encoder(Patchy(), pooling="mean"), picture()).before == 0
    with pytest.raises(ValueError, match=r"depend on where a token stands .*pooling='flatten'"):
        patches_of(cocoax.Encoder(Patchy(), pooling="flatten"), picture())


class Nearby(nn.Module):
    """A block whose attention has a bias that depends on where two tokens stand."""

    def __init__(self, bias: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.bias = bias
        self.queries = nn.Linear(8, 24)
        self.after = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1])
        bias = self.bias(places[:, None], places[None]).float()
        tokens = tokens + F.scaled_dot_product_attention(*self.queries(tokens).chunk(3, dim=-1), attn_mask=bias)
        return tokens + F.gelu(self.after(tokens))


BIASES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "none": lambda a, b: 0 * (a + b),
    "windows": lambda a, b: torch.where(a // 4 == b // 4, 0.0, -torch.inf),
    "distances": lambda a, b: -(a - b).abs(),
}


@pytest.mark.parametrize("bias", BIASES)
def test_patches_of__what_survives_turning_the_picture_around(bias: str) -> None:
    network = Patchy()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network.blocks = nn.ModuleList([Nearby(BIASES[bias]) for _ in range(2)])
    encoder = cocoax.Encoder(network, pooling="mean", name=bias)
    if bias == "none":
        assert patches_of(encoder, picture()).grid == (4, 4)
        return
    with pytest.raises(ValueError, match=rf"DropTokens .* but {bias!r} does not treat its tokens as a set.*cocoax\.Blur"):
        patches_of(encoder, picture())

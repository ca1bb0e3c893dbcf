"""What encoders of all families have in common, whether they are loaded by name or wrapped around a model in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from PIL import Image
from sentence_transformers import SentenceTransformer
from torch import nn

import cocoax
from cocoax import Encoder, TextEncoder
from cocoax.data import photo
from cocoax.encoders.families.torchvision import import_library
from cocoax.spaces import same_space
from tests.encoders.families import tiny
from tests.tiny import TEXTS, save_bert, save_gpt2, save_t5

PIL = {"backend": "pil"} if int(transformers.__version__.split(".")[0]) >= 5 else {"use_fast": False}
CAPTIONS = ["a cat", "dog", "the fox jumps"]


class Processor:
    """What ``AutoProcessor`` gives where torchvision can be imported: an image processor and a tokenizer in one."""

    def __init__(self, folder: Path) -> None:
        self.image_processor = image_processor(folder)
        self.tokenizer = tokenizer(folder)
        self.model_input_names = ["input_ids", "attention_mask", "pixel_values"]


def image_processor(folder: Path) -> Any:
    return transformers.AutoImageProcessor.from_pretrained(folder, **PIL)


def tokenizer(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder)


def with_processor(processor: Callable[[Path], Any], kind: str = "AutoModel") -> Callable[[Path], tuple[Any, ...]]:
    return lambda folder: (getattr(transformers, kind).from_pretrained(folder), processor(folder), {})


def make_timm(folder: Path, name: str) -> Path:
    timm = import_library("timm")
    timm.models.save_for_hf(tiny.lively(timm.create_model(name, num_classes=7)), folder, model_args={"num_classes": 7})
    return folder


def held_timm(folder: Path) -> tuple[Any, ...]:
    return import_library("timm").create_model(f"local-dir:{folder}", pretrained=True), None, {"name": folder.name}


def held_open_clip(folder: Path) -> tuple[Any, ...]:
    library = import_library("open_clip")
    model = library.create_model(f"local-dir:{folder}")
    return model, None, {"tokenizer": library.get_tokenizer(f"local-dir:{folder}"), "name": folder.name}


@dataclass(frozen=True)
class Family:
    """How a model is written to a folder, and what a user holds of it: the model, its processor, options of ``wrap``."""

    prefix: str
    make: Callable[[Path], Path]
    held: Callable[[Path], tuple[Any, ...]]


OWN_TOKENS = {"hf_tokenizer_name": "in the folder", "vocab_size": 64, "pool_type": "last"}
IMAGES = {
    name: Family(
        "hf", make, with_processor(image_processor, "AutoModelForImageClassification" if "class" in name else "AutoModel")
    )
    for name, make in tiny.VISION.items()
} | {
    name: Family("timm", lambda folder, name=name: make_timm(folder, name), held_timm)  # type: ignore[misc]
    for name in ("test_resnet", "test_vit", "test_convnext")
    if find_spec("timm")
}
DUAL = {name: Family("clip", make, with_processor(Processor)) for name, make in tiny.DUAL.items()} | {
    name: Family(
        "open_clip",
        lambda folder, text=text: tiny.open_clip(folder, import_library("open_clip"), {}, text),  # type: ignore[misc]
        held_open_clip,
    )
    for name, text in (("open_clip", {}), ("open_clip_tokenizer", OWN_TOKENS))
    if find_spec("open_clip")
}
TEXT = {
    name: Family("hf", make, with_processor(tokenizer))
    for name, make in {"bert": save_bert, "bert_with_pooler": tiny.bert, "gpt2": save_gpt2, "t5": save_t5}.items()
} | {
    "sentences": Family(
        "st",
        lambda folder: tiny.sentences(folder, save_bert(folder.parent / "transformer")),
        lambda folder: (SentenceTransformer(str(folder), device="cpu"), None, {}),
    )
}
FAMILIES = IMAGES | DUAL | TEXT
TOWERS = {name: FAMILIES[name] for name in (*DUAL, *TEXT)}


class Models:
    """Folders of all families, each made when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, name: str) -> Path:
        folder = self.root / name / name
        if not folder.exists():
            folder.parent.mkdir()
            with tiny.making():
                FAMILIES[name].make(folder)
        return folder

    def load(self, name: str) -> Encoder:
        return cocoax.load(f"{FAMILIES[name].prefix}:{self.folder(name)}")

    def held(self, name: str) -> tuple[Any, ...]:
        with tiny.making():
            return FAMILIES[name].held(self.folder(name))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="module")
def pictures() -> list[Image.Image]:
    return [photo("cat").resize((90, 61)), photo("coffee").resize((52, 80))]


def state_of(model: nn.Module) -> tuple[Any, ...]:
    """Everything about a model that wrapping might change."""
    modes = [(name, part.training) for name, part in model.named_modules()]
    return modes, {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("family", FAMILIES)
def test_wrap__is_the_loaded_encoder_around_an_untouched_model(
    family: str, models: Models, pictures: list[Image.Image]
) -> None:
    model, processor, options = models.held(family)
    model.train()
    (modes, weights), random = state_of(model), torch.random.get_rng_state()
    wrapped, loaded, again = cocoax.wrap(model, processor, **options), models.load(family), models.load(family)
    inputs: list[Any] = TEXTS if family in TEXT else pictures
    found = wrapped.represent(inputs)
    assert torch.equal(found, loaded.represent(inputs))
    assert float(found.std(0).mean()) > 1e-3
    assert wrapped.fingerprint == loaded.fingerprint == again.fingerprint
    assert same_space(loaded.space, again.space)
    assert wrapped.name == loaded.name == family
    assert (wrapped.head is None) == (loaded.head is None)
    if family in IMAGES:
        assert wrapped.preprocess == loaded.preprocess
    if family in DUAL:
        assert torch.equal(wrapped.text.represent(CAPTIONS), loaded.text.represent(CAPTIONS))
        assert wrapped.text.fingerprint == loaded.text.fingerprint
        assert same_space(wrapped.space, loaded.text.space)
    after = state_of(model)
    assert after[0] == modes
    assert all(torch.equal(tensor, weights[name]) for name, tensor in after[1].items())
    assert torch.equal(torch.random.get_rng_state(), random)
    noisy = (nn.Dropout, nn.modules.batchnorm._BatchNorm)
    assert not any(part.training for part in loaded.owner.modules() if isinstance(part, noisy))  # type: ignore[union-attr]
    assert loaded.precision == torch.float32


@pytest.mark.parametrize("family", ["vit", "dinov2", "resnet", "convnext", "swin", "clip", "siglip2", "align"])
def test_gradients__integrate_to_the_difference_in_score(family: str, models: Models, pictures: list[Image.Image]) -> None:
    encoder = models.load(family).cropped()
    target = cocoax.similarity_to(encoder.reference(pictures[1]))
    prepared = encoder.prepare(pictures[0])
    result = cocoax.IntegratedGradients(steps=100, baseline=cocoax.Constant(0.0)).explain(encoder, pictures[0], target)
    scores = target.score(encoder.represent([prepared, torch.zeros_like(prepared)]))
    assert float(3 * result.values.sum()) == pytest.approx(float(scores[0] - scores[1]), abs=5e-3)  # a mean over channels
    assert float(3 * result.values.abs().sum()) > 0.05
    assert result.values.shape == prepared.shape[1:]


# SigLIP's own tokenizer does not say where its tokens stand; those of OpenCLIP neither.
@pytest.mark.parametrize("family", [family for family in TOWERS if family != "siglip" and "open_clip" not in family])
def test_gradients_of_texts__integrate_to_the_difference_in_score(family: str, models: Models) -> None:
    """The embeddings are those of the text tower, and where the tower fills texts up, the filling stays what it is."""
    text = models.load(family).text
    target = cocoax.similarity_to(text.reference(["a cat"]))
    result = cocoax.IntegratedGradients(steps=200, baseline=cocoax.Constant(0.0)).explain(text, "the dog", target)
    assert result.tokens == ("the", "dog")
    assert result.score == pytest.approx(float(target.score(text.represent("the dog"))), abs=1e-5)
    assert abs(result.score - result.baseline_score) > 1e-4
    tolerance = 0.02 if family == "t5" else 5e-3  # its scores turn sharply on the way
    assert float(result.values.sum()) == pytest.approx(result.score - result.baseline_score, abs=tolerance)


@pytest.mark.parametrize("family", TOWERS)
def test_texts__do_not_depend_on_the_batch_and_end_at_the_limit(family: str, models: Models) -> None:
    text = models.load(family).text
    assert isinstance(text, TextEncoder)
    alone = torch.cat([text.represent(caption) for caption in CAPTIONS])
    torch.testing.assert_close(text.represent(CAPTIONS), alone, rtol=0, atol=1e-5)
    longest = max((" ".join("a" * count) for count in range(1, text.inputs.limit)), key=lambda it: _tokens_within(text, it))
    assert text.represent(longest).shape == (1, alone.shape[1])
    with pytest.raises(ValueError, match=rf"tokens but '{family}' takes at most {text.inputs.limit}; shorten it"):
        text.represent(" ".join("a" * (text.inputs.limit + 1)))
    with pytest.raises(ValueError, match="The text is empty"):
        text.represent(" ")


def _tokens_within(text: TextEncoder, words: str) -> int:
    """How many tokens a text has; none if it is over the limit."""
    count = len(text.inputs.tokenize(words))
    return count if count <= text.inputs.limit else 0

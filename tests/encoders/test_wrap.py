"""Live models: the same encoder as loading them by name, around the weights that are in memory."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from PIL import Image
from sentence_transformers import SentenceTransformer
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import Tensor, nn

import cocoax
from cocoax import Encoder
from cocoax.data import photo
from cocoax.encoders import devices
from cocoax.encoders.families.torchvision import import_library
from tests.conftest import SmallNet, images
from tests.encoders.families import tiny
from tests.tiny import TEXTS, save_bert, save_gpt2, save_t5

needs_timm = pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")
PIL = {"backend": "pil"} if int(transformers.__version__.split(".")[0]) >= 5 else {"use_fast": False}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("live")
    with tiny.making():
        made = {name: make(root / name) for name, make in (tiny.DUAL | tiny.VISION).items()}
        made["bert_with_pooler"] = tiny.bert(root / "bert_with_pooler")
    made |= {"bert": save_bert(root / "bert"), "gpt2": save_gpt2(root / "gpt2"), "t5": save_t5(root / "t5")}
    return made | {"sentences": tiny.sentences(root / "sentences", made["bert"])}


@pytest.fixture(scope="module")
def pictures() -> list[Image.Image]:
    return [photo("cat").resize((90, 61)), photo("coffee").resize((52, 80))]


def model_in(folder: Path, loader: Any = transformers.AutoModel) -> Any:
    with tiny.making():
        return loader.from_pretrained(folder)


def image_processor(folder: Path) -> Any:
    return transformers.AutoImageProcessor.from_pretrained(folder, **PIL)


def tokenizer(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder)


class Processor:
    """What ``AutoProcessor`` gives where torchvision can be imported: an image processor and a tokenizer in one."""

    def __init__(self, folder: Path) -> None:
        self.image_processor = image_processor(folder)
        self.tokenizer = tokenizer(folder)
        self.model_input_names = ["input_ids", "attention_mask", "pixel_values"]


def same(wrapped: Encoder, loaded: Encoder, inputs: Any) -> None:
    assert torch.equal(wrapped.represent(inputs), loaded.represent(inputs))
    assert wrapped.fingerprint == loaded.fingerprint
    assert wrapped.space == loaded.space
    assert wrapped.name == loaded.name


# --- transformers ---------------------------------------------------------------------------------------------------------


def test_wrap__dual_model_with_its_parts(folders: dict[str, Path], pictures: list[Image.Image]) -> None:
    model, loaded = model_in(folders["clip"]), cocoax.load(f"clip:{folders['clip']}")
    images_alone = cocoax.wrap(model, image_processor(folders["clip"]))
    assert torch.equal(images_alone.represent(pictures), loaded.represent(pictures))
    with pytest.raises(AttributeError, match="has no text tower"):
        images_alone.text.represent("a cat")
    same(cocoax.wrap(model, image_processor(folders["clip"]), tokenizer=tokenizer(folders["clip"])), loaded, pictures)
    processor = transformers.CLIPProcessor(image_processor(folders["clip"]), tokenizer(folders["clip"]))
    same(cocoax.wrap(model, processor), loaded, pictures)
    layer = cocoax.wrap(model, Processor(folders["clip"]), layer=model.vision_model, pooling="mean")
    assert layer.layer == "model.vision_model"


def test_wrap__text_model_under_a_head(folders: dict[str, Path]) -> None:
    model = model_in(folders["gpt2"], transformers.AutoModelForCausalLM)
    same(cocoax.wrap(model, tokenizer(folders["gpt2"])), cocoax.load(f"hf:{folders['gpt2']}"), TEXTS)


def test_wrap__fine_tuned_weights_count(folders: dict[str, Path], tmp_path: Path) -> None:
    model, words = model_in(folders["bert"]), tokenizer(folders["bert"])
    encoder = cocoax.wrap(model, words)
    before, reference = encoder.fingerprint, encoder.reference(["a cat"])
    with torch.no_grad():
        model.encoder.layer[0].output.dense.weight.mul_(1.5)  # a step of training
    assert encoder.fingerprint != before
    with pytest.raises(ValueError, match="lives in another representation space"):
        cocoax.Rise(samples=20).explain(encoder, "the dog", cocoax.similarity_to(reference))
    tiny.write(tmp_path / "bert", model, tokenizer=words)
    loaded = cocoax.load(f"hf:{tmp_path / 'bert'}")
    assert encoder.fingerprint == loaded.fingerprint
    assert torch.equal(encoder.represent(TEXTS), loaded.represent(TEXTS))


def test_wrap__moves_with_the_model(folders: dict[str, Path], pictures: list[Image.Image]) -> None:
    model = model_in(folders["vit"])
    encoder = cocoax.wrap(model, image_processor(folders["vit"]))
    expected = encoder.represent(pictures)
    model.double()  # after it was wrapped
    torch.testing.assert_close(encoder.represent(pictures), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "processor", "message"),
    [
        ("bert", None, r"BertModel needs its tokenizer as the second argument of cocoax\.wrap\. Got nothing"),
        ("bert", "image", r"BertModel needs its tokenizer .* Got \w*ImageProcessor\w* instead"),
        ("vit", None, r"ViTModel needs its image processor, or a function .* Got nothing instead"),
        ("vit", "text", r"ViTModel needs its image processor, .* Got \w*Token\w* instead"),
        ("clip", None, r"CLIPModel needs its processor \(or its image processor, and tokenizer=\) .* Got nothing"),
        ("clip", "text", r"CLIPModel needs its processor .* Got \w*Token\w* instead"),
    ],
)
def test_wrap__processor_of_another_kind(kind: str, processor: str | None, message: str, folders: dict[str, Path]) -> None:
    held = {"image": image_processor(folders["vit"]), "text": tokenizer(folders["bert"]), None: None}[processor]
    with pytest.raises(TypeError, match=message):
        cocoax.wrap(model_in(folders[kind]), held)


@pytest.mark.parametrize("kind", ["bert", "clip"])
def test_wrap__tokenizer_of_another_model(kind: str, folders: dict[str, Path]) -> None:
    held = tokenizer(folders["gpt2"])
    options: Any = {} if kind == "bert" else {"tokenizer": held}
    with pytest.raises(ValueError, match=r"The tokenizer has 298 tokens but \w+ knows \d+; use the tokenizer that it was"):
        cocoax.wrap(model_in(folders[kind]), held if kind == "bert" else image_processor(folders["clip"]), **options)


def test_wrap__a_model_of_sounds() -> None:
    config = transformers.Wav2Vec2Config(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    with tiny.making():
        model = transformers.Wav2Vec2Model(config)
    with pytest.raises(TypeError, match=r"Wav2Vec2Model takes input_values, which cocoax\.wrap does not know"):
        cocoax.wrap(model)


def test_wrap__what_is_around_a_model(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    class Adapted(nn.Module):  # as PEFT wraps models
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.model = model

        def get_base_model(self) -> nn.Module:
            return self.model

    monkeypatch.setattr(Adapted, "__module__", "peft.peft_model")
    model, words = model_in(folders["bert"]), tokenizer(folders["bert"])
    expected = cocoax.wrap(model, words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch's own
        compiled: Any = torch.compile(model)
    for around in (Adapted(model), nn.DataParallel(model), compiled):
        same(cocoax.wrap(around, words), expected, TEXTS)


def test_wrap__half_precision_is_tried_first(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_why_not", lambda *_: "the process was killed by SIGILL")
    with pytest.raises(ValueError, match=r"BertModel is in half precision\. .*killed by SIGILL .* Write model\.float\(\)"):
        cocoax.wrap(model_in(folders["bert"]).bfloat16(), tokenizer(folders["bert"]))


# --- timm and open_clip -----------------------------------------------------------------------------------------------------


class Composed:
    """A transform that does what a preprocessing does and, like torchvision's, does not say what it shows."""

    def __init__(self, preprocess: Any, change: Callable[[Tensor], Tensor] = lambda pixels: pixels) -> None:
        self.preprocess = preprocess
        self.change = change

    def __call__(self, image: Image.Image) -> Tensor:
        return self.change(self.preprocess(image))


@needs_timm
def test_wrap__timm_transform(pictures: list[Image.Image]) -> None:
    with tiny.making():
        model = import_library("timm").create_model("test_resnet")
    own = cocoax.wrap(model).preprocess
    assert isinstance(own, cocoax.ImagePreprocess)
    assert cocoax.wrap(model, Composed(own)).preprocess == own  # the same pixels, of which it is known what they show
    other = Composed(own, lambda pixels: -pixels)
    assert cocoax.wrap(model, other).preprocess is other
    random_before, numpy_before = random.getstate(), np.random.get_state()[1].copy()  # type: ignore[union-attr]
    noisy = Composed(own, lambda pixels: pixels + torch.rand(1) + random.random() + np.random.rand())
    with pytest.raises(ValueError, match=r"another tensor each time, as those for training do; pass the one for evaluation"):
        cocoax.wrap(model, noisy)
    assert random.getstate() == random_before
    assert (np.random.get_state()[1] == numpy_before).all()  # type: ignore[comparison-overlap]
    with pytest.raises(ValueError, match=r"transform function failed on a picture of 211 x 140 pixels: .*must take a PIL"):
        cocoax.wrap(model, lambda picture: picture.no_such_thing)
    with pytest.raises(TypeError, match=r"A transform must be a function from a picture to a tensor\. Got str instead"):
        cocoax.wrap(model, "imagenet")


# --- other modules, scikit-learn, functions ---------------------------------------------------------------------------------


def test_wrap__any_module(net: SmallNet, pictures: list[Image.Image]) -> None:
    preprocess = cocoax.ImagePreprocess(16, 16)
    expected = cocoax.Encoder(net, preprocess, "pool", pooling="flatten")
    wrapped = cocoax.wrap(net, preprocess, layer=net.pool, pooling="flatten")
    same(wrapped, expected, pictures)
    assert wrapped.layer == "pool"


def test_wrap__module_of_tokens(folders: dict[str, Path]) -> None:
    class ByName(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(100, 4)

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            embedded: Tensor = self.table(input_ids) * attention_mask[..., None]
            return embedded.sum(1)

    class Together(ByName):
        def forward(self, tokens: dict[str, Tensor]) -> Tensor:  # type: ignore[override]
            return super().forward(tokens["input_ids"], tokens["attention_mask"])

    with torch.random.fork_rng():
        by_name, together = ByName(), Together()
    together.load_state_dict(by_name.state_dict())
    wrapped = [cocoax.wrap(module, tokenizer(folders["bert"])) for module in (by_name, together)]
    assert torch.equal(wrapped[0].represent(TEXTS), wrapped[1].represent(TEXTS))
    assert isinstance(wrapped[0], cocoax.TextEncoder)
    assert wrapped[0].inputs.limit == 32


ROWS = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)


@pytest.mark.parametrize("make", [lambda: PCA(3), lambda: make_pipeline(StandardScaler(), PCA(3, random_state=0))])
def test_wrap__scikit_learn(make: Callable[[], Any]) -> None:
    model = make().fit(ROWS)
    encoder = cocoax.wrap(model, background=ROWS)
    np.testing.assert_allclose(encoder.represent(ROWS).numpy(), model.transform(ROWS), rtol=1e-5, atol=1e-5)
    assert isinstance(encoder, cocoax.TabularEncoder)
    assert encoder.inputs.columns == tuple(f"column {index}" for index in range(5))
    assert encoder.name == type(model).__name__
    target = cocoax.similarity_to(encoder.reference(ROWS[:3]), "dot")
    result = cocoax.KernelShap(samples=100).explain(encoder, ROWS[7], target)
    assert float(result.values.sum()) == pytest.approx(result.score - result.baseline_score, abs=1e-4)
    # Another fit is another encoder, the same fit the same one, in this process and the next.
    assert encoder.fingerprint == cocoax.wrap(make().fit(ROWS)).fingerprint
    assert encoder.fingerprint != cocoax.wrap(make().fit(ROWS[:20])).fingerprint
    assert encoder.recognisable
    model.fit(ROWS[:20])
    assert encoder.fingerprint == cocoax.wrap(make().fit(ROWS[:20])).fingerprint


def test_wrap__scikit_learn_with_names() -> None:
    frame = pd.DataFrame(ROWS, columns=list("abcde"))
    model = ColumnTransformer([("first", PCA(1), ["a", "b"]), ("rest", StandardScaler(), ["d"])]).fit(frame)
    encoder = cocoax.wrap(model)
    assert encoder.inputs.columns == tuple("abcde")  # type: ignore[attr-defined]
    np.testing.assert_allclose(encoder.represent(frame).numpy(), model.transform(frame), atol=1e-5)
    assert cocoax.wrap(PCA(2).fit(frame), columns=list("vwxyz")).represent(ROWS).shape == (40, 2)


def test_wrap__scikit_learn_sparse() -> None:
    encoder = cocoax.wrap(OneHotEncoder(handle_unknown="ignore").fit(ROWS.round()))
    assert set(encoder.represent(ROWS.round()[:4]).unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("model", [PCA(2), make_pipeline(StandardScaler(), PCA(2)), TfidfVectorizer()])
def test_wrap__scikit_learn_not_fitted(model: Any) -> None:
    with pytest.raises(ValueError, match=r"does not say how many columns it takes: it is not fitted yet, or it takes no tab"):
        cocoax.wrap(model)


def embed(batch: np.ndarray) -> np.ndarray:
    return batch.reshape(len(batch), -1)[:, :7].astype(np.float64)


def test_wrap__function_of_numpy() -> None:
    encoder = cocoax.wrap(embed)
    assert encoder.name == "embed"
    assert torch.equal(encoder.represent(images(3)), images(3).flatten(1)[:, :7])
    assert not encoder.recognisable  # what it uses is not known: nothing of it may outlive the process
    assert cocoax.wrap(embed, name="mine").fingerprint == cocoax.wrap(embed, name="mine").fingerprint
    assert cocoax.wrap(lambda batch: batch.sum((2, 3)).tolist()).represent(images(3)).shape == (3, 3)
    table = cocoax.wrap(lambda rows: rows[:, :2], columns=list("abcde"))
    assert table.represent(ROWS).shape == (40, 2)
    target = cocoax.similarity_to(encoder.reference(images(1)))
    with pytest.raises(RuntimeError, match="is not differentiable"):
        cocoax.VanillaGradients().explain(encoder, images(1)[0], target)


@pytest.mark.parametrize("model", [3, "clip", None])
def test_wrap__no_model(model: Any) -> None:
    with pytest.raises(TypeError, match=rf"cocoax\.wrap takes a module, a function .*Got {type(model).__name__} instead"):
        cocoax.wrap(model)


# --- where wrap is what was meant -------------------------------------------------------------------------------------------


def test_encoder__around_a_sentence_transformer(folders: dict[str, Path]) -> None:
    with tiny.making():
        model = SentenceTransformer(str(folders["sentences"]), device="cpu")
    with pytest.raises(TypeError, match=r"SentenceTransformer encodes texts and brings its own tokenizer; use cocoax\.wrap"):
        cocoax.Encoder(model)


def test_encoder__around_scikit_learn() -> None:
    with pytest.raises(TypeError, match=r"Got PCA instead; cocoax\.wrap takes transformers of scikit-learn\."):
        cocoax.Encoder(PCA(2))  # type: ignore[arg-type]


def test_layer__a_module(net: SmallNet) -> None:
    assert cocoax.Encoder(net, layer=net.pool).fingerprint == cocoax.Encoder(net, layer="pool").fingerprint
    for other in (nn.Linear(1, 1, device="meta"), net):
        with pytest.raises(
            ValueError, match=rf"layer {type(other).__name__} is no part of the encoder 'SmallNet'; pass one of"
        ):
            cocoax.Encoder(net, layer=other)
    with pytest.raises(ValueError, match="is no part of the encoder"):
        cocoax.Encoder(lambda batch: batch, layer=net.pool)


def test_layer__a_module_of_a_text_model(folders: dict[str, Path]) -> None:
    model, words = model_in(folders["bert"]), tokenizer(folders["bert"])
    wrapped = cocoax.wrap(model, words, layer=model.encoder.layer[0])
    assert torch.equal(
        wrapped.represent(TEXTS), cocoax.load(f"hf:{folders['bert']}", layer="encoder.layer.0").represent(TEXTS)
    )
    with pytest.raises(ValueError, match="is no part of the encoder 'bert'"):
        cocoax.wrap(model, words, layer=model_in(folders["bert"]).encoder)

"""Vision encoders of every family, against transformers; and what is said when something cannot be loaded."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

import cocoax
from cocoax import Encoder
from cocoax.data import photo
from cocoax.encoders.load import huggingface, sentence
from cocoax.encoders.load.huggingface import preprocess_of
from tests.encoders.load import tiny


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("vision")
    with tiny.making():
        return {name: make(root / name) for name, make in (tiny.VISION | {"clip": tiny.clip}).items()}


@pytest.fixture(scope="module")
def pictures() -> list[Image.Image]:
    return [photo("cat").resize((90, 61)), photo("coffee").resize((52, 83)), photo("rocket").resize((64, 64))]


def load(folder: Path, **options: Any) -> Encoder:
    return cocoax.load(f"hf:{folder}", **options)


def outputs(folder: Path, pictures: list[Image.Image]) -> Any:
    """What transformers gives, with its own image processor."""
    with tiny.making():
        model = transformers.AutoModel.from_pretrained(folder)
        pixels = transformers.AutoImageProcessor.from_pretrained(folder)(images=pictures, return_tensors="pt")
        with torch.no_grad():
            return model(**pixels)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


# --- representations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", tiny.VISION)
def test_represent__what_the_classifier_of_the_architecture_reads(
    family: str, folders: dict[str, Path], pictures: list[Image.Image]
) -> None:
    found = load(folders[family]).represent(pictures)
    output = outputs(folders[family], pictures)
    token = family.startswith(("vit", "deit"))  # their pooler is an untrained layer in most weights
    close(found, output.last_hidden_state[:, 0] if token else output.pooler_output.flatten(1))
    assert float(found.std(0).mean()) > 0.02


@pytest.mark.parametrize("family", [family for family in tiny.VISION if family.endswith("_classifier")])
def test_head__gives_the_logits_of_the_classifier(family: str, folders: dict[str, Path], pictures: list[Image.Image]) -> None:
    encoder = load(folders[family])
    if family.startswith("dinov2"):  # reads the class token and the mean of the others
        assert encoder.head is None
        return
    with tiny.making(), torch.no_grad():
        model = transformers.AutoModelForImageClassification.from_pretrained(folders[family])
        pixels = transformers.AutoImageProcessor.from_pretrained(folders[family])(images=pictures, return_tensors="pt")
        expected = model(**pixels).logits
        assert encoder.head is not None
        close(encoder.head(encoder.represent(pictures)), expected)


@pytest.mark.parametrize("family", ["vit", "dinov2", "swin", "beit_classifier"])
def test_pooling__of_the_last_hidden_state(family: str, folders: dict[str, Path], pictures: list[Image.Image]) -> None:
    hidden = outputs(folders[family], pictures).last_hidden_state
    close(load(folders[family], pooling="mean").represent(pictures), hidden.mean(1))
    close(load(folders[family], pooling="first").represent(pictures), hidden[:, 0])
    close(load(folders[family], pooling="flatten").represent(pictures), hidden.flatten(1))
    assert load(folders[family], pooling="mean").head is None


@pytest.mark.parametrize("family", ["resnet", "convnext"])
def test_pooling__of_feature_maps(family: str, folders: dict[str, Path], pictures: list[Image.Image]) -> None:
    hidden = outputs(folders[family], pictures).last_hidden_state
    close(load(folders[family], pooling="mean").represent(pictures), hidden.flatten(2).mean(2))


LAYERS = {
    "vit": "layers.0",
    "vit_classifier": "layers.0",
    "dinov2": "encoder.layer.0",
    "swin": "encoder.layers.0.blocks.0",
    "resnet": "encoder.stages.0",
    "convnext": "encoder.stages.0",
}


@pytest.mark.parametrize(("family", "layer"), LAYERS.items())
def test_layer__is_the_output_of_the_submodule(
    family: str, layer: str, folders: dict[str, Path], pictures: list[Image.Image]
) -> None:
    encoder = load(folders[family], layer=layer)
    with tiny.making():
        model = transformers.AutoModel.from_pretrained(folders[family])
    caught: list[Any] = []
    model.get_submodule(layer).register_forward_hook(lambda _module, _inputs, output: caught.append(output))
    with torch.no_grad():
        model(pixel_values=torch.stack([encoder.prepare(picture) for picture in pictures]))
    hidden = caught[0] if isinstance(caught[0], Tensor) else caught[0][0]
    close(encoder.represent(pictures), hidden.mean(1) if hidden.ndim == 3 else hidden.flatten(2).mean(2))
    assert load(folders[family], layer=f"model.{layer}").fingerprint == encoder.fingerprint  # as errors spell it
    assert encoder.fingerprint != load(folders[family]).fingerprint


@pytest.mark.parametrize("family", ["vit", "dinov2", "resnet", "convnext", "swin", "beit", "deit"])
def test_gradients__integrate_to_the_difference_in_score(
    family: str, folders: dict[str, Path], pictures: list[Image.Image]
) -> None:
    encoder = load(folders[family])
    target = cocoax.contrastive_corpus_similarity(encoder.reference(pictures[1]), encoder.reference(pictures[2]))
    prepared = encoder.prepare(pictures[0])
    result = cocoax.IntegratedGradients(steps=100, baseline=cocoax.Constant(0.0)).explain(encoder, pictures[0], target)
    scores = target.score(encoder.represent([prepared, torch.zeros_like(prepared)]))
    assert float(3 * result.values.sum()) == pytest.approx(float(scores[0] - scores[1]), abs=5e-3)
    assert float(3 * result.values.abs().sum()) > 0.05


@pytest.mark.parametrize("family", ["vit", "beit_classifier", "resnet"])
def test_fingerprint__the_same_when_loaded_again(family: str, folders: dict[str, Path]) -> None:
    assert load(folders[family]).fingerprint == load(folders[family]).fingerprint


def test_load__weights_without_a_pooler(folders: dict[str, Path], pictures: list[Image.Image], tmp_path: Path) -> None:
    """As BEiT's pretrained weights come: the layer that would be random is not used."""
    folder = Path(shutil.copytree(folders["beit"], tmp_path / "beit"))
    weights = {key: value for key, value in load_file(folder / "model.safetensors").items() if "pooler" not in key}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    close(load(folder).represent(pictures), outputs(folder, pictures).last_hidden_state[:, 0])
    assert load(folder).fingerprint == load(folder).fingerprint


# --- preprocessing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", tiny.VISION)
@pytest.mark.parametrize("size", [(90, 61), (52, 83), (64, 64), (33, 20), (301, 200)])
def test_preprocess__pixels_are_those_of_the_processor(family: str, size: tuple[int, int], folders: dict[str, Path]) -> None:
    processor = transformers.AutoImageProcessor.from_pretrained(folders[family])
    preprocess = preprocess_of(processor)
    assert isinstance(preprocess, cocoax.ImagePreprocess)
    picture = photo("cat").resize(size)
    close(preprocess(picture), processor(images=picture, return_tensors="pt")["pixel_values"][0])


@pytest.mark.parametrize(
    "changes",
    [
        {"do_rescale": False},
        {"do_normalize": False},
        {"do_rescale": False, "do_normalize": False},
        {"rescale_factor": 1 / 127.5},
        {"do_resize": False},
        {"resample": 1},
        {"crop_size": {"height": 20, "width": 26}},
        {"size": {"shortest_edge": 20}},  # smaller than the crop: filled up with black
    ],
)
def test_preprocess__every_option(changes: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(tiny.CROPPED | changes))
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    preprocess = preprocess_of(processor)
    assert isinstance(preprocess, cocoax.ImagePreprocess)
    for size in ((90, 61), (52, 83)):
        picture = photo("cat").resize(size)
        expected = processor(images=picture, return_tensors="pt")["pixel_values"][0].float()
        torch.testing.assert_close(preprocess(picture), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "squeezed"), [({"shortest_edge": 32}, False), ({"shortest_edge": 400}, True)], ids=["small", "large"]
)
def test_preprocess__convnext_crops_or_squeezes(size: dict[str, int], squeezed: bool, tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(tiny.CONVNEXT | {"size": size}))
    preprocess = preprocess_of(transformers.AutoImageProcessor.from_pretrained(tmp_path))
    assert isinstance(preprocess, cocoax.ImagePreprocess)
    assert (preprocess.box((300, 200)) == (0, 0, 1, 1)) is squeezed


@pytest.mark.parametrize(
    "changes",
    [{"resample": 0}, {"size": {"shortest_edge": 20, "longest_edge": 22}, "do_center_crop": False}],
    ids=["nearest", "longest edge"],
)
def test_preprocess__what_cannot_be_expressed_is_kept(changes: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(tiny.CROPPED | changes))
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    preprocess = preprocess_of(processor)
    assert not isinstance(preprocess, cocoax.ImagePreprocess)
    picture = photo("cat").resize((90, 61))
    expected = processor(images=picture, return_tensors="pt")["pixel_values"][0]
    assert torch.equal(preprocess(picture), expected)
    assert repr(preprocess) == repr(preprocess_of(processor))
    assert "0x" not in repr(preprocess)


# --- dispatch -----------------------------------------------------------------------------------------------------------


def test_load__an_image_and_text_model_has_its_text_tower(folders: dict[str, Path]) -> None:
    assert load(folders["clip"]).text.represent(["a cat"]).shape == (1, 12)


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    with tiny.making():
        config = transformers.BertConfig(**tiny.TEXT, vocab_size=60)
        return tiny.write(tmp_path / "bert", transformers.BertModel(config), tokenizer=tiny.bert_tokenizer())


def test_load__a_text_model_goes_to_the_text_loader(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(sentence, "load_hf_text", lambda *what, **options: asked.append((what, options)))
    load(bert, pooling="mean")
    assert asked == [((str(bert),), {"pooling": "mean"})]


def test_load__unknown_option(folders: dict[str, Path]) -> None:
    with pytest.raises(TypeError, match="poling"):
        load(folders["vit"], poling="mean")


# --- what cannot be loaded ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_hub")
@pytest.mark.parametrize("name", ["clip:cocoax-tests/no-such-clip", "hf:cocoax-tests/no-such-vit"])
def test_load__hub_not_reachable(name: str) -> None:
    family, _, what = name.partition(":")
    with pytest.raises(OSError, match=rf"configuration of '{what}' cannot be reached: .*hub did not give it") as caught:
        cocoax.load(name)
    assert f"`hf download {what} --local-dir FOLDER`" in str(caught.value)
    assert f"load '{family}:FOLDER'" in str(caught.value)


@pytest.mark.parametrize("name", ["./nothing", "/no/such/folder", "~/no/such/folder", "a/b/c"])
def test_load__no_such_folder(name: str) -> None:
    with pytest.raises(FileNotFoundError, match=rf"No folder at {name}; write hf:FOLDER or the name of a model on the hub"):
        cocoax.load(f"hf:{name}")


def damaged(folder: Path, to: Path, **files: str | bytes | None) -> Path:
    """A copy with some files replaced or, if None, left out; a double underscore in a name is a dot."""
    shutil.copytree(folder, to)
    for name, content in files.items():
        path = to / name.replace("__", ".")
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return to


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({"config__json": None}, r"has no config\.json; expected what model\.save_pretrained\(.*Found model\.safetensors"),
        ({"config__json": '{"model_type":'}, r"configuration in the folder .*not a valid JSON"),
        ({"config__json": '{"model_type": "frobnicate"}'}, r"configuration in .*frobnicate.*newer transformers may know it"),
        ({"model__safetensors": None}, r"weights in the folder .*no file named model\.safetensors.*model\.save_pretrained"),
        (
            {"model__safetensors": b"\0" * 100},
            r"weights in the folder .*cannot be loaded: .*If it is damaged, fetch it again",
        ),
        ({"preprocessor_config__json": None}, r"image processor in the folder .*processor\.save_pretrained"),
        ({"tokenizer__json": None, "tokenizer_config__json": None}, r"tokenizer in .*processor\.save_pretrained"),
    ],
    ids=["no config", "broken config", "unknown model", "no weights", "broken weights", "no processor", "no tokenizer"],
)
def test_load__damaged_folder(
    files: dict[str, str | bytes | None], match: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = damaged(folders["clip"], tmp_path / "damaged", **files)
    with pytest.raises((OSError, ValueError), match=match) as caught:
        cocoax.load(f"clip:{folder}")
    assert "\n" not in str(caught.value)


def test_load__weights_that_lack_a_layer(folders: dict[str, Path], tmp_path: Path) -> None:
    weights = load_file(folders["clip"] / "model.safetensors")
    del weights["visual_projection.weight"]
    folder = damaged(folders["clip"], tmp_path / "lacks")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"lack 1 tensors of CLIPModel, visual_projection\.weight among them, .*be random"):
        cocoax.load(f"clip:{folder}")


class Harmful:
    """A pickle of this would run something."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.trace),)


def test_load__pickled_weights_are_read_but_never_run(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = damaged(folders["vit"], tmp_path / "pickle", model__safetensors=None)
    weights = load_file(folders["vit"] / "model.safetensors")
    torch.save(weights, folder / "pytorch_model.bin")
    close(load(folder).represent(photo("cat")), load(folders["vit"]).represent(photo("cat")))
    torch.save(weights | {"more": Harmful(tmp_path / "trace")}, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="a pickle that holds more than tensors"):
        load(folder)
    assert not (tmp_path / "trace").exists()


def test_load__code_that_comes_with_weights_is_not_run(folders: dict[str, Path], tmp_path: Path) -> None:
    config = json.loads((folders["vit"] / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}}
    code = f"import os; os.mkdir({str(tmp_path / 'trace')!r})"
    folder = damaged(folders["vit"], tmp_path / "remote", config__json=json.dumps(config), mine__py=code)
    with pytest.raises(ValueError, match="Code that comes with weights is never run"):
        load(folder)
    assert not (tmp_path / "trace").exists()


def test_load__without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(huggingface, "import_module", missing)
    with pytest.raises(ImportError, match=r"'clip:' need the package transformers .*pip install 'cocoax\[hf\]'"):
        cocoax.load("clip:openai/clip-vit-base-patch32")

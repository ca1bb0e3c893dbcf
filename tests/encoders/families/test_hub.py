"""Models from the hub or from a folder: which revision is loaded, and what is said when something cannot be loaded."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

import cocoax
from cocoax import Encoder, checks
from cocoax.data import photo
from tests.encoders.families import tiny
from tests.tiny import save_bert, save_gpt2, save_t5


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    with tiny.making():
        made = {name: make(root / name) for name, make in {"vit": tiny.VISION["vit"], "clip": tiny.clip}.items()}
        made["bert_with_pooler"] = tiny.bert(root / "bert_with_pooler")
    made |= {"bert": save_bert(root / "bert"), "gpt2": save_gpt2(root / "gpt2"), "t5": save_t5(root / "t5")}
    return made | {"sentences": tiny.sentences(root / "sentences", made["bert"])}


def load(folder: Path, **options: Any) -> Encoder:
    return cocoax.load(f"hf:{folder}", **options)


# --- revisions ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the hub that is empty; what is put there is found without the hub."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def put(cache: Path, name: str, revisions: dict[str, Path]) -> None:
    """Lay folders down as the hub's client does it, one for each branch of a repository."""
    repository = cache / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    for number, (branch, folder) in enumerate(revisions.items()):
        commit = f"{number:040x}"
        (repository / "refs" / branch).write_text(commit)
        shutil.copytree(folder, repository / "snapshots" / commit)


def changed(folder: Path, to: Path) -> Path:
    """A copy of a model with other weights."""
    shutil.copytree(folder, to)
    for file in to.rglob("model.safetensors"):
        weights = {key: value.flip(0) if value.is_floating_point() else value for key, value in load_file(file).items()}
        save_file(weights, file, metadata={"format": "pt"})
    return to


@pytest.mark.usefixtures("no_hub")
@pytest.mark.parametrize(("family", "kind"), [("hf", "vit"), ("clip", "clip"), ("hf", "bert"), ("st", "sentences")])
def test_revision__is_the_one_that_is_loaded(
    family: str, kind: str, folders: dict[str, Path], cache: Path, tmp_path: Path
) -> None:
    other = changed(folders[kind], tmp_path / "other")
    put(cache, "cocoax-tests/small", {"main": folders[kind], "older": other})
    inputs: Any = ["a cat", "the big dog"] if kind in ("bert", "sentences") else photo("cat")
    main, older = (cocoax.load(f"{family}:{folder}").represent(inputs) for folder in (folders[kind], other))
    assert not torch.allclose(main, older, atol=1e-2)
    assert torch.equal(cocoax.load(f"{family}:cocoax-tests/small").represent(inputs), main)
    for revision in ("older", f"{1:040x}"):
        encoder = cocoax.load(f"{family}:cocoax-tests/small", revision=revision)
        assert torch.equal(encoder.represent(inputs), older)
    with pytest.raises(OSError, match="'cocoax-tests/small'"):
        cocoax.load(f"{family}:cocoax-tests/small", revision="newer")


def test_options__preprocess_is_for_pictures(folders: dict[str, Path]) -> None:
    with pytest.raises(TypeError, match=r"bert' is a text model, .*leave out preprocess=, which is for pictures"):
        load(folders["bert"], preprocess=cocoax.ImagePreprocess())


# --- weights that lack something ------------------------------------------------------------------------------------------


def lacking(folder: Path, to: Path, *parts: str) -> Path:
    """A copy without the weights whose names contain one of these."""
    shutil.copytree(folder, to)
    weights = load_file(to / "model.safetensors")
    kept = {key: value for key, value in weights.items() if not any(part in key for part in parts)}
    assert len(kept) < len(weights)
    save_file(kept, to / "model.safetensors", metadata={"format": "pt"})
    return to


@pytest.mark.parametrize(
    ("kind", "part", "match"),
    [
        ("clip", "visual_projection", r"lack 1 tensors of CLIPModel, visual_projection\.weight among them, .*be random"),
        ("vit", "layernorm_before", r"lack 4 tensors of ViTModel, .*layernorm_before.* among them, which would be random"),
        ("bert", "layer.1.attention", r"lack 10 tensors of BertModel, encoder\.layer\.1\.attention.* would be random"),
        ("gpt2", "wte", r"lack 1 tensors of GPT2Model, wte\.weight among them, which would be random"),
        ("t5", "encoder.block", r"lack \d tensors of T5Model, encoder\.block.* would be random; load the weights of a whole"),
    ],
)
def test_load__weights_that_lack_a_layer(kind: str, part: str, match: str, folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=match):
        load(lacking(folders[kind], tmp_path / "lacks", part))


@pytest.mark.parametrize(("kind", "part"), [("bert_with_pooler", "pooler"), ("t5", "decoder")])
def test_load__what_representations_do_not_need_may_be_missing(
    kind: str, part: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    """As sentence encoders come: BERT without its pooler, T5 without its decoder. Nothing random is part of the encoder."""
    encoders = []
    for seed in (0, 1):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            encoders.append(load(lacking(folders[kind], tmp_path / f"{part}{seed}" / kind, part)))
    assert encoders[0].fingerprint == encoders[1].fingerprint
    assert torch.equal(encoders[0].represent("a cat"), load(folders[kind]).represent("a cat"))


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
    expected = load(folders["vit"]).represent(photo("cat"))
    torch.testing.assert_close(load(folder).represent(photo("cat")), expected, rtol=0, atol=1e-5)
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

    monkeypatch.setattr(checks, "import_module", missing)
    with pytest.raises(ImportError, match=r"'clip:' need the package 'transformers' .*pip install 'cocoax\[hf\]'"):
        cocoax.load("clip:openai/clip-vit-base-patch32")

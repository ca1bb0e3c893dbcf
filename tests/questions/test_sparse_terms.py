"""Sparse encoders of sentence-transformers: shared terms are exact and sum to the score, and words put them there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

import cocoax
from tests.tiny import bert_tokenizer

library = pytest.importorskip("sentence_transformers")
QUERY, DOCUMENT = "red car", "The violinist parked her car."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if not hasattr(library, "SparseEncoder"):
        pytest.skip("this sentence-transformers has no SparseEncoder")
    modules = library.sparse_encoder.modules
    folder = tmp_path_factory.mktemp("splade")
    tokenizer = bert_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = BertForMaskedLM(config)
        torch.nn.init.normal_(network.cls.predictions.bias, std=0.5)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    made = library.SparseEncoder(modules=[modules.MLMTransformer(str(folder)), modules.SpladePooling()], device="cpu")
    return made.eval()


def test_match__shared_terms(model: Any, tmp_path: Path) -> None:
    encoder = cocoax.wrap(model)
    match = cocoax.explain_match(encoder, QUERY, DOCUMENT)
    own = [torch.as_tensor(model.encode(text, convert_to_sparse_tensor=False)).double() for text in (QUERY, DOCUMENT)]
    assert match.similarity == pytest.approx(float(own[0] @ own[1]), rel=1e-5)
    assert match.exact is not None
    assert sum(row[3] for row in match.exact.rows) == pytest.approx(match.similarity, rel=1e-5)
    products = own[0] * own[1]
    best = int(products.argmax())
    term, first, second, product, *_ = match.exact.rows[0]
    assert term == model.tokenizer.convert_ids_to_tokens([best])[0]
    assert (first, second) == pytest.approx((float(own[0][best]), float(own[1][best])), rel=1e-5)
    assert product == pytest.approx(float(products[best]), rel=1e-5)
    assert {row[5] for row in match.exact.rows} <= {"", "The", "violinist", "parked", "her", "car", "."}
    assert match.interactions.values.shape == (2, 6)
    assert "Terms" in match.save(tmp_path / "match.html").read_text()

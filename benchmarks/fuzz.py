"""Bad calls of the public API: each must work, or end in a sentence of Cocoax's own, in seconds and in bounded memory.

    python benchmarks/fuzz.py --calls 10000          # all of it, about half an hour
    python benchmarks/fuzz.py --calls 500 --seed 7   # a slice

Every call is a right one with one or two of its arguments exchanged for something from a cabinet of wrong things: other
types, shapes and precisions, NaN, lists that hold themselves, huge and empty ones. Hypothesis chooses. What is printed is a
table by outcome and, for each cause of a call that lacked a sentence, one such call.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor, nn

import cocoax

SOURCE = str(Path(cocoax.__file__).parent)
SECONDS = 20  # that a call may take
MEMORY = 6 * 2**30  # that the process may have
SHORTEST_SENTENCE = 12  # characters
# Errors that are about what was asked for. Whatever else is raised is no answer.
DOCUMENTED = (
    ValueError,
    TypeError,
    IndexError,
    OSError,
    RuntimeError,
    ImportError,
    AttributeError,
    ZeroDivisionError,
    MemoryError,
)


# --- right things -------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    """A small network from images to four dimensions."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.convolution, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        with torch.no_grad():
            self.convolution.weight.copy_(torch.randn(4, 3, 3, 3, generator=generator))

    def forward(self, batch: Tensor) -> Tensor:
        """Return means over positions."""
        representations: Tensor = torch.tanh(self.norm(self.convolution(batch))).mean((2, 3))
        return representations


class Patches(nn.Module):
    """A small vision transformer: tokens of patches of four pixels, whose mean is what comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 4, 4)
        self.blocks = nn.Sequential(*(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True) for _ in range(2)))

    def forward(self, batch: Tensor) -> Tensor:
        """Return the mean over tokens."""
        representations: Tensor = self.blocks(self.embed(batch).flatten(2).mT).mean(1)
        return representations


class Words(nn.Module):
    """From token ids to means of embeddings."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.randn(40, 4, generator=torch.Generator().manual_seed(1))
        self.embedding = nn.Embedding.from_pretrained(weight)

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        """Return the mean of the embeddings of the tokens that count."""
        mask = tokens["attention_mask"][..., None]
        mean: Tensor = (self.embedding(tokens["input_ids"]) * mask).sum(1) / mask.sum(1)
        return mean


class Splitter:
    """A tokenizer: words by their lengths."""

    mask, pad = 39, 38

    def __call__(self, text: str) -> list[int]:
        """Return token ids."""
        return self.places(text)[0]

    def places(self, text: str) -> tuple[list[int], list[tuple[int, int] | None]]:
        """Return token ids and where they stand."""
        spans = [match.span() for match in re.finditer(r"\S+", text)]
        return [min(end - begin, 37) for begin, end in spans], list(spans)


@cache
def things() -> dict[str, Any]:
    """Return what right calls are made of."""
    generator = torch.Generator().manual_seed(2)
    pictures = torch.rand(4, 3, 12, 12, generator=generator)
    text = cocoax.TextEncoder(Words(), Splitter(), limit=12)
    encoder = cocoax.Encoder(Net().eval(), text=text, head=nn.Linear(4, 3), classes=["a", "b", "c"])
    table = cocoax.TabularEncoder(nn.Linear(3, 4), columns=["x", "y", "z"], background=torch.zeros(2, 3))
    corpus = encoder.reference(pictures[:2], name="corpus", keep_samples=True, cache=False)
    target = cocoax.corpus_similarity(corpus)
    run = cocoax.Rise(samples=20, grid=3).run(encoder, pictures[0])
    sentence = "some words about something else"
    words = cocoax.corpus_similarity(encoder.text.reference([sentence, "other words"], cache=False))
    text_run = cocoax.Rise(samples=20).run(encoder.text, sentence)
    return {
        "encoder": encoder,
        "text": encoder.text,
        "table": table,
        "patches": cocoax.Encoder(Patches().eval(), name="patches"),
        "module": encoder.module,
        "pictures": pictures,
        "picture": pictures[0],
        "row": [1.0, 2.0, 3.0],
        "sentence": sentence,
        "corpus": corpus,
        "foil": encoder.reference(pictures[2:], name="foil", keep_samples=True, cache=False),
        "target": target,
        "words": words,
        "rows": cocoax.corpus_similarity(table.reference(torch.rand(3, 3, generator=generator), cache=False)),
        "run": run,
        "text_run": text_run,
        "field": run.field(),
        "result": run.explain(target),
        "text_result": text_run.explain(words),
        "index": cocoax.survey.build(
            encoder, pictures, tempfile.mkdtemp(), cocoax.Rise(samples=20, grid=3), labels=list("aabb"), progress=False
        ),
        "question": cocoax.Question("a word", "other words"),
        "folder": Path(tempfile.mkdtemp()),
    }


# --- calls --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A right call: what is called with the named things, and its right arguments, by name."""

    name: str
    run: Callable[..., Any]
    right: dict[str, Any]


METHODS: dict[str, dict[str, Any]] = {
    "Rise": {"samples": 20, "grid": 3, "keep": 0.5, "estimator": "efficient", "seed": 0, "tolerance": 0.5, "max_samples": 40},
    "KernelShap": {"samples": 40, "grid": 3, "seed": 0},
    "Occlusion": {"window": 4, "stride": 2},
    "IntegratedGradients": {"steps": 3},
    "SmoothGrad": {"samples": 3, "noise": 0.1, "seed": 0},
    "GradientShap": {"samples": 3, "noise": 0.1, "seed": 0},
    "ExpectedGradients": {"background": "pictures", "samples": 3, "seed": 0},
    "VanillaGradients": {},
    "RandomAttribution": {"seed": 0},
}
OTHERS: dict[str, dict[str, Any]] = {
    "Blur": {"kernel_size": 5, "sigma": 2.0},
    "Constant": {"value": 0.0},
    "Mean": {},
    "Noise": {"std": 1.0, "seed": 0},
    "Fixed": {"image": "picture"},
    "Several": {"baselines": [cocoax.Mean(), cocoax.Constant(0.0)]},
}


def _method_call(name: str, options: dict[str, Any]) -> Iterator[Call]:
    def explain(encoder: Any, explicand: Any, targets: Any, **others: Any) -> Any:
        return getattr(cocoax, name)(**others).explain(encoder, explicand, targets, progress=False)

    for encoder, explicand, target in (
        ("encoder", "picture", "target"),
        ("text", "sentence", "words"),
        ("table", "row", "rows"),
    ):
        if encoder == "encoder" or name in ("Rise", "KernelShap", "IntegratedGradients"):
            removes = {} if name in ("RandomAttribution", "ExpectedGradients") else {"baseline": None, "batch_size": 8}
            right = {"encoder": encoder, "explicand": explicand, "targets": target, **options, **removes}
            yield Call(f"{name}.explain", explain, right)


def _removal_call(name: str, options: dict[str, Any]) -> Call:
    def explain(encoder: Any, explicand: Any, target: Any, **others: Any) -> Any:
        method = cocoax.Rise(samples=20, grid=3, baseline=getattr(cocoax, name)(**others))
        return method.explain(encoder, explicand, target, progress=False)

    return Call(name, explain, {"encoder": "encoder", "explicand": "picture", "target": "target", **options})


def _plain_calls() -> Iterator[Call]:
    def call(title: str, run: Callable[..., Any], /, **right: Any) -> Call:
        return Call(title, run, right)

    yield call("Encoder", _use_encoder, module="module", preprocess=None, layer="norm", pooling="mean", name="x", head=None)
    yield call("TabularEncoder", cocoax.TabularEncoder, module="module", columns=["a"], background=None)
    yield call("TextEncoder", cocoax.TextEncoder, module=Words(), tokenize=Splitter(), limit=12)
    yield call("TabularEncoder", cocoax.TabularEncoder, module="module", columns=["a", "b"], background=None)
    yield call("represent", lambda inputs, size: things()["encoder"].represent(inputs, size), inputs="pictures", size=4)
    yield call("represent texts", lambda inputs: things()["text"].represent(inputs), inputs=["a b", "c"])
    yield call("represent rows", lambda inputs: things()["table"].represent(inputs), inputs=[[1.0, 2.0, 3.0]])
    yield call("encode", lambda prepared: things()["encoder"].encode(prepared), prepared="pictures")
    yield call("encoder()", lambda batch: things()["encoder"](batch), batch="pictures")
    yield call("explicand", lambda item: things()["encoder"].explicand(item), item="picture")
    yield call("explicand text", lambda item: things()["text"].explicand(item), item="sentence")
    yield call(
        "reference", _reference, inputs="pictures", name="r", keep_samples=True, batch_size=4, on_error="raise", key=None
    )
    yield call("reference texts", lambda inputs: things()["text"].reference(inputs, cache=False), inputs=["a b"])
    yield call("Encoder.to", lambda device: things()["encoder"].to(device), device="cpu")

    yield call("load", cocoax.load, name="starter-that-is-not")
    yield call("wrap", cocoax.wrap, model="module")
    rows = torch.rand(5, 4)
    representations = cocoax.Reference.from_representations
    yield call(
        "from_representations", representations, representations=rows, name="r", space=None, keep_samples=True, weights=None
    )
    yield call("from_vectors", cocoax.Reference.from_vectors, source=rows.numpy(), where=None, weights=None, column=None)
    yield call("reference[]", lambda which: things()["corpus"][which], which=0)
    yield call("where", lambda mask: things()["corpus"].where(mask), mask=[True, False])
    yield call("nearest", lambda pool, count: things()["corpus"].nearest(pool, count), pool="foil", count=1)
    yield call("merge", lambda other: things()["corpus"].merge(other), other="foil")
    yield call("foil_size", cocoax.foil_size, epsilon=0.1, delta=0.1)
    yield call("Reference.load", cocoax.Reference.load, path="x")
    yield call("Run.load", cocoax.Run.load, path="x")
    yield call("Attribution.load", cocoax.Attribution.load, path="x")
    yield call("Target", _target, weight=1.0, similarity="cosine")
    yield call("Target of weights", cocoax.Target, weights={}, similarity="cosine", name="x")
    yield call("similarity_to", cocoax.similarity_to, reference="corpus", similarity="cosine")
    yield call("contrast", cocoax.contrastive_corpus_similarity, corpus="corpus", foil="foil", similarity="cosine")
    yield call("score", lambda z, own: things()["target"].score(z, own), z=rows, own=rows[0])
    yield call(
        "as_module",
        lambda encoder, inputs: things()["target"].as_module(encoder)(inputs),
        encoder="encoder",
        inputs="pictures",
    )
    yield call("class_score", cocoax.class_score, encoder="encoder", label="a")
    yield call("FunctionTarget", lambda function: things()["run"].explain(cocoax.FunctionTarget(function)), function=_first)
    yield call("Rbf", lambda gamma: _kernel(cocoax.Rbf(gamma)), gamma=1.0)
    yield call("Laplacian", lambda gamma: _kernel(cocoax.Laplacian(gamma)), gamma=1.0)
    yield call("Polynomial", lambda **o: _kernel(cocoax.Polynomial(**o)), degree=2, gamma=1.0, constant=1.0)
    yield call(
        "Background", lambda encoder, **o: _background(encoder, **o), encoder="table", rows=[[0.0, 0.0, 1.0]], draws=2, seed=0
    )
    for kind in ("MaskToken", "Deletion", "AttentionMask"):
        yield call(kind, lambda kind=kind, **o: _on_text(getattr(cocoax, kind)(**o)), token=3)
    yield call(
        "run",
        lambda encoder, explicand, targets: cocoax.Rise(samples=20, grid=3).run(encoder, explicand, targets),
        encoder="encoder",
        explicand="picture",
        targets="target",
    )
    yield call("run.explain", lambda targets: things()["run"].explain(targets), targets="target")
    yield call("run.extend", _extend, encoder="encoder", samples=2)
    yield call(
        "run.field",
        lambda similarity, grid, groups: things()["run"].field(similarity, grid=grid, groups=groups),
        similarity="cosine",
        grid=3,
        groups=4,
    )
    yield call("field.explain", lambda targets: things()["field"].explain(targets), targets="target")
    yield call("save", lambda path: things()["run"].save(path), path="/nonexistent/x")
    yield call("interactions", cocoax.interactions, run_a="run", run_b="text_run")
    for kind in ("insertion", "deletion"):
        yield call(
            kind,
            getattr(cocoax, kind),
            encoder="encoder",
            explicand="picture",
            attribution="result",
            measures="target",
            steps=3,
            baseline=None,
            batch_size=8,
        )
    yield call(
        "curves",
        cocoax.curves,
        encoder="encoder",
        explicand="picture",
        attributions=["result"],
        measures=["target"],
        steps=3,
        baseline=None,
        kinds=("insertion",),
        batch_size=8,
    )
    yield call("Question", cocoax.Question, like="a", unlike="b", similarity="cosine")
    yield call("Side", cocoax.Side, captions=["a"], images=[])
    yield call("ask", cocoax.ask, encoder="encoder", about="run", questions="question", method=None)
    yield call("explain_match", cocoax.explain_match, encoder="text", query="sentence", document="some words")
    yield call(
        "explain_hits", cocoax.explain_hits, encoder="text", query="sentence", hits=["some words", "a"], rather_than="others"
    )
    yield call("top", lambda count: things()["text_run"].explain(things()["words"]).top(count), count=2)
    yield call("to_dataframe", lambda grid: things()["result"].to_dataframe(grid), grid=3)
    yield call("minimal", cocoax.minimal, run="run", target="target", keep=0.5, level=None, encoder="encoder", calls=30)
    yield call(
        "counterfactual",
        cocoax.counterfactual,
        encoder="encoder",
        explicand="picture",
        target=_difference(),
        distractors="pictures",
        count=1,
        calls=30,
        seed=0,
    )
    yield call("discover", cocoax.discover, encoder="encoder", inputs="pictures", corpora=2, method="kmeans", seed=0)
    yield call("knows", cocoax.knows, corpus="corpus", foil="foil", similarity="cosine", permutations=39, seed=0)
    yield call("examples", cocoax.examples, encoder="encoder", explicand="picture", members="corpus", method="contribution")
    yield call(
        "Captum",
        lambda encoder, explicand, targets, method, **o: cocoax.Captum(method, **o).explain(encoder, explicand, targets),
        encoder="encoder",
        explicand="picture",
        targets="target",
        method="Occlusion",
        grid=3,
        seed=0,
    )
    yield call(
        "DropTokens",
        lambda encoder, explicand, samples: cocoax.Rise(samples=samples, grid=3, baseline=cocoax.DropTokens()).run(
            encoder, explicand
        ),
        encoder="patches",
        explicand="picture",
        samples=20,
    )
    yield call("datasets.build", _build, encoder="encoder", data="pictures", method=cocoax.Rise(samples=20, grid=3), shard=2)
    yield call("datasets.open", lambda path: cocoax.survey.Index.open(path), path="x")
    yield from _result_calls()
    yield from _index_calls()
    yield from _measure_calls()
    yield call("clear_cache", cocoax.clear_cache, kind="runs", encoder=None, older_than=None)
    yield call("cache_info", cocoax.cache_info, kind="runs", encoder=None, older_than=None)
    yield call("Explicand", cocoax.Explicand, tensor="picture", feature_ids=None)


def _result_calls() -> Iterator[Call]:
    """Calls of what results have."""
    drawn = {
        "title": "a",
        "limit": 1.0,
        "opacity": 0.5,
        "order": "size",
        "most": 3,
        "uncertainty": "fade",
        "dpi": 72,
        "width": 3.0,
    }
    panel = {"columns": 1, "titles": None, "scale": "row", "title": "a", "opacity": 0.5}
    for result in ("result", "text_result"):
        yield Call(f"{result}.plot", lambda result=result, **o: things()[result].plot(**o), {"ax": None, **drawn})
        yield Call(f"{result}.html", lambda result=result, **o: things()[result].html(**o), {"title": "a", "style": "dark"})
        yield Call(f"{result}.save", lambda path, result=result: things()[result].save(path), {"path": "/nonexistent/x.png"})
    yield Call("panel", lambda results, **o: cocoax.plots.panel(results, **o), {"results": ["result"], **panel})
    pairs = things()["run"], things()["text_run"]
    yield Call("links.top", lambda count: cocoax.interactions(*pairs).top(count), {"count": 2})
    yield Call("Question.parse", lambda text: cocoax.Question.parse(text), {"text": "a rather than b"})
    match = {"encoder": "text", "query": "sentence", "document": "some words"} | dict.fromkeys(
        ("method", "features", "similarity", "document_encoder", "max_tokens")
    )
    yield Call("explain_match with options", cocoax.explain_match, match)


def _index_calls() -> Iterator[Call]:
    """Calls of an index of four pictures."""
    index = things()["index"]
    own = {"question": "target", "where": None, "top": 2}
    yield Call("index.ask", lambda **o: index.ask(**o), own)
    yield Call("index.reference", lambda **o: index.reference(**o), {"where": [0], "name": "r"})
    yield Call("index.select", lambda **o: index.select(**o), {"where": {"label": "a"}})
    yield Call("index.field", lambda row: index.field(row), {"row": 1})
    yield Call("index.attributions", lambda **o: index.attributions(**o), {"rows": [0, 1], "target": "target"})
    yield Call("index.encoder", lambda encoder: setattr(index, "encoder", encoder), {"encoder": "encoder"})
    yield Call("index.shortcuts", lambda **o: index.shortcuts(**o), {"label": "label", "where": None})
    yield Call("index.typicality", lambda **o: index.typicality(**o), {"label": "label"})
    survey = index.ask(things()["target"])
    yield Call("survey.plot", lambda **o: survey.plot(**o), {"title": "a", "most": 2})


def _measure_calls() -> Iterator[Call]:
    """Calls of measures of attributions."""
    from cocoax import evaluation
    from cocoax.evaluation import localisation

    mask = np.eye(12, dtype=bool)
    for name, options in {
        "pointing_game": {"tolerance": 1.0},
        "energy_inside": {},
        "iou_at": {"fraction": 0.5},
        "best_iou": {},
    }.items():
        yield Call(name, getattr(localisation, name), {"values": "result", "mask": mask, **options})
    boxes = {"attribution": "result", "masks": {"a": mask}, "name": "a", "tolerance": 0.0, "fraction": 0.5}
    yield Call("mask_scores", localisation.mask_scores, boxes)
    yield Call("gini", evaluation.gini, {"attribution": "result"})
    yield Call("effective_rank", evaluation.effective_rank, {"representations": torch.rand(5, 4)})
    yield Call("rank_agreement", evaluation.rank_agreement, {"first": "result", "second": "result"})
    yield Call("gradient_remark", evaluation.gradient_remark, {"gradient": "result", "removal": "result"})
    yield Call("t_interval", evaluation.t_interval, {"values": [1.0, 2.0, 3.0], "confidence": 0.9})
    yield Call("randomised", evaluation.randomised, {"encoder": "encoder", "seed": 0, "last": 1})
    yield Call(
        "class_probability",
        lambda head, label: evaluation.class_probability(head, label),
        {"head": nn.Linear(4, 3), "label": 1},
    )


def _difference() -> cocoax.Target:
    return cocoax.contrastive_corpus_similarity(things()["corpus"], things()["foil"])


def _build(encoder: Any, data: Any, method: Any, shard: Any) -> Any:
    return cocoax.survey.build(encoder, data, tempfile.mkdtemp(), method, shard=shard, progress=False)


def _use_encoder(**options: Any) -> Any:
    return cocoax.Encoder(**options).represent(things()["pictures"])


def _reference(**options: Any) -> Any:
    return things()["encoder"].reference(**options, cache=False, progress=False)


def _target(weight: Any, similarity: Any) -> Any:
    return things()["run"].explain(cocoax.Target({things()["corpus"]: weight}, similarity))


def _kernel(similarity: cocoax.Similarity) -> Any:
    return things()["run"].explain(cocoax.similarity_to(things()["corpus"], similarity))


def _background(encoder: Any, **options: Any) -> Any:
    method = cocoax.Rise(samples=20, baseline=cocoax.Background(**options))
    return method.explain(encoder, things()["row"], things()["rows"], progress=False)


def _on_text(removal: Any) -> Any:
    return cocoax.Rise(samples=20, baseline=removal).explain(things()["text"], things()["sentence"], things()["words"])


def _extend(encoder: Any, samples: Any) -> Any:
    return (
        cocoax.Rise(samples=20, grid=3).run(things()["encoder"], things()["picture"]).extend(encoder, samples, progress=False)
    )


def _first(representations: Tensor) -> Tensor:
    return representations[:, 0]


@cache
def calls() -> tuple[Call, ...]:
    """Return every right call."""
    methods = (call for name, options in METHODS.items() for call in _method_call(name, options))
    return (*methods, *(_removal_call(name, options) for name, options in OTHERS.items()), *_plain_calls())


# --- wrong things -------------------------------------------------------------------------------------------------------


def _recursive() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def _failing() -> Iterator[Any]:
    yield torch.rand(3, 12, 12)
    raise KeyError("broken source")


class Odd:
    """An object that is nothing in particular."""


def _nan(*shape: int) -> Tensor:
    return torch.full(shape, torch.nan)


# Made anew for each call, since some of them are used up.
WRONG: dict[str, Callable[[], Any]] = {
    **{repr(value): (lambda value=value: value) for value in (
        None, True, 0, -1, 1, 2, 3, 10**12, 2**63, -(2**63), 10**400, 0.0, 0.5, -0.5, 1e300, float("nan"), float("inf"),
        "", " ", "a cat", "1000", "mask", "cosine", "🐱", "\x00", "/etc/passwd", "/nonexistent/x.png", b"bytes", 1j, (), [],
        {}, set(), (1, 2), [1, "a"], [None], [[]], {"a": 1}, (0, 0), (1, 2, 3), ["a", 1], {1: 2}, frozenset({1}),
    )},
    "a long text": lambda: "word " * 5000,
    "a list in itself": _recursive,
    "an endless list": lambda: [[[[[[[[[[[[1.0]]]]]]]]]]]],
    "range": lambda: range(3),
    "a generator": lambda: iter([torch.rand(3, 12, 12)]),
    "an empty generator": lambda: iter([]),
    "a generator that fails": _failing,
    "an object": Odd,
    "a class": lambda: Odd,
    "a lambda": lambda: lambda: None,
    "a function of anything": lambda: lambda *_args, **_options: None,
    "a failing function": lambda: lambda *_args, **_options: 1 / 0,
    "Decimal": lambda: Decimal("3.5"),
    "numpy.int64": lambda: np.int64(3),
    "numpy.float32": lambda: np.float32(0.5),
    "an array": lambda: np.random.default_rng(0).random((3, 12, 12)),
    "an array of objects": lambda: np.array([None, "a", 3], dtype=object),
    "an array of strings": lambda: np.array(["a", "b"]),
    "an array of dates": lambda: np.array(["2020-01-01"], dtype="datetime64[D]"),
    "an empty array": lambda: np.zeros((0, 3)),
    "a picture's array": lambda: np.zeros((12, 12, 3), np.uint8),
    "a scalar tensor": lambda: torch.tensor(3.0),
    "an empty tensor": lambda: torch.zeros(0),
    "an empty batch": lambda: torch.zeros(0, 3, 12, 12),
    "a tensor without pixels": lambda: torch.zeros(3, 0, 0),
    "a tensor of one": lambda: torch.zeros(3, 1, 1),
    "integers": lambda: torch.ones(3, 12, 12, dtype=torch.int64),
    "booleans": lambda: torch.ones(12, 12, dtype=torch.bool),
    "complex numbers": lambda: torch.zeros(3, 12, 12, dtype=torch.complex64),
    "half precision": lambda: torch.zeros(3, 12, 12, dtype=torch.float16),
    "double precision": lambda: torch.rand(3, 12, 12, dtype=torch.float64),
    "a sparse tensor": lambda: torch.eye(12).expand(3, 12, 12).to_sparse(),
    "a sparse matrix": lambda: torch.eye(4).to_sparse(),
    "a sparse CSR matrix": lambda: torch.eye(12).to_sparse_csr(),
    "a quantised tensor": lambda: torch.quantize_per_tensor(torch.rand(3, 12, 12), 0.1, 0, torch.qint8),
    "a tensor of the meta device": lambda: torch.zeros(3, 12, 12, device="meta"),
    "NaN": lambda: _nan(3, 12, 12),
    "infinite numbers": lambda: torch.full((3, 12, 12), torch.inf),
    "huge numbers": lambda: torch.full((3, 12, 12), 3e38),
    "a map": lambda: torch.rand(12, 12),
    "a map of NaN": lambda: _nan(12, 12),
    "a vector": lambda: torch.rand(4),
    "rows": lambda: torch.rand(5, 4),
    "rows of NaN": lambda: _nan(5, 4),
    "rows of zero": lambda: torch.zeros(5, 4),
    "many dimensions": lambda: torch.zeros(1, 1, 1, 1, 1, 1),
    "an expanded tensor": lambda: torch.zeros(1).expand(3, 20_000, 20_000),
    "a tensor with gradients": lambda: torch.rand(3, 12, 12, requires_grad=True),
    "a list of tensors": lambda: [torch.rand(3, 12, 12), torch.rand(3, 5, 5)],
    "a list of arrays": lambda: [np.zeros((12, 12, 3), np.uint8)] * 2,
    "a picture": lambda: Image.new("RGB", (12, 12)),
    "a picture of one pixel": lambda: Image.new("L", (1, 1)),
    "a picture with a palette": lambda: Image.new("P", (12, 12)),
    "a path": lambda: Path("/nonexistent/file"),
    "a folder": lambda: things()["folder"],
    "a module": lambda: nn.Linear(3, 3),
    "a module that is no encoder": Net,
    "a module of the meta device": lambda: nn.Linear(3, 3, device="meta"),
    "a dtype": lambda: torch.float32,
    "a mask token": lambda: cocoax.MaskToken(),
    "a blur": lambda: cocoax.Blur(),
    "a background": lambda: cocoax.Background(torch.zeros(2, 3)),
    "a removal class": lambda: cocoax.Blur,
    "a method": lambda: cocoax.Rise(samples=20, grid=3),
    "a similarity": lambda: cocoax.Rbf(),
    "an explicand": lambda: cocoax.Explicand(torch.rand(3, 5, 5)),
    **{f"the {name}": (lambda name=name: things()[name]) for name in (
        "encoder", "text", "table", "corpus", "target", "words", "rows", "run", "text_run", "field", "result", "question",
    )},
    "a reference of another size": lambda: cocoax.Reference.from_representations(torch.rand(3, 7)),
    "a target of another size": lambda: cocoax.similarity_to(cocoax.Reference.from_representations(torch.rand(3, 7))),
    "targets by name": lambda: {"a": things()["target"]},
    "an attribution of another size": lambda: cocoax.Attribution(torch.rand(5, 5), 1.0, 0.0),
}  # fmt: skip


# --- judging ------------------------------------------------------------------------------------------------------------


@dataclass
class Report:
    """What came of the calls: how many had each outcome, the failures by cause, and the slowest."""

    outcomes: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    slowest: tuple[float, str] = (0.0, "")

    def add(self, outcome: str, call: str, seconds: float, cause: str = "") -> None:
        """Note a call."""
        self.outcomes[outcome] += 1
        self.slowest = max(self.slowest, (seconds, call))
        if cause:
            self.causes[cause] += 1
            self.examples.setdefault(cause, call)

    @property
    def failed(self) -> int:
        """How many calls had neither a result nor a sentence."""
        return sum(self.causes.values())


class TooLong(BaseException):
    """A call took too long; not an Exception, which the library might answer."""


def ring(_number: int, _frame: object) -> None:
    """Say that it has taken too long."""
    raise TooLong


def judged(error: BaseException) -> str:
    """Return why an error is no answer, with the place it comes from; nothing if it is one."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(SOURCE)]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "outside"
    if isinstance(error, TooLong):
        return f"more than {SECONDS} s at {place}"
    if ours and frames[-1].filename == __file__:  # an error of the caller's own function or source
        return ""
    raised = frames[-1].filename.startswith(SOURCE) and (frames[-1].line or "").lstrip().startswith("raise")
    sentence = len(str(error)) >= SHORTEST_SENTENCE and " " in str(error)
    odd = not isinstance(error, DOCUMENTED) or isinstance(error, RecursionError | NotImplementedError)
    return f"{type(error).__name__} at {place}" if odd or not (raised and sentence) else ""


def attempt(call: Call, changes: dict[str, str], report: Report) -> None:
    """Make one call and note what came of it."""
    arguments = {name: _right(value) for name, value in call.right.items()}
    arguments |= {name: WRONG[wrong]() for name, wrong in changes.items()}
    shown = f"{call.name}({', '.join(f'{name}={wrong}' for name, wrong in changes.items())})"
    began = time.monotonic()
    signal.alarm(SECONDS)
    cause = ""
    try:
        call.run(**arguments)
    except (Exception, TooLong) as error:
        cause = judged(error)
        shown += f": {str(error)[:100]!r}"
        outcome = "no sentence" if cause else "a sentence"
    else:
        outcome = "worked"
    finally:
        signal.alarm(0)
    report.add(outcome, shown, time.monotonic() - began, cause)


def _right(value: Any) -> Any:
    """Return a right argument: the thing of this name, or the value itself."""
    if isinstance(value, str):
        return things().get(value, value)
    return [_right(item) for item in value] if isinstance(value, list) else value


@st.composite
def bad_calls(draw: st.DrawFn) -> tuple[Call, dict[str, str]]:
    """Choose a call and what is wrong about it."""
    call = draw(st.sampled_from([call for call in calls() if call.right]))
    names = draw(st.lists(st.sampled_from(sorted(call.right)), min_size=1, max_size=2, unique=True))
    return call, {name: draw(st.sampled_from(sorted(WRONG))) for name in names}


def fuzz(count: int, start: int) -> Report:
    """Make ``count`` bad calls; the same for the same seed."""
    report = Report()
    signal.signal(signal.SIGALRM, ring)
    slice_size = 500
    for number, done in enumerate(range(0, count, slice_size)):

        @seed(start + number)
        @settings(
            max_examples=min(slice_size, count - done),
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(bad_calls())
        def one_slice(chosen: tuple[Call, dict[str, str]]) -> None:
            attempt(*chosen, report)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one_slice()
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return how many calls had neither a result nor a sentence."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    os.environ["COCOAX_PROGRESS"] = "0"
    os.environ["COCOAX_CACHE"] = tempfile.mkdtemp()
    os.chdir(tempfile.mkdtemp())  # some calls write files
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    report = fuzz(options.calls, options.seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    ends, seconds = report.outcomes, report.slowest[0]
    print("| calls | worked | ended in a sentence | lacked one | slowest | memory |\n|---|---|---|---|---|---|")
    print(f"| {ends.total()} | {ends['worked']} | {ends['a sentence']} | {report.failed} | {seconds:.1f} s | {peak:.1f} GB |")
    print(f"slowest: {report.slowest[1]}; {len(calls())} right calls, {len(WRONG)} wrong things")
    for cause, number in report.causes.most_common():
        print(f"{number:6d}  {cause}\n        {report.examples[cause]}")
    return min(report.failed, 1)


if __name__ == "__main__":
    raise SystemExit(main())

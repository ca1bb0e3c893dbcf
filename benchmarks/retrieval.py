"""Evidence for docs/how-to/retrieval.md: a server with troubles, planted sentences, and docstrings against long runs.

    python -m benchmarks.retrieval server
    python -m benchmarks.retrieval planted --documents 100 --out planted.json
    python -m benchmarks.retrieval docstrings --queries 50 --out docstrings.json

All with all-MiniLM-L6-v2. Seconds are of the process's CPU. ``planted`` and ``docstrings`` go on where they were interrupted.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

import cocoax
from cocoax.encoders import embedding_servers
from cocoax.inputs.text import sentences
from cocoax.methods.method import Method
from cocoax.questions.match_results import Match

# --- a server of the OpenAI protocol ----------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Serves an encoder; every third request meets a 429, a delay or a dropped connection."""

    def __init__(self, encoder: cocoax.Encoder, troubled: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.encoder, self.troubled = encoder, troubled
        self.requests, self.texts, self.troubles = 0, [], 0  # type: ignore[var-annotated]
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        """Answer a request for embeddings."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests += 1
            trouble = self.server.requests % 3 if self.server.troubled else 0
            kind = (self.server.requests // 3) % 3
            if trouble == 1:
                self.server.troubles += 1
                if kind == 0:
                    self.send_error(429)
                    return
                if kind == 1:
                    self.connection.close()
                    return
                time.sleep(0.1)
            vectors = self.server.encoder.represent(body["input"], progress=False).tolist()
            self.server.texts += body["input"]
        rows = [{"object": "embedding", "index": number, "embedding": vector} for number, vector in enumerate(vectors)]
        reply = json.dumps({"object": "list", "data": rows, "model": body["model"]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(encoder: cocoax.Encoder) -> Iterator[Server]:
    """Serve an encoder on this machine."""
    server = Server(encoder)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


PAIRS = [
    ("How do I get rid of duplicate rows", "Return DataFrame with duplicate rows removed."),
    ("average of a column", "Return the mean of the values over the requested axis."),
    ("fill missing values", "Fill NA/NaN values using the specified method."),
    ("sort a table by date", "Sort by the values along either axis."),
    ("merge two tables", "Merge DataFrame or named Series objects with a database-style join."),
]


def server_evidence() -> None:
    """Explain five matches through the server: counts, numbers against the wrapped model, kill and resume, repeat."""
    model = cocoax.load("minilm")
    embedding_servers._WAITS = (0.05, 0.1, 0.2, 0.4)  # so that troubles do not take seconds

    def texts_only(texts: list[str]) -> Any:
        return model.represent(texts, progress=False)

    with served(model) as server:
        encoder = cocoax.load(server.url, model="minilm", batch_size=32, parallel=4)
        matches = [cocoax.explain_match(encoder, *pair) for pair in PAIRS]
        sent, distinct = len(server.texts), len(set(server.texts))
        print(f"5 matches: {server.requests} requests, {server.troubles} troubles, {sent} texts, {distinct} distinct")
        plain = [cocoax.explain_match(cocoax.wrap(texts_only), *pair) for pair in PAIRS]
        far = max(
            float((one.query.values - other.query.values).abs().max()) for one, other in zip(matches, plain, strict=True)
        )
        print(f"largest difference of a value from the wrapped model: {far:.1e}")
        again = cocoax.load(server.url, model="minilm")
        for pair in PAIRS:
            cocoax.explain_match(again, *pair)
        print(f"repeated by a new encoder: {len(server.texts) - sent} texts")
        asks = embedding_servers.server_embedding(server.url, "minilm")
        stopped = cocoax.wrap(asks, takes="texts", name="stopped", batch_size=8, max_calls=60)
        before = len(server.texts)
        try:
            cocoax.explain_match(stopped, *PAIRS[0])
        except Exception as error:
            print(f"ended by its budget: {error}")
        middle = len(server.texts)
        resumed = cocoax.explain_match(cocoax.wrap(asks, takes="texts", name="stopped"), *PAIRS[0])
        total = len(server.texts) - before
        print(
            f"stopped after {middle - before} texts, gone on with {total - middle + before}; {matches[0].similarity:.6f} and "
            f"{resumed.similarity:.6f}; in one go {2 + 1 + len(set(_texts_of(plain[0])))} at most"
        )


def _texts_of(match: Match) -> list[str]:
    return [*(match.query.names or ()), *(match.document.names or ())]


# --- planted sentences ------------------------------------------------------------------------------------------------------

ANSWERS = [
    ("How do I cancel my subscription?", "You can end your membership at any time from the billing page."),
    ("What is the capital of France?", "Paris is where the French government sits."),
    ("How to fix a flat tire", "Patch the inner tube and pump the wheel up again."),
    ("symptoms of the flu", "Fever, cough and aching muscles are typical of influenza."),
    ("best time to plant tomatoes", "Tomato seedlings go into the garden after the last frost."),
    ("Who wrote Hamlet?", "Shakespeare finished the play about the Danish prince around 1600."),
    ("opening hours of the library", "Readers can borrow books from nine to six on weekdays."),
    ("how to remove red wine stains", "Salt and cold water take spilled merlot out of a cloth."),
    ("distance from Earth to the Moon", "Our satellite is about 384 000 kilometres away."),
    ("can dogs eat chocolate", "Cocoa is poisonous for puppies and grown hounds alike."),
]


def filler_sentences() -> list[str]:
    """Return sentences of docstrings of the standard library and NumPy."""
    import argparse as a
    import asyncio
    import subprocess
    import tempfile as t
    import textwrap
    import zipfile

    found: list[str] = []
    for module in (np, np.linalg, np.random, a, asyncio, subprocess, t, textwrap, zipfile, threading, inspect, re):
        for name, item in sorted(vars(module).items()):
            text = getattr(item, "__doc__", None)
            if name.startswith("_") or not callable(item) or not isinstance(text, str):
                continue
            first = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
            for begin, end in sentences(first):
                own = first[begin:end]
                if 8 <= len(own.split()) <= 18 and not re.search(r"[`>=\[\]_*:]|\(.*,", own):
                    found.append(own)
    return list(dict.fromkeys(found))


def planted_documents(count: int, length: int = 8) -> Iterator[tuple[str, list[str], int]]:
    """Yield queries, the sentences of documents, and the place of the sentence that answers the query."""
    filler = filler_sentences()
    random = np.random.default_rng(0)
    for number in range(count):
        query, answer = ANSWERS[number % len(ANSWERS)]
        others = [filler[place] for place in random.choice(len(filler), length - 1, replace=False)]
        place = int(random.integers(length))
        yield query, [*others[:place], answer, *others[place:]], place


def by_sentence(match: Match, parts: Sequence[str]) -> np.ndarray:
    """Return the values of sentences: sums of those of their words."""
    ends = np.cumsum([len(part) + 1 for part in parts])
    values = np.zeros(len(parts))
    for (begin, _), value in zip(match.document.offsets or (), match.document.relative.tolist(), strict=True):
        values[int(np.searchsorted(ends, begin, side="right"))] += value
    return values


def planted_evidence(count: int, out: Path) -> None:
    """Count how often the planted sentence has the largest value, by setting; and the calls and seconds of each."""
    records = json.loads(out.read_text()) if out.exists() else []
    encoder = cocoax.load("minilm")
    calls = CallCounter(encoder)
    for number, (query, parts, place) in enumerate(planted_documents(count)):
        if number < len(records):
            continue
        text = " ".join(parts)
        record: dict[str, Any] = {"words": len(text.split())}
        for name, options in PLANTED.items():
            with tempfile.TemporaryDirectory() as folder:
                os.environ["COCOAX_CACHE"] = folder
                cocoax.explain_match(encoder, query, "x y", **options)  # the query costs the same everywhere
                calls.texts, begun = 0, time.process_time()
                match = cocoax.explain_match(encoder, query, text, **options)
                seconds = time.process_time() - begun
            side = match.document_side.sentences or match.document
            exact = len(side.values) == len(parts)
            values = side.relative.numpy() if exact else by_sentence(match, parts)
            record[name] = [bool(values.argmax() == place), calls.texts, round(seconds, 2)]
        records.append(record)
        out.write_text(json.dumps(records))
        report(records)


def _planted(method: Method | None, features: str | None) -> dict[str, Any]:
    return {"method": method, "features": features}


PLANTED: dict[str, dict[str, Any]] = {
    "auto": _planted(None, None),
    "sentences, 24 samples": _planted(cocoax.Rise(samples=24), "sentences"),
    "words, 74 samples": _planted(cocoax.Rise(samples=74), "words"),
    "leave one sentence out": _planted(cocoax.Occlusion(), "sentences"),
    "gradients (integrated, 12 steps)": _planted(cocoax.IntegratedGradients(steps=12), "words"),
}


class CallCounter:
    """Counts the texts that go through an encoder's network."""

    def __init__(self, encoder: cocoax.Encoder) -> None:
        self.texts = 0
        forward: Callable[..., Any] = encoder.owner.forward  # type: ignore[union-attr]

        def counted(tokens: Any, *rest: Any) -> Any:
            self.texts += len(tokens["input_ids"])
            return forward(tokens, *rest)

        encoder.owner.forward = counted  # type: ignore[union-attr, method-assign]


def report(records: list[dict[str, Any]]) -> None:
    """Print a table of what there is."""
    words = np.mean([record["words"] for record in records])
    print(f"{len(records)} documents of {words:.0f} words")
    for name in PLANTED:
        first, calls, seconds = np.mean([record[name] for record in records], axis=0)
        print(f"  {name:36} first {first:5.0%}  {calls:4.0f} calls  {seconds:5.2f} s", flush=True)


# --- docstrings -------------------------------------------------------------------------------------------------------------


def docstrings(count: int = 500) -> dict[str, str]:
    """Return the first paragraphs of docstrings of installed packages, by name."""
    import pandas
    import scipy.stats
    import sklearn.cluster
    import sklearn.linear_model
    import sklearn.metrics

    found: dict[str, str] = {}
    for module in (pandas, pandas.DataFrame, pandas.Series, np, np.linalg, scipy.stats, sklearn.metrics, sklearn.cluster):
        for name, item in sorted(vars(module).items()):
            text = getattr(item, "__doc__", None)
            if name.startswith("_") or not callable(item) or not isinstance(text, str):
                continue
            body = " ".join(" ".join(inspect.cleandoc(text).split("Parameters")[0].split()).split()[:60])
            if len(body.split()) >= 8 and body not in found.values():
                found[f"{module.__name__}.{name}"] = body
    return dict(list(found.items())[:count])


QUERIES = [
    "How do I get rid of duplicate rows", "average of each group", "fill missing values", "merge two tables",
    "largest values of a column", "count distinct values", "rename columns", "random sample of rows", "rolling mean",
    "convert strings to dates", "sort by several columns", "invert a matrix", "solve linear equations", "eigenvalues",
    "test whether two samples differ", "correlation of two variables", "find groups without labels", "density of points",
    "area under the curve", "confusion of classes", "round numbers", "cumulative sum", "reshape an array",
    "stack arrays on top of each other", "find the index of the maximum", "interpolate between points", "write to a file",
    "read a spreadsheet", "transpose a table", "apply a function to each row", "drop a column", "shift values in time",
    "percent change", "quantiles of a distribution", "fit a normal distribution", "clip values to a range",
    "split a string", "is any value missing", "combine boolean conditions", "pivot a table", "bin values into intervals",
    "distance between clusters", "precision and recall", "mean squared error", "variance of a sample", "set operations",
    "unique values in order", "repeat elements", "memory used by a table", "plot a histogram",
]  # fmt: skip


def docstring_evidence(queries: int, references: int, out: Path) -> None:
    """Explain the best hits of queries by the defaults; compare some with 2000 samples of words."""
    records = json.loads(out.read_text()) if out.exists() else []
    encoder = cocoax.load("minilm")
    texts = list(docstrings().values())
    vectors = encoder.reference(texts, keep_samples=True).samples
    assert vectors is not None
    calls = CallCounter(encoder)
    for number, query in enumerate(QUERIES[:queries]):
        if number < len(records):
            continue
        own = encoder.represent([query], progress=False)[0]
        ranked = (vectors @ own).argsort(descending=True).tolist()[:3]
        calls.texts, begun = 0, time.process_time()
        hits = cocoax.explain_hits(encoder, query, [texts[place] for place in ranked])
        record: dict[str, Any] = {"calls": calls.texts, "seconds": time.process_time() - begun, "words": len(hits[0].spans)}
        if number < references:
            method = cocoax.Rise(samples=2000)
            long = cocoax.explain_match(encoder, query, texts[ranked[0]], features="words", method=method)
            if long.document.names == hits[0].document.names:
                error = hits[0].document.standard_error
                assert error is not None
                far = (hits[0].document.relative - long.document.relative).abs() / error.clamp(min=1e-9)
                top = [side.relative.argmax().item() for side in (long.document, hits[0].document)]
                best = long.document.relative.argsort(descending=True)[:3].tolist()
                record |= {
                    "same top": top[0] == top[1],
                    "top among three": top[1] in best,
                    "correlation": float(np.corrcoef(long.document.relative, hits[0].document.relative)[0, 1]),
                    "covered": float((far < 1.96).double().mean()),
                }
        records.append(record)
        out.write_text(json.dumps(records))
    for name in ("calls", "seconds", "words", "same top", "top among three", "correlation", "covered"):
        found = [record[name] for record in records if name in record]
        print(f"{name:18} mean {np.mean(found):8.3f} of {len(found)}")


def main() -> None:
    """Run one of the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("server", "planted", "docstrings"))
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--references", type=int, default=10, help="queries whose best hit gets 2000 samples")
    parser.add_argument("--out", type=Path, default=Path("retrieval.json"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["COCOAX_CACHE"] = folder
        if arguments.part == "server":
            server_evidence()
        elif arguments.part == "planted":
            planted_evidence(arguments.documents, arguments.out)
        else:
            docstring_evidence(arguments.queries, arguments.references, arguments.out)


if __name__ == "__main__":
    main()

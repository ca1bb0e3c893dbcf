"""What of the server is closed, and the bounds of what is sent to it."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from cocoax.app import guard as module
from cocoax.app.guard import MAX_MESSAGE, Guard, is_own
from cocoax.app.sessions import Sessions

JOIN, UPLOAD = "/gradio_api/queue/join", "/gradio_api/upload"
FILE = {"path": "http://example.org/x.png", "meta": {"_type": "gradio.FileData"}}


async def echo(scope: Any, receive: Any, send: Any) -> None:
    await Response(await Request(scope, receive).body())(scope, receive, send)


def answer(
    path: str, body: Any = b"", method: str = "POST", pieces: int = 1, guard: Guard | None = None, **headers: str
) -> tuple[int, str]:
    """Status and text of a guarded application, which answers 200 with what it was sent."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    size = max(1, -(-len(data) // pieces))
    parts = [data[start : start + size] for start in range(0, len(data), size)] or [b""]
    messages = [{"type": "http.request", "body": part, "more_body": part is not parts[-1]} for part in parts]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    said = {"host": "127.0.0.1:7860", "content-length": str(len(data)), **headers}
    raw = [(name.encode(), value.encode()) for name, value in said.items()]
    scope = {"type": "http", "path": path, "method": method, "headers": raw}
    asyncio.run((guard or guarded())(scope, receive, send))
    return sent[0]["status"], b"".join(message["body"] for message in sent[1:]).decode(errors="replace")


def guarded(app: Any = echo, folder: Path = Path("nowhere"), sessions: Sessions | None = None) -> Guard:
    return Guard(app, "127.0.0.1", folder, 2**20, sessions or Sessions(1))


# --- who asks, and for what -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "method"), [("/", "GET"), (UPLOAD, "POST"), (JOIN, "POST")])
def test_host_and_origin__other_than_the_page_s_own_are_refused(path: str, method: str) -> None:
    for host in ("evil.example", "evil.example:7860", "127.0.0.1.evil.example:7860", "", "[", "192.168.0.7"):
        status, told = answer(path, b"{}", method, host=host)
        assert (status, told[:43]) == (403, f"This page does not go by the name {host!r}; open it"[:43])
    origins = ("http://evil.example", "http://[", "ftp://127.0.0.1:7860", "http://127.0.0.1:8000", "http://localhost:7860")
    for origin in (*origins, "null", "http://127.0.0.1:7860.evil.example"):
        assert answer(path, b"{}", method, origin=origin)[0] == 403
    for host in ("127.0.0.1:7860", "localhost:7860", "LOCALHOST", "[::1]:7860"):
        assert answer(path, b"{}", method, host=host, origin=f"http://{host}")[0] == 200


@pytest.mark.parametrize(
    ("name", "host", "own"),
    [
        ("127.0.0.1", "localhost", True),
        ("10.0.0.3", "localhost", False),
        ("lab.example", "lab.example", True),
        ("127.0.0.1", "lab.example", False),
        ("10.0.0.3", "0.0.0.0", True),
        ("fe80::1", "::", True),
        (socket.gethostname().lower(), "0.0.0.0", True),
        ("evil.example", "0.0.0.0", False),
        ("", "0.0.0.0", False),
    ],
)
def test_is_own(name: str, host: str, own: bool) -> None:
    assert is_own(name, host) is own


def test_paths__that_are_closed() -> None:
    api = "/gradio_api/"
    files = ("file=http://example.org/x.png", "file=%68ttps://example.org/x.png", "file/ftp://example.org/x.png", "file=/\0")
    routes = ("proxy=https://example.org/x", "vibe-edit/", "component_server", "call/v2/on_photo", "run/on_photo")
    for path in (*files, *routes, "custom_component/a/client/b/c", "file=" + "x" * 10_000):
        assert answer(api + path, method="GET") == (403, "This page does not serve that.")
    for path in ("/", "/config", f"{api}file=/tmp/page/x.png", f"{api}queue/data", "/assets/a.js"):
        assert answer(path, method="GET")[0] == 200


def test_connections__of_other_kinds() -> None:
    sent: list[Any] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        sent.append(scope["type"])

    async def send(message: Any) -> None:
        sent.append(message)

    for kind in ("websocket", "lifespan"):
        asyncio.run(guarded(app)({"type": kind, "headers": []}, None, send))  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1008}, "lifespan"]


def test_heartbeat__is_the_connection_of_its_session() -> None:
    sessions = Sessions(1)
    connections: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        connections.append(sessions.get("key").connections)
        await echo(scope, receive, send)

    assert answer("/gradio_api/heartbeat/key", method="GET", guard=guarded(app, sessions=sessions))[0] == 200
    assert [*connections, sessions.get("key").connections] == [1, 0]


# --- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [1, 3])
def test_message__is_passed_on_whole(pieces: int) -> None:
    said = {"data": ["a cat", "meta"], "event_data": {"path": "nowhere/a/x.png"}, "session_hash": "a"}
    status, got = answer(JOIN, said, pieces=pieces)
    assert status == 200
    assert json.loads(got) == said


@pytest.mark.parametrize(
    "said",
    [
        {"data": [FILE]},
        {"event_data": {"files": [FILE]}},
        [FILE],
        rb'{"data": [{"path": "http://example.org", "\u006deta": {"_type": "gradio\u002eFileData"}}]}',
    ],
)
def test_message__with_a_file_in_it_is_refused(said: Any) -> None:
    assert answer(JOIN, said) == (403, "This page takes files through its upload only.")


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "nowhere/../x", "nowhere", "nowhere/\0", "nowhere/" + "x" * 10_000, "", None, 3]
)
def test_message__with_a_path_that_no_upload_has(path: Any) -> None:
    for said in ({"event_data": {"path": path}}, {"event_data": {"files": [{"path": path}]}}):
        assert answer(JOIN, said) == (400, "The message names a file that was not uploaded to this page.")
    assert answer(JOIN, {"data": ["\ud800"]})[0] == 400


@pytest.mark.parametrize("depth", [21, 950, 12_000])
@pytest.mark.parametrize(("left", "right"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_message__nested_too_deeply(depth: int, left: bytes, right: bytes) -> None:
    status, told = answer(JOIN, left * depth + b"1" + right * depth)
    assert (status, told[:33]) == (400, "The message is nested too deeply:")
    assert answer(JOIN, left * 20 + b"1" + right * 20)[0] == 200


def test_message__too_large_or_not_json() -> None:
    assert answer(JOIN, {"data": ["x" * MAX_MESSAGE]}, pieces=5) == (413, "The message is too large.")
    assert answer(JOIN, b"\xff\x00")[0] == 400


# --- uploads ----------------------------------------------------------------------------------------------------------


def test_upload__is_bounded_alone_and_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(UPLOAD, b"\xff" * 2**20)[0] == 200
    assert answer(UPLOAD, **{"content-length": str(2**20 + 1)})[0] == 413
    for length in ("", "-1", "many"):
        assert answer(UPLOAD, **{"content-length": length})[0] == 411
    monkeypatch.setattr(module, "MAX_UPLOADS", 2**19)
    for number in range(3):  # a small file counts for a quarter of a megabyte
        status, _ = answer(UPLOAD, b"x", guard=guarded(folder=tmp_path))
        assert status == (200 if number < 2 else 507)
        (tmp_path / str(number)).write_bytes(b"x")


@pytest.mark.parametrize("how", ["silent", "gone"])
def test_upload__that_stops_half_way_leaves_its_room(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UPLOAD_SECONDS", 0.05)
    monkeypatch.setattr(module, "MAX_UPLOADS", 150)
    guard, sent = guarded(folder=tmp_path), []
    messages = [{"type": "http.request", "body": b"begin", "more_body": True}]

    async def receive() -> Any:
        if not messages and how == "silent":
            await asyncio.sleep(60)
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-length", b"100")]
    scope = {"type": "http", "path": UPLOAD, "method": "POST", "headers": headers}
    asyncio.run(guard(scope, receive, send))
    assert sent[0]["status"] == 408
    assert answer(UPLOAD, b"x" * 100, guard=guard)[0] == 200

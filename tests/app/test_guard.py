"""What of the server stays closed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from cocoax.app.guard import LARGEST, SMALLEST, Guard, Uploads, is_own


def answer(path: str, body: Any = None, method: str = "POST", pieces: int = 1) -> tuple[int, str]:
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

    asyncio.run(Guard(inner)({"type": "http", "path": path, "method": method}, receive, send))
    return sent[0]["status"], sent[1]["body"].decode(errors="replace")


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


def test_message__disguised() -> None:
    body = rb'{"data": [{"path": "http://example.org", "\u006deta": {"_type": "gradio\u002eFileData"}}]}'
    assert answer("/gradio_api/queue/join", body)[0] == 403


def test_message__too_large() -> None:
    assert answer("/gradio_api/queue/join", {"data": ["x" * LARGEST]}, pieces=5) == (413, "The message is too large.")


def test_message__not_json() -> None:
    assert answer("/gradio_api/run/predict", b"\xff\x00")[0] == 400


def test_upload__is_not_read_here() -> None:
    assert answer("/gradio_api/upload", b"\xff" * (LARGEST + 1))[0] == 200


def test_other_kinds_of_connection__pass() -> None:
    seen: list[str] = []

    async def inner(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope["type"])

    asyncio.run(Guard(inner)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]

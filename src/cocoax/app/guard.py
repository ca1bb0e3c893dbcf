"""What of Gradio's server stays closed: fetching from other servers, and large or disguised messages."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

LARGEST = 100_000  # bytes of a message other than an upload
_CLOSED = re.compile(
    r"/gradio_api/(file[=/]\s*\w+:|proxy=|vibe|undo-vibe|component_server|process_recording|deep_link|stream)"
)


class Guard:
    """Lets through what the page needs.

    Gradio would fetch an address from the network that a visitor puts where it expects a file, and hand the answer on. This
    page's own messages never mention files that way (uploads are named in events, and checked there).
    """

    def __init__(self, app: Application) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Let one request through, or refuse it."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        path = unquote(str(scope["path"]))
        if _CLOSED.match(path):
            return await _refuse(send, 403, "This page does not serve that.")
        if scope["method"] != "POST" or path.startswith("/gradio_api/upload"):
            return await self.app(scope, receive, send)
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > LARGEST:
                return await _refuse(send, 413, "The message is too large.")
            if message["type"] != "http.request" or not message.get("more_body"):
                break
        try:
            said = json.loads(body or b"null")
        except ValueError:
            return await _refuse(send, 400, "The message is not JSON.")
        if isinstance(said, dict) and _names_a_file(said.get("data")):
            return await _refuse(send, 403, "This page takes files through its upload only.")
        unread = [body]

        async def again() -> Message:
            return {"type": "http.request", "body": unread.pop(), "more_body": False} if unread else await receive()

        return await self.app(scope, again, send)


def _names_a_file(value: Any) -> bool:
    """Return whether Gradio would take something in here for a file: a dictionary that tells its type under ``meta``."""
    if isinstance(value, dict):
        return "meta" in value or any(map(_names_a_file, value.values()))
    return isinstance(value, list) and any(map(_names_a_file, value))


async def _refuse(send: Send, status: int, why: str) -> None:
    """Answer a request with a status and a sentence."""
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": why.encode()})

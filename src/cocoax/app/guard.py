"""The HTTP middleware of the page: what of Gradio's server is closed, and the bounds of what is sent to it.

Starlette's ``TrustedHostMiddleware`` takes a list of names; a page that listens everywhere is called by any address of the
machine, and must know the ``Host`` to judge the ``Origin`` as well, so both are checked here.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cocoax.app.sessions import SILENT_SECONDS, Sessions

MAX_MESSAGE = 4_200_000  # bytes of a request other than an upload: the documents of a search are pasted
MAX_DEPTH = 20  # of nested lists and dictionaries; the page's own messages have four
MAX_PATH = 2000  # characters of an address
MAX_UPLOADS = 2**30  # bytes of all uploads together; Gradio deletes each after a while
UPLOAD_SECONDS = 120  # in which an upload must arrive
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HEARTBEAT = "/gradio_api/heartbeat/"
_CLOSED = re.compile(
    r"/gradio_api/(file[=/]\s*\w+:|proxy=|vibe|undo-vibe|component_server|process_recording|deep_link|stream"
    r"|call/|run/|api/|custom_component)"
)


class Guard:
    """Middleware that lets through what the page needs.

    Requests with another ``Host`` than the page's own are refused: a website can let its name point to this machine. So are
    those with the ``Origin`` of another website. Gradio would fetch an address that stands where it expects a file, so
    messages with files in them are refused; the page's own name uploads in another way, and only these are opened.

    Args:
        app: the application that is guarded.
        host: where the page listens, and its name.
        folder: of the uploads.
        largest: bytes of one upload.
        sessions: to which heartbeats belong.

    """

    def __init__(self, app: ASGIApp, host: str, folder: Path, largest: int, sessions: Sessions) -> None:
        self.app = app
        self.host = host
        self.folder = folder
        self.largest = largest
        self.sessions = sessions
        self._arriving = 0  # bytes of the uploads under way

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through, or refuse it."""
        if scope["type"] == "websocket":  # the page has none
            return await send({"type": "websocket.close", "code": 1008})
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        path = unquote(scope["path"])
        if refused := self._refused(Headers(scope=scope), path):
            return await refused(scope, receive, send)
        if path.startswith(_HEARTBEAT):
            return await self._heartbeat(path.removeprefix(_HEARTBEAT), scope, receive, send)
        if scope["method"] != "POST":
            return await self.app(scope, receive, send)
        if path.startswith("/gradio_api/upload"):
            return await self._upload(scope, receive, send)
        return await self._message(scope, receive, send)

    def _refused(self, headers: Headers, path: str) -> PlainTextResponse | None:
        """Return the refusal of a request that is not for this page or not from it, or for something that is closed."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if not is_own(_name(host), self.host):
            told = f"This page does not go by the name {host!r}; open it at the address that it said when it was started."
        elif origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            told = f"This page does not answer to other sites, such as {origin!r}."
        elif _CLOSED.match(path) or "\0" in path or len(path) > MAX_PATH:
            told = "This page does not serve that."
        else:
            return None
        return _plain(403, told)

    async def _heartbeat(self, key: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a connection through that is open as long as a browser tab is."""
        try:
            with self.sessions.connected(key):
                await self.app(scope, receive, send)
        finally:
            asyncio.get_running_loop().call_later(SILENT_SECONDS + 1, self.sessions.drop_closed)

    async def _upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let an upload through if it is not too large and there is room for it."""
        length = Headers(scope=scope).get("content-length", "")
        if not length.isdecimal():
            return await _plain(411, "The upload does not say how long it is.")(scope, receive, send)
        size = int(length)
        if size > self.largest:
            await _skip(receive, 2 * self.largest)
            return await _plain(413, "The upload is larger than the maximum allowed size.")(scope, receive, send)
        if self._arriving + size + await asyncio.to_thread(_bytes_below, self.folder) > MAX_UPLOADS:
            await _skip(receive, size)
            return await _plain(507, "There is no room for further uploads; try again in a minute.")(scope, receive, send)
        self._arriving += size
        try:
            async with asyncio.timeout(UPLOAD_SECONDS):
                await self.app(scope, receive, send)
        except (TimeoutError, ClientDisconnect):
            await _plain(408, "The upload stopped half way; try again.")(scope, receive, send)
        finally:
            self._arriving -= size

    async def _message(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a message through if it is short, JSON and has no file in it."""
        body, more = b"", True
        while more and len(body) <= MAX_MESSAGE:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if refused := _refused_message(body, self.folder):
            return await refused(scope, receive, send)
        unread = [body]

        async def again() -> Message:
            return {"type": "http.request", "body": unread.pop(), "more_body": False} if unread else await receive()

        return await self.app(scope, again, send)


def is_own(name: str, host: str) -> bool:
    """Return whether ``name`` is one of a page that listens at ``host``.

    One that listens everywhere has all addresses of the machine, which are numbers and cannot be pointed elsewhere.
    """
    if host.lower() in LOOPBACK:
        return name in LOOPBACK
    if host not in ("0.0.0.0", "::", ""):
        return name == host.lower()
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in {"localhost", socket.gethostname().lower(), socket.getfqdn().lower()}
    return True


def _name(host: str) -> str:
    """Return the name in a Host header, without the port; nothing if it is no name."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _refused_message(body: bytes, folder: Path) -> PlainTextResponse | None:
    """Return the refusal of a message that is too long, not JSON, nested too deeply or names other files than uploads."""
    if len(body) > MAX_MESSAGE:
        return _plain(413, "The message is too large.")
    too_deep = _plain(
        400, f"The message is nested too deeply: more than {MAX_DEPTH} lists and dictionaries inside each other."
    )
    try:
        layer: list[Any] = [json.loads(body or b"null")]
        json.dumps(layer, ensure_ascii=False).encode()  # lone surrogates could not be sent back
    except RecursionError:
        return too_deep
    except ValueError:
        return _plain(400, "The message is not JSON.")
    for _ in range(MAX_DEPTH + 1):
        layer = [part for part in layer if isinstance(part, dict | list)]
        objects = [part for part in layer if isinstance(part, dict)]
        if any("meta" in part for part in objects):  # by which Gradio knows a file
            return _plain(403, "This page takes files through its upload only.")
        if not all(_is_upload(part["path"], folder) for part in objects if "path" in part):  # Gradio would leave a traceback
            return _plain(400, "The message names a file that was not uploaded to this page.")
        layer = [inner for part in layer for inner in (part.values() if isinstance(part, dict) else part)]
    return too_deep if layer else None


def _is_upload(path: Any, folder: Path) -> bool:
    """Return whether a path is one that an upload has, or had until it was deleted."""
    try:
        if not isinstance(path, str) or folder not in Path(os.path.normpath(path)).parents:
            return False
        Path(path).stat()
    except FileNotFoundError:
        return True
    except (OSError, ValueError):  # too long, or with a NUL in it
        return False
    return True


def _bytes_below(folder: Path) -> int:
    """Return the size of all files in a folder; a small one counts as 256 KB, so that there are not too many either."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # Gradio deletes old ones meanwhile
            total += max(path.stat().st_size, 2**18) if path.is_file() else 0
    return total


async def _skip(receive: Receive, most: int) -> None:
    """Read up to so many bytes of a request and forget them: browsers listen to an answer only once they have sent all."""
    more = True
    while more and most > 0:
        message = await receive()
        most -= len(message.get("body", b""))
        more = message.get("more_body", False)


def _plain(status: int, told: str) -> PlainTextResponse:
    return PlainTextResponse(told, status, {"x-content-type-options": "nosniff"})

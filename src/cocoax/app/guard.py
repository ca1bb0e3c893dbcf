"""What of Gradio's server stays closed: other names and other sites, fetching from other servers, too much of anything."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import socket
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote, urlsplit

from starlette.requests import ClientDisconnect

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

LARGEST = 100_000  # bytes of a message other than an upload
DEEPEST = 20  # lists and dictionaries inside each other; the page's own messages have four
UPLOADS = 2**30  # bytes of all uploads together
SMALLEST = 2**18  # bytes that an upload counts for at least, so that there are not too many either
STALLED = 30  # seconds without a byte after which an upload is given up, and its room free again
FRESH = 60  # seconds for which an upload is certainly kept; the page reads it within a few
HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_CLOSED = re.compile(
    r"/gradio_api/(file[=/]\s*\w+:|proxy=|vibe|undo-vibe|component_server|process_recording|deep_link|stream"
    r"|call/|run/|api/|custom_component)"
)


class Uploads:
    """The folder where uploads arrive, bounded in total: the oldest make room for new ones.

    Args:
        folder: where they are.
        largest: bytes of one upload.
        most: bytes of all of them.

    """

    def __init__(self, folder: Path, largest: int, most: int = UPLOADS) -> None:
        self.folder = folder
        self.largest = largest
        self.most = most
        self._arriving = 0
        self._lock = Lock()

    def make_room(self, size: int) -> bool:
        """Return whether there is room for an upload, which is then reserved until :meth:`arrived` is called."""
        with self._lock:
            files = sorted(self._files())
            total = sum(bytes_ for _, bytes_, _ in files) + self._arriving + max(size, SMALLEST)
            for changed, bytes_, path in files:
                if total <= self.most or changed > time.time() - FRESH:
                    break
                path.unlink(missing_ok=True)
                total -= bytes_
            if total > self.most:
                return False
            self._arriving += max(size, SMALLEST)
            return True

    def arrived(self, size: int) -> None:
        """Say that an upload for which room was made is in the folder, or did not come."""
        with self._lock:
            self._arriving -= max(size, SMALLEST)

    def _files(self) -> list[tuple[float, int, Path]]:
        """Return when each file was last changed, what it counts for, and where it is."""
        files = []
        for path in self.folder.rglob("*"):
            try:
                state = path.stat()
            except FileNotFoundError:  # Gradio deletes old ones too
                continue
            if path.is_file():
                files.append((state.st_mtime, max(state.st_size, SMALLEST), path))
        return files


class Guard:
    """Lets through what the page needs.

    Requests to another name than the page's own are refused: a website can point its own name to this machine, and its
    scripts would be let in. So are those that the browser sends on behalf of another site.

    Gradio would fetch an address from the network that a visitor puts where it expects a file, and hand the answer on. This
    page's own messages never mention files that way (uploads are named in events, and checked there).

    Args:
        app: what is guarded.
        host: where the page listens, and the name that it goes by.
        uploads: where they arrive.

    """

    def __init__(self, app: Application, host: str, uploads: Uploads) -> None:
        self.app = app
        self.host = host
        self.uploads = uploads

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Let one request through, or refuse it."""
        if scope["type"] == "websocket":  # the page has none
            return await send({"type": "websocket.close", "code": 1008})
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path = unquote(str(scope["path"]))
        refusal = self._stranger(headers)
        if refusal:
            return await _refuse(send, 403, refusal)
        if _CLOSED.match(path):
            return await _refuse(send, 403, "This page does not serve that.")
        if scope["method"] != "POST":
            return await self.app(scope, receive, send)
        if path.startswith("/gradio_api/upload"):
            return await self._upload(headers, scope, receive, send)
        return await self._message(scope, receive, send)

    def _stranger(self, headers: dict[str, str]) -> str:
        """Return why a request is not for this page or not from it; nothing if it is."""
        host = headers.get("host", "")
        if not is_own(_name(host), self.host):
            return f"This page does not go by the name {host!r}; open it at the address that it said when it was started."
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
            return f"This page does not answer to other sites, such as {origin!r}."
        return ""

    async def _upload(self, headers: dict[str, str], scope: Message, receive: Receive, send: Send) -> None:
        """Let an upload through if it is not too large and there is room for it."""
        length = headers.get("content-length", "")
        if not length.isdecimal():
            return await _refuse(send, 411, "The upload does not say how long it is.")
        size = int(length)
        if size > self.uploads.largest:
            await _skip(receive, 2 * self.uploads.largest)
            return await _refuse(send, 413, "The upload is larger than the maximum allowed size.")
        if not await asyncio.to_thread(self.uploads.make_room, size):
            await _skip(receive, size)
            return await _refuse(send, 507, "There is no room for further uploads at the moment; try again in a minute.")
        try:
            return await self.app(scope, _in_time(receive), send)
        except ClientDisconnect:  # or nothing came for long
            return await _refuse(send, 408, "The upload stopped half way; try again.")
        finally:
            self.uploads.arrived(size)

    async def _message(self, scope: Message, receive: Receive, send: Send) -> None:
        """Let a message through if it is short, JSON and names no file."""
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
        except RecursionError:
            return await _refuse(send, 400, TOO_DEEP)
        except ValueError:
            return await _refuse(send, 400, "The message is not JSON.")
        if _depth(said) > DEEPEST:
            return await _refuse(send, 400, TOO_DEEP)
        if _names_a_file(said):
            return await _refuse(send, 403, "This page takes files through its upload only.")
        unread = [body]

        async def again() -> Message:
            return {"type": "http.request", "body": unread.pop(), "more_body": False} if unread else await receive()

        return await self.app(scope, again, send)


TOO_DEEP = f"The message is nested too deeply: more than {DEEPEST} lists and dictionaries inside each other."


def is_own(name: str, host: str) -> bool:
    """Return whether a page that listens at ``host`` goes by this name.

    One that listens everywhere goes by all addresses of the machine, which are numbers and cannot be pointed elsewhere.
    """
    if host.lower() in HERE:
        return name in HERE
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


def _depth(value: Any) -> int:
    """Return how many lists and dictionaries lie inside each other; without recursion, which has an end."""
    depth, layer = 0, [value]
    while layer := [part for part in layer if isinstance(part, dict | list)]:
        depth += 1
        layer = [inner for part in layer for inner in (part.values() if isinstance(part, dict) else part)]
    return depth


def _names_a_file(value: Any) -> bool:
    """Return whether Gradio would take something in here for a file: a dictionary that tells its type under ``meta``."""
    if isinstance(value, dict):
        return "meta" in value or any(map(_names_a_file, value.values()))
    return isinstance(value, list) and any(map(_names_a_file, value))


def _in_time(receive: Receive) -> Receive:
    """Return what receives the same, and says that the sender is gone when nothing of a body came for long."""
    more = True

    async def wait() -> Message:
        nonlocal more
        try:
            message = await asyncio.wait_for(receive(), STALLED if more else None)
        except TimeoutError:
            return {"type": "http.disconnect"}
        more = more and bool(message.get("more_body"))
        return message

    return wait


async def _skip(receive: Receive, most: int) -> None:
    """Read what is sent and forget it, up to so many bytes: browsers listen to an answer only once they have sent all."""
    more = True
    while more and most > 0:
        message = await receive()
        most -= len(message.get("body", b""))
        more = message["type"] == "http.request" and bool(message.get("more_body"))


async def _refuse(send: Send, status: int, why: str) -> None:
    """Answer a request with a status and a sentence."""
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"x-content-type-options", b"nosniff")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": why.encode()})

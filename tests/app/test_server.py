"""The page as it is served: what can be fetched from it and what cannot, and what is left when it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cocoax.app import Page, launch, server
from cocoax.app.events import MAX_MEGABYTES
from cocoax.app.server import theme
from tests.app.colours import encoder
from tests.app.serving import serving


def fetch(url: str, data: bytes | None = None, kind: str = "application/json", **headers: str) -> tuple[int, bytes]:
    request = urllib.request.Request(url, data, {**({"Content-Type": kind} if data is not None else {}), **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def multipart(name: str, content: bytes) -> tuple[bytes, str]:
    head = f'--x\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\nContent-Type: image/png\r\n\r\n'
    return head.encode() + content + b"\r\n--x--\r\n", "multipart/form-data; boundary=x"


def test_page__loads_nothing_from_elsewhere(address: str) -> None:
    status, body = fetch(address)
    assert status == 200
    for remote in (b"fonts.googleapis", b"fonts.gstatic", b"cdnjs", b"jsdelivr", b'<script src="http', b'href="http'):
        assert remote not in body


@pytest.mark.parametrize(
    "path",
    [
        "gradio_api/file=/etc/passwd",
        "gradio_api/file=pyproject.toml",
        "gradio_api/file=../../../../etc/passwd",
        "gradio_api/file=/proc/self/environ",
        f"gradio_api/file={Path(__file__).resolve()}",
        "gradio_api/file=https://example.org/",
        "gradio_api/file=%00",
        f"gradio_api/file={'x' * 10_000}",
        "gradio_api/proxy=https://example.org/",
        "docs",
        "openapi.json",
    ],
)
def test_closed__other_files_and_addresses(address: str, path: str) -> None:
    status, body = fetch(address + path)
    assert status in (403, 404)
    assert b"root:" not in body
    assert b"[project]" not in body


def test_upload__too_large(address: str) -> None:
    body, kind = multipart("a.png", b"x" * (MAX_MEGABYTES * 2**20 + 10_000))
    assert fetch(f"{address}gradio_api/upload", body, kind)[0] == 413


def test_upload__goes_to_the_folder_of_the_page(address: str) -> None:
    body, kind = multipart("../../a.png", b"x")
    status, answer = fetch(f"{address}gradio_api/upload", body, kind)
    assert status == 200
    (path,) = json.loads(answer)
    assert "cocoax-app-" in path
    assert ".." not in path


def test_other_names_and_sites__are_refused(address: str) -> None:
    body, kind = multipart("a.png", b"x")
    for headers in ({"Host": "evil.example:7860"}, {"Origin": "http://evil.example"}):
        assert fetch(address, **headers)[0] == 403
        assert fetch(f"{address}gradio_api/upload", body, kind, **headers)[0] == 403
    assert fetch(f"{address}gradio_api/upload", body, kind, Origin=address.rstrip("/"))[0] == 200


@pytest.mark.parametrize("bad", ["\0", "x" * 10_000, "a/" * 5000 + "\0", "/x", "\ud800", None, 3, [[]], {"a": 1}])
def test_events__that_no_browser_sends_are_no_tracebacks(address: str, bad: Any, tmp_path_factory: Any) -> None:
    config = json.loads(fetch(f"{address}config")[1])
    numbers = {one["api_name"]: one["id"] for one in config["dependencies"]}
    said = {"path": bad, "name": bad, "files": [{"path": bad}], "choice": bad, "index": bad, "x": bad, "y": bad}
    for event, inputs in {
        "on_photo": 0,
        "on_sample": 0,
        "on_dropped": 4,
        "on_removed": 4,
        "on_ask": 3,
    }.items():
        for data in (said, {"name": bad, "x": bad}):
            message = {"data": [bad] * inputs, "event_data": data, "fn_index": numbers[event], "session_hash": "bad"}
            status, told = fetch(f"{address}gradio_api/queue/join", json.dumps(message).encode())
            if status == 200:
                status, told = fetch(f"{address}gradio_api/queue/data?session_hash=bad")
                assert b'"msg":"process_completed"' in told
                assert b'"success":true' in told
            else:
                assert status in (400, 413)
                assert told.startswith(b"The message ")
    assert all("Traceback" not in log.read_text() for log in tmp_path_factory.getbasetemp().glob("server*/errors"))


def test_encoder__cannot_be_chosen_by_a_visitor(address: str) -> None:
    """Everything that a visitor can send is here; none of it names an encoder."""
    config = json.loads(fetch(f"{address}config")[1])
    components = {one["id"]: one for one in config["components"]}
    taken = [components[number] for one in config["dependencies"] if one["backend_fn"] for number in one["inputs"]]
    words = {f"cx-{side}-{index}" for side in ("like", "unlike") for index in range(2)}
    looks = {"cx-compare", "cx-opacity", "cx-colours", "cx-same", "cx-baseline"}
    given = {one["props"].get("elem_id") or "" for one in taken if one["type"] != "state"}
    assert given >= words | looks
    assert not [name for name in given if "encoder" in name]
    events = {re.sub(r"_\d+$", "", one["api_name"]) for one in config["dependencies"] if one["backend_fn"]}
    photos = {"on_photo", "on_sample", "on_refused", "on_more", "on_baseline", "on_stop", "on_run"}
    questions = {"on_ask", "on_dropped", "on_removed", "on_refused_picture", "on_compare"}
    assert events >= photos | questions | {"on_look", "on_curves", "on_download"}
    assert not [name for name in events if "encoder" in name or "load" in name.replace("download", "")]


# --- ending -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, reason="nohup keeps pages alive, and so these tests")
def test_sighup__leaves_no_upload_behind(tmp_path: Path) -> None:
    """SIGTERM ends every page of these tests, and ``serving`` looks at what is left."""
    with serving(tmp_path) as (server, address):
        body, kind = multipart("a.png", b"x" * 1000)
        assert fetch(f"{address}gradio_api/upload", body, kind)[0] == 200
        assert [path.name for path in tmp_path.rglob("cocoax-app-*/*/a.png")] == ["a.png"]
        server.send_signal(signal.SIGHUP)
        assert server.wait(30) == 128 + signal.SIGHUP
    assert list(tmp_path.glob("cocoax-app-*")) == []


# --- launching --------------------------------------------------------------------------------------------------------

VARIABLES = ("GRADIO_TEMP_DIR", "COCOAX_CACHE")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One variable is set and one is not; what is served is not, but its folder is noted."""
    folders: list[str] = []
    monkeypatch.setenv("COCOAX_CACHE", "mine")
    monkeypatch.delenv("GRADIO_TEMP_DIR", raising=False)

    def serve(made: Page, *_options: Any) -> str:
        folders.append(str(made.folder))
        assert {os.environ[name] for name in VARIABLES} == {str(made.folder)}
        return "http://127.0.0.1:1/"

    monkeypatch.setattr(server, "_serve", serve)
    monkeypatch.setattr(
        server, "Page", lambda *given: SimpleNamespace(folder=given[2], blocks=gone(), prepare=lambda stop: None)
    )
    return folders


def gone() -> Any:
    return SimpleNamespace(close=lambda **_options: None, block_thread=lambda: None, server=None)


def restored(folders: list[str]) -> bool:
    return [os.environ.get(name) for name in VARIABLES] == [None, "mine"] and not Path(folders[0]).exists()


def test_launch__environment_is_restored_on_close(served: list[str]) -> None:
    made, _ = launch(encoder(), wait=False)
    assert Path(served[0]).is_dir()
    assert not restored(served)
    Page.close(made)
    assert restored(served)


def test_launch__environment_is_restored_after_waiting(served: list[str]) -> None:
    launch(encoder())
    assert restored(served)


def test_launch__environment_is_restored_on_failure(served: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(made: Page, *_options: Any) -> str:
        served.append(str(made.folder))
        raise OSError("Cannot find empty port")

    monkeypatch.setattr(server, "_serve", fail)
    with pytest.raises(OSError, match="Cannot find empty port"):
        launch(encoder())
    assert restored(served)


def test_theme__has_no_fonts_from_elsewhere() -> None:
    made = theme()
    assert not made._stylesheets
    assert "url(http" not in made._get_theme_css().replace("'", "").replace('"', "")
    assert "@import" not in made._get_theme_css()

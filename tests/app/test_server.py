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

from cocoax.app import MEGABYTES, Page, launch, server
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


@pytest.mark.parametrize("path", ["/etc/passwd", "pyproject.toml", "../../../../etc/passwd", "/proc/self/environ"])
def test_files__outside_of_the_folder_are_not_served(address: str, path: str) -> None:
    status, body = fetch(f"{address}gradio_api/file={path}")
    assert status in (403, 404)
    assert b"root:" not in body
    assert b"[project]" not in body


def test_files__of_the_package_are_not_served(address: str) -> None:
    here = Path(__file__).resolve()
    assert fetch(f"{address}gradio_api/file={here}")[0] in (403, 404)


@pytest.mark.parametrize(
    "path", ["gradio_api/file=https://example.org/", "gradio_api/proxy=https://example.org/", "docs", "openapi.json"]
)
def test_closed(address: str, path: str) -> None:
    assert fetch(address + path)[0] in (403, 404)


def test_upload__too_large(address: str) -> None:
    body, kind = multipart("a.png", b"x" * (MEGABYTES * 2**20 + 10_000))
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


@pytest.mark.parametrize("depth", [50, 500, 20_000])
def test_message__nested_deeply(address: str, depth: int) -> None:
    status, told = fetch(f"{address}gradio_api/queue/join", b"[" * depth + b"]" * depth)
    assert status == 400
    assert b"nested too deeply" in told


def test_message__with_an_address_for_a_file_is_refused(address: str) -> None:
    file = {"path": "http://127.0.0.1:1/x.png", "meta": {"_type": "gradio.FileData"}}
    said = json.dumps({"data": [file], "fn_index": 0, "session_hash": "x"}).encode()
    assert fetch(f"{address}gradio_api/queue/join", said)[0] == 403


def test_encoder__cannot_be_chosen_by_a_visitor(address: str) -> None:
    """Everything that a visitor can send is here; none of it names an encoder."""
    config = json.loads(fetch(f"{address}config")[1])
    components = {one["id"]: one for one in config["components"]}
    taken = [components[number] for one in config["dependencies"] if one["backend_fn"] for number in one["inputs"]]
    words = {f"cx-{side}-{index}" for side in ("like", "unlike") for index in range(2)}
    looks = {"cx-compare", "cx-opacity", "cx-colours", "cx-grid", "cx-same", "cx-baseline"}
    assert {one["props"]["elem_id"] for one in taken if one["type"] != "state"} == words | looks
    events = {re.sub(r"_\d+$", "", one["api_name"]) for one in config["dependencies"] if one["backend_fn"]}
    photos = {"on_photo", "on_sample", "on_refused", "on_more", "on_baseline", "on_stop", "on_leave"}
    questions = {"on_ask", "on_asked", "on_dropped", "on_removed", "on_too_large", "on_compare"}
    assert events == photos | questions | {"on_view", "on_point", "on_curves", "on_download"}


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
    monkeypatch.setattr(server, "Page", lambda studio, folder: SimpleNamespace(folder=folder, blocks=gone()))
    return folders


def gone() -> Any:
    return SimpleNamespace(close=lambda **_options: None, block_thread=lambda: None)


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

"""Many visitors on the page for a while, uploading and asking: what failed, how long they waited, what memory it took.

python -m benchmarks.page_load --minutes 10

The page is served by a process of its own with the small encoder of the tests, which takes 4 ms for a masked copy; visitors
speak to it as browsers do. Each uploads a photo of their own, waits for the map, asks, leaves and comes again.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image

from tests.app.serving import serving

WORDS = ("red", "green", "blue")
QUESTIONS = 8  # of each visit
PERCENTILES = {"50": 50, "95": 95, "99": 99, "max": 100}
PATIENCE = 600.0  # seconds after which an answer counts as lost


@dataclass
class Record:
    """What happened: seconds by kind of event, and failures in words."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: list[str] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)  # when, and megabytes

    def describe(self, minutes: float) -> dict[str, Any]:
        """Return the figures."""
        begin = self.memory[0][0]
        by_minute: dict[int, list[float]] = defaultdict(list)
        for moment, size in self.memory:
            by_minute[int((moment - begin) // 60)].append(size)
        whole = [statistics.median(by_minute[minute]) for minute in range(int(minutes))]  # while all are there
        early, late = whole[min(1, len(whole) - 1)], whole[-1]
        return {
            "minutes": minutes,
            "events": {kind: len(times) for kind, times in self.seconds.items()},
            "seconds": {kind: percentiles(times) for kind, times in self.seconds.items()},
            "failures": len(self.failures),
            "first failures": self.failures[:5],
            "MB by minute (medians)": [round(size) for size in whole],
            "ratio": round(late / early, 3),  # of the last minute and the second
        }


def percentiles(times: list[float]) -> dict[str, float]:
    """Return the median, the 95th and the 99th percentile, and the largest."""
    return {name: round(float(np.percentile(times, share)), 3) for name, share in PERCENTILES.items()}


class Browser:
    """One visitor, as the server sees them."""

    def __init__(self, client: httpx.AsyncClient, events: dict[str, int], seed: int) -> None:
        self.client = client
        self.events = events
        self.random = random.Random(seed)
        self.key = f"visitor-{seed}"

    @asynccontextmanager
    async def visit(self) -> AsyncIterator[None]:
        """Keep the connection open that tells the server somebody is there."""
        async with self.client.stream("GET", f"/gradio_api/heartbeat/{self.key}"):
            yield

    async def upload(self) -> str:
        """Upload a photo that nobody else has; return where the server put it."""
        left, right = self.random.sample(WORDS, 2)
        photo = Image.new("RGB", (640, 480), left)
        photo.paste(right, (320, 0, 640, 480))
        noise = np.random.default_rng(self.random.getrandbits(32)).integers(0, 60, (480, 640, 3))
        file = io.BytesIO()
        Image.fromarray((np.asarray(photo) // 2 + noise).astype(np.uint8)).save(file, "JPEG", quality=90)
        answer = await self.client.post("/gradio_api/upload", files={"files": ("photo.jpg", file.getvalue(), "image/jpeg")})
        answer.raise_for_status()
        return str(answer.json()[0])

    async def send(self, event: str, data: list[Any], event_data: Any = None) -> AsyncIterator[str]:
        """Send an event; give what the server says to it, message by message, and raise if it fails."""
        body = {"data": data, "event_data": event_data, "fn_index": self.events[event], "session_hash": self.key}
        answer = await self.client.post("/gradio_api/queue/join", json=body)
        answer.raise_for_status()
        number = answer.json()["event_id"]
        async with self.client.stream("GET", "/gradio_api/queue/data", params={"session_hash": self.key}) as stream:
            async for line in stream.aiter_lines():
                message = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
                if message.get("event_id") != number:
                    continue
                yield line
                if message["msg"] == "process_completed":
                    if not message["success"]:
                        raise RuntimeError(f"{event} failed: {line[:200]}")
                    return
        raise RuntimeError(f"{event} was never answered")


async def come_and_go(browser: Browser, record: Record) -> None:
    """Come, upload a photo, wait for its map, ask about it, and leave."""
    async with browser.visit():
        began = time.monotonic()
        path = await browser.upload()
        record.seconds["upload"].append(time.monotonic() - began)
        began, first, last = time.monotonic(), 0.0, ""
        async for line in browser.send("on_photo", [], {"path": path, "name": "photo.jpg", "choice": 1}):
            if 'role=\\"alert' in line:
                raise RuntimeError(f"the photo was not taken: {line[:300]}")
        async for line in browser.send("on_run", []):
            if "cx-answer" in line and not first:
                first = time.monotonic() - began
            last = line if "cx-status" in line or "finished" in line else last
        if not first or "finished" not in last:
            raise RuntimeError(f"a run without an end: {last[:200]}")
        record.seconds["first map"].append(first)
        record.seconds["whole run"].append(time.monotonic() - began)
        for _ in range(QUESTIONS):
            like, unlike = browser.random.sample(WORDS, 2)
            began = time.monotonic()
            lines = [line async for line in browser.send("on_ask", [0, like, unlike])]
            if f"<b>{like}</b> <i>rather than</i> <b>{unlike}</b>" not in lines[-1]:
                raise RuntimeError(f"the answer to another question: {lines[-1][:200]}")
            record.seconds["question"].append(time.monotonic() - began)
            await asyncio.sleep(browser.random.uniform(0.2, 2.0))


async def live(address: str, events: dict[str, int], number: int, until: float, record: Record) -> None:
    """Come and go until it is time; each visit is that of somebody new."""
    visits = 0
    while time.monotonic() < until:
        timeout = httpx.Timeout(PATIENCE, connect=60)
        async with httpx.AsyncClient(base_url=address, timeout=timeout) as client:
            try:
                await come_and_go(Browser(client, events, 1000 * number + visits), record)
            except (httpx.HTTPError, RuntimeError) as error:
                record.failures.append(f"{type(error).__name__}: {error}")
        visits += 1


async def measure(pid: int, record: Record) -> None:
    """Note the memory of the server every second."""
    while True:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        record.memory.append((time.monotonic(), pages * 4096 / 1e6))
        await asyncio.sleep(1)


async def run(address: str, pid: int, visitors: int, minutes: float) -> Record:
    """Let everybody in; return what happened."""
    record = Record()
    config = httpx.get(f"{address}config", timeout=60).json()
    events = {one["api_name"]: one["id"] for one in config["dependencies"] if one["backend_fn"]}
    watching = asyncio.create_task(measure(pid, record))
    until = time.monotonic() + 60 * minutes
    await asyncio.gather(*(live(address, events, number, until, record) for number in range(visitors)))
    watching.cancel()
    return record


def main() -> None:
    """Run the campaign and print its figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=10, help="at least 1")
    options.add_argument("--visitors", type=int, default=20)
    options.add_argument("--places", type=int, default=32)
    chosen = options.parse_args()
    if chosen.minutes < 1:
        options.error(f"--minutes must be at least 1. Got {chosen.minutes} instead.")
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), str(chosen.places)) as (server, address):
        record = asyncio.run(run(address, server.pid, chosen.visitors, chosen.minutes))
        tracebacks = (Path(folder) / "errors").read_text().count("Traceback")
        figures = {**record.describe(chosen.minutes), "tracebacks of the server": tracebacks}
        print(json.dumps(figures, indent=2), flush=True)  # before the server ends, which takes long on a busy machine
    raise SystemExit(bool(record.failures) or tracebacks > 0 or figures["ratio"] > 1.1)


if __name__ == "__main__":
    main()

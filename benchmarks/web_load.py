"""Twenty users of the page, each moving one slider once a second, beside one real Chromium: seconds, memory, errors.

python benchmarks/web_load.py [--seconds 60] [--users 20] [--loads 20] [--only dense]

For a dense model and for DeepSeek-V3: a server of its own, first loads of the page by fresh browsers, then the load. A
user over HTTP asks what the page asks when a slider of the overview moves: `serve`, `fit` and `estimate`, in one batch.
Chromium moves the page's own slider and waits until the picture has been painted. The targets are those of a quiet
machine; the load average is said beside the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
import numpy as np
from playwright.async_api import Page, async_playwright

DENSE = (
    {"model": "meta-llama/Llama-3.1-8B", "on": "h100-sxm"}, {"model": "Qwen/Qwen3-32B", "on": "h200"},
    {"model": "meta-llama/Llama-3.1-70B", "on": "8xh100-sxm"}, {"model": "google/gemma-2-9b", "on": "a100-sxm-80gb"},
)  # fmt: skip
LARGE = ({"model": "deepseek-ai/DeepSeek-V3", "on": "8xh200"},)
TARGETS = {"dense": (DENSE, 0.1), "DeepSeek-V3": (LARGE, 0.25)}
FIRST_LOAD = 1.0
"""Seconds until a fresh browser shows the page with its figures, p95."""
SHOWN = """() => new Promise((done) => {
  const look = () => document.body?.dataset.ready ? requestAnimationFrame(() => done()) : setTimeout(look, 1);
  look();
})"""
SLIDE = """(by) => new Promise((done) => {
  const slider = document.getElementById("input"), before = Number(document.body.dataset.ready);
  const start = performance.now();
  const look = () => Number(document.body.dataset.ready) > before
    ? requestAnimationFrame(() => done(performance.now() - start)) : setTimeout(look, 1);
  slider.value = Number(slider.value) + (Number(slider.value) + by > Number(slider.max) - 8 ? -240 : by);
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  look();
})"""


@dataclass
class Measured:
    """Seconds of answers over HTTP, of pictures in Chromium, of first loads; resident bytes by second; what failed.

    `computed`: seconds that the server ran on a core under the load.
    """

    http: list[float] = field(default_factory=list)
    pictures: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    computed: float = 0.0


@contextmanager
def server() -> Iterator[tuple[str, int]]:
    """`roofline web` on a free port: its address and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "roofline", "web", "--no-browser", "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                httpx.get(f"{address}/api/v1/engines", timeout=5).raise_for_status()
                break
            except httpx.TransportError:
                asyncio.run(asyncio.sleep(0.1))
        yield address, process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


def family(pid: int) -> Iterator[int]:
    """A process and its children."""
    yield pid
    children = {c for task in Path(f"/proc/{pid}/task").iterdir() for c in (task / "children").read_text().split()}
    for child in children:
        yield from family(int(child))


def resident(pid: int) -> int:
    """Bytes in memory of a process and its children."""
    pages = sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in family(pid))
    return pages * os.sysconf("SC_PAGE_SIZE")


def computed(pid: int) -> float:
    """Seconds that a process and its children, those that ended too, have run on a core."""
    ticks = 0
    for each in family(pid):
        ticks += sum(map(int, Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass
class User:
    """Someone at the overview: a scenario, and the slider that moves."""

    place: dict[str, Any]
    draw: random.Random

    def __post_init__(self) -> None:
        self.sizes = {"input": self.draw.randint(64, 4096), "output": self.draw.randint(16, 1024),
                      "concurrency": self.draw.randint(1, 128)}  # fmt: skip
        self.slider = self.draw.choice(sorted(self.sizes))

    async def moves(self, client: httpx.AsyncClient) -> None:
        """One stop of an eighth of an octave up or down, and the questions that follow from it."""
        step = self.draw.choice((-1, 1))
        size = self.sizes[self.slider]
        self.sizes[self.slider] = max(1, min(size + max(1, size // 12) * step, 6144))
        n, prompt, output = self.sizes["concurrency"], self.sizes["input"], self.sizes["output"]
        bodies: dict[str, dict[str, Any]] = {
            "serve": {**self.place, "input": prompt, "output": output, "concurrency": n},
            "fit": {**self.place, "batch": n, "context": prompt + output},
            "estimate": {**self.place, "batch": n, "context": prompt + output // 2},
        }
        questions = [{"name": name, "body": body} for name, body in bodies.items()]
        given = (await client.post("/api/v1/batch", json={"questions": questions})).raise_for_status()
        if any(one["status"] != 200 for one in given.json()["answers"]):
            raise httpx.HTTPError(given.text[:200])


async def _user(address: str, user: User, end: float, measured: Measured) -> None:
    async with httpx.AsyncClient(base_url=address, timeout=30) as client:
        await asyncio.sleep(user.draw.random())
        while (start := perf_counter()) < end:
            try:
                await user.moves(client)
                measured.http.append(perf_counter() - start)
            except httpx.HTTPError as error:
                measured.wrong.append(repr(error))
            await asyncio.sleep(max(0.0, 1 - (perf_counter() - start)))


async def _slides(page: Page, end: float, measured: Measured) -> None:
    draw = random.Random(0)
    while (start := perf_counter()) < end:
        measured.pictures.append(await page.evaluate(SLIDE, draw.choice((-1, 1, 2))) / 1e3)
        await asyncio.sleep(max(0.0, 1 - (perf_counter() - start)))


async def _watches(pid: int, end: float, measured: Measured) -> None:
    while perf_counter() < end:
        measured.resident.append(resident(pid))
        await asyncio.sleep(1)


async def load(address: str, pid: int, places: tuple[dict[str, Any], ...], args: argparse.Namespace) -> Measured:
    """First loads one after another, then all users at once."""
    measured = Measured()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    async with async_playwright() as tool:
        browser = await tool.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(args.loads):
            page = await browser.new_page()
            page.on("console", lambda said: measured.wrong.append(said.text))
            start = perf_counter()
            await page.goto(address, wait_until="commit")
            await page.evaluate(SHOWN)
            measured.loads.append(perf_counter() - start)
            if len(measured.loads) < args.loads:
                await page.close()
        for name in ("model", "on"):
            await page.fill(f"#{name}", places[0][name])
            await page.locator(f"#{name}").blur()
        await page.wait_for_timeout(1500)
        users = [User(places[i % len(places)], random.Random(i)) for i in range(args.users)]
        end, before = perf_counter() + args.seconds, computed(pid)
        tasks = [_user(address, user, end, measured) for user in users]
        await asyncio.gather(*tasks, _slides(page, end, measured), _watches(pid, end, measured))
        measured.computed = computed(pid) - before
        await browser.close()
    return measured


def _told(what: str, seconds: list[float], target: float) -> str:
    p50, p95, worst = np.percentile(seconds, (50, 95, 100)) * 1e3
    verdict = "met" if p95 < target * 1e3 else "MISSED"
    return (
        f"  {what:<28} {len(seconds):6}  p50 {p50:6.0f} ms  p95 {p95:6.0f} ms  most {worst:6.0f} ms  target {verdict}"
    )


def main() -> int:
    """Prints what was measured; 1 where a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--loads", type=int, default=20)
    parser.add_argument("--only", choices=sorted(TARGETS))
    args = parser.parse_args()
    lines = []
    for name, (places, target) in TARGETS.items():
        if args.only not in (None, name):
            continue
        with server() as (address, pid):
            measured = asyncio.run(load(address, pid, places, args))
        quarter = max(1, len(measured.resident) // 4)
        early, late = (float(np.median(part)) / 1e6 for part in (measured.resident[quarter : 2 * quarter],
                                                                  measured.resident[-quarter:]))  # fmt: skip
        each = measured.computed / max(1, len(measured.http) + len(measured.pictures))
        lines += [
            f"{name}: {args.users} users and one Chromium, {args.seconds:g} s; load average {os.getloadavg()[0]:.2f} "
            f"of {os.cpu_count()} cores",
            _told("first load", measured.loads, FIRST_LOAD),
            _told("slider to answers, HTTP", measured.http, target),
            _told("slider to picture, Chromium", measured.pictures, target),
            f"  memory {early:.0f} MB in the second quarter, {late:.0f} MB in the last; errors {len(measured.wrong)}",
            f"  the server computed {1e3 * each:.1f} ms a move",
            *(f"    {line}" for line in sorted(set(measured.wrong))[:5]),
        ]
    print("\n".join(lines))
    return int(any("MISSED" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())

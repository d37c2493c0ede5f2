"""How far the page is behind the model. Run by hand: `python -m tests.bench.page [rounds]`.

One reply of 600 pieces, 50 pieces a second, with 0, 200 and 1,000 earlier messages on the page, in a real browser: the
time from the last piece leaving the model to the first frame that is painted with it, and the server's CPU for the
whole reply. Sizes take turns, a server and a browser of their own each time; medians, and the worst lag.
Then 20 visitors at once, as plain clients of gradio's queue protocol (server-sent events, no browser), each with a
reply of its own: how old each piece is when it arrives. All share the machine: ratios tell more than figures.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
from playwright.async_api import async_playwright

from agent.events import Replied, TextDelta
from agent.llm.model import ModelEvent, Request
from agent.messages import AssistantMessage
from agent.sessions import HOME_OWNER
from tests.bench.stream import say_before
from tests.ui.conftest import FLAGS, chromium_path
from tests.ui.stage import Stage

PIECES, PER_SECOND, VISITORS, ROUNDS = 600, 50, 20, 3
EARLIER = (0, 200, 1_000)
STAMP = re.compile(r"@(\d+\.\d+)@")
WAIT_FOR_END = """() => new Promise(done => {
  const painted = () => requestAnimationFrame(() => setTimeout(() => done(Date.now() / 1000)));
  const observer = new MutationObserver(() => {
    if (document.querySelector('#gl-live')?.textContent.includes('the-very-end')) {
      observer.disconnect();
      painted();
    }
  });
  observer.observe(document.body, {subtree: true, childList: true, characterData: true});
})"""

WAIT_FOR_REST = """() => new Promise(done => {
  let calm = 0, last = performance.now();
  const tick = now => {
    calm = now - last < 100 ? calm + 1 : 0;
    last = now;
    calm > 60 ? done() : requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
})"""
"""A page that still draws its history is not what is measured: sixty frames without a hitch."""


# ------------------------------------------------------------------ the server, a process of its own


async def steady(request: Request) -> AsyncGenerator[ModelEvent, None]:
    """Pieces at a steady pace by the clock, each with the time it left at now and then."""
    said: list[str] = []
    start = time.time()
    for number in range(PIECES):
        await asyncio.sleep(max(0.0, start + number / PER_SECOND - time.time()))
        stamp = f" @{time.time():.3f}@" if request.messages[-1].text.startswith("visitor") else ""
        said.append(f"word{number}{stamp} " if number % 40 else f"\n\n**Part {number}.** ")
        yield TextDelta(said[-1])
    said.append("the-very-end")
    print(json.dumps({"end": time.time()}), flush=True)
    yield TextDelta(said[-1])
    yield Replied(AssistantMessage("".join(said)), "stop")


def serve(exposure: str, earlier: int) -> None:
    """Serve until stdin closes. The first line on stdout says where."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder), exposure=exposure)
        for name in ("go", *(f"visitor {number}" for number in range(VISITORS))):
            stage.script(name, steady)
        session = stage.sessions.create(HOME_OWNER)
        stage.on_loop(lambda: say_before(session, earlier))
        print(json.dumps({"address": stage.address, "session": session.id}), flush=True)
        sys.stdin.read()
        stage.close()


@contextmanager
def server(exposure: str, earlier: int = 0) -> Iterator[tuple[dict[str, str], subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "tests.bench.page", "serve", exposure, str(earlier)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        yield json.loads(process.stdout.readline()), process
        process.stdin.close()


def cpu_of(process: subprocess.Popen[str]) -> float:
    used = psutil.Process(process.pid).cpu_times()
    return used.user + used.system


# ------------------------------------------------------------------ one browser


async def behind(earlier: int) -> tuple[float, float]:
    """Seconds that the page is behind at the end, and the server's CPU seconds for the reply."""
    with server("local", earlier) as (where, process):
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=chromium_path(playwright.chromium.executable_path), args=FLAGS
            )
            page = await browser.new_page()
            await page.goto(f"{where['address']}/?session={where['session']}")
            if earlier:
                await page.get_by_text(f"Answer {earlier // 2} with").first.wait_for(timeout=120_000)
            await page.evaluate(WAIT_FOR_REST, None)
            before = cpu_of(process)
            await page.fill("#gl-box textarea", "go")
            await page.keyboard.press("Enter")
            seen = await page.evaluate(WAIT_FOR_END)
            assert process.stdout is not None
            left = json.loads(process.stdout.readline())["end"]
            used = cpu_of(process) - before
            await browser.close()
    return seen - left, used


# ------------------------------------------------------------------ many visitors


async def visitor(address: str, number: int) -> list[float]:
    """How old each piece of one visitor's reply is when it arrives, seconds."""
    page, ages, latest = secrets.token_hex(6), list[float](), 0.0
    async with httpx.AsyncClient(base_url=address, timeout=120, headers={"Origin": address}) as client:
        await client.get("/")
        config: dict[str, Any] = (await client.get("/config")).json()
        ids = {one["api_name"]: one["id"] for one in config["dependencies"]}
        for lane in ("live_lane", "history_lane", "panel_lane"):
            join = {"data": [], "fn_index": ids[lane], "session_hash": page}
            (await client.post("/gradio_api/queue/join", json=join)).raise_for_status()
        async with client.stream("GET", "/gradio_api/queue/data", params={"session_hash": page}) as updates:
            sent = False
            async for line in updates.aiter_lines():
                if not sent:
                    call = {"data": [f"visitor {number}"], "fn_index": ids["send"], "session_hash": page}
                    (await client.post("/gradio_api/run/predict", json=call)).raise_for_status()
                    sent = True
                fresh = [sent_at for stamp in STAMP.findall(line) if (sent_at := float(stamp)) > latest]
                ages += [time.time() - sent_at for sent_at in fresh]
                latest = max(fresh, default=latest)
                if "the-very-end" in line:
                    return ages
    return ages


async def crowd() -> list[float]:
    with server("share") as (where, _):
        return sorted(
            age
            for ages in await asyncio.gather(*(visitor(where["address"], n) for n in range(VISITORS)))
            for age in ages
        )


async def main(rounds: int) -> None:
    print(f"load average at the start: {os.getloadavg()[0]:.1f}")
    taken: dict[int, list[tuple[float, float]]] = {earlier: [] for earlier in EARLIER}
    for number in range(rounds):
        for place in range(len(EARLIER)):
            earlier = EARLIER[(number + place) % len(EARLIER)]
            taken[earlier].append(await behind(earlier))
    base = statistics.median(used for _, used in taken[0])
    for earlier, runs in taken.items():
        lags, cpu = [lag for lag, _ in runs], statistics.median(used for _, used in runs)
        print(
            f"{earlier:5} earlier messages: last text {statistics.median(lags):.2f} s behind, worst {max(lags):.2f} s; "
            f"server CPU {cpu:.2f} s, {cpu / base:.2f}x"
        )
    ages = await crowd()
    p95 = ages[int(len(ages) * 0.95)]
    print(f"{VISITORS} visitors: median {statistics.median(ages):.2f} s, p95 {p95:.2f} s, {len(ages)} pieces")
    print(f"load average at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else ROUNDS))

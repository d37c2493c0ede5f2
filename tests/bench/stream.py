"""What the loop costs on top of a stream, and what a page costs. Run by hand: `python -m tests.bench.stream`.

The same 2,000 deltas from a stand-in server in a process of its own, each sent by itself, read by the openai SDK
(`stream=True`) and by a whole turn: assembly, events, log, transcript; then by one that is kept in a database, too.
Rounds alternate; medians of wall clock and CPU time are compared.

Then the page's live lane as gradio drives it (fold, view, postprocess, diff) in sessions with more and more said
before: CPU time of one update, by turns. The sessions are alive in one process, so a busy machine is busy for all.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.state_holder import SessionState
from openai import AsyncOpenAI

from agent.agent import Agent
from agent.events import Replied, StepStarted, TextDelta, TurnEnded, TurnStarted
from agent.llm.client import ChatServer, OpenAIModel
from agent.log import EventLog
from agent.messages import AssistantMessage, UserMessage
from agent.session import Session
from agent.sessions import HOME_OWNER, Sessions
from agent.store import Store
from agent.tool import Toolbox
from tests.scripted import ScriptedModel
from ui.handlers import Handlers
from ui.page import build
from ui.panels import Status

DELTAS, ROUNDS = 2_000, 9
EARLIER, UPDATES, DELTAS_AN_UPDATE = (5, 50, 200, 1_000), 60, 5


def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


class StandIn(BaseHTTPRequestHandler):
    """Answers every request with the same stream, one write for each delta, as fast as it can."""

    chunks = (*(chunk({"content": f"word{n} "}) for n in range(DELTAS)), chunk({}, "stop"), b"data: [DONE]\n\n")
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(sum(map(len, self.chunks))))
        self.end_headers()
        for one in self.chunks:
            self.wfile.write(one)

    def log_message(self, *_: object) -> None:
        pass


def serve() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    print(server.server_address[1], flush=True)
    server.serve_forever()


# ------------------------------------------------------------------ the loop


async def raw(client: AsyncOpenAI) -> None:
    said = []
    stream = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}], stream=True)
    async for piece in stream:
        if piece.choices and piece.choices[0].delta.content:
            said.append(piece.choices[0].delta.content)
    assert len(said) == DELTAS


async def turn(session: Session) -> None:
    session.send("go")
    assert await session.wait() == "answered"
    assert sum(isinstance(entry.event, TextDelta) for entry in session.log.since(0)) == DELTAS


async def timed(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return time.perf_counter() - wall, time.process_time() - cpu


async def compare(url: str, folder: Path) -> None:
    client, model = AsyncOpenAI(base_url=url, api_key="none"), OpenAIModel(ChatServer(url, "none", "m"))
    agent = Agent(model, Toolbox([]))
    store = Store(folder, str)
    sessions = Sessions(store, lambda owner, id, log: Session(agent, folder, folder, owner, log, id))
    ways: dict[str, Callable[[], Awaitable[None]]] = {
        "raw SDK": lambda: raw(client),
        "whole turn": lambda: turn(Session(agent, folder, folder)),
        "turn kept in a database": lambda: turn(sessions.create(HOME_OWNER)),
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(ROUNDS + 1):
        for name, way in ways.items():
            taken[name].append(await timed(way))
    await client.close()
    await model.close()
    store.close()
    for at, what in enumerate(("wall", "CPU")):
        medians = {name: statistics.median(times[at] for times in rounds[1:]) for name, rounds in taken.items()}
        base = medians["raw SDK"]
        print(f"{what}: " + ", ".join(f"{name} {m * 1000:.0f} ms ({m / base:.2f}x)" for name, m in medians.items()))


# ------------------------------------------------------------------ the page


def say_before(session: Session, messages: int) -> None:
    """So many messages, questions and answers by turns."""
    for number in range(1, (messages + 1) // 2 + 1):
        session.append(TurnStarted(number, UserMessage(f"Question {number}"), parent=number - 1 or None))
        if number * 2 <= messages:
            text = f"Answer {number} with **bold**, `code` and a list:\n\n- one\n- two\n\n" + "Some more words. " * 20
            session.append(Replied(AssistantMessage(text), "stop"))
        session.append(TurnEnded(number, "answered"))


class Lane:
    """One of a page's lanes, run as gradio's queue runs it."""

    def __init__(self, page: gr.Blocks, name: str, session_id: str) -> None:
        self._page, self._run = page, f"{name} {session_id}"
        self._lane = next(fn for fn in page.fns.values() if fn.api_name == name)
        self._state = SessionState(page)
        self._request = gr.Request(
            session_hash=session_id, cookies={}, headers={}, query_params={"session": session_id}
        )
        self._iterator: Any = None

    async def update(self) -> Any:
        """The next message to the browser."""
        sent = await self._page.process_api(
            self._lane,
            [],
            self._state,
            self._request,
            self._iterator,
            self._request.session_hash,
            self._run,
            root_path="http://127.0.0.1",
        )
        self._iterator = sent["iterator"]
        return sent["data"]

    async def follow(self) -> None:
        while True:
            await self.update()


async def update_cost(session: Session, live: Lane, number: int) -> float:
    """CPU seconds from a few deltas to what is sent of them."""
    before = time.process_time()
    for n in range(DELTAS_AN_UPDATE):
        session.append(TextDelta(f"word{number}.{n} "))
    data = await live.update()
    used = time.process_time() - before
    assert f"word{number}.{DELTAS_AN_UPDATE - 1}" in json.dumps(data)
    return used


async def pages(folder: Path) -> None:
    store, agent = Store(folder, str), Agent(ScriptedModel(), Toolbox([]))

    def make(owner: str, id: str, log: EventLog) -> Session:
        return Session(agent, folder, folder, owner, log, id)

    sessions = Sessions(store, make)
    handlers = Handlers(sessions, sessions.create, Status("none", True, "", "none", "local"), "en")
    page = build(handlers)
    lanes, costs, following = {}, {earlier: list[float]() for earlier in EARLIER}, []
    for earlier in EARLIER:
        session = sessions.create(HOME_OWNER)
        say_before(session, earlier)
        lanes[earlier] = session, Lane(page, "live_lane", session.id)
        following.append(asyncio.create_task(Lane(page, "history_lane", session.id).follow()))
        session.append(TurnStarted(session.turn.number + 1, UserMessage("go"), parent=session.turn.number))
        session.append(StepStarted(1))
    await asyncio.sleep(3)  # every page has drawn its history
    for number in range(UPDATES + 4):
        for place in range(len(EARLIER)):  # whoever is first finds the processor cold, so each is first in turn
            earlier = EARLIER[(number + place) % len(EARLIER)]
            costs[earlier].append(await update_cost(*lanes[earlier], number))
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    handlers.visits.close_all()
    store.close()
    base = statistics.median(costs[EARLIER[0]][4:])
    for earlier, used in costs.items():
        cost = statistics.median(used[4:])
        print(f"page update, {earlier:5} earlier messages: {cost * 1000:.2f} ms CPU ({cost / base:.2f}x)")


def main() -> None:
    print(f"{DELTAS} deltas, medians of {ROUNDS} rounds; load average {os.getloadavg()[0]:.1f}")
    command = [sys.executable, "-m", "tests.bench.stream", "serve"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        tempfile.TemporaryDirectory() as folder,
    ):
        assert process.stdout is not None
        port = int(process.stdout.readline())
        asyncio.run(compare(f"http://127.0.0.1:{port}/v1", Path(folder)))
        process.terminate()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(pages(Path(folder)))
    print(f"load average at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()

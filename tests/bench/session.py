"""What a long session costs against a fresh one: `python -m tests.bench.session`.

A session of 10,000 events is opened from its database, then the same answer is streamed into it and into a fresh one,
by turns. CPU seconds of this process, so that a busy machine does not count; the database is a file, as in the app.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from agent.agent import Agent
from agent.events import CallFinished, CallStarted, Event, Replied, StepStarted, TextDelta, TurnEnded, TurnStarted
from agent.llm.model import ModelEvent, Request
from agent.log import Entry, EventLog
from agent.messages import AssistantMessage, ToolCall, UserMessage
from agent.session import Session
from agent.sessions import Sessions
from agent.store import Store
from agent.tool import Toolbox

EVENTS = 10_000
DELTAS = 1_000
ROUNDS = 15


class Streaming:
    """A model that says the same long thing each time."""

    name = "streaming"

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        for _ in range(DELTAS):
            await asyncio.sleep(0)
            yield TextDelta("word ")
        yield Replied(AssistantMessage("word " * DELTAS), "stop")


def long_history() -> list[Event]:
    """Turns of three steps with calls, results of 2 kB and answers in deltas."""
    events: list[Event] = []
    turn = 0
    while len(events) < EVENTS:
        turn += 1
        events.append(TurnStarted(turn, UserMessage(f"question {turn}"), parent=turn - 1 or None))
        for step in (1, 2, 3):
            call = ToolCall(f"c{turn}_{step}", "look", '{"at": "here"}')
            events += [StepStarted(step), *[TextDelta("a few words ")] * 10]
            events.append(Replied(AssistantMessage("a few words " * 10, tool_calls=(call,)), "tool_calls"))
            events += [CallStarted(call.id), CallFinished(call.id, "look", "done", "a line of output\n" * 120)]
        events += [StepStarted(4), *[TextDelta("the answer ")] * 30]
        events += [Replied(AssistantMessage("the answer " * 30), "stop"), TurnEnded(turn, "answered")]
    return events


async def stream_into(session: Session) -> float:
    """CPU seconds of one streamed answer."""
    started = time.process_time()
    session.send("go on")
    await session.wait()
    return time.process_time() - started


async def measure(folder: Path) -> None:
    store = Store(folder, str)
    agent = Agent(Streaming(), Toolbox([]))

    def build(owner: str, session_id: str, log: EventLog) -> Session:
        return Session(agent, folder, folder, owner, log, session_id)

    history = [Entry(seq, float(seq), event) for seq, event in enumerate(long_history())]
    store.journal("ann", "long").take_over(history)

    opening, wall = [], []
    for _ in range(5):
        cpu, clock = time.process_time(), time.perf_counter()
        long = Sessions(store, build).get("ann", "long")
        opening.append(time.process_time() - cpu)
        wall.append(time.perf_counter() - clock)
    per_event = statistics.median(opening) / len(long.log) * 1e6
    print(f"open {len(long.log):,} events   {statistics.median(opening):.3f} s CPU, {statistics.median(wall):.3f} s")
    print(f"  of that per event  {per_event:.0f} µs")

    in_long, in_fresh = [], []
    for _ in range(ROUNDS):
        in_fresh.append(await stream_into(Sessions(store, build).create("ann")))
        in_long.append(await stream_into(long))
    fresh, longer = statistics.median(in_fresh), statistics.median(in_long)
    print(f"stream {DELTAS:,} deltas   fresh {fresh:.4f} s, after {EVENTS:,} events {longer:.4f} s CPU")
    print(f"  ratio              {longer / fresh:.2f}")

    clock = time.perf_counter()
    listed = len(store.summaries("ann"))
    print(f"list {listed} sessions     {(time.perf_counter() - clock) * 1e3:.1f} ms")
    for query in ("question 77", "of", "nowhere"):
        clock = time.perf_counter()
        found = len(store.search("ann", query))
        print(f"search {query!r:14} {found:3} found, {(time.perf_counter() - clock) * 1e3:.1f} ms")
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    print(f"database             {size / 1e6:.1f} MB")
    store.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(measure(Path(temporary)))

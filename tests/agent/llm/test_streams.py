"""Any stream, split anywhere, in any legal order, cut anywhere: transcript and requests stay valid."""

from __future__ import annotations

import asyncio
import json
import random
import selectors
import tempfile
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.agent import Agent
from agent.limits import Limits
from agent.llm.arguments import read_arguments
from agent.llm.assembly import Assembly
from agent.llm.client import ChatServer, OpenAIModel
from agent.llm.connection import Connection
from agent.llm.faults import Scrubber
from agent.llm.names import Names
from agent.llm.retry import LONGEST_PAUSE_S
from agent.llm.sse import EventStream
from agent.log import dump_entry
from agent.messages import AssistantMessage, ToolCall, ToolMessage
from agent.requests import rebuild
from agent.session import Session
from agent.tool import Effect, Tool, Toolbox
from tests.agent.llm.serving import DONE, KEY, TOOLS, delta, event
from tests.wire.replay import request_problems

NAMES = [tool.name for tool in TOOLS]
TEXT = st.text(max_size=30)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Planned:
    """A reply a server might stream."""

    text: str
    reasoning: str
    calls: tuple[tuple[str, str], ...]
    ids: bool
    indexes: bool
    order: int | None
    """Which of the legal orders; None: one part after another."""
    finish: str | None
    done: bool
    cut: float
    """How much of it arrives."""


ARGUMENTS = st.one_of(
    st.fixed_dictionaries({"city": TEXT}).map(json.dumps),
    st.fixed_dictionaries({"path": TEXT, "content": TEXT}).map(json.dumps),
    st.text(max_size=15),
)
PLANS = st.builds(
    Planned,
    text=TEXT,
    reasoning=TEXT,
    calls=st.lists(st.tuples(st.sampled_from([*NAMES, "unknown tool", ""]), ARGUMENTS), max_size=3).map(tuple),
    ids=st.booleans(),
    indexes=st.booleans(),
    order=st.one_of(st.none(), st.integers(0, 1000)),
    finish=st.sampled_from(["stop", "tool_calls", "length", "content_filter", "", None]),
    done=st.booleans(),
    cut=st.sampled_from([1.0, 1.0, 1.0, 0.3, 0.6, 0.9]),
)


def stream_of(plan: Planned, draw_size: int) -> bytes:
    """The bytes of a reply: pieces of `draw_size` characters, calls one after another or by turns."""
    rows = [
        [delta(reasoning_content=piece) for piece in cut(plan.reasoning, draw_size)],
        [delta(content=piece) for piece in cut(plan.text, draw_size)],
    ]
    calls = [call_chunks(number, name, text, plan, draw_size) for number, (name, text) in enumerate(plan.calls)]
    marked = (plan.ids or plan.indexes) and all(name for name, _ in plan.calls)  # else nobody could tell them apart
    rows += calls if marked else [[chunk for call in calls for chunk in call]]
    chunks = [chunk for row in rows for chunk in row] if plan.order is None else riffled(rows, plan.order)
    if plan.finish is not None:
        chunks.append(delta(plan.finish))
    data = "".join(map(event, chunks)).encode() + (DONE.encode() if plan.done else b"")
    return data[: int(len(data) * plan.cut)]


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def riffled(rows: list[list[Any]], seed: int) -> list[Any]:
    """All rows in one, each in its own order."""
    turns = [number for number, row in enumerate(rows) for _ in row]
    random.Random(seed).shuffle(turns)
    left = [iter(row) for row in rows]
    return [next(left[number]) for number in turns]


def call_chunks(number: int, name: str, arguments: str, plan: Planned, size: int) -> list[dict[str, Any]]:
    marks: dict[str, Any] = {"id": f"c{number}"} if plan.ids else {}
    marks |= {"index": number} if plan.indexes else {}
    opening = {**marks, "function": {"name": name, "arguments": ""}}
    rest = [{**marks, "function": {"arguments": piece}} for piece in cut(arguments, size)]
    return [delta(tool_calls=[entry]) for entry in [opening, *rest]]


class Scripted(Connection):
    """A connection whose server says what is planned, then that it is done."""

    def __init__(self, server: ChatServer, streams: list[bytes], size: int) -> None:
        super().__init__(server)
        self.bodies: list[Mapping[str, Any]] = []
        self._streams = streams
        self._size = size

    @asynccontextmanager
    async def send(self, body: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        self.bodies.append(json.loads(json.dumps(body)))
        last = event(delta(content="That is all.")) + event(delta("stop")) + DONE
        yield Recorded(self._streams.pop(0) if self._streams else last.encode(), self._size)


class Recorded:
    """An answer that is there already."""

    def __init__(self, data: bytes, size: int) -> None:
        self.ended = False
        self.stray: list[str] = []
        self._pieces = [data[i : i + size] for i in range(0, len(data), size)]

    async def payloads(self) -> AsyncGenerator[list[Any], None]:
        events = EventStream()
        for piece in self._pieces:
            yield events.feed(piece)
        yield events.close()


class NoPauses(selectors.DefaultSelector):
    """Where nothing is to be read, a timer of a few seconds is due at once: the pauses between two tries."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0 if timeout and timeout < LONGEST_PAUSE_S else timeout)
        if not found and timeout and timeout < LONGEST_PAUSE_S:
            self.skipped += timeout
        return found


class HurriedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._pauses = NoPauses()
        super().__init__(self._pauses)

    def time(self) -> float:
        return super().time() + self._pauses.skipped


def hurried(scenario: Coroutine[Any, Any, Result]) -> Result:
    loop = HurriedLoop()
    try:
        return loop.run_until_complete(scenario)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PLANS, min_size=1, max_size=3), st.integers(1, 12), st.integers(1, 50))
def test_the_transcript_stays_valid(plans: list[Planned], chars: int, size: int) -> None:
    executed: list[dict[str, Any]] = []

    async def run(context: Any, **arguments: Any) -> str:
        executed.append(arguments)
        return "ok"

    async def scenario(folder: Path) -> tuple[Session, Scripted]:
        server = ChatServer("http://127.0.0.1:1/v1", KEY, "m", protocol="tools")
        connection = Scripted(server, [stream_of(plan, chars) for plan in plans], size)
        tools = [Tool.from_schema(t.name, t.description, t.parameters, Effect.WRITE, run) for t in TOOLS]
        agent = Agent(OpenAIModel(server, connection), Toolbox(tools), limits=Limits(max_steps=6))
        session = Session(agent, folder, folder)
        for text in ("go", "and now?"):
            session.send(text)
            await asyncio.wait_for(session.wait(), 60)
        return session, connection

    with tempfile.TemporaryDirectory() as folder:
        session, connection = hurried(scenario(Path(folder)))
    for body in connection.bodies:
        assert request_problems(json.dumps(body)) == []
    assert list(rebuild(entry.event for entry in session.log.since(0))) == connection.bodies
    assert_valid(session.transcript.messages)
    json.dumps([dump_entry(entry) for entry in session.log.since(0)], ensure_ascii=False, allow_nan=False).encode()
    meant = [read_arguments(arguments).value for plan in plans for _, arguments in plan.calls]
    assert all(arguments in [*meant, {}] for arguments in executed)


KEYS = st.sampled_from(["city", "path", "content"])
SOUND = st.tuples(st.sampled_from(NAMES), st.dictionaries(KEYS, TEXT, min_size=1))


def assembled(plan: Planned, chars: int, size: int) -> list[ToolCall]:
    """What the pieces of a whole stream come to."""
    assembly = Assembly(Names(TOOLS), (), Scrubber(KEY))
    events = EventStream()
    data = stream_of(plan, chars)
    for at in range(0, len(data), size):
        for payload in events.feed(data[at : at + size]):
            if payload != "[DONE]":
                assembly.add(payload)
    assembly.close()
    return list(assembly.reply().message.tool_calls)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(SOUND, min_size=1, max_size=3), PLANS, st.integers(1, 12), st.integers(1, 50))
def test_sound_calls_come_out_as_they_were_sent(calls: Any, plan: Planned, chars: int, size: int) -> None:
    """Marked by ids, or by indexes, or sent one after another: nothing is lost, mixed up or repaired."""
    written = tuple((name, json.dumps(arguments)) for name, arguments in calls)
    found = assembled(replace(plan, text="", calls=written, finish="tool_calls", cut=1.0), chars, size)
    assert sorted((call.name, call.arguments) for call in found) == sorted(
        (name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls
    )
    assert not any(call.repairs or call.fault for call in found)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(SOUND, min_size=1, max_size=3), PLANS, st.floats(0, 1), st.integers(1, 12), st.booleans())
def test_a_call_cut_at_the_limit_never_runs(calls: Any, plan: Planned, part: float, chars: int, ids: bool) -> None:
    """However much of it came: the last call of an answer that was cut off does not run, and half a call never does."""
    written = [(name, json.dumps(arguments)) for name, arguments in calls]
    name, whole = written.pop()
    written.append((name, whole[: int(len(whole) * part)]))
    last = replace(plan, text="", calls=tuple(written), order=None, ids=ids, indexes=not ids, finish="length", cut=1.0)
    found = assembled(last, chars, 50)
    assert [call.fault is None for call in found] == [True] * (len(calls) - 1) + [False]


def assert_valid(messages: list[Any]) -> None:
    """Each call has exactly one result, at once."""
    owed: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            owed.remove(message.call_id)
            continue
        assert not owed
        if isinstance(message, AssistantMessage):
            owed = [call.id for call in message.tool_calls]
            assert len(set(owed)) == len(owed) and not seen & set(owed) and all(owed)
            seen.update(owed)
            for call in message.tool_calls:
                assert isinstance(json.loads(call.arguments), dict)
    assert not owed

"""Stop, in every phase of a turn, with real parts: a real model client on the wire, the real fence, real processes.

Each time the same is asked: the turn ends soon, with exactly one `TurnEnded`; what was said is a valid transcript, and
a strict server takes it with the next message; no process is left. And the receipt says what was done.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.events import (
    CallDelta,
    CallFinished,
    CallStarted,
    Event,
    Receipt,
    RequestSent,
    Retrying,
    StepStarted,
    TextDelta,
    TurnEnded,
)
from agent.llm.client import OpenAIModel
from agent.llm.connection import ChatServer
from agent.log import dump_entry, load_entry
from agent.messages import AssistantMessage, ToolMessage
from agent.policy import Policy, Verdict, arguments_hash
from agent.session import Session
from agent.tool import Effect, Toolbox, ToolContext, ToolResult, tool
from tests.living import PATIENCE_S, new_marker, processes_with, sleepers, until, wait_until
from tests.scripted import ScriptedModel, call
from tests.wire.serving import Replay
from tools import keep_whole, standard_tools
from tools.checkpoint import Checkpoints
from tools.sandbox import probe

if sys.platform != "linux":
    pytest.skip("the commands are those of Linux", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
SOON_S = 10.0
"""Until a Stop is through: far less than anything that is stopped here would take by itself."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


# ---------------------------------------------------------------------- the wire


def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return "data: " + json.dumps({"id": "x", "object": "chat.completion.chunk", "choices": [choice]}) + "\n\n"


def piece_of_call(arguments: str, **head: str) -> str:
    function: dict[str, str] = {"arguments": arguments, **({"name": head["name"]} if head else {})}
    start = {"id": "call_1", "type": "function"} if head else {}
    return chunk({"tool_calls": [{"index": 0, **start, "function": function}]})


SAYS = [chunk({"role": "assistant", "content": "Once upon"}), chunk({"content": " a time"})]
FINE = {"stream": [*SAYS, chunk({}, "stop"), "data: [DONE]\n\n"]}
HANGS = {"end": "hang", "hang_ms": 60_000}


def calls(command: str) -> dict[str, Any]:
    arguments = json.dumps({"command": command})
    end = [chunk({}, "tool_calls"), "data: [DONE]\n\n"]
    return {"stream": [piece_of_call(arguments, name="run_command"), *end]}


@contextmanager
def wire(folder: Path, first: dict[str, Any], *then: dict[str, Any]) -> Iterator[Any]:
    """A server that answers with these, one after the other, and keeps what it was asked."""
    case = {"id": "stop", "title": "a stop", "kind": "x", "source": ["a/b#1"], "expect": {}}
    cases = folder / "cases"
    cases.mkdir()
    (cases / "stop.json").write_text(json.dumps({**case, "response": first, "then": list(then)}))
    with Replay(cases) as server:
        yield server


@asynccontextmanager
async def talking(url: str, root: Path, policy: Policy | None = None) -> AsyncIterator[Session]:
    """A session with all that the app gives it, and the model at this address."""
    model = OpenAIModel(ChatServer(url, "sk-wire-0123456789", "stop", first_token_timeout_s=60, idle_timeout_s=60))
    session = session_with(model, root, policy)
    try:
        yield session
    finally:
        await session.close()
        await model.close()
        assert isinstance(session.agent.checkpoints, Checkpoints)
        session.agent.checkpoints.close()


def session_with(model: Any, root: Path, policy: Policy | None = None) -> Session:
    checkpoints = Checkpoints(root.parent / "checkpoints")
    tools = Toolbox(standard_tools(probe(), None, root.parent / "images"), keep_whole, checkpoints.around)
    agent = Agent(model, tools, policy=policy or Policy(), checkpoints=checkpoints)
    return Session(agent, root, root.parent / "outbox")


# ---------------------------------------------------------------------- what is asked each time


def events(session: Session, kind: Any) -> list[Any]:
    return [entry.event for entry in session.log.since(0) if isinstance(entry.event, kind)]


async def seen(session: Session, condition: Callable[[Event], bool]) -> None:
    async def follow() -> None:
        async for batch in session.log.follow():
            if any(condition(entry.event) for entry in batch):
                return

    await asyncio.wait_for(follow(), PATIENCE_S)


async def stop(session: Session) -> TurnEnded:
    """Press Stop, and look that the turn has ended as it should."""
    await asyncio.wait_for(session.stop(), SOON_S)
    assert not session.running
    [ended] = events(session, TurnEnded)
    assert ended.reason == "stopped" and session.log.since(0)[-1].event is ended
    check_transcript(session)
    check_json(session)
    assert isinstance(ended, TurnEnded)
    return ended


def check_transcript(session: Session) -> None:
    """Each call has exactly one result before anything else is said."""
    expected: list[str] = []
    for message in session.transcript.messages:
        if isinstance(message, ToolMessage):
            expected.remove(message.call_id)
        else:
            assert not expected
        if isinstance(message, AssistantMessage):
            expected = [one.id for one in message.tool_calls]
    assert not expected


def check_json(session: Session) -> None:
    for entry in session.log.since(0):
        assert load_entry(json.loads(json.dumps(dump_entry(entry)))) == entry


async def check_next(session: Session, server: Any, requests: int) -> None:
    """The next message works, and the server finds nothing wrong with what it is sent."""
    session.send("next")
    assert await asyncio.wait_for(session.wait(), PATIENCE_S) == "answered"
    assert session.transcript.messages[-1] == AssistantMessage("Once upon a time")
    assert len(events(session, TurnEnded)) == 2
    assert server.problems("stop") == [] and len(server.requests("stop")) == requests


# ---------------------------------------------------------------------- the phases


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # asyncio leaves a cancelled handshake to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_while_it_connects(root: Path, tmp_path: Path) -> None:
    with wire(tmp_path, FINE) as server, socket.create_server(("127.0.0.1", 0)) as silent:
        async with talking(f"https://127.0.0.1:{silent.getsockname()[1]}/v1", root) as session:
            session.send("go")
            await seen(session, lambda event: isinstance(event, RequestSent))
            line, _ = await asyncio.get_running_loop().run_in_executor(None, silent.accept)
            with line:  # connected, and the handshake is never answered
                ended = await stop(session)
            assert ended.receipt == Receipt(steps=1, calls=0)
            there = OpenAIModel(ChatServer(server.url, "", "stop"))
            session.agent = Agent(there, session.agent.toolbox, checkpoints=session.agent.checkpoints)
            await check_next(session, server, 1)
            await there.close()
    gc.collect()  # here, where its warning is expected, and not in a later test


@pytest.mark.parametrize(
    "silence",
    [
        {**FINE, "first_delay_ms": 3_000},  # not even a status
        {**HANGS, "stream": [": wait\n\n"]},  # a sign of life and no more
        {**HANGS, "stream": [chunk({"role": "assistant", "content": ""})]},
    ],
)
async def test_while_it_waits_for_the_first_token(root: Path, tmp_path: Path, silence: dict[str, Any]) -> None:
    with wire(tmp_path, silence, FINE) as server:
        async with talking(server.url, root) as session:
            session.send("go")
            await until(lambda: server.requests("stop"))
            await stop(session)
            await until(lambda: server.requests("stop")[0]["client_left"])
            await check_next(session, server, 2)


async def test_while_it_speaks(root: Path, tmp_path: Path) -> None:
    with wire(tmp_path, {**HANGS, "stream": SAYS}, FINE) as server:
        async with talking(server.url, root) as session:
            session.send("go")
            await seen(session, lambda event: isinstance(event, TextDelta) and "time" in event.text)
            await stop(session)
            assert session.transcript.messages[-1] == AssistantMessage("Once upon a time")  # what was said was said
            await until(lambda: server.requests("stop")[0]["client_left"])
            await check_next(session, server, 2)


async def test_in_the_pause_before_another_try(root: Path, tmp_path: Path) -> None:
    busy = {"status": 429, "headers": {"retry-after": "60"}, "body": {"error": {"message": "Slow down."}}}
    with wire(tmp_path, busy, FINE) as server:
        async with talking(server.url, root) as session:
            session.send("go")
            await seen(session, lambda event: isinstance(event, Retrying) and event.seconds >= 60)
            await stop(session)
            assert len(server.requests("stop")) == 1
            await check_next(session, server, 2)


async def test_while_a_call_is_being_written(root: Path, tmp_path: Path) -> None:
    begun = [piece_of_call('{"comm', name="run_command"), piece_of_call('and": "touch ran')]
    with wire(tmp_path, {**HANGS, "stream": begun}, FINE) as server:
        async with talking(server.url, root) as session:
            session.send("go")
            await seen(session, lambda event: isinstance(event, CallDelta) and "touch" in event.arguments)
            ended = await stop(session)
            assert ended.receipt == Receipt(steps=1, calls=0)
            assert events(session, CallStarted) == [] and not (root / "ran").exists()
            await check_next(session, server, 2)


STUBBORN = {
    "sleep": ("sleep {m}", 1),
    "another session": ("setsid sleep {m} & setsid -f sleep {m}; sleep {m}", 3),
    "double fork": ("(sleep {m} & sleep {m} & exec >/dev/null 2>&1 <&-) & wait; sleep {m}", 3),
    "no ear": ("trap '' TERM INT HUP QUIT; (trap '' TERM; sleep {m}; sleep {m}; sleep {m}) & sleep {m}", 2),
    "two that restart": ("while :; do sleep {m}; done & while :; do sleep {m}; done", 2),
}


@pytest.mark.parametrize("kind", STUBBORN)
async def test_while_a_tool_runs(root: Path, tmp_path: Path, kind: str) -> None:
    marker = new_marker()
    script, number = STUBBORN[kind]
    with wire(tmp_path, calls(script.format(m=marker)), FINE) as server:
        async with talking(server.url, root) as session:
            session.send("go")
            await until(lambda: sleepers(marker) == number)
            ended = await stop(session)
            assert processes_with(marker) == []
            [finished] = events(session, CallFinished)
            assert finished.status == "stopped" and finished.details["killed"] >= number
            assert finished.details["seconds"] > 0 and "killed after" in finished.text
            assert ended.receipt == Receipt(steps=1, calls=1, killed=finished.details["killed"])
            await check_next(session, server, 2)


async def test_while_it_waits_for_a_person(root: Path, tmp_path: Path) -> None:
    """The turn has ended already: a Stop takes nothing away that a person may still decide."""
    policy = Policy({Effect.EXECUTE: Verdict("ask", "It runs.")})
    with wire(tmp_path, calls("touch ran"), FINE) as server:
        async with talking(server.url, root, policy) as session:
            session.send("go")
            assert await asyncio.wait_for(session.wait(), PATIENCE_S) == "awaiting_approval"
            assert await asyncio.wait_for(session.stop(), SOON_S) == []
            assert [ended.reason for ended in events(session, TurnEnded)] == ["awaiting_approval"] and session.waiting
            check_json(session)
            await check_next(session, server, 2)
            check_transcript(session)
            assert [finished.status for finished in events(session, CallFinished)] == ["denied"]
            assert not (root / "ran").exists()


async def test_after_a_person_has_decided(root: Path, tmp_path: Path) -> None:
    marker = new_marker()
    policy = Policy({Effect.EXECUTE: Verdict("ask", "It runs.")})
    with wire(tmp_path, calls(f"echo x > made; sleep {marker}"), FINE) as server:
        async with talking(server.url, root, policy) as session:
            session.send("go")
            await asyncio.wait_for(session.wait(), PATIENCE_S)
            [waiting] = session.waiting_calls()
            session.decide(waiting.id, arguments_hash(waiting), True)
            await until(lambda: sleepers(marker))
            await asyncio.wait_for(session.stop(), SOON_S)
            assert processes_with(marker) == []
            paused, ended = events(session, TurnEnded)
            assert (paused.reason, paused.receipt, ended.reason) == ("awaiting_approval", None, "stopped")
            assert ended.receipt is not None and ended.receipt.steps == ended.receipt.calls == 1
            assert ended.receipt.changed == {"made": "added"}
            check_transcript(session)


async def test_before_its_first_line(root: Path) -> None:
    session = session_with(ScriptedModel("never said"), root)
    session.send("go")
    await session.stop()
    [ended] = events(session, TurnEnded)
    assert ended.reason == "stopped" and ended.receipt == Receipt(steps=0, calls=0)
    assert events(session, StepStarted) == []


# ---------------------------------------------------------------------- the receipt


async def test_the_receipt_names_what_was_done(root: Path) -> None:
    marker = new_marker()
    for name in ("kept", "edited", "removed", "replaced"):
        (root / name).write_text("before\n")
    model = ScriptedModel(
        call("write_file", path="fleeting", content="x"),
        call("run_command", command="rm fleeting replaced removed; echo new > made; echo more >> edited"),
        call("run_command", command="echo again > replaced; echo more >> made"),
        call("read_file", path="kept"),
        call("run_command", command=f"echo last > last; sleep {marker} & sleep {marker}"),
    )
    session = session_with(model, root)
    session.send("go")
    await until(lambda: sleepers(marker) == 2)
    ended = await stop(session)
    killed = events(session, CallFinished)[-1].details["killed"]
    changed = {"removed": "deleted", "made": "added", "edited": "modified", "replaced": "modified", "last": "added"}
    assert killed >= 2 and ended.receipt == Receipt(steps=5, calls=5, killed=killed, changed=changed)


async def test_only_a_stopped_turn_has_a_receipt_and_it_is_of_that_turn(root: Path) -> None:
    marker = new_marker()
    model = ScriptedModel(
        call("write_file", path="first", content="x"), "done", call("run_command", command=f"sleep {marker}")
    )
    session = session_with(model, root)
    session.send("go")
    assert await asyncio.wait_for(session.wait(), PATIENCE_S) == "answered"
    session.send("more")
    await until(lambda: sleepers(marker))
    await asyncio.wait_for(session.stop(), SOON_S)
    answered, stopped = events(session, TurnEnded)
    assert answered.receipt is None
    assert (stopped.receipt.steps, stopped.receipt.calls, stopped.receipt.changed) == (1, 1, {})


async def test_what_nobody_watched_is_not_claimed(root: Path) -> None:
    marker = new_marker()
    script = [call("write_file", path="made", content="x"), call("run_command", command=f"echo > more; sleep {marker}")]
    tools = Toolbox(standard_tools(probe(), None, root.parent / "images"))
    session = Session(Agent(ScriptedModel(*script), tools), root, root.parent / "outbox")
    session.send("go")
    await until(lambda: sleepers(marker))
    ended = await stop(session)
    assert ended.receipt is not None
    assert ended.receipt.changed == {"made": "modified"} and not ended.receipt.complete


@pytest.mark.parametrize("details", [{"changed": 3, "changed_total": "many", "killed": "all"}, {"changed": [1, {}]}])
async def test_a_foreign_tool_may_use_the_same_words(root: Path, details: dict[str, Any]) -> None:
    @tool(Effect.WRITE)
    async def strange(context: ToolContext) -> ToolResult:
        """Say strange things."""
        context.facts.update(details)
        await asyncio.Event().wait()
        return ToolResult("")

    session = Session(Agent(ScriptedModel(call("strange")), Toolbox([strange])), root, root.parent / "outbox")
    session.send("go")
    await seen(session, lambda event: isinstance(event, CallStarted))
    ended = await stop(session)
    assert ended.receipt == Receipt(steps=1, calls=1, complete=False)
    assert events(session, CallFinished)[0].details == details


async def test_more_files_than_are_listed_are_not_passed_over(root: Path) -> None:
    marker = new_marker()
    session = session_with(
        ScriptedModel(call("run_command", command=f"for i in $(seq 300); do echo > f$i; done; sleep {marker}")), root
    )
    session.send("go")
    await until(lambda: sleepers(marker))
    ended = await stop(session)
    assert ended.receipt is not None and 100 < len(ended.receipt.changed) < 300 and not ended.receipt.complete


# ---------------------------------------------------------------------- the end of the app


def environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "OPENAI_CHAT_MODEL": "demo",
        "WORKSPACE_DIR": str(folder / "workspace"),
        "GLASSLOOP_DATA": str(folder / "data"),
        "PYTHONPATH": str(ROOT),
    }


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]


@pytest.mark.parametrize("sign", SIGNALS)
def test_the_command_line_leaves_nothing(tmp_path: Path, sign: signal.Signals) -> None:
    marker = new_marker()
    words = [sys.executable, str(ROOT / "app.py"), "--task", f"run setsid sleep {marker} & sleep {marker}"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.PIPE) as process:
        try:
            wait_until(lambda: sleepers(marker) == 2, 120)
            process.send_signal(sign)
            process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == (-sign if sign is signal.SIGKILL else 130)
    if sign is signal.SIGKILL:  # nobody was left to wait for it
        wait_until(lambda: not processes_with(marker))
    assert processes_with(marker) == []


SERVING = """
import sys
import app
from agent.sessions import Sessions
from agent.store import Store
from tests.scripted import ScriptedModel, call
from tools.sandbox import probe
from ui.page import Status, serve

settings = app.load_settings({"GLASSLOOP_PORT": "0"}, env_file=app.Path("no-such-file"))
behind, before = (f"setsid sleep {marker} & sleep {marker}" for marker in sys.argv[1:])
model = ScriptedModel(call("start_process", command=behind), call("run_command", command=before))
fence = probe()
agent = app.build_agent(settings, model, fence)
store = Store(settings.data_dir, str)
sessions = Sessions(store, lambda owner, id, log: app.new_session(agent, settings, owner, "local", id, log))
status = Status("scripted", False, fence.boundary.line, fence.boundary.strength, "local")
serve(sessions, sessions.create, settings, status, lambda url: sessions.create("ann").send("go"))
store.close()
"""
"""The page, as `app.py` serves it, with a model that starts one thing behind the turn and one before it."""


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_the_browser_app_leaves_nothing(tmp_path: Path, sign: signal.Signals) -> None:
    behind, before = new_marker(), new_marker()
    words = [sys.executable, "-c", SERVING, behind, before]
    settings = environment(tmp_path) | {"AGENT_MODE": "auto"}
    with subprocess.Popen(words, cwd=tmp_path, env=settings, stderr=subprocess.PIPE) as process:
        try:
            wait_until(lambda: process.poll() is not None or (sleepers(behind) == 2 and sleepers(before) == 2), 180)
            process.send_signal(sign)
            _, stderr = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == (-sign if sign is signal.SIGKILL else 0), stderr.decode()
    assert b"Traceback" not in stderr
    if sign is signal.SIGKILL:
        wait_until(lambda: not processes_with(behind) and not processes_with(before))
    assert [processes_with(behind), processes_with(before)] == [[], []]

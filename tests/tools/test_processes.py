"""Processes in the background: real ones, behind the real fence of this machine."""

from __future__ import annotations

import asyncio
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.errors import Refused, ToolError
from agent.events import CallFinished, CallStarted, Event, TurnEnded
from agent.policy import Policy, arguments_hash
from agent.session import Session
from agent.sessions import Sessions
from agent.store import Store
from agent.tool import Effect, Tool, Toolbox, ToolContext
from tests.living import new_marker, processes_with, sleepers, until
from tests.scripted import ScriptedModel, call
from tests.tools.calling import acall, context
from tools import standard_tools
from tools.background import TAIL_CHARS, background_tools
from tools.processes import MAX_ENDED, Processes
from tools.sandbox import CommandLimits, Scrubber, probe

if sys.platform != "linux":
    pytest.skip("the commands are those of Linux", allow_module_level=True)

KEY = "sk-a-secret-key-0815"
FENCE = probe()
STUBBORN = """
(setsid sleep {m} &) ; (trap '' TERM INT HUP; (sleep {m}; sleep {m}) & wait) &
python3 -c 'import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.execvp("sleep", ["sleep", "{m}"])'
echo up; sleep {m}
"""
"""Another session, a trap, a daemon, and the shell itself: four that sleep."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@pytest.fixture
def marker() -> str:
    return new_marker()


class Tools:
    """The three tools, called as the toolbox calls them."""

    def __init__(self, root: Path, processes: Processes, **options: Any) -> None:
        self.processes = processes
        tools = standard_tools(FENCE, None, root.parent / "images", processes=processes, **options)
        self.by_name: dict[str, Tool] = {tool.name: tool for tool in tools}
        self.context: ToolContext = context(root)

    async def start(self, command: str, **options: Any) -> tuple[str, str]:
        """The id and the text."""
        text = (await acall(self.by_name["start_process"], self.context, command=command, **options)).text
        return text[1:].partition(" ")[0], text

    async def read(self, id: str, **options: Any) -> str:
        return (await acall(self.by_name["read_process"], self.context, id=id, **options)).text

    async def stop(self, id: str) -> str:
        return (await acall(self.by_name["stop_process"], self.context, id=id)).text


@asynccontextmanager
async def tools_in(root: Path, max_life_s: float = 60, **options: Any) -> AsyncIterator[Tools]:
    limits = {name: options.pop(name) for name in ("max_of_session", "max_in_all") if name in options}
    processes = Processes(FENCE, max_life_s, **limits)
    try:
        yield Tools(root, processes, **options)
    finally:
        for session_id in ("session", "other"):
            await processes.end_all(session_id)


def position(text: str) -> int:
    return int(text.rpartition("position ")[2].rstrip("]"))


# ---------------------------------------------------------------------- what the model does with them


async def test_it_goes_on_and_is_read_on(root: Path) -> None:
    async with tools_in(root) as tools:
        script = "for i in 1 2 3; do echo line $i; while [ ! -e go$i ]; do sleep 0.01; done; done; exit 3"
        id, text = await tools.start(script, name="counter")
        assert f"[{id} (counter) is running" in text and "\nline 1\n" in text
        [facts] = tools.processes.facts("session")
        assert facts["id"] == id and facts["name"] == "counter" and facts["command"] == script
        assert facts["running"] and "reason" not in facts and facts["started_at"] > 1e9 and facts["bytes"] == 7
        assert "[nothing new]" in await tools.read(id, since=position(text))
        (root / "go1").touch()
        await until(lambda: tools.processes.facts("session")[0]["bytes"] == 14)
        text = await tools.read(id, since=position(text))
        assert "line 1" not in text and "\nline 2\n" in text
        (root / "go2").touch()
        (root / "go3").touch()
        text = await tools.read(id, wait_s=30)
        assert "has ended: exit code 3]" in text and "line 1\nline 2\nline 3\n" in text
        [facts] = tools.processes.facts("session")
        assert (facts["running"], facts["reason"], facts["exit_code"], facts["killed"]) == (False, "exit", 3, 0)


async def test_what_fails_at_once_is_told_at_once(root: Path) -> None:
    processes = Processes(FENCE, 60)
    start = background_tools(processes, CommandLimits(), look_s=30)[0]
    result = await acall(start, root, command="no-such-program")
    assert not result.ok and "exit code 127" in result.text and "not found" in result.text
    assert result.details["exit_code"] == 127
    with pytest.raises(ToolError, match="does not exist"):
        await acall(start, root, command="true", cwd="nowhere")
    with pytest.raises(ToolError, match="did not start"):
        await acall(start, root, command="x" * 200_000)
    assert len(processes.facts("session")) == 1  # what never ran is not listed


async def test_stopping_it_ends_all_that_it_started(root: Path, marker: str) -> None:
    async with tools_in(root) as tools:
        id, _ = await tools.start(STUBBORN.format(m=marker))
        await until(lambda: sleepers(marker) == 4)
        text = await tools.stop(id)
        assert processes_with(marker) == []
        assert "is stopped: " in text and "none is left]" in text and "\nup\n" in text
        [facts] = tools.processes.facts("session")
        assert facts["reason"] == "stopped" and facts["killed"] >= 4
        assert "has ended: killed: it was stopped" in await tools.stop(id)


async def test_of_much_output_the_last_is_kept_and_what_is_missing_is_told(root: Path) -> None:
    async with tools_in(root) as tools:
        id, _ = await tools.start("seq 1 200000")
        text = await tools.read(id, wait_s=30)
        assert len(text) < TAIL_CHARS + 300 and "earlier output is left out" in text and "\n200000\n" in text
        total = sum(len(str(number)) + 1 for number in range(1, 200_001))
        assert position(text) == total
        kept = await tools.read(id, since=100)
        assert f"{total - 100 - (256 << 10)} bytes are not kept any more" in kept and len(kept) < 300_000
        assert await tools.read(id, since=10**9) == await tools.read(id, since=total)


async def test_limits_hold(root: Path, marker: str) -> None:
    async with tools_in(root, limits=CommandLimits(output_bytes=1 << 20)) as tools:
        id, _ = await tools.start("yes")
        assert "too much output" in await tools.read(id, wait_s=30)
    async with tools_in(root, max_life_s=0.3) as tools:
        id, _ = await tools.start(f"sleep {marker} & sleep {marker}")
        assert "as long as one may" in await tools.read(id, wait_s=30) and processes_with(marker) == []


async def test_a_known_secret_never_comes_out(root: Path) -> None:
    (root / "config").write_text(KEY)
    async with tools_in(root, scrubber=Scrubber([KEY])) as tools:
        id, text = await tools.start(f"cat config; echo {KEY}; sleep 300", name=KEY)
        shown = text + await tools.read(id) + str(tools.processes.facts("session")) + await tools.stop(id)
        assert KEY not in shown and "[secret removed]" in shown


# ---------------------------------------------------------------------- whose they are, and how many


async def test_a_session_reaches_only_its_own(root: Path) -> None:
    async with tools_in(root) as tools:
        id, _ = await tools.start("sleep 300")
        tools.context.session_id = "other"
        for asked in (tools.read(id), tools.stop(id)):
            with pytest.raises(ToolError, match="no process"):
                await asked
        with pytest.raises(Refused):
            await tools.processes.end("other", id)
        assert tools.processes.facts("other") == [] and not tools.processes.is_busy("other")
        await tools.processes.end_all("other")
        assert tools.processes.is_busy("session")
        await tools.processes.end("session", id)
        assert not tools.processes.is_busy("session")


async def test_only_so_many_run_at_a_time(root: Path) -> None:
    async with tools_in(root, max_of_session=2, max_in_all=3) as tools:
        first, _ = await tools.start("sleep 300", name="one")
        await tools.start("sleep 300")
        with pytest.raises(ToolError, match=f"Stop one first: {first} \\(one\\)"):
            await tools.start("sleep 300")
        tools.context.session_id = "other"
        await tools.start("sleep 300")
        with pytest.raises(ToolError, match="whole app"):
            await tools.start("sleep 300")
        await tools.processes.end("session", first)
        await tools.start("sleep 300")  # an ended one takes no place
        assert len(tools.processes.facts("session")) == 2


async def test_ended_ones_are_forgotten_in_time(root: Path) -> None:
    async with tools_in(root) as tools:
        ids = []
        for _ in range(MAX_ENDED + 2):
            ids.append((await tools.start("true"))[0])
            assert "exit code 0" in await tools.read(ids[-1], wait_s=30)
        assert [facts["id"] for facts in tools.processes.facts("session")][-1] == ids[-1]
        with pytest.raises(ToolError):
            await tools.read(ids[0])
        assert "exit code 0" in await tools.read(ids[-2])


async def test_a_full_workspace_keeps_none_from_being_stopped(root: Path) -> None:
    (root / "much").write_bytes(bytes(1000))
    (root / ".tmp").mkdir()  # what the process would make itself, and would be ended for
    async with tools_in(root, limits=CommandLimits(quota_bytes=100)) as tools:
        id, _ = await tools.start("sleep 300")
        with pytest.raises(ToolError, match="full"):
            await acall(tools.by_name["write_file"], tools.context, path="more", content="x")
        assert "is stopped" in await tools.stop(id)


# ---------------------------------------------------------------------- the network

SERVER = "python3 -u -m http.server 0 --bind 127.0.0.1"


async def test_without_the_network_no_server_listens(root: Path) -> None:
    if not FENCE.boundary.layer("network").active:
        pytest.skip("the network is not held here, and the boundary says so")
    async with tools_in(root) as tools:
        id, _ = await tools.start(SERVER)
        text = await tools.read(id, wait_s=30)
        assert "has ended" in text and "Serving" not in text
        start = tools.by_name["start_process"]
        assert "network" not in start.parameters["properties"] and "cannot listen" in start.description
        with pytest.raises(ToolError, match="network cannot be given"):
            await tools.start(SERVER, network=True)


async def test_with_the_network_a_server_answers_until_it_is_stopped(root: Path) -> None:
    (root / "page.txt").write_text("served")
    async with tools_in(root, network=True) as tools:
        start = tools.by_name["start_process"]
        assert start.effects({"network": True}) == {Effect.EXECUTE, Effect.NETWORK}
        assert start.effects({"network": False}) == {Effect.EXECUTE}
        id, _ = await tools.start(SERVER, network=True)
        await until(lambda: "http://" in tools.processes.of("session")[0].process.read())
        port = (await tools.read(id)).partition("127.0.0.1:")[2].partition("/")[0]
        address = f"http://127.0.0.1:{port}/page.txt"
        assert await asyncio.to_thread(_get, address) == b"served"
        await tools.stop(id)
        with pytest.raises(OSError):
            await asyncio.to_thread(_get, address)


def _get(address: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(address, timeout=10) as answer:
        return bytes(answer.read())


# ---------------------------------------------------------------------- in a session


def session_in(root: Path, *script: Any, policy: Policy | None = None, network: bool = False) -> Session:
    processes = Processes(FENCE, 60)
    tools = standard_tools(FENCE, None, root.parent / "images", processes=processes, network=network)
    agent = Agent(ScriptedModel(*script), Toolbox(tools), policy=policy or Policy(), background=processes)
    return Session(agent, root, root.parent / "outbox")


def events(session: Session, kind: Any) -> list[Any]:
    return [entry.event for entry in session.log.since(0) if isinstance(entry.event, kind)]


async def seen(session: Session, condition: Callable[[Event], bool]) -> None:
    async for batch in session.log.follow():
        if any(condition(entry.event) for entry in batch):
            return


async def test_it_outlives_its_turn_and_the_stop_of_another(root: Path, marker: str) -> None:
    session = session_in(
        root, call("start_process", command=f"sleep {marker}"), "started", call("run_command", command="sleep 300")
    )
    session.send("start")
    assert await session.wait() == "answered" and session.busy and not session.running
    session.send("another")
    await seen(session, lambda event: isinstance(event, CallStarted) and len(events(session, CallStarted)) == 2)
    await session.stop()
    assert session.turn.ended == "stopped" and sleepers(marker) == 1 and session.busy
    await session.close()
    assert processes_with(marker) == [] and not session.busy
    await session.close()


async def test_a_stop_of_the_start_itself_ends_it(root: Path, marker: str) -> None:
    session = session_in(root, call("start_process", command=f"echo up; setsid sleep {marker} & sleep {marker}"), "ok")
    session.send("start")
    await until(lambda: sleepers(marker) == 2)
    await session.stop()
    assert processes_with(marker) == [] and not session.busy
    [finished] = events(session, CallFinished)
    assert finished.status == "stopped" and finished.details["killed"] >= 2
    [ended] = events(session, TurnEnded)
    assert ended.receipt.killed == finished.details["killed"]


async def test_the_network_is_a_persons_to_give(root: Path) -> None:
    policy = Policy.of("auto", "strong", "local")
    script = [
        call("start_process", "c1", command="sleep 300"),
        call("start_process", "c2", command=SERVER, network=True),
    ]
    session = session_in(root, script, "done", policy=policy, network=True)
    session.send("start both")
    assert await session.wait() == "awaiting_approval"
    assert [finished.call_id for finished in events(session, CallFinished)] == ["c1"]
    [waiting] = session.waiting_calls()
    assert session.turn.waiting[waiting.id].why == "It asks for the network, outside the fence."
    session.decide(waiting.id, arguments_hash(waiting), True)
    assert await session.wait() == "answered"
    await until(lambda: "http://" in str(session.agent.background and _said(session)))
    await session.close()


def _said(session: Session) -> str:
    processes = session.agent.background
    assert isinstance(processes, Processes)
    return " ".join(one.process.read() for one in processes.of(session.id))


async def test_it_ends_with_its_session(root: Path, tmp_path: Path, marker: str) -> None:
    store = Store(tmp_path / "data", lambda text: text)
    processes = Processes(FENCE, 60)
    tools = Toolbox(standard_tools(FENCE, None, tmp_path / "images", processes=processes))

    def build(owner: str, id: str, log: Any) -> Session:
        model = ScriptedModel(call("start_process", command=f"sleep {marker}"), "started")
        return Session(Agent(model, tools, background=processes), root, tmp_path / "outbox", owner, log, id)

    try:
        sessions = Sessions(store, build)
        gone, kept, idle = (sessions.create("ann") for _ in range(3))
        for session in (gone, kept):
            session.send("start")
            assert await session.wait() == "answered"
        idle.send("say")
        await idle.wait()
        await idle.close()
        assert sessions.sweep(idle=0) == 1  # only what has nothing left that runs
        assert sleepers(marker) == 2
        await sessions.delete("ann", gone.id)
        assert sleepers(marker) == 1 and not gone.busy and kept.busy
        await sessions.stop_all()
        assert processes_with(marker) == []
    finally:
        store.close()

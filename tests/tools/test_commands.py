"""What commands in the foreground have to do with each other, with the network and with a Stop."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.errors import ToolError
from agent.events import CallFinished, OutputDelta
from agent.policy import Policy
from agent.session import Session
from agent.tool import Effect, Tool, Toolbox
from tests.living import new_marker, processes_with, sleepers, until
from tests.scripted import ScriptedModel, call
from tests.tools.calling import acall, context
from tools import standard_tools
from tools.sandbox import CommandLimits, probe
from tools.shell import run_command_tool

if sys.platform != "linux":
    pytest.skip("the commands are those of Linux", allow_module_level=True)

FENCE = probe()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def session_with(run: Tool, root: Path, *script: Any) -> Session:
    return Session(Agent(ScriptedModel(*script), Toolbox([run])), root, root.parent / "outbox")


def events(session: Session, kind: Any) -> list[Any]:
    return [entry.event for entry in session.log.since(0) if isinstance(entry.event, kind)]


# ---------------------------------------------------------------------- places


async def test_a_command_waits_for_a_place_and_says_so(root: Path) -> None:
    run = run_command_tool(FENCE, CommandLimits(), max_commands=1)
    marker = new_marker()
    first = session_with(run, root, call("run_command", command=f"sleep {marker}"))
    second = session_with(run, root, call("run_command", command="echo ran; touch ran"), "done")
    first.send("go")
    await until(lambda: sleepers(marker))
    second.send("go")
    await until(lambda: "waiting for a free slot" in "".join(e.text for e in events(second, OutputDelta)))
    assert not (root / "ran").exists()
    await first.stop()
    assert await second.wait() == "answered"
    assert (root / "ran").exists() and "ran" in events(second, CallFinished)[0].text


async def test_a_stop_while_it_waits_for_a_place(root: Path) -> None:
    run = run_command_tool(FENCE, CommandLimits(), max_commands=1)
    marker = new_marker()
    first = session_with(run, root, call("run_command", command=f"sleep {marker}"))
    second = session_with(
        run, root, call("run_command", command="touch ran"), call("run_command", command="echo next"), "done"
    )
    first.send("go")
    await until(lambda: sleepers(marker))
    second.send("go")
    await until(lambda: events(second, OutputDelta))
    await second.stop()
    [stopped] = events(second, CallFinished)
    assert stopped.status == "stopped" and "had not begun" in stopped.text
    await first.stop()
    second.send("again")
    assert await second.wait() == "answered"
    assert events(second, CallFinished)[-1].text == "[exit code 0]\n[stdout]\nnext" and not (root / "ran").exists()


# ---------------------------------------------------------------------- the network

CONNECT = 'python3 -c \'import socket; socket.create_connection(("127.0.0.1", {port})).sendall(b"hello")\''


async def test_the_network_opens_only_where_it_is_asked_for(root: Path) -> None:
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())
        writer.close()

    run = run_command_tool(FENCE, CommandLimits(), network=True)
    async with await asyncio.start_server(hear, "127.0.0.1", 0) as server:
        command = CONNECT.format(port=server.sockets[0].getsockname()[1])
        if FENCE.boundary.layer("network").active:
            assert not (await acall(run, root, command=command)).ok and heard == []
        assert (await acall(run, root, command=command, network=True)).ok
        await until(lambda: heard == [b"hello"])


def test_who_may_ask_for_the_network_is_asked_first(root: Path) -> None:
    run = run_command_tool(FENCE, CommandLimits(), network=True)
    policy = Policy.of("auto", "strong", "local")
    assert run.effects({"network": True}) == {Effect.EXECUTE, Effect.NETWORK}
    assert policy.judge(run.effects({"network": True})).answer == "ask"
    assert policy.judge(run.effects(run.check({"command": "ls"}))).answer == "allow"


async def test_where_nobody_may_ask_the_argument_is_not_there(root: Path) -> None:
    [tool] = [tool for tool in standard_tools(FENCE, None, root) if tool.name == "run_command"]
    assert "network" not in tool.parameters["properties"]
    for value in (True, False, "true"):
        with pytest.raises(ToolError, match="network cannot be given"):
            await acall(tool, root, command="true", network=value)


# ---------------------------------------------------------------------- what was killed


async def test_every_end_says_what_was_killed(root: Path) -> None:
    run = run_command_tool(FENCE, CommandLimits())
    marker = new_marker()
    late = await acall(run, root, command=f"sleep {marker} & sleep {marker}", timeout_s=1.5)
    assert (
        late.text.startswith("[killed: not done after 1.5 s")
        and f"; {late.details['killed']} processes were" in late.text
    )
    left = await acall(run, root, command=f"sleep {marker} & echo done")
    assert left.text.startswith("[exit code 0; 1 process it had left running was killed]")
    assert left.details["killed"] == 1 and processes_with(marker) == []


async def test_a_stop_leaves_facts_for_the_result(root: Path) -> None:
    run = run_command_tool(FENCE, CommandLimits())
    marker = new_marker()
    at = context(root)
    task = asyncio.create_task(acall(run, at, command=f"echo begun; sleep {marker} & sleep {marker}"))
    await until(lambda: sleepers(marker) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_with(marker) == []
    assert at.facts["killed"] >= 2 and at.facts["seconds"] > 0 and at.facts["exit_code"] is None
    assert f"{at.facts['killed']} processes killed" in at.stop_note and "begun" in at.stop_note

"""The tools where they work: a real session, the real toolbox and fence, a scripted model."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.events import CallFinished, Event, OutputDelta
from agent.messages import ToolMessage
from agent.session import Session
from agent.tool import MAX_RESULT_CHARS, Toolbox
from tests.scripted import ScriptedModel, call
from tools import keep_whole, standard_tools
from tools.sandbox import probe

if sys.platform != "linux":
    pytest.skip("the commands are those of Linux", allow_module_level=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def session_with(root: Path, *script: Any) -> Session:
    tools = standard_tools(probe(), None, root.parent / "images")
    return Session(Agent(ScriptedModel(*script), Toolbox(tools, keep_whole)), root, root.parent / "outbox")


def run(scenario: Awaitable[Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 60))


def results(session: Session) -> list[CallFinished]:
    return [entry.event for entry in session.log.since(0) if isinstance(entry.event, CallFinished)]


async def play(session: Session) -> list[CallFinished]:
    session.send("go")
    assert await session.wait() == "answered"
    return results(session)


async def until(session: Session, condition: Callable[[Event], bool]) -> None:
    async for batch in session.log.follow():
        if any(condition(entry.event) for entry in batch):
            return


def processes_with(marker: str) -> list[int]:
    """The processes that have this word in their arguments."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:  # gone in the meantime
                continue
            if any(marker.encode() in word for word in words):
                found.append(int(process.name))
    return found


def test_a_commands_output_is_live_and_reaches_the_model(root: Path) -> None:
    async def scenario() -> Session:
        session = session_with(root, call("run_command", "c1", command="echo 你好; echo oops >&2; exit 2"), "seen")
        await play(session)
        return session

    session = run(scenario())
    [finished] = results(session)
    assert (finished.status, finished.details["exit_code"]) == ("failed", 2)
    assert finished.text == "[exit code 2]\n[stdout]\n你好\n[stderr]\noops"
    live = "".join(e.event.text for e in session.log.since(0) if isinstance(e.event, OutputDelta))
    assert "你好" in live and "oops" in live
    answered = session.agent.model.requests[1].messages[-1]
    assert isinstance(answered, ToolMessage) and answered.text == finished.text


def test_stop_kills_the_command_and_all_that_it_started(root: Path) -> None:
    marker = f"marker-{secrets.token_hex(8)}"
    script = f"""
    exec -a {marker}-1 sleep 300 &
    (setsid bash -c 'exec -a {marker}-2 sleep 300' &) &
    (trap '' TERM INT HUP; bash -c 'exec -a {marker}-3 sleep 300') &
    echo started; sleep 300
    """

    async def scenario() -> Session:
        session = session_with(
            root, call("run_command", "c1", command=script), call("run_command", command="echo on"), "ok"
        )
        session.send("go")
        await until(session, lambda event: isinstance(event, OutputDelta) and "started" in event.text)
        deadline = time.monotonic() + 20
        while len({word for word in "123" if processes_with(f"{marker}-{word}")}) < 3:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        await session.stop()
        assert processes_with(marker) == []  # at once, not some time later
        session.send("next")
        assert await session.wait() == "answered"
        return session

    stopped, after = results(run(scenario()))
    assert stopped.status == "stopped"
    assert stopped.text.startswith("Stopped by the user. ") and "killed" in stopped.text and "started" in stopped.text
    assert after.text == "[exit code 0]\n[stdout]\non"


def test_long_output_is_kept_whole_and_read_in_parts(root: Path) -> None:
    path = ".glassloop/results/long.txt"

    async def scenario() -> list[CallFinished]:
        return await play(
            session_with(
                root,
                call("run_command", "long", command="seq -f 'line %g' 1 2500"),
                call("read_file", "part", path=path, start_line=1200, max_lines=3),
                call("search_files", "found", path=".glassloop/results", query="line 1717"),
                "done",
            )
        )

    long, part, found = run(scenario())
    assert len(long.text) < MAX_RESULT_CHARS + 500 and path in long.text
    assert part.text.splitlines()[1:] == [
        "line 1198",
        "line 1199",
        "line 1200",
    ]  # after the lines [exit code], [stdout]
    assert "line 1717" in found.text


def test_files_go_round_from_writing_to_handing_over(root: Path) -> None:
    async def scenario() -> list[CallFinished]:
        return await play(
            session_with(
                root,
                call("write_file", path="out/report.md", content="# 报告\n\ndraft\n"),
                call("edit_file", path="out/report.md", old_text="draft", new_text="final"),
                call("append_file", path="out/report.md", content="end"),
                call("run_command", command="cat out/report.md | tr a-z A-Z > out/loud.md"),
                [call("send_file", "s1", path="out/report.md"), call("send_file", "s2", path="out/loud.md")],
                "done",
            )
        )

    finished = run(scenario())
    assert [event.status for event in finished] == ["done"] * 6
    assert "+final" in finished[1].details["diff"]
    sent = {event.call_id: Path(event.files[0].path) for event in finished if event.files}  # in no certain order
    report, loud = sent["s1"], sent["s2"]
    assert report.read_bytes() == "# 报告\n\nfinal\nend".encode() == (root / "out/report.md").read_bytes()
    assert loud.read_bytes() == "# 报告\n\nFINAL\nEND".encode()


def test_what_a_command_plants_the_file_tools_refuse(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the secret outside")
    plant = f"ln -s {tmp_path}/secret link; ln -s {tmp_path} folder; mkfifo pipe; rm -rf .glassloop; ln -s / .glassloop"

    async def scenario() -> list[CallFinished]:
        return await play(
            session_with(
                root,
                call("run_command", command=plant),
                [
                    call("read_file", "r1", path="link"),
                    call("read_file", "r2", path="folder/secret"),
                    call("read_file", "r3", path="pipe"),
                    call("send_file", "s1", path="link"),
                    call("write_file", "w1", path="folder/planted", content="x"),
                    call("search_files", "f1", query="secret"),
                ],
                "done",
            )
        )

    planted, *looked = run(scenario())
    search = next(event for event in looked if event.call_id == "f1")
    refused = [event for event in looked if event is not search]
    assert planted.status == "done" and {event.status for event in refused} == {"failed"}
    assert search.details["matches"] == 0 and not any("the secret outside" in e.text for e in [*refused, search])
    assert not (tmp_path / "planted").exists()

"""Undo: real files, real checkpoints, a scripted model, and the conversation that goes with them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agent.agent import Agent
from agent.errors import Refused
from agent.events import (
    BranchSelected,
    CallFinished,
    CallStarted,
    Event,
    FromTurn,
    Nudged,
    OneCall,
    OneUndo,
    TextDelta,
    TurnStarted,
    Undone,
)
from agent.log import EventLog, dump_entry, load_entry
from agent.messages import UserMessage
from agent.policy import Policy, Verdict
from agent.session import Session
from agent.tool import Effect, Toolbox, ToolContext, ToolResult, tool
from agent.undo import changed_files
from tests.scripted import Hang, ScriptedModel, call
from tools.checkpoint import Bounds, Checkpoints

T = TypeVar("T")


@tool(Effect.WRITE)
def put(context: ToolContext, file: str, text: str) -> str:
    """Write a file."""
    (context.workspace / file).write_text(text)
    return "written"


@tool(Effect.EXECUTE)
def shell(context: ToolContext, code: str) -> ToolResult:
    """Run Python in the workspace."""
    done = subprocess.run([sys.executable, "-c", code], cwd=context.workspace, check=False)
    return ToolResult("ran", details={"exit_code": done.returncode}, ok=done.returncode == 0)


@tool(Effect.EXECUTE)
async def hang(context: ToolContext) -> str:
    """Write a file and never end."""
    (context.workspace / "half").write_text("half")
    await asyncio.Event().wait()
    raise AssertionError


@tool(Effect.READ)
def look(context: ToolContext) -> str:
    """Changes a file although it says that it only reads."""
    (context.workspace / "sneaky").write_text("x")
    return "looked"


class Scene:
    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "work"
        self.workspace.mkdir()
        self.checkpoints = Checkpoints(folder / "data", Bounds(file_bytes=1000))

    def session(self, *script: Any, log: EventLog | None = None, **agent: Any) -> Session:
        toolbox = Toolbox([put, shell, hang, look], around=self.checkpoints.around)
        made = Agent(ScriptedModel(*script), toolbox, checkpoints=self.checkpoints, **agent)
        return Session(made, self.workspace, self.workspace, log=log)

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.workspace.iterdir()}

    def write(self, name: str, text: str) -> None:
        (self.workspace / name).write_text(text)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.checkpoints.close()


def run(work: Awaitable[T]) -> T:
    async def with_a_deadline() -> T:
        return await asyncio.wait_for(work, 30)

    return asyncio.run(with_a_deadline())


async def say(session: Session, text: str = "go") -> None:
    session.send(text)
    await session.wait()


def events(session: Session, kind: type[Event] | Any) -> list[Any]:
    return [e.event for e in session.log.since(0) if isinstance(e.event, kind)]


def said(session: Session) -> list[str]:
    return [m.text for m in session.transcript.messages if isinstance(m, UserMessage)]


async def until(session: Session, kind: type[Event]) -> None:
    async for batch in session.log.follow():
        if any(isinstance(entry.event, kind) for entry in batch):
            return


def test_a_call_s_result_says_what_it_changed(scene: Scene) -> None:
    async def scenario() -> Session:
        session = scene.session([call("put", file="a", text="1\n2\n"), call("shell", code="open('b', 'w')")], "done")
        await say(session)
        return session

    one, two = events(run(scenario()), CallFinished)
    assert list(changed_files(one.details)) == [{"path": "a", "change": "added", "bytes": 4, "added": 2, "removed": 0}]
    assert [fact["path"] for fact in changed_files(two.details)] == ["b"]
    assert one.details["checkpoint"] == two.details["before"] and two.details["exit_code"] == 0


def test_a_failed_and_a_stopped_call_say_it_too_and_a_reading_one_is_not_looked_at(scene: Scene) -> None:
    async def scenario() -> Session:
        session = scene.session([call("shell", code="open('a', 'w'); exit(3)"), call("look"), call("hang")], "done")
        session.send("go")
        while not (scene.workspace / "half").exists():
            await asyncio.sleep(0.01)
        await session.stop()
        return session

    failed, looked, stopped = events(run(scenario()), CallFinished)
    assert failed.status == "failed" and [fact["path"] for fact in changed_files(failed.details)] == ["a"]
    assert looked.details == {}
    assert stopped.status == "stopped" and [fact["path"] for fact in changed_files(stopped.details)] == ["half"]


def test_files_and_conversation_go_back_together_and_forth_again(scene: Scene) -> None:
    async def scenario() -> None:
        session = scene.session(
            call("put", file="a", text="1"),
            "one",
            [call("put", file="a", text="2"), call("shell", code="open('b', 'w').write('2')")],
            "two",
            call("put", file="c", text="3"),
            "three",
        )
        for text in ("first", "second", "third"):
            await say(session, text)
        before = scene.files()
        messages = list(session.transcript.messages)

        seen = await session.undo_preview(FromTurn(2))
        assert seen.turns == (2, 3) and not seen.conflicts
        assert {fact["path"]: fact["change"] for fact in seen.changes} == {
            "a": "modified",
            "b": "deleted",
            "c": "deleted",
        }
        assert scene.files() == before

        undone = await session.undo(FromTurn(2))
        assert scene.files() == {"a": "1"} and said(session) == ["first"]
        assert undone.moved and undone.gone == (2, 3)
        assert events(session, BranchSelected)[-1].turn == 1

        redone = await session.undo(OneUndo(undone.id))
        assert scene.files() == before and session.transcript.messages == messages
        await session.undo(OneUndo(redone.id))
        assert scene.files() == {"a": "1"} and said(session) == ["first"]

    run(scenario())


def test_undoing_the_first_turn_leaves_an_empty_conversation_that_goes_on(scene: Scene) -> None:
    async def scenario() -> Session:
        session = scene.session(call("put", file="a", text="1"), "one", "two")
        await say(session, "first")
        await session.undo(FromTurn(1))
        assert scene.files() == {} and session.transcript.messages == []
        await say(session, "again")
        return session

    session = run(scenario())
    assert said(session) == ["again"] and events(session, TurnStarted)[-1].parent is None
    assert not events(session, Nudged), "what was undone is not there any more, so there is nothing to tell"
    loaded = [load_entry(dump_entry(entry)) for entry in session.log.since(0)]
    assert loaded == list(session.log.since(0))
    assert scene.session(log=EventLog(loaded)).transcript.messages == session.transcript.messages


def test_the_model_is_told_of_another_branch_s_calls_again_once_they_are_redone(scene: Scene) -> None:
    async def scenario() -> Session:
        session = scene.session("zero", call("put", file="a", text="1"), "one", "two", "three")
        await say(session, "zero")
        await say(session, "first")
        undone = await session.undo(FromTurn(2))
        await say(session, "second")
        assert not events(session, Nudged)
        await session.undo(OneUndo(undone.id))
        assert said(session) == ["zero", "first"] and scene.files() == {"a": "1"}
        session.edit(2, "third")
        await session.wait()
        return session

    assert [e.code for e in events(run(scenario()), Nudged)] == ["other_branch"]


def test_an_undo_works_on_a_session_from_its_log(scene: Scene) -> None:
    async def before() -> Session:
        session = scene.session(call("put", file="a", text="1"), "one", call("put", file="b", text="2"), "two")
        await say(session, "first")
        await say(session, "second")
        return session

    async def after(session: Session) -> None:
        undone = await session.undo(FromTurn(2))
        assert scene.files() == {"a": "1"}
        assert "+2" in await session.diff(OneCall(events(session, CallFinished)[1].call_id), "b")
        assert "-2" in await session.diff(OneUndo(undone.id), "b")

    log = EventLog([load_entry(dump_entry(entry)) for entry in run(before()).log.since(0)])
    scene.checkpoints.close()
    run(after(scene.session(log=log)))


def test_the_person_s_own_edits_are_kept_and_where_they_meet_they_choose(scene: Scene) -> None:
    async def scenario() -> None:
        session = scene.session([call("put", file="a", text="tool"), call("put", file="b", text="tool")], "done")
        scene.write("a", "base")
        await say(session)
        scene.write("a", "mine")
        scene.write("c", "mine")
        count = len(session.log)
        with pytest.raises(Refused, match="changed since"):
            await session.undo(FromTurn(1))
        assert scene.files() == {"a": "mine", "b": "tool", "c": "mine"} and len(session.log) == count
        assert [fact["path"] for fact in (await session.undo_preview(FromTurn(1))).conflicts] == ["a"]

        undone = await session.undo(FromTurn(1), on_conflict="keep_mine")
        assert scene.files() == {"a": "mine", "c": "mine"} and undone.gone == ()
        assert [fact["path"] for fact in undone.details["kept"]] == ["a"]
        await session.undo(OneUndo(undone.id))
        assert scene.files() == {"a": "mine", "b": "tool", "c": "mine"}

        await session.undo(FromTurn(1), on_conflict="overwrite")
        assert scene.files() == {"a": "base", "c": "mine"}

    run(scenario())


def test_an_edit_between_two_calls_of_a_turn_is_theirs(scene: Scene) -> None:
    async def scenario() -> None:
        session = scene.session(call("put", file="a", text="1"), "one", call("put", file="b", text="2"), "two")
        await say(session)
        scene.write("mine", "x")
        await say(session)
        assert [f["path"] for f in events(session, CallFinished)[1].details["yours"]["changed"]] == ["mine"]
        await session.undo(FromTurn(1))
        assert scene.files() == {"mine": "x"}

    run(scenario())


def test_one_call_and_one_file_can_be_undone_and_the_model_is_told(scene: Scene) -> None:
    async def scenario() -> Session:
        code = "open('b', 'w').write('2'); open('c', 'w').write('3')"
        session = scene.session([call("put", "c1", file="a", text="1"), call("shell", "c2", code=code)], "done", "ok")
        await say(session)
        await session.undo(OneCall("c2"), paths=["b"])
        assert scene.files() == {"a": "1", "c": "3"} and said(session)[0] == "go"
        undone = await session.undo(OneCall("c1"))
        assert scene.files() == {"c": "3"} and not undone.moved
        await session.undo(OneUndo(undone.id))
        assert scene.files() == {"a": "1", "c": "3"}
        await session.undo(FromTurn(1), paths=["c"])
        assert scene.files() == {"a": "1"} and session.transcript.branches.leaf == 1
        await say(session, "next")
        return session

    session = run(scenario())
    told = [m.text for m in session.agent.model.requests[-1].messages if isinstance(m, UserMessage)]  # type: ignore[attr-defined]
    assert [text.split(":")[0] for text in told[1:4]] == [
        "The user undid changes to files",
        "The user undid changes to files",
        "The user brought back changes to files that were undone",
    ]
    assert told[-1] == "next"


def test_a_step_undone_by_itself_does_not_hinder_undoing_all(scene: Scene) -> None:
    async def scenario() -> None:
        session = scene.session(
            [call("put", "c1", file="a", text="1"), call("put", "c2", file="a", text="2")],
            "one",
            call("put", "c3", file="a", text="3"),
            "two",
        )
        scene.write("a", "0")
        await say(session)
        await session.undo(OneCall("c2"))
        assert scene.files() == {"a": "1"}
        await say(session)
        await session.undo(FromTurn(1))
        assert scene.files() == {"a": "0"}

    run(scenario())


def test_undo_while_a_turn_runs_is_refused(scene: Scene) -> None:
    async def scenario() -> None:
        session = scene.session(call("put", "c1", file="a", text="1"), "one", [TextDelta("..."), Hang])
        await say(session)
        session.send("again")
        await until(session, TextDelta)
        for target in (FromTurn(1), OneCall("c1")):
            with pytest.raises(Refused, match="running"):
                await session.undo(target)
        await session.stop()
        await session.undo(FromTurn(1))
        assert scene.files() == {}

    run(scenario())


def test_undo_while_another_session_s_call_runs_in_the_workspace_is_refused(scene: Scene) -> None:
    async def scenario() -> None:
        one = scene.session(call("put", file="a", text="1"), "one")
        await say(one)
        other = scene.session(call("hang"))
        other.send("go")
        await until(other, CallStarted)
        while not (scene.workspace / "half").exists():
            await asyncio.sleep(0.01)
        with pytest.raises(Refused, match="at work"):
            await one.undo(FromTurn(1))
        await other.stop()
        await one.undo(FromTurn(1))
        assert scene.files() == {"half": "half"}

    run(scenario())


def test_a_message_sent_during_an_undo_waits_for_it_and_stop_does_not_cut_it_short(scene: Scene) -> None:
    async def scenario() -> None:
        session = scene.session(call("put", file="a", text="1"), "one", "two")
        await say(session, "first")
        undoing = asyncio.create_task(session.undo(FromTurn(1)))
        await asyncio.sleep(0)
        assert session.running
        session.send("second")
        with pytest.raises(Refused):
            session.edit(1, "x")
        with pytest.raises(Refused):
            await session.undo(FromTurn(1))
        await undoing
        assert await session.wait() == "answered"
        assert said(session) == ["second"] and scene.files() == {}

        session = scene.session(call("put", file="a", text="1"), "one")
        await say(session)
        undoing = asyncio.create_task(session.undo(FromTurn(1)))
        while not session.running:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        await session.stop()
        assert (await undoing).gone == (1,) and scene.files() == {}

    run(scenario())


def test_a_page_that_goes_away_does_not_cut_an_undo_short(scene: Scene) -> None:
    async def scenario() -> None:
        session = scene.session(call("put", file="a", text="1"), "one")
        await say(session)
        undoing = asyncio.create_task(session.undo(FromTurn(1)))
        while not session.running:
            await asyncio.sleep(0)
        undoing.cancel()
        await session.wait()
        assert scene.files() == {} and len(events(session, Undone)) == 1

    run(scenario())


def test_what_waits_for_a_person_goes_on_waiting_on_its_branch(scene: Scene) -> None:
    async def scenario() -> None:

        policy = Policy({Effect.EXECUTE: Verdict("ask")})
        session = scene.session(
            [call("put", "c1", file="a", text="1"), call("shell", "c2", code="")], "done", policy=policy
        )
        await say(session)
        assert session.waiting
        with pytest.raises(Refused, match="decision"):
            await session.undo(OneCall("c1"))
        undone = await session.undo(FromTurn(1))
        assert not session.waiting and scene.files() == {}
        await session.undo(OneUndo(undone.id))
        assert session.waiting and scene.files() == {"a": "1"}

    run(scenario())


@pytest.mark.parametrize("target", [FromTurn(9), OneCall("none"), OneUndo("none"), OneCall("c2")])
def test_what_is_not_there_cannot_be_undone(scene: Scene, target: Any) -> None:
    async def scenario() -> None:
        session = scene.session([call("put", "c1", file="a", text="1"), call("look", "c2")], "done")
        await say(session)
        for attempt in (session.undo, session.undo_preview):
            with pytest.raises(Refused):
                await attempt(target)

    run(scenario())


def test_a_turn_on_another_branch_cannot_be_undone_from_here(scene: Scene) -> None:
    async def scenario() -> None:
        session = scene.session(call("put", file="a", text="1"), "one", call("put", file="a", text="2"), "two")
        await say(session)
        session.retry(1)
        await session.wait()
        with pytest.raises(Refused, match="branch"):
            await session.undo(FromTurn(1))
        await session.undo(FromTurn(2))
        assert scene.files() == {"a": "1"}, "what the first branch did is not undone with the second"

    run(scenario())


def test_without_checkpoints_the_conversation_still_goes_back(scene: Scene) -> None:
    async def scenario() -> None:
        agent = Agent(ScriptedModel(call("put", "c1", file="a", text="1"), "one"), Toolbox([put]))
        session = Session(agent, scene.workspace, scene.workspace)
        await say(session)
        await session.undo(FromTurn(1))
        assert session.transcript.messages == [] and scene.files() == {"a": "1"}
        with pytest.raises(Refused):
            await session.undo(OneCall("c1"))

    run(scenario())


def test_calls_without_a_checkpoint_are_named(tmp_path: Path, scene: Scene) -> None:
    async def scenario() -> None:
        scene.checkpoints = Checkpoints(tmp_path / "few", Bounds(entries=0))
        session = scene.session(call("put", "c1", file="a", text="1"), "one")
        scene.write("b", "1")
        await say(session)
        assert "too many" in events(session, CallFinished)[0].details["no_checkpoint"]
        assert (await session.undo_preview(FromTurn(1))).without_checkpoint == ("c1",)
        undone = await session.undo(FromTurn(1))
        assert undone.details == {"without_checkpoint": ["c1"]} and undone.gone == ()

    run(scenario())


def test_what_is_too_large_is_said_before_and_after(scene: Scene) -> None:
    async def scenario() -> None:
        session = scene.session(call("shell", code="import os; os.remove('large')"), "one")
        scene.write("large", "x" * 1001)
        await say(session)
        assert (await session.undo_preview(FromTurn(1))).cannot == ["large"]
        undone = await session.undo(FromTurn(1))
        assert undone.details["cannot"] == ["large"] and scene.files() == {}

    run(scenario())

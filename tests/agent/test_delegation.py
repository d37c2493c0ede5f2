"""Delegation: what a sub-agent is told, what comes back, what it may do, and that nothing of it is lost or left."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.audit import verify
from agent.delegation import CANNOT_ASK, PROMPT, delegate
from agent.errors import ModelError, Refused
from agent.events import (
    CallAwaiting,
    CallFinished,
    CallStarted,
    Delegated,
    FromTurn,
    OneCall,
    Replied,
    RequestSent,
    Rule,
    RuleGranted,
    TurnEnded,
)
from agent.exchange import export_lines, import_lines
from agent.limits import Limits
from agent.llm.demo import DemoModel
from agent.log import EventLog, dump_entry, load_entry
from agent.messages import AssistantMessage, ToolMessage, UserMessage
from agent.policy import Policy, Verdict, arguments_hash
from agent.rules import identified
from agent.session import Session
from agent.store import Store
from agent.tool import MAX_RESULT_CHARS, Effect, Toolbox, ToolContext, ToolResult, tool
from agent.transcript import Transcript
from agent.undo import changed_files
from tests.living import new_marker, processes_with, sleepers, until
from tests.scripted import Hang, ScriptedModel, call
from tools import keep_whole, standard_tools
from tools.checkpoint import Checkpoints
from tools.sandbox import probe


@tool(Effect.WRITE)
async def put(context: ToolContext, file: str, text: str) -> str:
    """Write a file."""
    (context.workspace / file).write_text(text)
    return "written"


@tool(Effect.READ)
def look(context: ToolContext, file: str) -> str:
    """Read a file."""
    return (context.workspace / file).read_text()


@tool(Effect.EXECUTE)
async def launch(context: ToolContext, what: str) -> ToolResult:
    """Launch."""
    return ToolResult(f"launched {what}", details={"call_id": context.call_id})


class Scene:
    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "work"
        self.workspace.mkdir()
        self.outbox = folder / "outbox"
        self.checkpoints = Checkpoints(folder / "checkpoints")
        self.model = ScriptedModel()

    def session(self, *script: Any, log: EventLog | None = None, **agent: Any) -> Session:
        self.model = ScriptedModel(*script)
        toolbox = Toolbox([put, look, launch, delegate], keep_whole, self.checkpoints.around)
        made = Agent(self.model, toolbox, "The main prompt.", checkpoints=self.checkpoints, **agent)
        return Session(made, self.workspace, self.outbox, "ann", log, "s1")

    async def play(self, *script: Any, **agent: Any) -> Session:
        session = self.session(*script, **agent)
        session.send("go")
        await session.wait()
        return session


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.checkpoints.close()


def told(session: Session, kind: Any) -> list[Any]:
    """The sub-agents' events of this kind."""
    inner = [e.event.event for e in session.log.since(0) if isinstance(e.event, Delegated)]
    return [event for event in inner if isinstance(event, kind)]


def results(session: Session) -> list[CallFinished]:
    return [e.event for e in session.log.since(0) if isinstance(e.event, CallFinished)]


def inner_transcript(session: Session, call_id: str) -> list[Any]:
    events = (e.event for e in session.log.since(0))
    return Transcript(e.event for e in events if isinstance(e, Delegated) and e.call_id == call_id).messages


def assert_answered(messages: list[Any]) -> None:
    """Each call has exactly one result before anything else is said."""
    expected: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            expected.remove(message.call_id)
        else:
            assert not expected
        if isinstance(message, AssistantMessage):
            expected = [one.id for one in message.tool_calls]
    assert not expected


# ---------------------------------------------------------------------- what goes in and what comes back


async def test_only_the_answer_comes_back_and_files_go_by_name(scene: Scene) -> None:
    (scene.workspace / "long.txt").write_text("the secret ingredient is salt")
    asked = call("delegate", "c1", task="What is in it?", files=["long.txt"])
    session = await scene.play(asked, call("look", "c1", file="long.txt"), "It is salt.", "Salt, then.")
    assert session.turn.ended == "answered"
    main, first, second, last = scene.model.requests
    assert (main.system, first.system, last.system) == ("The main prompt.", PROMPT, "The main prompt.")
    [task] = first.messages
    assert isinstance(task, UserMessage) and "What is in it?" in task.text and "- long.txt (29 bytes)" in task.text
    assert "ingredient" not in task.text and task.text != "go"
    assert [spec.name for spec in first.tools] == ["put", "look", "launch"]
    assert isinstance(second.messages[-1], ToolMessage) and "ingredient" in second.messages[-1].text
    assert last.messages == (
        UserMessage("go"),
        AssistantMessage(tool_calls=(asked,)),
        ToolMessage("c1", "delegate", "It is salt."),
    )
    assert results(session)[0].details == {"steps": 2, "calls": 1}
    for entry in session.log.since(0):
        assert load_entry(dump_entry(entry)) == entry


async def test_a_file_that_is_not_there_costs_no_request(scene: Scene) -> None:
    (scene.workspace.parent / "outside").write_text("x")
    calls = [call("delegate", f"c{n}", task="x", files=[name]) for n, name in enumerate(["no.txt", "../outside"])]
    session = await scene.play(calls, "Then not.")
    assert [r.status for r in results(session)] == ["failed", "failed"] and "no.txt" in results(session)[0].text
    assert len(scene.model.requests) == 2 and told(session, object) == []


async def test_a_long_answer_is_kept_as_a_file(scene: Scene) -> None:
    answer = "\n".join(f"line {n}" for n in range(5_000))
    session = await scene.play(call("delegate", "c1", task="list"), answer, "Long.")
    shown = results(session)[0].text
    assert len(shown) < MAX_RESULT_CHARS + 400 and shown.startswith("line 0\n")
    [kept] = scene.workspace.rglob("results/*.txt")
    assert kept.read_text() == answer and kept.name in shown


@pytest.mark.parametrize(
    ("said", "answer"),
    [("Let a sub-agent read demo.txt.", "The sub-agent's answer:"), ("让子代理读取 demo.txt。", "子代理的回答：")],
)
async def test_the_demo_model_shows_it(scene: Scene, tmp_path: Path, said: str, answer: str) -> None:
    (scene.workspace / "demo.txt").write_text("a line of the demo")
    tools = Toolbox([*standard_tools(None, None, tmp_path / "images"), delegate])
    session = Session(Agent(DemoModel(0), tools), scene.workspace, scene.outbox)
    session.send(said)
    assert await session.wait() == "answered"
    assert [event.name for event in told(session, CallFinished)] == ["read_file"]
    last = session.transcript.messages[-1]
    assert isinstance(last, AssistantMessage) and answer in last.text and "a line of the demo" in last.text


# ---------------------------------------------------------------------- limits


async def test_depth_and_number_are_limited_and_they_run_in_order(scene: Scene) -> None:
    many = [call("delegate", f"c{n}", task=f"task {n}") for n in range(5)]
    inside = [call("delegate", "d", task="deeper"), "first done"]
    session = await scene.play(many, *inside, "1 done", "2 done", "3 done", "All.")
    [deeper] = told(session, CallFinished)
    assert deeper.status == "failed" and "no tool called 'delegate'" in deeper.text
    assert [r.text for r in results(session)[:4]] == ["first done", "1 done", "2 done", "3 done"]
    assert results(session)[4].status == "failed" and "4 sub-agents" in results(session)[4].text
    begun_and_done = [e.event for e in session.log.since(0) if isinstance(e.event, (CallStarted, CallFinished))]
    assert [type(e) for e in begun_and_done] == [CallStarted, CallFinished] * 5  # never two at a time


async def test_it_gets_half_of_the_steps_that_are_left(scene: Scene) -> None:
    goes_on = [call("look", f"r{n}", file=f"{n}") for n in range(3)]
    script = [call("delegate", "c1", task="x"), *goes_on, "I got as far as 2.", "Enough."]
    session = await scene.play(*script, limits=Limits(max_steps=8))
    [result] = results(session)
    assert result.status == "failed" and "step_limit" in result.text and "I got as far as 2." in result.text
    assert [len(told(session, Replied)), session.turn.ended] == [4, "answered"]
    late = await scene.play(call("delegate", "c2", task="x"), "No.", limits=Limits(max_steps=2))
    assert "too few steps" in results(late)[0].text


async def test_what_it_takes_is_the_turns_and_it_gets_no_more_than_is_left(scene: Scene) -> None:
    (scene.workspace / "a").write_text("x")
    goes_on = [call("look", f"r{n}", file="a") for n in range(9)]
    session = await scene.play(call("delegate", "c1", task="x"), *goes_on, limits=Limits(max_tokens=60))
    assert len(scene.model.requests) == 4  # of 15 tokens each
    assert [e.reason for e in told(session, TurnEnded)] == ["budget"] and "budget" in results(session)[0].text
    assert (session.spent().tokens, session.spent().steps) == (60, 4) and session.turn.ended == "budget"


# ---------------------------------------------------------------------- policy


async def test_what_is_asked_is_refused_inside_unless_a_rule_covers_it(scene: Scene) -> None:
    policy = Policy({Effect.EXECUTE: Verdict("ask", "It runs.")})
    inside = [call("launch", "x1", what="a"), call("launch", "x2", what="b")]
    script = [call("delegate", "c1", task="launch"), inside, "b is launched, a needs a yes.", "Well."]
    session = scene.session(*script, policy=policy)
    covering = identified(Rule("", "session", "launch", ("execute",), arguments_hash=arguments_hash(inside[1])))
    session.append(RuleGranted(covering, "earlier"))
    session.send("go")
    assert await session.wait() == "answered"
    refused, ran = told(session, CallFinished)
    assert refused.status == "denied" and refused.text == f"Not allowed. {CANNOT_ASK} It runs."
    assert (ran.status, ran.text) == ("done", "launched b") and ran.details["call_id"] == "c1-x2"
    assert told(session, CallAwaiting) == []


async def test_it_runs_where_only_reading_is_allowed_and_reads_only(scene: Scene) -> None:
    policy = Policy.of("read_only", "strong", "local")
    script = [call("delegate", "c1", task="x"), call("put", "w", file="a", text="x"), "I may not.", "I see."]
    session = await scene.play(*script, policy=policy)
    assert results(session)[0].status == "done" and told(session, CallFinished)[0].status == "denied"
    assert not (scene.workspace / "a").exists()


# ---------------------------------------------------------------------- ends


async def test_its_failure_is_a_failed_result_and_not_the_end(scene: Scene) -> None:
    failure = ModelError("overloaded", "The server is overloaded.", "busy")
    session = await scene.play(call("delegate", "c1", task="x"), failure, "Then by myself.")
    [result] = results(session)
    assert result.status == "failed" and "The server is overloaded." in result.text
    assert session.turn.ended == "answered" and session.transcript.messages[-1] == AssistantMessage("Then by myself.")


async def test_stop_while_its_model_is_silent(scene: Scene) -> None:
    session = scene.session(call("delegate", "c1", task="x"), Hang, "And now this.")
    session.send("go")
    await until(lambda: len(scene.model.requests) == 2)
    await asyncio.wait_for(session.stop(), 10)
    assert [e.reason for e in told(session, TurnEnded)] == ["stopped"] and session.turn.ended == "stopped"
    assert results(session)[0].status == "stopped" and "0 calls" in results(session)[0].text
    session.send("next")
    assert await session.wait() == "answered"


@pytest.mark.skipif(sys.platform != "linux", reason="the commands are those of Linux")
async def test_stop_reaches_the_command_of_a_sub_agent(scene: Scene, tmp_path: Path) -> None:
    marker = new_marker()
    model = ScriptedModel(
        call("delegate", "c1", task="wait"),
        call("run_command", "r1", command=f"sleep {marker} & sleep {marker}"),
        "Next.",
    )
    tools = [*standard_tools(probe(), None, tmp_path / "images"), delegate]
    toolbox = Toolbox(tools, keep_whole, scene.checkpoints.around)
    session = Session(Agent(model, toolbox, checkpoints=scene.checkpoints), scene.workspace, scene.outbox)
    session.send("go")
    await until(lambda: sleepers(marker) == 2)
    await asyncio.wait_for(session.stop(), 10)
    assert processes_with(marker) == []
    [ended] = [e.event for e in session.log.since(0) if isinstance(e.event, TurnEnded)]
    assert ended.reason == "stopped" and ended.receipt is not None and ended.receipt.killed > 0
    assert results(session)[0].status == "stopped" and "1 calls" in results(session)[0].text
    assert_answered(session.transcript.messages)
    assert_answered(inner_transcript(session, "c1"))
    session.send("next")
    assert await session.wait() == "answered"


async def test_a_crash_at_any_point_leaves_a_session_that_goes_on(scene: Scene) -> None:
    whole = (await scene.play(call("delegate", "c1", task="x"), call("put", "w", file="a", text="x"), "A.", "B.")).log
    inside = [e.seq for e in whole.since(0) if isinstance(e.event, Delegated)]
    assert len(inside) >= 6
    for last in inside:
        session = scene.session("Again.", log=EventLog(whole.since(0)[: last + 1]))
        session.recover()
        assert session.turn.ended == "interrupted" and results(session)[-1].status == "interrupted"
        session.send("next")
        assert await session.wait() == "answered"
        assert_answered(session.transcript.messages)


# ---------------------------------------------------------------------- what it leaves behind


async def test_its_changes_can_be_undone_as_the_call_and_with_the_turn(scene: Scene) -> None:
    (scene.workspace / "a").write_text("one\n")
    writes = [call("put", "w1", file="a", text="two\n"), call("put", "w2", file="a", text="three\n")]
    other = call("put", "w3", file="b", text="new\n")
    script = [call("delegate", "c1", task="x"), *writes, other, "Written.", "Done."]
    session = await scene.play(*script)
    facts = {str(fact["path"]): fact["change"] for fact in changed_files(results(session)[0].details)}
    assert facts == {"a": "modified", "b": "added"}
    diff = await session.diff(OneCall("c1"), "a")
    assert "-one" in diff and "+three" in diff and "two" not in diff
    done = await session.undo(OneCall("c1"))
    assert (scene.workspace / "a").read_text() == "one\n" and not (scene.workspace / "b").exists()
    assert not done.moved
    await session.undo(OneCall("c1-w3"))  # nothing is left to undo of it
    assert not (scene.workspace / "b").exists()
    again = await scene.play(*script)
    await again.undo(FromTurn(1))
    assert (scene.workspace / "a").read_text() == "one\n" and again.transcript.messages == []


async def test_it_is_audited_searched_exported_and_imported(store: Store, scene: Scene) -> None:
    log = EventLog(sink=store.journal("ann", "s1"))
    policy = Policy({Effect.EXECUTE: Verdict("ask")})
    inside = [call("look", "r1", file="s3cret.txt"), call("launch", "x1", what="a")]
    session = scene.session(call("delegate", "c1", task="x"), inside, "Inner words.", "Outer.", log=log, policy=policy)
    (scene.workspace / "s3cret.txt").write_text("a rare xylophone")
    session.send("go")
    assert await session.wait() == "answered"

    rows = {row.call_id: row for row in store.audit_rows()}
    assert list(rows) == ["c1-r1", "c1-x1", "c1"] and verify(store).ok
    assert (rows["c1-r1"].tool, rows["c1-r1"].verdict, rows["c1-r1"].status) == ("look", "allow", "done")
    assert rows["c1-r1"].arguments == '{"file": "***.txt"}' and rows["c1-r1"].turn == 1
    assert (rows["c1-x1"].verdict, rows["c1-x1"].decided_by, rows["c1-x1"].seconds) == ("deny", "policy", None)
    assert [found.who for found in store.search("ann", "xylophone")] == ["tool"]

    assert store.load("ann", "s1").entries == list(session.log.since(0))
    lines = "".join(export_lines("t", session.log.since(0), store.scrub))
    assert "s3cret" not in lines
    imported = import_lines(lines.encode(), time.time())
    there = [e.event for e in imported.entries if isinstance(e.event, Delegated)]
    assert [type(e.event) for e in there] == [
        type(e.event.event) for e in session.log.since(0) if isinstance(e.event, Delegated)
    ]
    head, *rest = lines.splitlines()
    broken = [line for line in rest if '"type": "call_finished", "call_id": "r1"' not in line]
    head = head.replace(f'"entries":{len(rest)}', f'"entries":{len(broken)}')
    with pytest.raises(Refused, match="does not follow"):  # inside, too, a call needs its result
        import_lines("\n".join([head, *broken]).encode(), time.time())


async def test_its_requests_are_whole_each_in_its_own_chain(scene: Scene) -> None:
    def sends(text: str, *messages: str) -> Any:
        event = RequestSent("m", {"model": "m"}, 0, tuple({"role": "user", "content": m} for m in messages))
        return [event, *([call("look", "r1", file="a")] if text == "look" else [text])]

    delegated = [RequestSent("m", {}, 0, ({"content": "main"},)), call("delegate", "c1", task="x")]
    (scene.workspace / "a").write_text("x")
    session = await scene.play(
        delegated,
        sends("look", "task"),
        sends("Read.", "task", "x"),
        [RequestSent("m", {}, 0, ({"content": "main"}, {"content": "Read."})), "End."],
    )
    inner = told(session, RequestSent)
    assert [(event.kept, len(event.messages)) for event in inner] == [(0, 1), (1, 1)]
    outer = [e.event for e in session.log.since(0) if isinstance(e.event, RequestSent)]
    assert [(event.kept, len(event.messages)) for event in outer] == [(0, 1), (1, 1)]

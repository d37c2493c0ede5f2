"""The loop and the session with a scripted model and real tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.errors import ModelError, Refused, ToolError
from agent.events import (
    CallAwaiting,
    CallFinished,
    CallStarted,
    Event,
    MessageWithdrawn,
    Nudged,
    Replied,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from agent.limits import Limits
from agent.log import EventLog, dump_entry, load_entry
from agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from agent.policy import Policy, Verdict, arguments_hash
from agent.session import Session
from agent.sessions import Sessions
from agent.tool import Effect, Toolbox, ToolContext, ToolResult, tool
from agent.transcript import Transcript
from tests.scripted import Hang, ScriptedModel, call


@tool(Effect.READ)
async def add(context: ToolContext, a: int, b: int) -> str:
    """Add two numbers."""
    context.emit(f"{a}+{b}\n")
    await asyncio.sleep(0)
    return str(a + b)


@tool(Effect.WRITE)
async def note(context: ToolContext, text: str) -> str:
    """Write a note."""
    with (context.workspace / "notes").open("a") as notes:
        notes.write(text + "\n")
    return "noted"


@tool(Effect.READ)
async def refuse(context: ToolContext) -> str:
    """Always fails."""
    raise ToolError("no such thing")


@tool(Effect.READ)
async def broken(context: ToolContext) -> str:
    """Has a bug."""
    raise ZeroDivisionError


@tool(Effect.EXECUTE)
async def wait_for_ever(context: ToolContext) -> ToolResult:
    """Never ends by itself."""
    try:
        await asyncio.Event().wait()
    finally:
        context.stop_note = "Killed 1 process."
    raise AssertionError


TOOLS = [add, note, refuse, broken, wait_for_ever]


def make_session(tmp_path: Path, *script: Any, **agent: Any) -> Session:
    model = ScriptedModel(*script)
    return Session(Agent(model, Toolbox(TOOLS), **agent), tmp_path, tmp_path)


def run(scenario: Awaitable[Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 20))


def events(session: Session, kind: type[Event] | Any) -> list[Any]:
    return [e.event for e in session.log.since(0) if isinstance(e.event, kind)]


async def until(session: Session, condition: Callable[[Event], bool]) -> None:
    async for batch in session.log.follow():
        if any(condition(entry.event) for entry in batch):
            return


def test_an_answer_ends_the_turn(tmp_path: Path) -> None:
    async def scenario() -> Session:
        session = make_session(tmp_path, "Hello, world")
        session.send("hi")
        assert await session.wait() == "answered"
        return session

    session = run(scenario())
    assert "".join(e.text for e in events(session, TextDelta)) == "Hello, world"
    assert session.transcript.messages == [UserMessage("hi"), AssistantMessage("Hello, world")]


def test_calls_run_and_their_results_go_back_to_the_model(tmp_path: Path) -> None:
    async def scenario() -> Session:
        session = make_session(tmp_path, [call("add", a=1, b=2), call("note", text="x")], "done")
        session.send("go")
        await session.wait()
        return session

    session = run(scenario())
    second = session.agent.model.requests[1]
    assert [m.text for m in second.messages if isinstance(m, ToolMessage)] == ["3", "noted"]
    assert (tmp_path / "notes").read_text() == "x\n"


def test_every_kind_of_bad_call_is_a_result_the_model_reads(tmp_path: Path) -> None:
    bad = [
        call("refuse", "c1"),
        call("broken", "c2"),
        call("nothing", "c3"),
        call("add", "c4", a="many", b=2),
        ToolCall("c5", "note", "{}", fault="cut off"),
    ]

    async def scenario() -> Session:
        session = make_session(tmp_path, bad, "I see")
        session.send("go")
        assert await session.wait() == "answered"
        return session

    session = run(scenario())
    results = {e.call_id: e for e in events(session, CallFinished)}
    assert {e.status for e in results.values()} == {"failed"}
    assert "no such thing" in results["c1"].text
    assert "ZeroDivisionError" in results["c2"].text
    assert "add, note, refuse" in results["c3"].text
    assert "a:" in results["c4"].text
    assert "cut off" in results["c5"].text
    assert not (tmp_path / "notes").exists()


def test_reads_overlap_and_writes_keep_their_order(tmp_path: Path) -> None:
    order = [
        call("add", "r1", a=1, b=1),
        call("add", "r2", a=2, b=2),
        call("note", "w1", text="1"),
        call("note", "w2", text="2"),
    ]

    async def scenario() -> Session:
        session = make_session(tmp_path, order, "done")
        session.send("go")
        await session.wait()
        return session

    session = run(scenario())
    seen = [(type(e).__name__, e.call_id) for e in events(session, (CallStarted, CallFinished))]
    assert seen[:2] == [("CallStarted", "r1"), ("CallStarted", "r2")]
    assert seen[4:] == [("CallStarted", "w1"), ("CallFinished", "w1"), ("CallStarted", "w2"), ("CallFinished", "w2")]
    assert (tmp_path / "notes").read_text() == "1\n2\n"


def test_stop_while_a_tool_runs_answers_every_call_and_the_next_message_works(tmp_path: Path) -> None:
    async def scenario() -> Session:
        session = make_session(tmp_path, [call("wait_for_ever", "c1"), call("note", "c2", text="x")], "fine")
        session.send("go")
        await until(session, lambda e: isinstance(e, CallStarted))
        await session.stop()
        assert session.turn.ended == "stopped"
        session.send("and now?")
        assert await session.wait() == "answered"
        return session

    session = run(scenario())
    finished = {e.call_id: (e.status, e.text) for e in events(session, CallFinished)}
    assert finished["c1"] == ("stopped", "Stopped by the user. Killed 1 process.")
    assert finished["c2"][0] == "stopped"
    assert not (tmp_path / "notes").exists()
    kinds = [type(m).__name__ for m in session.transcript.messages]
    assert kinds == ["UserMessage", "AssistantMessage", "ToolMessage", "ToolMessage", "UserMessage", "AssistantMessage"]


def test_stop_in_mid_answer_keeps_what_was_said(tmp_path: Path) -> None:
    async def scenario() -> Session:
        session = make_session(tmp_path, [TextDelta("As far as "), TextDelta("I know"), Hang], "yes")
        session.send("go")
        await until(session, lambda e: isinstance(e, TextDelta) and e.text == "I know")
        await session.stop()
        return session

    session = run(scenario())
    assert session.transcript.messages[-1] == AssistantMessage("As far as I know")
    assert events(session, TurnEnded)[-1].reason == "stopped"


def test_stop_before_the_first_line_still_ends_the_turn(tmp_path: Path) -> None:
    async def scenario() -> Session:
        session = make_session(tmp_path, Hang)
        session.send("go")
        await session.stop()
        return session

    assert [e.reason for e in events(run(scenario()), TurnEnded)] == ["stopped"]


def test_messages_sent_meanwhile_wait_and_stop_hands_them_back(tmp_path: Path) -> None:
    async def scenario() -> tuple[Session, list[str]]:
        session = make_session(tmp_path, "one", "two", Hang)
        session.send("first")
        session.send("second")
        assert [queued.text for queued in session.turn.queue.values()] == ["second"]
        await session.wait()
        session.send("third")
        session.send("fourth")
        await until(session, lambda e: isinstance(e, TurnStarted) and e.turn == 3)
        return session, await session.stop()

    session, unsent = run(scenario())
    assert [e.message.text for e in events(session, TurnStarted)] == ["first", "second", "third"]
    assert unsent == ["fourth"] and len(events(session, MessageWithdrawn)) == 1


def test_an_approval_ends_the_turn_and_a_decision_resumes_it(tmp_path: Path) -> None:
    policy = Policy({Effect.WRITE: Verdict("ask", "it writes")})

    async def scenario() -> Session:
        one, other = call("note", "c1", text="yes"), call("note", "c2", text="no")
        session = make_session(tmp_path, [one, other, call("add", "c3", a=1, b=1)], "done", policy=policy)
        session.send("go")
        assert await session.wait() == "awaiting_approval"
        assert [c.id for c in session.open_calls()] == ["c1", "c2"]
        with pytest.raises(Refused):
            session.decide("c1", "0" * 64, True)
        session.decide("c1", arguments_hash(one), True)
        with pytest.raises(Refused):
            session.decide("c1", arguments_hash(one), True)
        session.decide("c2", arguments_hash(other), False, "not today")
        assert await session.wait() == "answered"
        return session

    session = run(scenario())
    assert (tmp_path / "notes").read_text() == "yes\n"
    finished = {e.call_id: (e.status, e.text) for e in events(session, CallFinished)}
    assert finished["c2"] == ("denied", "Not allowed. not today")
    assert len(events(session, CallAwaiting)) == 2
    assert [e.reason for e in events(session, TurnEnded)] == ["awaiting_approval", "answered"]


def test_a_new_message_denies_what_waited(tmp_path: Path) -> None:
    async def scenario() -> Session:
        policy = Policy({Effect.WRITE: Verdict("ask")})
        session = make_session(tmp_path, call("note", text="x"), "something else", policy=policy)
        session.send("go")
        await session.wait()
        session.send("never mind")
        assert await session.wait() == "answered"
        return session

    session = run(scenario())
    assert [e.status for e in events(session, CallFinished)] == ["denied"]
    assert not (tmp_path / "notes").exists()


def test_the_step_limit_asks_for_a_last_word_without_tools(tmp_path: Path) -> None:
    async def scenario() -> Session:
        script = [call("add", a=i, b=i) for i in range(2)]
        session = make_session(tmp_path, *script, "half done", limits=Limits(max_steps=2))
        session.send("go")
        assert await session.wait() == "step_limit"
        return session

    session = run(scenario())
    last = session.agent.model.requests[-1]
    assert last.tool_choice == "none" and len(last.tools) == len(TOOLS)
    assert session.transcript.messages[-1] == AssistantMessage("half done")


def test_the_same_call_for_ever_is_told_then_ended(tmp_path: Path) -> None:
    async def scenario() -> Session:
        session = make_session(tmp_path, *[call("add", a=1, b=1)] * 10)
        session.send("go")
        assert await session.wait() == "loop"
        return session

    session = run(scenario())
    assert len(events(session, CallStarted)) == 5
    assert [e.code for e in events(session, Nudged)] == ["repeating", "repeating"]


def test_an_empty_answer_is_asked_for_once_more(tmp_path: Path) -> None:
    async def scenario(*script: Any) -> str | None:
        session = make_session(tmp_path, *script)
        session.send("go")
        return await session.wait()

    assert run(scenario("", "there")) == "answered"
    assert run(scenario("", " \n")) == "empty_answer"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Replied(AssistantMessage("so"), "length"), "output_truncated"),
        (Replied(AssistantMessage("so"), "content_filter"), "content_filtered"),
        (ModelError("wrong_key", "The key was refused."), "error"),
        (RuntimeError("a bug"), "error"),
    ],
)
def test_whatever_is_raised_becomes_one_turn_ended(tmp_path: Path, reply: Any, reason: str) -> None:
    async def scenario() -> Session:
        session = make_session(tmp_path, reply, "next")
        session.send("go")
        assert await session.wait() == reason
        session.send("again")
        assert await session.wait() == "answered"
        return session

    assert [e.reason for e in events(run(scenario()), TurnEnded)] == [reason, "answered"]


def test_the_log_survives_json_and_folds_to_the_same_transcript(tmp_path: Path) -> None:
    async def scenario() -> Session:
        session = make_session(tmp_path, AssistantMessage("hm", "thinking", (call("add", "c1", a=1, b=2),)), "3")
        session.send("go")
        await session.wait()
        return session

    session = run(scenario())
    loaded = [load_entry(dump_entry(entry)) for entry in session.log.since(0)]
    assert loaded == list(session.log.since(0))
    assert Transcript(e.event for e in loaded).messages == session.transcript.messages
    again = Session(session.agent, tmp_path, tmp_path, log=EventLog(loaded))
    assert again.turn == session.turn and again.title == "go"


def test_a_follower_that_comes_late_sees_everything_in_order(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        session = make_session(tmp_path, "one", "two")
        session.send("a")
        await session.wait()
        seen: list[int] = []

        async def follow() -> None:
            async for batch in session.log.follow():
                seen.extend(entry.seq for entry in batch)
                if any(isinstance(e.event, TurnEnded) and e.event.turn == 2 for e in batch):
                    return

        follower = asyncio.create_task(follow())
        session.send("b")
        await follower
        assert seen == list(range(len(session.log)))
        return seen

    assert run(scenario())


def test_a_session_is_found_by_its_owner_only(tmp_path: Path) -> None:
    sessions = Sessions()
    mine = sessions.add(make_session(tmp_path))
    mine.owner = "ann"
    assert sessions.get("ann", mine.id) is mine and sessions.of("ann") == [mine]
    assert sessions.of("bob") == []
    for owner, session_id in (("bob", mine.id), ("ann", "guess")):
        with pytest.raises(Refused):
            sessions.get(owner, session_id)

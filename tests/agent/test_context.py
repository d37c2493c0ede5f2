"""What the model is shown when not everything fits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agent.agent import Agent
from agent.context import compacted, size
from agent.errors import ContextOverflow
from agent.events import Retrying, TurnEnded
from agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from agent.session import Session
from agent.tool import Effect, Toolbox, ToolContext, tool
from tests.scripted import ScriptedModel, call

LONG = "x" * 5_000


def turn(number: int, result: str = LONG) -> list[Message]:
    calls = (ToolCall(f"a{number}", "read", "{}"), ToolCall(f"b{number}", "read", "{}"))
    return [
        UserMessage(f"question {number}"),
        AssistantMessage("", "", calls),
        ToolMessage(f"a{number}", "read", result),
        ToolMessage(f"b{number}", "read", result),
        AssistantMessage(f"answer {number}"),
    ]


TURNS = [message for number in range(6) for message in turn(number)]


def valid(messages: list[Message]) -> bool:
    owed: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            owed.remove(message.call_id)
        elif owed:
            return False
        elif isinstance(message, AssistantMessage):
            owed = [one.id for one in message.tool_calls]
    return not owed


def test_what_fits_is_left_alone() -> None:
    assert compacted(TURNS, size(TURNS)) == TURNS


def test_less_and_less_is_shown_and_it_is_always_valid() -> None:
    sizes = []
    for limit in range(60_000, 0, -500):
        view = compacted(TURNS, limit)
        assert valid(view)
        assert any(isinstance(m, UserMessage) and m.text == "question 5" for m in view)
        sizes.append(size(view))
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < 3_000


def test_old_results_go_first_then_old_turns_and_the_questions_stay_in_a_note() -> None:
    shortened = compacted(TURNS, 15_000)
    assert len(shortened) == len(TURNS) and len(shortened[2].text) < 500 and shortened[-3] == TURNS[-3]
    fewer = compacted(TURNS, 12_000)
    assert len(fewer) < len(TURNS)
    first = fewer[0]
    assert isinstance(first, UserMessage) and first.source == "glassloop" and "question 0" in first.text


def test_the_steps_of_a_long_turn_are_left_out_in_the_middle() -> None:
    steps: list[Message] = [UserMessage("go")]
    for number in range(20):
        steps += [
            AssistantMessage("", "", (ToolCall(f"c{number}", "read", "{}"),)),
            ToolMessage(f"c{number}", "read", LONG),
        ]
    view = compacted(steps, 6_000)
    assert valid(view) and view[0] == steps[0] and size(view) <= 6_000
    assert isinstance(view[-1], ToolMessage) and view[-1].call_id == "c19"


@tool(Effect.READ)
async def read(context: ToolContext) -> str:
    """Read a lot."""
    return LONG


def make_session(tmp_path: Path, *script: Any) -> Session:
    return Session(Agent(ScriptedModel(*script), Toolbox([read])), tmp_path, tmp_path)


def too_long(times: float = 2.0) -> ContextOverflow:
    return ContextOverflow("too long", "9000 tokens, 4096 allowed", times)


def test_a_refused_request_is_sent_again_with_less(tmp_path: Path) -> None:
    async def scenario() -> Session:
        session = make_session(tmp_path, [call("read"), call("read")], "one", too_long(3.0), "two", "three")
        for text in ("first", "second", "third"):
            session.send(text)
            await session.wait()
        return session

    session = asyncio.run(scenario())
    before, after, later = session.agent.model.requests[2:]  # type: ignore[attr-defined]
    assert size(after.messages) < size(before.messages) / 3
    assert size(later.messages) < size(before.messages) / 3  # it need not be told again
    assert after.messages[-1] == UserMessage("second")
    events = [entry.event for entry in session.log.since(0)]
    assert [e.code for e in events if isinstance(e, Retrying)] == ["context_overflow"]
    assert [e.reason for e in events if isinstance(e, TurnEnded)] == ["answered"] * 3
    assert max(len(m.text) for m in session.transcript.messages) == len(LONG)  # nothing was edited


def test_what_cannot_be_made_shorter_is_an_error(tmp_path: Path) -> None:
    async def scenario() -> Session:
        session = make_session(tmp_path, *[too_long()] * 20)
        session.send("hi")
        assert await session.wait() == "error"
        return session

    session = asyncio.run(scenario())
    ended = session.log.since(0)[-1].event
    assert isinstance(ended, TurnEnded) and ended.fault is not None and ended.fault.code == "context_overflow"
    assert len(session.agent.model.requests) < 5  # type: ignore[attr-defined]

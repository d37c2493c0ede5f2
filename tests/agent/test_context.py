"""What the model is shown when not everything fits: what goes, what stays, and that it stays the same."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.agent import Agent
from agent.compaction import measure
from agent.context import Compactions
from agent.errors import ContextOverflow, ModelError
from agent.events import (
    CallFinished,
    Compacted,
    Event,
    Replied,
    Retrying,
    StepStarted,
    TurnEnded,
    TurnStarted,
    Usage,
)
from agent.limits import Limits
from agent.llm.model import Request
from agent.log import EventLog, dump_entry, load_entry
from agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from agent.session import Session
from agent.tool import Effect, Toolbox, ToolContext, tool
from agent.transcript import Transcript
from tests.scripted import ScriptedModel, call
from tools import keep_whole
from tools.reading import read_file

LONG = "\n".join(f"{number}: what the log of the voyage says of this day" for number in range(100))
"""About 1,100 tokens."""


def valid(messages: list[Message] | tuple[Message, ...]) -> bool:
    """Is each call followed by its one result before anything else?"""
    owed: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.call_id not in owed:
                return False
            owed.remove(message.call_id)
        elif owed:
            return False
        elif isinstance(message, AssistantMessage):
            owed = [one.id for one in message.tool_calls]
    return not owed


# ------------------------------------------------------------------ the view


def conversation(shape: list[list[int]]) -> list[Event]:
    """Turns of steps with so many calls each; a step without any is a text."""
    events: list[Event] = []
    for turn, steps in enumerate(shape, start=1):
        events.append(TurnStarted(turn, UserMessage(f"question {turn}"), parent=turn - 1 or None))
        for step, count in enumerate(steps, start=1):
            calls = tuple(ToolCall(f"{turn}.{step}.{n}", "read", "{}") for n in range(count))
            events += [StepStarted(step), Replied(AssistantMessage("", "", calls), "tool_calls")]
            events += [CallFinished(one.id, "read", "done", f"result {one.id} " + "x" * 1_000) for one in calls]
        events += [Replied(AssistantMessage(f"answer {turn}"), "stop"), TurnEnded(turn, "answered")]
    return events


shapes = st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(shapes, st.data())
def test_at_every_cut_point_calls_and_results_stay_together(shape: list[list[int]], data: st.DataObject) -> None:
    events = conversation(shape)
    ids = [e.call_id for e in events if isinstance(e, CallFinished)]
    some = st.lists(st.sampled_from(ids), unique=True) if ids else st.just([])
    cut = Compacted(
        9,
        1,
        elided={one: "Ask again." for one in data.draw(some)},
        left_out=tuple(data.draw(some)),
        summary="so far",
        summarised=data.draw(st.none() | st.integers(1, len(shape))),
    )
    compactions, transcript = Compactions(), Transcript()
    for event in [*events, cut]:
        compactions.add(event)
        transcript.add(event)
    view = compactions.view(transcript)
    assert valid(view)
    said = [m.text for m in view if isinstance(m, UserMessage) and m.source == "person"]
    assert said == [f"question {n}" for n in range((cut.summarised or 0) + 1, len(shape) + 1)]
    assert len(transcript.messages) == sum(len(steps) + sum(steps) + 2 for steps in shape)  # nothing is lost there


def test_a_branch_on_which_nothing_was_compacted_shows_everything() -> None:
    events = conversation([[1], [1], [1]])
    cut = Compacted(9, 1, summary="so far", summarised=1)
    other = TurnStarted(4, UserMessage("instead"), parent=1)
    compactions, transcript = Compactions(), Transcript()
    for event in [*events, cut, other]:
        compactions.add(event)
        transcript.add(event)
    assert [m.text for m in compactions.view(transcript)] == [m.text for m in transcript.messages]


# ------------------------------------------------------------------ in a session


@tool(Effect.READ)
async def read(context: ToolContext, part: int = 0) -> str:
    """Read a lot."""
    return f"part {part}\n{LONG}"


def make_session(tmp_path: Path, *script: Any, window: int | None = 8_000, log: EventLog | None = None) -> Session:
    agent = Agent(ScriptedModel(*script), Toolbox([read, read_file], keep_whole), limits=Limits(context_tokens=window))
    return Session(agent, tmp_path, tmp_path, log=log, id="s")


def talk(session: Session, *messages: str) -> list[Compacted]:
    async def scenario() -> None:
        for message in messages:
            session.send(message)
            await asyncio.wait_for(session.wait(), 20)

    asyncio.run(scenario())
    return [entry.event for entry in session.log.since(0) if isinstance(entry.event, Compacted)]


def requests(session: Session) -> list[Request]:
    return session.agent.model.requests  # type: ignore[attr-defined,no-any-return]


def summing_up(summary: Any) -> Any:
    """What the model says: this where it has no tools, and little else."""
    return lambda request: "so so" if request.tools else summary


def reads(*parts: int) -> list[ToolCall]:
    return [call("read", part=part) for part in parts]


def test_old_results_go_first_and_can_be_read_again(tmp_path: Path) -> None:
    script = [reads(1, 2), "one", reads(3), "two", reads(4, 5), "three"]
    session = make_session(tmp_path, *script, call("read_file", path="later"), "four")
    (cut,) = talk(session, "first", "second", "third")
    assert cut.summarised is None and not cut.left_out and cut.tokens_after <= 4_000 < 6_400 <= cut.tokens_before
    shown = [m for m in requests(session)[-1].messages if isinstance(m, ToolMessage)]
    assert [len(m.text) < 500 for m in shown] == [True, True, True, False, False][: len(shown)]
    path = next(word for word in shown[0].text.split() if word.startswith(".glassloop/")).rstrip(":,")
    assert path in cut.elided[shown[0].call_id] and "read_file" in shown[0].text
    assert (tmp_path / path).read_text() == f"part 1\n{LONG}"
    session.agent.model.script[0] = call("read_file", path=path)  # type: ignore[attr-defined]
    talk(session, "what did the first part say?")
    assert requests(session)[-1].messages[-1].text == f"part 1\n{LONG}"
    assert max(len(m.text) for m in session.transcript.messages) > len(LONG)  # the transcript has it all


def test_then_the_model_sums_up_and_the_last_turns_stay(tmp_path: Path) -> None:
    long = "so it goes on and on. " * 90  # 560 tokens that nobody can shorten
    turns = [f"question {number} {long}" for number in range(12)]
    session = make_session(tmp_path, *[summing_up("SUMMARY: they asked a lot")] * 20)
    (cut,) = talk(session, *turns)
    assert cut.by_model and cut.usage == Usage(10, 5) and cut.tokens_after < 4_500
    (asked,) = (request for request in requests(session) if not request.tools)
    later = requests(session)[-1]
    assert not asked.tools and "question 0" in asked.messages[0].text and "question 11" not in asked.messages[0].text
    assert "SUMMARY" in later.messages[0].text and later.system == session.agent.system_prompt
    said = [m.text for m in later.messages if isinstance(m, UserMessage) and m.source == "person"]
    assert cut.summarised is not None and said == turns[cut.summarised :] and len(said) > 4
    assert len(session.transcript.messages) == 24  # the summary was not said in the conversation


@pytest.mark.parametrize("failure", [ModelError("overloaded", "too busy"), "", ContextOverflow("too long")])
def test_where_the_model_cannot_sum_up_what_the_person_said_is_quoted(tmp_path: Path, failure: Any) -> None:
    turns = [f"question {number} {'and so on ' * 190}" for number in range(12)]
    session = make_session(tmp_path, *[summing_up(failure)] * 20)
    (cut,) = talk(session, *turns)
    assert not cut.by_model and cut.summarised is not None and cut.usage is None
    assert f"question {cut.summarised - 1}" in requests(session)[-1].messages[0].text
    assert session.turn.ended == "answered"


def test_a_long_turn_loses_its_older_steps_and_keeps_what_was_asked(tmp_path: Path) -> None:
    @tool(Effect.READ)
    async def write(context: ToolContext, text: str) -> str:
        """Its arguments are long, and its results short."""
        return "ok"

    script = [call("write", text=f"{number} {LONG}") for number in range(12)]
    agent = Agent(ScriptedModel(*script, "done"), Toolbox([write]), limits=Limits(context_tokens=8_000))
    session = Session(agent, tmp_path, tmp_path)
    cuts = talk(session, "write twelve")
    assert cuts and all(cut.left_out and cut.summarised is None for cut in cuts)
    last = requests(session)[-1].messages
    assert valid(last) and last[0].text == "write twelve" and measure(session, agent).share < 0.8
    assert isinstance(last[-2], AssistantMessage) and last[-2].tool_calls[0].arguments.startswith('{"text": "11 ')


def test_between_two_compactions_the_beginning_stays_the_same(tmp_path: Path) -> None:
    script: list[Any] = []
    for number in range(14):
        script += [reads(number), f"answer {number}"]

    def answer(request: Request) -> Any:
        return "SUMMARY" if not request.tools else script.pop(0)

    session = make_session(tmp_path, *[answer] * 60)
    cuts = talk(session, *(f"question {number}" for number in range(14)))
    assert 1 <= len(cuts) <= 4
    asked = [request for request in requests(session) if request.tools]
    changed = sum(after.messages[: len(before.messages)] != before.messages for before, after in pairwise(asked))
    assert changed == len(cuts)
    assert all(valid(request.messages) for request in asked)
    assert all(cut.tokens_after <= 0.5 * 8_000 + 600 for cut in cuts)


def test_after_a_restart_the_context_is_the_same(tmp_path: Path) -> None:
    def answer(request: Request) -> Any:
        return "SUMMARY" if not request.tools else steps.pop(0)

    steps = [reply for number in range(8) for reply in (reads(number, number), "so")]
    session = make_session(tmp_path, *[answer] * 40)
    assert talk(session, *(f"question {number}" for number in range(8)))
    entries = [load_entry(dump_entry(entry)) for entry in session.log.since(0)]
    again = make_session(tmp_path, log=EventLog(entries))
    assert again.compactions.view(again.transcript) == session.compactions.view(session.transcript)
    assert len(again.compactions.view(again.transcript)) < len(again.transcript.messages)


# ------------------------------------------------------------------ refused by the server


def too_long(times: float = 2.0, window: int | None = None) -> ContextOverflow:
    return ContextOverflow("too long", "9000 tokens, 4096 allowed", times, window)


def test_a_refused_request_is_sent_again_with_less(tmp_path: Path) -> None:
    session = make_session(tmp_path, reads(1, 2), "one", too_long(2.0, 4_096), "two", "three", window=None)
    (cut,) = talk(session, "first", "second", "third")
    before, after, later = requests(session)[2:]
    sizes = [session.counts.sizes.all_of(request.messages) for request in (before, after, later)]
    assert sizes[1] < sizes[0] / 2 and sizes[2] < sizes[0] / 2  # it need not be told again
    assert after.messages[-1] == UserMessage("second")
    events = [entry.event for entry in session.log.since(0)]
    assert [e.code for e in events if isinstance(e, Retrying)] == ["context_overflow"]
    assert [e.reason for e in events if isinstance(e, TurnEnded)] == ["answered"] * 3
    assert cut.window == 4_096


def test_what_cannot_be_made_shorter_is_an_error(tmp_path: Path) -> None:
    session = make_session(tmp_path, *[too_long()] * 20)
    talk(session, "hi")
    ended = session.log.since(0)[-1].event
    assert isinstance(ended, TurnEnded) and ended.fault is not None and ended.fault.code == "context_overflow"
    assert len(requests(session)) < 5

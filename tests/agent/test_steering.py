"""Steering: what the person says while a turn runs, and when the model hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.agent import Agent
from agent.errors import Refused
from agent.events import MessageQueued, MessageWithdrawn, Steered, TurnStarted
from agent.exchange import export_lines, import_lines
from agent.limits import WARN_REPEATS
from agent.log import EventLog
from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent.policy import Policy, Verdict
from agent.session import Session
from agent.store import Store
from agent.tool import Effect, Toolbox, ToolContext, tool
from agent.transcript import Transcript
from tests.scripted import Hang, Reply, ScriptedModel, call


@tool(Effect.READ)
async def say_meanwhile(context: ToolContext, queue: str = "", steer: str = "") -> str:
    """The person says these while the call runs: first what is to wait, then what is to steer."""
    assert context.session is not None
    if queue:
        context.session.send(queue)
    for text in filter(None, steer.split("|")):
        context.session.send(text, steer=True)
    return "said"


@tool(Effect.SPEND)
async def buy(context: ToolContext) -> str:
    """Buy."""
    return "bought"


def session_of(folder: Path, *script: Reply, log: EventLog | None = None) -> Session:
    policy = Policy({Effect.SPEND: Verdict("ask", "it costs money")})
    agent = Agent(ScriptedModel(*script), Toolbox([say_meanwhile, buy]), policy=policy)
    return Session(agent, folder, folder, "ann", log, "s1")


def run(scenario: Awaitable[None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 30))


def seen(session: Session, number: int) -> tuple[Message, ...]:
    """What the model was shown at this request, from 0."""
    messages: tuple[Message, ...] = session.agent.model.requests[number].messages  # type: ignore[attr-defined]
    return messages


def test_it_enters_before_the_next_step_and_leaves_the_queue(tmp_path: Path) -> None:
    """In the order in which it was said, behind the results of the calls; what only waits goes on waiting."""

    async def scenario() -> None:
        both = [call("say_meanwhile", queue="later", steer="shorter|in English"), call("say_meanwhile")]
        session = session_of(tmp_path, both, "Short.", "Later.")
        session.send("Write")
        assert await session.wait() == "answered"
        kinds = [type(m).__name__ if not isinstance(m, UserMessage) else (m.source, m.text) for m in seen(session, 1)]
        assert kinds == [
            ("person", "Write"),
            "AssistantMessage",
            "ToolMessage",
            "ToolMessage",
            ("steering", "shorter"),
            ("steering", "in English"),
        ]
        starts = [entry.event for entry in session.log.since(0) if isinstance(entry.event, TurnStarted)]
        assert [start.message.text for start in starts] == ["Write", "later"] and session.turn.queue == {}
        assert Transcript(entry.event for entry in session.log.since(0)).messages == session.transcript.messages

    run(scenario())


def test_a_turn_about_to_end_goes_on_with_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        session = session_of(tmp_path)

        def finish(request: object) -> Reply:
            session.send("and in Chinese", steer=True)
            return "Done."

        session.agent.model.script[:] = [finish, "完成。"]  # type: ignore[attr-defined]
        session.send("Write")
        assert await session.wait() == "answered" and session.turn.number == 1
        assert seen(session, 1)[1:] == (AssistantMessage("Done."), UserMessage("and in Chinese", source="steering"))

    run(scenario())


def test_a_queued_message_can_be_made_to_steer(tmp_path: Path) -> None:
    async def scenario() -> None:
        session = session_of(tmp_path)

        def meanwhile(request: object) -> Reply:
            session.send("one")
            session.send("two")
            session.steer(list(session.turn.queue)[1])
            return call("say_meanwhile")

        session.agent.model.script[:] = [meanwhile, "a", "b"]  # type: ignore[attr-defined]
        session.send("Write")
        await session.wait()
        assert seen(session, 1)[-1] == UserMessage("two", source="steering")
        assert seen(session, 2)[-1] == UserMessage("one")
        with pytest.raises(Refused):
            session.steer("gone")

    run(scenario())


def test_an_approval_comes_first(tmp_path: Path) -> None:
    """The call that waits is answered before anything else is said: the transcript stays valid."""

    async def scenario() -> None:
        session = session_of(tmp_path, [call("say_meanwhile", steer="cheaper"), call("buy", "b1")], "Done.")
        session.send("Buy")
        assert await session.wait() == "awaiting_approval" and session.steering
        [waiting] = session.waiting_calls()
        session.decide("b1", session.turn.waiting["b1"].arguments_hash, allowed=True)
        assert waiting.id == "b1" and await session.wait() == "answered"
        *_, answer, said = seen(session, 1)
        assert isinstance(answer, ToolMessage) and answer.text == "bought" and said.text == "cheaper"

    run(scenario())


def test_stop_withdraws_what_is_not_in_yet(tmp_path: Path) -> None:
    async def scenario() -> None:
        session = session_of(tmp_path, call("say_meanwhile", steer="in"), Hang)
        session.send("Write")
        async for batch in session.log.follow():
            if any(isinstance(entry.event, Steered) for entry in batch):
                break
        session.send("not in", steer=True)
        assert await session.stop() == ["not in"] and not session.steering
        events = [entry.event for entry in session.log.since(0)]
        assert sum(isinstance(event, MessageWithdrawn) for event in events) == 1
        assert UserMessage("in", source="steering") in session.transcript.messages

    run(scenario())


def test_after_a_restart_in_mid_turn_it_waits_like_any_other(store: Store, tmp_path: Path) -> None:
    async def scenario() -> None:
        log = EventLog(sink=store.journal("ann", "s1"))
        session = session_of(tmp_path, Hang, log=log)
        session.send("Write")
        session.send("shorter", steer=True)
        kept = store.load("ann", "s1")  # as the process that died has left it
        await session.stop()

        again = session_of(tmp_path, "Shorter.", "Next.", log=EventLog(kept.entries))
        again.recover()
        assert [queued.text for queued in again.turn.queue.values()] == ["shorter"]
        with pytest.raises(Refused):
            again.steer(next(iter(again.turn.queue)))
        again.send("next")
        assert await again.wait() == "answered"
        texts = [m.text for m in again.transcript.messages if isinstance(m, UserMessage)]
        assert texts == ["Write", "shorter", "next"] and again.turn.number == 3

    run(scenario())


def test_a_person_who_speaks_ends_a_circle(tmp_path: Path) -> None:
    """Steps before the person spoke do not count as repetition."""

    async def scenario() -> None:
        same = [call("say_meanwhile")] * (WARN_REPEATS - 1)
        session = session_of(tmp_path, *same, call("say_meanwhile", steer="go on"), *same, "Done.")
        session.send("Write")
        assert await session.wait() == "answered" and session.turn.nudges == set()

    run(scenario())


def test_it_is_found_exported_and_taken_over(store: Store, tmp_path: Path) -> None:
    async def scenario() -> None:
        log = EventLog(sink=store.journal("ann", "s1"))
        session = session_of(tmp_path, call("say_meanwhile", steer="短一点"), "Short.", log=log)
        session.send("Write")
        await session.wait()
        assert [found.who for found in store.search("ann", "短一点")] == ["person"]
        lines = "".join(export_lines("", session.log.since(0), str)).encode()
        imported = import_lines(lines, 0.0).entries
        assert Transcript(entry.event for entry in imported).messages == session.transcript.messages
        misplaced = next(entry.event for entry in imported if isinstance(entry.event, Steered))
        open_call = [entry for entry in session.log.since(0) if isinstance(entry.event, (TurnStarted,))]
        wrong = [*open_call, replace(open_call[0], seq=1, event=replace(misplaced))]
        assert len(import_lines("".join(export_lines("", wrong, str)).encode(), 0.0).entries) == 3  # in its place
        with pytest.raises(Refused):  # before anything was begun
            import_lines("".join(export_lines("", [replace(wrong[1], seq=0)], str)).encode(), 0.0)

    run(scenario())


def test_an_answered_turn_cannot_be_steered(tmp_path: Path) -> None:
    async def scenario() -> None:
        session = session_of(tmp_path, "One.", "Two.")
        session.send("Write", steer=True)
        await session.wait()
        session.send("More", steer=True)
        assert await session.wait() == "answered" and session.turn.number == 2
        assert not any(isinstance(entry.event, (Steered, MessageQueued)) for entry in session.log.since(0))

    run(scenario())

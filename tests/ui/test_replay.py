"""A replay is the log read again: the same entries, the same picture, and nothing that can be done in it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.approval import questions
from agent.errors import Refused
from agent.events import CallAwaiting, Event, StepStarted, TextDelta, TurnEnded, TurnStarted
from agent.log import Entry
from agent.messages import UserMessage
from agent.policy import Policy, Verdict, arguments_hash
from agent.session import Session
from agent.tool import Effect, Toolbox, ToolContext, tool
from tests.living import until
from tests.scripted import ScriptedModel, call
from ui.render import View
from ui.replay import IS_RECORDING, LONGEST_PAUSE_S, Replay, ReplaySession
from ui.texts import TEXTS

RAN: list[str] = []


@tool(Effect.EXECUTE)
async def ring(context: ToolContext, bell: str) -> str:
    """Ring a bell."""
    RAN.append(bell)
    context.emit("ding\n")
    return f"rang {bell}"


def at(*times_and_events: tuple[float, Event]) -> list[Entry]:
    return [Entry(seq, time, event) for seq, (time, event) in enumerate(times_and_events)]


async def recording(folder: Path) -> Sequence[Entry]:
    """Two turns: one that asks a person, and one that only talks."""
    model = ScriptedModel(
        [call("ring", "c1", bell="a"), call("ring", "c2", bell="b")], "Rang both.", "You are welcome."
    )
    policy = Policy({Effect.EXECUTE: Verdict("ask", "it rings")})
    session = Session(Agent(model, Toolbox([ring]), policy=policy), folder, folder)
    session.send("Ring twice")
    await session.wait()
    for waiting in session.waiting_calls():
        session.decide(waiting.id, arguments_hash(waiting), True)
    await session.wait()
    session.send("Thanks")
    assert await session.wait() == "answered"
    RAN.clear()
    return session.log.since(0)


def picture(entries: Sequence[Entry]) -> Any:
    view = View(TEXTS["en"], lambda file, show: file)
    for entry in entries:
        view.add(entry)
    return view.history(), view.live()


# ---------------------------------------------------------------------- pace


async def test_what_comes_out_is_what_went_in(tmp_path: Path) -> None:
    entries = await recording(tmp_path)
    for speed in (1.0, 1_000.0):
        replay = Replay(entries, speed)
        replay.play()
        assert replay.playing and not replay.done
        await asyncio.wait_for(replay.wait(), 60)
        assert replay.log.since(0) == entries and replay.done and not replay.playing


async def test_a_reader_sees_the_same_picture_at_every_moment(tmp_path: Path) -> None:
    entries = await recording(tmp_path)
    replay = Replay(entries, speed=1_000.0)
    seen: list[Entry] = []

    async def read() -> None:
        async for batch in replay.log.follow():
            seen.extend(batch)
            assert picture(seen) == picture(entries[: len(seen)])
            if len(seen) == len(entries):
                return

    replay.play()
    await asyncio.wait_for(read(), 60)


def test_pauses_are_those_of_the_recording_up_to_a_limit() -> None:
    entries = at(
        (5, TurnStarted(1, UserMessage("x"))), (5.25, StepStarted(1)), (3, TextDelta("a")), (900, TextDelta("b"))
    )
    replay = Replay(entries)
    pauses = []
    while not replay.done:
        pauses.append(replay.next_pause)
        replay._give()
    assert pauses == [0.0, 0.25, 0.0, LONGEST_PAUSE_S]


async def test_pause_holds_and_play_goes_on() -> None:
    entries = at(*((float(n), TextDelta(str(n))) for n in range(6)))
    replay = Replay(entries, speed=200.0)
    replay.play()
    replay.play()  # once is enough
    await until(lambda: len(replay.log) >= 2)
    replay.pause()
    replay.pause()
    held = len(replay.log)
    assert not replay.playing
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(replay.log) == held < len(entries)
    replay.play()
    await asyncio.wait_for(replay.wait(), 20)
    assert replay.log.since(0) == entries


async def test_speed_can_change_in_the_middle_of_a_pause() -> None:
    entries = at((0, TextDelta("a")), (2, TextDelta("b")))
    replay = Replay(entries, speed=1e-6)  # this pause would last for weeks
    replay.play()
    await until(lambda: len(replay.log) == 1)
    replay.speed = 1e6
    await asyncio.wait_for(replay.wait(), 20)
    assert replay.done and replay.speed == 1e6


async def test_a_step_is_a_message_or_a_model_call_with_its_tools(tmp_path: Path) -> None:
    entries = await recording(tmp_path)
    replay = Replay(entries)
    firsts = []
    while not replay.done:
        firsts.append(len(replay.log))
        replay.step()
    begun = [entries[seq].event for seq in firsts]
    assert [type(event) for event in begun] == [TurnStarted, StepStarted, StepStarted, TurnStarted, StepStarted]
    replay.step()  # behind the end nothing happens
    assert replay.log.since(0) == entries


async def test_a_step_pauses_and_the_rest_comes_at_once(tmp_path: Path) -> None:
    entries = await recording(tmp_path)
    replay = Replay(entries)
    replay.play()
    replay.step()
    assert not replay.playing and not replay.done
    replay.finish()
    assert replay.done and replay.log.since(0) == entries


def test_nothing_cannot_be_replayed() -> None:
    with pytest.raises(Refused):
        Replay([])
    with pytest.raises(Refused):
        ReplaySession([], "x")


# ---------------------------------------------------------------------- the session


READING = {"busy", "running", "title", "waiting", "siblings", "path", "wait", "open_calls", "waiting_calls", "decision"}
READING |= {"tool_context", "close", "recover", "spent", "spent_in_all", "steering", "take_steering", "turn_state"}


async def test_every_command_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    session = ReplaySession(await recording(tmp_path), "bells")
    session.replay.finish()
    before = session.log.since(0)
    commands = {name for name in vars(Session) if not name.startswith("_")} - READING
    assert {"send", "stop", "decide", "edit", "undo", "append", "resume"} <= commands
    for name in commands:
        command = getattr(session, name)
        required = [
            p for p in inspect.signature(getattr(Session, name)).parameters.values() if p.default is p.empty
        ]  # `self` stands for one more than is needed
        with pytest.raises(Refused, match=IS_RECORDING):
            result = command(*["x" for _ in required[1:]])
            if inspect.isawaitable(result):
                await result
    assert session.log.since(0) == before and RAN == []


async def test_it_is_a_session_to_every_reader(tmp_path: Path) -> None:
    entries = await recording(tmp_path)
    original = Session(Agent(ScriptedModel(), Toolbox([])), tmp_path, tmp_path)
    for entry in entries:
        original.log.append(entry.event)
        original._fold(entry.event)
    session = ReplaySession(entries, "bells", owner="ann")
    assert (session.owner, session.title, session.replay_of) == ("ann", "bells", "bells")
    assert len(session.log) == 1  # the first message is there, so that it is nobody's empty page
    session.replay.finish()
    assert session.transcript.messages == original.transcript.messages
    assert session.turn.ended == "answered" and session.turn.number == 2
    assert session.log.since(0) == entries
    assert RAN == []


async def test_at_a_question_nobody_is_asked(tmp_path: Path) -> None:
    entries = await recording(tmp_path)
    asked = next(entry.seq for entry in entries if isinstance(entry.event, TurnEnded))
    session = ReplaySession(entries[: asked + 1], "bells")
    session.replay.finish()
    assert session.turn.ended == "awaiting_approval" and session.waiting_calls()
    assert not session.waiting and questions(session) == ()
    assert any(isinstance(entry.event, CallAwaiting) for entry in session.log.since(0))


async def test_again_is_from_the_start_and_close_ends_the_playing(tmp_path: Path) -> None:
    session = ReplaySession(await recording(tmp_path), "bells", "ann", tmp_path)
    session.replay.finish()
    again = session.again()
    assert len(again.log) == 1 and (again.owner, again.outbox, again.replay_of) == ("ann", tmp_path, "bells")
    assert again.id != session.id
    again.replay.play()
    assert again.busy and not again.running
    await again.close()
    assert not again.busy and len(again.log) < len(session.log)
    assert again.log.since(0)[0] == session.log.since(0)[0]

"""A recording as a model: the same replies again, and every difference told."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from agent.agent import Agent
from agent.events import CallFinished, Replied, StopReason, TextDelta, TurnEnded
from agent.exchange import export_lines, import_lines
from agent.llm.demo import DemoModel
from agent.llm.model import Model
from agent.llm.recorded import RecordedModel
from agent.log import Entry
from agent.session import Session
from agent.tool import Effect, Tool, Toolbox, ToolContext, tool
from tests.living import until
from tests.scripted import Hang, ScriptedModel, call


@tool(Effect.READ)
def count_words(context: ToolContext, text: str) -> str:
    """Count the words."""
    return str(len(text.split()))


@tool(Effect.READ)
def shout(context: ToolContext, text: str) -> str:
    """Say it louder."""
    return text.upper()


def miscounting() -> Tool:
    """The same tool with another result."""

    @tool(Effect.READ)
    def count_words(context: ToolContext, text: str) -> str:
        """Count the words."""
        return "many"

    return count_words


def session_with(model: Model, folder: Path, *tools: Tool) -> Session:
    return Session(Agent(model, Toolbox(tools or [count_words])), folder, folder)


async def say(session: Session, *messages: str) -> StopReason | None:
    for message in messages:
        session.send(message)
        await asyncio.wait_for(session.wait(), 20)
    return session.turn.ended


def as_file(session: Session) -> list[Entry]:
    """The session's entries, out and in again."""
    lines = "".join(export_lines("", session.log.since(0), str))
    return import_lines(lines.encode(), time.time()).entries


def replies(session: Session) -> list[Replied]:
    return [entry.event for entry in session.log.since(0) if isinstance(entry.event, Replied)]


async def recorded(folder: Path) -> Session:
    model = ScriptedModel([call("count_words", text="a b"), call("count_words", text="c")], "Two and one.", "Bye.")
    session = session_with(model, folder)
    await say(session, "Count", "Thanks")
    return session


async def test_the_same_session_again_is_the_same(tmp_path: Path) -> None:
    first = await recorded(tmp_path)
    model = RecordedModel(as_file(first))
    second = session_with(model, tmp_path)
    assert await say(second, "Count", "Thanks") == "answered"
    assert second.transcript.messages == first.transcript.messages
    assert replies(second) == replies(first)
    assert model.divergences == [] and model.left == 0
    deltas = [[e.event for e in s.log.since(0) if isinstance(e.event, TextDelta)] for s in (first, second)]
    assert deltas[0] == deltas[1] and len(deltas[0]) > 3


async def test_the_demo_models_wire_is_compared_too(tmp_path: Path) -> None:
    first = session_with(DemoModel(0), tmp_path)
    await say(first, "Hello")
    same, other = RecordedModel(as_file(first)), RecordedModel(as_file(first))
    await say(session_with(same, tmp_path), "Hello")
    await say(session_with(other, tmp_path, count_words, shout), "Hello")
    assert same.divergences == []
    (divergence,) = other.divergences
    assert (divergence.what, divergence.recorded, divergence.now) == ("tools", "count_words", "count_words, shout")


async def test_other_words_and_other_results_are_told_and_the_reply_stays(tmp_path: Path) -> None:
    first = await recorded(tmp_path)
    model = RecordedModel(as_file(first))
    second = session_with(model, tmp_path, miscounting())
    await say(second, "Count!", "Thanks")
    assert replies(second) == replies(first)
    told = [(d.reply, d.what, d.recorded, d.now) for d in model.divergences]
    assert told[0] == (1, "said", "person: Count", "person: Count!")
    assert told[1][:2] == (2, "said") and "ok: 2" in told[1][2] and "ok: many" in told[1][3]
    assert len(told) == 2


async def test_behind_the_last_reply_is_an_error_not_a_guess(tmp_path: Path) -> None:
    model = RecordedModel(as_file(await recorded(tmp_path)))
    session = session_with(model, tmp_path)
    assert await say(session, "Count", "Thanks", "More") == "error"
    assert [d.what for d in model.divergences] == ["end"] and model.divergences[0].now == "person: More"


async def test_a_reply_that_was_stopped_waits_to_be_stopped(tmp_path: Path) -> None:
    first = session_with(ScriptedModel([TextDelta("half an "), Hang], "And on."), tmp_path)  # type: ignore[arg-type]
    first.send("Go")
    await until(lambda: any(isinstance(e.event, TextDelta) for e in first.log.since(0)))
    await first.stop()
    await say(first, "Again")
    model = RecordedModel(as_file(first))
    second = session_with(model, tmp_path)
    second.send("Go")
    await until(lambda: any(isinstance(e.event, TextDelta) for e in second.log.since(0)))
    await asyncio.sleep(0)
    assert second.running
    await second.stop()
    assert await say(second, "Again") == "answered"
    assert second.transcript.messages == first.transcript.messages and model.divergences == []


async def test_a_reply_that_failed_fails_again(tmp_path: Path) -> None:
    first = session_with(ScriptedModel(), tmp_path)
    first.agent = Agent(RecordedModel([]), Toolbox([]))
    assert await say(first, "Go") == "error"
    second = session_with(RecordedModel(as_file(first)), tmp_path)
    assert await say(second, "Go") == "error"
    ends = [session.log.since(0)[-1].event for session in (first, second)]
    assert isinstance(ends[0], TurnEnded) and isinstance(ends[1], TurnEnded) and ends[0].fault == ends[1].fault


async def test_a_rerun_runs_real_tools(tmp_path: Path) -> None:
    session = session_with(RecordedModel(as_file(await recorded(tmp_path))), tmp_path, shout)
    await say(session, "Count")
    finished = [e.event for e in session.log.since(0) if isinstance(e.event, CallFinished)]
    assert [f.status for f in finished] == ["failed", "failed"]  # there is no such tool here, and the log says so


@pytest.mark.parametrize("count", [0, 1])
async def test_what_is_no_model_call_is_no_reply(tmp_path: Path, count: int) -> None:
    entries = (await recorded(tmp_path)).log.since(0)[:count]
    assert RecordedModel(entries).left == 0

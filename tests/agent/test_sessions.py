"""Sessions that are kept: opened again after a restart, after a crash at any event, imported, deleted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.errors import NotKept, Refused
from agent.events import (
    CallDelta,
    CallFinished,
    CallStarted,
    Event,
    OutputDelta,
    ReasoningDelta,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from agent.llm.model import Request
from agent.log import Entry, EventLog, load_entry
from agent.messages import AssistantMessage, Message, ToolMessage
from agent.policy import arguments_hash
from agent.session import Session
from agent.sessions import Sessions
from agent.store import Store
from agent.tool import Effect, Toolbox, ToolContext, tool
from tests.agent import dying, postgres
from tests.scripted import Hang, ScriptedModel, call

Open = Callable[..., Store]


def run(scenario: Awaitable[Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 60))


def events(session: Session, kind: type[Event] | Any) -> list[Any]:
    return [e.event for e in session.log.since(0) if isinstance(e.event, kind)]


def check_valid_for_a_model(messages: list[Message]) -> None:
    """Each call has exactly one result before anything else is said."""
    expected: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            expected.remove(message.call_id)
        else:
            assert not expected
        if isinstance(message, AssistantMessage):
            expected = [call.id for call in message.tool_calls]
    assert not expected


async def until(session: Session, condition: Callable[[Event], bool]) -> None:
    async for batch in session.log.follow():
        if any(condition(entry.event) for entry in batch):
            return


# ---------------------------------------------------------------------- restart


def test_a_restart_changes_nothing(open_store: Open, database_url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        sessions = dying.open_sessions(open_store(database_url), tmp_path, dying.agent(*dying.SCRIPT))
        session = sessions.create("ann")
        session.send("Do a few things.")
        assert await session.wait() == "awaiting_approval"

        again = dying.open_sessions(open_store(database_url), tmp_path, dying.agent("fine"))
        reopened = await again.open("ann", session.id)
        assert reopened is again.get("ann", session.id) and reopened is not session
        assert reopened.log.since(0) == session.log.since(0)
        assert reopened.transcript.messages == session.transcript.messages
        assert reopened.turn == session.turn and reopened.waiting

        for one in reopened.open_calls():
            reopened.decide(one.id, arguments_hash(one), True)
        assert await reopened.wait() == "answered"
        assert (tmp_path / "launched").read_text() == "a\nb\n"

    run(scenario())


def test_an_empty_session_leaves_no_trace(store: Store, tmp_path: Path) -> None:
    sessions = dying.open_sessions(store, tmp_path, dying.agent())
    session = sessions.create("ann")
    assert sessions.get("ann", session.id) is session and sessions.summaries("ann") == []


def test_a_session_is_found_by_its_owner_only_asleep_or_awake(store: Store, tmp_path: Path) -> None:
    async def scenario() -> None:
        sessions = dying.open_sessions(store, tmp_path, dying.agent("hello"))
        session = sessions.create("ann")
        session.send("hi")
        await session.wait()
        answers = set()
        for asleep in (False, True):
            if asleep:
                assert sessions.sweep(idle=0) == 1 and sessions.of("ann") == []
            for owner, session_id in (("bob", session.id), ("ann", "guess"), ("", session.id), ("änn", session.id)):
                with pytest.raises(Refused) as refused:
                    sessions.get(owner, session_id)
                answers.add(str(refused.value))
                with pytest.raises(Refused):
                    await sessions.open(owner, session_id)
        assert len(answers) == 1
        assert sessions.get("ann", session.id).transcript.messages == session.transcript.messages

    run(scenario())


def test_only_idle_sessions_leave_memory(store: Store, tmp_path: Path) -> None:
    async def scenario() -> None:
        sessions = dying.open_sessions(store, tmp_path, dying.agent("one", "two", Hang))
        idle, watched, busy = (sessions.create("ann") for _ in range(3))
        for session in (idle, watched):
            session.send("hi")
            await session.wait()
        busy.send("hi")
        follower = watched.log.follow()
        await follower.__anext__()
        assert sessions.sweep() == 0
        assert sessions.sweep(idle=0) == 1
        assert sessions.of("ann") == [busy, watched]
        await follower.aclose()
        await sessions.stop_all()
        assert sessions.sweep(idle=0) == 2

    run(scenario())


def test_deleting_stops_and_undoing_brings_back(store: Store, tmp_path: Path) -> None:
    async def scenario() -> None:
        sessions = dying.open_sessions(store, tmp_path, dying.agent([TextDelta("half"), Hang]))
        session = sessions.create("ann")
        session.send("hi")
        await until(session, lambda event: isinstance(event, TextDelta))
        with pytest.raises(Refused):
            await sessions.delete("bob", session.id)
        assert session.running
        await sessions.delete("ann", session.id)
        assert not session.running and sessions.summaries("ann") == []
        with pytest.raises(Refused):
            sessions.get("ann", session.id)
        with pytest.raises(Refused):
            sessions.undelete("bob", session.id)
        sessions.undelete("ann", session.id)
        assert sessions.get("ann", session.id).transcript.messages == session.transcript.messages

    run(scenario())


# ---------------------------------------------------------------------- crash


@dataclass(frozen=True)
class Crashed:
    """What processes left behind that were killed at event 0, 1, 2, ... of the same session."""

    folders: list[Path]
    database_url: str


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def crashed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crashed]:
    if sys.platform == "win32":
        pytest.skip("no SIGKILL here")
    folder = tmp_path_factory.mktemp("crashed")
    with ExitStack() as opened:
        url = ""
        if request.param == "postgresql":
            url = opened.enter_context(postgres.database(request.getfixturevalue("postgres_url")))
        subprocess.run([sys.executable, "-m", "tests.agent.dying", str(folder), url], check=True, timeout=300)
        left = sorted(folder.iterdir(), key=lambda path: int(path.name))
        yield Crashed(left[:-1], url)  # the last one lived


DELTAS = (TextDelta, ReasoningDelta, CallDelta, OutputDelta)


def told_before(folder: Path) -> list[Event]:
    """What readers had been told when the process died: all but the event that was being written."""
    lines = (folder / "told").read_text().splitlines()
    return [load_entry(json.loads(line)).event for line in lines[:-1]]


def test_after_a_kill_at_any_event_the_session_is_whole_and_goes_on(crashed: Crashed) -> None:
    async def reopen_and_go_on(folder: Path) -> str:
        store = Store(folder, str, crashed.database_url)
        try:
            return await go_on(folder, store)
        finally:
            store.close()

    async def go_on(folder: Path, store: Store) -> str:
        told = told_before(folder)
        sessions = dying.open_sessions(store, folder, dying.agent("Going on.", "The queued one.", "More."))
        kept = [entry.event for entry in store.load(dying.OWNER, dying.session_in(folder)).entries]
        assert kept[: len(told)] == told[: len(kept)]
        assert all(isinstance(lost, DELTAS) for lost in told[len(kept) :])

        session = sessions.get(dying.OWNER, dying.session_in(folder))
        added = [entry.event for entry in session.log.since(len(kept))]
        assert all(isinstance(event, (CallFinished, TurnEnded)) for event in added)
        again = dying.open_sessions(store, folder, dying.agent()).get(dying.OWNER, dying.session_in(folder))
        assert again.log.since(0) == session.log.since(0)  # it is ended once

        effects = {name: (folder / name).read_text() for name in ("notes", "launched") if (folder / name).exists()}
        if session.waiting:
            assert not added and {one.id for one in session.open_calls()} == {"x1", "x2"}
            for one_id in list(session.turn.waiting):
                session.decide(one_id, session.turn.waiting[one_id].arguments_hash, True)
            assert await session.wait() == "answered"
            assert (folder / "launched").read_text() == "a\nb\n"
            return "waiting"
        check_valid_for_a_model(session.transcript.messages)
        if session.turn.ended == "answered":
            session.send("and now?")
        else:
            assert session.turn.ended == "interrupted" and isinstance(added[-1], TurnEnded)
            session.resume()
        assert await session.wait() == "answered"
        check_valid_for_a_model(session.transcript.messages)
        finished = [event.call_id for event in events(session, CallFinished)]
        assert sorted(finished) == sorted({c.id for c in called(session)})
        after = {name: (folder / name).read_text() for name in effects}
        assert after == effects  # nothing ran a second time
        assert [e.message.text for e in events(session, TurnStarted)].count("And then?") <= 1
        return "interrupted" if added else "ended"

    ends = [run(reopen_and_go_on(folder)) for folder in crashed.folders]
    assert len(ends) > 40 and set(ends) == {"interrupted", "waiting", "ended"}


def called(session: Session) -> list[Any]:
    return [one for m in session.transcript.messages if isinstance(m, AssistantMessage) for one in m.tool_calls]


def test_the_interrupted_call_is_told_apart_from_those_that_never_ran(crashed: Crashed) -> None:
    """Killed right after r1 began: what r1 did is unknown, w1 did nothing."""

    def just_began(folder: Path) -> bool:
        told = told_before(folder)
        return CallStarted("r1") in told and not any(isinstance(event, CallFinished) for event in told)

    folder = next(folder for folder in crashed.folders if just_began(folder))
    store = Store(folder, str, crashed.database_url)
    session = dying.open_sessions(store, folder, dying.agent()).get(dying.OWNER, dying.session_in(folder))
    store.close()
    finished = {event.call_id: event for event in events(session, CallFinished)}
    assert finished["r1"].status == finished["w1"].status == "interrupted"
    assert "may have done its work" in finished["r1"].text and "Not run" in finished["w1"].text


# ---------------------------------------------------------------------- going on


def test_going_on_is_offered_only_where_something_was_cut_off(store: Store, tmp_path: Path) -> None:
    async def scenario() -> None:
        sessions = dying.open_sessions(store, tmp_path, dying.agent("done", [TextDelta("ha"), Hang], "lf done"))
        session = sessions.create("ann")
        with pytest.raises(Refused):
            session.resume()
        session.send("hi")
        await session.wait()
        with pytest.raises(Refused):
            session.resume()
        session.send("more")
        await until(session, lambda event: event == TextDelta("ha"))
        with pytest.raises(Refused):
            session.resume()
        await session.stop()
        session.resume()
        assert await session.wait() == "answered"
        start = events(session, TurnStarted)[-1]
        assert start.message.source == "glassloop" and "stopped" in start.message.text and start.parent == 2
        request: Request = session.agent.model.requests[-1]  # type: ignore[attr-defined]
        assert [m.text for m in request.messages if isinstance(m, AssistantMessage)] == ["done", "ha"]

    run(scenario())


def test_what_an_interruption_left_in_the_queue_is_sent_first(store: Store, tmp_path: Path) -> None:
    async def scenario() -> None:
        session = dying.open_sessions(store, tmp_path, dying.agent(Hang)).create("ann")
        session.send("one")
        session.send("two")
        await asyncio.sleep(0)
        again = dying.open_sessions(store, tmp_path, dying.agent("2", "3")).get("ann", session.id)
        assert again.turn.ended == "interrupted"
        again.send("three")
        assert await again.wait() == "answered"
        assert [e.message.text for e in events(again, TurnStarted)] == ["one", "two", "three"]
        session._task.cancel()  # type: ignore[union-attr] # the process that died

    run(scenario())


# ---------------------------------------------------------------------- a full disk


def test_a_full_disk_ends_the_turn_and_the_next_one_works_when_there_is_room(
    small_disk: Path, open_store: Open
) -> None:
    async def scenario() -> None:
        store = open_store()
        ballast = small_disk / "ballast"

        @tool(Effect.WRITE)
        async def fill(context: ToolContext) -> str:
            """Take all the room there is."""
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as stream:
                while stream.write(b"x" * 4096):
                    pass
            return "full"

        session = Session(
            Agent(ScriptedModel([call("fill")], "fine"), Toolbox([fill])),
            small_disk,
            small_disk,
            "ann",
            EventLog(sink=store.journal("ann", "s1")),
            "s1",
        )
        session.send("go")
        assert await session.wait() == "error"
        assert events(session, TurnEnded)[-1].fault.code == "disk_full"
        told = session.log.since(0)
        with pytest.raises(Refused, match="disk is full"):
            session.send("again")
        assert session.log.since(0) == told
        ballast.unlink()
        session.send("again")
        assert await session.wait() == "answered"
        check_valid_for_a_model(session.transcript.messages)
        assert [e.status for e in events(session, CallFinished)] == ["interrupted"]
        assert store.load("ann", session.id).entries == session.log.since(0)

    run(scenario())


def test_a_result_that_cannot_be_kept_stops_the_calls_beside_it(tmp_path: Path) -> None:
    ends: list[str] = []

    @tool(Effect.READ)
    async def quick(context: ToolContext) -> str:
        """Ends at once."""
        return "done"

    @tool(Effect.READ)
    async def slow(context: ToolContext) -> str:
        """Ends when it is stopped."""
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("stopped")
        raise AssertionError

    def sink(entry: Entry) -> None:
        if isinstance(entry.event, CallFinished):
            raise NotKept("storage_failed", "gone")

    async def scenario() -> None:
        agent = Agent(ScriptedModel([call("slow"), call("quick")]), Toolbox([quick, slow]))
        session = Session(agent, tmp_path, tmp_path, log=EventLog(sink=sink))
        session.send("go")
        assert await session.wait() == "error"
        assert ends == ["stopped"] and len(session.open_calls()) == 2
        assert events(session, TurnEnded)[-1].fault.code == "storage_failed"

    run(scenario())


def test_sessions_without_a_store_live_in_memory(tmp_path: Path) -> None:
    sessions = Sessions()
    session = sessions.add(Session(dying.agent(), tmp_path, tmp_path, "ann"))
    assert sessions.get("ann", session.id) is session and sessions.sweep(idle=0) == 0

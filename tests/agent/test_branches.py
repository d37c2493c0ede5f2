"""Edit, retry and go back: the log stays one line, and no branch is lost. Then all of it at random, with crashes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent.agent import Agent
from agent.audit import verify
from agent.branches import Branches
from agent.errors import Refused
from agent.events import (
    BranchSelected,
    CallAwaiting,
    CallFinished,
    CallStarted,
    Event,
    FromTurn,
    MessageQueued,
    MessageWithdrawn,
    Nudged,
    OneCall,
    OneUndo,
    Replied,
    TurnEnded,
    TurnStarted,
    Undone,
    UndoTarget,
)
from agent.llm.model import Request
from agent.log import EventLog
from agent.messages import AssistantMessage, ToolMessage, UserMessage
from agent.policy import Policy, Verdict, arguments_hash
from agent.session import Session
from agent.sessions import Sessions
from agent.store import Store
from agent.store.journal import Journal
from agent.tool import Effect, Toolbox, ToolContext, tool
from agent.transcript import Transcript
from agent.undo import OnConflict, Span
from tests.agent import postgres
from tests.scripted import ScriptedModel, call


@tool(Effect.READ)
async def look(context: ToolContext) -> str:
    """Look."""
    context.emit("looking")
    await asyncio.sleep(0)
    return "seen"


@tool(Effect.WRITE)
async def write(context: ToolContext, text: str) -> str:
    """Write."""
    with (context.workspace / "written").open("a") as written:
        written.write(text + "\n")
    return "written"


@tool(Effect.EXECUTE)
async def launch(context: ToolContext) -> str:
    """Needs a person."""
    await asyncio.sleep(0)
    return "launched"


class Remembered:
    """Checkpoints whose names are what the file held: so the log itself tells what is on the disk."""

    @asynccontextmanager
    async def around(self, context: ToolContext) -> AsyncIterator[None]:
        before = held(context.workspace)
        try:
            yield
        finally:
            if (after := held(context.workspace)) != before:
                context.facts.update(told(before, after))

    async def restore_preview(self, workspace: Path, spans: Sequence[Span], paths: Any = None) -> Any:
        raise NotImplementedError

    async def restore(
        self, workspace: Path, spans: Sequence[Span], paths: Any = None, on_conflict: OnConflict = "refuse"
    ) -> dict[str, Any]:
        """To what it was before the first span; where the spans do not lead here one after another, only by choice."""
        await asyncio.sleep(0)
        now, steps = held(workspace), [*spans, (held(workspace), "", False)]
        if any(one[1] != after[0] for one, after in pairwise(steps)) and on_conflict == "refuse":
            raise Refused("changed since")
        (workspace / "written").write_text(spans[0][0])
        return told(now, spans[0][0])

    async def diff(self, workspace: Path, before: str, after: str, path: str) -> str:
        raise NotImplementedError


def held(workspace: Path) -> str:
    file = workspace / "written"
    return file.read_text() if file.exists() else ""


def told(before: str, after: str) -> dict[str, Any]:
    changed = [{"path": "written", "change": "modified", "bytes": len(after)}] if before != after else []
    return {"before": before, "checkpoint": after, "changed": changed, "changed_total": len(changed)}


REMEMBERED = Remembered()
TOOLBOX = Toolbox([look, write, launch], around=REMEMBERED.around)
POLICY = Policy({Effect.EXECUTE: Verdict("ask")})


def make_session(tmp_path: Path, *script: Any) -> Session:
    return Session(Agent(ScriptedModel(*script), TOOLBOX, policy=POLICY), tmp_path, tmp_path)


def run(scenario: Awaitable[Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 300))


def events(session: Session, kind: type[Event] | Any) -> list[Any]:
    return [e.event for e in session.log.since(0) if isinstance(e.event, kind)]


def said(messages: Any) -> list[str]:
    return [message.text for message in messages if not isinstance(message, ToolMessage)]


async def say(session: Session, *texts: str) -> None:
    for text in texts:
        session.send(text)
        assert await session.wait() == "answered"


def test_the_tree_of_turns() -> None:
    tree = Branches()
    for turn, parent in enumerate((None, 1, 2, 2, 1, None), start=1):
        tree.add(TurnStarted(turn, UserMessage(""), parent=parent))
    assert tree.leaf == 6 and tree.path(3) == [1, 2, 3] and tree.path(None) == []
    assert tree.siblings(1) == [1, 6] and tree.siblings(2) == [2, 5] and tree.siblings(4) == [3, 4]
    assert tree.newest_leaf(1) == 5 and tree.newest_leaf(2) == 4 and tree.newest_leaf(3) == 3
    for wrong in (TurnStarted(6, UserMessage("")), TurnStarted(7, UserMessage(""), parent=7), BranchSelected(9)):
        with pytest.raises(ValueError, match="turn"):
            tree.add(wrong)


def test_an_edited_message_starts_a_branch_and_the_old_one_is_kept(tmp_path: Path) -> None:
    async def scenario() -> Session:
        session = make_session(tmp_path, "A1", "B1", "C1", "B2", "D2")
        await say(session, "a", "b", "c")
        session.edit(2, "b'")
        assert await session.wait() == "answered"
        await say(session, "d")
        return session

    session = run(scenario())
    assert said(session.transcript.messages) == ["a", "A1", "b'", "B2", "d", "D2"]
    request: Request = session.agent.model.requests[3]
    assert said(request.messages) == ["a", "A1", "b'"]
    assert session.siblings(2) == [2, 4]
    assert session.path(3) == [1, 2, 3] and session.path(5) == [1, 4, 5]
    assert [said(session.transcript.of(turn)) for turn in session.path(3)] == [["a", "A1"], ["b", "B1"], ["c", "C1"]]

    session.select(2)
    assert said(session.transcript.messages) == ["a", "A1", "b", "B1", "c", "C1"]
    assert session.turn.number == 3
    again = Transcript(entry.event for entry in session.log.since(0))
    assert again.messages == session.transcript.messages


def test_a_retry_says_the_same_again(tmp_path: Path) -> None:
    async def scenario() -> Session:
        session = make_session(tmp_path, "no", "yes")
        await say(session, "please")
        session.retry(1)
        await session.wait()
        return session

    session = run(scenario())
    assert said(session.transcript.messages) == ["please", "yes"]
    assert session.siblings(1) == [1, 2] and session.title == "please"


def test_the_model_is_told_what_ran_on_the_branches_it_does_not_see(tmp_path: Path) -> None:
    async def scenario() -> Session:
        script = [[call("look"), call("write", text="first")], "done", "again", [call("write", text="more")], "x", "y"]
        session = make_session(tmp_path, *script)
        await say(session, "go")
        session.retry(1)
        await session.wait()
        session.edit(2, "go on")
        await session.wait()
        session.select(2)
        await say(session, "and now?")
        return session

    session = run(scenario())
    assert (tmp_path / "written").read_text() == "first\nmore\n"
    told = [e.text for e in events(session, Nudged) if e.code == "other_branch"]
    assert len(told) == 3
    assert 'write({"text": "first"})' in told[0] and "- look" not in told[0]
    assert '"first"' in told[1] and '"more"' not in told[1]
    assert '"more"' in told[2] and '"first"' not in told[2]  # that was told on this branch already
    request: Request = session.agent.model.requests[2]
    assert said(request.messages) == ["go", told[0]]


def test_what_waits_for_a_person_waits_on_its_branch(tmp_path: Path) -> None:
    async def scenario() -> Session:
        session = make_session(tmp_path, call("launch", "x1"), "instead", call("launch", "x1"), "after", "launched")
        session.send("go")
        assert await session.wait() == "awaiting_approval"
        [one] = session.open_calls()
        session.edit(1, "something else")
        assert await session.wait() == "answered"
        assert not session.waiting and session.open_calls() == []
        with pytest.raises(Refused):
            session.decide("x1", arguments_hash(one), True)
        session.send("and that?")
        assert await session.wait() == "awaiting_approval"  # the same id, in another turn
        session.decide("x1", arguments_hash(one), False)
        assert await session.wait() == "answered"
        session.select(1)
        assert session.waiting and session.open_calls() == [one]
        session.decide("x1", arguments_hash(one), True)
        assert await session.wait() == "answered"
        return session

    session = run(scenario())
    assert [e.status for e in events(session, CallFinished)] == ["denied", "done"]
    assert said(session.transcript.messages) == ["go", "", "launched"]


def test_branching_is_refused_where_it_makes_no_sense(tmp_path: Path) -> None:
    async def scenario() -> None:
        session = make_session(tmp_path, "one", "two")
        acts: list[Callable[[], None]] = [
            lambda: session.edit(1, "x"),
            lambda: session.retry(1),
            lambda: session.select(1),
        ]
        for act in acts:
            with pytest.raises(Refused, match="no such turn"):
                act()
        session.send("a")
        for act in acts:
            with pytest.raises(Refused, match="running"):
                act()
        await session.wait()
        with pytest.raises(Refused, match="empty"):
            session.edit(1, " \n")
        assert len(events(session, TurnStarted)) == 1 and not events(session, BranchSelected)

    run(scenario())


# ---------------------------------------------------------------------- at random


def improvised(request: Request) -> Any:
    """A model that does something of everything, by what it is asked."""
    last = request.messages[-1]
    if isinstance(last, ToolMessage) or request.tool_choice == "none":
        return "That is done." if len(request.messages) % 3 else [call("look", f"l{len(request.messages)}")]
    choice = sum(map(len, said(request.messages))) % 5
    number = len(request.messages)
    return [
        "Just words.",
        [call("look", f"a{number}"), call("write", f"b{number}", text="w")],
        [call("launch", f"c{number}"), call("launch", f"d{number}"), call("look", f"e{number}")],
        [call("write", f"f{number}", text="v"), call("launch", f"g{number}")],
        [call("nothing", f"h{number}")],
    ][choice]


class Watched(ScriptedModel):
    """Checks at every request that the messages are what any provider would take."""

    async def stream(self, request: Request) -> Any:
        check_valid_for_a_model(request.messages)
        self.script = [improvised]
        async for event in super().stream(request):
            yield event


def check_valid_for_a_model(messages: Any) -> None:
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


class Player:
    """Plays actions on one session, and takes it through a crash now and then."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.session = self.sessions().create("ann")

    def sessions(self) -> Sessions:
        agent = Agent(Watched(), TOOLBOX, policy=POLICY, checkpoints=REMEMBERED)

        def build(owner: str, session_id: str, log: EventLog) -> Session:
            return Session(agent, self.folder, self.folder, owner, log, session_id)

        return Sessions(self.store, build)

    async def play(self, action: str, number: int) -> None:
        session = self.session
        turns = len(session.transcript.branches.parents)
        some_turn = number % turns + 1 if turns else 1
        try:
            if action == "send":
                session.send("x" * (number % 7 + 1))
            elif action == "edit":
                session.edit(some_turn, "y" * (number % 7 + 1))
            elif action == "retry":
                session.retry(some_turn)
            elif action == "select":
                session.select(some_turn)
            elif action == "resume":
                session.resume()
            elif action == "undo":
                await session.undo(self.target(number), on_conflict="overwrite" if number % 2 else "refuse")
            elif action == "decide":
                one = session.open_calls()[number % len(session.open_calls())] if session.open_calls() else None
                if one is not None:
                    session.decide(one.id, arguments_hash(one), bool(number % 3))
        except Refused:
            pass
        if action == "stop":
            await session.stop()
        elif action == "wait":
            await session.wait()
        elif action == "crash":
            await self.crash()
        else:
            for _ in range(number % 40):  # let it get somewhere
                await asyncio.sleep(0)

    def target(self, number: int) -> UndoTarget:
        """A turn, a call, or an undo."""
        log, kind = self.session.log.since(0), number % 3
        calls = [e.event.call_id for e in log if isinstance(e.event, CallFinished)] or ["none"]
        undos = [e.event.id for e in log if isinstance(e.event, Undone)] or ["none"]
        turns = len(self.session.transcript.branches.parents)
        if kind == 0:
            return FromTurn(number % (turns + 1))
        return OneCall(calls[number % len(calls)]) if kind == 1 else OneUndo(undos[number % len(undos)])

    async def crash(self) -> None:
        """The process is gone: what it had not written is lost, and nothing it would have done happens."""
        old = self.session
        journal, old.log._sink = old.log._sink, lost
        assert isinstance(journal, Journal)
        journal._pending.clear()
        await old.stop()
        if journal._key is None:  # it died before its first event was written
            self.session = self.sessions().create("ann")
        else:
            self.session = self.sessions().get("ann", old.id)


def lost(entry: Any) -> None:
    """The sink of a process that is dead."""


def check_log(session: Session) -> None:
    """What holds of every log, however it came about."""
    queued = {e.id for e in events(session, MessageQueued)}
    withdrawn = {e.id for e in events(session, MessageWithdrawn)}
    became_turns = [e.queued_id for e in events(session, TurnStarted) if e.queued_id]
    assert sorted([*withdrawn, *became_turns, *session.turn.queue]) == sorted(queued)

    results: dict[tuple[int | None, str], int] = {}
    calls: set[tuple[int | None, str]] = set()
    began: set[tuple[int | None, str]] = set()
    turn: int | None = None
    for entry in session.log.since(0):
        event = entry.event
        if isinstance(event, (TurnStarted, BranchSelected)):
            turn = event.turn
        elif isinstance(event, Replied):
            calls |= {(turn, one.id) for one in event.message.tool_calls}
        elif isinstance(event, CallStarted):
            assert (turn, event.call_id) not in began
            began.add((turn, event.call_id))
        elif isinstance(event, CallFinished):
            results[turn, event.call_id] = results.get((turn, event.call_id), 0) + 1
        elif isinstance(event, CallAwaiting):
            assert (turn, event.call_id) in calls
    ended = [e.turn for e in events(session, TurnEnded)]
    assert {e.turn for e in events(session, TurnStarted)} == set(ended)
    assert all(count == 1 for count in results.values()) and set(results) <= calls
    for unanswered in calls - set(results):
        number, call_id = unanswered
        assert number is not None and call_id in session.transcript.open_in(number)


def check_files(session: Session) -> None:
    """The files are what the log says: each change begins where the one before ended, and the last one is there.

    A call that was cut off by a crash may have done its work, unseen.
    """
    known, unseen = "", False
    for entry in session.log.since(0):
        event = entry.event
        if isinstance(event, (CallFinished, Undone)) and "checkpoint" in event.details:
            assert unseen or event.details["before"] == known
            known, unseen = event.details["checkpoint"], False
        elif isinstance(event, CallFinished) and event.status == "interrupted":
            unseen = True
    assert unseen or held(session.workspace) == known


ACTIONS = (
    *("send", "send", "wait", "wait", "stop", "decide", "decide", "edit", "retry", "select", "resume", "crash"),
    *("undo", "undo"),
)
SEQUENCES = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 1_000)), min_size=1, max_size=14)


@pytest.fixture(scope="module")
def big_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with checked(Store(tmp_path_factory.mktemp("random"), str)) as store:
        yield store


@pytest.fixture(scope="module")
def postgres_store(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with (
        postgres.database(postgres_url) as url,
        checked(Store(tmp_path_factory.mktemp("random"), str, url)) as store,
    ):
        yield store


@contextmanager
def checked(store: Store) -> Iterator[Store]:
    """The store, whose audit trail says at the end what its logs say."""
    yield store
    report = verify(store)
    answered: dict[str, list[str]] = {}
    for row in store.audit_rows():
        answered.setdefault(row.session_id, []).append(row.call_id)
    for session in store.summaries("ann"):
        log = [entry.event for entry in store.load("ann", session.id).entries]
        finished = [event.call_id for event in log if isinstance(event, CallFinished)]
        assert answered.get(session.id, []) == finished
    store.close()
    assert report.ok and report.rows > 0


@settings(max_examples=2_000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([("send", 0), ("send", 0), ("send", 180), ("send", 183), ("send", 0)])  # stopped before the queue moved on
@given(SEQUENCES)
def test_whatever_happens_the_log_stays_sound(
    big_store: Store, tmp_path: Path, sequence: list[tuple[str, int]]
) -> None:
    play_all(big_store, tmp_path, sequence)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SEQUENCES)
def test_the_same_with_the_other_database(
    postgres_store: Store, tmp_path: Path, sequence: list[tuple[str, int]]
) -> None:
    play_all(postgres_store, tmp_path, sequence)


def play_all(store: Store, tmp_path: Path, sequence: list[tuple[str, int]]) -> None:
    async def scenario() -> None:
        (tmp_path / "written").unlink(missing_ok=True)
        player = Player(store, tmp_path)
        for action, number in sequence:
            await player.play(action, number)
        session = player.session
        await session.stop()
        check_log(session)
        check_files(session)
        if not session.waiting:
            check_valid_for_a_model(session.transcript.messages)
        if len(session.log):
            kept = player.sessions().get("ann", session.id)
            assert kept.log.since(0) == session.log.since(0)
            assert kept.transcript.messages == session.transcript.messages and kept.turn == session.turn

    asyncio.run(scenario())

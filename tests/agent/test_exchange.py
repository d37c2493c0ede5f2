"""A session goes out as a file and comes in again; and what comes in is somebody's file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import Refused
from agent.events import (
    BranchSelected,
    Budget,
    BudgetRaised,
    CallAwaiting,
    CallDecided,
    CallFinished,
    CallStarted,
    Compacted,
    Event,
    Fault,
    File,
    MessageQueued,
    Meter,
    Nudged,
    Replied,
    RequestSent,
    Rule,
    RuleGranted,
    StepStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    Usage,
)
from agent.exchange import MAX_BYTES, MAX_ENTRIES, MAX_LINE, export_lines, import_lines
from agent.log import Entry, EventLog
from agent.messages import AssistantMessage, ToolCall, UserMessage
from agent.session import Session
from agent.sessions import FROM_A_FILE
from agent.store import Store
from agent.transcript import Transcript
from tests.agent import dying

Open = Callable[..., Store]


def run(scenario: Awaitable[Any]) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 60))


def no_secret(text: str) -> str:
    return text.replace("s3cret", "***")


def as_file(*events: Event, **header: Any) -> bytes:
    entries = [Entry(seq, float(seq), event) for seq, event in enumerate(events)]
    lines = "".join(export_lines("a title", entries, no_secret)).splitlines()
    return "\n".join([json.dumps({**json.loads(lines[0]), **header}), *lines[1:]]).encode()


def imported(*events: Event) -> list[Event]:
    return [entry.event for entry in import_lines(as_file(*events), at=99.0).entries]


CALL = ToolCall("c1", "launch", '{"what": "a"}')
ASKED = (TurnStarted(1, UserMessage("go")), StepStarted(1), Replied(AssistantMessage(tool_calls=(CALL,)), "tool_calls"))


# ---------------------------------------------------------------------- there and back


def test_a_session_comes_back_as_a_new_one_of_the_importer(store: Store, tmp_path: Path) -> None:
    async def scenario() -> None:
        sessions = dying.open_sessions(store, tmp_path, dying.agent(*dying.SCRIPT, "welcome back"))
        session = sessions.create("ann")
        session.send("Do s3cret things.")
        await session.wait()
        session.edit(1, "Other things.")
        await session.wait()
        with pytest.raises(Refused):
            await sessions.export("bob", session.id)
        content = await sessions.export("ann", session.id)
        assert "s3cret" not in content and json.loads(content.splitlines()[0])["scrubbed"] is True
        rows = len(list(store.audit_rows()))

        copy = await sessions.import_("bob", content.encode())
        assert copy.owner == "bob" and copy.id != session.id
        assert store.summary("bob", copy.id).title == "Do *** things."
        assert copy.path(2) == [2] and copy.siblings(2) == [1, 2]
        *said, note = copy.transcript.messages
        assert said == session.transcript.messages
        assert note == UserMessage(FROM_A_FILE, source="glassloop")
        assert len(list(store.audit_rows())) == rows  # nothing ran here
        assert store.search("bob", "nothing") == [] and store.search("bob", "That was all")
        with pytest.raises(Refused):
            sessions.get("ann", copy.id)
        copy.send("hello")
        assert await copy.wait() == "answered"

    run(scenario())


def test_what_was_under_way_is_brought_to_rest(tmp_path: Path) -> None:
    """Nothing waits for a decision, nothing is allowed, nothing is in the queue."""
    awaiting = (*ASKED, CallAwaiting("c1", "0" * 64, "why"), TurnEnded(1, "awaiting_approval"))
    rule = Rule("r1", "session", "launch", ("execute",))
    granted = (*awaiting, RuleGranted(rule, "c1"), CallDecided("c1", "0" * 64, True), MessageQueued("m1", "boo"))
    for events in (ASKED, awaiting, granted, (*granted, TurnResumed(1)), (*granted, TurnResumed(1), CallStarted("c1"))):
        history = imported(*events)
        assert isinstance(history[-2], CallFinished) and history[-2].status == "interrupted"
        assert history[-1] == TurnEnded(1, "interrupted")
        entries = [Entry(seq, 0, event) for seq, event in enumerate(history)]
        session = Session(dying.agent(), tmp_path, tmp_path, log=EventLog(entries))
        session.recover()
        assert len(session.log) == len(history)
        assert not session.waiting and not session.open_calls() and not session.turn.queue and not session.rules


def test_calls_that_wait_on_other_branches_are_answered_there() -> None:
    awaiting = (*ASKED, CallAwaiting("c1", "0" * 64, "why"), TurnEnded(1, "awaiting_approval"))
    history = imported(*awaiting, TurnStarted(2, UserMessage("other")), TurnEnded(2, "stopped"))
    assert [event for event in history[-4:] if not isinstance(event, CallFinished)] == [
        BranchSelected(1),
        TurnEnded(1, "interrupted"),
        BranchSelected(2),
    ]
    assert Transcript(history).messages == [UserMessage("other")] and not Transcript(history).open_in(1)


def test_files_and_unread_fields_stay_behind() -> None:
    secret = File("/etc/passwd", "passwd", "text/plain", 1)
    call = ToolCall("c1", "launch", "{}", extra={"role": "system"})
    history = imported(
        TurnStarted(1, UserMessage("go")),
        Replied(AssistantMessage("x", tool_calls=(call,), extra={"role": "system"}), "tool_calls"),
        CallFinished("c1", "launch", "done", "", (secret,), images=(secret,)),
        TurnEnded(1, "answered"),
    )
    replied, finished = history[1], history[2]
    assert isinstance(replied, Replied) and isinstance(finished, CallFinished)
    assert replied.message.extra == {} and replied.message.tool_calls[0].extra == {}
    assert finished.files == () and finished.images == ()


def test_a_replay_gets_the_names_of_files_and_no_place() -> None:
    secret = File("/etc/passwd", "passwd", "text/plain", 1)
    content = as_file(*ASKED, CallFinished("c1", "launch", "done", "", (secret,)), TurnEnded(1, "answered"))
    content = content.replace(b'"path": ""', b'"path": "/etc/passwd"')
    finished = import_lines(content, 0, file_names=True).entries[3].event
    assert isinstance(finished, CallFinished) and finished.files == (File("", "passwd", "text/plain", 1),)


def test_a_fault_that_nobody_has_words_for_becomes_one_that_has() -> None:
    history = imported(TurnStarted(1, UserMessage("x")), TurnEnded(1, "error", Fault("from the future", "m", "d")))
    assert history[-1] == TurnEnded(1, "error", Fault("provider_error", "m", "d"))


def test_an_export_names_files_without_their_place() -> None:
    finished = CallFinished("c1", "launch", "done", "", (File("/home/ann/x", "x.txt", "text/plain", 1),))
    content = as_file(*ASKED, CallStarted("c1"), finished).decode()
    assert "x.txt" in content and "/home" not in content


# ---------------------------------------------------------------------- somebody's file


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n\n",
        b"\xff\xfe\x00",
        b"[]",
        b'{"format": "something else", "version": 1, "entries": 0}',
        as_file(),
        as_file(*ASKED, version=2),
        as_file(*ASKED, entries=2),
        as_file(*ASKED, entries=-1),
        as_file(*ASKED, title="x" * 5_000),
        as_file(TurnStarted(1, UserMessage("x")), entries=2) + b"\n" + b"[" * 100_000,
        as_file(TurnStarted(1, UserMessage("x")), entries=2) + b'\n{"seq": 1, "at": 1, "type": "boo"}',
        as_file(TurnStarted(1, UserMessage("x")), entries=2)
        + b'\n{"seq": 1, "at": NaN, "type": "step_started", "step": 1}',
        as_file(TurnStarted(1, UserMessage("x")), entries=2)
        + b'\n{"seq": 1, "at": 1, "type": "step_started", "step": {}}',
        as_file(TurnStarted(1, UserMessage("x")), entries=2) + b'\n{"seq": 1, "at": ' + b"9" * 10_000 + b"}",
        as_file(TurnStarted(1, UserMessage("x")), entries=2) + b"\nnull",
    ],
)
def test_what_is_no_session_is_refused(content: bytes) -> None:
    with pytest.raises(Refused):
        import_lines(content, 0)


@pytest.mark.parametrize(
    "events",
    [
        (StepStarted(1),),
        (Nudged("x", "y"),),
        (TurnStarted(2, UserMessage("x")),),
        (TurnStarted(1, UserMessage("x"), parent=1),),
        (TurnStarted(1, UserMessage("x")), TurnStarted(2, UserMessage("y"), parent=1)),
        (TurnStarted(1, UserMessage("x")), TurnEnded(2, "answered")),
        (TurnStarted(1, UserMessage("x")), BranchSelected(1)),
        (TurnStarted(1, UserMessage("x")), TurnEnded(1, "answered"), BranchSelected(7)),
        (TurnStarted(1, UserMessage("x")), TurnEnded(1, "answered"), TurnResumed(1)),
        (TurnStarted(1, UserMessage("x")), TurnEnded(1, "answered"), Replied(AssistantMessage("x"), "stop")),
        (*ASKED, StepStarted(2)),
        (*ASKED, Replied(AssistantMessage("x"), "stop")),
        (*ASKED, CallFinished("c2", "launch", "done", "")),
        (*ASKED, CallFinished("c1", "launch", "done", ""), CallFinished("c1", "launch", "done", "")),
        (*ASKED, CallStarted("c2")),
        (*ASKED, CallDecided("c2", "", True)),
        (*ASKED, TurnEnded(1, "awaiting_approval"), TurnStarted(2, UserMessage("y"), parent=1)),
        (TurnStarted(1, UserMessage("x")), RequestSent("m", {}, 1, ())),
        (TurnStarted(1, UserMessage("x")), Replied(AssistantMessage(tool_calls=(CALL, CALL)), "tool_calls")),
        (
            TurnStarted(1, UserMessage("x")),
            Replied(AssistantMessage(tool_calls=(ToolCall("c", "x", "[]"),)), "tool_calls"),
        ),
        (TurnStarted(1, UserMessage("x")), Replied(AssistantMessage(tool_calls=(ToolCall("", "x", "{}"),)), "stop")),
        (
            TurnStarted(1, UserMessage("x")),
            Replied(AssistantMessage(tool_calls=(ToolCall("c", "x", "{"),)), "tool_calls"),
        ),
    ],
)
def test_lines_that_make_no_conversation_are_refused(events: tuple[Event, ...]) -> None:
    with pytest.raises(Refused, match="does not follow"):
        imported(*events)


@pytest.mark.parametrize(
    "event",
    [
        Replied(AssistantMessage("x"), "stop", Usage(10**400)),
        Replied(AssistantMessage("x"), "stop", Usage(-(10**9))),  # would give a session more than its limit
        StepStarted(-(10**9)),
        Compacted(5, 10**400),
        TurnEnded(1, "budget", budget=Budget("money", "turn", float("nan"), 1.0)),
        TurnEnded(1, "answered", meter=Meter(seconds=float("inf"))),
    ],
)
def test_numbers_that_cannot_be_are_refused(event: Event) -> None:
    with pytest.raises(Refused, match="line 4 holds a number"):
        imported(TurnStarted(1, UserMessage("x")), StepStarted(1), event)


def test_what_somebody_else_granted_and_expected_stays_behind() -> None:
    message = UserMessage("go", expects=("$ touch made",))
    paused = TurnEnded(1, "budget", budget=Budget("tokens", "session", 5.0, 5.0))
    raised = BudgetRaised("tokens", 1e12, "session")
    events = (TurnStarted(1, message), paused, raised, TurnResumed(1), TurnEnded(1, "interrupted"))
    started, *rest = imported(*events)
    assert started == TurnStarted(1, UserMessage("go"))
    assert rest == [paused, TurnResumed(1), TurnEnded(1, "interrupted")]
    assert import_lines(as_file(*events), 0, file_names=True).entries[0].event == events[0]  # to be looked at


def test_what_is_too_large_is_refused() -> None:
    long = as_file(TurnStarted(1, UserMessage("x" * MAX_LINE)))
    many = as_file(entries=MAX_ENTRIES + 1) + b"\nx" * (MAX_ENTRIES + 1)
    for content, why in ((b"\n" * (MAX_BYTES + 1), "larger"), (long, "too long"), (many, "too many")):
        with pytest.raises(Refused, match=why):
            import_lines(content, 0)


@given(st.binary(max_size=200), st.integers(0, 3), st.integers(0, 400))
def test_any_damage_is_refused_or_harmless(noise: bytes, line: int, at: int) -> None:
    lines = as_file(*ASKED).split(b"\n")
    lines[line] = lines[line][:at] + noise + lines[line][at + len(noise) :]
    try:
        history = import_lines(b"\n".join(lines), 0)
    except Refused:
        return
    assert not Transcript(entry.event for entry in history.entries).open_calls

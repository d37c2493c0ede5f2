"""The audit trail: what becomes of a call, and a chain that shows what was done to it afterwards."""

from __future__ import annotations

import asyncio
import csv
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete, update

from agent.agent import Agent
from agent.audit import AuditRow, as_csv, as_json_lines, chained, verify
from agent.events import CallFinished, CallStarted, Replied, StepStarted, TurnStarted
from agent.log import EventLog
from agent.messages import AssistantMessage, ToolCall, UserMessage
from agent.policy import Policy, Verdict, arguments_hash
from agent.session import Session
from agent.store import Store, schema
from agent.store.engine import connect, writing
from agent.tool import Effect, Toolbox, ToolContext, ToolResult, tool
from tests.scripted import ScriptedModel, call

Open = Callable[..., Store]


@tool(Effect.READ)
async def look(context: ToolContext, at: str) -> str:
    """Look."""
    return at


@tool(Effect.WRITE)
async def write(context: ToolContext, text: str) -> ToolResult:
    """Write."""
    return ToolResult("written", details={"changed": [{"path": "a", "bytes": len(text)}, {"path": "b", "bytes": 2}]})


@tool(Effect.EXECUTE)
async def launch(context: ToolContext, what: str) -> str:
    """Launch."""
    return what


@tool(Effect.SPEND)
async def spend(context: ToolContext) -> str:
    """Spend."""
    return "spent"


POLICY = Policy({Effect.EXECUTE: Verdict("ask"), Effect.SPEND: Verdict("deny", "no money")})


def calls_in(store: Store, owner: str, session_id: str, count: int) -> None:
    """A log in which `count` calls were made and answered."""
    log = EventLog(sink=store.journal(owner, session_id))
    log.append(TurnStarted(1, UserMessage("go")))
    for number in range(count):
        one = ToolCall(f"c{number}", "look", json.dumps({"at": number}))
        log.append(StepStarted(number + 1))
        log.append(Replied(AssistantMessage(tool_calls=(one,)), "tool_calls"))
        log.append(CallStarted(one.id))
        log.append(CallFinished(one.id, one.name, "done", "seen"))


def test_a_row_says_what_became_of_a_call(store: Store, tmp_path: Path) -> None:
    script = [
        [call("look", "r1", at="s3cret place"), call("write", "w1", text="five!"), call("spend", "p1")],
        [call("launch", "x1", what="a"), call("launch", "x2", what="b"), call("nothing", "n1")],
        [call("launch", "x3", what="c")],
        "done",
    ]

    async def scenario() -> None:
        agent = Agent(ScriptedModel(*script), Toolbox([look, write, launch, spend]), policy=POLICY)  # type: ignore[arg-type]
        log = EventLog(sink=store.journal("ann", "s1"))
        session = Session(agent, tmp_path, tmp_path, "ann", log, "s1")
        session.send("go")
        await session.wait()
        for one, allowed in zip(session.open_calls(), (True, False), strict=True):
            session.decide(one.id, arguments_hash(one), allowed)
        assert await session.wait() == "awaiting_approval"
        session.send("never mind")
        await session.wait()

    asyncio.run(scenario())
    rows = {row.call_id: row for row in store.audit_rows()}
    assert {id: (row.verdict, row.decided_by, row.status) for id, row in rows.items()} == {
        "r1": ("allow", "policy", "done"),
        "w1": ("allow", "policy", "done"),
        "p1": ("deny", "policy", "denied"),
        "x1": ("allow", "person", "done"),
        "x2": ("deny", "person", "denied"),
        "n1": ("allow", "policy", "failed"),
        "x3": ("none", "", "denied"),
    }
    assert rows["r1"].arguments == '{"at": "*** place"}' and rows["w1"].bytes == 7 and rows["r1"].bytes is None
    assert {row.owner for row in rows.values()} == {"ann"} and {row.session_id for row in rows.values()} == {"s1"}
    assert rows["x1"].seconds is not None and rows["x1"].seconds >= 0 and rows["x2"].seconds is None
    assert verify(store).ok and verify(store).rows == 7


CHANGES = [
    (lambda t: update(t).where(t.c.n == 3).values(status="denied"), 3),
    (lambda t: update(t).where(t.c.n == 3).values(at=t.c.at + 1), 3),
    (lambda t: update(t).where(t.c.n == 1).values(previous="0" * 64), 1),
    (lambda t: delete(t).where(t.c.n == 1), 1),
    (lambda t: delete(t).where(t.c.n == 4), 4),
    (lambda t: delete(t).where(t.c.n == 6), 6),
    (lambda t: delete(t).where(t.c.n > 4), 5),
    (lambda t: delete(t), 1),
]


@pytest.mark.parametrize(("change", "broken"), CHANGES)
def test_any_change_is_found_and_the_first_row_named(
    open_store: Open, tmp_path: Path, change: Callable[[object], object], broken: int
) -> None:
    store = open_store()
    calls_in(store, "ann", "s1", 6)
    assert verify(store).ok
    engine = connect("", tmp_path / "data")
    with writing(engine) as connection:
        connection.execute(change(schema.audit))  # type: ignore[call-overload]
    engine.dispose()
    report = verify(store)
    assert not report.ok and report.broken == broken and report.rows == broken - 1 and str(broken) in report.why


class Rows:
    """Rows that somebody put together."""

    def __init__(self, rows: list[AuditRow], head: tuple[int, str]) -> None:
        self._rows, self._head = rows, head

    def audit_rows(self) -> list[AuditRow]:
        return self._rows

    def audit_head(self) -> tuple[int, str]:
        return self._head


def test_moved_forged_and_added_rows_are_found(open_store: Open) -> None:
    store = open_store()
    calls_in(store, "ann", "s1", 5)
    rows, head = list(store.audit_rows()), store.audit_head()
    assert verify(Rows(rows, head)).ok
    swapped = [*rows[:2], replace(rows[3], n=3), replace(rows[2], n=4), rows[4]]
    assert verify(Rows(swapped, head)).broken == 3
    forged = chained(replace(rows[2], status="failed"), 3, rows[1].hash)
    assert verify(Rows([*rows[:2], forged, *rows[3:]], head)).broken == 4
    added = chained(rows[0], 6, rows[4].hash)
    assert verify(Rows([*rows, added], head)).broken == 6
    assert verify(Rows([], (0, ""))).ok


def test_two_writers_do_not_fork_the_chain(store: Store) -> None:
    writers = [threading.Thread(target=calls_in, args=(store, "ann", f"s{number}", 20)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    report = verify(store)
    assert report.ok and report.rows == 80 and report.head == store.audit_head()[1]


def test_the_trail_outlives_its_session_and_can_be_filtered(store: Store) -> None:
    calls_in(store, "ann", "s1", 3)
    calls_in(store, "bob", "s2", 2)
    store.delete("ann", "s1")
    store.purge(float("inf"))
    rows = list(store.audit_rows())
    assert len(rows) == 5 and verify(store).ok
    assert [row.n for row in store.audit_rows(owner="bob")] == [4, 5]
    assert len(list(store.audit_rows(session_id="s1", tool="look"))) == 3
    assert list(store.audit_rows(tool="nothing")) == []
    assert [row.n for row in store.audit_rows(since=rows[1].at, until=rows[3].at)] == [2, 3]


def test_exports_hold_every_row_and_no_formula(store: Store) -> None:
    calls_in(store, "ann", "s1", 1)
    [row] = store.audit_rows()
    odd = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", 'a "quoted", cell\nof two lines', "中文", ""]
    rows = [replace(row, tool=text) for text in odd]
    assert [json.loads(line)["tool"] for line in as_json_lines(rows)] == odd
    read = list(csv.DictReader("\n".join(as_csv(rows)).splitlines(keepends=True)))
    assert [cells["tool"] for cells in read[-3:]] == odd[-3:]
    assert [cells["tool"] for cells in read[:-3]] == ["'" + text for text in odd[:-3]]
    assert read[0]["hash"] == row.hash and next(iter(read[0])) == "at"

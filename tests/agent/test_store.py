"""The store on a real SQLite file and a real PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, inspect, select

from agent.errors import NotKept, Refused, StoreError
from agent.events import (
    CallFinished,
    CallStarted,
    Event,
    Fault,
    Replied,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from agent.log import EventLog
from agent.messages import AssistantMessage, ToolCall, UserMessage
from agent.store import Store, schema
from agent.store.engine import connect, reading

Open = Callable[..., Store]


def turn(number: int, said: str, answer: str) -> list[Event]:
    """The events of a short turn."""
    parent = number - 1 or None
    deltas = [TextDelta(answer[i : i + 4]) for i in range(0, len(answer), 4)]
    start = TurnStarted(number, UserMessage(said), parent=parent)
    return [start, StepStarted(1), *deltas, Replied(AssistantMessage(answer), "stop"), TurnEnded(number, "answered")]


def write(store: Store, owner: str, session_id: str, *events: Event) -> EventLog:
    log = EventLog(sink=store.journal(owner, session_id))
    for event in events:
        log.append(event)
    return log


# ---------------------------------------------------------------------- what is written can be read


def test_a_log_comes_back_as_it_was(store: Store) -> None:
    odd = "half \ud83d, NUL \0, 中文, 😀"
    call = ToolCall("c\0", "note\0", '{"text": "\\ud83d"}')
    log = write(
        store,
        "ann",
        "s1",
        TurnStarted(1, UserMessage(odd)),
        StepStarted(1),
        TextDelta(odd),
        Replied(AssistantMessage(odd, tool_calls=(call,)), "tool_calls"),
        CallStarted(call.id),
        CallFinished(call.id, call.name, "done", odd, details={"odd": odd, "n": float("inf")}),
        TurnEnded(1, "answered"),
    )
    kept = store.load("ann", "s1")
    assert kept.entries == list(log.since(0))
    log = EventLog(kept.entries, kept.journal)
    log.append(TurnStarted(2, UserMessage("more"), parent=1))
    assert store.load("ann", "s1").entries == list(log.since(0))
    [row] = store.audit_rows()
    assert row.status == "done" and store.search("ann", "中文")


def test_details_that_are_no_json_are_kept_as_text(store: Store, tmp_path: Path) -> None:
    call = ToolCall("c1", "note", "{}")
    write(
        store,
        "ann",
        "s1",
        TurnStarted(1, UserMessage("x")),
        Replied(AssistantMessage(tool_calls=(call,)), "tool_calls"),
        CallFinished("c1", "note", "done", "", details={"path": tmp_path}),
    )
    finished = store.load("ann", "s1").entries[-1].event
    assert isinstance(finished, CallFinished) and finished.details == {"path": str(tmp_path)}


def test_deltas_reach_the_disk_with_the_next_event_or_after_a_moment(open_store: Open) -> None:
    store = open_store()

    async def scenario() -> None:
        log = write(store, "ann", "s1", TurnStarted(1, UserMessage("x")), TextDelta("a"))
        assert len(store.load("ann", "s1").entries) == 1
        log.append(StepStarted(2))
        assert len(store.load("ann", "s1").entries) == 3
        log.append(TextDelta("b"))
        deadline = asyncio.get_running_loop().time() + 10
        while len(store.load("ann", "s1").entries) < 4:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.02)

    asyncio.run(scenario())


def test_another_writer_of_the_same_session_is_refused(store: Store) -> None:
    write(store, "ann", "s1", TurnStarted(1, UserMessage("x")))
    one, other = store.load("ann", "s1"), store.load("ann", "s1")
    EventLog(one.entries, one.journal).append(StepStarted(1))
    log = EventLog(other.entries, other.journal)
    with pytest.raises(NotKept, match="Another process"):
        log.append(StepStarted(7))
    assert len(log) == 1
    assert [e.event for e in store.load("ann", "s1").entries[1:]] == [StepStarted(1)]


# ---------------------------------------------------------------------- owners, lists, deletion


def test_a_session_is_nobody_elses(store: Store) -> None:
    write(store, "ann", "s1", *turn(1, "a private thing", "yes"))
    answers = set()
    for owner, session_id in (("bob", "s1"), ("ann", "s2"), ("", "s1")):
        for ask in (
            lambda o, s: store.load(o, s),
            lambda o, s: store.rename(o, s, "mine now"),
            lambda o, s: store.pin(o, s),
            lambda o, s: store.delete(o, s),
            lambda o, s: store.undelete(o, s),
            lambda o, s: store.summary(o, s),
        ):
            with pytest.raises(Refused) as refused:
                ask(owner, session_id)
            answers.add(str(refused.value))
    assert len(answers) == 1
    assert store.summaries("bob") == [] and store.search("bob", "private") == []
    assert store.summary("ann", "s1").title == "a private thing"


def test_the_list_has_titles_and_an_order(store: Store) -> None:
    for number in range(3):
        write(store, "ann", f"s{number}", *turn(1, f"\n  question {number}\nmore", "yes"))
    store.pin("ann", "s0")
    store.rename("ann", "s1", "  a better name ")
    with pytest.raises(Refused):
        store.rename("ann", "s1", " ")
    assert [(s.id, s.title, s.ended) for s in store.summaries("ann")] == [
        ("s0", "question 0", "answered"),
        ("s2", "question 2", "answered"),
        ("s1", "a better name", "answered"),
    ]
    kept = store.load("ann", "s1")
    EventLog(kept.entries, kept.journal).append(TurnStarted(2, UserMessage("x"), parent=1))
    assert store.summary("ann", "s1").title == "a better name" and store.summary("ann", "s1").ended is None


def test_deleting_can_be_undone_until_it_is_purged(store: Store) -> None:
    write(store, "ann", "s1", *turn(1, "find me", "here"))
    store.outbox("s1").mkdir(parents=True)
    (store.outbox("s1") / "file").write_text("x")
    store.delete("ann", "s1")
    assert store.summaries("ann") == [] and store.search("ann", "find") == []
    with pytest.raises(Refused):
        store.load("ann", "s1")
    assert store.purge(0) == 0
    store.undelete("ann", "s1")
    assert len(store.load("ann", "s1").entries) == 5 and store.search("ann", "find")
    store.delete("ann", "s1")
    assert store.purge(float("inf")) == 1
    assert not store.outbox("s1").exists()
    with pytest.raises(Refused):
        store.undelete("ann", "s1")
    write(store, "ann", "s2", *turn(1, "another", "one"))
    assert [found.session.id for found in store.search("ann", "another")] == ["s2"]


# ---------------------------------------------------------------------- search


SEARCHES = {
    "天": ["zh"],
    "天气": ["zh"],
    "天气怎么样": ["zh"],
    "北京 怎么": ["zh"],
    "北京 x": [],
    "WEATHER": ["en"],
    "eath": ["en"],
    "rain 5%": ["en"],
    "%": ["en"],
    "_": [],
    '"rain': [],
    "rain*": [],
    "NEAR(rain": [],
    "  ": [],
    "\0": [],
}


def test_search_finds_parts_of_words_in_any_script(store: Store) -> None:
    write(store, "ann", "zh", *turn(1, "今天北京的天气怎么样？", "晴"))
    write(store, "ann", "en", *turn(1, "The weather?", "Rain, 5% sun"))
    found = {query: sorted({place.session.id for place in store.search("ann", query)}) for query in SEARCHES}
    assert found == SEARCHES


def test_search_names_the_place(store: Store) -> None:
    call = ToolCall("c1", "note", "{}")
    write(
        store,
        "ann",
        "s1",
        TurnStarted(1, UserMessage("go")),
        Replied(AssistantMessage("", tool_calls=(call,)), "tool_calls"),
        CallFinished("c1", "note", "done", "x" * 200 + " the needle\nin a haystack " + "y" * 200),
        StepStarted(2),
        TextDelta("I was about to say hay"),
        TurnEnded(1, "stopped"),
    )
    [found] = store.search("ann", "NEEDLE")
    assert (found.session.id, found.seq, found.who) == ("s1", 2, "tool")
    assert "xxx the needle in a haystack yyy" in found.excerpt and len(found.excerpt) < 140
    assert [f.who for f in store.search("ann", "hay")] == ["model", "tool"]


# ---------------------------------------------------------------------- databases that cannot be used


def test_a_newer_database_is_refused_and_left_alone(open_store: Open, tmp_path: Path) -> None:
    open_store().close()
    path = tmp_path / "data" / "glassloop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema_version SET version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer version"):
        open_store()
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database, surely" * 100, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_database_is_refused_and_left_alone(open_store: Open, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data" / "glassloop.db"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StoreError, match="cannot be read"):
        open_store()
    assert path.read_bytes() == content


def test_another_programs_database_is_refused(open_store: Open, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with sqlite3.connect(tmp_path / "data" / "glassloop.db") as connection:
        connection.execute("CREATE TABLE customers (name)")
    connection.close()
    with pytest.raises(StoreError, match="another program"):
        open_store()


def test_a_damaged_log_is_said_to_be_damaged(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    write(store, "ann", "s1", *turn(1, "x", "y"))
    for change in ("data = '{'", "type = 'from_the_future'", 'data = \'{"step": "one"}\'', "seq = 77"):
        with sqlite3.connect(tmp_path / "data" / "glassloop.db") as connection:
            connection.execute(f"UPDATE entries SET {change} WHERE seq = 1")
        connection.close()
        with pytest.raises(StoreError):
            store.load("ann", "s1")


@pytest.mark.parametrize("url", ["nonsense", "oracle://a:pa55@b/c", "postgresql://u:pa55@127.0.0.1:1/x"])
def test_a_database_that_is_not_there_is_named_without_its_password(open_store: Open, url: str) -> None:
    with pytest.raises(StoreError) as error:
        open_store(url)
    assert "pa55" not in str(error.value) and "pa55" not in repr(error.value.__cause__)


def test_an_older_database_is_upgraded_in_one_piece(open_store: Open, tmp_path: Path) -> None:
    write(open_store(), "ann", "s1", *turn(1, "x", "y"))

    def add_column(connection: Connection) -> None:
        connection.exec_driver_sql("ALTER TABLE sessions ADD COLUMN colour TEXT")

    def fail(connection: Connection) -> None:
        raise ZeroDivisionError

    engine = connect("", tmp_path / "data")

    def version_and_columns() -> tuple[int, bool]:
        with reading(engine) as connection:
            columns = [row[1] for row in connection.exec_driver_sql("PRAGMA table_info(sessions)")]
            return connection.execute(select(schema.schema_version.c.version)).scalar_one(), "colour" in columns

    with pytest.raises(ZeroDivisionError), reading(engine) as connection:
        schema.prepare(connection, [*schema.MIGRATIONS, add_column, fail])
    newest = len(schema.MIGRATIONS) + 1
    assert version_and_columns() == (newest, False)
    for _ in range(2):  # the second time there is nothing to do
        with reading(engine) as connection:
            schema.prepare(connection, [*schema.MIGRATIONS, add_column])
        assert version_and_columns() == (newest + 1, True)
    engine.dispose()


def test_each_earlier_version_becomes_the_newest_and_keeps_its_data(database_url: str, tmp_path: Path) -> None:
    def kind(type_: object) -> str:
        return str(type_).split("(")[0].replace("DOUBLE", "REAL")  # the same to SQLite

    def layout(engine: Engine) -> dict[str, Any]:
        found = inspect(engine)
        return {
            table: (
                {(one["name"], kind(one["type"]), one["nullable"]) for one in found.get_columns(table)},
                found.get_pk_constraint(table)["constrained_columns"],
                {tuple(index["column_names"]) for index in found.get_indexes(table)},
            )
            for table in ("memories", "owners", "sessions", "entries")
        }

    store = Store(tmp_path / "data", str, database_url)
    write(store, "ann", "s1", *turn(1, "早上好", "y"))
    store.close()
    engine = connect(database_url, tmp_path / "data")
    new = layout(engine)
    with reading(engine) as connection:  # as the first version left it
        connection.exec_driver_sql("DROP TABLE memories")
        connection.exec_driver_sql("DROP TABLE owners")
        connection.exec_driver_sql("UPDATE schema_version SET version = 1")
    store = Store(tmp_path / "data", str, database_url)
    assert layout(engine) == new
    assert len(store.load("ann", "s1").entries) == 5 and store.search("ann", "早上好")
    store.memories("ann").add("喝茶", "s1", always=True)
    [kept] = store.memories("ann").all()
    assert (kept.text, kept.always, kept.session_id) == ("喝茶", True, "s1")
    store.close()
    engine.dispose()


@pytest.mark.skipif(sys.platform == "win32", reason="file modes")
def test_the_database_is_for_nobody_else(open_store: Open, tmp_path: Path) -> None:
    write(open_store(), "ann", "s1", *turn(1, "x", "y"))
    for path in (tmp_path / "data").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or path.is_dir()


# ---------------------------------------------------------------------- a full disk


def test_a_full_disk_refuses_and_loses_nothing_that_was_told(small_disk: Path, open_store: Open) -> None:
    store = open_store()
    log = write(store, "ann", "s1", TurnStarted(1, UserMessage("x")))
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 50_000)
    with pytest.raises(NotKept) as full:
        for step in range(1, 1_000):
            log.append(TextDelta("y" * 1_000))
            log.append(StepStarted(step))
    assert full.value.fault == Fault("disk_full", str(full.value))
    told = list(log.since(0))
    assert isinstance(told[-1].event, TextDelta) and store.load("ann", "s1").entries == told[:-1]
    log.append(TurnEnded(1, "error", full.value.fault))  # told, though it cannot be kept yet
    ballast.unlink()
    log.append(TurnStarted(2, UserMessage("again"), parent=1))
    assert store.load("ann", "s1").entries == list(log.since(0))


# ---------------------------------------------------------------------- threads


def test_the_list_may_be_read_from_another_thread_while_a_log_is_written(store: Store) -> None:
    seen: list[Any] = []

    def look() -> None:
        for _ in range(50):
            seen.append(len(store.summaries("ann")))

    looking = threading.Thread(target=look)
    looking.start()
    for number in range(20):
        write(store, "ann", f"s{number}", *turn(1, "x", "y"))
    looking.join()
    assert seen == sorted(seen) and len(store.summaries("ann")) == 20

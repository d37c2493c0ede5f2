"""One session's writer: the sink of its log.

Every event is committed before a reader is told of it. Only deltas are told first: they wait a moment for company, and
the next event of another kind takes them into its transaction, so what is kept is always a whole beginning of what was
told. Everything derived from the log (title, search, audit) is written in the same transaction.

Knows what an event changes in which table. Refuses to know how a database is reached, and what a turn is for.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, bindparam, case

from agent.audit import AuditRow, Trail, chained
from agent.errors import NotKept
from agent.events import (
    CallDelta,
    CallFinished,
    Delegated,
    OutputDelta,
    ReasoningDelta,
    Replied,
    Retrying,
    Steered,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from agent.log import Entry, dump_entry
from agent.store import schema

logger = logging.getLogger(__name__)

DELTAS = (TextDelta, ReasoningDelta, CallDelta, OutputDelta)

BATCH_SECONDS = 0.25
"""How long a delta may wait: what a crash can take of a sentence that nobody has finished."""

MAX_TOOL_TEXT = 2_000
"""Characters of a tool's result that can be searched; more would make the index larger than the log."""


# Statements are built once: building one takes longer than running it.
_ADD_ENTRY, _ADD_SAID, _ADD_ROW = schema.entries.insert(), schema.said.insert(), schema.audit.insert()
_OF_SESSION = schema.sessions.update().where(schema.sessions.c.key == bindparam("this"))
_TITLE = case((schema.sessions.c.title == "", bindparam("said")), else_=schema.sessions.c.title)
_TURN_STARTED = _OF_SESSION.values(changed_at=bindparam("at"), ended=None, title=_TITLE)
_TURN_ENDED = _OF_SESSION.values(changed_at=bindparam("at"), ended=bindparam("reason"))
_HEAD = schema.audit_head.select()
_HOLD_HEAD = schema.audit_head.update().values(n=schema.audit_head.c.n + 1)
_MOVE_HEAD = schema.audit_head.update().values(hash=bindparam("moved_to"))


@dataclass(frozen=True)
class Said:
    who: str
    text: str


class Journal:
    """Writes one session. Lives in one event loop, or in none: then deltas wait for the next event."""

    def __init__(
        self,
        begin: Callable[[], AbstractContextManager[Connection]],
        session_id: str,
        owner: str,
        trail: Trail,
        key: int | None = None,
        history: Iterable[Entry] = (),
    ) -> None:
        self._begin = begin
        self._id, self._owner, self._key = session_id, owner, key
        self._trail = trail
        self._reply: list[str] = []  # the text deltas of a reply that is not finished
        self._pending: list[tuple[Entry, Said | None, AuditRow | None]] = []
        self._timer: asyncio.TimerHandle | None = None
        for entry in history:
            self._go_on(entry)

    def __call__(self, entry: Entry) -> None:
        """Keep this entry. Raises NotKept, and has not kept it then."""
        self._pending.append((entry, self._said(entry), self._trail.row(entry)))
        if _told_first(entry):
            self._flush_soon()
        else:
            try:
                self.flush()
            except BaseException:
                self._pending.pop()
                raise
        self._go_on(entry)

    def take_over(self, entries: Iterable[Entry]) -> None:
        """Write a log that was made elsewhere, in one piece. Its calls did not run here: they make no audit rows."""
        for entry in entries:
            self._pending.append((entry, self._said(entry), None))
            self._go_on(entry)
        self.flush()

    def flush(self) -> None:
        """Write what waits. Raises NotKept; it goes on waiting then."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._pending:
            return
        with self._begin() as connection:
            key = self._key if self._key is not None else self._create(connection)
            self._write(connection, key)
        self._key = key
        self._pending.clear()

    # ------------------------------------------------------------------ inside

    def _flush_soon(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._timer is None:
            self._timer = loop.call_later(BATCH_SECONDS, self._flush_late)

    def _flush_late(self) -> None:
        try:
            self.flush()
        except NotKept as error:  # the next event tries again, and ends its turn if it must
            logger.warning("session %s: %s", self._id, error)

    def _go_on(self, entry: Entry) -> None:
        self._trail.add(entry)
        if isinstance(entry.event, TextDelta):
            self._reply.append(entry.event.text)
        elif isinstance(entry.event, (StepStarted, Retrying, Replied, TurnEnded)):
            self._reply.clear()

    def _said(self, entry: Entry) -> Said | None:
        event = entry.event
        if isinstance(event, (TurnStarted, Steered)):
            return Said("person", event.message.text)
        if isinstance(event, Replied):
            return Said("model", event.message.text)
        if isinstance(event, CallFinished):
            return Said("tool", event.text[:MAX_TOOL_TEXT])
        if isinstance(event, Delegated):  # its task and how it ended stand in the call that runs it
            inner = isinstance(event.event, (Replied, CallFinished))
            return self._said(replace(entry, event=event.event)) if inner else None
        if isinstance(event, TurnEnded):  # cut off in mid-reply: what was said was said
            return Said("model", "".join(self._reply))
        return None

    def _create(self, connection: Connection) -> int:
        at = self._pending[0][0].at
        row = {"id": self._id, "owner": self._owner, "title": "", "pinned": False, "created_at": at, "changed_at": at}
        created = connection.execute(schema.sessions.insert(), row).inserted_primary_key
        assert created is not None
        return int(created[0])

    def _write(self, connection: Connection, key: int) -> None:
        connection.execute(_ADD_ENTRY, [_entry_row(key, entry) for entry, _, _ in self._pending])
        for entry, said, row in self._pending:
            if said is not None and said.text.strip():
                values = {"session": key, "seq": entry.seq, "who": said.who, "text": storable(said.text)}
                connection.execute(_ADD_SAID, values)
            if row is not None:
                _append_to_chain(connection, row)
            if isinstance(entry.event, TurnStarted):
                values = {"this": key, "at": entry.at, "said": title_of(entry.event.message.text)}
                connection.execute(_TURN_STARTED, values)
            elif isinstance(entry.event, TurnEnded):
                connection.execute(_TURN_ENDED, {"this": key, "at": entry.at, "reason": entry.event.reason})


def _told_first(entry: Entry) -> bool:
    """Deltas, and the news that nothing can be kept."""
    event = entry.event.event if isinstance(entry.event, Delegated) else entry.event
    if isinstance(event, TurnEnded) and event.fault is not None:
        return event.fault.code in ("disk_full", "storage_failed")
    return isinstance(event, DELTAS)


def _append_to_chain(connection: Connection, row: AuditRow) -> None:
    """Whoever updates the head holds it until the commit, so two writers cannot fork the chain."""
    connection.execute(_HOLD_HEAD)
    n, previous = connection.execute(_HEAD).one()
    row = replace(
        row, call_id=storable(row.call_id), tool=storable(row.tool), arguments=storable(row.arguments)
    )  # the model's own words, and the hash is of what is kept
    placed = chained(row, n, previous)
    connection.execute(_ADD_ROW, vars(placed))
    connection.execute(_MOVE_HEAD, {"moved_to": placed.hash})


def _entry_row(key: int, entry: Entry) -> dict[str, Any]:
    data = dump_entry(entry)
    row = {"session": key, "seq": data.pop("seq"), "at": data.pop("at"), "type": data.pop("type")}
    return {**row, "data": to_json(data)}


def to_json(data: Any) -> str:
    """JSON that a database can hold, whatever a model or a command has put into it. What is no JSON becomes text."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
    return text if text.isascii() or _encodes(text) else json.dumps(data, separators=(",", ":"), default=str)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape
        return False
    return True


def storable(text: str) -> str:
    """The text as a column can hold it: no half characters, no NUL (PostgreSQL takes neither)."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def title_of(text: str) -> str:
    """The first line the person wrote, cut."""
    return storable(text.strip().split("\n")[0][:60])

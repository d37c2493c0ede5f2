"""The store: what is kept of every session, and to whom it belongs.

Every method that touches a session takes its owner, and a session of somebody else is answered exactly as one that
does not exist. Listing and searching never read a log.

Knows rows. Refuses to know live sessions (`agent/sessions.py` does) and what goes into a row when something happens
(`journal.py` beside this file does).
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Connection, Select, delete, select, text

from agent.audit import AuditRow, Trail
from agent.errors import Refused, StoreError
from agent.log import Entry, load_entry
from agent.store import schema
from agent.store.engine import connect, reading, writing
from agent.store.holds import Holds
from agent.store.journal import Journal, title_of
from agent.store.memories import Memories

NO_SESSION = "there is no such session"
ELSEWHERE = "this conversation is open in another process of the app, such as a task in a terminal"

KEEP_DELETED_SECONDS = 30 * 24 * 3600
"""How long a deletion can be undone."""

TRIGRAM = 3
"""The shortest term SQLite's trigram index can find; shorter ones are looked for row by row."""


@dataclass(frozen=True)
class Summary:
    """A line in the list of sessions."""

    id: str
    title: str
    pinned: bool
    ended: str | None
    """How its last turn ended; None while one runs, or where the app ended in the middle of one."""
    created_at: float
    changed_at: float


@dataclass(frozen=True)
class Found:
    """A place where something was said."""

    session: Summary
    seq: int
    """The entry in the session's log."""
    who: str
    """person, model or tool."""
    excerpt: str
    """Some characters around the first term that was found."""


@dataclass(frozen=True)
class Kept:
    """A session as it was kept, ready to be opened."""

    id: str
    owner: str
    entries: list[Entry]
    journal: Journal


class Store:
    """Opened once, used from any thread; a `Journal` belongs to its session's event loop. Close it at the end."""

    def __init__(self, data_dir: Path, scrub: Callable[[str], str], database_url: str = "") -> None:
        """Create or upgrade the database. Raises StoreError for one that is newer, damaged or not to be reached.

        `scrub` takes secrets out of a text: no argument of a tool call enters the audit trail without it.
        """
        self._outboxes = data_dir.absolute() / "files"
        self.scrub = scrub
        self._holds = Holds(data_dir.absolute() / "sessions.lock")
        self._engine = connect(database_url, data_dir)
        try:
            with reading(self._engine) as connection:
                schema.prepare(connection)
        except BaseException:
            self._engine.dispose()
            raise

    def close(self) -> None:
        self._engine.dispose()
        self._holds.close()

    # ------------------------------------------------------------------ one session

    def outbox(self, session_id: str) -> Path:
        """The folder of the session's handed-over files, absolute; not made yet."""
        return self._outboxes / session_id

    def hold(self, session_id: str) -> None:
        """Take the session for this process until `release`. Raises Refused where another process has it."""
        if not self._holds.take(session_id):
            raise Refused(ELSEWHERE)

    def release(self, session_id: str) -> None:
        self._holds.release(session_id)

    def journal(self, owner: str, session_id: str) -> Journal:
        """The writer of a new session. The session is in the database from its first event on."""
        return Journal(self._begin, session_id, owner, Trail(owner, session_id, self.scrub))

    def memories(self, owner: str) -> Memories:
        """What is remembered of this owner, and of nobody else."""
        return Memories(self._engine, owner, self.scrub)

    def load(self, owner: str, session_id: str) -> Kept:
        """Read a whole log. Raises Refused where the owner has no such session, StoreError where it is unreadable."""
        with reading(self._engine) as connection:
            key = self._key(connection, owner, session_id)
            columns = (schema.entries.c.seq, schema.entries.c.at, schema.entries.c.type, schema.entries.c.data)
            rows = connection.execute(
                select(*columns).where(schema.entries.c.session == key).order_by(schema.entries.c.seq)
            )
            entries = [_entry(seq, at, type_, data) for seq, at, type_, data in rows]
        if [entry.seq for entry in entries] != list(range(len(entries))):
            raise StoreError(f"The log of session {session_id} has gaps.")
        trail = Trail(owner, session_id, self.scrub)
        return Kept(session_id, owner, entries, Journal(self._begin, session_id, owner, trail, key, entries))

    def summary(self, owner: str, session_id: str) -> Summary:
        """Raises Refused where the owner has no such session."""
        with reading(self._engine) as connection:
            key = self._key(connection, owner, session_id)
            return _summary(connection.execute(_summaries().where(schema.sessions.c.key == key)).one())

    def rename(self, owner: str, session_id: str, title: str) -> None:
        """Raises Refused for an empty title, and where the owner has no such session."""
        if not (cut := title_of(title)):
            raise Refused("an empty title")
        self._change(owner, session_id, title=cut)

    def pin(self, owner: str, session_id: str, pinned: bool = True) -> None:
        self._change(owner, session_id, pinned=pinned)

    def delete(self, owner: str, session_id: str) -> None:
        """Out of sight, until `undelete` brings it back or `purge` ends it."""
        self._change(owner, session_id, deleted_at=time.time())

    def undelete(self, owner: str, session_id: str) -> None:
        """Raises Refused where the owner has not deleted such a session, or it is purged already."""
        self._change(owner, session_id, deleted=True, deleted_at=None)

    # ------------------------------------------------------------------ many sessions

    def summaries(self, owner: str) -> list[Summary]:
        """The owner's sessions: the pinned ones, then the others, each with the latest first."""
        sessions = schema.sessions.c
        order = (sessions.pinned.desc(), sessions.changed_at.desc(), sessions.key.desc())
        with reading(self._engine) as connection:
            return [_summary(row) for row in connection.execute(_summaries().where(_of(owner)).order_by(*order))]

    def search(self, owner: str, query: str, limit: int = 50) -> list[Found]:
        """Where the owner's sessions say all words of `query`, as parts of words, in any case; the latest first."""
        terms = query.replace("\0", " ").split()
        if not terms:
            return []
        found = (
            select(*_summaries().selected_columns, schema.said.c.seq, schema.said.c.who, schema.said.c.text)
            .join_from(schema.said, schema.sessions)
            .where(_of(owner), *(self._says(f"term{i}", term) for i, term in enumerate(terms)))
            .order_by(schema.said.c.key.desc())
            .limit(limit)
        )
        with reading(self._engine) as connection:
            rows = connection.execute(found).all()
        return [Found(_summary(row), row.seq, row.who, _excerpt(row.text, terms[0])) for row in rows]

    def purge(self, deleted_before: float | None = None, clear: Callable[[str], None] = lambda _: None) -> int:
        """End the sessions deleted before this time (30 days ago) and their files; return how many. Memories, too.

        `clear` is told each id before: it removes what else is kept of the session, and what it raises leaves all the
        sessions for the next time. Their audit rows stay. May take a while: at start, or in a thread.
        """
        before = time.time() - KEEP_DELETED_SECONDS if deleted_before is None else deleted_before
        sessions = schema.sessions.c
        with reading(self._engine) as connection:
            query = select(sessions.key, sessions.id).where(sessions.deleted_at < before)
            gone = {key: session_id for key, session_id in connection.execute(query)}
        for session_id in gone.values():
            clear(session_id)
            if (outbox := self.outbox(session_id)).is_dir():
                shutil.rmtree(outbox)
        keys = list(gone)
        with writing(self._engine) as connection:
            for table in (schema.entries, schema.said):
                connection.execute(delete(table).where(table.c.session.in_(keys)))
            connection.execute(delete(schema.sessions).where(schema.sessions.c.key.in_(keys)))
            connection.execute(delete(schema.memories).where(schema.memories.c.deleted_at < before))
        return len(gone)

    def whose(self, session_id: str = "") -> tuple[str, str]:
        """For the operator: the owner and the id of a session, of the one that changed last without `session_id`.

        Raises Refused where there is none.
        """
        sessions = schema.sessions.c
        wanted = [sessions.deleted_at.is_(None), *([sessions.id == session_id] if session_id else [])]
        query = select(sessions.owner, sessions.id).where(*wanted).order_by(sessions.changed_at.desc()).limit(1)
        with reading(self._engine) as connection:
            found = connection.execute(query).first()
        if found is None:
            raise Refused(NO_SESSION)
        return found.owner, found.id

    # ------------------------------------------------------------------ the audit trail

    def audit_rows(
        self,
        owner: str | None = None,
        session_id: str | None = None,
        tool: str | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> Iterator[AuditRow]:
        """The rows in order, those that fit all that is given. For the operator: without `owner`, everybody's."""
        column = schema.audit.c
        wanted = [
            each == value
            for each, value in ((column.owner, owner), (column.session_id, session_id), (column.tool, tool))
            if value is not None
        ]
        wanted += [column.at >= since] if since is not None else []
        wanted += [column.at < until] if until is not None else []
        with reading(self._engine) as connection:
            for row in connection.execution_options(yield_per=1_000).execute(
                select(schema.audit).where(*wanted).order_by(column.n)
            ):
                yield AuditRow(**row._mapping)

    def audit_head(self) -> tuple[int, str]:
        """The number of rows that were written, and the hash of the last."""
        with reading(self._engine) as connection:
            n, head = connection.execute(select(schema.audit_head)).one()
            return n, head

    # ------------------------------------------------------------------ inside

    def _begin(self) -> AbstractContextManager[Connection]:
        return writing(self._engine)

    def _key(self, connection: Connection, owner: str, session_id: str, deleted: bool = False) -> int:
        tombstone = schema.sessions.c.deleted_at
        this = select(schema.sessions.c.key).where(schema.sessions.c.id == session_id, schema.sessions.c.owner == owner)
        key = connection.execute(this.where(tombstone.is_not(None) if deleted else tombstone.is_(None))).scalar()
        if key is None:
            raise Refused(NO_SESSION)
        return int(key)

    def _change(self, owner: str, session_id: str, deleted: bool = False, **values: object) -> None:
        with writing(self._engine) as connection:
            key = self._key(connection, owner, session_id, deleted)
            connection.execute(schema.sessions.update().where(schema.sessions.c.key == key).values(values))

    def _says(self, name: str, term: str) -> ColumnElement[bool]:
        """`name` is a name for the parameter, unlike that of any other term."""
        if self._engine.dialect.name == "sqlite" and len(term) >= TRIGRAM:
            phrase = '"' + term.replace('"', '""') + '"'  # in quotes, no character has a meaning of its own
            index = text(f"SELECT rowid FROM said_index WHERE said_index MATCH :{name}").bindparams(**{name: phrase})
            return schema.said.c.key.in_(index.columns(schema.said.c.key))
        return schema.said.c.text.icontains(term, autoescape=True)


def _entry(seq: int, at: float, type_: str, data: str) -> Entry:
    try:
        return load_entry({"seq": seq, "at": at, "type": type_, **json.loads(data)})
    except (ValidationError, KeyError, ValueError) as error:
        raise StoreError(f"Entry {seq} ({type_}) of a log cannot be read ({type(error).__name__}).") from None


def _of(owner: str) -> ColumnElement[bool]:
    return (schema.sessions.c.owner == owner) & schema.sessions.c.deleted_at.is_(None)


def _summaries() -> Select[Any]:
    sessions = schema.sessions.c
    return select(
        sessions.id, sessions.title, sessions.pinned, sessions.ended, sessions.created_at, sessions.changed_at
    )


def _summary(row: Any) -> Summary:
    return Summary(row.id, row.title, row.pinned, row.ended, row.created_at, row.changed_at)


def _excerpt(said: str, term: str, around: int = 60) -> str:
    """One line of some characters on both sides of the first place."""
    place = max(said.lower().find(term.lower()), 0)
    start, end = max(place - around, 0), place + len(term) + around
    cut = " ".join(said[start:end].split())
    return ("…" if start else "") + cut + ("…" if end < len(said) else "")

"""What is remembered of an owner across sessions: an object for one owner, by which nobody else's rows can be reached.

Knows rows, and what may become one: no secret, nothing long, not without end. Refuses to know what is worth remembering
and when it is recalled (`agent/memory.py` does).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, func, select

from agent.errors import Refused
from agent.sensitive import what_secret
from agent.store import schema
from agent.store.engine import reading, writing
from agent.store.journal import storable

MAX_CHARS = 400
"""Of one memory: a few sentences. Longer things belong in a file."""

MAX_MEMORIES = 500
"""Of one owner. Ranking as many of the longest takes 45 ms the first time, and 5 ms from then on."""

NO_MEMORY = "there is no such memory"


@dataclass(frozen=True)
class Remembered:
    """One thing that is remembered."""

    id: str
    text: str
    always: bool
    """It belongs to every conversation, whatever that is about."""
    session_id: str
    """The conversation it comes from."""
    at: float
    """When it was written or last changed, in seconds since the epoch, as below."""
    used_at: float | None
    """When a turn was last reminded of it."""


class Memories:
    """One owner's. Used from any thread. Writing raises NotKept, and reading StoreError, where the database fails."""

    def __init__(self, engine: Engine, owner: str, scrub: Callable[[str], str]) -> None:
        """`scrub` takes the app's own secrets out of a text."""
        self._engine, self._owner, self._scrub = engine, owner, scrub

    @property
    def on(self) -> bool:
        """Does this owner want to be remembered? Until they say no."""
        owners = schema.owners.c
        with reading(self._engine) as connection:
            found = connection.execute(select(owners.remembers).where(owners.owner == self._owner)).scalar()
        return found is not False

    def switch(self, on: bool) -> None:
        """Off: nothing is added and nothing recalled. What there is stays."""
        with writing(self._engine) as connection:
            connection.execute(schema.owners.delete().where(schema.owners.c.owner == self._owner))
            connection.execute(schema.owners.insert().values(owner=self._owner, remembers=on))

    def all(self) -> list[Remembered]:
        """The latest first."""
        column = schema.memories.c
        query = select(schema.memories).where(self._mine()).order_by(column.at.desc(), column.id)
        with reading(self._engine) as connection:
            return [_remembered(row) for row in connection.execute(query)]

    def add(self, text: str, session_id: str, always: bool = False) -> Remembered:
        """Remember this; a text that is there already is only made the latest.

        Raises Refused for a secret, a text that is empty or too long, and where there is no room or no wish for it.
        """
        text = self._checked(text)
        if not self.on:
            raise Refused("the user has switched memory off")
        made = Remembered(secrets.token_hex(4), text, always, session_id, time.time(), None)
        with writing(self._engine) as connection:
            same = connection.execute(select(schema.memories).where(self._mine(schema.memories.c.text == text))).first()
            if same is not None:
                self._set(connection, same.id, always=always, at=made.at)
                return _remembered(same)
            count = connection.execute(select(func.count()).select_from(schema.memories).where(self._mine())).scalar()
            if (count or 0) >= MAX_MEMORIES:
                raise Refused(f"there are {MAX_MEMORIES} memories already; forget some first")
            connection.execute(schema.memories.insert().values(owner=self._owner, **vars(made)))
        return made

    def edit(self, id: str, text: str) -> None:
        """Raises Refused as `add` does, and for an unknown one."""
        text = self._checked(text)
        with writing(self._engine) as connection:
            self._set(connection, id, text=text, at=time.time())

    def delete(self, id: str) -> Remembered:
        """Put it out of sight, until `undelete` brings it back or the store is purged. Raises Refused."""
        with writing(self._engine) as connection:
            found = connection.execute(select(schema.memories).where(self._mine(schema.memories.c.id == id))).first()
            self._set(connection, id, deleted_at=time.time())
        assert found is not None
        return _remembered(found)

    def undelete(self, id: str) -> None:
        """Raises Refused where the owner has not deleted such a one."""
        with writing(self._engine) as connection:
            self._set(connection, id, deleted=True, deleted_at=None)

    def used(self, ids: Iterable[str]) -> None:
        """A turn was reminded of these."""
        with writing(self._engine) as connection:
            these = self._mine(schema.memories.c.id.in_(list(ids)))
            connection.execute(schema.memories.update().where(these).values(used_at=time.time()))

    # ------------------------------------------------------------------ inside

    def _mine(self, *wanted: ColumnElement[bool], deleted: bool = False) -> Any:
        column = schema.memories.c
        there = column.deleted_at.is_not(None) if deleted else column.deleted_at.is_(None)
        condition = (column.owner == self._owner) & there
        for one in wanted:
            condition &= one
        return condition

    def _set(self, connection: Connection, id: str, deleted: bool = False, **values: object) -> None:
        this = self._mine(schema.memories.c.id == id, deleted=deleted)
        if connection.execute(schema.memories.update().where(this).values(values)).rowcount != 1:
            raise Refused(NO_MEMORY)

    def _checked(self, text: str) -> str:
        text = storable(" ".join(text.split()))
        if not text:
            raise Refused("there is nothing to remember in an empty text")
        if len(text) > MAX_CHARS:
            raise Refused(f"a memory has {MAX_CHARS} characters at most; this one has {len(text)}")
        if what := "a secret of this app" if self._scrub(text) != text else what_secret(text):
            raise Refused(f"this looks like {what}, and secrets are not remembered. Nothing was kept")
        return text


def _remembered(row: Any) -> Remembered:
    return Remembered(row.id, row.text, row.always, row.session_id, row.at, row.used_at)

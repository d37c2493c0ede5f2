"""The sessions of this process, and those that are kept. Every access names the owner, and only the owner's are found.

A session is read from the store when somebody opens it, and leaves memory again when nobody looks at it and nothing
runs. Knows which sessions are alive. Refuses to know how they are kept and what happens in one.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from agent.errors import Refused
from agent.events import Nudged
from agent.exchange import export_lines, import_lines
from agent.log import Entry, EventLog
from agent.store import Found, Kept, Store, Summary
from agent.store.store import NO_SESSION
from agent.voices import IMPORTED

if TYPE_CHECKING:
    from agent.session import Session

logger = logging.getLogger(__name__)

Build = Callable[[str, str, EventLog], "Session"]
"""Makes a session of its owner, its id and its log: the app knows the agent and the folders."""

HOME_OWNER = "local"
"""The owner of what is said in an app that only its own machine can reach, on its page and in its terminals. No visitor
of a page that others reach can be called so: their ids are longer."""

FROM_A_FILE = (
    "All of this conversation up to here was imported from a file. Nobody here has said it, and the files it speaks of "
    "need not be there."
)

Tell = Callable[[str, Sequence[Entry], Callable[[str], str]], str]
"""Makes a text of a session's title and its entries; the function takes the secrets out of a text."""

IDLE_SECONDS = 900.0
"""How long a session stays in memory that nobody looks at."""


class Sessions:
    """Belongs to one event loop. Without a store, sessions live as long as the process and are added by hand."""

    def __init__(
        self, store: Store | None = None, build: Build | None = None, clear: Callable[[str], None] = lambda _: None
    ) -> None:
        """`clear` removes what was made on the disk for a session in which nothing was said: nobody opens it again."""
        self._store, self._build, self._clear = store, build, clear
        self._by_id: dict[str, Session] = {}
        self._used: dict[str, float] = {}

    def create(self, owner: str) -> Session:
        """A new session. It is kept from its first event on."""
        store, build = self._kept()
        session_id = secrets.token_urlsafe(16)
        store.hold(session_id)
        return self.add(build(owner, session_id, EventLog(sink=store.journal(owner, session_id))))

    def add(self, session: Session) -> Session:
        self.sweep()
        self._by_id[session.id] = session
        self._used[session.id] = time.monotonic()
        return session

    def get(self, owner: str, session_id: str) -> Session:
        """The live session, read from the store if it has to be: `open` does that without keeping others waiting.

        Raises Refused for an unknown session and for another's alike: the answer must not tell which. Raises it, too,
        for one that is alive in another process.
        """
        session = self._by_id.get(session_id)
        if session is None and self._store is not None:
            session = self._wake(self._load(self._store, owner, session_id))
        if session is None or not _same(session.owner, owner):
            raise Refused(NO_SESSION)
        self._used[session_id] = time.monotonic()
        return session

    async def open(self, owner: str, session_id: str) -> Session:
        """As `get`, but a log that has to be read is read in a thread."""
        if session_id not in self._by_id and self._store is not None:
            kept = await asyncio.to_thread(self._load, self._store, owner, session_id)
            if session_id not in self._by_id:
                self._wake(kept)
        return self.get(owner, session_id)

    def of(self, owner: str) -> list[Session]:
        """The owner's sessions that are in memory, the newest first."""
        return [s for s in reversed(self._by_id.values()) if _same(s.owner, owner)]

    def summaries(self, owner: str) -> list[Summary]:
        """All of the owner's sessions in which something was said: the pinned ones first, then by the latest change."""
        store, _ = self._kept()
        return store.summaries(owner)

    def search(self, owner: str, query: str, limit: int = 50) -> list[Found]:
        """Where the owner's sessions say all words of `query`; the latest first."""
        store, _ = self._kept()
        return store.search(owner, query, limit)

    def rename(self, owner: str, session_id: str, title: str) -> None:
        """Raises Refused for an empty title, and where the owner has no such session."""
        store, _ = self._kept()
        store.rename(owner, session_id, title)

    def pin(self, owner: str, session_id: str, pinned: bool = True) -> None:
        """Raises Refused where the owner has no such session."""
        store, _ = self._kept()
        store.pin(owner, session_id, pinned)

    async def delete(self, owner: str, session_id: str) -> None:
        """Stop it and put it out of sight; `undelete` brings it back until the store is purged. Raises Refused."""
        session = self.get(owner, session_id)
        await session.close()
        self._forget(session_id)
        if len(session.log) and self._store is not None:
            self._store.delete(owner, session_id)

    def undelete(self, owner: str, session_id: str) -> None:
        """Raises Refused where the owner has not deleted such a session, or it is purged."""
        store, _ = self._kept()
        store.undelete(owner, session_id)

    async def export(self, owner: str, session_id: str) -> str:
        """The whole session as one file, without secrets: see `agent/exchange.py`. Raises Refused."""
        return await self.told(owner, session_id, lambda *session: "".join(export_lines(*session)))

    async def told(self, owner: str, session_id: str, tell: Tell) -> str:
        """What `tell` makes of the whole session, in a thread. Raises Refused, also what `tell` raises."""
        session = await self.open(owner, session_id)
        store, _ = self._kept()
        title = store.summary(owner, session_id).title if len(session.log) else ""
        return await asyncio.to_thread(tell, title, session.log.since(0), store.scrub)

    async def import_(self, owner: str, content: bytes) -> Session:
        """A new session of this owner from such a file. Raises Refused with what is wrong with it."""
        store, _ = self._kept()
        session_id = secrets.token_urlsafe(16)

        def keep() -> None:
            imported = import_lines(content, time.time())
            note = Entry(len(imported.entries), time.time(), Nudged(IMPORTED, FROM_A_FILE))
            store.journal(owner, session_id).take_over([*imported.entries, note])
            if imported.title.strip():
                store.rename(owner, session_id, imported.title)

        await asyncio.to_thread(keep)
        return await self.open(owner, session_id)

    def sweep(self, idle: float = IDLE_SECONDS) -> int:
        """Let go of sessions that nobody asked for in `idle` seconds, where nobody follows and nothing runs."""
        before = time.monotonic() - idle
        resting = [s for s in self._by_id.values() if not s.busy and not s.log.followed]
        gone = [s.id for s in resting if self._used[s.id] <= before] if self._store is not None else []
        for session_id in gone:
            self._forget(session_id)
        return len(gone)

    async def stop_all(self, sessions: Iterable[Session] | None = None) -> None:
        """End every running turn and every process in the background, for a shutdown."""
        await asyncio.gather(*(session.close() for session in (sessions or list(self._by_id.values()))))

    def leave_unused(self) -> None:
        """Let go of those in which nothing was said: the app ends."""
        for session in [session for session in self._by_id.values() if not len(session.log)]:
            self._forget(session.id)

    # ------------------------------------------------------------------ inside

    def _kept(self) -> tuple[Store, Build]:
        if self._store is None or self._build is None:
            raise TypeError("these sessions have no store")
        return self._store, self._build

    def _load(self, store: Store, owner: str, session_id: str) -> Kept:
        """Read a session's log. It is held first: a log that another process writes would be old at once."""
        store.summary(owner, session_id)
        store.hold(session_id)
        return store.load(owner, session_id)

    def _wake(self, kept: Kept) -> Session:
        _, build = self._kept()
        session = self.add(build(kept.owner, kept.id, EventLog(kept.entries, kept.journal)))
        session.recover()
        return session

    def _forget(self, session_id: str) -> None:
        session = self._by_id.pop(session_id)
        del self._used[session_id]
        if not len(session.log):
            try:
                self._clear(session_id)
            except OSError as error:
                logger.warning("what was made for an unused session stays on the disk: %s", error)
        if self._store is not None:
            self._store.release(session_id)


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())

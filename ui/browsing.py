"""The workspace in the right panel: what is there, live, and what a person does with it.

What a turn made new or other than it was is marked until the next one starts. A file is looked at as a copy, so that
what is shown does not change under the eye. Who asks has been checked before (`ui/handlers.py`). Knows actions and what
a tab has opened. Refuses to know gradio, how anything looks (`ui/browser.py`), and how files are touched (`Desk`).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from agent.errors import Refused
from agent.events import File
from agent.session import Session
from ui import browser
from ui.history import Action
from ui.refused import why
from ui.replay import ReplaySession
from ui.visits import Offer, Visit, Visits


class Entry(Protocol):
    """One thing in a workspace."""

    @property
    def path(self) -> str: ...
    @property
    def kind(self) -> str:
        """file, folder, link, or other."""

    @property
    def size(self) -> int: ...
    @property
    def modified(self) -> float: ...


class Desk(Protocol):
    """What can be done with a workspace. All methods block; they raise Refused, worded for the person."""

    def listed(self, workspace: Path) -> tuple[Sequence[Entry], bool]:
        """What is there, in the order of a tree; True where there is more."""

    def looked_at(self, workspace: Path, outbox: Path, path: str) -> tuple[File, Mapping[str, Any] | None]:
        """A copy to look at, and the facts that `ui/previews.py` shows."""

    def let_go(self, outbox: Path, file: File) -> None:
        """The copy is not looked at any more."""

    def handle(self, workspace: Path, path: str) -> tuple[BinaryIO, int]:
        """The open file and its size in bytes. The caller closes it."""

    def renamed(self, workspace: Path, path: str, name: str) -> str:
        """The new path."""

    def added(self, workspace: Path, source: Path, folder: str, name: str) -> str:
        """A copy of a file from outside; its path."""

    def removed(self, workspace: Path, outbox: Path, path: str) -> str:
        """Put it aside; what `restored` takes."""

    def restored(self, workspace: Path, token: str) -> str:
        """Its path."""


@dataclass
class Look:
    """A file that is shown."""

    path: str
    id: str
    """What the page fetches it by."""
    file: File
    facts: Mapping[str, Any] | None


@dataclass
class Browsing:
    """What a tab has opened of one session's workspace, and what was there before the turn."""

    folders: set[str] = field(default_factory=set)
    """Opened ones."""
    look: Look | None = None
    renaming: str = ""
    turn: int = -1
    before: dict[str, tuple[int, float]] | None = None
    """Size and time by path, when the turn began; None: not looked at yet."""
    last: dict[str, tuple[int, float]] | None = None
    """The same, when the page was drawn last."""


class Browser:
    """The panel and its actions, by the name that a button gives."""

    def __init__(self, visits: Visits, desk: Desk | None) -> None:
        """`desk`: None where only what was handed over is shown."""
        self._visits = visits
        self.desk = desk
        self._of: dict[Visit, tuple[Session, Browsing]] = {}
        self.actions: dict[str, Action] = {
            "file_look": self._look,
            "file_close": self._close,
            "folder": self._folder,
            "file_rename": self._rename,
            "file_rename_save": self._save_name,
            "file_rename_cancel": self._cancel_name,
            "file_remove": self._remove,
            "file_restore": self._restore,
            "file_not_added": self._tell,
        }

    # ------------------------------------------------------------------ what is shown

    async def panel(self, visit: Visit) -> str:
        """The tree and the file that is looked at; empty where there is no desk or the session is a recording."""
        session, desk = visit.session, self.desk
        if desk is None or isinstance(session, ReplaySession):
            return ""
        browsing = self.browsing(visit)
        try:
            entries, more = await asyncio.to_thread(desk.listed, session.workspace)
        except Refused as refused:
            return browser.trouble(visit.words, why(visit.words, refused))
        there = {entry.path: (entry.size, entry.modified) for entry in entries if entry.kind == "file"}
        _move_on(browsing, session.turn.number, there)
        return browser.tree(visit.words, session.id, entries, more, browsing, _marks(browsing, there), session.running)

    def is_live(self, visit: Visit) -> bool:
        """May the workspace change any moment, and would the page show it?"""
        return self.desk is not None and visit.session.running and visit.tab == "files"

    async def changed(self, visit: Visit) -> bool:
        """Is there something else in the workspace than the page shows?"""
        desk, session = self.desk, visit.session
        if desk is None or not self.is_live(visit):
            return False
        try:
            entries, _ = await asyncio.to_thread(desk.listed, session.workspace)
        except Refused:
            return False
        there = {entry.path: (entry.size, entry.modified) for entry in entries if entry.kind == "file"}
        return there != self.browsing(visit).last

    def browsing(self, visit: Visit) -> Browsing:
        """What this tab has opened of the session it shows."""
        for one in [one for one in self._of if one.closed]:
            self._forget(one)
        session, browsing = self._of.get(visit, (None, None))
        if session is not visit.session or browsing is None:
            self._forget(visit)
            browsing = Browsing()
            self._of[visit] = (visit.session, browsing)
        return browsing

    def look(self, session: Session, look_id: str) -> File | None:
        """The copy that a page of this session shows under this id."""
        for other, browsing in self._of.values():
            if other is session and browsing.look is not None and browsing.look.id == look_id:
                return browsing.look.file
        return None

    def _forget(self, visit: Visit) -> None:
        session, browsing = self._of.pop(visit, (None, None))
        if session is not None and browsing is not None:
            self._let_go(session, browsing)

    def _let_go(self, session: Session, browsing: Browsing) -> None:
        if browsing.look is not None and self.desk is not None:
            self.desk.let_go(session.outbox, browsing.look.file)
        browsing.look = None

    # ------------------------------------------------------------------ actions

    async def _folder(self, visit: Visit, data: dict[str, Any]) -> None:
        self.browsing(visit).folders ^= {_path(data)}
        visit.panel_bell.set()

    async def _look(self, visit: Visit, data: dict[str, Any]) -> None:
        session, desk, path = self._visits.session(visit), self._desk(), _path(data)
        browsing = self.browsing(visit)
        again = browsing.look is not None and browsing.look.path == path
        self._let_go(session, browsing)
        if not again:
            file, facts = await asyncio.to_thread(desk.looked_at, session.workspace, session.outbox, path)
            self._let_go(session, browsing)  # of another click meanwhile
            browsing.look = Look(path, secrets.token_urlsafe(12), file, facts)
            if visit.closed or self._of.get(visit, (None, None))[1] is not browsing:
                self._let_go(session, browsing)
        visit.panel_bell.set()

    async def _close(self, visit: Visit, data: dict[str, Any]) -> None:
        self._let_go(visit.session, self.browsing(visit))
        visit.panel_bell.set()

    async def _rename(self, visit: Visit, data: dict[str, Any]) -> None:
        self.browsing(visit).renaming = _path(data)
        visit.panel_bell.set()

    async def _cancel_name(self, visit: Visit, data: dict[str, Any]) -> None:
        self.browsing(visit).renaming = ""
        visit.panel_bell.set()

    async def _save_name(self, visit: Visit, data: dict[str, Any]) -> None:
        session, desk = self._idle(visit), self._desk()
        browsing = self.browsing(visit)
        path, name = _path(data), str(data.get("text", ""))[:1_000].strip()
        if name and name != path.rpartition("/")[2]:
            new = await asyncio.to_thread(desk.renamed, session.workspace, path, name)
            if browsing.look is not None and browsing.look.path == path:
                browsing.look.path = new
        browsing.renaming = ""
        self._visits.ring(visit.owner)

    async def _remove(self, visit: Visit, data: dict[str, Any]) -> None:
        session, desk, path = self._idle(visit), self._desk(), _path(data)
        token = await asyncio.to_thread(desk.removed, session.workspace, session.outbox, path)
        browsing = self.browsing(visit)
        if browsing.look is not None and f"{browsing.look.path}/".startswith(f"{path}/"):
            self._let_go(session, browsing)
        name = path.rpartition("/")[2]
        visit.say(visit.words["file_removed"].format(name=name), Offer(visit.words["undo_do"], "file_restore", token))
        self._visits.ring(visit.owner)

    async def _restore(self, visit: Visit, data: dict[str, Any]) -> None:
        session, desk = self._idle(visit), self._desk()
        await asyncio.to_thread(desk.restored, session.workspace, str(data.get("id", "")))
        self._visits.ring(visit.owner)

    async def _tell(self, visit: Visit, data: dict[str, Any]) -> None:
        """A file that the person chose was not taken."""
        name, reason = str(data.get("name", ""))[:200], str(data.get("why", ""))[:500]
        visit.say(visit.words["file_not_added"].format(name=name, why=why(visit.words, reason)))

    def _desk(self) -> Desk:
        if self.desk is None:
            raise Refused("there is no such file")
        return self.desk

    def _idle(self, visit: Visit) -> Session:
        """The session, while no turn runs: a tool must not lose its files under its hands."""
        session = self._visits.session(visit)
        if session.running:
            raise Refused("a turn is running; stop it first")
        return session


def _path(data: dict[str, Any]) -> str:
    """Not called `path` there: gradio takes that for a file of its own and refuses."""
    return str(data.get("file", ""))[:2_000]


def _move_on(browsing: Browsing, turn: int, there: dict[str, tuple[int, float]]) -> None:
    """With a new turn, what was there last becomes what was there before it."""
    if browsing.turn != turn or browsing.before is None:
        first = browsing.before is None
        browsing.before = there if first or browsing.last is None else browsing.last
        browsing.turn = turn
    browsing.last = there


def _marks(browsing: Browsing, there: dict[str, tuple[int, float]]) -> dict[str, str]:
    """`added` or `modified` by path."""
    before = browsing.before or {}
    return {
        path: "added" if path not in before else "modified"
        for path, about in there.items()
        if before.get(path) != about
    }

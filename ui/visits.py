"""One visit: a browser tab that is open now, the session it shows, and what it has been shown of it.

A visit follows its session's log, folds it into a `View`, and rings a bell for each lane of the page that has
something to say: the running turn, the finished turns, the panels around them. Bells are rung at most ten times a
second. Knows sessions, views and owners. Refuses to know gradio.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from agent.errors import Refused, StoreError
from agent.events import CallDelta as _CallDelta
from agent.events import OutputDelta, PartialPicture, ReasoningDelta, TextDelta
from agent.log import Entry
from agent.session import Session
from agent.sessions import Sessions
from agent.store.store import NO_SESSION
from ui.begun import Begun, Connecting
from ui.conversations import Listed
from ui.decisions import Decisions
from ui.downloads import file_address
from ui.found import Place
from ui.message_box import MessageBox
from ui.refused import why
from ui.render import View
from ui.replay import ReplaySession
from ui.sent_requests import SentRequests
from ui.texts import TEXTS, Language, Words

PAUSE = 0.1
"""Seconds between two updates: ten a second look fluent, and a browser keeps up with them."""

_SLICE = 2_000
"""Entries folded at a stretch: a long log must not keep other visitors waiting."""

_STREAMED = (TextDelta, ReasoningDelta, _CallDelta, OutputDelta, PartialPicture)
"""Events that change nothing but the running turn."""


@dataclass(frozen=True)
class Offer:
    """A button beside a notice."""

    label: str
    do: str
    id: str


class Visit:
    """A tab. Lives in the server's event loop."""

    def __init__(self, owner: str, language: Language, session: Session) -> None:
        self.owner = owner
        self.language = language
        self.session = session
        self.notice = ""
        self.offer: Offer | None = None
        self.query = ""
        """What is searched for; empty: the list of conversations is shown."""
        self.place = ""
        """Where the page is to go to, once: `<which>.<turn>.<seq>`; see `ui/found.py`."""
        self.box = MessageBox()
        self.renaming = ""
        """The conversation whose title is being written anew."""
        self.tab = "files"
        self.process = ""
        """The process in the background whose output is shown."""
        self.connecting: Connecting | None = None
        """The model panel, while it is open."""
        self.request: int | None = None
        """Which request the context panel shows; None for the latest."""
        self.live_bell, self.history_bell, self.panel_bell = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.speaking = asyncio.Lock()
        """Held by the lane that is sending: what it sends about the two chats must arrive in order."""
        self.closed = False
        self._wanted: Place | None = None
        self._places = 0
        self._follower: asyncio.Task[None] | None = None
        self.show(session)

    @property
    def words(self) -> Words:
        return TEXTS[self.language]

    def show(self, session: Session, language: Language | None = None) -> None:
        """Turn the page to this session, or to this language."""
        self.session = session
        self.language = language or self.language
        self.request = None
        self.place, self._wanted, self.folded = "", None, False
        self.begun = Begun()
        is_live = not isinstance(session, ReplaySession)
        self.view = View(self.words, partial(file_address, session.id), acts=is_live)
        self.requests = SentRequests()
        self.decisions = Decisions()
        self._leave_model_panel()
        if self._follower is not None:
            self._follower.cancel()
        self._follower = asyncio.create_task(self._follow(session, self.view, self.requests, self.decisions))
        self.history_bell.set()
        self.panel_bell.set()

    def say(self, notice: str, offer: Offer | None = None) -> None:
        """Show a line above the message box; the next action takes it away."""
        self.notice, self.offer = notice, offer
        self.panel_bell.set()

    def go_to(self, place: Place) -> None:
        """Take the page to this place of its session, once the page has it."""
        self._wanted = place
        self.history_bell.set()

    def arrived(self) -> None:
        """The page has all of its session that was there when it turned to it."""
        if self._wanted is not None:
            self._places += 1
            self.place, self._wanted = f"{self._places}.{self._wanted.turn}.{self._wanted.seq}", None
            self.panel_bell.set()

    def close(self) -> None:
        """The tab is gone: every lane ends."""
        self.closed = True
        self._leave_model_panel()
        if self._follower is not None:
            self._follower.cancel()
        for bell in (self.live_bell, self.history_bell, self.panel_bell):
            bell.set()

    def _leave_model_panel(self) -> None:
        if self.connecting is not None:
            self.connecting.close()
            self.connecting = None

    async def _follow(self, session: Session, view: View, requests: SentRequests, decisions: Decisions) -> None:
        commits = view.commits
        async for batch in session.log.follow():
            for start in range(0, len(batch), _SLICE):
                for entry in batch[start : start + _SLICE]:
                    _fold(entry, view, requests, decisions)
                await asyncio.sleep(0)
            self.folded = True
            if view.commits != commits:
                commits = view.commits
                self.history_bell.set()
            else:
                self.live_bell.set()
            if not all(isinstance(entry.event, _STREAMED) for entry in batch):
                self.panel_bell.set()
            await asyncio.sleep(PAUSE)


def _fold(entry: Entry, view: View, requests: SentRequests, decisions: Decisions) -> None:
    view.add(entry)
    decisions.add(entry)
    requests.add(entry.event)


class Visits:
    """The open tabs, by the id that each page load makes up for itself. That id is the client's word, so every access
    also names the owner, who is known by a cookie that only we set."""

    def __init__(
        self,
        sessions: Sessions,
        open_session: Callable[[str], Session],
        reopen: Callable[[str, str], Awaitable[Session]],
    ) -> None:
        """`reopen`: a replay that has left memory, by its owner and its id; raises Refused where the id is none."""
        self._sessions, self._reopen = sessions, reopen
        self._open_session = open_session
        self._by_page: dict[str, Visit] = {}
        self._entering = asyncio.Lock()

    async def enter(self, page: str, owner: str, language: Language, session_id: str) -> Visit:
        """The page's visit, begun if this is its first request. Raises Refused for another's page or no owner."""
        if not owner or not page:
            raise Refused("the visitor is unknown")
        async with self._entering:  # a page asks for all of its lanes at once
            if page not in self._by_page:
                self._by_page[page] = await self._begin(owner, language, session_id)
                self.ring(owner)
        return self.of(page, owner)

    async def _begin(self, owner: str, language: Language, session_id: str) -> Visit:
        if not session_id:
            return Visit(owner, language, self.fresh(owner))
        try:
            return Visit(owner, language, await self._opened(owner, session_id))
        except (Refused, StoreError) as error:
            visit = Visit(owner, language, self.fresh(owner))
            words = visit.words
            known = str(error) == NO_SESSION
            visit.notice = words["no_such_session"] if known else words["refused"].format(why=why(words, error))
            return visit

    def of(self, page: str, owner: str) -> Visit:
        """Raises Refused for a page that is unknown or another's."""
        visit = self._by_page.get(page)
        if visit is None or not owner or visit.owner != owner:
            raise Refused("this page is not connected any more")
        return visit

    def session(self, visit: Visit) -> Session:
        """The visit's session, checked against its owner once more."""
        return self._sessions.get(visit.owner, visit.session.id)

    async def other(self, visit: Visit, session_id: str) -> Session:
        """Another session of the same owner. Raises Refused where there is none."""
        return await self._opened(visit.owner, session_id)

    async def _opened(self, owner: str, session_id: str) -> Session:
        try:
            return await self._sessions.open(owner, session_id)
        except Refused as refused:
            if str(refused) != NO_SESSION:
                raise
            return await self._reopen(owner, session_id)

    def fresh(self, owner: str) -> Session:
        """An empty session: one that nobody looks at, if there is any, else a new one."""
        watched = {visit.session.id for visit in self._by_page.values()}
        for session in self._sessions.of(owner):
            if not len(session.log) and session.id not in watched:
                return session
        return self._sessions.add(self._open_session(owner))

    async def listed(self, visit: Visit) -> list[Listed]:
        """The owner's conversations: the one on the page, if nothing was said in it yet, then all that are kept."""
        kept = await asyncio.to_thread(self._sessions.summaries, visit.owner)
        running = {session.id for session in self._sessions.of(visit.owner) if session.running}
        listed = [
            Listed(one.id, one.title, one.id in running, one.ended == "awaiting_approval", one.pinned) for one in kept
        ]
        if all(one.id != visit.session.id for one in listed):
            listed.insert(0, Listed(visit.session.id, visit.session.title, visit.session.running, kept=False))
        return listed

    async def title(self, visit: Visit, session_id: str) -> str:
        """The title of one of the owner's conversations, as the list shows it; empty where it has none."""
        return next((one.title for one in await self.listed(visit) if one.id == session_id), "")

    def deleted(self, visit: Visit, session_id: str) -> None:
        """Turn every page away from a conversation that this visit has deleted."""
        for other in self._by_page.values():
            if other.owner == visit.owner and other.session.id == session_id:
                other.show(self.fresh(visit.owner))
                if other is not visit:
                    other.say(other.words["deleted_elsewhere"])
        self.ring(visit.owner)

    def pages(self) -> set[str]:
        """The pages that are open now."""
        return set(self._by_page)

    def ring(self, owner: str) -> None:
        """Something changed that all of the owner's pages show."""
        for visit in self._by_page.values():
            if visit.owner == owner:
                visit.panel_bell.set()

    def leave(self, page: str) -> None:
        """The page was closed. Safe to call again."""
        visit = self._by_page.pop(page, None)
        if visit is not None:
            visit.close()

    def close_all(self) -> None:
        for page in list(self._by_page):
            self.leave(page)

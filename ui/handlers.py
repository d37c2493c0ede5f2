"""What the page's events do: the lanes that tell the page what happened, and the actions that a person takes.

A lane is a generator that lives as long as the page and sends only what changed. An action checks who asks, posts to
the session and returns at once. Knows gradio's calling conventions. Refuses to know how anything looks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import gradio as gr
from gradio.components.chatbot import Message

from agent.errors import Refused, StoreError
from agent.expectations import lines_in
from agent.llm.chosen import ChosenModels
from agent.session import RESUMABLE, Session
from agent.sessions import Sessions
from ui import panels, picturing, side
from ui.attaching import Attaching, Intake
from ui.background import Processes
from ui.browsing import Browser, Desk
from ui.budgets import Budgets
from ui.connecting import Connections, is_demo
from ui.deciding import Deciding
from ui.downloads import file_address
from ui.harden import LANGUAGE_COOKIE, owner_of
from ui.history import Action, History
from ui.keeping import Keeping
from ui.memories import MemoryList
from ui.panels import Status
from ui.pictures import gallery
from ui.proof import must_facts, plan_dock
from ui.refused import why
from ui.replay import ReplaySession
from ui.replaying import Replaying
from ui.rows import Shown
from ui.steering import Steering
from ui.texts import TEXTS, Language, Words, choose
from ui.visits import Visit, Visits

LOOK_S = 1.0
"""Seconds between two looks at what runs in the background."""


class Handlers:
    """The functions behind the page's events."""

    def __init__(
        self,
        sessions: Sessions,
        open_session: Callable[[str], Session],
        status: Status,
        language: str,
        models: ChosenModels | None = None,
        intake: Intake | None = None,
        desk: Desk | None = None,
    ) -> None:
        """`models`: what other models a person may connect; None: there is no such choice. `intake`: takes in what is
        attached; None: nothing can be."""
        self.models = models
        self.exposure = status.exposure
        self.at_home = status.exposure == "local"
        """One person sits at this machine: see `harden.owner_of`."""
        self.owner_of = partial(owner_of, at_home=self.at_home)
        """Who asks, from their cookies; empty for nobody."""
        self._replaying = Replaying(sessions)
        self.visits = Visits(sessions, open_session, self._replaying.reopen)
        self._history = History(self.visits)
        self._keeping = Keeping(self.visits, sessions)
        self._deciding = Deciding(self.visits)
        self._memories = MemoryList(self.visits)
        self._processes = Processes(self.visits)
        self._budgets = Budgets(self.visits)
        self.intake = intake
        self._attaching = Attaching(self.visits, intake)
        self.browser = Browser(self.visits, desk)
        self._steering = Steering(self.visits, self._attaching)
        self._connections = Connections(self.visits, models, status) if models is not None else None
        self._status = status
        self._language = language
        self._chat = gr.Chatbot(render=False)
        self._actions: dict[str, Action] = {
            **self._history.actions,
            **self._keeping.actions,
            **self._replaying.actions,
            **self._deciding.actions,
            **self._steering.actions,
            **self._memories.actions,
            **self._processes.actions,
            **self._budgets.actions,
            **self._attaching.actions,
            **self.browser.actions,
            **picturing.ACTIONS,
            **(self._connections.actions if self._connections else {}),
            "send": self._send,
            "new": self._new,
            "open": self._open,
            "go_on": self._go_on,
            "language": self._switch_language,
            "tab": self._switch_tab,
            "request": self._show_request,
        }

    # ------------------------------------------------------------------ lanes

    async def live_lane(self, request: gr.Request) -> AsyncIterator[list[Shown]]:
        """The running turn, and nothing else: this is what streams."""
        visit = await self._enter(request)
        try:
            while visit is not None and not visit.closed:
                await visit.live_bell.wait()
                visit.live_bell.clear()
                async with visit.speaking:
                    if not visit.closed and not visit.history_bell.is_set():  # else the other lane sends both
                        yield visit.view.live()
        finally:
            self.leave(request)

    async def history_lane(self, request: gr.Request) -> AsyncIterator[tuple[list[Message], list[Shown]]]:
        """Finished turns together with the running one: a turn moves from one chat to the other in one message."""
        visit = await self._enter(request)
        shown_of: list[Shown] | None = None
        shown: list[Message] = []
        while visit is not None and not visit.closed:
            await visit.history_bell.wait()
            async with visit.speaking:
                visit.history_bell.clear()
                if visit.closed:
                    return
                view, folded = visit.view, visit.folded
                history = view.history()
                if shown_of is not history:
                    shown_of, shown = history, []
                shown.extend(self._chat.postprocess(history[len(shown) :]).root)  # type: ignore[arg-type]
                yield list(shown), view.live()
            if folded and view is visit.view:
                visit.arrived()

    async def panel_lane(self, request: gr.Request) -> AsyncIterator[tuple[str, ...]]:
        """Everything around the conversation, when a step, a file or a decision changes it."""
        visit = await self._enter(request)
        if visit is None:
            words = self._words(request)
            yield "", "", "", panels.dock(words, words["no_cookie"]), "", "", "", ""
        while visit is not None and not visit.closed:
            await self._rung(visit)
            visit.panel_bell.clear()
            if not visit.closed:
                yield await self._panels(visit)

    async def _rung(self, visit: Visit) -> None:
        """Wait for the bell of the panels, or for a process in the background or a running command to do something: no
        event tells of it."""
        state = self._processes.state(visit)
        while not visit.panel_bell.is_set() and self._processes.state(visit) == state:
            looks = self._processes.running(visit) or self.browser.is_live(visit)
            try:
                await asyncio.wait_for(visit.panel_bell.wait(), LOOK_S if looks else None)
            except asyncio.TimeoutError:
                if await self.browser.changed(visit):
                    return

    async def _panels(self, visit: Visit) -> tuple[str, ...]:
        words, session = visit.words, visit.session
        if visit.tab == "context":
            content = self._budgets.panel(visit) + side.context(words, visit.requests, visit.request)
        elif visit.tab == "changes":
            content = await self._history.panel(visit)
        elif visit.tab == "approvals":
            content = self._deciding.panel(visit)
        elif visit.tab == "memory":
            content = await self._memories.panel(visit)
        else:
            there = [item for item in visit.view.files if item.file.path]  # not those of a recording
            handed = [(item, file_address(session.id, item.id, False)) for item in there]
            pictures = gallery(words, [(item, partial(file_address, session.id, item.id)) for item in there])
            content = side.files(words, handed, await self.browser.panel(visit), pictures)
        plan = session.turn.plan if session.turn.ended in (None, "awaiting_approval") else ()
        listed = await self.visits.listed(visit)
        title = next((one.title for one in listed if one.id == session.id), "")
        model, demo = session.agent.model.name, is_demo(self._status, session)
        may_choose = self._connections is not None and not isinstance(session, ReplaySession)
        named = panels.model_name(words, model, may_choose, close_sheet="")  # where the header has no room for it
        return (
            panels.header(words, visit.language, self._status, model, demo, may_choose),
            await self._keeping.panel(visit, listed, named),
            "" if session.turn.number else self._welcome(visit),
            self._replaying.dock(visit)
            + self._history.dock(visit)
            + self._deciding.dock(visit)
            + self._steering.dock(visit)
            + plan_dock(words, plan, folded=session.turn.ended is not None)
            + panels.dock(words, "" if visit.offer else visit.notice, _may_go_on(session))
            + self._budgets.dock(visit),
            side.right(words, visit.tab, content, self._processes.panel(visit)),
            self._connections.panel(visit) if self._connections else "",
            panels.state(
                words, visit.language, session.id, title, session.running, str(visit.begun.editing or ""), visit.place
            )
            + ("" if isinstance(session, ReplaySession) else self._attaching.facts(visit))
            + must_facts(words),
            visit.box.facts(),
        )

    def _welcome(self, visit: Visit) -> str:
        connect = self._connections.welcome(visit) if self._connections else ""
        return panels.welcome(visit.words, visit.language, connect) + self._replaying.welcome(visit.words)

    def leave(self, request: gr.Request) -> None:
        """The page was closed."""
        self.visits.leave(request.session_hash or "")

    # ------------------------------------------------------------------ actions

    async def search(self, query: str, request: gr.Request) -> None:
        """The person writes into the search box."""

        async def search(visit: Visit) -> None:
            self._keeping.search(visit, query)

        await self._guarded(request, search)

    async def stop(self, request: gr.Request) -> None:
        """Stop the turn; unsent messages come back into the message box."""

        async def stop(visit: Visit) -> None:
            session = self.visits.session(visit)
            queued = {one.text: one for one in session.turn.queue.values()}
            unsent: list[str] = []
            for said in await session.stop():
                unsent.extend(self._attaching.take_back(session, [queued[said]]) if said in queued else [said])
            visit.box.put("\n\n".join(unsent), [line for one in queued.values() for line in one.expects])
            visit.panel_bell.set()

        await self._guarded(request, stop)

    async def act(self, event: gr.EventData, request: gr.Request) -> None:
        """A button of the panels, or a message: what is asked for is in its data."""
        data = dict(event._data) if isinstance(event._data, dict) else {}
        action = self._actions.get(str(data.get("do")))

        async def act(visit: Visit) -> None:
            if action is not None:
                await action(visit, data)

        await self._guarded(request, act)

    async def _send(self, visit: Visit, data: dict[str, Any]) -> None:
        """A message, in place of the one that is being edited if there is one. The browser has emptied its box already:
        what is refused goes back."""
        text, must, number = str(data.get("text", "")), str(data.get("must", "")), data.get("number")
        from_box = isinstance(number, int)  # else it is an example that was clicked
        try:
            if from_box and visit.begun.editing is not None:
                self._history.send_edited(visit, visit.begun.editing, text.strip())
                visit.box.put("", must.splitlines())
            elif text.strip() or self._attaching.waits(visit):
                steer = data.get("steer") is True
                await self._attaching.send(visit, text.strip(), steer=steer, expects=lines_in(must))
        except (Refused, StoreError):
            visit.box.put(text if from_box else "", must.splitlines())
            raise
        finally:
            visit.box.heard = number if isinstance(number, int) else visit.box.heard
            self.visits.ring(visit.owner)

    async def _new(self, visit: Visit, data: dict[str, Any]) -> None:
        if len(visit.session.log):
            visit.show(self.visits.fresh(visit.owner))
        self.visits.ring(visit.owner)

    async def _open(self, visit: Visit, data: dict[str, Any]) -> None:
        session = await self.visits.other(visit, str(data.get("id", "")))
        if session is not visit.session:
            visit.show(session)

    async def _go_on(self, visit: Visit, data: dict[str, Any]) -> None:
        self.visits.session(visit).resume()

    async def _switch_language(self, visit: Visit, data: dict[str, Any]) -> None:
        language = choose(str(data.get("value")), "", "")
        visit.show(visit.session, language)

    async def _switch_tab(self, visit: Visit, data: dict[str, Any]) -> None:
        visit.tab = tab if (tab := str(data.get("value"))) in side.TABS else side.TABS[0]
        visit.panel_bell.set()

    async def _show_request(self, visit: Visit, data: dict[str, Any]) -> None:
        number = str(data.get("value", ""))
        visit.request = int(number) if re.fullmatch("[1-9][0-9]{0,8}", number) else None
        visit.tab = "context"
        visit.panel_bell.set()

    # ------------------------------------------------------------------ who asks

    async def _enter(self, request: gr.Request) -> Visit | None:
        """The visit of a page that has just loaded; None where no cookie says whose it is."""
        try:
            language = self._language_of(request)
            wanted = str(request.query_params.get("session", ""))
            return await self.visits.enter(request.session_hash or "", self._owner(request), language, wanted)
        except Refused:
            return None

    async def _guarded(self, request: gr.Request, action: Callable[[Visit], Awaitable[None]]) -> None:
        """Run an action for whoever asks; a refusal is a line on the page."""
        try:
            visit = self.visits.of(request.session_hash or "", self._owner(request))
        except Refused:
            return
        visit.say("")
        try:
            await action(visit)
        except (Refused, StoreError) as refused:
            visit.say(visit.words["refused"].format(why=why(visit.words, refused)))

    def _owner(self, request: gr.Request) -> str:
        return self.owner_of(_cookies(request))

    def _language_of(self, request: gr.Request) -> Language:
        accepted = str(request.headers.get("accept-language", ""))
        return choose(self._language, _cookies(request).get(LANGUAGE_COOKIE, ""), accepted)

    def _words(self, request: gr.Request) -> Words:
        return TEXTS[self._language_of(request)]


def _cookies(request: gr.Request) -> dict[str, str]:
    return dict(request.cookies)


def _may_go_on(session: Session) -> bool:
    asked = session.turn.ended in ("budget", "step_limit")  # what becomes of it: see `ui/budgets.py`
    resumable = session.turn.ended in RESUMABLE and not asked
    return not session.running and resumable and not isinstance(session, ReplaySession)

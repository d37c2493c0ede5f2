"""What the page's events do: the lanes that tell the page what happened, and the actions that a person takes.

A lane is a generator that lives as long as the page and sends only what changed. An action checks who asks, posts to
the session and returns at once. Knows gradio's calling conventions. Refuses to know how anything looks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import gradio as gr
from gradio.components.chatbot import Message

from agent.approval import questions
from agent.errors import Refused, StoreError
from agent.session import RESUMABLE, Session
from agent.sessions import Sessions
from ui import panels, side
from ui.downloads import file_address
from ui.harden import LANGUAGE_COOKIE, owner_of
from ui.history import Action, History
from ui.keeping import Keeping
from ui.panels import Status
from ui.replay import ReplaySession
from ui.replaying import Replaying
from ui.rows import Shown
from ui.texts import TEXTS, Language, Words, choose
from ui.visits import Visit, Visits
from ui.workspace_list import list_workspace


class Handlers:
    """The functions behind the page's events."""

    def __init__(
        self, sessions: Sessions, open_session: Callable[[str], Session], status: Status, language: str
    ) -> None:
        self.at_home = status.exposure == "local"
        """One person sits at this machine: see `harden.owner_of`."""
        self.owner_of = partial(owner_of, at_home=self.at_home)
        """Who asks, from their cookies; empty for nobody."""
        self.visits = Visits(sessions, open_session)
        self._history = History(self.visits)
        self._keeping = Keeping(self.visits, sessions)
        self._replaying = Replaying(sessions)
        self._status = status
        self._language = language
        self._chat = gr.Chatbot(render=False)
        self._actions: dict[str, Action] = {
            **self._history.actions,
            **self._keeping.actions,
            **self._replaying.actions,
            "send": self._send_example,
            "new": self._new,
            "open": self._open,
            "allow": self._decide,
            "deny": self._decide,
            "withdraw": self._withdraw,
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
                history = visit.view.history()
                if shown_of is not history:
                    shown_of, shown = history, []
                shown.extend(self._chat.postprocess(history[len(shown) :]).root)  # type: ignore[arg-type]
                yield list(shown), visit.view.live()

    async def panel_lane(self, request: gr.Request) -> AsyncIterator[tuple[str, ...]]:
        """Everything around the conversation, when a step, a file or a decision changes it."""
        visit = await self._enter(request)
        if visit is None:
            words = self._words(request)
            yield "", "", "", panels.dock(words, words["no_cookie"], {}, []), "", ""
        while visit is not None and not visit.closed:
            await visit.panel_bell.wait()
            visit.panel_bell.clear()
            if not visit.closed:
                yield await self._panels(visit)

    async def _panels(self, visit: Visit) -> tuple[str, ...]:
        words, session = visit.words, visit.session
        if visit.tab == "context":
            content = side.context(words, visit.requests, visit.request)
        elif visit.tab == "changes":
            content = await self._history.panel(visit)
        else:
            found, more = await asyncio.to_thread(list_workspace, session.workspace)
            there = [item for item in visit.view.files if item.file.path]  # not those of a recording
            handed = [(item, file_address(session.id, item.id, False)) for item in there]
            content = side.files(words, handed, found, more)
        listed = await self.visits.listed(visit)
        title = next((one.title for one in listed if one.id == session.id), "")
        return (
            panels.header(words, visit.language, self._status),
            await self._keeping.panel(visit, listed, self._status.model_name),
            "" if session.turn.number else panels.welcome(words, visit.language) + self._replaying.welcome(words),
            self._replaying.dock(visit)
            + self._history.dock(visit)
            + panels.dock(
                words, "" if visit.offer else visit.notice, session.turn.queue, questions(session), _may_go_on(session)
            ),
            side.right(words, visit.tab, content),
            panels.state(words, visit.language, session.id, title, session.running, str(visit.begun.editing or "")),
        )

    def leave(self, request: gr.Request) -> None:
        """The page was closed."""
        self.visits.leave(request.session_hash or "")

    # ------------------------------------------------------------------ actions

    async def send(self, text: str, request: gr.Request) -> Any:
        """Post the message. The browser has emptied the message box; it gets back what was refused."""

        drafts: list[str] = []

        async def send(visit: Visit) -> None:
            if visit.begun.editing is None:
                await self._send(visit, text)
            else:
                drafts.append(self._history.send_edited(visit, visit.begun.editing, text.strip()))

        done = await self._guarded(request, send)
        return text if not done else drafts[0] if drafts else gr.skip()

    async def search(self, query: str, request: gr.Request) -> None:
        """The person writes into the search box."""

        async def search(visit: Visit) -> None:
            self._keeping.search(visit, query)

        await self._guarded(request, search)

    async def stop(self, text: str, request: gr.Request) -> Any:
        """Stop the turn; unsent messages come back into the message box, before what is in it."""
        unsent: list[str] = []

        async def stop(visit: Visit) -> None:
            unsent.extend(await self.visits.session(visit).stop())

        await self._guarded(request, stop)
        return _before(unsent, text) if unsent else gr.skip()

    async def act(self, text: str, event: gr.EventData, request: gr.Request) -> Any:
        """A button of the panels: what it asks for is in its data."""
        data = {**event._data, "box": text} if isinstance(event._data, dict) else {}
        action = self._actions.get(str(data.get("do")))
        returned: list[str] = []

        async def act(visit: Visit) -> None:
            if action is not None and (held := await action(visit, data)) is not None:
                returned.append(held)

        await self._guarded(request, act)
        return returned[0] if returned else gr.skip()

    async def _send(self, visit: Visit, text: str) -> None:
        if text.strip():
            self.visits.session(visit).send(text.strip())
            self.visits.ring(visit.owner)

    async def _send_example(self, visit: Visit, data: dict[str, Any]) -> None:
        await self._send(visit, str(data.get("text", ""))[:2_000])

    async def _new(self, visit: Visit, data: dict[str, Any]) -> None:
        if len(visit.session.log):
            visit.show(self.visits.fresh(visit.owner))
        self.visits.ring(visit.owner)

    async def _open(self, visit: Visit, data: dict[str, Any]) -> None:
        session = await self.visits.other(visit, str(data.get("id", "")))
        if session is not visit.session:
            visit.show(session)

    async def _decide(self, visit: Visit, data: dict[str, Any]) -> None:
        allowed = data.get("do") == "allow"
        reason = "" if allowed else str(data.get("text", ""))[:500]
        self.visits.session(visit).decide(str(data.get("id", "")), str(data.get("hash", "")), allowed, reason)

    async def _go_on(self, visit: Visit, data: dict[str, Any]) -> None:
        self.visits.session(visit).resume()

    async def _withdraw(self, visit: Visit, data: dict[str, Any]) -> str:
        session, message_id = self.visits.session(visit), str(data.get("id", ""))
        text = session.turn.queue.get(message_id, "")
        session.withdraw(message_id)
        return _before([text], data["box"])

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

    async def _guarded(self, request: gr.Request, action: Callable[[Visit], Awaitable[None]]) -> bool:
        """Run an action for whoever asks; a refusal is a line on the page. True where the action was done."""
        try:
            visit = self.visits.of(request.session_hash or "", self._owner(request))
        except Refused:
            return False
        visit.say("")
        try:
            await action(visit)
        except (Refused, StoreError) as refused:
            visit.say(visit.words["refused"].format(why=str(refused).rstrip(".")))
            return False
        return True

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
    return not session.running and session.turn.ended in RESUMABLE and not isinstance(session, ReplaySession)


def _before(texts: Sequence[str], text: str) -> str:
    """What the message box gets: texts that came back, then what is in it."""
    return "\n\n".join([*texts, text] if text.strip() else texts)

"""What a person does with whole conversations: find, pin, rename, delete and bring back.

Who asks has been checked before (`ui/handlers.py`); the sessions check the owner once more. Refuses to know gradio and
how anything looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agent.sessions import Sessions
from ui import conversations
from ui.conversations import Listed
from ui.found import place_of
from ui.history import Action
from ui.refused import why
from ui.visits import Offer, Visit, Visits

MAX_QUERY = 200
"""Characters of a search."""


class Keeping:
    """The actions, by the name that a button gives."""

    def __init__(self, visits: Visits, sessions: Sessions) -> None:
        self._visits, self._sessions = visits, sessions
        self.actions: dict[str, Action] = {
            "pin": self._pin,
            "rename": self._begin_renaming,
            "rename_save": self._rename,
            "rename_cancel": self._end_renaming,
            "delete": self._delete,
            "undelete": self._undelete,
            "imported": self._imported,
            "found": self._open_found,
        }

    async def panel(self, visit: Visit, listed: Sequence[Listed], model: str) -> str:
        """The left panel."""
        if visit.query:
            places = await asyncio.to_thread(self._sessions.search, visit.owner, visit.query)
            content = conversations.found(visit.words, visit.query, places)
        else:
            content = conversations.session_list(visit.words, listed, visit.session.id, visit.renaming)
        return conversations.left(visit.words, model, content)

    def search(self, visit: Visit, query: str) -> None:
        visit.query = query.strip()[:MAX_QUERY]
        visit.panel_bell.set()

    async def _open_found(self, visit: Visit, data: dict[str, Any]) -> None:
        """Turn to the conversation, and to the place in it."""
        session = await self._visits.other(visit, str(data.get("id", "")))
        seq = str(data.get("value", ""))
        if session is not visit.session:
            visit.show(session)
        if seq.isascii() and seq.isdigit() and len(seq) < 10:
            place = place_of(session, int(seq))
            visit.go_to(place)
            if place.elsewhere:
                visit.say(visit.words["found_elsewhere"])

    async def _pin(self, visit: Visit, data: dict[str, Any]) -> None:
        self._sessions.pin(visit.owner, str(data.get("id", "")), bool(data.get("value")))
        self._visits.ring(visit.owner)

    async def _begin_renaming(self, visit: Visit, data: dict[str, Any]) -> None:
        visit.renaming = str(data.get("id", ""))
        visit.panel_bell.set()

    async def _end_renaming(self, visit: Visit, data: dict[str, Any]) -> None:
        visit.renaming = ""
        visit.panel_bell.set()

    async def _rename(self, visit: Visit, data: dict[str, Any]) -> None:
        visit.renaming = ""
        visit.panel_bell.set()
        self._sessions.rename(visit.owner, str(data.get("id", "")), str(data.get("text", "")))
        self._visits.ring(visit.owner)

    async def _delete(self, visit: Visit, data: dict[str, Any]) -> None:
        session_id = str(data.get("id", ""))
        title = await self._visits.title(visit, session_id)
        await self._sessions.open(visit.owner, session_id)
        await self._sessions.delete(visit.owner, session_id)
        self._visits.deleted(visit, session_id)
        said = visit.words["deleted"].format(title=title)
        visit.say(said, Offer(visit.words["undo"], "undelete", session_id))

    async def _undelete(self, visit: Visit, data: dict[str, Any]) -> None:
        session_id = str(data.get("id", ""))
        self._sessions.undelete(visit.owner, session_id)
        visit.show(await self._sessions.open(visit.owner, session_id))
        self._visits.ring(visit.owner)

    async def _imported(self, visit: Visit, data: dict[str, Any]) -> None:
        """The browser has sent a file through its own door (`ui/exchange_door.py`), and this is what came of it."""
        if said := str(data.get("why", ""))[:300]:
            visit.say(visit.words["import_failed"].format(why=why(visit.words, said)))
            return
        visit.show(await self._visits.other(visit, str(data.get("id", ""))))
        self._visits.ring(visit.owner)

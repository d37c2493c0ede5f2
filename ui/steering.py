"""Messages sent while a turn runs: what waits above the message box, and what enters the turn before its next step.

Knows the cards and their buttons. Who asks has been checked before (`ui/handlers.py`). Refuses to know gradio, and when
a message enters (`Session` does).
"""

from __future__ import annotations

from html import escape
from typing import Any

from agent.events import MessageQueued
from ui.attaching import Attaching, queued_line
from ui.history import Action
from ui.markup import button
from ui.texts import Words
from ui.visits import Visit, Visits


class Steering:
    """The actions, by the name that a button or a key gives."""

    def __init__(self, visits: Visits, attaching: Attaching) -> None:
        self._visits, self._attaching = visits, attaching
        self.actions: dict[str, Action] = {"steer": self._steer, "withdraw": self._withdraw}

    async def _steer(self, visit: Visit, data: dict[str, Any]) -> None:
        """A message that waits is to enter the turn."""
        self._visits.session(visit).steer(str(data.get("id", "")))
        self._visits.ring(visit.owner)

    async def _withdraw(self, visit: Visit, data: dict[str, Any]) -> None:
        """A message that waits comes back into the message box."""
        session, message_id = self._visits.session(visit), str(data.get("id", ""))
        queued = session.turn.queue.get(message_id)
        session.withdraw(message_id)
        if queued is not None:
            visit.box.put("\n\n".join(self._attaching.take_back(session, [queued])), queued.expects)
        self._visits.ring(visit.owner)

    def dock(self, visit: Visit) -> str:
        """The messages that wait, and which key does what."""
        session, words = visit.session, visit.words
        may_steer = session.turn.ended is None
        cards = "".join(_card(words, queued, may_steer) for queued in session.turn.queue.values())
        hint = f'<p class="gl-small gl-keys">{escape(words["steer_keys"])}</p>' if session.running else ""
        return cards + hint


def _card(words: Words, queued: MessageQueued, may_steer: bool) -> str:
    enters = queued.steer and may_steer
    steer = "" if queued.steer or not may_steer else _steer_button(words, queued.id)
    return (
        f'<div class="gl-queued{" gl-steering" if enters else ""}">'
        f'<span class="gl-tag">{escape(words["steering" if enters else "queued"])}</span>'
        f'<span class="gl-queued-text">{escape(queued_line(queued))}</span>'
        f"{steer}{button(words['withdraw'], kind='gl-flat gl-word', do='withdraw', id=queued.id)}</div>"
    )


def _steer_button(words: Words, id: str) -> str:
    return (
        f'<button class="gl-secondary" data-do="steer" data-id="{escape(id)}" title="{escape(words["steer_more"])}">'
        f"{escape(words['steer'])}</button>"
    )

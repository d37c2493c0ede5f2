"""Whose words stand in a session: the person's and the app's own, or the world's as well.

What came from outside (a file, a command, a page, a picture, an imported conversation) may hold sentences that somebody
wrote for the model to obey. Once one of them has been heard, no later wish of the model is certainly the person's, and
policy asks the person about everything that would last beyond the session in their name.

Counted for the whole session, other branches and shortened contexts too: what the model has once read can come back in
its own words. Knows what was heard. Refuses to know any tool by name, and what is asked because of it.
"""

from __future__ import annotations

from agent.events import CallFinished, CallStarted, Event, Nudged, Steered, TurnStarted
from agent.messages import UserMessage
from agent.proof import QUOTING
from agent.tool import Toolbox

IMPORTED = "imported"
"""The code of the note that a conversation came from a file."""


class Voices:
    """A fold of the log."""

    def __init__(self) -> None:
        self._running: set[str] = set()
        self._heard: set[str] = set()  # names of tools whose results were read
        self._outside = False

    def add(self, event: Event) -> None:
        if isinstance(event, CallStarted):
            self._running.add(event.call_id)
        elif isinstance(event, CallFinished):
            if event.call_id in self._running:  # of a call that never ran, only the app has spoken
                self._heard.add(event.name)
        elif isinstance(event, Nudged):
            self._outside = self._outside or event.code in (IMPORTED, *QUOTING)
        elif isinstance(event, (TurnStarted, Steered)):
            self._outside = self._outside or _brings(event.message)

    def from_outside(self, toolbox: Toolbox) -> bool:
        """Has the model read anything here that neither the person nor the app wrote? An unknown tool counts."""
        tools = (toolbox.get(name) for name in self._heard)
        return self._outside or any(tool is None or tool.speaks != "app" for tool in tools)


def _brings(message: UserMessage) -> bool:
    """A document or a picture was handed over: the person gave it, and did not write it."""
    return bool(message.images or message.files)

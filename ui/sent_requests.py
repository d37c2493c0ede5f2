"""The requests of a session, exactly as they were sent, rebuilt from the log.

The log holds of each request only what the one before did not hold already. Knows how to put a whole one together.
Refuses to know how it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.events import Delegated, Event, RequestSent


class SentRequests:
    """All requests so far, numbered from 1, those of sub-agents among them: each adds to its own sender's last."""

    def __init__(self) -> None:
        self._sent: list[RequestSent] = []
        self._of: list[str] = []  # the call that runs the sender, where it is a sub-agent

    def __len__(self) -> int:
        return len(self._sent)

    def add(self, event: Event) -> None:
        """Fold the session's next event."""
        call_id, inner = (event.call_id, event.event) if isinstance(event, Delegated) else ("", event)
        if isinstance(inner, RequestSent):
            self._sent.append(inner)
            self._of.append(call_id)

    def call_of(self, number: int) -> str:
        """The call whose sub-agent sent this request; empty for the agent itself. Raises IndexError as above."""
        self[number]
        return self._of[number - 1]

    def __getitem__(self, number: int) -> RequestSent:
        """Raises IndexError for a number that was not sent."""
        if not 1 <= number <= len(self._sent):
            raise IndexError(number)
        return self._sent[number - 1]

    def messages(self, number: int) -> list[Mapping[str, Any]]:
        """All messages of request `number`, in order. Raises IndexError for one that was not sent."""
        wanted = self[number].kept
        later = list(self[number].messages)
        for at in range(number - 2, -1, -1):  # each of the same sender holds the end of what is still missing
            earlier = self._sent[at]
            if self._of[at] == self._of[number - 1] and wanted > earlier.kept:
                later[:0] = earlier.messages[: wanted - earlier.kept]
                wanted = earlier.kept
        return later

"""The requests of a session, exactly as they were sent, rebuilt from the log.

The log holds of each request only what the one before did not hold already. Knows how to put a whole one together.
Refuses to know how it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.events import RequestSent


class SentRequests:
    """All requests so far, numbered from 1."""

    def __init__(self) -> None:
        self._sent: list[RequestSent] = []

    def __len__(self) -> int:
        return len(self._sent)

    def add(self, event: RequestSent) -> None:
        self._sent.append(event)

    def __getitem__(self, number: int) -> RequestSent:
        """Raises IndexError for a number that was not sent."""
        if not 1 <= number <= len(self._sent):
            raise IndexError(number)
        return self._sent[number - 1]

    def messages(self, number: int) -> list[Mapping[str, Any]]:
        """All messages of request `number`, in order. Raises IndexError for one that was not sent."""
        wanted = self[number].kept
        later = list(self[number].messages)
        for earlier in reversed(self._sent[: number - 1]):  # each holds the end of what is still missing
            if wanted > earlier.kept:
                later[:0] = earlier.messages[: wanted - earlier.kept]
                wanted = earlier.kept
        return later
